"""What an instruction says about order and scope, and which threads a scope holds.

PTX ISA, "Memory Consistency Model": *strong* accesses are those that others may look at at the same time (``volatile``,
``relaxed``, ``acquire``, ``release``, and atomics); a scope is the block, the cluster, or the whole device.
"""

from __future__ import annotations

from dataclasses import dataclass

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.program import Kernel, Site
from cudalab.sim.machine.trace.batch import synchronises

BLOCK_SCOPE, CLUSTER_SCOPE, DEVICE_SCOPE = range(3)
_STRONG = (".volatile", ".relaxed", ".acquire", ".release", ".acq_rel", ".mmio")


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
    """Read order and scope off a site's opcode."""
    opcode = site.opcode
    atomic = site.kind == SiteKind.ATOMIC
    scope = DEVICE_SCOPE
    parts = opcode.replace("shared::cta", "shared").replace("shared::cluster", "shared").split(".")
    if "cta" in parts:
        scope = BLOCK_SCOPE
    elif "cluster" in parts:
        scope = CLUSTER_SCOPE
    both = ".acq_rel" in opcode or ".sc" in opcode
    return Meaning(
        kind=site.kind,
        size=max(1, site.size),
        strong=atomic or any(word in opcode for word in _STRONG),
        scope=scope,
        acquires=both or ".acquire" in opcode,
        releases=both or ".release" in opcode,
        reads=site.kind == SiteKind.LOAD or atomic,
        writes=site.kind == SiteKind.STORE or atomic,
        volatile=".volatile" in opcode,
        returns=not opcode.startswith("red"),
        waits=site.kind == SiteKind.BARRIER or (site.kind == SiteKind.WARP and synchronises(opcode)),
    )


def orders_finely(kernel: Kernel) -> bool:
    """Has a kernel means of order beyond barriers of the whole block and warp operations?"""
    for site in kernel.sites:
        if site.kind in (SiteKind.FENCE, SiteKind.SYNC, SiteKind.POLL):
            return True
        if site.kind == SiteKind.BARRIER and "arrive" in site.opcode:
            return True
        if site.kind in (SiteKind.LOAD, SiteKind.STORE) and any(word in site.opcode for word in _STRONG):
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
