"""Dynamic programming: tables that fill along rows, diagonals or pivots."""

from ..kernel import Blank, Launch, Scratch, f32, f64, i32, kernel, np, u8

kernel(
    "knapsack_rows",
    "A launch an item: the best value for every capacity, two rows that swap.",
    r"""
extern "C" __global__ void take_or_leave(const int* best, int* next, int weight, int value, int capacity) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c > capacity) return;  // guard
    int without = best[c];
    next[c] = c >= weight ? max(without, best[c - weight] + value) : without;
}
""",
    data=lambda rng: {
        "a": np.zeros(301, i32),
        "b": Blank(301, i32),
        "weights": rng.integers(5, 60, 13, dtype=i32),
        "values": rng.integers(1, 100, 13, dtype=i32),
        "capacity": i32(300),
    },
    launch=lambda d: [
        Launch("take_or_leave", 3, 128, ("ab"[k % 2], "ba"[k % 2], d["weights"][k], d["values"][k], "capacity"))
        for k in range(13)
    ],
    expect=lambda d: knapsack(d["weights"], d["values"]),
    features="multi_launch",
)


def knapsack(weights, values):
    """The last row and the one before, by all subsets of items."""

    def best(items):
        row = np.full(301, 0, i32)
        totals = {0: 0}
        for k in range(items):
            for w, v in list(totals.items()):
                heavier = w + int(weights[k])
                totals[heavier] = max(totals.get(heavier, 0), v + int(values[k]))
        for w, v in totals.items():
            if w <= 300:
                row[w] = max(row[w], v)
        return np.maximum.accumulate(row)

    return {"b": best(13), "a": best(12)}


kernel(
    "lcs_wavefront",
    "The longest common subsequence: one launch an anti-diagonal of the table in global memory.",
    r"""
extern "C" __global__ void lcs_diagonal(const unsigned char* a, const unsigned char* b, int* table, int n, int m,
        int d) {
    int i = max(1, d - m) + blockIdx.x * blockDim.x + threadIdx.x, j = d - i;
    if (i > n || j < 1) return;  // guard
    int w = m + 1;
    table[i * w + j] = a[i - 1] == b[j - 1] ? table[(i - 1) * w + j - 1] + 1
                                            : max(table[(i - 1) * w + j], table[i * w + j - 1]);
}
""",
    data=lambda rng: {
        "a": rng.integers(0, 4, 37, dtype=u8),
        "b": rng.integers(0, 4, 29, dtype=u8),
        "table": np.zeros((38, 30), i32),
        "n": i32(37),
        "m": i32(29),
    },
    launch=lambda d: [Launch("lcs_diagonal", 2, 32, ("a", "b", "table", "n", "m", i32(k))) for k in range(2, 67)],
    expect=lambda d: {"table": lcs(d["a"], d["b"])},
    features="multi_launch",
)


def lcs(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), i32)
    for i, x in enumerate(a, 1):
        candidates = np.maximum(table[i - 1, 1:], np.where(b == x, table[i - 1, :-1] + 1, 0))
        table[i, 1:] = np.maximum.accumulate(candidates)
    return table


kernel(
    "floyd_warshall_pivot",
    "All shortest paths: a launch a pivot; the pivot's row and column do not change in their own round.",
    r"""
extern "C" __global__ void through_pivot(int* distance, int n, int k) {
    __shared__ int row_k[32];
    int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (threadIdx.y == 0 && j < n) row_k[threadIdx.x] = distance[k * n + j];  // guard
    __syncthreads();
    if (i >= n || j >= n || i == k || j == k) return;  // guard
    int via = distance[i * n + k] + row_k[threadIdx.x];
    if (via < distance[i * n + j]) distance[i * n + j] = via;
}
""",
    data=lambda rng: {"distance": roads(rng, 37), "n": i32(37)},
    launch=lambda d: [Launch("through_pivot", (2, 5), (32, 8), ("distance", "n", i32(k))) for k in range(37)],
    expect=lambda d: {"distance": all_pairs(d["distance"])},
    features="shared multi_launch",
)


