"""When effects become visible: a forgotten wait gives old data, every time; with the wait it is right."""

from __future__ import annotations

import struct
import time
import tracemalloc

import numpy as np
import psutil
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device.queue.effect import hold_by_comparison, put_back, snapshot
from tests.sim.device.conftest import Bench

N = 1 << 16
SIZE = 4 * N


def add_one(bench, pointer, stream, name="add one"):
    """x += 1 as an array operation, long enough to overlap with what follows."""

    def run():
        np.frombuffer(bench.device.view(pointer, SIZE), np.float32)[:] += 1

    bench.device.array_operation(name, run, [(pointer, SIZE)], [(pointer, SIZE)], stream, flops=1e12)


@pytest.fixture
def streams(bench):
    return bench.device.stream_create(1), bench.device.stream_create(1)


def test_a_pinned_buffer_is_old_until_the_host_has_waited(bench, streams):
    pinned, view = bench.pinned(N)
    bench.device.memcpy(pinned, bench.upload(np.ones(N, np.float32)), SIZE, 2, streams[0], True)
    assert not view.any()
    bench.device.stream_synchronize(streams[0])
    assert view.all()


@pytest.mark.parametrize("wait", [False, True])
def test_a_copy_in_another_stream_takes_old_data_without_a_wait(bench, streams, wait):
    device = bench.device
    pointer = bench.upload(np.zeros(N, np.float32))
    pinned, view = bench.pinned(N)
    add_one(bench, pointer, streams[0])
    if wait:
        event = device.event_create(2)
        device.event_record(event, streams[0])
        device.stream_wait_event(streams[1], event)
    device.memcpy(pinned, pointer, SIZE, 2, streams[1], True)
    device.synchronize()
    assert view.tolist() == [1.0 if wait else 0.0] * N
    assert bench.download(pointer, N, np.float32).tolist() == [1.0] * N


@pytest.mark.parametrize("wait", [False, True])
def test_an_operation_computes_from_what_was_there_when_it_began(bench, streams, wait):
    """The copy commits while the operation is in flight: the operation must not see its bytes."""
    device = bench.device
    pointer = bench.upload(np.zeros(N, np.float32))
    pinned, view = bench.pinned(N)
    view[:] = 100
    add_one(bench, pointer, streams[0])
    if wait:
        device.stream_synchronize(streams[0])
    device.memcpy(pointer, pinned, SIZE, 1, streams[1], True)
    if wait:
        device.stream_synchronize(streams[1])
        add_one(bench, pointer, streams[0])
    device.synchronize()
    expected = 101.0 if wait else 1.0  # without the wait: 0 + 1, made visible after the copy
    assert bench.download(pointer, N, np.float32).tolist() == [expected] * N


