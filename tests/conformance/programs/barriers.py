"""Block barriers: in loops, branches and functions, with exited threads, with a vote, and named ones."""

import numpy as np

from cudalab import cp

from ..program import near, program


@program(
    "a tree reduction in shared memory",
    expect=lambda v: {"sums": v["x"].reshape(-1, 256).sum(axis=1, dtype=np.int32)},
)
def tree_reduction():
    x = np.random.default_rng(10).integers(-1000, 1000, 1024).astype(np.int32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* x, int* sums) {
            __shared__ int part[256];
            int t = threadIdx.x;
            part[t] = x[blockIdx.x * 256 + t];
            for (int s = 128; s > 0; s /= 2) {
                __syncthreads();
                if (t < s) part[t] += part[t + s];
            }
            if (t == 0) sums[blockIdx.x] = part[0];
        }""",
        "k",
    )
    sums = cp.zeros(4, cp.int32)
    kernel((4,), (256,), (cp.asarray(x), sums))
    return {"x": x, "sums": sums}


@program(
    "a scan with two barriers a step",
    expect=lambda v: {"scan": np.cumsum(v["x"], dtype=np.int32)},
)
def hillis_steele_scan():
    x = np.random.default_rng(11).integers(0, 50, 200).astype(np.int32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* x, int* out, int n) {
            extern __shared__ int a[];
            int t = threadIdx.x;
            a[t] = x[t];
            __syncthreads();
            for (int d = 1; d < n; d *= 2) {
                int v = t >= d ? a[t - d] : 0;
                __syncthreads();
                a[t] += v;
                __syncthreads();
            }
            out[t] = a[t];
        }""",
        "k",
    )
    out = cp.zeros(200, cp.int32)
    kernel((1,), (200,), (cp.asarray(x), out, np.int32(200)), shared_mem=800)
    return {"x": x, "scan": out}


