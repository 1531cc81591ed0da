"""Histograms, locks, tables, queues: what threads share and change at the same time."""

from ..kernel import Blank, Launch, Near, Scratch, f32, f64, i32, kernel, np, u8, u32, u64, whole

kernel(
    "histogram_global",
    "All threads count in one table in global memory.",
    r"""
extern "C" __global__ void histogram(const unsigned char* data, unsigned* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)  // guard
        atomicAdd(&bins[data[i]], 1u);
}
""",
    data=lambda rng: {"data": rng.integers(0, 256, 1500, dtype=u8), "bins": np.zeros(256, u32), "n": i32(1500)},
    launch=Launch("histogram", 6, 256, "data bins n"),
    expect=lambda d: {"bins": np.bincount(d["data"], minlength=256).astype(u32)},
)

kernel(
    "histogram_privatised_warps",
    "A private copy a warp in shared memory lessens collisions; a few bins, values outside are dropped.",
    r"""
#define BINS 20
#define WARPS 4
extern "C" __global__ void histogram_private(const float* x, int* bins, float low, float width, int n) {
    __shared__ int mine[WARPS][BINS];
    int warp = threadIdx.x / 32;
    for (int k = threadIdx.x; k < WARPS * BINS; k += blockDim.x) mine[k / BINS][k % BINS] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int bin = (int)floorf((x[i] - low) / width);
        if (bin >= 0 && bin < BINS) atomicAdd(&mine[warp][bin], 1);  // guard
    }
    __syncthreads();
    if (threadIdx.x < BINS) {
        int sum = 0;
        for (int w = 0; w < WARPS; w++) sum += mine[w][threadIdx.x];
        atomicAdd(bins + threadIdx.x, sum);
    }
}
""",
    data=lambda rng: {
        "x": rng.standard_normal(1777, dtype=f32),
        "bins": np.zeros(20, i32),
        "low": f32(-2.5),
        "width": f32(0.25),
        "n": i32(1777),
    },
    launch=Launch("histogram_private", 3, 128, "x bins low width n"),
    expect=lambda d: {"bins": binned(np.floor((d["x"] + f32(2.5)) / f32(0.25)).astype(int), 20)},
    features="shared",
)


def binned(bins, count):
    return np.bincount(bins[(bins >= 0) & (bins < count)], minlength=count).astype(i32)


kernel(
    "atomic_cas_multiply",
    "An atomic that the hardware lacks, from compare-and-swap: multiply, with whole numbers modulo 2^32.",
    r"""
__device__ unsigned atomic_multiply(unsigned* address, unsigned factor) {
    unsigned old = *(volatile unsigned*)address, assumed;
    do {
        assumed = old;
        old = atomicCAS(address, assumed, assumed * factor);
    } while (old != assumed);
    return old;
}
extern "C" __global__ void products(const unsigned* factors, const int* owner, unsigned* result, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomic_multiply(&result[owner[i]], factors[i]);  // guard
}
""",
    data=lambda rng: {
        "factors": rng.integers(1, 2**31, 300, dtype=u32) | u32(1),
        "owner": rng.integers(0, 7, 300, dtype=i32),
        "result": np.ones(7, u32),
        "n": i32(300),
    },
    launch=Launch("products", 3, 128, "factors owner result n"),
    expect=lambda d: {
        "result": np.array([np.multiply.reduce(d["factors"][d["owner"] == k], dtype=u32) for k in range(7)])
    },
)

