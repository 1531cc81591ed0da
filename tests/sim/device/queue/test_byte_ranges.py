"""Extents and runs against sets of bytes."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalab.sim.device.queue.byte_ranges import (
    common,
    end_of,
    merged,
    runs_between,
    runs_of,
    strided_range,
)
from cudalab.sim.device.queue.copy_region import CopyRegion

EXAMPLES = settings(max_examples=200, deadline=None)


def bytes_in(runs):
    return {byte for start, end in runs.tolist() for byte in range(start, end)}


spans = st.lists(st.tuples(st.integers(0, 120), st.integers(1, 20)), max_size=8)


@EXAMPLES
@given(spans, spans)
def test_common_bytes(one, other):
    one, other = (merged(runs_between(np.array(s, np.uint64).reshape(-1, 2))) for s in (one, other))
    both = bytes_in(one) & bytes_in(other)
    first, last, size = common(one, other)
    assert size == len(both)
    assert not both or (first, last) == (min(both), max(both) + 1)


@EXAMPLES
@given(spans)
def test_merged_runs_are_sorted_and_apart(ranges):
    runs = merged(runs_between(np.array(ranges, np.uint64).reshape(-1, 2)))
    assert bytes_in(runs) == {byte for start, size in ranges for byte in range(start, start + size)}
    assert (runs[1:, 0] > runs[:-1, 1]).all()


@EXAMPLES
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-40, 40)), max_size=3),
    st.integers(1, 8),
)
def test_an_extent_of_any_array_is_its_bytes(dimensions, width):
    shape, strides = [n for n, _ in dimensions], [stride for _, stride in dimensions]
    expected = set()
    for index in np.ndindex(*shape):
        start = 1000 + sum(i * stride for i, stride in zip(index, strides, strict=True))
        expected.update(range(start, start + width))
    entry = strided_range(1000, width, shape, strides)
    runs = runs_of(entry)
    assert bytes_in(runs) == expected
    assert len(runs) <= math.prod(count for count, _ in entry[2])
    assert not expected or (entry[0], end_of(entry)) == (min(expected), max(expected) + 1)


def test_contiguous_arrays_are_one_run():
    assert strided_range(0, 4, (3, 5, 7), (140, 28, 4)) == (0, 420, ())
    assert strided_range(0, 4, (6, 4), (64, 4)) == (0, 16, ((6, 64),))
    assert strided_range(0, 4, (2, 3, 4), (192, 64, 4)) == (0, 16, ((6, 64),))


def test_regions_give_their_rows():
    assert CopyRegion(100, 8, 3, 2, 16, 64).strided_range() == (100, 8, ((2, 64), (3, 16)))
    assert CopyRegion(100, 16, 4, 1, 16).strided_range() == (100, 64, ())
    assert CopyRegion(100, 16).strided_range() == (100, 16, ())
