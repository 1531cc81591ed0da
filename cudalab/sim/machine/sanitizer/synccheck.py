"""synccheck: barriers and warp operations that not all threads reach as they must.

CUDA C++ Programming Guide: ``__syncthreads()`` "is allowed in conditional code but only if the conditional evaluates
identically across the entire thread block"; each lane that calls ``__syncwarp(mask)`` or a shuffle must be named in
its own mask. Hardware since Volta counts exited threads as arrived and does not tell two barriers apart, so such code
often runs, with threads waiting for each other at different lines. What is checked is the rule, not whether it happened
to work. Lanes that name each other and do not execute the operation together are in :mod:`.mask_mismatch`, shuffles
that read an absent lane in :mod:`.undefined_values`. A barrier object used against its rules is noted where it is used
(``compiler/runtime/mbarrier.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cudalab.sim.abi import WARP, SiteKind
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.machine.sanitizer.mask_mismatch import MaskMismatch, find_mask_mismatches
from cudalab.sim.machine.trace.batch import Batch, waiting_warp_sites, whole_block
from cudalab.sim.machine.trace.requests import occurrences


@dataclass(frozen=True)
class SyncError:
    """A barrier or warp operation used against its rule."""

    rule: str
    """``"divergent barrier"``, ``"barrier after exit"``, ``"lane not in mask"`` or ``"mask mismatch"``."""
    site: int
    other_site: int
    """The barrier at which the other threads were, or -1."""
    block: int
    thread: int
    """A thread at `site`."""
    arrived: int
    """Threads that arrived at `site`; for a mask, the mask."""
    count: int = 1
    mismatch: MaskMismatch | None = None
    """For a mask mismatch: which lanes were where."""


def find_sync_errors(batch: Batch, kernel: Kernel, threads: int) -> list[SyncError]:
    """Barrier and mask errors in the finished blocks of a batch. ``threads``: of a block."""
    masks = _mask_errors(batch, kernel) or _mask_mismatches(batch, kernel)
    return _barrier_errors(batch, threads) + masks


def _barrier_errors(batch: Batch, threads: int) -> list[SyncError]:
    """Only barriers of the whole block are checked: a named one is for the threads that it counts."""
    whole = (batch.kind == SiteKind.BARRIER) & whole_block(batch.address, threads)
    at = np.flatnonzero(whole & batch.finished[batch.block])
    if not len(at):
        return []
    owner = batch.block[at] * batch.threads + batch.thread[at]
    passed, _, _ = occurrences(owner, len(batch.blocks) * batch.threads)
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
    return [replace(found[0], count=len(found)) for found in errors.values()]


def _mask_errors(batch: Batch, kernel: Kernel) -> list[SyncError]:
    """Lanes that their own mask does not name, one for each site."""
    at = np.flatnonzero(waiting_warp_sites(kernel)[batch.site] & (batch.event == 0))
    mask = batch.address[at].astype(np.int64) & 0xFFFF_FFFF
    wrong = (mask >> (batch.thread[at] % WARP)) & 1 == 0
    return _examples("lane not in mask", batch, at[wrong], batch.site[at[wrong], None], mask[wrong])


def _examples(rule: str, batch: Batch, at: np.ndarray, keys: np.ndarray, arrived: np.ndarray) -> list[SyncError]:
    """One error for each distinct row of ``keys``: the first record of it, and how many there are."""
    if not len(at):
        return []
    _, example, count = np.unique(keys, axis=0, return_index=True, return_counts=True)
    return [
        SyncError(
            rule,
            int(batch.site[at[i]]),
            -1,
            int(batch.blocks[batch.block[at[i]]]),
            int(batch.thread[at[i]]),
            int(arrived[i]),
            int(n),
        )
        for i, n in zip(example, count, strict=True)
    ]


def _mask_mismatches(batch: Batch, kernel: Kernel) -> list[SyncError]:
    """Mask mismatches: one for each pair of sites, with the number of operations."""
    pairs: dict[tuple[int, int], list[MaskMismatch]] = {}
    for each in find_mask_mismatches(batch, kernel):
        pairs.setdefault((each.site, each.other_site), []).append(each)
    return [
        SyncError(
            "mask mismatch", site, other, found[0].block, found[0].thread, found[0].mask, len(found), mismatch=found[0]
        )
        for (site, other), found in pairs.items()
    ]
