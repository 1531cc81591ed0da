"""Kernels that poll memory, one launch at a time: they end where a GPU ends, and are explained where it hangs."""

from __future__ import annotations

import _thread
import struct
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.machine.counters.sampling import count_launch, sample
from cudalab.sim.machine.execution import Outcome, Standalone, execute
from cudalab.sim.machine.launch.module import LoadedKernel, Module
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.sanitizer.sanitize import check_launch
from tests.sim.h200 import LIMITS


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    memory = Memory(1 << 30)
    yield memory
    memory.free_all()


def load(memory: Memory, code: str) -> LoadedKernel:
    return Module(compile(code), memory, LIMITS).kernel("k")


class Run:
    """A launch of ``k`` over int arrays that start as given; further C ints come last."""

    def __init__(self, memory: Memory, code: str, *values: object, ints: tuple[int, ...] = ()) -> None:
        self.memory, self.kernel = memory, load(memory, code)
        self.arrays = [np.array(value, np.int32, ndmin=1) for value in values]
        self.pointers = [memory.allocate(array.nbytes) for array in self.arrays]
        self.args = struct.pack(f"<{len(self.pointers)}Q{len(ints)}i", *self.pointers, *ints)
        for pointer, array in zip(self.pointers, self.arrays, strict=True):
            memory.array(pointer, array.size, np.int32)[:] = array

    def __call__(self, grid: int, block: int, **options: object) -> Outcome:
        return execute(self.kernel.launch(grid, block, self.args), **options)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> list[int]:
        return self.memory.array(self.pointers[index], self.arrays[index].size, np.int32).tolist()


LOCKS = {
    "compare and swap": "while (atomicCAS(lock, 0, 1) != 0) { }",
    "exchange": "while (atomicExch(lock, 1) != 0) { }",
    "test first": "while (true) { while (*(volatile int*)lock) { } if (atomicCAS(lock, 0, 1) == 0) break; }",
    "back off": "unsigned ns = 8; while (atomicCAS(lock, 0, 1) != 0) { __nanosleep(ns); if (ns < 256) ns *= 2; }",
    "bounded rounds": "bool in = false; while (!in) for (int i = 0; i < 3 && !in; i++) in = !atomicCAS(lock, 0, 1);",
    "acquire": """
    int old;
    do { asm volatile("atom.acquire.gpu.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(lock) : "memory"); } while (old);""",
}  # fmt: skip
GUARDED = """
extern "C" __global__ void k(int* lock, int* count) {
    __shared__ volatile int inside;
    if (threadIdx.x == 0) inside = 0;
    __syncthreads();
    LOCK
    inside = inside + 1;
    __syncwarp(__activemask());
    *(volatile int*)count = *(volatile int*)count + 1;
    __threadfence();
    atomicExch(lock, 0);
}"""


@pytest.mark.parametrize("form", LOCKS)
def test_locks_let_everyone_in(memory: Memory, form: str) -> None:
    """A warp operation inside the lock parts the lanes, so that they, the warps and the blocks contend."""
    run = Run(memory, GUARDED.replace("LOCK", LOCKS[form]), 0, 0)
    assert run(6, 96).fault is None
    assert (run[0], run[1]) == ([0], [6 * 96])


GRID_BARRIER = """
extern "C" __global__ void k(int* count, int* a, int* out, int steps) {
    for (int step = 1; step <= steps; step++) {
        if (threadIdx.x == 0) a[blockIdx.x] = step * 1000 + blockIdx.x;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(count, 1);
            while (atomicAdd(count, 0) < (2 * step - 1) * gridDim.x) { }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            out[blockIdx.x] += ((volatile int*)a)[(blockIdx.x + 1) % gridDim.x];
            __threadfence();
            atomicAdd(count, 1);
            while (*(volatile int*)count < 2 * step * gridDim.x) { }
        }
    }
}"""


