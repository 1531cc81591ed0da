"""Asynchronous copies inside a kernel: pipelines, ``memcpy_async``, ``cp.async`` and bulk copies."""

import numpy as np

from cudalab import cp

from ..program import near, program

SOURCE = r"""
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline_primitives.h>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
using barrier = cuda::barrier<cuda::thread_scope_block>;

__device__ inline unsigned shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ inline void bulk_load(void* to, const void* from, unsigned bytes, barrier& bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :: "r"(shared(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
           "r"(shared(cuda::device::barrier_native_handle(bar))) : "memory");
}
__device__ inline void bulk_store(void* to, const void* from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
        :: "l"(__cvta_generic_to_global(to)), "r"(shared(from)), "r"(bytes) : "memory");
}
__device__ inline void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> __device__ inline void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" :: "n"(N) : "memory");
}

extern "C" __global__ void primitives(int* out, const int* x) {
    __shared__ alignas(16) int four[128], eight[256], sixteen[512];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&four[t], &x[t], 4);
    __pipeline_memcpy_async(&eight[2 * t], &x[2 * t], 8);
    __pipeline_commit();
    __pipeline_memcpy_async(&sixteen[4 * t], &x[4 * t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    out[t] = four[t] + eight[2 * t] + eight[2 * t + 1];
    __pipeline_wait_prior(0);
    __syncthreads();
    int other = t ^ 64;
    out[128 + t] = sixteen[4 * other] + sixteen[4 * other + 3];
}

extern "C" __global__ void zero_fill(int* out, const int* x, int n) {
    __shared__ alignas(16) int tile[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + 4 * t;
    tile[4 * t] = tile[4 * t + 1] = tile[4 * t + 2] = tile[4 * t + 3] = -1;
    int have = min(max(n - i, 0), 4) * 4;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(shared(&tile[4 * t])), "l"(__cvta_generic_to_global(x + i)), "r"(have) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    for (int k = 0; k < 4; ++k) out[i + k] = tile[(4 * t + k + 4) % 256];
}

extern "C" __global__ void ignored_source(int* out, const int* x) {
    __shared__ alignas(16) int tile[64];
    int t = threadIdx.x;
    tile[t] = -1;
    asm volatile("{ .reg .pred p; setp.eq.u32 p, %2, 0; cp.async.ca.shared.global [%0], [%1], 4, p; }"
        :: "r"(shared(&tile[t])), "l"(__cvta_generic_to_global(x + t)), "r"(t % 3) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    out[t] = tile[t];
}

extern "C" __global__ void groups(int* out, const int* x) {
    __shared__ int tile[6][64];
    int t = threadIdx.x;
    for (int i = 0; i < 6; ++i) {
        tile[i][t] = -1;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
            :: "r"(shared(&tile[i][t])), "l"(__cvta_generic_to_global(x + 64 * i + t)) : "memory");
        if (i != 2) asm volatile("cp.async.commit_group;" ::: "memory");  // copies 2 and 3 are one group
    }
    asm volatile("cp.async.wait_group 2;" ::: "memory");
    int sum = tile[0][t] + tile[1][t] + tile[2][t] + tile[3][t] - 3 * tile[0][t];
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    out[t] = sum * 1000 + tile[4][t] + tile[5][t];
}

template <int STAGES>
__device__ void staged_sum(int* out, const int* x, int batches) {
    __shared__ int tile[STAGES][128];
    auto pipe = cuda::make_pipeline();
    int t = threadIdx.x, sum = 0;
    for (int compute = 0, fetch = 0; compute < batches; ++compute) {
        for (; fetch < batches && fetch < compute + STAGES; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(&tile[fetch % STAGES][t], &x[fetch * 128 + t], sizeof(int), pipe);
            pipe.producer_commit();
        }
        cuda::pipeline_consumer_wait_prior<STAGES - 1>(pipe);
        if (compute + STAGES > batches) cuda::pipeline_consumer_wait_prior<0>(pipe);
        sum = sum * 3 + tile[compute % STAGES][t];
        pipe.consumer_release();
    }
    out[t] = sum;
}
extern "C" __global__ void stages_1(int* out, const int* x, int n) { staged_sum<1>(out, x, n); }
extern "C" __global__ void stages_2(int* out, const int* x, int n) { staged_sum<2>(out, x, n); }
extern "C" __global__ void stages_3(int* out, const int* x, int n) { staged_sum<3>(out, x, n); }
extern "C" __global__ void stages_4(int* out, const int* x, int n) { staged_sum<4>(out, x, n); }

template <int STAGES>
__device__ void block_pipeline(int* out, const int* x, int batches) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    __shared__ alignas(16) int tile[STAGES][96];
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int t = threadIdx.x, sum = 0;
    for (int compute = 0, fetch = 0; compute < batches; ++compute) {
        for (; fetch < batches && fetch < compute + STAGES; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, tile[fetch % STAGES], x + fetch * 96, sizeof(int) * 96, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum = sum * 3 + tile[compute % STAGES][95 - t];
        pipe.consumer_release();
    }
    out[t] = sum;
}
extern "C" __global__ void block_stages_2(int* out, const int* x, int n) { block_pipeline<2>(out, x, n); }
extern "C" __global__ void block_stages_4(int* out, const int* x, int n) { block_pipeline<4>(out, x, n); }

extern "C" __global__ void roles(int* out, const int* x, int batches) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ int tile[2][64];
    auto block = cg::this_thread_block();
    int t = threadIdx.x;
    auto role = t < 64 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(block, &state, role);
    for (int i = 0; i < batches; ++i) {
        if (role == cuda::pipeline_role::producer) {
            pipe.producer_acquire();
            cuda::memcpy_async(&tile[i % 2][t], &x[i * 64 + t], sizeof(int), pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            out[i * 64 + t - 64] = tile[i % 2][127 - t] * 2;
            pipe.consumer_release();
        }
    }
}

extern "C" __global__ void matmul(float* c, const float* a, const float* b, int n) {
    __shared__ alignas(16) float as[2][16][16], bs[2][16][16];
    auto pipe = cuda::make_pipeline();
    int x = threadIdx.x % 16, y = threadIdx.x / 16, col = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
    auto fetch = [&](int k) {
        pipe.producer_acquire();
        cuda::memcpy_async(&as[k % 2][y][x], &a[row * n + k * 16 + x], sizeof(float), pipe);
        cuda::memcpy_async(&bs[k % 2][y][x], &b[(k * 16 + y) * n + col], sizeof(float), pipe);
        pipe.producer_commit();
    };
    float sum = 0;
    fetch(0);
    for (int k = 0; k < n / 16; ++k) {
        if (k + 1 < n / 16) { fetch(k + 1); cuda::pipeline_consumer_wait_prior<1>(pipe); }
        else cuda::pipeline_consumer_wait_prior<0>(pipe);
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += as[k % 2][y][i] * bs[k % 2][i][x];
        __syncthreads();
        pipe.consumer_release();
    }
    c[row * n + col] = sum;
}

extern "C" __global__ void stencil(int* out, const int* x, int n) {
    __shared__ int tile[128 + 6];
    auto block = cg::this_thread_block();
    int start = blockIdx.x * 128, count = min(128 + 6, n - start);
    cg::memcpy_async(block, tile, x + start, sizeof(int) * count);
    cg::wait(block);
    int i = start + threadIdx.x;
    if (i + 6 < n) {
        int sum = 0;
        for (int k = 0; k < 7; ++k) sum += (k + 1) * tile[threadIdx.x + k];
        out[i] = sum;
    }
}

extern "C" __global__ void prior(int* out, const int* x) {
    __shared__ int first[64], second[64];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, first, x, sizeof(int) * 64);
    cg::memcpy_async(block, second, x + 64, sizeof(int) * 64);
    cg::wait_prior<1>(block);
    int sum = first[63 - threadIdx.x];
    cg::wait(block);
    out[threadIdx.x] = sum * 1000 + second[63 - threadIdx.x];
}

extern "C" __global__ void tile_of_a_warp(int* out, const int* x) {
    __shared__ int part[4][40];
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    int warp = threadIdx.x / 32;
    cg::memcpy_async(tile, part[warp], x + warp * 40, sizeof(int) * 40);
    cg::wait(tile);
    int sum = 0;
    for (int i = 0; i < 40; ++i) sum += part[warp][i] * (i + tile.thread_rank());
    out[threadIdx.x] = sum;
}

extern "C" __global__ void odd_sizes(unsigned char* out, const unsigned char* x, int offset, int bytes) {
    __shared__ barrier bar;
    __shared__ alignas(16) unsigned char tile[1024];
    auto block = cg::this_thread_block();
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] = 255;
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(block, tile + offset, x + offset, bytes, bar);
    bar.arrive_and_wait();
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) out[i] = tile[i];
}

extern "C" __global__ void aligned(int* out, const int* x, int n) {
    __shared__ barrier bar;
    extern __shared__ __align__(16) int tile[];
    auto block = cg::this_thread_block();
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    barrier::arrival_token token;
    cuda::memcpy_async(block, tile, x + blockIdx.x * n, cuda::aligned_size_t<16>(sizeof(int) * n), bar);
    token = bar.arrive();
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = tile[n - 1 - i];
}

struct Particle { float x, y, z; };
extern "C" __global__ void structures(float* out, const Particle* x) {
    __shared__ Particle tile[64];
    auto pipe = cuda::make_pipeline();
    int t = threadIdx.x;
    pipe.producer_acquire();
    cuda::memcpy_async(&tile[t], &x[t], sizeof(Particle), pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    __syncthreads();
    Particle p = tile[63 - t];
    out[t] = p.x + 2 * p.y + 4 * p.z;
    pipe.consumer_release();
}

extern "C" __global__ void tracked_by_barrier(int* out, const int* x) {
    __shared__ alignas(8) unsigned long long counted, promised;
    __shared__ int tile[2][64];
    int t = threadIdx.x;
    if (t == 0) { ptx::mbarrier_init(&counted, 64); ptx::mbarrier_init(&promised, 64); }
    __syncthreads();
    __pipeline_memcpy_async(&tile[0][t], &x[t], 4);
    asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(shared(&counted)) : "memory");
    auto token = ptx::mbarrier_arrive(&counted);
    __pipeline_memcpy_async(&tile[1][t], &x[64 + t], 4);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(shared(&promised)) : "memory");
    while (!ptx::mbarrier_try_wait(&counted, token)) {}
    int sum = tile[0][63 - t];
    while (!ptx::mbarrier_try_wait_parity(&promised, 0)) {}
    out[t] = sum * 1000 + tile[1][63 - t];
}

extern "C" __global__ void bulk_in(int* out, const int* x) {
    __shared__ barrier bar;
    __shared__ alignas(16) int tile[1024];
    int t = threadIdx.x;
    if (t == 0) init(&bar, blockDim.x);
    __syncthreads();
    barrier::arrival_token token;
    if (t == 0) {
        bulk_load(tile, x + blockIdx.x * 1024, 4096, bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, 4096);
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    for (int i = t; i < 1024; i += blockDim.x) out[blockIdx.x * 1024 + i] = tile[1023 - i];
}

extern "C" __global__ void bulk_ring(long long* out, const int* x, int tiles) {
    __shared__ barrier full[3], empty[3];
    __shared__ alignas(128) int tile[3][256];
    int t = threadIdx.x;
    if (t < 3) { init(&full[t], 1); init(&empty[t], 128); }
    __syncthreads();
    if (t >= 128) {  // one thread of an extra warp fetches
        if (t == 128) {
            for (int i = 0; i < tiles; ++i) {
                if (i >= 3) empty[i % 3].wait_parity((i / 3 - 1) & 1);
                (void)cuda::device::barrier_arrive_tx(full[i % 3], 1, 1024);
                bulk_load(tile[i % 3], x + i * 256, 1024, full[i % 3]);
            }
        }
    } else {
        long long sum = 0;
        for (int i = 0; i < tiles; ++i) {
            full[i % 3].wait_parity(i / 3 & 1);
            sum = sum * 5 + tile[i % 3][t] - tile[i % 3][255 - t];
            (void)empty[i % 3].arrive();
        }
        out[t] = sum;
    }
}

extern "C" __global__ void bulk_out(int* out, int n) {
    extern __shared__ __align__(16) int tile[];
    int t = threadIdx.x;
    for (int round = 0; round < 3; ++round) {
        for (int i = t; i < n; i += blockDim.x) tile[i] = blockIdx.x * 10000 + round * 1000 + i;
        ptx::fence_proxy_async(ptx::space_shared);
        __syncthreads();
        if (t == 0) {
            bulk_store(out + (blockIdx.x * 3 + round) * n, tile, n * 4);
            bulk_commit();
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        __syncthreads();
    }
    if (t == 0) bulk_wait<0>();
}

extern "C" __global__ void __cluster_dims__(1, 1, 1) within_shared(int* out, const int* x) {
    __shared__ barrier bar;
    __shared__ alignas(16) int from[256], to[256];
    int t = threadIdx.x;
    from[t] = x[t] * 3;
    if (t == 0) init(&bar, blockDim.x);
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    barrier::arrival_token token;
    if (t == 0) {
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
            :: "r"(shared(to)), "r"(shared(from)), "r"(1024),
               "r"(shared(cuda::device::barrier_native_handle(bar))) : "memory");
        token = cuda::device::barrier_arrive_tx(bar, 1, 1024);
    } else token = bar.arrive();
    bar.wait(std::move(token));
    out[t] = to[255 - t];
}

#define REDUCE(NAME, FORM, TYPE)                                                                                  \
extern "C" __global__ void NAME(TYPE* out, const TYPE* x) {                                                        \
    __shared__ alignas(16) TYPE tile[128];                                                                        \
    int t = threadIdx.x;                                                                                          \
    tile[t] = x[blockIdx.x * 128 + t];                                                                            \
    ptx::fence_proxy_async(ptx::space_shared);                                                                    \
    __syncthreads();                                                                                              \
    if (t == 0) {                                                                                                 \
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." FORM " [%0], [%1], %2;"                 \
            :: "l"(__cvta_generic_to_global(out)), "r"(shared(tile)), "r"((unsigned)sizeof(tile)) : "memory");     \
        bulk_commit();                                                                                            \
        bulk_wait<0>();                                                                                           \
    }                                                                                                             \
}
REDUCE(add_u32, "add.u32", unsigned)
REDUCE(min_s32, "min.s32", int)
REDUCE(max_u64, "max.u64", unsigned long long)
REDUCE(xor_b64, "xor.b64", unsigned long long)
REDUCE(inc_u32, "inc.u32", unsigned)
REDUCE(add_f32, "add.f32", float)
REDUCE(add_f64, "add.f64", double)
REDUCE(add_f16, "add.noftz.f16", unsigned short)

extern "C" __global__ void histogram(unsigned* bins, const unsigned char* x, int n) {
    __shared__ alignas(16) unsigned own[256];
    int t = threadIdx.x;
    own[t] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) atomicAdd(&own[x[i]], 1u);
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 1024;"
            :: "l"(__cvta_generic_to_global(bins)), "r"(shared(own)) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}

extern "C" __global__ void prefetched(int* out, const int* x) {
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(__cvta_generic_to_global(x)), "r"(1024));
    __syncthreads();
    out[threadIdx.x] = x[threadIdx.x] + 1;
}
"""


