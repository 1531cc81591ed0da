"""What a launch is taken to need: it follows shapes and arguments, and data where the kernel does."""

from __future__ import annotations

import struct
import time

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.timing.launch_time import mix

SOURCE = r"""
extern "C" {
__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
__global__ void histogram(const unsigned char *x, unsigned *bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[x[i]], 1u);
}
__global__ void choose(const int *flags, float *out, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = threadIdx.x;
    if (flags[i]) for (int k = 0; k < rounds; k++) x = x * 1.0001f + 0.5f;
    out[i] = x;
}
__global__ void chain(float *out, int rounds) {
    float x = threadIdx.x;
    for (int i = 0; i < rounds; i++) x = x * 1.0001f + 0.5f;
    out[threadIdx.x] = x;
}
__global__ void divide(int *out, int by) { out[threadIdx.x] = threadIdx.x / by; }
__global__ void tile(const float *x, float *y) {
    __shared__ float t[32][32];
    t[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 32; k++) sum += t[threadIdx.y][k];
    y[threadIdx.y * 32 + threadIdx.x] = sum;
}
}
"""


@pytest.fixture(scope="module")
def program():
    return compile(SOURCE)


@pytest.fixture
def lab(program):
    device = Device()
    return device, device.load_module(program)


def timed(device, module, name, grid, block, args):
    return device.time_launch(device.get_function(module, name), (grid, 1, 1), (block, 1, 1), args)


def fill(device, pointer, values):
    device.memcpy(pointer, values.ctypes.data, values.nbytes, 1)
    device.synchronize()


def test_new_data_behind_the_same_pointers_changes_the_time(lab):
    device, module = lab
    n = 1 << 20
    x, bins = device.malloc(n), device.malloc(1024)
    args = struct.pack("QQi", x, bins, n)
    fill(device, x, np.random.default_rng(1).integers(0, 256, n, dtype=np.uint8))
    even = timed(device, module, "histogram", n // 256, 256, args)
    fill(device, x, np.full(n, 7, np.uint8))
    skewed = timed(device, module, "histogram", n // 256, 256, args)
    assert skewed.ns > 3 * even.ns
    assert skewed.bound == "atomics"
    fill(device, x, np.random.default_rng(1).integers(0, 256, n, dtype=np.uint8))
    assert timed(device, module, "histogram", n // 256, 256, args).ns == even.ns


def test_branches_on_data_count_as_well(lab):
    device, module = lab
    n = 132 * 256
    flags, out = device.malloc(4 * n), device.malloc(4 * n)
    args = struct.pack("QQi", flags, out, 4096)
    fill(device, flags, np.zeros(n, np.int32))
    none = timed(device, module, "choose", 132, 256, args)
    fill(device, flags, np.ones(n, np.int32))
    assert timed(device, module, "choose", 132, 256, args).ns > 3 * none.ns


def test_data_that_cannot_matter_are_not_looked_at(lab, monkeypatch):
    """A vector addition is sampled once, whatever it adds."""
    import cudalab.sim.device.timing.launch_time as timing

    device, module = lab
    n = 1 << 16
    a, b, c = (device.malloc(4 * n) for _ in range(3))
    args = struct.pack("QQQi", a, b, c, n)
    first = timed(device, module, "add", n // 256, 256, args)
    monkeypatch.setattr(timing, "sample", lambda *_, **__: pytest.fail("sampled again"))
    fill(device, a, np.ones(n, np.float32))
    assert timed(device, module, "add", n // 256, 256, args) is first


def test_a_loop_of_equal_launches_stays_fast(lab):
    """Looking at the data costs some microseconds a launch, not a sample."""
    device, module = lab
    n = 1 << 20
    x, bins = device.malloc(n), device.malloc(1024)
    args = struct.pack("QQi", x, bins, n)
    timed(device, module, "histogram", n // 256, 256, args)
    took = []
    for _ in range(200):
        began = time.thread_time()
        timed(device, module, "histogram", n // 256, 256, args)
        took.append(time.thread_time() - began)
    assert sorted(took)[100] < 1e-3


def test_a_long_chain_takes_as_long_as_its_rounds(lab):
    """A block whose records do not all fit is extrapolated: ten times the rounds, ten times the time."""
    device, module = lab
    out = device.malloc(4096)
    times = [
        timed(device, module, "chain", 1, 32, struct.pack("Qi", out, rounds)).ns - 1400
        for rounds in (10**4, 10**5, 10**6)
    ]
    assert times[1] == pytest.approx(10 * times[0], rel=0.05)
    assert times[2] == pytest.approx(100 * times[0], rel=0.05)


# -- instructions ------------------------------------------------------------------------------------------------------


def test_which_kernels_follow_their_data(program):
    follows = {name: kernel.timed.follows_data for name, kernel in program.kernels.items()}
    assert follows == {"add": False, "histogram": True, "choose": True, "chain": False, "divide": False, "tile": False}


def test_a_countable_loop_is_unrolled(program):
    code = program.kernels["chain"].timed
    loop = next(block for block in code.blocks if block.repeats > 1)
    assert [each.kind for each in loop.instructions].count("float") == 4
    assert sum(each.control for each in loop.instructions) >= 2
    kinds = mix(code, {loop.site: 100.0})
    assert kinds["float"] == 400.0
    assert kinds["branch"] == 25.0


def test_neighbouring_shared_loads_become_one(program):
    code = program.kernels["tile"].timed
    assert [len(group) for group in code.wide_loads] == [4] * 8
