"""The host's accesses, told by a watch that the tests work by hand."""

from __future__ import annotations

import struct
from contextlib import nullcontext

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.caller import place_of_call
from cudalab.sim.device.hazards import HazardReport, Kind
from tests.sim.device.conftest import Bench

SIZE = 1 << 16


class HandWatch:
    """Keeps what is watched: by start and end, whether reads count, too."""

    def __init__(self):
        self.watched = {}
        self.armed = 0

    def watch(self, address, size, reads, writes):
        assert writes
        self.watched[address, address + size] = reads
        self.armed += 1

    def release(self, address, size):
        del self.watched[address, address + size]

    def paused(self):
        return nullcontext()


class HostBench(Bench):
    """A device whose host accesses the test tells."""

    def __init__(self):
        super().__init__(hazards=False)
        device = self.device
        self.watch = HandWatch()
        self.report = HazardReport(device.memory, lambda: True, self.watch)
        device.hazard_report = self.report
        device.observers.append(self.report)
        self.stream, self.other = device.stream_create(1), device.stream_create(1)
        self.data = device.malloc(SIZE)
        self.pinned_at = device.malloc_host(SIZE)

    def copy_out(self, size=SIZE, offset=0):
        self.device.memcpy(self.pinned_at + offset, self.data, size, 2, self.stream, True)

    def copy_in(self, size=SIZE, offset=0):
        self.device.memcpy(self.data, self.pinned_at + offset, size, 1, self.stream, True)

    def touch(self, offset, *, write):
        """What the machine would tell: only accesses to what is watched."""
        address = self.pinned_at + offset
        for (start, end), reads in self.watch.watched.items():
            if start <= address < end and (reads or write):
                self.report.host_touched(address, write, place_of_call())
                return


@pytest.fixture
def host():
    return HostBench()


def test_reading_before_the_wait_is_a_hazard_and_after_it_none(host):
    host.copy_out()
    host.touch(8, write=False)
    (hazard,) = host.report.hazards
    assert hazard.kind == Kind.HOST_READ and hazard.address == host.pinned_at + 8
    assert hazard.first.verb == "writes" and hazard.second.what == "the host" and hazard.second.verb == "reads"
    assert "stream.synchronize()" in hazard.missing_wait and "before the host reads" in hazard.missing_wait
    host.device.stream_synchronize(host.stream)
    assert not host.watch.watched
    host.touch(8, write=False)
    assert host.report.sightings == 1


@pytest.mark.parametrize("write", [False, True])
def test_the_source_of_a_copy_may_be_read_and_not_written(host, write):
    host.copy_in()
    host.touch(0, write=write)
    assert [hazard.kind for hazard in host.report.hazards] == [Kind.HOST_WRITE] * write


def test_only_the_bytes_of_the_copy_count(host):
    host.copy_out(4096, offset=4096)
    for offset in (0, 4095, 8192):
        host.touch(offset, write=True)
    assert not host.report.hazards
    host.touch(8191, write=False)
    assert host.report.hazards


def test_waiting_for_something_else_does_not_help(host):
    device = host.device
    event = device.event_create(2)
    device.event_record(event, host.stream)
    host.copy_out()
    device.event_synchronize(event)
    device.stream_synchronize(host.other)
    host.touch(0, write=False)
    assert len(host.report.hazards) == 1


def test_waiting_for_a_later_event_or_query_does(host):
    device = host.device
    event = device.event_create(2)
    host.copy_out()
    device.event_record(event, host.stream)
    assert not device.event_query(event)
    assert host.watch.watched
    device.host_work(10**9)
    assert device.event_query(event)
    assert not host.watch.watched


@pytest.mark.parametrize("ended", [False, True])
def test_waiting_for_a_stream_that_waits_for_an_event_does(host, ended):
    device = host.device
    event = device.event_create(2)
    host.copy_out()
    device.event_record(event, host.stream)
    if ended:
        device.host_work(10**9)
    device.stream_wait_event(host.other, event)
    assert host.watch.watched
    device.stream_synchronize(host.other)
    assert not host.watch.watched


