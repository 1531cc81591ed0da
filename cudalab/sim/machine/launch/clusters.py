"""Blocks that are resident at the same time: clusters, and how many of them fit on the device.

A *cluster* is up to 8 blocks (16 where the kernel allows sizes that are not portable) that start together on the SMs of
one group (GPC) and reach each other's shared memory; the grid is cut into clusters of equal size. In a *cooperative*
launch all blocks are resident at once, so that the grid can synchronise. (CUDA C++ Programming Guide, "Thread Block
Clusters", "Grid Synchronization".)

How many clusters fit was asked of one H200 by ``cuOccupancyMaxActiveClusters``: ``DeviceLimits.sm_groups`` are groups
of SMs that explain all of its answers. Which SMs form a group differs from one device to the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cudalab.sim.machine.launch.occupancy import kernel_occupancy

if TYPE_CHECKING:
    from cudalab.sim.compiler.program import Kernel
    from cudalab.sim.machine.launch.configuration import Dim3, LaunchConfig
    from cudalab.sim.machine.launch.limits import DeviceLimits

_MOST_CLUSTER_BLOCKS_PER_SM = 8
"""Blocks of clusters on one SM at most: what the occupancy calculator of an H200 says of kernels that need little."""


def in_clusters(blocks: Iterable[int], grid: Dim3, cluster: Dim3) -> list[int]:
    """The blocks, each followed by the rest of its cluster in order of rank; clusters in the order of their first
    block."""
    found: dict[Dim3, None] = {}
    for block in blocks:
        x, rest = block % grid[0], block // grid[0]
        y, z = rest % grid[1], rest // grid[1]
        found[x // cluster[0], y // cluster[1], z // cluster[2]] = None
    ranks = [(x, y, z) for z in range(cluster[2]) for y in range(cluster[1]) for x in range(cluster[0])]
    return [
        cx * cluster[0] + x + grid[0] * (cy * cluster[1] + y + grid[1] * (cz * cluster[2] + z))
        for cx, cy, cz in found
        for x, y, z in ranks
    ]


def max_resident_blocks(kernel: Kernel, config: LaunchConfig, limits: DeviceLimits) -> int:
    """How many blocks of a launch are resident on the device at once."""
    if config.cluster_blocks == 1:
        resident = kernel_occupancy(kernel, config.threads_per_block, config.shared, limits)
        return resident.blocks_per_sm * limits.multiprocessors
    return max_active_clusters(kernel, config, limits) * config.cluster_blocks


def max_active_clusters(kernel: Kernel, config: LaunchConfig, limits: DeviceLimits) -> int:
    """How many clusters of a launch are resident on the device at once (``cuOccupancyMaxActiveClusters``). A group of
    SMs takes clusters that have no more blocks than it has SMs, as many as its SMs have room for."""
    resident = kernel_occupancy(kernel, config.threads_per_block, config.shared, limits)
    return clusters_that_fit(resident.blocks_per_sm, config.cluster_blocks, limits.sm_groups)


def clusters_that_fit(blocks_per_sm: int, blocks: int, groups: tuple[int, ...]) -> int:
    """Clusters of so many blocks that fit into groups of SMs of which each has room for ``blocks_per_sm``."""
    each = min(blocks_per_sm, _MOST_CLUSTER_BLOCKS_PER_SM)
    return sum(sms * each // blocks for sms in groups if blocks <= sms)


def sms_with_room(blocks_per_sm: int, blocks: int, groups: tuple[int, ...]) -> float:
    """SMs whose blocks make whole clusters, each with ``blocks_per_sm``: what is left of a group stays empty. Blocks
    that are no clusters have room on all."""
    each = min(blocks_per_sm, _MOST_CLUSTER_BLOCKS_PER_SM)
    if blocks == 1 or not each:
        return float(sum(groups))
    return max(1.0, clusters_that_fit(each, blocks, groups) * blocks / each)
