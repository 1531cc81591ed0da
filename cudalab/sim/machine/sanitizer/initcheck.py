"""initcheck: reads of memory that nothing has written.

Shared memory holds whatever the previous block left there; new device memory whatever its last owner did. Reading it is
no error to the hardware, and often gives zeros, until it does not. Checked are shared memory, from the start of each
block, the device heap, from each ``malloc`` on, and global memory, from its allocation on: copies and memsets are known
exactly, plain launches count as writing all that they can reach (``machine/memory/written_bytes.py``), the checked
launch is followed byte by byte. In a cluster shared memory is not checked, because other blocks may write it. A read
that is unordered with the write is reported as a race, not as uninitialised as well. Local memory is followed in
:mod:`.undefined_values`; a flag in shared memory that is polled too early is found by :mod:`.happens_before.detector`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cudalab.sim.abi import RESERVED_SHARED, SHARED_WINDOW, SiteKind, Space
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.machine.memory.allocation import Allocation
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.trace.batch import Batch, Touches, touches
from cudalab.sim.machine.trace.grouping import compact, group, value_range


@dataclass(frozen=True)
class UninitialisedRead:
    """A read of bytes that were never written."""

    space: Space
    site: int
    block: int
    thread: int
    address: int
    count: int
    """Reads of this site that find unwritten bytes."""


class InitialisationCheck:
    """Follows what a launch writes, batch by batch.

    ``touched(addresses, sizes)``: which of these locations are checked; None: all are.
    """

    def __init__(
        self,
        kernel: Kernel,
        memory: Memory,
        touched: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self._kernel = kernel
        self.touched = touched
        self._memory = memory
        self._heap_allocations = 0
        self._written: dict[int, np.ndarray] = {}  # allocation's pointer -> bool for each byte

    def check(self, batch: Batch) -> list[UninitialisedRead]:
        """Reads of unwritten memory in a batch; its writes count for later batches."""
        return self._check_shared(batch) + self._check_global(batch)

    def _check_shared(self, batch: Batch) -> list[UninitialisedRead]:
        # reserved shared memory is initialised by the system
        chosen = batch.is_shared & (batch.address < np.uint64(SHARED_WINDOW + RESERVED_SHARED))
        if not chosen.any():
            return []
        found = self._chosen(touches(batch, self._kernel, chosen))
        suspects = _unwritten_reads(found, batch, self._kernel, batch.block[found.record])
        return self._report(batch, found, suspects, Space.SHARED)

    def _check_global(self, batch: Batch) -> list[UninitialisedRead]:
        chosen = batch.is_global
        if not chosen.any():
            return []
        reports: list[UninitialisedRead] = []
        self._follow_heap()
        for allocation in self._partly_written():
            inside = (
                chosen & (batch.address >= np.uint64(allocation.pointer)) & (batch.address < np.uint64(allocation.end))
            )
            if not inside.any():
                continue
            found = self._chosen(touches(batch, self._kernel, inside))
            bits = self._bits(allocation)
            offset = found.unit * found.unit_bytes - allocation.pointer
            fresh = np.flatnonzero(~bits[offset])
            rest = Touches(found.record[fresh], found.unit[fresh], found.unit_bytes)
            block = batch.block[rest.record]
            suspects = _unwritten_reads(rest, batch, self._kernel, block)
            suspects = suspects[~_written_elsewhere(rest, batch, block)[suspects]]
            reports += self._report(batch, rest, suspects, Space.GLOBAL)
            stored = offset[batch.kind[found.record] != SiteKind.LOAD]
            for piece in range(found.unit_bytes):
                bits[np.minimum(stored + piece, allocation.size - 1)] = True
        return reports

    def _chosen(self, found: Touches) -> Touches:
        """Without units that are not checked: writes to them may not be in the batch."""
        if self.touched is None or not len(found.unit):
            return found
        address = found.unit * found.unit_bytes
        keep = np.flatnonzero(self.touched(address, np.full(len(address), found.unit_bytes)))
        return Touches(found.record[keep], found.unit[keep], found.unit_bytes)

    def _partly_written(self) -> list[Allocation]:
        return [*self._memory.chunks(), *(a for a in self._memory if a.kind != "heap" and not a.written.complete)]

    def _follow_heap(self) -> None:
        """What kernels allocate holds anything. Within a launch the heap gives no address twice; so its chunks are
        followed as a whole."""
        chunks = {chunk.pointer: chunk for chunk in self._memory.chunks()}
        for allocation in self._memory.heap.handed_out(self._heap_allocations):
            self._heap_allocations += 1
            start = self._memory.chunk_at(allocation.pointer)
            if start is not None:
                offset = allocation.pointer - start
                self._bits(chunks[start])[offset : offset + allocation.size] = False

    def _bits(self, allocation: Allocation) -> np.ndarray:
        bits = self._written.get(allocation.pointer)
        if bits is None:
            whole = allocation.kind == "heap"
            found = np.ones(allocation.size, np.bool_) if whole else allocation.written.bitmap()
            bits = self._written[allocation.pointer] = found
        return bits

    def _report(self, batch: Batch, found: Touches, suspects: np.ndarray, space: Space) -> list[UninitialisedRead]:
        if not len(suspects):
            return []
        record, first = np.unique(found.record[suspects], return_index=True)  # a read counts once
        suspects = suspects[first]
        sites, example, count = np.unique(batch.site[record], return_index=True, return_counts=True)
        return [
            UninitialisedRead(
                space,
                int(site),
                int(batch.blocks[batch.block[record[i]]]),
                int(batch.thread[record[i]]),
                int(found.unit[suspects[i]]) * found.unit_bytes,
                int(n),
            )
            for site, i, n in zip(sites, example, count, strict=True)
        ]


def _unwritten_reads(found: Touches, batch: Batch, kernel: Kernel, owner: np.ndarray) -> np.ndarray:
    """Touches that read what nothing wrote before.

    A write is before a read when it is in an earlier epoch of the block, or earlier in the same thread. A write of
    another thread in the same epoch counts as before, too: whether it is, is a race, and reported as that. An atomic
    reads; it counts as a write for other reads only."""
    if not len(found.unit):
        return np.zeros(0, np.int64)
    exchange = np.array([site.semantics.exchanges for site in kernel.sites])[batch.site[found.record]]
    kind = batch.kind[found.record]
    stores = (kind == SiteKind.STORE) | exchange
    unit, bound = group([owner, compact(found.unit)[0]])
    loads = kind == SiteKind.LOAD
    atomics = (kind == SiteKind.ATOMIC) & ~exchange
    early = _before_all(found, batch, unit, bound, ~loads, loads)
    if atomics.any():
        early |= _before_all(found, batch, unit, bound, stores, atomics)
    return np.flatnonzero(early)


def _before_all(
    found: Touches, batch: Batch, unit: np.ndarray, units: int, writes: np.ndarray, reads: np.ndarray
) -> np.ndarray:
    """Which of the `reads` come before all `writes` of their unit."""
    record = found.record
    epoch = batch.epoch[record]
    never = np.iinfo(np.int64).max
    first = np.full(units, never)
    np.minimum.at(first, unit[writes], epoch[writes])
    early: np.ndarray = reads & (epoch <= first[unit])
    if not early.any():
        return early
    # Few are left: those of the epoch of the first write, which may be of the same thread.
    thread, step = batch.thread[record], batch.step[record]
    then = np.flatnonzero(writes & (epoch == first[unit]))
    low, high = value_range(unit[then], units, thread[then])
    first_step = np.full(units, never)
    np.minimum.at(first_step, unit[then], step[then])
    alone = (low[unit] == thread) & (high[unit] == thread) & (step < first_step[unit])
    early &= (epoch < first[unit]) | alone
    return early


def _written_elsewhere(found: Touches, batch: Batch, block: np.ndarray) -> np.ndarray:
    """Touches of units that another block of the batch writes: a race between blocks, if anything."""
    writes = batch.kind[found.record] != SiteKind.LOAD
    unit, bound = compact(found.unit)
    low, high = value_range(unit[writes], bound, block[writes])
    elsewhere: np.ndarray = (high[unit] >= 0) & ((low[unit] != block) | (high[unit] != block))
    return elsewhere
