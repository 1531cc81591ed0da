"""Partition of a kernel into regions: the code from one suspension point up to the next ones.

Region 0 starts at the kernel's entry, region *k* at the resume block of suspension point *k*. Blocks reachable from
several starts are cloned into each. Where cloning would make the kernel much larger, all regions become one function
that dispatches to its start.
"""

from __future__ import annotations

from dataclasses import dataclass

from cudalab.sim.compiler.passes.control_flow import Block, End, reachable_from
from cudalab.sim.compiler.passes.liveness import Liveness
from cudalab.sim.compiler.passes.operands import definitions
from cudalab.sim.compiler.ptx.nodes import Instruction, Register

_GROWTH = 4
_SMALL = 2000


@dataclass
class Point:
    """A suspension point. ``number`` counts from 1; ``block`` ends in it, ``resume`` is its resume block; ``live`` is
    the bit set of registers to spill across it (without its ``results``)."""

    number: int
    instruction: Instruction
    block: int
    resume: int
    live: int
    results: list[Register]


@dataclass
class Region:
    """``starts``: (point number, first block) of each entry; ``blocks``: indices; ``written``: bit set of registers
    defined inside; ``ends``: numbers of the points it can reach; ``exits``: a thread can leave the kernel in it;
    ``unordered``: it may read from shared memory what other threads store without a barrier in between (``races``)."""

    starts: list[tuple[int, int]]
    blocks: list[int]
    written: int
    ends: list[int]
    exits: bool
    unordered: bool = False


def find_points(blocks: list[Block], liveness: Liveness) -> list[Point]:
    """The suspension points of a kernel in program order."""
    points: list[Point] = []
    for block in blocks:
        if block.end is End.SUSPEND:
            assert block.ending is not None
            points.append(
                Point(
                    len(points) + 1,
                    block.ending,
                    block.index,
                    block.successors[0],
                    liveness.live_out[block.index],
                    definitions(block.ending),
                )
            )
    return points


def find_regions(blocks: list[Block], points: list[Point], liveness: Liveness) -> list[Region]:
    """Partition the kernel: one region per start, or a single one with all starts."""
    starts = [(0, 0)] + [(point.number, point.resume) for point in points]
    bodies = [reachable_from(blocks, start, through_suspensions=False) for _, start in starts]
    original = sum(block.size for block in blocks)
    total = sum(blocks[index].size for body in bodies for index in body)
    if total > _GROWTH * original and total > _SMALL:
        return [_region(blocks, points, liveness, starts, sorted({index for body in bodies for index in body}))]
    return [_region(blocks, points, liveness, [start], body) for start, body in zip(starts, bodies, strict=True)]


def _region(
    blocks: list[Block], points: list[Point], liveness: Liveness, starts: list[tuple[int, int]], body: list[int]
) -> Region:
    inside = set(body)
    written = 0
    for index in body:
        written |= liveness.written[index]
    for number, _ in starts:
        if number:
            for register in points[number - 1].results:
                written |= 1 << register.index
    ends = [point.number for point in points if point.block in inside]
    exits = any(blocks[index].end in (End.EXIT, End.RETURN) for index in body)
    return Region(starts, body, written, ends, exits)


def frame_slots(points: list[Point], registers: list[Register]) -> dict[Register, int]:
    """Assign a frame slot to each register that is live at a suspension point.

    Registers that are never live at the same point share a slot. Returns byte offsets for one warp, where each slot
    holds 32 consecutive values; in a block of several warps offsets scale with their number.
    """
    together: dict[int, int] = {}
    for point in points:
        bits = point.live
        while bits:
            low = bits & -bits
            index = low.bit_length() - 1
            together[index] = together.get(index, 0) | point.live
            bits ^= low
    places: list[tuple[int, int]] = []  # (bytes, bit set of its registers)
    chosen: dict[int, int] = {}
    for index in sorted(together):
        size = max(1, registers[index].bits // 8)
        for number, (bytes_, members) in enumerate(places):
            if bytes_ == size and not members & together[index]:
                places[number] = (size, members | 1 << index)
                chosen[index] = number
                break
        else:
            chosen[index] = len(places)
            places.append((size, 1 << index))
    offsets, offset = [0] * len(places), 0
    for number in sorted(range(len(places)), key=lambda place: -places[place][0]):
        offsets[number] = offset
        offset += places[number][0] * 32
    return {registers[index]: offsets[number] for index, number in chosen.items()}
