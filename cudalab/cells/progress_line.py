"""A line below the running cell while it takes long, so that a first run does not look dead: what the compiler does,
where a cell waits for that, else only for how long it has been running.

It goes to JupyterLab as messages beside the cell's outputs (a comm), and the extension draws it
(``labextension/static/progress.js``). Nothing of it is stored in the notebook. It is for the learner's copy, which
JupyterLab opens with that extension; elsewhere nobody listens.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from cudalab.course import progress
from cudalab.sim.compiler import waiting

TARGET = "cudalab:progress"
PATIENCE = 1.5  # seconds before it is worth a word that a cell runs
_EVERY = 0.5  # seconds between two words


class ProgressLine:
    """The line in the front end of one shell. Compiler and cell speak from threads of their own."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._comm: Any = None
        self._lock = threading.Lock()
        self._compiling = False
        self._ended = threading.Event()

    def __call__(self, text: str, seconds: float) -> None:
        """Say what the compiler does and for how long it has; with an empty text, that it has ended."""
        with self._lock:
            self._compiling = bool(text)
            if text:
                self._show(f"{text} … {seconds:.0f} s. The result is kept; the next time is quick.")
            else:
                self._close()

    def cell_begins(self, *_: object) -> None:
        """Watch the cell that begins, until it ends."""
        self.cell_ends()
        self._ended = threading.Event()
        threading.Thread(target=self._watch, args=(self._ended,), daemon=True).start()

    def cell_ends(self, *_: object) -> None:
        self._ended.set()

    def _watch(self, ended: threading.Event) -> None:
        began = time.monotonic()
        if ended.wait(PATIENCE):
            return
        while not ended.is_set():
            with self._lock:
                if not self._compiling:
                    self._show(f"This cell is at work … {time.monotonic() - began:.0f} s.")
            ended.wait(_EVERY)
        with self._lock:
            self._close()

    def _show(self, text: str) -> None:
        data = {"cell": self._running_cell(), "text": text}
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
        line = ProgressLine(shell)
        waiting.listen(line)
        shell.events.register("pre_run_cell", line.cell_begins)
        shell.events.register("post_run_cell", line.cell_ends)
        line.cell_begins()  # the cell that imports cudalab runs already
