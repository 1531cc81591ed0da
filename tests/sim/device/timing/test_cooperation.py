"""The modelled time of kernels whose threads wait for each other or for copies: what a learner compares."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import cudalab
from cudalab.sim import cupy as cp
from cudalab.sim.abi import Status
from cudalab.sim.compiler import compile
from cudalab.sim.machine.counters.sampling import count_launch
from cudalab.sim.machine.execution import execute
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.trace.recorder import Tracer
from tests.sim.h200 import LIMITS

CG = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"


def microseconds(kernel, grid, block, *arguments):
    return cudalab.benchmark(kernel, (grid,), (block,), arguments).microseconds


@pytest.fixture(scope="module")
def steps():
    text = (
        CG
        + r"""
    extern "C" __global__ void steps(float* x, int n) {
        auto grid = cg::this_grid();
        for (int i = 0; i < n; i++) { x[grid.thread_rank()] += i; grid.sync(); }
    }"""
    )
    return cp.RawKernel(text, "steps", enable_cooperative_groups=True)


def test_a_grid_that_meets_pays_for_each_meeting(steps):
    x = cp.zeros(132 * 32, dtype=np.float32)
    few, many = (microseconds(steps, 132, 32, x, np.int32(n)) for n in (10, 40))
    assert (many - few) / 30 == pytest.approx(1.2, rel=0.2)  # 0.98 the barrier, the rest the load behind it


def test_more_blocks_meet_more_slowly(steps):
    x = cp.zeros(1056 * 32, dtype=np.float32)
    times = [microseconds(steps, blocks, 32, x, np.int32(10)) for blocks in (1, 132, 1056)]
    assert times == sorted(times) and times[2] > 1.5 * times[0]


MEETINGS = r"""
extern "C" __global__ void meet(volatile int* arrived, int rounds) {
    for (int r = 1; r <= rounds; r++) {
        __syncthreads();
        if (threadIdx.x == 0) {
            atomicAdd((int*)arrived, 1);
            while (*arrived < r * (int)gridDim.x) {}
        }
        __syncthreads();
    }
}"""


def test_blocks_that_wait_for_each_other_are_cut_after_as_many_records_on_every_machine():
    memory = Memory(1 << 30)
    args = struct.pack("QI", memory.allocate(4), 100)
    launch = Module(compile(MEETINGS), memory, LIMITS).kernel("meet").launch(4, 64, args)
    totals = []
    for longest in (1 << 10, 1 << 13, 1 << 13, 1 << 20):
        with Tracer(launch, records=1 << 11) as tracer:
            (found,) = tracer.run_concurrently(range(4), {1}, longest=longest)
        totals.append(found.total)
        assert (found.status == Status.DONE) == (longest == 1 << 20) and not found.timed_out
    assert totals[0] < totals[1] == totals[2] < totals[3]
    assert totals[0] <= 1 << 10 and totals[1] <= 1 << 13


PIPELINE = r"""
#include <cuda_pipeline_primitives.h>
template <int STAGES> __device__ void walk(const float4* x, float* y, int tiles) {
    __shared__ float4 tile[STAGES][64];
    float sum = 0;
    for (int s = 0; s < STAGES - 1; s++) {
        __pipeline_memcpy_async(&tile[s][threadIdx.x], x + s * 64 + threadIdx.x, 16);
        __pipeline_commit();
    }
    for (int k = 0; k < tiles; k++) {
        int ahead = k + STAGES - 1;
        if (ahead < tiles)
            __pipeline_memcpy_async(&tile[ahead % STAGES][threadIdx.x], x + ahead * 64 + threadIdx.x, 16);
        __pipeline_commit();
        __pipeline_wait_prior(STAGES - 1);
        __syncthreads();
        sum += tile[k % STAGES][threadIdx.x ^ 1].x;
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}
extern "C" __global__ void one(const float4* x, float* y, int n) { walk<1>(x, y, n); }
extern "C" __global__ void two(const float4* x, float* y, int n) { walk<2>(x, y, n); }
extern "C" __global__ void four(const float4* x, float* y, int n) { walk<4>(x, y, n); }
"""


def test_stages_of_a_pipeline_hide_latency():
    """Each stage more lets one more copy be on its way: the wait is shared by as many tiles."""
    module = cp.RawModule(code=PIPELINE)
    x, y = cp.zeros(64 * 4 * 256, dtype=np.float32), cp.zeros(64, dtype=np.float32)
    one, two, four = (microseconds(module.get_function(n), 1, 64, x, y, np.int32(256)) for n in ("one", "two", "four"))
    assert one / two == pytest.approx(2.0, rel=0.35)
    assert two / four > 1.2


def test_a_nap_takes_the_next_power_of_two():
    nap = cp.RawKernel('extern "C" __global__ void nap(unsigned ns) { __nanosleep(ns); }', "nap")
    base = microseconds(nap, 1, 32, np.uint32(1))
    for asked, gets in ((1000, 1.024), (1024, 2.048), (5000, 8.192)):
        assert microseconds(nap, 1, 32, np.uint32(asked)) - base == pytest.approx(gets, rel=0.05)


def test_threads_of_a_warp_take_turns_at_the_heap():
    text = r'extern "C" __global__ void k(int* y) { int* p = new int; *p = 1; y[threadIdx.x] = *p; delete p; }'
    kernel, y = cp.RawKernel(text, "k"), cp.zeros(32, dtype=np.int32)
    alone, warp = (microseconds(kernel, 1, threads, y) for threads in (1, 32))
    assert alone == pytest.approx(13, rel=0.2)
    assert warp / alone == pytest.approx(6, rel=0.3)


def test_distributed_shared_memory_is_counted_as_what_it_is():
    """Each thread of two blocks reads one word of the other block's memory and adds to another: no global memory."""
    text = (
        CG
        + r"""
    extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int* y) {
        __shared__ int mine[64];
        auto cluster = cg::this_cluster();
        mine[threadIdx.x] = mine[threadIdx.x + 32] = threadIdx.x;
        cluster.sync();
        int* far = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
        int seen = far[threadIdx.x];
        atomicAdd(far + 32 + threadIdx.x / 2, seen);
        cluster.sync();
        y[blockIdx.x * 32 + threadIdx.x] = mine[32 + threadIdx.x];
    }"""
    )
    memory = Memory(1 << 30)
    kernel = Module(compile(text), memory, LIMITS).kernel("k")
    args = memory.allocate(512).to_bytes(8, "little")
    counts = count_launch(kernel.launch((4, 1, 1), (32, 1, 1), args))
    assert counts.distributed.requests == 4 and counts.distributed.sectors == 4 * 4
    assert counts.distributed.bytes == 4 * 32 * 4
    assert counts.distributed_atomics.accesses == 4 * 32
    assert counts.distributed_atomics.sectors == 4 * 2 * 2  # two sectors, two lanes at each word
    assert counts.global_loads.requests == 0 and counts.global_atomics.requests == 0
    assert counts.global_stores.sectors == 4 * 4


def test_the_heap_may_lie_beyond_all_memory_so_far():
    """The first ``malloc`` of a kernel takes new device memory, which the kernel reaches at once."""
    memory = Memory(1 << 40)
    kernel = Module(
        compile('extern "C" __global__ void k(int* y) { int* p = new int(7); *y = *p; delete p; }'), memory, LIMITS
    )
    step = 64 << 20
    while memory.arena.extent - memory._cursor > 2 << 20 or memory.arena.extent < step:
        memory.allocate(1 << 20)
    y = memory.allocate(4)
    outcome = execute(kernel.kernel("k").launch((1, 1, 1), (1, 1, 1), y.to_bytes(8, "little")))
    assert outcome.fault is None
    assert memory.array(y, 1, np.int32)[0] == 7


CHAIN = r"""
extern "C" __global__ void CLUSTER chain(float* x, int rounds) {
    float value = x[0];
    for (int i = 0; i < rounds; i++) value = value * 1.0001f + 0.5f;
    x[threadIdx.x] = value;
}"""


@pytest.mark.parametrize(("size", "rounds_of_blocks"), [(1, 1), (2, 1), (4, 2), (8, 2)])
def test_clusters_that_no_longer_fit_into_a_group_of_sms_wait(size, rounds_of_blocks):
    """128 blocks with an SM each: an H200 takes 25.9 us for clusters of 1 and 2, 48.4 for those of 4 and 8."""
    kernel = cp.RawKernel(CHAIN.replace("CLUSTER", f"__cluster_dims__({size}, 1, 1)"), "chain")
    kernel.max_dynamic_shared_size_bytes = 200_000
    x = cp.zeros(32, dtype=np.float32)
    found = cudalab.benchmark(kernel, (128,), (32,), (x, np.int32(10_000)), shared_mem=200_000).microseconds
    assert found == pytest.approx(1.8 + 23.4 * rounds_of_blocks, rel=0.1)
