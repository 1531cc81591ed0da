"""What orders threads, and what only looks like it: each pattern right, and with one part taken away."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.sanitizer.sanitize import SanitizerResult, check_launch
from tests.sim.h200 import LIMITS

WORDS = 4096


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(1 << 30)


def check(memory: Memory, source: str, grid: int, block: int, **options: object) -> SanitizerResult:
    """Launch ``k(int* data, int* flag, int* out)``; all arrays hold zeros."""
    kernel = Module(compile(source), memory, LIMITS).kernel("k")
    pointers = []
    for _ in range(3):
        pointer = memory.allocate(4 * WORDS)
        memory.array(pointer, WORDS, np.int32)[:] = 0
        pointers.append(pointer)
    try:
        return check_launch(kernel.launch(grid, block, struct.pack("<QQQ", *pointers)), **options)  # type: ignore[arg-type]
    finally:
        for pointer in pointers:
            memory.free(pointer)


def rules(checked: SanitizerResult) -> set[str]:
    assert not checked.notes, checked.notes
    return {finding.rule for finding in checked.findings}


HEAD = 'extern "C" __global__ void k(int* data, int* flag, int* out) {\n    int t = threadIdx.x, b = blockIdx.x;\n'

FLAG = (
    HEAD
    + """
    if (b == 0) {
        data[t] = t;
        __syncthreads();
        if (t == 0) {
            __threadfence();                     // 1
            *(volatile int*)flag = 1;            // 2
        }
    } else {
        if (t == 0) {
            while (*(volatile int*)flag == 0) {} // 3
            __threadfence();                     // 4
        }
        __syncthreads();                         // 5
        out[t] = data[63 - t];
    }
}"""
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", set()),
        ("            __threadfence();                     // 1", "", {"race"}),
        ("while (*(volatile int*)flag == 0) {}", "", {"race"}),
        ("*(volatile int*)flag = 1; ", "*flag = 1; ", {"race"}),
        ("__syncthreads();                         // 5", "", {"race"}),
        ("__threadfence();                     // 1", "__threadfence_block();", {"race"}),
        ("*(volatile int*)flag = 1; ", "atomicExch(flag, 1);", set()),
        ("*(volatile int*)flag == 0", "atomicAdd(flag, 0) == 0", set()),
        ("*(volatile int*)flag = 1; ", "atomicExch_block(flag, 1);", {"race"}),
    ],
)
def test_a_flag_between_blocks(memory: Memory, old: str, new: str, expected: set[str]) -> None:
    assert old in FLAG
    assert rules(check(memory, FLAG.replace(old, new) if old else FLAG, 2, 64)) == expected


def test_the_reader_needs_a_fence_unless_it_passes_a_barrier(memory: Memory) -> None:
    source = (
        HEAD
        + """
    if (t) return;
    if (b == 0) { data[0] = 7; __threadfence(); atomicExch(flag, 1); }
    else { while (atomicAdd(flag, 0) == 0) {} __threadfence(); out[0] = data[0]; }
}"""
    )
    assert rules(check(memory, source, 2, 32)) == set()
    assert rules(check(memory, source.replace("{} __threadfence();", "{}"), 2, 32)) == {"race"}


RELEASE = (
    HEAD
    + """
    if (t) return;
    if (b == 0) { data[0] = 7; asm volatile("st.release.gpu.s32 [%0], 1;" :: "l"(flag) : "memory"); }
    else {
        int seen = 0;
        while (!seen) asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        out[0] = data[0];
    }
}"""
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", set()),
        ("st.release.gpu", "st.relaxed.gpu", {"race"}),
        ("ld.acquire.gpu", "ld.relaxed.gpu", {"race"}),
        ("st.release.gpu", "st.release.cta", {"race"}),
    ],
)
def test_release_and_acquire(memory: Memory, old: str, new: str, expected: set[str]) -> None:
    assert rules(check(memory, RELEASE.replace(old, new) if old else RELEASE, 2, 32)) == expected


LAST_BLOCK = """
__device__ unsigned int tickets = 0;
extern "C" __global__ void k(int* data, int* flag, int* out) {
    __shared__ int s[64];
    __shared__ bool last;
    int t = threadIdx.x;
    s[t] = t;
    __syncthreads();
    for (int d = 32; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) {
        data[blockIdx.x] = s[0];
        __threadfence();
        last = atomicInc(&tickets, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        int sum = 0;
        for (int i = t; i < gridDim.x; i += 64) sum += data[i];
        atomicAdd(out, sum);
    }
}"""


def test_the_last_block_adds_up(memory: Memory) -> None:
    assert rules(check(memory, LAST_BLOCK, 9, 64)) == set()
    checked = check(memory, LAST_BLOCK.replace("        __threadfence();\n", ""), 9, 64)
    assert rules(checked) == {"race"}
    (finding,) = checked.findings
    assert "of block" in finding.detail and finding.source.startswith("for (int i = t")
    without_ticket = LAST_BLOCK.replace(
        "atomicInc(&tickets, gridDim.x) == gridDim.x - 1", "blockIdx.x == gridDim.x - 1"
    )
    assert rules(check(memory, without_ticket, 9, 64)) == {"race"}


def test_scopes_of_atomics(memory: Memory) -> None:
    source = HEAD + "    atomicAdd_block(out, 1);\n}"
    assert rules(check(memory, source, 1, 64)) == set()
    (finding,) = check(memory, source, 2, 64).findings
    assert finding.rule == "race" and "not between blocks: take one without _block" in finding.advice
    assert rules(check(memory, source.replace("atomicAdd_block", "atomicAdd"), 2, 64)) == set()
    assert rules(check(memory, source.replace("atomicAdd_block", "atomicAdd_system"), 2, 64)) == set()


NAMED = """
extern "C" __global__ void k(int* data, int* flag, int* out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t < 64) {
        s[t] = t;
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[t] = s[63 - t];
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");
        out[t] = t;
    }
}"""


def test_a_named_barrier_orders_those_who_take_part(memory: Memory) -> None:
    assert rules(check(memory, NAMED, 1, 128)) == set()
    assert rules(check(memory, NAMED.replace('asm volatile("bar.sync 1, 64;" ::: "memory");', ""), 1, 128)) == {"race"}
    other = NAMED.replace("s[t] = t;", "s[t] = t;").replace("out[t] = t;", "out[t] = s[t - 64];")
    assert rules(check(memory, other, 1, 128)) == {"race"}


ARRIVE = """
extern "C" __global__ void k(int* data, int* flag, int* out) {
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t < 32) {
        s[t] = t;
        asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[t] = s[63 - t];
    }
}"""


def test_arriving_at_a_barrier_publishes(memory: Memory) -> None:
    assert rules(check(memory, ARRIVE, 1, 64)) == set()
    late = ARRIVE.replace("        s[t] = t;\n", "").replace(
        'bar.arrive 1, 64;" ::: "memory");', 'bar.arrive 1, 64;" ::: "memory"); s[t] = t;'
    )
    assert "race" in rules(check(memory, late, 1, 64))


WARP_SYNCHRONOUS = """
extern "C" __global__ void k(int* data, int* flag, int* out) {
    __shared__ volatile int s[64];
    int t = threadIdx.x;
    s[t] = t; s[t + 32] = 1;
    __syncwarp();
    int v = s[t];
    for (int d = 16; d > 0; d /= 2) {
        v += s[t + d]; __syncwarp();
        s[t] = v; __syncwarp();
    }
    out[t] = v;
}"""


def test_warp_synchronous_code_needs_syncwarp(memory: Memory) -> None:
    """Lanes of one warp are not in step since Volta (CUDA C++ Programming Guide, "Independent Thread Scheduling")."""
    assert rules(check(memory, WARP_SYNCHRONOUS, 1, 32)) == set()
    assert rules(check(memory, WARP_SYNCHRONOUS.replace(" __syncwarp();\n        s[t]", "\n        s[t]"), 1, 32)) == {
        "race"
    }


def test_lanes_in_different_branches(memory: Memory) -> None:
    source = """
