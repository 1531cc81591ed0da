"""What the lanes of a warp can do together."""

from ..kernel import Blank, Launch, Scratch, f32, i32, kernel, np, u32, u64, whole

kernel(
    "ballot_compaction",
    "Lanes that keep an element are a mask; the population count below a lane is its place.",
    r"""
extern "C" __global__ void keep_positive(const float* in, float* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned lane = threadIdx.x & 31;
    float v = (i < n) ? in[i] : -1.f;  // guard
    unsigned mask = __ballot_sync(0xffffffff, v > 0);
    int base = 0;
    if (lane == 0 && mask) base = atomicAdd(count, __popc(mask));
    base = __shfl_sync(0xffffffff, base, 0);
    if (v > 0) out[base + __popc(mask & ((1u << lane) - 1))] = v;
}
extern "C" __global__ void rank_kept(const float* in, float* out, const int* count) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= *count) return;  // guard
    int rank = 0;
    for (int j = 0; j < *count; j++) rank += in[j] < in[k];
    out[rank] = in[k];
}
""",
    data=lambda rng: {
        "in": rng.standard_normal(300, dtype=f32),
        "kept": Scratch(np.zeros(300, f32)),
        "count": np.zeros(1, i32),
        "sorted": np.zeros(300, f32),
        "n": i32(300),
    },
    launch=[Launch("keep_positive", 3, 128, "in kept count n"), Launch("rank_kept", 3, 128, "kept sorted count")],
    expect=lambda d: (lambda kept: {"count": i32([len(kept)]), "sorted": np.pad(np.sort(kept), (0, 300 - len(kept)))})(
        d["in"][d["in"] > 0]
    ),
    features="votes shuffles multi_launch",
)

kernel(
    "match_any_aggregated",
    "Lanes with the same key elect a leader, which adds for all of them at once.",
    r"""
extern "C" __global__ void tally(const int* keys, int* bins, int* atomics, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned here = __ballot_sync(0xffffffff, i < n);
    if (i >= n) return;  // guard
    unsigned same = __match_any_sync(here, keys[i]);
    int leader = __ffs(same) - 1;
    if ((threadIdx.x & 31) == leader) {
        atomicAdd(&bins[keys[i]], __popc(same));
        atomicAdd(atomics, 1);
    }
}
""",
    data=lambda rng: {
        "keys": rng.integers(0, 9, 410, dtype=i32),
        "bins": np.zeros(9, i32),
        "atomics": np.zeros(1, i32),
        "n": i32(410),
    },
    launch=Launch("tally", 4, 128, "keys bins atomics n"),
    expect=lambda d: {
        "bins": np.bincount(d["keys"], minlength=9).astype(i32),
        "atomics": i32([sum(len(set(d["keys"][k : k + 32])) for k in range(0, 410, 32))]),
    },
    features="match votes",
)

kernel(
    "shuffle_butterfly_transform",
    "The Walsh-Hadamard transform of 32 values, a butterfly of xor shuffles.",
    r"""
extern "C" __global__ void hadamard(int* data, int rows) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;  // guard
    int v = data[row * 32 + threadIdx.x];
    for (int bit = 1; bit < 32; bit <<= 1) {
        int other = __shfl_xor_sync(0xffffffffu, v, bit);
        v = threadIdx.x & bit ? other - v : v + other;
    }
    data[row * 32 + threadIdx.x] = v;
}
""",
    data=lambda rng: {"data": rng.integers(-999, 999, (7, 32), dtype=i32), "rows": i32(7)},
    launch=Launch("hadamard", 2, (32, 4), "data rows"),
    expect=lambda d: {"data": d["data"] @ walsh(5)},
    features="shuffles",
)


def walsh(order):
    h = np.ones((1, 1), i32)
    for _ in range(order):
        h = np.block([[h, h], [h, -h]])
    return h


