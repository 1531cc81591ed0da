"""Traces of several blocks in the form that the sanitizer's checks read.

Times: ``epoch`` counts the block barriers that a thread has passed; accesses of one block in different epochs are
ordered. ``turn`` counts the warp operations that a lane has taken part in; accesses of lanes of one warp with different
turns are ordered too, where the operation named them both.

CUDA C++ Programming Guide, "Synchronization Functions": ``__syncthreads()`` makes memory accesses of the block's
threads before it visible to all of them after it, ``__syncwarp(mask)`` those of the lanes in `mask`. Shuffles and
votes promise no memory ordering there, but make their lanes wait for each other; they count as ordering here, which
avoids false positives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cudalab.sim.abi import LOCAL_WINDOW, SHARED_WINDOW, WARP, WINDOW_SIZE, SiteKind, Space, SyncEvent
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.machine.trace.grouping import count_before
from cudalab.sim.machine.trace.requests import occurrences


@dataclass
class Batch:
    """Records of several blocks, one after the other; within a block in the order in which they happened."""

    blocks: np.ndarray
    """Linear index in the grid of each block of the batch."""
    finished: np.ndarray
    """bool[blocks]: the block ran to its end and its trace is whole."""
    block: np.ndarray
    """Which of `blocks` each record belongs to."""
    thread: np.ndarray
    site: np.ndarray
    address: np.ndarray
    kind: np.ndarray
    """SiteKind of each record."""
    epoch: np.ndarray
    turn: np.ndarray
    step: np.ndarray
    """How many records of its thread come before it."""
    threads: int
    """Threads a block."""
    size: np.ndarray
    """Bytes of each access."""
    event: np.ndarray
    """SyncEvent of each record."""
    number: np.ndarray
    """The number that goes with it."""
    partial: np.ndarray
    """bool[blocks, warps]: the warp had an operation that did not name all of its lanes."""

    @property
    def warps(self) -> int:
        return -(-self.threads // WARP)

    @property
    def named(self) -> bool:
        """Are there barriers that are not for the whole block?"""
        return not whole_block(self.address[self.kind == SiteKind.BARRIER], self.threads).all()

    @property
    def is_shared(self) -> np.ndarray:
        result: np.ndarray = self.is_access & in_shared_memory(self.address)
        return result

    @property
    def is_global(self) -> np.ndarray:
        return self.is_access & (self.address >= np.uint64(LOCAL_WINDOW + WINDOW_SIZE))

    @property
    def is_access(self) -> np.ndarray:
        found: np.ndarray = self.kind <= SiteKind.ATOMIC
        return found


def in_shared_memory(address: np.ndarray) -> np.ndarray:
    """Which of these addresses, as records hold them, are of shared memory."""
    inside: np.ndarray = (address >= np.uint64(SHARED_WINDOW)) & (address < np.uint64(SHARED_WINDOW + WINDOW_SIZE))
    return inside


def waiting_warp_sites(kernel: Kernel) -> np.ndarray:
    """bool[sites]: warp operations that make their lanes wait."""
    return np.array([site.synchronises_lanes for site in kernel.sites] or [False], np.bool_)


def whole_block(barriers: np.ndarray, threads: int) -> np.ndarray:
    """Which barriers, by the addresses of their records, are those of the whole block: number 0, all ``threads``."""
    number, expected = barriers & np.uint64(0xFFFF_FFFF), barriers >> np.uint64(32)
    found: np.ndarray = (number == 0) & ((expected == 0) | (expected == threads))
    return found


TIMED = np.dtype([("address", "<u8"), ("site", "<u4"), ("thread", "<u2"), ("flags", "<u2"), ("step", "<u4")])
"""A record of the trace, with how many records of its thread come before it."""


def timed(records: np.ndarray, wanted: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The wanted records of a block with their steps, which all records count. ``before``: how many each thread has had
    so far; it goes on counting."""
    thread = records["thread"].astype(np.int64)
    step = occurrences(thread, len(before))[0] + before[thread]
    before += np.bincount(thread, minlength=len(before))
    out = np.empty(int(np.count_nonzero(wanted)), TIMED)
    for name in ("address", "site", "thread", "flags"):
        out[name] = records[name][wanted]
    out["step"] = step[wanted]
    return out


