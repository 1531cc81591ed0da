"""Ends Python code that runs too long, an endless loop of the answer's included.

An exception is raised in the thread that runs the code, between two of its steps, and again for as long as the code
runs, which may have swallowed it. Where that thread is, nobody looks: Python 3.11 may collect garbage while it makes a
frame of another thread, let that thread go on, and then read what is no longer there. A kernel that runs meanwhile is
stopped as by the stop button. What cannot be ended is one long call of a C library, such as ``time.sleep``: the
exception comes when the call returns.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator

_AGAIN = 0.05
"""Seconds until the exception is raised again."""


class TimeIsUp(KeyboardInterrupt):
    """The code ran longer than it may. Treated as an interrupt by all that it passes through."""


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeIsUp` in this thread when the body takes longer, and again until it has been left."""
    thread, over, raising, raised = threading.get_ident(), threading.Event(), threading.Lock(), threading.Event()

    def watch() -> None:
        wait = seconds
        while not over.wait(wait):
            with raising:
                if not over.is_set():
                    raised.set()
                    _raise(thread)
            wait = _AGAIN

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield
    finally:
        ended = False
        while not ended:
            with contextlib.suppress(TimeIsUp):  # one that comes late, between any two of these steps
                over.set()
                with raising:
                    pass
                if raised.is_set():
                    _let_arrive(thread)
                ended = True


def _let_arrive(thread: int) -> None:
    """Let an exception that has not arrived yet in this thread arrive now. It could be taken back instead, but Python
    3.11 then looks for it at every step from there on, and hangs where a trace function is set."""
    with contextlib.suppress(TimeIsUp):
        _raise(thread)  # in the place of the other, if there is one
        while True:
            pass


def _raise(thread: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TimeIsUp))
