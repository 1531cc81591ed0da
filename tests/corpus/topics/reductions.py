"""Reductions: from many values to one, by shared memory, shuffles, atomics and several passes."""

from ..kernel import Awkward, Blank, Launch, Near, f32, f64, i32, i64, kernel, np, u32, u64, whole

N = 2000

kernel(
    "sum_interleaved_divergent",
    "The first reduction of every course: neighbours first, every other thread idle, remainders in the condition.",
    r"""
extern "C" __global__ void sum_interleaved(const int* in, int* sums, int n) {
    extern __shared__ int values[];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    values[t] = (i < n) ? in[i] : 0;  // guard
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        if (t % (2 * step) == 0) values[t] += values[t + step];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = values[0];
}
""",
    data=lambda rng: {"in": rng.integers(-999, 999, N, dtype=i32), "sums": Blank(16, i32), "n": i32(N)},
    launch=Launch("sum_interleaved", 16, 128, "in sums n", shared=512),
    expect=lambda d: {"sums": np.array([d["in"][k : k + 128].sum() for k in range(0, N, 128)], i32)},
    features="dynamic_shared",
)

kernel(
    "sum_strided_index",
    "No divergence within a warp, but strided shared addresses: bank conflicts take its place.",
    r"""
extern "C" __global__ void sum_strided(const double* in, double* sums, int n) {
    __shared__ double values[128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    values[t] = (i < n) ? in[i] : 0.0;  // guard
    __syncthreads();
    for (int step = 1; step < 128; step <<= 1) {
        int at = 2 * step * t;
        if (at < 128) values[at] += values[at + step];
        __syncthreads();
    }
    if (!t) sums[blockIdx.x] = values[0];
}
""",
    data=lambda rng: {"in": whole(rng, -999, 999, N, dtype=f64), "sums": Blank(16, f64), "n": i32(N)},
    launch=Launch("sum_strided", 16, 128, "in sums n"),
    expect=lambda d: {"sums": np.array([d["in"][k : k + 128].sum() for k in range(0, N, 128)])},
    features="shared",
)

kernel(
    "sum_sequential_two_loads",
    "Sequential addresses, and each thread adds two elements on the way in: half the blocks.",
    r"""
extern "C" __global__ void sum_sequential(const float* __restrict__ in, float* __restrict__ sums, unsigned n) {
    __shared__ float values[256];
    const unsigned t = threadIdx.x, first = blockIdx.x * 512 + t, second = first + 256;
    float mine = 0;
    if (first < n) mine = in[first];  // guard
    if (second < n) mine += in[second];  // guard
    values[t] = mine;
    __syncthreads();
    for (unsigned half = 128; half > 0; half >>= 1) {
        if (t < half) {
            mine += values[t + half];
            values[t] = mine;
        }
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = mine;
}
""",
    data=lambda rng: {"in": whole(rng, -99, 99, N), "sums": Blank(4, f32), "n": u32(N)},
    launch=Launch("sum_sequential", 4, 256, "in sums n"),
    expect=lambda d: {"sums": np.array([d["in"][k : k + 512].sum() for k in range(0, len(d["in"]), 512)], f32)},
    features="shared",
    awkward=Awkward(
        "the last block ends in its first half",
        lambda rng: {"in": whole(rng, -99, 99, 1600), "sums": Blank(4, f32), "n": u32(1600)},
    ),
)

kernel(
    "sum_unrolled_last_warp",
    "The last warp needs no block barrier: volatile is not enough today, __syncwarp parts reads from writes.",
    r"""
template <int SIZE>
__global__ void sum_last_warp(const int* in, long long* total, int n) {
    __shared__ int values[SIZE];
    int t = threadIdx.x, sum = 0;
    for (int i = blockIdx.x * SIZE + t; i < n; i += SIZE * gridDim.x) sum += in[i];
    values[t] = sum;
    __syncthreads();
    if (SIZE >= 256 && t < 128) values[t] += values[t + 128];
    __syncthreads();
    if (SIZE >= 128 && t < 64) values[t] += values[t + 64];
    __syncthreads();
    if (t < 32) {
        #pragma unroll
        for (int step = 32; step > 0; step >>= 1) {
            int other = values[t + step];
            __syncwarp();
            values[t] += other;
            __syncwarp();
        }
        if (t == 0) atomicAdd((unsigned long long*)total, (unsigned long long)(long long)values[0]);
    }
}
""",
    data=lambda rng: {"in": rng.integers(-(10**6), 10**6, N, dtype=i32), "total": np.zeros(1, i64), "n": i32(N)},
    launch=Launch("sum_last_warp<256>", 3, 256, "in total n"),
    expect=lambda d: {"total": d["in"].sum(keepdims=True, dtype=i64)},
    features="shared templates",
    names=("sum_last_warp<256>",),
)

