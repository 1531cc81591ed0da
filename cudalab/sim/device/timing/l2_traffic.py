"""Which ranges of device memory a launch goes over, for the L2 (l2_cache.py).

A few blocks of the grid are traced: the first, the last, two neighbours and some between. From where they
touch the memory behind each pointer follows where the whole grid does. Most kernels go over it once, with the block's
number; of those that come round to the same addresses (``data[i % n]``) the blocks' places differ from a straight line
by multiples of ``n``, and the greatest common divisor of these differences is the range that they go round in.

Little memory needs no trace: all of it counts as touched, as far as the sample says. So does the memory of kernels
whose blocks wait for each other, and of blocks that are too long to be traced.

What is simplified: other ways of touching data again, as rows and columns of blocks do, are taken to be near enough to
hit. A learner would notice in a matrix product whose matrices are larger than the L2: a GPU loads some tiles twice.

Where neighbouring blocks share lines, as narrow tiles of a matrix do, these move once.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.arrays import median, unique_values
from cudalab.sim.device.timing.l2_ranges import Sweep
from cudalab.sim.machine.counters.metrics import LINE
from cudalab.sim.machine.launch.module import Launch
from cudalab.sim.machine.trace.async_records import as_accesses
from cudalab.sim.machine.trace.recorder import BlockTrace, Tracer

_RECORDS = 1 << 14
"""Records of each block: of a longer one it is not known how far it goes."""
_BETWEEN = 6
"""Blocks that are traced between the first and the last, besides the middle ones."""
_OFF_CENTRE = 0.382
"""Where in the grid the two neighbours are: grids that come round do so at a half, a quarter …"""
_ON_A_LINE = 0.05
"""Part of a range by which blocks may be off a straight line: rows end, edges are cut."""
_EVENLY = 0.9
"""Part of a block's lines that are as far apart as most, if they are the rows of a tile."""
_BY_CHANCE = 0.1
"""Part of a block's lines that others touch, too, up to which they lie in no order: searches meet at the top."""
_LINE_BITS = 40
"""Numbers of lines of one piece need fewer bits."""
_MOST_SWEEPS = 64
"""Ranges that are followed, the largest: a kernel that loads addresses may go over each of thousands of allocations."""
_TOGETHER = 0.5
"""Part of their lines that neighbouring blocks share, from which on coming again is near."""


_NEAR = (10, 7, 5)
"""Blocks that many halvings of the grid from its ends are traced where these touch nothing."""


class Once(NamedTuple):
    """Of the lines that each block touches once, summed over blocks: the share that moves, because the blocks that
    share a line come to it at nearly the same time."""

    loaded: float
    stored: float


class Anywhere(NamedTuple):
    """Lines that blocks load or store without an order, as gathers and scatters do: the range that they lie in is found
    in the L2 as far as that keeps it, and otherwise read or written again with each block."""

    lines: float
    """Of each block, summed over blocks."""
    range: float
    """Bytes."""


class _Placed(Struct, frozen=True):
    """A sweep within a piece of memory, which is another one in a launch with other pointers."""

    which: int
    offset: int
    size: int
    bytes: float
    times: float = 1.0
    stored: bool | None = None
    """Is it written? None: where the launch may write to its allocation."""
    loaded: bool = False
    """Is it known to be read?"""
    by_block: float = 0.0
    """Bytes of the lines that each block touches, summed over blocks that share them with neighbours; 0: they share
    none, or it is not known."""
    anywhere: float = 0.0
    """The same where they lie in no order; 0: they do not."""


