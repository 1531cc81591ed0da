"""Counters of a launch, under the names of Nsight Compute.

Counted in traced blocks, from the PTX that the compiler made: an assembler may merge neighbouring shared loads, or put
a predicate where the PTX branches, so instruction counts differ from the hardware's, which counts machine
instructions. Requests, sectors and bank conflicts depend on addresses alone and are the hardware's.

A *request* is one memory instruction of one warp. A *sector* is 32 bytes aligned to 32, the unit in which caches and
memory move data. See Nsight Compute's documentation, "Metrics Decoder".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from cudalab.sim.abi import (
    CLUSTER_END,
    LOCAL_WINDOW,
    RANK_SHIFT,
    SECTOR,
    SHARED_WINDOW,
    WARP,
    WINDOW_SIZE,
    SiteKind,
    Space,
)
from cudalab.sim.arrays import unique_values
from cudalab.sim.compiler.program import Kernel, Site
from cudalab.sim.machine.counters.bank_conflicts import count_wavefronts
from cudalab.sim.machine.counters.block_flow import block_flow
from cudalab.sim.machine.counters.branch_divergence import aligned_visits, branches
from cudalab.sim.machine.counters.combined_atomics import without_followers
from cudalab.sim.machine.counters.different_sectors import count_different, count_missing
from cudalab.sim.machine.counters.joined_stores import count_joined
from cudalab.sim.machine.counters.merged_accesses import Merge
from cudalab.sim.machine.counters.metrics import (
    LINE,
    AccessCounts,
    BlockCounts,
    Counts,
    SiteCounts,
)
from cudalab.sim.machine.counters.slow_ways import number_slow_ways
from cudalab.sim.machine.trace.async_records import separate_copies
from cudalab.sim.machine.trace.requests import Visits, by_thread, distinct, keep, matrices, passes, visits

_KEPT = 1 << 12
"""Requests kept of a batch of records."""


class Traced(Struct):
    """Records of some blocks, put one after the other."""

    site: np.ndarray
    thread: np.ndarray
    """Through all blocks, in ascending order; each block padded to whole warps."""
    address: np.ndarray
    warps: int
    """Warps of all blocks."""
    warps_per_block: int
    weights: np.ndarray
    """float64[warps]: how many warps of the grid each one stands for."""
    wanted: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """int64[blocks]: index in the grid of each block whose requests are to be kept, -1 for others."""


def join(records: Sequence[np.ndarray], weights: Sequence[float], threads: int, wanted: Sequence[int] = ()) -> Traced:
    """Put the records of blocks of `threads` threads together; each block stands for `weights` blocks of the grid, and
    requests of the blocks `wanted` are kept (their index in the grid, -1 for others)."""
    warps_per_block = -(-threads // WARP)
    padded = warps_per_block * WARP
    records = [by_thread(part) for part in records]
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
        np.array(wanted, np.int64),
    )


def count(
    kernel: Kernel,
    traced: Traced,
    merges: Sequence[Merge] = (),
    flow: bool = False,
    combined: np.ndarray | None = None,
    apart: np.ndarray | None = None,
) -> Counts:
    """Count the records of traced blocks, each block weighted by the number of blocks that it represents. ``merges``:
    shared accesses merged into one machine instruction. ``flow``: also the ways of warps from block to block.
    ``combined``: bool[sites], atomics that one lane does for all of its address; all lanes count as accesses.
    ``apart``: bool[sites], stores that do not join those before them."""
    sites = kernel.sites
    counts = Counts()
    if not len(traced.site):
        return counts
    kinds = np.array([site.kind for site in sites])
    passed = passes(traced.site, traced.thread, len(sites))
    visit = aligned_visits(traced.site, traced.thread, kinds, traced.warps, passed)
    visit = number_slow_ways(traced.site, traced.thread, kinds, traced.warps, passed, visit)
    copies = np.array([site.semantics.asynchronous for site in sites])
    if visit is not None and copies.any():
        visit = separate_copies(visit, traced.site, traced.thread, copies)
    found = visits(
        traced.site,
        traced.thread,
        traced.address,
        len(sites),
        traced.warps,
        passed,
        visit,
    )
    accesses = np.bincount(traced.site, traced.weights[traced.thread // WARP], len(sites))
    if combined is not None and combined[traced.site].any():
        kept = without_followers(found, combined)
        found = replace(found, **{name: getattr(found, name)[kept] for name in ("site", "lane", "address", "request")})
        traced = replace(traced, **{name: getattr(traced, name)[kept] for name in ("site", "thread", "address")})
    weight = traced.weights[found.request_warp]
    requests = np.bincount(found.request_site, weight, len(sites))
    longest = _count_instructions(counts, sites, kinds, found, traced, requests, accesses)
    per_site = {
        i: SiteCounts(s, float(requests[i]), accesses=float(accesses[i])) for i, s in enumerate(sites) if _is_access(s)
    }
    elsewhere = _count_distributed(counts, sites, found, weight)
    for chosen, space in _classes(sites, traced, elsewhere):
        if space == Space.SHARED:
            _count_shared(counts, per_site, sites, chosen, found, weight, merges)
        elif space == Space.CONSTANT:
            _count_constants(counts, per_site, sites, chosen, found, weight)
        else:
            _count_sectors(counts, per_site, sites, chosen, space, found, weight)
    count_different(counts, sites, traced)
    count_missing(counts, per_site, sites, traced, found, weight)
    never = np.zeros(len(sites), np.bool_) if apart is None else apart
    count_joined(counts, per_site, sites, traced, found, weight, never)
    if flow:
        loops = kernel.timed.innermost_loops
        counts.flow, counts.longest_flow = block_flow(sites, loops, found, traced.thread, traced.weights, longest)
    if (traced.wanted >= 0).any():
        chosen = np.array([_is_access(site) for site in sites])
        counts.kept.append(keep(found, chosen, traced.wanted, traced.warps_per_block, _KEPT))
    counts.sites = [entry for entry in per_site.values() if entry.requests]
    counts.visits = {i: float(requests[i]) for i in np.flatnonzero(_tells_the_way(kinds) & (requests > 0)).tolist()}
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
) -> int:
    """Count what warps executed; the warp that executed most."""
    length = np.array([site.instructions if site.kind == SiteKind.BLOCK else 0 for site in sites])
    counts.instructions = float(requests @ length)
    counts.thread_instructions = float(accesses @ length)
    counts.barriers = float(requests[kinds == SiteKind.BARRIER].sum())
    counts.warp_operations = float(requests[kinds == SiteKind.WARP].sum())
    taken, split = branches(sites, found, traced.thread, traced.weights)
    counts.branches, counts.divergent_branches = float(taken.sum()), float(split.sum())
    counts.blocks_entered = {
        i: BlockCounts(float(requests[i]), float(accesses[i]), float(taken[i]), float(split[i]))
        for i in np.flatnonzero((kinds == SiteKind.BLOCK) & (requests > 0)).tolist()
    }
    by_warp = np.bincount(found.request_warp, length[found.request_site], traced.warps)
    longest = int(by_warp.argmax())
    counts.longest_warp = float(by_warp[longest])
    ran = np.bincount(found.request_site[found.request_warp == longest], minlength=len(sites))
    counts.longest_visits = {i: float(ran[i]) for i in np.flatnonzero(_tells_the_way(kinds) & (ran > 0)).tolist()}
    return longest


def _tells_the_way(kinds: np.ndarray) -> np.ndarray:
    """bool[sites]: basic blocks, and the slow ways within them."""
    found: np.ndarray = (kinds == SiteKind.BLOCK) | (kinds == SiteKind.SLOW_WAY)
    return found


_OTHER_BLOCKS = SHARED_WINDOW + (1 << RANK_SHIFT)
"""From here on generic addresses are those of distributed shared memory."""


def _count_distributed(counts: Counts, sites: Sequence[Site], found: Visits, weight: np.ndarray) -> np.ndarray:
    """Count accesses to the shared memory of other blocks. Returns bool[sites]: the sites with such accesses."""
    chosen = np.array([_is_access(site) and site.space in (Space.GENERIC, Space.CLUSTER) for site in sites])
    atomic = np.array([site.kind == SiteKind.ATOMIC for site in sites])
    went = np.zeros(len(sites), np.bool_)
    if not chosen.any():
        return went
    for rows, addresses, active in matrices(found, chosen):
        active = active & (addresses >= np.uint64(_OTHER_BLOCKS)) & (addresses < np.uint64(CLUSTER_END))
        there = active.any(axis=1)
        if not there.any():
            continue
        site, addresses, active = found.request_site[rows[there]], addresses[there], active[there]
        went[site] = True
        sectors, here = addresses // np.uint64(SECTOR), atomic[site]
        units, weights = distinct(sectors, active), weight[rows[there]]
        if here.any():
            _, ranked = _passes(addresses[here], sectors[here], active[here])
            units[here] = distinct(ranked, active[here])
        sizes = np.array([sites[index].size for index in site.tolist()])
        for total, those in ((counts.distributed, ~here), (counts.distributed_atomics, here)):
            threads = active[those].sum(axis=1) * weights[those]
            total.requests += float(weights[those].sum())
            total.sectors += float((units[those] * weights[those]).sum())
            total.accesses += float(threads.sum())
            total.bytes += float((threads * sizes[those]).sum())
    return went


def _classes(sites: Sequence[Site], traced: Traced, elsewhere: np.ndarray) -> list[tuple[np.ndarray, Space]]:
    """Access sites by the space they touch. A generic access belongs to the space of the first address it touched,
    unless it went ``elsewhere``: to the shared memory of other blocks."""
    chosen: dict[Space, np.ndarray] = {}
    for index, site in enumerate(sites):
        if not _is_access(site):
            continue
        space = site.space
        if space == Space.CLUSTER or elsewhere[index]:
            space = Space.SHARED
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


def _add(counts: AccessCounts, site: Site, entry: SiteCounts) -> None:
    counts.requests += entry.requests
    counts.sectors += entry.sectors
    counts.accesses += entry.accesses
    counts.bytes += entry.sectors * SECTOR if site.semantics.bulk else entry.accesses * site.size


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
    chains, turns = np.zeros(len(sites)), np.zeros(len(sites))
    sizes = np.array([site.size for site in sites])
    atomic = np.array([site.kind == SiteKind.ATOMIC for site in sites])
    for rows, addresses, active in matrices(found, chosen):
        site = found.request_site[rows]
        sectors = local_sectors(addresses) if space == Space.LOCAL else addresses // np.uint64(SECTOR)
        here = atomic[site]
        units = distinct(sectors, active)
        if here.any():
            longest, ranked = _passes(addresses[here], sectors[here], active[here])
            units[here] = distinct(ranked, active[here])
            chains += np.bincount(site[here], longest * weight[rows][here], len(sites))
        touched += np.bincount(site, units * weight[rows], len(sites))
        if space != Space.LOCAL:
            turns += np.bincount(site, _turns(addresses, active, sizes[site]) * weight[rows], len(sites))
        lines += np.bincount(site, distinct(sectors // np.uint64(LINE // SECTOR), active) * weight[rows], len(sites))
    for index in np.flatnonzero(chosen).tolist():
        entry = per_site[index]
        entry.sectors, entry.turns, entry.lines = float(touched[index]), float(turns[index]), float(lines[index])
        kind = sites[index].kind
        if space == Space.LOCAL:
            target = counts.local_loads if kind == SiteKind.LOAD else counts.local_stores
        elif kind == SiteKind.ATOMIC:
            target = counts.global_atomics
        else:
            target = counts.global_loads if kind == SiteKind.LOAD else counts.global_stores
        _add(target, sites[index], entry)
        target.lines += float(lines[index])
        target.operations += float(chains[index])
        target.turns += float(turns[index])


def _turns(addresses: np.ndarray, active: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Wavefronts of the L1's banks, which are those of shared memory."""
    turns = np.zeros(len(addresses))
    for size in unique_values(sizes).tolist():
        here = sizes == size
        turns[here] = count_wavefronts(addresses[here], active[here], size, atomic=False)[0]
    return turns


