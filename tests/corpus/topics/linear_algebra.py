"""Dense and sparse linear algebra: products, transpositions, one step of a factorisation, solvers' kernels."""

from ..kernel import Blank, Launch, Near, f32, f64, i32, kernel, normal, np, whole

ORDER = Near(1e-5, 1e-5, "sums in another order, fused multiply-add")
ORDER64 = Near(1e-12, 1e-12, "sums in another order, fused multiply-add")
M, N, K = 45, 37, 51


def matrices(rng):
    """Whole numbers: every sum is exact in float32."""
    return {
        "a": whole(rng, -9, 10, M, K),
        "b": whole(rng, -9, 10, K, N),
        "c": Blank((M, N), f32),
        "m": i32(M),
        "n": i32(N),
        "k": i32(K),
    }


def product(d):
    return {"c": d["a"] @ d["b"]}


kernel(
    "matvec_thread_per_row",
    "A matrix times a vector, a thread a row: simple, and its reads are far apart.",
    r"""
extern "C" __global__ void matvec(const double* a, const double* x, double* y, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {  // guard
        double dot = 0.0;
        for (int j = 0; j < columns; ++j) dot += a[row * columns + j] * x[j];
        y[row] = dot;
    }
}
""",
    data=lambda rng: {
        "a": rng.standard_normal((99, 40)),
        "x": rng.standard_normal(40),
        "y": Blank(99, f64),
        "rows": i32(99),
        "columns": i32(40),
    },
    launch=Launch("matvec", 4, 32, "a x y rows columns"),
    expect=lambda d: {"y": d["a"] @ d["x"]},
    rounding=ORDER64,
)

kernel(
    "matvec_warp_per_row",
    "A warp a row: lanes read neighbours and add up by shuffles.",
    r"""
extern "C" __global__ void matvec_warp(const float* a, const float* x, float* y, int rows, int columns) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;  // guard
    float sum = 0;
    for (int j = lane; j < columns; j += 32) sum = fmaf(a[row * columns + j], x[j], sum);
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(~0u, sum, distance);
    if (lane == 0) y[row] = sum;
}
""",
    data=lambda rng: {
        "a": normal(rng, 21, 77),
        "x": normal(rng, 77),
        "y": Blank(21, f32),
        "rows": i32(21),
        "columns": i32(77),
    },
    launch=Launch("matvec_warp", 6, 128, "a x y rows columns"),
    expect=lambda d: {"y": d["a"] @ d["x"]},
    rounding=ORDER,
    features="shuffles",
)

kernel(
    "matmul_naive",
    "A thread an element of the product.",
    r"""
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && column < n) {  // guard
        float sum = 0.0f;
        for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + column];
        c[row * n + column] = sum;
    }
}
""",
    data=matrices,
    launch=Launch("matmul", (3, 6), (16, 8), "a b c m n k"),
    expect=product,
)

kernel(
    "matmul_tiled",
    "Tiles in shared memory; two barriers, one before the tile is read and one before it is overwritten.",
    r"""
#define T 16
extern "C" __global__ void matmul_tiled(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float left[T][T], right[T][T];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * T + ty, column = blockIdx.x * T + tx;
    float sum = 0;
    for (int start = 0; start < k; start += T) {
        left[ty][tx] = (row < m && start + tx < k) ? a[row * k + start + tx] : 0;  // guard
        right[ty][tx] = (start + ty < k && column < n) ? b[(start + ty) * n + column] : 0;  // guard
        __syncthreads();
        for (int i = 0; i < T; i++) sum += left[ty][i] * right[i][tx];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;  // guard
}
""",
    data=matrices,
    launch=Launch("matmul_tiled", (3, 3), (16, 16), "a b c m n k"),
    expect=product,
    features="shared",
)