def roads(rng, n):
    d = np.where(rng.random((n, n)) < 0.15, rng.integers(1, 100, (n, n)), 10**6).astype(i32)
    np.fill_diagonal(d, 0)
    return d


def all_pairs(d):
    """Min-plus squares until nothing changes."""
    while True:
        squared = (d[:, :, None] + d[None]).min(1)
        squared = np.where(squared >= 10**6, np.minimum(d, squared), squared)
        if (squared == d).all():
            return d
        d = squared.astype(i32)


kernel(
    "needleman_wunsch_tile",
    "Global alignment: a block walks its table in diagonals, gap penalties along the edges, moves "
    "stored for tracing back.",
    r"""
extern "C" __global__ void align(const char* a, const char* b, int* score, char* move, int n, int m, int gap) {
    int w = m + 1;
    for (int k = threadIdx.x; k <= max(n, m); k += blockDim.x) {
        if (k <= m) { score[k] = -gap * k; move[k] = 'L'; }
        if (k <= n && k > 0) { score[k * w] = -gap * k; move[k * w] = 'U'; }
    }
    __syncthreads();
    for (int d = 2; d <= n + m; d++) {
        for (int i = max(1, d - m) + threadIdx.x; i <= min(n, d - 1); i += blockDim.x) {
            int j = d - i, at = i * w + j;
            int best = score[at - w - 1] + (a[i - 1] == b[j - 1] ? 2 : -1);
            char how = 'D';
            if (score[at - w] - gap > best) { best = score[at - w] - gap; how = 'U'; }
            if (score[at - 1] - gap > best) { best = score[at - 1] - gap; how = 'L'; }
            score[at] = best;
            move[at] = how;
        }
        __syncthreads();
    }
}
""",
    data=lambda rng: {
        "a": rng.choice(np.frombuffer(b"ACGT", np.int8), 31),
        "b": rng.choice(np.frombuffer(b"ACGT", np.int8), 27),
        "score": Blank((32, 28), i32),
        "move": Blank((32, 28), np.int8),
        "n": i32(31),
        "m": i32(27),
        "gap": i32(2),
    },
    launch=Launch("align", 1, 24, "a b score move n m gap"),
    expect=lambda d: aligned(d["a"], d["b"], 2),
)


def aligned(a, b, gap):
    score, move = np.zeros((len(a) + 1, len(b) + 1), i32), np.zeros((len(a) + 1, len(b) + 1), np.int8)
    for i in range(len(a) + 1):
        for j in range(len(b) + 1):
            options = []
            if i and j:
                options.append((score[i - 1, j - 1] + (2 if a[i - 1] == b[j - 1] else -1), 0, "D"))
            if i:
                options.append((score[i - 1, j] - gap, -1, "U"))
            if j:
                options.append((score[i, j - 1] - gap, -2, "L"))
            best = max(options, default=(0, 0, "L"))
            score[i, j], move[i, j] = best[0], ord(best[2])
    return {"score": score, "move": move}


kernel(
    "matrix_chain_lengths",
    "Intervals of growing length: the cheapest bracketing of a chain of products; a barrier between lengths.",
    r"""
extern "C" __global__ void chain(const int* sizes, unsigned* cost, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) cost[i * n + i] = 0;
    for (int length = 2; length <= n; length++) {
        __syncthreads();
        for (int i = threadIdx.x; i + length <= n; i += blockDim.x) {
            int j = i + length - 1;
            unsigned best = 0xffffffffu;
            for (int k = i; k < j; k++)
                best = min(best, cost[i * n + k] + cost[(k + 1) * n + j] + sizes[i] * sizes[k + 1] * sizes[j + 1]);
            cost[i * n + j] = best;
        }
    }
}
""",
    data=lambda rng: {"sizes": rng.integers(1, 40, 22, dtype=i32), "cost": np.zeros((21, 21), np.uint32), "n": i32(21)},
    launch=Launch("chain", 1, 16, "sizes cost n"),
    expect=lambda d: {"cost": chain(d["sizes"].tolist())},
)


