"""The line below a cell that waits for the compiler."""

import pytest

from cudalab.cells import compile_progress
from cudalab.cells.compile_progress import ProgressLine
from cudalab.sim.compiler import waiting


class Shell:
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
            {"cell": "cell-7", "text": "NVRTC", "seconds": 1},
            {"cell": "cell-7", "text": "NVRTC", "seconds": 2},
            "closed",
        ],
        ["cudalab:progress", {"cell": "cell-7", "text": "LLVM", "seconds": 1}, "closed"],
    ]


def test_only_the_learners_copy_is_told(tmp_path, monkeypatch):
    heard = []
    monkeypatch.setattr(waiting, "listen", heard.append)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    compile_progress.install(Shell())
    assert heard == []
    (tmp_path / ".cudalab").mkdir()
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "04.ipynb"))
    compile_progress.install(object())  # a shell without a kernel
    assert heard == []
    compile_progress.install(Shell())
    assert isinstance(heard[0], ProgressLine)
