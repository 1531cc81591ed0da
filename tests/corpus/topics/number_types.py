"""Kinds of numbers: halves, bfloat16, complex, intervals, pairs of floats, 64-bit and saturating integers."""

from ..kernel import Blank, Launch, Near, f16, f32, f64, i16, i32, kernel, np, u32, whole

kernel(
    "half2_axpy",
    "Two halves in a register: fused multiply-add on both, the odd element at the end alone.",
    r"""
#include <cuda_fp16.h>
extern "C" __global__ void half_axpy(const __half* x, __half* y, float alpha, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (2 * i + 1 < n) {  // guard
        __half2 a = __float2half2_rn(alpha);
        reinterpret_cast<__half2*>(y)[i] =
            __hfma2(a, reinterpret_cast<const __half2*>(x)[i], reinterpret_cast<const __half2*>(y)[i]);
    } else if (2 * i < n) {
        y[2 * i] = __hfma(__float2half(alpha), x[2 * i], y[2 * i]);
    }
}
""",
    data=lambda rng: {
        "x": rng.standard_normal(301).astype(f16),
        "y": rng.standard_normal(301).astype(f16),
        "alpha": f32(1.5),
        "n": i32(301),
    },
    launch=Launch("half_axpy", 2, 128, "x y alpha n"),
    expect=lambda d: {"y": (1.5 * d["x"].astype(f64) + d["y"].astype(f64)).astype(f16)},
    features="half",
)

kernel(
    "bfloat16_scale_sum",
    "bfloat16 keeps float's range with eight bits of precision: products in bfloat16, sums in float.",
    r"""
#include <cuda_bf16.h>
extern "C" __global__ void bf16_dot(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* products,
        float* sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float mine = 0;
    if (i < n) {  // guard
        products[i] = __hmul(a[i], b[i]);
        mine = __bfloat162float(products[i]);
    }
    for (int o = 16; o; o /= 2) mine += __shfl_down_sync(0xffffffff, mine, o);
    if (threadIdx.x % 32 == 0) sums[i / 32] = mine;
}
""",
    data=lambda rng: {
        "a": bf16(whole(rng, -60, 60, 140)),
        "b": bf16(whole(rng, -60, 60, 140)),
        "products": Blank(140, np.uint16),
        "sums": Blank(6, f32),
        "n": i32(140),
    },
    launch=Launch("bf16_dot", 2, 96, "a b products sums n"),
    expect=lambda d: bf16_products(d["a"], d["b"]),
    features="bfloat16 shuffles",
)


def bf16(x):
    """The bits after rounding to nearest, ties to even."""
    bits = np.asarray(x, f32).view(u32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(u32) << 16).view(f32)


def bf16_products(a, b):
    products = bf16(from_bf16(a) * from_bf16(b))
    return {"products": products, "sums": np.pad(from_bf16(products), (0, 52)).reshape(6, 32).sum(1, dtype=f32)}


kernel(
    "complex_roots_newton",
    "Newton's method in the complex plane with a class template for complex numbers: which root is reached?",
    r"""
template <typename T> struct Complex {
    T re, im;
    __device__ friend Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im,
        a.re * b.im + a.im * b.re}; }
    __device__ friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
    __device__ friend Complex operator/(Complex a, Complex b) {
        T d = b.re * b.re + b.im * b.im;
        return {(a.re * b.re + a.im * b.im) / d, (a.im * b.re - a.re * b.im) / d};
    }
};
extern "C" __global__ void newton(const Complex<double>* start, Complex<double>* root, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    Complex<double> z = start[i];
    for (int k = 0; k < 60; k++) {
        Complex<double> square = z * z;
        z = z - (square * z - Complex<double>{1, 0}) / (square * Complex<double>{3, 0});
    }
    root[i] = z;
}
""",
    data=lambda rng: {
        "start": np.round(1.5 * np.exp(2j * np.pi * (np.arange(90) + 0.25) / 90), 8).view(f64).reshape(90, 2),
        "root": Blank((90, 2), f64),
        "n": i32(90),
    },
    launch=Launch("newton", 3, 32, "start root n"),
    expect=lambda d: {"root": cube_roots(np.ascontiguousarray(d["start"]).view(complex)[:, 0])},
    rounding=Near(1e-12, 1e-12, "the last bit of a limit"),
    features="templates structs",
)


def cube_roots(z):
    roots = np.exp(2j * np.pi * np.arange(3) / 3)
    for _ in range(60):
        z = z - (z**3 - 1) / (3 * z**2)
    return roots[abs(z[:, None] - roots).argmin(1)].view(f64).reshape(-1, 2)


kernel(
    "interval_arithmetic",
    "Each operation twice, rounded down and up: the true result lies between.",
    r"""
struct Interval { double low, high; };
extern "C" __global__ void bounds(const double* x, Interval* sum, Interval* third, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    Interval s = {x[i], x[i]};
    for (int k = 1; k <= 4; k++) {
        double term_low = __ddiv_rd(x[i], k + 1.0), term_high = __ddiv_ru(x[i], k + 1.0);
        s.low = __dadd_rd(s.low, term_low);
        s.high = __dadd_ru(s.high, term_high);
    }
    sum[i] = s;
    third[i] = {__dmul_rd(s.low, 1. / 3), __dmul_ru(s.high, __dsqrt_ru(2.0))};
}
""",
    data=lambda rng: {
        "x": rng.integers(1, 10**6, 60) / 64,
        "sum": Blank((60, 2), f64),
        "third": Blank((60, 2), f64),
        "n": i32(60),
    },
    launch=Launch("bounds", 2, 32, "x sum third n"),
    expect=lambda d: intervals(d["x"]),
    features="rounding_intrinsics structs",
)


