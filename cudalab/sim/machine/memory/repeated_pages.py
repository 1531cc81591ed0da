"""Large ranges of one value take the memory of one piece.

An array of ones says the same in each of its pages. So pages of 2 MiB that are filled whole with one value are all
mapped to the same 2 MiB of a file in memory, privately: where something else is stored later, the system makes a copy
of those 4 KiB. A learner would notice nothing but the memory that the notebook's kernel takes. Linux only.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys

import numpy as np

HUGE_PAGE = 2 << 20
_LEAST = 8 << 20
"""Bytes from which on it pays: pages of 4 KiB are slower to come by, where the array is overwritten."""
_MOST = 1 << 30
"""Each page is a mapping of its own, of which a process has some 65,000."""
_FIXED, _NORESERVE = 0x10, 0x4000


class RepeatedPages:
    """Those of the reserved addresses that begin at ``base``, a multiple of 2 MiB."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._pages: set[int] = set()
        """Offsets of the pages that are mapped to a file."""
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        if self._libc is not None:
            self._libc.mmap.restype = ctypes.c_void_p
            self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]

    def fill(self, offset: int, size: int, element: bytes) -> tuple[int, int]:
        """Fill what is worth it of a range with ``element`` over and over, from the range's start: the offsets between
        which all is done, equal ones where nothing is."""
        first, last = -(-offset // HUGE_PAGE) * HUGE_PAGE, (offset + size) // HUGE_PAGE * HUGE_PAGE
        fits = not HUGE_PAGE % len(element) and not (first - offset) % len(element)
        if self._libc is None or not fits or not _LEAST <= last - first <= _MOST:
            return offset, offset
        try:
            file = os.memfd_create("cudalab repeated", os.MFD_CLOEXEC)
        except OSError:
            return offset, offset
        try:
            if os.write(file, element * (HUGE_PAGE // len(element))) != HUGE_PAGE:
                return offset, offset
            done = first
            while done < last and self._map(done, file):
                self._pages.add(done)
                done += HUGE_PAGE
            return first, done
        except OSError:  # it may write no files
            return offset, offset
        finally:
            os.close(file)  # the mappings keep it

    def release(self, offset: int, size: int, memory: np.ndarray) -> None:
        """Have pages of the range that stand for a file be memory again. Those that lie in it whole are zeros then,
        others keep their bytes. ``memory`` is all of the reserved range."""
        for page in sorted(page for page in self._pages if page < offset + size and page + HUGE_PAGE > offset):
            whole = offset <= page and page + HUGE_PAGE <= offset + size
            kept = None if whole else memory[page : page + HUGE_PAGE].copy()
            if self._map(page, -1):
                self._pages.discard(page)
                if kept is not None:
                    memory[page : page + HUGE_PAGE] = kept
            elif whole:
                memory[page : page + HUGE_PAGE] = 0

    def overlaps(self, offset: int, size: int) -> bool:
        """Does a page of the range stand for a file?"""
        return any(page < offset + size and page + HUGE_PAGE > offset for page in self._pages)

    def _map(self, page: int, file: int) -> bool:
        """Map a page to the file, or to memory of zeros (-1)."""
        assert self._libc is not None
        flags = mmap.MAP_PRIVATE | _FIXED | _NORESERVE | (mmap.MAP_ANONYMOUS if file < 0 else 0)
        address = self._base + page
        found = self._libc.mmap(address, HUGE_PAGE, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, 0)
        return bool(found == address)
