"""Warp operations: the four shuffles, votes, matches, reductions, syncwarp, active masks."""

import numpy as np

from cudalab import cp

from ..program import program

LANES = np.arange(32)


def _shuffles(v):
    x = v["x"]
    return {
        "up": np.where(LANES >= 5, x[LANES - 5], x),
        "down": np.where(LANES + 5 < 32, x[(LANES + 5) % 32], x),
        "xor": x[LANES ^ 13],
        "index": x[(LANES * 7) % 32],
    }


@program("the four shuffles over a whole warp", expect=_shuffles)
def shuffles():
    x = np.random.default_rng(20).integers(0, 10**6, 32).astype(np.int32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* x, int* out) {
            int t = threadIdx.x, v = x[t];
            out[t] = __shfl_up_sync(~0u, v, 5);
            out[32 + t] = __shfl_down_sync(~0u, v, 5);
            out[64 + t] = __shfl_xor_sync(~0u, v, 13);
            out[96 + t] = __shfl_sync(~0u, v, t * 7);
        }""",
        "k",
    )
    out = cp.zeros((4, 32), cp.int32)
    kernel((1,), (32,), (cp.asarray(x), out))
    return {"x": x, "up": out[0], "down": out[1], "xor": out[2], "index": out[3]}


def _widths(v):
    base, lane = LANES // 8 * 8, LANES % 8
    return {
        "index": (base + (LANES + 11) % 8).astype(np.int32),
        "up": np.where(lane >= 3, LANES - 3, LANES).astype(np.int32),
        "down": np.where(lane + 3 < 8, LANES + 3, LANES).astype(np.int32),
        "xor": np.where((LANES ^ 10) // 8 <= LANES // 8, LANES ^ 10, LANES).astype(np.int32),
    }


@program("shuffles in segments of eight: the source stays inside, or the lane keeps its own value", expect=_widths)
def shuffle_widths():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* out) {
            int t = threadIdx.x;
            out[t] = __shfl_sync(~0u, t, t + 11, 8);
            out[32 + t] = __shfl_up_sync(~0u, t, 3, 8);
            out[64 + t] = __shfl_down_sync(~0u, t, 3, 8);
            out[96 + t] = __shfl_xor_sync(~0u, t, 10, 8);
        }""",
        "k",
    )
    out = cp.zeros((4, 32), cp.int32)
    kernel((1,), (32,), (out,))
    return {"index": out[0], "up": out[1], "down": out[2], "xor": out[3]}


@program(
    "values of 8 bytes, floats and shorts travel whole",
    expect=lambda v: {
        "rolled": np.roll(v["d"], 1),
        "mirrored": v["l"][LANES ^ 31],
        "one": np.full(32, v["d"][9], np.float32),
        "short": (-LANES[::-1]).astype(np.int16),
    },
)
def shuffle_types():
    d = np.random.default_rng(21).standard_normal(32)
    whole = np.random.default_rng(22).integers(-(2**62), 2**62, 32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const double* d, const long long* l, double* od, long long* ol, float* of,
            short* os) {
            int t = threadIdx.x;
            od[t] = __shfl_sync(~0u, d[t], t + 31);
            ol[t] = __shfl_xor_sync(~0u, l[t], 31);
            of[t] = __shfl_sync(~0u, (float)d[t], 9);
            os[t] = (short)__shfl_sync(~0u, (int)(short)-t, 31 - t);
        }""",
        "k",
    )
    od, ol, of, os = (cp.zeros(32, t) for t in (cp.float64, cp.int64, cp.float32, cp.int16))
    kernel((1,), (32,), (cp.asarray(d), cp.asarray(whole), od, ol, of, os))
    return {"d": d, "l": whole, "rolled": od, "mirrored": ol, "one": of, "short": os}


def _votes(v):
    x = v["x"].reshape(4, 32)
    odd = x % 2 == 1
    return {
        "ballot": (odd << LANES).sum(axis=1).astype(np.uint32),
        "any": (x > 90).any(axis=1).astype(np.int32),
        "all": (x >= 0).all(axis=1).astype(np.int32),
    }


@program("votes: ballot, any, all in each warp of a block", expect=_votes)
def votes():
    x = np.random.default_rng(23).integers(0, 92, 128).astype(np.int32)
    x[70] = -1
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* x, unsigned* ballot, int* any, int* all, int* uniform) {
            int t = threadIdx.x, w = t / 32, v = x[t];
            unsigned b = __ballot_sync(~0u, v & 1);
            int some = __any_sync(~0u, v > 90), every = __all_sync(~0u, v >= 0), same = __uni_sync(~0u, v / 128);
            if (t % 32 == 3) { ballot[w] = b; any[w] = some != 0; all[w] = every != 0; uniform[w] = same != 0; }
        }""",
        "k",
    )
    ballot, some, every, uniform = (cp.zeros(4, t) for t in (cp.uint32, cp.int32, cp.int32, cp.int32))
    kernel((1,), (128,), (cp.asarray(x), ballot, some, every, uniform))
    return {"x": x, "ballot": ballot, "any": some, "all": every, "uniform": uniform}


