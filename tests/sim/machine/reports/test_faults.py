"""What goes wrong in a kernel, and what the fault says: kind, line, thread, address. Nothing may crash the process."""

from __future__ import annotations

import time

import numpy as np
import pytest

from cudalab.sim.abi import LOCAL_WINDOW, SHARED_WINDOW, FaultKind
from cudalab.sim.machine.execution import Outcome, Standalone
from tests.sim.compiler.kernel_runner import cuda, memory

VARIANTS = pytest.mark.parametrize("variant", ["plain", "atomic", "traced"])
ASSERT = (
    'extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t); '
    "#define assert(e) ((e) ? (void)0 : __assertfail(#e, __FILE__, __LINE__, __func__, 1))"
).replace("; #", ";\n#")
#: name → (line of the mistake in the source, kind, thread, statement)
ACCESSES = {
    "read past the end": (FaultKind.OUT_OF_BOUNDS, (9, 0, 0), "out[0] = x[threadIdx.x + 7];"),
    "write past the end": (FaultKind.OUT_OF_BOUNDS, (16, 0, 0), "x[threadIdx.x] = 1;"),
    "read before the start": (FaultKind.OUT_OF_BOUNDS, (0, 0, 0), "out[0] = x[(int)threadIdx.x - 1];"),
    "atomic past the end": (FaultKind.OUT_OF_BOUNDS, (16, 0, 0), "atomicAdd(&x[threadIdx.x], 1);"),
    "far away": (FaultKind.OUT_OF_BOUNDS, (0, 0, 0), "x[1ll << 40] = 1;"),
    "null": (FaultKind.OUT_OF_BOUNDS, (0, 0, 0), "int *p = (int *)(long long)out[1]; *p = 1;"),
    "misaligned": (FaultKind.MISALIGNED, (0, 0, 0), "*(int *)((char *)x + 1) = 1;"),
    "misaligned vector": (FaultKind.MISALIGNED, (1, 0, 0), "*(int2 *)(x + threadIdx.x) = make_int2(1, 2);"),
    "vector over the end": (
        FaultKind.OUT_OF_BOUNDS,
        (4, 0, 0),
        "((int4 *)x)[threadIdx.x].y = ((int4 *)x)[threadIdx.x].x;",
    ),
    "shared": (FaultKind.OUT_OF_BOUNDS, (8, 0, 0), "((volatile int *)s)[threadIdx.x * 2] = 1;"),
    "shared negative": (
        FaultKind.OUT_OF_BOUNDS,
        (0, 0, 0),
        "((volatile int *)s)[(int)threadIdx.x - 1] = 1;",
    ),
    "constant": (FaultKind.OUT_OF_BOUNDS, (4, 0, 0), "out[0] = table[threadIdx.x];"),
    "global variable": (FaultKind.OUT_OF_BOUNDS, (5, 0, 0), "variable[threadIdx.x] = 1;"),
    "double pointer": (FaultKind.OUT_OF_BOUNDS, (16, 0, 0), "((int **)holder)[0][threadIdx.x] = 1;"),
    "trap": (FaultKind.TRAP, (2, 0, 0), "if (threadIdx.x == 2) __trap();"),
    "assertion": (FaultKind.ASSERT, (3, 0, 0), "assert(threadIdx.x != 3);"),
}


def _source(statement: str, template: str) -> str:
    head = f"{ASSERT}\n__constant__ int table[4];\n__device__ int variable[5];\n"
    return head + template.replace("STATEMENT", statement)


