"""The chunks that small allocations share: what an allocation or a free takes depends on what is there already.

The driver takes memory from the system in chunks of 2 MB, device memory and page-locked memory apart. An allocation
that is smaller gets a part of a chunk in 2 µs; only where none has room does it take as long as a chunk, 37 µs for
device memory and 0.7 ms for page-locked memory. A chunk goes back with the last part of it. So one allocation and its
free, over and over, take a chunk's time each, and beside any other small allocation next to nothing.

What is simplified: parts of a chunk are only counted, so there is room wherever enough bytes are free in all, and the
first allocations of a process take no longer than later ones. A learner would notice after many allocations of
different sizes.
"""

from __future__ import annotations

GRANULE = 512
"""Bytes; parts are multiples of it."""


def _rounded(size: int) -> int:
    return -(-size // GRANULE) * GRANULE


class Chunks:
    """The chunks of one kind of memory of one device."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._used: dict[int, int] = {}
        """Bytes by chunk."""
        self._parts: dict[int, tuple[int, int]] = {}
        """The chunk and the bytes of each allocation."""
        self._numbers = 0

    def has_room(self, size: int) -> bool:
        """Is there a chunk with room for so many bytes?"""
        return self._with_room(size) is not None

    def add(self, pointer: int, size: int) -> None:
        """There is a new allocation, smaller than a chunk: it lies in one that has room, or in a new one."""
        chunk = self._with_room(size)
        if chunk is None:
            self._numbers += 1
            chunk = self._numbers
        self._used[chunk] = self._used.get(chunk, 0) + _rounded(size)
        self._parts[pointer] = chunk, _rounded(size)

    def _with_room(self, size: int) -> int | None:
        return next((chunk for chunk, used in self._used.items() if used + _rounded(size) <= self.size), None)

    def remove(self, pointer: int) -> bool | None:
        """An allocation is freed: does its chunk go with it? None where it is no part of one."""
        if pointer not in self._parts:
            return None
        chunk, size = self._parts.pop(pointer)
        self._used[chunk] -= size
        if self._used[chunk]:
            return False
        del self._used[chunk]
        return True
