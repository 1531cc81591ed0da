"""Launches whose blocks, warps or lanes do different amounts of work: the modelled time follows what they did."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import cudalab.sim.device.timing.launch_time as timing
from cudalab.sim.compiler import compile
from cudalab.sim.compiler.program import Rounds
from cudalab.sim.device import Device
from cudalab.sim.device.observer import Observer
from cudalab.sim.machine.launch.block_work import ENOUGH

SOURCE = r"""
extern "C" {
__global__ void mandelbrot(int *out, int w, int most) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    float cx = -2.0f + 3.0f * x / w, cy = -1.5f + 3.0f * y / w, a = 0, b = 0;
    int n = 0;
    while (n < most && a * a + b * b < 4.0f) {
        float t = a * a - b * b + cx;
        b = 2 * a * b + cy;
        a = t;
        n++;
    }
    out[y * w + x] = n;
}
__global__ void work(const int *wanted, float *out) {
    float x = threadIdx.x;
    for (int i = 0; i < wanted[blockIdx.x]; i++) x = x * 1.0001f + 1.0f;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void lanes(const int *wanted, float *out) {
    float x = threadIdx.x;
    int n = wanted[blockIdx.x * blockDim.x + threadIdx.x];
    for (int i = 0; i < n; i++) x = x * 1.0001f + 1.0f;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void triangle(float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = i;
    if (i < n) for (int j = 0; j < i; j++) x = x * 1.0001f + 1.0f;
    out[i] = x;
}
__global__ void equal(float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = i;
    if (i < n) for (int j = 0; j < 500; j++) x = x * 1.0001f + 1.0f;
    out[i] = x;
}
__global__ void tally(const int *wanted, unsigned *bins) {
    unsigned x = threadIdx.x;
    for (int i = 0; i < wanted[blockIdx.x]; i++) x = x * 1664525u + 1u;
    atomicAdd(&bins[x & 7], 1u);
}
__global__ void shrink(int *wanted) {
    int n = wanted[blockIdx.x], x = threadIdx.x;
    for (int i = 0; i < n; i++) x = x * 3 + 1;
    __syncthreads();
    if (threadIdx.x == 0) wanted[blockIdx.x] = x == 12345 ? 1 : 0;
}
}
"""
BLOCKS = 1000


@pytest.fixture(scope="module")
def program():
    return compile(SOURCE)


class Lab:
    def __init__(self, program) -> None:
        self.device = Device()
        self.module = self.device.load_module(program)
        self.wanted, self.out = self.device.malloc(4 * BLOCKS * 128), self.device.malloc(1 << 20)

    def give(self, values) -> None:
        values = np.asarray(values, np.int32)
        self.device.memcpy(self.wanted, values.ctypes.data, values.nbytes, 1)
        self.device.synchronize()

    def get(self, pointer: int, count: int) -> np.ndarray:
        found = np.zeros(count, np.int32)
        self.device.memcpy(found.ctypes.data, pointer, found.nbytes, 2)
        return found

    def modelled(self, name: str, args: bytes, grid=BLOCKS, block: int = 128):
        """What ``benchmark`` says, and what a launch takes."""
        function = self.device.get_function(self.module, name)
        grid = grid if isinstance(grid, tuple) else (grid, 1, 1)
        return self.device.time_launch(function, grid, (block, 1, 1), args)

    def launched(self, name: str, args: bytes, grid: int = BLOCKS, block: int = 128) -> int:
        spans: list[int] = []
        observer = _Spans(spans)
        self.device.observers.append(observer)
        self.device.launch(self.device.get_function(self.module, name), (grid, 1, 1), (block, 1, 1), args, 0, 0)
        self.device.synchronize()
        self.device.observers.remove(observer)
        return spans[-1]

    def work(self, values) -> float:
        self.give(values)
        return self.modelled("work", struct.pack("QQ", self.wanted, self.out)).exact_ns


class _Spans(Observer):
    def __init__(self, spans: list[int]) -> None:
        self._spans = spans

    def ended(self, operation) -> None:
        if operation.kind == "kernel":
            self._spans.append(operation.end - operation.start)


@pytest.fixture
def lab(program) -> Lab:
    return Lab(program)


def test_more_iterations_of_a_picture_take_longer(lab: Lab) -> None:
    w = 256
    few, some, many = (
        lab.modelled("mandelbrot", struct.pack("Qii", lab.out, w, most), (2, w, 1)).ns for most in (20, 200, 2000)
    )
    assert many > 4 * some > 4 * few


def test_one_heavy_block_is_what_the_launch_waits_for(lab: Lab) -> None:
    light = lab.work(np.full(BLOCKS, 100))
    heavy = lab.work(np.where(np.arange(BLOCKS) == 7, 50_000, 100))
    alone = lab.work(np.where(np.arange(BLOCKS) == 7, 50_000, 0))
    assert heavy > 20 * light
    assert heavy == pytest.approx(alone, rel=0.1)
    assert lab.modelled("work", struct.pack("QQ", lab.wanted, lab.out)).bound == "tail"


def test_work_that_grows_takes_what_its_sum_does_and_a_tail(lab: Lab) -> None:
    even = lab.work(np.full(BLOCKS, 2000))
    growing = lab.work(np.arange(BLOCKS) * 4)
    assert even < growing < 2.5 * even


def test_a_heavy_last_block_is_not_hidden(lab: Lab) -> None:
    first = lab.work(np.where(np.arange(BLOCKS) == 0, 20_000, 1000))
    last = lab.work(np.where(np.arange(BLOCKS) == BLOCKS - 1, 20_000, 1000))
    even = lab.work(np.full(BLOCKS, 1000))
    assert first > 2 * even
    assert last >= first


def test_a_heavy_lane_keeps_its_warp(lab: Lab) -> None:
    """Lanes of a warp run in lockstep: one of 32 with the work costs as much as all 32."""
    args = struct.pack("QQ", lab.wanted, lab.out)
    thread = np.arange(BLOCKS * 128)
    lab.give(np.where(thread % 32 == 5, 1000, 10))
    one = lab.modelled("lanes", args).exact_ns
    lab.give(np.full(BLOCKS * 128, 1000))
    assert one == pytest.approx(lab.modelled("lanes", args).exact_ns, rel=0.1)


def test_a_heavy_warp_counts_for_its_own_chain_alone(lab: Lab) -> None:
    """One on an SM has its scheduler for itself; eight on each wait for one another."""
    args = struct.pack("QQ", lab.wanted, lab.out)
    thread = np.arange(BLOCKS * 128) % 1024
    lab.give(np.where(thread < 32, 4000, 0))
    one = lab.modelled("lanes", args, BLOCKS // 8, 1024).exact_ns
    lab.give(np.full(BLOCKS * 128, 4000))
    assert lab.modelled("lanes", args, BLOCKS // 8, 1024).exact_ns > 1.5 * one


def test_a_triangular_loop_is_more_than_its_middle(lab: Lab) -> None:
    n = 64 * 1000
    time = lab.modelled("triangle", struct.pack("Qi", lab.out, n), 500).exact_ns
    even = lab.modelled("equal", struct.pack("Qi", lab.out, n), 500).exact_ns
    assert time > 20 * even


def test_blocks_that_are_equal_take_what_they_took(lab: Lab, monkeypatch) -> None:
    """One traced block stands for all, and there is no tail: the figure is that of the sample alone."""
    function = lab.device.get_function(lab.module, "equal")
    args = struct.pack("Qi", lab.out, BLOCKS * 128 - 40)
    monkeypatch.setattr(timing, "sample_strata", lambda *_, **__: pytest.fail("equal blocks are taken as different"))
    found = lab.modelled("equal", args)
    timer = lab.device.state.timer
    launch = lab.device.loaded_kernel(function).launch(BLOCKS, 128, args)
    assert found.exact_ns == timing.kernel_time(lab.device.profile, timer.workload(launch)).exact_ns
    assert "tail" not in found.terms and not found.extrapolated


def test_a_launch_takes_what_it_did(lab: Lab) -> None:
    """Each launch of a loop over data in place: the time follows the data, not the first launch."""
    args = struct.pack("QQ", lab.wanted, lab.out)
    times = []
    for rounds in (100, 100, 20_000, 100, 20_000):
        lab.give(np.where(np.arange(BLOCKS) == 3, rounds, 100))
        times.append(lab.launched("work", args))
    del times[0]  # the L2 was cold
    assert times[1] > 10 * times[0]
    assert times[2:] == times[:2]


def test_a_launch_takes_as_long_as_its_benchmark(lab: Lab) -> None:
    lab.give(np.arange(BLOCKS))
    args = struct.pack("QQ", lab.wanted, lab.out)
    lab.launched("work", args)  # what it touches is in the L2 then
    assert lab.launched("work", args) == lab.modelled("work", args).ns


def test_the_same_work_is_not_sampled_again(lab: Lab, monkeypatch) -> None:
    lab.give(np.arange(BLOCKS))
    args = struct.pack("QQ", lab.wanted, lab.out)
    lab.launched("work", args)
    first = lab.launched("work", args)
    monkeypatch.setattr(timing, "sample_strata", lambda *_, **__: pytest.fail("sampled again"))
    assert lab.launched("work", args) == first


def test_rounds_that_the_launch_decides_are_counted_once(lab: Lab) -> None:
    args = struct.pack("Qi", lab.out, 64_000)
    lab.launched("triangle", args, 500)
    function = lab.device.get_function(lab.module, "triangle")
    launch = lab.device.loaded_kernel(function).launch(500, 128, args)
    assert not lab.device.state.timer.wants_work(launch)


def test_a_launch_that_changes_what_it_reads_runs_once(lab: Lab) -> None:
    """It runs before its time is known; the samples see memory as it was, and its stores come once."""
    lab.give(np.where(np.arange(BLOCKS) == 9, 30_000, 50))
    args = struct.pack("Q", lab.wanted)
    assert lab.launched("shrink", args) > 20_000
    assert not lab.get(lab.wanted, BLOCKS).any()
    assert lab.launched("shrink", args) < 10_000


def test_atomics_are_made_once(lab: Lab) -> None:
    lab.give(np.arange(BLOCKS) % 50)
    lab.device.memset(lab.out, 0, 32)
    lab.launched("tally", struct.pack("QQ", lab.wanted, lab.out))
    assert lab.get(lab.out, 8).sum() == BLOCKS * 128


def test_stores_stay_hidden_until_the_end(lab: Lab) -> None:
    """The launch runs when it starts; a copy in another stream that does not wait for it sees old data."""
    lab.give(np.full(BLOCKS, 20_000))
    lab.device.memset(lab.out, 0, 4)
    lab.device.synchronize()
    seen = lab.device.malloc_host(4 * BLOCKS)
    streams = [lab.device.stream_create(1) for _ in range(2)]
    lab.device.launch(
        lab.device.get_function(lab.module, "shrink"),
        (BLOCKS, 1, 1),
        (128, 1, 1),
        struct.pack("Q", lab.wanted),
        0,
        streams[0],
    )
    lab.device.memcpy(seen, lab.wanted, 4 * BLOCKS, 2, streams[1], True)
    lab.device.stream_synchronize(streams[1])
    assert (lab.device.memory.array(seen, BLOCKS, np.int32) == 20_000).all()
    lab.device.synchronize()
    assert not lab.get(lab.wanted, BLOCKS).any()


def test_a_benchmark_that_stops_early_says_so(lab: Lab, monkeypatch) -> None:
    monkeypatch.setitem(ENOUGH, Rounds.INDEX, 1)
    found = lab.modelled("triangle", struct.pack("Qi", lab.out, 64_000), 500)
    assert found.extrapolated == "extrapolated from 8 of 500 blocks"
    whole = lab.launched("triangle", struct.pack("Qi", lab.out, 64_001), 500)
    assert found.ns == pytest.approx(whole, rel=0.1)
