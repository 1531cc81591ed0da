"""Races: two threads touch the same bytes, one of them writes, and nothing orders the two.

The simulated device runs threads one after the other, so a racy kernel may well give the right answer. Races are found
by the order that barriers and warp operations guarantee, never by the result. Atomics on one address do not race with
each other; an atomic and a plain access do.

Named as compute-sanitizer does: *RAW*, a read that should see the write; *WAR*, a write that should come after the
read; *WAW*, two writes. Which one it is follows from the order in which the code comes to the two accesses. Values are
not looked at, so threads that all write the same value are reported too; compute-sanitizer does that as information.

Between blocks of one launch nothing is ordered. Kernels that order blocks themselves, by fences and atomics or volatile
flags, are checked within blocks only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from cudalab.sim.abi import WARP, SiteKind, Space
from cudalab.sim.compiler.program import Kernel, Program
from cudalab.sim.machine.batch import Batch, Touches, synchronises, touches
from cudalab.sim.machine.grouping import compact, first_and_last, group, marked, spread

_FENCE = re.compile(r"\b(membar|fence)\.")
_PAIRWISE = 4000
"""Groups of one batch that are looked at lane by lane, in warps with partial masks."""


@dataclass(frozen=True)
class Race:
    """Two accesses that nothing orders. ``first`` comes first in the code."""

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
    """Places (4-byte words, or bytes) at which this pair of lines races."""


def find_races(batch: Batch, kernel: Kernel) -> list[Race]:
    """Races of shared and global memory within the blocks of a batch."""
    races = []
    for space, chosen in ((Space.SHARED, batch.is_shared), (Space.GLOBAL, batch.is_global)):
        if space == Space.GLOBAL:
            chosen = chosen & ~_is_flag(kernel)[batch.site]
        if not (chosen & (batch.kind != SiteKind.LOAD)).any():
            continue
        found = _contested(batch, touches(batch, kernel, chosen))
        if len(found.unit):
            races += _races_across_warps(batch, kernel, found, space)
            races += _races_within_warps(batch, kernel, found, space)
    return races


def _contested(batch: Batch, found: Touches) -> Touches:
    """Touches of units that several threads of a block touch, and one writes; units renumbered from 0."""
    record = found.record
    unit, _ = compact(found.unit)
    key, bound = group([batch.block[record], unit])
    low, high = spread(key, bound, batch.thread[record])
    shared = (low < high) & marked(key, bound, batch.kind[record] != SiteKind.LOAD)
    keep = np.flatnonzero(shared[key])
    unit, _ = compact(found.unit[keep])
    return Touches(record[keep], found.unit[keep], found.unit_bytes, unit)


def _is_flag(kernel: Kernel) -> np.ndarray:
    """Accesses that are meant to be seen by others at once: volatile, acquire, release, relaxed."""
    strong = (".volatile", ".acquire", ".release", ".relaxed", ".mmio")
    return np.array(
        [any(word in site.opcode for word in strong) and site.kind != SiteKind.ATOMIC for site in kernel.sites]
    )


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
    partial = batch.partial[batch.block[record], warp]
    keys = [batch.block[record], warp, batch.epoch[record], batch.turn[record], found.number]
    whole = np.flatnonzero(~partial)
    races = _conflicts(batch, kernel, found, whole, [k[whole] for k in keys], batch.thread[record][whole], space)
    if partial.any():
        races += _races_with_partial_masks(batch, kernel, found, np.flatnonzero(partial), [*keys[:3], keys[4]], space)
    return races


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
        chosen: indices of the touches to look at.
        keys: what must be equal, an array a key.
        party: who touches (thread or warp); one party does not race with itself.
        space: for the report.
    """
    if not len(chosen):
        return []
    key, bound = group(keys)
    low, high = spread(key, bound, party)
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
    who: np.ndarray,
    kind: np.ndarray,
    group: np.ndarray,
    groups: int,
    space: Space,
) -> list[Race]:
    """For each group choose a write and an access of someone else that conflicts with it; then count by sites."""
    position = np.arange(len(touch))
    none = len(touch)

    def earliest(wanted: np.ndarray) -> np.ndarray:
        out = np.full(groups, none)
        np.minimum.at(out, group[wanted], position[wanted])
        return out

    def others(than: np.ndarray) -> np.ndarray:
        return who != who[np.minimum(than, none - 1)][group]

    store = earliest(kind == SiteKind.STORE)
    atomic, load = earliest(kind == SiteKind.ATOMIC), earliest(kind == SiteKind.LOAD)
    by_store = store < none
    writer = np.where(by_store, store, atomic)
    other = earliest(others(writer) & (kind == SiteKind.LOAD))
    other = np.where(by_store & (other == none), earliest(others(writer)), other)
    # Only atomics and loads: the first atomic may share its party with every load, another one need not.
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