@program(
    "barriers in a branch that all threads of a block take, and another number of them in each block",
    expect=lambda v: {"out": np.array([[(t + b * (b + 1) // 2) % 64 for t in range(64)] for b in range(6)], np.int32)},
)
def barrier_in_uniform_branch():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* out) {
            __shared__ int ring[64];
            int t = threadIdx.x, b = blockIdx.x;
            ring[t] = t;
            __syncthreads();
            if (b > 0) {
                for (int step = 1; step <= b; ++step) {
                    int v = ring[(t + step) % 64];
                    __syncthreads();
                    ring[t] = v;
                    __syncthreads();
                }
            }
            out[b * 64 + t] = ring[t];
        }""",
        "k",
    )
    out = cp.zeros((6, 64), cp.int32)
    kernel((6,), (64,), (out,))
    return {"out": out}


@program(
    "threads that have returned count as arrived at later barriers",
    expect=lambda v: {"sums": np.array([sum(range(min(n, 96))) for n in (96, 40, 1, 70)], np.int32)},
)
def exit_before_barrier():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* counts, int* sums) {
            __shared__ int part[96];
            int t = threadIdx.x, n = counts[blockIdx.x];
            part[t] = 0;
            __syncthreads();
            if (t >= n) return;
            part[t] = t;
            __syncthreads();
            if (t == 0) {
                int s = 0;
                for (int i = 0; i < 96; ++i) s += part[i];
                sums[blockIdx.x] = s;
            }
        }""",
        "k",
    )
    sums = cp.zeros(4, cp.int32)
    kernel((4,), (96,), (cp.asarray([96, 40, 1, 70], dtype=cp.int32), sums))
    return {"sums": sums}


@program(
    "barriers inside a called function, reached from two places",
    expect=lambda v: {"out": (v["x"].max() - v["x"].min() + np.arange(64)).astype(np.int32)},
)
def barrier_in_function():
    x = np.random.default_rng(12).integers(-(10**6), 10**6, 64).astype(np.int32)
    kernel = cp.RawKernel(
        r"""
        __device__ __noinline__ int largest(int* part, int mine) {
            int t = threadIdx.x;
            part[t] = mine;
            __syncthreads();
            for (int s = blockDim.x / 2; s > 0; s >>= 1) {
                if (t < s) part[t] = max(part[t], part[t + s]);
                __syncthreads();
            }
            int result = part[0];
            __syncthreads();
            return result;
        }
        extern "C" __global__ void k(const int* x, int* out) {
            __shared__ int part[64];
            int t = threadIdx.x, high = largest(part, x[t]);
            int low = -largest(part, -x[t]);
            out[t] = high - low + t;
        }""",
        "k",
    )
    out = cp.zeros(64, cp.int32)
    kernel((1,), (64,), (cp.asarray(x), out))
    return {"x": x, "out": out}


@program(
    "barriers that count, and, or a predicate over the block",
    expect=lambda v: {"out": np.array([[34, 0, 1], [0, 0, 0], [100, 1, 1]], np.int32)},
)
def barrier_votes():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* out) {
            int t = threadIdx.x, p = blockIdx.x == 0 ? t % 3 == 0 : blockIdx.x == 2;
            int count = __syncthreads_count(p), all = __syncthreads_and(p), any = __syncthreads_or(p);
            if (t == 57) { int* o = out + 3 * blockIdx.x; o[0] = count; o[1] = all; o[2] = any; }
        }""",
        "k",
    )
    out = cp.zeros((3, 3), cp.int32)
    kernel((3,), (100,), (out,))
    return {"out": out}


@program(
    "a bitonic sort of one block",
    expect=lambda v: {"sorted": np.sort(v["x"])},
)
def bitonic_sort():
    x = np.random.default_rng(13).standard_normal(512).astype(np.float32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* x, float* out) {
            __shared__ float a[512];
            int t = threadIdx.x;
            a[t] = x[t];
            for (int size = 2; size <= 512; size *= 2)
                for (int stride = size / 2; stride > 0; stride /= 2) {
                    __syncthreads();
                    int other = t ^ stride;
                    if (other > t) {
                        bool up = (t & size) == 0;
                        if ((a[t] > a[other]) == up) { float s = a[t]; a[t] = a[other]; a[other] = s; }
                    }
                }
            __syncthreads();
            out[t] = a[t];
        }""",
        "k",
    )
    out = cp.zeros(512, cp.float32)
    kernel((1,), (512,), (cp.asarray(x), out))
    return {"x": x, "sorted": out}


@program(
    "a tiled matrix product whose sizes are no multiples of the tile",
    expect=lambda v: {"c": near(v["a"].astype(np.float64) @ v["b"], 1e-5, 1e-5)},
)
def tiled_matmul():
    rng = np.random.default_rng(14)
    a, b = rng.standard_normal((37, 50)).astype(np.float32), rng.standard_normal((50, 29)).astype(np.float32)
    kernel = cp.RawKernel(
        r"""
        #define T 16
        extern "C" __global__ void k(const float* a, const float* b, float* c, int m, int n, int p) {
            __shared__ float ta[T][T], tb[T][T];
            int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, col = blockIdx.x * T + x;
            float sum = 0;
            for (int t = 0; t < (n + T - 1) / T; ++t) {
                ta[y][x] = row < m && t * T + x < n ? a[row * n + t * T + x] : 0;
                tb[y][x] = t * T + y < n && col < p ? b[(t * T + y) * p + col] : 0;
                __syncthreads();
                for (int j = 0; j < T; ++j) sum += ta[y][j] * tb[j][x];
                __syncthreads();
            }
            if (row < m && col < p) c[row * p + col] = sum;
        }""",
        "k",
    )
    c = cp.zeros((37, 29), cp.float32)
    kernel((2, 3), (16, 16), (cp.asarray(a), cp.asarray(b), c, np.int32(37), np.int32(50), np.int32(29)))
    return {"a": a, "b": b, "c": c}


@program(
    "a named barrier joins two warps while the others go on",
    expect=lambda v: {"out": (np.arange(64)[::-1] * 3).astype(np.int32), "others": np.arange(64, 128, dtype=np.int32)},
)
def named_barrier():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* out, int* others) {
            __shared__ int a[64];
            int t = threadIdx.x;
            if (t < 64) {
                a[t] = t * 3;
                asm volatile("bar.sync 1, 64;" ::: "memory");
                out[t] = a[63 - t];
            } else {
                others[t - 64] = t;
            }
        }""",
        "k",
    )
    out, others = cp.zeros(64, cp.int32), cp.zeros(64, cp.int32)
    kernel((1,), (128,), (out, others))
    return {"out": out, "others": others}


@program(
    "the last block to finish sees what all others wrote",
    expect=lambda v: {"total": int(np.arange(4096).sum()), "arrivals": 16},
)
def last_block_reduction():
    module = cp.RawModule(
        code=r"""
        __device__ unsigned arrived = 0;
        extern "C" __global__ void k(const int* x, volatile int* parts, int* total) {
            __shared__ int part[256];
            __shared__ bool last;
            int t = threadIdx.x;
            part[t] = x[blockIdx.x * 256 + t];
            __syncthreads();
            for (int s = 128; s; s >>= 1) { if (t < s) part[t] += part[t + s]; __syncthreads(); }
            if (t == 0) {
                parts[blockIdx.x] = part[0];
                __threadfence();
                last = atomicAdd(&arrived, 1) == gridDim.x - 1;
            }
            __syncthreads();
            if (last && t == 0) {
                int s = 0;
                for (int i = 0; i < gridDim.x; ++i) s += parts[i];
                *total = s;
            }
        }"""
    )
    parts, total = cp.zeros(16, cp.int32), cp.zeros(1, cp.int32)
    module.get_function("k")((16,), (256,), (cp.arange(4096, dtype=cp.int32), parts, total))
    return {"total": int(total[0]), "arrivals": int(cp.ndarray(1, cp.uint32, memptr=module.get_global("arrived"))[0])}


def _heat(v):
    u = v["start"].copy()
    for _ in range(20):
        u[1:-1] = np.float32(0.25) * u[:-2] + (np.float32(0.5) * u[1:-1] + np.float32(0.25) * u[2:])
    return {"end": u}


@program("a stencil with a barrier between reading and writing in every time step", expect=_heat)
def stencil_steps():
    start = np.zeros(130, np.float32)
    start[40:60], start[100] = 1, 8
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* start, float* end, int steps) {
            __shared__ float u[130];
            int t = threadIdx.x;
            u[t] = start[t];
            if (t < 2) u[128 + t] = start[128 + t];
            __syncthreads();
            for (int s = 0; s < steps; ++s) {
                float next = __fadd_rn(0.25f * u[t], __fadd_rn(0.5f * u[t + 1], 0.25f * u[t + 2]));
                __syncthreads();
                u[t + 1] = next;
                __syncthreads();
            }
            end[t] = u[t];
            if (t < 2) end[128 + t] = u[128 + t];
        }""",
        "k",
    )
    end = cp.zeros(130, cp.float32)
    kernel((1,), (128,), (cp.asarray(start), end, np.int32(20)))
    return {"start": start, "end": end}
