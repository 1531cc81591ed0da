"""What a streaming multiprocessor and a launch may hold: the device's profile as the machine needs it.

Source: CUDA C++ Programming Guide, "Compute Capabilities", tables of feature support and technical specifications; the
granularities are those of the occupancy calculator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from cudalab.sim.compiler.passes.timing.clocks import FINE, KINDS


class DeviceLimits(Struct, frozen=True):
    """Limits of one device."""

    name: str
    multiprocessors: int
    warp_size: int

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    threads_per_block: int

    blocks_per_sm: int
    warps_per_sm: int

    registers_per_sm: int
    registers_per_block: int

    shared_per_sm: int
    """Bytes; 228 KB on compute capability 9.0."""
    shared_per_block: int
    """Bytes a block may use without opting in."""
    shared_per_block_optin: int
    """Bytes a block may use after opting in: 227 KB on compute capability 9.0."""
    shared_reserved: int
    """Bytes that the system takes of each resident block."""

    schedulers: int
    """Warps are distributed over the schedulers, each with its share of the registers."""
    register_unit: int
    """Registers are given to a warp in multiples of this."""
    shared_unit: int
    """Shared memory is given to a block in multiples of this."""
    sm_groups: tuple[int, ...]
    """SMs of each group (GPC); a cluster runs on the SMs of one group."""

    clock_mhz: int
    latencies: tuple[int, ...]
    """What each class of instructions takes, as clocks in a kernel show it (``compiler/passes/clocks.py``): 1/64
    cycle."""
    l2_reach: int
    """Bytes of a working set that the L2 holds."""

    @staticmethod
    def of(
        properties: Mapping[str, Any], sm: Mapping[str, Any], clock_mhz: int, latencies: Mapping[str, float]
    ) -> DeviceLimits:
        """From a profile's ``properties``, named as in ``cudaDeviceProp``, what it says of an SM, and the cycles that
        each class of instructions takes.

        Which SMs form a group differs between devices of one kind; without a list that covers this device's SMs they
        are taken to be groups of 16.
        """
        p, groups = properties, tuple(sm["groups"])
        if sum(groups) != p["multiProcessorCount"]:
            whole, rest = divmod(p["multiProcessorCount"], 16)
            groups = (16,) * whole + ((rest,) if rest else ())
        x, y, z = p["maxGridSize"]
        width, height, depth = p["maxThreadsDim"]
        return DeviceLimits(
            name=p["name"],
            multiprocessors=p["multiProcessorCount"],
            warp_size=p["warpSize"],
            grid=(x, y, z),
            block=(width, height, depth),
            threads_per_block=p["maxThreadsPerBlock"],
            blocks_per_sm=p["maxBlocksPerMultiProcessor"],
            warps_per_sm=p["maxThreadsPerMultiProcessor"] // p["warpSize"],
            registers_per_sm=p["regsPerMultiprocessor"],
            registers_per_block=p["regsPerBlock"],
            shared_per_sm=p["sharedMemPerMultiprocessor"],
            shared_per_block=p["sharedMemPerBlock"],
            shared_per_block_optin=p["sharedMemPerBlockOptin"],
            shared_reserved=p["reservedSharedMemPerBlock"],
            schedulers=sm["schedulers"],
            register_unit=sm["register_unit"],
            shared_unit=sm["shared_unit"],
            sm_groups=groups,
            clock_mhz=clock_mhz,
            latencies=tuple(round(FINE * latencies[kind]) for kind in KINDS),
            l2_reach=p["l2CacheSize"],
        )

    def registers_of_warp(self, registers: int) -> int:
        """Registers given to a warp whose threads use so many each."""
        return -(-registers * self.warp_size // self.register_unit) * self.register_unit

    def shared_of_block(self, shared: int) -> int:
        """Bytes of an SM's shared memory given to a block that uses so many."""
        return -(-(shared + self.shared_reserved) // self.shared_unit) * self.shared_unit
