"""Launches that wait for memory which the host, another stream or nobody changes."""

from __future__ import annotations

import struct
import time
import warnings

import numpy as np
import pytest
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.compiler import compile
from cudalab.sim.device.error import CudaError
from tests.sim.device.conftest import Bench

WAIT = """
extern "C" __global__ void k(volatile int* flag, int* out) {
    while (*flag == 0) { }
    out[blockIdx.x * blockDim.x + threadIdx.x] = *flag;
}
extern "C" __global__ void set(volatile int* flag, int value) { *flag = value; }
extern "C" __global__ void tell(volatile int* flag, volatile int* out) {
    int n = 0;
    while (*flag == 0) { n++; *out = n; __threadfence_system(); }
}
extern "C" __global__ void bounded(volatile int* flag, int* rounds) {
    int n = 0;
    while (*flag == 0 && n < 1000000) n++;
    *rounds = n;
}
extern "C" __global__ void timed(volatile int* flag, long long* waited) {
    long long start = clock64();
    while (*flag == 0 && clock64() - start < 2000000) { }
    *waited = clock64() - start;
}
extern "C" __global__ void locked(int* lock, int* count) {
    while (atomicCAS(lock, 0, 1) != 0) { }
    *(volatile int*)count = *(volatile int*)count + 1;
    __threadfence();
    atomicExch(lock, 0);
}
extern "C" __global__ void steps(volatile int* progress, int* last, int n) {
    int x = 1;
    for (int i = 1; i <= n; i++) {
        for (int j = 0; j < 100; j++) x = x * 3 + j;
        *progress = i;
    }
    *last = x | 1;
}
extern "C" __global__ void keep(int* lock) { while (atomicCAS(lock, 0, 1) != 0) { } }
extern "C" __global__ void meet(int* arrived) {
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < gridDim.x) { }
    }
    __syncthreads();
}
extern "C" __global__ void wrong(volatile int* flag, int* out) {
    while (*flag == 0) { }
    out[1 << 24] = 1;
}
"""


