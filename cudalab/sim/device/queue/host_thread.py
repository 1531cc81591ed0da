"""The thread that host functions run in.

CUDA calls a host function from a thread of its own, not from the one that enqueued it (seen on an H200). So what a
thread owns, its last error or CuPy's current stream, is not the program's there, and calls of CUDA can be told apart
and refused. The simulated device waits for the function at its modelled place, so nothing runs at the same time. A
learner would notice where a function waits for something that the program does later: on a GPU it may come, here it
never does, and the function is left behind at the time limit.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from cudalab.sim import interrupts

_IDLE_SECONDS = 2.0
_SLICE = 0.05
"""Seconds between two looks at the clock, and for an interrupt."""


class _Call:
    """One call in the thread: its function, and how it ended."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.function: Callable[[], None] | None = function
        self.error: BaseException | None = None
        self.done = threading.Event()

    def run(self) -> None:
        function, self.function = self.function, None
        assert function is not None
        try:
            function()
        except BaseException as error:  # SystemExit, too, ends the function and not the thread
            self.error = error
        finally:
            del function  # it may be the last to hold what a destructor frees
            self.done.set()


class HostThread:
    """Runs one function at a time in another thread, which is started when it is needed and ends when it is idle."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self.idents: set[int] = set()
        """``threading.get_ident()`` of the thread, and of those that were left behind. Every call of the runtime looks
        for its own."""

    def run(self, function: Callable[[], None], time_limit: float) -> BaseException | None:
        """Call ``function`` there, wait until it has returned, and return what it raised.

        Raises ``TimeoutError`` when it has not returned after ``time_limit`` seconds, and passes a
        ``KeyboardInterrupt`` on. The function is left behind in either case, and the next gets a new thread.
        """
        call = _Call(function)
        del function
        with self._starting:
            self._requests.put(call)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, args=(self._requests,), name="cudalab host functions", daemon=True
                )
                self._thread.start()
        deadline = time.monotonic() + time_limit
        try:
            while not call.done.wait(min(_SLICE, max(0.0, deadline - time.monotonic()))):
                interrupts.check()
                if time.monotonic() >= deadline:
                    raise TimeoutError
        finally:
            if not call.done.is_set():
                self._leave_behind()
        return call.error

    def _leave_behind(self) -> None:
        """The thread does not return: it ends when its function does."""
        with self._starting:
            self._thread, self._requests = None, queue.SimpleQueue()

    def _serve(self, requests: queue.SimpleQueue[_Call]) -> None:
        ident = threading.get_ident()
        self.idents.add(ident)
        try:
            while True:
                try:
                    requests.get(timeout=_IDLE_SECONDS).run()
                except queue.Empty:
                    with self._starting:
                        if requests is not self._requests:
                            return
                        if requests.empty():
                            self._thread = None
                            return
        finally:
            self.idents.discard(ident)