def test_a_grid_barrier_works_when_all_blocks_fit(memory: Memory) -> None:
    blocks = 132 * 2
    run = Run(memory, GRID_BARRIER, 0, [0] * blocks, [0] * blocks, ints=(3,))
    assert run(blocks, 1024).fault is None
    expected = [sum(step * 1000 + (b + 1) % blocks for step in (1, 2, 3)) for b in range(blocks)]
    assert run[2] == expected


def test_a_grid_barrier_of_too_many_blocks_is_explained(memory: Memory) -> None:
    blocks = 132 * 2 + 36
    run = Run(memory, GRID_BARRIER, 0, [0] * blocks, [0] * blocks, ints=(1,))
    begin = time.process_time()
    fault = run(blocks, 1024).fault
    assert time.process_time() - begin < 5
    assert fault is not None and (fault.code, fault.rule) == (702, "endless wait")
    text = str(fault)
    assert "36 blocks of the grid have not started: 264 fit on the device at once" in text
    assert "launch at most 264 blocks" in text
    assert "while (atomicAdd(count, 0)" in fault.source
    assert fault.address == run.pointers[0] and "which hold 264" in text and "parameter 1 (count)" in text


def test_a_wait_that_nobody_ends_is_explained_at_once(memory: Memory) -> None:
    code = 'extern "C" __global__ void k(volatile int* flag, int* out) {\n    while (!*flag) { }\n    *out = 1;\n}'
    run = Run(memory, code, 0, 0)
    begin = time.process_time()
    fault = run(2, 33).fault
    assert time.process_time() - begin < 2
    assert fault is not None
    assert (fault.code, fault.error, fault.line) == (702, "cudaErrorLaunchTimeout", 2)
    assert (fault.block, fault.thread, fault.address) == ((0, 0, 0), (0, 0, 0), run.pointers[0])
    assert "66 threads of 2 blocks wait: 66 at kernel.cu:2" in str(fault)


def test_a_wait_on_shared_memory_is_explained(memory: Memory) -> None:
    code = """
extern "C" __global__ void k(int* out) {
    __shared__ volatile int before[4], flag;
    before[threadIdx.x] = 9;
    if (threadIdx.x == 0) flag = 5;
    __syncthreads();
    while (flag == 5) { }
    *out = before[1];
}"""
    fault = Run(memory, code, 0)(1, 4).fault
    assert fault is not None and fault.rule == "endless wait" and fault.line == 7
    assert "4 bytes of shared memory at offset" in str(fault) and "which hold 5" in str(fault)


HARMLESS = {
    "a counter that nobody reads": "int tries = 0; while (!*flag) tries++; *out = tries;",
    "a store of what is there": "while (!*flag) out[1] = 7; *out = out[1];",
    "a vote": "while (__any_sync(~0u, !*flag)) { } *out = 1;",
    "a block's vote": "while (__syncthreads_or(!*flag)) { } *out = 1;",
    "a look at the clock that decides nothing": "long long t = 0; while (!*flag) t = clock64(); *out = (int)t;",
    "a sleep that grows": "unsigned ns = 1; while (!*flag) { __nanosleep(ns); if (ns < 9) ns++; } *out = ns;",
    "a barrier": "while (!*flag) __syncthreads(); *out = 1;",
    "barriers and a store": "while (!*flag) { __syncthreads(); if (threadIdx.x == 3) out[1] = 7; __syncthreads(); }",
    "a fence": "while (!*(int*)flag) __threadfence(); *out = 1;",
}


