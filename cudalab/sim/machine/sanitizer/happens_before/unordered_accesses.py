"""Accesses to one place by very many threads, of which nothing orders any two: counters, flags, a cell that all write.

`order.py` keeps each access that later ones may conflict with. Where a whole grid adds to one number that is one access
a thread, and comparing each with each takes time that grows with their square. A crowd holds those of one site and
block as an array over the block's threads, so that an access meets them all at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cudalab.sim.machine.sanitizer.happens_before.synchronization import View, Who


@dataclass(slots=True)
class Access:
    """One access of one thread."""

    who: Who
    stretch: int
    """The thread's own count of moments at which it told others what it had done; from 1."""
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
        """What the accesses of a crowd have in common: block, site, source, whether they are strong, and volatile."""
        return self.who[0], self.site, self.copied_from, self.strong, self.volatile

    def covers(self, old: Access) -> bool:
        """Does whatever conflicts with the old access, and is not ordered after it, conflict with this one, too?"""
        if self.writes and not self.strong:
            return self.copied_from is None or self.copied_from == old.copied_from
        alike = self.strong == old.strong and self.volatile == old.volatile and self.scope <= old.scope
        return alike and (self.writes or not old.writes)


class Crowd:
    """The last accesses of one site to one place by the threads of one block."""

    def __init__(self, example: Access, agents: int) -> None:
        self.example = example
        self._stretch = np.zeros(agents, np.int64)
        self._step = np.zeros(agents, np.int64)

    def add(self, access: Access) -> None:
        self._stretch[access.who[1]] = access.stretch
        self._step[access.who[1]] = access.step

    def apart(self, new: Access, view: View) -> np.ndarray:
        """Which agents' accesses are not ordered before the new one: a mask."""
        return (self._stretch > 0) & ~self._before(new, view)

    def _before(self, new: Access, view: View) -> np.ndarray:
        known = view.get(self.example.who[0])
        before = np.zeros(len(self._stretch), np.bool_) if known is None else known >= self._stretch
        if new.who[0] == self.example.who[0]:
            before[new.who[1]] = True
        return before

    def accesses(self, agents: np.ndarray) -> Iterator[Access]:
        """The accesses of these agents, one by one."""
        for agent in np.flatnonzero(agents):
            old = self.example
            yield Access(
                (old.who[0], int(agent)),
                int(self._stretch[agent]),
                old.site,
                int(self._step[agent]),
                old.reads,
                old.writes,
                old.strong,
                old.volatile,
                old.scope,
                old.copied_from,
            )

    def forget_covered(self, new: Access, view: View) -> None:
        """Let go of accesses that come before the new one, where it stands for them from now on."""
        if new.covers(self.example):
            self._stretch[self._before(new, view)] = 0
