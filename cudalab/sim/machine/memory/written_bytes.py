"""Which bytes of an allocation have been written: a cheap over-approximation for initcheck.

Hardware keeps no such state; memory that was never written reads as whatever was there. Valgrind and compute-sanitizer
keep it for each byte or bit; here it is a few intervals. Host copies state exactly what they write. A plain kernel
launch is not traced, so all memory that its parameters reach counts as written, and all memory when it loads 8-byte
words that may be addresses: no false positives, some false negatives. A launch under ``sanitize`` is exact.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

_MOST_INTERVALS = 1024


class WrittenBytes:
    """Written bytes of one allocation as sorted, disjoint intervals of offsets."""

    __slots__ = ("_ends", "_starts", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._starts: list[int] = []
        self._ends: list[int] = []

    def mark_all(self) -> None:
        self._starts, self._ends = [0], [self.size]

    def mark(self, offset: int, size: int) -> None:
        """Add ``offset … offset + size``. Very many intervals collapse to "all written"."""
        end = min(offset + size, self.size)
        offset = max(0, offset)
        if offset >= end:
            return
        if len(self._starts) == 1 and self._starts[0] <= offset and end <= self._ends[0]:
            return
        first = bisect_left(self._ends, offset)  # the first interval that touches the new one
        last = bisect_right(self._starts, end)
        if first < last:
            offset = min(offset, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [offset]
        self._ends[first:last] = [end]
        if len(self._starts) > _MOST_INTERVALS:
            self.mark_all()

    @property
    def complete(self) -> bool:
        return len(self._starts) == 1 and self._starts[0] == 0 and self._ends[0] >= self.size

    @property
    def empty(self) -> bool:
        return not self._starts

    @property
    def intervals(self) -> tuple[tuple[int, int], ...]:
        """(first, end) offsets of each interval."""
        return tuple(zip(self._starts, self._ends, strict=True))

    def bitmap(self) -> np.ndarray:
        """One ``bool`` a byte, True where written."""
        bits = np.zeros(self.size, np.bool_)
        for start, end in zip(self._starts, self._ends, strict=True):
            bits[start:end] = True
        return bits
