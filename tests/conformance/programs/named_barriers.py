"""Barriers with numbers and counts: some warps of a block, arrivals that do not wait, reductions."""

import numpy as np

from cudalab import cp

from ..program import program, raised

_PRELUDE = r"""
#define SYNC(id, n) asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(n) : "memory")
#define ARRIVE(id, n) asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(n) : "memory")
"""


def _kernel(code):
    return cp.RawKernel(_PRELUDE + code, "k")


@program(
    "producer warps arrive, consumer warps wait: a ring of two buffers without __syncthreads",
    expect=lambda v: {"out": (v["x"] * 2 + 1).astype(np.int32)},
)
def producer_and_consumer():
    x = np.random.default_rng(40).integers(-1000, 1000, (12, 64)).astype(np.int32)
    kernel = _kernel(r"""
        extern "C" __global__ void k(const int* x, int* out, int n) {
            __shared__ int ring[2][64];
            int t = threadIdx.x % 64;
            if (threadIdx.x < 64) {                       // producers: barriers 1, 2 say full, 3, 4 say empty
                for (int i = 0; i < n; ++i) {
                    if (i >= 2) SYNC(3 + i % 2, 128);
                    ring[i % 2][t] = x[i * 64 + t] * 2;
                    ARRIVE(1 + i % 2, 128);
                }
            } else {
                for (int i = 0; i < n; ++i) {
                    SYNC(1 + i % 2, 128);
                    out[i * 64 + t] = ring[i % 2][t] + 1;
                    if (i + 2 < n) ARRIVE(3 + i % 2, 128);
                }
            }
        }""")
    out = cp.zeros((12, 64), cp.int32)
    kernel((1,), (128,), (cp.asarray(x), out, np.int32(12)))
    return {"x": x, "out": out}


@program(
    "each pair of warps has a barrier of its own, numbered at run time",
    expect=lambda v: {"out": np.concatenate([np.arange(64)[::-1] + 100 * i for i in range(7)]).astype(np.int32)},
)
def a_barrier_for_each_pair():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* out) {
            __shared__ int a[448];
            int pair = threadIdx.x / 64, t = threadIdx.x % 64;
            a[threadIdx.x] = t + 100 * pair;
            SYNC(pair + 1, 64);
            out[threadIdx.x] = a[pair * 64 + 63 - t];
        }""")
    out = cp.zeros(448, cp.int32)
    kernel((1,), (448,), (out,))
    return {"out": out}


@program(
    "all sixteen barriers, and numbers above 15, which wrap",
    expect=lambda v: {"out": np.full(64, sum(range(1, 33)), np.int32)},
)
def sixteen_barriers():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* out) {
            __shared__ int a[64];
            int t = threadIdx.x, sum = 0;
            for (int i = 0; i < 32; ++i) {
                a[t] = i + 1;
                SYNC(i, 64);
                sum += a[63 - t];
                SYNC(i, 64);
            }
            out[t] = sum;
        }""")
    out = cp.zeros(64, cp.int32)
    kernel((1,), (64,), (out,))
    return {"out": out}


@program(
    "bar.red over two of three warps: count, all, any",
    expect=lambda v: {"out": np.array([[50, 0, 1]] * 64 + [[-1, -1, -1]] * 32, np.int32)},
)
def reduction_of_some_warps():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* out) {
            int t = threadIdx.x;
            if (t >= 64) return;
            int n, all, any;
            asm volatile("{ .reg .pred p, q; setp.lt.u32 p, %3, 50;\n"
                         "bar.red.popc.u32 %0, 1, 64, p;\n"
                         "bar.red.and.pred q, 2, 64, p; selp.u32 %1, 1, 0, q;\n"
                         "bar.red.or.pred q, 3, 64, p; selp.u32 %2, 1, 0, q; }"
                         : "=r"(n), "=r"(all), "=r"(any) : "r"(t) : "memory");
            out[3 * t] = n; out[3 * t + 1] = all; out[3 * t + 2] = any;
        }""")
    out = cp.full((96, 3), -1, cp.int32)
    kernel((1,), (96,), (out,))
    return {"out": out}


@program(
    "a warp counts as 32 threads however many lanes it has, or still has",
    expect=lambda v: {"small": np.ones(100, np.int32), "exited": np.tile([1, 0], 32).astype(np.int32)},
)
def whole_warps_count():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* out, int n, int odd) {
            int t = threadIdx.x;
            if (odd && t % 2) return;
            SYNC(1, n);
            out[t] = 1;
        }""")
    small, exited = cp.zeros(100, cp.int32), cp.zeros(64, cp.int32)
    kernel((1,), (100,), (small, np.int32(128), np.int32(0)))
    kernel((1,), (64,), (exited, np.int32(64), np.int32(1)))
    return {"small": small, "exited": exited}


