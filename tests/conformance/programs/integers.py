"""Integer arithmetic: wrap-around, division, shifts, bit tricks, wide products, narrow types."""

import numpy as np

from cudalab import cp

from ..program import program

EDGES32 = np.array([0, 1, -1, 2, -2, 7, -7, 100, -100, 65535, 2**31 - 1, -(2**31) + 1, 0x1234567], np.int32)
EDGES64 = np.array([0, 1, -1, 3, -3, 2**31, -(2**31), 2**40 + 7, 2**63 - 1, -(2**63) + 1, 0x123456789ABCDEF], np.int64)


@program(
    "unsigned arithmetic wraps around, and signed bit patterns agree with it",
    expect=lambda v: {
        "add": v["a"] + v["b"],
        "sub": v["a"] - v["b"],
        "mul": v["a"] * v["b"],
        "neg": np.uint32(0) - v["a"],
    },
)
def wraparound():
    a = np.repeat(EDGES32.view(np.uint32), EDGES32.size)
    b = np.tile(EDGES32.view(np.uint32), EDGES32.size)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const unsigned* a, const unsigned* b, unsigned* out, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= n) return;
            out[i] = a[i] + b[i];
            out[n + i] = a[i] - b[i];
            out[2 * n + i] = a[i] * b[i];
            out[3 * n + i] = -a[i];
        }""",
        "k",
    )
    out = cp.zeros((4, a.size), cp.uint32)
    kernel((3,), (64,), (cp.asarray(a), cp.asarray(b), out, np.int32(a.size)))
    add, sub, mul, neg = out.get()
    return {"a": a, "b": b, "add": add, "sub": sub, "mul": mul, "neg": neg}


def _truncated(v):
    pairs = zip(v["a"].tolist(), v["b"].tolist(), strict=True)
    quotient = np.array([abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs])
    remainder = np.array(
        [x - y * z for x, y, z in zip(v["a"].tolist(), v["b"].tolist(), quotient.tolist(), strict=True)]
    )
    return {"quotient": quotient.astype(np.int64), "remainder": remainder.astype(np.int64)}


@program("signed division truncates towards zero, the remainder has the dividend's sign", expect=_truncated)
def signed_division():
    values = EDGES64[(EDGES64 > -(2**52)) & (EDGES64 < 2**52)]
    a, b = np.repeat(values, values.size), np.tile(values, values.size)
    a, b = a[b != 0], b[b != 0]
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const long long* a, const long long* b, long long* out, int n) {
            int i = threadIdx.x;
            if (i < n) { out[i] = a[i] / b[i]; out[n + i] = a[i] % b[i]; }
        }""",
        "k",
    )
    out = cp.zeros((2, a.size), cp.int64)
    kernel((1,), (128,), (cp.asarray(a), cp.asarray(b), out, np.int32(a.size)))
    return {"a": a, "b": b, "quotient": out[0], "remainder": out[1]}


