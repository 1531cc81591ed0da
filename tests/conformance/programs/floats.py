"""Float and double arithmetic: rounding, fused multiply-add, NaNs, subnormals, conversions, math functions.

CuPy compiles every kernel with ``-ftz=true``: float operations read subnormal numbers as zeros of their sign and
give such zeros for results that would be subnormal. Double has no such mode.
"""

import numpy as np

from cudalab import cp

from ..program import bits, near, program

SPECIAL = np.concatenate([
    np.array([0.0, -0.0, 1.0, -1.5, 3.25, 1e-30, -1e30, 16777217.0, 0.1, np.inf, -np.inf], np.float32),
    bits([0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x3F800001, 0xBF7FFFFF], "f4"),
])  # fmt: skip


def _pairs_of(first, second):
    return np.repeat(first, second.size), np.tile(second, first.size)


def _pairs(values):
    return _pairs_of(values, values)


def _canonical(x):
    """NaN results of device arithmetic have one pattern."""
    x = x.copy()
    x[np.isnan(x)] = bits([0x7FFFFFFF], "f4")[0]
    return x


def _flushed(x):
    """Subnormal numbers become zeros of their sign."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def _rounded_and_flushed(result, wide):
    """``result``, or zero where the value is subnormal after rounding to 24 bits, whatever its exponent: IEEE's own
    rounding has fewer bits there, and can round up to the least normal number. ``wide`` is the value in double."""
    tiny = np.abs((wide * 2.0**64).astype(np.float32)) < np.float32(2.0**-62)
    return np.where(tiny, np.copysign(np.float32(0), result), result)


def _ieee(v):
    with np.errstate(all="ignore"):
        a, b = _flushed(v["a"]), _flushed(v["b"])
        wide = a.astype(np.float64), b.astype(np.float64)
        operations = (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide))
        return {name: _canonical(_rounded_and_flushed(f(a, b), f(*wide))) for name, f in operations}


@program("float add, subtract, multiply and divide are IEEE but for subnormals, infinities included", expect=_ieee)
def ieee_single():
    a, b = _pairs(SPECIAL)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* a, const float* b, float* out, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= n) return;
            out[i] = a[i] + b[i]; out[n + i] = a[i] - b[i]; out[2 * n + i] = a[i] * b[i]; out[3 * n + i] = a[i] / b[i];
        }""",
        "k",
    )
    out = cp.zeros((4, a.size), cp.float32)
    kernel((3,), (128,), (cp.asarray(a), cp.asarray(b), out, np.int32(a.size)))
    return {"a": a, "b": b, "add": out[0], "sub": out[1], "mul": out[2], "div": out[3]}


def _double(v):
    with np.errstate(all="ignore"):
        return {"div": v["a"] / v["b"], "sqrt": np.sqrt(np.abs(v["a"])), "poly": v["a"] * v["b"] - v["b"]}


