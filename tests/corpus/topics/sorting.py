"""Sorting: networks, merging by paths, ranks, partitions."""

from ..kernel import Blank, Launch, Scratch, f32, i32, i64, kernel, np, u32

kernel(
    "bitonic_sort_block",
    "A bitonic network in shared memory; what lies past the end counts as largest.",
    r"""
extern "C" __global__ void bitonic_block(int* keys, int n) {
    extern __shared__ int s[];
    const int t = threadIdx.x;
    s[t] = (t < n) ? keys[t] : 0x7fffffff;  // guard
    __syncthreads();
    for (int k = 2; k <= blockDim.x; k <<= 1)
        for (int j = k >> 1; j > 0; j >>= 1) {
            int partner = t ^ j;
            if (partner > t) {
                bool up = (t & k) == 0;
                int a = s[t], b = s[partner];
                if ((a > b) == up) { s[t] = b; s[partner] = a; }
            }
            __syncthreads();
        }
    if (t < n) keys[t] = s[t];  // guard
}
""",
    data=lambda rng: {"keys": rng.integers(-(10**9), 10**9, 201, dtype=i32), "n": i32(201)},
    launch=Launch("bitonic_block", 1, 256, "keys n", shared=1024),
    expect=lambda d: {"keys": np.sort(d["keys"])},
    features="dynamic_shared",
)

kernel(
    "bitonic_sort_global_pairs",
    "The network across blocks: a launch for each step; keys bring their values along in one 64-bit word.",
    r"""
extern "C" __global__ void bitonic_step(unsigned long long* pairs, int j, int k, int count) {
    int low = blockIdx.x * blockDim.x + threadIdx.x;
    int high = low ^ j;
    if (low >= count || high <= low) return;  // guard
    unsigned long long a = pairs[low], b = pairs[high];
    bool ascending = (low & k) == 0;
    if (ascending ? a > b : a < b) {
        pairs[low] = b;
        pairs[high] = a;
    }
}
""",
    data=lambda rng: {"pairs": rng.permutation(2**20)[:256].astype(np.uint64) << 32 | np.arange(256, dtype=np.uint64)},
    launch=lambda d: [
        Launch("bitonic_step", 3, 96, ("pairs", i32(1 << j), i32(1 << k), i32(256)))
        for k in range(1, 9)
        for j in reversed(range(k))
    ],
    expect=lambda d: {"pairs": np.sort(d["pairs"])},
    features="multi_launch",
)

kernel(
    "odd_even_transposition",
    "Neighbours are exchanged in turns, n turns are enough: quadratic, and very simple.",
    r"""
extern "C" __global__ void odd_even(double* v, int n) {
    for (int turn = 0; turn < n; turn++) {
        int i = 2 * threadIdx.x + turn % 2;
        if (i + 1 < n) {  // guard
            double a = v[i], b = v[i + 1];
            v[i] = fmin(a, b);
            v[i + 1] = fmax(a, b);
        }
        __syncthreads();
    }
}
""",
    data=lambda rng: {"v": rng.standard_normal(75), "n": i32(75)},
    launch=Launch("odd_even", 1, 40, "v n"),
    expect=lambda d: {"v": np.sort(d["v"])},
)

kernel(
    "merge_path",
    "Two sorted lists become one: each thread finds by bisection where its diagonal cuts the path, and merges a piece.",
    r"""
__device__ int cut(const int* a, int na, const int* b, int nb, int diagonal) {
    int low = max(0, diagonal - nb), high = min(diagonal, na);
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= b[diagonal - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    return low;
}
extern "C" __global__ void merge(const int* a, int na, const int* b, int nb, int* out, int each) {
    int begin = (blockIdx.x * blockDim.x + threadIdx.x) * each, total = na + nb;
    if (begin >= total) return;  // guard
    int i = cut(a, na, b, nb, begin), j = begin - i;
    for (int k = begin; k < min(begin + each, total); k++) {
        bool from_a = j >= nb || (i < na && a[i] <= b[j]);
        out[k] = from_a ? a[i++] : b[j++];
    }
}
""",
    data=lambda rng: {
        "a": np.sort(rng.integers(0, 500, 301, dtype=i32)),
        "na": i32(301),
        "b": np.sort(rng.integers(0, 500, 188, dtype=i32)),
        "nb": i32(188),
        "out": Blank(489, i32),
        "each": i32(7),
    },
    launch=Launch("merge", 3, 32, "a na b nb out each"),
    expect=lambda d: {"out": np.sort(np.concatenate([d["a"], d["b"]]))},
)

