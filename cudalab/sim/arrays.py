"""Two functions of NumPy's, without what it imports for them.

``numpy.unique``, asked for nothing but the values, and ``numpy.median`` import ``numpy.ma``, a third of what the first
launch of a process takes. ``numpy.unique`` then hashes, which takes 2 µs for each of many millions. What is sorted here
mostly consists of ascending runs, as addresses of threads in a row do; a stable sort merges them.
"""

from __future__ import annotations

import numpy as np


def unique_values(values: np.ndarray) -> np.ndarray:
    """The values in ascending order, each once, as one dimension. None of them is a NaN."""
    few = _without_repetitions(values.ravel())  # neighbours are often equal: less is left to sort
    return _without_repetitions(np.sort(few, kind="stable"))


def counted_values(values: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """The values in ascending order, each once, and how often each is there. They are whole numbers from 0 on, below
    ``limit``."""
    if limit > 4 * len(values):
        found, times = np.unique(values, return_counts=True)
        return found, times
    times = np.bincount(values, minlength=1)
    found = np.flatnonzero(times)  # where they are dense, nothing need be sorted
    return found, times[found]


def _without_repetitions(values: np.ndarray) -> np.ndarray:
    keep = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=keep[1:])
    return values[keep]


def median(values: np.ndarray) -> float:
    """The median of at least one value, in one dimension, none of which is a NaN."""
    middle = (len(values) - 1) // 2, len(values) // 2
    return float(np.partition(values, middle)[list(middle)].mean())