@pytest.mark.parametrize("form", HARMLESS)
def test_what_changes_nothing_does_not_hide_an_endless_wait(memory: Memory, form: str) -> None:
    run = Run(
        memory, f'extern "C" __global__ void k(volatile int* flag, volatile int* out) {{ {HARMLESS[form]} }}', 0, [0, 7]
    )
    begin = time.process_time()
    fault = run(1, 32).fault
    assert fault is not None and fault.rule == "endless wait"
    assert time.process_time() - begin < 3


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("int n = 0; while (!*flag && n < 20000) n++; *out = n;", 20000),
        ("long long s = clock64(); while (!*flag && clock64() - s < 9000) { } *out = clock64() - s >= 9000;", 1),
        ("for (int i = 0; i < 50; i++) { while (*flag != i) { } *flag = i + 1; } *out = *flag;", 50),
    ],
)
def test_a_wait_with_a_bound_ends(memory: Memory, loop: str, expected: int) -> None:
    run = Run(memory, f'extern "C" __global__ void k(volatile int* flag, int* out) {{ {loop} }}', 0, 0)
    assert run(1, 1).fault is None
    assert run[1] == [expected]


def test_a_wait_that_tells_others_again_and_again_meets_the_time_limit(memory: Memory) -> None:
    code = (
        'extern "C" __global__ void k(volatile int* flag, volatile int* out) { int n = 0; while (!*flag) *out = ++n; }'
    )
    fault = Run(memory, code, 0, 0)(1, 1, surroundings=Standalone(time_limit=0.2)).fault
    assert fault is not None and (fault.code, fault.rule) == (702, "endless loop")


def test_a_wait_that_tells_others_can_be_interrupted(memory: Memory) -> None:
    code = (
        'extern "C" __global__ void k(volatile int* flag, volatile int* out) { int n = 0; while (!*flag) *out = ++n; }'
    )
    run = Run(memory, code, 0, 0)
    run.kernel.entry("plain")
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(1, 1)
    timer.join()
    run.memory.array(run.pointers[0], 1, np.int32)[0] = 1
    assert run(1, 1).fault is None


LANES = """
extern "C" __global__ void k(volatile int* flag, int* out) {
    int lane = threadIdx.x;
    if (lane % 2) {
        while (flag[lane - 1] == 0) { }
        out[lane] = flag[lane - 1];
        flag[lane] = lane;
    } else {
        flag[lane] = 100 + lane;
        while (flag[lane + 1] == 0) { }
        out[lane] = flag[lane + 1];
    }
    __syncwarp();
    out[lane] += __shfl_xor_sync(~0u, out[lane], 1);
}"""


def test_lanes_of_a_warp_wait_for_each_other(memory: Memory) -> None:
    run = Run(memory, LANES, [0] * 32, [0] * 32)
    assert run(1, 32).fault is None
    assert run[1] == [100 + (lane & ~1) + (lane | 1) for lane in range(32)]


CHAINS = {
    "threads of a block": ("threadIdx.x", 1, 512),
    "blocks": ("blockIdx.x", 300, 1),
    "all threads": ("blockIdx.x * blockDim.x + threadIdx.x", 5, 96),
}


@pytest.mark.parametrize("form", CHAINS)
@pytest.mark.parametrize("backwards", [False, True])
def test_chains(memory: Memory, form: str, backwards: bool) -> None:
    """Each waits for the one before, or behind."""
    index, grid, block = CHAINS[form]
    count = grid * block
    who = f"{count - 1} - ({index})" if backwards else index
    code = (
        f'extern "C" __global__ void k(volatile int* turn, int* out) {{ int i = {who}; while (*turn != i) {{ }} '
        "out[i] = i * i; __threadfence(); *turn = i + 1; }"
    )
    run = Run(memory, code, 0, [0] * count)
    assert run(grid, block).fault is None
    assert run[1] == [i * i for i in range(count)]


def test_barriers_between_waits(memory: Memory) -> None:
    """Warps that have arrived at a barrier stay there while others poll, whatever the barrier is."""
    code = """
extern "C" __global__ void k(volatile int* flag, int* out) {
    int warp = threadIdx.x / 32, sum = 0;
    for (int round = 1; round <= 4; round++) {
        if (warp == round % 4) while (flag[0] < 3 * round) { }
        else if (threadIdx.x % 32 == 0) { atomicAdd((int*)flag, 1); }
        if (warp < 2) asm volatile("bar.sync 1, 64;"); else __syncthreads_count(1);
        if (warp < 2) __syncthreads_count(1);
        sum += flag[0];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}"""
    run = Run(memory, code, 0, [0] * 128)
    assert run(1, 128).fault is None
    assert run[1] == [3 + 6 + 9 + 12] * 128


