"""The command line."""

import subprocess
import sys

import pytest

from cudalab.cli import main, parser
from cudalab.dev.suite import command

COMMANDS = {
    "setup",
    "kernels",
    "lab",
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


@pytest.mark.parametrize(
    "which, marks", [("", "not gpu and not long"), ("long", "(long or sliced) and not gpu"), ("gpu", "gpu")]
)
def test_selection_of_tests(which, marks):
    line = command(which=which, workers=2, arguments=["-x"])
    assert line[line.index("-m", 2) + 1 :][0] == marks
    assert line[-1] == "-x"
    assert ("-n" in line) == (which != "gpu")