kernel(
    "rank_sort",
    "How many are smaller is where an element belongs; equal ones keep their order.",
    r"""
extern "C" __global__ void rank_sort(const float* in, float* out, int* order, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    float mine = in[i];
    int rank = 0;
    for (int j = 0; j < n; j++) rank += in[j] < mine || (in[j] == mine && j < i);
    out[rank] = mine;
    order[rank] = i;
}
""",
    data=lambda rng: {
        "in": rng.integers(-40, 40, 150).astype(f32),
        "out": Blank(150, f32),
        "order": Blank(150, i32),
        "n": i32(150),
    },
    launch=Launch("rank_sort", 3, 64, "in out order n"),
    expect=lambda d: {"out": np.sort(d["in"]), "order": np.argsort(d["in"], kind="stable").astype(i32)},
)

kernel(
    "quicksort_partition",
    "One partition around a pivot: a warp counts with votes and takes room for all its lanes with one atomic.",
    r"""
extern "C" __global__ void partition(const int* in, int* out, int* ends, int n, int pivot) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    int value = (i < n) ? in[i] : 0;  // guard
    bool inside = i < n;
    unsigned low = __ballot_sync(0xffffffff, inside && value < pivot);
    unsigned high = __ballot_sync(0xffffffff, inside && value >= pivot);
    int front = 0, back = 0;
    if (lane == 0) {
        if (low) front = atomicAdd(&ends[0], __popc(low));
        if (high) back = atomicSub(&ends[1], __popc(high));
    }
    front = __shfl_sync(0xffffffff, front, 0);
    back = __shfl_sync(0xffffffff, back, 0);
    unsigned before = (1u << lane) - 1;
    if (inside && value < pivot) out[front + __popc(low & before)] = value;
    if (inside && value >= pivot) out[back - 1 - __popc(high & before)] = value;
}
extern "C" __global__ void sort_serially(int* data, int n) {
    if (threadIdx.x) return;
    for (int i = 1; i < n; i++) {
        int v = data[i], j = i;
        for (; j > 0 && data[j - 1] > v; j--) data[j] = data[j - 1];
        data[j] = v;
    }
}
""",
    data=lambda rng: {
        "in": rng.permutation(150).astype(i32),
        "out": Blank(150, i32),
        "ends": i32([0, 150]),
        "n": i32(150),
        "pivot": i32(60),
    },
    launch=[Launch("partition", 2, 96, "in out ends n pivot"), Launch("sort_serially", 1, 1, "out n")],
    expect=lambda d: {"out": np.arange(150, dtype=i32), "ends": i32([60, 60])},
    features="votes shuffles multi_launch",
)

kernel(
    "odd_even_merge_sort_local",
    "Batcher's network on eight values in registers, a thread a list; indices are known when it is compiled.",
    r"""
template <int LOW, int HIGH> __device__ void swap_if_greater(short (&v)[8]) {
    if (v[LOW] > v[HIGH]) {
        short kept = v[LOW];
        v[LOW] = v[HIGH];
        v[HIGH] = kept;
    }
}
extern "C" __global__ void sort_eights(short* lists, int count) {
    int which = blockIdx.x * blockDim.x + threadIdx.x;
    if (which >= count) return;  // guard
    short v[8];
    #pragma unroll
    for (int k = 0; k < 8; k++) v[k] = lists[8 * which + k];
    swap_if_greater<0, 1>(v); swap_if_greater<2, 3>(v); swap_if_greater<4, 5>(v); swap_if_greater<6, 7>(v);
    swap_if_greater<0, 2>(v); swap_if_greater<1, 3>(v); swap_if_greater<4, 6>(v); swap_if_greater<5, 7>(v);
    swap_if_greater<1, 2>(v); swap_if_greater<5, 6>(v); swap_if_greater<0, 4>(v); swap_if_greater<1, 5>(v);
    swap_if_greater<2, 6>(v); swap_if_greater<3, 7>(v); swap_if_greater<2, 4>(v); swap_if_greater<3, 5>(v);
    swap_if_greater<1, 2>(v); swap_if_greater<3, 4>(v); swap_if_greater<5, 6>(v);
    #pragma unroll
    for (int k = 0; k < 8; k++) lists[8 * which + k] = v[k];
}
""",
    data=lambda rng: {"lists": rng.integers(-9999, 9999, (70, 8), dtype=np.int16), "count": i32(70)},
    launch=Launch("sort_eights", 3, 32, "lists count"),
    expect=lambda d: {"lists": np.sort(d["lists"], axis=1)},
    features="templates",
)

