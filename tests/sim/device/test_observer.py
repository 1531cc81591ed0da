"""What an observer is told: every call, every operation once, and every order that a program asks for."""

from __future__ import annotations

import inspect

import pytest

from cudalab.sim.device import Device
from cudalab.sim.device.observer import Observer

SIZE = 1 << 16


class Told(Observer):
    """Writes everything down."""

    def __init__(self):
        self.calls, self.enqueued_, self.steps, self.waits, self.orders = [], [], [], [], []

    def called(self, call, place, start, end):
        self.calls.append((call.name, place, start, end))

    def enqueued(self, operation, waits):
        self.enqueued_.append((operation, list(waits)))

    def ordered(self, stream, operation):
        self.orders.append((stream.handle, operation))

    def started(self, operation):
        self.steps.append(("start", operation))

    def ended(self, operation):
        self.steps.append(("end", operation))

    def host_waited(self, operation):
        self.waits.append(operation)


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def told(device):
    device.observers.append(Told())
    return device.observers[-1]


def test_calls_come_with_their_line_and_their_time(device, told):
    device.malloc(SIZE)
    line = inspect.currentframe().f_lineno - 1
    name, place, start, end = told.calls[0]
    assert (name, place.line, place.text) == ("malloc", line, "device.malloc(SIZE)")
    assert place.file == __file__ and 0 <= start < end == device.clock_ns


def test_an_operation_knows_its_line_and_starts_and_ends_once(device, told):
    pointer = device.malloc(SIZE)
    device.memset(pointer, 0, SIZE)
    device.synchronize()
    ((operation, waits),) = told.enqueued_
    assert operation.place.text == "device.memset(pointer, 0, SIZE)" and not waits
    assert told.steps == [("start", operation), ("end", operation)]
    assert None in told.waits


def test_an_order_is_told_although_what_it_names_has_ended(device, told):
    one, other = device.stream_create(1), device.stream_create(1)
    event = device.event_create()
    device.event_record(event, one)
    device.synchronize()
    device.stream_wait_event(other, event)
    ((stream, record),) = told.orders
    assert stream == other and record.kind == "record"


def test_waits_name_their_rule(device, told):
    pointer = device.malloc(SIZE)
    blocking = device.stream_create(0)
    device.memset(pointer, 1, SIZE, stream=blocking)
    device.memset(pointer, 2, SIZE, stream=0)
    device.memset(pointer, 3, SIZE, stream=blocking)
    (_, first), (_, second), (_, third) = told.enqueued_
    assert first == []
    assert [rule for _, rule in second] == ["default stream"]
    assert sorted(rule for _, rule in third) == ["default stream", "stream order"]


def test_a_query_that_says_complete_counts_as_a_wait(device, told):
    pointer = device.malloc(SIZE)
    stream = device.stream_create(1)
    device.memset(pointer, 0, SIZE, stream=stream)
    assert not device.stream_query(stream) and not told.waits
    device.host_work(10**7)
    assert device.stream_query(stream)
    ((operation, _),) = told.enqueued_
    assert told.waits == [operation]
