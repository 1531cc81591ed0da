"""What a launch asks of the device: counts without a constant in them, which cost.py turns into time."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from cudalab.sim.device.timing.l2_ranges import Met
from cudalab.sim.device.timing.machine_path import MachinePath
from cudalab.sim.device.timing.warp_path import Path


class Workload(Struct, frozen=True):
    """The demand of one launch on the device; counts are for the whole grid unless the name says otherwise."""

    blocks: int
    threads: int
    """Threads a block."""
    blocks_per_sm: int
    """Resident blocks an SM, by occupancy."""
    kinds: Mapping[str, float]
    """Instructions that warps execute, by class (pipes.py)."""
    path: Path
    """The path of the longest warp."""
    sms: float = math.inf
    """SMs that have room for its blocks; fewer than the device has where clusters leave some of a group empty."""
    sectors: float = 0.0
    """32-byte sectors that SMs exchange with the L2."""
    bulk_loaded: float = 0.0
    """Those of ``sectors`` that bulk copies load to shared memory."""
    bulk_stored: float = 0.0
    """Those of ``sectors`` that bulk copies store; they bypass the load/store pipe and the L1."""
    l2_lines: float = 0.0
    """128-byte lines that SMs request of the L2, counted for each request."""
    loaded_sectors: float = 0.0
    """Those of ``sectors`` that are loaded."""
    loaded_lines: float = 0.0
    """Those of ``l2_lines`` that are loaded."""
    partial_sectors: float = 0.0
    """Partial stores to sectors."""
    partial_lines: float = 0.0
    """Lines of them, counted for each request."""
    open_lines: float = 0.0
    """Lines that a block fills by several stores."""
    dram_read: float = 0.0
    """Bytes that must come from DRAM."""
    dram_fill: float = 0.0
    """Bytes that DRAM must read to complete partly stored sectors."""
    stored_sectors: float = 0.0
    """Distinct sectors that are stored to."""
    read_again: float = 0.0
    """Bytes that DRAM reads, beyond ``dram_read`` and ``dram_fill``, because they lie anywhere in far more than the L2
    holds,"""
    written_again: float = 0.0
    """and that it writes,"""
    lines_read_again: float = 0.0
    """and the lines that it visits for them, to read"""
    lines_written_again: float = 0.0
    """and to write."""
    host_loaded: float = 0.0
    """Bytes of host memory that cross the bus to the device,"""
    host_stored: float = 0.0
    """and from it."""
    peer_loaded: float = 0.0
    """Bytes of other devices' memory that cross the link to this one,"""
    peer_stored: float = 0.0
    """and from it."""
    lines_read: float = 0.0
    """128-byte lines of DRAM visited by reads."""
    lines_written: float = 0.0
    pairs_read: float = 0.0
    """Pairs of neighbouring lines of DRAM visited by reads."""
    pairs_written: float = 0.0
    l1_turns: float = 0.0
    """Wavefronts of the L1's banks for accesses to global memory."""
    shared_wavefronts: float = 0.0
    shared_loops: float = 0.0
    """Wavefronts of shared atomics that hardware lacks and runs as compare-and-swap loops."""
    shuffles: float = 0.0
    constants: float = 0.0
    """Distinct words of constant memory, counted for each request."""
    atomic_sectors: float = 0.0
    """Sectors of global atomics, one lane of each address at a time,"""
    atomic_passes: float = 1.0
    """those for one operation of a thread: an eighth where a warp's lanes take whole sectors."""
    hottest_unit: float = 0.0
    """Those in the L2's busiest unit."""
    hottest_address: float = 0.0
    """Atomic operations of threads on the most contended word."""
    float_atomics: bool = False
    l1_hits: float = 0.0
    """L1 hit rate: the share of loaded sectors that the block has loaded before, 0 to 1."""
    lines_a_warp: float = 0.0
    """Lines of global memory that a warp loads in all."""
    turns_a_load: float = 1.0
    """Wavefronts of the L1's banks for one load of a warp."""
    arrivals: float = 0.0
    """Warps that arrive at barriers."""
    cluster: int = 1
    """Blocks of a cluster."""
    clusters: float = 0.0
    """Clusters that the launch was asked to have, of one block too; without an attribute it has none."""
    distributed: float = 0.0
    """32-byte sectors of distributed shared memory that blocks exchange."""
    distributed_atomics: float = 0.0
    """Those of ``distributed`` that belong to atomics."""
    heap_calls: float = 0.0
    """Calls of malloc and free by threads."""
    heap_lanes: float = 1.0
    """Threads of a warp that make one such call together."""
    sleep: float = 0.0
    """ns of one ``nanosleep`` on average."""
    stores: bool = False
    """Does it store to global memory?"""
    loads: bool = False
    """Does it load from global memory?"""
    touched: float = 0.0
    """Bytes of the distinct lines of global memory that it accesses, approximately."""
    loads_missing: float = 1.0
    """The share of the loads of warps that miss the L1 in one of their lanes, 0 to 1."""
    met: Met | None = None
    """What it finds in the L2; None: as much as when the launch is repeated."""
    machine: MachinePath | None = None
    """The paths of warps through the machine code: the work of an SM is then simulated, instruction by instruction.
    None where they are not known, not asked for, or hold instructions that the simulation does not model."""