@program("double division, square root and unfused products are correctly rounded", expect=_double)
def ieee_double():
    rng = np.random.default_rng(3)
    a = rng.standard_normal(200) * 10.0 ** rng.integers(-200, 200, 200)
    b = rng.standard_normal(200)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const double* a, const double* b, double* out, int n) {
            int i = threadIdx.x;
            if (i >= n) return;
            out[i] = a[i] / b[i]; out[n + i] = sqrt(fabs(a[i])); out[2 * n + i] = a[i] * b[i] - b[i];
        }""",
        "k",
        options=("--fmad=false",),
    )
    out = cp.zeros((3, 200), cp.float64)
    kernel((1,), (224,), (cp.asarray(a), cp.asarray(b), out, np.int32(200)))
    return {"a": a, "b": b, "div": out[0], "sqrt": out[1], "poly": out[2]}


def _contracted(v):
    a, b, c = (v[k].astype(np.float64) for k in "abc")
    return {"split": v["a"] * v["b"] + v["c"], "fused": (a * b + c).astype(np.float32)}


@program("a*b+c is one rounding by default, two with --fmad=false", expect=_contracted)
def contraction():
    e = np.float32(2.0**-12)
    a = np.array([1 + e, 1 - e, 3.0, 1e10 + 4096, 0.1], np.float32)
    b = np.array([1 - e, 1 + e, 1.0 / 3, 1.0, 10.0], np.float32)
    c = np.array([-1.0, -1.0, -1.0, -1e10, -1.0], np.float32)
    source = r"""
        extern "C" __global__ void k(const float* a, const float* b, const float* c, float* out) {
            int i = threadIdx.x;
            out[i] = a[i] * b[i] + c[i];
        }"""
    fused, split = cp.zeros(5, cp.float32), cp.zeros(5, cp.float32)
    arrays = [cp.asarray(x) for x in (a, b, c)]
    cp.RawKernel(source, "k")((1,), (5,), (*arrays, fused))
    cp.RawKernel(source, "k", options=("--fmad=false",))((1,), (5,), (*arrays, split))
    return {"a": a, "b": b, "c": c, "fused": fused, "split": split}


@program("intrinsics round to nearest, towards zero, up and down")
def rounding_modes():
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal(64).astype(np.float32), rng.standard_normal(64).astype(np.float32) * np.float32(1e-3)
    lines = "".join(
        f"f[j++ * n + i] = __fadd_{m}(a, b); f[j++ * n + i] = __fmul_{m}(a, b); f[j++ * n + i] = __fdiv_{m}(a, b);"
        f"f[j++ * n + i] = __fmaf_{m}(a, b, -a); f[j++ * n + i] = __fsqrt_{m}(fabsf(a));"
        f"f[j++ * n + i] = __frcp_{m}(b);"
        f"d[l++ * n + i] = __dadd_{m}(a, b); d[l++ * n + i] = __dmul_{m}(a, 1.1); d[l++ * n + i] = __ddiv_{m}(a, b);"
        f"d[l++ * n + i] = __dsqrt_{m}(fabsf(b)); d[l++ * n + i] = __fma_{m}((double)a, 1.1, (double)b);"
        for m in ("rn", "rz", "ru", "rd")
    )
    kernel = cp.RawKernel(
        'extern "C" __global__ void k(const float* x, const float* y, float* f, double* d, int n) {'
        "int i = threadIdx.x, j = 0, l = 0; float a = x[i], b = y[i];" + lines + "}",
        "k",
    )
    f, d = cp.zeros((4, 6, 64), cp.float32), cp.zeros((4, 5, 64), cp.float64)
    kernel((1,), (64,), (cp.asarray(a), cp.asarray(b), f, d, np.int32(64)))
    f, d = f.get(), d.get()
    ordered = [bool((x[3] <= x[0]).all() and (x[0] <= x[2]).all() and (x[3] <= x[2]).all()) for x in (f, d)]
    nearest = bool(np.array_equal(f[0, 0], a + b) and np.array_equal(f[0, 2], a / b))
    return {"f": f, "d": d, "down <= nearest <= up": ordered, "nearest is NumPy's": nearest}


@program(
    "subnormals are flushed by kernels of CuPy, also with --ftz=false; inline PTX and double keep them",
    expect=lambda v: {
        "usual": _flushed(_flushed(v["x"]) * np.float32(0.5)),
        "asked": _flushed(_flushed(v["x"]) * np.float32(0.5)),
        "kept": v["x"] * np.float32(0.5),
        "double": v["d"] * 0.5,
        "copied": v["x"],
    },
)
def flush_to_zero():
    x = np.array([1e-38, 1.2e-38, 2.4e-38, 1e-40, 1e-45, 3e-38, -1e-39, -0.0], np.float32)
    d = np.array([1e-310, -4e-308, 5e-324, 3e-308, 1e-320, 2.0, -1e-309, 0.0])
    source = r"""
        extern "C" __global__ void k(const float* x, const double* d, float* out, float* kept, double* wide,
            float* copied) {
            int i = threadIdx.x;
            float half;
            asm("mul.rn.f32 %0, %1, 0f3F000000;" : "=f"(half) : "f"(x[i]));
            out[i] = x[i] * 0.5f; kept[i] = half; wide[i] = d[i] * 0.5; copied[i] = x[i];
        }"""
    usual, asked, kept, copied = (cp.zeros(8, cp.float32) for _ in range(4))
    wide = cp.zeros(8)
    inputs = cp.asarray(x), cp.asarray(d)
    cp.RawKernel(source, "k")((1,), (8,), (*inputs, usual, kept, wide, copied))
    cp.RawKernel(source, "k", options=("--ftz=false",))((1,), (8,), (*inputs, asked, kept, wide, copied))
    return {"x": x, "d": d, "usual": usual, "asked": asked, "kept": kept, "double": wide, "copied": copied}


def _edge(v):
    with np.errstate(all="ignore"):
        wide = v["x"].astype(np.float64) * v["y"]
        product = _rounded_and_flushed(wide.astype(np.float32), wide)
        return {"product": product, "fma": product, "narrowed": product, "wide": wide}


@program("which results on the edge of the subnormal range are flushed: those tiny after rounding", expect=_edge)
def flush_boundary():
    one = 0x3F800000
    x = bits([0x00800000, 0x00800001, 0x00800002, 0x00FFFFFF, 0x80800000, 0x80800001, 0x00800003], "f4")
    y = bits([one - 1, one - 2, one - 3, one - 4, one - 5, one, one + 1], "f4")
    a, b = _pairs_of(x, y)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* x, const float* y, float* out, double* wide, int n) {
            int i = threadIdx.x;
            if (i >= n) return;
            float a = x[i], b = y[i];
            out[i] = a * b;
            out[n + i] = fmaf(a, b, 0.0f);
            out[2 * n + i] = fmaf(a, b, -1.17549435e-38f * 0.25f);
            out[3 * n + i] = a / (1.0f / b);
            out[4 * n + i] = (float)((double)a * (double)b);
            out[5 * n + i] = __fmul_rz(a, b);
            out[6 * n + i] = __fmul_ru(a, b);
            out[7 * n + i] = a - 1.17549435e-38f * (b - 0.5f);
            wide[i] = (double)a * (double)b;
        }""",
        "k",
    )
    n = a.size
    out, wide = cp.zeros((8, n), cp.float32), cp.zeros(n)
    kernel((1,), (64,), (cp.asarray(a), cp.asarray(b), out, wide, np.int32(n)))
    names = ("product", "fma", "fma less", "quotient", "narrowed", "towards zero", "up", "difference")
    return {"x": a, "y": b, **dict(zip(names, out, strict=True)), "wide": wide}


