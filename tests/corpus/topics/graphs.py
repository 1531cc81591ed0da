"""Graphs in compressed rows: frontiers, ranks, shortest paths, triangles, labels."""

from ..kernel import Blank, Launch, Near, Scratch, f64, i32, kernel, np

V = 120
BIG = 10**9


def network(rng, edges=260, weights=False, symmetric=True):
    """Row starts, neighbours, weights of a random graph without loops."""
    pairs = rng.integers(0, V, (edges, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    if symmetric:
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
    pairs = np.unique(pairs, axis=0)
    starts = np.concatenate([[0], np.bincount(pairs[:, 0], minlength=V).cumsum()]).astype(i32)
    found = {"starts": starts, "edges": pairs[:, 1].astype(i32), "n": i32(V)}
    if weights:
        found["weights"] = rng.integers(1, 50, len(pairs), dtype=i32)
    return found


def adjacency(d):
    full = np.zeros((V, V), int)
    full[np.repeat(np.arange(V), np.diff(d["starts"])), d["edges"]] = 1
    return full


def hops(d):
    """Levels by repeated products with the adjacency matrix."""
    full, level = adjacency(d), np.full(V, -1, i32)
    reached = np.zeros(V, bool)
    reached[0] = True
    for step in range(V):
        level[reached & (level < 0)] = step
        reached |= full[reached].any(0)
    return level


kernel(
    "bfs_level_synchronous",
    "Breadth-first search, a launch a level: flags say who is on the frontier, an exchange decides "
    "who found a vertex first.",
    r"""
extern "C" __global__ void bfs_level(const int* starts, const int* edges, unsigned char* now, unsigned char* next,
                                     int* visited, int* level, int depth, int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n || !now[v]) return;  // guard
    now[v] = 0;
    level[v] = depth;
    for (int e = starts[v]; e < starts[v + 1]; e++)
        if (atomicExch(&visited[edges[e]], 1) == 0) next[edges[e]] = 1;
}
""",
    data=lambda rng: {
        **network(rng),
        "a": (np.arange(V) == 0).astype(np.uint8),
        "b": np.zeros(V, np.uint8),
        "visited": (np.arange(V) == 0).astype(i32),
        "level": np.full(V, -1, i32),
    },
    launch=lambda d: [
        Launch("bfs_level", 4, 32, ("starts", "edges", "ab"[k % 2], "ba"[k % 2], "visited", "level", i32(k), "n"))
        for k in range(10)
    ],
    expect=lambda d: (lambda level: {"level": level, "visited": (level >= 0).astype(i32), "a": np.zeros(V, np.uint8)})(
        hops(d)
    ),
    features="multi_launch",
)

kernel(
    "bfs_frontier_queue",
    "Breadth-first search with queues: a block makes the next frontier in shared memory and places it at once.",
    r"""
extern "C" __global__ void expand(const int* starts, const int* edges, int* level, const int* frontier, const int* size,
                                  int* next, int* next_size, int depth) {
    __shared__ int found[128], count, base;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < *size) {  // guard
        int v = frontier[k];
        for (int e = starts[v]; e < starts[v + 1]; e++) {
            int w = edges[e];
            if (atomicCAS(&level[w], -1, depth) == -1) found[atomicAdd(&count, 1)] = w;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) base = atomicAdd(next_size, count);
    __syncthreads();
    for (int j = threadIdx.x; j < count; j += blockDim.x) next[base + j] = found[j];
}
extern "C" __global__ void clear(int* size) { *size = 0; }
""",
    data=lambda rng: {
        **network(rng),
        "level": np.where(np.arange(V) == 0, 0, -1).astype(i32),
        "qa": Scratch(np.zeros(V, i32)),
        "qb": Scratch(np.zeros(V, i32)),
        "na": Scratch(i32([1])),
        "nb": Scratch(i32([0])),
    },
    launch=lambda d: [
        launch
        for k in range(9)
        for one, two in [("ab", "ba")[k % 2]]
        for launch in (
            Launch("clear", 1, 1, ("n" + two,)),
            Launch(
                "expand", 2, 64, ("starts", "edges", "level", "q" + one, "n" + one, "q" + two, "n" + two, i32(k + 1))
            ),
        )
    ],
    expect=lambda d: {"level": hops(d)},
    features="shared multi_launch",
)

kernel(
    "pagerank_pull",
    "Each page collects from those that link to it: two buffers, a fixed number of rounds.",
    r"""
extern "C" __global__ void pull_ranks(const int* starts, const int* from, const int* links_out, const double* rank,
                                      double* next, double damping, int n) {
    int page = blockIdx.x * blockDim.x + threadIdx.x;
    if (page >= n) return;  // guard
    double sum = 0;
    for (int e = starts[page]; e < starts[page + 1]; e++) sum += rank[from[e]] / links_out[from[e]];
    next[page] = (1 - damping) / n + damping * sum;
}
""",
    data=lambda rng: {
        **(lambda g: {**g, "out": np.maximum(1, np.bincount(g["edges"], minlength=V)).astype(i32)})(
            network(rng, 500, symmetric=False)
        ),
        "a": np.full(V, 1 / V),
        "b": Blank(V, f64),
        "damping": f64(0.85),
    },
    launch=lambda d: [
        Launch("pull_ranks", 2, 64, ("starts", "edges", "out", "ab"[k % 2], "ba"[k % 2], "damping", "n"))
        for k in range(8)
    ],
    expect=lambda d: pagerank(adjacency(d) / d["out"], 8),
    rounding=Near(1e-12, 0, "sums in another order, fused multiply-add"),
    features="multi_launch",
)


def pagerank(links, rounds):
    states = [np.full(V, 1 / V)]
    for _ in range(rounds):
        states.append(0.15 / V + 0.85 * links @ states[-1])
    return {"a": states[-1], "b": states[-2]}


kernel(
    "sssp_bellman_ford",
    "Shortest paths by relaxing every edge until nothing changes; here as often as a path can be long.",
    r"""
extern "C" __global__ void relax(const int* starts, const int* edges, const int* weights, int* distance, int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;  // guard
    int here = atomicAdd(&distance[v], 0);
    if (here >= 1000000000) return;
    for (int e = starts[v]; e < starts[v + 1]; e++) atomicMin(&distance[edges[e]], here + weights[e]);
}
""",
    data=lambda rng: {
        **network(rng, weights=True),
        "distance": np.where(np.arange(V) == 3, 0, BIG).astype(i32),
    },
    launch=[Launch("relax", 3, 48, "starts edges weights distance n")] * 25,
    expect=lambda d: {"distance": shortest(d)},
    features="multi_launch",
)


def shortest(d):
    sources = np.repeat(np.arange(V), np.diff(d["starts"]))
    distance = np.where(np.arange(V) == 3, 0, BIG).astype(np.int64)
    for _ in range(V):
        np.minimum.at(distance, d["edges"], np.where(distance[sources] < BIG, distance[sources] + d["weights"], BIG))
    return distance.astype(i32)


kernel(
    "triangle_count",
    "A thread an edge: two sorted neighbour lists are walked together, three times each triangle is found.",
    r"""
extern "C" __global__ void triangles(const int* starts, const int* edges, unsigned long long* count, int n) {
    int u = blockIdx.x;
    for (int e = starts[u] + threadIdx.x; e < starts[u + 1]; e += blockDim.x) {
        int v = edges[e], i = starts[u], j = starts[v];
        unsigned found = 0;
        while (v > u && i < starts[u + 1] && j < starts[v + 1]) {
            int a = edges[i], b = edges[j];
            found += a == b && a > v;
            i += a <= b;
            j += b <= a;
        }
        if (found) atomicAdd(count, (unsigned long long)found);
    }
}
""",
    data=lambda rng: {**network(rng, 900), "count": np.zeros(1, np.uint64)},
    launch=Launch("triangles", V, 16, "starts edges count n"),
    expect=lambda d: {"count": np.array([np.trace(np.linalg.matrix_power(adjacency(d), 3)) // 6], np.uint64)},
)

kernel(
    "label_propagation",
    "Connected components: labels sink to the smallest of the neighbours; a flag tells whether anything changed.",
    r"""
extern "C" __global__ void propagate(const int* starts, const int* edges, const int* label, int* next, int* changed,
        int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    int lowest = 0, mine = 0;
    if (v < n) {  // guard
        mine = lowest = label[v];
        for (int e = starts[v]; e < starts[v + 1]; e++) lowest = min(lowest, label[edges[e]]);
        next[v] = lowest;
    }
    if (__syncthreads_or(lowest != mine) && threadIdx.x == 0) atomicOr(changed, 1);
}
""",
    data=lambda rng: {
        **network(rng, 110),
        "a": np.arange(V, dtype=i32),
        "b": Blank(V, i32),
        "changed": np.zeros(1, i32),
        "still": np.zeros(1, i32),
    },
    launch=lambda d: [
        Launch("propagate", 3, 48, ("starts", "edges", "ab"[k % 2], "ba"[k % 2], "changed" if k < 29 else "still", "n"))
        for k in range(30)
    ],
    expect=lambda d: (lambda label: {"a": label, "b": label, "changed": i32([1])})(lowest_labels(d)),
    features="barrier_reduction multi_launch",
)


def lowest_labels(d):
    reach = (np.linalg.matrix_power(adjacency(d).astype(float) + np.eye(V), 40) > 0).astype(int)
    return (reach > 0).argmax(1).astype(i32)


kernel(
    "degree_and_colour_greedy",
    "Colouring without a conflict: a vertex takes a colour when it is the local maximum of random priorities.",
    r"""
extern "C" __global__ void colour_round(const int* starts, const int* edges, const unsigned* priority,
        const int* colour,
                                        int* next, int round, int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;  // guard
    next[v] = colour[v];
    if (colour[v] >= 0) return;
    for (int e = starts[v]; e < starts[v + 1]; e++) {
        int w = edges[e];
        if (colour[w] < 0 && priority[w] > priority[v]) return;
    }
    next[v] = round;
}
""",
    data=lambda rng: {
        **network(rng, 200),
        "priority": rng.permutation(V).astype(np.uint32),
        "a": np.full(V, -1, i32),
        "b": Blank(V, i32),
    },
    launch=lambda d: [
        Launch("colour_round", 4, 32, ("starts", "edges", "priority", "ab"[k % 2], "ba"[k % 2], i32(k), "n"))
        for k in range(8)
    ],
    expect=lambda d: coloured(adjacency(d), d["priority"].astype(int), 8),
    features="multi_launch",
)


def coloured(full, priority, rounds):
    states = [np.full(V, -1, i32)]
    for k in range(rounds):
        colour = states[-1].copy()
        rivals = np.where((full > 0) & (colour < 0), priority, -1).max(1)
        colour[(colour < 0) & (rivals < priority)] = k
        states.append(colour)
    return {"a": states[-1], "b": states[-2]}


kernel(
    "topological_peeling",
    "Vertices without open requirements are taken away round after round: levels of a directed acyclic graph.",
    r"""
extern "C" __global__ void peel(const int* starts, const int* edges, int* open, const int* ready, const int* count,
                                int* next, int* next_count, int* level, int round) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= *count) return;  // guard
    int v = ready[k];
    level[v] = round;
    for (int e = starts[v]; e < starts[v + 1]; e++)
        if (atomicSub(&open[edges[e]], 1) == 1) next[atomicAdd(next_count, 1)] = edges[e];
}
""",
    data=lambda rng: acyclic(rng),
    launch=lambda d: [
        Launch("peel", 3, 48, ("starts", "edges", "open", f"q{k}", f"n{k}", f"q{k + 1}", f"n{k + 1}", "level", i32(k)))
        for k in range(12)
    ],
    expect=lambda d: {"level": longest(d), "open": np.zeros(V, i32)},
    features="multi_launch",
)


def acyclic(rng):
    pairs = np.sort(rng.integers(0, V, (180, 2)), axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    starts = np.concatenate([[0], np.bincount(pairs[:, 0], minlength=V).cumsum()]).astype(i32)
    open_ = np.bincount(pairs[:, 1], minlength=V).astype(i32)
    first = np.nonzero(open_ == 0)[0].astype(i32)
    queues = {f"q{k}": Scratch(np.zeros(V, i32)) for k in range(13)} | {
        "q0": Scratch(np.pad(first, (0, V - len(first))))
    }
    counts = {f"n{k}": Scratch(i32([len(first) * (k == 0)])) for k in range(13)}
    edges = pairs[:, 1].astype(i32)
    return {"starts": starts, "edges": edges, "open": open_, "level": Blank(V, i32), **queues, **counts}


def longest(d):
    level = np.zeros(V, i32)
    for v in range(V):
        for w in d["edges"][d["starts"][v] : d["starts"][v + 1]]:
            level[w] = max(level[w], level[v] + 1)
    return level
