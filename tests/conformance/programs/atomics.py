"""Atomic operations: what they return, wrap-around, compare-and-swap loops, floats, shared memory, scopes."""

import numpy as np

from cudalab import cp

from ..program import near, program


@program(
    "atomicAdd returns the old value: each thread gets a number of its own",
    expect=lambda v: {"tickets": np.arange(1000, dtype=np.int32), "count": 1000},
)
def tickets():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* count, int* tickets) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < 1000) tickets[i] = atomicAdd(count, 1);
        }""",
        "k",
    )
    count, numbers = cp.zeros(1, cp.int32), cp.zeros(1000, cp.int32)
    kernel((8,), (128,), (count, numbers))
    return {"tickets": np.sort(numbers.get()), "count": int(count[0])}


def _combined(v):
    x = v["x"]
    u = x.view(np.uint32)
    return {
        "signed": np.array([x.sum(dtype=np.int32), -x.sum(dtype=np.int32), x.min(), x.max()], np.int32),
        "unsigned": np.array(
            [u.min(), u.max(), np.bitwise_and.reduce(u), np.bitwise_or.reduce(u), np.bitwise_xor.reduce(u)]
        ),
    }


@program("add, sub, min, max, and, or, xor on 32-bit words, signed and unsigned", expect=_combined)
def word_operations():
    x = np.random.default_rng(30).integers(-(2**31), 2**31 - 1, 300).astype(np.int32)
    x |= 1 << 4
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* x, int* s, unsigned* u) {
            int v = x[blockIdx.x * blockDim.x + threadIdx.x];
            atomicAdd(s, v); atomicSub(s + 1, v); atomicMin(s + 2, v); atomicMax(s + 3, v);
            atomicMin(u, (unsigned)v); atomicMax(u + 1, (unsigned)v);
            atomicAnd(u + 2, (unsigned)v); atomicOr(u + 3, (unsigned)v); atomicXor(u + 4, (unsigned)v);
        }""",
        "k",
    )
    s = cp.asarray([0, 0, 2**31 - 1, -(2**31)], dtype=cp.int32)
    u = cp.asarray([2**32 - 1, 0, 2**32 - 1, 0, 0], dtype=cp.uint32)
    kernel((3,), (100,), (cp.asarray(x), s, u))
    return {"x": x, "signed": s, "unsigned": u}


def _long(v):
    x = v["x"]
    u = x.view(np.uint64)
    ops = (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.minimum, np.maximum)
    return {
        "sum": u.sum(dtype=np.uint64),
        "words": np.array([f.reduce(u) for f in ops], np.uint64),
        "signed": np.array([x.min(), x.max()]),
    }


@program("64-bit atomics: add, bitwise, minimum and maximum of both kinds", expect=_long)
def long_operations():
    x = np.random.default_rng(31).integers(-(2**63), 2**63 - 1, 256)
    kernel = cp.RawKernel(
        r"""
        typedef unsigned long long u64;
        extern "C" __global__ void k(const long long* x, u64* sum, u64* words, long long* s) {
            long long v = x[threadIdx.x]; u64 u = v;
            atomicAdd(sum, u);
            atomicAnd(words, u); atomicOr(words + 1, u); atomicXor(words + 2, u);
            atomicMin(words + 3, u); atomicMax(words + 4, u);
            atomicMin(s, v); atomicMax(s + 1, v);
        }""",
        "k",
    )
    total = cp.zeros(1, cp.uint64)
    words = cp.asarray([2**64 - 1, 0, 0, 2**64 - 1, 0], dtype=cp.uint64)
    s = cp.asarray([2**63 - 1, -(2**63)], dtype=cp.int64)
    kernel((1,), (256,), (cp.asarray(x), total, words, s))
    return {"x": x, "sum": total.get()[0], "words": words, "signed": s}


@program(
    "atomicInc and atomicDec wrap at their bound",
    expect=lambda v: {
        "inc": 100 % 8,
        "dec": (3 - 100) % 8,
        "above": 1,
        "old": np.sort(np.arange(100, dtype=np.uint32) % 8),
    },
)
def wrapping_counters():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(unsigned* c, unsigned* old) {
            old[threadIdx.x] = atomicInc(c, 7);
            atomicDec(c + 1, 7);
            if (threadIdx.x < 2) atomicInc(c + 2, 5);
        }""",
        "k",
    )
    c, old = cp.asarray([0, 3, 900], dtype=cp.uint32), cp.zeros(100, cp.uint32)
    kernel((1,), (100,), (c, old))
    inc, dec, above = (int(x) for x in c.get())
    return {"inc": inc, "dec": dec, "above": above, "old": np.sort(old.get())}


@program(
    "atomicExch passes a token on: all values come out but the last",
    expect=lambda v: {"all": np.arange(257, dtype=np.int32), "float": 1.5},
)
def exchange():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* slot, int* old, float* f, unsigned long long* wide) {
            old[threadIdx.x] = atomicExch(slot, threadIdx.x + 1);
            if (threadIdx.x == 0) { atomicExch(f, 1.5f); wide[1] = atomicExch(wide, 1ull << 40); }
        }""",
        "k",
    )
    slot, old, f, wide = cp.zeros(1, cp.int32), cp.zeros(256, cp.int32), cp.zeros(1, cp.float32), cp.zeros(2, cp.uint64)
    wide[0] = 77
    kernel((1,), (256,), (slot, old, f, wide))
    everything = np.sort(np.concatenate([old.get(), slot.get()]))
    return {"all": everything, "float": float(f[0]), "wide": wide}


