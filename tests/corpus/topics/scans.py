"""Prefix sums and what is built on them: compaction, segments, radix and counting sort."""

from ..kernel import Awkward, Blank, Launch, f32, i32, i64, kernel, np, u8, u32

kernel(
    "scan_hillis_steele",
    "Every element looks back 1, 2, 4, ... places: two buffers in shared memory save a barrier.",
    r"""
extern "C" __global__ void scan_inclusive(const int* in, int* out, int n) {
    __shared__ int buffer[2][256];
    int t = threadIdx.x, from = 0;
    buffer[0][t] = (t < n) ? in[blockIdx.x * n + t] : 0;  // guard
    __syncthreads();
    for (int back = 1; back < n; back *= 2) {
        int value = buffer[from][t];
        if (t >= back) value += buffer[from][t - back];
        from = 1 - from;
        buffer[from][t] = value;
        __syncthreads();
    }
    if (t < n) out[blockIdx.x * n + t] = buffer[from][t];  // guard
}
""",
    data=lambda rng: {"in": rng.integers(-99, 99, (3, 211), dtype=i32), "out": Blank((3, 211), i32), "n": i32(211)},
    launch=Launch("scan_inclusive", 3, 256, "in out n"),
    expect=lambda d: {"out": d["in"].cumsum(1, dtype=i32)},
    features="shared",
)

kernel(
    "scan_blelloch",
    "Work-efficient: up the tree with sums, down the tree with prefixes; addresses padded against bank conflicts.",
    r"""
#define PAD(i) ((i) + ((i) >> 5))
extern "C" __global__ void scan_exclusive(const int* in, int* out, int n) {
    extern __shared__ int tree[];
    int t = threadIdx.x, size = 2 * blockDim.x, a = t, b = t + blockDim.x;
    tree[PAD(a)] = (a < n) ? in[a] : 0;  // guard
    tree[PAD(b)] = (b < n) ? in[b] : 0;  // guard
    int offset = 1;
    for (int d = size >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) tree[PAD(offset * (2 * t + 2) - 1)] += tree[PAD(offset * (2 * t + 1) - 1)];
        offset *= 2;
    }
    if (t == 0) tree[PAD(size - 1)] = 0;
    for (int d = 1; d < size; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int left = PAD(offset * (2 * t + 1) - 1), right = PAD(offset * (2 * t + 2) - 1);
            int kept = tree[left];
            tree[left] = tree[right];
            tree[right] += kept;
        }
    }
    __syncthreads();
    if (a < n) out[a] = tree[PAD(a)];  // guard
    if (b < n) out[b] = tree[PAD(b)];  // guard
}
""",
    data=lambda rng: {"in": rng.integers(0, 999, 437, dtype=i32), "out": Blank(437, i32), "n": i32(437)},
    launch=Launch("scan_exclusive", 1, 256, "in out n", shared=(512 + 16) * 4),
    expect=lambda d: {"out": (d["in"].cumsum() - d["in"]).astype(i32)},
    features="dynamic_shared",
    awkward=Awkward(
        "fewer elements than threads: also the first element of a thread may lie outside",
        lambda rng: {"in": rng.integers(0, 999, 150, dtype=i32), "out": Blank(150, i32), "n": i32(150)},
    ),
)

kernel(
    "scan_warp_shuffle_block",
    "A scan in each warp by shuffles, then of the warps' totals, then one addition.",
    r"""
__device__ long long warp_scan(long long v, int lane) {
    for (int d = 1; d < 32; d <<= 1) {
        long long left = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d) v += left;
    }
    return v;
}
extern "C" __global__ void scan_block(const long long* in, long long* out, long long* totals, int n) {
    __shared__ long long of_warp[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    long long v = (i < n) ? in[i] : 0;  // guard
    v = warp_scan(v, lane);
    if (lane == 31) of_warp[warp] = v;
    __syncthreads();
    if (warp == 0) of_warp[lane] = warp_scan((lane < blockDim.x / 32) ? of_warp[lane] : 0, lane);  // guard
    __syncthreads();
    if (warp > 0) v += of_warp[warp - 1];
    if (i < n) out[i] = v;  // guard
    if (threadIdx.x == blockDim.x - 1) totals[blockIdx.x] = v;
}
extern "C" __global__ void add_totals(long long* out, const long long* totals, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    long long before = 0;
    for (int b = 0; b < blockIdx.x; b++) before += totals[b];
    if (i < n) out[i] += before;  // guard
}
""",
    data=lambda rng: {
        "in": rng.integers(-(2**40), 2**40, 700, dtype=i64),
        "out": Blank(700, i64),
        "totals": Blank(5, i64),
        "n": i32(700),
    },
    launch=[Launch("scan_block", 5, 160, "in out totals n"), Launch("add_totals", 5, 160, "out totals n")],
    expect=lambda d: {"out": d["in"].cumsum(), "totals": np.add.reduceat(d["in"], np.arange(0, 700, 160))},
    features="shared shuffles multi_launch",
)

