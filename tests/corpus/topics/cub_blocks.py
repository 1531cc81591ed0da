"""CUB's block-wide primitives: what a library gives where a learner has written it by hand."""

from ..kernel import Blank, Launch, f32, f64, i32, kernel, np, u32, whole

CUB = (
    "cub/block/block_reduce.cuh",
    "cub/block/block_scan.cuh",
    "cub/block/block_radix_sort.cuh",
    "cub/block/block_load.cuh",
    "cub/block/block_store.cuh",
    "cub/warp/warp_reduce.cuh",
)

kernel(
    "cub_block_reduce",
    "BlockReduce with its own operation: the struct's temporary storage is the caller's shared memory.",
    r"""
struct Longest {
    __device__ int2 operator()(const int2& a,
        const int2& b) const { return b.x > a.x || (b.x == a.x && b.y < a.y) ? b : a; }
};
extern "C" __global__ void longest_of_block(const int* lengths, int2* best, int n) {
    using Reduce = cub::BlockReduce<int2, 128>;
    __shared__ typename Reduce::TempStorage temporary;
    int i = blockIdx.x * 128 + threadIdx.x;
    int2 mine = make_int2((i < n) ? lengths[i] : -1, i);  // guard
    int2 found = Reduce(temporary).Reduce(mine, Longest());
    if (threadIdx.x == 0) best[blockIdx.x] = found;
}
""",
    data=lambda rng: {"lengths": rng.integers(0, 60, 333, dtype=i32), "best": Blank((3, 2), i32), "n": i32(333)},
    launch=Launch("longest_of_block", 3, 128, "lengths best n"),
    expect=lambda d: {
        "best": i32([[d["lengths"][k : k + 128].max(), k + d["lengths"][k : k + 128].argmax()] for k in (0, 128, 256)])
    },
    headers=CUB,
    features="cub shared",
)

kernel(
    "cub_block_scan_items",
    "Four items a thread, striped in memory and blocked in registers: BlockLoad, BlockScan, BlockStore share storage.",
    r"""
extern "C" __global__ void scan_items(const unsigned* in, unsigned* out, unsigned* total, int n) {
    using Load = cub::BlockLoad<unsigned, 64, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    using Scan = cub::BlockScan<unsigned, 64>;
    using Store = cub::BlockStore<unsigned, 64, 4, cub::BLOCK_STORE_TRANSPOSE>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Scan::TempStorage scan;
        typename Store::TempStorage store;
    } shared;
    unsigned items[4], sum;
    int start = blockIdx.x * 256;
    Load(shared.load).Load(in + start, items, n - start, 0u);
    __syncthreads();
    Scan(shared.scan).ExclusiveSum(items, items, sum);
    __syncthreads();
    Store(shared.store).Store(out + start, items, n - start);
    if (threadIdx.x == 0) total[blockIdx.x] = sum;
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 99, 700, dtype=u32),
        "out": Blank(700, u32),
        "total": Blank(3, u32),
        "n": i32(700),
    },
    launch=Launch("scan_items", 3, 64, "in out total n"),
    expect=lambda d: {
        "out": np.concatenate(
            [np.cumsum(d["in"][k : k + 256]) - d["in"][k : k + 256] for k in range(0, 700, 256)]
        ).astype(u32),
        "total": np.add.reduceat(d["in"], [0, 256, 512]).astype(u32),
    },
    headers=CUB,
    features="cub shared",
)

kernel(
    "cub_block_radix_sort_pairs",
    "BlockRadixSort sorts keys with their values, floats too; what is missing counts as largest.",
    r"""
extern "C" __global__ void sort_pairs(float* keys, int* values, int n) {
    using Sort = cub::BlockRadixSort<float, 96, 3, int>;
    __shared__ typename Sort::TempStorage temporary;
    float key[3];
    int value[3];
    for (int k = 0; k < 3; k++) {
        int i = threadIdx.x * 3 + k;
        key[k] = (i < n) ? keys[i] : __int_as_float(0x7f800000);  // guard
        value[k] = (i < n) ? values[i] : -1;  // guard
    }
    Sort(temporary).Sort(key, value);
    for (int k = 0; k < 3; k++) {
        int i = threadIdx.x * 3 + k;
        if (i < n) {  // guard
            keys[i] = key[k];
            values[i] = value[k];
        }
    }
}
""",
    data=lambda rng: {"keys": rng.standard_normal(251, dtype=f32), "values": np.arange(251, dtype=i32), "n": i32(251)},
    launch=Launch("sort_pairs", 1, 96, "keys values n"),
    expect=lambda d: {"keys": np.sort(d["keys"]), "values": np.argsort(d["keys"]).astype(i32)},
    headers=CUB,
    features="cub shared",
)

kernel(
    "cub_warp_reduce_subwarps",
    "WarpReduce for eight lanes: several logical warps in one, each with its own storage.",
    r"""
extern "C" __global__ void row_sums(const double* in, double* sums, int rows, int columns) {
    using Reduce = cub::WarpReduce<double, 8>;
    __shared__ typename Reduce::TempStorage temporary[12];
    int team = threadIdx.x / 8, row = blockIdx.x * 12 + team;
    double mine = 0;
    if (row < rows)  // guard
        for (int c = threadIdx.x % 8; c < columns; c += 8) mine += in[row * columns + c];
    double sum = Reduce(temporary[team]).Sum(mine);
    if (threadIdx.x % 8 == 0 && row < rows) sums[row] = sum;  // guard
}
""",
    data=lambda rng: {
        "in": whole(rng, -99, 99, 31, 21, dtype=f64),
        "sums": Blank(31, f64),
        "rows": i32(31),
        "columns": i32(21),
    },
    launch=Launch("row_sums", 3, 96, "in sums rows columns"),
    expect=lambda d: {"sums": d["in"].sum(1)},
    headers=CUB,
    features="cub shared",
)
