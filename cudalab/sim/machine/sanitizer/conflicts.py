"""Which places a launch's threads may have a conflict over: array operations over its whole trace.

Vector clocks (``order.py``) look at one record after the other. Most accesses of most kernels need none of that: nobody
else touches the place, nobody writes it, all accesses are atomics or the like of the device's scope, or the barriers of
the whole block lie between. What is left are flags that are set and polled, what they protect, and mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cudalab.sim.abi import CLUSTER_END, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE, SiteKind, SyncEvent
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.machine.counters.requests import stable_order
from cudalab.sim.machine.sanitizer.scopes import DEVICE_SCOPE, meaning
from cudalab.sim.machine.trace.grouping import compact, group, marked, spread


@dataclass(frozen=True)
class Places:
    """Of one block, sorted addresses of units."""

    contested: np.ndarray
    """Those that its accesses are to be looked at for."""
    met: np.ndarray
    """Those that others touch, too: only there can threads tell each other something."""


_COPIES = (int(SyncEvent.ASYNC_READ), int(SyncEvent.ASYNC_WRITE))


def contested_places(
    parts: Sequence[tuple[int, np.ndarray]], kernel: Kernel, threads: int, unit: int
) -> dict[int, Places] | None:
    """For each block the places that are to be looked at.

    Args:
        parts: blocks and their records (``batch.TIMED``), in the order in which it all happened. No clusters.
        kernel: the kernel.
        threads: threads a block.
        unit: bytes of a place; all accesses are aligned to it.

    Returns:
        None where copies go on beside the threads: then everything is to be looked at.
    """
    records = np.concatenate([part for _, part in parts])
    event = records["flags"] & 15
    if np.isin(event, _COPIES).any():
        return None
    blocks, number = np.unique([block for block, _ in parts], return_inverse=True)
    block = np.repeat(number.astype(np.int64), [len(part) for _, part in parts])
    site = records["site"].astype(np.int64)
    kinds = np.array([int(site.kind) for site in kernel.sites])
    address = records["address"].astype(np.int64)
    thread = records["thread"].astype(np.int64)
    passes = np.array([site.kind == SiteKind.BARRIER for site in kernel.sites])
    arrives = np.array([site.semantics.arrives for site in kernel.sites])
    barrier = passes[site] & (event == 0)
    epoch = _epochs(records, block, thread, barrier, barrier & arrives[site], len(blocks), threads)

    at = (kinds[site] <= SiteKind.ATOMIC) & (event == 0)
    at &= (address < LOCAL_WINDOW) | (address >= LOCAL_WINDOW + WINDOW_SIZE)
    chosen = np.flatnonzero(at)
    sizes = np.array([max(1, site.size) for site in kernel.sites], np.int64)[site[chosen]]
    pieces = np.maximum(1, sizes // unit)
    start = np.cumsum(pieces) - pieces
    place = np.repeat(address[chosen] // unit - start, pieces) + np.arange(int(pieces.sum()))
    chosen = np.repeat(chosen, pieces)

    shared = (address[chosen] >= SHARED_WINDOW) & (address[chosen] < CLUSTER_END)
    home = np.where(shared, block[chosen] + 1, 0)
    units, _ = compact(place)
    key, bound = group([home, units])
    agent = block[chosen] * threads + thread[chosen]
    writes = kinds[site[chosen]] != SiteKind.LOAD
    means = [meaning(site) for site in kernel.sites]
    weak = np.array([not (each.strong and each.scope == DEVICE_SCOPE) for each in means])[site[chosen]] | shared
    met = _differ(key, bound, agent)
    several = met & marked(key, bound, writes) & marked(key, bound, weak)
    between = _differ(key, bound, block[chosen])

    left = np.flatnonzero(several[key] & ~between[key])
    since, most = group([key[left], epoch[chosen[left]]])
    apart = _differ(since, most, agent[left]) & marked(since, most, writes[left])
    contested = several & between
    contested[key[left[apart[since]]]] = True

    found = [_by_block(place[which[key]] * unit, block[chosen[which[key]]], len(blocks)) for which in (contested, met)]
    return {int(each): Places(*pair) for each, pair in zip(blocks, zip(*found, strict=True), strict=True)}


def _by_block(address: np.ndarray, block: np.ndarray, blocks: int) -> list[np.ndarray]:
    """The different addresses of each block, sorted."""
    order = np.lexsort((address, block))
    address, block = address[order], block[order]
    new = np.concatenate(([True], (address[1:] != address[:-1]) | (block[1:] != block[:-1])))[: len(address)]
    address, block = address[new], block[new]
    return np.split(address, np.searchsorted(block, np.arange(1, blocks)))


def _differ(key: np.ndarray, bound: int, values: np.ndarray) -> np.ndarray:
    """For each key: are there two values?"""
    low, high = spread(key, bound, values)
    return low < high


def _epochs(
    records: np.ndarray,
    block: np.ndarray,
    thread: np.ndarray,
    barrier: np.ndarray,
    arrives: np.ndarray,
    blocks: int,
    threads: int,
) -> np.ndarray:
    """How many barriers of the whole block each record's thread has passed; 0 in blocks with other barriers, or whose
    threads do not pass them all."""
    epoch = np.zeros(len(records), np.int64)
    if not barrier.any():
        return epoch
    owner = block * threads + thread
    order = stable_order(owner, blocks * threads)
    ordered = owner[order]
    starts = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    begin = np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))
    counted = np.cumsum(barrier[order]) - barrier[order]
    epoch[order] = counted - counted[begin]
    asked = records["address"] >> np.uint64(32)
    whole = ((records["address"] & np.uint64(0xFFFF_FFFF)) == 0) & ((asked == 0) | (asked == threads))
    passed = np.bincount(owner[barrier], minlength=blocks * threads).reshape(blocks, threads)
    plain = (passed == passed[:, :1]).all(axis=1)
    plain[block[(barrier & ~whole) | arrives]] = False
    return np.where(plain[block], epoch, 0)


def repeated(records: np.ndarray, looks: np.ndarray) -> np.ndarray:
    """Indices of looks at a flag that are followed by the same look of the same thread: of a thread that polls, the
    last look counts; of fences with nothing between, too. ``looks``: which sites are such."""
    order = np.argsort(records["thread"], kind="stable")
    own = records[order]
    same = np.ones(max(0, len(own) - 1), np.bool_)
    for name in ("thread", "site", "address", "flags"):
        same &= own[name][1:] == own[name][:-1]
    return order[:-1][same & looks[own["site"][:-1]]]


def whole_barriers(
    records: np.ndarray, chosen: np.ndarray, is_barrier: np.ndarray, arrivals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where all threads of the block arrive at its barrier, one directly after the other, one record stands for
    all. Returns the indices that are left of ``chosen``, and which of them stand for all.

    ``is_barrier``: which sites are barriers; ``arrivals``: how often each thread has come to the barrier of
    the whole block so far, which is counted on here."""
    whole = np.zeros(len(chosen), np.bool_)
    threads = len(arrivals)
    asked = records["address"] >> np.uint64(32)
    plain = is_barrier[records["site"]] & (records["flags"] == 0)
    plain &= ((records["address"] & np.uint64(0xFFFF_FFFF)) == 0) & ((asked == 0) | (asked == threads))
    at = np.flatnonzero(plain)
    thread = records["thread"][at].astype(np.int64)
    before = arrivals.copy()
    arrivals += np.bincount(thread, minlength=threads)
    if threads == 1 or len(at) < threads:
        return chosen, whole
    # The run of a barrier's arrivals may begin in the middle of one and end in the middle of the next.
    number = np.zeros(len(chosen), np.int64)
    order = np.argsort(thread, kind="stable")
    starts = np.searchsorted(thread[order], np.arange(threads))
    number[at[order]] = np.arange(len(at)) - starts[thread[order]] + before[thread[order]]
    keep = np.ones(len(chosen), np.bool_)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], plain.view(np.int8), [0]))))
    for begin, end in edges.reshape(-1, 2).tolist():
        for first in range(begin, end - threads + 1, threads):
            run = slice(first, first + threads)
            if len(np.unique(records["thread"][run])) != threads or np.ptp(number[run]):
                break
            whole[first] = True
            keep[first + 1 : first + threads] = False
    return chosen[keep], whole[keep]
