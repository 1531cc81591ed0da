"""What the L2 holds from one piece of work to the next, on the one clock of the device.

The L2 is shared by all SMs and the copy engines. What a kernel, a memset or a copy touched stays there until other data
push it out, so a kernel may find its data there (a *warm* cache) or not (a *cold* one). Each line has one of three
access properties (CUDA C++ Programming Guide, "L2 Cache"): lines of *streaming* accesses go first, *persisting* ones go
last, as long as they fit the set-aside, *normal* ones are between. An access policy window says which property accesses
to a range have: ``hitRatio`` of its lines, always the same ones, get ``hitProp``, the others ``missProp``.

**What is kept here.** A list of address ranges, each with its property, in the order of their last use. What has been
touched since a range was used is the range's *reuse distance*; how much of it is still held falls from all to nothing
between two distances (``Bounds``), which an H200 has shown (docs/evidence/2026-11-23-l2.md):

- Lines that were stored, or were found before, stay longest: data that is swept again and again stays up to 44 MB, and
  is gone from 51 MB on. Each half of the L2 keeps what its own SMs load, so where blocks come to other SMs in each
  launch, both halves want the same, and lines begin to go at half of the L2.
- Lines that were loaded once go between 22 and 41 MB.
- Persisting lines go between two distances that grow with the set-aside, which the driver rounds up to a 16th of the
  L2. Their own bytes count in full, and half of these and of the normal ones that are touched meanwhile. A window's
  lines that are more than that push each other out before they are used again: that is *thrashing*, and a smaller hit
  ratio cures it. Nobody's lines persist beside more normal data than the L2 holds, and a reset makes them normal ones.
- Streaming lines go between 3 and 14 MB of normal and streaming ones, whatever is set aside; without a set-aside
  nothing persists. Streaming accesses, and those outside a window, leave lines persisting that did; of more than fit,
  which they come round to, so many become streaming that the rest stays.
- Lines that were stored are written to DRAM when they go, at the cost of the work that pushes them out.
- With more than a quarter of the L2 set aside, and again with more than half, stores to other data find too little
  room: they leave sooner, and are slow. Loads alone are not.
- Copies over the bus leave nothing behind, and what they write is gone.

**Why ranges.** A sweep of 256 MB goes over two million lines, and the addresses of all blocks in their order are not
known: a launch's time comes from one to ten traced ones. Ranges, followed in pieces of a 32nd of the L2, need neither;
a loop of launches comes back to a state that has been met before.

**Part of what a time is remembered by.** States are values: :meth:`L2Cache.launch` looks up what follows a state and a
piece of work, and finds it out only once. What was used just now is not moved to the end of its list again, so that a
loop over little data stays in one state.

What is simplified: work takes its place in the L2 when it starts, all at once, so that kernels that run side by side
push out each other's data only from launch to launch, and within the set-aside; a range counts as touched evenly and in
the order of its addresses; sets and hashing are not modelled. A learner would notice where a kernel goes
backwards over what the kernel before it left: on a GPU the end of a range larger than the L2 is there, here it misses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from msgspec import Struct, field

from cudalab.sim.device.profile import Profile
from cudalab.sim.device.timing.l2_ranges import (
    NORMAL,
    PERSISTING,
    L2Use,
    Lookups,
    Ranges,
    Sweep,
    Window,
    bounds_of_normal,
    without_persisting,
)
from cudalab.sim.device.timing.l2_work import Capacity, Work, parts_of

_STATES = 1024
"""States, and works of one state, that are remembered."""
_WARM_UP = 5
"""Launches before a repeated one."""
_UNITS = 16
"""Parts of the L2 that can be set aside."""


class _State(Struct, eq=False):
    """What the L2 holds."""

    ranges: Ranges
    set_aside: int
    after: dict[Hashable, tuple[_State, L2Use, tuple[Lookups, ...]]] = field(default_factory=dict)
    """What follows it, by what comes."""


class L2Cache:
    """The L2 of one device. Sizes are in bytes."""

    def __init__(self, profile: Profile) -> None:
        self.size = int(profile.properties["l2CacheSize"])
        self._normal = {
            (shared, settled): bounds_of_normal(profile, shared=shared, settled=settled)
            for shared in (False, True)
            for settled in (False, True)
        }
        self._states: dict[Hashable, _State] = {}
        self._now = self._state((), profile.limits.get("PersistingL2CacheSize", 0))

    # -- what the host sets --------------------------------------------------------------------------------------------

    @property
    def set_aside(self) -> int:
        """Bytes that persisting lines may take: ``cudaLimitPersistingL2CacheSize``."""
        return self._now.set_aside

    @set_aside.setter
    def set_aside(self, size: int) -> None:
        self._now = self._state(self._now.ranges, size)

    @property
    def persisting(self) -> int:
        """Bytes whose lines persist."""
        return sum(each.bytes for each in self._now.ranges if each.property == PERSISTING)

    def rounded(self, size: int) -> int:
        """What the driver sets aside when so many bytes are asked for."""
        unit = self.size // _UNITS
        return -(-size // unit) * unit

    def reset_persisting(self) -> None:
        """``cudaCtxResetPersistingL2Cache``: all persisting lines become normal ones."""
        self._now = self._state(without_persisting(self._now.ranges), self._now.set_aside)

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
            found = self._remember(now, key, Work(self._capacity(now), now.ranges, parts_of(sweeps, None)))
        self._now = found[0]

    def drop(self, ranges: Sequence[tuple[int, int]]) -> None:
        """A copy from the host overwrites these ``(address, bytes)``, past the L2."""
        now = self._now
        found = now.after.get(ranges)
        if found is None:
            work = Work(self._capacity(now), now.ranges, ())
            for start, size in ranges:
                work.forget(start, start + size)
            found = self._remember(now, ranges, work)
        self._now = found[0]

    @property
    def piece(self) -> int:
        """Bytes of the pieces in which ranges are followed."""
        return self._capacity(self._now).piece

    # -- states --------------------------------------------------------------------------------------------------------

    def _state(self, ranges: Ranges, set_aside: int) -> _State:
        """The one state with these contents."""
        key = (ranges, set_aside)
        found = self._states.get(key)
        if found is None:
            if len(self._states) >= _STATES:
                self._states.clear()
            found = self._states[key] = _State(ranges, set_aside)
        return found

    def _capacity(self, state: _State) -> Capacity:
        return Capacity(self.size, state.set_aside, self._normal)

    def _after_launch(
        self, state: _State, key: Hashable, window: Window | None, sweeps: Callable[[], Sequence[Sweep]]
    ) -> tuple[_State, L2Use, tuple[Lookups, ...]]:
        asked = (key, window)
        if window is not None and window.hit == PERSISTING and not state.set_aside:
            window = window._replace(hit=NORMAL)
        work = Work(self._capacity(state), state.ranges, parts_of(sweeps(), window))
        return self._remember(state, asked, work)

    def _remember(self, state: _State, key: Hashable, work: Work) -> tuple[_State, L2Use, tuple[Lookups, ...]]:
        if len(state.after) >= _STATES:
            state.after.clear()
        after = self._state(work.left(), state.set_aside)
        found = state.after[key] = (after, work.use(), tuple(work.lookups))
        return found
