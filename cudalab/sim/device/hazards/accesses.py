"""Who touched which bytes last: an interval map for each allocation.

The bytes of an allocation fall into cells, each with the accesses that a later one could still collide with. A new
access is compared with those of the cells that it covers, and then takes the place of all that come before it and that
it stands for: a write stands for every access before it, a read for reads, an atomic for atomics. Whatever collides
with one that was replaced, and is not ordered behind it, collides with its replacement as well. So a cell holds at most
three accesses of a stream, however long the program is.

Accesses with many runs (a column of a matrix, interleaved rows) would cut an allocation into thousands of cells. They
are kept beside the cells, each with its exact runs, and compared run by run with those that nothing orders and whose
range from the first to the last byte meets theirs. Such an access stands for those with the same runs only.

Operations are entered as they end. Ends agree with the order of operations, so of two that are not ordered the one
entered second finds the first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cudalab.sim.device.hazards.clocks import Clock, Stamp
from cudalab.sim.device.queue.byte_ranges import Runs, StridedRange, common, runs_of
from cudalab.sim.machine.memory.allocation import Allocation
from cudalab.sim.machine.memory.allocations import Memory

READ, WRITE, ATOMIC = 0, 1, 2
Entry = tuple[Stamp, int]
"""Who, and how."""

Collisions = dict[tuple[Stamp, int], tuple[int, int, int]]
"""By the earlier access: first byte, end and number of the bytes in common."""

_MOST_CELLS = 32  # an access with more runs than this is kept beside the cells
_MOST_COMPARISONS = 4096  # remembered


class StridedAccess(NamedTuple):
    """An access with many runs."""

    start: int
    end: int
    entry: Entry
    runs: Runs


class Ledger:
    """The accesses of one allocation, or of one registered range of host memory."""

    __slots__ = ("allocation", "cells", "end", "ends", "strided", "shared", "start", "starts")

    def __init__(self, start: int, end: int, allocation: Allocation | None) -> None:
        self.start = start
        self.end = end
        self.allocation = allocation
        self.shared = allocation is None or allocation.kind in ("pinned", "managed")
        """Can the host touch it without a call?"""
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.cells: list[list[Entry]] = []
        self.strided: list[StridedAccess] = []

    def enter(self, start: int, end: int, entry: Entry, found: Collisions) -> None:
        """Compare ``entry`` on ``start … end`` with what is there, and put it there."""
        if self.strided:
            self._meet_strided(start, end, entry, found)
        starts = self.starts
        index = bisect_right(starts, start) - 1
        if index >= 0 and starts[index] == start:  # the usual case: the same bytes again
            ends, cells = self.ends, self.cells
            position, last = start, len(starts)
            while index < last and starts[index] == position and ends[index] <= end:
                _meet(cells[index], entry, position, ends[index], found)
                position = ends[index]
                index += 1
            if position == end:
                return
            start, index = position, index - 1
        self._enter_across(index, start, end, entry, found)

    def _enter_across(self, index: int, start: int, end: int, entry: Entry, found: Collisions) -> None:
        starts, ends, cells = self.starts, self.ends, self.cells
        if index >= 0 and ends[index] > start:
            if starts[index] < start:
                self._split(index, start)
                index += 1
        else:
            index += 1
        position = start
        while position < end:
            if index == len(starts) or starts[index] >= end:
                self._insert(index, position, end, [entry])
                break
            if starts[index] > position:
                self._insert(index, position, starts[index], [entry])
                position = ends[index]
                index += 1
                continue
            if ends[index] > end:
                self._split(index, end)
            _meet(cells[index], entry, starts[index], ends[index], found)
            position = ends[index]
            index += 1

    def _insert(self, index: int, start: int, end: int, entries: list[Entry]) -> None:
        self.starts.insert(index, start)
        self.ends.insert(index, end)
        self.cells.insert(index, entries)

    def _split(self, index: int, at: int) -> None:
        """Cut a cell in two."""
        self._insert(index + 1, at, self.ends[index], list(self.cells[index]))
        self.ends[index] = at

    def _meet_strided(self, start: int, end: int, entry: Entry, found: Collisions) -> None:
        """Compare an access without gaps with those that have some."""
        stamp, kind = entry
        here: Runs | None = None
        covered = False
        for other in self.strided:
            if other.start >= end or other.end <= start:
                continue
            before, how = other.entry
            if _ordered(before, stamp):
                covered |= kind == WRITE and start <= other.start and other.end <= end
            elif kind != how or kind == WRITE:
                if here is None:
                    here = np.array([[start, end]], np.int64)
                _note(found, other.entry, common(here, other.runs))
        if covered:
            self.strided = [
                other
                for other in self.strided
                if not (start <= other.start and other.end <= end and _ordered(other.entry[0], stamp))
            ]

    def enter_strided(self, entry: Entry, runs: Runs, found: Collisions) -> None:
        """Compare an access with many runs with what is there, and keep it."""
        start, end = int(runs[0, 0]), min(int(runs[-1, 1]), self.end)
        stamp, kind = entry
        kept = []
        for other in self.strided:
            before, how = other.entry
            if _ordered(before, stamp):
                if (kind == WRITE or how == kind) and _same(runs, other.runs):
                    continue
            elif (kind != how or kind == WRITE) and other.start < end and start < other.end:
                _note(found, other.entry, _compared(runs, other.runs))
            kept.append(other)
        kept.append(StridedAccess(start, end, entry, runs))
        self.strided = kept
        index = max(bisect_right(self.starts, start) - 1, 0)
        while index < len(self.starts) and self.starts[index] < end:
            for before, how in self.cells[index] if self.ends[index] > start else ():
                if (kind != how or kind == WRITE) and not _ordered(before, stamp):
                    cell = np.array([[self.starts[index], self.ends[index]]], np.int64)
                    _note(found, (before, how), common(cell, runs))
            index += 1

    def prune(self, floor: Clock) -> int:
        """Drop what comes before everything that can come; returns how many accesses are left."""
        self.strided = [other for other in self.strided if not _over(other.entry[0], floor)]
        left = len(self.strided)
        kept: list[tuple[int, int, list[Entry]]] = []
        for start, end, cell in zip(self.starts, self.ends, self.cells, strict=True):
            cell = [entry for entry in cell if not _over(entry[0], floor)]
            if not cell:
                continue
            left += len(cell)
            if kept and kept[-1][1] == start and kept[-1][2] == cell:
                kept[-1] = (kept[-1][0], end, cell)
            else:
                kept.append((start, end, cell))
        self.starts = [start for start, _, _ in kept]
        self.ends = [end for _, end, _ in kept]
        self.cells = [cell for _, _, cell in kept]
        return left


def _over(stamp: Stamp, floor: Clock) -> bool:
    return stamp.number <= floor.get(stamp.line.index, 0)


def _ordered(before: Stamp, after: Stamp) -> bool:
    """The same as ``before.before(after)``, of two that are entered in this order."""
    return before.line is after.line or before.number <= after.clock.get(before.line.index, 0)


def _meet(cell: list[Entry], entry: Entry, start: int, end: int, found: Collisions) -> None:
    """Compare ``entry`` with the accesses of a cell, drop those it stands for, and add it."""
    stamp, kind = entry
    line = stamp.line
    if len(cell) == 1:  # the usual case: the same stream again
        before, how = cell[0]
        if before.line is line:
            if how == kind or kind == WRITE:
                cell[0] = entry
            else:
                cell.append(entry)
            return
    elif kind == WRITE and len(cell) == 2 and cell[0][0].line is line and cell[1][0].line is line:
        cell[:] = (entry,)
        return
    clock = stamp.clock
    kept = []
    for other in cell:
        before, how = other
        if before.line is line or before.number <= clock.get(before.line.index, 0):
            if kind == WRITE or how == kind:
                continue
        elif kind != how or kind == WRITE:
            _note(found, other, (start, end, end - start))
        kept.append(other)
    kept.append(entry)
    cell[:] = kept


def _note(found: Collisions, whom: Entry, where: tuple[int, int, int]) -> None:
    """Two unordered accesses have bytes in common."""
    start, end, size = where
    if not size:
        return
    known = found.get(whom)
    if known is not None:
        start, end, size = min(start, known[0]), max(end, known[1]), size + known[2]
    found[whom] = (start, end, size)


def _same(one: Runs, other: Runs) -> bool:
    return one is other or (len(one) == len(other) and one[0, 0] == other[0, 0] and np.array_equal(one, other))


_comparisons: dict[tuple[int, int], tuple[Runs, Runs, tuple[int, int, int]]] = {}


def _compared(one: Runs, other: Runs) -> tuple[int, int, int]:
    """What two have in common; remembered, because programs work in loops and runs are shared objects."""
    key = (id(one), id(other))
    known = _comparisons.get(key)
    if known is None:
        if len(_comparisons) >= _MOST_COMPARISONS:
            _comparisons.clear()
        known = _comparisons[key] = (one, other, common(one, other))
    return known[2]


_runs_of = lru_cache(maxsize=512)(runs_of)


class Accesses:
    """The ledgers of all memory that more than one may touch."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._starts: list[int] = []
        self._ledgers: list[Ledger] = []
        self.version = 0
        """Another number whenever a ledger is opened or dropped: what :meth:`ledger` answers stays the same while this
        and ``Memory.version`` do."""
        self.entered = 0
        """Accesses since the last look for what is over."""
        self._prune_at = 4096

    def clear(self) -> None:
        """Nothing that comes can collide with what was."""
        if self._ledgers:
            self._starts, self._ledgers = [], []
            self.version += 1
        self.entered = 0
        self._prune_at = 4096

    def ledger(self, address: int) -> Ledger | None:
        """The ledger of the memory that holds ``address``; None for what is no memory of the device."""
        index = bisect_right(self._starts, address) - 1
        if index >= 0:
            ledger = self._ledgers[index]
            if address < ledger.end:
                if ledger.allocation is None or not ledger.allocation.freed:
                    return ledger
                allocation = self._memory.find(address)
                if allocation is None:
                    return ledger  # freed, and perhaps still in use
                self.version += 1
                del self._starts[index], self._ledgers[index]  # these addresses belong to somebody else now
        allocation = self._memory.find(address)
        if allocation is not None:
            return self._open(allocation.pointer, allocation.end, allocation)
        if self._memory.ranges:
            base, size = self._memory.find_range(address)
            if size:
                return self._open(base, base + size, None)
        return None

    def _open(self, start: int, end: int, allocation: Allocation | None) -> Ledger:
        index = bisect_right(self._starts, start)
        while index and self._ledgers[index - 1].end > start:  # left by something that is gone
            index -= 1
            del self._starts[index], self._ledgers[index]
        while index < len(self._starts) and self._starts[index] < end:
            del self._starts[index], self._ledgers[index]
        self.version += 1
        ledger = Ledger(start, end, allocation)
        self._starts.insert(index, start)
        self._ledgers.insert(index, ledger)
        return ledger

    def freed(self) -> list[Ledger]:
        """The ledgers of memory that has been freed."""
        return [ledger for ledger in self._ledgers if ledger.allocation is not None and ledger.allocation.freed]

    def enter(self, stamp: Stamp, kind: int, ledger: Ledger, extent: StridedRange, found: Collisions) -> None:
        """``stamp`` accesses an extent with gaps; what it collides with is added to ``found``."""
        if extent[1]:
            self.enter_runs(stamp, kind, ledger, _runs_of(extent), found)

    def enter_runs(self, stamp: Stamp, kind: int, ledger: Ledger, runs: Runs, found: Collisions) -> None:
        """``stamp`` accesses ``runs``, all in one ledger."""
        if len(runs) > _MOST_CELLS:
            self.entered += 1
            ledger.enter_strided((stamp, kind), runs, found)
            return
        self.entered += len(runs)
        for start, end in runs.tolist():
            ledger.enter(start, min(end, ledger.end), (stamp, kind), found)

    def split(self, runs: Runs) -> Iterator[tuple[Ledger, Runs]]:
        """Runs in any number of allocations, as a kernel's footprint has them, by allocation."""
        position = 0
        while position < len(runs):
            ledger = self.ledger(int(runs[position, 0]))
            if ledger is None:
                position += 1
                continue
            after = position + int(np.searchsorted(runs[position:, 0], ledger.end, "left"))
            yield ledger, runs[position:after]
            position = after

    @property
    def crowded(self) -> bool:
        """Is it worth looking for accesses that are over?"""
        return self.entered >= self._prune_at

    def prune(self, floor: Clock) -> None:
        """Drop all accesses that come before everything that can come."""
        left = 0
        ledgers = []
        for ledger in self._ledgers:
            count = ledger.prune(floor)
            left += count
            if count or ledger.allocation is None or not ledger.allocation.freed:  # work in flight may know it
                ledgers.append(ledger)
        self.version += 1
        self._ledgers = ledgers
        self._starts = [ledger.start for ledger in ledgers]
        self.entered = 0
        self._prune_at = max(4096, 2 * left)