def make_batch(
    kernel: Kernel, blocks: Sequence[int], records: Sequence[np.ndarray], finished: Sequence[bool], threads: int
) -> Batch:
    """Join traces and number their epochs and turns.

    Args:
        kernel: the kernel.
        blocks: linear index of each block.
        records: each block's records, of type ``TIMED``.
        finished: whether each trace is whole.
        threads: threads a block.
    """
    all_records = np.concatenate(records)
    block = np.repeat(np.arange(len(records)), [len(part) for part in records])
    thread = all_records["thread"].astype(np.int64)
    site = all_records["site"].astype(np.int64)
    kinds = np.array([s.kind for s in kernel.sites], np.int64)
    kind = kinds[site] if len(site) else np.zeros(0, np.int64)
    size = np.array([max(1, s.size) for s in kernel.sites] or [1], np.int64)[site]
    _read_events(all_records, kind, size)
    step = all_records["step"].astype(np.int64)
    address = all_records["address"]
    is_turn = waiting_warp_sites(kernel)[site] & (kind == SiteKind.WARP)
    owner = block * threads + thread
    epoch, turn = count_before(owner, len(records) * threads, [kind == SiteKind.BARRIER, is_turn])
    batch = Batch(
        np.asarray(blocks, np.int64),
        np.asarray(finished, np.bool_),
        block,
        thread,
        site,
        address,
        kind,
        epoch,
        turn,
        step,
        threads,
        size,
        (all_records["flags"] & 15).astype(np.int64),
        (all_records["flags"] >> 4).astype(np.int64),
        np.zeros((len(records), -(-threads // WARP)), np.bool_),
    )
    _mark_partial(batch, is_turn)
    return batch


def _read_events(records: np.ndarray, kind: np.ndarray, size: np.ndarray) -> None:
    """Sync events are no accesses, but those of copies are (``abi.SyncEvent``)."""
    event = records["flags"] & 15
    if not event.any():
        return
    kind[event != 0] = SiteKind.OTHER
    kind[event == SyncEvent.ASYNC_READ] = SiteKind.LOAD
    kind[event == SyncEvent.ASYNC_WRITE] = SiteKind.STORE
    extents = np.flatnonzero(event == SyncEvent.EXTENT)
    extents = extents[extents > 0]
    size[extents - 1] = records["address"][extents].astype(np.int64)


def _mark_partial(batch: Batch, is_turn: np.ndarray) -> None:
    if not is_turn.any():
        return
    mask = batch.address[is_turn].astype(np.int64) & 0xFFFF_FFFF
    warp = batch.thread[is_turn] // WARP
    lanes = np.minimum(WARP, batch.threads - warp * WARP)
    present = (np.int64(1) << lanes) - 1
    some = (mask & present) != present
    batch.partial[batch.block[is_turn][some], warp[some]] = True


@dataclass
class Touches:
    """Accesses cut into units of equal size, so that two of them touch the same unit or none."""

    record: np.ndarray
    """Index of the access in its batch."""
    unit: np.ndarray
    """int64: number of the unit, from address 0."""
    unit_bytes: int
    number: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """The unit, numbered anew from 0 by the check that uses it."""


def unit_of(kernel: Kernel) -> int:
    """The bytes that a kernel's accesses are told apart by: 4, or 1 where it has a narrower one."""
    sizes = [site.size for site in kernel.sites if site.kind <= SiteKind.ATOMIC and site.space != Space.LOCAL]
    return 1 if any(size % 4 for size in sizes) else 4


def touches(batch: Batch, kernel: Kernel, chosen: np.ndarray) -> Touches:
    """Cut the chosen accesses into units (:func:`unit_of`), without bytes of which the program makes no use."""
    record = np.flatnonzero(chosen)
    size = batch.size[record]
    address = batch.address[record].astype(np.int64)
    bytes_ = unit_of(kernel)
    pieces = size // bytes_
    first = address // bytes_
    if len(pieces) and int(pieces.max()) == 1:
        return Touches(record, first, bytes_)
    start = np.cumsum(pieces) - pieces
    unit = np.repeat(first - start, pieces) + np.arange(int(pieces.sum()))
    record = np.repeat(record, pieces)
    masks = np.array([site.used_bytes for site in kernel.sites], np.int64)
    if (masks >= 0).any():
        offset = unit * bytes_ - batch.address[record].astype(np.int64)
        used = np.flatnonzero(masks[batch.site[record]] >> np.minimum(offset, 63) & ((1 << bytes_) - 1))
        record, unit = record[used], unit[used]
    return Touches(record, unit, bytes_)