def intervals(x):
    """By exact fractions, rounded to the double below and above."""
    from fractions import Fraction
    from math import inf, nextafter, sqrt

    def down(q):
        v = q.numerator / q.denominator
        return v if Fraction(v) <= q else nextafter(v, -inf)

    def up(q):
        v = q.numerator / q.denominator
        return v if Fraction(v) >= q else nextafter(v, inf)

    root = sqrt(2.0)
    root = root if Fraction(root) ** 2 >= 2 else nextafter(root, inf)
    sums, thirds = [], []
    for value in x.tolist():
        low = high = Fraction(value)
        for k in range(2, 6):
            low = Fraction(down(low + Fraction(down(Fraction(value) / k))))
            high = Fraction(up(high + Fraction(up(Fraction(value) / k))))
        sums.append((float(low), float(high)))
        thirds.append((down(low * Fraction(1 / 3)), up(high * Fraction(root))))
    return {"sum": np.array(sums), "third": np.array(thirds)}


kernel(
    "double_float_arithmetic",
    "Nearly double precision from pairs of floats: error-free sums and products by fused multiply-add.",
    r"""
__device__ float2 two_sum(float a, float b) {
    float s = __fadd_rn(a, b), v = __fsub_rn(s, a);
    return make_float2(s, __fadd_rn(__fsub_rn(a, __fsub_rn(s, v)), __fsub_rn(b, v)));
}
__device__ float2 multiply(float2 a, float2 b) {
    float p = __fmul_rn(a.x, b.x), e = __fmaf_rn(a.x, b.x, -p);
    e = __fmaf_rn(a.x, b.y, __fmaf_rn(a.y, b.x, e));
    return two_sum(p, e);
}
extern "C" __global__ void powers(const float2* in, float2* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    float2 x = in[i], r = x;
    #pragma unroll 1
    for (int k = 0; k < 6; k++) r = multiply(r, x);
    out[i] = r;
}
""",
    data=lambda rng: {"in": split(rng.uniform(0.5, 2, 70)), "out": Blank((70, 2), f32), "n": i32(70)},
    launch=Launch("powers", 2, 64, "in out n"),
    expect=lambda d: {"out": powers(d["in"])},
    features="rounding_intrinsics vectors",
)


def split(x):
    high = x.astype(f32)
    return np.stack([high, (x - high).astype(f32)], 1)


def powers(x):
    """The same steps in NumPy: float32 operations, products with one rounding by float64."""

    def fused(a, b, c):
        exact = a.astype(f64) * b
        return np.array([round_sum(p, float(q)) for p, q in zip(exact, c, strict=True)], f32)

    r = x
    for _ in range(6):
        p = r[:, 0] * x[:, 0]
        e = fused(r[:, 0], x[:, 0], -p)
        e = fused(r[:, 0], x[:, 1], fused(r[:, 1], x[:, 0], e))
        s = p + e
        v = s - p
        r = np.stack([s, (p - (s - v)) + (e - v)], 1)
    return r


def round_sum(a, b):
    """a + b rounded once to float32: the sum of doubles is first made exact by its error."""
    s = a + b
    v = s - a
    error = (a - (s - v)) + (b - v)
    nearest = f32(s)
    if error and float(nearest) != s:
        middle = (float(nearest) + float(np.nextafter(nearest, f32(np.inf if s > nearest else -np.inf)))) / 2
        if s == middle:
            away = np.nextafter(nearest, f32(np.inf if s > nearest else -np.inf))
            return away if (error > 0) == (s > nearest) else nearest
    return nearest


kernel(
    "saturating_audio_mix",
    "Mixing 16-bit sound: sums saturate by inline PTX instead of wrapping.",
    r"""
__device__ __forceinline__ short add_saturated(short a, short b) {
    int sum;
    asm("add.sat.s32 %0, %1, %2;" : "=r"(sum) : "r"(a << 16), "r"(b << 16));
    return sum >> 16;
}
extern "C" __global__ void mix(const short2* left, const short2* right, short2* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    short2 a = left[i], b = right[i];
    out[i] = make_short2(add_saturated(a.x, b.x), add_saturated(a.y, b.y));
}
""",
    data=lambda rng: {
        "left": rng.integers(-(2**15), 2**15, (130, 2)).astype(i16),
        "right": rng.integers(-(2**15), 2**15, (130, 2)).astype(i16),
        "out": Blank((130, 2), i16),
        "n": i32(130),
    },
    launch=Launch("mix", 2, 96, "left right out n"),
    expect=lambda d: {"out": (d["left"].astype(i32) + d["right"]).clip(-(2**15), 2**15 - 1).astype(i16)},
    features="inline_ptx vectors",
)

kernel(
    "sixty_four_bit_dates",
    "Divisions and remainders of 64-bit integers: seconds since 1970 become year, month and day.",
    r"""
extern "C" __global__ void dates(const long long* seconds, int3* date, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    long long days = seconds[i] / 86400 - (seconds[i] % 86400 < 0);
    long long z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    unsigned of_era = (unsigned)(z - era * 146097);
    unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned month = (5 * of_year + 2) / 153;
    date[i] = make_int3((int)(year_of_era + era * 400 + (month >= 10)), month < 10 ? month + 3 : month - 9,
                        of_year - (153 * month + 2) / 5 + 1);
}
""",
    data=lambda rng: {"seconds": rng.integers(-(10**10), 2 * 10**11, 140), "date": Blank((140, 3), i32), "n": i32(140)},
    launch=Launch("dates", 2, 96, "seconds date n"),
    expect=lambda d: {"date": calendar(d["seconds"])},
    features="vectors int64",
)


def calendar(seconds):
    text = seconds.astype("datetime64[s]").astype("datetime64[D]").astype(str)
    return np.array([[int(part) for part in t.split("-")] for t in text], i32)
