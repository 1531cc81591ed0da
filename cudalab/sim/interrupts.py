"""Interrupts (Ctrl-C, the stop button) that come while the simulated device is at work.

Python raises ``KeyboardInterrupt`` between any two steps of the main thread. A call of the real runtime is native code,
so there it comes when the call has returned. Here calls are Python, and one that ends in its middle leaves locks taken
and queues half changed. So while the main thread is inside, an interrupt is only noted; it is raised where the call
waits (:func:`check`), or when it has ended (:func:`release`).

This holds for Python's own handler of SIGINT. A program that has set another, or an alarm, raises what it raises where
it will.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import traceback
from types import FrameType

_MAIN = threading.main_thread().ident or 0
_SOON = 0.01
"""Seconds until an interrupt is tried again that came in a destructor."""


class _Noted:
    """What SIGINT's handler looks at: both are changed by the main thread alone."""

    inside = False
    interrupt = False


def install() -> None:
    """Put the handler in the place of Python's own. IPython's kernel sets Python's before each cell."""
    if threading.get_ident() == _MAIN and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _handle)


def before_cell(_: object) -> None:
    """A hook of IPython."""
    install()


def _handle(number: int, frame: FrameType | None) -> None:
    if _Noted.inside:
        _Noted.interrupt = True
    elif any(each.f_code.co_name == "__del__" for each, _ in traceback.walk_stack(frame)):
        _raise_soon()
    else:
        signal.default_int_handler(number, frame)


def hold() -> bool:
    """From here on interrupts are only noted. False where that was so already, or in another thread than the main one:
    else the caller has to :func:`release` them."""
    if _Noted.inside or threading.get_ident() != _MAIN:
        return False
    _Noted.inside = True
    return True


def release() -> None:
    """Interrupts are raised again, and so is one that was noted."""
    _Noted.inside = False
    if _Noted.interrupt:
        _raise_noted()


def release_soon() -> None:
    """The same in a destructor: what was noted is raised a little later, for it would be lost there."""
    _Noted.inside = False
    if _Noted.interrupt:
        _Noted.interrupt = False
        _raise_soon()


def noted() -> bool:
    """Does an interrupt wait for this thread?"""
    return _Noted.interrupt and threading.get_ident() == _MAIN


def check() -> None:
    """Raise an interrupt that was noted: the caller waits, and leaves all in order."""
    if _Noted.interrupt and threading.get_ident() == _MAIN:
        _raise_noted()


def _raise_soon() -> None:
    threading.Timer(_SOON, _interrupt).start()


def _interrupt() -> None:
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        signal.pthread_kill(_MAIN, signal.SIGINT)  # ends a sleep as well


def _raise_noted() -> None:
    if _Noted.interrupt:
        _Noted.interrupt = False
        raise KeyboardInterrupt
