"""Random programs over streams, and what must be reported of them, by brute force.

The oracle shares nothing with the hazard report. It writes down who comes directly before whom (stream order, events,
the default stream's rules, what the host has waited for, and that a call comes after what the host did before), closes
that over paths, and looks at every pair of operations byte by byte.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from cudalab.sim.device import Device
from cudalab.sim.device.queue.byte_ranges import StridedRange, runs_of

SIZE = 1024
PAGES, PAGE = 4, 4096
LEGACY, BLOCKING, NON_BLOCKING = "legacy", "blocking", "non-blocking"


@dataclass(frozen=True)
class Work:
    """An operation in ``stream`` that reads and writes ranges of the one buffer (addresses count from its start)."""

    stream: int
    reads: tuple[StridedRange, ...]
    writes: tuple[StridedRange, ...]


@dataclass(frozen=True)
class Record:
    stream: int
    event: int


@dataclass(frozen=True)
class Wait:
    stream: int
    event: int


@dataclass(frozen=True)
class Sync:
    """The host waits: for a stream, an event, or (both negative) the device."""

    stream: int = -1
    event: int = -1


@dataclass(frozen=True)
class Touch:
    """The host reads or writes one byte of the buffer."""

    address: int
    write: bool


Step = Work | Record | Wait | Sync | Touch


@dataclass(frozen=True)
class Plan:
    """A program: kinds of its streams, its steps, and the size of its buffer."""

    streams: tuple[str, ...]
    events: int
    steps: tuple[Step, ...]
    size: int = SIZE

    def without(self, index: int) -> Plan:
        return replace(self, steps=self.steps[:index] + self.steps[index + 1 :])


# -- the oracle --------------------------------------------------------------------------------------------------------


def bytes_of(ranges: tuple[StridedRange, ...]) -> set[int]:
    """Every byte, one by one."""
    found: set[int] = set()
    for address, width, pairs in ranges:
        starts = [address]
        for count, stride in pairs:
            starts = [start + index * stride for start in starts for index in range(count)]
        found.update(start + byte for start in starts for byte in range(width))
    return found


def unordered_pairs(plan: Plan) -> set[tuple[int, int]]:
    """Pairs of steps (:class:`Work`, or such and a later :class:`Touch`) that touch a common byte, one of them writing,
    without an order."""
    found: set[tuple[int, int]] = set()
    before: list[set[int]] = []  # for each step: all steps that come before its effect on the device
    host: set[int] = set()  # what the host has waited for
    last: dict[int, int] = {}
    recorded: dict[int, int] = {}
    waiting: dict[int, set[int]] = {}  # what later work of a stream comes after

    def closed(direct: set[int]) -> set[int]:
        return direct | {other for step in direct for other in before[step]}

    for index, step in enumerate(plan.steps):
        direct: set[int] = set()
        if isinstance(step, (Work, Record)):
            kind = plan.streams[step.stream]
            direct |= host | waiting.get(step.stream, set())
            if step.stream in last:
                direct.add(last[step.stream])
            for other, end in last.items():
                kinds = {kind, plan.streams[other]}
                if kinds == {LEGACY, BLOCKING}:
                    direct.add(end)
                    direct |= waiting.get(other, set())
            before.append(closed(direct))
            last[step.stream] = index
            waiting.pop(step.stream, None)
            if isinstance(step, Record):
                recorded[step.event] = index
        elif isinstance(step, Touch):
            before.append(set())
            for other, work in enumerate(plan.steps[:index]):
                if isinstance(work, Work) and other not in host:
                    touched = work.reads + work.writes if step.write else work.writes
                    if step.address in bytes_of(touched):
                        found.add((other, index))
        elif isinstance(step, Wait):
            before.append(set())
            if step.event in recorded:
                waiting.setdefault(step.stream, set()).update(closed({recorded[step.event]}))
        else:
            before.append(set())
            if step.event >= 0:
                if step.event in recorded:
                    host |= closed({recorded[step.event]})
            elif step.stream >= 0:
                for stream, kind in enumerate(plan.streams):
                    if stream == step.stream or (plan.streams[step.stream] == LEGACY and kind == BLOCKING):
                        host |= closed({last[stream]} if stream in last else set()) | waiting.get(stream, set())
            else:
                host |= closed(set(last.values())) | {other for rest in waiting.values() for other in rest}
    of_work = {
        index: (bytes_of(step.reads), bytes_of(step.writes))
        for index, step in enumerate(plan.steps)
        if isinstance(step, Work)
    }
    return found | {
        (one, other)
        for one, (reads, writes) in of_work.items()
        for other, (more_reads, more_writes) in of_work.items()
        if one < other
        and one not in before[other]
        and other not in before[one]
        and (writes & (more_reads | more_writes) or reads & more_writes)
    }


# -- on the device -----------------------------------------------------------------------------------------------------


def reported_pairs(plan: Plan, device: Device) -> set[tuple[int, int]]:
    """What the device reports of the program; -1 stands for the host."""
    touches = any(isinstance(step, Touch) for step in plan.steps)
    buffer = device.malloc_managed(plan.size + PAGE) if touches else device.malloc(plan.size)
    if touches:
        buffer = -(-buffer // PAGE) * PAGE
    view = np.frombuffer(device.view(buffer, plan.size), np.uint8)
    streams = [0 if kind == LEGACY else device.stream_create(kind == NON_BLOCKING) for kind in plan.streams]
    events = [device.event_create(2) for _ in range(plan.events)]
    for index, step in enumerate(plan.steps):
        if isinstance(step, Work):
            exact = tuple(
                tuple((buffer + address, width, pairs) for address, width, pairs in ranges)
                for ranges in (step.reads, step.writes)
            )
            spans = [[(int(runs[0, 0]), int(runs[-1, 1] - runs[0, 0])) for runs in map(runs_of, e)] for e in exact]
            device.array_operation(str(index), nothing, *spans, streams[step.stream], exact=exact)
        elif isinstance(step, Record):
            device.event_record(events[step.event], streams[step.stream])
        elif isinstance(step, Wait):
            device.stream_wait_event(streams[step.stream], events[step.event])
        elif isinstance(step, Touch):
            if step.write:
                view[step.address] = 1
            else:
                view[step.address].item()
        elif step.event >= 0:
            device.event_synchronize(events[step.event])
        elif step.stream >= 0:
            device.stream_synchronize(streams[step.stream])
        else:
            device.synchronize()
    device.run_ahead(lambda: True)
    pairs: set[tuple[int, int]] = set()
    for hazard in device.hazards:
        one, other = (
            -1 if party.what == "the host" else int(party.what.removeprefix("array function "))
            for party in (hazard.first, hazard.second)
        )
        assert (one < other or other == -1) and hazard.bytes > 0
        pairs.add((one, other))
    return pairs


def nothing() -> None:
    """The work of all operations."""


# -- random programs ---------------------------------------------------------------------------------------------------


@st.composite
def ranges(draw: st.DrawFn) -> StridedRange:
    """A run, rows, or rows in slices, within the buffer; often large, so that programs have something to collide in."""
    shape = draw(st.sampled_from(["run", "run", "rows", "rows", "slices"]))
    if shape == "run":
        start = draw(st.sampled_from([0, 100, 256, 512, 700]))
        return start, draw(st.integers(1, SIZE - start)), ()
    width = draw(st.integers(1, 12))
    stride = width + draw(st.integers(1, 12))
    if shape == "rows":
        count = draw(st.integers(2, (SIZE - width) // stride))
        return draw(st.integers(0, SIZE - width - (count - 1) * stride)), width, ((count, stride),)
    inner = draw(st.integers(2, 6))
    end = (inner - 1) * stride + width
    pitch = end + draw(st.integers(0, 40))
    count = draw(st.integers(2, (SIZE - end) // pitch))
    return draw(st.integers(0, SIZE - end - (count - 1) * pitch)), width, ((count, pitch), (inner, stride))


@st.composite
def plans(draw: st.DrawFn, *, most: int = 14) -> Plan:
    """Any program at all."""
    kinds = draw(st.lists(st.sampled_from([BLOCKING, NON_BLOCKING, NON_BLOCKING]), min_size=1, max_size=3))
    streams = (LEGACY, *kinds)
    events = draw(st.integers(1, 3))
    stream, event = st.integers(0, len(streams) - 1), st.integers(0, events - 1)
    one, none = st.tuples(ranges()), st.just(())
    work = st.one_of(
        st.builds(Work, stream, one, none), st.builds(Work, stream, one, one), st.builds(Work, stream, none, one)
    )
    sync = st.one_of(st.builds(Sync, stream), st.builds(Sync, st.just(-1), event), st.just(Sync()))
    step = st.one_of(work, work, work, work, st.builds(Record, stream, event), st.builds(Wait, stream, event), sync)
    return Plan(streams, events, tuple(draw(st.lists(step, min_size=4, max_size=most))))


@st.composite
def shared_plans(draw: st.DrawFn, *, most: int = 12) -> Plan:
    """Programs on memory that the host touches, too; by whole pages, because those are watched exactly."""
    streams = (LEGACY, NON_BLOCKING, BLOCKING)[: draw(st.integers(1, 3))]
    stream, event = st.integers(0, len(streams) - 1), st.integers(0, 1)
    pages = st.tuples(st.integers(0, PAGES - 1), st.integers(1, 2)).map(
        lambda page: ((page[0] * PAGE, min(page[1], PAGES - page[0]) * PAGE, ()),)
    )
    work = st.one_of(st.builds(Work, stream, pages, st.just(())), st.builds(Work, stream, st.just(()), pages))
    touch = st.builds(Touch, st.integers(0, PAGES * PAGE - 1), st.booleans())
    sync = st.one_of(st.builds(Sync, stream), st.builds(Sync, st.just(-1), event), st.just(Sync()))
    step = st.one_of(work, work, touch, touch, st.builds(Record, stream, event), st.builds(Wait, stream, event), sync)
    return Plan(streams, 2, tuple(draw(st.lists(step, min_size=3, max_size=most))), PAGES * PAGE)


def repaired(plan: Plan, choose: st.DataObject) -> Plan:
    """The program with a wait for every pair that has no order: an event, or a wait of the host."""
    while pairs := sorted(unordered_pairs(plan)):
        one, other = pairs[0]
        first, second = plan.steps[one], plan.steps[other]
        assert isinstance(first, Work)
        steps = list(plan.steps)
        how = choose.draw(st.sampled_from(["event", "event", "event synchronize", "stream synchronize"]))
        event = plan.events
        if how == "event" and isinstance(second, Work):
            added = [(other, Wait(second.stream, event)), (one + 1, Record(first.stream, event))]
        elif how != "stream synchronize":
            added = [(other, Sync(event=event)), (one + 1, Record(first.stream, event))]
        else:
            added = [(other, Sync(stream=first.stream))]
        for place, step in added:
            steps.insert(place, step)
        plan = replace(plan, events=event + 1, steps=tuple(steps))
    return plan
