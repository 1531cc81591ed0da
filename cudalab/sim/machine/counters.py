"""Counters of a launch, under the names of Nsight Compute.

Counted in traced blocks, from the PTX that the compiler made: an assembler may merge neighbouring shared loads, or put
a predicate where the PTX branches, so instruction counts differ from the hardware's, which counts machine
instructions. Requests, sectors and bank conflicts depend on addresses alone and are the hardware's.

A *request* is one memory instruction of one warp. A *sector* is 32 bytes aligned to 32, the unit in which caches and
memory move data. See Nsight Compute's documentation, "Metrics Decoder".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from cudalab.sim.abi import LOCAL_WINDOW, SHARED_WINDOW, WARP, WINDOW_SIZE, SiteKind, Space
from cudalab.sim.compiler.program import Kernel, Site
from cudalab.sim.machine.divergence import aligned_visits, branches
from cudalab.sim.machine.requests import Visits, distinct, matrices, visits
from cudalab.sim.machine.wavefronts import wavefronts

SECTOR = 32
LINE = 128


@dataclass
class AccessCounts:
    """Accesses of one kind to global or local memory."""

    requests: float = 0.0
    """Warp instructions."""
    sectors: float = 0.0
    """32-byte sectors touched, summed over requests."""
    lines: float = 0.0
    """128-byte lines touched, summed over requests."""
    accesses: float = 0.0
    """Accesses of single threads."""
    bytes: float = 0.0
    """Bytes that threads asked for."""
    operations: float = 0.0
    """For atomics: the longest chain of threads on one address, summed over requests."""

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
    """What one memory instruction of the kernel did."""

    site: Site
    requests: float = 0.0
    sectors: float = 0.0
    wavefronts: float = 0.0
    bank_conflicts: float = 0.0
    accesses: float = 0.0

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests if self.requests else 0.0


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

    instructions: float = 0.0
    """PTX instructions executed by warps."""
    thread_instructions: float = 0.0
    """PTX instructions executed by threads."""
    branches: float = 0.0
    divergent_branches: float = 0.0
    """Branches at which the active lanes of a warp went different ways."""
    barriers: float = 0.0
    """Block barriers reached, counted by warp."""
    warp_operations: float = 0.0
    """Shuffles, votes and warp barriers, counted by warp."""

    global_loads: AccessCounts = field(default_factory=AccessCounts)
    global_stores: AccessCounts = field(default_factory=AccessCounts)
    global_atomics: AccessCounts = field(default_factory=AccessCounts)
    local_loads: AccessCounts = field(default_factory=AccessCounts)
    local_stores: AccessCounts = field(default_factory=AccessCounts)
    shared_loads: SharedCounts = field(default_factory=SharedCounts)
    shared_stores: SharedCounts = field(default_factory=SharedCounts)
    shared_atomics: SharedCounts = field(default_factory=SharedCounts)
    constant_loads: AccessCounts = field(default_factory=AccessCounts)

    sectors_loaded_once: float = 0.0
    """Different sectors that each block loads, summed over blocks: what is left after a perfect L1 cache."""
    sectors_stored_once: float = 0.0
    """The same for stores and atomics."""
    footprint_bytes: int = 0
    """Size of the allocations that the parameters point to: no launch moves more different bytes of them."""
    longest_warp: float = 0.0
    """PTX instructions of the warp that executed most."""
    longest_warp_accesses: float = 0.0
    """Global load requests of that kind, for the warp with most of them: the chain that latency acts on."""
    sites: list[SiteCounts] = field(default_factory=list)
    """Each memory instruction on its own, in the order of ``Kernel.sites``."""

    @property
    def branch_efficiency(self) -> float:
        """Share of branches at which no warp diverged, 0 to 1."""
        return 1 - self.divergent_branches / self.branches if self.branches else 1.0

    @property
    def thread_efficiency(self) -> float:
        """Active threads a warp instruction, over 32."""
        return self.thread_instructions / (WARP * self.instructions) if self.instructions else 1.0

    @property
    def bank_conflicts(self) -> float:
        return self.shared_loads.bank_conflicts + self.shared_stores.bank_conflicts

    @property
    def metrics(self) -> dict[str, float]:
        """The counters under Nsight Compute's names."""
        out: dict[str, float] = {}
        for name, kind in (("ld", self.global_loads), ("st", self.global_stores)):
            out[f"l1tex__t_requests_pipe_lsu_mem_global_op_{name}.sum"] = kind.requests
            out[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{name}.sum"] = kind.sectors
            out[f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{name}.ratio"] = kind.sectors_per_request
            out[f"smsp__sass_data_bytes_mem_global_op_{name}.sum"] = kind.bytes
        out["l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum"] = self.global_atomics.requests
        for name, kind in (("ld", self.local_loads), ("st", self.local_stores)):
            out[f"l1tex__t_requests_pipe_lsu_mem_local_op_{name}.sum"] = kind.requests
            out[f"l1tex__t_sectors_pipe_lsu_mem_local_op_{name}.sum"] = kind.sectors
        for name, shared in (("ld", self.shared_loads), ("st", self.shared_stores), ("atom", self.shared_atomics)):
            out[f"smsp__inst_executed_op_shared_{name}.sum"] = shared.requests
            out[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{name}.sum"] = shared.wavefronts
            out[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{name}.sum"] = shared.bank_conflicts
        out["smsp__inst_executed.sum"] = self.instructions
        out["smsp__thread_inst_executed.sum"] = self.thread_instructions
        out["smsp__thread_inst_executed_per_inst_executed.ratio"] = WARP * self.thread_efficiency
        out["smsp__sass_average_branch_targets_threads_uniform.pct"] = 100 * self.branch_efficiency
        return out


@dataclass
class Traced:
    """Records of some blocks, put one after the other."""

    site: np.ndarray
    thread: np.ndarray
    """Through all blocks; each block padded to whole warps."""
    address: np.ndarray
    warps: int
    """Warps of all blocks."""
    warps_per_block: int
    weights: np.ndarray
    """float64[warps]: how many warps of the grid each one stands for."""


def join(records: Sequence[np.ndarray], weights: Sequence[float], threads: int) -> Traced:
    """Put the records of blocks of `threads` threads together; each block stands for `weights` blocks of the grid."""
    warps_per_block = -(-threads // WARP)
    padded = warps_per_block * WARP
    site = np.concatenate([part["site"] for part in records]).astype(np.int64)
    address = np.concatenate([part["address"] for part in records])
    thread = np.concatenate([part["thread"].astype(np.int64) + i * padded for i, part in enumerate(records)])
    return Traced(
        site,
        thread,
        address,
        warps_per_block * len(records),
        warps_per_block,
        np.repeat(np.asarray(weights, np.float64), warps_per_block),
    )


def count(kernel: Kernel, traced: Traced) -> Counts:
    """Count what traced blocks did; each number weighted by how many blocks it stands for."""
    sites = kernel.sites
    counts = Counts()
    if not len(traced.site):
        return counts
    kinds = np.array([site.kind for site in sites])
    found = visits(
        traced.site,
        traced.thread,
        traced.address,
        len(sites),
        traced.warps,
        aligned_visits(traced.site, traced.thread, kinds, traced.warps),
    )
    weight = traced.weights[found.request_warp]
    requests = np.bincount(found.request_site, weight, len(sites))
    accesses = np.bincount(traced.site, traced.weights[traced.thread // WARP], len(sites))
    _count_instructions(counts, sites, kinds, found, traced, requests, accesses)
    per_site = {i: SiteCounts(s, requests[i], accesses=accesses[i]) for i, s in enumerate(sites) if _is_access(s)}
    for chosen, space in _classes(sites, traced):
        if space == Space.SHARED:
            _count_shared(counts, per_site, sites, chosen, found, weight)
        elif space == Space.CONSTANT:
            for index in np.flatnonzero(chosen):
                _add(counts.constant_loads, sites[index], requests[index], 0.0, accesses[index])
        else:
            _count_sectors(counts, per_site, sites, chosen, space, found, weight)
    counts.sectors_loaded_once = _different_sectors(sites, traced, (SiteKind.LOAD,))
    counts.sectors_stored_once = _different_sectors(sites, traced, (SiteKind.STORE, SiteKind.ATOMIC))
    counts.sites = [entry for entry in per_site.values() if entry.requests]
    return counts


def _is_access(site: Site) -> bool:
    return site.kind in (SiteKind.LOAD, SiteKind.STORE, SiteKind.ATOMIC)


def _count_instructions(
    counts: Counts,
    sites: Sequence[Site],
    kinds: np.ndarray,
    found: Visits,
    traced: Traced,
    requests: np.ndarray,
    accesses: np.ndarray,
) -> None:
    length = np.array([site.instructions if site.kind == SiteKind.BLOCK else 0 for site in sites])
    counts.instructions = float(requests @ length)
    counts.thread_instructions = float(accesses @ length)
    counts.barriers = float(requests[kinds == SiteKind.BARRIER].sum())
    counts.warp_operations = float(requests[kinds == SiteKind.WARP].sum())
    counts.branches, counts.divergent_branches = branches(sites, found, traced.thread, traced.weights)
    if traced.warps:
        by_warp = np.bincount(found.request_warp, length[found.request_site], traced.warps)
        counts.longest_warp = float(by_warp.max())
        loads = np.array([s.kind == SiteKind.LOAD and s.space in (Space.GLOBAL, Space.GENERIC) for s in sites])
        chain = np.bincount(found.request_warp, loads[found.request_site], traced.warps)
        counts.longest_warp_accesses = float(chain.max())


def _classes(sites: Sequence[Site], traced: Traced) -> list[tuple[np.ndarray, Space]]:
    """Access sites by the space they touch. A generic access belongs to the space of the first address it touched."""
    chosen: dict[Space, np.ndarray] = {}
    for index, site in enumerate(sites):
        if not _is_access(site):
            continue
        space = site.space
        if space == Space.GENERIC:
            where = np.flatnonzero(traced.site == index)
            space = space_of(int(traced.address[where[0]])) if len(where) else Space.GLOBAL
        if space == Space.PARAM:
            space = Space.CONSTANT
        chosen.setdefault(space, np.zeros(len(sites), np.bool_))[index] = True
    return [(mask, space) for space, mask in chosen.items()]


def space_of(address: int) -> Space:
    """The space that a generic address lies in."""
    if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_SIZE:
        return Space.SHARED
    if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW_SIZE:
        return Space.LOCAL
    return Space.GLOBAL


def _add(
    counts: AccessCounts,
    site: Site,
    requests: float,
    sectors: float,
    accesses: float,
    chain: float = 0,
    lines: float = 0,
) -> None:
    counts.requests += requests
    counts.sectors += sectors
    counts.lines += lines
    counts.accesses += accesses
    counts.bytes += accesses * site.size
    counts.operations += chain


def _count_sectors(
    counts: Counts,
    per_site: dict[int, SiteCounts],
    sites: Sequence[Site],
    chosen: np.ndarray,
    space: Space,
    found: Visits,
    weight: np.ndarray,
) -> None:
    touched, lines = np.zeros(len(sites)), np.zeros(len(sites))
    chains = np.zeros(len(sites))
    atomic = np.array([site.kind == SiteKind.ATOMIC for site in sites])
    for rows, addresses, active in matrices(found, chosen):
        site = found.request_site[rows]
        sectors = _local_sectors(addresses) if space == Space.LOCAL else addresses // np.uint64(SECTOR)
        touched += np.bincount(site, distinct(sectors, active) * weight[rows], len(sites))
        lines += np.bincount(site, distinct(sectors // np.uint64(LINE // SECTOR), active) * weight[rows], len(sites))
        here = atomic[site]
        if here.any():
            longest = _longest_chain(addresses[here], active[here])
            chains += np.bincount(site[here], longest * weight[rows][here], len(sites))
    for index in np.flatnonzero(chosen):
        entry = per_site[int(index)]
        entry.sectors = float(touched[index])
        kind = sites[index].kind
        if space == Space.LOCAL:
            target = counts.local_loads if kind == SiteKind.LOAD else counts.local_stores
        elif kind == SiteKind.ATOMIC:
            target = counts.global_atomics
        else:
            target = counts.global_loads if kind == SiteKind.LOAD else counts.global_stores
        chain, touched_lines = float(chains[index]), float(lines[index])
        _add(target, sites[index], entry.requests, entry.sectors, entry.accesses, chain, touched_lines)


def _local_sectors(addresses: np.ndarray) -> np.ndarray:
    """Local memory is laid out so that the same word of a warp's 32 lanes makes 128 neighbouring bytes."""
    word = (addresses - np.uint64(LOCAL_WINDOW)) // np.uint64(4)
    return word * np.uint64(WARP * 4 // SECTOR) + np.arange(WARP, dtype=np.uint64) // np.uint64(SECTOR // 4)


def _longest_chain(addresses: np.ndarray, active: np.ndarray) -> np.ndarray:
    """The most lanes of each row that share one address."""
    lane = np.arange(WARP, dtype=np.uint64)
    ordered = np.sort(np.where(active, addresses, lane), axis=1)  # inactive ones differ from each other
    same = np.zeros(ordered.shape, np.int64)
    for column in range(1, WARP):
        same[:, column] = np.where(ordered[:, column] == ordered[:, column - 1], same[:, column - 1] + 1, 0)
    return np.where(active.any(axis=1), same.max(axis=1) + 1, 0)


def _count_shared(
    counts: Counts,
    per_site: dict[int, SiteCounts],
    sites: Sequence[Site],
    chosen: np.ndarray,
    found: Visits,
    weight: np.ndarray,
) -> None:
    sizes = np.array([site.size for site in sites])
    for size in sorted(set(sizes[chosen].tolist())):
        mask = chosen & (sizes == size)
        total, ideal = np.zeros(len(sites)), np.zeros(len(sites))
        for rows, addresses, active in matrices(found, mask):
            site = found.request_site[rows]
            took, least = wavefronts(addresses, active, size)
            total += np.bincount(site, took * weight[rows], len(sites))
            ideal += np.bincount(site, least * weight[rows], len(sites))
        for index in np.flatnonzero(mask):
            entry = per_site[int(index)]
            entry.wavefronts = float(total[index])
            entry.bank_conflicts = float(total[index] - ideal[index])
            kind = sites[index].kind
            target = {SiteKind.LOAD: counts.shared_loads, SiteKind.STORE: counts.shared_stores}.get(
                kind, counts.shared_atomics
            )
            target.requests += entry.requests
            target.wavefronts += entry.wavefronts
            target.bank_conflicts += entry.bank_conflicts
            target.accesses += entry.accesses
            target.bytes += entry.accesses * size


def _different_sectors(sites: Sequence[Site], traced: Traced, kinds: tuple[SiteKind, ...]) -> float:
    """Different sectors of global memory that each block touches, weighted and summed over blocks."""
    wanted = np.array([s.kind in kinds and s.space in (Space.GLOBAL, Space.GENERIC) for s in sites])
    chosen = wanted[traced.site]
    address = traced.address[chosen]
    if not len(address):
        return 0.0
    block = traced.thread[chosen] // (WARP * traced.warps_per_block)
    device = address >= np.uint64(LOCAL_WINDOW + WINDOW_SIZE)
    sector = (address[device] - address.min()) // np.uint64(SECTOR)
    keys = np.unique(sector + block[device].astype(np.uint64) * np.uint64(1 << 44))
    each = np.bincount((keys >> np.uint64(44)).astype(np.int64), minlength=traced.warps // traced.warps_per_block)
    return float(each @ traced.weights[:: traced.warps_per_block])


def scale(counts: Counts, factor: float) -> None:
    """Multiply every additive counter by `factor`, in place."""
    for entry in fields(counts):
        value = getattr(counts, entry.name)
        if isinstance(value, float):
            setattr(counts, entry.name, value * factor)
        elif isinstance(value, (AccessCounts, SharedCounts)):
            _scale_numbers(value, factor)
    for site in counts.sites:
        _scale_numbers(site, factor)


def _scale_numbers(counts: object, factor: float) -> None:
    for name, value in vars(counts).items():
        if isinstance(value, float):
            setattr(counts, name, value * factor)
