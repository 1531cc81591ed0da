"""What overlaps and what does not: statements of the CUDA C++ Programming Guide about streams, one test each."""

from __future__ import annotations

import gc
import struct
import weakref

import numpy as np
import pytest
from cuda.bindings.runtime import cudaError_t, cudaStreamAttrID

from cudalab.sim.compiler import compile
from cudalab.sim.device import CudaError, Log
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.replay import replay
from tests.sim.device.conftest import Bench

SOURCE = r"""
extern "C" {
__global__ void work(float *x, int rounds) {
    float y = x[threadIdx.x];
    for (int k = 0; k < rounds; k++) y = y * 0.5f + 1.0f;
    x[threadIdx.x] = y;
}
__global__ void wide(float *x, int rounds) {
    float y = threadIdx.x;
    for (int k = 0; k < rounds; k++) y = y * 0.5f + 1.0f;
    if (y == 0.25f) x[0] = y;
}
__global__ void overrun(int *x) { x[threadIdx.x + 1] = 1; }
}
"""
NON_BLOCKING = 1
MB = 1 << 20
SIZE = 4 * MB  # 78 us over the bus


@pytest.fixture(scope="module")
def program():
    return compile(SOURCE)


class Ended(Observer):
    """Operations in the order in which they ended, with who held them back."""

    def __init__(self):
        self.operations = []
        self.blockers = {}

    def started(self, operation):
        self.blockers[operation] = operation.wait_cause

    def ended(self, operation):
        self.operations.append(operation)

    def kind(self, kind):
        """The operations of one kind, as issued."""
        found = [o for o in self.operations if o.kind == kind]
        return sorted(found, key=lambda o: o.sequence)


class Streams(Bench):
    """A device with kernels, streams and an account of what ran when."""

    def __init__(self, program, profile="h200", **options):
        super().__init__(profile, hazards=False, **options)
        self.ended = Ended()
        self.device.observers.append(self.ended)
        self.module = self.device.load_module(program)
        self.data = self.device.malloc(SIZE)
        self.device.memset(self.data, 0, SIZE)
        self.device.synchronize()
        self.ended.operations.clear()

    def function(self, name):
        return self.device.get_function(self.module, name)

    def kernel(self, stream, rounds=20_000, *, name="work", grid=1, shared=0, data=None):
        args = struct.pack("Qi", data or self.data, rounds)
        self.device.launch(self.function(name), (grid, 1, 1), (32, 1, 1), args, shared, stream)

    def waves(self, stream, count, rounds=3000):
        """A kernel of so many waves: one block takes the shared memory of a whole SM."""
        self.device.function_set_attribute(self.function("wide"), 8, 200_000)
        self.kernel(stream, rounds, name="wide", grid=count * self.device.profile.sms, shared=200_000)

    def streams(self, count=2, flags=NON_BLOCKING):
        return [self.device.stream_create(flags) for _ in range(count)]


def overlap(one, other):
    return one.start < other.end and other.start < one.end


# -- the two-stream sample ---------------------------------------------------------------------------------------------


def sample(program, profile, order):
    """Copy in, kernel, copy out in each of two streams; returns (copies in, kernels, copies out)."""
    bench = Streams(program, profile)
    device, streams = bench.device, bench.streams()
    host = device.malloc_host(4 * SIZE)
    buffers = [device.malloc(SIZE) for _ in streams]
    steps = {
        "in": lambda i: device.memcpy(buffers[i], host + i * SIZE, SIZE, 1, streams[i], True),
        "kernel": lambda i: bench.kernel(streams[i], 60_000, data=buffers[i]),
        "out": lambda i: device.memcpy(host + (2 + i) * SIZE, buffers[i], SIZE, 2, streams[i], True),
    }
    indices = range(2)
    if order == "depth":
        calls = [(step, i) for i in indices for step in steps]
    else:
        calls = [(step, i) for step in steps for i in indices]
    for step, i in calls:
        steps[step](i)
    device.synchronize()
    copies = bench.ended.kind("copy")
    ways = [[c for c in copies if c.engine == way] for way in ("h2d", "d2h")]
    ways[0].sort(key=lambda c: c.stream.number)
    ways[1].sort(key=lambda c: c.stream.number)
    return ways[0], sorted(bench.ended.kind("kernel"), key=lambda k: k.stream.number), ways[1]


def test_depth_first_on_one_copy_engine_does_not_overlap(program):
    """The second stream's copy in is issued behind the first stream's copy out, which waits for the kernel."""
    copies_in, kernels, copies_out = sample(program, "h200-1ce", "depth")
    assert copies_in[1].start >= copies_out[0].end
    assert not overlap(*kernels)
    assert (copies_in[1].wait_reason, copies_in[1].ready < copies_in[1].start) == ("copy engine", True)


