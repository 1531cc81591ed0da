"""What the L2 holds from one piece of work to the next, on the one clock of the device.

The L2 is shared by all SMs and the copy engines. What a kernel, a memset or a copy touched stays there until other data
push it out, so a kernel may find its data there (a *warm* cache) or not (a *cold* one). Each line has one of three
access properties (CUDA C++ Programming Guide, "L2 Cache"): lines of *streaming* accesses go first, *persisting* ones go
last, as long as they fit the set-aside, *normal* ones are between. An access policy window says which property accesses
to a range have: ``hitRatio`` of its lines, always the same ones, get ``hitProp``, the others ``missProp``.

**What is kept here.** For each property a list of address ranges in the order of their last use. What has been touched
since a range was used is the range's *reuse distance*; how much of the range is still held falls from all to nothing
between two distances (:class:`Bounds`), which an H200 has shown (docs/evidence/2026-11-23-l2.md):

- Lines that were stored, or were found before, stay longest: data that is swept again and again stays up to 44 MB, and
  is gone from 51 MB on. Each half of the L2 keeps what its own SMs load, so where blocks come to other SMs in each
  launch, both halves want the same, and lines begin to go at half of the L2.
- Lines that were loaded once go between 22 and 41 MB.
- Persisting lines go between two distances that grow with the set-aside, which the driver rounds up to a 16th of the
  L2. Their own bytes count in full, and a quarter of all bytes that are touched meanwhile. A window's lines that are
  more than that push each other out before they are used again: that is *thrashing*, and a smaller hit ratio cures it.
- Streaming lines have what persisting ones leave of that; without a set-aside, what normal ones leave.
- A launch without a window makes persisting lines normal: on the H200 none survived one. So does a reset.
- Copies over the bus leave nothing behind, and what they write is gone.

**Why ranges.** A sweep of 256 MB goes over two million lines, and the addresses of all blocks in their order are not
known: a launch's time comes from one to ten traced ones. Ranges, followed in pieces of a 32nd of the L2, need neither;
a loop of launches comes back to a state that has been met before.

**Part of what a time is remembered by.** States are values: :meth:`L2Cache.take` looks up what follows a state and a
piece of work, and finds it out only once. What was used just now is not moved to the end of its list again, so that a
loop over little data stays in one state.

What is simplified: work takes its place in the L2 when it starts, all at once, so that kernels that run side by side
push out each other's data only from launch to launch, and within the set-aside; a range counts as touched evenly and in
the order of its addresses; sets, hashing and dirty lines are not modelled. A learner would notice where a kernel goes
backwards over what the kernel before it left: on a GPU the end of a range larger than the L2 is there, here it misses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cudalab.sim.device.profile import Profile

NORMAL, STREAMING, PERSISTING = 0, 1, 2
"""``cudaAccessProperty``"""
PROPERTIES = (NORMAL, STREAMING, PERSISTING)
_PIECES = 32
"""Parts of the L2 in which ranges are followed."""
_MOST_RANGES = 256
"""Ranges that each property's list has room for: of more, the oldest are forgotten."""
_STATES = 1024
"""States, and works of one state, that are remembered."""
_STEPS = 64
"""Shares are rounded to this, so that nearly equal ones have the same time."""
_WARM_UP = 5
"""Launches before a repeated one."""
_SETTLED = 0.73
"""Part of the L2 up to which data that is swept again and again stays: 44 MB on an H200."""
_ONCE = (0.37, 0.68)
"""Parts of the L2 between which lines go that were loaded once: 22 and 41 MB on an H200."""
_PERSISTING = ((0.21, 0.77), (0.24, 1.34))
"""Bounds of persisting lines, each as parts of the L2 and of the set-aside: 36 and 55 MiB on an H200 with 30 MiB set
aside, 27 and 40 MiB with 18.75 MiB."""
_BESIDE = 0.25
"""What of all bytes touched meanwhile counts for the distance of persisting lines."""
_UNITS = 16
"""Parts of the L2 that can be set aside."""
_NEARLY = 0.99


class Window(NamedTuple):
    """An access policy window."""

    start: int
    size: int
    ratio: float
    hit: int
    miss: int

    def shares(self) -> tuple[tuple[int, float], ...]:
        """Which part of its lines has which property."""
        if self.hit == self.miss or self.ratio >= 1.0:
            return ((self.hit, 1.0),)
        if self.ratio <= 0.0:
            return ((self.miss, 1.0),)
        return ((self.hit, self.ratio), (self.miss, 1.0 - self.ratio))