kernel(
    "atomic_float_minimum",
    "Floats are ordered as whole numbers if the sign is taken care of: minimum and maximum in one pass.",
    r"""
__device__ void atomic_min_float(float* address, float value) {
    if (value >= 0) atomicMin((int*)address, __float_as_int(value));
    else atomicMax((unsigned*)address, __float_as_uint(value));
}
__device__ void atomic_max_float(float* address, float value) {
    if (value >= 0) atomicMax((int*)address, __float_as_int(value));
    else atomicMin((unsigned*)address, __float_as_uint(value));
}
extern "C" __global__ void envelope(const float* samples, float* low, float* high, int n, int window) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    atomic_min_float(&low[i / window], samples[i]);
    atomic_max_float(&high[i / window], samples[i]);
}
""",
    data=lambda rng: {
        "samples": rng.standard_normal(500, dtype=f32),
        "low": np.full(10, np.inf, f32),
        "high": np.full(10, -np.inf, f32),
        "n": i32(500),
        "window": i32(50),
    },
    launch=Launch("envelope", 5, 128, "samples low high n window"),
    expect=lambda d: {"low": d["samples"].reshape(10, 50).min(1), "high": d["samples"].reshape(10, 50).max(1)},
    features="bit_casts",
)

kernel(
    "spin_lock_blocks",
    "A lock for one thread a block: exchange until it was free, fence, work, fence, release.",
    r"""
extern "C" __global__ void with_lock(int* lock, int* account, const int* amounts, int n) {
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = blockIdx.x; i < n; i += gridDim.x) sum += amounts[i];
        while (atomicExch(lock, 1) != 0) { }
        __threadfence();
        account[0] = account[0] + sum;
        account[1] = account[1] + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
""",
    data=lambda rng: {
        "lock": np.zeros(1, i32),
        "account": np.zeros(2, i32),
        "amounts": rng.integers(-99, 99, 100, dtype=i32),
        "n": i32(100),
    },
    launch=Launch("with_lock", 9, 32, "lock account amounts n"),
    expect=lambda d: {"account": i32([d["amounts"].sum(), 9])},
    features="polling fences",
)

kernel(
    "hash_table_insert_lookup",
    "Open addressing: a slot is claimed by compare-and-swap of its key; a second kernel looks up.",
    r"""
#define EMPTY 0xffffffffu
__device__ unsigned hash(unsigned k) {
    k ^= k >> 16; k *= 0x85ebca6bu; k ^= k >> 13; k *= 0xc2b2ae35u; k ^= k >> 16;
    return k;
}
extern "C" __global__ void insert(unsigned* keys, unsigned* sums, const unsigned* key, const unsigned* value, int n,
        unsigned mask) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    unsigned slot = hash(key[i]) & mask;
    while (true) {
        unsigned there = atomicCAS(&keys[slot], EMPTY, key[i]);
        if (there == EMPTY || there == key[i]) {
            atomicAdd(&sums[slot], value[i]);
            return;
        }
        slot = (slot + 1) & mask;
    }
}
extern "C" __global__ void lookup(const unsigned* keys, const unsigned* sums, const unsigned* wanted,
        unsigned* found, int n, unsigned mask) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    unsigned slot = hash(wanted[i]) & mask;
    while (keys[slot] != EMPTY && keys[slot] != wanted[i]) slot = (slot + 1) & mask;
    found[i] = keys[slot] == EMPTY ? EMPTY : sums[slot];
}
""",
    data=lambda rng: {
        "keys": Scratch(np.full(512, 2**32 - 1, u32)),
        "sums": Scratch(np.zeros(512, u32)),
        "key": rng.integers(0, 400, 900, dtype=u32),
        "value": rng.integers(0, 1000, 900, dtype=u32),
        "wanted": np.arange(0, 500, 3, dtype=u32),
        "found": Blank(167, u32),
        "mask": u32(511),
    },
    launch=[
        Launch("insert", 8, 128, ("keys", "sums", "key", "value", i32(900), "mask")),
        Launch("lookup", 2, 96, ("keys", "sums", "wanted", "found", i32(167), "mask")),
    ],
    expect=lambda d: {
        "found": np.array(
            [d["value"][d["key"] == k].sum() if (d["key"] == k).any() else 2**32 - 1 for k in d["wanted"]], u32
        )
    },
    features="multi_launch",
)

