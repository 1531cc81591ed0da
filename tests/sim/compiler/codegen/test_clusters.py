"""Clusters in compiled code: what the PTX says of them, special registers, addresses, all variants."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.compiler.kernel_runner import Compiled, cuda

CLUSTER = r"""
__device__ __forceinline__ unsigned rank() { unsigned r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ void arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
__device__ __forceinline__ void wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
__device__ __forceinline__ void sync() { arrive(); wait(); }
__device__ __forceinline__ int* map(int* p, unsigned r) {
    int* q; asm volatile("mapa.u64 %0, %1, %2;" : "=l"(q) : "l"(p), "r"(r)); return q;
}
"""
PASS_ROUND = (
    CLUSTER
    + r"""
extern "C" __global__ void k(const int* x, int* out, int rounds) {
    extern __shared__ int a[];
    unsigned blocks; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    int t = threadIdx.x, v = x[blockIdx.x * blockDim.x + t];
    for (int i = 0; i < rounds; ++i) {
        map(a, (rank() + 1) % blocks)[t] = v + 1;
        sync();
        v = a[t];
        sync();
    }
    out[blockIdx.x * blockDim.x + t] = v;
}
extern "C" __global__ void __cluster_dims__(2, 3, 1) fixed(int* out) {
    if (threadIdx.x == 0) atomicAdd(out, 1 + rank()); }
extern "C" __global__ void __block_size__((32, 2, 1), (2, 1, 1)) sized(int* out) { out[0] = gridDim.x; }
"""
)


@pytest.fixture(scope="module")
def code() -> Compiled:
    return cuda(PASS_ROUND)


@pytest.mark.parametrize("variant", ["plain", "atomic", "traced", "footprint"])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_values_passed_round_a_cluster_come_back(code: Compiled, variant: str, size: int) -> None:
    x = np.random.default_rng(size).integers(0, 1000, (2 * size, 96)).astype(np.int32)
    out, rounds = np.zeros_like(x), 5
    options = {"footprint": True} if variant == "footprint" else {}
    variant = "" if options else variant
    code("k", 2 * size, 96, x, out, rounds, shared=4 * 96, cluster=size, variant=variant, **options)
    wanted = np.roll(x.reshape(2, size, 96), rounds, axis=1).reshape(x.shape) + rounds
    assert (out == wanted).all()


def test_the_kernel_says_what_cluster_it_was_compiled_for(code: Compiled) -> None:
    kernels = code.program.kernels
    assert kernels["k"].cluster is None and kernels["k"].waits_for_cluster
    assert kernels["fixed"].cluster == (2, 3, 1) and not kernels["fixed"].blocks_are_clusters
    sized = kernels["sized"]
    assert (sized.cluster, sized.required_block, sized.blocks_are_clusters) == ((2, 1, 1), (32, 2, 1), True)


def test_a_cluster_of_two_dimensions_numbers_its_blocks(code: Compiled) -> None:
    out = np.zeros(1, np.int32)
    code("fixed", (4, 6), 32, out)
    assert out[0] == 4 * sum(range(1, 7))


def test_threads_that_leave_inside_a_called_function_count_as_arrived() -> None:
    source = (
        CLUSTER
        + r"""
        __device__ __noinline__ void perhaps_leave(int t) { if (t % 3 == 0) asm volatile("exit;"); }
        extern "C" __global__ void k(int* out) {
            int t = threadIdx.x;
            perhaps_leave(t);
            sync();
            out[blockIdx.x * 64 + t] = 1;
        }"""
    )
    out = np.zeros(256, np.int32)
    cuda(source)("k", 4, 64, out, cluster=4)
    assert (out == (np.arange(256) % 64 % 3 != 0)).all()


def test_the_barrier_works_in_loops_with_block_barriers_and_warp_operations() -> None:
    source = (
        CLUSTER
        + r"""
        extern "C" __global__ void k(int* out) {
            __shared__ int a[64];
            int t = threadIdx.x, sum = 0;
            for (int i = 0; i < 6; ++i) {
                a[t] = i * 64 + t + (int)rank();
                if (i % 2) __syncthreads();
                sync();
                int v = map(a, rank() ^ 1)[63 - t];
                for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
                sum += v;
                sync();
            }
            out[blockIdx.x * 64 + t] = sum;
        }"""
    )
    out = np.zeros((2, 64), np.int32)
    cuda(source)("k", 2, 64, out, cluster=2)
    for block in (0, 1):
        values = np.array([[i * 64 + 63 - t + (block ^ 1) for t in range(64)] for i in range(6)])
        warps = values.reshape(6, 2, 32).sum(axis=(0, 2))
        assert (out[block] == warps.repeat(32)).all()


def test_a_kernel_that_only_arrives_need_not_wait() -> None:
    source = CLUSTER + r"""extern "C" __global__ void k(int* out) { out[blockIdx.x] = 7; arrive(); }"""
    out = np.zeros(4, np.int32)
    cuda(source)("k", 4, 32, out, cluster=2)
    assert (out == 7).all()