def _nan_rules(v):
    a, b = v["a"], v["b"]
    return {
        "min": np.fmin(a, b) + 0,
        "less": (a < b).astype(np.int32),
        "unequal": (a != b).astype(np.int32),
        "class": (np.isnan(a) * 1 + np.isinf(a) * 2 + np.isfinite(a) * 4 + np.signbit(a) * 8).astype(np.int32),
        "copysign": np.copysign(a, b),
    }


@program("comparisons with NaN are false, fminf and fmaxf skip NaN, classification sees signs", expect=_nan_rules)
def nan_rules():
    values = np.array([1.0, -2.0, np.inf, -np.inf, 5.5], np.float32)
    values = np.concatenate([values, bits([0x7FFFFFFF, 0x7FC00001], "f4")])
    a, b = _pairs(values)
    both = np.isnan(a) & np.isnan(b)
    a, b = a[~both], b[~both]
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* x, const float* y, float* lo, float* hi, int* less, int* unequal,
                                     int* kind, float* sign) {
            int i = threadIdx.x;
            float a = x[i], b = y[i];
            lo[i] = fminf(a, b); hi[i] = fmaxf(a, b);
            less[i] = a < b; unequal[i] = a != b;
            kind[i] = (isnan(a) ? 1 : 0) | (isinf(a) ? 2 : 0) | (isfinite(a) ? 4 : 0) | (signbit(a) ? 8 : 0);
            sign[i] = copysignf(a, b);
        }""",
        "k",
    )
    n = a.size
    lo, hi, sign = (cp.zeros(n, cp.float32) for _ in range(3))
    less, unequal, kind = (cp.zeros(n, cp.int32) for _ in range(3))
    kernel((1,), (n,), (cp.asarray(a), cp.asarray(b), lo, hi, less, unequal, kind, sign))
    return {
        "a": a, "b": b, "min": lo, "max": hi, "less": less, "unequal": unequal, "class": kind, "copysign": sign,
    }  # fmt: skip


@program("arithmetic on any NaN gives the canonical pattern; loads, stores and negation keep the payload")
def nan_payloads():
    x = bits([0x7FC01234, 0xFFC00001, 0x7F800001, 0x7FFFFFFF, 0x7F800000], "f4")
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* x, unsigned* out, int n) {
            int i = threadIdx.x;
            float v = x[i];
            out[i] = __float_as_uint(v);
            out[n + i] = __float_as_uint(v * 2.0f);
            out[2 * n + i] = __float_as_uint(v - v);
            out[3 * n + i] = __float_as_uint(sqrtf(v) + 1.0f);
        }""",
        "k",
    )
    out = cp.zeros((4, 5), cp.uint32)
    kernel((1,), (5,), (cp.asarray(x), out, np.int32(5)))
    return {"x": x.view(np.uint32), "copied": out[0], "doubled": out[1], "difference": out[2], "root": out[3]}


