"""Launches through the device: results, asynchronous errors, stickiness, printf, forgotten waits, replay, time."""

from __future__ import annotations

import _thread
import struct
import threading

import numpy as np
import pytest
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.compiler import compile
from cudalab.sim.device import CudaError, Device, Log
from cudalab.sim.device.replay import replay
from tests.sim.alarm import alarm, needs_alarms
from tests.sim.device.conftest import Bench

SOURCE = r"""
extern "C" {
__device__ int counter = 5;
__constant__ float factors[4] = {1, 2, 3, 4};

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
__global__ void increment(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}
__global__ void slow_increment(float *x, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float y = i < n ? x[i] : 0;
    for (int k = 0; k < rounds; k++) y = y * 1.0f + (k == 0);
    if (i < n) x[i] = y;
}
__global__ void overrun(int *x) { x[threadIdx.x + 1] = 1; }
__global__ void say(int n) { printf("block %d of %d\n", blockIdx.x, n); }
__global__ void count(unsigned *total) { atomicAdd(total, 1u); }
__global__ void bump() { counter += 1; }
__global__ void tiles(float *x) {
    extern __shared__ float t[];
    t[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] = t[0];
}
__global__ void __launch_bounds__(128) bounded(int *x) { x[0] = 1; }
__global__ void follow(int **p) { **p = 7; }
__global__ void spin() { while (true) {} }
__global__ void check(int limit) { int i = threadIdx.x; assert(i < limit); }
}
"""


@pytest.fixture(scope="module")
def program():
    return compile(SOURCE)


class Kernels(Bench):
    def __init__(self, program, **options):
        super().__init__(**options)
        self.module = self.device.load_module(program)

    def run(self, name, grid, block, layout="", *values, shared=0, stream=0):
        self.device.launch(
            self.function(name), (grid, 1, 1), (block, 1, 1), struct.pack(layout, *values), shared, stream
        )

    def function(self, name):
        return self.device.get_function(self.module, name)


@pytest.fixture
def kernels(program):
    return Kernels(program)


def code_of(call, *arguments):
    with pytest.raises(CudaError) as caught:
        call(*arguments)
    return caught.value.code


def test_vector_add(kernels):
    a, b = np.random.default_rng(0).random((2, 10_000), np.float32)
    c = kernels.device.malloc(a.nbytes)
    kernels.run("add", 40, 256, "QQQi", kernels.upload(a), kernels.upload(b), c, 10_000)
    assert np.array_equal(kernels.download(c, 10_000, np.float32), a + b)


def test_a_launch_returns_before_the_kernel_has_run(kernels):
    pointer = kernels.upload(np.zeros(1 << 16, np.float32))
    kernels.device.synchronize()
    kernels.run("increment", 256, 256, "Qi", pointer, 1 << 16)
    view = np.frombuffer(kernels.device.view(pointer, 1 << 18), np.float32)
    assert not view.any()
    kernels.device.synchronize()
    assert view.all()


