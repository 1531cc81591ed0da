"""How long work takes on the modelled device: named terms, of which the largest binds.

A kernel's time is ``start + fill + max(terms)``. *Start* is what an empty kernel takes. *Fill* is the time that the
first block needs from its first instruction to its last: nothing can be faster than that. The terms are what the whole
launch asks of one resource over what that resource can give:

``dispatch``
    blocks handed to SMs, one after the other for the whole device; many tiny blocks are bound by it.
``issue``
    warp instructions over what the schedulers of the SMs that have blocks can issue.
``memory``
    bytes from and to DRAM over its bandwidth. The full bandwidth needs enough bytes in flight (Little's law: bandwidth
    times latency); with fewer, the part reached is ``1 - exp(-in flight / needed)``. A block's slots stand empty between
    its last warp's end and its successor's first load, so large blocks keep fewer bytes in flight.
``L2``
    sectors over the L2's bandwidth, and 128-byte lines over the rate at which it looks them up.
``shared``
    shared-memory wavefronts, one a cycle and SM.
``atomics``
    atomic operations on global memory; those on one 128-byte line go one after the other.
``latency``
    waves of blocks times the time of one block.

What is simplified: warps do not drift apart, clocks never change, and caches are simple. What a launch touches twice is in
the L2 the second time; and when all that it touches fits half of the L2, it is taken to be there from the start, as it is
in a repeated measurement. A learner would notice in the first launch over small data: it takes as long as the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cudalab.sim.device.profile import Profile

WARP = 32
SECTOR = 32
LINE = 128


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
    read_sectors: float = 0.0
    """32-byte sectors that loads ask of the L2."""
    write_sectors: float = 0.0
    """32-byte sectors that stores send to the L2."""
    lines: float = 0.0
    """128-byte lines touched by the requests of warps."""
    dram_read: float = 0.0
    """Bytes that must come from DRAM."""
    dram_write: float = 0.0
    """Bytes that go to DRAM in the end."""
    shared_wavefronts: float = 0.0
    atomics: float = 0.0
    """Atomic operations of single threads on global memory."""
    hottest_atomics: float = 0.0
    """Atomic operations on the 128-byte line that gets most of them; they go one after the other."""
    chain_loads: float = 1.0
    """Global loads of one warp that wait for one another."""
    chain_instructions: float = 0.0
    """Instructions of one warp."""
    chain_shared: float = 0.0
    """Shared-memory loads of one warp that wait for one another."""
    barriers: float = 0.0
    """Barriers that one block passes."""
    fits_l2: bool = False
    """Is everything that the launch touches smaller than the L2?"""


@dataclass(frozen=True)
class KernelTime:
    """The modelled time of one launch.

    ``terms`` are in ns; ``bound`` names the largest of those that run side by side; ``peak_fraction`` is the part of that
    resource's peak that is reached (of DRAM bandwidth when memory binds, and so on).
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
    busy_sms = min(sms, work.blocks)
    per_sm = math.ceil(work.blocks / sms)
    balance = per_sm * busy_sms / work.blocks if work.blocks > sms else 1.0
    waves = work.blocks / capacity

    fill = _chain(profile, work)
    resident = min(work.blocks, capacity)
    terms = {
        "dispatch": work.blocks * c["block_dispatch"],
        "issue": balance * work.instructions * cycle / (busy_sms * c["issue_per_cycle"] * c["issue_efficiency"]),
        "memory": _memory(profile, work, fill, resident),
        "L2": _l2(profile, work, busy_sms),
        "shared": balance * work.shared_wavefronts * c["shared_wavefront"] * cycle / busy_sms,
        "atomics": max(work.atomics * c["atomic_throughput"], work.hottest_atomics * c["atomic_same_address"]),
        "latency": max(0.0, waves - 1.0) * fill,
    }
    bound = max(terms, key=lambda name: terms[name])
    longest = terms[bound]
    ns = round(c["kernel_start"] + fill + longest)
    if longest < fill:
        bound = "latency"
    share = min(1.0, waves)
    whole = math.floor(waves - 1e-9)
    tail = waves - whole
    moved = 0.0 if work.fits_l2 else (work.dram_read + work.dram_write) / (c["dram_bandwidth"] * 1e3)
    return KernelTime(
        ns=ns,
        terms={"start": c["kernel_start"], "fill": fill, **terms},
        bound=bound,
        peak_fraction=_fraction(profile, work, bound, ns),
        share=share,
        tail_share=min(share, tail),
        tail_from=whole / waves if waves > 1.0 else 1.0,
        demand=min(1.0, moved / ns),
    )


