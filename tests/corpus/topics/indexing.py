"""From threads to data: one, two and three dimensions, strides, reversals and gathers."""

from ..kernel import Blank, Launch, blocks, f32, i32, i64, kernel, normal, np, u8, u32

kernel(
    "grid_stride_square",
    "A grid-stride loop serves any n with any grid.",
    r"""
extern "C" __global__ void grid_stride_square(const int* in, int* out, int n) {
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        out[i] = in[i] * in[i];
}
""",
    data=lambda rng: {"in": rng.integers(-(2**20), 2**20, 1501, dtype=i32), "out": Blank(1501, i32), "n": i32(1501)},
    launch=Launch("grid_stride_square", 3, 128, "in out n"),
    expect=lambda d: {"out": d["in"] * d["in"]},
)

kernel(
    "matrix_add_2d",
    "A two-dimensional grid over a pitched matrix: rows are farther apart than they are wide.",
    r"""
extern "C" __global__ void matrix_add(const float* a, const float* b, float* c, int rows, int columns, int pitch) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)  // guard
        c[row * pitch + column] = a[row * pitch + column] + b[row * pitch + column];
}
""",
    data=lambda rng: {
        "a": normal(rng, 37, 64),
        "b": normal(rng, 37, 64),
        "c": np.full((37, 64), -1, f32),
        "rows": i32(37),
        "columns": i32(53),
        "pitch": i32(64),
    },
    launch=Launch("matrix_add", (blocks(53, 16), blocks(37, 8)), (16, 8), "a b c rows columns pitch"),
    expect=lambda d: {"c": np.where(np.arange(64) < 53, d["a"] + d["b"], f32(-1))},
)

kernel(
    "volume_threshold_3d",
    "A three-dimensional grid; the flat index counts x fastest, then y, then z.",
    r"""
extern "C" __global__ void threshold(const unsigned char* volume, unsigned char* mask, uint3 size, int level) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= size.x || y >= size.y || z >= size.z) return;  // guard
    unsigned i = (z * size.y + y) * size.x + x;
    mask[i] = volume[i] >= level ? 255 : 0;
}
""",
    data=lambda rng: {
        "volume": rng.integers(0, 256, (9, 13, 21), dtype=u8),
        "mask": Blank((9, 13, 21), u8),
        "size": np.array([21, 13, 9], u32).view([("x", u32), ("y", u32), ("z", u32)])[0],
        "level": i32(77),
    },
    launch=Launch("threshold", (3, 4, 3), (8, 4, 4), "volume mask size level"),
    expect=lambda d: {"mask": np.where(d["volume"] >= 77, 255, 0).astype(u8)},
)

kernel(
    "reverse_in_place",
    "Each thread swaps two elements; only the first half of the threads may.",
    r"""
extern "C" __global__ void reverse_in_place(int* values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) {  // guard
        int other = n - 1 - i;
        int kept = values[i];
        values[i] = values[other];
        values[other] = kept;
    }
}
""",
    data=lambda rng: {"values": rng.integers(0, 10**6, 777, dtype=i32), "n": i32(777)},
    launch=Launch("reverse_in_place", blocks(388, 128), 128, "values n"),
    expect=lambda d: {"values": d["values"][::-1]},
)

kernel(
    "block_reverse_shared",
    "A block turns its piece round through dynamic shared memory; the barrier parts writing from reading.",
    r"""
extern "C" __global__ void block_reverse(const short* in, short* out, int n) {
    extern __shared__ short piece[];
    int start = blockIdx.x * blockDim.x;
    int count = min((int)blockDim.x, n - start);
    int t = threadIdx.x;
    if (t < count) piece[t] = in[start + t];  // guard
    __syncthreads();
    if (t < count) out[start + t] = piece[count - 1 - t];  // guard
}
""",
    data=lambda rng: {"in": rng.integers(-3000, 3000, 700, dtype=np.int16), "out": Blank(700, np.int16), "n": i32(700)},
    launch=Launch("block_reverse", 6, 128, "in out n", shared=256),
    expect=lambda d: {"out": np.concatenate([d["in"][s : s + 128][::-1] for s in range(0, 700, 128)])},
    features="dynamic_shared",
)

