"""Ends Python code that runs too long, an endless loop of the answer's included.

An exception is raised in the thread that runs the code, between two of its steps, and again while lines of the answer
are still being run, which may have swallowed it. A kernel that runs meanwhile is stopped as by the stop button. What
cannot be ended is one long call of a C library, such as ``time.sleep``: the exception comes when the call returns.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import traceback
from collections.abc import Iterator

_AGAIN = 0.05
"""Seconds until the exception is raised again."""


class TimeIsUp(KeyboardInterrupt):
    """The code ran longer than it may. Treated as an interrupt by all that it passes through."""


@contextlib.contextmanager
def deadline(seconds: float, file: str) -> Iterator[None]:
    """Raise :class:`TimeIsUp` in this thread when the body takes longer, and again while it runs lines of ``file``."""
    thread, over, raising = threading.get_ident(), threading.Event(), threading.Lock()

    def watch() -> None:
        wait, late = seconds, False
        while not over.wait(wait):
            with raising:
                if not over.is_set() and (not late or _runs(thread, file)):
                    _raise(thread, TimeIsUp)
            wait, late = _AGAIN, True

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield
    finally:
        try:
            over.set()
            with raising:
                pass
        finally:
            over.set()
            _raise(thread, None)  # takes back one that has not arrived


def _raise(thread: int, exception: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if exception is None else ctypes.py_object(exception)
    )


def _runs(thread: int, file: str) -> bool:
    """Is a line of ``file`` being run in this thread?"""
    frame = sys._current_frames().get(thread)
    return any(f.f_code.co_filename == file for f, _ in traceback.walk_stack(frame)) if frame is not None else False
