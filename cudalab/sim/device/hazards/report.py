"""The hazard report: an observer that finds unordered operations on the same bytes.

It follows every operation from its stream's queue to its end. When it is enqueued, it gets its place in the order
(clocks.py); when it has ended, the bytes that it touched are compared with what others touched (accesses.py). Two that
nothing orders, one of them writing, make a hazard. The order is what the program asks for, never the modelled time: a
program that gets away with a missing wait is reported, too.

Reports warn and never raise. Each pair of lines is shown once, and counted.

What is simplified: a kernel's bytes are exact when more than one stream is in use (or the host can see the memory),
because noting them takes time; a kernel that ran while there was one stream only is left out. Bytes that a kernel
touches by atomics only are no hazard to other atomics on them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.sim.device.caller import UNKNOWN, Place
from cudalab.sim.device.hazards import advice
from cudalab.sim.device.hazards.accesses import ATOMIC, READ, WRITE, Accesses, Collisions, Ledger
from cudalab.sim.device.hazards.clocks import Clocks, Stamp, joined_clocks
from cudalab.sim.device.hazards.footprints import NO_RUNS, Footprints, Part, Placement, key_of
from cudalab.sim.device.hazards.hazard import DEPENDENT_RULE, Hazard, HazardWarning, Kind, Party, name_of
from cudalab.sim.device.hazards.host import HostSide, Shared, Touch, Watch
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.queue.byte_ranges import NOTHING, Runs, StridedRange, Touched, end_of, runs_of
from cudalab.sim.device.queue.host_function import running as running_host_function
from cudalab.sim.device.queue.kernel_launch import KernelOperation
from cudalab.sim.device.queue.operation import Operation, Stream
from cudalab.sim.machine.memory.allocations import Memory

if TYPE_CHECKING:
    from cudalab.sim.device.declaration import Call

_MOST_PLACEMENTS = 1024
_VERBS = {READ: "reads", WRITE: "writes", ATOMIC: "changes"}


class HazardReport(Observer):
    """Finds hazards on one device.

    ``several()`` says whether the program has more streams than one; ``watch`` tells of the host's accesses.
    """

    def __init__(self, memory: Memory, several: Callable[[], bool], watch: Watch | None = None) -> None:
        self.hazards: list[Hazard] = []
        """One a pair of lines, in the order in which they were found."""
        self.sightings = 0
        """How often two accesses met without an order; goes on counting for pairs of lines that are known."""
        self.without_lines = False
        """In a replay the program's lines are not known; operations are then told apart by their streams."""
        self._memory = memory
        self._several = several
        self._clocks = Clocks()
        self._accesses = Accesses(memory)
        self._host = HostSide(self._clocks, watch, self._met_host)
        self._known: dict[tuple[object, ...], Hazard] = {}
        self._fresh: list[Hazard] = []
        self._shared_memory = False
        self._footprints = Footprints()
        self._placements: dict[Touched, Placement] = {}
        """Of what copies and the like touch, which say it when they are enqueued."""
        self._launches: dict[Stamp, KernelOperation] = {}
        """Kernels in flight of which it is not known what they will touch."""
        self._early: dict[Stamp, Stamp] = {}
        """Of dependent launches: the part before their wait."""
        self._order_made = False
        self._empty_waits: list[tuple[Place, int]] = []

    def since(self, sighting: int) -> list[Hazard]:
        """The hazards that were seen after the count ``sightings`` was this."""
        return [hazard for hazard in self.hazards if hazard.last_seen > sighting]

    # -- what is told --------------------------------------------------------------------------------------------------

    def called(self, call: Call, place: Place, start: int, end: int) -> None:
        if call.orders_streams:
            if not self._order_made:
                self._empty_waits = [*self._empty_waits[-7:], (place, self._clocks.sequence)]
            self._order_made = False
        elif call.allocates is not None and call.allocates.host_visible:
            self._shared_memory = True
        if self._fresh:
            self.warn()

    def enqueued(self, operation: Operation, waits: Sequence[tuple[Operation, str]]) -> None:
        stamp = self._clocks.enqueue(operation, waits)
        work = operation.work
        placement: Placement | None = work.placement
        if placement is not None and placement.versions == (self._memory.version, self._accesses.version):
            if operation.prerequisite is None and not operation.decided_late:
                stamp.parts, stamp.runs = placement.parts, placement.runs
                if placement.watched:
                    self._host.expect(stamp, placement.shared)
                return
        touched = operation.touched()
        if touched is NOTHING:
            if operation.work.acquires_event:
                self._order_made = True
            return
        if touched is None:
            assert isinstance(operation, KernelOperation)
            if operation.prerequisite is not None:
                self._dependent(operation, stamp, operation.prerequisite)
            else:
                self._launched(operation, stamp)
            return
        placement = self._placements.get(touched)
        if placement is None or placement.versions != (self._memory.version, self._accesses.version):
            if len(self._placements) >= _MOST_PLACEMENTS:
                self._placements.clear()
            parts = ((kind, ranges, NO_RUNS) for kind, ranges in enumerate(touched))  # READ, WRITE, ATOMIC
            placement = self._placements[touched] = self._place(parts)
        if work.is_reissued:
            work.placement = placement
        stamp.parts = placement.parts
        if placement.watched:
            self._host.expect(stamp, placement.shared)

    def _dependent(self, launch: KernelOperation, stamp: Stamp, primary: Operation) -> None:
        """A dependent launch: what it touches before its wait is not ordered behind the primary. So that has to be
        noted each time."""
        early = self._clocks.enqueue_early(launch, primary)
        if early is not None:
            self._early[stamp] = early
        launch.wants_footprint = partial(self._wants_footprint, stamp)
        self._launches[stamp] = launch

    def _launched(self, launch: KernelOperation, stamp: Stamp) -> None:
        known = self._footprints.of(launch.kernel)
        key = key_of(launch)
        placement = known.placements.get(key)
        if launch.decided_late:
            placement = None
        elif placement is None or placement.versions != (self._memory.version, self._accesses.version):
            parts = known.launches.get(key)
            if parts is not None:
                placement = known.placements[key] = self._place(parts, launch)
        if placement is not None:
            launch.work.placement = placement
            stamp.parts, stamp.runs = placement.parts, placement.runs
            if placement.watched:
                self._host.expect(stamp, placement.shared)
            return
        launch.wants_footprint = partial(self._wants_footprint, stamp)
        self._launches[stamp] = launch
        if not self._shared_memory or launch.kernel.kernel.orders_accesses:
            return
        writes = launch.kernel.writes_global
        reach = ((start, size, self._accesses.ledger(start)) for start, size in launch.may_touch())
        shared = tuple(
            Shared(start, start + size, writes) for start, size, ledger in reach if ledger is not None and ledger.shared
        )
        if shared:
            self._host.expect(stamp, shared)

    def _place(
        self, footprint: Iterable[tuple[int, Iterable[StridedRange], Runs]], launch: KernelOperation | None = None
    ) -> Placement:
        """A footprint, of a launch or of other work, with the ledgers it belongs to."""
        parts: list[Part] = []
        many: list[tuple[Ledger, int, Runs]] = []
        shared: list[Shared] = []
        for kind, ranges, runs in footprint:
            for extent in ranges:
                ledger = self._accesses.ledger(extent[0])
                if ledger is not None:
                    parts.append((ledger, kind, extent))
                    if ledger.shared and kind != ATOMIC:
                        shared.append(_shared(ledger, kind, extent))
            if len(runs) and (ledger := self._accesses.ledger(int(runs[0, 0]))) is not None:
                many.append((ledger, kind, runs))
        shared += [
            Shared(int(runs[0, 0]), min(int(runs[-1, 1]), ledger.end), kind != READ)
            for ledger, kind, runs in many
            if ledger.shared and kind != ATOMIC
        ]
        watched = bool(shared) and not (launch is not None and launch.kernel.kernel.orders_accesses)
        return Placement(parts, many, tuple(shared), watched, (self._memory.version, self._accesses.version))

    def _wants_footprint(self, stamp: Stamp) -> bool:
        return stamp.visible is not None or self._clocks.streams > 1 or self._several()

    def ordered(self, stream: Stream, operation: Operation) -> None:
        self._order_made = True
        self._clocks.order(stream, operation)

    def absorbed(self, operations: Sequence[Operation], into: Operation) -> None:
        self._clocks.absorb(operations, into)

    def captured_order(self) -> None:
        self._order_made = True

    def ended(self, operation: Operation) -> None:
        stamp: Stamp | None = operation.stamp
        if stamp is None or stamp.generation != self._clocks.generation:
            return
        if stamp.line.late is not None:
            stamp.clock = joined_clocks(stamp.clock, stamp.line.late)
        if stamp.parts is not None:
            self._enter(stamp)
            if stamp.work.frees_memory:
                self._freed(stamp)
        elif (launch := self._launches.pop(stamp, None)) is not None:
            touched = operation.touched()
            if (early := self._early.pop(stamp, None)) is not None:
                self._ended_early(launch, early)
            if touched is not None:
                placement = self._place(self._footprints.take(launch, touched, self._accesses.split))
                stamp.parts, stamp.runs = placement.parts, placement.runs
                self._enter(stamp)
                for touch in stamp.touches or ():
                    self._met_host(stamp, touch)
        self._clocks.end(stamp)
        if stamp.work.waits_for_value:
            self._clocks.late(operation.stream)

    def failed(self, operation: Operation) -> None:
        """What the operation was to touch may have been freed by work that nothing orders before it."""
        stamp: Stamp | None = operation.stamp
        if stamp is None or stamp.generation != self._clocks.generation:
            return
        if stamp.parts is not None:
            self._enter(stamp)
        elif (launch := self._launches.get(stamp)) is not None:
            for ledger in self._accesses.freed():
                if launch.points_into(ledger.start, ledger.end):
                    found: Collisions = {}
                    ledger.enter(ledger.start, ledger.end, (stamp, READ), found)
                    self._collided(stamp, READ, found)

    def _ended_early(self, launch: KernelOperation, early: Stamp) -> None:
        """What a dependent launch touched before its wait, compared with what others touched."""
        if launch.touched_early is not None:
            split = self._accesses.split
            placement = self._place(self._footprints.parts(launch.touched_early, split))
            early.parts, early.runs = placement.parts, placement.runs
            self._enter(early)
        self._clocks.end(early)

    def _enter(self, stamp: Stamp) -> None:
        """The operation has ended: compare what it touched with what others touched."""
        found: Collisions = {}
        for ledger, kind, extent in stamp.parts:
            if extent[2]:
                self._accesses.enter(stamp, kind, ledger, extent, found)
            else:
                start = extent[0]
                end = start + extent[1]
                ledger.enter(start, end if end < ledger.end else ledger.end, (stamp, kind), found)
            if found:
                self._collided(stamp, kind, found)
                found = {}
        self._accesses.entered += len(stamp.parts)
        for ledger, kind, runs in stamp.runs:
            self._accesses.enter_runs(stamp, kind, ledger, runs, found)
            if found:
                self._collided(stamp, kind, found)
                found = {}
        if self._accesses.crowded:
            self._accesses.prune(self._clocks.floor())

    def host_waited(self, operation: Operation | None) -> None:
        clocks = self._clocks
        if operation is None:
            if not clocks.in_flight:
                self._forget()
            return
        if clocks.host_waited(operation):
            self._host_acquired()

    def host_waited_for_stream(self, stream: Stream) -> None:
        if self._clocks.host_waited_for_stream(stream):
            self._host_acquired()

    def host_waited_for_device(self, number: int) -> None:
        if self._clocks.host_waited_for_device(number):
            self._host_acquired()

    def _host_acquired(self) -> None:
        if not self._clocks.in_flight and self._clocks.host_acquired_all:
            self._forget()
        elif self._host.busy:
            self._host.waited()

    def reset(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Whatever comes is ordered behind all that was."""
        self._clocks.forget()
        self._accesses.clear()
        if self._host.busy:
            self._host.clear()
        self._launches.clear()
        self._early.clear()
        self._placements.clear()
        self._empty_waits.clear()

    # -- what is found -------------------------------------------------------------------------------------------------

    def _collided(self, stamp: Stamp, kind: int, found: Collisions) -> None:
        for (other, how), (start, _, size) in found.items():
            pair = sorted(((stamp, kind), (other, how)), key=lambda entry: entry[0].sequence)
            (first, one), (second, two) = pair
            if first.work.frees_memory or second.work.frees_memory:
                what = Kind.FREE
            elif one == READ:
                what = Kind.WAR
            else:
                what = Kind.RAW if two == READ else Kind.WAW
            self._found_pair(what, first, one, second, two, start, size)

    def _found_pair(self, what: Kind, first: Stamp, one: int, second: Stamp, two: int, address: int, size: int) -> None:
        before, after = self._party(first, one), self._party(second, two)
        key = (*_line(before), *_line(after))
        if self._seen(key, (first.sequence, second.sequence)):
            return
        empty = [place for place, sequence in self._empty_waits if sequence < second.sequence]
        notes = advice.notes(first, second, empty)
        notes += [
            f"The wait in {place} orders nothing: its event had not been recorded when it was called."
            for place in empty
        ]
        wait = advice.between_streams(first, second, before, after, what)
        rule = ""
        if second.beside is not None and second.beside is first.line:
            rule, wait = DEPENDENT_RULE, advice.for_dependent(before, after)
        self._add(key, Hazard(what, before, after, address, size, self._describe(address, size), wait, notes, rule))

    def _freed(self, stamp: Stamp) -> None:
        """Memory is gone: copies, memsets and kernels in flight that were given its address will fail, perhaps without
        an end."""
        ((ledger, _, _),) = stamp.parts
        for other in [other for line in self._clocks.lines() for other in line.in_flight]:
            if not other.work.works_on_memory or other.before(stamp) or stamp.before(other):
                continue
            how = None
            if other.parts is not None:
                how = next((kind for where, kind, _ in other.parts if where is ledger), None)
            elif other in self._launches and self._launches[other].points_into(ledger.start, ledger.end):
                how = READ
            if how is not None:
                pair = ((stamp, WRITE), (other, how))
                (first, one), (second, two) = pair if stamp.sequence < other.sequence else pair[::-1]
                self._found_pair(Kind.FREE, first, one, second, two, ledger.start, ledger.end - ledger.start)

    @property
    def off_limits(self) -> list[Shared]:
        """The memory that the host, or the host function that runs, must not access at present."""
        function = running_host_function()
        return self._host.off_limits(function.stamp if function is not None else None)

    def host_touched(self, address: int, is_write: bool, place: Place) -> None:
        """The host touched watched memory."""
        function = running_host_function()
        by: Stamp | None = function.stamp if function is not None else None
        self._host.touched(Touch(address, is_write, place, by))
        if self._fresh and by is None:
            self.warn()

    def _met_host(self, stamp: Stamp, touch: Touch) -> None:
        """An operation and the host, unordered, and perhaps on the same bytes."""
        if stamp.parts is None:  # a kernel that has not run
            stamp.touches = [*(stamp.touches or ()), touch]
            return
        for ledger, kind, extent in stamp.parts:
            if _meets(kind, touch) and extent[0] <= touch.address < min(end_of(extent), ledger.end):
                if not extent[2] or _holds(runs_of(extent), touch.address):
                    self._met(stamp, kind, touch)
                    return
        for _, kind, runs in stamp.runs:
            if _meets(kind, touch) and _holds(runs, touch.address):
                self._met(stamp, kind, touch)
                return

    def _met(self, stamp: Stamp, kind: int, touch: Touch) -> None:
        party = self._party(stamp, kind)
        verb = "writes" if touch.is_write else "reads"
        if touch.by is not None:
            host = self._party(touch.by, WRITE if touch.is_write else READ, touch.place)
            pair = sorted(((stamp, kind), (touch.by, WRITE if touch.is_write else READ)), key=lambda e: e[0].sequence)
            (first, one), (second, two) = pair
            what = Kind.WAR if one == READ else Kind.RAW if two == READ else Kind.WAW
            self._found_pair(what, first, one, second, two, touch.address, 1)
            return
        host = Party("the host", verb, touch.place)
        what = Kind.HOST_WRITE if touch.is_write else Kind.HOST_READ
        key = (*_line(party), *_line(host))
        if self._seen(key, (-1, -1)):
            return
        extent = next((entry for _, how, entry in stamp.parts or () if how == kind), None)
        size = extent[0] + extent[1] - touch.address if extent is not None and not extent[2] else 1
        self._add(
            key,
            Hazard(
                what,
                party,
                host,
                touch.address,
                max(1, size),
                self._describe(touch.address, max(1, size)),
                advice.for_host(stamp, party, host),
            ),
        )

    def _party(self, stamp: Stamp, kind: int, place: Place | None = None) -> Party:
        """One of the two, for the report."""
        work = stamp.work
        verb = "frees" if work.frees_memory else _VERBS[kind]
        place = UNKNOWN if self.without_lines else place if place is not None else stamp.place
        whole = stamp.whole or stamp
        stream = whole.line.stream
        node = stream.node_label(whole.number)
        return Party(node or work.title, verb, place, name_of(stream), work.kind, stamp.sequence, of_graph=bool(node))

    def _seen(self, key: tuple[object, ...], pair: tuple[int, int]) -> bool:
        """Is this pair of lines known? Two operations that collide in several ways count once."""
        hazard = self._known.get(key)
        if hazard is not None and hazard.pair == pair and pair[0] >= 0:
            return True
        self.sightings += 1
        if hazard is None:
            return False
        hazard.count += 1
        hazard.last_seen, hazard.pair = self.sightings, pair
        return True

    def _add(self, key: tuple[object, ...], hazard: Hazard) -> None:
        hazard.last_seen = self.sightings
        hazard.pair = hazard.first.sequence, hazard.second.sequence
        self._known[key] = hazard
        self.hazards.append(hazard)
        self._fresh.append(hazard)

    def warn(self) -> None:
        """Show what was found since the last time, as warnings at the second of the two lines."""
        fresh, self._fresh = self._fresh, []
        for hazard in fresh:
            place = hazard.second.place if hazard.second.place.code is not None else hazard.first.place
            warning = HazardWarning(hazard.text)
            warning.hazard = hazard
            try:
                warnings.warn_explicit(warning, HazardWarning, place.file or "<cudalab>", place.line)
            except HazardWarning:
                pass  # a filter that makes warnings errors: a report must not stop the program

    def _describe(self, address: int, size: int) -> str:
        ledger = self._accesses.ledger(address)
        if ledger is None:
            return f"at {address:#x}"
        offset = address - ledger.start
        kind = ledger.allocation.kind if ledger.allocation is not None else "registered host"
        label = f" ({ledger.allocation.label})" if ledger.allocation is not None and ledger.allocation.label else ""
        return (
            f"from byte {offset} of the {ledger.end - ledger.start}-byte {kind} allocation at {ledger.start:#x}{label}"
        )


def _shared(ledger: Ledger, kind: int, extent: StridedRange) -> Shared:
    """What of memory that the host can touch without a call an operation may touch."""
    start, width, pairs = extent
    end = end_of(extent) if pairs else start + width
    return Shared(start, end if end < ledger.end else ledger.end, kind != READ)


def _holds(runs: Any, address: int) -> bool:
    """Is the byte in one of the runs?"""
    if not len(runs):
        return False
    index = int(np.searchsorted(runs[:, 0], address, "right")) - 1
    return index >= 0 and address < int(runs[index, 1])


def _meets(kind: int, touch: Touch) -> bool:
    """Do an access of the device and one of the host on the same byte need an order?"""
    return kind == WRITE or (kind == READ and touch.is_write)


def _line(party: Party) -> tuple[object, ...]:
    """What makes two accesses the same for a learner: the line, and what works there."""
    stream = party.stream if party.place.code is None else ""
    return id(party.place.code), party.place.line, party.what, stream
