"""Reductions of more than a sum: places, extremes, norms, moments, sums that lose little."""

from ..kernel import Blank, Launch, Near, f32, f64, i32, kernel, normal, np, u32, whole

N = 2000

kernel(
    "argmax_pairs",
    "Value and place travel together; of equal values the first place wins.",
    r"""
struct Best { float value; int at; };
__device__ Best better(Best a, Best b) {
    return (b.value > a.value || (b.value == a.value && b.at < a.at)) ? b : a;
}
extern "C" __global__ void argmax(const float* in, Best* result, int n) {
    __shared__ Best best[128];
    Best mine = {-INFINITY, n};
    for (int i = threadIdx.x; i < n; i += blockDim.x) mine = better(mine, Best{in[i], i});
    best[threadIdx.x] = mine;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) best[threadIdx.x] = better(best[threadIdx.x], best[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0) *result = best[0];
}
""".replace("-INFINITY", "__int_as_float(0xff800000)"),
    data=lambda rng: {"in": whole(rng, -40, 40, N), "result": np.zeros(1, [("value", f32), ("at", i32)]), "n": i32(N)},
    launch=Launch("argmax", 1, 128, "in result n"),
    expect=lambda d: {"result": np.array([(d["in"].max(), d["in"].argmax())], [("value", f32), ("at", i32)])},
    features="shared structs",
)

kernel(
    "norm_scaled_two_pass",
    "A Euclidean norm that cannot overflow: the largest magnitude first, then a sum of scaled squares.",
    r"""
extern "C" __global__ void largest(const float* x, unsigned* bits, int n) {
    unsigned most = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        most = max(most, __float_as_uint(x[i]) & 0x7fffffffu);
    for (int o = 16; o; o >>= 1) most = max(most, __shfl_xor_sync(0xffffffff, most, o));
    if ((threadIdx.x & 31) == 0) atomicMax(bits, most);
}
extern "C" __global__ void scaled_norm(const float* x, const unsigned* bits, float* norm, int n) {
    __shared__ float of_warp[4];
    float scale = __uint_as_float(*bits), sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float r = x[i] / scale;
        sum += r * r;
    }
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    if ((threadIdx.x & 31) == 0) of_warp[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x == 0) *norm = scale * sqrtf(of_warp[0] + of_warp[1] + of_warp[2] + of_warp[3]);
}
""",
    data=lambda rng: {"x": normal(rng, N) * f32(1e30), "bits": np.zeros(1, u32), "norm": Blank(1, f32), "n": i32(N)},
    launch=[Launch("largest", 3, 96, "x bits n"), Launch("scaled_norm", 1, 128, "x bits norm n")],
    expect=lambda d: {
        "bits": abs(d["x"]).max(keepdims=True).view(u32),
        "norm": np.sqrt((d["x"].astype(f64) ** 2).sum(keepdims=True)).astype(f32),
    },
    rounding=Near(1e-5, 0, "float32 instead of double"),
    features="shared shuffles multi_launch",
)

kernel(
    "minimum_and_maximum",
    "Two results of one pass; whole-number reduction instructions of a warp.",
    r"""
extern "C" __global__ void extrema(const int* in, int2* result, int n) {
    int low = INT_MAX, high = INT_MIN;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        low = min(low, in[i]);
        high = max(high, in[i]);
    }
    low = __reduce_min_sync(0xffffffff, low);
    high = __reduce_max_sync(0xffffffff, high);
    if (threadIdx.x % 32 == 0) {
        atomicMin(&result->x, low);
        atomicMax(&result->y, high);
    }
}
""".replace("INT_MAX", "0x7fffffff").replace("INT_MIN", "(int)0x80000000"),
    data=lambda rng: {
        "in": rng.integers(-(10**9), 10**9, N, dtype=i32),
        "result": np.array([2**31 - 1, -(2**31)], i32),
        "n": i32(N),
    },
    launch=Launch("extrema", 2, 192, "in result n"),
    expect=lambda d: {"result": np.array([d["in"].min(), d["in"].max()], i32)},
    features="warp_reduce vectors",
)

