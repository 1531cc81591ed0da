"""Kernels with asynchronous copies and barrier objects, and how the tests launch them."""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

from cudalab.sim.compiler import compile
from cudalab.sim.compiler.program import Program
from cudalab.sim.machine.execution import Outcome, execute
from cudalab.sim.machine.launch.module import LoadedKernel, Module
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.h200 import LIMITS

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
KERNEL first_block_only(int* out, const int* in, int n) {  // what a block finds in shared memory is of the block before
    __shared__ unsigned long long bar;
    if (blockIdx.x == 0 && threadIdx.x == 0) init(&bar, 64);
    __syncthreads();
    arrive(&bar);
}
KERNEL retired(int* out, const int* in, int n) {  // an arrival comes late, when its object is no more
    __shared__ int s[256];
    __shared__ volatile unsigned long long bar;
    if (threadIdx.x) return;
    init((void*)&bar, 2);
    copy(s, in);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at((void*)&bar)) : "memory");
    asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(at((void*)&bar)) : "memory");
    bar = n;
    for (int i = 1; i < n; ++i) copy(&s[7 * i % 256], &in[i]);  // more than there are places for
    out[0] = (int)bar;
    out[1] = (int)(bar >> 32);
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
        self.kernel: LoadedKernel = Module(program(), memory, LIMITS).kernel(name)
        self.values = np.asarray(values, np.int32)
        self.target, self.source = memory.allocate(4 * out), memory.allocate(self.values.nbytes)
        memory.array(self.source, self.values.size, np.int32)[:] = self.values
        memory.array(self.target, out, np.int32)[:] = -9
        self.args = struct.pack("<QQi", self.target, self.source, n)

    def __call__(self, grid: int = 1, block: int = 64, **options: object) -> Outcome:
        return execute(self.kernel.launch(grid, block, self.args), **options)  # type: ignore[arg-type]

    @property
    def result(self) -> np.ndarray:
        return self.memory.array(self.target, self.out, np.int32).copy()


WHOLE = np.arange(1, 300, dtype=np.int32)


def numbers(count: int) -> np.ndarray:
    return np.random.default_rng(5).integers(1, 900, count).astype(np.int32)


def line_of(text: str) -> int:
    """An instruction of inline PTX over two lines is at the second."""
    return next(number for number, line in enumerate(SOURCE.splitlines(), 1) if text in line)
