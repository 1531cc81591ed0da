"""What an instruction says about order and scope, and which threads a scope holds.

PTX ISA, "Memory Consistency Model": *strong* accesses are those that others may look at at the same time (``volatile``,
``relaxed``, ``acquire``, ``release``, and atomics); a scope is the block, the cluster, or the whole device.
"""

from __future__ import annotations

from dataclasses import dataclass

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.program import Kernel, Site
from cudalab.sim.compiler.semantics import Operation, Scope

BLOCK_SCOPE, CLUSTER_SCOPE, DEVICE_SCOPE = Scope.BLOCK, Scope.CLUSTER, Scope.DEVICE


@dataclass(frozen=True)
class Meaning:
    """What a site does to the order."""

    kind: SiteKind
    size: int
    strong: bool
    """An atomic, or a load or store that others may look at at the same time."""
    scope: int
    acquires: bool
    releases: bool
    reads: bool
    writes: bool
    volatile: bool
    returns: bool
    """The thread learns what was there; a reduction without result tells it nothing."""
    waits: bool
    """A barrier or warp operation at which the thread stays until the others have come."""


def meaning(site: Site) -> Meaning:
    """Order and scope of a site. A launch is alone on its device: the system's scope is the device's."""
    semantics = site.semantics
    atomic = site.kind == SiteKind.ATOMIC
    return Meaning(
        kind=site.kind,
        size=max(1, site.size),
        strong=atomic or semantics.strong,
        scope=min(semantics.scope, DEVICE_SCOPE),
        acquires=semantics.acquires,
        releases=semantics.releases,
        reads=site.kind == SiteKind.LOAD or atomic,
        writes=site.kind == SiteKind.STORE or atomic,
        volatile=semantics.volatile,
        returns=semantics.operation is not Operation.REDUCTION,
        waits=site.kind == SiteKind.BARRIER or site.synchronises_lanes,
    )


def orders_finely(kernel: Kernel) -> bool:
    """Has a kernel means of order beyond barriers of the whole block and warp operations?"""
    for site in kernel.sites:
        if site.kind in (SiteKind.FENCE, SiteKind.SYNC, SiteKind.POLL):
            return True
        if site.kind == SiteKind.BARRIER and site.semantics.arrives:
            return True
        if site.kind in (SiteKind.LOAD, SiteKind.STORE) and site.semantics.strong:
            return True
        if site.kind == SiteKind.ATOMIC:
            means = meaning(site)
            if means.acquires or means.releases or (means.scope != DEVICE_SCOPE and site.space != Space.SHARED):
                return True
    return False


@dataclass(frozen=True)
class Clusters:
    """Which blocks form a cluster."""

    grid: tuple[int, int, int] = (1, 1, 1)
    size: tuple[int, int, int] = (1, 1, 1)

    def number(self, block: int) -> tuple[int, ...]:
        """The cluster of a block: its place in the grid of clusters."""
        return tuple(place // each for place, each in zip(self._place(block), self.size, strict=True))

    def peer(self, block: int, rank: int) -> int:
        """The block of this rank in a block's cluster."""
        width, height, _ = self.size
        within = (rank % width, rank // width % height, rank // (width * height))
        x, y, z = (
            number * each + part for number, each, part in zip(self.number(block), self.size, within, strict=True)
        )
        return x + self.grid[0] * (y + self.grid[1] * z)

    def _place(self, block: int) -> tuple[int, int, int]:
        width, height, _ = self.grid
        return block % width, block // width % height, block // (width * height)