def _races_with_partial_masks(
    batch: Batch, kernel: Kernel, found: Touches, chosen: np.ndarray, keys: list[np.ndarray], space: Space
) -> list[Race]:
    """Warps whose operations name only some lanes: two lanes are ordered by the operations that named both."""
    key, _ = group([key[chosen] for key in keys])
    order = np.argsort(key, kind="stable")
    groups = np.split(chosen[order], np.flatnonzero(np.diff(key[order])) + 1)
    history = _Operations(batch, kernel)
    seen: dict[tuple[int, int], Race] = {}
    for members in groups[:_PAIRWISE]:
        records = found.record[members]
        kinds = batch.kind[records]
        if len(members) < 2 or (kinds == SiteKind.LOAD).all() or (kinds == SiteKind.ATOMIC).all():
            continue
        for i in np.flatnonzero(kinds != SiteKind.LOAD):
            for j in range(len(members)):
                a, b = int(records[i]), int(records[j])
                both_atomic = kinds[i] == SiteKind.ATOMIC and kinds[j] == SiteKind.ATOMIC
                if batch.thread[a] == batch.thread[b] or both_atomic or history.ordered(a, b):
                    continue
                pair = (int(batch.site[a]), int(batch.site[b]))
                if pair not in seen:
                    seen[pair] = _race(batch, kernel, a, b, int(found.unit[members[i]]), found, 1, space)
    return list(seen.values())


class _Operations:
    """The warp operations of each lane, to ask which of them named two given lanes."""

    def __init__(self, batch: Batch, kernel: Kernel) -> None:
        self._batch = batch
        waits = np.array([s.kind == SiteKind.WARP and synchronises(s.opcode) for s in kernel.sites])
        self._at: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for record in np.flatnonzero(waits[batch.site]):
            key = (int(batch.block[record]), int(batch.thread[record]))
            entry = (int(batch.step[record]), int(batch.address[record]) & 0xFFFF_FFFF)
            self._at.setdefault(key, []).append(entry)

    def ordered(self, a: int, b: int) -> bool:
        """Is an operation that named both lanes between the two accesses?"""
        batch = self._batch
        both = (1 << int(batch.thread[a]) % WARP) | (1 << int(batch.thread[b]) % WARP)
        return self._before(a, both) != self._before(b, both)

    def _before(self, record: int, both: int) -> int:
        batch = self._batch
        entries = self._at.get((int(batch.block[record]), int(batch.thread[record])), [])
        return sum(1 for step, mask in entries if step < batch.step[record] and mask & both == both)


class BlockRaces:
    """Races between blocks: what each block touched in global memory, gathered over a launch.

    Args:
        kernel: the kernel.
        program: its program, to see whether it orders blocks by fences.
        most: units remembered; beyond it the check ends, and ``complete`` is False.
    """

    def __init__(self, kernel: Kernel, program: Program, most: int = 8 << 20) -> None:
        self._kernel = kernel
        self._most = most
        self._parts: list[np.ndarray] = []
        self._size = 0
        self.complete = True
        atomics = any(s.kind == SiteKind.ATOMIC and s.space in (Space.GLOBAL, Space.GENERIC) for s in kernel.sites)
        fences = _FENCE.search(program.ptx) is not None
        self.skipped = bool(_is_flag(kernel).any()) or (atomics and fences) if kernel.sites else True
        """The kernel orders its blocks itself, so nothing can be said."""

    _TOUCH = np.dtype([("unit", "<i8"), ("block", "<i8"), ("kind", "u1"), ("site", "<u4"), ("thread", "<u4")])

    def add(self, batch: Batch) -> None:
        """Remember what the blocks of a batch touched: of each unit and kind of access, the first and last block."""
        if self.skipped or not self.complete:
            return
        found = touches(batch, self._kernel, batch.is_global)
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
        self.complete = self._size <= self._most

    def races(self) -> list[Race]:
        """Races between blocks seen so far."""
        if self.skipped or not self._size:
            return []
        part = np.concatenate(self._parts)
        key, bound = compact(part["unit"])
        low, high = spread(key, bound, part["block"])
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


def _counted(race: Race, count: int) -> Race:
    from dataclasses import replace

    return replace(race, count=count)
