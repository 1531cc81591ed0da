"""The command line."""

import json
import subprocess
import sys

import nbformat
import pytest

from cudalab.cli import main, parser
from cudalab.course.progress import Progress
from cudalab.dev.suite import command

COMMANDS = {
    "setup",
    "kernels",
    "lab",
    "copy",
    "changes",
    "start-over",
    "progress",
    "doctor",
    "test",
    "record",
    "notebooks",
    "lock",
    "calibrate",
    "grade",
    "exercises",
}


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    output = capsys.readouterr().out
    assert all(name in output for name in COMMANDS)


def test_unknown_command_is_an_error_that_lists_the_known(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["tests"])
    assert stop.value.code == 2
    assert "invalid choice: 'tests'" in capsys.readouterr().err


def test_commands_are_those_documented():
    assert set(parser()._subparsers._group_actions[0].choices) == COMMANDS


def test_module_runs_as_a_program():
    ended = subprocess.run([sys.executable, "-m", "cudalab", "lab", "nothing.ipynb"], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "there is no file 'nothing.ipynb'" in ended.stderr


@pytest.fixture
def copy_of_one(tmp_path, monkeypatch, capsys):
    """A course of one notebook, and a learner's copy of it."""
    (tmp_path / "notebooks").mkdir()
    cell = nbformat.v4.new_code_cell('x = 1\ncudalab.quiz("04.1")', id="a")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "notebooks/04_small.ipynb")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setattr("cudalab.installation.environment.project_root", lambda: tmp_path)
    monkeypatch.setattr("cudalab.installation.lab.project_root", lambda: tmp_path)
    monkeypatch.setattr("cudalab.installation.lab.list_kernels", list)
    assert main(["copy"]) == 0
    capsys.readouterr()


def test_changes_and_starting_over_are_commands(copy_of_one, tmp_path, capsys):
    mine = tmp_path / "work/notebooks/04_small.ipynb"
    mine.write_text(mine.read_text().replace("x = 1", "x = 5"))
    assert main(["changes"]) == main(["changes", "04"]) == 0
    assert "1 cell differs from the course's" in capsys.readouterr().out
    assert main(["start-over", "05"]) == 1
    assert "there is no file '05'" in capsys.readouterr().err
    assert main(["start-over", "04"]) == 0
    assert "Your file is kept as" in capsys.readouterr().out and "x = 1" in mine.read_text()


def test_answers_are_told_saved_and_counted_anew(copy_of_one, tmp_path, capsys):
    noted = Progress(tmp_path / "work")
    noted.append(
        {"kind": "question", "notebook": "notebooks/04_small.ipynb", "name": "04.1", "answer": "=A", "done": True}
    )
    assert main(["progress"]) == 0
    assert "1 of  1  notebooks/04_small.ipynb" in capsys.readouterr().out
    for name in ("a.csv", "a.json"):
        assert main(["progress", "--export", str(tmp_path / name)]) == 0
    assert json.loads((tmp_path / "a.json").read_text())[0]["answer"] == "=A"
    head, line = (tmp_path / "a.csv").read_text().splitlines()
    assert head == "time,notebook,kind,name,answer,of,done,seed"
    assert line.endswith(",notebooks/04_small.ipynb,question,04.1,'=A,,True,")
    assert main(["progress", "--export", str(tmp_path / "a.xlsx")]) == 1
    assert "exported as csv or json" in capsys.readouterr().err
    assert main(["progress", "--count-anew", "04"]) == main(["progress"]) == 0
    assert "0 of  1  notebooks/04_small.ipynb" in capsys.readouterr().out
    assert len(noted.entries()) == 2


@pytest.mark.parametrize(
    "which, marks", [("", "not gpu and not long"), ("long", "(long or sliced) and not gpu"), ("gpu", "gpu")]
)
def test_selection_of_tests(which, marks):
    line = command(which=which, workers=2, arguments=["-x"])
    assert line[line.index("-m", 2) + 1 :][0] == marks
    assert line[-1] == "-x"
    assert ("-n" in line) == (which != "gpu")