@program(
    "division and remainder by constants and by variables agree for 32-bit unsigned and signed",
    expect=lambda v: {"unsigned": np.stack([v["u"] // 7, v["u"] % 10, v["u"] // 641]), "agree": 1},
)
def division_by_constants():
    u = np.array([0, 1, 6, 7, 8, 640, 641, 99999, 2**31, 2**32 - 1, 2**32 - 7, 123456789], np.uint32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const unsigned* u, unsigned* out, int n, unsigned seven, int ten, int* agree) {
            int i = threadIdx.x;
            if (i >= n) return;
            out[i] = u[i] / 7; out[n + i] = u[i] % 10; out[2 * n + i] = u[i] / 641;
            int s = (int)u[i];
            bool same = u[i] / 7 == u[i] / seven && s / 10 == s / ten && s % 10 == s % ten && s / -7 == -(s /
            (int)seven);
            if (!same) atomicExch(agree, 0);
        }""",
        "k",
    )
    out, agree = cp.zeros((3, u.size), cp.uint32), cp.ones(1, cp.int32)
    kernel((1,), (32,), (cp.asarray(u), out, np.int32(u.size), np.uint32(7), np.int32(10), agree))
    return {"u": u, "unsigned": out, "agree": int(agree[0])}


@program(
    "shifts: arithmetic for signed, logical for unsigned; funnel shifts wrap or clamp their count",
    expect=lambda v: {
        "arithmetic": v["x"].view(np.int32)[:, None] >> np.arange(0, 32, 5, dtype=np.int32),
        "logical": v["x"][:, None] >> np.arange(0, 32, 5, dtype=np.uint32),
    },
)
def shifts():
    x = EDGES32.view(np.uint32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const unsigned* x, int* arithmetic, unsigned* logical, unsigned* funnel, int n) {
            int i = threadIdx.x;
            for (int s = 0; s < 7; ++s) {
                arithmetic[i * 7 + s] = (int)x[i] >> (5 * s);
                logical[i * 7 + s] = x[i] >> (5 * s);
            }
            unsigned high = x[(i + 1) % n];
            for (int s = 0; s < 5; ++s) {
                funnel[(i * 5 + s) * 4 + 0] = __funnelshift_l(x[i], high, 10 * s);
                funnel[(i * 5 + s) * 4 + 1] = __funnelshift_r(x[i], high, 10 * s);
                funnel[(i * 5 + s) * 4 + 2] = __funnelshift_lc(x[i], high, 10 * s);
                funnel[(i * 5 + s) * 4 + 3] = __funnelshift_rc(x[i], high, 10 * s);
            }
        }""",
        "k",
    )
    n = x.size
    arithmetic, logical = cp.zeros((n, 7), cp.int32), cp.zeros((n, 7), cp.uint32)
    funnel = cp.zeros((n, 5, 4), cp.uint32)
    kernel((1,), (n,), (cp.asarray(x), arithmetic, logical, funnel, np.int32(n)))
    return {"x": x, "arithmetic": arithmetic, "logical": logical, "funnel": funnel}


def _counts(v):
    words = [int(w) for w in v["x"].tolist()]
    return {
        "popc": np.array([w.bit_count() for w in words], np.int32),
        "clz": np.array([64 - w.bit_length() for w in words], np.int32),
        "ffs": np.array([(w & -w).bit_length() for w in words], np.int32),
        "reversed": np.array([int(f"{w:064b}"[::-1], 2) for w in words], np.uint64),
    }


@program("population count, leading zeros, first set bit, bit reversal", expect=_counts)
def bit_counting():
    x = np.concatenate([EDGES64.view(np.uint64), np.uint64(1) << np.arange(0, 64, 9, dtype=np.uint64)])
    kernel = cp.RawKernel(
        r"""
        typedef unsigned long long u64;
        extern "C" __global__ void k(const u64* x, int* popc, int* clz, int* ffs, u64* reversed, int* low) {
            int i = threadIdx.x;
            popc[i] = __popcll(x[i]); clz[i] = __clzll(x[i]); ffs[i] = __ffsll(x[i]); reversed[i] = __brevll(x[i]);
            unsigned w = (unsigned)x[i];
            low[i] = __popc(w) | __clz(w) << 6 | __ffs(w) << 12 | (__brev(w) & 0xff) << 18;
        }""",
        "k",
    )
    popc, clz, ffs, low = (cp.zeros(x.size, cp.int32) for _ in range(4))
    reversed_ = cp.zeros(x.size, cp.uint64)
    kernel((1,), (x.size,), (cp.asarray(x), popc, clz, ffs, reversed_, low))
    return {"x": x, "popc": popc, "clz": clz, "ffs": ffs, "reversed": reversed_, "low": low}


@program(
    "byte permutation picks bytes of two words, and can replicate a sign",
    expect=lambda v: {
        "swapped": v["x"].byteswap(),
        "mixed": (v["x"] & np.uint32(0xFF)) << np.uint32(24) | np.uint32(0xBBCCDD),
    },
)
def byte_permute():
    x = EDGES32.view(np.uint32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const unsigned* x, unsigned* swapped, unsigned* mixed, unsigned* any, int n) {
            int i = threadIdx.x;
            swapped[i] = __byte_perm(x[i], 0, 0x0123);
            mixed[i] = __byte_perm(x[i], 0xAABBCCDDu, 0x0654);
            for (unsigned s = 0; s < 4; ++s) any[i * 4 + s] = __byte_perm(x[i], ~x[(i + 1) % n],
            0x7531u ^ (s * 0x2102u));
        }""",
        "k",
    )
    n = x.size
    swapped, mixed, every = cp.zeros(n, cp.uint32), cp.zeros(n, cp.uint32), cp.zeros((n, 4), cp.uint32)
    kernel((1,), (n,), (cp.asarray(x), swapped, mixed, every, np.int32(n)))
    return {"x": x, "swapped": swapped, "mixed": mixed, "every": every}


def _high(v):
    pairs = list(zip(v["a"].tolist(), v["b"].tolist(), strict=True))
    low = [(x & 0xFFFFFFFFFFFFFFFF, y & 0xFFFFFFFFFFFFFFFF) for x, y in pairs]
    return {
        "signed": np.array([x * y >> 64 for x, y in pairs], np.int64),
        "unsigned": np.array([x * y >> 64 for x, y in low], np.uint64),
    }


@program("the high half of 64-bit products, and 24-bit products", expect=_high)
def high_products():
    a, b = np.repeat(EDGES64, EDGES64.size), np.tile(EDGES64, EDGES64.size)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const long long* a, const long long* b, long long* s, unsigned long long* u,
                                     int* small, int n) {
            int i = threadIdx.x;
            if (i >= n) return;
            s[i] = __mul64hi(a[i], b[i]);
            u[i] = __umul64hi((unsigned long long)a[i], (unsigned long long)b[i]);
            int x = (int)a[i], y = (int)b[i];
            small[4 * i] = __mulhi(x, y);
            small[4 * i + 1] = (int)__umulhi((unsigned)x, (unsigned)y);
            small[4 * i + 2] = __mul24(x, y);
            small[4 * i + 3] = (int)__umul24((unsigned)x, (unsigned)y);
        }""",
        "k",
    )
    s, u, small = cp.zeros(a.size, cp.int64), cp.zeros(a.size, cp.uint64), cp.zeros((a.size, 4), cp.int32)
    kernel((1,), (128,), (cp.asarray(a), cp.asarray(b), s, u, small, np.int32(a.size)))
    return {"a": a, "b": b, "signed": s, "unsigned": u, "small": small}


def _wide(v):
    def joined(words):
        return [sum(int(w) << (64 * i) for i, w in enumerate(row)) for row in words]

    a, b = joined(v["a"]), joined(v["b"])
    mask = 2**64 - 1

    def split(values, n):
        return np.array([[x >> (64 * i) & mask for i in range(n)] for x in values], np.uint64)

    return {
        "sum": split([(x + y) % 2**256 for x, y in zip(a, b, strict=True)], 4),
        "product": split([(x % 2**64) * (y % 2**64) for x, y in zip(a, b, strict=True)], 2),
    }


@program("256-bit addition through the carry flag, 128-bit products with __int128", expect=_wide)
def multiword_arithmetic():
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 2**64, (16, 4), dtype=np.uint64, endpoint=False) for _ in range(2))
    a[0], b[0] = 2**64 - 1, [1, 0, 0, 0]
    kernel = cp.RawKernel(
        r"""
        typedef unsigned long long u64;
        extern "C" __global__ void k(const u64* a, const u64* b, u64* sum, u64* product) {
            int i = threadIdx.x;
            const u64 *x = a + 4 * i, *y = b + 4 * i;
            u64 r0, r1, r2, r3;
            asm("add.cc.u64 %0, %4, %8;\n\taddc.cc.u64 %1, %5, %9;\n\taddc.cc.u64 %2, %6, %10;\n\taddc.u64 %3, %7, %11;"
                : "=l"(r0), "=l"(r1), "=l"(r2), "=l"(r3)
                : "l"(x[0]), "l"(x[1]), "l"(x[2]), "l"(x[3]), "l"(y[0]), "l"(y[1]), "l"(y[2]), "l"(y[3]));
            u64* s = sum + 4 * i;
            s[0] = r0; s[1] = r1; s[2] = r2; s[3] = r3;
            unsigned __int128 p = (unsigned __int128)x[0] * y[0];
            product[2 * i] = (u64)p; product[2 * i + 1] = (u64)(p >> 64);
        }""",
        "k",
        options=("--device-int128",),
    )
    total, product = cp.zeros((16, 4), cp.uint64), cp.zeros((16, 2), cp.uint64)
    kernel((1,), (16,), (cp.asarray(a), cp.asarray(b), total, product))
    return {"a": a, "b": b, "sum": total, "product": product}


