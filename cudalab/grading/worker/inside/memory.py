"""The worker's memory at the device's addresses: what is shared, and copies of what array functions work on."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from cudalab.grading.worker.messages import Placement

PAGE = 4096
_READ_WRITE = 3
_SHARED, _PRIVATE, _FIXED, _ANONYMOUS, _NO_REPLACE = 0x01, 0x02, 0x10, 0x20, 0x100000


class MappedMemory:
    """Pages at addresses that the grader has chosen. Takes the place of ``Memory`` in the worker's device."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._mmap = self._libc.mmap
        self._mmap.restype = ctypes.c_void_p
        self._mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._pages: set[int] = set()
        """The pages that were mapped here, by number."""
        self._shared: list[tuple[int, int]] = []
        """Start and end of what is shared in the present case."""

    def clear(self) -> None:
        """A new case: nothing is shared. What is mapped stays until something else takes its place."""
        self._shared.clear()

    def place(self, placement: Placement) -> None:
        """Map a piece of the shared file."""
        pages = _numbers(placement.address, placement.size)
        first, size = pages.start * PAGE, len(pages) * PAGE
        if placement.over:
            before = bytes((ctypes.c_ubyte * size).from_address(first))
            self._map(first, size, _SHARED | _FIXED, placement.offset)
            ctypes.memmove(first, before, size)
        else:
            mine = not self._pages.isdisjoint(pages)
            self._map(first, size, _SHARED | (_FIXED if mine else _NO_REPLACE), placement.offset)
        self._pages.update(pages)
        self._shared.append((placement.address, placement.address + placement.size))

    def _map(self, address: int, size: int, flags: int, offset: int = 0) -> None:
        file = -1 if flags & _ANONYMOUS else self._file
        found = self._mmap(address, size, _READ_WRITE, flags, file, offset)
        if found != address:
            raise OSError(ctypes.get_errno(), f"cannot map {size} bytes at {address:#x}")

    def is_shared(self, start: int, end: int) -> bool:
        return any(low <= start and end <= high for low, high in self._shared)

    # -- what array functions use --------------------------------------------------------------------------------------

    def array(self, start: int, size: int, dtype: Any = np.uint8, *, write: bool = True) -> np.ndarray:
        """Bytes at an address of the device's memory, which hold something only while an array function runs."""
        count = size * np.dtype(dtype).itemsize
        for number in _numbers(start, count):
            if number not in self._pages:
                self._map(number * PAGE, PAGE, _PRIVATE | _ANONYMOUS | _NO_REPLACE)
                self._pages.add(number)
        buffer = (ctypes.c_ubyte * count).from_address(start)
        return np.frombuffer(buffer, dtype)

    def find(self, address: int) -> None:
        """Allocations are the grader's."""

    def find_range(self, address: int) -> tuple[int, int]:
        return 0, 0

    def forget_written(self, pointer: int) -> None:
        pass


def _numbers(start: int, size: int) -> range:
    return range(start // PAGE, -(-(start + size) // PAGE))
