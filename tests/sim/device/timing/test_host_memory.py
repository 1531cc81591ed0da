"""Kernels that read and write host memory by its mapped address: their bytes cross the bus, as those of a copy do."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from bench.fidelity.catalogue import catalogue
from bench.fidelity.experiment import EXPERIMENTS
from bench.fidelity.stored import everything
from cudalab.sim.compiler import compile
from cudalab.sim.device import Device

SOURCE = r"""
extern "C" {
__global__ void scale(const float *x, float *y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2.0f * x[i];
}
__global__ void again(const float *x, float *y, int n) {  // each block reads all of x, twice
    float sum = 0;
    for (int k = 0; k < 2; k++)
        for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void copy(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}
__global__ void strided(const float *x, float *y, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i * stride];
}
__global__ void follow(const float *const *x, float *y, int n) { y[threadIdx.x] = x[0][threadIdx.x]; }
__global__ void add(int *x) { atomicAdd(&x[threadIdx.x], 1); }
}
"""
BLOCKS, THREADS = 132, 256


class Lab:
    """A device, its kernels and where their memory is."""

    def __init__(self) -> None:
        self.device = Device()
        self.module = self.device.load_module(compile(SOURCE))
        constants = self.device.profile.device
        self.bus = constants["bus_byte"] * constants["bus_load"]
        """ns for a byte that a kernel loads."""

    def time(self, name: str, layout: str, *values: int, blocks: int = BLOCKS) -> object:
        function = self.device.get_function(self.module, name)
        return self.device.time_launch(function, (blocks, 1, 1), (THREADS, 1, 1), struct.pack(layout, *values))


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


N = BLOCKS * THREADS * 16
SIZE = 4 * N


def test_host_memory_is_read_at_the_speed_of_the_bus(lab):
    host, here = lab.device.malloc_host(SIZE), lab.device.malloc(SIZE)
    found = lab.time("scale", "QQi", host, here, N)
    assert found.bound == "bus"
    assert SIZE * lab.bus < found.ns < SIZE * lab.bus + 10_000
    assert found.peak_fraction > 0.9


def test_device_memory_does_not_need_the_bus(lab):
    one, other = lab.device.malloc(SIZE), lab.device.malloc(SIZE)
    found = lab.time("scale", "QQi", one, other, N)
    assert "bus" not in found.terms or not found.terms["bus"]
    assert found.ns < SIZE * lab.bus / 2


def test_both_directions_at_once_take_little_longer_than_one(lab):
    host, back, here = (lab.device.malloc_host(SIZE), lab.device.malloc_host(SIZE), lab.device.malloc(SIZE))
    one, both = lab.time("scale", "QQi", host, here, N), lab.time("scale", "QQi", host, back, N)
    assert 1.02 * one.ns < both.ns < 1.2 * one.ns


@pytest.mark.parametrize(
    ("name", "both"),
    [("mapped memory: reads by size", False), ("mapped memory: reads and writes by size", True)],
)
def test_a_thread_for_each_element_takes_what_it_takes_on_an_h200(lab, name, both):
    catalogue()
    assert EXPERIMENTS[name].side == "calibration"
    for variant, measured in everything().figures[name].items():
        n = {"64 KB": 16 << 10, "1 MB": 256 << 10, "16 MB": 4 << 20}[variant]
        host, back = lab.device.malloc_host(4 * n), (lab.device.malloc_host if both else lab.device.malloc)(4 * n)
        found = lab.time("copy", "QQ", host, back, blocks=n // THREADS).ns + lab.device.profile.device["event_record"]
        assert found == pytest.approx(1000 * measured, rel=0.15), variant


@pytest.mark.parametrize(("stride", "measured"), [(2, 45.6), (8, 167.8), (16, 316.3), (24, 309.1), (64, 375.2)])
def test_a_load_brings_64_bytes_over_the_bus_at_least(lab, stride, measured):
    """262,144 floats that lie so many apart (docs/evidence/2026-11-24-calls-and-graphs.json)."""
    n = 262_144
    host, here = lab.device.malloc_host(4 * n * stride), lab.device.malloc(4 * n)
    assert lab.time("strided", "QQi", host, here, stride, blocks=n // THREADS).ns == pytest.approx(
        1000 * measured, rel=0.15
    )


def test_registered_memory_counts_as_well(lab):
    array, here = np.ones(N, np.float32), lab.device.malloc(SIZE)
    lab.device.host_register(array.ctypes.data, SIZE)
    assert lab.time("scale", "QQi", array.ctypes.data, here, N).bound == "bus"
    lab.device.host_unregister(array.ctypes.data)


def test_each_block_fetches_what_it_needs_once(lab):
    host, here = lab.device.malloc_host(64 << 10), lab.device.malloc(SIZE)
    found = lab.time("again", "QQi", host, here, 16 << 10)
    assert found.terms["bus"] == pytest.approx(BLOCKS * (64 << 10) * lab.bus)


def test_memory_behind_a_pointer_is_found(lab):
    host, table, here = lab.device.malloc_host(4096), lab.device.malloc(8), lab.device.malloc(SIZE)
    there = np.array([host], np.uint64)
    lab.device.memcpy(table, there.ctypes.data, 8, 1)
    lab.device.synchronize()
    found = lab.time("follow", "QQi", table, here, 1, blocks=1)
    assert found.terms["bus"] == pytest.approx(4 * THREADS * lab.bus)


def test_an_atomic_crosses_the_bus_in_both_directions(lab):
    host, constants = lab.device.malloc_host(4096), lab.device.profile.device
    found = lab.time("add", "Q", host, blocks=1)
    slower = constants["bus_byte"] * (constants["bus_contention"] - 1)
    assert found.terms["bus"] == pytest.approx(4 * THREADS * (lab.bus + slower))


def test_a_small_read_takes_a_round_trip_over_the_bus(lab):
    host, here = lab.device.malloc_host(4 * THREADS), lab.device.malloc(4 * THREADS)
    far, near = (lab.time("scale", "QQi", x, here, THREADS, blocks=1).ns for x in (host, here))
    latency = lab.device.profile.device
    assert far - near == pytest.approx(latency["host_latency"] - latency["l2_latency"], rel=0.25)