@dataclass(frozen=True, slots=True)
class Sweep:
    """A range that work goes over in the order of its addresses."""

    start: int
    size: int
    """Bytes from its begin to its end."""
    bytes: float
    """Of the lines that are touched among those."""
    times: float = 1.0
    """How often it comes round to the same lines."""
    stored: bool = False
    """Is it written?"""
    shared: bool = False
    """Do blocks come to other SMs with it in each launch? Then both halves of the L2 want it."""


class Lookups(NamedTuple):
    """What work looked up with one access property, and what of that was there."""

    asked: float
    hit: float


class L2Use(NamedTuple):
    """How a piece of work met the L2."""

    held: float
    """The share of its lookups that hit, 0 to 1."""
    missing: float
    """Bytes that missed over the distinct bytes that it touched: 0 when all was there, over 1 when it came round to the
    same lines and they were gone again."""


class Bounds(NamedTuple):
    """Reuse distances, in bytes, between which a range goes from held to gone."""

    all: float
    nothing: float

    def kept(self, distance: float) -> float:
        """The share that is held."""
        if distance <= self.all:
            return 1.0
        return max(0.0, (self.nothing - distance) / (self.nothing - self.all))

    def scaled(self, share: float) -> Bounds:
        return Bounds(self.all * share, self.nothing * share)


def bounds_of_normal(profile: Profile, *, shared: bool, settled: bool = True) -> Bounds:
    """Of normal lines. ``shared``: blocks come to other SMs in each launch. ``settled``: the lines were stored, or
    found before; otherwise they were loaded once."""
    size = float(profile.properties["l2CacheSize"])
    if not settled:
        return Bounds(_ONCE[0] * size, _ONCE[1] * size)
    return Bounds((0.5 if shared else _SETTLED) * size, profile.device["l2_reach"] * size)


class _Range(NamedTuple):
    start: int
    end: int
    bytes: int
    settled: bool


_Lists = tuple[tuple[_Range, ...], ...]


@dataclass(slots=True, eq=False)
class _State:
    """What the L2 holds: ranges by property, the latest use last."""

    lists: _Lists
    set_aside: int
    after: dict[Hashable, tuple[_State, L2Use, tuple[Lookups, ...]]] = field(default_factory=dict)
    """What follows it, by what comes."""