def test_held_back_stores_leave_other_bytes_alone(bench, streams):
    """Only bytes that the operation changed are written at its end."""
    device = bench.device
    pointer = bench.upload(np.zeros(N, np.float32))
    pinned, view = bench.pinned(N)
    view[:] = 5

    def first_half():
        np.frombuffer(device.view(pointer, SIZE // 2), np.float32)[:] = 1

    device.array_operation("half", first_half, [(pointer, SIZE)], [(pointer, SIZE)], streams[0], flops=1e12)
    device.memcpy(pointer, pinned, SIZE, 1, streams[1], True)
    device.synchronize()
    assert bench.download(pointer, N, np.float32).tolist() == [1.0] * (N // 2) + [5.0] * (N // 2)


def test_a_copy_takes_its_source_when_it_starts(bench, streams):
    """A pinned buffer reused too early: the copy has taken the old bytes, the next one takes the new ones."""
    device = bench.device
    first, second = device.malloc(SIZE), device.malloc(SIZE)
    pinned, view = bench.pinned(N)
    view[:] = 1
    device.memcpy(first, pinned, SIZE, 1, streams[0], True)
    device.memcpy(second, pinned, SIZE, 1, streams[0], True)
    device.host_work(5_000)  # the first copy has begun, the second has not
    view[:] = 2
    device.synchronize()
    assert bench.download(first, N, np.float32).tolist() == [1.0] * N
    assert bench.download(second, N, np.float32).tolist() == [2.0] * N


def test_pageable_sources_are_taken_at_the_call(bench, streams):
    array = np.ones(1024, np.float32)
    pointer = bench.device.malloc(4096)
    add_one(bench, bench.upload(np.zeros(N, np.float32)), streams[0])
    bench.device.memcpy(pointer, array.ctypes.data, 4096, 1, streams[0], True)
    array[:] = 2
    bench.device.synchronize()
    assert bench.download(pointer, 1024, np.float32).tolist() == [1.0] * 1024


def test_an_operation_on_pinned_memory_reads_it_when_it_starts(bench, streams):
    device = bench.device
    pinned, view = bench.pinned(N)
    pointer = device.malloc(SIZE)
    view[:] = 1

    def copy():
        device.view(pointer, SIZE)[:] = device.view(pinned, SIZE)

    device.array_operation("copy", copy, [(pinned, SIZE)], [(pointer, SIZE)], streams[0], flops=1e12)
    device.host_work(10_000)
    view[:] = 2
    assert not np.frombuffer(device.view(pointer, SIZE), np.float32).any()
    device.synchronize()
    assert bench.download(pointer, N, np.float32).tolist() == [1.0] * N


def test_two_operations_that_touch_nothing_in_common_run_in_place(bench, streams):
    one, two = (bench.upload(np.zeros(N, np.float32)) for _ in range(2))
    add_one(bench, one, streams[0])
    add_one(bench, two, streams[1])
    bench.device.synchronize()
    assert bench.download(one, N, np.float32).tolist() == bench.download(two, N, np.float32).tolist() == [1.0] * N


def test_an_operation_runs_exactly_once():
    bench = Bench()
    streams = [bench.device.stream_create(1) for _ in range(3)]
    pointer = bench.upload(np.zeros(N, np.float32))
    runs = []

    def count():
        runs.append(1)

    for stream in streams:
        bench.device.array_operation("count", count, [(pointer, SIZE)], [(pointer, SIZE)], stream, flops=1e11)
        bench.device.memset(pointer, 0, SIZE, stream)
    bench.device.synchronize()
    assert len(runs) == 3


def test_an_exception_in_an_array_operation_reaches_the_caller(bench):
    def fail():
        raise ZeroDivisionError("mine")

    bench.device.array_operation("fail", fail, [], [], 0)
    with pytest.raises(ZeroDivisionError, match="mine"):
        bench.device.synchronize()
    bench.device.synchronize()
    assert bench.device.stream_query(0)


STRIDE = """
extern "C" __global__ void halve(float *x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = x[i] * 0.5f + 1.0f;
}
extern "C" __global__ void halve_into(const float *x, float *y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] * 0.5f + 1.0f;
}"""


def test_holding_back_what_few_threads_store_to_much_memory_takes_little_time(bench, streams):
    """A missing wait: a copy commits bytes that a kernel of few threads, which is in flight, writes."""
    device, count = bench.device, 4 << 20
    function = device.get_function(device.load_module(compile(STRIDE)), "halve")
    pointer = bench.upload(np.full(count, 4, np.float32))
    pinned, view = bench.pinned(1 << 16)
    view[:] = 7
    device.synchronize()
    start = time.process_time()
    device.launch(function, (8, 1, 1), (128, 1, 1), struct.pack("Qi", pointer, count), 0, streams[0])
    device.memcpy(pointer, pinned, view.nbytes, 1, streams[1], True)
    device.synchronize()
    assert time.process_time() - start < 2.0
    assert set(bench.download(pointer, count, np.float32).tolist()) == {3.0}


def test_launches_that_share_few_sms_take_little_time():
    """Chapter 14's kernels side by side on a laptop: each ends while another is in flight that reads the same array."""
    bench = Bench("laptop", hazards=False)
    device, count = bench.device, 4 << 20
    function = device.get_function(device.load_module(compile(STRIDE)), "halve_into")
    source, *targets = (bench.upload(np.full(count, value, np.float32)) for value in (4, 0, 0))
    streams = [device.stream_create(1) for _ in targets]
    device.synchronize()
    start = time.process_time()
    for _ in range(4):
        for stream, target in zip(streams, targets, strict=True):
            device.launch(function, (528, 1, 1), (512, 1, 1), struct.pack("QQi", source, target, count), 0, stream)
    device.synchronize()
    assert time.process_time() - start < 4.0
    assert [set(bench.download(target, count, np.float32).tolist()) for target in targets] == [{3.0}] * 2


def test_what_a_kernel_frees_is_not_taken_back(bench):
    """Memory from a kernel's `malloc`, freed by a kernel whose stores are held back for a copy that began before."""
    memory = bench.device.memory
    node, kept = memory.heap.malloc(16), bench.upload(np.zeros(4, np.float32))

    def run():
        memory.array(kept, 4, np.float32)[:] = 1
        assert memory.heap.free(node)

    apply = hold_by_comparison(memory, ((node, 16), (kept, 16)), run)
    assert not memory.array(kept, 4, np.float32).any()
    apply()
    assert memory.array(kept, 4, np.float32).all() and memory.find(node) is None


UPDATES = r"""
extern "C" __global__ void both(int* count, int* log, const int* theirs, int* own, int rounds, int fence) {
    float y = threadIdx.x;
    for (int k = 0; k < rounds; k++) y = y * 0.5f + 1.0f;
    own[threadIdx.x] = theirs[threadIdx.x] + 1 + (y < 0);
    if (fence) __threadfence();
    log[atomicAdd(count, 1)] = 1;
}"""


@pytest.mark.parametrize("fence", [0, 1])
def test_atomics_of_kernels_side_by_side_are_seen_and_plain_stores_are_not(bench, streams, fence):
    """Where a fence stands between, the atomic tells the other kernel of the stores, too."""
    device = bench.device
    source = UPDATES if fence else UPDATES.replace("if (fence) __threadfence();", "")
    function = device.get_function(device.load_module(compile(source)), "both")
    count, log, one, two = (bench.upload(np.zeros(256, np.int32)) for _ in range(4))
    device.synchronize()
    for stream, theirs, own, rounds in ((streams[0], two, one, 20_000), (streams[1], one, two, 100)):
        args = struct.pack("<QQQQii", count, log, theirs, own, rounds, fence)
        device.launch(function, (1, 1, 1), (64, 1, 1), args, 0, stream)
    device.synchronize()
    assert bench.download(count, 1, np.int32)[0] == 128
    assert bench.download(log, 128, np.int32).tolist() == [1] * 128
    assert bench.download(one, 64, np.int32).tolist() == [1] * 64
    assert bench.download(two, 64, np.int32).tolist() == [2 if fence else 1] * 64


COUNTS = r"""
extern "C" __global__ void count_only(int* count, int rounds) {
    float y = threadIdx.x;
    for (int k = 0; k < rounds; k++) y = y * 0.5f + 1.0f;
    atomicAdd(count, 1 + (y < 0));
}
extern "C" __global__ void count_and_store(int* count, volatile int* flag) {
    atomicAdd(count, 1);
    flag[threadIdx.x] = 1;
}"""


def test_atomics_of_a_kernel_that_ran_at_its_start_are_seen_by_one_that_outlasts_it(bench, streams):
    device = bench.device
    module = device.load_module(compile(COUNTS))
    count, (flag, view) = bench.upload(np.zeros(64, np.int32)), bench.pinned(64)
    device.synchronize()
    for name, args in (
        ("count_only", struct.pack("<Qi", count, 20_000)),
        ("count_and_store", struct.pack("<QQ", count, flag)),
    ):
        function = device.get_function(module, name)
        device.launch(function, (1, 1, 1), (64, 1, 1), args, 0, streams[name == "count_only"])
    device.synchronize()
    assert bench.download(count, 1, np.int32)[0] == 128
    assert np.all(view[:64].view(np.int32) == 1)


MIB = 1 << 20


@pytest.mark.parametrize(
    "before, megabytes", [(0, 8), (3, 10), (np.arange(64 * MIB) % 251, 72)], ids=["zeros", "one value", "others"]
)
def test_what_is_held_back_of_much_memory_is_what_has_changed(bench, before, megabytes):
    """Of one value not even the old bytes are kept; of others these, and their memory serves for the new ones."""
    memory, size = bench.device.memory, 64 * MIB
    kept = bench.device.malloc(size)
    memory.array(kept, size)[:] = before
    changed = slice(5 * MIB + 1, 5 * MIB + 7)

    def run():
        memory.array(kept, size)[changed] = 9

    tracemalloc.start()
    apply = hold_by_comparison(memory, ((kept, size),), run)
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 4 * MIB and most < megabytes * MIB
    assert (memory.array(kept, size) == before).all()
    memory.array(kept, size)[5 * MIB] = 4  # another one's byte in the same piece
    apply()
    now = memory.array(kept, size)
    assert (now[changed] == 9).all() and now[5 * MIB] == 4
    assert np.count_nonzero(now != before) == 7


@pytest.mark.parametrize("value", [0, 3], ids=["zeros", "one value"])
def test_what_is_put_back_takes_no_memory_where_nothing_has_changed(bench, value):
    memory, size = bench.device.memory, 64 * MIB
    kept = bench.device.malloc(size)
    memory.fill(kept, size, np.uint8(value))
    taken = psutil.Process().memory_full_info().uss
    before = snapshot(memory, ((kept, size),))
    memory.array(kept, size)[[7, 5 * MIB + 1]] = 9
    put_back(memory, before)
    assert psutil.Process().memory_full_info().uss <= taken + 12 * MIB
    assert (memory.array(kept, size) == value).all()


def test_a_piece_that_has_changed_whole_is_held_and_made_again(bench):
    memory, size = bench.device.memory, 5 * MIB + 100
    kept = bench.device.malloc(size)
    memory.array(kept, size)[:] = 1

    def run():
        memory.array(kept, size)[:] = 2

    apply = hold_by_comparison(memory, ((kept, size),), run)
    assert (memory.array(kept, size) == 1).all()
    apply()
    assert (memory.array(kept, size) == 2).all()
