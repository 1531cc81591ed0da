"""The working copy: made without outputs, brought up to date without loss, started over with a backup."""

from pathlib import Path

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from cudalab.course import edition, progress
from cudalab.course.progress import Progress
from cudalab.course.working_copy import WorkingCopy

ROOT = Path(__file__).parents[2]
NAME = "notebooks/04_small.ipynb"


@pytest.fixture(autouse=True)
def jupyter_home(tmp_path, monkeypatch):
    """Signatures go into a database of the test's own."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))


def course(tmp_path, **sources):
    """A course of one notebook, with recorded outputs; written again, it is a new edition."""
    cells = []
    for name, text in sources.items():
        output = nbformat.v4.new_output("stream", text=f"recorded {name}")
        cells.append(
            nbformat.v4.new_code_cell(
                text, id=name, execution_count=1, outputs=[output], metadata={"cudalab": {"device": "NVIDIA H200"}}
            )
        )
    folder = tmp_path / "course"
    (folder / "notebooks").mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / NAME)
    return folder


def edit(copy, **sources):
    """What a learner does in JupyterLab: change cells, run them, save."""
    notebook = edition.read(copy.folder / NAME)
    for cell in notebook.cells:
        if cell.id in sources:
            cell.source = sources[cell.id]
            cell.outputs = [nbformat.v4.new_output("stream", text="their own run")]
    nbformat.write(notebook, copy.folder / NAME)


def sources(copy):
    return [cell.source for cell in edition.read(copy.folder / NAME).cells]


def test_copy_of_the_course_has_no_output_and_the_recorded_edition_stays_as_it_is(tmp_path):
    before = {name: (ROOT / name).read_bytes() for name in edition.names(ROOT)}
    copy = WorkingCopy(tmp_path / "work")
    assert {update.kind for update in copy.update(ROOT)} == {"new"}
    assert copy.names() == list(before)
    for name in copy.names():
        code = [cell for cell in edition.read(copy.folder / name).cells if cell.cell_type == "code"]
        assert code and not any(cell.outputs or cell.execution_count or "cudalab" in cell.metadata for cell in code)
    assert copy.update(ROOT) == []
    assert {name: (ROOT / name).read_bytes() for name in before} == before


def test_edits_and_outputs_survive_a_new_edition(tmp_path):
    copy = WorkingCopy(tmp_path / "work")
    copy.update(course(tmp_path, a="1", b="2"))
    edit(copy, a="my answer")
    (update,) = copy.update(course(tmp_path, a="1", b="two", c="3"))
    assert sources(copy) == ["my answer", "two", "3"]
    assert update.kind == "updated" and update.offers == () and update.backup is not None
    assert "my answer" in update.backup.read_text()
    assert edition.read(copy.folder / NAME).cells[0].outputs[0].text == "their own run"
    assert copy.update(course(tmp_path, a="1", b="two", c="3")) == []


def test_cell_that_both_changed_is_announced(tmp_path):
    copy = WorkingCopy(tmp_path / "work")
    copy.update(course(tmp_path, a="1", b="2"))
    edit(copy, a="my answer")
    (update,) = copy.update(course(tmp_path, a="one", b="2"))
    assert sources(copy)[0] == "my answer" and "one" in sources(copy)[1]
    assert str(update).startswith(f"{NAME}: brought to the new edition; of one cell that you changed there is")


def test_file_that_is_no_notebook_and_file_without_an_edition_are_not_overwritten(tmp_path):
    copy = WorkingCopy(tmp_path / "work")
    (copy.folder / "notebooks").mkdir(parents=True)
    (copy.folder / NAME).write_text('{"cells": [')
    (update,) = copy.update(course(tmp_path, a="1"))
    assert update.kind == "unreadable" and "start-over" in str(update)
    assert (copy.folder / NAME).read_text() == '{"cells": ['
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("mine", id="a")]), copy.folder / NAME)
    copy.update(course(tmp_path, a="1"))
    assert sources(copy) == ["mine"]
    copy.update(course(tmp_path, a="one"))
    assert sources(copy)[0] == "mine"


def test_deleted_notebook_comes_again(tmp_path):
    copy = WorkingCopy(tmp_path / "work")
    copy.update(course(tmp_path, a="1"))
    (copy.folder / NAME).unlink()
    assert [update.kind for update in copy.update(course(tmp_path, a="1"))] == ["new"]


def test_saved_widget_state_goes_and_trust_stays(tmp_path):
    copy = WorkingCopy(tmp_path / "work")
    copy.update(course(tmp_path, a="1"))
    notebook = edition.read(copy.folder / NAME)
    assert NotebookNotary().check_signature(notebook)
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    nbformat.write(notebook, copy.folder / NAME)
    NotebookNotary().sign(notebook)
    assert copy.update(course(tmp_path, a="1")) == []
    notebook = edition.read(copy.folder / NAME)
    assert "widgets" not in notebook.metadata and NotebookNotary().check_signature(notebook)


def test_changes_are_named_cell_by_cell(tmp_path):
    copy = WorkingCopy(tmp_path / "work")
    copy.update(course(tmp_path, a="x = 1\ny = 2", b="2"))
    assert copy.changes(NAME) == []
    edit(copy, a="x = 5\ny = 2")
    (change,) = copy.changes(NAME)
    assert (change.cell, change.kind) == ("a", "changed")
    assert "-x = 1" in str(change) and "+x = 5" in str(change)


def test_starting_over_brings_the_edition_and_keeps_the_old_file_with_its_date(tmp_path, monkeypatch):
    copy = WorkingCopy(tmp_path / "work")
    copy.update(course(tmp_path, a="1", b="2"))
    edit(copy, a="my answer")
    monkeypatch.setenv("JPY_SESSION_NAME", str(copy.folder / NAME))
    progress.note("prediction", "04.a", 2)
    assert Progress(copy.folder).latest()
    first, second = copy.start_over(NAME), copy.start_over(NAME)
    assert sources(copy) == ["1", "2"] and not edition.read(copy.folder / NAME).cells[0].outputs
    assert "my answer" in first.read_text() and first.parent == copy.folder / "backups"
    assert first != second and "04_small (notebooks, 20" in first.name
    assert Progress(copy.folder).latest() == {}


@pytest.mark.parametrize("wanted", ["04", "04_small", NAME, f"work/{NAME}", f"./{NAME}"])
def test_notebook_is_found_by_what_a_learner_calls_it(tmp_path, wanted):
    copy = WorkingCopy(tmp_path / "work")
    copy.update(course(tmp_path, a="1"))
    assert copy.find(wanted) == NAME
    with pytest.raises(LookupError, match=r"no file '99'; there are notebooks/04_small\.ipynb"):
        copy.find("99")


def test_answers_are_kept_by_notebook_and_a_solved_exercise_stays_solved(tmp_path, monkeypatch):
    copy = WorkingCopy(tmp_path / "work")
    copy.update(course(tmp_path, a="1"))
    monkeypatch.setenv("JPY_SESSION_NAME", str(copy.folder / NAME))
    assert progress.here() == (copy.folder, NAME)
    progress.note("check", "04.1", 3, done=True)
    progress.note("check", "04.1", 1, done=False)
    progress.note("question", "04.2", "B")
    with (copy.folder / ".cudalab/progress.jsonl").open("a") as file:
        file.write('{"kind": "check", "na')  # the disk was full
    latest = Progress(copy.folder).latest()
    assert list(latest) == [("check", NAME, "04.1"), ("question", NAME, "04.2")]
    assert latest["check", NAME, "04.1"]["done"] and latest["check", NAME, "04.1"]["answer"] == 1
    assert progress.answer("question", "04.2") == "B" and progress.answer("question", "04.3") is None


def test_notebook_outside_a_working_copy_leaves_no_trace(tmp_path, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "some.ipynb"))
    assert progress.here() is None
    progress.note("question", "04.1", "A")
    monkeypatch.delenv("JPY_SESSION_NAME")
    assert progress.here() is None and progress.answer("question", "04.1") is None
    assert list(tmp_path.iterdir()) == [tmp_path / "jupyter"] or list(tmp_path.iterdir()) == []