@program("signed zeros: sums, products, roots and the smaller of two zeros")
def signed_zeros():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(float p, float m, unsigned* out) {
            float r[] = {p + m, m + m, p - p, m * p, sqrtf(m), fminf(p, m), fmaxf(m, p), -p, fabsf(m),
                rintf(-0.25f + m),
                         1.0f / m, ceilf(-0.5f + p), truncf(m), fmodf(-3.0f, 3.0f + m)};
            for (int i = 0; i < 14; ++i) out[i] = __float_as_uint(r[i]);
        }""",
        "k",
    )
    out = cp.zeros(14, cp.uint32)
    kernel((1,), (1,), (np.float32(0.0), np.float32(-0.0), out))
    return {"bits": out}


def _rounded(v):
    x = v["x"]
    half = np.where(x < 0, -np.floor(-x + 0.5), np.floor(x + 0.5))
    return {"rint": np.rint(x), "floor": np.floor(x), "ceil": np.ceil(x), "trunc": np.trunc(x), "round": half}


@program("rint rounds halves to even, round away from zero; floor, ceil, trunc", expect=_rounded)
def rounding_functions():
    x = np.array([0.5, 1.5, 2.5, 2.4999, -0.5, -1.5, -2.5, 3.7, -3.2, 8388607.5, 1e10, 1234.0], np.float64)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const double* x, double* d, float* f, long long* l, int n) {
            int i = threadIdx.x;
            double v = x[i];
            d[i] = rint(v); d[n + i] = floor(v); d[2 * n + i] = ceil(v); d[3 * n + i] = trunc(v);
            d[4 * n + i] = round(v);
            float w = (float)v;
            f[i] = rintf(w); f[n + i] = floorf(w); f[2 * n + i] = ceilf(w); f[3 * n + i] = truncf(w);
            f[4 * n + i] = roundf(w); f[5 * n + i] = nearbyintf(w);
            l[i] = llrint(v); l[n + i] = llround(v); l[2 * n + i] = lrintf(w);
        }""",
        "k",
    )
    n = x.size
    d, f, whole = cp.zeros((5, n), cp.float64), cp.zeros((6, n), cp.float32), cp.zeros((3, n), cp.int64)
    kernel((1,), (n,), (cp.asarray(x), d, f, whole, np.int32(n)))
    names = ("rint", "floor", "ceil", "trunc", "round")
    return {"x": x, **dict(zip(names, d, strict=True)), "float": f, "integers": whole}


@program(
    "float to integer conversion truncates, clamps to the range, and gives 0 or a limit for NaN",
    expect=lambda v: {"inside": np.trunc(v["x"][:5]).astype(np.int32)},
)
def float_to_integer():
    x = np.array([1.9, -1.9, 100.5, -0.99, 65536.25, 3e9, -3e9, 1e20, -1e20, np.inf, -np.inf, np.nan], np.float32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* x, int* s, unsigned* u, long long* l, unsigned long long* ul,
        int* modes,
                                     unsigned char* c, int n) {
            int i = threadIdx.x;
            s[i] = __float2int_rz(x[i]); u[i] = __float2uint_rz(x[i]);
            l[i] = __float2ll_rz(x[i]); ul[i] = __float2ull_rz(x[i]);
            modes[i] = __float2int_rn(x[i]); modes[n + i] = __float2int_ru(x[i]);
            modes[2 * n + i] = __float2int_rd(x[i]);
            modes[3 * n + i] = __double2int_rz((double)x[i]);
            c[i] = (unsigned char)__float2uint_rz(x[i]);
        }""",
        "k",
    )
    n = x.size
    s, u, whole, natural = (cp.zeros(n, t) for t in (cp.int32, cp.uint32, cp.int64, cp.uint64))
    modes, c = cp.zeros((4, n), cp.int32), cp.zeros(n, cp.uint8)
    kernel((1,), (n,), (cp.asarray(x), s, u, whole, natural, modes, c, np.int32(n)))
    return {
        "x": x, "inside": s[:5], "s": s, "u": u, "long": whole, "unsigned long": natural, "modes": modes, "char": c,
    }  # fmt: skip


@program(
    "integer to float conversion rounds to nearest even, or as an intrinsic says",
    expect=lambda v: {"plain": v["x"].astype(np.float32), "double": v["x"].astype(np.float64)},
)
def integer_to_float():
    x = np.array([0, 1, -1, 16777217, 16777219, -16777217, 2**31 - 1, 2**53 + 1, 2**63 - 1, -(2**63)], np.int64)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const long long* x, float* f, double* d, float* modes, int n) {
            int i = threadIdx.x;
            f[i] = x[i]; d[i] = x[i];
            modes[i] = __ll2float_rz(x[i]); modes[n + i] = __ll2float_ru(x[i]); modes[2 * n + i] = __ll2float_rd(x[i]);
            modes[3 * n + i] = __int2float_rn((int)x[i]); modes[4 * n + i] = __uint2float_rz((unsigned)x[i]);
        }""",
        "k",
    )
    n = x.size
    f, d, modes = cp.zeros(n, cp.float32), cp.zeros(n, cp.float64), cp.zeros((5, n), cp.float32)
    kernel((1,), (n,), (cp.asarray(x), f, d, modes, np.int32(n)))
    return {"x": x, "plain": f, "double": d, "modes": modes}


