"""An alarm that a program sets for itself, as a time limit of its own."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

needs_alarms = pytest.mark.skipif(sys.platform == "win32", reason="not on Windows, which has no alarms")


@contextmanager
def alarm(seconds: float, error: type[BaseException]) -> Iterator[None]:
    """Raise ``error("my own alarm")`` in the main thread after ``seconds``."""

    def ring(*_: object) -> None:
        raise error("my own alarm")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