def run(name, outputs, grid=1, block=64, arguments=(), shared=0):
    """Runs a kernel with new arrays of zeros (shape, dtype), or given ones, and returns these. All kernels are one
    source, because its headers take longer to compile than they."""
    kernel = cp.RawModule(code=SOURCE, options=("--std=c++17",)).get_function(name)
    arrays = [cp.zeros(*each) if isinstance(each, tuple) else cp.asarray(each) for each in outputs]
    grid = grid if isinstance(grid, tuple) else (grid,)
    kernel(grid, (block,), (*arrays, *arguments), shared_mem=shared)
    cp.cuda.runtime.deviceSynchronize()
    return arrays


def integers(seed, count, low=0, high=1000, dtype=np.int32):
    return np.random.default_rng(seed).integers(low, high, count).astype(dtype)


def folded(x, batches, width, order=slice(None)):
    """What the pipelines compute: the batches one after the other, each sum times three."""
    total = np.zeros(width, np.int64)
    for batch in x.reshape(batches, width):
        total = total * 3 + batch[order]
    return total.astype(np.int32)


@program(
    "the primitives copy 4, 8 and 16 bytes, in two groups",
    expect=lambda v: {
        "out": np.concatenate(
            [
                v["x"][:128] + v["x"][:256:2] + v["x"][1:256:2],
                (v["x"][::4] + v["x"][3::4])[np.arange(128) ^ 64],
            ]
        )
    },
)
def primitives():
    x = integers(70, 512)
    (out,) = run("primitives", [(256, cp.int32)], block=128, arguments=(cp.asarray(x),))
    return {"x": x, "out": out}