class Traffic(Struct, frozen=True, eq=False):
    """What the launches of one kernel, configuration and kind of arguments touch."""

    placed: tuple[_Placed, ...]
    shared: bool
    """Do its blocks come to other SMs in each launch, because not all are resident at once?"""

    @property
    def distinct(self) -> float:
        """Bytes of the distinct lines that it touches."""
        return sum(each.bytes for each in self.placed)

    @property
    def once(self) -> Once:
        """What neighbouring blocks share counts once."""
        loaded, stored = [each for each in self.placed if each.loaded], [each for each in self.placed if each.stored]
        return Once(_once(loaded), _once(stored))

    def anywhere(self, *, stored: bool) -> list[Anywhere]:
        """What it loads, or stores, in no order."""
        return [
            Anywhere(each.anywhere / LINE, each.bytes)
            for each in self.placed
            if each.anywhere and (each.stored if stored else each.loaded)
        ]

    def sweeps(self, launch: Launch) -> list[Sweep]:
        """The ranges of a launch, or the largest of very many."""
        pieces, written = _pieces(launch), _written(launch)
        placed = self.placed
        if len(placed) > _MOST_SWEEPS:
            placed = tuple(heapq.nlargest(_MOST_SWEEPS, placed, key=lambda each: each.bytes))
        found = []
        for each in placed:
            if each.which < len(pieces):
                piece = pieces[each.which]
                stored = each.stored
                if stored is None:
                    stored = written is None or piece.allocation in written
                found.append(Sweep(piece.start + each.offset, each.size, each.bytes, each.times, stored, self.shared))
        return found


def _once(placed: Sequence[_Placed]) -> float:
    by_blocks = sum(each.by_block or each.bytes * each.times for each in placed)
    return min(1.0, sum(each.bytes * each.times for each in placed) / by_blocks) if by_blocks else 1.0


class _Piece(NamedTuple):
    """Memory that a pointer among the parameters names: up to the next one, or the end of its allocation."""

    start: int
    size: int
    allocation: int
    """Where that begins."""

    @property
    def end(self) -> int:
        return self.start + self.size


def traffic_of(launch: Launch, touched: float, resident: int, little: int) -> Traffic:
    """What a launch touches. ``touched``: bytes of lines, as its sample says; ``resident``: blocks that are resident at
    once; ``little``: bytes of memory that need no trace."""
    pieces = _pieces(launch)
    whole = sum(each.size for each in pieces)
    placed: list[_Placed] = []
    if whole > little and _can_be_traced(launch):
        placed = _traced(launch, pieces, touched)
    elif whole:
        share = min(1.0, touched / whole)
        placed = [_Placed(index, 0, each.size, each.size * share) for index, each in enumerate(pieces)]
    return Traffic(tuple(each for each in placed if each.bytes), launch.config.blocks > resident)


def _pieces(launch: Launch) -> list[_Piece]:
    """Memory of its device that it may touch, in the order of its parameters: that of another one is not kept here."""
    memory, kernel = launch.kernel.module.memory, launch.kernel
    pointers = kernel.pointers(launch.args)
    allocations = memory if kernel.follows_pointers else pointers.allocations
    found, device = [], kernel.module.device
    own = {each.pointer: each for each in allocations if each.kind != "pinned" and not each.is_of_peer(device)}
    for each in own.values():
        inside = sorted({address for address in pointers.addresses if each.pointer <= address < each.end})
        starts = inside or [each.pointer]
        found += [
            _Piece(start, end - start, each.pointer) for start, end in zip(starts, [*starts[1:], each.end], strict=True)
        ]
    return found


def _written(launch: Launch) -> set[int] | None:
    """Where the allocations begin that it may store to; None: any may be one."""
    if not launch.kernel.writes_global:
        return set()
    written = launch.kernel.pointers(launch.args).written
    return None if written is None else {start for start, _ in written}


def _can_be_traced(launch: Launch) -> bool:
    return not (launch.config.cooperative or launch.kernel.kernel.poll_points)


class _Seen:
    """What one block touches of one allocation, by line."""

    def __init__(self, lines: np.ndarray) -> None:
        self.lines = lines
        self.first, self.end = int(lines[0]) * LINE, (int(lines[-1]) + 1) * LINE

    @property
    def size(self) -> int:
        return self.end - self.first