@program(
    "double to float rounds once, overflows to infinity, and float to double is exact",
    expect=lambda v: {
        "narrowed": _flushed(np.float32(v["x"])),
        "widened": _flushed(np.float32(v["x"])).astype(np.float64),
    },
)
def double_to_float():
    x = np.array([0.1, 1 / 3, 1 + 2**-24, 1 + 3 * 2**-24, 1e-46, 1e-40, 3.5e38, -1e300, 1e308, 0.0], np.float64)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const double* x, float* f, double* d, float* modes, int n) {
            int i = threadIdx.x;
            f[i] = x[i]; d[i] = f[i];
            modes[i] = __double2float_rz(x[i]); modes[n + i] = __double2float_ru(x[i]);
            modes[2*n + i] = __double2float_rd(x[i]);
        }""",
        "k",
    )
    n = x.size
    f, d, modes = cp.zeros(n, cp.float32), cp.zeros(n, cp.float64), cp.zeros((3, n), cp.float32)
    with np.errstate(over="ignore"):
        kernel((1,), (n,), (cp.asarray(x), f, d, modes, np.int32(n)))
    return {"x": x[:6], "narrowed": f[:6], "widened": d[:6], "all": f, "modes": modes}


@program(
    "bits of floats and doubles seen as integers, and words put together again",
    expect=lambda v: {
        "word": v["f"].view(np.int32),
        "high": (v["d"].view(np.int64) >> 32).astype(np.int32),
        "joined": v["d"],
    },
)
def reinterpretation():
    f, d = SPECIAL, SPECIAL.astype(np.float64) * np.pi
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* f, const double* d, int* word, int* high, double* joined, float* up) {
            int i = threadIdx.x;
            word[i] = __float_as_int(f[i]);
            high[i] = __double2hiint(d[i]);
            joined[i] = __hiloint2double(__double2hiint(d[i]), __double2loint(d[i]));
            long long b = __double_as_longlong(d[i]);
            up[i] = __int_as_float(word[i] ^ 1) + (float)(b & 1);
        }""",
        "k",
    )
    n = f.size
    word, high, joined, up = (cp.zeros(n, t) for t in (cp.int32, cp.int32, cp.float64, cp.float32))
    kernel((1,), (n,), (cp.asarray(f), cp.asarray(d), word, high, joined, up))
    return {"f": f, "d": d, "word": word, "high": high, "joined": joined, "up": up}


def _pieces(v):
    x = v["x"]
    fraction, whole = np.modf(x)
    mantissa, exponent = np.frexp(x)
    return {
        "fraction": fraction,
        "whole": whole,
        "mantissa": mantissa,
        "exponent": exponent.astype(np.int32),
        "scaled": np.ldexp(x, 5),
        "fmod": np.fmod(x, 0.7),
    }