kernel(
    "scan_decoupled_look_back",
    "One launch: a block publishes its sum, then looks back over its predecessors until one knows its whole prefix.",
    r"""
extern "C" __global__ void look_back(const unsigned* in, unsigned* out, volatile unsigned long long* state,
        unsigned* next, int n) {
    __shared__ unsigned line[128], before, tile;
    int t = threadIdx.x;
    if (t == 0) tile = atomicAdd(next, 1u);
    __syncthreads();
    int i = tile * 128 + t;
    unsigned v = (i < n) ? in[i] : 0;  // guard
    line[t] = v;
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        unsigned left = t >= d ? line[t - d] : 0;
        __syncthreads();
        line[t] += left;
        __syncthreads();
    }
    if (t == 127) {
        const unsigned long long PARTIAL = 1ull << 32, WHOLE = 2ull << 32;
        unsigned sum = line[127], prefix = 0;
        state[tile] = (tile == 0 ? WHOLE : PARTIAL) | sum;
        for (int b = (int)tile - 1; b >= 0;) {
            unsigned long long seen = state[b];
            if (seen == 0) continue;
            prefix += (unsigned)seen;
            if (seen >= WHOLE) break;
            b--;
        }
        if (tile > 0) state[tile] = WHOLE | (prefix + sum);
        before = prefix;
    }
    __syncthreads();
    if (i < n) out[i] = before + line[t];  // guard
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 1000, 1500, dtype=u32),
        "out": Blank(1500, u32),
        "state": np.zeros(12, np.uint64),
        "next": np.zeros(1, u32),
        "n": i32(1500),
    },
    launch=Launch("look_back", 12, 128, "in out state next n"),
    expect=lambda d: (
        lambda sums: {
            "out": sums.astype(u32),
            "state": (sums[np.minimum(np.arange(128, 1537, 128), 1500) - 1] + 2**33).astype(np.uint64),
            "next": np.array([12], u32),
        }
    )(d["in"].astype(np.uint64).cumsum()),
    features="shared polling volatile",
)

kernel(
    "compact_by_scan",
    "Flags, their exclusive scan, and a scatter: the order of the elements that stay is kept.",
    r"""
extern "C" __global__ void compact(const int* in, int* out, int* count, int n) {
    __shared__ int places[256];
    int t = threadIdx.x, base = 0;
    for (int start = 0; start < n; start += 256) {
        int i = start + t;
        int value = (i < n) ? in[i] : 0;  // guard
        int keep = i < n && value % 3 == 0;
        places[t] = keep;
        for (int d = 1; d < 256; d <<= 1) {
            __syncthreads();
            int left = t >= d ? places[t - d] : 0;
            __syncthreads();
            places[t] += left;
        }
        __syncthreads();
        if (keep) out[base + places[t] - 1] = value;
        base += places[255];
        __syncthreads();
    }
    if (t == 0) *count = base;
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 10**6, 700, dtype=i32),
        "out": np.full(700, -1, i32),
        "count": Blank(1, i32),
        "n": i32(700),
    },
    launch=Launch("compact", 1, 256, "in out count n"),
    expect=lambda d: (
        lambda kept: {"out": np.pad(kept, (0, 700 - len(kept)), constant_values=-1), "count": i32([len(kept)])}
    )(d["in"][d["in"] % 3 == 0]),
    features="shared",
)