def local_sectors(addresses: np.ndarray) -> np.ndarray:
    """Local memory is laid out so that the same word of a warp's 32 lanes makes 128 neighbouring bytes."""
    word = (addresses - np.uint64(LOCAL_WINDOW)) // np.uint64(4)
    return word * np.uint64(WARP * 4 // SECTOR) + np.arange(WARP, dtype=np.uint64) // np.uint64(SECTOR // 4)


def _passes(addresses: np.ndarray, sectors: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Atomics of several lanes on one address go in passes, one lane of each address at a time.

    Returns the number of passes of each row, and for each lane its sector and pass in one number: a sector counts anew
    in each pass, as it does on an H200.
    """
    lane = np.arange(WARP, dtype=np.uint64)
    apart = np.where(active, addresses, lane)  # lanes that are off differ from all others
    order = np.argsort(apart, axis=1, kind="stable")
    ordered = np.take_along_axis(apart, order, axis=1)
    rank = np.zeros(ordered.shape, np.uint64)
    for column in range(1, WARP):
        again = ordered[:, column] == ordered[:, column - 1]
        rank[:, column] = np.where(again, rank[:, column - 1] + np.uint64(1), np.uint64(0))
    of_lane = np.empty_like(rank)
    np.put_along_axis(of_lane, order, rank, axis=1)
    longest = np.where(active.any(axis=1), rank.max(axis=1).astype(np.int64) + 1, 0)
    return longest, sectors * np.uint64(WARP) + of_lane


def _count_constants(
    counts: Counts,
    per_site: dict[int, SiteCounts],
    sites: Sequence[Site],
    chosen: np.ndarray,
    found: Visits,
    weight: np.ndarray,
) -> None:
    """Count constant accesses: constant memory serves a warp one address at a time (guide, "Constant Memory")."""
    for rows, addresses, active in matrices(found, chosen):
        turns = distinct(addresses // np.uint64(4), active) * weight[rows]
        counts.constant_loads.operations += float(turns.sum())
    for index in np.flatnonzero(chosen).tolist():
        _add(counts.constant_loads, sites[index], per_site[index])


def _count_shared(
    counts: Counts,
    per_site: dict[int, SiteCounts],
    sites: Sequence[Site],
    chosen: np.ndarray,
    found: Visits,
    weight: np.ndarray,
    merges: Sequence[Merge],
) -> None:
    sizes = np.array([site.size for site in sites])
    atomic = np.array([site.kind == SiteKind.ATOMIC for site in sites])
    before = np.zeros(len(sites), np.uint64)
    for merge in merges:
        sizes[merge.leader], before[merge.leader] = merge.width, merge.start
        per_site[merge.leader].width = merge.width
        for member in merge.members:
            per_site[member].merged = member != merge.leader
    alone = np.array([i not in per_site or not per_site[i].merged for i in range(len(sites))])
    for size, is_atomic in sorted(set(zip(sizes[chosen].tolist(), atomic[chosen].tolist(), strict=True))):
        mask = chosen & alone & (sizes == size) & (atomic == is_atomic)
        total, ideal, words = np.zeros(len(sites)), np.zeros(len(sites)), np.zeros(len(sites))
        odd = np.zeros(len(sites), np.bool_)
        for rows, addresses, active in matrices(found, mask):
            site = found.request_site[rows]
            if before.any():
                addresses = addresses - np.where(active, before[site][:, None], np.uint64(0))
            took, least = count_wavefronts(addresses, active, size, atomic=is_atomic)
            total += np.bincount(site, took * weight[rows], len(sites))
            ideal += np.bincount(site, least * weight[rows], len(sites))
            if size == 4 and not is_atomic:
                words += np.bincount(site, distinct(addresses, active) * weight[rows], len(sites))
                odd[site[((addresses % np.uint64(16) != 0) & active).any(axis=1)]] = True
        for index in np.flatnonzero(mask).tolist():
            entry = per_site[index]
            entry.wavefronts = float(total[index])
            entry.bank_conflicts = float(total[index] - ideal[index])
            entry.words, entry.aligned = float(words[index]), not odd[index]
    by_kind = {SiteKind.LOAD: counts.shared_loads, SiteKind.STORE: counts.shared_stores}
    for index in np.flatnonzero(chosen).tolist():
        entry, target = per_site[index], by_kind.get(sites[index].kind, counts.shared_atomics)
        target.requests += 0.0 if entry.merged else entry.requests
        target.requests_in_ptx += entry.requests
        target.wavefronts += entry.wavefronts
        target.bank_conflicts += entry.bank_conflicts
        target.accesses += entry.accesses
        target.bytes += entry.accesses * sites[index].size