def test_breadth_first_on_one_copy_engine_overlaps(program):
    copies_in, kernels, _ = sample(program, "h200-1ce", "breadth")
    assert overlap(copies_in[1], kernels[0])


@pytest.mark.parametrize("order", ["depth", "breadth"])
def test_with_two_copy_engines_both_orders_overlap(program, order):
    copies_in, kernels, copies_out = sample(program, "h200", order)
    assert overlap(copies_in[1], kernels[0])
    assert overlap(kernels[1], copies_out[0])


def test_with_two_copy_engines_copies_run_both_ways(program):
    bench = Streams(program)
    device, (up, down) = bench.device, bench.streams()
    host, buffer = device.malloc_host(2 * SIZE), device.malloc(2 * SIZE)
    device.memcpy(buffer, host, SIZE, 1, up, True)
    device.memcpy(host + SIZE, buffer + SIZE, SIZE, 2, down, True)
    device.synchronize()
    assert overlap(*bench.ended.kind("copy"))


@pytest.mark.parametrize("order", ["depth", "breadth"])
def test_without_copy_engines_nothing_overlaps(program, order):
    copies_in, kernels, copies_out = sample(program, "h200-0ce", order)
    everything = [*copies_in, *copies_out, *kernels]
    assert not any(overlap(copy, other) for copy in copies_in + copies_out for other in everything if other is not copy)


def test_without_concurrent_kernels_kernels_wait_for_each_other(program):
    _, kernels, _ = sample(program, "h200-serial", "breadth")
    assert not overlap(*kernels)
    bench = Streams(program, "h200-serial")
    for stream in bench.streams():
        bench.kernel(stream)
    bench.device.synchronize()
    first, second = bench.ended.kind("kernel")
    assert (second.start, second.wait_reason) == (first.end, "resident grids")
    assert bench.ended.blockers[second] is first


# -- early devices -----------------------------------------------------------------------------------------------------


def test_depth_first_on_an_early_device_keeps_kernels_apart(program):
    """The copy out of the first stream asks whether its kernel has ended, and holds up the next launch until then."""
    _, kernels, _ = sample(program, "legacy", "depth")
    assert kernels[1].start >= kernels[0].end
    assert not overlap(*kernels)


def test_breadth_first_on_an_early_device_overlaps_kernels(program):
    _, kernels, copies_out = sample(program, "legacy", "breadth")
    assert overlap(*kernels)
    assert copies_out[0].start >= kernels[1].start, "all blocks of all launches issued before have started"


def test_a_copy_out_waits_until_the_blocks_of_later_launches_have_started(program):
    """It "only overlaps with the last thread blocks" of the other stream's kernel."""
    starts = {}
    for profile in ("h200", "legacy"):
        bench = Streams(program, profile)
        device, streams = bench.device, bench.streams()
        host = device.malloc_host(MB)
        bench.kernel(streams[0], 8000)
        bench.waves(streams[1], 8)
        device.memcpy(host, bench.data, 1024, 2, streams[0], True)
        device.synchronize()
        _, long = bench.ended.kind("kernel")
        (copy,) = bench.ended.kind("copy")
        starts[profile] = (copy.start - long.start) / (long.end - long.start)
        if profile == "legacy":
            assert copy.wait_reason == "dependency check"
            assert bench.ended.blockers[copy] is long
    assert starts["h200"] < 0.5
    assert 7 / 8 <= starts["legacy"] < 1.0


def test_a_query_is_a_dependency_check(program):
    for profile, together in (("h200", True), ("legacy", False)):
        bench = Streams(program, profile)
        one, two = bench.streams()
        bench.kernel(one)
        assert not bench.device.stream_query(one)
        bench.kernel(two)
        bench.device.synchronize()
        first, second = bench.ended.kind("kernel")
        assert overlap(first, second) == together
        if not together:
            assert second.wait_reason == "dependency check"
            assert bench.ended.blockers[second] is first


class Alive(Observer):
    """Operations that somebody still has a reference to."""

    def __init__(self):
        self.operations = weakref.WeakSet()

    def enqueued(self, operation, waits):
        self.operations.add(operation)


def test_launches_that_have_ended_are_let_go_of(program):
    bench = Streams(program, "legacy")
    alive = Alive()
    bench.device.observers[:] = [alive]
    one, two = bench.streams()
    for _ in range(20):
        bench.kernel(one, 10)
        bench.device.stream_query(one)
        bench.device.stream_synchronize(one)
    bench.kernel(two, 10)
    bench.device.synchronize()
    gc.collect()
    assert len(alive.operations) <= 3, "the last of each stream, and the one that was asked about last"


