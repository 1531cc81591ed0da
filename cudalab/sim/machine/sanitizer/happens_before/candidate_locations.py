"""Locations at which a launch can have a conflict: array operations over its whole trace.

Vector clocks take a step of Python for each record, and most accesses of most kernels need none: nobody else touches
the location, nobody writes it, all accesses are strong and of the device's scope, or barriers of the whole block lie
between. What is left are flags that are set and polled, the data that they protect, and mistakes.

An asynchronous copy counts as an access of its own in each epoch from where its thread started it to where that thread
has waited for it; to the end of the block, if it waits in another way than for groups of copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cudalab.sim.abi import CLUSTER_END, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE, SiteKind, SyncEvent
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.compiler.semantics import Scope
from cudalab.sim.machine.sanitizer.memory_model import ordering_of
from cudalab.sim.machine.trace.batch import whole_block
from cudalab.sim.machine.trace.grouping import compact, count_before, group, marked, value_range


@dataclass(frozen=True)
class Candidates:
    """Of one block, sorted addresses of locations."""

    conflicting: np.ndarray
    """Those at which a conflict is possible: their accesses are checked."""
    shared: np.ndarray
    """Those that other threads touch, too: only there can a thread release something that another acquires."""


_MOST = 1 << 24
"""Accesses of a launch with copies, each counted in every epoch and location; memory for half a gigabyte."""
_COPIES = (int(SyncEvent.ASYNC_READ), int(SyncEvent.ASYNC_WRITE))


def candidate_locations(
    parts: Sequence[tuple[int, np.ndarray]],
    kernel: Kernel,
    threads: int,
    unit: int,
    weak_memory: Sequence[tuple[int, int]] = (),
) -> dict[int, Candidates] | None:
    """The locations of each block that have to be followed by vector clocks.

    Args:
        parts: blocks and their records (``batch.TIMED``), in the order in which it all happened. No clusters.
        kernel: the kernel.
        threads: threads a block.
        unit: bytes of a location; all accesses are aligned to it.
        weak_memory: from an address up to another: accesses to it count as weak.

    Returns:
        None where asynchronous copies stay under way for too long: then everything has to be followed.
    """
    records = np.concatenate([part for _, part in parts])
    event = records["flags"] & 15
    blocks, number = np.unique([block for block, _ in parts], return_inverse=True)
    block = np.repeat(number.astype(np.int64), [len(part) for _, part in parts])
    site = records["site"].astype(np.int64)
    kinds = np.array([int(site.kind) for site in kernel.sites])
    address = records["address"].astype(np.int64)
    thread = records["thread"].astype(np.int64)
    is_barrier = np.array([site.kind == SiteKind.BARRIER for site in kernel.sites])
    arrives = np.array([site.semantics.arrives for site in kernel.sites])
    barrier = is_barrier[site] & (event == 0)
    epoch = _barrier_epochs(records, block, thread, barrier, barrier & arrives[site], len(blocks), threads)

    copies = np.isin(event, _COPIES)
    access = (kinds[site] <= SiteKind.ATOMIC) & (event == 0) | copies
    access &= (address < LOCAL_WINDOW) | (address >= LOCAL_WINDOW + WINDOW_SIZE)
    chosen = np.flatnonzero(access)
    size = np.array([max(1, site.size) for site in kernel.sites], np.int64)[site]
    extents = np.flatnonzero(event[1:] == SyncEvent.EXTENT) + 1
    size[extents - 1] = address[extents]
    if copies.any():
        last = _last_epochs(records, event, block * threads + thread, epoch, block)
        epochs = (last - epoch)[chosen] + 1
        if int((epochs * np.maximum(1, size[chosen] // unit)).sum()) > _MOST:
            return None
        first = np.cumsum(epochs) - epochs
        chosen = np.repeat(chosen, epochs)
        own_epoch = epoch[chosen] + np.arange(len(chosen)) - np.repeat(first, epochs)
    else:
        own_epoch = epoch[chosen]
    pieces = np.maximum(1, size[chosen] // unit)
    start = np.cumsum(pieces) - pieces
    location = np.repeat(address[chosen] // unit - start, pieces) + np.arange(int(pieces.sum()))
    chosen, own_epoch = np.repeat(chosen, pieces), np.repeat(own_epoch, pieces)

    in_shared = (address[chosen] >= SHARED_WINDOW) & (address[chosen] < CLUSTER_END)
    owner = np.where(in_shared, block[chosen] + 1, 0)
    units, _ = compact(location)
    key, bound = group([owner, units])
    agent = (2 * block[chosen] + copies[chosen]) * threads + thread[chosen]
    writes = np.where(copies, event == SyncEvent.ASYNC_WRITE, kinds[site] != SiteKind.LOAD)[chosen]
    ordering = [ordering_of(site) for site in kernel.sites]
    not_device_wide = np.array([not (each.strong and each.scope == Scope.DEVICE) for each in ordering])
    weak = not_device_wide[site[chosen]] | in_shared | copies[chosen]
    for begin, end in weak_memory:
        weak |= (address[chosen] >= begin) & (address[chosen] < end)
    shared = _differ(key, bound, agent)
    possible = shared & marked(key, bound, writes) & marked(key, bound, weak)
    between_blocks = _differ(key, bound, block[chosen])

    inside = np.flatnonzero(possible[key] & ~between_blocks[key])
    key_in_epoch, most = group([key[inside], own_epoch[inside]])
    concurrent = _differ(key_in_epoch, most, agent[inside]) & marked(key_in_epoch, most, writes[inside])
    conflicting = possible & between_blocks
    conflicting[key[inside[concurrent[key_in_epoch]]]] = True

    found = [
        _by_block(location[which[key]] * unit, block[chosen[which[key]]], len(blocks))
        for which in (conflicting, shared)
    ]
    return {int(each): Candidates(*pair) for each, pair in zip(blocks, zip(*found, strict=True), strict=True)}


def _last_epochs(
    records: np.ndarray, event: np.ndarray, owner: np.ndarray, epoch: np.ndarray, block: np.ndarray
) -> np.ndarray:
    """The epoch in which each record's access is sure to be over: for a copy the one in which its thread has waited for
    its group (numbers are modulo 4096), or the block's last."""
    last = epoch.copy()
    end = np.zeros(int(block.max()) + 1, np.int64)
    np.maximum.at(end, block, epoch)
    under_way: dict[int, list[tuple[int, int]]] = {}
    at = np.flatnonzero(np.isin(event, (*_COPIES, int(SyncEvent.ASYNC_WAIT))))
    rows = zip(at.tolist(), owner[at].tolist(), event[at].tolist(), (records["flags"][at] >> 4).tolist(), strict=True)
    for index, thread, kind, number in rows:
        started = under_way.setdefault(thread, [])
        if kind != SyncEvent.ASYNC_WAIT:
            started.append((number, index))
            continue
        over = [copy for group_, copy in started if (number - group_) & 0xFFF < 0x800]
        last[over] = epoch[index]
        under_way[thread] = [entry for entry in started if (number - entry[0]) & 0xFFF >= 0x800]
    never = [copy for started in under_way.values() for _, copy in started]
    last[never] = end[block[never]]
    return last