@program(
    "lanes named by a mask vote and shuffle in a branch, the others not",
    expect=lambda v: {
        "ballot": np.where(LANES % 3 == 0, sum(1 << i for i in range(0, 32, 9)), 7).astype(np.uint32),
        "next": np.where(LANES % 3 == 0, np.where(LANES < 30, LANES + 3, 0), -1).astype(np.int32),
    },
)
def masked_operations():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(unsigned* ballot, int* next) {
            int t = threadIdx.x;
            unsigned mask = __ballot_sync(~0u, t % 3 == 0);
            if (t % 3 == 0) {
                ballot[t] = __ballot_sync(mask, t % 9 == 0);
                next[t] = __shfl_sync(mask, t, t < 30 ? t + 3 : 0);
            } else {
                ballot[t] = 7; next[t] = -1;
            }
        }""",
        "k",
    )
    ballot, following = cp.zeros(32, cp.uint32), cp.zeros(32, cp.int32)
    kernel((1,), (32,), (ballot, following))
    return {"ballot": ballot, "next": following}


def _matches(v):
    x = v["x"]
    return {"any": np.array([sum(1 << j for j in range(32) if x[j] == x[i]) for i in range(32)], np.uint32)}


@program("match_any groups lanes by value, match_all asks whether all agree", expect=_matches)
def matches():
    x = np.random.default_rng(24).integers(0, 5, 32).astype(np.int64) << 33
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const long long* x, unsigned* any, unsigned* all, int* flags) {
            int t = threadIdx.x, same;
            any[t] = __match_any_sync(~0u, x[t]);
            all[t] = __match_all_sync(~0u, x[t], &same); flags[t] = same;
            all[32 + t] = __match_all_sync(~0u, (int)x[t], &same); flags[32 + t] = same;
        }""",
        "k",
    )
    some, every, flags = cp.zeros(32, cp.uint32), cp.zeros((2, 32), cp.uint32), cp.zeros((2, 32), cp.int32)
    kernel((1,), (32,), (cp.asarray(x), some, every, flags))
    return {"x": x, "any": some, "all": every, "flags": flags}


def _redux(v):
    x = v["x"]
    even, odd = x[::2], x[1::2]
    rows = [[p.sum(), p.min(), p.max(), np.bitwise_and.reduce(p), np.bitwise_or.reduce(p), np.bitwise_xor.reduce(p)]
            for p in (even, odd)]  # fmt: skip
    return {"out": np.array(rows, np.int64).astype(np.int32)[LANES % 2].T}