kernel(
    "shuffle_rotate_and_stencil",
    "Neighbours by shuffles up and down: a stencil without shared memory; edge lanes read what they lack.",
    r"""
extern "C" __global__ void smooth_warp(const int* in, int* out, int* rotated, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    int v = (i < n) ? in[i] : 0;  // guard
    int left = __shfl_up_sync(0xffffffffu, v, 1), right = __shfl_down_sync(0xffffffffu, v, 1);
    if (lane == 0) left = i > 0 && i - 1 < n ? in[i - 1] : 0;
    if (lane == 31) right = i + 1 < n ? in[i + 1] : 0;
    int from_other = __shfl_sync(0xffffffffu, v, lane + 5);
    if (i < n) {  // guard
        out[i] = left + 2 * v + right;
        rotated[i] = from_other;
    }
}
""",
    data=lambda rng: {
        "in": rng.integers(-99, 99, 150, dtype=i32),
        "out": Blank(150, i32),
        "rotated": Blank(150, i32),
        "n": i32(150),
    },
    launch=Launch("smooth_warp", 2, 96, "in out rotated n"),
    expect=lambda d: {
        "out": np.convolve(d["in"], [1, 2, 1], "same").astype(i32),
        "rotated": np.roll(np.pad(d["in"], (0, 10)).reshape(5, 32), -5, 1).ravel()[:150],
    },
    features="shuffles",
)

kernel(
    "broadcast_row_operation",
    "One lane reads, all lanes use: coefficients are handed round by __shfl_sync from changing "
    "lanes; subwarps of eight.",
    r"""
extern "C" __global__ void small_products(const float* a, const float* x, float* y, int systems) {
    int lane = threadIdx.x % 8, system = (blockIdx.x * blockDim.x + threadIdx.x) / 8;
    float mine = 0, sum = 0;
    bool active = system < systems;
    if (active) mine = x[system * 8 + lane];  // guard
    for (int j = 0; j < 8; j++) {
        float xj = __shfl_sync(~0u, mine, j, 8);
        if (active) sum += a[(system * 8 + lane) * 8 + j] * xj;  // guard
    }
    if (active) y[system * 8 + lane] = sum;  // guard
}
""",
    data=lambda rng: {
        "a": whole(rng, -9, 9, 21, 8, 8),
        "x": whole(rng, -9, 9, 21, 8),
        "y": Blank((21, 8), f32),
        "systems": i32(21),
    },
    launch=Launch("small_products", 3, 64, "a x y systems"),
    expect=lambda d: {"y": (d["a"] @ d["x"][:, :, None])[:, :, 0]},
    features="shuffles",
)

kernel(
    "vote_early_exit",
    "A search that a whole warp gives up together: __any_sync ends the loop, __all_sync reports.",
    r"""
extern "C" __global__ void search(const int* haystack, int length, const int* needle, int* where, int queries) {
    int q = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (q >= queries) return;  // guard
    int found = -1;
    for (int start = 0; start < length; start += 32) {
        bool hit = start + lane < length && haystack[start + lane] == needle[q];
        unsigned votes = __ballot_sync(0xffffffff, hit);
        if (__any_sync(0xffffffff, hit)) {
            found = start + __ffs(votes) - 1;
            break;
        }
    }
    if (__all_sync(0xffffffff, found < 0) && lane == 0) where[q] = -1;
    else if (lane == 0) where[q] = found;
}
""",
    data=lambda rng: {
        "haystack": rng.permutation(200).astype(i32),
        "length": i32(150),
        "needle": rng.integers(0, 200, 18, dtype=i32),
        "where": Blank(18, i32),
        "queries": i32(18),
    },
    launch=Launch("search", 5, 128, "haystack length needle where queries"),
    expect=lambda d: {
        "where": i32(
            [(lambda at: at[0] if len(at) else -1)(np.nonzero(d["haystack"][:150] == k)[0]) for k in d["needle"]]
        )
    },
    features="votes",
)

kernel(
    "warp_prefix_by_ballots",
    "Bit planes: a warp sums small numbers with ballots and population counts instead of shuffles.",
    r"""
extern "C" __global__ void ballot_scan(const unsigned char* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned below;
    asm("mov.u32 %0, %%lanemask_le;" : "=r"(below));
    unsigned v = (i < n) ? in[i] : 0;  // guard
    int sum = 0;
    #pragma unroll
    for (int bit = 0; bit < 4; bit++) sum += __popc(__ballot_sync(0xffffffff, v >> bit & 1) & below) << bit;
    if (i < n) out[i] = sum;  // guard
}
""",
    data=lambda rng: {"in": rng.integers(0, 16, 170, dtype=np.uint8), "out": Blank(170, i32), "n": i32(170)},
    launch=Launch("ballot_scan", 2, 96, "in out n"),
    expect=lambda d: {"out": np.concatenate([d["in"][k : k + 32].cumsum() for k in range(0, 170, 32)]).astype(i32)},
    features="votes inline_ptx",
)