@program("modf, frexp, ldexp, fmod, remainder, logb and nextafter are exact", expect=_pieces)
def exact_pieces():
    x = np.array([3.75, -2.5, 0.1, 1e-310, 123456.789, -1e20, 0.5, 8.0], np.float64)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const double* x, double* out, int* exponent, int n) {
            int i = threadIdx.x;
            double v = x[i], whole;
            out[i] = modf(v, &whole); out[n + i] = whole;
            out[2 * n + i] = frexp(v, exponent + i);
            out[3 * n + i] = ldexp(v, 5);
            out[4 * n + i] = fmod(v, 0.7);
            out[5 * n + i] = remainder(v, 0.7);
            out[6 * n + i] = logb(v);
            out[7 * n + i] = nextafter(v, 2.0);
            int q; out[8 * n + i] = remquo(v, 0.7, &q); exponent[n + i] = q & 7;
            exponent[2 * n + i] = ilogb(v);
            out[9 * n + i] = fdim(v, 1.0);
        }""",
        "k",
    )
    n = x.size
    out, whole = cp.zeros((10, n), cp.float64), cp.zeros((3, n), cp.int32)
    kernel((1,), (n,), (cp.asarray(x), out, whole, np.int32(n)))
    return {
        "x": x, "fraction": out[0], "whole": out[1], "mantissa": out[2], "exponent": whole[0], "scaled": out[3],
        "fmod": out[4], "rest": out[5:], "integers": whole[1:],
    }  # fmt: skip


def _math32(v):
    x = v["x"].astype(np.float64)
    p = v["p"].astype(np.float64)
    return {
        "sin": near(np.sin(x), 3e-7, 1e-7),
        "cos": near(np.cos(x), 3e-7, 1e-7),
        "atan": near(np.arctan(x), 3e-7),
        "log": near(np.log(p), 3e-7, 1e-7),
        "log1p": near(np.log1p(p), 3e-7),
        "cbrt": near(np.cbrt(x), 3e-7),
        "sqrt": np.sqrt(v["p"]),
        "hypot": near(np.hypot(x, p), 3e-7),
    }


@program(
    "single-precision math functions; those of arctangent, cube root and hypot use approximate instructions",
    expect=_math32,
    tolerance={"atan": (3e-7, 0), "cbrt": (3e-7, 0), "hypot": (3e-7, 0)},
)
def math_single():
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.uniform(-10, 10, 100), [1e5, -2e6, 3e15, 1e-20, 0.0]]).astype(np.float32)
    p = np.concatenate([rng.uniform(1e-3, 50, 100), [1e-30, 1e30, 1.0, 0.9999, 1.0001]]).astype(np.float32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* x, const float* p, float* out, int n) {
            int i = threadIdx.x;
            if (i >= n) return;
            out[i] = sinf(x[i]); out[n + i] = cosf(x[i]); out[2 * n + i] = atanf(x[i]); out[3 * n + i] = logf(p[i]);
            out[4 * n + i] = log1pf(p[i]); out[5 * n + i] = cbrtf(x[i]); out[6 * n + i] = sqrtf(p[i]);
            out[7 * n + i] = hypotf(x[i], p[i]);
        }""",
        "k",
    )
    out = cp.zeros((8, x.size), cp.float32)
    kernel((1,), (128,), (cp.asarray(x), cp.asarray(p), out, np.int32(x.size)))
    names = ("sin", "cos", "atan", "log", "log1p", "cbrt", "sqrt", "hypot")
    return {"x": x, "p": p, **dict(zip(names, out, strict=True))}


def _exp32(v):
    x, p = v["x"].astype(np.float64), np.abs(v["x"].astype(np.float64)) + 0.1
    with np.errstate(all="ignore"):
        return {
            "exp": near(np.exp(x).astype(np.float32), 5e-7),
            "exp2": near(np.exp2(x).astype(np.float32), 5e-7),
            "tanh": near(np.tanh(x), 5e-7),
            "pow": near(np.power(p, x), 2e-6),
            "expm1": near(np.expm1(x), 5e-7),
            "rsqrt": near(1 / np.sqrt(p), 5e-7),
            "sinh": near(np.sinh(x), 5e-7),
        }


