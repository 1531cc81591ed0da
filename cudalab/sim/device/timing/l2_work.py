"""One piece of work goes through the L2, from what it held before to what it holds behind (l2_cache.py)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cudalab.sim.device.timing.l2_ranges import (
    A_QUARTER,
    BESIDE,
    NORMAL,
    PERSISTING,
    PROPERTIES,
    STREAMING,
    UNUSED,
    Bounds,
    L2Use,
    Lookups,
    Range,
    Ranges,
    Sweep,
    Window,
    bounds_of_persisting,
    bounds_of_streaming,
)

PIECES = 32
"""Parts of the L2 in which ranges are followed."""
_MOST_RANGES = 256
"""Ranges that each property's list has room for: of more, the oldest are forgotten."""
_STEPS = 64
"""Shares are rounded to this, so that nearly equal ones have the same time."""
_NEARLY = 0.99
_WAITING = 0.45
"""Part of the lines that earlier work stored which still wait to be written when other data push them out: on an H200,
reads behind stores cost that much more than reads behind reads."""
_PLAIN: tuple[tuple[int, float], ...] = ((NORMAL, 1.0),)


class Part(NamedTuple):
    """A range of a sweep in which all lines have the same properties."""

    sweep: Sweep
    start: int
    end: int
    bytes: float
    shares: tuple[tuple[int, float], ...]
    plain: bool
    """Is it outside a window? Then lines that persist go on doing so."""


def parts_of(sweeps: Iterable[Sweep], window: Window | None) -> list[Part]:
    """The sweeps, cut where a window begins and ends."""
    found = []
    for sweep in sweeps:
        end = sweep.start + sweep.size
        low, high, shares = end, end, _PLAIN
        if window is not None and window.start < end and sweep.start < window.start + window.size:
            low, high = max(sweep.start, window.start), min(end, window.start + window.size)
            shares = window.shares()
        for first, last, of_these in ((sweep.start, low, _PLAIN), (low, high, shares), (high, end, _PLAIN)):
            if first < last:
                touched = sweep.bytes * (last - first) / sweep.size
                found.append(Part(sweep, first, last, touched, of_these, of_these is _PLAIN))
    return found


