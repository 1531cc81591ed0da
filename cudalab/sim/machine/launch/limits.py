"""What a streaming multiprocessor and a launch may hold: the fixed limits of compute capability 9.0.

Source: CUDA C++ Programming Guide, "Compute Capabilities", tables of feature support and technical specifications.
The allocation granularities (registers by warp, shared memory by 128 bytes, 1 KB of it reserved a block) are those of
the occupancy calculator for 9.0.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceLimits:
    """Limits of one device; the defaults are an H200's."""

    name: str = "NVIDIA H200"
    multiprocessors: int = 132
    warp_size: int = 32

    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    block: tuple[int, int, int] = (1024, 1024, 64)
    threads_per_block: int = 1024

    threads_per_sm: int = 2048
    blocks_per_sm: int = 32
    warps_per_sm: int = 64

    registers_per_sm: int = 65536
    registers_per_block: int = 65536
    registers_per_thread: int = 255
    register_unit: int = 256
    """Registers are given to a warp in multiples of this."""
    schedulers: int = 4
    """Warps are spread over the schedulers, each with its share of the registers."""

    shared_per_sm: int = 233472
    """Bytes; 228 KB on compute capability 9.0."""
    shared_per_block: int = 49152
    """Bytes a block may use without opting in."""
    shared_per_block_optin: int = 232448
    """Bytes a block may use after opting in: 227 KB."""
    shared_reserved: int = 1024
    """Bytes that the system takes of each resident block."""
    shared_unit: int = 128
    """Shared memory is given to a block in multiples of this."""

    sm_groups: tuple[int, ...] = (18, 18, 16, 16, 16, 16, 16, 8, 2, 2, 2, 2)
    """SMs that a cluster may be spread over, group by group. Derived from what ``cuOccupancyMaxActiveClusters`` said on
    one H200 for 12 cluster sizes (2026-11-21): together.py."""


H200 = DeviceLimits()
