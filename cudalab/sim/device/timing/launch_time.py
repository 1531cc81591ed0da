"""The modelled time of a launch, from what it did and from sampled blocks.

A few blocks of the grid are run as traced code, and memory is restored afterwards. Their counters, scaled to the grid,
give the launch's demand on each resource; ``cost.py`` turns that into time.

How often each block ran its loops is not sampled: the launch itself counts it (``machine/launch/block_work.py``). Where
blocks differ, light and heavy ones are traced, the others count as mixtures of them, and SMs share the blocks one by
one (block_schedule.py).

The demand is cached by kernel, launch configuration and arguments, so a loop of launches samples once; arguments count
as equal when scalars are equal and pointers have the same offset in allocations of equal size. Where the rounds of
loops depend on what is loaded, every launch counts its work, and is sampled again when that has changed. Where
addresses depend on it, that is not enough: a histogram of skewed data takes longer than one of uniform data. Such
launches are sampled again when the words that the sample loaded have changed. The time is remembered by the demand, and
by what earlier work left in the L2 (l2_cache.py).

A learner would notice where an address depends on data that no sampled block loads: the modelled time does not follow
it. Kernels that poll memory and blocks of clusters do not count their work: a block from the middle stands for all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from cudalab.sim.abi import SECTOR, WARP, SiteKind, Space
from cudalab.sim.compiler.machine_code.assembly import Assembly, assembly
from cudalab.sim.compiler.machine_code.execution import Execution
from cudalab.sim.compiler.machine_code.listing import listing
from cudalab.sim.compiler.program import Rounds, Site
from cudalab.sim.compiler.timed_code import TimedCode
from cudalab.sim.device.profile import Profile
from cudalab.sim.device.timing.block_schedule import tail
from cudalab.sim.device.timing.cost import KernelTime, kernel_time
from cudalab.sim.device.timing.extrapolation import extrapolated, sentence
from cudalab.sim.device.timing.l2_cache import L2Cache
from cudalab.sim.device.timing.l2_ranges import L2Use, Lookups, Met, Window
from cudalab.sim.device.timing.l2_traffic import Traffic, traffic_of
from cudalab.sim.device.timing.machine_path import MachinePath, machine_path
from cudalab.sim.device.timing.shared_lines import filled_sectors, moved_again, moved_once, partly_written
from cudalab.sim.device.timing.warp_path import Path
from cudalab.sim.device.timing.watched_words import WatchedWords
from cudalab.sim.device.timing.workload import Workload
from cudalab.sim.machine.counters.machine_counts import execution_of, ways
from cudalab.sim.machine.counters.metrics import GRANULE, LINE, Counts
from cudalab.sim.machine.counters.sampling import loaded_by_all, sample
from cudalab.sim.machine.counters.strata import Strata, by_longest, sample_strata, shares
from cudalab.sim.machine.launch.block_work import BlockWork, counts_work
from cudalab.sim.machine.launch.clusters import sms_with_room
from cudalab.sim.machine.launch.module import Launch
from cudalab.sim.machine.launch.occupancy import kernel_occupancy

_REMEMBERED = 4096
_NEIGHBOURS = 8
"""Blocks of one SM that are sampled for what they load in common."""
_COUNTS = 0.4
"""Share of a launch's time from which its L2 traffic is sampled more closely."""


class _Demand(NamedTuple):
    """What a launch asks of the device, whatever the L2 holds."""

    work: Workload
    traffic: Traffic
    tail: float
    extrapolated: str


class _Known(NamedTuple):
    demand: _Demand
    watched: WatchedWords | None
    work: BlockWork | None
    times: dict[L2Use, KernelTime]
    """By what the launch finds in the L2."""

    def holds(self, work: BlockWork | None) -> bool:
        """Is it the time of a launch that has done this work?"""
        changed = work is not None and not work.same_as(self.work)
        return not changed and (self.watched is None or self.watched.same())


