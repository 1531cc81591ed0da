"""Cooperative groups: blocks, tiles, coalesced lanes, grids and clusters as objects."""

from ..kernel import Blank, Launch, Scratch, f32, f64, i32, kernel, np, u32, whole

GROUPS = ("cooperative_groups.h", "cooperative_groups/reduce.h", "cooperative_groups/scan.h")

kernel(
    "tile_reduce_rows",
    "A tile of eight threads a row; cg::reduce adds over the tile, whatever its size.",
    r"""
namespace cg = cooperative_groups;
extern "C" __global__ void tile_rows(const int* in, int* out, int rows, int columns) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int row = blockIdx.x * (blockDim.x / 8) + tile.meta_group_rank();
    if (row >= rows) return;  // guard
    int sum = 0;
    for (int c = tile.thread_rank(); c < columns; c += tile.size()) sum += in[row * columns + c];
    sum = cg::reduce(tile, sum, cg::plus<int>());
    if (tile.thread_rank() == 0) out[row] = sum;
}
""",
    data=lambda rng: {
        "in": rng.integers(-99, 99, (45, 21), dtype=i32),
        "out": Blank(45, i32),
        "rows": i32(45),
        "columns": i32(21),
    },
    launch=Launch("tile_rows", 6, 64, "in out rows columns"),
    expect=lambda d: {"out": d["in"].sum(1, dtype=i32)},
    headers=GROUPS,
    features="cooperative_groups",
)

kernel(
    "coalesced_group_counter",
    "Whoever takes the branch is a group: its first thread adds once, its rank is each thread's place.",
    r"""
namespace cg = cooperative_groups;
__device__ int take_place(int* counter) {
    auto active = cg::coalesced_threads();
    int base = 0;
    if (active.thread_rank() == 0) base = atomicAdd(counter, active.size());
    return active.shfl(base, 0) + active.thread_rank();
}
extern "C" __global__ void filter_odd(const int* in, int* out, int* counter, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] % 2) out[take_place(counter)] = in[i];  // guard
}
extern "C" __global__ void sort_kept(const int* in, int* out, const int* counter) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = *counter;
    if (i >= n) return;  // guard
    int rank = 0;
    for (int j = 0; j < n; j++) rank += in[j] < in[i];
    out[rank] = in[i];
}
""",
    data=lambda rng: {
        "in": rng.permutation(500).astype(i32)[:333],
        "kept": Scratch(np.zeros(333, i32)),
        "counter": np.zeros(1, i32),
        "out": np.zeros(333, i32),
        "n": i32(333),
    },
    launch=[Launch("filter_odd", 3, 128, "in kept counter n"), Launch("sort_kept", 3, 128, "kept out counter")],
    expect=lambda d: (lambda odd: {"counter": i32([len(odd)]), "out": np.pad(np.sort(odd), (0, 333 - len(odd)))})(
        d["in"][d["in"] % 2 == 1]
    ),
    headers=GROUPS,
    features="cooperative_groups multi_launch",
)

