"""What the L2 is asked for and what it holds, as address ranges: windows, sweeps, lookups, and how long lines stay.

See l2_cache.py. Sizes are bytes; shares of the L2 come from what an H200 showed (docs/evidence/2026-11-23-l2.md).
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from cudalab.sim.device.profile import Profile

NORMAL, STREAMING, PERSISTING = 0, 1, 2
"""``cudaAccessProperty``"""
PROPERTIES = (NORMAL, STREAMING, PERSISTING)
_SETTLED = 0.73
"""Part of the L2 up to which data that is swept again and again stays: 44 MB on an H200."""
_ONCE = (0.37, 0.68)
"""Parts of the L2 between which lines go that were loaded once: 22 and 41 MB on an H200."""
_OF_PERSISTING = ((0.31, 1.11), (0.29, 1.96))
"""Bounds of persisting lines, each as parts of the L2 and of the set-aside: 52 and 76 MiB on an H200 with 30 MiB set
aside, 39 and 54 MiB with 18.75 MiB."""
BESIDE = 0.55
"""What of the persisting and normal bytes touched meanwhile counts for the distance of persisting lines, beside these
lines themselves."""
_STREAMING = (0.05, 0.22)
"""Parts of the L2 between which streaming lines go, whatever is set aside: 3 and 14 MB on an H200, which keeps 4 MB
that are swept again and again with a window whose hits stream, about half of 8 MB and little of 16 MB; behind 4 MB of
normal reads about half of 4 MB is gone (docs/evidence/2026-11-24-windows.json)."""
A_QUARTER, A_HALF = 0.25, 0.5
"""Parts of the L2 that can be set aside before stores slow down, and slow down once more: on an H200 4 and 8 of the 16
units."""


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


class Sweep(Struct, frozen=True):
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
    """How a piece of work met the L2. Bytes are parts of the distinct bytes that it touches: more than 1 where it comes
    round to the same lines and they are gone again."""

    held: float
    """The share of its lookups that hit, 0 to 1."""
    missing: float
    """Bytes that missed."""
    written_back: float
    """Bytes that were written to DRAM to make room: its own, and what earlier work had stored."""
    outside: float
    """The share of what missed that does not persist."""
    set_aside: float
    """The part of the L2 that is set aside."""


class Met(NamedTuple):
    """What a launch finds in the L2 (l2_cache.py)."""

    use: L2Use
    distinct: float
    """Bytes of the lines that it touches."""


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


UNUSED = Bounds(0.87, 1.15)
"""Parts of the L2 that normal accesses may touch before persisting lines that nobody has used go, whatever is set
aside: 52 and 69 MiB on an H200."""


def bounds_of_normal(profile: Profile, *, shared: bool, settled: bool = True) -> Bounds:
    """Of normal lines. ``shared``: blocks come to other SMs in each launch. ``settled``: the lines were stored, or
    found before; otherwise they were loaded once."""
    size = float(profile.properties["l2CacheSize"])
    if not settled:
        return Bounds(_ONCE[0] * size, _ONCE[1] * size)
    return Bounds((0.5 if shared else _SETTLED) * size, profile.device["l2_reach"] * size)


def bounds_of_streaming(size: int) -> Bounds:
    """Of streaming lines, in an L2 of this size."""
    return Bounds(*_STREAMING).scaled(size)


def bounds_of_persisting(size: int, set_aside: int) -> Bounds:
    """Of persisting lines, in an L2 of this size."""
    first, last = (of_l2 * size + of_aside * set_aside for of_l2, of_aside in _OF_PERSISTING)
    return Bounds(first, last)


class Range(NamedTuple):
    """Addresses that have been used, and what of them counts."""

    property: int
    start: int
    end: int
    bytes: int
    """Of the lines that were touched."""
    dirty: int
    """Of the lines that DRAM does not have yet."""
    settled: bool
    """Were its lines stored, or found when they were last used?"""

    def between(self, start: int, end: int) -> Range:
        """A part of it."""
        share = (end - start) / (self.end - self.start)
        return self._replace(start=start, end=end, bytes=int(self.bytes * share), dirty=int(self.dirty * share))


Ranges = tuple[Range, ...]
"""The latest use last."""


def without_persisting(ranges: Ranges) -> Ranges:
    """Persisting lines become normal ones."""
    return tuple(each._replace(property=NORMAL) if each.property == PERSISTING else each for each in ranges)


def squeezed(profile: Profile, use: L2Use, read: float, write: float, bandwidth: float) -> float:
    """ns that stores, and the loads beside them, wait where a large set-aside leaves them too little room in the L2."""
    if use.set_aside <= A_QUARTER:
        return 0.0
    slow = profile.device["l2_beside_half" if use.set_aside > A_HALF else "l2_beside_quarter"] * 1e3
    moved = use.outside * min(read + write, 2.0 * write)
    return moved * max(0.0, 1.0 / slow - 1.0 / bandwidth)