class Kernels(Bench):
    """The kernels above, and streams of their own."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.module = self.device.load_module(compile(WAIT))
        self.one, self.two = (self.device.stream_create(1) for _ in range(2))

    def launch(self, name: str, *values: int, grid: int = 1, block: int = 1, stream: int = 0) -> None:
        function = self.device.get_function(self.module, name)
        kinds = "".join("Q" if value > 1 << 31 else "i" for value in values)
        self.device.launch(function, (grid, 1, 1), (block, 1, 1), struct.pack(f"<{kinds}", *values), 0, stream)

    def zeros(self, count: int, dtype: object = np.int32) -> int:
        pointer = self.upload(np.zeros(count, dtype))
        self.device.synchronize()
        return pointer


@pytest.fixture
def bench() -> Kernels:
    return Kernels()


def failure(call) -> CudaError:  # type: ignore[no-untyped-def]
    begin = time.process_time()
    with pytest.raises(CudaError) as raised:
        call()
    assert raised.value.code == cudaError_t.cudaErrorLaunchTimeout
    assert time.process_time() - begin < 3
    return raised.value


# -- the host sets the flag --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pinned", "managed", "registered"])
def test_the_host_sets_a_flag(bench: Kernels, kind: str) -> None:
    device = bench.device
    if kind == "registered":
        view = np.zeros(1024, np.int32)
        pointer = view.ctypes.data
        device.host_register(pointer, view.nbytes, 2)
    else:
        pointer = device.malloc_host(4) if kind == "pinned" else device.malloc_managed(4)
        view = np.frombuffer(device.view(pointer, 4), np.int32)
    view[0] = 0
    out = bench.zeros(64)
    bench.launch("k", pointer, out, grid=2, block=32)
    begin = device.clock_ns
    assert [device.stream_query(0) for _ in range(3)] == [False] * 3
    device.host_work(50_000)
    view[0] = 6
    device.synchronize()
    assert bench.download(out, 64, np.int32).tolist() == [6] * 64
    assert 50_000 <= device.clock_ns - begin < 100_000


def test_a_query_notices(bench: Kernels) -> None:
    pointer, view = bench.pinned(1, np.int32)
    bench.launch("k", pointer, bench.zeros(1))
    assert not bench.device.stream_query(0)
    view[0] = 1
    for _ in range(20):
        if bench.device.stream_query(0):
            break
    else:
        pytest.fail("the launch did not end")


def test_later_work_of_the_stream_waits(bench: Kernels) -> None:
    pointer, view = bench.pinned(1, np.int32)
    target, seen = bench.pinned(1, np.int32)
    out = bench.zeros(1)
    bench.launch("k", pointer, out, stream=bench.one)
    bench.device.memcpy(target, out, 4, 2, bench.one, True)
    bench.device.host_work(1_000_000)
    assert seen[0] == 0
    view[0] = 3
    bench.device.stream_synchronize(bench.one)
    assert seen[0] == 3


def test_other_streams_go_on_beside_it(bench: Kernels) -> None:
    pointer, view = bench.pinned(1, np.int32)
    out, other = bench.zeros(1), bench.zeros(1)
    bench.launch("k", pointer, out, stream=bench.one)
    bench.launch("set", other, 9, stream=bench.two)
    bench.device.stream_synchronize(bench.two)
    assert not bench.device.stream_query(bench.one)
    assert bench.download(other, 1, np.int32)[0] == 9
    view[0] = 1
    bench.device.synchronize()


# -- other work of the device does -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["kernel", "copy", "memset", "host function", "array operation"])
@pytest.mark.parametrize("order", ["before", "after"])
def test_another_stream_sets_the_flag(bench: Kernels, how: str, order: str) -> None:
    device, two = bench.device, bench.two
    flag, host = bench.pinned(1, np.int32)
    if how != "host function":
        flag = bench.zeros(1)
    source, value = bench.pinned(1, np.int32)
    value[0] = 5
    out = bench.zeros(32)

    def put() -> None:
        np.frombuffer(device.view(flag, 4), np.int32)[0] = 5

    setters = {
        "kernel": lambda: bench.launch("set", flag, 5, stream=two),
        "copy": lambda: device.memcpy(flag, source, 4, 1, two, True),
        "memset": lambda: device.memset(flag, 5, 1, two, asynchronous=True),
        "host function": lambda: device.launch_host_function(lambda: host.__setitem__(0, 5), two),
        "array operation": lambda: device.array_operation("set", put, [], [(flag, 4)], two),
    }
    if order == "before":
        setters[how]()
    bench.launch("k", flag, out, block=32, stream=bench.one)
    if order == "after":
        device.host_work(20_000)
        setters[how]()
    device.stream_synchronize(bench.one)
    assert bench.download(out, 32, np.int32).tolist() == [5] * 32


def test_waits_in_a_chain(bench: Kernels) -> None:
    """Each launch sets the flag of the one before it."""
    flags, outs = [bench.zeros(1) for _ in range(4)], [bench.zeros(1) for _ in range(4)]
    streams = [bench.device.stream_create(1) for _ in range(4)]
    for number in range(3):
        bench.launch("k", flags[number + 1], flags[number], stream=streams[number])
    bench.launch("k", flags[0], outs[0], stream=streams[3])
    bench.device.host_work(100_000)
    bench.launch("set", flags[3], 7, stream=bench.two)
    bench.device.synchronize()
    assert bench.download(outs[0], 1, np.int32)[0] == 7


def test_a_waiting_launch_does_not_disturb_what_started_before(bench: Kernels) -> None:
    """It has stored at once; another operation in flight still works on memory as it was when that began."""
    device = bench.device
    flag, view = bench.pinned(1, np.int32)
    counter = bench.zeros(1 << 16)
    target = bench.zeros(1 << 16)
    tell = bench.zeros(1)

    def copy() -> None:
        device_view = np.frombuffer(device.view(target, 4 << 16), np.int32)
        device_view[:] = np.frombuffer(device.view(counter, 4 << 16), np.int32)

    device.array_operation("copy", copy, [(counter, 4 << 16)], [(target, 4 << 16)], bench.two, flops=1e12)
    bench.launch("tell", flag, counter, stream=bench.one)
    device.host_work(10_000)
    view[0] = 1
    device.synchronize()
    assert bench.download(counter, 1, np.int32)[0] > 0
    assert bench.download(target, 1, np.int32)[0] == 0
    assert bench.download(tell, 1, np.int32)[0] == 0


# -- what can do without others is like any other kernel ---------------------------------------------------------------


def test_effects_of_a_kernel_with_a_lock_come_at_its_end(bench: Kernels) -> None:
    lock, count = bench.zeros(1), bench.zeros(1)
    early, view = bench.pinned(1, np.int32)
    bench.launch("locked", lock, count, grid=40, block=128, stream=bench.one)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the hazard report's: the wait is missing on purpose
        bench.device.memcpy(early, count, 4, 2, bench.two, True)
        bench.device.synchronize()
    assert view[0] == 0
    assert bench.download(count, 1, np.int32)[0] == 40 * 128


def test_a_missing_wait_for_a_kernel_with_a_lock_is_a_hazard(bench: Kernels) -> None:
    lock, count = bench.zeros(1), bench.zeros(1)
    early, _ = bench.pinned(1, np.int32)
    bench.launch("locked", lock, count, grid=2, block=32, stream=bench.one)
    with pytest.warns(UserWarning, match="hazard"):
        bench.device.memcpy(early, count, 4, 2, bench.two, True)
        bench.device.synchronize()


def test_a_flag_between_kernels_is_no_hazard(bench: Kernels) -> None:
    flag, out = bench.zeros(1), bench.zeros(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bench.launch("k", flag, out, stream=bench.one)
        bench.launch("set", flag, 5, stream=bench.two)
        bench.device.synchronize()


# -- progress ----------------------------------------------------------------------------------------------------------


def test_the_host_sees_progress_and_stops_a_kernel(bench: Kernels) -> None:
    both, view = bench.pinned(2, np.int32)
    bench.launch("tell", both, both + 4, stream=bench.one)
    seen = []
    for _ in range(40):
        assert not bench.device.stream_query(bench.one)
        seen.append(int(view[1]))
        bench.device.host_work(20_000)
    assert seen == sorted(seen) and len(set(seen)) > 10
    view[0] = 1
    bench.device.synchronize()
    assert view[1] >= seen[-1]


def test_the_host_sees_progress_of_a_kernel_that_waits_for_nothing(bench: Kernels) -> None:
    progress, view = bench.pinned(1, np.int32)
    last = bench.zeros(1)
    bench.launch("steps", progress, last, 500, stream=bench.one)
    seen = []
    while not bench.device.stream_query(bench.one):
        seen.append(int(view[0]))
    assert seen == sorted(seen) and seen[0] == 0 and len(set(seen)) > 5
    assert view[0] == 500 and bench.download(last, 1, np.int32)[0] % 2


@pytest.mark.parametrize("name", ["bounded", "timed"])
def test_waits_with_a_bound(bench: Kernels, name: str) -> None:
    """What they counted fits the time that went by."""
    flag, view = bench.pinned(1, np.int32)
    out = bench.zeros(2)
    bench.launch(name, flag, out)
    begin = bench.device.clock_ns
    bench.device.host_work(200_000)
    assert not bench.device.stream_query(0)
    view[0] = 1
    bench.device.synchronize()
    assert bench.device.clock_ns - begin < 300_000
    counted = int(bench.download(out, 1, np.int64)[0])
    assert (500 if name == "bounded" else 300_000) < counted < (5_000 if name == "bounded" else 2_000_000)
    view[0] = 0
    bench.launch(name, flag, out)
    bench.device.synchronize()
    counted = int(bench.download(out, 1, np.int64)[0])
    assert counted == 1_000_000 if name == "bounded" else counted >= 2_000_000


# -- what hangs on a GPU -----------------------------------------------------------------------------------------------


def test_a_flag_that_nobody_sets(bench: Kernels) -> None:
    flag, _ = bench.pinned(1, np.int32)
    bench.launch("k", flag, bench.zeros(64), block=64)
    note = failure(bench.device.synchronize).note
    for part in (
        "kernel k", "while (*flag == 0)", f"{flag:#x}, which hold 0", "pinned allocation", "parameter 1 (flag)",
        "64 threads of 1 block wait", "The host waits in this call and cannot set it", "A GPU waits for ever",
    ):  # fmt: skip
        assert part in note
    failure(bench.device.stream_create)  # it stays


@pytest.mark.parametrize("how", ["same stream", "default stream", "event"])
def test_streams_ordered_the_wrong_way(bench: Kernels, how: str) -> None:
    device = bench.device
    flag, out = bench.zeros(1), bench.zeros(1)
    blocking = device.stream_create(0)
    first, second = {"same stream": (bench.one,) * 2, "default stream": (0, blocking), "event": (bench.one, bench.two)}[
        how
    ]
    bench.launch("k", flag, out, stream=first)
    if how == "event":
        event = device.event_create(2)
        device.event_record(event, first)
        device.stream_wait_event(second, event)
    bench.launch("set", flag, 1, stream=second)
    note = failure(device.synchronize).note
    assert "kernel set (test_polling.py, line" in note and "comes behind this kernel" in note
    assert "another non-blocking stream" in note


def test_no_room_for_the_kernel_that_would_set_the_flag(bench: Kernels) -> None:
    flag, out = bench.zeros(1), bench.zeros(264 * 1024)
    bench.launch("k", flag, out, grid=264, block=1024, stream=bench.one)
    bench.launch("set", flag, 1, stream=bench.two)
    note = failure(bench.device.synchronize).note
    assert "finds no room on the SMs" in note and "270336 threads of 264 blocks wait" in note


def test_two_launches_that_wait_for_each_other(bench: Kernels) -> None:
    a, b = bench.zeros(1), bench.zeros(1)
    bench.launch("k", a, b, stream=bench.one)
    bench.launch("k", b, a, stream=bench.two)
    assert "k waits for memory to change, too" in failure(bench.device.synchronize).note


def test_a_fault_behind_the_wait_is_reported(bench: Kernels) -> None:
    flag, view = bench.pinned(1, np.int32)
    bench.launch("wrong", flag, bench.zeros(1))
    bench.device.host_work(1000)
    view[0] = 1
    with pytest.raises(CudaError) as raised:
        bench.device.synchronize()
    assert raised.value.code == cudaError_t.cudaErrorIllegalAddress


def test_a_lost_device_lets_go_of_what_waits(bench: Kernels) -> None:
    flag, _ = bench.pinned(1, np.int32)
    out, ready = bench.zeros(1), bench.zeros(1)
    bench.launch("k", flag, out, stream=bench.one)
    bench.launch("set", ready, 1, stream=bench.two)
    bench.launch("wrong", ready, out, stream=bench.two)
    with pytest.raises(CudaError) as raised:
        bench.device.synchronize()
    assert raised.value.code == cudaError_t.cudaErrorIllegalAddress
    assert bench.device.idle


def test_the_same_program_takes_the_same_time() -> None:
    def run() -> tuple[int, list[int]]:
        bench = Kernels()
        flag, view = bench.pinned(1, np.int32)
        out = bench.zeros(96)
        bench.launch("k", flag, out, grid=3, block=32, stream=bench.one)
        bench.launch("bounded", flag, out, stream=bench.two)
        for _ in range(5):
            bench.device.stream_query(bench.one)
        view[0] = 4
        bench.device.synchronize()
        return bench.device.clock_ns, bench.download(out, 96, np.int32).tolist()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run() == run()


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_lock_that_is_not_given_back(bench: Kernels, blocks: int) -> None:
    """By a block of the same launch, or by whoever took it before."""
    lock = bench.zeros(1)
    if blocks == 1:
        bench.launch("keep", lock)
    bench.launch("keep", lock, grid=blocks)
    error = failure(bench.device.synchronize)
    assert "whoever has the lock has not given it back" in str(error)
    assert "give the lock back on every way out" in str(error)


def test_a_barrier_of_more_blocks_than_fit(bench: Kernels) -> None:
    arrived = bench.zeros(1)
    bench.launch("meet", arrived, grid=300, block=1024)
    error = failure(bench.device.synchronize)
    assert "36 blocks of the grid have not started: 264 fit on the device at once" in str(error)
    assert "launch at most 264 blocks" in str(error)
