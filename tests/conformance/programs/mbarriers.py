"""Barriers in shared memory: ``cuda::barrier``, its primitives, and ``mbarrier`` instructions."""

import numpy as np

from cudalab import cp

from ..program import program

SOURCE = r"""
#include <cuda/barrier>
#include <cuda/ptx>
#include <cuda_awbarrier_primitives.h>

using barrier = cuda::barrier<cuda::thread_scope_block>;

__device__ inline unsigned shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void token(int* out) {
    __shared__ barrier bar;
    __shared__ int x[2][96];
    int t = threadIdx.x;
    if (t == 0) init(&bar, 96);
    __syncthreads();
    for (int phase = 0; phase < 5; ++phase) {
        x[phase % 2][t] = t * 10 + phase;
        barrier::arrival_token token = bar.arrive();
        bar.wait(std::move(token));
        out[phase * 96 + t] = x[phase % 2][(t + 1) % 96];
    }
}

extern "C" __global__ void arrive_and_wait(int* sums, const int* x) {
    __shared__ barrier bar;
    __shared__ int part[256];
    int t = threadIdx.x;
    if (t == 0) init(&bar, blockDim.x);
    part[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int s = 128; s > 0; s /= 2) {
        if (t < s) part[t] += part[t + s];
        bar.arrive_and_wait();
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}

extern "C" __global__ void arrive_and_drop(int* phases) {
    __shared__ barrier bar;
    int t = threadIdx.x, rounds = (t + 1) / 16;
    if (t == 0) init(&bar, blockDim.x);
    __syncthreads();
    int passed = 0;
    for (int i = 0; i < rounds; ++i) { bar.arrive_and_wait(); ++passed; }
    bar.arrive_and_drop();
    phases[t] = passed + 1;
}

extern "C" __global__ void parity(int* out) {
    __shared__ barrier bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 32);
    __syncthreads();
    out[t * 8] = bar.try_wait_parity_for(true, cuda::std::chrono::nanoseconds(10));
    out[t * 8 + 1] = bar.try_wait_parity_for(false, cuda::std::chrono::nanoseconds(10));
    __syncthreads();
    for (int phase = 0; phase < 6; ++phase) {
        (void)bar.arrive();
        bar.wait_parity(phase & 1);
        out[t * 8 + 2 + phase] = 1;
    }
}

extern "C" __global__ void try_wait_for(int* out) {
    __shared__ barrier bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 65);
    __syncthreads();
    auto token = bar.arrive();
    auto again = token;
    out[t * 2] = bar.try_wait_for(std::move(token), cuda::std::chrono::microseconds(20));
    __syncthreads();
    if (t == 0) (void)bar.arrive();
    bar.wait(std::move(again));
    out[t * 2 + 1] = 1;
}

struct Count { int* runs; __device__ void operator()() noexcept { *runs += 1; } };
extern "C" __global__ void completion_function(int* seen, int* total) {
    using counting = cuda::barrier<cuda::thread_scope_block, Count>;
    __shared__ alignas(counting) char place[sizeof(counting)];
    __shared__ int runs;
    counting* bar = reinterpret_cast<counting*>(place);
    int t = threadIdx.x;
    if (t == 0) { runs = 0; init(bar, 64, Count{&runs}); }
    __syncthreads();
    for (int phase = 0; phase < 6; ++phase) {
        bar->arrive_and_wait();
        seen[phase * 64 + t] = runs;
        __syncthreads();
    }
    if (t == 0) *total = runs;
}

extern "C" __global__ void producer_and_consumer(int* out, const int* x, int tiles) {
    __shared__ int buffer[2][64];
    __shared__ barrier full[2], empty[2];
    int t = threadIdx.x;
    if (t < 2) { init(&full[t], 128); init(&empty[t], 128); }
    __syncthreads();
    if (t < 64) {
        for (int i = 0; i < tiles; ++i) {
            empty[i % 2].arrive_and_wait();
            buffer[i % 2][t] = x[i * 64 + t] * 2;
            (void)full[i % 2].arrive();
        }
    } else {
        (void)empty[0].arrive();
        (void)empty[1].arrive();
        for (int i = 0; i < tiles; ++i) {
            full[i % 2].arrive_and_wait();
            out[i * 64 + t - 64] = buffer[i % 2][t - 64] + 1;
            (void)empty[i % 2].arrive();
        }
    }
}

extern "C" __global__ void primitives(unsigned* pending, unsigned* dropped) {
    __shared__ __mbarrier_t bar;
    int t = threadIdx.x;
    if (t == 0) __mbarrier_init(&bar, 64);
    __syncthreads();
    __mbarrier_token_t token = 0;
    for (int turn = 0; turn < 64; ++turn) {  // one after the other, so that the counts are known
        if (t == turn) token = __mbarrier_arrive(&bar);
        __syncthreads();
    }
    while (!__mbarrier_test_wait(&bar, token)) {}
    pending[t] = __mbarrier_token_pending_count(token);
    __syncthreads();
    for (int turn = 0; turn < 64; ++turn) {
        if (t == turn) token = __mbarrier_arrive_and_drop(&bar);
        __syncthreads();
    }
    dropped[t] = __mbarrier_token_pending_count(token);
    __syncthreads();
    if (t == 0) __mbarrier_inval(&bar);
}

extern "C" __global__ void counts_and_parts(int* out) {
    __shared__ barrier bar[4];
    __shared__ int x[4];
    int t = threadIdx.x, warp = t / 32;
    if (t < 4) init(&bar[t], 33);
    __syncthreads();
    if (t % 32 == 31) {
        x[warp] = 100 + warp;
        bar[warp].wait(bar[warp].arrive(32));
    } else if (t % 32 == 5) {
        bar[warp].wait(bar[warp].arrive(1));
    } else {
        bar[warp].wait_parity(false);
    }
    out[t] = x[warp];
}

extern "C" __global__ void native_handle(int* out) {
    __shared__ barrier bar;
    __shared__ int x;
    int t = threadIdx.x;
    if (t == 0) { init(&bar, 64); x = 0; }
    __syncthreads();
    unsigned long long* handle = cuda::device::barrier_native_handle(bar);
    atomicAdd(&x, 1);
    unsigned long long token = cuda::ptx::mbarrier_arrive(handle);
    while (!cuda::ptx::mbarrier_try_wait(handle, token)) {}
    out[t] = x;
}

__device__ int done(barrier& bar) {
    return cuda::ptx::mbarrier_test_wait_parity(cuda::device::barrier_native_handle(bar), 0);
}
extern "C" __global__ void transactions(int* out) {
    __shared__ barrier bar;
    int t = threadIdx.x;
    unsigned at = shared(&bar);
    if (t == 0) init(&bar, 2);
    __syncthreads();
    out[t * 4] = done(bar);
    __syncthreads();
    if (t == 0) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 96;" :: "r"(at) : "memory");
    __syncthreads();
    out[t * 4 + 1] = done(bar);
    __syncthreads();
    if (t == 0) {
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 32;" :: "r"(at) : "memory");
        asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 _, [%0], 0x1;" :: "r"(at) : "memory");
    }
    __syncthreads();
    if (t == 0) asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 64;" :: "r"(at) : "memory");
    __syncthreads();
    out[t * 4 + 2] = done(bar);
    __syncthreads();
    if (t == 0) asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 64;" :: "r"(at) : "memory");
    while (!done(bar)) {}
    out[t * 4 + 3] = 1;
}

__device__ cuda::barrier<cuda::thread_scope_device>* no_constructor;
extern "C" __global__ void across_blocks(int* out, int* x, long long* place, int* ready) {
    auto* bar = reinterpret_cast<cuda::barrier<cuda::thread_scope_device>*>(place);
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) { init(bar, gridDim.x * blockDim.x); __threadfence(); atomicExch(ready, 1); }
        while (atomicAdd(ready, 0) == 0) {}
        __threadfence();
        x[blockIdx.x] = blockIdx.x;
    }
    __syncthreads();
    bar->arrive_and_wait();
    int sum = 0;
    for (int b = 0; b < gridDim.x; ++b) sum += ((volatile int*)x)[b];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void polling(int* sums, int* spins) {
    __shared__ __mbarrier_t bar;
    __shared__ int x[32];
    int t = threadIdx.x;
    if (t == 0) __mbarrier_init(&bar, 31);
    __syncthreads();
    if (t == 0) {
        int n = 0;
        while (!__mbarrier_test_wait_parity(&bar, false)) ++n;
        int sum = 0;
        for (int i = 1; i < 32; ++i) sum += x[i];
        sums[blockIdx.x] = sum;
        spins[blockIdx.x] = n;
    } else {
        x[t] = t;
        (void)__mbarrier_arrive(&bar);
    }
}

extern "C" __global__ void reuse(int* out) {
    __shared__ alignas(8) unsigned long long place;
    __shared__ int n[2];
    int t = threadIdx.x;
    for (int round = 0; round < 2; ++round) {
        if (t == 0) { n[round] = 0; __mbarrier_init(&place, 64); }
        __syncthreads();
        atomicAdd(&n[round], 1);
        __mbarrier_token_t token = __mbarrier_arrive(&place);
        while (!__mbarrier_try_wait(&place, token, 1000)) {}
        out[round * 64 + t] = n[round];
        __syncthreads();
        if (t == 0) { __mbarrier_inval(&place); place = 12345; }
        __syncthreads();
    }
}

extern "C" __global__ void within_a_warp(int* out) {
    __shared__ barrier first, second;
    __shared__ int x[64], y[64];
    int t = threadIdx.x;
    if (t == 0) { init(&first, 64); init(&second, 64); }
    __syncthreads();
    if (t % 2) {
        x[t] = t;
        first.arrive_and_wait();
        y[t] = x[t] * 3;
        second.arrive_and_wait();
        out[t] = x[t - 1] + 0;
    } else {
        x[t] = (t + 1) * 2;
        first.arrive_and_wait();
        second.arrive_and_wait();
        out[t] = y[t + 1];
    }
}
"""