kernel(
    "warp_sort_shuffle_xor",
    "A warp sorts 32 keys, a register each, with shuffles instead of shared memory.",
    r"""
extern "C" __global__ void sort_warps(long long* keys, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned lane = threadIdx.x % 32;
    long long key = (i < n) ? keys[i] : 0x7fffffffffffffffll;  // guard
    for (unsigned size = 2; size <= 32; size *= 2)
        for (unsigned stride = size / 2; stride; stride /= 2) {
            long long other = __shfl_xor_sync(0xffffffffu, key, stride);
            bool keep_small = ((lane & stride) == 0) == ((lane & size) == 0);
            key = keep_small ? min(key, other) : max(key, other);
        }
    if (i < n) keys[i] = key;  // guard
}
""",
    data=lambda rng: {"keys": rng.integers(-(2**60), 2**60, 171, dtype=i64), "n": i32(171)},
    launch=Launch("sort_warps", 2, 96, "keys n"),
    expect=lambda d: {"keys": np.concatenate([np.sort(d["keys"][k : k + 32]) for k in range(0, 171, 32)])},
    features="shuffles",
)

kernel(
    "radix_histogram_and_scatter",
    "One pass with eight-bit digits: count by digit, find places by a stable rank within the block, scatter.",
    r"""
extern "C" __global__ void digit_counts(const unsigned* keys, unsigned* counts, int n, int shift) {
    __shared__ unsigned local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) atomicAdd(&local[keys[i] >> shift & 255], 1u);  // guard
    __syncthreads();
    counts[threadIdx.x * gridDim.x + blockIdx.x] = local[threadIdx.x];
}
extern "C" __global__ void scan_serial(unsigned* counts, int n) {
    unsigned sum = 0;
    for (int k = 0; k < n; k++) {
        unsigned c = counts[k];
        counts[k] = sum;
        sum += c;
    }
}
extern "C" __global__ void scatter_digits(const unsigned* keys, unsigned* out, const unsigned* places, int n,
        int shift) {
    __shared__ unsigned char digits[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    if (i < n) digits[t] = keys[i] >> shift & 255;  // guard
    __syncthreads();
    if (i >= n) return;  // guard
    unsigned rank = 0;
    for (int k = 0; k < t; k++) rank += digits[k] == digits[t];
    out[places[digits[t] * gridDim.x + blockIdx.x] + rank] = keys[i];
}
""",
    data=lambda rng: {
        "a": rng.integers(0, 2**16, 700, dtype=u32),
        "b": Scratch(np.zeros(700, u32)),
        "counts": Scratch(np.zeros(768, u32)),
        "n": i32(700),
    },
    launch=lambda d: [
        launch
        for k, (one, two) in enumerate(("ab", "ba"))
        for launch in (
            Launch("digit_counts", 3, 256, (one, "counts", "n", i32(8 * k))),
            Launch("scan_serial", 1, 1, ("counts", i32(768))),
            Launch("scatter_digits", 3, 256, (one, two, "counts", "n", i32(8 * k))),
        )
    ],
    expect=lambda d: {"a": np.sort(d["a"])},
    features="shared multi_launch",
)

kernel(
    "binary_search_many",
    "Many searches in one sorted table, without a branch on the outcome: lower bound.",
    r"""
extern "C" __global__ void lower_bounds(const double* __restrict__ table, int size, const double* wanted,
        int* found, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const double* base = table;
        int length = size;
        while (length > 1) {
            int half = length / 2;
            base = base[half - 1] < wanted[i] ? base + half : base;
            length -= half;
        }
        found[i] = (int)(base - table) + (size > 0 && *base < wanted[i]);
    }
}
""",
    data=lambda rng: (
        lambda table: {
            "table": table,
            "size": i32(137),
            "wanted": np.concatenate([table[::3], rng.random(150) * 1.2 - 0.1]),
            "found": Blank(196, i32),
            "n": i32(196),
        }
    )(np.sort(rng.random(137))),
    launch=Launch("lower_bounds", 2, 64, "table size wanted found n"),
    expect=lambda d: {"found": np.searchsorted(d["table"], d["wanted"]).astype(i32)},
)