@program(
    "narrow types promote to int, wrap when stored, and char is signed",
    expect=lambda v: {
        "sum": (v["a"].astype(np.int32) + v["b"]).astype(np.int32),
        "stored": (v["a"].astype(np.int32) + v["b"]).astype(np.int8),
        "halved": ((v["a"].view(np.uint8).astype(np.int32) + v["b"].view(np.uint8)) // 2).astype(np.uint8),
        "product": (v["a"].astype(np.int32) * v["b"] * 5).astype(np.int16),
        "truth": (v["a"] != 0),
    },
)
def narrow_types():
    a = np.array([0, 1, -1, 127, -128, 100, -100, 55], np.int8)
    b = np.array([1, -1, 127, 127, -128, 100, -29, 0], np.int8)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const char* a, const char* b, int* sum, signed char* stored,
                                     unsigned char* halved, short* product, bool* truth) {
            int i = threadIdx.x;
            sum[i] = a[i] + b[i];
            stored[i] = a[i] + b[i];
            halved[i] = ((unsigned char)a[i] + (unsigned char)b[i]) / 2;
            product[i] = a[i] * b[i] * 5;
            truth[i] = a[i];
        }""",
        "k",
    )
    out = [cp.zeros(8, t) for t in (cp.int32, cp.int8, cp.uint8, cp.int16, cp.bool_)]
    kernel((1,), (8,), (cp.asarray(a), cp.asarray(b), *out))
    return {"a": a, "b": b, **dict(zip(("sum", "stored", "halved", "product", "truth"), out, strict=True))}


@program(
    "averages, sums of differences, dot products of packed bytes",
    expect=lambda v: {
        "average": (v["a"].astype(np.int64) + v["b"] >> 1).astype(np.int32),
        "rounded": (v["a"].astype(np.int64) + v["b"] + 1 >> 1).astype(np.int32),
        "dot": np.einsum("ij,ij->i", *(x.view(np.int8).reshape(-1, 4).astype(np.int32) for x in (v["a"], v["b"]))) + 7,
    },
)
def packed_and_averages():
    a, b = np.repeat(EDGES32, 3), np.tile(EDGES32, 3)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* a, const int* b, int* average, int* rounded, unsigned* sad, int* dot,
                                     unsigned* udot, unsigned* lanes) {
            int i = threadIdx.x;
            average[i] = __hadd(a[i], b[i]);
            rounded[i] = __rhadd(a[i], b[i]);
            sad[i] = __sad(a[i], b[i], 5u) ^ __usad((unsigned)a[i], (unsigned)b[i], 9u);
            dot[i] = __dp4a(a[i], b[i], 7);
            udot[i] = __dp4a((unsigned)a[i], (unsigned)b[i], 1u);
            lanes[4 * i] = __vadd2(a[i], b[i]);
            lanes[4 * i + 1] = __vabsdiffu4(a[i], b[i]);
            lanes[4 * i + 2] = __vmaxs2(a[i], b[i]);
            lanes[4 * i + 3] = __vcmpgtu4(a[i], b[i]);
        }""",
        "k",
    )
    n = a.size
    average, rounded, dot = (cp.zeros(n, cp.int32) for _ in range(3))
    sad, udot, lanes = cp.zeros(n, cp.uint32), cp.zeros(n, cp.uint32), cp.zeros((n, 4), cp.uint32)
    kernel((1,), (n,), (cp.asarray(a), cp.asarray(b), average, rounded, sad, dot, udot, lanes))
    return {
        "a": a, "b": b, "average": average, "rounded": rounded, "sad": sad, "dot": dot, "udot": udot, "lanes": lanes,
    }  # fmt: skip


