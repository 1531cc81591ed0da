"""The exact check of a launch, from its trace.

The launch runs in traced code (variant ``sanitize_trace``), which skips invalid accesses. With suspects (accesses that
shadow cells could not show to be ordered) only the accesses to those granules are kept, and everything that orders
threads; without, all accesses are.

Kernels whose threads are ordered by barriers of the whole block and operations of whole warps only are checked in
batches of blocks, with array operations (:mod:`.racecheck`); all others by vector clocks (:mod:`.happens_before`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE, Race, SiteKind, Space, Status
from cudalab.sim.arrays import unique_values
from cudalab.sim.machine.reports import notes
from cudalab.sim.machine.reports.faults import from_context, time_limit_fault
from cudalab.sim.machine.sanitizer.checked_launch import CheckedLaunch, SanitizerResult, add_skipped_accesses
from cudalab.sim.machine.sanitizer.happens_before.access_history import Conflict
from cudalab.sim.machine.sanitizer.happens_before.candidate_locations import Candidates, candidate_locations
from cudalab.sim.machine.sanitizer.happens_before.detector import VectorClockDetector
from cudalab.sim.machine.sanitizer.initcheck import InitialisationCheck, UninitialisedRead
from cudalab.sim.machine.sanitizer.leakcheck import find_leaks
from cudalab.sim.machine.sanitizer.memory_model import Clusters, has_fine_synchronisation, ordering_of
from cudalab.sim.machine.sanitizer.misread_pointers import EscapedLocals, ReadOnlyLoads
from cudalab.sim.machine.sanitizer.racecheck import InterBlockRaces, find_races
from cudalab.sim.machine.sanitizer.racecheck import Race as RaceFound
from cudalab.sim.machine.sanitizer.synccheck import find_sync_errors
from cudalab.sim.machine.sanitizer.wording import Wording
from cudalab.sim.machine.trace.batch import make_batch, timed, unit_of
from cudalab.sim.machine.trace.recorder import Tracer

if TYPE_CHECKING:
    from cudalab.sim.machine.shadow_memory.shadow_cells import AttachedCells
    from cudalab.sim.machine.trace.recorder import BlockTrace

BATCH_RECORDS = 1 << 16
"""Records checked at once: few enough that the arrays made of them stay in the cache, and below 30 MB."""
BLOCK_RECORDS = 1 << 22
MOST_RECORDS = 24 << 20
"""Records of one launch that are checked; later ones are not."""
LARGE = 1 << 20
"""Threads of a launch from which on blocks with suspects come first, because records may not suffice for all."""
MOST_FOLLOWED = 3 << 20
"""Records that are followed by vector clocks."""
_KINDS = (
    SiteKind.LOAD,
    SiteKind.STORE,
    SiteKind.ATOMIC,
    SiteKind.BARRIER,
    SiteKind.WARP,
    SiteKind.FENCE,
    SiteKind.SYNC,
)


_IRREGULAR = {
    "racecheck": Race.READ_ONLY,
    "synccheck": Race.UNEVEN | Race.ABSENT_LANE,
    "initcheck": Race.UNWRITTEN_LOCAL,
}
"""What each tool looks at again (``Race.irregular``)."""


@dataclass(frozen=True)
class Suspects:
    """The accesses that shadow cells could not show to be ordered, or to read written bytes."""

    granules: np.ndarray
    """Their sorted addresses (generic; those of shared memory stand for all blocks)."""
    shared_bytes: int
    global_bytes: int
    """Bytes of a granule."""
    blocks: np.ndarray
    """Blocks that made them."""
    irregular: bool
    """Something else has to be looked at (``Race.irregular``)."""
    complete: bool

    @classmethod
    def of(cls, shadow: AttachedCells, tools: Iterable[str]) -> Suspects:
        """Those that matter to the tools asked for."""
        found = shadow.suspects
        wanted = np.zeros(len(found), np.bool_)
        if "racecheck" in tools:
            wanted |= found["kind"] == 0
        if "initcheck" in tools:
            wanted |= found["kind"] == 1
        found = found[wanted]
        return cls(
            unique_values(found["address"].astype(np.int64)),
            1 << shadow.race.shared_shift,
            1 << shadow.race.shift,
            unique_values(found["block"].astype(np.int64)),
            bool(shadow.irregular & sum(bits for tool, bits in _IRREGULAR.items() if tool in tools)),
            shadow.complete,
        )

    @property
    def any(self) -> bool:
        return bool(len(self.granules)) or self.irregular

    def touched(self, address: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Which accesses touch one of the granules."""
        shared = address < LOCAL_WINDOW
        bytes_ = np.where(shared, self.shared_bytes, self.global_bytes)
        low = np.searchsorted(self.granules, address & -bytes_)
        found: np.ndarray = np.searchsorted(self.granules, address + size) > low
        return found


