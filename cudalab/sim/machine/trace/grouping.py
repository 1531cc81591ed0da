"""Groups records with equal keys by tables instead of sorting.

A launch makes millions of records. Sorting them by block, time and address costs more than running the kernel; most
keys are small numbers, or addresses close to each other, so a table indexed by the key does the same in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cudalab.sim.machine.trace.requests import stable_order

_PAGE_BITS = 10
_MOST_PAGES = 1 << 26
_LARGEST_TABLE = 1 << 23


def compact(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Renumber scattered values: equal ones get equal numbers, below the bound that is returned.

    Values in the same stretch of 1024 stay neighbours, so addresses of a few arrays become a short range.
    """
    if not len(values):
        return values.astype(np.int64), 0
    low = int(values.min())
    page = (values - low) >> _PAGE_BITS
    pages = int(page.max()) + 1
    if pages > _MOST_PAGES:
        known, numbers = np.unique(values, return_inverse=True)
        return numbers.astype(np.int64), len(known)
    used = np.zeros(pages, np.bool_)
    used[page] = True
    number = np.cumsum(used) - 1
    inside = (values - low) & ((1 << _PAGE_BITS) - 1)
    return (number[page] << _PAGE_BITS) | inside, (int(number[-1]) + 1) << _PAGE_BITS


def group(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, int]:
    """Number the combinations of the columns' values (each small and not negative), below the bound returned."""
    key = np.zeros(len(columns[0]), np.int64)
    bound = 1
    for column in columns:
        if not len(column):
            return key, 0
        width = int(column.max()) + 1
        if bound * width > max(_LARGEST_TABLE, 8 * len(key)):
            known, key = np.unique(key, return_inverse=True)
            bound = len(known)
        key, bound = key * width + column, bound * width
    if bound > max(_LARGEST_TABLE, 8 * len(key)):
        known, key = np.unique(key, return_inverse=True)
        bound = len(known)
    return key, bound


def value_range(key: np.ndarray, bound: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest value of each group; (largest int64, -1) for groups without members."""
    low, high = np.full(bound, np.iinfo(np.int64).max), np.full(bound, -1)
    np.minimum.at(low, key, values)
    np.maximum.at(high, key, values)
    return low, high


def marked(key: np.ndarray, bound: int, chosen: np.ndarray) -> np.ndarray:
    """bool[bound]: groups with a chosen member."""
    out = np.zeros(bound, np.bool_)
    out[key[chosen]] = True
    return out


def count_before(owner: np.ndarray, bound: int, events: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For each record and each kind of event (bool[records]): how many events of the record's owner come before it."""
    order = stable_order(owner, bound)
    ordered = owner[order]
    starts = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(order)]
    first = np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))
    found = []
    for event in events:
        count = np.zeros(len(order), np.int64)
        if event.any():
            running = np.cumsum(event[order]) - event[order]
            count[order] = running - running[first]
        found.append(count)
    return found


def first_and_last(key: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """Index of the first and the last member of each group; -1 for groups without members."""
    first, last = np.full(bound, -1), np.full(bound, -1)
    index = np.arange(len(key))
    last[key] = index  # of equal keys the last assignment stays
    first[key[::-1]] = index[::-1]
    return first, last
