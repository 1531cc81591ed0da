"""The form of a chapter: each rule broken once in a chapter that keeps all of them."""

from pathlib import Path

import nbformat
import pytest

from cudalab.dev import chapter_form
from cudalab.dev.notebook_format import course_notebooks, read

ROOT = Path(__file__).parents[2]
CHAPTER = "12_stream_priorities.ipynb"


@pytest.fixture
def course(tmp_path):
    """The course's notebooks, of which one may be changed."""
    (tmp_path / "exercises").symlink_to(ROOT / "exercises")
    (tmp_path / "notebooks").mkdir()
    for path in course_notebooks(ROOT):
        (tmp_path / "notebooks" / path.name).symlink_to(path)
    return tmp_path / "notebooks"


@pytest.fixture
def rules_of(course):
    def find(change=None, name=CHAPTER):
        path = course / name
        notebook = read(path)
        if change is not None:
            change({cell.id: cell for cell in notebook.cells})
            path.unlink()
            nbformat.write(notebook, path)
        return list(chapter_form.broken(path, notebook))

    return find


def replace(cell, old, new):
    def change(cells):
        assert old in cells[cell].source
        cells[cell].source = cells[cell].source.replace(old, new)

    return change


def add(cell, text):
    def change(cells):
        cells[cell].source += text

    return change


def without_summary(cells):
    output = next(
        out for cell in cells.values() for out in cell.get("outputs", ()) if "text/html" in out.get("data", {})
    )
    output.data["text/plain"] = "<Figure>"


def without_predictions(cells):
    for cell in cells.values():
        cell.source = cell.source.replace("cudalab.predict(", "print(")


def one_question(cells):
    cells["quiz"].source = 'cudalab.quiz("12.1")'


BROKEN = {
    "a second title": (add("s2", "\n\n# Again"), "a second title, 'Again'"),
    "a gap in the headings": (add("s2", "\n\n#### Deep"), "of level 4 below one of level 2"),
    "a dead link": (add("s2", " [there](99_nowhere.ipynb)"), "links to 99_nowhere.ipynb, which is not there"),
    "a dead anchor": (add("s2", " [there](#Nowhere)"), "links to #Nowhere, but no heading"),
    "a dead anchor elsewhere": (
        add("s2", " [there](00_start_here.ipynb#The-mop)"),
        "links to 00_start_here.ipynb#The-mop, but no heading there",
    ),
    "an anchor elsewhere": (add("s2", " [there](00_start_here.ipynb#The-chapters)"), None),
    "no link in code": (add("s2", " `d[i](x)`"), None),
    "a long cell": (add("setup", "\n" * 25), "a cell has at most 25"),
    "a figure without a summary": (without_summary, "its figure has no summary in words"),
    "no list of what to do": (replace("title", "**What you'll do**", "**Do**"), "the first cell lacks"),
    "no minutes": (replace("title", "About 40 minutes", "Some time"), "the first cell lacks"),
    "too few minutes": (replace("title", "About 40 minutes", "About 30 minutes"), "by its words and cells it takes 3"),
    "too many minutes": (replace("title", "About 40 minutes", "About 60 minutes"), "by its words and cells it takes 3"),
    "too few for the tasks": (replace("title", "twenty", "a quarter of an hour"), "for its 5 tasks, of 4 minutes each"),
    "no sections of the guide": (replace("title", "**Covers**", "About"), "which sections of the guide"),
    "no banner": (replace("setup", "cudalab.device()", "pass"), "does not end with the banner"),
    "no prediction": (without_predictions, "there is no prediction"),
    "too few questions": (one_question, "it asks 1 questions"),
    "a section is missing": (replace("key-points", "### 要点", "### Points"), "the section '### 要点' is missing"),
    "another order": (
        replace("key-points", "## Where to go next", "## Where to go next\n\n## More"),
        "in another order",
    ),
    "no link to the guide": (replace("key-points", "**In the guide:**", "See"), "lacks '**In the guide:**'"),
    "a word of a chapter before": (add("s1", " Fences order memory."), None),
    "a word that nobody explains": (
        add("s1", " Mind the bank conflicts."),
        "uses 'bank conflict' and explains it nowhere",
    ),
    "a word that points elsewhere": (add("s1", " Mind bank conflicts (chapter 06)."), None),
}


@pytest.mark.parametrize("change, rule", BROKEN.values(), ids=list(BROKEN))
def test_each_rule_is_found_where_it_is_broken(rules_of, change, rule):
    found = rules_of(change)
    if rule is None:
        assert found == []
    else:
        assert len(found) == 1 and rule in found[0][1]


def test_a_word_before_its_cell_is_found(rules_of):
    found = rules_of(add("s1-explain", " Coalesced accesses pay."), "04_device_memory.ipynb")
    assert [cell for cell, _ in found] == ["s1-explain"] and "before it is explained in 's4-explain'" in found[0][1]


def test_a_chapter_builds_on_what_its_first_cell_links(course):
    assert chapter_form.builds_on(course / CHAPTER) == {"00", "01", "04", "11", "14"}


def test_each_word_is_explained_somewhere_and_in_use():
    chapters = {path.name[:2]: read(path) for path in course_notebooks(ROOT)}
    for word, (pattern, places) in chapter_form.terms().items():
        assert places, word
        for chapter, cell in places.items():
            (source,) = [found.source for found in chapters[chapter].cells if found.id == cell]
            assert pattern.search(source), (word, chapter, cell)
