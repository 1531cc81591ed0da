"""The line below a cell that takes long."""

import time

import pytest

from cudalab.cells import progress_line
from cudalab.cells.progress_line import ProgressLine
from cudalab.sim.compiler import waiting

KEPT = "The result is kept; the next time is quick."


class Events:
    def __init__(self):
        self.registered = {}

    def register(self, event, handler):
        self.registered[event] = handler


class Shell:
    def __init__(self):
        self.events = Events()

    def get_parent(self):
        return {"metadata": {"cellId": "cell-7"}}


@pytest.fixture
def comms(monkeypatch):
    """The comms that were opened, each a list of what it sent."""
    opened = []

    class Comm:
        def __init__(self, target_name, data):
            self.sent = [target_name, data]
            opened.append(self.sent)

        def send(self, data):
            self.sent.append(data)

        def close(self):
            self.sent.append("closed")

    monkeypatch.setattr("ipykernel.comm.Comm", Comm)
    return opened


def test_each_step_has_a_comm_that_names_the_cell(comms):
    line = ProgressLine(Shell())
    line("", 0.5)
    for step, seconds in (("NVRTC", 1.2), ("NVRTC", 1.7), ("", 2.0), ("LLVM", 1.0), ("", 1.5)):
        line(step, seconds)
    assert comms == [
        [
            "cudalab:progress",
            {"cell": "cell-7", "text": f"NVRTC … 1 s. {KEPT}"},
            {"cell": "cell-7", "text": f"NVRTC … 2 s. {KEPT}"},
            "closed",
        ],
        ["cudalab:progress", {"cell": "cell-7", "text": f"LLVM … 1 s. {KEPT}"}, "closed"],
    ]


def test_a_cell_that_runs_long_says_so_where_the_compiler_does_not(comms, monkeypatch):
    monkeypatch.setattr(progress_line, "PATIENCE", 0.0)
    monkeypatch.setattr(progress_line, "_EVERY", 0.001)
    line = ProgressLine(Shell())
    line("NVRTC", 1.0)
    line.cell_begins()
    line("", 1.0)
    while len(comms) < 2:
        time.sleep(0.001)
    line.cell_ends()
    while comms[1][-1] != "closed":
        time.sleep(0.001)
    assert comms[0][1:] == [{"cell": "cell-7", "text": f"NVRTC … 1 s. {KEPT}"}, "closed"]
    assert comms[1][1]["cell"] == "cell-7" and comms[1][1]["text"].startswith("This cell is at work … ")


def test_a_short_cell_says_nothing(comms):
    line = ProgressLine(Shell())
    line.cell_begins()
    line.cell_ends()
    line.cell_begins()
    line.cell_ends()
    assert comms == []


def test_only_the_learners_copy_is_told(tmp_path, monkeypatch, comms):
    heard = []
    monkeypatch.setattr(waiting, "listen", heard.append)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    progress_line.install(Shell())
    assert heard == []
    (tmp_path / ".cudalab").mkdir()
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "04.ipynb"))
    progress_line.install(object())  # a shell without a kernel
    assert heard == []
    monkeypatch.setattr(progress_line, "PATIENCE", 0.0)
    shell = Shell()
    progress_line.install(shell)
    assert isinstance(heard[0], ProgressLine)
    while not comms:  # the cell that imports cudalab is watched, too
        time.sleep(0.001)
    assert set(shell.events.registered) == {"pre_run_cell", "post_run_cell"}
    shell.events.registered["post_run_cell"](None)
