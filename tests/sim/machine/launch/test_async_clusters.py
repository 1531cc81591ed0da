"""Asynchronous copies and barrier objects between the blocks of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.compiler.program import Program
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.h200 import LIMITS
from tests.sim.machine.launch.async_kernels import SOURCE, WHOLE, Run, numbers


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory(1 << 28)
    yield memory
    memory.free_all()


CLUSTERED = (
    SOURCE[: SOURCE.index("KERNEL late(")]
    + r"""
__device__ unsigned there(const void* p, int rank) {
    unsigned mapped;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(at(p)), "r"(rank));
    return mapped;
}
__device__ int rank() { int r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ void sync() {
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
__device__ void arrive_there(void* bar, int rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(there(bar, rank)) : "memory");
}
KERNEL __cluster_dims__(4, 1, 1) remote(int* out, const int* in, int n) {
    __shared__ unsigned long long bar;
    __shared__ alignas(16) int s[64], other[64], more[64];
    int t = threadIdx.x, next = (rank() + 1) % 4;
    if (t == 0) { init(&bar, 1); arrive_tx(&bar, 512); }
    other[t] = in[64 * blockIdx.x + t] * 2;
    asm volatile("fence.proxy.async;" ::: "memory");
    sync();
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
        :: "r"(there(&s[63 - t], next)), "r"(in[64 * blockIdx.x + t]), "r"(there(&bar, next)) : "memory");
    if (t == 0)  // 256 bytes by st.async, and 256 by a bulk copy
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
            :: "r"(there(more, next)), "r"(at(other)), "r"(there(&bar, next)) : "memory");
    while (!try_wait(&bar, 0)) { }
    out[64 * blockIdx.x + t] = s[t] * 1000 + more[t];
    sync();
}
KERNEL __cluster_dims__(2, 1, 1) turns(int* out, const int* in, int n) {  // two blocks hand each other the turn
    __shared__ unsigned long long bar;
    int t = threadIdx.x, me = rank();
    if (t == 0) init(&bar, 1);
    sync();
    if (t == 0) {
        int parity = 0;
        for (int i = 0; i < n; ++i) {
            if (i % 2 == me) {
                if (i) { while (!try_wait(&bar, parity)) { } parity ^= 1; }
                out[i] = i ? ((volatile int*)out)[i - 1] + in[i] : in[0];
                __threadfence();
                arrive_there(&bar, me ^ 1);
            }
        }
    }
    sync();
}
KERNEL __cluster_dims__(2, 1, 1) nobody(int* out, const int* in, int n) {
    __shared__ unsigned long long bar;
    if (threadIdx.x == 0) init(&bar, 1);
    sync();
    if (rank() == 0) while (!try_wait(&bar, 0)) { }  // the other block never arrives
    out[threadIdx.x] = 1;
}
KERNEL __cluster_dims__(2, 1, 1) both(int* out, const int* in, int n) {  // one block fetches for both
    __shared__ unsigned long long bar;
    __shared__ alignas(16) int s[64];
    int t = threadIdx.x;
    if (t == 0) { init(&bar, 1); arrive_tx(&bar, 256); }
    sync();
    if (t == 0 && rank() == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%0], [%1], 256, [%2], %3;"
            :: "r"(at(s)), "l"(__cvta_generic_to_global(in)), "r"(at(&bar)), "h"((short)3) : "memory");
    while (!try_wait(&bar, 0)) { }
    out[64 * blockIdx.x + t] = s[t] + rank();
    sync();
}
"""
)


@cache
def clustered() -> Program:
    return compile(CLUSTERED)


class ClusterRun(Run):
    def __init__(self, memory: Memory, name: str, out: int, values: np.ndarray, n: int = 0) -> None:
        super().__init__(memory, "late", out, values, n)
        self.kernel = Module(clustered(), memory, LIMITS).kernel(name)


def test_stores_and_copies_into_another_block(memory: Memory) -> None:
    x = numbers(256)
    run = ClusterRun(memory, "remote", 256, x)
    assert run(grid=4).fault is None
    before = np.roll(x.reshape(4, 64), 1, axis=0)
    np.testing.assert_array_equal(run.result, (before[:, ::-1] * 1000 + before * 2).reshape(-1))


def test_blocks_of_a_cluster_wait_for_arrivals_of_each_other(memory: Memory) -> None:
    x = numbers(20)
    run = ClusterRun(memory, "turns", 20, x, 20)
    assert run(grid=2, block=32).fault is None
    np.testing.assert_array_equal(run.result, np.cumsum(x))


def test_a_wait_for_a_block_that_never_arrives_is_explained(memory: Memory) -> None:
    fault = ClusterRun(memory, "nobody", 64, WHOLE)(grid=2, block=32).fault
    assert fault is not None
    assert (fault.rule, fault.code) == ("endless wait", 702)
    assert "which is in a phase of parity 0, with 0 of 1 arrivals" in str(fault)


def test_one_copy_for_several_blocks(memory: Memory) -> None:
    x = numbers(64)
    run = ClusterRun(memory, "both", 128, x)
    assert run(grid=2).fault is None
    np.testing.assert_array_equal(run.result, np.concatenate([x, x + 1]))


def test_copies_within_shared_memory_need_a_launch_with_clusters(memory: Memory) -> None:
    code = (
        SOURCE[: SOURCE.index("KERNEL late(")]
        + r"""
    KERNEL k(int* out, const int* in, int n) {
        __shared__ alignas(16) int s[8];
        __shared__ unsigned long long bar;
        init(&bar, 1);
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];"
            :: "r"(at(s)), "r"(at(s + 4)), "r"(at(&bar)) : "memory");
    }"""
    )
    run = Run(memory, "late", 64, WHOLE)
    run.kernel = Module(compile(code), memory, LIMITS).kernel("k")
    fault = run(block=1).fault
    assert fault is not None
    assert (fault.rule, fault.code) == ("no cluster", 715)