PLACES = {
    "kernel": """extern "C" __global__ void k(int *x, int *out, long long holder) {
    __shared__ int s[16];
    s[0] = 0;
    STATEMENT
}""",
    "function": """__device__ __noinline__ void f(int *x, int *out, long long holder) {
    __shared__ int s[16];
    s[0] = 0;
    STATEMENT
}
extern "C" __global__ void k(int *x, int *out, long long holder) { f(x, out, holder); }""",
    "template in a loop": """template <class T> __device__ void f(T *x, T *out, long long holder, int n) {
    __shared__ int s[16]; s[0] = 0; for (int i = 0; i < n; i++) {

    STATEMENT
    }
}
extern "C" __global__ void k(int *x, int *out, long long holder) { f(x, out, holder, out[2] + 1); }""",
    "after a barrier": """extern "C" __global__ void k(int *x, int *out, long long holder) {
    __shared__ int s[16]; s[0] = 0;
    __syncthreads();
    STATEMENT
}""",
}


def _launch(source: str, variant: str) -> Outcome:
    x, out = np.zeros(16, np.int32), np.zeros(64, np.int32)
    pointer = memory().allocate(64, "device", "behind")
    cell = memory().allocate(8, "device", "holder")
    memory().view(cell, 8)[:] = pointer.to_bytes(8, "little")
    try:
        return cuda(source).run("k", 1, 64, x, out, cell, variant=variant)
    finally:
        memory().free(pointer)
        memory().free(cell)


@VARIANTS
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ACCESSES)
def test_mistake_is_found_at_its_line_and_thread(name: str, place: str, variant: str) -> None:
    kind, thread, statement = ACCESSES[name]
    outcome = _launch(_source(statement, PLACES[place]), variant)
    assert outcome.fault is not None
    assert outcome.fault.kind is kind
    assert outcome.fault.finding.thread == thread
    assert outcome.fault.finding.place.line == 8


