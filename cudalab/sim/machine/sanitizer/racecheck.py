"""racecheck: two threads touch the same bytes, one of them writes, and nothing orders the two.

The simulated device runs threads one after the other, so a racy kernel may well give the right answer. Races are found
by the happens-before that barriers and warp operations guarantee, never by the result. Atomics on one address do not
race with each other; an atomic and a weak access do.

Named as compute-sanitizer does: *RAW*, a read that should see the write; *WAR*, a write that should come after the
read; *WAW*, two writes. Which one it is follows from the program order of the two accesses. Values are not compared, so
threads that all write the same value are reported too; compute-sanitizer reports that as information.

This module is for kernels whose threads are ordered by barriers of the whole block and operations of whole warps only;
between their blocks nothing is ordered. Finer synchronisation is followed by vector clocks (:mod:`.happens_before`).

Some accesses look racy and are not reported; each has a test in ``test_sanitizer_idioms.py``: a plain read that a
compare-and-swap loop validates, as in the guide's ``atomicAdd`` for doubles (``Site.checked_by_swap``); bytes that the
compiler loads and marks as unused by a pragma (``Site.used_bytes``); left-over lanes of ``cg::memcpy_async``, which
copy the last element again; and the reserved shared memory that tiles of several warps use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cudalab.sim.abi import WARP, SiteKind, Space
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.machine.trace.batch import Batch, Touches, touches
from cudalab.sim.machine.trace.grouping import compact, first_and_last, group, marked, value_range


@dataclass(frozen=True)
class Race:
    """Two accesses that nothing orders; ``first`` is first in program order."""

    hazard: str
    """``"RAW"``, ``"WAR"`` or ``"WAW"``."""
    space: Space
    first_site: int
    second_site: int
    first: tuple[int, int]
    """Block and thread (linear)."""
    second: tuple[int, int]
    address: int
    size: int
    count: int
    """Locations (4-byte words, or bytes) at which this pair of sites races."""
    asynchronous: bool = False
    """One of the two is an asynchronous copy that its thread has not waited for."""

    @property
    def sites(self) -> tuple[int, int]:
        return self.first_site, self.second_site


def find_races(batch: Batch, kernel: Kernel) -> list[Race]:
    """Races of shared and global memory within the blocks of a batch."""
    races = []
    racing = _racing(batch, kernel)
    for space, chosen in ((Space.SHARED, batch.is_shared & racing), (Space.GLOBAL, batch.is_global & racing)):
        if not (chosen & (batch.kind != SiteKind.LOAD)).any():
            continue
        found = _shared_units(batch, touches(batch, kernel, chosen))
        if len(found.unit):
            races += _races_across_warps(batch, kernel, found, space)
            races += _races_within_warps(batch, kernel, found, space)
    return races


def _racing(batch: Batch, kernel: Kernel) -> np.ndarray:
    """Which records can race: all but reads that a compare-and-swap validates."""
    racing: np.ndarray = ~np.array([site.checked_by_swap for site in kernel.sites], np.bool_)[batch.site]
    return racing


def _shared_units(batch: Batch, found: Touches) -> Touches:
    """Touches of units that several threads of a block touch, and one writes; units renumbered from 0."""
    record = found.record
    unit, _ = compact(found.unit)
    key, bound = group([batch.block[record], unit])
    low, high = value_range(key, bound, batch.thread[record])
    conflicting = (low < high) & marked(key, bound, batch.kind[record] != SiteKind.LOAD)
    keep = np.flatnonzero(conflicting[key])
    unit, _ = compact(found.unit[keep])
    return Touches(record[keep], found.unit[keep], found.unit_bytes, unit)


def _races_across_warps(batch: Batch, kernel: Kernel, found: Touches, space: Space) -> list[Race]:
    record = found.record
    return _conflicts(
        batch,
        kernel,
        found,
        np.arange(len(record)),
        [batch.block[record], batch.epoch[record], found.number],
        batch.thread[record] // WARP,
        space,
    )


def _races_within_warps(batch: Batch, kernel: Kernel, found: Touches, space: Space) -> list[Race]:
    record = found.record
    warp = batch.thread[record] // WARP
    keys = [batch.block[record], warp, batch.epoch[record], batch.turn[record], found.number]
    return _conflicts(batch, kernel, found, np.arange(len(record)), keys, batch.thread[record], space)


def _conflicts(
    batch: Batch,
    kernel: Kernel,
    found: Touches,
    chosen: np.ndarray,
    keys: list[np.ndarray],
    party: np.ndarray,
    space: Space,
) -> list[Race]:
    """Groups of touches with equal keys in which two parties conflict, one race a pair of sites.

    Args:
        batch: the batch.
        kernel: the kernel.
        found: all touches.
        chosen: indices of the touches to compare.
        keys: what must be equal, an array a key.
        party: the thread or warp that touches; a party does not race with itself.
        space: for the report.
    """
    if not len(chosen):
        return []
    key, bound = group(keys)
    low, high = value_range(key, bound, party)
    kind = batch.kind[found.record[chosen]]
    stores, atomics, loads = (
        marked(key, bound, kind == wanted) for wanted in (SiteKind.STORE, SiteKind.ATOMIC, SiteKind.LOAD)
    )
    suspect = (low < high) & (stores | (atomics & loads))
    members = np.flatnonzero(suspect[key])
    if not len(members):
        return []
    groups, member = np.unique(key[members], return_inverse=True)
    return _pairs(batch, kernel, found, chosen[members], party[members], kind[members], member, len(groups), space)


def _pairs(
    batch: Batch,
    kernel: Kernel,
    found: Touches,
    touch: np.ndarray,
    party: np.ndarray,
    kind: np.ndarray,
    group: np.ndarray,
    groups: int,
    space: Space,
) -> list[Race]:
    """Choose a write and a conflicting access of another party from each group, and count them by sites."""
    position = np.arange(len(touch))
    none = len(touch)

    def earliest(wanted: np.ndarray) -> np.ndarray:
        out = np.full(groups, none)
        np.minimum.at(out, group[wanted], position[wanted])
        return out

    def others(than: np.ndarray) -> np.ndarray:
        found: np.ndarray = party != party[np.minimum(than, none - 1)][group]
        return found

    store = earliest(kind == SiteKind.STORE)
    atomic, load = earliest(kind == SiteKind.ATOMIC), earliest(kind == SiteKind.LOAD)
    by_store = store < none
    writer = np.where(by_store, store, atomic)
    other = earliest(others(writer) & (kind == SiteKind.LOAD))
    other = np.where(by_store & (other == none), earliest(others(writer)), other)
    # Only atomics and loads: the first atomic may be of the same party as every load, and a later one not.
    again = ~by_store & (other == none)
    writer = np.where(again, earliest(others(load) & (kind == SiteKind.ATOMIC)), writer)
    other = np.where(again, load, other)
    real = (writer < none) & (other < none)
    writer, other = writer[real], other[real]
    if not len(writer):
        return []
    write_record, other_record = found.record[touch[writer]], found.record[touch[other]]
    pair = np.stack([batch.site[write_record], batch.site[other_record]], axis=1)
    _, example, count = np.unique(pair, axis=0, return_index=True, return_counts=True)
    return [
        _race(
            batch,
            kernel,
            int(write_record[i]),
            int(other_record[i]),
            int(found.unit[touch[writer[i]]]),
            found,
            int(n),
            space,
        )
        for i, n in zip(example, count, strict=True)
    ]


def _race(
    batch: Batch, kernel: Kernel, write: int, other: int, unit: int, found: Touches, count: int, space: Space
) -> Race:
    write_first = batch.step[write] <= batch.step[other]
    if batch.kind[other] != SiteKind.LOAD:
        hazard = "WAW"
    else:
        hazard = "RAW" if write_first else "WAR"
    first, second = (write, other) if write_first else (other, write)
    return Race(
        hazard,
        space,
        int(batch.site[first]),
        int(batch.site[second]),
        (int(batch.blocks[batch.block[first]]), int(batch.thread[first])),
        (int(batch.blocks[batch.block[second]]), int(batch.thread[second])),
        unit * found.unit_bytes,
        kernel.sites[int(batch.site[write])].size,
        count,
    )


_MOST_UNITS = 8 << 20
"""Kept of one kernel."""


class InterBlockRaces:
    """Races between blocks: what each block touched in global memory, collected over a launch.

    Beyond ``_MOST_UNITS`` units the check ends, and ``complete`` is False.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._parts: list[np.ndarray] = []
        self._size = 0
        self.complete = True

    _TOUCH = np.dtype([("unit", "<i8"), ("block", "<i8"), ("kind", "u1"), ("site", "<u4"), ("thread", "<u4")])

    def add(self, batch: Batch) -> None:
        """Keep what the blocks of a batch touched: for each unit and kind of access, the first and last block."""
        if not self.complete:
            return
        found = touches(batch, self._kernel, batch.is_global & _racing(batch, self._kernel))
        if not len(found.unit):
            return
        unit, _ = compact(found.unit)
        key, bound = group([unit, batch.kind[found.record]])
        first, last = first_and_last(key, bound)
        first, last = first[first >= 0], last[last >= 0]
        other = batch.block[found.record[first]] != batch.block[found.record[last]]
        index = np.concatenate([first, last[other]])
        record = found.record[index]
        part = np.empty(len(index), self._TOUCH)
        part["unit"], part["block"] = found.unit[index] * found.unit_bytes, batch.blocks[batch.block[record]]
        part["kind"], part["site"], part["thread"] = batch.kind[record], batch.site[record], batch.thread[record]
        self._parts.append(part)
        self._size += len(part)
        self.complete = self._size <= _MOST_UNITS

    def races(self) -> list[Race]:
        """Races between blocks seen so far."""
        if not self._size:
            return []
        part = np.concatenate(self._parts)
        key, bound = compact(part["unit"])
        low, high = value_range(key, bound, part["block"])
        written, atomic, loaded = (
            marked(key, bound, part["kind"] == kind) for kind in (SiteKind.STORE, SiteKind.ATOMIC, SiteKind.LOAD)
        )
        members = np.flatnonzero(((low < high) & (written | (atomic & loaded)))[key])
        if not len(members):
            return []
        members = members[np.lexsort((part["block"][members], key[members]))]
        part = part[members]
        bounds = np.flatnonzero(np.diff(part["unit"])) + 1
        seen: dict[tuple[int, int], tuple[Race, int]] = {}
        for touched in np.split(part, bounds[:100_000])[:100_000]:
            self._add_pair(touched, seen)
        return [replace(race, count=count) for race, count in seen.values()]

    def _add_pair(self, touched: np.ndarray, seen: dict[tuple[int, int], tuple[Race, int]]) -> None:
        stores = touched[touched["kind"] == SiteKind.STORE]
        writes = stores if len(stores) else touched[touched["kind"] == SiteKind.ATOMIC]
        write = writes[0]
        others = touched[touched["block"] != write["block"]]
        loads = others[others["kind"] == SiteKind.LOAD]
        if not len(stores):
            others = loads
        if not len(others):
            return
        other = loads[0] if len(loads) else others[0]
        key = (int(write["site"]), int(other["site"]))
        if key in seen:
            race, count = seen[key]
            seen[key] = (race, count + 1)
            return
        hazard = "RAW" if other["kind"] == SiteKind.LOAD else "WAW"
        race = Race(
            hazard,
            Space.GLOBAL,
            key[0],
            key[1],
            (int(write["block"]), int(write["thread"])),
            (int(other["block"]), int(other["thread"])),
            int(write["unit"]),
            self._kernel.sites[key[0]].size,
            1,
        )
        seen[key] = (race, 1)
