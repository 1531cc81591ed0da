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
