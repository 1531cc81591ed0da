"""What a report says, when it comes, and that it never stands in the way."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest

from cudalab.sim.device import Device, Log
from cudalab.sim.device.hazards import HazardWarning, Kind
from cudalab.sim.device.replay import replay

SIZE = 1 << 14


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def streams(device):
    return device.stream_create(1), device.stream_create(1)


def race(device, streams, pointer):
    """Two memsets on the same bytes, in two streams."""
    device.memset(pointer, 1, SIZE, streams[0], True)
    device.memset(pointer + SIZE // 2, 2, SIZE // 2, streams[1], True)


def test_a_hazard_names_both_operations_their_lines_and_the_wait(device, streams):
    race(device, streams, pointer := device.malloc(SIZE))
    with pytest.warns(HazardWarning):
        device.synchronize()
    (hazard,) = device.hazards
    assert hazard.kind == Kind.WAW and hazard.count == 1
    assert (hazard.address, hazard.bytes) == (pointer + SIZE // 2, SIZE // 2)
    assert f"from byte {SIZE // 2} of the {SIZE}-byte device allocation" in hazard.memory
    first, second = hazard.first, hazard.second
    assert (first.what, first.verb, first.stream, first.noun) == ("memset", "writes", "stream 2", "the memset")
    assert second.stream == "stream 3" and second.place.line == first.place.line + 1
    assert first.place.text in hazard.text and second.place.text in hazard.text
    assert hazard.missing_wait in hazard.text and "record an event in stream 2" in hazard.missing_wait
    assert "WAW" in repr(hazard) and "stream 3" in repr(hazard)
    assert hazard.missing_wait.replace("'", "&#x27;") in hazard._repr_html_()


def test_the_same_two_lines_are_shown_once_and_counted(device, streams):
    pointer = device.malloc(SIZE)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for _ in range(4):
            race(device, streams, pointer)
            device.synchronize()
    (hazard,) = device.hazards
    assert hazard.count == 4 and len(shown) == 1
    assert shown[0].filename == __file__ and shown[0].lineno == hazard.second.place.line
    assert device.hazard_report.sightings == 4


def test_two_operations_that_collide_in_several_ways_are_one_hazard(device, streams):
    pointer = device.malloc(SIZE)
    for stream in streams:
        device.array_operation("f", lambda: None, [(pointer, SIZE)], [(pointer, SIZE)], stream)
    device.synchronize()
    (hazard,) = device.hazards
    assert hazard.count == 1


def test_what_was_seen_since_a_mark(device, streams):
    pointer = device.malloc(SIZE)
    race(device, streams, pointer)
    device.synchronize()
    mark = device.hazard_report.sightings
    assert device.hazard_report.since(mark) == []
    race(device, streams, pointer)
    device.synchronize()
    assert device.hazard_report.since(mark) == device.hazards


@pytest.mark.filterwarnings("error")
def test_a_filter_that_makes_warnings_errors_stops_nothing(device, streams):
    race(device, streams, device.malloc(SIZE))
    device.synchronize()
    assert len(device.hazards) == 1 and device.idle


@pytest.mark.filterwarnings("ignore::cudalab.sim.device.hazards.HazardWarning")
def test_warnings_can_be_switched_off(device, streams):
    race(device, streams, device.malloc(SIZE))
    device.synchronize()
    assert len(device.hazards) == 1


def test_operations_without_lines_are_told_apart_by_their_streams():
    recorded = Device(record=True)
    streams = [recorded.stream_create(1) for _ in range(3)]
    pointer = recorded.malloc(SIZE)
    for stream in streams:
        recorded.memset(pointer, 1, SIZE, stream, True)
    recorded.synchronize()
    (hazard,) = recorded.hazards
    assert hazard.count == 3
    again = [(hazard.first.stream, hazard.second.stream) for hazard in replay(recorded.log).hazards]
    assert again == [("stream 2", "stream 3"), ("stream 2", "stream 4"), ("stream 3", "stream 4")]


def test_a_replay_finds_the_same_hazards():
    recorded = Device(record=True)
    one, other = recorded.stream_create(1), recorded.stream_create(1)
    pointer = recorded.malloc(SIZE)
    exact = ((), ((pointer, 4, ((100, 16),)),))
    recorded.array_operation("f", lambda: None, [], [(pointer, 1588)], one, exact=exact)
    recorded.memset(pointer + 4, 1, 12, other, True)
    recorded.synchronize()
    assert not recorded.hazards
    race(recorded, (one, other), pointer)
    recorded.synchronize()
    again = replay(Log.from_bytes(recorded.log.to_bytes()))
    assert [(h.kind, h.bytes) for h in again.hazards] == [(h.kind, h.bytes) for h in recorded.hazards]
    assert len(again.hazards) == 1


def test_work_of_a_destroyed_blocking_stream_comes_before_the_default_stream(device):
    pointer = device.malloc(SIZE)
    stream = device.stream_create(0)
    device.memset(pointer, 1, SIZE, stream, True)
    device.host_work(10**8)
    device.stream_destroy(stream)
    device.memset(pointer, 2, SIZE)
    device.synchronize()
    assert not device.hazards


def test_a_wait_for_an_event_that_is_complete_by_then_orders_all_the_same(device, streams):
    pointer, event = device.malloc(SIZE), device.event_create(2)
    device.memset(pointer, 1, SIZE, streams[0], True)
    device.event_record(event, streams[0])
    device.host_work(10**8)  # the host does not ask: only the wait orders
    device.stream_wait_event(streams[1], event)
    device.memset(pointer, 2, SIZE, streams[1], True)
    device.synchronize()
    assert not device.hazards


def test_memory_that_is_freed_and_given_to_somebody_else_starts_anew(device, streams):
    device.memset(device.malloc(SIZE), 1, SIZE, streams[0], True)
    for _ in range(20):
        pointer = device.malloc_async(SIZE, streams[0])
        device.memset(pointer, 1, SIZE, streams[0], True)
        device.free_async(pointer, streams[0])
        pointer = device.malloc_async(SIZE, streams[1])
        device.memset(pointer, 1, SIZE, streams[1], True)
        device.free_async(pointer, streams[1])
    device.synchronize()
    assert not device.hazards


def test_operations_are_let_go_when_the_host_has_waited_for_them(device, streams):
    kept = []
    pointer = device.malloc(SIZE)
    for _ in range(3):
        for stream in streams:
            device.array_operation("f", work := (lambda: None), [(pointer, 4)], [], stream)
            kept.append(weakref.ref(work))
            del work
        for stream in streams:
            device.stream_synchronize(stream)
    gc.collect()
    assert sum(reference() is not None for reference in kept) <= 2  # the last one of each stream


def test_what_is_kept_does_not_grow_with_a_program_that_waits_for_nothing(device, streams):
    pointer = device.malloc(SIZE)
    for step in range(10_000):
        device.memset(pointer + 64 * (step % 2), 1, 64, streams[step % 2], True)
    device.host_work(10**12)
    (ledger,) = device.hazard_report._accesses._ledgers
    assert sum(map(len, ledger.cells)) == 2 and not device.hazards


def test_accesses_that_are_over_are_forgotten(device, streams):
    """Each operation has bytes of its own, and the host keeps waiting for all but the latest."""
    pointer = device.malloc(1 << 20)
    events = [device.event_create(2) for _ in range(2)]
    for step in range(9000):
        stream = streams[step % 2]
        device.memset(pointer + 64 * step, 1, 64, stream, True)
        device.event_record(events[step % 2], stream)
        device.event_synchronize(events[step % 2 - 1])
    (ledger,) = device.hazard_report._accesses._ledgers
    assert len(ledger.cells) < 5000