@program("reductions of a warp in one instruction, over the lanes of a mask", expect=_redux)
def warp_reductions():
    x = np.random.default_rng(25).integers(-(2**20), 2**20, 32).astype(np.int32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* x, int* out, unsigned* umax) {
            int t = threadIdx.x, v = x[t];
            unsigned mask = t & 1 ? 0xaaaaaaaau : 0x55555555u;
            int r[] = {__reduce_add_sync(mask, v), __reduce_min_sync(mask, v), __reduce_max_sync(mask, v),
                       (int)__reduce_and_sync(mask, (unsigned)v), (int)__reduce_or_sync(mask, (unsigned)v),
                       (int)__reduce_xor_sync(mask, (unsigned)v)};
            for (int i = 0; i < 6; ++i) out[32 * i + t] = r[i];
            umax[t] = __reduce_max_sync(mask, (unsigned)v);
        }""",
        "k",
    )
    out, umax = cp.zeros((6, 32), cp.int32), cp.zeros(32, cp.uint32)
    kernel((1,), (32,), (cp.asarray(x), out, umax))
    return {"x": x, "out": out, "umax": umax}


@program(
    "lanes exchange through shared memory across __syncwarp",
    expect=lambda v: {"out": np.stack([(LANES ^ 1) + 64, (LANES + 1) % 32 + 96]).astype(np.int32)},
)
def syncwarp_exchange():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* out) {
            __shared__ int a[64];
            int t = threadIdx.x, lane = t % 32, base = t - lane;
            a[t] = t + 64;
            __syncwarp();
            int v = base ? a[base + (lane + 1) % 32] : a[lane ^ 1];
            __syncwarp();
            a[t] = v;
            __syncwarp();
            out[t] = a[t];
        }""",
        "k",
    )
    out = cp.zeros((2, 32), cp.int32)
    kernel((1,), (64,), (out,))
    return {"out": out}


@program("active masks in branches, nested branches and a loop that lanes leave (typical)")
def active_masks():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(unsigned* out, int* dummy) {
            int t = threadIdx.x;
            out[t] = __activemask();
            if (t < 12) {
                out[32 + t] = __activemask();
                if (t & 1) out[64 + t] = __activemask();
            }
            for (int i = 0; i < t; ++i) {
                unsigned m = __activemask();
                if (i == 10) out[96 + t] = m;
                dummy[t] += __popc(m);
            }
        }""",
        "k",
    )
    out, dummy = cp.zeros((4, 32), cp.uint32), cp.zeros(32, cp.int32)
    kernel((1,), (32,), (out, dummy))
    return {"out": out[:3]}


@program(
    "a block of 40 threads: the second warp has eight lanes",
    expect=lambda v: {
        "ballot": np.array([0xFFFFFFFF, 0xFF], np.uint32),
        "sum": np.array([sum(range(32)), sum(range(32, 40))], np.int32),
    },
)
def partial_warp():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(unsigned* ballot, int* sum) {
            int t = threadIdx.x, w = t / 32;
            unsigned mask = w ? 0xffu : ~0u;
            unsigned b = __ballot_sync(mask, 1);
            int v = t;
            for (int d = w ? 4 : 16; d; d /= 2) v += __shfl_down_sync(mask, v, d);
            if (t % 32 == 0) { ballot[w] = b; sum[w] = v; }
        }""",
        "k",
    )
    ballot, total = cp.zeros(2, cp.uint32), cp.zeros(2, cp.int32)
    kernel((1,), (40,), (ballot, total))
    return {"ballot": ballot, "sum": total}