@program(
    "what lies beyond the end of the array is filled with zeros",
    expect=lambda v: {"out": np.concatenate([np.roll(t, -4) for t in np.pad(v["x"], (0, 1024 - 601)).reshape(4, 256)])},
)
def zero_fill():
    x = integers(71, 601, 1)
    (out,) = run("zero_fill", [(1024, cp.int32)], grid=4, arguments=(cp.asarray(x), np.int32(601)))
    return {"x": x, "out": out}


@program(
    "a predicate that ignores the source writes zeros",
    expect=lambda v: {"out": np.where(np.arange(64) % 3 == 0, 0, v["x"]).astype(np.int32)},
)
def ignored_source():
    x = integers(72, 64, 1)
    (out,) = run("ignored_source", [(64, cp.int32)], arguments=(cp.asarray(x),))
    return {"x": x, "out": out}


@program(
    "wait_group leaves the last groups under way",
    expect=lambda v: {
        "out": ((v["x"][1] + v["x"][2] + v["x"][3] - 2 * v["x"][0]) * 1000 + v["x"][4] + v["x"][5]).astype(np.int32)
    },
)
def groups():
    x = integers(73, (6, 64))
    (out,) = run("groups", [(64, cp.int32)], arguments=(cp.asarray(x),))
    return {"x": x, "out": out}