class L2Cache:
    """The L2 of one device. Sizes are in bytes."""

    def __init__(self, profile: Profile) -> None:
        self.size = int(profile.properties["l2CacheSize"])
        self.normal = {
            (shared, settled): bounds_of_normal(profile, shared=shared, settled=settled)
            for shared in (False, True)
            for settled in (False, True)
        }
        """By ``shared`` and ``settled``."""
        self.piece = max(1, self.size // _PIECES)
        """Bytes of the pieces in which ranges are followed."""
        self._states: dict[Hashable, _State] = {}
        self._now = self._state(_EMPTY, profile.limits.get("PersistingL2CacheSize", 0))

    # -- what the host sets --------------------------------------------------------------------------------------------

    @property
    def set_aside(self) -> int:
        """Bytes that persisting lines may take: ``cudaLimitPersistingL2CacheSize``."""
        return self._now.set_aside

    @set_aside.setter
    def set_aside(self, size: int) -> None:
        self._now = self._state(self._now.lists, size)

    @property
    def persisting(self) -> int:
        """Bytes whose lines persist."""
        return sum(each.bytes for each in self._now.lists[PERSISTING])

    def rounded(self, size: int) -> int:
        """What the driver sets aside when so many bytes are asked for."""
        unit = self.size // _UNITS
        return -(-size // unit) * unit

    def reset_persisting(self) -> None:
        """``cudaCtxResetPersistingL2Cache``: all persisting lines become normal ones."""
        self._now = self._state(_without_persisting(self._now.lists), self._now.set_aside)

    # -- what work does ------------------------------------------------------------------------------------------------

    def launch(self, key: Hashable, window: Window | None, sweeps: Callable[[], Sequence[Sweep]]) -> L2Use:
        """A launch that touches these ranges starts. ``key``: what the ranges follow from."""
        now = self._now
        found = now.after.get((key, window)) or self._after_launch(now, key, window, sweeps)
        self._now = found[0]
        return found[1]

    def launch_repeated(
        self, key: Hashable, window: Window | None, sweeps: Callable[[], Sequence[Sweep]]
    ) -> tuple[L2Use, tuple[Lookups, ...]]:
        """How a launch meets the L2 that has been done several times in a row, and the bytes that it looks up by
        property; the state stays as it is."""
        state = self._now
        for _ in range(_WARM_UP):
            found = state.after.get((key, window)) or self._after_launch(state, key, window, sweeps)
            state = found[0]
        return found[1], found[2]

    def sweep(self, ranges: Sequence[tuple[int, int]], stored: Sequence[tuple[int, int]]) -> None:
        """A copy within the device or a memset loads some ``(address, bytes)`` and stores others."""
        now, key = self._now, (ranges, stored)
        found = now.after.get(key)
        if found is None:
            sweeps = [Sweep(*each, each[1]) for each in ranges if each[1]]
            sweeps += [Sweep(*each, each[1], stored=True) for each in stored if each[1]]
            found = self._remember(now, key, _Work(self, now.lists, now.set_aside, _parts(sweeps, None)))
        self._now = found[0]

    def drop(self, ranges: Sequence[tuple[int, int]]) -> None:
        """A copy from the host overwrites these ``(address, bytes)``, past the L2."""
        now = self._now
        found = now.after.get(ranges)
        if found is None:
            work = _Work(self, now.lists, now.set_aside, ())
            for start, size in ranges:
                work.forget(start, start + size)
            found = self._remember(now, ranges, work)
        self._now = found[0]

    # -- states --------------------------------------------------------------------------------------------------------

    def _state(self, lists: _Lists, set_aside: int) -> _State:
        """The one state with these contents."""
        key = (lists, set_aside)
        found = self._states.get(key)
        if found is None:
            if len(self._states) >= _STATES:
                self._states.clear()
            found = self._states[key] = _State(lists, set_aside)
        return found

    def _after_launch(
        self, state: _State, key: Hashable, window: Window | None, sweeps: Callable[[], Sequence[Sweep]]
    ) -> tuple[_State, L2Use, tuple[Lookups, ...]]:
        asked = (key, window)
        lists = state.lists if window is not None else _without_persisting(state.lists)
        if window is not None and window.hit == PERSISTING and not state.set_aside:
            window = window._replace(hit=NORMAL)
        work = _Work(self, lists, state.set_aside, _parts(sweeps(), window))
        return self._remember(state, asked, work)

    def _remember(self, state: _State, key: Hashable, work: _Work) -> tuple[_State, L2Use, tuple[Lookups, ...]]:
        if len(state.after) >= _STATES:
            state.after.clear()
        after = self._state(work.left(), state.set_aside)
        found = state.after[key] = (after, work.use(), tuple(work.lookups))
        return found


_EMPTY: _Lists = ((), (), ())


def _without_persisting(lists: _Lists) -> _Lists:
    normal, streaming, persisting = lists
    return ((*persisting, *normal), streaming, ()) if persisting else lists


class _Part(NamedTuple):
    """A range of a sweep in which all lines have the same properties."""

    sweep: Sweep
    start: int
    end: int
    bytes: float
    shares: tuple[tuple[int, float], ...]
    plain: bool
    """Is it outside a window? Then lines that persist go on doing so."""


def _parts(sweeps: Iterable[Sweep], window: Window | None) -> list[_Part]:
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
                found.append(_Part(sweep, first, last, touched, of_these, of_these is _PLAIN))
    return found


_PLAIN: tuple[tuple[int, float], ...] = ((NORMAL, 1.0),)


class _Work:
    """One piece of work, from one state to the next."""

    def __init__(self, cache: L2Cache, lists: _Lists, set_aside: int, parts: Sequence[_Part]) -> None:
        self._cache, self._set_aside = cache, set_aside
        self._lists = [list(entries) for entries in lists]
        self._totals = [sum(entry.bytes for entry in entries) for entries in lists]
        size = cache.size
        self._persisting = Bounds(*(of_l2 * size + of_aside * set_aside for of_l2, of_aside in _PERSISTING))
        self.lookups = [Lookups(0.0, 0.0) for _ in PROPERTIES]
        self._distinct = sum(part.bytes for part in parts)
        for part, start, end in self._in_order(parts):
            self._touch(part, start, end)
        self._come_round(parts)

    def use(self) -> L2Use:
        asked, hit = (sum(each[index] for each in self.lookups) for index in (0, 1))
        if not asked:
            return L2Use(1.0, 0.0)
        return L2Use(_rounded(hit / asked), _rounded((asked - hit) / max(1.0, self._distinct)))

    def left(self) -> _Lists:
        """What is held behind it, less what is too old to be there."""
        found = []
        for which, entries in enumerate(self._lists):
            first, room = len(entries), self._farthest(which)
            while first and room > 0.0 and len(entries) - first < _MOST_RANGES:
                first -= 1
                room -= entries[first].bytes
            found.append(tuple(entries[first:]))
        return tuple(found)

    def forget(self, start: int, end: int) -> None:
        """These bytes are not held any more."""
        for which in PROPERTIES:
            self._find(which, start, end, shared=False)

    def _farthest(self, which: int) -> float:
        """The distance from which on nothing of a property's list is held."""
        return self._cache.normal[False, True].nothing if which == NORMAL else self._persisting.nothing

    def _kept(self, which: int, distances: Sequence[float], *, shared: bool, settled: bool) -> float:
        """The share of a range that is held after so many bytes of each property have been touched."""
        if which == NORMAL or (which == STREAMING and not self._set_aside):
            left = 1.0 - min(self._set_aside, self._totals[PERSISTING]) / self._cache.size
            distance = distances[NORMAL] + (distances[STREAMING] if which == STREAMING else 0.0)
            return self._cache.normal[shared, settled].scaled(left).kept(distance)
        distance = distances[PERSISTING] + _BESIDE * sum(distances)
        return self._persisting.kept(distance + (distances[STREAMING] if which == STREAMING else 0.0))

    def _in_order(self, parts: Sequence[_Part]) -> Iterable[tuple[_Part, int, int]]:
        """Pieces of the parts in the order in which they are touched. Of far more than the L2 holds, those between the
        first, which may find something, and the last, which stay, only miss."""
        pieces: list[tuple[float, _Part, int, int]] = []
        size = self._cache.piece
        for part in parts:
            count = -(-(part.end - part.start) // size)
            density = part.bytes / (part.end - part.start)
            few = int(_PIECES / max(density, 1.0 / _PIECES)) + 1
            if count > 2 * few:
                self._found(part, (count - 2 * few) * size * density, (0.0, 0.0, 0.0))
            for index in (*range(min(count, few)), *range(max(few, count - few), count)):
                start = part.start + index * size
                pieces.append(((index + 0.5) / count, part, start, min(part.end, start + size)))
        pieces.sort(key=lambda piece: piece[0])
        return [piece[1:] for piece in pieces]

    def _touch(self, part: _Part, start: int, end: int) -> None:
        touched = part.bytes * (end - start) / (part.end - part.start)
        if part.plain and self._is_latest(start, end, touched, part.sweep.stored):
            self._found(part, touched, (touched, 0.0, 0.0))
            return
        hits, persist = [0.0 for _ in PROPERTIES], 0.0
        for which in PROPERTIES:
            hits[which], listed = self._find(which, start, end, shared=part.sweep.shared)
            if which == PERSISTING:
                persist = listed
        self._found(part, touched, hits)
        if part.plain and persist:
            self._push(PERSISTING, start, end, persist, settled=True)
            touched = max(0.0, touched - persist)
        settled = part.sweep.stored or any(hits)
        for which, share in part.shares:
            self._push(which, start, end, touched * share, settled)

    def _push(self, which: int, start: int, end: int, size: float, settled: bool) -> None:
        if bytes_ := int(size):
            self._lists[which].append(_Range(start, end, bytes_, settled))
            self._totals[which] += bytes_

    def _found(self, part: _Part, touched: float, hits: Sequence[float]) -> None:
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
        for entry in reversed(self._lists[NORMAL]):
            above += entry.bytes
            if above > self._cache.piece:
                return False
            if entry.start <= start and end <= entry.end:
                much = entry.bytes * (end - start) >= (entry.end - entry.start) * touched * _NEARLY
                return much and (entry.settled or not stored)
        return False

    def _find(self, which: int, start: int, end: int, *, shared: bool) -> tuple[float, float]:
        """Bytes of a piece that are held in one property's list, and that were listed; they leave the list."""
        entries, distances = self._lists[which], [float(total) for total in self._totals]
        distances[which], hit, listed = 0.0, 0.0, 0.0
        for index in range(len(entries) - 1, -1, -1):
            entry = entries[index]
            distances[which] += entry.bytes
            if entry.end <= start or end <= entry.start:
                continue
            low, high, span = max(entry.start, start), min(entry.end, end), entry.end - entry.start
            part = entry.bytes * (high - low) / span
            hit += part * self._kept(which, distances, shared=shared, settled=entry.settled)
            listed += part
            rest = [
                entry._replace(start=first, end=last, bytes=int(entry.bytes * (last - first) / span))
                for first, last in ((entry.start, low), (high, entry.end))
                if first < last
            ]
            entries[index : index + 1] = rest
            self._totals[which] -= entry.bytes - sum(each.bytes for each in rest)
        return hit, listed

    def _come_round(self, parts: Sequence[_Part]) -> None:
        """Lines that the work touches again: what it touches of each property between two rounds is their distance."""
        for part in parts:
            times = part.sweep.times
            if times <= 1.0:
                continue
            between = [0.0 for _ in PROPERTIES]
            for other in parts:
                seen = other.bytes * min(1.0, other.sweep.times / times)
                for which, share in other.shares:
                    between[which] += seen * share
            again = part.bytes * (times - 1.0)
            for which, share in part.shares:
                there = self._kept(which, between, shared=part.sweep.shared, settled=True)
                self._count(which, again * share, again * share * there)


def _rounded(share: float) -> float:
    return round(share * _STEPS) / _STEPS