@program(
    "minimum, maximum and absolute value respect signedness; comparisons mix as C++ says",
    expect=lambda v: {
        "signed": np.stack([np.minimum(v["a"], v["b"]), np.maximum(v["a"], v["b"]), np.abs(v["a"])]),
        "unsigned": np.stack([f(v["a"].view(np.uint32), v["b"].view(np.uint32)) for f in (np.minimum, np.maximum)]),
        "mixed": (v["a"].view(np.uint32) > v["b"].view(np.uint32)).astype(np.int32),
    },
)
def minimum_maximum():
    a, b = np.repeat(EDGES32, EDGES32.size), np.tile(EDGES32, EDGES32.size)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const int* a, const int* b, int* s, unsigned* u, int* mixed, int n) {
            int i = threadIdx.x;
            if (i >= n) return;
            s[i] = min(a[i], b[i]); s[n + i] = max(a[i], b[i]); s[2 * n + i] = abs(a[i]);
            u[i] = min((unsigned)a[i], (unsigned)b[i]); u[n + i] = max((unsigned)a[i], (unsigned)b[i]);
            mixed[i] = (unsigned)a[i] > b[i];
        }""",
        "k",
    )
    s, u, mixed = cp.zeros((3, a.size), cp.int32), cp.zeros((2, a.size), cp.uint32), cp.zeros(a.size, cp.int32)
    kernel((1,), (192,), (cp.asarray(a), cp.asarray(b), s, u, mixed, np.int32(a.size)))
    return {"a": a, "b": b, "signed": s, "unsigned": u, "mixed": mixed}


@program(
    "bit fields are read with their sign and written without touching their neighbours",
    expect=lambda v: {
        "low": (v["x"].view(np.int32) << np.int32(27)) >> np.int32(27),
        "middle": (v["x"] >> np.uint32(5)) & np.uint32(0x7FF),
        "written": (v["x"] & ~np.uint32(0x7FF << 5)) | np.uint32(0x2AA << 5),
    },
)
def bit_fields():
    x = EDGES32.view(np.uint32)
    kernel = cp.RawKernel(
        r"""
        struct Fields { int low : 5; unsigned middle : 11; unsigned high : 16; };
        extern "C" __global__ void k(const Fields* x, int* low, unsigned* middle, Fields* written) {
            int i = threadIdx.x;
            Fields f = x[i];
            low[i] = f.low; middle[i] = f.middle;
            f.middle = 0x2AA;
            written[i] = f;
        }""",
        "k",
    )
    low, middle, written = (cp.zeros(x.size, t) for t in (cp.int32, cp.uint32, cp.uint32))
    kernel((1,), (x.size,), (cp.asarray(x), low, middle, written))
    return {"x": x, "low": low, "middle": middle, "written": written}


def _collatz(v):
    steps = []
    for start in v["start"].tolist():
        n, count = start, 0
        while n != 1:
            n, count = (3 * n + 1 if n % 2 else n // 2), count + 1
        steps.append(count)
    return {"steps": np.array(steps, np.int32)}


@program("a data-dependent loop: Collatz steps, another count in each thread", expect=_collatz)
def collatz():
    start = np.arange(1, 301, dtype=np.int64)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const long long* start, int* steps, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= n) return;
            int count = 0;
            for (long long x = start[i]; x != 1; ++count) x = x & 1 ? 3 * x + 1 : x / 2;
            steps[i] = count;
        }""",
        "k",
    )
    steps = cp.zeros(start.size, cp.int32)
    kernel((5,), (64,), (cp.asarray(start), steps, np.int32(start.size)))
    return {"start": start, "steps": steps}


def _hash(v):
    def mix(h):
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
        return h

    return {"hash": mix(v["x"].copy())}


@program("a hash of xors, shifts and odd products", expect=_hash)
def hash_mixing():
    x = np.arange(1000, dtype=np.uint32) * np.uint32(2654435761)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const unsigned* x, unsigned* out, int n) {
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
                unsigned h = x[i];
                h ^= h >> 16; h *= 0x85EBCA6Bu; h ^= h >> 13; h *= 0xC2B2AE35u; h ^= h >> 16;
                out[i] = h;
            }
        }""",
        "k",
    )
    out = cp.zeros(1000, cp.uint32)
    kernel((3,), (96,), (cp.asarray(x), out, np.int32(1000)))
    return {"x": x, "hash": out}
