"""Barriers and warp operations that not all threads reach as they must.

CUDA C++ Programming Guide: ``__syncthreads()`` "is allowed in conditional code but only if the conditional evaluates
identically across the entire thread block"; each lane that calls ``__syncwarp(mask)`` or a shuffle must be named in
its own mask. Hardware since Volta counts exited threads as arrived and does not tell two barriers apart, so such code
often runs, with threads waiting for each other at different places. The rule is checked, not the luck. Lanes that name
each other in their masks and do not meet are in ``meetings.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cudalab.sim.abi import WARP, SiteKind, SyncEvent
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.machine.sanitizer.mask_mismatch import Disagreement, find_disagreements
from cudalab.sim.machine.trace.batch import Batch


@dataclass(frozen=True)
class SyncError:
    """A barrier or warp operation used against its rule."""

    rule: str
    """``"divergent barrier"``, ``"barrier after exit"``, ``"lane not in mask"``, ``"mask mismatch"`` or ``"invalid
    barrier"``."""
    site: int
    other_site: int
    """Where the other threads were: another barrier, or -1."""
    block: int
    thread: int
    """A thread at `site`."""
    arrived: int
    """Threads that came to `site`; for a mask, the mask; for an invalid barrier, the ``SyncRule``."""
    count: int = 1
    meeting: Disagreement | None = None
    """For a mask mismatch: who was where."""


def find_sync_errors(batch: Batch, kernel: Kernel, threads: int) -> list[SyncError]:
    """Barrier and mask errors in the finished blocks of a batch. ``threads``: of a block."""
    masks = _mask_errors(batch, kernel) or _mismatches(batch, kernel)
    return _barrier_errors(batch, threads) + masks + _invalid(batch)


def _barrier_errors(batch: Batch, threads: int) -> list[SyncError]:
    """Only barriers of the whole block: those with a number are for the threads that they count."""
    number, asked = batch.address & np.uint64(0xFFFF_FFFF), batch.address >> np.uint64(32)
    whole = (batch.kind == SiteKind.BARRIER) & (number == 0) & ((asked == 0) | (asked == threads))
    at = np.flatnonzero(whole & batch.finished[batch.block])
    if not len(at):
        return []
    passed = _passed(batch, at)
    epochs = int(passed.max()) + 1
    key = batch.block[at] * epochs + passed
    places = len(batch.blocks) * epochs
    arrived = np.bincount(key, minlength=places)
    low, high = np.full(places, np.iinfo(np.int64).max), np.full(places, -1)
    np.minimum.at(low, key, batch.site[at])
    np.maximum.at(high, key, batch.site[at])
    errors: dict[tuple[str, int, int], list[SyncError]] = {}
    for place in np.flatnonzero((arrived > 0) & ((arrived < batch.threads) | (low != high))):
        mine = at[key == place] if len(at) < 1 << 16 else at[np.flatnonzero(key == place)]
        rule = "divergent barrier" if low[place] != high[place] else "barrier after exit"
        site = int(low[place])
        here = mine[batch.site[mine] == site]
        other = int(high[place]) if low[place] != high[place] else -1
        error = SyncError(rule, site, other, int(batch.blocks[place // epochs]), int(batch.thread[here[0]]), len(here))
        errors.setdefault((rule, site, other), []).append(error)
        if len(errors) > 64:
            break
    return [_counted(found) for found in errors.values()]


def _passed(batch: Batch, at: np.ndarray) -> np.ndarray:
    """How many of the records ``at`` come before each of them in its thread."""
    owner = batch.block[at] * batch.threads + batch.thread[at]
    order = np.lexsort((batch.step[at], owner))
    ordered = owner[order]
    starts = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    begin = np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))
    passed = np.empty(len(order), np.int64)
    passed[order] = np.arange(len(order)) - begin
    return passed


def _invalid(batch: Batch) -> list[SyncError]:
    """Objects used against their rules, as the code that uses them noted."""
    at = np.flatnonzero(batch.event == SyncEvent.INVALID)
    if not len(at):
        return []
    pairs = np.stack([batch.site[at], batch.number[at]], axis=1)
    _, example, count = np.unique(pairs, axis=0, return_index=True, return_counts=True)
    return [
        SyncError(
            "invalid barrier",
            int(batch.site[at[i]]),
            -1,
            int(batch.blocks[batch.block[at[i]]]),
            int(batch.thread[at[i]]),
            int(batch.number[at[i]]),
            int(n),
        )
        for i, n in zip(example, count, strict=True)
    ]


def _counted(found: list[SyncError]) -> SyncError:
    first = found[0]
    return SyncError(first.rule, first.site, first.other_site, first.block, first.thread, first.arrived, len(found))


def _mask_errors(batch: Batch, kernel: Kernel) -> list[SyncError]:
    waits = np.array([s.synchronises_lanes for s in kernel.sites])
    if not waits.any():
        return []
    at = np.flatnonzero(waits[batch.site] & (batch.event == 0))
    mask = batch.address[at].astype(np.int64) & 0xFFFF_FFFF
    wrong = at[(mask >> (batch.thread[at] % WARP)) & 1 == 0]
    if not len(wrong):
        return []
    sites, example, count = np.unique(batch.site[wrong], return_index=True, return_counts=True)
    return [
        SyncError(
            "lane not in mask",
            int(site),
            -1,
            int(batch.blocks[batch.block[wrong[i]]]),
            int(batch.thread[wrong[i]]),
            int(batch.address[wrong[i]]) & 0xFFFF_FFFF,
            int(n),
        )
        for site, i, n in zip(sites, example, count, strict=True)
    ]


def _mismatches(batch: Batch, kernel: Kernel) -> list[SyncError]:
    """Lanes that named others in vain: one for each pair of places, with the number of meetings."""
    pairs: dict[tuple[int, int], list[Disagreement]] = {}
    for each in find_disagreements(batch, kernel):
        pairs.setdefault((each.site, each.other_site), []).append(each)
    return [
        SyncError(
            "mask mismatch", site, other, found[0].block, found[0].thread, found[0].mask, len(found), meeting=found[0]
        )
        for (site, other), found in pairs.items()
    ]
