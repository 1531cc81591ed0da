"""Unique values and medians are those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.arrays import counted_values, median, unique_values

ARRAYS = [
    np.zeros(0, np.uint64),
    np.array([7], np.int64),
    np.array([3, 1, 3, 2, 1], np.uint64),
    np.array([[2, 1], [1, -5]], np.int32),
    np.array([2**64 - 1, 0, 2**63], np.uint64),
    np.random.default_rng(1).integers(0, 500, 1000),
]


@pytest.mark.parametrize("values", ARRAYS, ids=lambda values: f"{values.dtype} {values.shape}")
def test_unique_values(values: np.ndarray) -> None:
    found, expected = unique_values(values), np.unique(values)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 999, 1000])
def test_median(count: int) -> None:
    values = np.random.default_rng(count).random(count)
    assert median(values) == np.median(values)
    assert median((values * 100).astype(np.int64)) == np.median((values * 100).astype(np.int64))


@pytest.mark.parametrize("limit", [500, 1 << 40])
def test_counted_values(limit: int) -> None:
    values = np.random.default_rng(2).integers(0, 500, 1000)
    for found, expected in zip(counted_values(values, limit), np.unique(values, return_counts=True), strict=True):
        np.testing.assert_array_equal(found, expected)