@program(
    "a thread's own pipeline with one to four stages",
    expect=lambda v: {f"stages_{n}": folded(v["x"], 11, 128) for n in (1, 2, 3, 4)},
)
def thread_pipelines():
    x = integers(74, 11 * 128)
    values = {"x": x}
    for n in (1, 2, 3, 4):
        (values[f"stages_{n}"],) = run(
            f"stages_{n}", [(128, cp.int32)], block=128, arguments=(cp.asarray(x), np.int32(11))
        )
    return values


@program(
    "a block's pipeline with two and four stages",
    expect=lambda v: {f"stages_{n}": folded(v["x"], 9, 96, slice(None, None, -1)) for n in (2, 4)},
)
def block_pipelines():
    x = integers(75, 9 * 96)
    values = {"x": x}
    for n in (2, 4):
        (values[f"stages_{n}"],) = run(
            f"block_stages_{n}", [(96, cp.int32)], block=96, arguments=(cp.asarray(x), np.int32(9))
        )
    return values


@program(
    "a pipeline whose producers and consumers are different warps",
    expect=lambda v: {"out": v["x"].reshape(7, 64)[:, ::-1].reshape(-1) * 2},
)
def roles():
    x = integers(76, 7 * 64)
    (out,) = run("roles", [(7 * 64, cp.int32)], block=128, arguments=(cp.asarray(x), np.int32(7)))
    return {"x": x, "out": out}