def test_an_access_into_another_live_allocation_is_found() -> None:
    first, second = (memory().allocate(256, "device", name) for name in ("first", "second"))
    source = """extern "C" __global__ void k(float *x, long long distance) { x[distance] = 1; }"""
    outcome = cuda(source).run("k", 1, 1, first, (second - first) // 4)
    assert outcome.fault.kind is FaultKind.OUT_OF_BOUNDS
    assert outcome.fault.finding.address == second
    memory().free(first)
    memory().free(second)


def test_freed_memory_is_found() -> None:
    pointer = memory().allocate(256, "device", "gone")
    memory().free(pointer)
    outcome = cuda("""extern "C" __global__ void k(float *x) { x[3] = 1; }""").run("k", 1, 1, pointer)
    assert outcome.fault.kind is FaultKind.OUT_OF_BOUNDS


def test_addresses_of_shared_and_local_faults_lie_in_their_windows() -> None:
    source = """extern "C" __global__ void k(int *out) {
        __shared__ int s[4]; int l[4] = {1, 2, 3, 4};
        if (out[0]) s[out[1]] = 1; else l[out[1]] = 5;
        out[2] = s[out[3]] + l[out[3]];
    }"""
    for choice, window in ((1, SHARED_WINDOW), (0, LOCAL_WINDOW)):
        outcome = cuda(source).run("k", 1, 1, np.array([choice, 5000, 0, 0], np.int32))
        assert outcome.fault.finding.address - window == 20000


def test_assertion_text_and_print_before_it() -> None:
    source = (
        ASSERT
        + """
extern "C" __global__ void k(int n) {
    printf("thread %d of %d, %.2f %s\\n", threadIdx.x, n, 0.5 * threadIdx.x, "text");
    assert(threadIdx.x < 2 && "message");
}"""
    )
    surroundings = Standalone()
    outcome = cuda(source).run("k", 1, 4, 4, surroundings=surroundings)
    assert surroundings.text == "".join(f"thread {t} of 4, {t / 2:.2f} text\n" for t in range(3))
    assert "threadIdx.x < 2" in outcome.fault.assertion
    assert outcome.fault.finding.place.line == 5


def test_barrier_that_can_never_complete() -> None:
    source = """extern "C" __global__ void k(int *out) {
    if (threadIdx.x < 16) __syncwarp(0x0001ffff);
    else
        __syncthreads();
    out[0] = 1;
}"""
    outcome = cuda(source).run("k", 1, 64, np.zeros(1, np.int32))
    assert outcome.fault.kind is FaultKind.DEADLOCK
    assert outcome.fault.finding.place.line == 2
    assert "16 threads" in outcome.fault.finding.detail and "48 threads" in outcome.fault.finding.detail


def test_shuffle_with_lanes_that_never_come() -> None:
    source = """extern "C" __global__ void k(int *out) {
    if (threadIdx.x % 2) out[0] = __shfl_sync(0xffffffff, 1, 0);
    else { __syncthreads(); }
}"""
    outcome = cuda(source).run("k", 1, 32, np.zeros(1, np.int32))
    assert outcome.fault.kind is FaultKind.DEADLOCK


LOOPS = {
    "simple": "while (((volatile int *)x)[0] == 0) ;",
    "with a barrier": "while (((volatile int *)x)[0] == 0) __syncthreads();",
    "with a vote": "while (__any_sync(0xffffffff, ((volatile int *)x)[0] == 0)) ;",
    "after a barrier": "__syncthreads(); for (int i = 0; ; i = (i + 1) % 3) if (((volatile int *)x)[i] == 1) break;",
    "in a function": "while (f(x)) ;",
    "inside a function": "g(x);",
    "diverged": "if (threadIdx.x % 2) while (__all_sync(0xaaaaaaaa, ((volatile int *)x)[0] == 0)) ; __syncthreads();",
    "recursive": "h(x, 30);",
}


@pytest.mark.parametrize("variant", ["plain", "traced"])
@pytest.mark.parametrize("name", LOOPS)
def test_endless_loops_are_stopped(name: str, variant: str) -> None:
    source = (
        "__device__ __noinline__ int f(int *x) { return ((volatile int *)x)[0] == 0; }\n"
        "__device__ __noinline__ void g(int *x) { while (((volatile int *)x)[0] == 0) ; }\n"
        "__device__ __noinline__ int h(int *x, int n) { return n ? h(x, n - 1) + h(x, n - 1) : atomicAdd(x, 1); }\n"
        f'extern "C" __global__ void k(int *x) {{ {LOOPS[name]} }}'
    )
    start = time.monotonic()
    outcome = cuda(source).run(
        "k", 1, 64, np.zeros(3, np.int32), variant=variant, surroundings=Standalone(time_limit=0.2)
    )
    assert time.monotonic() - start < 10
    assert outcome.fault.error == "cudaErrorLaunchTimeout"


BEFORE_THE_START = {
    # name → (statement, what the report says)
    "an unsigned index": ("s[threadIdx.x] = 0; out[0] = s[threadIdx.x - 1];", "index 4294967295 of 16"),
    "in words": ("s[threadIdx.x] = 0; out[0] = s[threadIdx.x - 1];", "As an unsigned int, -1 is 4294967295."),
    "far below": ("s[0] = 0; out[0] = s[(int)threadIdx.x - 10000000];", "offset -40000000 begin 40000000 bytes before"),
    "of two memories": (
        "s[0] = 0; int *p = x[0] ? x : s; out[0] = p[(int)threadIdx.x - 1];",
        "begin 4 bytes before the start of the 64 bytes of shared memory",
    ),
    "of a local array": (
        "int l[8]; for (int i = 0; i < 8; i++) l[i] = x[i]; out[0] = l[x[1] - 1];",
        "begin 4 bytes before the start of the 32 bytes of local memory that a thread has",
    ),
}


@pytest.mark.parametrize("name", BEFORE_THE_START)
def test_access_before_the_start_tells_its_true_distance(name: str) -> None:
    statement, words = BEFORE_THE_START[name]
    source = f'extern "C" __global__ void k(int *x, int *out) {{ __shared__ int s[16]; {statement} }}'
    outcome = cuda(source).run("k", 1, 16, np.zeros(16, np.int32), np.zeros(16, np.int32))
    assert words in outcome.fault.finding.detail
    assert "below zero" in outcome.fault.finding.advice
