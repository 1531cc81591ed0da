"""The counters of a launch, under the names of Nsight Compute.

A *request* is one memory instruction of one warp. A *sector* is 32 bytes aligned to 32, the unit in which caches and
memory move data. See Nsight Compute's documentation, "Metrics Decoder". ``collection.py`` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from cudalab.sim.abi import SECTOR, WARP
from cudalab.sim.compiler.program import Site
from cudalab.sim.machine.counters.block_flow import BlockFlow
from cudalab.sim.machine.counters.machine_counts import MachineCounts
from cudalab.sim.machine.counters.merged_accesses import Merge
from cudalab.sim.machine.trace.requests import KeptRequests

GRANULE = 64
"""Smallest DRAM transfer, in bytes."""
LINE = 128
ATOMIC_PIECE, ATOMIC_PIECES = 256, 4
"""Bytes of a piece of memory that one unit of the L2 does the atomic operations of, one sector after the other; of so
many pieces in a row every other one has the same unit (seen on an H200: random places in 256, 512, 1024 and 2048 bytes
keep 1, 2, 2 and 4 units busy)."""


@dataclass
class AccessCounts:
    """Accesses of one kind to global or local memory."""

    requests: float = 0.0
    """Warp instructions."""
    sectors: float = 0.0
    """32-byte sectors touched, summed over requests."""
    lines: float = 0.0
    """128-byte cache lines touched, summed over requests."""
    accesses: float = 0.0
    """Accesses of single threads."""
    bytes: float = 0.0
    """Bytes that threads asked for."""
    operations: float = 0.0
    """For atomics: passes, one lane of each address at a time, summed over requests. For constant memory: different
    words, which are served one after the other."""
    turns: float = 0.0
    """Turns that the banks of the L1 take, summed over requests."""

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def bytes_moved(self) -> float:
        """Bytes of the sectors touched."""
        return self.sectors * SECTOR

    @property
    def efficiency(self) -> float:
        """Bytes asked for over bytes moved; above 1 where lanes share an element."""
        return self.bytes / self.bytes_moved if self.sectors else 0.0


@dataclass
class SharedCounts:
    """Accesses of one kind to shared memory."""

    requests: float = 0.0
    """Warp instructions. In a profile those of the machine code, in which neighbouring accesses may be one."""
    requests_in_ptx: float = 0.0
    """Warp instructions of the PTX."""
    wavefronts: float = 0.0
    """Turns that the 32 banks took, summed over requests."""
    bank_conflicts: float = 0.0
    """Wavefronts more than the requests would take without conflicts."""
    accesses: float = 0.0
    bytes: float = 0.0

    @property
    def wavefronts_per_request(self) -> float:
        return self.wavefronts / self.requests if self.requests else 0.0


@dataclass
class SiteCounts:
    """Counters of one memory instruction."""

    site: Site
    requests: float = 0.0
    sectors: float = 0.0
    lines: float = 0.0
    """128-byte lines touched, summed over requests."""
    turns: float = 0.0
    """Of accesses to global memory: wavefronts of the L1's banks."""
    wavefronts: float = 0.0
    bank_conflicts: float = 0.0
    accesses: float = 0.0
    missing: float = 0.0
    """Of loads from global memory: requests that touch a sector which their block has not touched before this step,"""
    sectors_missing: float = 0.0
    """such sectors,"""
    lines_missing: float = 0.0
    """and 128-byte lines with such sectors, summed over requests."""
    sectors_joined: float = 0.0
    """Of stores to global memory: sectors that an earlier store of the warp takes along (joined_stores.py)."""
    words: float = 0.0
    """Of 4-byte accesses to shared memory: different words, summed over requests."""
    aligned: bool = True
    """Whether all addresses are multiples of 16."""
    merged: bool = False
    """Whether it is part of a wider machine instruction, whose wavefronts another site counts."""
    width: int = 0
    """Bytes of that machine instruction, where this site counts for it."""

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests if self.requests else 0.0