kernel(
    "block_group_scan",
    "Inclusive and exclusive scans of a tile with cg; the block object synchronises.",
    r"""
namespace cg = cooperative_groups;
extern "C" __global__ void group_scan(const unsigned* in, unsigned* sums, unsigned* before, int n) {
    __shared__ unsigned of_tile[4];
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    int i = block.group_index().x * block.size() + block.thread_rank();
    unsigned v = (i < n) ? in[i] : 0;  // guard
    unsigned inclusive = cg::inclusive_scan(tile, v);
    unsigned highest_before = cg::exclusive_scan(tile, v, cg::greater<unsigned>());
    if (tile.thread_rank() == 31) of_tile[tile.meta_group_rank()] = inclusive;
    block.sync();
    for (int t = 0; t < tile.meta_group_rank(); t++) inclusive += of_tile[t];
    if (i < n) {  // guard
        sums[i] = inclusive;
        before[i] = tile.thread_rank() ? highest_before : 0;
    }
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 999, 300, dtype=u32),
        "sums": Blank(300, u32),
        "before": Blank(300, u32),
        "n": i32(300),
    },
    launch=Launch("group_scan", 3, 128, "in sums before n"),
    expect=lambda d: {
        "sums": np.concatenate([d["in"][k : k + 128].cumsum() for k in range(0, 300, 128)]).astype(u32),
        "before": np.concatenate(
            [np.maximum.accumulate(np.concatenate([[0], d["in"][k : k + 32]]))[:-1] for k in range(0, 300, 32)]
        ).astype(u32),
    },
    headers=GROUPS,
    features="cooperative_groups shared",
)

kernel(
    "labeled_partition_sums",
    "Lanes with the same label form a group: sums by key inside a warp without knowing who is with whom.",
    r"""
namespace cg = cooperative_groups;
extern "C" __global__ void sums_by_label(const int* labels, const float* values, float* sums, int* groups, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    auto active = cg::coalesced_threads();
    auto mine = cg::labeled_partition(active, labels[i]);
    float sum = cg::reduce(mine, values[i], cg::plus<float>());
    if (mine.thread_rank() == 0) {
        atomicAdd(&sums[labels[i]], sum);
        atomicAdd(groups, 1);
    }
}
""",
    data=lambda rng: {
        "labels": rng.integers(0, 7, 170, dtype=i32),
        "values": whole(rng, -9, 9, 170),
        "sums": np.zeros(7, f32),
        "groups": np.zeros(1, i32),
        "n": i32(170),
    },
    launch=Launch("sums_by_label", 2, 96, "labels values sums groups n"),
    expect=lambda d: {
        "sums": np.bincount(d["labels"], d["values"], 7).astype(f32),
        "groups": i32([sum(len(set(d["labels"][k : k + 32])) for k in range(0, 170, 32))]),
    },
    headers=GROUPS,
    features="cooperative_groups match",
)

kernel(
    "grid_sync_jacobi",
    "Many sweeps in one launch: the whole grid waits between them, the buffers swap inside the kernel.",
    r"""
namespace cg = cooperative_groups;
extern "C" __global__ void sweeps(float* a, float* b, int n, int rounds) {
    cg::grid_group grid = cg::this_grid();
    for (int r = 0; r < rounds; r++) {
        for (int i = grid.thread_rank(); i < n; i += grid.size())
            b[i] = i == 0 || i == n - 1 ? a[i] : 0.5f * (a[i - 1] + a[i + 1]);
        grid.sync();
        float* kept = a;
        a = b;
        b = kept;
    }
}
""",
    data=lambda rng: {"a": whole(rng, 0, 1024, 450), "b": Blank(450, f32), "n": i32(450), "rounds": i32(5)},
    launch=Launch("sweeps", 3, 128, "a b n rounds", cooperative=True),
    expect=lambda d: relaxed(d["a"], 5),
    headers=GROUPS,
    features="cooperative_groups grid_sync",
)


def relaxed(u, rounds):
    states = [u]
    for _ in range(rounds):
        v = states[-1].copy()
        v[1:-1] = (states[-1][:-2] + states[-1][2:]) / 2
        states.append(v)
    return {"b": states[-1], "a": states[-2]}


kernel(
    "grid_sync_normalise",
    "A reduction and its use in one launch: sum, grid barrier, division; no second kernel.",
    r"""
namespace cg = cooperative_groups;
extern "C" __global__ void normalise(double* x, double* parts, int n) {
    auto grid = cg::this_grid();
    auto block = cg::this_thread_block();
    __shared__ double line[64];
    double sum = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i];
    line[block.thread_rank()] = sum;
    cg::sync(block);
    if (block.thread_rank() == 0) {
        double total = 0;
        for (int k = 0; k < block.size(); k++) total += line[k];
        parts[blockIdx.x] = total;
    }
    cg::sync(grid);
    double total = 0;
    for (int b = 0; b < gridDim.x; b++) total += parts[b];
    for (int i = grid.thread_rank(); i < n; i += grid.size()) x[i] /= total;
}
""",
    data=lambda rng: {"x": whole(rng, 1, 99, 400, dtype=f64), "parts": Scratch(np.zeros(4)), "n": i32(400)},
    launch=Launch("normalise", 4, 64, "x parts n", cooperative=True),
    expect=lambda d: {"x": d["x"] / d["x"].sum()},
    headers=GROUPS,
    features="cooperative_groups grid_sync shared",
)

kernel(
    "cluster_histogram_distributed",
    "Four blocks of a cluster share one histogram: each holds a part of the bins in its own shared memory.",
    r"""