SEPARATORS = {
    "page-locked allocation": lambda b, s: b.device.malloc_host(4096),
    "device allocation": lambda b, s: b.device.malloc(4096),
    "pitched allocation": lambda b, s: b.device.malloc_pitch(64, 64),
    "memset": lambda b, s: b.device.memset(b.data + MB, 0, 65536, s),
    "copy within the device": lambda b, s: b.device.memcpy(b.data + MB, b.data + 2 * MB, 65536, 3, s, True),
    "command to the NULL stream": lambda b, s: b.kernel(0, 10),
    "L1/shared switch": lambda b, s: b.device.function_set_attribute(b.function("wide"), 9, 100),
}


@pytest.mark.parametrize("what", SEPARATORS)
@pytest.mark.parametrize("profile", ["h200", "legacy"])
def test_the_older_list_of_implicit_synchronization(program, profile, what):
    """Two kernels of different streams, and something between them. Today only the NULL stream separates."""
    bench = Streams(program, profile)
    one, two, three = bench.streams(3, flags=0)
    if what == "L1/shared switch":
        bench.device.function_set_attribute(bench.function("work"), 9, 0)
    rounds = 600_000 if what == "page-locked allocation" else 60_000  # longer than the call keeps the host
    bench.kernel(one, rounds)
    SEPARATORS[what](bench, three)
    bench.kernel(two, rounds, name="wide" if what == "L1/shared switch" else "work")
    bench.device.synchronize()
    kernels = bench.ended.kind("kernel")
    separated = profile == "legacy" or what == "command to the NULL stream"
    assert overlap(kernels[0], kernels[-1]) == (not separated)
    if separated:
        rule = "default stream" if what == "command to the NULL stream" else "implicit synchronization"
        assert kernels[-1].wait_reason == rule


def test_without_a_separator_kernels_of_a_device_of_old_overlap(program):
    bench = Streams(program, "legacy")
    for stream in bench.streams(2, flags=0):
        bench.kernel(stream)
    bench.device.synchronize()
    assert overlap(*bench.ended.kind("kernel"))


def test_a_device_of_old_has_one_priority(program):
    device = Streams(program, "legacy").device
    assert device.stream_priority_range() == (0, 0)
    assert device.stream_get_priority(device.stream_create(NON_BLOCKING, -5)) == 0


# -- the host ----------------------------------------------------------------------------------------------------------


def test_pageable_copies_block_although_they_are_asynchronous(program):
    bench = Streams(program)
    device, (stream, other) = bench.device, bench.streams()
    array, pinned = np.zeros(SIZE, np.uint8), device.malloc_host(SIZE)
    for address, blocks in ((pinned, False), (array.ctypes.data, True)):
        before = device.clock_ns
        device.memcpy(bench.data, address, SIZE, 1, stream, True)
        assert (device.clock_ns - before > 50_000) == blocks
        assert device.stream_query(stream) == blocks
        device.synchronize()
    bench.kernel(stream, 100_000)
    device.memcpy(array.ctypes.data, bench.data, SIZE, 2, stream, True)
    bench.kernel(other)
    device.synchronize()
    copy = bench.ended.kind("copy")[-1]
    assert bench.ended.kind("kernel")[-1].enqueued >= copy.end, "the host was kept until the copy had ended"


@pytest.mark.parametrize(("flags", "separates"), [(0, True), (NON_BLOCKING, False)])
def test_a_kernel_in_the_null_stream_separates_blocking_streams_only(program, flags, separates):
    bench = Streams(program)
    one, two = bench.streams(2, flags)
    for stream in (one, 0, two):
        bench.kernel(stream)
    bench.device.synchronize()
    first, null, last = bench.ended.kind("kernel")
    assert overlap(first, null) == overlap(null, last) == overlap(first, last) == (not separates)
    if separates:
        assert (null.wait_reason, last.wait_reason) == ("default stream", "default stream")
        assert (bench.ended.blockers[null], bench.ended.blockers[last]) == (first, null)


def test_a_high_priority_kernel_starts_as_blocks_of_the_other_finish(program):
    starts = {}
    for priority in (0, -5):
        bench = Streams(program, "laptop")
        device = bench.device
        low, high = device.stream_create(NON_BLOCKING, 0), device.stream_create(NON_BLOCKING, priority)
        bench.waves(low, 20, 6000)
        bench.waves(high, 1, 6000)
        device.synchronize()
        long, short = bench.ended.kind("kernel")
        starts[priority] = (short.start - long.start) / (long.end - long.start)
        assert (short.wait_reason, bench.ended.blockers[short]) == ("SM resources", long)
        if priority:
            assert long.start < short.start < short.end < long.end
    assert 0.9 / 21 <= starts[-5] < 2 / 21, "after the first wave, which is not preempted"
    assert starts[0] >= 0.99