class Timer:
    """Times launches on one device."""

    by_machine_code = True
    """Whether the work of an SM is simulated by the machine code. Off: terms from the PTX (docs/dev/time-model.md)."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.l2_of = cache(lambda device: L2Cache(profile))
        """The L2 of each device, by its number."""
        self._known: OrderedDict[tuple[object, ...], _Known] = OrderedDict()

    def _repeated(self, launch: Launch, traffic: Traffic, window: Window | None) -> tuple[L2Use, tuple[Lookups, ...]]:
        l2 = self.l2_of(launch.kernel.module.device)
        return l2.launch_repeated((traffic, launch.args), window, lambda: traffic.sweeps(launch))

    def wants_work(self, launch: Launch) -> bool:
        """Must the launch say what its blocks do before its time is known?"""
        if not counts_work(launch):
            return False
        return launch.kernel.kernel.rounds is Rounds.DATA or self._key(launch) not in self._known

    @staticmethod
    def _key(launch: Launch) -> tuple[object, ...]:
        kernel, args = launch.kernel, launch.args
        follows = kernel.kernel.timed.follows_data
        return (kernel, launch.config, args if follows else kernel.pointers(args).normalised)

    def time(self, launch: Launch, work: BlockWork | None = None, window: Window | None = None) -> KernelTime:
        """The time of a launch that starts now, if it were alone on the device. ``work``: what its blocks did, if they
        said so; ``window``: its access policy window."""
        known = self._of(launch, work)
        traffic = known.demand.traffic
        use = self.l2_of(launch.kernel.module.device).launch(
            (traffic, launch.args), window, lambda: traffic.sweeps(launch)
        )
        return known.times.get(use) or self._with(known, use)

    def time_repeated(self, launch: Launch, work: BlockWork | None = None, window: Window | None = None) -> KernelTime:
        """The same of a launch that is repeated: its data are in the L2 as far as they stay there. Nothing happens."""
        known = self._of(launch, work)
        use, _ = self._repeated(launch, known.demand.traffic, window)
        return known.times.get(use) or self._with(known, use)

    def lookups(self, launch: Launch, work: BlockWork | None, window: Window | None) -> tuple[Lookups, ...]:
        """The sectors that a repeated launch looks up in the L2, by access property, and those of them that hit."""
        demand = self._of(launch, work).demand
        _, found = self._repeated(launch, demand.traffic, window)
        asked = sum(each.asked for each in found)
        sectors = demand.work.sectors / asked if asked else 0.0
        return tuple(Lookups(each.asked * sectors, each.hit * sectors) for each in found)

    def _of(self, launch: Launch, work: BlockWork | None) -> _Known:
        key = self._key(launch)
        known = self._known.get(key)
        if known is None or not known.holds(work):
            watch = launch.kernel.kernel.timed.follows_data
            find = self._of_equal_blocks if work is None or work.even else self._of_blocks_that_differ
            demand, words = find(launch, watch, work)
            watched = WatchedWords(launch.kernel.module.memory, words) if watch else None
            known = self._known[key] = _Known(demand, watched, work, {})
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known

    def _with(self, known: _Known, use: L2Use) -> KernelTime:
        """The time of a launch that meets the L2 so."""
        work, distinct = known.demand.work, known.demand.traffic.distinct
        work = replace(work, met=Met(use, distinct))
        time = kernel_time(self._profile, work, tail=known.demand.tail, extrapolated=known.demand.extrapolated)
        known.times[use] = time
        return time

    def _traffic(self, launch: Launch, work: Workload) -> Traffic:
        resident = self._profile.sms * max(1, work.blocks_per_sm)
        return traffic_of(launch, work.touched, resident, self.l2_of(launch.kernel.module.device).piece)

    def _of_equal_blocks(
        self, launch: Launch, watch: bool, work: BlockWork | None
    ) -> tuple[_Demand, np.ndarray | None]:
        counts = sample(launch, remember=False, watch=watch, work=work)
        machine, by_ptx = self._machine_code(launch, [counts])
        note = sentence(extrapolated(launch, work, counts), by_ptx)
        path = machine.path(0, counts) if machine else None
        whole, traffic = self._shared_by_blocks(launch, counts, path)
        return _Demand(whole, traffic, 0.0, note), counts.words_loaded

    def _of_blocks_that_differ(
        self, launch: Launch, watch: bool, work: BlockWork | None
    ) -> tuple[_Demand, np.ndarray | None]:
        assert work is not None
        strata, code, profile = sample_strata(launch, work, watch=watch), launch.kernel.kernel.timed, self._profile
        positions, warps = by_longest(strata), work.slots.shape[1]
        weights = shares(work.longest, strata.longest[positions]).mean(axis=0)
        machine, by_ptx = self._machine_code(launch, strata.each)
        path: MachinePath | None = None
        paths: list[MachinePath | None] = [None] * len(strata.each)
        if machine:
            path = machine.average_path(strata.whole)
            paths = [machine.path(*each) for each in enumerate(strata.each)]
        whole, traffic = self._shared_by_blocks(launch, strata.whole, path)
        whole = replace(whole, path=replace(whole.path, visits=_average_visits(strata, positions, weights)))
        alone = [
            kernel_time(profile, replace(workload(launch, code, counts), touched=whole.touched, machine=path))
            for counts, path in zip(strata.each, paths, strict=True)
        ]
        fills = np.array([alone[each].terms["fill"] for each in positions])
        busy, groups = self._busy(work, strata, alone)
        behind = tail(
            np.interp(work.longest, strata.longest[positions], fills),
            busy,
            profile.sms * groups,
            max(1, whole.blocks_per_sm // groups),
            average=float(np.interp(work.total / warps, strata.longest[positions], fills).mean()),
        )
        note = sentence(extrapolated(launch, work, strata.whole), by_ptx)
        return _Demand(whole, traffic, behind, note), strata.whole.words_loaded

    def _busy(self, work: BlockWork, strata: Strata, alone: Sequence[KernelTime]) -> tuple[np.ndarray, int]:
        """What each block asks of the schedulers that it has warps on, and of what these share; and how many such
        parts an SM has: blocks with fewer warps than schedulers each have some for themselves."""
        schedulers = round(self._profile.device["schedulers"])
        used = min(schedulers, work.slots.shape[1])
        groups = schedulers // used
        issue, shared = (
            np.interp(work.total, strata.total, np.array(times))
            for times in ([each.terms["issue"] for each in alone], [each.shared_by_schedulers for each in alone])
        )
        of_each = schedulers * issue[:, None] * work.shares(used)
        return np.column_stack([of_each, groups * shared]), groups

    def workload(self, launch: Launch) -> Workload:
        """The demand of a launch on the device, from blocks sampled now."""
        counts = sample(launch, remember=False)
        machine, _ = self._machine_code(launch, [counts])
        path = machine.path(0, counts) if machine else None
        return self._shared_by_blocks(launch, counts, path)[0]

    def _machine_code(self, launch: Launch, samples: Sequence[Counts]) -> tuple[_MachineCode | None, str]:
        """What the longest warps of samples executed; None where the machine code does not tell the time, and why."""
        if not self.by_machine_code:
            return None, ""
        try:
            return _machine_code(launch, samples), ""
        except _ByPtx as reason:
            return None, f"timed by the PTX: {reason}"

    def _shared_by_blocks(
        self, launch: Launch, counts: Counts, machine: MachinePath | None
    ) -> tuple[Workload, Traffic]:
        """The workload of a sample, less what blocks share in the L2 and, unless they cooperate, in the L1 of an SM;
        and the memory that the launch touches."""
        work = replace(workload(launch, launch.kernel.kernel.timed, counts), machine=machine)
        traffic = self._traffic(launch, work)
        work = moved_once(work, counts, traffic.once)
        size = int(self._profile.properties["l2CacheSize"])
        work = moved_again(work, counts, size, traffic.anywhere(stored=False), traffic.anywhere(stored=True))
        if launch.config.cooperative or launch.config.cluster is not None:
            return work, traffic
        return self._with_neighbours(work, launch), traffic

    def _with_neighbours(self, work: Workload, launch: Launch) -> Workload:
        """Blocks on an SM share its L1: what several of them load comes from the L2 once. Determined only where L2
        traffic matters, because it takes further sampled blocks."""
        sms = self._profile.sms
        neighbours = min(work.blocks_per_sm, work.blocks // sms, _NEIGHBOURS)
        if neighbours < 2 or not work.loads:
            return work
        time = kernel_time(self._profile, work)
        if time.terms["L2"] < _COUNTS * time.ns:
            return work
        middle = (work.blocks - 1) // 2 // sms * sms
        first = max(0, min(middle, work.blocks - 1 - (neighbours - 1) * sms))
        blocks = [first + index * sms for index in range(neighbours)]
        part = loaded_by_all(launch, blocks)
        loaded = work.loaded_sectors * (1.0 - part)
        return replace(
            work,
            sectors=work.sectors - loaded,
            l2_lines=work.l2_lines - work.loaded_lines * (1.0 - part),
            l1_hits=1.0 - (1.0 - work.l1_hits) * part,
            loads_missing=work.loads_missing * part,
            machine=work.machine and work.machine.with_misses(part),
        )

    def forget(self) -> None:
        """Drop all times: kernels were unloaded."""
        self._known.clear()


def _average_visits(strata: Strata, positions: Sequence[int], weights: np.ndarray) -> dict[int, float]:
    """How often the longest warp of a block runs each basic block, on average over the grid."""
    found: dict[int, float] = {}
    for position, weight in zip(positions, weights.tolist(), strict=True):
        for site, times in strata.each[position].longest_visits.items():
            found[site] = found.get(site, 0.0) + weight * times
    return found


def workload(launch: Launch, code: TimedCode, counts: Counts) -> Workload:
    """The demand of a launch on the device, from sampled counters. Blocks that access the same bytes hit the L2: no
    launch moves more distinct bytes than the allocations of its parameters have."""
    kernel = launch.kernel.kernel
    loads, stores, atomics = counts.global_loads, counts.global_stores, counts.global_atomics
    kinds = mix(code, counts.visits)
    # a grid barrier invalidates the L1
    times = 1.0 + kinds.get("grid_arrive", 0.0) / max(1, counts.blocks)
    local = counts.local_loads.sectors + counts.local_stores.sectors
    loaded_once, stored = counts.sectors_loaded_once, counts.sectors_stored_once
    loaded = min(loads.sectors, loaded_once * times)
    filled = filled_sectors(counts)
    sent = stores.sectors - counts.sectors_joined
    partial = sent * partly_written(stores.bytes, sent)
    per_line = counts.lines_stored_once / stored if stored else 0.0
    per_pair = counts.pairs_stored_once / stored if stored else 0.0
    footprint = float(counts.footprint_bytes)
    read_once = min(1.0, footprint / (loaded_once * SECTOR)) if loaded_once else 1.0
    written_once = min(1.0, footprint / (stored * SECTOR)) if stored else 1.0
    heap = heap_calls(code, counts)
    bulk = [entry for entry in counts.sites if entry.site.semantics.bulk]
    bulk_loaded = sum(entry.sectors for entry in bulk if entry.site.kind == SiteKind.LOAD)
    bulk_stored = sum(entry.sectors for entry in bulk if entry.site.kind == SiteKind.STORE)
    resident = kernel_occupancy(kernel, counts.threads, launch.config.shared, launch.kernel.limits)
    passes = atomics.sectors / atomics.accesses if atomics.accesses else 0.0
    return Workload(
        blocks=counts.blocks,
        threads=counts.threads,
        blocks_per_sm=resident.blocks_per_sm,
        kinds=kinds,
        path=Path(
            code,
            counts.longest_visits,
            bulk_bytes(code, counts),
            frozenset(kernel.sites[index].ptx_line for index in counts.copy_waits),
        ),
        sectors=loaded + sent + atomics.sectors + filled + local,
        loaded_sectors=loaded,
        l2_lines=min(loads.lines, counts.lines_loaded_once * times)
        + stores.lines
        - bulk_stored * (1.0 - SECTOR / LINE),  # counted by sector, requested by line
        loaded_lines=min(loads.lines, counts.lines_loaded_once * times),
        partial_sectors=partial,
        partial_lines=stores.lines * partial / stores.sectors if partial else 0.0,
        open_lines=counts.lines_stored_once * max(0.0, 1.0 - stored / sent) if sent else 0.0,
        dram_read=counts.granules_loaded_once * GRANULE * read_once,
        dram_fill=filled * SECTOR * written_once,
        stored_sectors=stored * written_once,
        lines_read=counts.lines_loaded_once * read_once + filled * per_line * written_once,
        lines_written=counts.lines_stored_once * written_once,
        pairs_read=counts.pairs_loaded_once * read_once + filled * per_pair * written_once,
        pairs_written=counts.pairs_stored_once * written_once,
        host_loaded=counts.host_loaded,
        host_stored=counts.host_stored,
        peer_loaded=counts.peer_loaded,
        peer_stored=counts.peer_stored,
        bulk_loaded=bulk_loaded,
        bulk_stored=bulk_stored,
        l1_turns=loads.turns + stores.turns + atomics.turns - bulk_loaded - bulk_stored,
        shared_wavefronts=counts.shared_loads.wavefronts
        + counts.shared_stores.wavefronts
        + counts.shared_atomics.wavefronts
        - sum(entry.wavefronts for entry in bulk)
        - _saved(code, counts),
        shared_loops=sum(entry.wavefronts for entry in counts.sites if _is_loop(entry.site)),
        shuffles=kinds.get("shuffle", 0.0),
        constants=counts.constant_loads.operations,
        atomic_sectors=atomics.sectors,
        atomic_passes=passes,
        hottest_unit=counts.hottest_unit * passes,
        hottest_address=counts.hottest_address,
        float_atomics=any(_is_float(entry.site) for entry in counts.sites),
        l1_hits=max(0.0, 1.0 - loaded / loads.sectors) if loads.sectors else 0.0,
        lines_a_warp=loads.lines / max(1, counts.blocks * -(-counts.threads // WARP)),
        turns_a_load=loads.turns / loads.requests if loads.requests else 1.0,
        arrivals=counts.barriers,
        cluster=launch.config.cluster_blocks,
        clusters=launch.config.blocks / launch.config.cluster_blocks if launch.config.cluster is not None else 0.0,
        sms=sms_with_room(resident.blocks_per_sm, launch.config.cluster_blocks, launch.kernel.limits.sm_groups),
        distributed=counts.distributed.sectors + counts.distributed_atomics.sectors,
        distributed_atomics=counts.distributed_atomics.sectors,
        heap_calls=heap[0],
        heap_lanes=heap[1],
        sleep=counts.slept / counts.sleeps if counts.sleeps else 0.0,
        stores=stored > 0,
        loads=loads.requests > 0,
        touched=min(footprint, _lines(counts) * LINE),
        loads_missing=min(1.0, counts.loads_missing * times / loads.requests) if loads.requests else 1.0,
    )


_NOT_SIMULATED = {
    "clusters": ("cluster_barrier", "cluster_load", "cluster_store", "cluster_atomic"),
    "barriers of the grid": ("grid_arrive", "grid_look"),
    "barrier objects": ("object_arrive", "object_wait"),
    "bulk copies": ("bulk_copy", "bulk_store"),
    "calls of malloc": ("heap",),
    "waits of nanosleep": ("sleep",),
    "readings of the clock": ("clock",),
}
_ARRIVALS = ("bar.arrive", "barrier.arrive", "barrier.cta.arrive")
"""Barriers at which a warp does not wait, which is not simulated either."""


class _ByPtx(Exception):
    """Why the time of a launch comes from its PTX."""


class _MachineCode(NamedTuple):
    """The machine code of a kernel, and how often the longest warp of each sample executed its blocks."""

    code: Assembly
    execution: Execution
    longest: list[tuple[float, ...]]
    every: list[tuple[float, ...]]
    """The same for all warps together."""

    def path(self, sample: int, counts: Counts) -> MachinePath:
        """The paths of the warps of a sampled block, of which one executes more than the others."""
        return machine_path(self.code, self.longest[sample], self.every[sample], counts)

    def average_path(self, counts: Counts) -> MachinePath:
        """The path of a warp on average over the grid."""
        return machine_path(self.code, None, self.execution.counts(ways(counts.visits, counts.flow)).blocks, counts)


def _machine_code(launch: Launch, samples: Sequence[Counts]) -> _MachineCode:
    """Raises ``_ByPtx`` where the machine code cannot be read, does what is not simulated, or is not told by the ways
    of warps."""
    program, kernel = launch.kernel.module.program, launch.kernel.kernel
    code = assembly(program, kernel)
    if not code.known:
        raise _ByPtx("there is no machine code that can be read")
    if code.recursive:
        raise _ByPtx("functions that call themselves are not simulated by the machine code")
    executed = {kind for counts in samples for kind, times in mix(kernel.timed, counts.visits).items() if times}
    for what, kinds in _NOT_SIMULATED.items():
        if not executed.isdisjoint(kinds):
            raise _ByPtx(f"{what} are not simulated by the machine code")
    if any(each.opcode.startswith(_ARRIVALS) for each in listing(program, kernel)):
        raise _ByPtx("barriers at which warps only arrive are not simulated by the machine code")
    execution = execution_of(program, kernel)
    longest = [execution.counts(ways(counts.longest_visits, counts.longest_flow)) for counts in samples]
    every = [execution.counts(ways(counts.visits, counts.flow)) for counts in samples]
    if not all(each.exact for each in (*longest, *every)):
        raise _ByPtx("the way through the machine code is not known exactly")
    return _MachineCode(code, execution, [each.blocks for each in longest], [each.blocks for each in every])


def mix(code: TimedCode, visits: Mapping[int, float]) -> dict[str, float]:
    """How many instructions of each class warps executed; loop control of unrolled loops counts once a repeat."""
    total: dict[str, float] = {}
    for block in code.blocks:
        times = visits.get(block.site, 0.0)
        if not times or block.polls_grid:  # polling takes only idle issue slots
            continue
        for each in block.instructions:
            total[each.kind] = total.get(each.kind, 0.0) + (times / block.repeats if each.control else times)
    return total


def bulk_bytes(code: TimedCode, counts: Counts) -> dict[int, float]:
    """Bytes that a warp copies in each execution of a bulk copy to global memory, by PTX line."""
    found: dict[int, float] = {}
    moved: dict[int, float] = {}
    for entry in counts.sites:
        moved[entry.site.ptx_line] = max(moved.get(entry.site.ptx_line, 0.0), entry.sectors * SECTOR)
    for block in code.blocks:
        for each in block.instructions:
            if each.kind == "bulk_store" and counts.visits.get(block.site):
                found[each.line] = moved.get(each.line, 0.0) / counts.visits[block.site]
    return found


def heap_calls(code: TimedCode, counts: Counts) -> tuple[float, float]:
    """Calls of malloc and free by threads, and the threads of a warp that make one together."""
    threads, warps = 0.0, 0.0
    for block in code.blocks:
        calls = sum(each.kind == "heap" for each in block.instructions)
        entered = counts.blocks_entered.get(block.site)
        if calls and entered is not None:
            threads, warps = threads + calls * entered.threads, warps + calls * entered.visits
    return threads, threads / warps if warps else 1.0


def _lines(counts: Counts) -> float:
    """Distinct lines that are loaded or stored to."""
    stored = counts.sectors_stored_once
    twice = counts.sectors_loaded_and_stored / stored if stored else 0.0
    return counts.lines_loaded_once + counts.lines_stored_once * (1.0 - twice)


def _saved(code: TimedCode, counts: Counts) -> float:
    """Wavefronts saved where the assembler merges neighbouring loads into a wide one: lanes that load the same words
    get 16 bytes at once."""
    by_line = {entry.site.ptx_line: entry for entry in counts.sites}
    saved = 0.0
    for group in code.wide_loads:
        entries = [by_line[line] for line in group if line in by_line]
        if len(entries) == len(group) and entries[0].aligned:
            apart = sum(entry.wavefronts for entry in entries)
            merged = max(max(entry.wavefronts for entry in entries), sum(entry.words for entry in entries) / 32)
            saved += max(0.0, apart - merged)
    return saved


def _is_float(site: Site) -> bool:
    return site.kind == SiteKind.ATOMIC and site.space != Space.SHARED and site.semantics.floating


def _is_loop(site: Site) -> bool:
    """Shared memory has no atomics for floats."""
    return site.kind == SiteKind.ATOMIC and site.space == Space.SHARED and site.semantics.floating