namespace cg = cooperative_groups;
#define BINS 64
extern "C" __global__ void __cluster_dims__(4) cluster_histogram(const unsigned* in, unsigned* bins, int n) {
    __shared__ unsigned part[BINS / 4];
    cg::cluster_group cluster = cg::this_cluster();
    for (int k = threadIdx.x; k < BINS / 4; k += blockDim.x) part[k] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned bin = in[i] % BINS;
        unsigned* there = cluster.map_shared_rank(part, bin / (BINS / 4));
        atomicAdd(there + bin % (BINS / 4), 1u);
    }
    cluster.sync();
    for (int k = threadIdx.x; k < BINS / 4; k += blockDim.x)
        atomicAdd(&bins[cluster.block_rank() * (BINS / 4) + k], part[k]);
}
""",
    data=lambda rng: {"in": rng.integers(0, 2**32, 1500, dtype=u32), "bins": np.zeros(64, u32), "n": i32(1500)},
    launch=Launch("cluster_histogram", 8, 64, "in bins n"),
    expect=lambda d: {"bins": np.bincount(d["in"] % 64, minlength=64).astype(u32)},
    headers=GROUPS,
    features="cooperative_groups clusters shared",
)

kernel(
    "cluster_ring_shift",
    "Distributed shared memory as a ring: each block reads its neighbour's tile; no block may leave "
    "before the others have read.",
    r"""
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(2, 1, 1) ring_shift(const float* in, float* out, int n) {
    extern __shared__ float tile[];
    auto cluster = cg::this_cluster();
    unsigned rank = cluster.block_rank(), size = cluster.num_blocks();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = (i < n) ? in[i] : 0.f;  // guard
    cluster.sync();
    const float* next = cluster.map_shared_rank(tile, (rank + 1) % size);
    float value = next[blockDim.x - 1 - threadIdx.x];
    cluster.sync();
    if (i < n) out[i] = value + tile[threadIdx.x];  // guard
}
""",
    data=lambda rng: {"in": whole(rng, -99, 99, 350), "out": Blank(350, f32), "n": i32(350)},
    launch=Launch("ring_shift", 4, 96, "in out n", shared=384),
    expect=lambda d: (lambda tiles: {"out": (tiles + tiles[[1, 0, 3, 2], ::-1]).ravel()[:350]})(
        np.pad(d["in"], (0, 34)).reshape(4, 96)
    ),
    headers=GROUPS,
    features="cooperative_groups clusters dynamic_shared",
)

kernel(
    "binary_partition_votes",
    "A tile splits in two by a predicate; both halves count and vote for themselves.",
    r"""
namespace cg = cooperative_groups;
extern "C" __global__ void split_tiles(const int* in, int* ranks, int* sizes, int n) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = (i < n) ? in[i] : 0;  // guard
    auto half = cg::binary_partition(tile, v > 50);
    bool all_even = half.all(v % 2 == 0);
    int largest = cg::reduce(half, v, cg::greater<int>());
    if (i < n) {  // guard
        ranks[i] = half.thread_rank() + 100 * largest;
        sizes[i] = half.size() + (all_even ? 1000 : 0);
    }
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 100, 150, dtype=i32),
        "ranks": Blank(150, i32),
        "sizes": Blank(150, i32),
        "n": i32(150),
    },
    launch=Launch("split_tiles", 2, 96, "in ranks sizes n"),
    expect=lambda d: partitions(d["in"]),
    headers=GROUPS,
    features="cooperative_groups votes",
)


def partitions(values):
    values = np.pad(values, (0, 42))
    ranks, sizes = np.zeros(192, i32), np.zeros(192, i32)
    for start in range(0, 192, 16):
        tile = values[start : start + 16]
        for side in (tile > 50, tile <= 50):
            at = np.nonzero(side)[0]
            if len(at):
                even = (tile[at] % 2 == 0).all()
                ranks[start + at] = np.arange(len(at)) + 100 * tile[at].max()
                sizes[start + at] = len(at) + 1000 * even
    return {"ranks": ranks[:150], "sizes": sizes[:150]}