kernel(
    "sum_two_shuffle_stages",
    "Shuffles in each warp, one word of shared memory a warp, shuffles in the first warp.",
    r"""
__inline__ __device__ double warp_sum(double v) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
    return v;
}
extern "C" __global__ void sum_shuffle(const double* in, double* sums, int n) {
    static __shared__ double of_warp[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    double sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += in[i];
    sum = warp_sum(sum);
    if (lane == 0) of_warp[warp] = sum;
    __syncthreads();
    sum = (threadIdx.x < blockDim.x / warpSize) ? of_warp[lane] : 0;  // guard
    if (warp == 0) sum = warp_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
""",
    data=lambda rng: {"in": rng.random(N), "sums": Blank(3, f64), "n": i32(N)},
    launch=Launch("sum_shuffle", 3, 160, "in sums n"),
    expect=lambda d: {
        "sums": np.array([sum(d["in"][k : k + 160].sum() for k in range(b * 160, N, 480)) for b in range(3)])
    },
    rounding=Near(1e-12, 0, "sums in another order"),
    features="shared shuffles",
)

kernel(
    "sum_multi_pass",
    "The same kernel again on its own results until one value is left.",
    r"""
extern "C" __global__ void pass_sum(const long long* in, long long* out, int n) {
    __shared__ long long line[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    long long v = 0;
    if (i < n) v = in[i];  // guard
    line[threadIdx.x] = v;
    for (int width = 32; width; width >>= 1) {
        __syncthreads();
        if (threadIdx.x < width) line[threadIdx.x] += line[threadIdx.x + width];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = line[0];
}
""",
    data=lambda rng: {
        "in": rng.integers(-(2**40), 2**40, 5000, dtype=i64),
        "a": Blank(79, i64),
        "b": Blank(2, i64),
        "c": Blank(1, i64),
    },
    launch=[
        Launch("pass_sum", 79, 64, ("in", "a", i32(5000))),
        Launch("pass_sum", 2, 64, ("a", "b", i32(79))),
        Launch("pass_sum", 1, 64, ("b", "c", i32(2))),
    ],
    expect=lambda d: (lambda a: {"a": a, "b": np.add.reduceat(a, [0, 64]), "c": a.sum(keepdims=True)})(
        np.add.reduceat(d["in"], np.arange(0, 5000, 64))
    ),
    features="shared multi_launch",
)

kernel(
    "sum_last_block",
    "The block that finishes last, known by an atomic ticket, adds the parts of all: a fence before the ticket.",
    r"""
__device__ unsigned tickets;
extern "C" __global__ void sum_in_one_go(const int* in, volatile int* parts, int* total, int n) {
    __shared__ int line[128];
    __shared__ bool last;
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    line[t] = (i < n) ? in[i] : 0;  // guard
    for (int h = 64; h > 0; h /= 2) {
        __syncthreads();
        if (t < h) line[t] += line[t + h];
    }
    if (t == 0) {
        parts[blockIdx.x] = line[0];
        __threadfence();
        last = atomicInc(&tickets, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    int sum = 0;
    for (int k = t; k < gridDim.x; k += 128) sum += parts[k];
    line[t] = sum;
    for (int h = 64; h > 0; h /= 2) {
        __syncthreads();
        if (t < h) line[t] += line[t + h];
    }
    if (t == 0) *total = line[0];
}
""",
    data=lambda rng: {
        "in": rng.integers(-999, 999, 3000, dtype=i32),
        "parts": Blank(24, i32),
        "total": Blank(1, i32),
        "n": i32(3000),
    },
    launch=Launch("sum_in_one_go", 24, 128, "in parts total n"),
    expect=lambda d: {
        "parts": np.add.reduceat(d["in"], np.arange(0, 3000, 128)).astype(i32),
        "total": d["in"].sum(keepdims=True, dtype=i32),
    },
    features="shared fences device_globals",
)