@program(
    "a tiled matrix product with double buffering",
    expect=lambda v: {"c": near(v["a"].astype(np.float64) @ v["b"], rtol=1e-4, atol=1e-4)},
)
def matmul():
    random = np.random.default_rng(77)
    a, b = (random.standard_normal((96, 96)).astype(np.float32) for _ in range(2))
    (c,) = run("matmul", [((96, 96), cp.float32)], (6, 6), 256, (cp.asarray(a), cp.asarray(b), np.int32(96)))
    return {"a": a, "b": b, "c": c}


@program(
    "a stencil whose blocks copy their tile with its halo, the last one a shorter one",
    expect=lambda v: {"out": np.convolve(v["x"], np.arange(7, 0, -1), "valid").astype(np.int32)},
)
def stencil():
    x = integers(78, 1000)
    (out,) = run("stencil", [(994, cp.int32)], grid=8, block=128, arguments=(cp.asarray(x), np.int32(1000)))
    return {"x": x, "out": out}


@program(
    "wait_prior of a group waits for all copies but the last",
    expect=lambda v: {"out": v["x"][63::-1] * 1000 + v["x"][:63:-1]},
)
def prior():
    x = integers(79, 128)
    (out,) = run("prior", [(64, cp.int32)], arguments=(cp.asarray(x),))
    return {"x": x, "out": out}


