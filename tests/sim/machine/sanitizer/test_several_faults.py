"""What a kernel does wrong in one block, or in one copy, does not hide what it does wrong elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import cudalab
from cudalab import cp

BLOCKS, THREADS = 4, 64
PIPELINE = "#include <cuda_pipeline.h>\n"
GROUPS = "#include <cooperative_groups.h>\n"
COPY = """
    __shared__ __align__(16) int s[256];
    __pipeline_memcpy_async(&s[4 * t], FROM, 16);  // COPY
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[i] = s[4 * (63 - t)];
"""
BULK = """
    __shared__ __align__(16) int s[64];
    __shared__ unsigned long long bar;
    unsigned at = (unsigned)__cvta_generic_to_shared(&bar), to = (unsigned)__cvta_generic_to_shared(s);
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at));
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(FROM), "r"(SIZE), "r"(at) : "memory");  // COPY
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(SIZE) : "memory");
    }
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W; }" ::"r"(at) : "memory");
    __syncthreads();
    if (t < 25) y[i] = s[t];
"""  # noqa: E501
BEYOND = "    if (t == 5) y[n + i] = 1;  // BEYOND\n"


def findings(
    body: str, before: str = "", *, cooperative: bool = False, cluster: str = ""
) -> list[tuple[str, str, int]]:
    """Rule, marker on the line, and count of what is found of ``k(const int* x, int* y, int n)``, sorted. There are as
    many threads as elements; ``i`` is the number of one."""
    source = (
        f'{before}extern "C" __global__ void {cluster} k(const int* x, int* y, int n) {{\n'
        f"    int t = threadIdx.x, b = blockIdx.x, i = b * 64 + t;\n{body}}}\n"
    )
    kernel = cp.RawKernel(source, "k", ("-std=c++17",), enable_cooperative_groups=cooperative)
    count = BLOCKS * THREADS
    x, y = cp.arange(count + 1024, dtype=cp.int32)[:count].copy(), cp.zeros(count, cp.int32)
    report = cudalab.sanitize(kernel, (BLOCKS,), (THREADS,), (x, y, np.int32(count)), time_limit=2.0)
    lines = source.splitlines()
    return sorted((f.rule, lines[f.line - 1].rpartition("// ")[2], f.count) for f in report.findings)


@pytest.mark.parametrize(
    ("source", "rule", "count"),
    [
        ("x + 4 * i - (b == 3 ? 0 : 4 * i)", "out of bounds", 64),
        ("x + 4 * (t & 31) + (b == 1)", "misaligned address", 64),
    ],
)
def test_a_bad_copy_is_skipped_and_its_block_goes_on(source: str, rule: str, count: int) -> None:
    found = findings(COPY.replace("FROM", source) + BEYOND, PIPELINE)
    assert sorted(found) == sorted([(rule, "COPY", count), ("out of bounds", "BEYOND", BLOCKS)])


def test_a_bulk_copy_of_a_bad_size_is_noted_and_the_block_goes_on() -> None:
    """Nobody waits for ever for the bytes."""
    body = BULK.replace("FROM", "x").replace("SIZE", "b == 1 ? 100 : 256")
    assert findings(body + BEYOND) == [("bulk copy size", "COPY", 1), ("out of bounds", "BEYOND", BLOCKS)]


def test_a_bulk_copy_from_outside_gives_zeros_and_the_block_goes_on() -> None:
    body = BULK.replace("FROM", "x + (b == 2 ? n - 32 : 0)").replace("SIZE", "256")
    assert findings(body + BEYOND) == [("out of bounds", "BEYOND", BLOCKS), ("out of bounds", "COPY", 1)]


def test_a_trap_ends_its_block_only() -> None:
    body = "    if (b % 2 == 0 && t == 7) __trap();  // TRAP\n"
    assert findings(body + BEYOND) == [("out of bounds", "BEYOND", 4), ("trap", "TRAP", 2)]


def test_a_trap_ends_its_block_only_where_threads_poll() -> None:
    body = "    if (b % 2 == 0 && t == 7) __trap();  // TRAP\n    while (*(volatile int*)y < 0) { }\n"
    assert findings(body + "    __syncthreads();\n" + BEYOND) == [("out of bounds", "BEYOND", 2), ("trap", "TRAP", 2)]


@pytest.mark.parametrize(
    ("sync", "options"),
    [("this_grid", {"cooperative": True}), ("this_cluster", {"cluster": "__cluster_dims__(2)"})],
    ids=["grid", "cluster"],
)
def test_blocks_that_wait_for_one_that_trapped_are_no_finding(sync: str, options: dict) -> None:
    body = f"    if (b == 1) __trap();  // TRAP\n{BEYOND}    cooperative_groups::{sync}().sync();\n"
    assert findings(body, GROUPS, **options) == [("out of bounds", "BEYOND", 3), ("trap", "TRAP", 1)]


def test_a_barrier_object_of_the_block_before_is_none_of_this_one() -> None:
    """Shared memory still holds it."""
    body = """
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (t == 0 && b != 2) init(&bar, 64);
    __syncthreads();
    (void)bar.arrive();  // ARRIVE
"""
    found = findings(body + BEYOND, "#include <cuda/barrier>\n")
    assert ("out of bounds", "BEYOND", 4) in found  # the block goes on after it
    assert [(mark, count) for rule, mark, count in found if rule != "out of bounds"] == [("ARRIVE", 64)]
