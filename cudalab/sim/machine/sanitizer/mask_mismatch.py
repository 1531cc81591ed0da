"""Mask mismatches: lanes that name each other in the mask of a warp operation and do not execute it together.

CUDA C++ Programming Guide, "Warp Vote Functions", "Warp Shuffle Functions", "Synchronization Functions": all non-exited
threads named in a mask must execute the same intrinsic with the same mask, or the result is undefined. PTX ISA,
``bar.warp.sync``, ``shfl.sync``, ``vote.sync``: the executing thread waits until all non-exited threads of the mask
have executed the operation with the same qualifiers and the same mask.

So lanes may arrive late, after operations under smaller masks; they may execute the operation from different lines; and
they may have exited. What is reported is an operation that completes only because named lanes exit which until then had
been at other warp operations. (If they do not exit, the wait never ends: that is a deadlock, which ends the block and
whose text names the masks.) On a GPU the result depends on which lanes arrive first. An H200 and compute-sanitizer
2025.3.1 report none of the three planted bugs of this class (2026-11-21).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from cudalab.sim.abi import WARP
from cudalab.sim.arrays import unique_values
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.machine.trace.batch import Batch, waiting_warp_sites

_MOST_OPERATIONS = 1 << 16
"""Warp operations of single lanes that are replayed in one batch."""


@dataclass(frozen=True)
class MaskMismatch:
    """Lanes at ``site`` that name others, which were at ``other_site`` and never arrived."""

    site: int
    other_site: int
    block: int
    """Linear index in the grid."""
    thread: int
    """The first of the lanes that waited."""
    lanes: int
    mask: int
    other_lanes: int
    """Lanes at ``other_site`` that the mask names, as bits."""
    other_mask: int


@dataclass(eq=False)
class _Lane:
    """The warp operations that one lane executed, in order."""

    sites: list[int]
    masks: list[int]
    at: int = 0
    """The operation at which it waits."""
    completions: list[int] = field(default_factory=list)
    """For each operation so far: which completion of the warp's it was part of."""

    @property
    def exited(self) -> bool:
        return self.at == len(self.sites)


