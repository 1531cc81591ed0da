"""Theoretical occupancy: the number of resident blocks per SM, and the resource that limits it.

A block needs warps, registers and shared memory for its whole lifetime. An SM takes blocks until one of these, or the
number of block slots, runs out. Occupancy is the ratio of resident warps to the most that an SM can hold; more warps
hide more latency, up to a point.

Registers are allocated to whole warps in units, and each of the SM's schedulers owns an equal share; shared memory is
allocated in units, too, and the system reserves some of each block's. ``DeviceLimits`` has the numbers. Source: CUDA
C++ Programming Guide, "Hardware Multithreading", and the technical specifications of the compute capability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from cudalab.sim.compiler.program import Kernel
    from cudalab.sim.machine.launch.limits import DeviceLimits


class Occupancy(Struct, frozen=True):
    """Occupancy of one kernel at one block size."""

    threads: int
    """Threads a block."""
    blocks_per_sm: int
    """Resident blocks an SM; 0 when not even one fits."""
    warps_per_sm: int
    fraction: float
    """Resident warps over the SM's maximum, 0 to 1."""
    limiter: str
    """The limiting resource: ``"warps"``, ``"blocks"``, ``"registers"`` or ``"shared memory"``."""
    bounds: dict[str, int]
    """Blocks an SM that each resource would allow."""

    def __str__(self) -> str:
        return (
            f"{self.fraction:.0%} occupancy: {self.blocks_per_sm} blocks of {self.threads} threads an SM "
            f"({self.warps_per_sm} warps), limited by {self.limiter}"
        )


def occupancy(threads: int, registers: int = 0, shared: int = 0, *, limits: DeviceLimits) -> Occupancy:
    """Occupancy of blocks of `threads` threads.

    Args:
        threads: threads a block, 1 to 1024.
        registers: registers a thread.
        shared: shared memory a block, static and dynamic, bytes.
        limits: the device's.

    Raises:
        ValueError: `threads` outside 1 … 1024.
    """
    if not 1 <= threads <= limits.threads_per_block:
        raise ValueError(f"threads must be 1 to {limits.threads_per_block} (got {threads})")
    warps = -(-threads // limits.warp_size)
    bounds = {"warps": limits.warps_per_sm // warps, "blocks": limits.blocks_per_sm}
    if registers:
        per_scheduler = limits.registers_per_sm // limits.schedulers // limits.registers_of_warp(registers)
        bounds["registers"] = per_scheduler * limits.schedulers // warps
    fits = shared <= limits.shared_per_block_optin
    bounds["shared memory"] = limits.shared_per_sm // limits.shared_of_block(shared) if fits else 0
    limiter = min(bounds, key=lambda name: bounds[name])
    blocks = bounds[limiter]
    return Occupancy(threads, blocks, blocks * warps, blocks * warps / limits.warps_per_sm, limiter, bounds)


def kernel_occupancy(kernel: Kernel, threads: int, dynamic: int, limits: DeviceLimits) -> Occupancy:
    """Occupancy of a compiled kernel launched with `threads` threads and `dynamic` bytes of shared memory a block."""
    registers = kernel.resources.registers if kernel.resources else 0
    return occupancy(threads, registers, kernel.static_shared + dynamic, limits=limits)
