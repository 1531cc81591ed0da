"""Memory that a cell has freed goes back to the system.

A launch's trace, a check or a figure takes tens of megabytes for a moment. The C library keeps what is freed between
pieces that are still in use, as its own reserve: 20 to 90 MB in the chapters of the course, which a machine that many
learners share has better uses for. Giving them back takes 0.2 to 2 ms. glibc alone can do it.
"""

from __future__ import annotations

import ctypes
import sys


def give_back(_: object = None) -> None:
    """Return the C library's free pages to the system; a hook of IPython, too."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
