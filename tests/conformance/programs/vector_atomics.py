"""Atomics on vectors and on 16 bytes, and more that kernels reach by CUDA's own functions or inline PTX."""

import numpy as np

from cudalab import cp

from ..program import program


@program(
    "atomicAdd on float2 and float4 adds to each element",
    expect=lambda v: {
        "four": np.array([256, 512, 768, 1024], np.float32),
        "two": np.array([128, 384], np.float32),
        "old": np.array([10, 20, 30, 40], np.float32),
    },
)
def float_vectors():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void add(float4 *four, float2 *two, float4 *old) {
            atomicAdd(four, make_float4(1, 2, 3, 4));
            atomicAdd(two, make_float2(0.5f, 1.5f));
            if (threadIdx.x + blockIdx.x == 0) old[1] = atomicAdd(old, make_float4(1, 1, 1, 1));
        }""",
        "add",
    )
    four, two = cp.zeros(4, cp.float32), cp.zeros(2, cp.float32)
    old = cp.array([10, 20, 30, 40, 0, 0, 0, 0], cp.float32)
    kernel((2,), (128,), (four, two, old))
    return {"four": four, "two": two, "old": old[4:], "after": old[:4]}


@program(
    "16 bytes are exchanged and compared at once",
    expect=lambda v: {"sum": np.array([32 * 33 // 2, 32], np.uint64)},
)
def sixteen_bytes():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void swap(unsigned long long *cell, unsigned long long *old) {
            for (bool done = false; !done;) {
                unsigned long long a, b, x, y;
                asm volatile("{ .reg .b128 q; ld.relaxed.gpu.global.b128 q, [%2]; mov.b128 {%0, %1}, q; }"
                             : "=l"(a), "=l"(b) : "l"(cell) : "memory");
                asm volatile("{ .reg .b128 e, n, o; mov.b128 e, {%3, %4}; mov.b128 n, {%5, %6};"
                             "atom.global.cas.b128 o, [%2], e, n; mov.b128 {%0, %1}, o; }"
                             : "=l"(x), "=l"(y) : "l"(cell), "l"(a), "l"(b), "l"(a + threadIdx.x + 1), "l"(b + 1)
                             : "memory");
                done = x == a && y == b;
            }
            if (threadIdx.x == 0) { old[0] = cell[1] > 0; }
        }""",
        "swap",
    )
    cell, old = cp.zeros(2, cp.uint64), cp.zeros(1, cp.uint64)
    kernel((1,), (32,), (cell, old))
    return {"sum": cell, "seen": old}


@program("inline PTX: scopes, labels, predicates, vectors, expressions, several lines")
def inline_ptx():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void run(unsigned *out, const uint4 *in) {
            unsigned t = threadIdx.x, r, s;
            asm("{\n\t"
                ".reg .pred p, q;\n\t.reg .b32 i, sum;\n\t"
                "mov.u32 i, %1;\n\tmov.u32 sum, (1 << 4) | 3;\n"
                "again: setp.eq.u32 p|q, i, 0;\n\t@p bra.uni done;\n\t"
                "@q add.u32 sum, sum, i;\n\tsub.u32 i, i, 1;\n\tbra again;\n"
                "done: mov.u32 %0, sum;\n\t}" : "=r"(r) : "r"(t));
            out[t] = r;
            asm("{ .reg .v4 .u32 v; ld.global.v4.u32 v, [%1]; add.u32 %0, v.x, v.w; .reg .b16 lo, hi;"
                "mov.b32 {lo, hi}, v.y; cvt.u32.u16 v.z, hi; add.u32 %0, %0, v.z; }" : "=r"(s) : "l"(in + t));
            out[32 + t] = s;
            unsigned special;
            asm volatile("mov.u32 %0, %%laneid;" : "=r"(special));
            out[64 + t] = special;
        }""",
        "run",
    )
    out = cp.zeros(96, cp.uint32)
    values = cp.arange(128, dtype=cp.uint32) * cp.uint32(123457)
    kernel((1,), (32,), (out, values))
    return {"out": out}


@program("byte and half-word SIMD intrinsics")
def simd_intrinsics():
    names = [
        f"__v{name}{count}" for name in ("addss", "addus", "avgs", "avgu", "maxs", "minu", "subss", "absdiffs", "sadu",
        "cmpgts", "setleu", "hadd") if name != "hadd" for count in (2, 4)
    ]  # fmt: skip
    body = "\n".join(f"out[{n} * 64 + t] = {name.replace('avgu', 'avgu')}(a, b);" for n, name in enumerate(names))
    source = (
        'extern "C" __global__ void run(unsigned *out, const unsigned *x, const unsigned *y) {'
        f"int t = threadIdx.x; unsigned a = x[t], b = y[t];\n{body}\n}}"
    )
    random = np.random.default_rng(11)
    x, y = (cp.array(random.integers(0, 1 << 32, 64, dtype=np.uint32)) for _ in range(2))
    out = cp.zeros(64 * len(names), cp.uint32)
    cp.RawKernel(source, "run")((1,), (64,), (out, x, y))
    return {"out": out}


@program("128-bit integers, where the compiler is told that the host has them")
def wide_integers():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void run(unsigned long long *out, unsigned long long seed) {
            unsigned __int128 a = seed + threadIdx.x; __int128 b = -(__int128)(seed >> 3);
            a *= a; a += (unsigned __int128)b * 7; b = (b << 5) / (int)(threadIdx.x + 3); b %= 1000000007;
            out[4 * threadIdx.x] = a; out[4 * threadIdx.x + 1] = a >> 64;
            out[4 * threadIdx.x + 2] = b; out[4 * threadIdx.x + 3] = a > (unsigned __int128)b;
        }""",
        "run",
        options=("--device-int128",),
    )
    out = cp.zeros(128, cp.uint64)
    kernel((1,), (32,), (out, np.uint64(0xFEDCBA9876543210)))
    return {"out": out}


@program("clocks go forward, and a sleep takes time", expect=lambda v: {"ok": np.ones(5, np.int32)})
def clocks():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void run(int *ok) {
            unsigned long long g0, g1; long long c0 = clock64(); clock_t w0 = clock();
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g0));
            __nanosleep(20000);
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g1));
            long long c1 = clock64(); clock_t w1 = clock();
            ok[0] = c1 > c0; ok[1] = g1 > g0; ok[2] = g1 - g0 < 1000000000; ok[3] = w1 != w0;
            ok[4] = c1 - c0 < 2000000000;
        }""",
        "run",
    )
    ok = cp.zeros(5, cp.int32)
    kernel((1,), (1,), (ok,))
    return {"ok": ok}