def _lanes(v):
    return {
        "lane": (np.arange(96) % 32).astype(np.int32),
        "warp": (np.arange(96) // 32).astype(np.int32),
        "below": ((1 << (np.arange(96) % 32)) - 1).astype(np.uint32),
    }


@program("lanes of a 2-D block are numbered x first; special registers name them", expect=_lanes)
def lane_numbering():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* lane, int* warp, unsigned* below, int* size) {
            int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
            unsigned l, b;
            asm("mov.u32 %0, %%laneid;" : "=r"(l));
            asm("mov.u32 %0, %%lanemask_lt;" : "=r"(b));
            lane[t] = l; below[t] = b; warp[t] = __shfl_sync(~0u, t, 0) / warpSize;
            if (t == 0) *size = warpSize;
        }""",
        "k",
    )
    lane, warp, below, size = (cp.zeros(n, t) for n, t in ((96, "i4"), (96, "i4"), (96, "u4"), (1, "i4")))
    kernel((1,), (4, 6, 4), (lane, warp, below, size))
    return {"lane": lane, "warp": warp, "below": below, "warpSize": int(size[0])}


@program(
    "a warp scan and a block sum made of shuffles",
    expect=lambda v: {
        "scan": np.cumsum(v["x"].reshape(-1, 32), axis=1, dtype=np.int32).reshape(-1),
        "sum": np.int32(v["x"].sum()),
    },
)
def shuffle_scan():
    x = np.random.default_rng(26).integers(-99, 99, 256).astype(np.int32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* x, int* scan, int* sum) {
            __shared__ int parts[32];
            int t = threadIdx.x, lane = t & 31, w = t >> 5, v = x[t];
            for (int d = 1; d < 32; d <<= 1) {
                int u = __shfl_up_sync(~0u, v, d);
                if (lane >= d) v += u;
            }
            scan[t] = v;
            if (lane == 31) parts[w] = v;
            __syncthreads();
            if (w == 0) {
                int p = lane < blockDim.x / 32 ? parts[lane] : 0;
                for (int d = 16; d; d >>= 1) p += __shfl_xor_sync(~0u, p, d);
                if (lane == 7) *sum = p;
            }
        }""",
        "k",
    )
    scan, total = cp.zeros(256, cp.int32), cp.zeros(1, cp.int32)
    kernel((1,), (256,), (cp.asarray(x), scan, total))
    return {"x": x, "scan": scan, "sum": total.get()[0]}


@program(
    "lanes leave a loop one by one while the rest keep voting",
    expect=lambda v: {"rounds": np.array([bin(int(x)).count("1") for x in v["x"]], np.int32), "left": 0},
)
def voting_loop():
    x = np.random.default_rng(27).integers(1, 2**16, 32).astype(np.uint32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const unsigned* x, int* rounds, int* left) {
            int t = threadIdx.x, n = 0;
            unsigned v = x[t];
            while (__any_sync(~0u, v != 0)) {
                if (v) { v &= v - 1; ++n; }
            }
            rounds[t] = n;
            if (t == 0) *left = __popc(v);
        }""",
        "k",
    )
    rounds, left = cp.zeros(32, cp.int32), cp.ones(1, cp.int32)
    kernel((1,), (32,), (cp.asarray(x), rounds, left))
    return {"x": x, "rounds": rounds, "left": int(left[0])}


@program(
    "one atomic a warp: a leader adds for all lanes that want a place",
    expect=lambda v: {"kept": np.sort(v["x"][v["x"] % 3 == 0]), "count": int((v["x"] % 3 == 0).sum())},
)
def warp_aggregated_atomics():
    x = np.random.default_rng(28).integers(0, 10**6, 500).astype(np.int32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* x, int n, int* kept, int* count) {
            int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
            bool want = i < n && x[i] % 3 == 0;
            unsigned mask = __ballot_sync(~0u, want);
            int leader = __ffs(mask) - 1, base = 0;
            if (mask && lane == leader) base = atomicAdd(count, __popc(mask));
            base = __shfl_sync(~0u, base, leader < 0 ? 0 : leader);
            if (want) kept[base + __popc(mask & ((1u << lane) - 1))] = x[i];
        }""",
        "k",
    )
    kept, count = cp.zeros(500, cp.int32), cp.zeros(1, cp.int32)
    kernel((4,), (128,), (cp.asarray(x), np.int32(500), kept, count))
    n = int(count[0])
    return {"x": x, "kept": np.sort(kept.get()[:n]), "count": n}