def _chain(profile: Profile, work: Workload) -> float:
    """ns from the first instruction of a block to its end, with nobody else in the way."""
    c = profile.device
    latency = c["l2_latency"] if work.fits_l2 else c["dram_latency"]
    return (
        c["block_start"]
        + work.chain_loads * latency
        + work.chain_instructions * c["dependent_issue"] / c["clock"]
        + work.chain_shared * c["shared_latency"]
        + work.barriers * (c["barrier"] + c["barrier_thread"] * work.threads)
    )


def _memory(profile: Profile, work: Workload, fill: float, resident: int) -> float:
    """ns for the bytes of the launch, with the bandwidth that its bytes in flight allow."""
    c = profile.device
    moved = work.dram_read + work.dram_write
    if moved <= 0:
        return 0.0
    peak = (c["l2_bandwidth"] if work.fits_l2 else c["dram_bandwidth"]) * 1e3  # bytes a ns
    rounds = max(1.0, work.chain_loads)
    emptiness = min(1.0, c["block_turnover"] / fill) / max(1, min(work.blocks_per_sm, work.blocks))
    in_flight = moved / work.blocks / rounds * resident * (1.0 - emptiness)
    return moved / (peak * -math.expm1(-in_flight * rounds / (peak * fill)))


def _l2(profile: Profile, work: Workload, busy_sms: int) -> float:
    c = profile.device
    sectors = work.read_sectors + work.write_sectors
    peak = c["l2_bandwidth"] * 1e3 * min(1.0, busy_sms / profile.sms)
    return max(sectors * SECTOR / peak, work.lines * c["l2_line"] * 1e-3)


def _fraction(profile: Profile, work: Workload, bound: str, ns: int) -> float:
    c = profile.device
    if bound == "issue":
        most = profile.sms * c["issue_per_cycle"] * c["clock"] * ns
        return min(1.0, work.instructions / most)
    if bound == "L2":
        return min(1.0, (work.read_sectors + work.write_sectors) * SECTOR / (c["l2_bandwidth"] * 1e3 * ns))
    if bound == "shared":
        return min(1.0, work.shared_wavefronts / (profile.sms * c["clock"] * ns))
    return min(1.0, (work.dram_read + work.dram_write) / (c["dram_bandwidth"] * 1e3 * ns))


# -- what needs no sample ----------------------------------------------------------------------------------------------


def bus_copy(profile: Profile, size: int, direction: str) -> int:
    """ns of a copy between page-locked host memory and the device; ``direction`` is ``h2d`` or ``d2h``."""
    return round(profile.device[f"copy_{direction}_start"] + size * profile.device["bus_byte"])


def device_copy(profile: Profile, size: int) -> int:
    """ns of a copy within device memory: each byte is read and written."""
    return round(profile.device["copy_d2d_start"] + 2 * size / (profile.device["dram_bandwidth"] * 1e3))


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
    memory = moved / (c["dram_bandwidth"] * 1e3)
    issue = flops / (profile.sms * c["issue_per_cycle"] * WARP * c["issue_efficiency"] * c["clock"])
    return round(c["kernel_start"] + c["block_start"] + c["dram_latency"] + max(memory, issue))
