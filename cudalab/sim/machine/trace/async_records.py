"""Asynchronous copies in a trace, as the counters read them.

A copy is one record at each end, and behind it another one with its bytes (``SyncEvent.EXTENT``). Nsight Compute counts
``cp.async`` (LDGSTS) as a request to global memory and a store to shared memory, as if each thread moved its bytes by
itself, and so it is counted here. Bulk copies go past the load and store units of an SM; here they count as one request
for each sector of global memory, and each wavefront of shared memory, that they touch.
"""

from __future__ import annotations

import numpy as np

from cudalab.sim.abi import LOCAL_WINDOW, SECTOR, WARP, WINDOW_SIZE, SyncEvent
from cudalab.sim.arrays import unique_values

_WAVEFRONT = 128
_UNIT = 16
"""Bytes up to which a copy is that of one thread."""
_KIND = 15


def as_accesses(records: np.ndarray) -> np.ndarray:
    """Records of a block without those that only tell of order, or how many bytes a copy has: larger copies are many
    records instead."""
    event = records["flags"] & _KIND
    extents = np.flatnonzero(event == SyncEvent.EXTENT)
    if not len(extents):
        return records
    accesses = (SyncEvent.NONE, SyncEvent.ASYNC_READ, SyncEvent.ASYNC_WRITE)
    times = np.isin(event, accesses).astype(np.int64)
    step = np.zeros(len(records), np.uint64)
    copies = extents - 1
    start, size = records["address"][copies], records["address"][extents]
    device = start >= np.uint64(LOCAL_WINDOW + WINDOW_SIZE)
    piece = np.where(device, np.uint64(SECTOR), np.uint64(_WAVEFRONT))
    pieces = ((start + size - np.uint64(1)) // piece - start // piece + np.uint64(1)).astype(np.int64)
    bulk = size > np.uint64(_UNIT)
    times[copies[bulk]] = pieces[bulk]
    step[copies] = piece
    made = np.repeat(records, times)
    number = np.arange(len(made)) - np.repeat(np.cumsum(times) - times, times)
    later = number > 0
    by = np.repeat(step, times)[later]
    made["address"][later] = (made["address"][later] // by + number[later].astype(np.uint64)) * by
    return made


def waits_for_copies(records: np.ndarray) -> frozenset[int]:
    """Sites of waits for barrier objects that copies were announced to, in the records of a block."""
    event = records["flags"] & _KIND
    told = unique_values(records["address"][event == SyncEvent.ASYNC_ARRIVE])
    waits = (event == SyncEvent.WAIT) & np.isin(records["address"], told)
    return frozenset(unique_values(records["site"][waits]).tolist())


def separate_copies(visit: np.ndarray, site: np.ndarray, thread: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """Number the visits of asynchronous copies anew where one visit of a thread has made several records.

    Args:
        visit: which visit of its site each record belongs to, among those of its warp.
        site, thread: of each record.
        copies: bool[sites]: sites of asynchronous copies.
    """
    chosen = np.flatnonzero(copies[site])
    if not len(chosen):
        return visit
    warp = thread[chosen] // WARP
    order = np.lexsort((thread[chosen], visit[chosen], warp, site[chosen]))
    ordered = chosen[order]
    keys = np.stack([site[ordered], thread[ordered] // WARP, visit[ordered], thread[ordered]])
    fresh = np.concatenate(([True], (keys[:, 1:] != keys[:, :-1]).any(axis=0)))
    place = np.arange(len(ordered))
    piece = place - np.maximum.accumulate(np.where(fresh, place, 0))
    request, number = np.unique(np.stack([keys[0], keys[1], keys[2], piece]), axis=1, return_inverse=True)
    first = np.concatenate(([True], (request[:2, 1:] != request[:2, :-1]).any(axis=0)))
    at = np.arange(request.shape[1])
    rank = at - np.maximum.accumulate(np.where(first, at, 0))
    made = visit.copy()
    made[ordered] = rank[number.reshape(-1)]
    return made
