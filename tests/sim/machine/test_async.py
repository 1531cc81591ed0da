"""Asynchronous copies and barriers of one launch: when bytes arrive, what is checked, counted and explained."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from cudalab.sim.compiler import CompileError, compile
from cudalab.sim.compiler.program import Program
from cudalab.sim.machine.launch import Outcome, launch
from cudalab.sim.machine.memory import Memory
from cudalab.sim.machine.module import LoadedKernel, Module
from cudalab.sim.machine.sample import count_launch
from cudalab.sim.machine.sanitizer import check_launch

# Written with inline PTX: the headers of cuda::barrier take seconds to compile. The conformance programs use those.
SOURCE = r"""
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void copy(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
        :: "r"(at(to)), "l"(__cvta_generic_to_global(from)) : "memory");
}
__device__ void copy16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
        :: "r"(at(to)), "l"(__cvta_generic_to_global(from)) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
__device__ void init(void* bar, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(bar)), "r"(count) : "memory");
}
__device__ void arrive(void* bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(bar)) : "memory"); }
__device__ void arrive_tx(void* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(at(bar)), "r"(bytes) : "memory");
}
__device__ bool try_wait(void* bar, int parity) {
    int done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
        : "=r"(done) : "r"(at(bar)), "r"(parity) : "memory");
    return done;
}
__device__ void bulk_in(void* to, const void* from, int bytes, void* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :: "r"(at(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(at(bar)) : "memory");
}
__device__ void bulk_out(void* to, const void* from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
        :: "l"(__cvta_generic_to_global(to)), "r"(at(from)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
#define KERNEL extern "C" __global__ void

KERNEL late(int* out, const int* in, int n) {
    __shared__ int s[64], more[64];
    int t = threadIdx.x;
    s[t] = more[t] = -1;
    copy(&s[t], &in[t]);
    commit();
    copy(&more[t], &in[64 + t]);
    commit();
    out[t] = s[t];
    wait<1>();
    out[64 + t] = s[t] * 1000 + more[t];
    wait<0>();
    out[128 + t] = more[t];
}
KERNEL late_source(int* out, const int* in, int n) {  // the tile is written again before the copy has read it
    __shared__ alignas(16) int s[64];
    s[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) bulk_out(out, s, 256);
    __syncthreads();
    s[threadIdx.x] = 2;
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
KERNEL many(int* out, const int* in, int n) {  // more copies under way than a thread has places for
    __shared__ int s[2048];
    for (int i = 0; i < n; ++i) copy(&s[(7 * i) % 2048], &in[i]);
    commit();
    wait<0>();
    for (int i = 0; i < n; ++i) out[i] = s[(7 * i) % 2048];
}
KERNEL left(int* out, const int* in, int n) {  // nobody waits: the copy ends with the block
    __shared__ alignas(16) int s[64];
    s[threadIdx.x] = in[threadIdx.x] + 5;
    __syncthreads();
    if (threadIdx.x == 0) bulk_out(out + 64 * blockIdx.x, s, 256);
}
KERNEL tile(int* out, const int* in, int n) {
    __shared__ alignas(16) int s[256];
    int t = threadIdx.x;
    copy16(&s[4 * t], &in[blockIdx.x * 256 + 4 * t]);
    commit();
    wait<0>();
    __syncthreads();
    for (int i = t; i < 256; i += 64) out[blockIdx.x * 256 + i] = s[255 - i];
}
KERNEL strided(int* out, const int* in, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    copy(&s[t], &in[n * t]);
    commit();
    wait<0>();
    out[t] = s[t];
}
KERNEL bulk(int* out, const int* in, int n) {
    __shared__ alignas(128) int s[256];
    __shared__ unsigned long long bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 1);
    __syncthreads();
    if (t == 0) { arrive_tx(&bar, n); bulk_in(s, in, n, &bar); }
    while (!try_wait(&bar, 0)) { }
    for (int i = t; i < n / 4; i += 64) out[i] = s[i] + 1;
}
KERNEL fetched(int* out, const int* in, int n) {  // lanes part in a loop
    __shared__ alignas(128) int s[256];
    __shared__ unsigned long long bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 1);
    __syncthreads();
    for (int i = 0; i < 3; ++i) {
        if (t == 0) { arrive_tx(&bar, n); bulk_in(s, in + 256 * i, n, &bar); }
        while (!try_wait(&bar, i % 2)) { }
        for (int k = t; k < 256; k += 64 - (t & 1)) out[256 * i + k] = s[k];
        __syncthreads();
    }
}
KERNEL forgotten_bytes(int* out, const int* in, int n) {
    __shared__ alignas(16) int s[256];
    __shared__ unsigned long long bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 1);
    __syncthreads();
    if (t == 0) { arrive_tx(&bar, 512); bulk_in(s, in, 256, &bar); }
    while (!try_wait(&bar, 0)) { }  // waits for ever
    out[t] = s[t];
}
KERNEL missing_arrival(int* out, const int* in, int n) {
    __shared__ unsigned long long bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 65);
    __syncthreads();
    arrive(&bar);
    while (!try_wait(&bar, 0)) { }  // one short
    out[t] = 1;
}
KERNEL gives_up(int* out, const int* in, int n) {
    __shared__ unsigned long long bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 65);
    __syncthreads();
    arrive(&bar);
    int tries = 0;
    while (!try_wait(&bar, 0) && ++tries < n) { }
    out[t] = tries;
}
KERNEL uninitialised(int* out, const int* in, int n) {
    __shared__ unsigned long long bar;
    arrive(&bar);  // nobody called init
}
KERNEL zero_count(int* out, const int* in, int n) {
    __shared__ unsigned long long bar;
    if (threadIdx.x == 0) init(&bar, n);  // n is 0
}
KERNEL too_many(int* out, const int* in, int n) {
    __shared__ unsigned long long bar;
    if (threadIdx.x == 0) init(&bar, 2);
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.shared.b64 _, [%0], 3;" :: "r"(at(&bar)) : "memory");  // two are expected
}
KERNEL odd_barrier(int* out, const int* in, int n) {
    __shared__ unsigned long long bar[2];
    init((char*)bar + 4, 1);  // 4 is no multiple of 8
}
KERNEL no_race(int* out, const int* in, int n) {
    __shared__ unsigned long long full, empty;
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t == 0) { init(&full, 32); init(&empty, 32); }
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
        if (t < 32) {
            while (!try_wait(&empty, i % 2 ^ 1)) { }
            s[t] = in[32 * i + t];
            arrive(&full);
        } else {
            while (!try_wait(&full, i % 2)) { }
            out[32 * i + t - 32] = s[63 - t];
            arrive(&empty);
        }
    }
}
KERNEL no_empty(int* out, const int* in, int n) {
    __shared__ unsigned long long full;
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t == 0) init(&full, 32);
    __syncthreads();
    if (t < 32) {
        s[t] = in[t];
        arrive(&full);
        s[t] = in[32 + t];  // without waiting for the readers
    } else {
        while (!try_wait(&full, 0)) { }
        out[t - 32] = s[63 - t];  // who read here
    }
}
KERNEL unwaited(int* out, const int* in, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    copy(&s[t], &in[t]);  // started here
    commit();
    __syncthreads();
    out[t] = s[t];  // and read here
}
"""


@cache
def program() -> Program:
    return compile(SOURCE)


class Run:
    """A launch of a kernel over two int arrays."""

    def __init__(self, memory: Memory, name: str, out: int, values: np.ndarray, n: int = 0) -> None:
        self.memory, self.out = memory, out
        self.kernel: LoadedKernel = Module(program(), memory).kernel(name)
        self.values = np.asarray(values, np.int32)
        self.target, self.source = memory.allocate(4 * out), memory.allocate(self.values.nbytes)
        memory.array(self.source, self.values.size, np.int32)[:] = self.values
        memory.array(self.target, out, np.int32)[:] = -9
        self.args = struct.pack("<QQi", self.target, self.source, n)

    def __call__(self, grid: int = 1, block: int = 64, **options: object) -> Outcome:
        return launch(self.kernel, grid, block, self.args, **options)  # type: ignore[arg-type]

    @property
    def result(self) -> np.ndarray:
        return self.memory.array(self.target, self.out, np.int32).copy()


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory(1 << 28)
    yield memory
    memory.free_all()


def numbers(count: int) -> np.ndarray:
    return np.random.default_rng(5).integers(1, 900, count).astype(np.int32)


def line_of(text: str) -> int:
    """An instruction of inline PTX over two lines is at the second."""
    return next(number for number, line in enumerate(SOURCE.splitlines(), 1) if text in line)


@pytest.mark.parametrize("variant", ["plain", "traced"])
def test_a_copy_arrives_when_its_group_is_waited_for(memory: Memory, variant: str) -> None:
    x = numbers(128)
    run = Run(memory, "late", 192, x)
    assert run(variant=variant).fault is None
    expected = np.concatenate([np.full(64, -1), x[:64] * 1000 - 1, x[64:]])
    np.testing.assert_array_equal(run.result, expected)


def test_a_tile_written_again_too_early_is_what_arrives(memory: Memory) -> None:
    run = Run(memory, "late_source", 64, numbers(1))
    assert run().fault is None
    np.testing.assert_array_equal(run.result, np.full(64, 2))


def test_more_copies_than_a_thread_has_places_for(memory: Memory) -> None:
    x = numbers(500)
    run = Run(memory, "many", 500, x, 500)
    assert run(block=1).fault is None
    np.testing.assert_array_equal(run.result, x)


def test_copies_end_with_the_block_and_nothing_is_left_for_the_next(memory: Memory) -> None:
    x = numbers(64)
    run = Run(memory, "left", 64 * 5, x)
    assert run(grid=5).fault is None
    np.testing.assert_array_equal(run.result, np.tile(x + 5, 5))


@pytest.mark.parametrize("workers", [1, 2])
def test_tiles_of_several_blocks(memory: Memory, workers: int) -> None:
    x = numbers(9 * 256)
    run = Run(memory, "tile", x.size, x)
    assert run(grid=9, workers=workers).fault is None
    np.testing.assert_array_equal(run.result, x.reshape(9, 256)[:, ::-1].reshape(-1))


def test_waiting_for_an_mbarrier_is_no_polling(memory: Memory) -> None:
    """Only the threads of the block can end the wait, so the launch need not be resumable."""
    for name in ("bulk", "no_race", "missing_arrival"):
        assert Run(memory, name, 64, numbers(64)).kernel.kernel.poll_points == ()


# -- stores that are held back, footprints, counters -------------------------------------------------------------------


def test_stores_of_bulk_copies_are_held_back(memory: Memory) -> None:
    x = numbers(64)
    run = Run(memory, "left", 64, x)
    outcome = run(variant="traced", hold_stores=True)
    np.testing.assert_array_equal(run.result, np.full(64, -9))
    assert outcome.held is not None
    outcome.held.apply()
    np.testing.assert_array_equal(run.result, x + 5)


@pytest.mark.parametrize("variant", ["footprint", "traced"])
def test_a_footprint_has_the_bytes_that_copies_touch(memory: Memory, variant: str) -> None:
    x = numbers(3 * 256)
    run = Run(memory, "tile", x.size, x)
    footprint = run(grid=2, footprint=True, variant=variant).footprint
    assert footprint is not None
    assert footprint.reads == ((run.source, 2048),)
    assert footprint.writes == ((run.target, 2048),)
    run = Run(memory, "bulk", 256, x, 1024)
    footprint = run(footprint=True, variant=variant).footprint
    assert footprint is not None
    assert footprint.reads == ((run.source, 1024),)


@pytest.mark.parametrize(("stride", "sectors"), [(1, 8), (2, 16), (8, 64)])
def test_copies_count_as_loads_from_global_memory_and_stores_to_shared_memory(
    memory: Memory, stride: int, sectors: int
) -> None:
    run = Run(memory, "strided", 64, numbers(64 * stride), stride)
    counts = count_launch(run.kernel, (1, 1, 1), (64, 1, 1), run.args, 0)
    assert (counts.global_loads.requests, counts.global_loads.sectors) == (2, sectors)
    assert (counts.shared_stores.requests, counts.shared_stores.wavefronts) == (2, 2)


def test_a_bulk_copy_counts_the_sectors_that_it_reads(memory: Memory) -> None:
    for name, n, sectors in (("bulk", 1008, 32), ("fetched", 1024, 96)):
        run = Run(memory, name, 768, numbers(768), n)
        counts = count_launch(run.kernel, (1, 1, 1), (64, 1, 1), run.args, 0)
        assert counts.global_loads.sectors == sectors
        assert counts.shared_stores.wavefronts == sectors // 4


# -- mistakes ----------------------------------------------------------------------------------------------------------

WHOLE = np.arange(1, 300, dtype=np.int32)


@pytest.mark.parametrize(
    ("name", "n", "rule", "text", "code"),
    [
        ("uninitialised", 0, "mbarrier not initialised", "void arrive(void* bar)", 719),
        ("zero_count", 0, "mbarrier count", "mbarrier.init.shared", 719),
        ("too_many", 0, "too many arrivals", "two are expected", 719),
        ("odd_barrier", 0, "misaligned address", "mbarrier.init.shared", 716),
    ],
)
def test_misuse_of_a_barrier_is_explained(memory: Memory, name: str, n: int, rule: str, text: str, code: int) -> None:
    outcome = Run(memory, name, 64, WHOLE, n)()
    fault = outcome.fault
    assert fault is not None
    assert (fault.rule, fault.line, fault.code, fault.thread) == (rule, line_of(text), code, (0, 0, 0))
    assert fault.finding.advice


def test_a_bulk_copy_of_an_odd_size_is_explained(memory: Memory) -> None:
    fault = Run(memory, "bulk", 64, WHOLE, 100)().fault
    assert fault is not None
    assert (fault.rule, fault.line) == ("bulk copy size", line_of("cp.async.bulk.shared::cluster") + 1)
    assert "100 bytes" in str(fault)


def test_a_bulk_copy_beyond_the_end_is_out_of_bounds(memory: Memory) -> None:
    run = Run(memory, "bulk", 256, numbers(64), 512)
    fault = run().fault
    assert fault is not None
    assert (fault.rule, fault.code, fault.address) == ("out of bounds", 700, run.source)
    assert fault.line == line_of("cp.async.bulk.shared::cluster") + 1
    assert "read of size 512 bytes" in str(fault)


def test_a_copy_beyond_the_end_is_out_of_bounds(memory: Memory) -> None:
    run = Run(memory, "strided", 64, numbers(63), 1)
    fault = run().fault
    assert fault is not None
    assert (fault.rule, fault.code, fault.thread) == ("out of bounds", 700, (63, 0, 0))
    assert (fault.address, fault.line) == (run.source + 252, line_of("cp.async.ca") + 1)


def test_a_misaligned_copy_is_a_fault(memory: Memory) -> None:
    run = Run(memory, "tile", 256, numbers(256))
    run.args = struct.pack("<QQi", run.target, run.source + 4, 0)
    fault = run().fault
    assert fault is not None
    assert (fault.rule, fault.code, fault.line) == ("misaligned address", 716, line_of("cp.async.cg") + 1)


def test_a_phase_that_never_ends_says_what_is_missing(memory: Memory) -> None:
    fault = Run(memory, "missing_arrival", 64, WHOLE)().fault
    assert fault is not None
    assert (fault.rule, fault.code, fault.line) == ("deadlock", 702, line_of("mbarrier.try_wait") + 1)
    assert "64 of 65 arrivals" in str(fault)
    fault = Run(memory, "forgotten_bytes", 64, WHOLE)().fault
    assert fault is not None
    assert (fault.rule, fault.line) == ("deadlock", line_of("mbarrier.try_wait") + 1)
    assert "waits for 256 bytes that no copy has brought" in str(fault)


def test_a_wait_that_counts_its_tries_comes_to_its_end(memory: Memory) -> None:
    run = Run(memory, "gives_up", 64, WHOLE, 100)
    assert run().fault is None
    np.testing.assert_array_equal(run.result, np.full(64, 100))


def test_a_copy_by_a_tensor_map_is_refused_by_name() -> None:
    code = r"""
    extern "C" __global__ void k(void* map) {
        __shared__ alignas(128) int s[32];
        __shared__ long long bar;
        unsigned to = (unsigned)__cvta_generic_to_shared(s), at = (unsigned)__cvta_generic_to_shared(&bar);
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2}], [%3];" :: "r"(to), "l"(map), "r"(0), "r"(at) : "memory");
    }"""
    with pytest.raises(CompileError, match=r"cp\.async\.bulk\.tensor\.1d") as caught:
        compile(code)
    assert caught.value.diagnostics[0].line == 7
    assert "tensor" in str(caught.value)


# -- the sanitizer -----------------------------------------------------------------------------------------------------


def findings(memory: Memory, name: str) -> list[tuple[str, int]]:
    run = Run(memory, name, 256, numbers(256), {"bulk": 1024}.get(name, 4))
    checked = check_launch(run.kernel, 1, 64, run.args)
    return [(finding.headline, finding.line) for finding in checked.findings]


@pytest.mark.parametrize("name", ["tile", "bulk", "no_race", "strided"])
def test_code_that_waits_has_no_findings(memory: Memory, name: str) -> None:
    assert findings(memory, name) == []


def test_a_forgotten_wait_is_found(memory: Memory) -> None:
    assert findings(memory, "unwaited") == [("RAW hazard in __shared__ memory", line_of("and read here"))]


def test_a_producer_that_does_not_wait_for_its_consumers_is_found(memory: Memory) -> None:
    found = findings(memory, "no_empty")
    lines = {line_of("without waiting for the readers"), line_of("who read here")}
    assert len(found) == 1 and found[0][0].endswith("hazard in __shared__ memory") and found[0][1] in lines


# -- clusters ----------------------------------------------------------------------------------------------------------

CLUSTERED = (
    SOURCE[: SOURCE.index("KERNEL late(")]
    + r"""