def run(name, outputs, grid=1, block=64, arguments=(), shared=0):
    """Runs a kernel with new arrays of zeros (shape, dtype) and returns these. All kernels are one source, because its
    headers take longer to compile than they."""
    kernel = cp.RawModule(code=SOURCE, options=("--std=c++17",)).get_function(name)
    arrays = [cp.zeros(shape, dtype) for shape, dtype in outputs]
    kernel((grid,), (block,), (*arrays, *arguments), shared_mem=shared)
    cp.cuda.runtime.deviceSynchronize()
    return arrays


@program(
    "arrive and wait with a token: each thread reads its neighbour's value of the same phase",
    expect=lambda v: {
        "out": np.array([[(t + 1) % 96 * 10 + phase for t in range(96)] for phase in range(5)], np.int32)
    },
)
def token():
    (out,) = run("token", [((5, 96), cp.int32)], block=96)
    return {"out": out}


@program(
    "arrive_and_wait in a tree reduction",
    expect=lambda v: {"sums": v["x"].reshape(4, 256).sum(axis=1, dtype=np.int32)},
)
def arrive_and_wait():
    x = np.random.default_rng(60).integers(-1000, 1000, 1024).astype(np.int32)
    (sums,) = run("arrive_and_wait", [(4, cp.int32)], grid=4, block=256, arguments=(cp.asarray(x),))
    return {"x": x, "sums": sums}