kernel(
    "warp_matrix_transpose",
    "A transpose of 32 by 32 held in registers: five rounds of shuffles exchange halves.",
    r"""
extern "C" __global__ void transpose_registers(const unsigned* in, unsigned* out) {
    unsigned v[32];
    const int lane = threadIdx.x;
    const unsigned* from = in + blockIdx.x * 1024;
    #pragma unroll
    for (int r = 0; r < 32; r++) v[r] = from[r * 32 + lane];
    #pragma unroll
    for (int half = 16; half > 0; half >>= 1)
        #pragma unroll
        for (int r = 0; r < 32; r++)
            if ((r & half) == 0) {
                bool upper = lane & half;
                unsigned give = upper ? v[r] : v[r + half];
                unsigned got = __shfl_xor_sync(0xffffffffu, give, half);
                if (upper) v[r] = got;
                else v[r + half] = got;
            }
    #pragma unroll
    for (int r = 0; r < 32; r++) out[blockIdx.x * 1024 + r * 32 + lane] = v[r];
}
""",
    data=lambda rng: {"in": rng.integers(0, 2**32, (2, 32, 32), dtype=u32), "out": Blank((2, 32, 32), u32)},
    launch=Launch("transpose_registers", 2, 32, "in out"),
    expect=lambda d: {"out": d["in"].transpose(0, 2, 1)},
    features="shuffles",
)

kernel(
    "match_all_uniform_rows",
    "Are all values of a row alike? __match_all_sync answers with a mask and a predicate, 64-bit values included.",
    r"""
extern "C" __global__ void uniform_rows(const unsigned long long* m, int* uniform, int rows) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;  // guard
    int all;
    __match_all_sync(0xffffffffu, m[row * 32 + threadIdx.x], &all);
    if (threadIdx.x == 7) uniform[row] = all ? 1 : 0;
}
""",
    data=lambda rng: {
        "m": (rng.integers(0, 2**63, (22, 1), dtype=u64) + (rng.random((22, 32)) < 0.02)).astype(u64),
        "uniform": Blank(22, i32),
        "rows": i32(22),
    },
    launch=Launch("uniform_rows", 6, (32, 4), "m uniform rows"),
    expect=lambda d: {"uniform": (d["m"] == d["m"][:, :1]).all(1).astype(i32)},
    features="match",
)

kernel(
    "divergent_branches_rejoin",
    "Lanes part on data and meet again: __syncwarp orders shared memory of a warp whose halves did different work.",
    r"""
extern "C" __global__ void halves(const int* in, int* out, int n) {
    __shared__ int box[128];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    int v = (i < n) ? in[i] : 0;  // guard
    if (v & 1) {
        int steps = 0;
        while (v % 7) { v += 3; steps++; }
        box[t] = 100 * steps + v % 10;
    } else {
        box[t] = -v;
    }
    __syncwarp();
    int partner = box[t ^ 1];
    __syncwarp();
    box[t] = box[t] + partner;
    __syncwarp(0xffffffff);
    if (i < n) out[i] = box[t ^ 2];  // guard
}
""",
    data=lambda rng: {"in": rng.integers(0, 1000, 250, dtype=i32), "out": Blank(250, i32), "n": i32(250)},
    launch=Launch("halves", 2, 128, "in out n"),
    expect=lambda d: {"out": halves(d["in"])},
    features="shared",
)


def halves(values):
    box = []
    for v in np.pad(values, (0, 6)).tolist():
        steps = 0
        if v % 2:
            while v % 7:
                v, steps = v + 3, steps + 1
            box.append(100 * steps + v % 10)
        else:
            box.append(-v)
    box = i32(box)
    box = box + box[np.arange(256) ^ 1]
    return box[np.arange(256) ^ 2][:250]