def check_exactly(launch: CheckedLaunch, result: SanitizerResult, suspects: Suspects | None = None) -> None:
    """Check a launch from its trace and add the findings to ``result``. With suspects, native code has run it before
    and reported the faults, and only accesses to the suspects' granules are checked."""
    result.exact = True
    check = _ExactCheck(launch, result, suspects)
    order: list[int] = launch.block_order().astype(np.int64).tolist()
    large = launch.blocks * launch.threads > LARGE
    if large and suspects is not None and not check.fine and launch.seed is None:
        first = suspects.blocks.tolist()
        chosen = set(first)
        order = [*first, *(index for index in order if index not in chosen)]
    with Tracer(launch.launch, records=BLOCK_RECORDS, seed=launch.seed, variant="sanitize_trace") as tracer:
        if _blocks_interact(launch):
            most = min(MOST_RECORDS, BLOCK_RECORDS * launch.blocks)
            ran = tracer.run_concurrently(order, order, time_limit=launch.time_limit, most=most, survive=True)
            if tracer.stuck is not None:
                if any(trace.status == Status.FAULT for trace in ran):
                    result.note(notes.WAITED_FOR_FAULT)
                else:
                    result.add(tracer.stuck.finding)
            traces: Iterable[BlockTrace] = ran
        else:
            traces = (tracer.run(index, time_limit=launch.time_limit) for index in order)
        for trace in traces:
            if not check.add_block(trace, tracer):
                break
        if suspects is None:
            assert tracer.shadow is not None
            add_skipped_accesses(launch, result, tracer.context, tracer.shadow)
        check.finish(tracer)


def _blocks_interact(launch: CheckedLaunch) -> bool:
    """May blocks wait for each other?"""
    config = launch.config
    return bool(launch.kernel.kernel.poll_points) or config.cluster_blocks > 1 or config.cooperative