@dataclass
class BlockCounts:
    """Counters of one basic block of the PTX."""

    visits: float = 0.0
    """How often warps entered it."""
    threads: float = 0.0
    """How often threads entered it."""
    branches: float = 0.0
    """How often warps left it by a branch with two ways."""
    divergent: float = 0.0
    """How often their lanes then diverged."""


@dataclass
class Counts:
    """Counters of a whole launch. Numbers scaled from sampled blocks are not whole."""

    blocks: int = 0
    """Blocks of the grid."""
    sampled: int = 0
    """Blocks that were run to count."""
    threads: int = 0
    """Threads a block."""
    complete: bool = True
    """False when a sampled block was cut short, or faulted: the counts are then too low or extrapolated."""

    stopped: bool = False
    """Whether a sampled block made more records than were waited for."""
    by_work: bool = False
    """Whether the sampled blocks were chosen by their work, because blocks differ."""

    instructions: float = 0.0
    """PTX instructions executed by warps."""
    thread_instructions: float = 0.0
    """PTX instructions executed by threads."""
    branches: float = 0.0
    divergent_branches: float = 0.0
    """Branches at which the active lanes of a warp diverged."""
    barriers: float = 0.0
    """Block barriers reached, counted by warp."""
    warp_operations: float = 0.0
    """Shuffles, votes and warp barriers, counted by warp."""

    sleeps: float = 0.0
    """How often threads slept,"""
    slept: float = 0.0
    """and for how many nanoseconds in all."""

    global_loads: AccessCounts = field(default_factory=AccessCounts)
    global_stores: AccessCounts = field(default_factory=AccessCounts)
    global_atomics: AccessCounts = field(default_factory=AccessCounts)
    local_loads: AccessCounts = field(default_factory=AccessCounts)
    local_stores: AccessCounts = field(default_factory=AccessCounts)
    shared_loads: SharedCounts = field(default_factory=SharedCounts)
    shared_stores: SharedCounts = field(default_factory=SharedCounts)
    shared_atomics: SharedCounts = field(default_factory=SharedCounts)
    constant_loads: AccessCounts = field(default_factory=AccessCounts)
    distributed: AccessCounts = field(default_factory=AccessCounts)
    """Loads from and stores to the shared memory of other blocks of the cluster. They are among the shared ones, too:
    banks serve them there."""
    distributed_atomics: AccessCounts = field(default_factory=AccessCounts)
    """The same for atomics; ``sectors`` counts one lane of each address at a time."""

    sectors_loaded_once: float = 0.0
    """Different sectors that each block loads, summed over blocks: what is left after a perfect L1 cache."""
    sectors_joined: float = 0.0
    """Sectors of stores that an earlier store of the warp takes along (joined_stores.py)."""
    sectors_stored_once: float = 0.0
    """The same for stores and atomics."""
    sectors_loaded_and_stored: float = 0.0
    """Those of them that a block both loads and stores."""
    granules_loaded_once: float = 0.0
    """Different 64-byte pieces that each block loads: what DRAM must move at least."""
    lines_loaded_once: float = 0.0
    """Different 128-byte lines that each block loads."""
    lines_stored_once: float = 0.0
    """The same for stores and atomics."""
    pairs_loaded_once: float = 0.0
    """Different pairs of neighbouring lines (256 bytes) that each block loads."""
    pairs_stored_once: float = 0.0
    footprint_bytes: int = 0
    """Size of the allocations that the parameters point to: no launch moves more different bytes of them."""
    host_loaded: float = 0.0
    """Bytes that blocks load from host memory, each sector once a block,"""
    host_stored: float = 0.0
    """and store to it."""
    peer_loaded: float = 0.0
    """The same for memory of other devices: loaded,"""
    peer_stored: float = 0.0
    """and stored."""
    longest_warp: float = 0.0
    """PTX instructions of the warp that executed most."""
    hottest_address: float = 0.0
    """Atomic operations of threads on the word of global memory that gets most of them."""
    hottest_unit: float = 0.0
    """The same for what one unit of the L2 serves (``ATOMIC_PIECE``)."""
    loads_missing: float = 0.0
    """Loads of warps from global memory that touch a sector which their block has not touched before."""
    visits: dict[int, float] = field(default_factory=dict)
    """How often warps ran each basic block, by its index in ``Kernel.sites``."""
    words_loaded: np.ndarray | None = None
    """Addresses (uint64) of words of global memory that sampled blocks loaded; some of them where there are many."""
    longest_visits: dict[int, float] = field(default_factory=dict)
    """The same for the one warp that executed most instructions."""
    blocks_entered: dict[int, BlockCounts] = field(default_factory=dict)
    """Each basic block, by its index in ``Kernel.sites``."""
    sites: list[SiteCounts] = field(default_factory=list)
    """Each memory instruction on its own, in the order of ``Kernel.sites``."""
    kept: list[KeptRequests] = field(default_factory=list)
    """Some requests with their addresses; empty unless requested."""
    copy_waits: frozenset[int] = frozenset()
    """Waits for barrier objects that were told of copies, by the index in ``Kernel.sites``."""
    flow: BlockFlow = field(default_factory=BlockFlow)
    """Ways of warps from block to block; empty unless requested."""
    longest_flow: BlockFlow = field(default_factory=BlockFlow)
    """The same for the one warp that executed most instructions."""
    machine: MachineCounts = field(default_factory=lambda: MachineCounts(missing="they were not asked for"))
    """Instructions of the machine code, in a profile."""
    merges: list[Merge] = field(default_factory=list)
    """Shared accesses that are counted together, because one machine instruction makes them."""

    @property
    def branch_efficiency(self) -> float:
        """Share of branches at which no warp diverged, 0 to 1."""
        return 1 - self.divergent_branches / self.branches if self.branches else 1.0

    @property
    def thread_efficiency(self) -> float:
        """Active threads a warp instruction, over 32: of the machine code where that is known, else of the PTX."""
        known = self.machine.known
        threads = self.machine.thread_instructions if known else self.thread_instructions
        warps = self.machine.instructions if known else self.instructions
        return threads / (WARP * warps) if warps else 1.0

    @property
    def bank_conflicts(self) -> float:
        return self.shared_loads.bank_conflicts + self.shared_stores.bank_conflicts

    @property
    def metrics(self) -> dict[str, float]:
        """The counters under Nsight Compute's names. Instructions are those of the machine code, where that is known;
        otherwise those of the PTX, without what PTX cannot tell, like atomics that become reductions (``op_red``)."""
        out = {
            "smsp__inst_executed.sum": self.instructions,
            "smsp__thread_inst_executed.sum": self.thread_instructions,
            **self.machine.metrics,
        }
        for name, kind in (("ld", self.global_loads), ("st", self.global_stores)):
            out[f"l1tex__t_requests_pipe_lsu_mem_global_op_{name}.sum"] = kind.requests
            out[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{name}.sum"] = kind.sectors
            out[f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{name}.ratio"] = kind.sectors_per_request
            out[f"smsp__sass_data_bytes_mem_global_op_{name}.sum"] = kind.bytes
        for name, kind in (("ld", self.local_loads), ("st", self.local_stores)):
            out[f"l1tex__t_requests_pipe_lsu_mem_local_op_{name}.sum"] = kind.requests
            out[f"l1tex__t_sectors_pipe_lsu_mem_local_op_{name}.sum"] = kind.sectors
        for name, shared in (("ld", self.shared_loads), ("st", self.shared_stores), ("atom", self.shared_atomics)):
            out[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{name}.sum"] = shared.wavefronts
            out[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{name}.sum"] = shared.bank_conflicts
            out[f"smsp__inst_executed_op_shared_{name}.sum"] = shared.requests
        out["smsp__thread_inst_executed_per_inst_executed.ratio"] = WARP * self.thread_efficiency
        out["smsp__sass_average_branch_targets_threads_uniform.pct"] = 100 * self.branch_efficiency
        return out


def add(total: Counts, part: Counts) -> None:
    """Add the counters of other blocks of the same launch to `total`, in place."""
    if part.longest_warp > total.longest_warp:
        total.longest_visits, total.longest_flow = part.longest_visits, part.longest_flow
    for index, times in part.visits.items():
        total.visits[index] = total.visits.get(index, 0.0) + times
    for index, block in part.blocks_entered.items():
        if index in total.blocks_entered:
            _add_numbers(total.blocks_entered[index], block)
        else:
            total.blocks_entered[index] = BlockCounts(**vars(block))
    for entry in fields(Counts):
        mine, other = getattr(total, entry.name), getattr(part, entry.name)
        if entry.name in ("longest_warp", "footprint_bytes"):
            setattr(total, entry.name, max(mine, other))
        elif isinstance(mine, float) or entry.name == "sampled":
            setattr(total, entry.name, mine + other)
        elif isinstance(mine, (AccessCounts, SharedCounts)):
            _add_numbers(mine, other)
    total.complete = total.complete and part.complete
    total.stopped = total.stopped or part.stopped
    total.kept += part.kept
    total.copy_waits |= part.copy_waits
    total.flow.add(part.flow)
    known = {id(site.site): site for site in total.sites}
    for site in part.sites:
        if id(site.site) in known:
            _add_numbers(known[id(site.site)], site)
        else:
            total.sites.append(SiteCounts(**vars(site)))


def _add_numbers(total: object, part: object) -> None:
    for name, value in vars(part).items():
        if isinstance(value, bool):
            setattr(total, name, getattr(total, name) and value)
        elif name == "width":
            setattr(total, name, max(getattr(total, name), value))
        elif isinstance(value, (int, float)):
            setattr(total, name, getattr(total, name) + value)


def scale(counts: Counts, factor: float) -> None:
    """Multiply every additive counter by `factor`, in place."""
    for entry in fields(counts):
        value = getattr(counts, entry.name)
        if entry.name == "longest_warp":
            continue
        if isinstance(value, float):
            setattr(counts, entry.name, value * factor)
        elif isinstance(value, (AccessCounts, SharedCounts)):
            _scale_numbers(value, factor)
    for part in (*counts.sites, *counts.blocks_entered.values()):
        _scale_numbers(part, factor)
    counts.visits = {index: times * factor for index, times in counts.visits.items()}
    counts.flow.scale(factor)


def snap(counts: Counts) -> None:
    """Round what is whole but for the rounding of scaled sums: 655,359.9999999955 requests are 655,360."""
    groups = [getattr(counts, entry.name) for entry in fields(counts)]
    parts = [value for value in groups if isinstance(value, (AccessCounts, SharedCounts))]
    for part in (counts, *parts, *counts.sites, *counts.blocks_entered.values()):
        for name, value in vars(part).items():
            if isinstance(value, float) and not value.is_integer() and abs(value - round(value)) < 1e-9 * abs(value):
                setattr(part, name, float(round(value)))


def stretch(counts: Counts, factor: float) -> None:
    """The longest warp ran `factor` times as long as was seen of it."""
    counts.longest_warp *= factor
    counts.longest_visits = {index: times * factor for index, times in counts.longest_visits.items()}
    counts.longest_flow.scale(factor)


_ONCE = (
    "sectors_loaded_once",
    "sectors_stored_once",
    "sectors_loaded_and_stored",
    "granules_loaded_once",
    "lines_loaded_once",
    "lines_stored_once",
    "pairs_loaded_once",
    "pairs_stored_once",
    "loads_missing",
)
_ONCE_OF_SITES = ("missing", "sectors_missing", "lines_missing")


def touch_again(counts: Counts, share: float) -> None:
    """Blocks touched only this share of the memory that they would have, if they had gone on as they began."""
    for name in _ONCE:
        setattr(counts, name, getattr(counts, name) * share)
    for site in counts.sites:
        for name in _ONCE_OF_SITES:
            setattr(site, name, getattr(site, name) * share)


def _scale_numbers(counts: object, factor: float) -> None:
    for name, value in vars(counts).items():
        if isinstance(value, float):
            setattr(counts, name, value * factor)