kernel(
    "mean_variance_welford",
    "Count, mean and sum of squares are merged pairwise: stable where the naive formula loses all digits.",
    r"""
struct Moments { double count, mean, squares; };
__device__ Moments merge(const Moments& a, const Moments& b) {
    double count = a.count + b.count, delta = b.mean - a.mean;
    if (count == 0) return a;
    return {count, a.mean + delta * b.count / count, a.squares + b.squares + delta * delta * a.count * b.count / count};
}
extern "C" __global__ void welford(const float* in, Moments* out, int n) {
    __shared__ Moments shared[96];
    Moments m = {0, 0, 0};
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        double delta = in[i] - m.mean;
        m.count += 1;
        m.mean += delta / m.count;
        m.squares += delta * (in[i] - m.mean);
    }
    shared[threadIdx.x] = m;
    __syncthreads();
    for (int active = blockDim.x; active > 1;) {
        int half = (active + 1) / 2;
        if (threadIdx.x + half < active)  // guard
            shared[threadIdx.x] = merge(shared[threadIdx.x], shared[threadIdx.x + half]);
        active = half;
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = shared[0];
}
""",
    data=lambda rng: {"in": 10000 + normal(rng, 1777), "out": Blank(3, f64), "n": i32(1777)},
    launch=Launch("welford", 1, 96, "in out n"),
    expect=lambda d: (lambda x: {"out": np.array([len(x), x.mean(), ((x - x.mean()) ** 2).sum()])})(
        d["in"].astype(f64)
    ),
    rounding=Near(1e-9, 0, "another order"),
    features="shared structs",
)

kernel(
    "dot_float_atomics",
    "Every block adds its part of a dot product by a float atomic: the order, and so the last bits, are free.",
    r"""
extern "C" __global__ void dot(const float* a, const float* b, float* result, int n) {
    __shared__ float cache[128];
    float temp = 0;
    for (int tid = threadIdx.x + blockIdx.x * blockDim.x;
        tid < n; tid += blockDim.x * gridDim.x) temp += a[tid] * b[tid];
    cache[threadIdx.x] = temp;
    __syncthreads();
    int i = blockDim.x / 2;
    while (i != 0) {
        if (threadIdx.x < i) cache[threadIdx.x] += cache[threadIdx.x + i];
        __syncthreads();
        i /= 2;
    }
    if (threadIdx.x == 0) atomicAdd(result, cache[0]);
}
""",
    data=lambda rng: {"a": normal(rng, N), "b": normal(rng, N), "result": np.zeros(1, f32), "n": i32(N)},
    launch=Launch("dot", 7, 128, "a b result n"),
    expect=lambda d: {"result": (d["a"].astype(f64) @ d["b"])[None].astype(f32)},
    tolerance=Near(1e-4, 1e-4, "float atomics"),
    features="shared",
)

kernel(
    "compensated_kahan_sum",
    "Kahan's correction keeps what a float sum loses; contraction would not hurt it, reordering would.",
    r"""
extern "C" __global__ void kahan(const float* in, float* sums, int n, int threads) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= threads) return;  // guard
    float sum = 0, lost = 0;
    for (int i = t; i < n; i += threads) {
        float y = in[i] - lost;
        float next = sum + y;
        lost = (next - sum) - y;
        sum = next;
    }
    sums[t] = sum;
}
""",
    data=lambda rng: {
        "in": (normal(rng, N) * f32(1000)).astype(f32),
        "sums": Blank(10, f32),
        "n": i32(N),
        "threads": i32(10),
    },
    launch=Launch("kahan", 1, 32, "in sums n threads"),
    expect=lambda d: {"sums": d["in"].astype(f64).reshape(-1, 10).sum(0).astype(f32)},
    rounding=Near(3e-7, 1e-3, "one rounding of the last sum"),
)
