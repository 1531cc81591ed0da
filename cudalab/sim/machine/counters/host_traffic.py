"""Bytes that a kernel moves over the bus, because they lie in host memory: page-locked or registered.

The device reaches such memory by the address that it was mapped to (CUDA C++ Programming Guide, "Mapped Memory"). What
a block loads twice is in its L1 the second time; what two blocks load crosses the bus twice (Best Practices Guide,
"Zero Copy": mapped memory should be read or written only once). A stored byte crosses once for each sector and block,
an atomic in both directions.

Simplified: traffic is counted in whole sectors of 32 bytes, and what a packet of the bus costs besides is not. A
learner would notice in scattered accesses, which are slower still on a GPU. Managed memory counts as device memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import SECTOR, SiteKind, Space

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.module import Launch

_GLOBAL = (Space.GLOBAL, Space.GENERIC, Space.TEXTURE)


@dataclass(frozen=True)
class HostTraffic:
    """What of a launch's accesses goes to host memory."""

    ranges: tuple[tuple[int, int], ...]
    """``(address, bytes)`` of the host memory that it may reach."""
    loads: np.ndarray
    """bool[sites]"""
    stores: np.ndarray

    def of_block(self, records: np.ndarray) -> tuple[int, int]:
        """Bytes that one block loads from, and stores to, host memory."""
        address, site = records["address"], records["site"]
        there = np.zeros(len(records), np.bool_)
        for start, size in self.ranges:
            there |= (address >= np.uint64(start)) & (address < np.uint64(start + size))
        sectors, site = address[there] // np.uint64(SECTOR), site[there]
        moved = (len(np.unique(sectors[kind[site]])) * SECTOR for kind in (self.loads, self.stores))
        loaded, stored = moved
        return loaded, stored


def host_traffic(launch: Launch) -> HostTraffic | None:
    """None where a launch cannot reach host memory."""
    ranges = launch.kernel.pointers(launch.args).host_memory
    if not ranges:
        return None
    sites = [(site.kind if site.space in _GLOBAL else None) for site in launch.kernel.kernel.sites]
    loads = np.array([kind in (SiteKind.LOAD, SiteKind.ATOMIC) for kind in sites])
    stores = np.array([kind in (SiteKind.STORE, SiteKind.ATOMIC) for kind in sites])
    return HostTraffic(tuple(ranges), loads, stores)