@pytest.mark.parametrize("wait", [False, True])
def test_a_forgotten_wait_between_kernel_and_copy(kernels, wait):
    device = kernels.device
    one, two = device.stream_create(1), device.stream_create(1)
    n = 1 << 16
    pointer = kernels.upload(np.zeros(n, np.float32))
    pinned, view = kernels.pinned(n)
    kernels.run("slow_increment", n // 256, 256, "Qii", pointer, n, 2000, stream=one)
    if wait:
        device.stream_synchronize(one)
    device.memcpy(pinned, pointer, 4 * n, 2, two, True)
    device.synchronize()
    assert view.tolist() == [float(wait)] * n


def test_a_copy_that_overtakes_a_kernel(kernels):
    """The kernel began before the copy: it works on the old bytes, and its result comes last."""
    device = kernels.device
    one, two = device.stream_create(1), device.stream_create(1)
    n = 1 << 14
    pointer = kernels.upload(np.zeros(n, np.float32))
    pinned, view = kernels.pinned(n)
    view[:] = 50
    kernels.run("slow_increment", n // 256, 256, "Qii", pointer, n, 20_000, stream=one)
    device.memcpy(pointer, pinned, 4 * n, 1, two, True)
    device.stream_synchronize(two)
    assert kernels.device.view(pointer, 4)[:] == np.float32(50).tobytes()
    device.synchronize()
    assert kernels.download(pointer, n, np.float32).tolist() == [1.0] * n


def test_atomics_of_kernels_that_run_together_all_count(kernels):
    total = kernels.upload(np.zeros(1, np.uint32))
    for _ in range(4):
        kernels.run("count", 64, 128, "Q", total, stream=kernels.device.stream_create(1))
    kernels.device.synchronize()
    assert kernels.download(total, 1, np.uint32)[0] == 4 * 64 * 128


def test_a_kernel_that_follows_pointers_is_held_back_too(kernels):
    device = kernels.device
    target = kernels.upload(np.zeros(64, np.int32))
    table = kernels.upload(np.array([target], np.uint64))
    pinned, _ = kernels.pinned(64, np.int32)
    device.synchronize()
    one, two = device.stream_create(1), device.stream_create(1)
    kernels.run("follow", 1, 1, "Q", table, stream=one)
    device.memcpy(target, pinned, 256, 1, two, True)
    device.synchronize()
    assert kernels.download(target, 1, np.int32)[0] in (0, 7)


def test_module_variables_live_across_launches(kernels):
    pointer, size = kernels.device.get_global(kernels.module, "counter")
    assert size == 4
    for _ in range(3):
        kernels.run("bump", 1, 1)
    assert kernels.download(pointer, 1, np.int32)[0] == 8
    constants, size = kernels.device.get_global(kernels.module, "factors")
    assert kernels.download(constants, 4, np.float32).tolist() == [1, 2, 3, 4]
    assert code_of(kernels.device.free, pointer) == cudaError_t.cudaErrorInvalidValue


def test_names_that_are_none_are_listed(kernels):
    with pytest.raises(CudaError, match="increment") as caught:
        kernels.device.get_function(kernels.module, "nope")
    assert caught.value.code == cudaError_t.cudaErrorSymbolNotFound
    assert code_of(kernels.device.get_global, kernels.module, "nope") == cudaError_t.cudaErrorSymbolNotFound


def test_an_unloaded_module_is_gone(kernels):
    function = kernels.function("bump")
    kernels.device.unload_module(kernels.module)
    assert code_of(kernels.device.launch, function, (1, 1, 1), (1, 1, 1), b"") == (
        cudaError_t.cudaErrorInvalidResourceHandle
    )
    assert kernels.device.memory.in_use == 0


@pytest.mark.parametrize(
    ("name", "grid", "block", "shared"),
    [
        ("bump", (0, 1, 1), (1, 1, 1), 0),
        ("bump", (1, 1, 1), (0, 1, 1), 0),
        ("bump", (1, 1, 1), (2048, 1, 1), 0),
        ("bump", (1, 1, 1), (1, 1, 65), 0),
        ("bump", (1, 65536, 1), (1, 1, 1), 0),
        ("bump", (2**31, 1, 1), (1, 1, 1), 0),
        ("bump", (1, 1, 1), (1, 1, 1), 49153),
        ("bump", (1, 1, 1), (1, 1, 1), 300_000),
        ("bounded", (1, 1, 1), (256, 1, 1), 0),
    ],
)
def test_configurations_that_are_not_allowed(kernels, name, grid, block, shared):
    """All are CUDA_ERROR_INVALID_VALUE from cuLaunchKernel on an H200; the device stays usable."""
    args = bytes(8) if name == "bounded" else b""
    with pytest.raises(CudaError) as caught:
        kernels.device.launch(kernels.function(name), grid, block, args, shared)
    assert caught.value.code == cudaError_t.cudaErrorInvalidValue
    assert not caught.value.sticky
    kernels.device.synchronize()


def test_more_shared_memory_after_opting_in(kernels):
    device, tiles = kernels.device, kernels.function("tiles")
    out = device.malloc(1024)
    arguments = (tiles, (1, 1, 1), (256, 1, 1), struct.pack("Q", out), 100_000)
    assert code_of(device.launch, *arguments) == cudaError_t.cudaErrorInvalidValue
    device.function_set_attribute(tiles, 8, 100_000)
    device.launch(*arguments)
    assert kernels.download(out, 256, np.float32).tolist() == [1.0] * 256
    assert device.function_info(tiles).max_dynamic_shared == 100_000
    assert code_of(device.function_set_attribute, tiles, 8, 232_449) == cudaError_t.cudaErrorInvalidValue


@pytest.mark.parametrize(
    ("block", "shared", "blocks"),
    [(32, 0, 32), (256, 0, 8), (1024, 0, 2), (1, 0, 32), (256, 50_000, 4), (256, 100_000, 2), (1025, 0, 0)],
)
def test_occupancy(kernels, block, shared, blocks):
    assert kernels.device.occupancy(kernels.function("bump"), block, shared) == blocks


def test_a_fault_surfaces_at_a_later_call_and_sticks(kernels):
    device = kernels.device
    pointer = device.malloc(256)
    kernels.run("overrun", 1, 64, "Q", pointer)
    assert device.peek_at_last_error() == 0
    with pytest.raises(CudaError, match="past the end of the 256-byte allocation") as caught:
        device.synchronize()
    assert caught.value.code == cudaError_t.cudaErrorIllegalAddress
    assert caught.value.sticky
    illegal = cudaError_t.cudaErrorIllegalAddress
    for call, arguments in (
        (device.malloc, (64,)),
        (device.free, (pointer,)),
        (device.free, (0,)),
        (device.malloc_host, (64,)),
        (device.memset, (pointer, 0, 4)),
        (device.event_create, ()),
        (device.stream_create, ()),
        (device.memory_info, ()),
        (device.get_limit, (0,)),
        (device.synchronize, ()),
    ):
        assert code_of(call, *arguments) == illegal
    assert device.get_last_error() == illegal
    assert device.get_last_error() == 0  # as on a GPU: taken, until the next call sets it again
    assert device.attribute(10) == 32
    assert device.pointer_attributes(pointer).type == 2


def test_device_reset_does_not_bring_a_lost_device_back(kernels):
    kernels.run("overrun", 1, 64, "Q", kernels.device.malloc(256))
    assert code_of(kernels.device.synchronize) == cudaError_t.cudaErrorIllegalAddress
    kernels.device.reset()
    with pytest.raises(CudaError, match=r"cudalab\.reset"):
        kernels.device.malloc(64)


def test_a_new_device_after_a_fault(kernels, monkeypatch):
    from cudalab.sim import device as package

    before = package.set_current_device(kernels.device)
    try:
        kernels.run("overrun", 1, 64, "Q", kernels.device.malloc(256))
        assert code_of(kernels.device.synchronize) == cudaError_t.cudaErrorIllegalAddress
        assert package.current_device() is kernels.device
        package.reset()
        assert package.current_device().malloc(64)
    finally:
        package.set_current_device(before)


def test_work_behind_a_fault_never_runs(kernels):
    device = kernels.device
    pinned, view = kernels.pinned(4)
    pointer = kernels.upload(np.ones(4, np.float32))
    kernels.run("overrun", 1, 64, "Q", device.malloc(256))
    device.memcpy(pinned, pointer, 16, 2, 0, True)
    assert code_of(device.synchronize) == cudaError_t.cudaErrorIllegalAddress
    assert not view.any()


def test_endless_loops_end(kernels):
    kernels.device.settings.time_limit = 0.2
    kernels.run("spin", 1, 1)
    assert code_of(kernels.device.synchronize) == cudaError_t.cudaErrorLaunchTimeout


def test_an_interrupt_stops_a_kernel_and_leaves_the_device_usable(kernels):
    kernels.run("spin", 1, 1)
    timer = threading.Timer(4, _thread.interrupt_main)  # by then it runs; one that is still to come is not stopped
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        kernels.device.synchronize()
    timer.join()
    data = np.ones(16, np.float32)
    pointer = kernels.upload(data)
    kernels.run("increment", 1, 16, "Qi", pointer, 16)
    assert kernels.download(pointer, 16, np.float32).tolist() == [2.0] * 16


@needs_alarms
@pytest.mark.parametrize("error", [TimeoutError, SystemExit])
def test_an_alarm_of_the_program_stops_a_kernel_and_leaves_the_device_usable(kernels, error):
    kernels.run("spin", 1, 1)
    with pytest.raises(error, match="my own alarm"), alarm(0.3, error):
        kernels.device.synchronize()
    pointer = kernels.upload(np.ones(16, np.float32))
    kernels.run("increment", 1, 16, "Qi", pointer, 16)
    assert kernels.download(pointer, 16, np.float32).tolist() == [2.0] * 16


def test_a_failed_assertion(kernels, capsys):
    kernels.run("check", 1, 4, "i", 2)
    assert code_of(kernels.device.synchronize) == cudaError_t.cudaErrorAssert
    assert "thread: [2,0,0] Assertion `i < limit` failed." in capsys.readouterr().err


def test_printf_comes_out_at_a_synchronisation(kernels, capsys):
    kernels.run("say", 3, 1, "i", 3)
    assert capsys.readouterr().out == ""
    kernels.device.synchronize()
    assert capsys.readouterr().out == "block 0 of 3\nblock 1 of 3\nblock 2 of 3\n"


def test_a_recorded_launch_replays(program):
    kernels = Kernels(program, record=True)
    n = 5000
    a, b = np.random.default_rng(1).random((2, n), np.float32)
    c = kernels.device.malloc(4 * n)
    kernels.run("add", 20, 256, "QQQi", kernels.upload(a), kernels.upload(b), c, n)
    result = kernels.download(c, n, np.float32)
    kernels.run("overrun", 1, 64, "Q", kernels.device.malloc(256))
    assert code_of(kernels.device.synchronize) == cudaError_t.cudaErrorIllegalAddress
    twin = replay(Log.from_bytes(kernels.device.log.to_bytes()))
    assert twin.log.spans == kernels.device.log.spans
    assert [e.host_ns for e in twin.log.entries] == [e.host_ns for e in kernels.device.log.entries]
    (delivered,) = [data for blocks in twin.log.delivered.values() for _, data in blocks]
    assert delivered == result.tobytes()


def test_mapped_memory_in_a_kernel_replays(program):
    kernels = Kernels(program, record=True)
    pinned, view = kernels.pinned(64)
    view[:] = 41
    kernels.run("increment", 1, 64, "Qi", pinned, 64)
    kernels.device.synchronize()
    assert view.tolist() == [42.0] * 64
    twin = replay(Log.from_bytes(kernels.device.log.to_bytes()))
    (allocation,) = [a for a in twin.memory if a.kind == "pinned"]
    assert np.frombuffer(twin.view(allocation.pointer, 256), np.float32).tolist() == [42.0] * 64


def test_timing_a_launch_leaves_no_trace(kernels):
    device = kernels.device
    pointer = kernels.upload(np.zeros(1 << 16, np.float32))
    device.synchronize()
    increment = kernels.function("increment")
    clock = device.clock_ns
    time = device.time_launch(increment, (256, 1, 1), (256, 1, 1), struct.pack("Qi", pointer, 1 << 16))
    assert device.clock_ns == clock
    assert not np.frombuffer(device.view(pointer, 1 << 18), np.float32).any()
    assert time.ns > 1000
    assert time.bound in time.terms
    assert 0 <= time.peak_fraction <= 1


def test_a_timed_launch_takes_that_long(program):
    kernels = Kernels(program, record=True)
    pointer = kernels.upload(np.zeros(1 << 16, np.float32))
    args = struct.pack("Qi", pointer, 1 << 16)
    time = kernels.device.time_launch(kernels.function("increment"), (256, 1, 1), (256, 1, 1), args)
    for _ in range(2):  # the first finds a cold L2
        kernels.run("increment", 256, 256, "Qi", pointer, 1 << 16)
        kernels.device.synchronize()
    cold, warm = (end - start for _, kind, _, start, end in sorted(kernels.device.log.spans) if kind == "kernel")
    assert warm == pytest.approx(time.ns, abs=2)
    assert cold > warm


def test_a_cooperative_launch_must_fit_the_device(kernels):
    code = code_of(kernels.device.launch, kernels.function("bump"), (10_000, 1, 1), (1024, 1, 1), b"", 0, 0, True)
    assert code == cudaError_t.cudaErrorCooperativeLaunchTooLarge


def test_kernels_of_two_streams_share_the_device(program):
    def overlap(profile, grid):
        kernels = Kernels(program, profile=profile, record=True)
        pointers = [kernels.upload(np.zeros(grid * 1024, np.float32)) for _ in range(2)]
        for pointer in pointers:
            stream = kernels.device.stream_create(1)
            kernels.run("slow_increment", grid, 1024, "Qii", pointer, grid * 1024, 3000, stream=stream)
        kernels.device.synchronize()
        (_, end), (start, _) = [(s, e) for _, kind, _, s, e in sorted(kernels.device.log.spans) if kind == "kernel"]
        return start < end

    assert overlap("h200", 16)
    assert not overlap("h200-serial", 16)


def test_the_reset_of_a_healthy_device(kernels):
    device = kernels.device
    pointer = device.malloc(64)
    clock = device.clock_ns
    device.reset()
    assert device.memory.in_use == 0
    assert device.clock_ns >= clock
    assert code_of(device.free, pointer) == cudaError_t.cudaErrorInvalidValue
    assert device.malloc(64)
    assert isinstance(device, Device)
