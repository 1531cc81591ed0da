"""Which blocks of a launch run at the same time: clusters, and cooperative launches.

A *cluster* is up to 8 blocks (16 where the kernel allows sizes that are not portable) that start together on the SMs of
one group (GPC) and reach each other's shared memory; the grid is cut into clusters of equal size. In a *cooperative*
launch all blocks are on the device at once, so that the grid can synchronise. (CUDA C++ Programming Guide, "Thread
Block Clusters", "Grid Synchronization".) A size may be part of the kernel (``__cluster_dims__``) or of the launch.

How many clusters fit was asked of one H200 by ``cuOccupancyMaxActiveClusters``: ``DeviceLimits.sm_groups`` are groups
of SMs that explain all of its answers. Which SMs belong together differs from one device to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudalab.sim.machine.counters.occupancy import kernel_occupancy
from cudalab.sim.machine.launch.configuration import (
    COOPERATIVE_TOO_LARGE,
    INVALID_CLUSTER_SIZE,
    INVALID_VALUE,
    LaunchError,
)
from cudalab.sim.machine.launch.limits import H200, DeviceLimits

if TYPE_CHECKING:
    from cudalab.sim.compiler.program import Kernel
    from cudalab.sim.machine.launch.module import LoadedKernel

Triple = tuple[int, int, int]
_MOST_CLUSTER_BLOCKS_PER_SM = 8
"""Blocks of clusters on one SM at most: what the occupancy calculator of an H200 says of kernels that need little."""


@dataclass(frozen=True)
class Together:
    """What a launch asks for."""

    cluster: Triple | None = None
    """Blocks of a cluster in x, y, z; None: as the kernel says, or single blocks."""
    cooperative: bool = False
    """All blocks are on the device at once, and may synchronise."""


APART = Together()
"""A plain launch."""


def _refused(code: int, message: str) -> LaunchError:
    return LaunchError(code, message, driver_code=code)


def cluster_of(kernel: Kernel, together: Together = APART) -> Triple:
    """The blocks of a cluster of a launch; (1, 1, 1) without clusters."""
    return together.cluster or kernel.cluster or (1, 1, 1)


def volume(extent: Triple) -> int:
    return extent[0] * extent[1] * extent[2]


def launched_grid(kernel: Kernel, grid: Triple) -> Triple:
    """The grid in blocks: a kernel with ``__block_size__`` is launched with a grid of clusters."""
    if not kernel.blocks_are_clusters or kernel.cluster is None:
        return grid
    x, y, z = (number * size for number, size in zip(grid, kernel.cluster, strict=True))
    return x, y, z


def launched_block(kernel: Kernel, block: Triple) -> Triple:
    """The block that runs: a kernel with ``__block_size__`` brings its own, and (1, 1, 1) stands for it."""
    if kernel.blocks_are_clusters and kernel.required_block is not None and block == (1, 1, 1):
        return kernel.required_block
    return block


def check_together(
    loaded: LoadedKernel,
    grid: Triple,
    block: Triple,
    shared: int,
    together: Together,
    limits: DeviceLimits = H200,
) -> None:
    """Raise LaunchError unless these blocks can run together. ``grid`` counts blocks; the rest of the configuration is
    allowed already."""
    kernel = loaded.kernel
    if kernel.required_block is not None and block != kernel.required_block:
        raise _refused(
            INVALID_VALUE,
            f"kernel {kernel.name} was compiled for blocks of {kernel.required_block} threads (got {block}).",
        )
    cluster = cluster_of(kernel, together)
    if cluster != (1, 1, 1):
        _check_cluster(loaded, grid, cluster, together)
        if not max_active_clusters(kernel, block, shared, cluster, limits):
            raise _refused(
                INVALID_CLUSTER_SIZE,
                f"not one cluster of {volume(cluster)} blocks of {volume(block)} threads with {shared} bytes of "
                "dynamic shared memory fits on the device. Use smaller clusters or blocks.",
            )
    if together.cooperative:
        _check_cooperative(kernel, grid, block, shared, cluster, limits)


def _check_cluster(loaded: LoadedKernel, grid: Triple, cluster: Triple, together: Together) -> None:
    kernel = loaded.kernel
    if min(cluster) < 1:
        raise _refused(INVALID_CLUSTER_SIZE, f"cluster {cluster}: every dimension must be at least 1.")
    if kernel.cluster is not None and together.cluster not in (None, kernel.cluster):
        raise _refused(
            INVALID_CLUSTER_SIZE,
            f"kernel {kernel.name} was compiled for clusters of {kernel.cluster} blocks and is launched with clusters "
            f"of {together.cluster}. Leave the attribute out, or compile it without __cluster_dims__.",
        )
    most = limits_of_cluster(loaded)
    if volume(cluster) > most:
        allow = (
            "Up to 16 are possible after setting CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED to 1; such a "
            "launch may fail on another device."
            if most < 16
            else "Use smaller clusters."
        )
        raise _refused(
            INVALID_CLUSTER_SIZE,
            f"a cluster of {cluster} = {volume(cluster)} blocks; at most {most} are allowed. {allow}",
        )
    for axis, blocks, size in zip("xyz", grid, cluster, strict=True):
        if blocks % size:
            raise _refused(
                INVALID_CLUSTER_SIZE,
                f"the grid has {blocks} blocks in {axis}, which is not a multiple of the cluster's {size}. Round the "
                "grid up, and guard the work.",
            )


def limits_of_cluster(loaded: LoadedKernel) -> int:
    """Blocks that a cluster of this kernel may have."""
    return 16 if loaded.non_portable_clusters else 8


def _check_cooperative(
    kernel: Kernel, grid: Triple, block: Triple, shared: int, cluster: Triple, limits: DeviceLimits
) -> None:
    most = resident_blocks(kernel, block, shared, cluster, limits)
    if volume(grid) > most:
        raise _refused(
            COOPERATIVE_TOO_LARGE,
            f"a cooperative launch needs all of its blocks on the device at once: {most} blocks of {volume(block)} "
            f"threads fit (got a grid of {grid}). Let each block do more.",
        )


def resident_blocks(
    kernel: Kernel, block: Triple, shared: int, cluster: Triple = (1, 1, 1), limits: DeviceLimits = H200
) -> int:
    """How many blocks of a launch are on the device at once."""
    if cluster == (1, 1, 1):
        return kernel_occupancy(kernel, volume(block), shared, limits=limits).blocks_per_sm * limits.multiprocessors
    return max_active_clusters(kernel, block, shared, cluster, limits) * volume(cluster)


def max_active_clusters(
    kernel: Kernel, block: Triple, shared: int, cluster: Triple, limits: DeviceLimits = H200
) -> int:
    """How many clusters are on the device at once (``cuOccupancyMaxActiveClusters``). A group of SMs takes clusters
    that have no more blocks than it has SMs, as many as its SMs have room for."""
    each = kernel_occupancy(kernel, volume(block), shared, limits=limits).blocks_per_sm
    return clusters_that_fit(each, volume(cluster), limits.sm_groups)


def clusters_that_fit(blocks_per_sm: int, blocks: int, groups: tuple[int, ...]) -> int:
    """Clusters of so many blocks that fit into groups of SMs of which each has room for ``blocks_per_sm``."""
    each = min(blocks_per_sm, _MOST_CLUSTER_BLOCKS_PER_SM)
    return sum(sms * each // blocks for sms in groups if blocks <= sms)


def sm_groups(sms: int) -> tuple[int, ...]:
    """The SMs that a cluster may be spread over: of an H200 as found out, else taken to be groups of 16."""
    if sms == H200.multiprocessors:
        return H200.sm_groups
    whole, rest = divmod(sms, 16)
    return (16,) * whole + ((rest,) if rest else ())
