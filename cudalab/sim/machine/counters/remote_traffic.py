"""Bytes that a kernel moves to and from memory that is not its device's own: the host's over the bus, a peer's over the
link between the devices.

The device reaches page-locked and registered memory by the address that it was mapped to (CUDA C++ Programming Guide,
"Mapped Memory"), and a peer's by the address that it has there ("Peer-to-Peer Memory Access"). What a block loads twice
is in its L1 the second time; what two blocks load crosses twice (Best Practices Guide, "Zero Copy": mapped memory
should be read or written only once). Nothing of it stays in this device's L2: two H200 read 8 MiB of a peer's ten times
at the speed of their link. A stored byte crosses once for each sector and block, an atomic in both directions.

Simplified: traffic is counted in whole sectors of 32 bytes, loads from the host's memory in pieces of 64, and what a
packet costs besides is not. A learner would notice in scattered accesses, which are slower still on a GPU. Managed
memory counts as device memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from cudalab.sim.abi import SECTOR, SiteKind, Space
from cudalab.sim.arrays import unique_values

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.module import Launch

_HOST_PIECE = 64
"""Bytes that a load brings over the bus at least: floats that lie 16 apart take an H200 twice as long as 8 apart,
and as long as floats 24 apart (docs/evidence/2026-11-24-calls-and-graphs.json)."""
_GLOBAL = (Space.GLOBAL, Space.GENERIC, Space.TEXTURE)


class RemoteTraffic(Struct, frozen=True):
    """What of a launch's accesses goes to some memory."""

    ranges: tuple[tuple[int, int], ...]
    """``(address, bytes)`` of what it may reach of that memory."""
    loads: np.ndarray
    """bool[sites]"""
    stores: np.ndarray
    load_piece: int = SECTOR
    """Bytes that a load moves at least."""

    def of_block(self, records: np.ndarray) -> tuple[int, int]:
        """Bytes that one block loads from there, and stores to it."""
        address, site = records["address"], records["site"]
        there = np.zeros(len(records), np.bool_)
        for start, size in self.ranges:
            there |= (address >= np.uint64(start)) & (address < np.uint64(start + size))
        address, site = address[there], site[there]
        loaded, stored = (
            len(unique_values(address[kind[site]] // np.uint64(piece))) * piece
            for kind, piece in ((self.loads, self.load_piece), (self.stores, SECTOR))
        )
        return loaded, stored


def host_traffic(launch: Launch) -> RemoteTraffic | None:
    """None where a launch cannot reach host memory."""
    return _traffic(launch, launch.kernel.pointers(launch.args).host_memory, _HOST_PIECE)


def peer_traffic(launch: Launch) -> RemoteTraffic | None:
    """None where a launch cannot reach the memory of another device."""
    return _traffic(launch, launch.kernel.pointers(launch.args).peer_memory)


def _traffic(launch: Launch, ranges: Sequence[tuple[int, int]], load_piece: int = SECTOR) -> RemoteTraffic | None:
    if not ranges:
        return None
    sites = [(site.kind if site.space in _GLOBAL else None) for site in launch.kernel.kernel.sites]
    loads = np.array([kind in (SiteKind.LOAD, SiteKind.ATOMIC) for kind in sites])
    stores = np.array([kind in (SiteKind.STORE, SiteKind.ATOMIC) for kind in sites])
    return RemoteTraffic(tuple(ranges), loads, stores, load_piece)
