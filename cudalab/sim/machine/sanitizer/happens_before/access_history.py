"""The access history of each location, and the conflicts in it.

FastTrack keeps the last write and the last reads of a location, as an epoch where one thread made them and as a vector
of epochs otherwise. Here it is each access that a later one may still conflict with, because site, strength and scope
matter, too. Where a whole grid adds to one counter, or polls one flag, that is an access a thread, and comparing each
with each takes time that grows with their square: with more than a few, those of one site and block become a vector of
epochs, so that a new access is compared with all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cudalab.sim.abi import RESERVED_SHARED, SHARED_WINDOW, WARP
from cudalab.sim.machine.sanitizer.happens_before.vector_clocks import Agent, Release, VectorClock
from cudalab.sim.machine.sanitizer.memory_model import Clusters

Location = tuple[int, int]
"""The block whose shared memory it is in, or -1 for global memory; and the address."""
_MOST_SINGLE = 16
"""Accesses to one location that are kept one by one."""


@dataclass(frozen=True)
class Conflict:
    """Two accesses to the same bytes that nothing orders, in the order of the trace."""

    address: int
    first: Agent
    second: Agent
    first_site: int
    second_site: int
    first_step: int
    second_step: int

    def reversed(self) -> Conflict:
        """The same with the second access named first."""
        return Conflict(
            self.address,
            self.second,
            self.first,
            self.second_site,
            self.first_site,
            self.second_step,
            self.first_step,
        )


@dataclass(slots=True)
class Access:
    """One access of one agent."""

    agent: Agent
    epoch: int
    site: int
    step: int
    reads: bool
    writes: bool
    strong: bool
    volatile: bool
    scope: int
    copied_from: int | None = None
    """Of an asynchronous copy's write: how far its source lies from its target."""

    @property
    def kind(self) -> tuple[object, ...]:
        """What the accesses of an :class:`AccessVector` have in common."""
        return self.agent[0], self.site, self.copied_from, self.strong, self.volatile

    def covers(self, old: Access) -> bool:
        """Does whatever conflicts with the old access, and is not ordered after it, conflict with this one, too?"""
        if self.writes and not self.strong:
            return self.copied_from is None or self.copied_from == old.copied_from
        alike = self.strong == old.strong and self.volatile == old.volatile and self.scope <= old.scope
        return alike and (self.writes or not old.writes)

    def is_in(self, clock: VectorClock) -> bool:
        """Has whoever has this clock been ordered after the access?"""
        known = clock.get(self.agent[0])
        return known is not None and int(known[self.agent[1]]) >= self.epoch


class AccessVector:
    """The last accesses from one site by the agents of one block to one location, as a vector of epochs."""

    def __init__(self, example: Access, agents: int) -> None:
        self.example = example
        self._epoch = np.zeros(agents, np.int64)
        self._step = np.zeros(agents, np.int64)

    def add(self, access: Access) -> None:
        self._epoch[access.agent[1]] = access.epoch
        self._step[access.agent[1]] = access.step

    def concurrent(self, new: Access, clock: VectorClock) -> Iterator[Access]:
        """The accesses that do not happen before the new one."""
        for agent in np.flatnonzero((self._epoch > 0) & ~self._before(new, clock)).tolist():
            yield replace(
                self.example,
                agent=(self.example.agent[0], agent),
                epoch=int(self._epoch[agent]),
                step=int(self._step[agent]),
            )

    def drop_covered(self, new: Access, clock: VectorClock) -> None:
        """Forget accesses that happen before the new one, if whatever conflicts with them conflicts with it."""
        if new.covers(self.example):
            self._epoch[self._before(new, clock)] = 0

    def _before(self, new: Access, clock: VectorClock) -> np.ndarray:
        known = clock.get(self.example.agent[0])
        before = np.zeros(len(self._epoch), np.bool_) if known is None else known >= self._epoch
        if new.agent[0] == self.example.agent[0]:
            before[new.agent[1]] = True
        return before