@program(
    "one lane arrives for its warp, and one lane waits for its warp",
    expect=lambda v: {
        "arrive": np.repeat([1, 2], 32).astype(np.int32),
        "wait": np.tile([1] + [3] * 31, 2).astype(np.int32),
    },
)
def single_lanes():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* arrive, int* wait) {
            int t = threadIdx.x;
            if (t < 32) { if (t == 0) ARRIVE(1, 64); arrive[t] = 1; }
            else { SYNC(1, 64); arrive[t] = 2; }
            if (t % 32 == 0) { SYNC(2, 64); wait[t] = 1; } else wait[t] = 3;
        }""")
    arrive, wait = cp.zeros(64, cp.int32), cp.zeros(64, cp.int32)
    kernel((1,), (64,), (arrive, wait))
    return {"arrive": arrive, "wait": wait}


@program(
    "__barrier_sync and __barrier_sync_count; a count of 0 means all threads",
    expect=lambda v: {"out": (np.arange(96)[::-1] * 3).astype(np.int32)},
)
def intrinsics():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* out, int id, int none) {
            __shared__ int a[96];
            int t = threadIdx.x;
            a[t] = t;
            __barrier_sync(id);
            int x = a[95 - t];
            __barrier_sync_count(id + 1, 96);
            a[t] = 2 * t;
            SYNC(id, none);
            out[t] = x + a[95 - t];
        }""")
    out = cp.zeros(96, cp.int32)
    kernel((1,), (96,), (out, np.int32(5), np.int32(0)))
    return {"out": out}


@program(
    "a loop in which four warps hand a token round by barriers",
    expect=lambda v: {"log": np.arange(24, dtype=np.int32) % 4, "order": np.arange(24, dtype=np.int32)},
)
def token_ring():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* log, int* order) {
            __shared__ volatile int next;
            int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
            if (threadIdx.x == 0) next = 0;
            __syncthreads();
            for (int round = 0; round < 6; ++round) {
                if (warp || round) SYNC(1 + warp, 64);        // wait for the warp before
                if (lane == 0) { int at = next; log[at] = warp; order[at] = at; next = at + 1; }
                __syncwarp();
                if (warp < 3 || round < 5) ARRIVE(1 + (warp + 1) % 4, 64);
            }
        }""")
    log, order = cp.full(24, -1, cp.int32), cp.full(24, -1, cp.int32)
    kernel((1,), (128,), (log, order))
    return {"log": log, "order": order}


@program("a count that is no multiple of 32 ends the launch", isolated=True, expect=lambda v: {"raised": _ILLEGAL})
def uneven_count():
    kernel = _kernel(r"""extern "C" __global__ void k(int* out, int n) { SYNC(1, n); out[threadIdx.x] = 1; }""")
    kernel((1,), (64,), (cp.zeros(64, cp.int32), np.int32(40)))
    return {"raised": raised(cp.cuda.runtime.deviceSynchronize)}


_ILLEGAL = "CUDARuntimeError 715 cudaErrorIllegalInstruction: an illegal instruction was encountered"


@program("bar.red and bar.sync at one barrier end the launch", isolated=True, expect=lambda v: {"raised": _ILLEGAL})
def reduction_mixed_with_sync():
    kernel = _kernel(r"""
        extern "C" __global__ void k(int* out) {
            int t = threadIdx.x, r = 0;
            if (t >= 32)
                asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 50; bar.red.popc.u32 %0, 1, 64, p; }"
                             : "=r"(r) : "r"(t));
            else SYNC(1, 64);
            out[t] = r;
        }""")
    kernel((1,), (64,), (cp.zeros(64, cp.int32),))
    return {"raised": raised(cp.cuda.runtime.deviceSynchronize)}