extern "C" __global__ void k(int* data, int* flag, int* out) {
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t < 16) s[t] = t;
    __syncwarp();
    if (t >= 16) out[t] = s[t - 16];
}"""
    assert rules(check(memory, source, 1, 32)) == set()
    assert rules(check(memory, source.replace("    __syncwarp();\n", ""), 1, 32)) == {"race"}


COPY = """
extern "C" __global__ void k(int* data, int* flag, int* out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    unsigned place = (unsigned)__cvta_generic_to_shared(&s[t]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(place), "l"(data + t) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[t] = s[63 - t];
}"""


def test_an_asynchronous_copy_has_to_be_waited_for(memory: Memory) -> None:
    assert rules(check(memory, COPY, 1, 64)) == set()
    no_wait = check(memory, COPY.replace('    asm volatile("cp.async.wait_group 0;" ::: "memory");\n', ""), 1, 64)
    assert "race" in rules(no_wait)
    assert any("the copy need not be complete" in finding.detail for finding in no_wait.findings)
    assert "race" in rules(check(memory, COPY.replace("    __syncthreads();\n", ""), 1, 64))


def test_waiting_for_one_group_of_copies_does_not_order_the_next(memory: Memory) -> None:
    source = """
extern "C" __global__ void k(int* data, int* flag, int* out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    unsigned place = (unsigned)__cvta_generic_to_shared(&s[t]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(place), "l"(data + t) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(place + 128), "l"(data + 32 + t) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    int first = s[t];
    int second = s[32 + t];
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    out[t] = first + second;
}"""
    (finding,) = check(memory, source, 1, 32).findings
    assert (finding.rule, finding.line) == ("race", 12)
    assert rules(check(memory, source.replace("wait_group 1", "wait_group 0"), 1, 32)) == set()


def test_neighbouring_bytes_are_told_apart(memory: Memory) -> None:
    source = HEAD + "    char* c = (char*)out;\n    c[b * 64 + t] = 1;\n}"
    assert rules(check(memory, source, 3, 64)) == set()
    assert rules(check(memory, source.replace("b * 64 + t", "b * 63 + t"), 3, 64)) == {"race"}


def test_a_race_only_between_two_warps_and_only_between_two_blocks(memory: Memory) -> None:
    source = HEAD + "    if (t < 32) out[b * 96 + t + 1] = t; else if (t < 63) out[b * 96 + t] = t;\n}"
    (finding,) = check(memory, source, 2, 64).findings
    assert finding.rule == "race" and finding.count == 2
    blocks = HEAD + "    out[b * 63 + t] = t;\n}"
    (finding,) = check(memory, blocks, 3, 64).findings
    assert finding.count == 2 and "of block" in finding.detail


def test_order_shuffled_by_a_seed(memory: Memory) -> None:
    """The same seed gives the same report; races do not depend on it."""
    source = HEAD + "    out[t / 2] += b;\n    if (t == 7) data[5000] = 1;\n}"
    reports = []
    for seed in (None, 1, 1, 2):
        checked = check(memory, source, 4, 64, seed=seed)
        reports.append([(f.rule, f.line, f.block, f.thread, f.count) for f in checked.findings])
    assert reports[1] == reports[2]
    for report in reports[1:]:
        assert [entry[:2] for entry in report] == [entry[:2] for entry in reports[0]]
    assert reports[1] != reports[3]
