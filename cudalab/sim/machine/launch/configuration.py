"""Is a launch configuration allowed? Checked before anything runs, as the driver does.

The codes are those of the CUDA runtime (``<<<…>>>``), which tells a bad configuration (9) from a bad value (1). A
launch through the driver, which is what CuPy does, reports most of them as ``CUDA_ERROR_INVALID_VALUE`` (1):
:attr:`LaunchError.driver_code` holds that one.

Source: CUDA C++ Programming Guide, "Compute Capabilities"; CUDA Driver API, ``cuLaunchKernel``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cudalab.sim.machine.launch.limits import H200, DeviceLimits

if TYPE_CHECKING:
    from cudalab.sim.compiler.program import Kernel

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


def extent(value: Sequence[int] | int, what: str) -> tuple[int, int, int]:
    """A grid or block size as three numbers, missing ones 1.

    Raises:
        ValueError: more than three numbers, or none.
    """
    if type(value) is tuple and len(value) == 3 and type(value[0]) is type(value[1]) is type(value[2]) is int:
        return value
    numbers = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"{what} must have one to three dimensions (got {len(numbers)}: {numbers})")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def check_configuration(
    kernel: Kernel,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int,
    *,
    max_dynamic_shared: int | None = None,
    limits: DeviceLimits = H200,
) -> None:
    """Raise LaunchError unless the launch is allowed.

    Args:
        kernel: the compiled kernel.
        grid: blocks in x, y, z.
        block: threads in x, y, z.
        shared: dynamic shared memory a block, bytes.
        max_dynamic_shared: what the kernel was opted in to, bytes; None when it was not.
        limits: the device's.
    """
    _check_extent("grid", grid, limits.grid, "blocks")
    _check_extent("block", block, limits.block, "threads")
    threads = block[0] * block[1] * block[2]
    if threads > limits.threads_per_block:
        x, y, z = block
        raise LaunchError(
            INVALID_CONFIGURATION,
            f"a block of {x} x {y} x {z} = {threads} threads is larger than the {limits.threads_per_block} that "
            "a block may have. Use smaller blocks and more of them.",
        )
    _check_registers(kernel, threads, limits)
    _check_shared(kernel, shared, max_dynamic_shared, limits)


def _check_extent(what: str, value: tuple[int, int, int], most: tuple[int, int, int], unit: str) -> None:
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
    each = -(-registers * limits.warp_size // limits.register_unit) * limits.register_unit
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


def _check_shared(kernel: Kernel, shared: int, opted_in: int | None, limits: DeviceLimits) -> None:
    if shared < 0:
        raise LaunchError(INVALID_VALUE, f"shared memory must not be negative (got {shared} bytes)")
    total = kernel.static_shared + shared
    static = f"{kernel.static_shared} bytes static + " if kernel.static_shared else ""
    if total > limits.shared_per_block_optin:
        raise LaunchError(
            INVALID_VALUE,
            f"a block asks for {static}{shared} bytes of shared memory; the device has at most "
            f"{limits.shared_per_block_optin} (227 KB) a block. Use a smaller tile.",
        )
    allowed = max(limits.shared_per_block - kernel.static_shared, opted_in or 0)
    if shared > allowed:
        raise LaunchError(
            INVALID_VALUE,
            f"a block asks for {static}{shared} bytes of dynamic shared memory; without opting in a block may use "
            f"{limits.shared_per_block} (48 KB) in all. Set the kernel's limit first: "
            f"kernel.max_dynamic_shared_size_bytes = {shared} in CuPy, or "
            "cudaFuncAttributeMaxDynamicSharedMemorySize.",
        )
