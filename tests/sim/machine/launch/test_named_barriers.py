"""Named and partial barriers: orders of arrival, all variants, and what cannot complete."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.machine.sanitizer.sanitize import check_launch
from tests.sim.compiler.kernel_runner import Compiled, cuda, memory

SOURCE = r"""
#define SYNC(id, n) asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(n) : "memory")
#define ARRIVE(id, n) asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(n) : "memory")
extern "C" __global__ void pipeline(const int* x, int* out, int n, int first) {
    __shared__ int ring[2][32];
    int t = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (warp == first) {
        for (int i = 0; i < n; ++i) {
            if (i >= 2) SYNC(3 + i % 2, 64);
            ring[i % 2][t] = x[i * 32 + t];
            ARRIVE(1 + i % 2, 64);
        }
    } else {
        for (int i = 0; i < n; ++i) {
            SYNC(1 + i % 2, 64);
            out[i * 32 + t] = ring[i % 2][31 - t];
            if (i + 2 < n) ARRIVE(3 + i % 2, 64);
        }
    }
}
extern "C" __global__ void no_order(const int* x, int* out, int n, int first) {
    __shared__ int a[32];
    int t = threadIdx.x % 32;
    if (threadIdx.x < 32) a[t] = x[t];
    else { out[t] = a[t]; }
    SYNC(1, 64);
}
extern "C" __global__ void sums(const int* x, int* out, int n, int first) {
    int t = threadIdx.x, group = t / 64, total = 0;
    for (int i = 0; i < n; ++i) {
        int count;
        asm volatile("{ .reg .pred p; setp.gt.s32 p, %1, %2; bar.red.popc.u32 %0, %3, 64, p; }"
                     : "=r"(count) : "r"(x[t]), "r"(i), "r"(group + 1) : "memory");
        total += count;
    }
    out[t] = total;
}
extern "C" __global__ void missing(const int* x, int* out, int n, int first) { if (threadIdx.x >= 32) SYNC(2, 128); }
extern "C" __global__ void mixed(const int* x, int* out, int n, int first) {
    if (threadIdx.x < 32) SYNC(3, 96); else SYNC(3, 64);
}
extern "C" __global__ void parted(const int* x, int* out, int n, int first) {
    __shared__ int a[64];
    int t = threadIdx.x;
    a[t] = x[t];
    if (t % 2 == first) asm volatile("barrier.sync 0;" ::: "memory");
    else { out[t] = 0; asm volatile("barrier.sync 0; // the same from elsewhere" ::: "memory"); }
    out[t] = a[63 - t];
}
extern "C" __global__ void uneven(const int* x, int* out, int n, int first) { SYNC(1, n); }
"""


@pytest.fixture(scope="module")
def code() -> Compiled:
    return cuda(SOURCE)


@pytest.mark.parametrize("variant", ["plain", "atomic", "traced"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_producer_warp_runs_ahead_by_two_buffers_and_no_more(code: Compiled, variant: str, first: int) -> None:
    x = np.random.default_rng(1).integers(0, 99, (9, 32)).astype(np.int32)
    out = np.zeros_like(x)
    code("pipeline", 3, 64, x, out, 9, first, variant=variant)
    assert (out == x[:, ::-1]).all()


def test_pairs_of_warps_count_by_themselves(code: Compiled) -> None:
    x = np.random.default_rng(2).integers(0, 6, 256).astype(np.int32)
    out = np.zeros(256, np.int32)
    code("sums", 1, 256, x, out, 5, 0)
    assert (out == np.minimum(x, 5).reshape(4, 64).sum(1).repeat(64)).all()


def test_lanes_of_a_warp_meet_at_the_blocks_barrier_from_two_places(code: Compiled) -> None:
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    code("parted", 1, 64, x, out, 0, 1)
    assert (out == x[::-1]).all()


@pytest.mark.parametrize(
    ("kernel", "number", "rule", "words"),
    [
        ("missing", 702, "deadlock", "32 threads, the first .32,0,0., wait"),
        ("mixed", 715, "mixed barrier", "Barrier 3 was used in ways that do not go together"),
        ("uneven", 715, "barrier count", "counts whole warps of 32 threads; it was given 40"),
    ],
)
def test_what_cannot_complete_is_explained(code: Compiled, kernel: str, number: int, rule: str, words: str) -> None:
    import re

    fault = code.run(kernel, 1, 64, np.zeros(64, np.int32), np.zeros(64, np.int32), 40, 0).fault
    assert fault is not None and (fault.code, fault.rule) == (number, rule), str(fault)
    assert re.search(words, str(fault)), str(fault)


@pytest.mark.parametrize(("kernel", "races"), [("pipeline", 0), ("no_order", 1)])
def test_the_sanitizer_knows_who_took_part(code: Compiled, kernel: str, races: int) -> None:
    x = np.zeros(9 * 32, np.int32)
    args, copies = code.pack(kernel, (x, x.copy(), 9, 0))
    checked = check_launch(code.kernel(kernel).launch(1, 64, args), tools=("racecheck",))
    assert len(checked.findings) == races, [str(finding) for finding in checked.findings]
    for _, pointer in copies:
        memory().free(pointer)
