"""`cudalab.benchmark` on the simulated device; tests/test_gpu.py has the real one."""

import re

import numpy as np
import pytest

import cudalab
from cudalab import cp
from cudalab.checks.session import simulated

ADD = """
extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
INCREMENT = 'extern "C" __global__ void increment(float *a) { a[blockIdx.x * blockDim.x + threadIdx.x] += 1; }'
STRIDED = """
extern "C" __global__ void strided(float* x, int stride, int offset, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[stride * i + offset] += 1.0f;
}
"""
SPIN = """
extern "C" __global__ void spin(unsigned char *out, int rounds)
{
    unsigned x = rounds;
    for (int i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u;
    if (x == 12345u) *out = 1;
}
"""


@pytest.fixture(scope="module")
def add():
    return cp.RawKernel(ADD, "add")


def vectors(n):
    return *(cp.zeros(n, dtype=cp.float32) for _ in range(3)), np.int32(n)


def test_time_is_modelled_and_says_so(add):
    timing = cudalab.benchmark(add, (4096,), (256,), vectors(1 << 20))
    assert timing.kind == "modelled" and len(timing.times) == 1
    assert timing.microseconds == timing.median == timing.times[0]
    assert "modelled" in repr(timing) and "µs" in repr(timing)
    assert timing.bound in timing.terms


def test_more_work_takes_longer_and_the_rate_stays_below_the_peak(add):
    small, large = (cudalab.benchmark(add, (n // 256,), (256,), vectors(n)) for n in (1 << 20, 1 << 24))
    assert large.microseconds > 2 * small.microseconds
    rate = large.gigabytes_per_second(12 * (1 << 24))
    assert 500 < rate < cudalab.device().memory_bandwidth
    assert rate == pytest.approx(12 * (1 << 24) / (large.microseconds * 1e-6) / 1e9)


def test_same_launch_gives_the_same_time(add):
    args = vectors(1 << 18)
    assert cudalab.benchmark(add, (1024,), (256,), args) == cudalab.benchmark(add, (1024,), (256,), args)


def test_memory_and_clock_stay_as_they_are():
    kernel = cp.RawKernel(INCREMENT, "increment")
    numbers = cp.arange(1 << 16, dtype=cp.float32)
    cudalab.benchmark(kernel, (256,), (256,), (numbers,))
    np.testing.assert_array_equal(numbers.get(), np.arange(1 << 16, dtype=np.float32))


@pytest.mark.parametrize(
    "stride, offset", [(16, 0), (32, 0), (1, -1)], ids=["the last block", "half of them", "the first block"]
)
def test_a_launch_that_leaves_its_array_ends_as_one_that_runs(stride, offset):
    n, told = 1 << 16, []
    for timed in (False, True):
        with simulated() as device:
            kernel = cp.RawKernel(STRIDED, "strided")
            launch = ((n // 256,), (256,), (cp.zeros(8 * n, cp.float32), *map(np.int32, (stride, offset, n))))
            with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorIllegalAddress") as caught:
                cudalab.benchmark(kernel, *launch) if timed else kernel(*launch)
                cp.cuda.Device().synchronize()
            text = "\n".join([str(caught.value), *caught.value.__notes__, str(device.lost)])
            told.append(re.sub("0x[0-9a-f]+", "ADDRESS", text))
    assert "in kernel strided" in told[0] and told[0] == told[1]


def test_work_that_is_no_kernel_runs_for_real():
    numbers = cp.zeros(1 << 20, dtype=cp.float32)

    def work():
        numbers[:] = 7

    timing = cudalab.benchmark(work)
    assert timing.kind == "modelled" and timing.microseconds > 0
    np.testing.assert_array_equal(numbers.get(), np.full(1 << 20, 7, dtype=np.float32))


def test_work_shows_a_cold_l2_and_a_repeated_launch_finds_a_warm_one(add):
    spin = cp.RawKernel(SPIN, "spin")
    launch, other = ((1 << 12,), (256,), vectors(1 << 20)), cp.zeros(64 << 20, cp.uint8)

    def behind(flushed):
        """Behind a kernel that is long enough for the host to be ahead, as on a GPU."""
        if flushed:
            other.data.memset(0, other.nbytes)
        spin((1,), (1,), (other, np.int32(20_000)))
        return cudalab.benchmark(lambda: add(*launch)).microseconds

    behind(flushed=False)  # the host is slow the first time
    cold, warm = behind(flushed=True), behind(flushed=False)
    assert cold > 1.2 * warm
    assert behind(flushed=True) == pytest.approx(cold, abs=0.1)
    assert cudalab.benchmark(add, *launch).microseconds < warm


def test_wrong_arguments_are_those_of_a_launch(add):
    with pytest.raises(TypeError, match="takes 4 arguments"):
        cudalab.benchmark(add, (1,), (32,), (np.int32(1),))
    with pytest.raises(cp.cuda.driver.CUDADriverError, match="CUDA_ERROR_INVALID_VALUE"):
        cudalab.benchmark(add, (1,), (2048,), vectors(32))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"grid": (1,)}, "both grid and block"),
        ({"args": (1,)}, "work.. takes no arguments"),
    ],
)
def test_half_a_launch_is_an_error(add, options, words):
    with pytest.raises(TypeError, match=words):
        cudalab.benchmark(add, **options)


def test_what_cannot_be_called_is_an_error():
    with pytest.raises(TypeError, match="expected a kernel with grid, block and args, or work.. without them, got int"):
        cudalab.benchmark(3)


@pytest.mark.parametrize("options", [{"repeats": 0}, {"warm_up": -1}])
def test_counts_are_checked(add, options):
    with pytest.raises(ValueError, match="repeats must be at least 1 and warm_up at least 0"):
        cudalab.benchmark(add, (1,), (32,), vectors(32), **options)


def test_median_of_several_times():
    timing = cudalab.benchmark.__globals__["Timing"]((5.0, 1.0, 3.0), "measured")
    assert (timing.microseconds, timing.spread) == (3.0, 4.0)
    assert repr(timing) == "3 µs (measured, median of 3, spread 4 µs)"
