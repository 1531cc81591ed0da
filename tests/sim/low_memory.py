"""Host memory where shared memory has its generic addresses, as in the heap of a Python that is no position-independent
executable."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cudalab.sim.abi import SHARED_WINDOW

_PRIVATE_ANONYMOUS, _FIXED_NOREPLACE = 0x22, 0x100000


@contextmanager
def low_memory(size: int = 1 << 16) -> Iterator[int]:
    """The address of ``size`` bytes there; skips where the system has none to give."""
    if not sys.platform.startswith("linux"):
        pytest.skip("memory at a place of one's choice is asked of Linux only")
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 4]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    wanted = SHARED_WINDOW + (8 << 20)
    flags = _PRIVATE_ANONYMOUS | _FIXED_NOREPLACE
    found = libc.mmap(wanted, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if found != wanted:
        pytest.skip("something else lies there")
    try:
        yield wanted
    finally:
        libc.munmap(wanted, size)
