"""Which kernels touch the same bytes in every launch, and that remembering them changes nothing."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from tests.sim.device.conftest import Bench

SOURCE = r"""
extern "C" {
__global__ void axpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
__global__ void stencil(const float *x, float *y, int n) {
    __shared__ float tile[258];
    int i = blockIdx.x * 256 + threadIdx.x;
    tile[threadIdx.x + 1] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) y[i] = tile[threadIdx.x] + tile[threadIdx.x + 2];
}
__global__ void product(const float *a, const float *b, float *c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}
__global__ void total(const float *x, float *sum) {
    float v = x[threadIdx.x];
    for (int step = 16; step; step /= 2) v += __shfl_down_sync(0xffffffff, v, step);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, v);
}
__global__ void gather(const int *index, const float *x, float *y) { y[threadIdx.x] = x[index[threadIdx.x]]; }
__global__ void histogram(int *bins, const int *values) { atomicAdd(&bins[values[threadIdx.x]], 1); }
__global__ void where(const float *x, float *y) { if (x[threadIdx.x] > 0) y[threadIdx.x] = 1; }
__global__ void until(const int *count, float *y) { for (int i = 0; i < *count; i++) y[i] = 1; }
__global__ void through_shared(const int *index, float *y) {
    __shared__ int mine[32];
    mine[threadIdx.x] = index[threadIdx.x];
    __syncthreads();
    y[mine[31 - threadIdx.x]] = 1;
}
__global__ void by_clock(float *y) { y[clock64() & 31] = 1; }
__global__ void ticket(int *next, float *y) { y[atomicAdd(next, 1)] = 1; }
__global__ void early(const int *stop, float *y) { if (*stop) return; y[threadIdx.x] = 1; }
__constant__ int offset;
__global__ void by_constant(float *y) { y[threadIdx.x + offset] = 1; }
}
"""
STEADY = {"axpy", "stencil", "product", "total"}


@pytest.fixture(scope="module")
def program():
    return compile(SOURCE)


def test_steady_kernels(program):
    assert {name for name, kernel in program.kernels.items() if kernel.steady} == STEADY


@pytest.fixture
def bench():
    return Bench()


def launch(bench, program, name, grid, block, args, stream=0):
    device = bench.device
    function = device.get_function(bench.module, name)
    device.launch(function, grid, block, args, 0, stream)


def test_a_remembered_footprint_finds_what_the_first_one_found(bench, program):
    device = bench.device
    bench.module = device.load_module(program)
    streams = [device.stream_create(1) for _ in range(2)]
    x, y = (bench.upload(np.ones(512, np.float32)) for _ in range(2))
    device.synchronize()
    for turn in range(3):
        for stream, first in zip(streams, (0, 256 - turn), strict=True):
            args = struct.pack("<fxxxxQQi", 2.0, x + 4 * first, y + 4 * first, 256)
            args += b"\0" * (-len(args) % 4)
            launch(bench, program, "axpy", (1, 1, 1), (256, 1, 1), args, stream)
        device.synchronize()
        assert [hazard.bytes for hazard in device.hazards] == [4] * (turn > 0)
    assert device.hazards[0].count == 2


def test_an_unsteady_kernel_is_looked_at_every_time(bench, program):
    device = bench.device
    bench.module = device.load_module(program)
    streams = [device.stream_create(1) for _ in range(2)]
    out = bench.upload(np.zeros(128, np.float32))
    x = bench.upload(np.ones(32, np.float32))
    for shift in (0, 64, 0):
        index = bench.upload(np.arange(32, dtype=np.int32))
        far = bench.upload(np.arange(32, dtype=np.int32) + shift)
        device.synchronize()
        found = len(device.hazards)
        args = [struct.pack("<QQ", pointer, out) for pointer in (index, far)]
        for stream, packed in zip(streams, args, strict=True):
            launch(bench, program, "through_shared", (1, 1, 1), (32, 1, 1), packed, stream)
        device.synchronize()
        assert bool(device.hazards) == (shift == 0) or found
    assert x and device.hazards[0].count == 2
