"""Who waits for the compiler is told what it does.

NVRTC reads the headers of cooperative groups in seconds and CUB's in ten and more; LLVM takes its time for a kernel
that was never translated before. Both happen once on a machine (``cache.py``), and then a learner looks at a cell that
does nothing. So a step that lasts longer than ``PATIENCE`` is reported, again and again until it ends, to whoever
listens. Work in the background, for which nobody waits, is not reported.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator

PATIENCE = 0.8  # seconds before a step is worth a word
_EVERY = 0.5  # seconds between two reports
_INCLUDE = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)

Listener = Callable[[str, float], None]
"""Called with what goes on and for how many seconds it has; with an empty text when it has ended."""

_listener: Listener | None = None


def listen(listener: Listener | None) -> None:
    """Report to ``listener`` from now on, on a thread of its own; None: to nobody."""
    global _listener
    _listener = listener


def reading(source: str) -> str:
    """What NVRTC does with a source, in words."""
    headers = ", ".join(f"<{name}>" for name in dict.fromkeys(_INCLUDE.findall(source)))
    return f"NVRTC is compiling, with {headers}" if headers else "NVRTC is compiling"


@contextlib.contextmanager
def step(text: str) -> Iterator[None]:
    """Report ``text`` while the block lasts, if it lasts long."""
    listener = _listener
    if listener is None:
        yield
        return
    ended = threading.Event()
    reporter = threading.Thread(target=_report, args=(listener, text, ended), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()


def _report(listener: Listener, text: str, ended: threading.Event) -> None:
    began = time.monotonic()
    if ended.wait(PATIENCE):
        return
    while not ended.is_set():
        listener(text, time.monotonic() - began)
        ended.wait(_EVERY)
    listener("", time.monotonic() - began)