@program(
    "single-precision functions built on approximate instructions stay within their stated error",
    expect=_exp32,
    tolerance=dict.fromkeys(("exp", "exp2", "tanh", "pow", "expm1", "rsqrt", "sinh"), (2e-06, 1e-12)),
)
def math_single_approximate():
    x = np.concatenate([np.linspace(-20, 20, 81), [1e-8, -1e-4, 0.6]]).astype(np.float32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* x, float* out, int n) {
            int i = threadIdx.x;
            if (i >= n) return;
            float v = x[i], p = fabsf(v) + 0.1f;
            out[i] = expf(v); out[n + i] = exp2f(v); out[2 * n + i] = tanhf(v); out[3 * n + i] = powf(p, v);
            out[4 * n + i] = expm1f(v); out[5 * n + i] = rsqrtf(p); out[6 * n + i] = sinhf(v);
        }""",
        "k",
    )
    out = cp.zeros((7, x.size), cp.float32)
    kernel((1,), (96,), (cp.asarray(x), out, np.int32(x.size)))
    return {"x": x, **dict(zip(("exp", "exp2", "tanh", "pow", "expm1", "rsqrt", "sinh"), out, strict=True))}


def _fast(v):
    x, p = v["x"].astype(np.float64), v["p"].astype(np.float64)
    return {
        "sin": near(np.sin(x), 0, 1e-6),
        "cos": near(np.cos(x), 0, 1e-6),
        "exp": near(np.exp(x), 2e-6),
        "log": near(np.log(p), 2e-6, 1e-6),
        "div": near(x / p, 5e-7, 1e-12),
        "pow": near(p**1.5, 1e-5),
    }


@program(
    "fast intrinsics: within the bounds the guide gives",
    expect=_fast,
    tolerance={
        "sin": (0, 2e-6),
        "cos": (0, 2e-6),
        "exp": (3e-6, 0),
        "log": (3e-6, 2e-6),
        "div": (1e-6, 1e-12),
        "pow": (1e-5, 0),
    },
)
def fast_intrinsics():
    x = np.linspace(-3.1, 3.1, 64).astype(np.float32)
    p = np.linspace(0.01, 20, 64).astype(np.float32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* x, const float* p, float* out, int n) {
            int i = threadIdx.x;
            out[i] = __sinf(x[i]); out[n + i] = __cosf(x[i]); out[2 * n + i] = __expf(x[i]);
            out[3 * n + i] = __logf(p[i]);
            out[4 * n + i] = __fdividef(x[i], p[i]); out[5 * n + i] = __powf(p[i], 1.5f);
        }""",
        "k",
    )
    out = cp.zeros((6, 64), cp.float32)
    kernel((1,), (64,), (cp.asarray(x), cp.asarray(p), out, np.int32(64)))
    return {"x": x, "p": p, **dict(zip(("sin", "cos", "exp", "log", "div", "pow"), out, strict=True))}


def _math64(v):
    x = v["x"]
    p = np.abs(x) + 0.25
    with np.errstate(all="ignore"):
        return {
            "exp": near(np.exp(x), 4e-16),
            "log": near(np.log(p), 4e-16, 1e-16),
            "sin": near(np.sin(x), 5e-16, 1e-16),
            "cos": near(np.cos(x), 5e-16, 1e-16),
            "tan": near(np.tan(x), 1e-15),
            "pow": near(np.power(p, 1.7), 4e-16),
            "atan2": near(np.arctan2(x, p), 6e-16),
            "tanh": near(np.tanh(x), 6e-16),
            "log10": near(np.log10(p), 6e-16, 1e-16),
            "asinh": near(np.arcsinh(x), 8e-16),
        }


@program(
    "double-precision math functions",
    expect=_math64,
    tolerance=dict.fromkeys(("exp", "log", "tan", "pow", "atan2", "tanh", "log10", "asinh"), (1e-15, 1e-300)),
)
def math_double():
    rng = np.random.default_rng(6)
    x = np.concatenate([rng.uniform(-20, 20, 60), [1e-10, 700.0, -700.0, 1e5]])
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const double* x, double* out, int n) {
            int i = threadIdx.x;
            double v = x[i], p = fabs(v) + 0.25;
            out[i] = exp(v); out[n + i] = log(p); out[2 * n + i] = sin(v); out[3 * n + i] = cos(v);
            out[4 * n + i] = tan(v);
            out[5 * n + i] = pow(p, 1.7); out[6 * n + i] = atan2(v, p); out[7 * n + i] = tanh(v);
            out[8 * n + i] = log10(p); out[9 * n + i] = asinh(v);
        }""",
        "k",
    )
    out = cp.zeros((10, x.size), cp.float64)
    kernel((1,), (x.size,), (cp.asarray(x), out, np.int32(x.size)))
    names = ("exp", "log", "sin", "cos", "tan", "pow", "atan2", "tanh", "log10", "asinh")
    return {"x": x, **dict(zip(names, out, strict=True))}


def _special(v):
    from math import erf, erfc, gamma, lgamma

    x = v["x"].tolist()
    return {
        "erf": near([erf(t) for t in x], 1e-15),
        "erfc": near([erfc(t) for t in x], 2e-15),
        "gamma": near([gamma(t + 3.5) for t in x], 4e-15),
        "lgamma": near([lgamma(t + 3.5) for t in x], 4e-15, 1e-15),
        "sinpi": near(np.where(v["x"] % 1 == 0, 0, np.sin(np.pi * v["x"])), 1e-14, 1e-15),
        "normcdf": near([0.5 * erfc(-t / 2**0.5) for t in x], 1e-14),
    }


@program(
    "error function, gamma, sinpi, normal distribution, Bessel functions",
    expect=_special,
    tolerance=dict.fromkeys(("erf", "erfc", "gamma", "lgamma", "sinpi", "normcdf", "bessel"), (2e-14, 1e-15)),
)
def math_special():
    x = np.array([-3.0, -1.25, -0.5, 0.25, 0.5, 1.0, 1.75, 2.5, 3.0])
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const double* x, double* out, int n) {
            int i = threadIdx.x;
            double v = x[i];
            out[i] = erf(v); out[n + i] = erfc(v); out[2 * n + i] = tgamma(v + 3.5); out[3 * n + i] = lgamma(v + 3.5);
            out[4 * n + i] = sinpi(v); out[5 * n + i] = normcdf(v); out[6 * n + i] = j0(v);
        }""",
        "k",
    )
    out = cp.zeros((7, x.size), cp.float64)
    kernel((1,), (x.size,), (cp.asarray(x), out, np.int32(x.size)))
    names = ("erf", "erfc", "gamma", "lgamma", "sinpi", "normcdf", "bessel")
    return {"x": x, **dict(zip(names, out, strict=True))}