kernel(
    "matmul_register_tiles",
    "Each thread keeps four by two sums in registers: one shared read serves several products.",
    r"""
template <int BM, int BN, int BK, int TM, int TN>
__global__ void matmul_registers(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
        int m, int n, int k) {
    __shared__ float as[BK][BM + 1];
    __shared__ float bs[BK][BN];
    constexpr int THREADS = BM / TM * (BN / TN);
    const int t = threadIdx.x, tr = t / (BN / TN) * TM, tc = t % (BN / TN) * TN;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < k; k0 += BK) {
        for (int e = t; e < BM * BK; e += THREADS) {
            int r = top + e / BK, q = k0 + e % BK;
            as[e % BK][e / BK] = (r < m && q < k) ? a[r * k + q] : 0;  // guard
        }
        for (int e = t; e < BN * BK; e += THREADS) {
            int q = k0 + e / BN, s = left + e % BN;
            bs[e / BN][e % BN] = (q < k && s < n) ? b[q * n + s] : 0;  // guard
        }
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < BK; q++) {
            float column[TM], line[TN];
            for (int i = 0; i < TM; i++) column[i] = as[q][tr + i];
            for (int j = 0; j < TN; j++) line[j] = bs[q][tc + j];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++) acc[i][j] += column[i] * line[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            if (top + tr + i < m && left + tc + j < n) c[(top + tr + i) * n + left + tc + j] = acc[i][j];  // guard
}
""",
    data=matrices,
    launch=Launch("matmul_registers<32, 16, 8, 4, 2>", (3, 2), 64, "a b c m n k"),
    expect=product,
    features="shared templates",
    names=("matmul_registers<32, 16, 8, 4, 2>",),
)

kernel(
    "matmul_vectorised_rows",
    "float4 reads of B: a thread computes four neighbours of a row. The width is a multiple of four by contract.",
    r"""
extern "C" __global__ void matmul_float4(const float* a, const float4* b, float4* c, int m, int n4, int k) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || column >= n4) return;  // guard
    float4 sum = {0, 0, 0, 0};
    for (int i = 0; i < k; i++) {
        float s = a[row * k + i];
        float4 v = __ldg(&b[i * n4 + column]);
        sum.x += s * v.x; sum.y += s * v.y; sum.z += s * v.z; sum.w += s * v.w;
    }
    c[row * n4 + column] = sum;
}
""",
    data=lambda rng: {
        "a": whole(rng, -9, 9, 19, 23),
        "b": whole(rng, -9, 9, 23, 44),
        "c": Blank((19, 44), f32),
        "m": i32(19),
        "n4": i32(11),
        "k": i32(23),
    },
    launch=Launch("matmul_float4", (2, 3), (8, 8), "a b c m n4 k"),
    expect=product,
    features="vectors",
)

kernel(
    "matmul_batched_strided",
    "Many small products: the third dimension of the grid counts them; B is read transposed.",
    r"""
extern "C" __global__ void batched(const double* a, const double* bt, double* c, int size) {
    extern __shared__ double line[];
    size_t offset = (size_t)blockIdx.z * size * size;
    int row = blockIdx.y;
    for (int j = threadIdx.x; j < size; j += blockDim.x) line[j] = a[offset + row * size + j];
    __syncthreads();
    for (int j = threadIdx.x; j < size; j += blockDim.x) {
        double dot = 0;
        for (int q = 0; q < size; q++) dot += line[q] * bt[offset + j * size + q];
        c[offset + row * size + j] = dot;
    }
}
""",
    data=lambda rng: {
        "a": whole(rng, -5, 5, 5, 18, 18, dtype=f64),
        "bt": whole(rng, -5, 5, 5, 18, 18, dtype=f64),
        "c": Blank((5, 18, 18), f64),
        "size": i32(18),
    },
    launch=Launch("batched", (1, 18, 5), 16, "a bt c size", shared=18 * 8),
    expect=lambda d: {"c": d["a"] @ d["bt"].transpose(0, 2, 1)},
    features="dynamic_shared",
)