@program(
    "threads that have done their share drop out, and later phases expect fewer",
    expect=lambda v: {"phases": np.arange(1, 129, dtype=np.int32) // 16 + 1},
)
def arrive_and_drop():
    (phases,) = run("arrive_and_drop", [(128, cp.int32)], block=128)
    return {"phases": phases}


@program(
    "waiting by parity: a fresh barrier is in phase 0, and the phase before it counts as complete",
    expect=lambda v: {"out": np.array([[1, 0] + [1] * 6], np.int32).repeat(32, axis=0)},
)
def parity():
    (out,) = run("parity", [((32, 8), cp.int32)], block=32)
    return {"out": out}


@program(
    "a wait with a time limit gives up when an arrival is missing, and succeeds when it has come",
    expect=lambda v: {"out": np.array([[0, 1]], np.int32).repeat(64, axis=0)},
)
def try_wait_for():
    (out,) = run("try_wait_for", [((64, 2), cp.int32)])
    return {"out": out}


@program(
    "a completion function runs once a phase, before anybody goes on",
    expect=lambda v: {"seen": np.arange(1, 7, dtype=np.int32)[:, None].repeat(64, axis=1), "runs": np.int32([6])},
)
def completion_function():
    seen, runs = run("completion_function", [((6, 64), cp.int32), (1, cp.int32)])
    return {"seen": seen, "runs": runs}


@program(
    "producer warps fill two buffers that consumer warps empty, with a full and an empty barrier each",
    expect=lambda v: {"out": v["x"] * 2 + 1},
)
def producer_and_consumer():
    x = np.random.default_rng(61).integers(0, 1000, 9 * 64).astype(np.int32)
    (out,) = run("producer_and_consumer", [(9 * 64, cp.int32)], block=128, arguments=(cp.asarray(x), np.int32(9)))
    return {"x": x, "out": out}


@program(
    "the primitives: arrive, test_wait, arrive_and_drop, and the pending count of a token",
    expect=lambda v: {
        "pending": np.arange(64, 0, -1, dtype=np.uint32),
        "dropped": np.arange(64, 0, -1, dtype=np.uint32),
    },
)
def primitives():
    pending, dropped = run("primitives", [(64, cp.uint32), (64, cp.uint32)])
    return {"pending": pending, "dropped": dropped}


@program(
    "one thread arrives for others: arrive(n), and a barrier for a part of the block",
    expect=lambda v: {"out": np.array([100 + t // 32 for t in range(128)], np.int32)},
)
def counts_and_parts():
    (out,) = run("counts_and_parts", [(128, cp.int32)], block=128)
    return {"out": out}


@program(
    "the native handle: mbarrier instructions on a cuda::barrier",
    expect=lambda v: {"out": np.full(64, 64, np.int32)},
)
def native_handle():
    (out,) = run("native_handle", [(64, cp.int32)])
    return {"out": out}


@program(
    "expect_tx and complete_tx by hand: a phase ends when arrivals and bytes have come",
    expect=lambda v: {"out": np.array([[0, 0, 0, 1]], np.int32).repeat(32, axis=0)},
)
def transactions():
    (out,) = run("transactions", [((32, 4), cp.int32)], block=32)
    return {"out": out}


@program(
    "a barrier in global memory, of device scope, orders the blocks of a grid",
    expect=lambda v: {"out": np.full(8 * 32, sum(range(8)), np.int32)},
)
def across_blocks():
    outputs = [(256, cp.int32), (8, cp.int32), (8, cp.int64), (1, cp.int32)]
    out, *_ = run("across_blocks", outputs, grid=8, block=32)
    return {"out": out}


@program(
    "polling with work in between: what a thread does until the phase is over does not matter to the result",
    expect=lambda v: {"sums": np.full(4, sum(range(1, 32)), np.int32)},
)
def polling():
    sums, _ = run("polling", [(4, cp.int32), (4, cp.int32)], grid=4, block=32)
    return {"sums": sums}


@program(
    "the same bytes serve as a barrier, as data, and as a barrier again",
    expect=lambda v: {"out": np.full((2, 64), 64, np.int32)},
)
def reuse():
    (out,) = run("reuse", [((2, 64), cp.int32)])
    return {"out": out}


@program(
    "lanes of one warp wait for one another in different branches",
    expect=lambda v: {"out": np.array([t * 2 if t % 2 else (t + 1) * 3 for t in range(64)], np.int32)},
)
def within_a_warp():
    (out,) = run("within_a_warp", [(64, cp.int32)])
    return {"out": out}