@program(
    "each tile of a warp copies its own part",
    expect=lambda v: {
        "out": np.concatenate(
            [[int(sum(part * (np.arange(40) + lane))) for lane in range(32)] for part in v["x"].reshape(4, 40)]
        ).astype(np.int32)
    },
)
def tile_of_a_warp():
    x = integers(80, 160)
    (out,) = run("tile_of_a_warp", [(128, cp.int32)], block=128, arguments=(cp.asarray(x),))
    return {"x": x, "out": out}


SIZES = ((0, 1), (0, 3), (0, 16), (1, 15), (2, 200), (4, 100), (8, 96), (16, 512), (3, 1000), (0, 1024), (12, 0))


@program(
    "memcpy_async of any size and alignment",
    expect=lambda v: {
        "out": np.array(
            [[v["x"][i] if offset <= i < offset + size else 255 for i in range(1024)] for offset, size in SIZES],
            np.uint8,
        )
    },
)
def odd_sizes():
    x = integers(81, 1024, 0, 255, np.uint8)
    rows = [
        run("odd_sizes", [(1024, cp.uint8)], arguments=(cp.asarray(x), np.int32(offset), np.int32(size)))[0]
        for offset, size in SIZES
    ]
    return {"x": x, "out": cp.stack(rows)}


@program(
    "memcpy_async of an aligned size is a bulk copy",
    expect=lambda v: {"out": v["x"].reshape(3, 1500)[:, ::-1].reshape(-1)},
)
def aligned():
    x = integers(82, 4500)
    (out,) = run("aligned", [(4500, cp.int32)], grid=3, arguments=(cp.asarray(x), np.int32(1500)), shared=6000)
    return {"x": x, "out": out}


@program(
    "structures of 12 bytes",
    expect=lambda v: {"out": (v["x"] @ np.array([1, 2, 4], np.float32))[::-1].copy()},
)
def structures():
    x = integers(83, (64, 3)).astype(np.float32)
    (out,) = run("structures", [(64, cp.float32)], arguments=(cp.asarray(x),))
    return {"x": x, "out": out}


@program(
    "mbarriers that track copies of threads, by counting them and by having them expected",
    expect=lambda v: {"out": v["x"][63::-1] * 1000 + v["x"][:63:-1]},
)
def tracked_by_barrier():
    x = integers(84, 128)
    (out,) = run("tracked_by_barrier", [(64, cp.int32)], arguments=(cp.asarray(x),))
    return {"x": x, "out": out}


@program(
    "a bulk copy from global to shared memory, with its bytes announced",
    expect=lambda v: {"out": v["x"].reshape(5, 1024)[:, ::-1].reshape(-1)},
)
def bulk_in():
    x = integers(85, 5 * 1024)
    (out,) = run("bulk_in", [(5 * 1024, cp.int32)], grid=5, block=128, arguments=(cp.asarray(x),))
    return {"x": x, "out": out}


def _ring(x):
    total = np.zeros(128, np.int64)
    for tile in x.reshape(-1, 256).astype(np.int64):
        total = total * 5 + tile[:128] - tile[:127:-1]
    return total


@program(
    "a ring of three tiles that one thread fills by bulk copies and four warps empty",
    expect=lambda v: {"out": _ring(v["x"])},
)
def bulk_ring():
    x = integers(86, 13 * 256)
    (out,) = run("bulk_ring", [(128, cp.int64)], block=160, arguments=(cp.asarray(x), np.int32(13)))
    return {"x": x, "out": out}


