"""What an instruction means to the memory model: strong or weak, acquire, release, scope.

PTX ISA, "Memory Consistency Model": *strong* accesses may be concurrent without being a race (``volatile``,
``relaxed``, ``acquire``, ``release``, and atomics), between threads of their *scope*: the block (``.cta``), the
cluster, or the device (``.gpu``; ``.sys`` counts as the same here, as there is one device).
"""

from __future__ import annotations

from dataclasses import dataclass

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.program import Kernel, Site
from cudalab.sim.compiler.semantics import Operation, Scope
from cudalab.sim.machine.reports.finding import triple


@dataclass(frozen=True)
class Ordering:
    """What a site means to the memory model."""

    kind: SiteKind
    size: int
    strong: bool
    scope: Scope
    acquires: bool
    releases: bool
    reads: bool
    writes: bool
    volatile: bool
    returns: bool
    """The thread learns the value; a ``red`` returns none, so it observes no release."""
    waits: bool
    """A barrier or warp operation at which the thread waits for the others."""


def ordering_of(site: Site) -> Ordering:
    """The ordering of a site. A launch is alone on its device, so system scope is device scope."""
    semantics = site.semantics
    atomic = site.kind == SiteKind.ATOMIC
    return Ordering(
        kind=site.kind,
        size=max(1, site.size),
        strong=atomic or semantics.strong,
        scope=min(semantics.scope, Scope.DEVICE),
        acquires=semantics.acquires,
        releases=semantics.releases,
        reads=site.kind == SiteKind.LOAD or atomic,
        writes=site.kind == SiteKind.STORE or atomic,
        volatile=semantics.volatile,
        returns=semantics.operation is not Operation.REDUCTION,
        waits=site.kind == SiteKind.BARRIER or site.synchronises_lanes,
    )


def has_fine_synchronisation(kernel: Kernel) -> bool:
    """Does a kernel order threads by more than barriers of the whole block and warp operations?"""
    for site in kernel.sites:
        if site.kind in (SiteKind.FENCE, SiteKind.SYNC, SiteKind.POLL):
            return True
        if site.kind == SiteKind.BARRIER and site.semantics.arrives:
            return True
        if site.kind in (SiteKind.LOAD, SiteKind.STORE) and site.semantics.strong:
            return True
        if site.kind == SiteKind.ATOMIC:
            ordering = ordering_of(site)
            if ordering.acquires or ordering.releases:
                return True
            if ordering.scope != Scope.DEVICE and site.space != Space.SHARED:
                return True
    return False


@dataclass(frozen=True)
class Clusters:
    """Which blocks form a cluster, and so which blocks a scope includes."""

    grid: tuple[int, int, int] = (1, 1, 1)
    size: tuple[int, int, int] = (1, 1, 1)

    def number(self, block: int) -> tuple[int, ...]:
        """The cluster of a block, as its index in the grid of clusters."""
        return tuple(place // each for place, each in zip(triple(block, self.grid), self.size, strict=True))

    def peer(self, block: int, rank: int) -> int:
        """The block of this rank in a block's cluster."""
        within = triple(rank, self.size)
        x, y, z = (
            number * each + part for number, each, part in zip(self.number(block), self.size, within, strict=True)
        )
        return x + self.grid[0] * (y + self.grid[1] * z)

    def in_scope(self, scope: int, first: int, second: int) -> bool:
        """Does this scope of a thread in the one block include the threads of the other?"""
        if scope == Scope.DEVICE or first == second:
            return True
        return scope == Scope.CLUSTER and self.number(first) == self.number(second)
