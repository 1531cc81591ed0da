"""Is a launch configuration allowed? Checked before anything runs, as the driver does.

The codes are those of the CUDA runtime (``<<<…>>>``), which tells a bad configuration (9) from a bad value (1). A
launch through the driver, which is what CuPy does, reports most of them as ``CUDA_ERROR_INVALID_VALUE`` (1):
:attr:`LaunchError.driver_code` holds that one.

Source: CUDA C++ Programming Guide, "Compute Capabilities", "Thread Block Clusters", "Grid Synchronization"; CUDA Driver
API, ``cuLaunchKernel``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cudalab.sim.machine.launch.clusters import max_active_clusters, max_resident_blocks

if TYPE_CHECKING:
    from cudalab.sim.compiler.program import Kernel
    from cudalab.sim.machine.launch.configuration import Dim3, LaunchConfig
    from cudalab.sim.machine.launch.limits import DeviceLimits

INVALID_VALUE = 1
INVALID_CONFIGURATION = 9
OUT_OF_RESOURCES = 701
COOPERATIVE_TOO_LARGE = 720
INVALID_CLUSTER_SIZE = 912

NAMES = {
    INVALID_VALUE: "cudaErrorInvalidValue",
    INVALID_CONFIGURATION: "cudaErrorInvalidConfiguration",
    OUT_OF_RESOURCES: "cudaErrorLaunchOutOfResources",
    COOPERATIVE_TOO_LARGE: "cudaErrorCooperativeLaunchTooLarge",
    INVALID_CLUSTER_SIZE: "cudaErrorInvalidClusterSize",
}


class LaunchError(Exception):
    """The launch was refused; nothing ran.

    Attributes:
        code: ``cudaError_t`` that the runtime's launch reports; ``name`` is its name.
        driver_code: ``CUresult`` that ``cuLaunchKernel`` reports.
        message: which limit, which value, what to try.
    """

    def __init__(self, code: int, message: str, driver_code: int | None = None) -> None:
        super().__init__(f"{NAMES[code]}: {message}")
        self.code = code
        self.name = NAMES[code]
        self.message = message
        self.driver_code = INVALID_VALUE if driver_code is None else driver_code


def check(
    kernel: Kernel, config: LaunchConfig, limits: DeviceLimits, dynamic_shared: int | None, cluster_blocks: int
) -> None:
    """Raise LaunchError unless the kernel may be launched so.

    ``dynamic_shared``: bytes that it was opted in to; ``cluster_blocks``: the most that its clusters may have.
    """
    _check_size("grid", config.grid, limits.grid, "blocks")
    _check_size("block", config.block, limits.block, "threads")
    threads = config.threads_per_block
    if threads > limits.threads_per_block:
        x, y, z = config.block
        raise LaunchError(
            INVALID_CONFIGURATION,
            f"a block of {x} x {y} x {z} = {threads} threads is larger than the {limits.threads_per_block} that "
            "a block may have. Use smaller blocks and more of them.",
        )
    _check_registers(kernel, threads, limits)
    _check_shared(kernel, config.shared, limits, dynamic_shared or 0)
    check_residency(kernel, config, limits, cluster_blocks)


def _check_size(what: str, value: Dim3, most: Dim3, unit: str) -> None:
    for axis, number, limit in zip("xyz", value, most, strict=True):
        if number < 1:
            raise LaunchError(
                INVALID_CONFIGURATION,
                f"{what} {value} has {number} {unit} in {axis}; every dimension must be at least 1. "
                "An empty array needs no launch: skip it.",
            )
        if number > limit:
            advice = (
                "Let each thread handle several elements (a grid-stride loop), or use x, which allows 2147483647."
                if what == "grid"
                else "Put the long dimension in x or y."
            )
            if what == "block" and axis != "z":
                advice = "Use smaller blocks and more of them."
            raise LaunchError(
                INVALID_CONFIGURATION,
                f"{what} {value} has {number} {unit} in {axis}, more than the limit of {limit}. {advice}",
            )


def _check_registers(kernel: Kernel, threads: int, limits: DeviceLimits) -> None:
    if threads > kernel.max_threads:
        raise LaunchError(
            OUT_OF_RESOURCES,
            f"kernel {kernel.name} was compiled with __launch_bounds__({kernel.max_threads}) and is launched with "
            f"blocks of {threads} threads. Use at most {kernel.max_threads}, or raise the bound.",
            driver_code=INVALID_VALUE,
        )
    registers = kernel.resources.registers if kernel.resources else 0
    warps = -(-threads // limits.warp_size)
    each = limits.registers_of_warp(registers)
    # Each scheduler has its own share of the registers.
    most = limits.registers_per_block // limits.schedulers // each * limits.schedulers if each else warps
    if warps > most:
        fitting = most * limits.warp_size
        raise LaunchError(
            OUT_OF_RESOURCES,
            f"kernel {kernel.name} uses {registers} registers a thread; {threads} threads need {warps * each}, and a "
            f"block has {limits.registers_per_block}. Use at most {fitting} threads a block, or compile with "
            f"__launch_bounds__({threads}).",
            driver_code=OUT_OF_RESOURCES,
        )


def _check_shared(kernel: Kernel, shared: int, limits: DeviceLimits, opted_in: int) -> None:
    if shared < 0:
        raise LaunchError(INVALID_VALUE, f"shared memory must not be negative (got {shared} bytes)")
    total = kernel.static_shared + shared
    static = f"{kernel.static_shared} bytes static + " if kernel.static_shared else ""
    if total > limits.shared_per_block_optin:
        raise LaunchError(
            INVALID_VALUE,
            f"a block asks for {static}{shared} bytes of shared memory; the device has at most "
            f"{limits.shared_per_block_optin} ({limits.shared_per_block_optin >> 10} KB) a block. Use a smaller tile.",
        )
    allowed = max(limits.shared_per_block - kernel.static_shared, opted_in)
    if shared > allowed:
        raise LaunchError(
            INVALID_VALUE,
            f"a block asks for {static}{shared} bytes of dynamic shared memory; without opting in a block may use "
            f"{limits.shared_per_block} ({limits.shared_per_block >> 10} KB) in all. Set the kernel's limit first: "
            f"kernel.max_dynamic_shared_size_bytes = {shared} in CuPy, or "
            "cudaFuncAttributeMaxDynamicSharedMemorySize.",
        )


def check_residency(kernel: Kernel, config: LaunchConfig, limits: DeviceLimits, cluster_blocks: int) -> None:
    """Raise LaunchError unless the blocks that must be resident at once can be: those of a cluster, or all blocks of a
    cooperative launch."""
    cluster = config.cluster
    if kernel.required_block is not None and config.block != kernel.required_block:
        raise _refused(
            INVALID_VALUE,
            f"kernel {kernel.name} was compiled for blocks of {kernel.required_block} threads (got {config.block}).",
        )
    if cluster is not None and cluster != (1, 1, 1):
        _check_cluster(kernel, config.grid, cluster, cluster_blocks)
        if not max_active_clusters(kernel, config, limits):
            raise _refused(
                INVALID_CLUSTER_SIZE,
                f"not one cluster of {config.cluster_blocks} blocks of {config.threads_per_block} threads with "
                f"{config.shared} bytes of dynamic shared memory fits on the device. Use smaller clusters or blocks.",
            )
    if config.cooperative:
        most = max_resident_blocks(kernel, config, limits)
        if config.blocks > most:
            raise _refused(
                COOPERATIVE_TOO_LARGE,
                f"a cooperative launch needs all of its blocks on the device at once: {most} blocks of "
                f"{config.threads_per_block} threads fit (got a grid of {config.grid}). Let each block do more.",
            )


def _refused(code: int, message: str) -> LaunchError:
    return LaunchError(code, message, driver_code=code)


def _check_cluster(kernel: Kernel, grid: Dim3, cluster: Dim3, most: int) -> None:
    blocks = math.prod(cluster)
    if min(cluster) < 1:
        raise _refused(INVALID_CLUSTER_SIZE, f"cluster {cluster}: every dimension must be at least 1.")
    if kernel.cluster not in (None, cluster):
        raise _refused(
            INVALID_CLUSTER_SIZE,
            f"kernel {kernel.name} was compiled for clusters of {kernel.cluster} blocks and is launched with clusters "
            f"of {cluster}. Leave the attribute out, or compile it without __cluster_dims__.",
        )
    if blocks > most:
        allow = (
            "Up to 16 are possible after setting CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED to 1; such a "
            "launch may fail on another device."
            if most < 16
            else "Use smaller clusters."
        )
        raise _refused(
            INVALID_CLUSTER_SIZE,
            f"a cluster of {cluster} = {blocks} blocks; at most {most} are allowed. {allow}",
        )
    for axis, number, size in zip("xyz", grid, cluster, strict=True):
        if number % size:
            raise _refused(
                INVALID_CLUSTER_SIZE,
                f"the grid has {number} blocks in {axis}, which is not a multiple of the cluster's {size}. Round the "
                "grid up, and guard the work.",
            )