@program(
    "a literal without f makes an expression double",
    expect=lambda v: {
        "double": (v["x"].astype(np.float64) * 0.1).astype(np.float32),
        "single": v["x"] * np.float32(0.1),
        "sizes": np.array([8, 4, 4], np.int32),
    },
)
def literals_and_promotion():
    x = np.arange(1, 200, 7, dtype=np.float32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* x, float* d, float* s, int* sizes) {
            int i = threadIdx.x;
            d[i] = x[i] * 0.1; s[i] = x[i] * 0.1f;
            if (i == 0) { sizes[0] = sizeof(x[0] * 0.1); sizes[1] = sizeof(x[0] * 2); sizes[2] = sizeof(1 ? 'a' : 1); }
        }""",
        "k",
    )
    d, s, sizes = cp.zeros(x.size, cp.float32), cp.zeros(x.size, cp.float32), cp.zeros(3, cp.int32)
    kernel((1,), (x.size,), (cp.asarray(x), d, s, sizes))
    return {"x": x, "double": d, "single": s, "sizes": sizes}


def _sum_order(v):
    total, carry = np.float32(0), np.float32(0)
    plain = np.float32(0)
    for x in v["x"]:
        plain = plain + x
        y = x - carry
        t = total + y
        carry = (t - total) - y
        total = t
    return {
        "plain": np.float32(plain),
        "compensated": np.float32(total),
        "wide": np.cumsum(v["x"], dtype=np.float64)[-1:],
    }


@program("compensated summation is not optimised away", expect=_sum_order)
def compensated_sum():
    x = (np.float32(1) / np.arange(1, 1001, dtype=np.float32)).astype(np.float32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const float* x, int n, float* out, double* wide) {
            float total = 0, carry = 0, plain = 0; double d = 0;
            for (int i = 0; i < n; ++i) {
                plain += x[i]; d += x[i];
                float y = x[i] - carry, t = total + y;
                carry = (t - total) - y; total = t;
            }
            out[0] = plain; out[1] = total; *wide = d;
        }""",
        "k",
    )
    out, wide = cp.zeros(2, cp.float32), cp.zeros(1, cp.float64)
    kernel((1,), (1,), (cp.asarray(x), np.int32(1000), out, wide))
    return {"x": x, "plain": out.get()[0], "compensated": out.get()[1], "wide": wide}


def _logistic(v):
    x = v["start"].copy()
    for _ in range(200):
        x = np.float64(3.9) * x * (1 - x)
    return {"end": x}


@program("a chaotic iteration: each bit matters, without fused operations", expect=_logistic)
def chaotic_iteration():
    start = np.linspace(0.1, 0.9, 32)
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void k(const double* start, double* end) {
            double x = start[threadIdx.x];
            for (int i = 0; i < 200; ++i) x = 3.9 * x * (1 - x);
            end[threadIdx.x] = x;
        }""",
        "k",
        options=("-fmad=false",),
    )
    end = cp.zeros(32)
    kernel((1,), (32,), (cp.asarray(start), end))
    return {"start": start, "end": end}