class Capacity(NamedTuple):
    """How much the L2 holds."""

    size: int
    set_aside: int
    normal: Mapping[tuple[bool, bool], Bounds]
    """Bounds of normal lines, by ``shared`` and ``settled``."""

    @property
    def piece(self) -> int:
        """Bytes of the pieces in which ranges are followed."""
        return max(1, self.size // PIECES)


class _Found(NamedTuple):
    """Bytes of a piece that are listed with one property."""

    held: float
    dirty: float
    """Of those that are held."""
    listed: float


class Work:
    """One piece of work, from one state to the next."""

    def __init__(self, capacity: Capacity, ranges: Ranges, parts: Sequence[Part]) -> None:
        self._capacity = capacity
        self._ranges = list(ranges)
        self._persist = sum(entry.bytes for entry in ranges if entry.property == PERSISTING)
        self._persisting = bounds_of_persisting(capacity.size, capacity.set_aside)
        self._streaming = bounds_of_streaming(capacity.size)
        self._unused = UNUSED.scaled(capacity.size)
        self._left_as = {part: [0.0 for _ in PROPERTIES] for part in parts}
        """What the lines of each part are behind it: bytes by property."""
        self.lookups = [Lookups(0.0, 0.0) for _ in PROPERTIES]
        self._distinct = sum(part.bytes for part in parts)
        self._stored = [(part.start, part.end) for part in parts if part.sweep.stored]
        self._written_back = self._dirty()
        for part, start, end in self._in_order(parts):
            self._touch(part, start, end)
        self._written_back -= self._dirty()
        self._come_round(parts)

    def use(self) -> L2Use:
        missed = [each.asked - each.hit for each in self.lookups]
        asked, distinct = sum(each.asked for each in self.lookups), max(1.0, self._distinct)
        if not asked:
            return L2Use(1.0, 0.0, 0.0, 1.0, 0.0)
        return L2Use(
            _rounded(1.0 - sum(missed) / asked),
            _rounded(sum(missed) / distinct),
            _rounded(max(0.0, self._written_back) / distinct),
            self._outside(missed),
            self._capacity.set_aside / self._capacity.size,
        )

    def _outside(self, missed: Sequence[float]) -> float:
        """The share of what missed that does not persist."""
        return _rounded(1.0 - missed[PERSISTING] / sum(missed)) if sum(missed) else 1.0

    def left(self) -> Ranges:
        """What is held behind it, less what is too old to matter."""
        farthest, gone = [self._farthest(which) for which in PROPERTIES], [0.0 for _ in PROPERTIES]
        found: list[Range] = []
        for entry in reversed(self._ranges):
            if gone[entry.property] < farthest[entry.property]:
                found.append(entry)
            gone[entry.property] += entry.bytes
            if len(found) == _MOST_RANGES:
                break
        return tuple(reversed(found))

    def forget(self, start: int, end: int) -> None:
        """These bytes are not held any more."""
        self._find(start, end, shared=False)

    def _farthest(self, which: int) -> float:
        """What has been touched of a property when older ranges of it do not matter."""
        if which != NORMAL:
            return self._persisting.nothing
        unused = self._unused.nothing if self._persist else 0.0
        return max(self._capacity.normal[False, True].nothing, unused)

    def _kept(
        self, which: int, distances: Sequence[float], *, shared: bool, settled: bool, dirty: bool = False
    ) -> float:
        """The share of a range that is held after so many bytes of each property have been touched. Lines that DRAM
        does not have find no room in a large set-aside, even where nothing persists."""
        size, set_aside, normal = self._capacity
        if which == NORMAL:
            large = dirty and set_aside > A_QUARTER * size
            left = 1.0 - (set_aside if large else min(set_aside, self._persist)) / size
            return normal[shared, settled].scaled(left).kept(distances[NORMAL])
        if which == STREAMING:
            return self._streaming.kept(distances[NORMAL] + distances[STREAMING])
        distance = distances[PERSISTING] + BESIDE * (distances[PERSISTING] + distances[NORMAL])
        return min(self._persisting.kept(distance), self._unused.kept(distances[NORMAL]))

    def _dirty(self) -> float:
        """Bytes that are held and that DRAM does not have. Of what only earlier work stored, some has been written."""
        found, distances = 0.0, [0.0 for _ in PROPERTIES]
        for entry in reversed(self._ranges):
            distances[entry.property] += entry.bytes
            if entry.dirty:
                again = any(start < entry.end and entry.start < end for start, end in self._stored)
                waiting = entry.dirty if again else _WAITING * entry.dirty
                found += waiting * self._kept(entry.property, distances, shared=False, settled=True)
        return found

    def _in_order(self, parts: Sequence[Part]) -> Iterator[tuple[Part, int, int]]:
        """Pieces of the parts in the order in which they are touched, as long as it takes to touch a 32nd of the L2. Of
        far more than the L2 holds, those between the first, which may find something, and the last, which stay, are one
        piece."""
        pieces: list[tuple[float, Part, int, int]] = []
        for part in parts:
            density = min(1.0, part.bytes / (part.end - part.start))
            size = min(part.end - part.start, math.ceil(self._capacity.piece / density)) if density else 1
            count = -(-(part.end - part.start) // size)
            few = PIECES + 1
            edges = [*range(min(count, few)), *range(max(few, count - few), count), count]
            for index, following in zip(edges, edges[1:], strict=False):
                place = (index + following) / (2 * count)
                pieces.append((place, part, part.start + index * size, min(part.end, part.start + following * size)))
        pieces.sort(key=lambda piece: piece[0])
        return (piece[1:] for piece in pieces)

    def _touch(self, part: Part, start: int, end: int) -> None:
        touched = part.bytes * (end - start) / (part.end - part.start)
        if part.plain and self._is_latest(start, end, touched, part.sweep.stored):
            self._found(part, touched, (touched, 0.0, 0.0))
            self._left_as[part][NORMAL] += touched
            return
        found = self._find(start, end, shared=part.sweep.shared)
        hits, dirty = [each.held for each in found], sum(each.dirty for each in found)
        self._found(part, touched, hits)
        if part.sweep.stored:
            self._written_back += max(0.0, touched - dirty)
            dirty = touched
        unclean = dirty / touched if touched else 0.0
        settled = part.sweep.stored or any(hits)
        for which, size in self._properties_of(part, touched, self._goes_on(part, touched, found[PERSISTING])):
            self._left_as[part][which] += size
            self._push(which, start, end, size, unclean, settled=settled or (part.plain and which == PERSISTING))

    def _goes_on(self, part: Part, touched: float, found: _Found) -> float:
        """Bytes of a piece that go on persisting where accesses do not say so: outside a window all that did; in one
        what is there. Of lines that streaming accesses come round to, those that do not fit become streaming until
        the rest stays."""
        if part.plain:
            return found.listed
        if part.sweep.times <= 1.0:
            return found.held
        return min(found.listed, self._room(part) * touched / part.bytes)

    def _room(self, part: Part) -> float:
        """Persisting bytes that stay from one round of a part to the next."""
        times = part.sweep.times
        others = sum(each.bytes * min(1.0, each.sweep.times / times) for each in self._left_as if each != part)
        return max(0.0, self._persisting.all - BESIDE * others) / (1.0 + BESIDE)

    @staticmethod
    def _properties_of(part: Part, touched: float, persist: float) -> Iterator[tuple[int, float]]:
        """Bytes by property behind a piece of which ``persist`` bytes persisted: all of them in accesses outside a
        window, those that are there in streaming ones. Both leave such lines persisting, as on an H200; normal accesses
        in a window do not. Of two hit ratios the smaller one's lines are among those of the larger."""
        shares = dict(part.shares)
        leaves = NORMAL if part.plain else STREAMING
        mine = shares.get(PERSISTING, 0.0)
        others = shares.get(leaves, 0.0)
        stay = min(
            touched * others, max(0.0, persist - touched * mine) * (others / (1.0 - mine) if mine < 1.0 else 0.0)
        )
        if stay or mine:
            yield PERSISTING, touched * mine + stay
        for which, share in part.shares:
            if which != PERSISTING:
                yield which, touched * share - (stay if which == leaves else 0.0)

    def _push(self, which: int, start: int, end: int, size: float, unclean: float, *, settled: bool) -> None:
        if bytes_ := int(size):
            self._ranges.append(Range(which, start, end, bytes_, int(bytes_ * min(1.0, unclean)), settled))
            self._persist += bytes_ if which == PERSISTING else 0

    def _found(self, part: Part, touched: float, hits: Sequence[float]) -> None:
        """Count lookups of which ``hits`` bytes were there with each property: lines that have kept their property
        count first."""
        own = {which: min(hits[which], touched * share) for which, share in part.shares}
        others = sum(hits) - sum(own.values())
        for which, share in part.shares:
            more = min(others, touched * share - own[which])
            others -= more
            self._count(which, touched * share, own[which] + more)

    def _count(self, which: int, asked: float, hit: float) -> None:
        before = self.lookups[which]
        self.lookups[which] = Lookups(before.asked + asked, before.hit + hit)

    def _is_latest(self, start: int, end: int, touched: float, stored: bool) -> bool:
        """Does it lie in what normal accesses used just now? Then its place in the order is as good as the last."""
        above = 0
        for entry in reversed(self._ranges):
            above += entry.bytes
            if above > self._capacity.piece:
                return False
            if entry.property == NORMAL and entry.start <= start and end <= entry.end:
                much = entry.bytes * (end - start) >= (entry.end - entry.start) * touched * _NEARLY
                return much and (not stored or (entry.settled and entry.dirty >= entry.bytes * _NEARLY))
        return False

    def _find(self, start: int, end: int, *, shared: bool) -> list[_Found]:
        """Bytes of a piece, by the property that they are listed with; they leave the list."""
        ranges, distances = self._ranges, [0.0 for _ in PROPERTIES]
        found = [_Found(0.0, 0.0, 0.0) for _ in PROPERTIES]
        for index in range(len(ranges) - 1, -1, -1):
            entry = ranges[index]
            which = entry.property
            distances[which] += entry.bytes
            if entry.end <= start or end <= entry.start:
                continue
            low, high = max(entry.start, start), min(entry.end, end)
            taken, dirty = entry.between(low, high), entry.dirty > entry.bytes / 2
            kept = self._kept(which, distances, shared=shared, settled=entry.settled, dirty=dirty)
            held, unclean, listed = found[which]
            found[which] = _Found(held + taken.bytes * kept, unclean + taken.dirty * kept, listed + taken.bytes)
            pairs = ((entry.start, low), (high, entry.end))
            rest = [entry.between(first, last) for first, last in pairs if first < last]
            ranges[index : index + 1] = rest
            if which == PERSISTING:
                self._persist -= entry.bytes - sum(each.bytes for each in rest)
        return found

    def _come_round(self, parts: Sequence[Part]) -> None:
        """Lines that the work touches again: what it touches of each property between two rounds is their distance."""
        for part in parts:
            times = part.sweep.times
            if times <= 1.0:
                continue
            between = [0.0 for _ in PROPERTIES]
            for other in parts:
                rounds = min(1.0, other.sweep.times / times)
                for which in PROPERTIES:
                    between[which] += self._left_as[other][which] * rounds
            kept = [
                self._kept(which, between, shared=part.sweep.shared, settled=True, dirty=part.sweep.stored)
                for which in PROPERTIES
            ]
            persist = self._left_as[part][PERSISTING] / part.bytes if part.bytes else 0.0
            again = part.bytes * (times - 1.0)
            for which, share in sorted(part.shares, reverse=True):  # what persists is of streaming accesses first
                stays = min(share, persist)
                persist -= stays
                there = stays * kept[PERSISTING] + (share - stays) * kept[which]
                self._count(which, again * share, again * there)
                if part.sweep.stored:
                    self._written_back += again * (share - there)


def _rounded(share: float) -> float:
    return round(share * _STEPS) / _STEPS
