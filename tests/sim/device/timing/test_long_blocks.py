"""Blocks that are too long for a sample: the modelled time is the same on every machine, and the launch's own count of
its loops says what is missing."""

from __future__ import annotations

import struct
import time
from types import SimpleNamespace
from typing import Any

import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.timing.cost import KernelTime
from cudalab.sim.machine.counters import sampling
from cudalab.sim.machine.launch import supervision
from cudalab.sim.machine.trace import recorder

SOURCE = r"""
extern "C" {
__global__ void tiles(const float *from, float *out, int n) {
    __shared__ float tile[64];
    float sum = 0;
    for (int k = 0; k < n; k++) {
        tile[threadIdx.x] = from[(k * 64 + threadIdx.x) & 1023];
        __syncthreads();
#pragma unroll 1
        for (int j = 0; j < 64; j++) sum = sum * tile[j] + 1.0f;
        __syncthreads();
    }
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
__global__ void slabs(const float *from, float *out, int n) {
    __shared__ float slab[16][64];
    float sum = 0;
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < 16; i++) slab[i][threadIdx.x] = from[(k * 16 + i) * 64 + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 64; j++) sum = sum * slab[j & 15][j] + 1.0f;
        __syncthreads();
    }
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
__global__ void reduced(const float *from, float *out, int n) {
    __shared__ float part[64];
    int t = threadIdx.x;
    float sum = t;
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < 64; j++) sum += from[j * 64 + t] * sum;
        part[t] = sum;
        __syncthreads();
        for (int half = 32; half; half /= 2) {
            if (t < half) part[t] += part[t + half];
            __syncthreads();
        }
        sum += part[0];
        __syncthreads();
    }
    out[blockIdx.x * 64 + t] = sum;
}
__device__ void take(float *tile, const float *from) {
    for (int i = 0; i < 16; i++) tile[i * 64 + threadIdx.x] = from[i * 64 + threadIdx.x];
}
__global__ void ahead(const float *from, float *out, int n) {  // the next tile is taken before the barrier
    __shared__ float tile[2][16 * 64];
    float sum = 0;
    take(tile[0], from);
    __syncthreads();
    for (int k = 0; k < n; k++) {
        if (k + 1 < n) take(tile[~k & 1], from + ((k + 1) * 1024 & 8191));
#pragma unroll 1
        for (int j = 0; j < 32; j++) sum = sum * tile[k & 1][j * 16] + 1.0f;
        __syncthreads();
        sum = sum * tile[k & 1][threadIdx.x] + 2.0f;
    }
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
__global__ void threads(const float *from, float *out, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum = sum * from[i & 1023] + 1.0f;
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
}
"""


class Lab:
    def __init__(self) -> None:
        self.device = Device()
        self.module = self.device.load_module(compile(SOURCE))
        self.memory = self.device.malloc(1 << 20)

    def time(self, name: str, rounds: int) -> KernelTime:
        self.device.state.timer.forget()
        arguments = struct.pack("QQi", self.memory, self.memory + (1 << 16), rounds)
        return self.device.time_launch(self.device.get_function(self.module, name), (2, 1, 1), (64, 1, 1), arguments)


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


LONG = (("tiles", 300), ("threads", 20_000))


@pytest.mark.parametrize(("name", "rounds"), LONG)
def test_what_a_stopped_block_leaves_out_is_told_by_its_loops(lab: Lab, monkeypatch, name: str, rounds: int) -> None:
    whole = lab.time(name, rounds)
    for longest in (1 << 19, 1 << 18):
        monkeypatch.setattr(sampling, "LONGEST", longest)
        found = lab.time(name, rounds)
        assert found.extrapolated == "extrapolated from the first part of a block by the work of its loops"
        assert found.ns == pytest.approx(whole.ns, rel=0.02)
    assert whole.extrapolated == ""


def test_rounds_with_loops_of_barriers_in_them_are_those_of_the_outer_loop(lab: Lab, monkeypatch) -> None:
    """And what all of them load comes from the L2 once."""
    whole = lab.time("reduced", 40)
    assert whole.extrapolated == ""
    monkeypatch.setattr(sampling, "RECORDS", 1 << 16)
    found = lab.time("reduced", 40)
    assert found.ns == pytest.approx(whole.ns, rel=0.05)
    assert found.terms["L2"] == pytest.approx(whole.terms["L2"], rel=0.1)


def test_a_round_is_a_round_wherever_its_barrier_stands(lab: Lab, monkeypatch) -> None:
    """The trace ends in the second round, in the third or in the fourth, and in different parts of it."""
    whole, times = lab.time("slabs", 40), []
    for records in (11_000, 14_000, 18_000, 25_000):
        monkeypatch.setattr(sampling, "RECORDS", records)
        found = lab.time("slabs", 40)
        assert found.terms["shared"] == pytest.approx(whole.terms["shared"], rel=0.04)
        times.append(found.ns)
    assert max(times) < 1.04 * min(times)


def test_what_stands_before_a_loop_does_not_count_as_often_as_its_rounds(lab: Lab, monkeypatch) -> None:
    """The first tile is loaded once, however few of the rounds a trace has, and the round in which it ends is counted
    to its end: otherwise 16,000 records tell twice the time."""
    whole = lab.time("ahead", 30)
    assert whole.extrapolated == ""
    for records in (16_000, 24_000, 40_000, 60_000):
        monkeypatch.setattr(sampling, "RECORDS", records)
        assert lab.time("ahead", 30).ns == pytest.approx(whole.ns, rel=0.15)


def test_a_slow_machine_gives_the_same_time(lab: Lab, monkeypatch) -> None:
    """The block makes six million records, for which a machine whose clock is thirty times as fast has no second."""
    monkeypatch.setattr(sampling, "LONGEST", 1 << 18)
    here = lab.time("threads", 100_000)

    def in_little_time(*args: Any, **limits: float) -> int:
        with monkeypatch.context() as patch:
            patch.setattr(supervision, "time", SimpleNamespace(monotonic=lambda: 30.0 * time.monotonic()))
            return supervision.run_blocks(*args, **limits)

    monkeypatch.setattr(recorder, "run_blocks", in_little_time)
    there = lab.time("threads", 100_000)
    assert (there.ns, there.extrapolated) == (here.ns, here.extrapolated)