NO_WAIT = {
    "histogram": "for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(a + i % 4, 1);",
    "compare and swap": "int old = *a, was; do { was = old; old = atomicCAS(a, was, was * 3); } while (old != was);",
    "fresh compare and swap": "int o; do { o = *(volatile int*)a; } while (atomicCAS(a, o, o + 3) != o);",
    "volatile sum": "int s = 0; for (int i = 0; i < 4; i++) s += ((volatile int*)a)[i]; a[3] = s;",
    "clock": "long long s = clock64(); while (clock64() - s < 100) { } *a = 1;",
    "plain": "for (int i = a[0]; i < 9; i++) a[1] += i;",
    "barriers": "for (int i = a[0]; i < 9; i++) { __syncthreads(); a[threadIdx.x % 4] += i; }",
}


@pytest.mark.parametrize("form", NO_WAIT)
def test_loops_that_do_not_wait_are_left_alone(memory: Memory, form: str) -> None:
    kernel = load(memory, f'extern "C" __global__ void k(int* a) {{ {NO_WAIT[form]} }}')
    assert kernel.kernel.poll_points == ()


def test_a_flag_looked_at_between_barriers(memory: Memory) -> None:
    """Every block passes barriers in each round of its wait for the block behind it."""
    code = """
extern "C" __global__ void k(volatile int* flag, int* out) {
    __shared__ int seen;
    int rounds = 0;
    do {
        __syncthreads();
        if (threadIdx.x == 0) seen = blockIdx.x + 1 == gridDim.x || flag[blockIdx.x + 1];
        __syncthreads();
        rounds++;
    } while (!seen);
    __syncthreads();
    if (threadIdx.x == 40) { out[blockIdx.x] = 1; __threadfence(); flag[blockIdx.x] = 1; }
}"""
    run = Run(memory, code, [0] * 50, [0] * 50)
    assert run(50, 64).fault is None
    assert run[1] == [1] * 50


def test_a_recursive_function_that_spins_still_compiles(memory: Memory) -> None:
    code = """
__device__ __noinline__ int down(volatile int* flag, int n) {
    while (*flag == 0) { }
    return n ? down(flag, n - 1) + n : 0;
}
extern "C" __global__ void k(int* flag, int* out) { *out = down(flag, *out); }"""
    run = Run(memory, code, 1, 4)
    assert run(1, 1).fault is None
    assert run[1] == [10]


def test_many_regions_share_one_function(memory: Memory) -> None:
    """A kernel so long that its regions are not cloned."""
    body = "".join(f"while (flag[0] < {n}) {{ }} x = x * {n + 3} + {n}; x ^= x >> {n % 5 + 1};\n" for n in range(1, 60))
    code = f"""
extern "C" __global__ void k(volatile int* flag, unsigned* out) {{
    unsigned x = threadIdx.x;
    if (blockIdx.x) {{ {body} out[threadIdx.x] = x; }}
    else for (int n = 1; n < 60; n++) {{ flag[0] = n; __threadfence(); }}
}}"""
    run = Run(memory, code, 0, [0] * 4)
    assert run(2, 4).fault is None
    expected = []
    for thread in range(4):
        x = thread
        for n in range(1, 60):
            x = (x * (n + 3) + n) & 0xFFFFFFFF
            x ^= x >> (n % 5 + 1)
        expected.append(x)
    assert [value & 0xFFFFFFFF for value in run[1]] == expected


# -- going on later ----------------------------------------------------------------------------------------------------

FLAG = 'extern "C" __global__ void k(volatile int* flag, int* out) { out[1] = 1; while (!*flag) { } *out = *flag; }'