def _by_block(address: np.ndarray, block: np.ndarray, blocks: int) -> list[np.ndarray]:
    """The different addresses of each block, sorted."""
    order = np.lexsort((address, block))
    address, block = address[order], block[order]
    new = np.concatenate(([True], (address[1:] != address[:-1]) | (block[1:] != block[:-1])))[: len(address)]
    address, block = address[new], block[new]
    return np.split(address, np.searchsorted(block, np.arange(1, blocks)))


def _differ(key: np.ndarray, bound: int, values: np.ndarray) -> np.ndarray:
    """For each key: are there two values?"""
    low, high = value_range(key, bound, values)
    found: np.ndarray = low < high
    return found


def _barrier_epochs(
    records: np.ndarray,
    block: np.ndarray,
    thread: np.ndarray,
    barrier: np.ndarray,
    arrives: np.ndarray,
    blocks: int,
    threads: int,
) -> np.ndarray:
    """How many barriers of the whole block each record's thread has passed; 0 in blocks that have other barriers, or
    whose threads do not all pass the same number."""
    if not barrier.any():
        return np.zeros(len(records), np.int64)
    owner = block * threads + thread
    (epoch,) = count_before(owner, blocks * threads, [barrier])
    whole = whole_block(records["address"], threads)
    passed = np.bincount(owner[barrier], minlength=blocks * threads).reshape(blocks, threads)
    regular = (passed == passed[:, :1]).all(axis=1)
    regular[block[(barrier & ~whole) | arrives]] = False
    return np.where(regular[block], epoch, 0)