@program(
    "bulk copies from shared to global memory, with the tile written again after wait_group.read",
    expect=lambda v: {
        "out": np.array(
            [[[b * 10000 + r * 1000 + i for i in range(300)] for r in range(3)] for b in range(4)], np.int32
        )
    },
)
def bulk_out():
    (out,) = run("bulk_out", [((4, 3, 300), cp.int32)], grid=4, arguments=(np.int32(300),), shared=1200)
    return {"out": out}


@program("a bulk copy within shared memory", expect=lambda v: {"out": v["x"][::-1] * 3})
def within_shared():
    x = integers(87, 256)
    (out,) = run("within_shared", [(256, cp.int32)], block=256, arguments=(cp.asarray(x),))
    return {"x": x, "out": out}


def reduced(name, start, x):
    """The result of reducing the rows of ``x`` into ``start``."""
    (out,) = run(name, [start], grid=len(x), block=128, arguments=(cp.asarray(x),))
    return {"start": start, "x": x, "out": out}


@program(
    "bulk reductions of integers: add, min, max, xor and inc",
    expect=lambda v: {
        "add": (v["add_start"] + v["u32"].sum(axis=0, dtype=np.uint64)).astype(np.uint32),
        "min": np.minimum(v["s32"].min(axis=0), v["min_start"]),
        "max": np.maximum(v["u64"].max(axis=0), v["max_start"]),
        "xor": np.bitwise_xor.reduce(v["u64"], axis=0) ^ v["max_start"],
        "inc": np.full(128, 6, np.uint32),
    },
)
def integer_reductions():
    random = np.random.default_rng(88)
    u32 = random.integers(0, 1 << 32, (6, 128), dtype=np.uint32)
    s32 = random.integers(-(1 << 31), 1 << 31, (6, 128), dtype=np.int32)
    u64 = random.integers(0, 1 << 64, (6, 128), dtype=np.uint64)
    add_start, min_start, max_start = u32[0] ^ np.uint32(5), s32[1] ^ np.int32(77), u64[2] ^ np.uint64(99)
    return {
        "u32": u32,
        "s32": s32,
        "u64": u64,
        "add_start": add_start,
        "min_start": min_start,
        "max_start": max_start,
        "add": reduced("add_u32", add_start, u32)["out"],
        "min": reduced("min_s32", min_start, s32)["out"],
        "max": reduced("max_u64", max_start, u64)["out"],
        "xor": reduced("xor_b64", max_start, u64)["out"],
        "inc": reduced("inc_u32", np.zeros(128, np.uint32), np.full((6, 128), 1000, np.uint32))["out"],
    }


@program(
    "bulk reductions of floats add exactly what can be added exactly",
    expect=lambda v: {
        "f32": v["x"].sum(axis=0).astype(np.float32) + 0.5,
        "f64": v["x"].sum(axis=0) + 0.5,
        "f16": (v["x"].sum(axis=0) + 0.5).astype(np.float16).view(np.uint16),
    },
)
def float_reductions():
    x = integers(89, (6, 128), -50, 50).astype(np.float64) / 4
    half = np.full(128, 0.5, np.float16).view(np.uint16)
    return {
        "x": x,
        "f32": reduced("add_f32", np.full(128, 0.5, np.float32), x.astype(np.float32))["out"],
        "f64": reduced("add_f64", np.full(128, 0.5), x)["out"],
        "f16": reduced("add_f16", half, x.astype(np.float16).view(np.uint16))["out"],
    }


@program(
    "a histogram: blocks count in shared memory and add their counts by one bulk reduction",
    expect=lambda v: {"bins": np.bincount(v["x"], minlength=256).astype(np.uint32)},
)
def histogram():
    x = integers(90, 20000, 0, 256, np.uint8)
    (bins,) = run("histogram", [(256, cp.uint32)], grid=6, block=256, arguments=(cp.asarray(x), np.int32(20000)))
    return {"x": x, "bins": bins}


@program("a prefetch changes nothing", expect=lambda v: {"out": v["x"] + 1})
def prefetched():
    x = integers(91, 256)
    (out,) = run("prefetched", [(256, cp.int32)], block=256, arguments=(cp.asarray(x),))
    return {"x": x, "out": out}