kernel(
    "work_queue_dynamic",
    "Blocks fetch work from a common counter: uneven pieces spread themselves.",
    r"""
extern "C" __global__ void workers(const int* lengths, unsigned* results, int* next, int count) {
    __shared__ int mine;
    while (true) {
        if (threadIdx.x == 0) mine = atomicAdd(next, 1);
        __syncthreads();
        int item = mine;
        __syncthreads();
        if (item >= count) return;
        unsigned sum = 0;
        for (int k = threadIdx.x; k < lengths[item]; k += blockDim.x) sum += k * k;
        atomicAdd(&results[item], sum);
    }
}
""",
    data=lambda rng: {
        "lengths": rng.integers(0, 200, 33, dtype=i32),
        "results": np.zeros(33, u32),
        "next": np.zeros(1, i32),
        "count": i32(33),
    },
    launch=Launch("workers", 4, 48, "lengths results next count"),
    expect=lambda d: {
        "results": np.array([(np.arange(k) ** 2).sum() for k in d["lengths"]], u32),
        "next": i32([33 + 4]),
    },
    features="shared",
)

kernel(
    "linked_list_push",
    "A lock-free stack: a new head points to the old one; a serial walk afterwards finds all that were pushed.",
    r"""
struct Node { int value, next; };
extern "C" __global__ void push(Node* pool, int* head, const int* values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || values[i] % 2) return;  // guard
    pool[i].value = values[i];
    pool[i].next = atomicExch(head, i);
}
extern "C" __global__ void walk(const Node* pool, const int* head, long long* result) {
    long long sum = 0, count = 0;
    for (int at = *head; at >= 0; at = pool[at].next) {
        sum += pool[at].value;
        count++;
    }
    result[0] = sum;
    result[1] = count;
}
""",
    data=lambda rng: {
        "pool": Scratch(np.zeros((300, 2), i32)),
        "head": Scratch(i32([-1])),
        "values": rng.integers(0, 10**6, 300, dtype=i32),
        "n": i32(300),
        "result": Blank(2, np.int64),
    },
    launch=[Launch("push", 4, 96, "pool head values n"), Launch("walk", 1, 1, "pool head result")],
    expect=lambda d: (lambda even: {"result": np.array([even.sum(), len(even)], np.int64)})(
        d["values"][d["values"] % 2 == 0]
    ),
    features="structs multi_launch",
)

kernel(
    "union_find_components",
    "Connected components by hooking: the larger root is hung under the smaller one, by an atomic minimum.",
    r"""
__device__ int root(const volatile int* parent, int v) {
    while (parent[v] != v) v = parent[v];
    return v;
}
extern "C" __global__ void hook(int* parent, const int2* edges, int count) {
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= count) return;  // guard
    int a = root(parent, edges[e].x), b = root(parent, edges[e].y);
    while (a != b) {
        int high = max(a, b), low = min(a, b);
        int before = atomicCAS(&parent[high], high, low);
        if (before == high) return;
        a = root(parent, before);
        b = root(parent, low);
    }
}
extern "C" __global__ void flatten(int* parent, int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;  // guard
    int r = v;
    while (((volatile int*)parent)[r] != r) r = ((volatile int*)parent)[r];
    ((volatile int*)parent)[v] = r;
}
""",
    data=lambda rng: {
        "parent": np.arange(150, dtype=i32),
        "edges": rng.integers(0, 150, (110, 2), dtype=i32),
        "count": i32(110),
        "n": i32(150),
    },
    launch=[Launch("hook", 2, 64, "parent edges count"), Launch("flatten", 3, 64, "parent n")],
    expect=lambda d: {"parent": components(150, d["edges"])},
    features="volatile polling multi_launch",
)


def components(n, edges):
    """The smallest member of each vertex' component."""
    label = np.arange(n, dtype=i32)
    while True:
        lowest = label.copy()
        np.minimum.at(lowest, edges[:, 0], label[edges[:, 1]])
        np.minimum.at(lowest, edges[:, 1], label[edges[:, 0]])
        if (lowest == label).all():
            return label
        label = lowest


