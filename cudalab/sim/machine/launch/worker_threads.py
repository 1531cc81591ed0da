"""Threads that run native code, so that the thread that launched stays free to be interrupted.

Native code does not hold the GIL. The launching thread waits in short slices: a KeyboardInterrupt reaches it at once,
and it can check whether blocks still finish. Threads are kept for the next launch; a hand-over costs about ten
microseconds. Their stacks are large, for recursive device functions.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

STACK_BYTES = 64 << 20


class Job:
    """A call that a worker thread makes once. An interrupt may come between any two steps of the launching thread, so
    a job that no thread has begun can be withdrawn, and one that has ended can be waited for again and again."""

    __slots__ = ("_begun", "_call", "_done", "_lock", "error", "finished")

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()
        self._begun = False
        self.finished = False
        self.error: BaseException | None = None

    def run(self) -> None:
        with self._lock:
            if self._begun:
                return
            self._begun = True
        try:
            self._call()
        except BaseException as error:  # handed to the thread that waits
            self.error = error
        self.finished = True
        self._done.release()

    def withdraw(self) -> None:
        """Make it count as ended if no thread has begun it."""
        with self._lock:
            if not self._begun:
                self._begun = self.finished = True

    def wait(self, timeout: float) -> bool:
        """Wait until it has ended; False when it still runs after `timeout` seconds."""
        return self.finished or self._done.acquire(timeout=timeout) or self.finished


class Worker(threading.Thread):
    """A thread that runs one job after the other."""

    def __init__(self) -> None:
        super().__init__(name="simulated-device", daemon=True)
        self.inbox: SimpleQueue[Job] = SimpleQueue()

    def run(self) -> None:
        while True:
            self.inbox.get().run()


_idle: list[Worker] = []


def borrow() -> Worker:
    """An idle worker thread; give it back with :func:`give_back` once its job has ended."""
    try:
        return _idle.pop()
    except IndexError:
        pass
    worker = Worker()
    before = threading.stack_size(STACK_BYTES)
    try:
        worker.start()
    finally:
        threading.stack_size(before)
    return worker


def give_back(worker: Worker) -> None:
    _idle.append(worker)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads do not survive a fork
