"""How long work takes on the modelled device: named terms, of which the largest binds.

A kernel's time is ``start + max(terms)``. *Start* is what an empty kernel takes. The terms are what the whole launch
asks of one resource over what that resource can give; those of memory and dispatch begin or end with the *fill*, the
time of one block with nobody else in the way: its chain of loads, its instructions, barriers and stores.

``dispatch``
    blocks handed to SMs, one after the other for the whole device; many small blocks are bound by it.
``issue``
    warp instructions over what the schedulers of the SMs that have blocks can issue.
``memory``
    bytes from and to DRAM over its bandwidth, which is less for a mix of reads and writes. A read moves at least 64
    bytes, a store of part of a sector makes DRAM read the rest of it, and each 128-byte line visited costs a little.
``L2``
    sectors that SMs exchange with the L2 over what all SMs can.
``shared``
    shared-memory wavefronts, one a cycle and SM.
``atomics``
    atomic operations on global memory; those on one 128-byte line go one after the other.
``latency``
    waves of blocks times the time of a wave: a block's fill, the bytes of all blocks on its SM through the SM's port to
    the L2, and the spread of the ends of a block's warps, because a block's place is free only when its last warp has
    ended. Too few bytes in flight show here: this term is the largest when occupancy or accesses are too small to reach
    the memory's bandwidth.

What is simplified: warps do not drift apart, clocks never change, and caches are simple. What a launch touches twice is
in the L2 the second time; and when all that it touches fits about half of the L2, it is taken to be there from the
start, as it is in a repeated measurement. A learner would notice in the first launch over small data: it takes as long
as the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cudalab.sim.device.profile import Profile

WARP = 32
SECTOR = 32
LINE = 128
GRANULE = 64


@dataclass(frozen=True)
class Workload:
    """What one launch asks of the device; counts are for the whole grid unless the name says otherwise."""

    blocks: int
    threads: int
    """Threads a block."""
    blocks_per_sm: int
    """Resident blocks an SM, by occupancy."""
    instructions: float = 0.0
    """Warp instructions."""
    sectors: float = 0.0
    """32-byte sectors that SMs exchange with the L2."""
    dram_read: float = 0.0
    """Bytes that must come from DRAM."""
    dram_write: float = 0.0
    """Bytes that go to DRAM in the end."""
    lines_read: float = 0.0
    """128-byte lines of DRAM visited by reads."""
    lines_written: float = 0.0
    shared_wavefronts: float = 0.0
    atomics: float = 0.0
    """Atomic operations of single threads on global memory."""
    hottest_atomics: float = 0.0
    """Atomic operations on the 128-byte line that gets most of them; they go one after the other."""
    chain_loads: float = 0.0
    """Global loads of one warp that wait for one another."""
    l1_hits: float = 0.0
    """Part of the loaded sectors that the block has loaded before, 0 to 1."""
    chain_instructions: float = 0.0
    """Instructions of one warp."""
    chain_shared: float = 0.0
    """Shared-memory loads of one warp that wait for one another."""
    barriers: float = 0.0
    """Barriers that one block passes."""
    stores: bool = False
    """Does it store to global memory?"""
    fits_l2: bool = False
    """Does everything that the launch touches stay in the L2?"""


@dataclass(frozen=True)
class KernelTime:
    """The modelled time of one launch.

    ``terms`` are in ns; ``bound`` names the largest of those that run side by side; ``peak_fraction`` is the part of
    that resource's peak that is reached (of DRAM bandwidth when memory or latency binds, and so on).
    """

    ns: int
    terms: dict[str, float]
    bound: str
    peak_fraction: float
    share: float
    """Part of the SM array that its resident blocks take."""
    tail_share: float
    """The same for its last wave."""
    tail_from: float
    """Part of its time after which only the last wave is left."""
    demand: float
    """Part of the DRAM bandwidth it uses when it is alone."""


def kernel_time(profile: Profile, work: Workload) -> KernelTime:
    """The time of one launch, alone on the device."""
    c = profile.device
    cycle = 1.0 / c["clock"]
    sms = profile.sms
    capacity = sms * max(1, work.blocks_per_sm)
    busy = min(sms, work.blocks)
    # with more blocks than SMs, some SMs get one block more than others
    balance = math.ceil(work.blocks / sms) * sms / work.blocks if work.blocks > sms else 1.0
    waves = work.blocks / capacity
    fill = _fill(profile, work)
    terms = {
        "dispatch": work.blocks * c["block_dispatch"],
        "issue": balance * work.instructions * cycle / (busy * c["issue_per_cycle"] * c["issue_efficiency"]),
        "memory": _memory(profile, work),
        "L2": work.sectors * SECTOR / (busy * c["sm_port"]),
        "shared": balance * work.shared_wavefronts * c["shared_wavefront"] * cycle / busy,
        "atomics": max(work.atomics * c["atomic_throughput"], work.hottest_atomics * c["atomic_same_line"]),
        "latency": _latency(profile, work, fill, waves),
    }
    first = min(fill, _round(profile, work))
    ends = {"dispatch": fill, "memory": first, "L2": first, "atomics": first}
    taken = {name: term + ends.get(name, 0.0) for name, term in terms.items() if term > 0.0 or name == "latency"}
    bound = max(taken, key=lambda name: taken[name])
    ns = round(c["kernel_start"] + taken[bound])
    if bound == "dispatch" and terms["dispatch"] < fill:
        bound = "latency"  # what counts is the last block's own time
    share = min(1.0, waves)
    whole = math.floor(waves - 1e-9)
    return KernelTime(
        ns=ns,
        terms={name: float(term) for name, term in {"start": c["kernel_start"], "fill": fill, **terms}.items()},
        bound=bound,
        peak_fraction=_fraction(profile, work, bound, ns),
        share=share,
        tail_share=min(share, waves - whole),
        tail_from=whole / waves if waves > 1.0 else 1.0,
        demand=min(1.0, terms["memory"] / ns),
    )


def _round(profile: Profile, work: Workload) -> float:
    """ns of one load, and of the store that follows it."""
    load = _load_latency(profile, work) if work.chain_loads else 0.0
    return load + (profile.device["store_latency"] if work.stores else 0.0)


def _load_latency(profile: Profile, work: Workload) -> float:
    c = profile.device
    missed = c["l2_latency"] if work.fits_l2 else c["dram_latency"]
    return work.l1_hits * c["l1_latency"] + (1.0 - work.l1_hits) * missed


def _fill(profile: Profile, work: Workload) -> float:
    """ns from the start of a block to its end, with nobody else in the way."""
    c = profile.device
    return (
        work.chain_loads * _load_latency(profile, work)
        + work.chain_instructions * c["dependent_issue"] / c["clock"]
        + work.chain_shared * c["shared_latency"]
        + work.barriers * (c["barrier"] + c["barrier_thread"] * work.threads)
        + (c["store_latency"] if work.stores else 0.0)
    )


def _latency(profile: Profile, work: Workload, fill: float, waves: float) -> float:
    """ns for all waves: in each, every SM's blocks wait out their chains and share the SM's port to the L2."""
    c = profile.device
    on_one_sm = min(max(1, work.blocks_per_sm), math.ceil(work.blocks / profile.sms))
    wave = fill + on_one_sm * work.sectors * SECTOR / work.blocks / c["sm_port"]
    if waves <= 1.0:
        return wave
    if work.stores and not work.chain_loads:
        wave -= c["store_latency"]  # nobody waits for stores but the end of the launch
    return waves * (wave + math.ceil(work.threads / WARP) * c["warp_spread"])


def _memory(profile: Profile, work: Workload) -> float:
    """ns for the bytes that DRAM moves."""
    c = profile.device
    moved = work.dram_read + work.dram_write
    if work.fits_l2 or moved <= 0:
        return 0.0
    written = work.dram_write / moved
    bandwidth = c["dram_bandwidth"] * 1e3 * (1.0 - c["dram_mix"] * written * (1.0 - written))  # bytes a ns
    lines = (work.lines_read * c["dram_read_line"] + work.lines_written * c["dram_write_line"]) * 1e-3
    return max(moved / bandwidth, lines)


def _fraction(profile: Profile, work: Workload, bound: str, ns: int) -> float:
    c = profile.device
    if bound == "issue":
        return min(1.0, work.instructions / (profile.sms * c["issue_per_cycle"] * c["clock"] * ns))
    if bound == "L2" or (work.fits_l2 and bound == "latency"):
        return min(1.0, work.sectors * SECTOR / (profile.sms * c["sm_port"] * ns))
    if bound == "shared":
        return min(1.0, work.shared_wavefronts / (profile.sms * c["clock"] * ns))
    return min(1.0, (work.dram_read + work.dram_write) / (c["dram_bandwidth"] * 1e3 * ns))


# -- what needs no sample ----------------------------------------------------------------------------------------------


def bus_copy(profile: Profile, size: int, direction: str) -> int:
    """ns of a copy between page-locked host memory and the device; ``direction`` is ``h2d`` or ``d2h``."""
    return round(profile.device[f"copy_{direction}_start"] + size * profile.device["bus_byte"])


def device_copy(profile: Profile, size: int) -> int:
    """ns of a copy within device memory: each byte is read and written."""
    bandwidth = profile.device["dram_bandwidth"] * 1e3 * (1.0 - profile.device["dram_mix"] / 4)
    return round(profile.device["copy_d2d_start"] + 2 * size / bandwidth)


def staged_copy(profile: Profile, size: int) -> int:
    """ns of a copy from or to pageable memory: the host copies piece by piece through page-locked memory."""
    return round(size * max(profile.host["staging_byte"], profile.device["bus_byte"]))


def memset(profile: Profile, size: int) -> int:
    """ns of a memset: small ones are done by the front end, large ones by a kernel."""
    c = profile.device
    if size <= c["memset_inline_limit"]:
        return round(c["memset_inline"])
    return round(c["memset_start"] + size / (c["memset_bandwidth"] * 1e3))


def array_operation(profile: Profile, moved: int, flops: float) -> int:
    """ns of an array function that reads and writes ``moved`` bytes and computes ``flops`` operations."""
    c = profile.device
    bandwidth = c["dram_bandwidth"] * 1e3 * (1.0 - c["dram_mix"] / 4)
    memory = moved / bandwidth
    issue = flops / (profile.sms * c["issue_per_cycle"] * WARP * c["issue_efficiency"] * c["clock"])
    return round(c["kernel_start"] + c["dram_latency"] + c["store_latency"] + max(memory, issue))