def test_a_launch_keeps_the_priority_that_its_stream_had(program):
    """``cudaStreamSetAttribute`` "will not affect previously submitted work"."""
    bench = Streams(program, "laptop")
    device, (changed, other) = bench.device, bench.streams()
    bench.waves(changed, 10, 6000)
    bench.waves(changed, 1, 6000)  # not ready before the first has ended
    bench.waves(other, 10, 6000)
    device.stream_set_attribute(changed, int(cudaStreamAttrID.cudaLaunchAttributePriority), (-5,))
    bench.waves(changed, 1, 6000)
    device.synchronize()
    _, before, long, after = bench.ended.kind("kernel")
    assert before.start >= 0.9 * (long.end - long.start) + long.start
    assert after.start >= before.end  # stream order


def test_later_launches_have_the_new_priority(program):
    bench = Streams(program, "laptop")
    device, (changed, other) = bench.device, bench.streams()
    bench.waves(other, 10, 6000)
    device.stream_set_attribute(changed, int(cudaStreamAttrID.cudaLaunchAttributePriority), (-5,))
    bench.waves(changed, 1, 6000)
    device.synchronize()
    long, urgent = bench.ended.kind("kernel")
    assert urgent.end < long.end


@pytest.mark.parametrize("profile", ["h200-0ce", "h200-1ce", "h200"])
def test_copies_take_no_notice_of_priorities(program, profile):
    """ "Stream priorities have no effect on host-to-device and device-to-host memory operations." """
    bench = Streams(program, profile)
    device = bench.device
    streams = [device.stream_create(NON_BLOCKING, priority) for priority in (0, 0, -5)]
    host = device.malloc_host(3 * SIZE)
    for index, stream in enumerate(streams):
        device.memcpy(bench.data, host + index * SIZE, SIZE, 1, stream, True)
    device.synchronize()
    copies = bench.ended.kind("copy")
    assert [copy.start for copy in copies] == sorted(copy.start for copy in copies)
    assert copies[2].start >= copies[1].end


def test_launches_block_when_the_environment_says_so(program, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    bench = Streams(program, record=True)
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING")
    device, streams = bench.device, bench.streams()
    for stream in streams:
        bench.kernel(stream)
        assert device.stream_query(stream)
    first, second = bench.ended.kind("kernel")
    assert second.start > first.end
    device.array_operation("fill", lambda: None, [], [(bench.data, SIZE)], streams[0])
    assert device.stream_query(streams[0])
    device.memcpy(device.malloc_host(SIZE), bench.data, SIZE, 2, streams[0], True)
    assert not device.stream_query(streams[0]), "copies are as asynchronous as ever"
    device.synchronize()
    twin = replay(Log.from_bytes(device.log.to_bytes()))
    assert twin.log.spans == device.log.spans
    small = device.malloc(256)
    with pytest.raises(CudaError, match="past the end") as caught:
        device.launch(bench.function("overrun"), (1, 1, 1), (64, 1, 1), struct.pack("Q", small))
    assert caught.value.code == cudaError_t.cudaErrorIllegalAddress


@pytest.mark.parametrize("value", ["0", "", "yes", None])
def test_launches_do_not_block_otherwise(program, monkeypatch, value):
    if value is not None:
        monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", value)
    else:
        monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    bench = Streams(program)
    bench.kernel(0)
    assert not bench.device.stream_query(0)


# -- why did it wait ---------------------------------------------------------------------------------------------------


def test_what_held_an_operation_back(program):
    bench = Streams(program)
    device, (one, two) = bench.device, bench.streams()
    host, event = device.malloc_host(2 * SIZE), device.event_create(2)
    device.memcpy(bench.data, host, SIZE, 1, one, True)  # 0: nothing but its call
    bench.kernel(one)  # 1: the copy, in stream order
    device.memcpy(bench.data, host, 1024, 1, two, True)  # 2: the engine, which copy 0 has
    device.event_record(event, one)  # 3
    device.stream_wait_event(two, event)  # 4: the event
    bench.kernel(two)  # 5: the wait before it
    device.synchronize()
    first, kernel, second, record, wait, last = sorted(bench.ended.operations, key=lambda o: o.sequence)
    rules = [(o.wait_reason, bench.ended.blockers[o]) for o in (first, kernel, second, record, wait, last)]
    assert rules == [
        ("host", None),
        ("stream order", first),
        ("copy engine H2D", first),
        ("stream order", kernel),
        ("event", record),
        ("stream order", wait),
    ]