kernel(
    "segmented_scan_flags",
    "A scan that starts anew at each head flag: value and flag are combined together.",
    r"""
extern "C" __global__ void segmented_scan(const float* in, const unsigned char* head, float* out, int n) {
    __shared__ float value[512];
    __shared__ unsigned char flag[512];
    const int t = threadIdx.x;
    if (t < n) { value[t] = in[t]; flag[t] = head[t]; }  // guard
    __syncthreads();
    for (int d = 1; d < n; d *= 2) {
        float v = 0;
        unsigned char f = 0;
        if (t >= d && t < n) {  // guard
            v = flag[t] ? value[t] : value[t - d] + value[t];
            f = flag[t] | flag[t - d];
        }
        __syncthreads();
        if (t >= d && t < n) { value[t] = v; flag[t] = f; }  // guard
        __syncthreads();
    }
    if (t < n) out[t] = value[t];  // guard
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 99, 333).astype(f32),
        "head": (rng.random(333) < 0.05).astype(u8),
        "out": Blank(333, f32),
        "n": i32(333),
    },
    launch=Launch("segmented_scan", 1, 384, "in head out n"),
    expect=lambda d: {"out": segments(d["in"], d["head"])},
    features="shared",
)


def segments(values, heads):
    return np.concatenate([part.cumsum(dtype=f32) for part in np.split(values, np.nonzero(heads)[0])])


kernel(
    "radix_sort_split_passes",
    "One bit a pass: zeros keep their order in front, ones behind; sixteen launches of one block sort 16-bit keys.",
    r"""
extern "C" __global__ void split_by_bit(const unsigned* in, unsigned* out, int n, int bit) {
    __shared__ unsigned zeros[512];
    int t = threadIdx.x;
    unsigned key = 0, one = 1;
    if (t < n) { key = in[t]; one = key >> bit & 1; }  // guard
    zeros[t] = 1 - one;
    __syncthreads();
    for (int d = 1; d < 512; d <<= 1) {
        unsigned left = t >= d ? zeros[t - d] : 0;
        __syncthreads();
        zeros[t] += left;
        __syncthreads();
    }
    unsigned before = zeros[t] - (1 - one), all = zeros[511];
    if (t < n) out[one ? all + t - before : before] = key;  // guard
}
""",
    data=lambda rng: {"a": rng.integers(0, 2**16, 400, dtype=u32), "b": Blank(400, u32), "n": i32(400)},
    launch=lambda d: [Launch("split_by_bit", 1, 512, ("ab"[k % 2], "ba"[k % 2], "n", i32(k))) for k in range(16)],
    expect=lambda d: (lambda a: {"a": np.sort(a), "b": a[np.argsort(a % 2**15, kind="stable")]})(d["a"]),
    features="shared multi_launch",
)

kernel(
    "counting_sort_bytes",
    "Histogram, scan of 256 counts, scatter: a place is taken by an atomic, so equal keys may change places.",
    r"""
extern "C" __global__ void counting_sort(const unsigned char* in, unsigned char* out, int n) {
    __shared__ int place[256];
    int t = threadIdx.x;
    place[t] = 0;
    __syncthreads();
    for (int i = t; i < n; i += 256) atomicAdd(&place[in[i]], 1);
    __syncthreads();
    int count = place[t];
    for (int d = 1; d < 256; d *= 2) {
        int left = (t >= d) ? place[t - d] : 0;
        __syncthreads();
        place[t] += left;
        __syncthreads();
    }
    place[t] -= count;
    __syncthreads();
    for (int i = t; i < n; i += 256) out[atomicAdd(&place[in[i]], 1)] = in[i];
}
""",
    data=lambda rng: {"in": rng.integers(0, 256, 1111, dtype=u8), "out": Blank(1111, u8), "n": i32(1111)},
    launch=Launch("counting_sort", 1, 256, "in out n"),
    expect=lambda d: {"out": np.sort(d["in"])},
    features="shared",
)

kernel(
    "scan_maximum_running",
    "A scan with max instead of plus: how high the water stood so far; serial within a thread, parallel across.",
    r"""
extern "C" __global__ void running_maximum(const int* in, int* out, int n, int each) {
    __shared__ int best[64];
    int t = threadIdx.x, begin = t * each, end = min(n, begin + each);
    int high = (int)0x80000000;
    for (int i = begin; i < end; i++) high = max(high, in[i]);
    best[t] = high;
    __syncthreads();
    if (t == 0)
        for (int k = 1; k < blockDim.x; k++) best[k] = max(best[k], best[k - 1]);
    __syncthreads();
    high = t ? best[t - 1] : (int)0x80000000;
    for (int i = begin; i < end; i++) out[i] = high = max(high, in[i]);
}
""",
    data=lambda rng: {
        "in": (rng.integers(-9, 10, 500).cumsum()).astype(i32),
        "out": Blank(500, i32),
        "n": i32(500),
        "each": i32(9),
    },
    launch=Launch("running_maximum", 1, 64, "in out n each"),
    expect=lambda d: {"out": np.maximum.accumulate(d["in"])},
    features="shared",
)

kernel(
    "linear_recurrence_scan",
    "x' = a x + b is associative too: pairs of coefficients are scanned, whole numbers modulo 2^32.",
    r"""
extern "C" __global__ void recurrence(const uint2* steps, unsigned* out, unsigned start, int n) {
    __shared__ uint2 f[256];
    int t = threadIdx.x;
    f[t] = (t < n) ? steps[t] : make_uint2(1, 0);  // guard
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        uint2 first = make_uint2(1, 0), then = f[t];
        if (t >= d) first = f[t - d];
        __syncthreads();
        f[t] = make_uint2(first.x * then.x, first.y * then.x + then.y);
        __syncthreads();
    }
    if (t < n) out[t] = f[t].x * start + f[t].y;  // guard
}
""",
    data=lambda rng: {
        "steps": rng.integers(0, 2**32, (177, 2), dtype=u32),
        "out": Blank(177, u32),
        "start": u32(12345),
        "n": i32(177),
    },
    launch=Launch("recurrence", 1, 192, "steps out start n"),
    expect=lambda d: {"out": recurrence(d["steps"])},
    features="shared vectors",
)


def recurrence(steps):
    x, out = 12345, []
    for a, b in steps.tolist():
        x = (a * x + b) % 2**32
        out.append(x)
    return np.array(out, u32)