kernel(
    "gather_permutation",
    "Indirect reads: neighbours in a warp read anywhere. A bad index gives a marker instead of a fault.",
    r"""
extern "C" __global__ void gather(const double* table, int entries, const int* index, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {  // guard
        int at = index[i];
        out[i] = (at >= 0 && at < entries) ? table[at] : -1.0;  // guard
    }
}
""",
    data=lambda rng: {
        "table": rng.random(300),
        "entries": i32(300),
        "index": rng.integers(-20, 320, 900, dtype=i32),
        "out": Blank(900, np.float64),
        "n": i32(900),
    },
    launch=Launch("gather", blocks(900, 256), 256, "table entries index out n"),
    expect=lambda d: {
        "out": np.where((d["index"] >= 0) & (d["index"] < 300), d["table"][d["index"].clip(0, 299)], -1.0)
    },
)

kernel(
    "scatter_inverse",
    "Indirect writes that cannot collide: the inverse of a permutation.",
    r"""
extern "C" __global__ void invert(const unsigned* permutation, unsigned* inverse, unsigned n) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        inverse[permutation[i]] = i;
}
""",
    data=lambda rng: {"permutation": rng.permutation(1111).astype(u32), "inverse": Blank(1111, u32), "n": u32(1111)},
    launch=Launch("invert", 4, 96, "permutation inverse n"),
    expect=lambda d: {"inverse": np.argsort(d["permutation"]).astype(u32)},
)

kernel(
    "where_am_i",
    "Every built-in index of a thread, written by the thread: warp, lane, linear numbers in a 3-D block.",
    r"""
struct Place { int block, thread, warp, lane; };
extern "C" __global__ void where_am_i(Place* places) {
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int size = blockDim.x * blockDim.y * blockDim.z;
    int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    places[block * size + thread] = Place{block, thread, thread / warpSize, lane};
}
""",
    data=lambda rng: {"places": Blank((12, 90, 4), i32)},
    launch=Launch("where_am_i", (2, 3, 2), (5, 6, 3), "places"),
    expect=lambda d: {"places": np.array([[[b, t, t // 32, t % 32] for t in range(90)] for b in range(12)], i32)},
    features="structs inline_ptx",
)

kernel(
    "strided_columns",
    "A thread a column: each walks down its rows, and neighbours read neighbours.",
    r"""
extern "C" __global__ void column_sums(const long long* matrix, long long* sums, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;  // guard
    long long sum = 0;
    for (const long long* p = matrix + column; p < matrix + (size_t)rows * columns; p += columns) sum += *p;
    sums[column] = sum;
}
""",
    data=lambda rng: {
        "matrix": rng.integers(-(2**50), 2**50, (45, 99), dtype=i64),
        "sums": Blank(99, i64),
        "rows": i32(45),
        "columns": i32(99),
    },
    launch=Launch("column_sums", 2, 64, "matrix sums rows columns"),
    expect=lambda d: {"sums": d["matrix"].sum(0)},
)

kernel(
    "circular_shift",
    "Indices that wrap round: a remainder of a negative number needs care in C.",
    r"""
extern "C" __global__ void roll(const float* in, float* out, int shift, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    int from = (i - shift) % n;
    if (from < 0) from += n;
    out[i] = in[from];
}
""",
    data=lambda rng: {"in": normal(rng, 500), "out": Blank(500, f32), "shift": i32(1234), "n": i32(500)},
    launch=Launch("roll", 4, 160, "in out shift n"),
    expect=lambda d: {"out": np.roll(d["in"], 1234)},
)

kernel(
    "triangular_pairs",
    "A thread a pair (i < j): the flat number of a pair is turned into its row by a square root, then put right.",
    r"""
extern "C" __global__ void pair_gaps(const int* x, int* gaps, int n) {
    int pairs = n * (n - 1) / 2;
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= pairs) return;  // guard
    int j = (int)((1.0 + sqrt(1.0 + 8.0 * k)) / 2);
    while (j * (j - 1) / 2 > k) j--;
    while ((j + 1) * j / 2 <= k) j++;
    int i = k - j * (j - 1) / 2;
    gaps[k] = abs(x[i] - x[j]);
}
""",
    data=lambda rng: {"x": rng.integers(-999, 999, 50, dtype=i32), "gaps": Blank(50 * 49 // 2, i32), "n": i32(50)},
    launch=Launch("pair_gaps", blocks(1225, 128), 128, "x gaps n"),
    expect=lambda d: {"gaps": np.array([abs(d["x"][i] - d["x"][j]) for j in range(50) for i in range(j)], i32)},
)
