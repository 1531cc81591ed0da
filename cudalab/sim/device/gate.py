"""A lock that destructors never wait at.

Python's garbage collector runs destructors in whatever thread happens to allocate, at any step of a call. An array's
destructor frees device memory, which is a call of the runtime: in the middle of another call it would find
half-changed lists, and in a thread that runs blocks it would wait for the very call that waits for those blocks. So
what a destructor asks for is done at once where no call is under way, and otherwise as soon as that call has ended. A
real runtime has a plain lock here and needs no more, since its callers are not garbage-collected.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from cudalab.sim import interrupts

_SLICE = 0.05
"""Seconds between two looks for an interrupt, while another thread is inside."""


class Gate:
    """A re-entrant lock for ``with``, and a queue of what is to be done when it is let go. Inside, interrupts wait."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._gone = threading.Condition(self._lock)
        """Told when somebody goes out, while others wait in :meth:`let_in`."""
        self._letting = 0
        self._depth = 0
        self._held = False
        """Is it this gate that holds the main thread's interrupts?"""
        self._waiting: deque[Callable[[], None]] = deque()

    def __enter__(self) -> None:
        held = interrupts.hold()
        if not self._lock.acquire(False):
            while not self._lock.acquire(timeout=_SLICE):
                if held and interrupts.noted():
                    interrupts.release()
        self._depth += 1
        if self._depth == 1:
            self._held = held

    def __exit__(self, *_: object) -> None:
        self._depth = depth = self._depth - 1
        if depth:
            self._lock.release()
            return
        held = self._held
        if self._letting:
            self._gone.notify_all()
        self._lock.release()
        if self._waiting:
            self._do_waiting()
        if held:
            interrupts.release()

    def let_in(self, seconds: float) -> None:
        """The caller is inside and stands aside: others come in until one has gone out again, or ``seconds`` are over.
        Nothing that the gate guards may be half changed."""
        depth, held = self._depth, self._held
        self._depth = 0
        self._letting += 1
        try:
            self._gone.notify_all()
            self._gone.wait(seconds)
        finally:
            self._letting -= 1
            self._depth, self._held = depth, held

    def later(self, action: Callable[[], None]) -> None:
        """Do ``action`` now, or when whoever is inside has gone. It must not raise."""
        held = interrupts.hold()
        self._waiting.append(action)
        self._do_waiting()
        if held:
            interrupts.release_soon()

    def do_waiting(self) -> None:
        """Do what waits although the caller is inside: a point where all it guards is consistent."""
        with self:
            while self._waiting:
                self._waiting.popleft()()

    def _do_waiting(self) -> None:
        # Whoever holds the lock looks at the queue after letting go, so nothing is forgotten when it is taken.
        while self._waiting and self._lock.acquire(blocking=False):
            try:
                if self._depth:  # this very thread is inside
                    return
                self._depth = 1
                try:
                    if self._waiting:
                        self._waiting.popleft()()
                finally:
                    self._depth = 0
            finally:
                self._lock.release()