class _LinesOfPieces:
    """Finds the lines of each piece in what blocks have done."""

    def __init__(self, launch: Launch, pieces: Sequence[_Piece]) -> None:
        spaces = (Space.GLOBAL, Space.GENERIC, Space.TEXTURE)
        sites = [(site.kind, site.space in spaces) for site in launch.kernel.kernel.sites]
        writes = (SiteKind.STORE, SiteKind.ATOMIC)
        self._wanted = np.array([there and kind in (SiteKind.LOAD, *writes) for kind, there in sites])
        self._writes = np.array([kind in writes for kind, _ in sites])
        self._blocks: list[int] = []
        self._addresses: list[np.ndarray] = []
        self._stores: list[np.ndarray] = []
        self._order = np.argsort([each.start for each in pieces])
        self._starts = np.array([pieces[index].start for index in self._order], np.uint64)
        self._ends = np.array([pieces[index].end for index in self._order], np.uint64)

    def take(self, trace: BlockTrace) -> None:
        """Keep what a block has done; its trace is not needed any more."""
        records = as_accesses(trace.records)
        site = records["site"]
        wanted = np.flatnonzero(self._wanted[site])
        self._blocks.append(trace.block)
        self._addresses.append(records["address"][wanted])
        self._stores.append(self._writes[site[wanted]])

    def found(self) -> _Touched:
        """What all blocks together have touched."""
        addresses, writes = np.concatenate(self._addresses), np.concatenate(self._stores)
        block = np.repeat(np.arange(len(self._blocks)), [len(each) for each in self._addresses])
        position = np.searchsorted(self._starts, addresses, side="right").astype(np.int64) - 1
        inside = (position >= 0) & (addresses < self._ends[np.maximum(position, 0)])
        position, writes = position[inside], writes[inside]
        lines = ((addresses[inside] - self._starts[position]) // np.uint64(LINE)).astype(np.int64)
        seen: list[dict[int, _Seen]] = [{} for _ in self._order]
        keys = unique_values(((position * len(self._blocks) + block[inside]) << _LINE_BITS) + lines)
        owners = keys >> _LINE_BITS
        bounds = np.flatnonzero(np.append(True, owners[1:] != owners[:-1])).tolist() if len(keys) else []
        for begin, end in zip(bounds, [*bounds[1:], len(keys)], strict=False):
            piece, number = divmod(int(owners[begin]), len(self._blocks))
            seen[int(self._order[piece])][self._blocks[number]] = _Seen(keys[begin:end] & ((1 << _LINE_BITS) - 1))
        stored, loaded = (
            frozenset(self._order[np.bincount(each, minlength=len(self._order)) > 0].tolist())
            for each in (position[writes], position[~writes])
        )
        return _Touched(seen, stored, loaded)


class _Touched(NamedTuple):
    """What traced blocks touch of each piece, by block; and which pieces they store to, and load from."""

    seen: list[dict[int, _Seen]]
    stored: frozenset[int]
    loaded: frozenset[int]


def _traced(launch: Launch, pieces: Sequence[_Piece], touched: float) -> list[_Placed]:
    blocks = launch.config.blocks
    middle = int((blocks - 1) * _OFF_CENTRE)
    others = {0, min(middle + 1, blocks - 1), blocks - 1}
    others |= {int(blocks * (index * 0.618034 % 1.0)) for index in range(1, _BETWEEN + 1)}
    lines = _LinesOfPieces(launch, pieces)
    with Tracer(launch, records=_RECORDS) as tracer:
        first = tracer.run(middle, most=_RECORDS)
        lines.take(first)
        cut = not first.complete
        rest = sorted(({0, blocks - 1} if cut else others) - {middle})
        if rest:
            together = None if cut else _run_together(tracer, rest, first.written)
            traces = together or (tracer.run(block, most=_RECORDS) for block in rest)
            for trace in traces:
                lines.take(trace)
                cut = cut or not trace.complete
        touched_by = lines.found()
        ends = [] if cut else _near_silent_ends(touched_by.seen, blocks)
        if ends:
            for trace in tracer.run_batch(ends) or (tracer.run(block, most=_RECORDS) for block in ends):
                lines.take(trace)
            touched_by = lines.found()
    found_in = [(index, pieces[index].size, by_block) for index, by_block in enumerate(touched_by.seen) if by_block]
    if cut:
        begun = sum(_lines(by_block) for _, _, by_block in found_in) * LINE * blocks
        placed = [_continued(index, size, by_block, blocks, touched / begun) for index, size, by_block in found_in]
    else:
        placed = [_placed(index, size, by_block, blocks, middle) for index, size, by_block in found_in]
    return [
        replace(each, stored=each.which in touched_by.stored, loaded=each.which in touched_by.loaded) for each in placed
    ]


def _run_together(tracer: Tracer, blocks: Sequence[int], each: int) -> list[BlockTrace]:
    """Run blocks that write some ``each`` records each; no traces where one makes more than are kept of a block."""
    if each * len(blocks) <= _RECORDS:
        return tracer.run_batch(blocks)
    tracer.rollback()  # what the block before them has stored
    traces = tracer.run_batch(blocks, room=len(blocks) * _RECORDS)
    if any(trace.total > _RECORDS for trace in traces):
        tracer.rollback()
        return []
    return traces


def _near_silent_ends(seen: Sequence[dict[int, _Seen]], blocks: int) -> list[int]:
    """Blocks near the first or the last one where that touches nothing, as at the edges of a stencil: they tell how far
    the others reach."""
    known = set().union(*seen)
    near = {blocks >> shift for shift in _NEAR}
    found = set() if 0 in known else near
    found |= set() if blocks - 1 in known else {blocks - 1 - each for each in near}
    return sorted(found - known - {0, blocks - 1})


def _lines(seen: dict[int, _Seen]) -> float:
    """What a block touches of a piece on average."""
    return sum(len(each.lines) for each in seen.values()) / len(seen)


def _continued(which: int, size: int, seen: dict[int, _Seen], blocks: int, times: float) -> _Placed:
    """Where the grid touches a piece of which its blocks were seen to begin with the first: as the sample says, they
    touch so many times as much, and go on as they began."""
    total = _lines(seen) * LINE * blocks
    first = min(each.first for each in seen.values())
    span = max(each.end for each in seen.values()) - first
    span = min(size - first, max(1, math.ceil(span * max(1.0, times))))
    return _Placed(which, first, span, min(float(span), total * times))


def _placed(which: int, size: int, seen: dict[int, _Seen], blocks: int, middle: int) -> _Placed:
    """Where the grid touches a piece, by what some blocks touch."""
    total = _lines(seen) * LINE * blocks
    first = min(each.first for each in seen.values())
    span = max(each.end for each in seen.values()) - first
    span = min(max(span, 1), size - first)
    pair = seen.get(middle), seen.get(middle + 1)
    if (
        pair[0] is None
        or pair[1] is None
        or len(np.intersect1d(pair[0].lines, pair[1].lines)) > _TOGETHER * len(pair[0].lines)
    ):
        return _Placed(which, first, span, min(total, float(span)), by_block=total)
    period = _period(seen, middle, pair[1].first - pair[0].first)
    if period and total > period:
        span = min(period, size - first)
        return _Placed(which, first, span, float(span), total / span)
    placed = _Placed(which, first, span, min(total, float(span)))
    if total <= span:
        return placed
    if _are_even(pair[0].lines):
        return replace(placed, by_block=total)
    return replace(placed, anywhere=total) if _met_again(seen, middle) <= _BY_CHANCE else placed


def _met_again(seen: dict[int, _Seen], middle: int) -> float:
    """The share of the middle block's lines that one of the others touches, too."""
    others = np.concatenate([each.lines for block, each in seen.items() if block != middle])
    return float(np.isin(seen[middle].lines, others).mean())


def _are_even(lines: np.ndarray) -> bool:
    """Do they lie at equal distances, as the rows of a tile do?"""
    apart = np.diff(lines)
    return len(apart) > 1 and float((apart == median(apart)).mean()) >= _EVENLY


def _period(seen: dict[int, _Seen], middle: int, stride: int) -> int:
    """Bytes after which the blocks come round to the same addresses; 0 where they don't, or in another way."""
    begin = seen[middle].first
    off = {abs(each.first - begin - stride * (block - middle)) for block, each in seen.items()} - {0}
    if not off:
        return 0
    period = math.gcd(*off)
    widest = max(each.size for each in seen.values())
    reached = max(each.end for each in seen.values()) - min(each.first for each in seen.values())
    return period if period >= max(widest, reached * (1.0 - _ON_A_LINE)) else 0