@program(
    "compare-and-swap: exactly one of many wins, and the loser sees the winner's value",
    expect=lambda v: {"winners": 1, "seen by losers": 1, "wide": np.array([5, 9], np.uint64), "short": 3},
)
def compare_and_swap():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* slot, int* winners, int* consistent, unsigned long long* wide,
            unsigned short* half) {
            int t = threadIdx.x, old = atomicCAS(slot, -1, t);
            if (old == -1) atomicAdd(winners, 1);
            __syncthreads();
            if (old != -1 && old != *slot) atomicExch(consistent, 0);
            if (t == 0) {
                atomicCAS(wide, 4ull, 5ull); atomicCAS(wide + 1, 4ull, 5ull);
                atomicCAS(half + 1, (unsigned short)2, (unsigned short)3);
            }
        }""",
        "k",
    )
    slot, winners, consistent = cp.full(1, -1, cp.int32), cp.zeros(1, cp.int32), cp.ones(1, cp.int32)
    wide, half = cp.asarray([4, 9], dtype=cp.uint64), cp.asarray([1, 2], dtype=cp.uint16)
    kernel((1,), (256,), (slot, winners, consistent, wide, half))
    return {
        "winners": int(winners[0]), "seen by losers": int(consistent[0]), "wide": wide, "short": int(half[1]),
        "neighbour": int(half[0]),
    }  # fmt: skip


@program(
    "a CAS loop makes atomics that CUDA lacks: float maximum, and double product of powers of two",
    expect=lambda v: {"max": v["x"].max(), "product": 2.0**-60},
)
def cas_loops():
    x = np.random.default_rng(32).standard_normal(512).astype(np.float32)
    kernel = cp.RawKernel(
        r"""
        __device__ void atomicMaxFloat(float* address, float value) {
            int* word = (int*)address, old = *word, seen;
            do {
                seen = old;
                if (__int_as_float(seen) >= value) return;
                old = atomicCAS(word, seen, __float_as_int(value));
            } while (old != seen);
        }
        __device__ void atomicMul(double* address, double factor) {
            unsigned long long *word = (unsigned long long*)address, old = *word, seen;
            do {
                seen = old;
                old = atomicCAS(word, seen, __double_as_longlong(factor * __longlong_as_double(seen)));
            } while (old != seen);
        }
        extern "C" __global__ void k(const float* x, float* high, double* product) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            atomicMaxFloat(high, x[i]);
            if (i < 120) atomicMul(product, i % 4 ? 0.5 : 2.0);
        }""",
        "k",
    )
    high, product = cp.full(1, -100, cp.float32), cp.ones(1)
    kernel((4,), (128,), (cp.asarray(x), high, product))
    return {"x": x, "max": high.get()[0], "product": float(product[0])}


@program(
    "float and double atomicAdd: exact where the sum is, and within rounding where order counts",
    expect=lambda v: {
        "exact": np.float32(np.arange(500).sum() * 0.25),
        "double": v["x"].astype(np.float64).sum(),
        "any order": near(v["x"].astype(np.float64).sum(), 1e-5, 1e-4),
    },
    tolerance={"any order": (1e-5, 1e-4), "double": (1e-14, 1e-14)},
)
def float_addition():
    x = (np.random.default_rng(33).integers(-(2**20), 2**20, 500) / 2**16).astype(np.float32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* x, float* f, double* d, int* negative) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= 500) return;
            atomicAdd(f, i * 0.25f);
            atomicAdd(f + 1, x[i] * 1.1f);
            atomicAdd(d, (double)x[i]);
            if (atomicAdd(d + 1, 1.0) < 0) *negative = 1;
        }""",
        "k",
    )
    f, d, negative = cp.zeros(2, cp.float32), cp.zeros(2), cp.zeros(1, cp.int32)
    kernel((4,), (128,), (cp.asarray(x), f, d, negative))
    return {
        "x": x, "exact": f.get()[0], "any order": f.get()[1] / np.float32(1.1), "double": d.get()[0],
        "count": float(d[1]), "negative": int(negative[0]),
    }  # fmt: skip