class _ExactCheck:
    """Collects the traces of blocks, checks them, and adds the findings to the result."""

    def __init__(self, launch: CheckedLaunch, result: SanitizerResult, suspects: Suspects | None) -> None:
        kernel = launch.kernel
        self.launch, self.result, self.suspects = launch, result, suspects
        self.clustered = launch.config.cluster_blocks > 1
        self.fine = (
            has_fine_synchronisation(kernel.kernel) or self.clustered or launch.config.cooperative or bool(launch.weak)
        )
        """Threads are ordered by more than barriers of the whole block and operations of whole warps."""
        self._pending: list[tuple[int, np.ndarray, bool]] = []
        self._pending_records = 0
        self._records = self._followed = 0
        sites = kernel.kernel.sites
        self._is_checked = np.array([site.kind in _KINDS for site in sites] or [False])
        self._is_access = np.array([site.kind <= SiteKind.ATOMIC for site in sites] or [False])
        self._is_strong = np.array([self.fine and ordering_of(site).strong for site in sites] or [False])
        self._size = np.array([max(1, site.size) for site in sites] or [1], np.int64)
        touched = suspects.touched if suspects is not None else None
        self._initialised = InitialisationCheck(kernel.kernel, kernel.module.memory, touched)
        self._between_blocks = InterBlockRaces(kernel.kernel)
        self._unit = unit_of(kernel.kernel)
        clusters = Clusters(launch.config.grid, launch.config.cluster or (1, 1, 1))
        self._detector = (
            VectorClockDetector(kernel.kernel, launch.threads, clusters=clusters, unit=self._unit, weak=launch.weak)
            if self.fine
            else None
        )
        self._wording = Wording(launch.launch)
        self._all_ended = True
        self._races: list[tuple[RaceFound, bool]] = []
        self._uninitialised: list[UninitialisedRead] = []
        self._racing: set[tuple[int, int]] = set()
        """Block (-1 for global memory) and address of each conflict."""
        self._blocks_interact = _blocks_interact(launch)
        self._read_only = ReadOnlyLoads(kernel.kernel, launch.threads)
        self._escaped = EscapedLocals(kernel.kernel)
        copies = self.fine and any(site.semantics.asynchronous for site in sites)
        self._parts: list[tuple[int, np.ndarray]] | None = [] if copies and not self._blocks_interact else None
        """Blocks and their records, where it takes all of them to tell the locations that have to be followed."""
        self._deadline = math.inf

    # -- traces --------------------------------------------------------------------------------------------------------

    def add_block(self, trace: BlockTrace, tracer: Tracer) -> bool:
        """Add one block's trace; False when the launch should not go on."""
        launch, result = self.launch, self.result
        if self.suspects is None:
            result.blocks += 1
            if trace.status == Status.FAULT:
                fault = trace.explained or from_context(tracer.context, launch.launch, trace.fault)
                if "memcheck" in launch.tools or fault.rule == "deadlock":
                    result.add(fault.finding)
            elif trace.timed_out:
                fault = time_limit_fault(tracer.context, launch.launch, launch.time_limit)
                result.add(fault.finding)
        if trace.lost:
            result.note(notes.block_too_long(trace.block, len(trace.records)))
        if self._records >= MOST_RECORDS:
            result.note(notes.LAUNCH_TOO_LARGE)
            return self.suspects is None and not trace.timed_out
        self._records += len(trace.records)
        if "racecheck" in launch.tools and self._read_only.wanted:
            self._read_only.add(trace.block, trace.records)
        if "memcheck" in launch.tools and self._escaped.wanted:
            self._escaped.add(trace.block, trace.records)
        self._all_ended = self._all_ended and trace.status == Status.DONE
        records = self._chosen(trace.records, np.zeros(launch.threads, np.int64))
        if self._parts is not None:
            if self._followed <= MOST_FOLLOWED:
                self._parts.append((trace.block, records))
            else:
                self.result.note(notes.RACES_IN_FIRST_BLOCKS)
            self._followed += len(records)
        elif self._detector is not None and not self._blocks_interact:
            self._follow(trace.block, records)
        records = self._without_strong(records)
        self._pending.append((trace.block, records, trace.complete))
        self._pending_records += len(records)
        if self._pending_records >= BATCH_RECORDS:
            self._check_batch()
        return not trace.timed_out

    def _chosen(self, records: np.ndarray, before: np.ndarray) -> np.ndarray:
        """What orders threads, and the accesses to check, as ``TIMED`` records."""
        site = records["site"]
        wanted = self._is_checked[site]
        if self.suspects is not None:
            wanted = wanted & (~self._unsuspected(records, self.suspects) | self._is_strong[site])
        return timed(records, wanted, before)

    def _without_strong(self, records: np.ndarray) -> np.ndarray:
        """Without accesses to other granules that were kept because they may order threads."""
        if self.suspects is None or not self.fine:
            return records
        kept: np.ndarray = records[~self._unsuspected(records, self.suspects)]
        return kept

    def _unsuspected(self, records: np.ndarray, suspects: Suspects) -> np.ndarray:
        """Which records are accesses that touch no suspect granule."""
        site = records["site"]
        access = self._is_access[site] & (records["flags"] & 15 == 0)
        found: np.ndarray = access & ~suspects.touched(records["address"].astype(np.int64), self._size[site])
        return found

    def _follow_interleaved(self, tracer: Tracer) -> None:
        """All blocks have run concurrently: follow the accesses to candidate locations in the order of the trace."""
        steps: dict[int, np.ndarray] = {}
        parts: list[tuple[int, np.ndarray]] = []
        length = 0
        for block, records in tracer.sequence:
            before = steps.setdefault(block, np.zeros(self.launch.threads, np.int64))
            parts.append((block, self._chosen(records, before)))
            length += len(parts[-1][1])
            if length > MOST_FOLLOWED:
                break
        self._follow_parts(parts)
        if len(parts) < len(tracer.sequence):
            self.result.note(notes.RACES_IN_FIRST_BLOCKS)

    def _follow_parts(self, parts: list[tuple[int, np.ndarray]]) -> None:
        """Follow the accesses to candidate locations of these records."""
        candidates = None
        if parts and not self.clustered:
            candidates = candidate_locations(
                parts, self.launch.kernel.kernel, self.launch.threads, self._unit, self.launch.weak
            )
        self._followed = 0
        for block, records in parts:
            self._follow(block, records, candidates[block] if candidates is not None else None)

    def _follow(self, block: int, records: np.ndarray, candidates: Candidates | None = None) -> None:
        if self._followed > MOST_FOLLOWED:
            self.result.note(notes.RACES_IN_FIRST_BLOCKS)
            return
        self._followed += len(records)
        assert self._detector is not None
        if self._deadline == math.inf:
            self._deadline = time.monotonic() + self.launch.time_limit
        if not self._detector.follow(block, records, candidates, self._deadline):
            self._followed = MOST_FOLLOWED + 1
            self.result.note(notes.races_until(self.launch.time_limit))

    def finish(self, tracer: Tracer) -> None:
        """All blocks have run: check what is left, and report."""
        launch = self.launch
        if self._detector is not None and self._blocks_interact and "racecheck" in launch.tools:
            self._follow_interleaved(tracer)
        if self._parts is not None and "racecheck" in launch.tools:
            self._follow_parts(self._parts)
        self._check_batch()
        if "racecheck" in launch.tools:
            if self._detector is not None:
                self._add_conflicts(self._detector.conflicts)
                if "initcheck" in launch.tools:
                    self._add_early_polls(self._detector)
            else:
                self._races += [(race, True) for race in self._between_blocks.races()]
                if not self._between_blocks.complete:
                    self.result.note(notes.TOO_MUCH_MEMORY)
            for race, between in self._races:
                self.result.add(self._wording.race(race, between_blocks=between))
        for read in self._uninitialised:
            if read.space == Space.SHARED and self.clustered:
                continue  # other blocks of the cluster may have written it
            if (read.block if read.space == Space.SHARED else -1, read.address) not in self._racing:
                self.result.add(self._wording.uninitialised(read))
        self._add_undefined(tracer)
        for misread in self._read_only.find():
            self.result.add(self._wording.read_only_load(misread))
        for misread in self._escaped.find():
            self.result.add(self._wording.escaped_local(misread))
        if launch.kernel.kernel.uses_heap and self._all_ended and "memcheck" in launch.tools:
            for leak in find_leaks(launch.kernel.module.memory):
                self.result.add(self._wording.leak(leak))

    def _add_early_polls(self, detector: VectorClockDetector) -> None:
        """Add loops that wait for a flag which has no value yet."""
        found: dict[int, list[tuple[int, int, int]]] = {}
        for (site, _), example in detector.early_polls.items():
            found.setdefault(site, []).append(example)
        for site, examples in found.items():
            block, thread, address = examples[0]
            self._uninitialised.append(UninitialisedRead(Space.SHARED, site, block, thread, address, len(examples)))

    def _add_undefined(self, tracer: Tracer) -> None:
        """Add uses of undefined values."""
        followed = tracer.shadow.followed if tracer.shadow is not None else None
        if followed is None:
            return
        if followed.too_large:
            self.result.note(notes.VALUES_NOT_FOLLOWED)
        if "synccheck" in self.launch.tools:
            for lane in followed.absent_lanes():
                self.result.add(self._wording.absent_lane(lane))
        if "initcheck" in self.launch.tools:
            for load in followed.unwritten_locals():
                self.result.add(self._wording.unwritten_local(load))

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check_batch(self) -> None:
        if not self._pending:
            return
        blocks, records, complete = zip(*self._pending, strict=True)
        self._pending, self._pending_records = [], 0
        if not sum(len(part) for part in records):
            return
        launch, kernel = self.launch, self.launch.kernel.kernel
        batch = make_batch(kernel, blocks, records, complete, launch.threads)
        if "racecheck" in launch.tools and self._detector is None:
            if batch.partial.any() or batch.named:  # named barriers or partial masks: vector clocks, block by block
                for block, own in zip(blocks, records, strict=True):
                    detector = VectorClockDetector(kernel, launch.threads, unit=self._unit, weak=launch.weak)
                    detector.follow(block, own)
                    self._add_conflicts(detector.conflicts)
            else:
                self._races += [(race, False) for race in find_races(batch, kernel)]
            self._between_blocks.add(batch)
        if "initcheck" in launch.tools:
            times = batch.epoch
            if self.fine or batch.named:
                # Epochs count barriers of the whole block only. What is written too late is left to racecheck then, and
                # only what nobody ever writes is reported.
                batch.epoch = np.zeros_like(times)
            self._uninitialised += self._initialised.check(batch)
            batch.epoch = times
        if "synccheck" in launch.tools:
            for error in find_sync_errors(batch, kernel, launch.threads):
                self.result.add(self._wording.sync(error))

    def _add_conflicts(self, conflicts: list[Conflict]) -> None:
        """Turn conflicts into races: one for each pair of sites, in program order."""
        kernel = self.launch.kernel.kernel
        threads = self.launch.threads
        groups: dict[tuple[str, int, int, bool, bool], list[Conflict]] = {}
        for conflict in conflicts:
            between = conflict.first[0] != conflict.second[0]
            shared = SHARED_WINDOW <= conflict.address < SHARED_WINDOW + WINDOW_SIZE
            self._racing.add((conflict.first[0] if shared else -1, conflict.address))
            writes = [kernel.sites[site].writes for site in (conflict.first_site, conflict.second_site)]
            swap = writes[1] and not writes[0] if between else conflict.second_step < conflict.first_step
            if swap:
                conflict = conflict.reversed()
                writes.reverse()
            hazard = "WAW" if all(writes) else "RAW" if writes[0] else "WAR"
            key = (hazard, conflict.first_site, conflict.second_site, shared, between)
            groups.setdefault(key, []).append(conflict)
        for (hazard, first_site, second_site, shared, between), found in groups.items():
            example = found[0]
            race = RaceFound(
                hazard,
                Space.SHARED if shared else Space.GLOBAL,
                first_site,
                second_site,
                (example.first[0], example.first[1] % threads),
                (example.second[0], example.second[1] % threads),
                example.address,
                kernel.sites[first_site].size,
                len({(each.first[0], each.address) for each in found}),
                asynchronous=max(example.first[1], example.second[1]) >= threads,
            )
            self._races.append((race, between))
