"""One thread an element: the first kernels of every course, and the guard they need."""

from ..kernel import Blank, Global, Launch, Near, blocks, f32, f64, fma, i32, kernel, normal, np, u8, u64, whole

N = 1000


def over(name, args, size=256, n=N):
    """One launch of enough blocks for ``n`` elements."""
    return Launch(name, blocks(n, size), size, args)


kernel(
    "vector_add",
    "The index of a thread, and the guard that keeps the threads past the end away.",
    r"""
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)  // guard
        c[i] = a[i] + b[i];
}
""",
    data=lambda rng: {"a": normal(rng, N), "b": normal(rng, N), "c": Blank(N, f32), "n": i32(N)},
    launch=over("vector_add", "a b c n"),
    expect=lambda d: {"c": d["a"] + d["b"]},
)

kernel(
    "saxpy_in_place",
    "A product and a sum become one rounding: fused multiply-add. An early return is a guard too.",
    r"""
extern "C" __global__ void saxpy_in_place(float alpha, const float* __restrict__ x, float* __restrict__ y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    y[i] = alpha * x[i] + y[i];
}
""",
    data=lambda rng: {"x": normal(rng, N), "y": normal(rng, N), "alpha": f32(2.5), "n": i32(N)},
    launch=over("saxpy_in_place", "alpha x y n"),
    expect=lambda d: {"y": fma(d["alpha"], d["x"], d["y"])},
)

kernel(
    "polynomial_horner",
    "Arithmetic in a register: a loop over coefficients held in constant memory.",
    r"""
__constant__ double coefficients[7];
extern "C" __global__ void polynomial_horner(const double* x, double* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {  // guard
        double sum = coefficients[0];
        #pragma unroll
        for (int k = 1; k < 7; k++) sum = sum * x[i] + coefficients[k];
        y[i] = sum;
    }
}
""",
    data=lambda rng: {
        "x": rng.uniform(-1, 1, N),
        "y": Blank(N, f64),
        "n": i32(N),
        "coefficients": Global(rng.standard_normal(7)),
    },
    launch=over("polynomial_horner", "x y n", 128),
    expect=lambda d: {"y": np.polyval(d["coefficients"].value, d["x"])},
    rounding=Near(1e-13, 1e-14, "fused multiply-add"),
    features="constant",
)

kernel(
    "clamp_and_count",
    "A branch on data; how many elements it changed is counted with an atomic.",
    r"""
extern "C" __global__ void clamp_and_count(int* values, int low, int high, int* changed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {  // guard
        int before = values[i];
        int after = min(max(before, low), high);
        if (after != before) {
            values[i] = after;
            atomicAdd(changed, 1);
        }
    }
}
""",
    data=lambda rng: {
        "values": rng.integers(-100, 100, N, dtype=i32),
        "low": i32(-40),
        "high": i32(55),
        "changed": np.zeros(1, i32),
        "n": i32(N),
    },
    launch=over("clamp_and_count", "values low high changed n"),
    expect=lambda d: {
        "values": d["values"].clip(-40, 55),
        "changed": np.array([((d["values"] < -40) | (d["values"] > 55)).sum()], i32),
    },
)

kernel(
    "celsius_table",
    "A table by a special function: sinf is approximate, its error is a few units in the last place.",
    r"""
extern "C" __global__ void season_table(float* temperature, float mean, float swing, int days) {
    for (int day = blockIdx.x * blockDim.x + threadIdx.x; day < days; day += gridDim.x * blockDim.x) {
        float angle = 6.2831853f * (day - 105) / 365.25f;
        temperature[day] = mean + swing * sinf(angle);
    }
}
""",
    data=lambda rng: {"temperature": Blank(731, f32), "mean": f32(10.5), "swing": f32(9), "days": i32(731)},
    launch=Launch("season_table", 2, 96, "temperature mean swing days"),
    expect=lambda d: {"temperature": (10.5 + 9 * np.sin(2 * np.pi * (np.arange(731) - 105) / 365.25)).astype(f32)},
    tolerance=Near(0, 4e-5, "approximate functions: sinf of an angle rounded to float32"),
)

kernel(
    "vector_loads_float4",
    "float4 moves 16 bytes an instruction; the tail that does not fill a vector is one thread's work.",
    r"""
extern "C" __global__ void scale_float4(const float* __restrict__ in, float* __restrict__ out, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i + 3 < n) {  // guard
        float4 v = reinterpret_cast<const float4*>(in)[i];
        v.x *= factor; v.y *= factor; v.z *= factor; v.w *= factor;
        reinterpret_cast<float4*>(out)[i] = v;
    } else {
        for (int k = 4 * i; k < n; k++) out[k] = in[k] * factor;
    }
}
""",
    data=lambda rng: {"in": normal(rng, 1003), "out": Blank(1003, f32), "factor": f32(0.3), "n": i32(1003)},
    launch=Launch("scale_float4", 3, 128, "in out factor n"),
    expect=lambda d: {"out": d["in"] * d["factor"]},
    features="vectors",
)

kernel(
    "select_by_mask",
    "Choosing without a branch: bytes as booleans, the ternary operator as a select.",
    r"""
extern "C" __global__ void where(const unsigned char* mask, const double* yes, const double* no, double* out,
        size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    out[i] = mask[i] ? yes[i] : no[i];
}
""",
    data=lambda rng: {
        "mask": rng.integers(0, 2, N, dtype=u8),
        "yes": rng.random(N),
        "no": rng.random(N),
        "out": Blank(N, f64),
        "n": u64(N),
    },
    launch=over("where", "mask yes no out n", 192),
    expect=lambda d: {"out": np.where(d["mask"], d["yes"], d["no"])},
)

kernel(
    "several_per_thread",
    "Four independent loads before the first use: instruction-level parallelism hides latency.",
    r"""
extern "C" __global__ void lerp4(const float* a, const float* b, float t, float* out, int n) {
    const int first = blockIdx.x * blockDim.x * 4 + threadIdx.x;
    float x[4], y[4];
    #pragma unroll
    for (int k = 0; k < 4; k++) {
        int i = first + k * blockDim.x;
        x[k] = (i < n) ? a[i] : 0;  // guard
        y[k] = (i < n) ? b[i] : 0;  // guard
    }
    #pragma unroll
    for (int k = 0; k < 4; k++) {
        int i = first + k * blockDim.x;
        if (i < n) out[i] = x[k] + t * (y[k] - x[k]);  // guard
    }
}
""",
    data=lambda rng: {"a": normal(rng, N), "b": normal(rng, N), "t": f32(0.25), "out": Blank(N, f32), "n": i32(N)},
    launch=Launch("lerp4", blocks(N, 512), 128, "a b t out n"),
    expect=lambda d: {"out": fma(d["t"], d["b"] - d["a"], d["a"])},
)

kernel(
    "distance_to_origin",
    "Structure of arrays: one buffer for each component; hypot by a square root that rounds correctly.",
    r"""
extern "C" __global__ void distance(const float* x, const float* y, const float* z, float* d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)  // guard
        d[i] = sqrtf(x[i] * x[i] + y[i] * y[i] + z[i] * z[i]);
}
""",
    data=lambda rng: {
        "x": whole(rng, -50, 50, N),
        "y": whole(rng, -50, 50, N),
        "z": whole(rng, -50, 50, N),
        "d": Blank(N, f32),
        "n": i32(N),
    },
    launch=over("distance", "x y z d n", 64),
    expect=lambda d: {"d": np.sqrt(d["x"] ** 2 + d["y"] ** 2 + d["z"] ** 2)},
)
