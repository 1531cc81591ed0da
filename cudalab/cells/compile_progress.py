"""A line below the running cell while the compiler works, so that a first run does not look dead.

It goes to JupyterLab as messages beside the cell's outputs (a comm), and the extension draws it
(``labextension/static/progress.js``). Nothing of it is stored in the notebook. It is for the learner's copy, which
JupyterLab opens with that extension; elsewhere nobody listens.
"""

from __future__ import annotations

from typing import Any

from cudalab.course import progress
from cudalab.sim.compiler import waiting

TARGET = "cudalab:progress"


class ProgressLine:
    """Tells the front end of one shell how long a step of the compiler has taken."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._comm: Any = None

    def __call__(self, text: str, seconds: float) -> None:
        if not text:
            self._close()
            return
        data = {"cell": self._running_cell(), "text": text, "seconds": round(seconds)}
        if self._comm is None:
            from ipykernel.comm import Comm

            self._comm = Comm(target_name=TARGET, data=data)  # type: ignore[no-untyped-call]
        else:
            self._comm.send(data)

    def _close(self) -> None:
        if self._comm is not None:
            self._comm.close()
            self._comm = None

    def _running_cell(self) -> str:
        """The id that JupyterLab sent the cell with."""
        return str((self._shell.get_parent() or {}).get("metadata", {}).get("cellId", ""))


def install(shell: Any) -> None:
    """Tell the learner who runs the notebook of ``shell``; does nothing outside of a working copy."""
    if progress.here() is not None and hasattr(shell, "get_parent"):
        waiting.listen(ProgressLine(shell))