def test_waiting_for_the_default_stream_is_waiting_for_blocking_streams(host):
    device = host.device
    blocking = device.stream_create(0)
    device.memcpy(host.pinned_at, host.data, SIZE, 2, blocking, True)
    device.stream_synchronize(host.other)
    assert host.watch.watched
    device.stream_synchronize(0)
    assert not host.watch.watched


def test_a_kernel_that_reports_its_progress_may_be_looked_at(host):
    device = host.device
    source = """
extern "C" __global__ void k(%s int *x) { x[0] = 1; %s }
"""
    found = {}
    for name, how in {
        "plain": ("", ""),
        "volatile": ("volatile", ""),
        "fence": ("", "__threadfence_system();"),
    }.items():
        function = device.get_function(device.load_module(compile(source % how)), "k")
        device.launch(function, (1, 1, 1), (1, 1, 1), struct.pack("Q", host.pinned_at), 0, host.stream)
        host.touch(0, write=False)
        device.synchronize()
        found[name] = host.report.sightings
    assert found == {"plain": 1, "volatile": 1, "fence": 1}


def test_a_copy_that_has_ended_unseen_is_still_one_to_wait_for(host):
    host.copy_out()
    host.device.host_work(10**9)
    host.touch(0, write=False)
    assert len(host.report.hazards) == 1


def test_memory_is_watched_once_and_again_after_a_touch(host):
    for _ in range(3):
        host.copy_in()
    assert host.watch.armed == 1
    host.touch(0, write=True)
    host.copy_in()
    assert host.watch.armed == 2
    host.device.synchronize()
    assert not host.watch.watched


def test_reads_count_only_while_something_writes(host):
    host.copy_in()
    assert list(host.watch.watched.values()) == [False]
    host.device.memcpy(host.pinned_at, host.data, SIZE, 2, host.other, True)
    assert list(host.watch.watched.values()) == [True]
    host.device.stream_synchronize(host.other)
    assert list(host.watch.watched.values()) == [False]
    host.device.stream_synchronize(host.stream)
    assert not host.watch.watched


def test_array_functions_and_memsets_on_managed_memory(host):
    device = host.device
    managed = device.malloc_managed(SIZE)
    device.memset(managed, 0, SIZE, host.stream, True)
    host.report.host_touched(managed, False, place_of_call())
    device.array_operation("f", lambda: None, [(managed, 64)], [], host.stream)
    host.report.host_touched(managed + 32, True, place_of_call())
    assert {hazard.kind for hazard in host.report.hazards} == {Kind.HOST_READ, Kind.HOST_WRITE}


def test_registered_memory_is_watched(host):
    array = np.zeros(SIZE, np.uint8)
    address = array.ctypes.data
    host.device.host_register(address, SIZE)
    host.device.memcpy(host.data, address, SIZE, 1, host.stream, True)
    assert (address, address + SIZE) in host.watch.watched
    host.report.host_touched(address + 5, True, place_of_call())
    (hazard,) = host.report.hazards
    assert hazard.kind == Kind.HOST_WRITE and "registered host allocation" in hazard.memory
    host.device.host_unregister(address)


def test_pageable_memory_is_never_watched(host):
    array = np.zeros(SIZE, np.uint8)
    host.device.memcpy(host.data, array.ctypes.data, SIZE, 1, host.stream, True)
    host.device.memcpy(array.ctypes.data, host.data, SIZE, 2, host.stream, True)
    assert not host.watch.watched and not host.report.hazards


def test_a_reset_lets_go_of_everything(host):
    host.copy_out()
    host.device.reset()
    assert not host.watch.watched


def test_a_host_function_is_ordered_by_its_stream(host):
    device = host.device
    host.copy_out()
    device.launch_host_function(lambda: host.touch(0, write=False), host.stream)
    device.host_work(10**9)
    assert not host.report.hazards
    host.copy_out()
    device.launch_host_function(lambda: host.touch(0, write=False), host.other)
    device.host_work(10**9)
    (hazard,) = host.report.hazards
    assert hazard.kind == Kind.RAW and hazard.second.what == "host function"


def test_devices_without_a_report_have_no_hazards():
    device = Device(hazards=False)
    assert device.hazards == [] and device.hazard_report is None
