"""The thread that host functions run in.

CUDA calls a host function from a thread of its own, not from the one that enqueued it (seen on an H200). So what a
thread owns, its last error or CuPy's current stream, is not the program's there, and calls of CUDA can be told apart
and refused. The simulated device waits for the function at its modelled place, so nothing runs at the same time.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

_IDLE_SECONDS = 2.0


class HostThread:
    """Runs one function at a time in another thread, which is started when it is needed and ends when it is idle."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[Callable[[], None], threading.Event]] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self.ident = 0
        """``threading.get_ident()`` of the thread; 0 while there is none. Every call of the runtime compares it."""

    def run(self, function: Callable[[], None]) -> None:
        """Call ``function``, which must not raise, there, and wait until it has returned."""
        done = threading.Event()
        with self._starting:
            self._requests.put((function, done))
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="cudalab host functions", daemon=True)
                self._thread.start()
        done.wait()

    def _serve(self) -> None:
        self.ident = threading.get_ident()
        while True:
            try:
                function, done = self._requests.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._starting:
                    if self._requests.empty():
                        self._thread, self.ident = None, 0
                        return
                continue
            try:
                function()
            finally:
                del function  # it may be the last to hold what a destructor frees
                done.set()