kernel(
    "ticket_ordering",
    "Tickets make an order of arrival; a ring buffer keeps the last ones, by increments that wrap.",
    r"""
extern "C" __global__ void ring(const int* in, int* slots, unsigned* position, int* peak, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    unsigned at = atomicInc(position, 15u);
    atomicAdd(&slots[at], in[i]);
    atomicMax(peak, in[i]);
}
""",
    data=lambda rng: {
        "in": np.full(160, 7, i32),
        "slots": np.zeros(16, i32),
        "position": np.zeros(1, u32),
        "peak": np.zeros(1, i32),
        "n": i32(160),
    },
    launch=Launch("ring", 3, 64, "in slots position peak n"),
    expect=lambda d: {"slots": np.full(16, 70, i32), "peak": i32([7])},
)

kernel(
    "double_atomics_bins",
    "Weighted bins in double precision: the hardware has that atomic; sums of whole numbers do not depend on order.",
    r"""
extern "C" __global__ void weighted(const double* weight, const unsigned short* bin, double* sums, int n) {
    for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) {
        double before = atomicAdd(&sums[bin[i]], weight[i]);
        if (isnan(before)) __trap();
    }
}
""",
    data=lambda rng: {
        "weight": whole(rng, -1000, 1000, 600, dtype=f64),
        "bin": rng.integers(0, 30, 600).astype(np.uint16),
        "sums": np.zeros(30),
        "n": i32(600),
    },
    launch=Launch("weighted", 2, 128, "weight bin sums n"),
    expect=lambda d: {"sums": np.bincount(d["bin"], d["weight"], 30)},
    features="trap",
)

kernel(
    "bit_set_atomic_or",
    "A set of numbers as bits: insertion by OR, removal by AND, toggling by XOR, on 64-bit words.",
    r"""
extern "C" __global__ void edit_set(unsigned long long* words, const int* add, const int* drop, const int* flip,
        int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    atomicOr(&words[add[i] / 64], 1ull << add[i] % 64);
    atomicAnd(&words[drop[i] / 64], ~(1ull << drop[i] % 64));
    atomicXor(&words[flip[i] / 64], 1ull << flip[i] % 64);
}
""",
    data=lambda rng: (
        lambda order: {
            "words": np.full(16, 0x00FF00FF00FF00FF, u64),
            "add": order[:200],
            "drop": order[200:400],
            "flip": order[400:600],
            "n": i32(200),
        }
    )(rng.permutation(1024).astype(i32)),
    launch=Launch("edit_set", 2, 128, "words add drop flip n"),
    expect=lambda d: {"words": edited(d)},
)


def edited(d):
    bits = np.unpackbits(d["words"].view(u8), bitorder="little")
    bits[d["add"]] = 1
    bits[d["drop"]] = 0
    bits[d["flip"]] ^= 1
    return np.packbits(bits, bitorder="little").view(u64)


kernel(
    "float_atomic_accumulate",
    "Forces on particles gathered from pairs: float atomics in an order that changes from run to run.",
    r"""
extern "C" __global__ void springs(const float* x, const int2* pairs, float* force, float stiffness, int count) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= count) return;  // guard
    int2 p = pairs[k];
    float pull = stiffness * (x[p.y] - x[p.x]);
    atomicAdd(force + p.x, pull);
    atomicAdd(force + p.y, -pull);
}
""",
    data=lambda rng: {
        "x": rng.standard_normal(60, dtype=f32),
        "pairs": rng.integers(0, 60, (500, 2), dtype=i32),
        "force": np.zeros(60, f32),
        "stiffness": f32(1.7),
        "count": i32(500),
    },
    launch=Launch("springs", 4, 128, "x pairs force stiffness count"),
    expect=lambda d: {"force": spring_forces(d["x"].astype(f64), d["pairs"]).astype(f32)},
    tolerance=Near(1e-5, 1e-4, "float atomics"),
    features="vectors",
)


def spring_forces(x, pairs):
    pull = 1.7 * (x[pairs[:, 1]] - x[pairs[:, 0]])
    return np.bincount(pairs[:, 0], pull, 60) - np.bincount(pairs[:, 1], pull, 60)
