"""The exact look at a launch: its trace, record by record.

The launch runs in traced code, which skips accesses that are not allowed. With suspects (what native code did not see
to be in order) only the accesses to those bytes are kept, with everything that orders threads; without, all are.

Kernels that know no other order than barriers of the whole block and operations of whole warps are checked in batches
of blocks, with array operations (``racecheck.py``); where there is more, by vector clocks (``order.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE, SiteKind, Space, Status
from cudalab.sim.machine.reports.faults import from_context, time_limit_fault
from cudalab.sim.machine.reports.wording import Wording
from cudalab.sim.machine.sanitizer.checked_launch import Checked, Launch, add_misses
from cudalab.sim.machine.sanitizer.conflicts import Places, contested_places
from cudalab.sim.machine.sanitizer.happens_before.vector_clocks import Conflict, LaunchOrder
from cudalab.sim.machine.sanitizer.initcheck import InitialisationCheck, UninitialisedRead
from cudalab.sim.machine.sanitizer.racecheck import BlockRaces, Race, find_races
from cudalab.sim.machine.sanitizer.scopes import Clusters, meaning, orders_finely
from cudalab.sim.machine.sanitizer.synccheck import find_sync_errors
from cudalab.sim.machine.trace.batch import make_batch, timed, unit_of
from cudalab.sim.machine.trace.recorder import Tracer

if TYPE_CHECKING:
    from cudalab.sim.machine.sanitizer.shadow_cells import Attached
    from cudalab.sim.machine.trace.recorder import BlockTrace

BATCH_RECORDS = 1 << 19
BLOCK_RECORDS = 1 << 22
MOST_RECORDS = 24 << 20
"""Records made in one launch; what comes after is not looked at."""
LARGE = 1 << 20
"""Threads of a launch from which on blocks with suspects come first, because records may not suffice for all."""
MOST_FOLLOWED = 3 << 20
"""Records that are followed by vector clocks."""
_FIRST_ONLY = "the launch is very large; races were looked for in its first blocks only"
_KINDS = (
    SiteKind.LOAD,
    SiteKind.STORE,
    SiteKind.ATOMIC,
    SiteKind.BARRIER,
    SiteKind.WARP,
    SiteKind.FENCE,
    SiteKind.SYNC,
)


@dataclass(frozen=True)
class Suspects:
    """What native code did not see to be in order."""

    places: np.ndarray
    """Sorted addresses of granules (generic; those of shared memory for all blocks)."""
    shared_bytes: int
    global_bytes: int
    """Bytes of a granule."""
    blocks: np.ndarray
    """Blocks in which it was seen."""
    odd: bool
    complete: bool

    @classmethod
    def of(cls, shadow: Attached, tools: Iterable[str]) -> Suspects:
        """Those that matter to the tools asked for."""
        found = shadow.suspects
        wanted = np.zeros(len(found), np.bool_)
        if "racecheck" in tools:
            wanted |= found["kind"] == 0
        if "initcheck" in tools:
            wanted |= found["kind"] == 1
        found = found[wanted]
        return cls(
            np.unique(found["address"].astype(np.int64)),
            1 << shadow.race.shared_shift,
            1 << shadow.race.shift,
            np.unique(found["block"].astype(np.int64)),
            shadow.odd and "synccheck" in tools,
            shadow.complete,
        )

    @property
    def any(self) -> bool:
        return bool(len(self.places)) or self.odd

    def touched(self, address: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Which accesses touch one of the granules."""
        shared = address < LOCAL_WINDOW
        bytes_ = np.where(shared, self.shared_bytes, self.global_bytes)
        low = np.searchsorted(self.places, address & -bytes_)
        return np.searchsorted(self.places, address + size) > low


def inspect(launch: Launch, checked: Checked, suspects: Suspects | None = None) -> None:
    """Look at a launch and add what is found to ``checked``. With suspects, native code has been there before: it has
    reported faults, and only the accesses to those bytes are looked at."""
    checked.exact = True
    run = _Inspection(launch, checked, suspects)
    order: list[int] = launch.order_of_blocks().astype(np.int64).tolist()
    large = launch.blocks * launch.threads > LARGE
    if large and suspects is not None and not run.fine and launch.seed is None:
        first = suspects.blocks.tolist()
        chosen = set(first)
        order = [*first, *(index for index in order if index not in chosen)]
    kernel = launch.kernel
    with Tracer(
        kernel,
        launch.grid,
        launch.block,
        launch.args,
        launch.shared,
        records=BLOCK_RECORDS,
        seed=launch.seed,
        variant="sanitize_trace",
        together=launch.together,
    ) as tracer:
        if _runs_together(launch):
            most = min(MOST_RECORDS, BLOCK_RECORDS * launch.blocks)
            together = tracer.run_together(
                order, order, time_limit=launch.time_limit, most=most, survive=True, limits=launch.limits
            )
            if tracer.stuck is not None:
                if any(trace.status == Status.FAULT for trace in together):
                    checked.note("blocks that wait for one which ended with a fault could not go on")
                else:
                    checked.add(tracer.stuck.finding)
            traces: Iterable[BlockTrace] = together
        else:
            traces = (tracer.run(index, time_limit=launch.time_limit) for index in order)
        for trace in traces:
            if not run.take(trace, tracer):
                break
        if suspects is None:
            assert tracer.shadow is not None
            if "memcheck" in launch.tools:
                add_misses(launch, checked, tracer.context, tracer.shadow)
        run.finish(tracer)