kernel(
    "matmul_split_k",
    "The sum is split over blocks; each adds its part with an atomic. Whole numbers make the order irrelevant.",
    r"""
extern "C" __global__ void matmul_split(const float* a, const float* b, float* c, int m, int n, int k, int chunk) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    int begin = blockIdx.z * chunk, end = min(begin + chunk, k);
    if (column >= n) return;  // guard
    float part = 0;
    for (int i = begin; i < end; i++) part += a[row * k + i] * b[i * n + column];
    atomicAdd(c + row * n + column, part);
}
""",
    data=lambda rng: {**matrices(rng), "c": np.zeros((M, N), f32), "chunk": i32(13)},
    launch=Launch("matmul_split", (2, M, 4), 32, "a b c m n k chunk"),
    expect=product,
)

kernel(
    "transpose_naive",
    "Reads in rows, writes in columns: one of the two is always scattered.",
    r"""
extern "C" __global__ void transpose(const int* in, int* out, int rows, int columns) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < columns && y < rows)  // guard
        out[x * rows + y] = in[y * columns + x];
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 10**6, (45, 70), dtype=i32),
        "out": Blank((70, 45), i32),
        "rows": i32(45),
        "columns": i32(70),
    },
    launch=Launch("transpose", (3, 3), (32, 16), "in out rows columns"),
    expect=lambda d: {"out": d["in"].T},
)

kernel(
    "transpose_tile_padded",
    "A tile of 32 rows and 33 columns: written in rows, read in columns, without bank conflicts.",
    r"""
extern "C" __global__ void transpose_tile(const float* __restrict__ in, float* __restrict__ out, int rows,
        int columns) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < columns && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * columns + x];  // guard
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < rows && y + j < columns) out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];  // guard
}
""",
    data=lambda rng: {"in": normal(rng, 45, 70), "out": Blank((70, 45), f32), "rows": i32(45), "columns": i32(70)},
    launch=Launch("transpose_tile", (3, 2), (32, 8), "in out rows columns"),
    expect=lambda d: {"out": d["in"].T},
    features="shared",
)

kernel(
    "transpose_swizzled_in_place",
    "A square matrix in place: a block swaps two tiles; columns are permuted by xor instead of padding.",
    r"""
extern "C" __global__ void transpose_swap(float* matrix, int n) {
    if (blockIdx.x > blockIdx.y) return;
    __shared__ float upper[16 * 16], lower[16 * 16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int ux = blockIdx.y * 16 + tx, uy = blockIdx.x * 16 + ty;
    int lx = blockIdx.x * 16 + tx, ly = blockIdx.y * 16 + ty;
    int slot = ty * 16 + (tx ^ ty), mirrored = tx * 16 + (tx ^ ty);
    if (ux < n && uy < n) upper[slot] = matrix[uy * n + ux];  // guard
    if (lx < n && ly < n) lower[slot] = matrix[ly * n + lx];  // guard
    __syncthreads();
    if (ux < n && uy < n) matrix[uy * n + ux] = lower[mirrored];  // guard
    if (blockIdx.x != blockIdx.y && lx < n && ly < n) matrix[ly * n + lx] = upper[mirrored];  // guard
}
""",
    data=lambda rng: {"matrix": normal(rng, 41, 41), "n": i32(41)},
    launch=Launch("transpose_swap", (3, 3), (16, 16), "matrix n"),
    expect=lambda d: {"matrix": d["matrix"].T},
    features="shared",
)

kernel(
    "outer_product_update",
    "A rank-one update: A gets x yT added. Rows of the grid read one x each.",
    r"""
extern "C" __global__ void ger(double* __restrict__ a, const double* x, const double* y, double alpha, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    double scaled = alpha * x[blockIdx.y];
    if (j < n) a[blockIdx.y * n + j] += scaled * y[j];  // guard
}
""",
    data=lambda rng: {
        "a": whole(rng, -99, 99, 23, 35, dtype=f64),
        "x": whole(rng, -99, 99, 23, dtype=f64),
        "y": whole(rng, -99, 99, 35, dtype=f64),
        "alpha": f64(3),
        "n": i32(35),
    },
    launch=Launch("ger", (2, 23), 32, "a x y alpha n"),
    expect=lambda d: {"a": d["a"] + 3 * np.outer(d["x"], d["y"])},
)
