"""Times by the machine code, against what an H200 took: warps that wait, warps that share an SM."""

from __future__ import annotations

import json
import struct

import pytest

from bench.fidelity.ablation import MICROBENCHMARKS
from cudalab.dev.calibrate.model import Model
from cudalab.dev.calibrate.suite import microbenchmarks
from cudalab.sim.compiler import compile
from cudalab.sim.compiler.timed_code import TimedCode
from cudalab.sim.device import Device
from cudalab.sim.device.profile import load
from cudalab.sim.device.timing.cost import KernelTime, in_l2
from cudalab.sim.device.timing.warp_path import Path
from cudalab.sim.device.timing.workload import Workload

NAMES = (
    "plain loop 1 warps",
    "plain loop 16 warps",
    "plain loop 32 warps",
    "plain int loop 8 warps",
    "shared read stride 1 1 warps",
    "shared read stride 4 4 warps",
    "shared read stride 32 1 warps",
    "fma_f32 one warp",
    "fma_f32 full",
    "shuffle one warp",
    "shuffle full",
    "barrier 32",
    "convert one warp",
    "exp2_f32 full",
    "chain of 16",
    "mix_s32 full",
    "mix_s64 full",
    "sqrt_f32 one warp",
    "fma_f64 full",
    "div_f64 one warp",
    "div_f64 full",
    "sqrt_f64 full",
    "branching 1 ways 1 warps",
    "branching 1 ways 32 warps",
    "shared pile of 1 spread 8",
    "plain loop 2 x 256",
    "plain loop 8 x 256",
    "shared count 1024",
    "barrier 1024",
    "empty 26400 x 1024",
    "write1 256 MB 1024 threads",
    "copy1 28 KB shared",
    "copy1 215 KB shared",
    "high product one warp",
    "high product full",
    "mad_s64 one warp",
    "div_s32 one warp",
    "shared hashed 1024",
    "shared taken 1024",
    "shared sum 8",
    "row write 5 of 16 MB",
    "row write 8 of 16 MB",
    "row write 16 of 64 MB",
    "row copy 4 of 64 MB",
    "halo sum 16 of 16 MB",
    "across stride 9",
    "search 4096 by 40503",
    "search 262144 by 1",
    "sweep 24 MB",
)
"""Most of them fit no constant. Without machine code the reads of shared memory are off by 34 and 50 %."""


@pytest.fixture(scope="module")
def modelled() -> dict[str, float]:
    chosen = [each for each in microbenchmarks() if each.name in NAMES]
    model = Model(load("h200"), chosen, by_machine_code=True)
    return {name: model.microseconds(name, {}) for name in model.names}


@pytest.mark.parametrize("name", NAMES)
def test_microbenchmark_takes_what_an_h200_took(name: str, modelled: dict[str, float]) -> None:
    measured = json.loads(MICROBENCHMARKS.read_text(encoding="utf-8"))["kernels"]
    assert modelled[name] == pytest.approx(measured[name], rel=0.06)


SOURCE = r"""
extern "C" {
__global__ void banks(float *out, int stride) {
    __shared__ float t[2048];
    t[threadIdx.x] = 0;
    __syncthreads();
    float sum = 0;
    int j = threadIdx.x * stride & 2047;
    for (int k = 0; k < 1024; k++) sum += ((volatile float *)t)[j];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__device__ __noinline__ int odd(int n);
__device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }
__global__ void recursive(int *out, int n) { out[threadIdx.x] = even(n); }
__global__ void wait(float *out, int ns) {
    __nanosleep(ns);
    out[threadIdx.x] = ns;
}
}
"""


def timed(name: str, blocks: int, threads: int, number: int) -> KernelTime:
    device = Device()
    function = device.get_function(device.load_module(compile(SOURCE)), name)
    args = struct.pack("Qi", device.malloc(4 * blocks * threads), number)
    return device.time_launch(function, (blocks, 1, 1), (threads, 1, 1), args)


def test_what_binds_is_what_is_used_most() -> None:
    """Though the simulated warps wait for one another in the queue of the load/store unit."""
    time = timed("banks", 132, 1024, 32)
    assert time.bound == "shared"
    assert "PTX" not in time.extrapolated
    assert time.ns == pytest.approx(533_500, rel=0.03)


def test_where_the_ptx_tells_the_time_it_says_why() -> None:
    time = timed("wait", 1, 32, 1000)
    assert time.extrapolated == "timed by the PTX: waits of nanosleep are not simulated by the machine code"


def test_functions_that_call_themselves_are_timed_by_the_ptx() -> None:
    """Which counts the calls that are under way one inside the other."""
    few, time = (timed("recursive", 1, 32, depth) for depth in (2, 20))
    assert time.ns > few.ns + 18 * 20
    assert "timed by the PTX: functions that call themselves are not simulated by the machine code" in time.extrapolated


@pytest.mark.parametrize(
    ("megabytes", "blocks", "part"),
    [(8, 10_000, 1.0), (40, 1000, 1.0), (40, 10_000, 0.6), (50, 10_000, 0.1), (60, 1000, 0.0)],
)
def test_many_waves_keep_half_of_the_l2(megabytes: int, blocks: int, part: float) -> None:
    """Blocks come to other SMs in each launch, and each half of the L2 keeps what its own SMs load. An H200 takes as
    long for 50 MB as if they came from DRAM, but 48 MB that each SM sweeps again stay."""
    work = Workload(blocks, 256, 8, {}, Path(TimedCode(), {}), touched=megabytes * 2.0**20)
    assert in_l2(load("h200"), work) == pytest.approx(part, abs=0.1)