@program(
    "a histogram in shared memory, merged with global atomics",
    expect=lambda v: {"bins": np.bincount(v["x"], minlength=64).astype(np.int32)},
)
def shared_histogram():
    x = (np.random.default_rng(34).standard_normal(5000) * 9 + 32).clip(0, 63).astype(np.uint8)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const unsigned char* x, int n, int* bins) {
            __shared__ int local[64];
            for (int b = threadIdx.x; b < 64; b += blockDim.x) local[b] = 0;
            __syncthreads();
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
            i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1);
            __syncthreads();
            for (int b = threadIdx.x; b < 64; b += blockDim.x) atomicAdd(&bins[b], local[b]);
        }""",
        "k",
    )
    bins = cp.zeros(64, cp.int32)
    kernel((6,), (160,), (cp.asarray(x), np.int32(5000), bins))
    return {"x": x, "bins": bins}


@program(
    "floats, doubles and 64-bit words added in shared memory",
    expect=lambda v: {
        "f": np.float32(128 * 127 / 4),
        "d": 128 * 0.125,
        "l": np.uint64(128 << 33),
        "least": np.int32(-127),
    },
)
def shared_wide_atomics():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(float* f, double* d, unsigned long long* l, int* least) {
            __shared__ float sf; __shared__ double sd; __shared__ unsigned long long sl; __shared__ int sm;
            int t = threadIdx.x;
            if (t == 0) { sf = 0; sd = 0; sl = 0; sm = 5; }
            __syncthreads();
            atomicAdd(&sf, t * 0.5f); atomicAdd(&sd, 0.125); atomicAdd(&sl, 1ull << 33); atomicMin(&sm, -t);
            __syncthreads();
            if (t == 0) { *f = sf; *d = sd; *l = sl; *least = sm; }
        }""",
        "k",
    )
    f, d, whole, least = cp.zeros(1, "f4"), cp.zeros(1), cp.zeros(1, "u8"), cp.zeros(1, "i4")
    kernel((1,), (128,), (f, d, whole, least))
    return {"f": f.get()[0], "d": float(d[0]), "l": whole.get()[0], "least": least.get()[0]}


@program(
    "atomics of block and system scope, and on module variables through a function's pointer",
    expect=lambda v: {"values": [64, 64, 64 * 3, 2 * 63]},
)
def scopes():
    module = cp.RawModule(
        code=r"""
        __device__ int counts[2];
        __device__ __noinline__ void bump(int* p, int by) { atomicAdd(p, by); }
        extern "C" __global__ void k(int* out) {
            atomicAdd_system(out, 1);
            atomicAdd_block(out + 1, 1);
            bump(counts + (threadIdx.x & 0), 3);
            atomicMax_system(counts + 1, 2 * (int)threadIdx.x);
        }"""
    )
    out = cp.zeros(2, cp.int32)
    module.get_function("k")((1,), (64,), (out,))
    counts = cp.ndarray(2, cp.int32, memptr=module.get_global("counts"))
    return {"values": [int(x) for x in out.get()] + [int(x) for x in counts.get()]}


@program(
    "a lock of CAS and fences: one thread of each block adds under it",
    expect=lambda v: {"total": 32 * 10, "lock": 0},
)
def spin_lock():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(int* lock, volatile int* total) {
            if (threadIdx.x != 0) return;
            for (int i = 0; i < 10; ++i) {
                while (atomicCAS(lock, 0, 1) != 0) { }
                __threadfence();
                *total = *total + 1;
                __threadfence();
                atomicExch(lock, 0);
            }
        }""",
        "k",
    )
    lock, total = cp.zeros(1, cp.int32), cp.zeros(1, cp.int32)
    kernel((32,), (64,), (lock, total))
    return {"total": int(total[0]), "lock": int(lock[0])}


@program(
    "a union-find with atomicMin: components of a graph",
    expect=lambda v: {"label": np.arange(600, dtype=np.int32) % 3},
)
def union_find():
    nodes = np.random.default_rng(35).permutation(np.arange(3, 600))
    edges = np.stack([nodes, nodes - 3], axis=1).astype(np.int32)
    kernel = cp.RawKernel(
        r"""
        __device__ int root(volatile int* parent, int i) { while (parent[i] != i) i = parent[i]; return i; }
        extern "C" __global__ void join(const int2* edges, int n, int* parent) {
            int e = blockIdx.x * blockDim.x + threadIdx.x;
            if (e >= n) return;
            int a = edges[e].x, b = edges[e].y;
            while (true) {
                a = root(parent, a); b = root(parent, b);
                if (a == b) break;
                if (a < b) { int t = a; a = b; b = t; }
                int old = atomicMin(parent + a, b);
                if (old == a) break;
                a = old;
            }
        }""",
        "join",
    )
    parent = cp.arange(600, dtype=cp.int32)
    kernel((5,), (128,), (cp.asarray(edges), np.int32(len(edges)), parent))
    label = parent.get()
    while (label[label] != label).any():
        label = label[label]
    return {"label": label}
