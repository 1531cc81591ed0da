"""Which bytes an operation touches: ranges that bound them, and the exact rows of bytes in up to a few dimensions.

A contiguous copy touches one run of bytes; a 2-D copy, or an array function on a view, touches rows that lie a pitch
apart. Two streams may work on interleaved rows of one array, so the range from the first to the last byte would raise
false alarms. A :data:`StridedRange` describes the rows in a few numbers, and is expanded to runs only when the ranges
of two unordered operations overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cudalab.sim.device.declaration import Address

Range = tuple[Address, int]
"""``(address, bytes)``"""

Reach = tuple[Range, ...] | None
"""The bytes that an operation may touch; ``None``: any, because a kernel may follow pointers that it finds."""

StridedRange = tuple[Address, int, tuple[tuple[int, int], ...]]
"""``(address, width, ((count, stride), ...))``: ``width`` bytes at ``address + sum of index * stride``, for every index
below each count. No pairs: one run. Strides are positive, the first pair's is the largest."""

Runs = np.ndarray
"""``int64`` of shape (n, 2): first byte and the one after the last, sorted, no two overlapping or touching."""


class Touched(NamedTuple):
    """The very bytes that an operation reads and writes, as ranges or as runs."""

    reads: tuple[StridedRange, ...] | Runs = ()
    writes: tuple[StridedRange, ...] | Runs = ()
    atomics: tuple[StridedRange, ...] | Runs = ()
    """Changed by atomics only, which see each other."""


NOTHING = Touched()


def overlap(one: Reach, other: Reach) -> bool:
    """May the two touch a common byte?"""
    if one is None or other is None:
        return one != () and other != ()
    if not one or not other:
        return False
    if len(one) * len(other) <= 16:
        return any(a < b + m and b < a + n for a, n in one for b, m in other)
    spans = sorted((start, start + size, side) for side, ranges in enumerate((one, other)) for start, size in ranges)
    ends = [0, 0]
    for start, end, side in spans:
        if start < ends[1 - side] and start < end:
            return True
        ends[side] = max(ends[side], end)
    return False


def run(address: int, size: int) -> StridedRange:
    """One run of ``size`` bytes."""
    return address, size, ()


def strided_range(address: int, width: int, shape: Sequence[int], strides: Sequence[int]) -> StridedRange:
    """Elements of ``width`` bytes in an array of ``shape`` with ``strides`` (bytes, of any sign); (address, 0, ()) when
    the array is empty."""
    pairs = []
    for count, stride in zip(shape, strides, strict=True):
        if count == 0:
            return address, 0, ()
        if count == 1 or stride == 0:
            continue
        if stride < 0:
            address += (count - 1) * stride
        pairs.append((count, abs(stride)))
    pairs.sort(key=lambda pair: -pair[1])
    while pairs and pairs[-1][1] <= width:  # neighbours touch: one wider element
        count, stride = pairs.pop()
        width += (count - 1) * stride
    for index in range(len(pairs) - 1, 0, -1):  # two dimensions that continue each other are one
        (outer, pitch), (inner, stride) = pairs[index - 1], pairs[index]
        if pitch == inner * stride:
            pairs[index - 1 : index + 1] = [(outer * inner, stride)]
    return address, width, tuple(pairs)


def end_of(entry: StridedRange) -> int:
    """The byte after the last one."""
    address, width, pairs = entry
    return address + sum((count - 1) * stride for count, stride in pairs) + width


def runs_of(entry: StridedRange) -> Runs:
    """The extent spelt out."""
    address, width, pairs = entry
    if not width:
        return np.empty((0, 2), np.int64)
    starts = np.array([address], np.int64)
    for count, stride in pairs:
        starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
    return merged(np.stack([starts, starts + width], axis=1))


def runs_between(spans: np.ndarray) -> Runs:
    """Rows of ``(address, bytes)`` as rows of ``(first, end)``."""
    runs = spans.astype(np.int64)
    runs[:, 1] += runs[:, 0]
    return runs


def merged(runs: Runs) -> Runs:
    """``runs`` sorted, those that overlap or touch made one."""
    if len(runs) < 2:
        return runs
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    ends = np.maximum.accumulate(runs[:, 1])
    first = np.ones(len(runs), bool)
    first[1:] = runs[1:, 0] > ends[:-1]
    last = np.append(np.flatnonzero(first)[1:] - 1, len(runs) - 1)
    return np.stack([runs[first, 0], ends[last]], axis=1)


def common(one: Runs, other: Runs) -> tuple[int, int, int]:
    """``(first, end, bytes)`` of what both touch; (0, 0, 0) when they have no byte in common."""
    if len(one) > len(other):
        one, other = other, one
    if not len(one):
        return 0, 0, 0
    low = np.searchsorted(other[:, 1], one[:, 0], "right")  # the first of `other` that ends behind the start
    high = np.searchsorted(other[:, 0], one[:, 1], "left")  # the first that begins at the end or later
    hit = np.flatnonzero(high > low)
    if not len(hit):
        return 0, 0, 0
    first = last = total = 0
    # bytes below an address that `other` touches: the difference over a run of `one` is what they share
    sizes = np.concatenate([[0], np.cumsum(other[:, 1] - other[:, 0])])
    starts, ends = one[hit, 0], one[hit, 1]
    left, right = low[hit], high[hit] - 1
    over_left = np.maximum(starts - other[left, 0], 0)
    over_right = np.maximum(other[right, 1] - ends, 0)
    total = int((sizes[right + 1] - sizes[left] - over_left - over_right).sum())
    first = int(max(starts[0], other[left[0], 0]))
    last = int(min(ends[-1], other[right[-1], 1]))
    return first, last, total