__device__ unsigned there(const void* p, int rank) {
    unsigned mapped;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(at(p)), "r"(rank));
    return mapped;
}
__device__ int rank() { int r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ void sync() {
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
__device__ void arrive_there(void* bar, int rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(there(bar, rank)) : "memory");
}
KERNEL __cluster_dims__(4, 1, 1) remote(int* out, const int* in, int n) {
    __shared__ unsigned long long bar;
    __shared__ alignas(16) int s[64], other[64], more[64];
    int t = threadIdx.x, next = (rank() + 1) % 4;
    if (t == 0) { init(&bar, 1); arrive_tx(&bar, 512); }
    other[t] = in[64 * blockIdx.x + t] * 2;
    asm volatile("fence.proxy.async;" ::: "memory");
    sync();
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
        :: "r"(there(&s[63 - t], next)), "r"(in[64 * blockIdx.x + t]), "r"(there(&bar, next)) : "memory");
    if (t == 0)  // 256 bytes by st.async, and 256 by a bulk copy
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
            :: "r"(there(more, next)), "r"(at(other)), "r"(there(&bar, next)) : "memory");
    while (!try_wait(&bar, 0)) { }
    out[64 * blockIdx.x + t] = s[t] * 1000 + more[t];
    sync();
}
KERNEL __cluster_dims__(2, 1, 1) turns(int* out, const int* in, int n) {  // two blocks hand each other the turn
    __shared__ unsigned long long bar;
    int t = threadIdx.x, me = rank();
    if (t == 0) init(&bar, 1);
    sync();
    if (t == 0) {
        int parity = 0;
        for (int i = 0; i < n; ++i) {
            if (i % 2 == me) {
                if (i) { while (!try_wait(&bar, parity)) { } parity ^= 1; }
                out[i] = i ? ((volatile int*)out)[i - 1] + in[i] : in[0];
                __threadfence();
                arrive_there(&bar, me ^ 1);
            }
        }
    }
    sync();
}
KERNEL __cluster_dims__(2, 1, 1) nobody(int* out, const int* in, int n) {
    __shared__ unsigned long long bar;
    if (threadIdx.x == 0) init(&bar, 1);
    sync();
    if (rank() == 0) while (!try_wait(&bar, 0)) { }  // the other block never arrives
    out[threadIdx.x] = 1;
}
KERNEL __cluster_dims__(2, 1, 1) both(int* out, const int* in, int n) {  // one block fetches for both
    __shared__ unsigned long long bar;
    __shared__ alignas(16) int s[64];
    int t = threadIdx.x;
    if (t == 0) { init(&bar, 1); arrive_tx(&bar, 256); }
    sync();
    if (t == 0 && rank() == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%0], [%1], 256, [%2], %3;"
            :: "r"(at(s)), "l"(__cvta_generic_to_global(in)), "r"(at(&bar)), "h"((short)3) : "memory");
    while (!try_wait(&bar, 0)) { }
    out[64 * blockIdx.x + t] = s[t] + rank();
    sync();
}
"""
)


@cache
def clustered() -> Program:
    return compile(CLUSTERED)


class ClusterRun(Run):
    def __init__(self, memory: Memory, name: str, out: int, values: np.ndarray, n: int = 0) -> None:
        super().__init__(memory, "late", out, values, n)
        self.kernel = Module(clustered(), memory).kernel(name)


def test_stores_and_copies_into_another_block(memory: Memory) -> None:
    x = numbers(256)
    run = ClusterRun(memory, "remote", 256, x)
    assert run(grid=4).fault is None
    before = np.roll(x.reshape(4, 64), 1, axis=0)
    np.testing.assert_array_equal(run.result, (before[:, ::-1] * 1000 + before * 2).reshape(-1))


def test_blocks_of_a_cluster_wait_for_arrivals_of_each_other(memory: Memory) -> None:
    x = numbers(20)
    run = ClusterRun(memory, "turns", 20, x, 20)
    assert run(grid=2, block=32).fault is None
    np.testing.assert_array_equal(run.result, np.cumsum(x))


def test_a_wait_for_a_block_that_never_arrives_is_explained(memory: Memory) -> None:
    fault = ClusterRun(memory, "nobody", 64, WHOLE)(grid=2, block=32).fault
    assert fault is not None
    assert (fault.rule, fault.code) == ("endless wait", 702)
    assert "which is in a phase of parity 0, with 0 of 1 arrivals" in str(fault)


def test_one_copy_for_several_blocks(memory: Memory) -> None:
    x = numbers(64)
    run = ClusterRun(memory, "both", 128, x)
    assert run(grid=2).fault is None
    np.testing.assert_array_equal(run.result, np.concatenate([x, x + 1]))


def test_copies_within_shared_memory_need_a_launch_with_clusters(memory: Memory) -> None:
    code = (
        SOURCE[: SOURCE.index("KERNEL late(")]
        + r"""
    KERNEL k(int* out, const int* in, int n) {
        __shared__ alignas(16) int s[8];
        __shared__ unsigned long long bar;
        init(&bar, 1);
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];"
            :: "r"(at(s)), "r"(at(s + 4)), "r"(at(&bar)) : "memory");
    }"""
    )
    run = Run(memory, "late", 64, WHOLE)
    run.kernel = Module(compile(code), memory).kernel("k")
    fault = run(block=1).fault
    assert fault is not None
    assert (fault.rule, fault.code) == ("no cluster", 715)
