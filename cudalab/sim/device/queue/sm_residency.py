"""Which blocks are resident on which SM, and how many more fit.

A block holds warps, registers, shared memory and a block slot of one SM from its start to its end. Blocks of several
kernels can be resident on an SM at the same time, as long as none of these resources runs out (CUDA C++ Programming
Guide, "Hardware Multithreading"). A kernel that is alone gets exactly as many blocks an SM as its theoretical
occupancy.

SMs in the same state form one group, so that a launch which fills the device is one step rather than one a block.
Blocks go to the SMs with the most room for them first, one each, until that evens out. The order on hardware is not
documented; the model depends on it only in how evenly blocks are spread.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from cudalab.sim.machine.launch.limits import DeviceLimits
from cudalab.sim.machine.launch.occupancy import occupancy


class BlockNeeds(NamedTuple):
    """SM resources of one block, besides a block slot."""

    warps: int
    registers: int
    """As many as become unavailable: registers are allocated to warps in units, from the part of a scheduler."""
    shared: int
    """Bytes, with what the system reserves."""
    each: int
    """Blocks that fit on an idle SM."""


def block_needs(limits: DeviceLimits, threads: int, registers: int, shared: int) -> BlockNeeds:
    """Resources of a block of ``threads`` threads with ``registers`` each and ``shared`` bytes of shared memory.

    The register file is split among the schedulers, and the remainder of a part is unusable; so a warp is charged an
    equal share of a part that is full of such warps. Raises ``ValueError`` when not even one block fits.
    """
    fit = occupancy(threads, registers, shared, limits=limits).blocks_per_sm
    if not fit:
        raise ValueError(f"a block of {threads} threads, {registers} registers and {shared} bytes fits no SM")
    warps, each = -(-threads // limits.warp_size), limits.registers_of_warp(registers)
    if each:
        part = limits.registers_per_sm // limits.schedulers
        each = part // (part // each)
    return BlockNeeds(warps, warps * each, limits.shared_of_block(shared), fit)


class _Group:
    """SMs with the same resident blocks: their number, and what is free on each."""

    __slots__ = ("count", "registers", "residents", "shared", "slots", "warps")

    def __init__(
        self, count: int, warps: int, registers: int, shared: int, slots: int, residents: dict[Hashable, int]
    ) -> None:
        self.count = count
        self.warps, self.registers, self.shared, self.slots = warps, registers, shared, slots
        self.residents = residents

    def fit(self, needs: BlockNeeds) -> int:
        """How many more such blocks fit on each of its SMs."""
        if not self.residents:
            return needs.each
        most = self.slots
        if most:
            most = min(most, self.warps // needs.warps, self.shared // needs.shared)
            if needs.registers:
                most = min(most, self.registers // needs.registers)
        return most

    def change(self, holder: Hashable, needs: BlockNeeds, each: int) -> None:
        """Add ``each`` blocks to every SM; remove them when negative."""
        self.warps -= each * needs.warps
        self.registers -= each * needs.registers
        self.shared -= each * needs.shared
        self.slots -= each
        now = self.residents.get(holder, 0) + each
        if now:
            self.residents[holder] = now
        else:
            del self.residents[holder]


class Residency:
    """The resident blocks of all SMs. A *holder* (a wave) places blocks and releases them."""

    def __init__(self, limits: DeviceLimits) -> None:
        self._limits = limits
        self.clear()

    @property
    def idle(self) -> int:
        """SMs without any block."""
        first = self._groups[0]
        return 0 if first.residents else first.count

    def fits(self, needs: BlockNeeds) -> bool:
        """Does at least one block fit?"""
        for group in self._groups:
            if group.fit(needs):
                return True
        return False

    def place(self, holder: Hashable, needs: BlockNeeds, blocks: int) -> int:
        """Place as many of ``blocks`` as fit, evenly; returns how many."""
        left = blocks
        first = self._groups[0]
        if left <= first.count and not first.residents:  # one each on idle SMs
            self._part(first, left).change(holder, needs, 1)
            return blocks
        while left:
            best, most, second = first, 0, 0
            for group in self._groups:
                fit = group.fit(needs)
                if fit > most:
                    best, most, second = group, fit, most
                elif fit > second:
                    second = fit
            if not most:
                break
            if left < best.count:
                self._part(best, left).change(holder, needs, 1)
                return blocks
            each = min(max(1, most - second), left // best.count)
            best.change(holder, needs, each)
            left -= each * best.count
        return blocks - left

    def release(self, holder: Hashable, needs: BlockNeeds, blocks: int | None = None) -> None:
        """Release ``blocks`` of the holder's blocks (``None``: all), from the SMs where it has most."""
        if blocks is None:
            for group in [group for group in self._groups if holder in group.residents]:
                group.change(holder, needs, -group.residents[holder])
                self._merge(group)
            return
        left = blocks
        while left:
            best = max(self._groups, key=lambda group: group.residents.get(holder, 0))
            if left < best.count:
                best, left = self._part(best, left), 0
            else:
                left -= best.count
            best.change(holder, needs, -1)
            self._merge(best)

    def hand_over(self, giver: Hashable, taker: Hashable) -> None:
        """Transfer the blocks of ``giver`` to ``taker``."""
        for group in self._groups:
            blocks = group.residents.pop(giver, 0)
            if blocks:
                group.residents[taker] = group.residents.get(taker, 0) + blocks

    def sms_with(self, holders: list[Hashable]) -> int:
        """SMs that hold a block of one of them."""
        return sum(group.count for group in self._groups if any(holder in group.residents for holder in holders))

    def clear(self) -> None:
        limits = self._limits
        self._groups = [
            _Group(
                limits.multiprocessors,
                limits.warps_per_sm,
                limits.registers_per_sm,
                limits.shared_per_sm,
                limits.blocks_per_sm,
                {},
            )
        ]

    def __iter__(self) -> Iterator[tuple[int, dict[Hashable, int]]]:
        """``(SMs, {holder: blocks on each})`` of every group."""
        return ((group.count, dict(group.residents)) for group in self._groups)

    def _part(self, group: _Group, count: int) -> _Group:
        """Split ``count`` SMs off the group."""
        if count == group.count:
            return group
        group.count -= count
        part = _Group(count, group.warps, group.registers, group.shared, group.slots, dict(group.residents))
        self._groups.append(part)
        return part

    def _merge(self, changed: _Group) -> None:
        """Merge the group with one in the same state. Idle SMs stay the first group."""
        groups = self._groups
        for other in groups:
            if other is not changed and other.residents == changed.residents:
                other.count += changed.count
                groups.remove(changed)
                changed = other
                break
        if not changed.residents and groups[0] is not changed:
            groups.remove(changed)
            groups.insert(0, changed)