kernel(
    "segmented_sum_by_keys",
    "Rows of different length, a block each: offsets say where a segment begins.",
    r"""
extern "C" __global__ void segment_sums(const double* values, const int* offsets, double* sums) {
    __shared__ double sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    double mine = 0;
    for (int i = offsets[blockIdx.x] + threadIdx.x; i < offsets[blockIdx.x + 1]; i += blockDim.x) mine += values[i];
    if (mine != 0) atomicAdd(&sum, mine);
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
""",
    data=lambda rng: {
        "values": whole(rng, -99, 99, 1000, dtype=f64),
        "offsets": np.array([0, 3, 3, 130, 131, 600, 999, 1000], i32),
        "sums": Blank(7, f64),
    },
    launch=Launch("segment_sums", 7, 48, "values offsets sums"),
    expect=lambda d: {
        "sums": np.array([d["values"][a:b].sum() for a, b in zip(d["offsets"], d["offsets"][1:], strict=False)])
    },
    features="shared",
)

kernel(
    "reduce_rows_2d_block",
    "A two-dimensional block: each row of threads reduces a row of the matrix, logical AND with block-wide votes.",
    r"""
extern "C" __global__ void rows_all_positive(const short* m, int* all, int rows, int columns) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    int good = 1;
    if (row < rows)  // guard
        for (int c = threadIdx.x; c < columns; c += 32) good &= m[row * columns + c] > 0;
    good = __all_sync(0xffffffffu, good);
    if (threadIdx.x == 0 && row < rows) all[row] = good;  // guard
    int bad_here = __syncthreads_count(row < rows && !good && threadIdx.x == 0);
    if (threadIdx.x == 0 && threadIdx.y == 0) all[rows + blockIdx.x] = bad_here;
}
""",
    data=lambda rng: {
        "m": (rng.integers(-1, 400, (30, 75)) + (rng.random((30, 1)) < 0.5)).astype(np.int16),
        "all": Blank(34, i32),
        "rows": i32(30),
        "columns": i32(75),
    },
    launch=Launch("rows_all_positive", 4, (32, 8), "m all rows columns"),
    expect=lambda d: (
        lambda good: {"all": np.concatenate([good, [(~good[k : k + 8]).sum() for k in range(0, 30, 8)]]).astype(i32)}
    )((d["m"] > 0).all(1)),
    features="votes barrier_reduction",
)

kernel(
    "product_modulo_tree",
    "Any associative operation reduces: products modulo a prime, with 64-bit intermediates.",
    r"""
extern "C" __global__ void product_mod(const unsigned* in, unsigned* out, int n, unsigned p) {
    __shared__ unsigned tree[2 * 64];
    int t = threadIdx.x;
    unsigned long long mine = 1;
    for (int i = blockIdx.x * 64 + t; i < n; i += gridDim.x * 64) mine = mine * in[i] % p;
    tree[64 + t] = (unsigned)mine;
    __syncthreads();
    for (int level = 32; level >= 1; level /= 2) {
        if (t < level) tree[level + t] = (unsigned long long)tree[2 * (level + t)] * tree[2 * (level + t) + 1] % p;
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = tree[1];
}
""",
    data=lambda rng: {
        "in": rng.integers(1, 2**31, 700, dtype=u32),
        "out": Blank(3, u32),
        "n": i32(700),
        "p": u32(998244353),
    },
    launch=Launch("product_mod", 3, 64, "in out n p"),
    expect=lambda d: {"out": np.array([modular_product(d["in"], b) for b in range(3)], u32)},
    features="shared",
)


def modular_product(values, block):
    result = 1
    for start in range(block * 64, len(values), 192):
        for v in values[start : start + 64]:
            result = result * int(v) % 998244353
    return result


kernel(
    "checksum_xor_fold",
    "Order-free checksums: xor and a rotated sum, folded by shuffles of 64-bit values.",
    r"""
extern "C" __global__ void checksum(const unsigned long long* words, unsigned long long* out, int n) {
    unsigned long long x = 0, s = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        x ^= words[i];
        s += (words[i] << 7) | (words[i] >> 57);
    }
    for (int lane = 1; lane < 32; lane <<= 1) {
        x ^= __shfl_xor_sync(~0u, x, lane);
        s += __shfl_xor_sync(~0u, s, lane);
    }
    if (threadIdx.x < 2) out[threadIdx.x] = threadIdx.x ? s : x;
}
""",
    data=lambda rng: {"words": rng.integers(0, 2**64, 333, dtype=u64), "out": Blank(2, u64), "n": i32(333)},
    launch=Launch("checksum", 1, 32, "words out n"),
    expect=lambda d: {
        "out": np.array(
            [np.bitwise_xor.reduce(d["words"]), ((d["words"] << u64(7)) | (d["words"] >> u64(57))).sum(dtype=u64)]
        )
    },
    features="shuffles",
)
