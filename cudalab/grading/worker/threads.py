"""Threads of the grader that stand for threads of a worker: what a host thread owns, its current context or its last
error, is each one's own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

_SLICE = 0.05


class StandIn:
    """One thread, which does one thing at a time while the caller waits."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._done = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None
        threading.Thread(target=self._serve, name="a thread of the answer", daemon=True).start()

    def run(self, function: Callable[[], Any]) -> Any:
        """Call ``function`` there; its result, or its exception."""
        self._done.clear()
        self._work.put(function)
        while not self._done.wait(_SLICE):
            pass
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._result

    def end(self) -> None:
        self._work.put(None)

    def _serve(self) -> None:
        while (function := self._work.get()) is not None:
            try:
                self._result = function()
            except BaseException as error:
                self._error = error
            self._done.set()