def find_mask_mismatches(batch: Batch, kernel: Kernel) -> list[MaskMismatch]:
    """Every warp operation of a finished block that completed without named lanes that had diverged."""
    waits = waiting_warp_sites(kernel)
    partial = batch.partial & batch.finished[:, None]
    if not waits.any() or not partial.any():
        return []
    at = np.flatnonzero(waits[batch.site] & (batch.event == 0))
    at = at[partial[batch.block[at], batch.thread[at] // WARP]]
    kinds = _numbered([site.opcode for site in kernel.sites])
    at = at[_uneven(batch, at, np.array(kinds))]
    places = _numbered([site.location for site in kernel.sites])
    found: list[MaskMismatch] = []
    for block, warp, records in _warps(batch, at[:_MOST_OPERATIONS]):
        found += _Replay(batch, records, warp, kinds, places).mismatches(int(batch.blocks[block]))
    return found


def _numbered(values: Iterable[object]) -> list[int]:
    """Equal values get equal numbers."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _uneven(batch: Batch, at: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Which operations are of warps in which not all lanes of some mask execute it equally often: only there can an
    operation complete without a named lane."""
    warp = batch.block[at] * batch.warps + batch.thread[at] // WARP
    mask = batch.address[at].astype(np.int64) & 0xFFFF_FFFF
    lane = batch.thread[at] % WARP
    keys = np.stack([warp, kinds[batch.site[at]], mask], axis=1)
    groups, member = np.unique(keys, axis=0, return_inverse=True)
    counts = np.zeros((len(groups), WARP), np.int64)
    np.add.at(counts, (member.reshape(-1), lane), 1)
    width = np.minimum(WARP, batch.threads - groups[:, 0] % batch.warps * WARP)
    named = (groups[:, 2, None] >> np.arange(WARP)) & 1 & (np.arange(WARP) < width[:, None])
    most, least = counts.max(axis=1), np.where(named, counts, np.iinfo(np.int64).max).min(axis=1)
    return np.isin(warp, groups[most != least, 0])


def _warps(batch: Batch, at: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    warp = batch.block[at] * batch.warps + batch.thread[at] // WARP
    for number in unique_values(warp):
        yield int(number) // batch.warps, int(number) % batch.warps, at[warp == number]


class _Replay:
    """Replays the operations of one warp, as the block driver completed them (``compiler/runtime/states.py``)."""

    def __init__(self, batch: Batch, records: np.ndarray, warp: int, kinds: list[int], places: list[int]) -> None:
        self._first = warp * WARP
        present = (1 << min(WARP, batch.threads - self._first)) - 1
        self._lanes = [_Lane([], []) for _ in range(present.bit_length())]
        lane, site = batch.thread[records] - self._first, batch.site[records]
        mask = batch.address[records].astype(np.int64) & present
        for index in np.argsort(batch.step[records], kind="stable").tolist():
            own = self._lanes[int(lane[index])]
            own.sites.append(int(site[index]))
            own.masks.append(int(mask[index]) | 1 << int(lane[index]))
        self._kinds, self._places = kinds, places
        self._completions = 0

    def mismatches(self, block: int) -> list[MaskMismatch]:
        """Those of this warp, one for each operation that completed without a named lane."""
        found: list[MaskMismatch] = []
        while True:
            complete, incomplete = self._ready()
            if not complete and not incomplete:
                return found
            for lanes in complete:
                self._execute(lanes)
            if complete:
                continue
            for lanes in incomplete:
                mismatch = self._mismatch(block, lanes)
                if mismatch is not None:
                    found.append(mismatch)
                self._execute(lanes)

    def _ready(self) -> tuple[list[list[int]], list[list[int]]]:
        """Groups of lanes whose operation can complete: with all lanes of the mask, and without those that exited."""
        groups: dict[tuple[int, int], list[int]] = {}
        for number, lane in enumerate(self._lanes):
            if not lane.exited:
                key = self._kinds[lane.sites[lane.at]], lane.masks[lane.at]
                groups.setdefault(key, []).append(number)
        complete, incomplete = [], []
        for (_, mask), lanes in groups.items():
            here = sum(1 << lane for lane in lanes)
            missing = mask & ~here
            if not missing:
                complete.append(lanes)
            elif all(self._lanes[lane].exited for lane in _bits(missing)):
                incomplete.append(lanes)
        return complete, incomplete

    def _execute(self, lanes: list[int]) -> None:
        self._completions += 1
        for lane in lanes:
            self._lanes[lane].completions.append(self._completions)
            self._lanes[lane].at += 1

    def _mismatch(self, block: int, lanes: list[int]) -> MaskMismatch | None:
        """Did a missing lane execute other operations since it was last converged with the others?"""
        here = self._lanes[lanes[0]]
        mask = here.masks[here.at]
        for lane in _bits(mask & ~sum(1 << lane for lane in lanes)):
            diverged = self._divergence(here, self._lanes[lane])
            if diverged is not None:
                own, other = diverged
                there = self._lanes[lane]
                site, other_mask = there.sites[other], there.masks[other]
                elsewhere = sum(
                    1 << each
                    for each in _bits(mask)
                    if each not in lanes and site in self._lanes[each].sites and other_mask in self._lanes[each].masks
                )
                return MaskMismatch(
                    here.sites[own],
                    site,
                    block,
                    self._first + lanes[0],
                    sum(1 << each for each in lanes),
                    here.masks[own],
                    elsewhere,
                    other_mask,
                )
        return None

    def _divergence(self, here: _Lane, there: _Lane) -> tuple[int, int] | None:
        """Where two lanes diverged after they last executed an operation together: the operation of ``here`` that
        named ``there``, and what that one executed instead. None: it just exited."""
        bit = 1 << self._lanes.index(there)
        index = {completion: number for number, completion in enumerate(there.completions)}
        own = other = 0
        for number in range(len(here.completions) - 1, -1, -1):
            theirs = index.get(here.completions[number])
            if theirs is not None and self._place(here, number) == self._place(there, theirs):
                own, other = number + 1, theirs + 1
                break
        together = set(here.completions[own:])
        while own < here.at and other < len(there.sites) and self._in_step(here, own, there, other):
            own, other = own + 1, other + 1
        alone = [number for number in range(other, len(there.sites)) if there.completions[number] not in together]
        if not alone:
            return None
        named = next((number for number in range(own, here.at) if here.masks[number] & bit), here.at)
        return named, alone[0]

    def _in_step(self, here: _Lane, own: int, there: _Lane, other: int) -> bool:
        """Do both execute the same line, neither naming the other?"""
        here_bit, there_bit = 1 << self._lanes.index(here), 1 << self._lanes.index(there)
        alike = self._place(here, own) == self._place(there, other)
        return alike and not here.masks[own] & there_bit and not there.masks[other] & here_bit

    def _place(self, lane: _Lane, number: int) -> int:
        return self._places[lane.sites[number]]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
