"""Ways of writing that look wrong to a simple check and are right, each with a mistake of the same kind beside it."""

from __future__ import annotations

import numpy as np
import pytest

import cudalab
from cudalab import cp
from cudalab.sim.compiler import compile

pytestmark = pytest.mark.usefixtures("fresh_device")

GROUPS = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
"""


@pytest.fixture
def fresh_device():
    yield
    cudalab.reset()


def rules(source: str, threads: int, *args: object, blocks: int = 1, seed: int | None = None) -> set[str]:
    kernel = cp.RawKernel(source, "k")
    return {finding.rule for finding in cudalab.sanitize(kernel, (blocks,), (threads,), args, seed=seed).findings}


SWAP = r"""
extern "C" __global__ void k(double* sum, const double* x) {
    unsigned long long* place = (unsigned long long*)sum;
    unsigned long long old = *place, assumed;
    FIRST
    do {
        assumed = old;
        double next = __longlong_as_double(assumed) + x[threadIdx.x];
        old = atomicCAS(place, assumed, __double_as_longlong(next));
    } while (assumed != old);
}
"""


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_plain_look_before_a_loop_of_compare_and_swap(blocks: int) -> None:
    """The guide's own double-precision atomicAdd."""
    x, total = cp.arange(64, dtype=cp.float64), cp.zeros(1)
    assert rules(SWAP.replace("FIRST", ""), 64, total, x, blocks=blocks) == set()
    assert rules(SWAP.replace("FIRST", "if (threadIdx.x == 5) *sum = 1;"), 64, total, x, blocks=blocks) == {"race"}


RELAY = r"""
extern "C" __global__ void k(int* out) {
    __shared__ volatile int baton;
    int lane = threadIdx.x;
    if (lane == 0) baton = 31;
    __syncwarp();
    WAIT
    out[lane] = baton;
    baton = lane - 1;
}
"""


@pytest.mark.parametrize("seed", [None, 3])
def test_a_volatile_flag_that_lanes_of_a_warp_wait_for(seed: int | None) -> None:
    out = cp.zeros(32, cp.int32)
    assert rules(RELAY.replace("WAIT", "while (baton != lane) {}"), 32, out, seed=seed) == set()
    assert rules(RELAY.replace("WAIT", ""), 32, out, seed=seed) == {"race"}


LEFT_OVER = (
    GROUPS
    + r"""
extern "C" __global__ void k(const int* in, int* out) {
    __shared__ int tile[32];
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    cg::memcpy_async(warp, tile, in, 24 * sizeof(int));
    WAIT
    if (warp.thread_rank() < 24) out[warp.thread_rank()] = tile[23 - warp.thread_rank()];
}
"""
)


def test_lanes_that_copy_the_same_once_more() -> None:
    """24 elements for 32 lanes: those left over copy the last one again."""
    x, out = cp.arange(32, dtype=cp.int32), cp.zeros(32, cp.int32)
    assert rules(LEFT_OVER.replace("WAIT", "cg::wait(warp);"), 32, x, out) == set()
    assert "race" in rules(LEFT_OVER.replace("WAIT", ""), 32, x, out)


LARGE_TILE = r"""
#define _CG_ABI_EXPERIMENTAL
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const int* in, int* out) {
    __shared__ cg::block_tile_memory<128> memory;
    auto tile = cg::tiled_partition<64>(cg::this_thread_block(memory));
    int sum = cg::reduce(tile, in[threadIdx.x], cg::plus<int>());
    out[threadIdx.x] = sum;
}
"""


def test_tiles_of_several_warps() -> None:
    """Their scratch memory belongs to the system."""
    x, out = cp.arange(128, dtype=cp.int32), cp.zeros(128, cp.int32)
    assert rules(LARGE_TILE, 128, x, out) == set()


THREE_WORDS = r"""
extern "C" __global__ void k(int* out, int n) {
    __shared__ __align__(16) int words[32 * 4];
    for (int i = 0; i < WRITTEN; i++) words[4 * threadIdx.x + i] = n + i;
    __syncthreads();
    const int* next = words + 4 * ((threadIdx.x + 1) % 32);
    out[threadIdx.x] = next[0] + next[1] + next[2] USED;
}
"""


def test_a_word_that_was_read_along_and_dropped() -> None:
    """The compiler loads three words at once with a fourth, which nobody has written and nobody uses."""
    out = cp.zeros(32, cp.int32)
    dropped = THREE_WORDS.replace("WRITTEN", "3").replace("USED", "")
    used = THREE_WORDS.replace("WRITTEN", "3").replace("USED", "+ next[3]")
    assert "used_bytes_mask" in compile(dropped).ptx
    assert rules(dropped, 32, out, np.int32(1)) == set()
    assert rules(used, 32, out, np.int32(1)) == {"uninitialised read"}


def test_the_count_of_uninitialised_reads_is_one_of_reads() -> None:
    """One wide read a thread, of which two words were not written."""
    out = cp.zeros(32, cp.int32)
    kernel = cp.RawKernel(THREE_WORDS.replace("WRITTEN", "2").replace("USED", "+ next[3]"), "k")
    (found,) = cudalab.sanitize(kernel, (1,), (32,), (out, np.int32(1))).findings
    assert found.count == 32


BULK = r"""
#include <cuda/barrier>
#include <cuda/ptx>
extern "C" __global__ void k(int* out) {
    __shared__ alignas(16) int mine[32];
    mine[threadIdx.x] = threadIdx.x;
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::ptx::cp_reduce_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, cuda::ptx::op_add,
                                        (unsigned*)out, (unsigned*)mine, (unsigned)sizeof(mine));
        cuda::ptx::cp_async_bulk_commit_group();
        cuda::ptx::cp_async_bulk_wait_group(cuda::ptx::n32_t<0>());
    }
    __syncthreads();
    EXTRA
}
"""


def test_bulk_reductions_of_several_blocks_are_atomic() -> None:
    out = cp.zeros(32, cp.int32)
    assert rules(BULK.replace("EXTRA", ""), 32, out, blocks=4) == set()
    assert (out.get() == 0).all()  # a sanitized launch changes nothing
    assert "race" in rules(BULK.replace("EXTRA", "out[threadIdx.x] = 1;"), 32, out, blocks=4)
