"""Reads of memory that nothing has written.

Shared memory holds whatever the block before left there; new device memory whatever its last owner did. Reading it is
no error to the hardware, and often gives zeros, until it does not. Checked are shared memory, from the start of each
block, and global memory, from its allocation on: copies and memsets are known exactly, plain launches count as writing
all that they can reach (:mod:`.initialised`), the launch that is checked is followed byte by byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.machine.batch import Batch, Touches, touches
from cudalab.sim.machine.memory import Allocation, Memory


@dataclass(frozen=True)
class UninitialisedRead:
    """A read of bytes that were never written."""

    space: Space
    site: int
    block: int
    thread: int
    address: int
    count: int
    """Places (4-byte words, or bytes) that this line reads first."""


class InitialisationCheck:
    """Follows what a launch writes, batch by batch."""

    def __init__(self, kernel: Kernel, memory: Memory) -> None:
        self._kernel = kernel
        self._memory = memory
        self._written: dict[int, np.ndarray] = {}  # allocation's pointer -> bool for each byte

    def check(self, batch: Batch) -> list[UninitialisedRead]:
        """Reads of unwritten memory in a batch; its writes count for later batches."""
        return self._check_shared(batch) + self._check_global(batch)

    def _check_shared(self, batch: Batch) -> list[UninitialisedRead]:
        chosen = batch.is_shared
        if not chosen.any():
            return []
        found = touches(batch, self._kernel, chosen)
        suspects = _read_first(found, batch, batch.block[found.record])
        return self._report(batch, found, suspects, Space.SHARED)

    def _check_global(self, batch: Batch) -> list[UninitialisedRead]:
        chosen = batch.is_global
        if not chosen.any():
            return []
        reports: list[UninitialisedRead] = []
        for allocation in self._partly_written():
            inside = (
                chosen & (batch.address >= np.uint64(allocation.pointer)) & (batch.address < np.uint64(allocation.end))
            )
            if not inside.any():
                continue
            found = touches(batch, self._kernel, inside)
            bits = self._bits(allocation)
            offset = found.unit * found.unit_bytes - allocation.pointer
            fresh = np.flatnonzero(~bits[offset])
            rest = Touches(found.record[fresh], found.unit[fresh], found.unit_bytes)
            suspects = _read_first(rest, batch, np.zeros(len(fresh), np.int64))
            reports += self._report(batch, rest, suspects, Space.GLOBAL)
            stored = offset[batch.kind[found.record] != SiteKind.LOAD]
            for piece in range(found.unit_bytes):
                bits[np.minimum(stored + piece, allocation.size - 1)] = True
        return reports

    def _partly_written(self) -> list[Allocation]:
        return [a for a in self._memory if not a.written.complete]

    def _bits(self, allocation: Allocation) -> np.ndarray:
        bits = self._written.get(allocation.pointer)
        if bits is None:
            bits = self._written[allocation.pointer] = allocation.written.bitmap()
        return bits

    def _report(self, batch: Batch, found: Touches, suspects: np.ndarray, space: Space) -> list[UninitialisedRead]:
        if not len(suspects):
            return []
        record = found.record[suspects]
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


def _read_first(found: Touches, batch: Batch, owner: np.ndarray) -> np.ndarray:
    """Touches that are the first of their unit (and owner) and read it. Atomics read before they write."""
    if not len(found.unit):
        return np.zeros(0, np.int64)
    order = np.lexsort((found.record, found.unit, owner))
    unit, who = found.unit[order], owner[order]
    first = np.concatenate(([True], (unit[1:] != unit[:-1]) | (who[1:] != who[:-1])))
    touch = order[first]
    return touch[batch.kind[found.record[touch]] != SiteKind.STORE]
