"""Mistakes that change no result at once: leaks, pointers to locals, read-only loads, misused barrier objects."""

from __future__ import annotations

import pytest

import cudalab
from cudalab import cp

pytestmark = pytest.mark.usefixtures("fresh_device")


@pytest.fixture
def fresh_device():
    yield
    cudalab.reset()


def report(source: str, threads: int, *args: object, blocks: int = 1):
    return cudalab.sanitize(cp.RawKernel(source, "k"), (blocks,), (threads,), args)


KEPT = r"""
struct Node { int value; Node* next; };
extern "C" __global__ void k(Node** head, int keep) {
    Node* second = new Node{2, nullptr};
    Node* first = new Node{1, second};
    if (keep) *head = first;
    else head[1] = (Node*)((long long)first ^ (long long)second);
}
"""


def test_heap_memory_that_a_later_launch_can_reach_has_not_leaked() -> None:
    """The guide's "Allocation Persisting Between Kernel Launches"."""
    head = cp.zeros(2, cp.uint64)
    assert report(KEPT, 1, head, cp.int32(1)).ok
    lost = report(KEPT, 1, head, cp.int32(0)).findings
    assert {(finding.rule, finding.line, finding.count) for finding in lost} == {
        ("memory leak", 4, 1),
        ("memory leak", 5, 1),
    }
    assert "16 bytes" in lost[0].headline


IN_PLACE = r"""
extern "C" __global__ void k(float* y, int far) {
    int i = threadIdx.x;
    y[i] = 2 * __ldg(y + (i + far) % 32);
}
"""


def test_a_thread_may_read_only_what_it_then_writes_itself() -> None:
    assert report(IN_PLACE, 32, cp.zeros(32, cp.float32), cp.int32(0)).ok
    rules = {finding.rule for finding in report(IN_PLACE, 32, cp.zeros(32, cp.float32), cp.int32(1)).findings}
    assert "read-only load" in rules


ALIASED = r"""
extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y) {
    int i = threadIdx.x;
    if (i < 16) y[i] = x[i + 16];
    __syncthreads();
    y[i + 32] = x[i] + 1;
}
"""


def test_a_restricted_parameter_that_is_the_output_too_is_found() -> None:
    """NVRTC reads ``const … __restrict__`` through the read-only data cache."""
    a, b = cp.zeros(64, cp.float32), cp.zeros(64, cp.float32)
    assert report(ALIASED, 32, a, b).ok
    (finding,) = report(ALIASED, 32, a, a).findings
    assert (finding.tool, finding.rule) == ("racecheck", "read-only load")
    assert finding.line == 6 and "kernel.cu:4" in finding.detail


OWN = r"""
extern "C" __global__ void k(int* y) {
    __shared__ int* places[32];
    int value[2] = {threadIdx.x, 1};
    places[threadIdx.x] = &value[y[threadIdx.x] & 1];
    __syncthreads();
    y[threadIdx.x] = *places[(threadIdx.x + SHIFT) % 32];
}
"""


def test_a_thread_may_keep_pointers_to_its_own_locals() -> None:
    assert report(OWN.replace("SHIFT", "0"), 32, cp.zeros(32, cp.int32)).ok
    (finding,) = report(OWN.replace("SHIFT", "1"), 32, cp.zeros(32, cp.int32)).findings
    assert (finding.tool, finding.rule, finding.line) == ("memcheck", "pointer to a local", 7)
    assert "Thread (1,0,0) has stored" in finding.detail and finding.count == 32


BARRIER = r"""
extern "C" __global__ void k(const int* x, int* y) {
    __shared__ unsigned long long bar, other;
    __shared__ int t[64];
    unsigned at = (unsigned)__cvta_generic_to_shared(&bar), second = (unsigned)__cvta_generic_to_shared(&other);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(second) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(x[0]) : "memory");
    }
    __syncthreads();
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W; }" ::"r"(at));
    if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0], 2;" ::"r"(second) : "memory");
    t[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = t[63 - threadIdx.x];
}
"""


def test_after_a_misused_barrier_object_the_block_goes_on() -> None:
    """One report names every mistake, the race behind them as well."""
    found = report(BARRIER, 64, cp.arange(64, dtype=cp.int32), cp.zeros(64, cp.int32), blocks=2)
    rules = {(finding.tool, finding.rule, finding.line) for finding in found.findings}
    assert ("synccheck", "mbarrier count", 8) in rules
    assert ("synccheck", "mbarrier not initialised", 11) in rules
    assert ("synccheck", "mbarrier not initialised", 12) in rules
    assert ("synccheck", "too many arrivals", 13) in rules
    assert ("racecheck", "race", 15) in rules
    assert found.blocks == 2
    (arrival,) = (finding for finding in found.findings if finding.line == 11)
    assert (arrival.count, arrival.threads, arrival.blocks) == (128, 128, 2)


UNORDERED = r"""
extern "C" __global__ void k(int* y) {
    __shared__ unsigned long long bar;
    unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at) : "memory");
    BARRIER
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W; }" ::"r"(at));
    y[threadIdx.x] = threadIdx.x;
}
"""


def test_initialisation_of_a_barrier_object_must_be_ordered_with_its_use() -> None:
    assert report(UNORDERED.replace("BARRIER", "__syncthreads();"), 64, cp.zeros(64, cp.int32)).ok
    (finding,) = report(UNORDERED.replace("BARRIER", ""), 64, cp.zeros(64, cp.int32)).findings
    assert (finding.rule, finding.line) == ("race", 7) and "initialises or invalidates" in finding.detail


FLAG = r"""
extern "C" __global__ void k(int* y) {
    __shared__ volatile int ready;
    FIRST
    if (threadIdx.x == 0) ready = 1;
    else if (threadIdx.x >= 32) while (ready == 0) {}
    y[threadIdx.x] = 1;
}
"""


@pytest.mark.parametrize(("first", "found"), [("", True), ("if (threadIdx.x == 0) ready = 0; __syncthreads();", False)])
def test_a_flag_in_shared_memory_needs_a_value_before_it_is_polled(first: str, found: bool) -> None:
    findings = report(FLAG.replace("FIRST", first), 64, cp.zeros(64, cp.int32)).findings
    assert {(each.tool, each.line) for each in findings} == ({("initcheck", 6)} if found else set())
