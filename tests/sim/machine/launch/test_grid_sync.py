"""Cooperative launches: the workspace, many barriers, blocks that wait in their places, and what goes wrong.

The kernels make the barrier of the grid by hand, from the workspace whose address is in ``%envreg1`` and ``%envreg2``,
as the headers of cooperative groups do.
"""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.machine.sanitizer.sanitize import check_launch
from tests.sim.compiler.kernel_runner import Compiled, cuda, memory

SOURCE = r"""
__device__ unsigned* workspace() {
    unsigned high, low;
    asm("mov.u32 %0, %%envreg1;" : "=r"(high));
    asm("mov.u32 %0, %%envreg2;" : "=r"(low));
    return (unsigned*)((unsigned long long)high << 32 | low);
}
__device__ void grid_sync() {
    unsigned* place = workspace();
    if (!place) asm volatile("trap;");
    ++place;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned mine = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u, old, now;
        asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(old) : "l"(place), "r"(mine) : "memory");
        do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(place) : "memory");
        while (!((old ^ now) & 0x80000000u));
    }
    __syncthreads();
}
extern "C" __global__ void shift(int* a, int* b, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    for (int s = 0; s < steps; ++s) {
        b[(i + blockDim.x) % n] = a[i] + 1;
        grid_sync();
        a[i] = b[i];
        grid_sync();
    }
}
extern "C" __global__ void hurried(int* a, int* b, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    a[i] = i;
    b[i] = a[(i + blockDim.x) % n];
    grid_sync();
}
extern "C" __global__ void deserter(int* a, int* b, int steps) { if (blockIdx.x == 2) return; grid_sync(); }
extern "C" __global__ void valid(int* a, int* b, int steps) { a[0] = workspace() != 0; }
"""


@pytest.fixture(scope="module")
def code() -> Compiled:
    return cuda(SOURCE)


@pytest.mark.parametrize("variant", ["plain", "traced", "footprint"])
def test_every_block_sees_what_the_others_wrote(code: Compiled, variant: str) -> None:
    start = np.random.default_rng(3).integers(0, 99, (20, 64)).astype(np.int32)
    a, b = start.copy(), np.zeros_like(start)
    options = {"footprint": True} if variant == "footprint" else {}
    outcome = code("shift", 20, 64, a, b, 7, cooperative=True, variant="" if options else variant, **options)
    assert (a == np.roll(start, 7, axis=0) + 7).all()
    if outcome.footprint is not None:  # the workspace is the system's
        assert sum(size for _, size in outcome.footprint.writes) == a.nbytes + b.nbytes


def test_the_workspace_is_there_in_cooperative_launches_only(code: Compiled) -> None:
    seen = []
    for cooperative in (True, False, True):
        a = np.full(1, 9, np.int32)
        code("valid", 1, 32, a, a.copy(), 0, cooperative=cooperative)
        seen.append(int(a[0]))
    assert seen == [1, 0, 1]


def test_synchronising_without_a_cooperative_launch_says_how_to_launch(code: Compiled) -> None:
    fault = code.run("shift", 4, 32, np.zeros(128, np.int32), np.zeros(128, np.int32), 1).fault
    assert fault is not None and (fault.code, fault.rule) == (719, "grid synchronisation")
    assert "enable_cooperative_groups=True" in str(fault)


def test_a_block_that_never_comes_ends_as_an_endless_wait(code: Compiled) -> None:
    fault = code.run("deserter", 4, 32, np.zeros(1, np.int32), np.zeros(1, np.int32), 1, cooperative=True).fault
    assert fault is not None and (fault.code, fault.rule) == (702, "endless wait")


@pytest.mark.parametrize(("kernel", "races"), [("shift", 0), ("hurried", 1)])
def test_the_sanitizer_knows_the_order_that_the_grid_barrier_makes(code: Compiled, kernel: str, races: int) -> None:
    a = np.zeros(4 * 32, np.int32)
    args, copies = code.pack(kernel, (a, a.copy(), 2))
    checked = check_launch(code.kernel(kernel).launch(4, 32, args, cooperative=True), tools=("racecheck",))
    assert len(checked.findings) == races, [str(finding) for finding in checked.findings]
    for _, pointer in copies:
        memory().free(pointer)