def test_a_launch_goes_on_when_somebody_has_changed_memory(memory: Memory) -> None:
    run = Run(memory, FLAG, 0, [0, 0])
    first = run(1, 1, resumable=True)
    assert first.fault is None and first.waiting is not None and first.waiting.only_others_can_help
    assert run[1] == [0, 1]
    again = first.waiting.go_on()
    assert again.waiting is first.waiting and not again.waiting.moved
    memory.array(run.pointers[0], 1, np.int32)[0] = 8
    last = again.waiting.go_on()
    assert last.waiting is None and last.fault is None and last.blocks_done == 1
    assert run[1] == [8, 1]


def test_two_launches_wait_at_the_same_time(memory: Memory) -> None:
    runs = [Run(memory, FLAG, 0, [0, 0]) for _ in range(3)]
    waiting = [run(2, 64, resumable=True).waiting for run in runs]
    for run, entry, value in zip(runs, waiting, (4, 5, 6), strict=True):
        assert entry is not None
        memory.array(run.pointers[0], 1, np.int32)[0] = value
    assert [entry.go_on().fault for entry in waiting if entry] == [None] * 3
    assert [run[1] for run in runs] == [[4, 1], [5, 1], [6, 1]]


def test_held_stores_of_a_launch_that_waits_are_kept_or_taken_back(memory: Memory) -> None:
    run = Run(memory, FLAG, 0, [0, 0])
    first = run(1, 1, resumable=True, hold_stores=True).waiting
    assert first is not None
    first.close()
    assert run[1] == [0, 0]
    second = run(1, 1, resumable=True, hold_stores=True).waiting
    assert second is not None
    second.keep_stores()
    assert second.give_up(("Nobody does.", "do it.")).fault is not None
    assert run[1] == [0, 1]


def test_results_are_the_same_in_every_run_and_with_workers(memory: Memory) -> None:
    code = """
extern "C" __global__ void k(int* lock, int* at, int* order) {
    while (atomicCAS(lock, 0, 1) != 0) { }
    __syncwarp(__activemask());
    order[*(volatile int*)at] = blockIdx.x * blockDim.x + threadIdx.x;
    *(volatile int*)at = *(volatile int*)at + 1;
    __threadfence();
    atomicExch(lock, 0);
}"""
    orders = []
    for workers in (1, 1, 4):
        run = Run(memory, code, 0, 0, [0] * 200)
        assert run(5, 40, surroundings=Standalone(workers=workers)).fault is None
        orders.append(run[2])
    assert sorted(orders[0]) == list(range(200))
    assert orders[0] == orders[1] == orders[2]


# -- traced code -------------------------------------------------------------------------------------------------------


def test_samples_profiles_and_checks_of_blocks_that_wait_for_each_other(memory: Memory) -> None:
    blocks = 40
    run = Run(memory, GRID_BARRIER, 0, [0] * blocks, [0] * blocks, ints=(2,))
    counts = sample(run.kernel.launch(blocks, 64, run.args), remember=False)
    whole = count_launch(run.kernel.launch((blocks, 1, 1), (64, 1, 1), run.args))
    assert counts.complete and whole.complete and whole.sampled == blocks
    assert whole.global_stores.accesses == 2 * 2 * blocks
    checked = check_launch(run.kernel.launch(blocks, 64, run.args))
    assert checked.findings == [] and checked.blocks == blocks
    assert run[0] == [0] and run[2] == [0] * blocks


def test_a_sample_of_a_wait_for_others_ends(memory: Memory) -> None:
    run = Run(memory, FLAG, 0, [0, 0])
    begin = time.process_time()
    assert not sample(run.kernel.launch(1, 1, run.args), remember=False).complete
    assert not count_launch(run.kernel.launch((1, 1, 1), (1, 1, 1), run.args)).complete
    assert [finding.rule for finding in check_launch(run.kernel.launch(1, 1, run.args)).findings] == ["endless wait"]
    assert time.process_time() - begin < 3
    assert run[1] == [0, 0]
