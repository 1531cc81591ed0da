"""What there is to answer, what is answered, what comes next; and the page that says so."""

import json
import re
from pathlib import Path

import pytest

from cudalab.checks import check, exercises
from cudalab.course import progress, start_page
from cudalab.course.outline import comes_next, outline
from cudalab.course.progress import Progress
from cudalab.course.working_copy import WorkingCopy
from cudalab.dev.notebook_format import read

ROOT = Path(__file__).parents[2]
CHAPTER = "notebooks/04_device_memory.ipynb"


@pytest.fixture
def copy(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    made = WorkingCopy(tmp_path / "work")
    made.update(ROOT)
    return made


@pytest.fixture
def note(copy, monkeypatch):
    """Writes down an answer as the kernel of a notebook does."""

    def write(notebook, *answer, **options):
        monkeypatch.setenv("JPY_SESSION_NAME", str(copy.folder / notebook))
        progress.note(*answer, **options)

    return write


def chapter(copy, number):
    return next(chapter for chapter in outline(copy) if chapter.number == number)


def finish(copy, note, part):
    """Answer everything in one notebook."""
    from cudalab.course.outline import _items

    for kind, name, item in _items(part.name, copy.edition(part.name)):
        note(name, kind, item, "some answer")


def test_minutes_of_the_map_are_those_that_the_chapters_state_and_the_paths_their_sums(copy):
    paths = {path.name[:2]: path for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
    texts = {number: "".join(cell.source for cell in read(path).cells) for number, path in paths.items()}
    minutes = {chapter.number: chapter.minutes for chapter in outline(copy)}
    assert len(minutes) == 22
    for number, text in texts.items():
        stated = re.search(r"About (\d+) minutes", text)
        assert stated and int(stated[1]) == minutes[number], number
    found = re.findall(r"\((\d+) minutes\): ([\d, ]+)\.(.*)", texts["00"])
    assert len(found) == 3
    for total, chapters, rest in found:
        whole = sum(minutes[number] for number in chapters.split(", "))
        assert int(total) == whole
        for without, left in re.findall(r"Today without ([\d and]+), in (\d+) minutes", rest):
            assert int(left) == whole - sum(minutes[number] for number in re.findall(r"\d\d", without))


def test_map_of_the_first_notebook_lists_every_notebook_and_every_exercise_counts(copy):
    chapters = outline(copy)
    assert [part.name for chapter in chapters for part in chapter.parts if part.name.startswith("notebooks")] == [
        name for name in copy.names() if name.startswith("notebooks")
    ]
    assert all(chapter.title and chapter.minutes for chapter in chapters)
    assert len(chapters) == 22 and chapter(copy, "04").title == "Device memory" and chapter(copy, "04").core
    counted = sum(chapter.exercises.total for chapter in chapters if chapter.exercises)
    assert counted == len(exercises())
    assert all(chapter.chapter.total >= 2 for chapter in chapters if chapter.chapter)


def test_answers_count_once_and_only_in_their_notebook(copy, note):
    total = chapter(copy, "04").chapter.total
    note(CHAPTER, "question", "04.1", "A")
    note(CHAPTER, "question", "04.1", "B")
    note(CHAPTER, "question", "99.9", "A")
    note(CHAPTER, "check", "04.1", 0, done=False)
    part = chapter(copy, "04").chapter
    assert (part.answered, part.total) == (1, total)
    assert chapter(copy, "04").exercises.answered == 0
    copy.start_over(CHAPTER)
    assert chapter(copy, "04").chapter.answered == 0


def test_a_now_you_counts_in_its_chapter_once_it_is_done(copy, note):
    before = chapter(copy, "14").chapter
    note(before.name, "check", "14.wait-for", 0, done=False)
    assert chapter(copy, "14").chapter.answered == 0
    note(before.name, "check", "14.wait-for", 0, done=True)
    assert (chapter(copy, "14").chapter.answered, chapter(copy, "14").chapter.total) == (1, before.total)


def test_what_comes_next_follows_what_was_worked_on_last(copy, note):
    assert comes_next(outline(copy)).name == "notebooks/00_start_here.ipynb"
    note(CHAPTER, "question", "04.1", "A")
    assert comes_next(outline(copy)).name == CHAPTER
    finish(copy, note, chapter(copy, "04").chapter)
    assert comes_next(outline(copy)).name == "exercises/04_device_memory.ipynb"
    for part in [part for chapter in outline(copy) for part in chapter.parts]:
        finish(copy, note, part)
    assert comes_next(outline(copy)) is None
    assert "Well done" in start_page.render(copy)


def test_page_offers_the_next_notebook_the_state_and_the_way_back(copy, note):
    page = start_page.render(copy)
    assert 'data-open="notebooks/00_start_here.ipynb" href="#">Begin with: 00 Start here' in page
    note(CHAPTER, "question", "04.1", "A")
    page = start_page.render(copy)
    part = chapter(copy, "04").chapter
    assert f"Go on with: 04 Device memory</a><span>1 of {part.total} answered · 45 minutes" in page
    assert f'data-changes="{CHAPTER}"' in page and f'data-start-over="{CHAPTER}"' in page
    assert "Planned: 02 Compilation" in page


def test_every_attempt_is_kept_with_what_repeats_it(copy, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(copy.folder / "exercises/01_programming_model.ipynb"))
    results = [check("01.1", text, seed=7) for text in ("first", "second")]
    copy.start_over("exercises/01_programming_model.ipynb")
    kept = [entry for entry in Progress(copy.folder).entries() if entry["kind"] == "check"]
    assert [(entry["text"], entry["seed"], entry["answer"]) for entry in kept] == [("first", 7, 0), ("second", 7, 0)]
    assert {entry["of"] for entry in kept} == {results[0].maximum}
    assert json.loads(Progress(copy.folder).export("json"))[1]["text"] == "second"


def test_a_line_cut_short_costs_itself_alone(copy, note):
    note(CHAPTER, "question", "04.1", "A")
    file = copy.folder / ".cudalab/progress.jsonl"
    file.write_bytes(file.read_bytes() + b'{"kind": "quest')
    note(CHAPTER, "question", "04.2", "B")
    assert [entry["name"] for entry in Progress(copy.folder).entries()] == ["04.1", "04.2"]


def test_progress_that_cannot_be_written_is_no_error(tmp_path):
    Progress(tmp_path / "nowhere").append({"kind": "check"})
    assert Progress(tmp_path / "nowhere").latest() == {}