def _runs_together(launch: Launch) -> bool:
    """May blocks wait for each other?"""
    return bool(launch.kernel.kernel.poll_points) or launch.cluster != (1, 1, 1) or launch.together.cooperative


class _Inspection:
    """Collects traces, checks them, and puts findings into words."""

    def __init__(self, launch: Launch, checked: Checked, suspects: Suspects | None) -> None:
        kernel = launch.kernel
        self.launch, self.checked, self.suspects = launch, checked, suspects
        self.clustered = launch.cluster != (1, 1, 1)
        self.fine = orders_finely(kernel.kernel) or self.clustered or launch.together.cooperative
        """Threads are ordered by more than barriers and whole warps."""
        self._pending: list[tuple[int, np.ndarray, bool]] = []
        self._pending_records = 0
        self._records = self._followed = 0
        sites = kernel.kernel.sites
        self._looked_at = np.array([site.kind in _KINDS for site in sites] or [False])
        self._is_access = np.array([site.kind <= SiteKind.ATOMIC for site in sites] or [False])
        self._is_flag = np.array([self.fine and meaning(site).strong for site in sites] or [False])
        self._size = np.array([max(1, site.size) for site in sites] or [1], np.int64)
        touched = suspects.touched if suspects is not None else None
        self._initialised = InitialisationCheck(kernel.kernel, kernel.module.memory, touched)
        self._between = BlockRaces(kernel.kernel)
        self._unit = unit_of(kernel.kernel)
        clusters = Clusters(launch.grid, launch.cluster)
        self._order = (
            LaunchOrder(kernel.kernel, launch.threads, clusters=clusters, unit=self._unit) if self.fine else None
        )
        self._wording = Wording(kernel, launch.grid, launch.block)
        self._races: list[tuple[Race, bool]] = []
        self._unset: list[UninitialisedRead] = []
        self._raced: set[tuple[int, int]] = set()
        self._together = _runs_together(launch)

    # -- traces --------------------------------------------------------------------------------------------------------

    def take(self, trace: BlockTrace, tracer: Tracer) -> bool:
        """Take one block's trace; False when the launch should not go on."""
        launch, checked = self.launch, self.checked
        if self.suspects is None:
            checked.blocks += 1
            if trace.status == Status.FAULT:
                fault = trace.explained or from_context(
                    tracer.context, launch.kernel, launch.grid, launch.block, launch.args, trace.fault
                )
                if "memcheck" in launch.tools or fault.rule == "deadlock":
                    checked.add(fault.finding)
            elif trace.timed_out:
                fault = time_limit_fault(tracer.context, launch.kernel, launch.grid, launch.block, launch.time_limit)
                checked.add(fault.finding)
        if trace.lost:
            checked.note(
                f"block {trace.block} did more than could be recorded; "
                f"its first {len(trace.records)} events were checked"
            )
        if self._records >= MOST_RECORDS:
            checked.note(
                "the launch is very large; races, initialisation and barriers were checked in its first blocks only"
            )
            return self.suspects is None and not trace.timed_out
        self._records += len(trace.records)
        records = self._chosen(trace.records, np.zeros(launch.threads, np.int64))
        if self._order is not None and not self._together:
            self._follow(trace.block, records)
        records = self._without_flags(records)
        self._pending.append((trace.block, records, trace.complete))
        self._pending_records += len(records)
        if self._pending_records >= BATCH_RECORDS:
            self._check_batch()
        return not trace.timed_out

    def _chosen(self, records: np.ndarray, before: np.ndarray) -> np.ndarray:
        """What orders threads, and accesses that are to be looked at, as ``TIMED`` records."""
        site = records["site"]
        wanted = self._looked_at[site]
        if self.suspects is not None:
            plain = self._is_access[site] & (records["flags"] & 15 == 0)
            touched = self.suspects.touched(records["address"].astype(np.int64), self._size[site])
            wanted = wanted & (touched | ~plain | self._is_flag[site])
        return timed(records, wanted, before)

    def _without_flags(self, records: np.ndarray) -> np.ndarray:
        """Accesses that were kept only because they may order threads are none of the suspects."""
        if self.suspects is None or not self.fine:
            return records
        site = records["site"]
        plain = self._is_access[site] & (records["flags"] & 15 == 0)
        return records[~plain | self.suspects.touched(records["address"].astype(np.int64), self._size[site])]

    def _follow_together(self, tracer: Tracer) -> None:
        """All blocks have run side by side: follow what happened, where it may matter."""
        steps: dict[int, np.ndarray] = {}
        parts: list[tuple[int, np.ndarray]] = []
        length = 0
        for block, records in tracer.sequence:
            before = steps.setdefault(block, np.zeros(self.launch.threads, np.int64))
            parts.append((block, self._chosen(records, before)))
            length += len(parts[-1][1])
            if length > MOST_FOLLOWED:
                break
        places = None
        if parts and not self.clustered:
            places = contested_places(parts, self.launch.kernel.kernel, self.launch.threads, self._unit)
        for block, records in parts:
            self._follow(block, records, places[block] if places is not None else None)
        if len(parts) < len(tracer.sequence):
            self.checked.note(_FIRST_ONLY)

    def _follow(self, block: int, records: np.ndarray, places: Places | None = None) -> None:
        if self._followed > MOST_FOLLOWED:
            self.checked.note(_FIRST_ONLY)
            return
        self._followed += len(records)
        assert self._order is not None
        self._order.follow(block, records, places)

    def finish(self, tracer: Tracer) -> None:
        """All blocks have run: check what is left, and report."""
        launch = self.launch
        if self._order is not None and self._together and "racecheck" in launch.tools:
            self._follow_together(tracer)
        self._check_batch()
        if "racecheck" in launch.tools:
            if self._order is not None:
                self._take_conflicts(self._order.conflicts)
            else:
                self._races += [(race, True) for race in self._between.races()]
                if not self._between.complete:
                    self.checked.note(
                        "the launch touches too much memory to compare all blocks; races between blocks may be missed"
                    )
            for race, between in self._races:
                self.checked.add(self._wording.race(race, between_blocks=between))
        for read in self._unset:
            if read.space == Space.SHARED and self.clustered:
                continue  # other blocks of the cluster may have written it
            if (read.block if read.space == Space.SHARED else -1, read.address) not in self._raced:
                self.checked.add(self._wording.uninitialised(read))

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
        if "racecheck" in launch.tools and self._order is None:
            if batch.partial.any() or batch.named:  # barriers and masks for some threads: block by block, exactly
                for block, own in zip(blocks, records, strict=True):
                    order = LaunchOrder(kernel, launch.threads, unit=self._unit)
                    order.follow(block, own)
                    self._take_conflicts(order.conflicts)
            else:
                self._races += [(race, False) for race in find_races(batch, kernel)]
            self._between.add(batch)
        if "initcheck" in launch.tools:
            times = batch.epoch
            if self.fine or batch.named:
                # barriers of some threads do not count the time of the block: what comes before what is left to the
                # race check, and only what nobody ever wrote is reported
                batch.epoch = np.zeros_like(times)
            self._unset += self._initialised.check(batch)
            batch.epoch = times
        if "synccheck" in launch.tools:
            for error in find_sync_errors(batch, kernel, launch.threads):
                self.checked.add(self._wording.sync(error))

    def _take_conflicts(self, conflicts: list[Conflict]) -> None:
        """Conflicts as races: one for each pair of lines, named by the order of the code."""
        kernel = self.launch.kernel.kernel
        threads = self.launch.threads
        groups: dict[tuple[str, int, int, bool, bool], list[Conflict]] = {}
        for conflict in conflicts:
            between = conflict.first[0] != conflict.second[0]
            shared = SHARED_WINDOW <= conflict.address < SHARED_WINDOW + WINDOW_SIZE
            self._raced.add((conflict.first[0] if shared else -1, conflict.address))
            writes = [kernel.sites[site].kind != SiteKind.LOAD for site in (conflict.first_site, conflict.second_site)]
            swap = writes[1] and not writes[0] if between else conflict.second_step < conflict.first_step
            if swap:
                conflict = Conflict(
                    conflict.address,
                    conflict.second,
                    conflict.first,
                    conflict.second_site,
                    conflict.first_site,
                    conflict.second_step,
                    conflict.first_step,
                )
                writes.reverse()
            hazard = "WAW" if all(writes) else "RAW" if writes[0] else "WAR"
            key = (hazard, conflict.first_site, conflict.second_site, shared, between)
            groups.setdefault(key, []).append(conflict)
        for (hazard, first_site, second_site, shared, between), found in groups.items():
            example = found[0]
            race = Race(
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