def chain(p):
    from functools import cache

    @cache
    def cost(i, j):
        return 0 if i == j else min(cost(i, k) + cost(k + 1, j) + p[i] * p[k + 1] * p[j + 1] for k in range(i, j))

    return np.array([[cost(i, j) if i <= j else 0 for j in range(21)] for i in range(21)], np.uint32)


kernel(
    "viterbi_decode",
    "The likeliest path through hidden states: a block, a thread a state, then one thread goes back.",
    r"""
extern "C" __global__ void viterbi(const float* start, const float* change, const float* emit, const int* seen,
        int* back, int* path,
                                   int states, int steps) {
    extern __shared__ float likely[];
    float* last = likely;
    float* next = likely + states;
    int s = threadIdx.x;
    last[s] = start[s] + emit[s * 4 + seen[0]];
    __syncthreads();
    for (int t = 1; t < steps; t++) {
        float best = last[0] + change[s];
        int from = 0;
        for (int r = 1; r < states; r++) {
            float through = last[r] + change[r * states + s];
            if (through > best) { best = through; from = r; }
        }
        next[s] = best + emit[s * 4 + seen[t]];
        back[t * states + s] = from;
        __syncthreads();
        float* swap = last;
        last = next;
        next = swap;
    }
    if (s == 0) {
        int state = 0;
        for (int r = 1; r < states; r++)
            if (last[r] > last[state]) state = r;
        for (int t = steps - 1; t >= 0; t--) {
            path[t] = state;
            if (t > 0) state = back[t * states + state];
        }
    }
}
""",
    data=lambda rng: {
        "start": -rng.integers(0, 64, 10).astype(f32) / 8,
        "change": -rng.integers(0, 64, (10, 10)).astype(f32) / 8,
        "emit": -rng.integers(0, 64, (10, 4)).astype(f32) / 8,
        "seen": rng.integers(0, 4, 35, dtype=i32),
        "back": Scratch(np.zeros((35, 10), i32)),
        "path": Blank(35, i32),
        "states": i32(10),
        "steps": i32(35),
    },
    launch=Launch("viterbi", 1, 10, "start change emit seen back path states steps", shared=80),
    expect=lambda d: {"path": viterbi(d)},
    features="dynamic_shared",
)


def viterbi(d):
    score, back = d["start"] + d["emit"][:, d["seen"][0]], []
    for seen in d["seen"][1:]:
        through = score[:, None] + d["change"]
        back.append(through.argmax(0))
        score = through.max(0) + d["emit"][:, seen]
    path = [int(score.argmax())]
    for row in reversed(back):
        path.append(int(row[path[-1]]))
    return i32(path[::-1])


kernel(
    "dynamic_time_warping",
    "Two signals stretched onto each other: a thread a pair, the table's last row in local memory.",
    r"""
#define MOST 24
extern "C" __global__ void warp_distance(const double* series, const double* reference, double* distance, int count,
        int length) {
    int which = blockIdx.x * blockDim.x + threadIdx.x;
    if (which >= count) return;  // guard
    double row[MOST + 1];
    row[0] = 0;
    for (int j = 1; j <= length; j++) row[j] = 1e300;
    for (int i = 0; i < length; i++) {
        double corner = row[0];
        row[0] = 1e300;
        for (int j = 1; j <= length; j++) {
            double above = row[j];
            row[j] = fabs(series[i * count + which] - reference[j - 1]) + fmin(corner, fmin(above, row[j - 1]));
            corner = above;
        }
    }
    distance[which] = row[length];
}
""",
    data=lambda rng: {
        "series": rng.integers(-50, 50, (23, 37)).astype(f64),
        "reference": rng.integers(-50, 50, 23).astype(f64),
        "distance": Blank(37, f64),
        "count": i32(37),
        "length": i32(23),
    },
    launch=Launch("warp_distance", 2, 32, "series reference distance count length"),
    expect=lambda d: {"distance": np.array([warped(s, d["reference"]) for s in d["series"].T])},
    features="local_memory",
)


def warped(a, b):
    table = np.full((len(a) + 1, len(b) + 1), np.inf)
    table[0, 0] = 0
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            table[i, j] = abs(x - y) + min(table[i - 1, j], table[i, j - 1], table[i - 1, j - 1])
    return table[-1, -1]