class AccessHistory:
    """The accesses to each location that later ones may conflict with.

    Args:
        agents: agents of a block.
        clusters: which blocks form a cluster.
        most: conflicts that are kept.
    """

    def __init__(self, agents: int, clusters: Clusters, most: int) -> None:
        self._agents, self._clusters, self._most = agents, clusters, most
        self._single: dict[Location, list[Access]] = {}
        self._vectors: dict[Location, dict[object, AccessVector]] = {}
        """Of locations with many accesses, which are not in ``_single``."""
        self._reported: set[tuple[int, int, Location, bool]] = set()
        self.polled: set[Location] = set()
        """Locations that a loop waits for."""
        self.conflicts: list[Conflict] = []
        """One for each pair of sites and location."""

    def add(
        self, location: Location, new: Access, clock: VectorClock, observed: Mapping[object, Sequence[Release]]
    ) -> None:
        """Enter an access by an agent with this clock, after finding those that it conflicts with.

        ``observed``: what the agent has read and not acquired yet.
        """
        vectors = self._vectors.get(location)
        if vectors is not None:
            self._add_to_vectors(location, vectors, new, clock, observed)
            return
        kept = []
        for old in self._single.get(location, ()):
            ordered = old.agent == new.agent or old.is_in(clock)
            if not ordered and self._conflicts(old, new, location) and not _follows_by_control(old, new, observed):
                self._report(location, old, new)
            if not (ordered and new.covers(old)):
                kept.append(old)
        kept.append(new)
        self._single[location] = kept
        if len(kept) > _MOST_SINGLE:
            vectors = self._vectors[location] = {}
            for access in self._single.pop(location):
                self._append(vectors, access)

    def _append(self, vectors: dict[object, AccessVector], access: Access) -> None:
        vector = vectors.get(access.kind)
        if vector is None:
            vector = vectors[access.kind] = AccessVector(access, self._agents)
        vector.add(access)

    def _add_to_vectors(
        self,
        location: Location,
        vectors: dict[object, AccessVector],
        new: Access,
        clock: VectorClock,
        observed: Mapping[object, Sequence[Release]],
    ) -> None:
        for vector in vectors.values():
            old, shared = vector.example, location[0] >= 0
            alike = not (shared and old.volatile and new.volatile)  # else it matters whether they are of one warp
            known = (old.site, new.site, location, old.agent[0] == new.agent[0]) in self._reported
            if not known and not (alike and not self._conflicts(old, new, location)):
                for each in vector.concurrent(new, clock):
                    if self._conflicts(each, new, location) and not _follows_by_control(each, new, observed):
                        self._report(location, each, new)
                        break
            vector.drop_covered(new, clock)
        self._append(vectors, new)

    def _conflicts(self, old: Access, new: Access, location: Location) -> bool:
        """Are the two a race if nothing orders them?"""
        if not (old.writes or new.writes):
            return False
        shared, same_warp = location[0] >= 0, old.agent[1] // WARP == new.agent[1] // WARP
        if old.strong and new.strong:
            # Code from before compute capability 7.0 relies on lockstep, with volatile instead of __syncwarp().
            if old.volatile and new.volatile and shared and same_warp and location not in self.polled:
                return True
            return not self._clusters.in_scope(min(old.scope, new.scope), old.agent[0], new.agent[0])
        if old.site == new.site and old.writes and new.writes:
            if old.copied_from is not None and old.copied_from == new.copied_from:
                return False  # left-over lanes of cg::memcpy_async copy the same bytes once more
            if shared and same_warp and location[1] >= SHARED_WINDOW + RESERVED_SHARED:
                return False  # lanes of a cooperative group store a warp's result together
        return True

    def _report(self, location: Location, old: Access, new: Access) -> None:
        key = (old.site, new.site, location, old.agent[0] == new.agent[0])
        if key in self._reported:
            return
        self._reported.add(key)
        if len(self.conflicts) < self._most:
            self.conflicts.append(Conflict(location[1], old.agent, new.agent, old.site, new.site, old.step, new.step))


def _follows_by_control(old: Access, new: Access, observed: Mapping[object, Sequence[Release]]) -> bool:
    """A write after a read of a flag which says that the old read is over needs no fence: writes are not speculative,
    so it waits for the branch that leads to it."""
    if old.writes or not new.writes:
        return False
    return any(old.is_in(release.clock) for releases in observed.values() for release in releases)
