"""What each warp of a launch did, as native code of every kind counts it."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cudalab.sim.compiler.program import Rounds
from cudalab.sim.machine.execution import Standalone, execute
from cudalab.sim.machine.launch.block_work import ENOUGH, FIRST, BlockWork, counts_work, rehearse, spread
from tests.sim.compiler.kernel_runner import Compiled, compile_cuda

SOURCE = r"""
extern "C" {
__global__ void rounds(const int *wanted, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = i;
    int n = wanted[i];
    #pragma unroll 1
    for (int k = 0; k < n; k++) x = x * 1664525u + 1013904223u;
    out[i] = x;
}
__global__ void tiles(const int *wanted, int *out) {
    __shared__ int t[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x, x = i, n = wanted[blockIdx.x];
    #pragma unroll 1
    for (int k = 0; k < n; k++) {
        t[threadIdx.x] = x;
        __syncthreads();
        x += t[threadIdx.x ^ 1];
        __syncthreads();
    }
    out[i] = x;
}
__global__ void columns(const int *wanted, int *out, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    #pragma unroll 1
    for (int y = 0; y < height; y++)
        #pragma unroll 1
        for (int x = 0; x <= i; x++) sum = sum * 3 + wanted[x];
    out[i] = sum;
}
__global__ void squares(const int *wanted, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    if (i < n) for (int k = 0; k < n; k++) sum = sum * 3 + k;
    out[i] = sum;
}
__global__ void sorted(const int *wanted, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = wanted[i];
    __syncthreads();
    for (int size = 2; size <= blockDim.x; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            int other = t ^ step;
            if (other > t && s[t] > s[other]) { int x = s[t]; s[t] = s[other]; s[other] = x; }
            __syncthreads();
        }
    out[i] = s[t];
}
__global__ void straight(const int *wanted, int *out) { out[threadIdx.x] = wanted[threadIdx.x] * 3; }
}
"""
VARIANTS = ("plain", "wide", "atomic", "wide_atomic", "traced", "footprint")


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return Compiled(compile_cuda(SOURCE))


def counted(compiled: Compiled, name: str, blocks: int, threads: int, wanted: list[int], *more: int, variant: str = ""):
    memory = compiled.module.memory
    given, out = memory.allocate(4 * max(len(wanted), blocks * threads)), memory.allocate(4 * blocks * threads)
    memory.array(given, len(wanted), np.int32)[:] = wanted
    launch = compiled.kernel(name).launch(blocks, threads, struct.pack(f"QQ{len(more)}i", given, out, *more))
    work = BlockWork.of(launch)
    workers, marks = 2 if "atomic" in variant else 1, variant == "footprint"
    outcome = execute(launch, Standalone(workers=workers), variant=variant, footprint=marks, work=work.slots)
    assert outcome.fault is None
    return work


def test_an_inner_loop_with_a_barrier_that_may_be_skipped_counts_alike_in_wide_code(compiled: Compiled) -> None:
    """From the barrier on, the way back to it leads through the outer loop first."""
    wanted = np.random.default_rng(2).integers(0, 200, 4 * 64).tolist()
    plain, wide = (counted(compiled, "sorted", 4, 64, wanted, variant=variant) for variant in ("plain", "wide"))
    assert wide.slots.min() > 0
    assert np.allclose(wide.slots, plain.slots, rtol=0.05)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_warp_does_what_its_busiest_lane_does(compiled: Compiled, variant: str) -> None:
    wanted = np.random.default_rng(1).integers(0, 200, 4 * 64)
    work = counted(compiled, "rounds", 4, 64, wanted.tolist(), variant=variant)
    most = wanted.reshape(4, 2, 32).max(axis=2)
    each = work.slots.max() / most.max()
    assert each > 1
    assert np.allclose(work.slots, each * most)


@pytest.mark.parametrize("variant", VARIANTS)
def test_rounds_with_barriers_count(compiled: Compiled, variant: str) -> None:
    work = counted(compiled, "tiles", 4, 64, [3, 100, 7, 50], variant=variant)
    assert np.allclose(work.slots[:, 0] / work.slots[0, 0], np.array([3, 100, 7, 50]) / 3)
    assert (work.slots[:, 0] == work.slots[:, 1]).all()


@pytest.mark.parametrize("variant", ["plain", "wide"])
def test_inner_loops_count_by_their_rounds(compiled: Compiled, variant: str) -> None:
    work = counted(compiled, "columns", 8, 32, [0], 50, variant=variant).longest
    assert work[7] / work[3] == pytest.approx(256 / 128, rel=0.1)


def test_more_rounds_than_one_tank_of_fuel(compiled: Compiled) -> None:
    few, many = (counted(compiled, "rounds", 2, 32, [n] * 64).longest for n in (1000, 1_000_000))
    assert many[0] == pytest.approx(1000 * few[0], rel=1e-3)


def test_the_last_warp_of_a_block_may_be_partly_filled(compiled: Compiled) -> None:
    work = counted(compiled, "rounds", 2, 40, [5] * 32 + [50] * 8 + [5] * 40)
    assert work.slots[0, 1] == pytest.approx(10 * work.slots[0, 0])
    assert work.slots[1, 1] == work.slots[1, 0]


def test_what_decides_the_rounds(compiled: Compiled) -> None:
    found = {name: kernel.rounds for name, kernel in compiled.program.kernels.items()}
    assert found == {
        "rounds": Rounds.DATA,
        "tiles": Rounds.DATA,
        "columns": Rounds.INDEX,
        "squares": Rounds.LAUNCH,
        "sorted": Rounds.DATA,
        "straight": Rounds.NONE,
    }


def test_a_kernel_without_loops_counts_nothing(compiled: Compiled) -> None:
    launch = compiled.kernel("straight").launch(4, 32, struct.pack("QQ", 0, 0))
    assert not counts_work(launch)


def test_blocks_that_differ_little_are_equal() -> None:
    full = np.full((100, 2), 50, np.uint64)
    ragged = full.copy()
    ragged[99, 1] = 0
    heavy = full.copy()
    heavy[3, 0] = 5000
    assert BlockWork(full).even and BlockWork(ragged).even and not BlockWork(heavy).even


def test_a_spread_order_is_spread_from_the_start() -> None:
    order = spread(1000)
    assert sorted(order.tolist()) == list(range(1000))
    assert {0, 999} == set(order[:2].tolist())
    assert np.diff(np.sort(order[:20])).max() < 120


def test_blocks_that_did_not_run_are_like_their_neighbours(compiled: Compiled, monkeypatch) -> None:
    launch = compiled.kernel("columns").launch(1000, 32, struct.pack("QQi", 0, 0, 1))
    monkeypatch.setitem(ENOUGH, Rounds.INDEX, 1)

    def run(blocks, slots) -> bool:
        slots[blocks] = np.asarray(blocks)[:, None] * 10
        return True

    work = rehearse(launch, run)
    assert not work.whole and len(work.ran) == FIRST
    assert np.allclose(work.total, np.arange(1000) * 10)


def test_traced_code_runs_fewer_blocks(compiled: Compiled) -> None:
    """It takes tens of times as long, and each store has a place in the undo log."""
    launch = compiled.kernel("columns").launch(1000, 32, struct.pack("QQi", 0, 0, 1))

    def run(blocks, slots) -> bool:
        slots[blocks] = ENOUGH[Rounds.INDEX] // 100
        return True

    ran = [len(rehearse(launch, run, traced=traced).ran) for traced in (False, True)]
    assert FIRST == ran[1] < ran[0] / 8
