"""Launches of compiled kernels: what only native code can show."""

from __future__ import annotations

import _thread
import struct
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.machine.counters.sampling import forget, sample
from cudalab.sim.machine.execution import Outcome, Standalone, execute
from cudalab.sim.machine.launch import worker_threads
from cudalab.sim.machine.launch.module import LoadedKernel, Module
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.alarm import alarm, needs_alarms
from tests.sim.h200 import LIMITS


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory(1 << 30)
    yield memory
    memory.free_all()


def load(memory: Memory, code: str, name: str = "k") -> LoadedKernel:
    return Module(compile(code), memory, LIMITS).kernel(name)


def put(memory: Memory, array: np.ndarray) -> int:
    pointer = memory.allocate(array.nbytes)
    memory.array(pointer, array.size, array.dtype)[:] = array.ravel()
    return pointer


def pack(*values: int | float) -> bytes:
    """Addresses and C ints, laid out as parameters."""
    out = b""
    for value in values:
        if value >= 1 << 32 or value == 0:
            out = out.ljust(-(-len(out) // 8) * 8, b"\0") + struct.pack("<Q", value)
        else:
            out += struct.pack("<i", value)
    return out


ADD = """
extern "C" __global__ void k(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}"""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("n", [1, 31, 256, 1000])
def test_vector_add(memory: Memory, n: int, workers: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.random(n, np.float32), rng.random(n, np.float32)
    out = put(memory, np.zeros(n, np.float32))
    args = pack(put(memory, a), put(memory, b), out, n)
    outcome = execute(load(memory, ADD).launch(-(-n // 128), 128, args), Standalone(workers=workers))
    assert outcome.fault is None
    assert np.array_equal(memory.array(out, n, np.float32), a + b)


def test_atomics_of_several_workers_add_up(memory: Memory) -> None:
    code = 'extern "C" __global__ void k(int* n) { atomicAdd(n, 1); }'
    out = put(memory, np.zeros(1, np.int32))
    execute(load(memory, code).launch(500, 256, pack(out)), Standalone(workers=2))
    assert memory.array(out, 1, np.int32)[0] == 500 * 256


ENDLESS = {
    "global": 'extern "C" __global__ void k(int* a) { while (a[0] == 0) a[1] += 1; }',
    "volatile": 'extern "C" __global__ void k(volatile int* a) { while (a[0] == 0) { } }',
    "barrier": 'extern "C" __global__ void k(int* a) { while (true) { __syncthreads(); a[1] = 1; } }',
    "shuffle": 'extern "C" __global__ void k(int* a) { int v = 1; while (v) v = __shfl_sync(~0u, v, 1); *a = v; }',
    "spin": 'extern "C" __global__ void k(int* a) { while (atomicCAS(a, 1, 2) != 1) { } }',
    "inner": 'extern "C" __global__ void k(int* a) { for (int i = 0; i < 9; i++) for (;;) if (a[2]) break; }',
}


def endless(memory: Memory, form: str) -> tuple[LoadedKernel, bytes]:
    return load(memory, ENDLESS[form]), pack(put(memory, np.zeros(4, np.int32)))


@pytest.mark.parametrize("form", ENDLESS)
def test_endless_loops_meet_the_time_limit(memory: Memory, form: str) -> None:
    kernel, args = endless(memory, form)
    start = time.monotonic()
    fault = execute(kernel.launch(2, 64, args), Standalone(time_limit=0.1)).fault
    assert fault is not None
    rule = "endless wait" if form in ("volatile", "spin") else "endless loop"
    assert (fault.code, fault.error, fault.rule, fault.line) == (702, "cudaErrorLaunchTimeout", rule, 1)
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("form", ["global", "barrier"])
@pytest.mark.parametrize("workers", [1, 2])
def test_endless_loops_can_be_interrupted(memory: Memory, form: str, workers: int) -> None:
    kernel, args = endless(memory, form)
    kernel.entry("plain"), kernel.entry("atomic")
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        execute(kernel.launch(4, 64, args), Standalone(workers=workers))
    timer.join()
    a = put(memory, np.ones(32, np.float32))
    assert execute(load(memory, ADD).launch(1, 32, pack(a, a, a, 32))).fault is None


@needs_alarms
@pytest.mark.parametrize("workers", [1, 2])
def test_an_alarm_of_the_program_stops_an_endless_loop(memory: Memory, workers: int) -> None:
    """The launch may not be left behind, for its memory is let go."""
    kernel, args = endless(memory, "global")
    kernel.entry("plain"), kernel.entry("atomic")
    running = threads_at_work()
    with pytest.raises(TimeoutError, match="my own alarm"), alarm(0.2, TimeoutError):
        execute(kernel.launch(4, 64, args), Standalone(workers=workers))
    assert threads_at_work() <= running


def threads_at_work() -> set[threading.Thread]:
    workers = {each for each in threading.enumerate() if isinstance(each, worker_threads.Worker)}
    return workers - set(worker_threads._idle)


def test_a_huge_grid_of_tiny_blocks_can_be_stopped(memory: Memory) -> None:
    kernel = load(memory, 'extern "C" __global__ void k(int* a) { a[threadIdx.x] = blockIdx.x; }')
    timer = threading.Timer(0.2, _thread.interrupt_main)
    args = pack(put(memory, np.zeros(32, np.int32)))
    kernel.entry("plain")
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        execute(kernel.launch((2**31 - 1, 1000), 32, args))
    timer.join()
    assert time.monotonic() - start < 20


def test_printf(memory: Memory) -> None:
    code = r"""
extern "C" __global__ void k(int* a) {
    if (threadIdx.x % 16 == 0)
        printf("block %d thread %2u: %s %.2f %lld %c|%5d|%-5d|%#x %%\n", blockIdx.x, threadIdx.x, "text", 1.5f + a[0],
               1ll << 40, 'z', 42, 42, 255);
}"""
    surroundings = Standalone()
    execute(load(memory, code).launch(2, 32, pack(put(memory, np.ones(1, np.int32)))), surroundings)
    expected = [
        f"block {b} thread {t:2}: text 2.50 {1 << 40} z|   42|42   |0xff %\n" for b in range(2) for t in (0, 16)
    ]
    assert surroundings.text == "".join(expected)


def fault_of(memory: Memory, body: str, *, threads: int = 32, setup: str = "") -> Outcome:
    code = f'{setup}\nextern "C" __global__ void k(int* a) {{\n    {body}\n}}'
    return execute(
        load(memory, code).launch(1, threads, pack(put(memory, np.zeros(64, np.int32)))), Standalone(time_limit=1.0)
    )


@pytest.mark.parametrize(
    ("body", "code", "rule"),
    [
        ("a[threadIdx.x + 40] = 1;", 700, "out of bounds"),
        ("a[(int)threadIdx.x - 1] = 1;", 700, "out of bounds"),
        ("a[1ll << 40] = 1;", 700, "out of bounds"),
        ("int* p = (int*)(size_t)a[0]; *p = 1;", 700, "null pointer"),
        ("*(int*)((char*)a + 2) = 1;", 716, "misaligned address"),
        ("*(float4*)(a + 1) = make_float4(1, 2, 3, 4);", 716, "misaligned address"),
        ("__shared__ int s[32]; s[threadIdx.x + 1 + a[0]] = 1; a[1] = s[3];", 700, "out of bounds"),
        ("if (threadIdx.x == 5) __trap();", 719, "trap"),
        ("assert(threadIdx.x != 5);", 710, "assertion failed"),
        ("if (threadIdx.x < 16) __syncthreads(); else a[1] = __shfl_sync(~0u, a[0], 0);", 702, "deadlock"),
        ("a[1] = f(a[0] + 10000000);", 700, "stack overflow"),
    ],
)
def test_faults_have_the_code_of_the_hardware(memory: Memory, body: str, code: int, rule: str) -> None:
    setup = (
        "__device__ __noinline__ int f(int n) { volatile int b[4]; b[n & 3] = n; return n ? f(n - 1) + b[n & 3] : 0; }"
    )
    fault = fault_of(memory, body, setup=setup).fault
    assert fault is not None
    assert (fault.code, fault.rule) == (code, rule)
    assert fault.line == (1 if rule == "stack overflow" else 3)


def test_a_shared_array_s_neighbour_is_out_of_bounds(memory: Memory) -> None:
    body = """__shared__ int s[32], t[32];
    t[threadIdx.x] = s[threadIdx.x] = a[40];
    __syncthreads();
    a[threadIdx.x] = s[threadIdx.x + 1] + t[0];"""
    fault = fault_of(memory, body).fault
    assert fault is not None and fault.rule == "out of bounds"
    assert (fault.thread, fault.line) == ((31, 0, 0), 6)
    assert "4 bytes past the end of the 128-byte array in shared memory (index 32 of 32)." in str(fault)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("int l[8]; for (int i = 0; i < 8; i++) l[i] = i; l[a[0] + 9] = 1; a[1] = l[a[2]];", "(index 9 of 8)"),
        ("__shared__ int s[8]; s[(int)threadIdx.x - 1 - a[40]] = 1; a[1] = s[3];", "4 bytes before the start"),
        (
            "extern __shared__ int s[]; s[threadIdx.x] = 1; a[1] = s[3];",
            "4 bytes past the end of the 0 bytes of shared",
        ),
    ],
)
def test_arrays_of_threads_and_blocks(memory: Memory, body: str, words: str) -> None:
    fault = fault_of(memory, body).fault
    assert fault is not None and fault.rule == "out of bounds"
    assert words in str(fault)


def test_held_stores(memory: Memory) -> None:
    n = 1000
    a, out = put(memory, np.arange(n, dtype=np.float32)), put(memory, np.zeros(n, np.float32))
    held = execute(load(memory, ADD).launch(8, 128, pack(a, a, out, n)), hold_stores=True).held
    assert held is not None and not memory.array(out, n, np.float32).any()
    held.apply()
    assert np.array_equal(memory.array(out, n, np.float32), 2 * np.arange(n, dtype=np.float32))


def test_a_sample_leaves_memory_alone_and_scales(memory: Memory) -> None:
    n = 100_000
    a, out = put(memory, np.arange(n, dtype=np.float32)), put(memory, np.zeros(n, np.float32))
    counts = sample(load(memory, ADD).launch(-(-n // 256), 256, pack(a, a, out, n)))
    assert counts.complete and counts.sampled == 1 and counts.blocks == 391
    assert counts.global_stores.accesses == pytest.approx(n, rel=1e-3)
    assert counts.global_loads.sectors_per_request == 4
    assert counts.footprint_bytes == 8 * n
    assert not memory.array(out, n, np.float32).any()


@pytest.mark.parametrize("n", [100, 300, 1000])
def test_a_sample_of_a_small_grid_counts_the_guard_of_its_last_block(memory: Memory, n: int) -> None:
    a, out = put(memory, np.ones(n, np.float32)), put(memory, np.zeros(n, np.float32))
    counts = sample(load(memory, ADD).launch(-(-n // 256), 256, pack(a, a, out, n)))
    assert counts.sampled == min(2, -(-n // 256))
    assert counts.global_stores.accesses == n


def test_samples_are_remembered_until_forgotten(memory: Memory) -> None:
    a = put(memory, np.zeros(256, np.float32))
    kernel, args = load(memory, ADD), pack(a, a, a, 256)
    first = sample(kernel.launch(2, 128, args))
    assert sample(kernel.launch(2, 128, args)) is first
    assert sample(kernel.launch(2, 128, args), remember=False) is not first
    forget()
    assert sample(kernel.launch(2, 128, args)) is not first


def test_a_sample_of_a_long_block_is_extrapolated(memory: Memory) -> None:
    code = """
extern "C" __global__ void k(volatile int* a, int n) {
    for (int i = 0; i < n; i++) a[threadIdx.x] = i;
}"""
    kernel = load(memory, code)
    counts = sample(kernel.launch(1, 32, pack(put(memory, np.zeros(32, np.int32)), 20_000)))
    assert not counts.complete
    assert counts.global_stores.requests == pytest.approx(20_000, rel=0.02)  # the first lanes stand for their warp


def test_a_sample_never_raises_for_what_the_kernel_does(memory: Memory) -> None:
    a = put(memory, np.zeros(64, np.float32))
    counts = sample(load(memory, ADD.replace("if (i < n)", "")).launch(4, 32, pack(a, a, a, 64)))
    assert not counts.complete and counts.global_loads.requests > 0


def test_a_sample_prints_nothing(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = load(memory, 'extern "C" __global__ void k(int* a) { printf("hello"); }')
    sample(kernel.launch(4, 32, pack(put(memory, np.zeros(1, np.int32)))))
    assert capsys.readouterr().out == ""
