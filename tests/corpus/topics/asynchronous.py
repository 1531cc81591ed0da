"""Barriers as objects, copies that run beside the computation, memory order, memory from the device's heap."""

from ..kernel import Blank, Launch, f32, i32, kernel, np, u32, whole

LIBCUDA = ("cuda/atomic", "cuda/barrier", "cuda/pipeline", "cooperative_groups.h", "cooperative_groups/memcpy_async.h")

kernel(
    "atomic_ref_orders",
    "cuda::atomic_ref: a message is written, then a flag with release order; whoever sees the flag sees the message.",
    r"""
extern "C" __global__ void pass_on(int* message, int* flag, int* out) {
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    if (blockIdx.x == 0) {
        message[threadIdx.x] = 10 * threadIdx.x + 7;
        __syncthreads();
        if (threadIdx.x == 0) ready.store(1, cuda::memory_order_release);
    } else {
        if (threadIdx.x == 0)
            while (ready.load(cuda::memory_order_acquire) == 0) { }
        __syncthreads();
        out[(blockIdx.x - 1) * blockDim.x + threadIdx.x] = message[blockDim.x - 1 - threadIdx.x];
    }
}
""",
    data=lambda rng: {"message": Blank(48, i32), "flag": np.zeros(1, i32), "out": Blank((2, 48), i32)},
    launch=Launch("pass_on", 3, 48, "message flag out"),
    expect=lambda d: (lambda m: {"message": m, "flag": i32([1]), "out": np.tile(m[::-1], (2, 1))})(
        (10 * np.arange(48) + 7).astype(i32)
    ),
    headers=LIBCUDA,
    features="atomic_ref polling",
)

kernel(
    "atomic_ref_fetch_operations",
    "The standard's atomics: fetch_max, fetch_add with relaxed order, compare_exchange in a loop; "
    "block scope for shared memory.",
    r"""
extern "C" __global__ void statistics(const int* in, int* highest, long long* sum, unsigned* digest, int n) {
    __shared__ int in_block;
    if (threadIdx.x == 0) in_block = 0;
    __syncthreads();
    cuda::atomic_ref<int, cuda::thread_scope_block> local(in_block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {  // guard
        cuda::atomic_ref<int, cuda::thread_scope_device>(*highest).fetch_max(in[i], cuda::memory_order_relaxed);
        local.fetch_add(in[i], cuda::memory_order_relaxed);
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> d(*digest);
        unsigned seen = d.load(cuda::memory_order_relaxed);
        while (!d.compare_exchange_weak(seen, seen ^ (in[i] * 2654435761u), cuda::memory_order_relaxed)) { }
    }
    __syncthreads();
    if (threadIdx.x == 0)
        cuda::atomic_ref<long long, cuda::thread_scope_device>(*sum).fetch_add(in_block, cuda::memory_order_relaxed);
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 10**6, 200, dtype=i32),
        "highest": np.zeros(1, i32),
        "sum": np.zeros(1, np.int64),
        "digest": np.zeros(1, u32),
        "n": i32(200),
    },
    launch=Launch("statistics", 3, 96, "in highest sum digest n"),
    expect=lambda d: {
        "highest": d["in"].max(keepdims=True),
        "sum": d["in"].sum(keepdims=True, dtype=np.int64),
        "digest": np.bitwise_xor.reduce(d["in"].astype(u32) * u32(2654435761), keepdims=True),
    },
    headers=LIBCUDA,
    features="atomic_ref shared",
)

kernel(
    "cuda_barrier_arrive_wait",
    "A barrier object: threads arrive, do other work, and wait only where they need the others.",
    r"""
extern "C" __global__ void neighbours_later(const float* in, float* out, int n) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ float tile[96];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = (i < n) ? in[i] : 0;  // guard
    auto token = bar.arrive();
    float own = (i < n) ? 2 * in[i] : 0;  // guard
    bar.wait(static_cast<decltype(token)&&>(token));
    float left = tile[(threadIdx.x + 95) % 96], right = tile[(threadIdx.x + 1) % 96];
    bar.arrive_and_wait();
    tile[threadIdx.x] = own - left - right;
    bar.arrive_and_wait();
    if (i < n) out[i] = tile[95 - threadIdx.x];  // guard
}
""",
    data=lambda rng: {"in": whole(rng, -99, 99, 250), "out": Blank(250, f32), "n": i32(250)},
    launch=Launch("neighbours_later", 3, 96, "in out n"),
    expect=lambda d: (lambda t: {"out": (2 * t - np.roll(t, 1, 1) - np.roll(t, -1, 1))[:, ::-1].ravel()[:250]})(
        np.pad(d["in"], (0, 38)).reshape(3, 96)
    ),
    headers=LIBCUDA,
    features="cuda_barrier shared",
)

kernel(
    "producer_consumer_barriers",
    "One warp fetches while the others compute: pairs of barriers hand two buffers to and fro.",
    r"""
extern "C" __global__ void hand_over(const int* in, int* sums, int batches) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ barrier filled[2], empty[2];
    __shared__ int buffer[2][64];
    if (threadIdx.x < 4) init(threadIdx.x < 2 ? &filled[threadIdx.x] : &empty[threadIdx.x - 2], blockDim.x);
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int b = 0; b < batches; b++) {
            if (b >= 2) empty[b % 2].arrive_and_wait();
            for (int k = threadIdx.x; k < 64; k += 32) buffer[b % 2][k] = in[b * 64 + k];
            barrier::arrival_token token = filled[b % 2].arrive();
        }
    } else {
        int t = threadIdx.x - 32, sum = 0;
        for (int b = 0; b < batches; b++) {
            filled[b % 2].arrive_and_wait();
            sum += buffer[b % 2][t];
            if (b + 2 < batches) barrier::arrival_token token = empty[b % 2].arrive();
        }
        sums[t] = sum;
    }
}
""",
    data=lambda rng: {"in": rng.integers(-999, 999, (7, 64), dtype=i32), "sums": Blank(64, i32), "batches": i32(7)},
    launch=Launch("hand_over", 1, 96, "in sums batches"),
    expect=lambda d: {"sums": d["in"].sum(0, dtype=i32)},
    headers=LIBCUDA,
    features="cuda_barrier shared warp_specialisation",
)

kernel(
    "memcpy_async_group",
    "cg::memcpy_async fills a tile without registers; cg::wait makes it visible to the block.",
    r"""
namespace cg = cooperative_groups;
extern "C" __global__ void staged_scale(const float* in, float* out, float factor, int n) {
    extern __shared__ float tile[];
    auto block = cg::this_thread_block();
    int start = blockIdx.x * blockDim.x, count = min((int)blockDim.x, n - start);
    cg::memcpy_async(block, tile, in + start, sizeof(float) * count);
    cg::wait(block);
    int t = threadIdx.x;
    if (t < count) out[start + t] = factor * tile[count - 1 - t];  // guard
}
""",
    data=lambda rng: {"in": whole(rng, -99, 99, 300), "out": Blank(300, f32), "factor": f32(0.5), "n": i32(300)},
    launch=Launch("staged_scale", 3, 128, "in out factor n", shared=512),
    expect=lambda d: {"out": np.concatenate([d["in"][k : k + 128][::-1] for k in range(0, 300, 128)]) / 2},
    headers=LIBCUDA,
    features="cooperative_groups memcpy_async dynamic_shared",
)

kernel(
    "pipeline_double_buffer",
    "cuda::pipeline with two stages: the next tile is on its way while this one is used.",
    r"""
extern "C" __global__ void piped_sums(const int* in, int* out, int tiles) {
    constexpr int STAGES = 2;
    __shared__ int buffer[STAGES][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    auto block = cooperative_groups::this_thread_block();
    auto pipeline = cuda::make_pipeline(block, &state);
    const int* from = in + blockIdx.x * tiles * 64;
    int sum = 0;
    for (int tile = 0, fetch = 0; tile < tiles; tile++) {
        for (; fetch < tiles && fetch < tile + STAGES; fetch++) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, buffer[fetch % STAGES], from + fetch * 64, sizeof(int) * 64, pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        sum += buffer[tile % STAGES][63 - threadIdx.x] * (tile + 1);
        pipeline.consumer_release();
    }
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
""",
    data=lambda rng: {
        "in": rng.integers(-999, 999, (3, 5, 64), dtype=i32),
        "out": Blank((3, 64), i32),
        "tiles": i32(5),
    },
    launch=Launch("piped_sums", 3, 64, "in out tiles"),
    expect=lambda d: {"out": np.einsum("btk,t->bk", d["in"], np.arange(1, 6)).astype(i32)[:, ::-1]},
    headers=LIBCUDA,
    features="cuda_pipeline memcpy_async shared",
)

kernel(
    "thread_pipeline_primitives",
    "cp.async by hand: sixteen bytes a thread, groups that are committed and waited for.",
    r"""
__device__ void copy_16(void* shared, const void* global) {
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(global) : "memory");
}
extern "C" __global__ void three_point(const float4* in, float* out, int groups) {
    __shared__ __align__(16) float tile[2][4 * 32];
    int t = threadIdx.x;
    copy_16(&tile[0][4 * t], in + t);
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int g = 0; g < groups; g++) {
        if (g + 1 < groups) copy_16(&tile[(g + 1) % 2][4 * t], in + (g + 1) * 32 + t);
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        for (int k = t; k < 128; k += 32) {
            const float* line = tile[g % 2];
            out[g * 128 + k] = line[k] + line[(k + 1) % 128] + line[(k + 127) % 128];
        }
        __syncthreads();
    }
}
""",
    data=lambda rng: {"in": whole(rng, -99, 99, 3, 128), "out": Blank((3, 128), f32), "groups": i32(3)},
    launch=Launch("three_point", 1, 32, "in out groups"),
    expect=lambda d: {"out": d["in"] + np.roll(d["in"], -1, 1) + np.roll(d["in"], 1, 1)},
    features="cp_async inline_ptx shared",
)

kernel(
    "named_barriers_pairs",
    "Named barriers: two halves of a block wait only for themselves, then all for all.",
    r"""
__device__ __forceinline__ void meet(int name, int threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(name), "r"(threads) : "memory");
}
extern "C" __global__ void two_teams(const int* in, int* out, int rounds) {
    __shared__ int box[128];
    int t = threadIdx.x, team = t / 64, place = t % 64;
    box[t] = in[blockIdx.x * 128 + t];
    meet(1 + team, 64);
    for (int r = 0; r < rounds + team; r++) {
        int next = box[team * 64 + (place + 1) % 64];
        meet(1 + team, 64);
        box[t] += next;
        meet(1 + team, 64);
    }
    __syncthreads();
    out[blockIdx.x * 128 + t] = box[127 - t];
}
""",
    data=lambda rng: {"in": rng.integers(0, 9, (2, 128), dtype=i32), "out": Blank((2, 128), i32), "rounds": i32(4)},
    launch=Launch("two_teams", 2, 128, "in out rounds"),
    expect=lambda d: {"out": teams(d["in"])},
    features="named_barriers inline_ptx shared",
)


def teams(values):
    halves = [values[:, :64], values[:, 64:]]
    for team in (0, 1):
        for _ in range(4 + team):
            halves[team] = halves[team] + np.roll(halves[team], -1, 1)
    return np.concatenate(halves, 1)[:, ::-1].astype(i32)


kernel(
    "device_malloc_lists",
    "Memory from the device's heap: each thread takes what it needs, uses it, gives it back.",
    r"""
extern "C" __global__ void primes_below(const int* limits, int* counts, long long* sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    int* primes = (int*)malloc(sizeof(int) * (limits[i] / 2 + 2));
    if (primes == nullptr) {
        counts[i] = -1;
        return;
    }
    int count = 0;
    for (int candidate = 2; candidate < limits[i]; candidate++) {
        bool prime = true;
        for (int k = 0; k < count && primes[k] * primes[k] <= candidate; k++) prime &= candidate % primes[k] != 0;
        if (prime) primes[count++] = candidate;
    }
    long long sum = 0;
    for (int k = 0; k < count; k++) sum += primes[k];
    counts[i] = count;
    sums[i] = sum;
    free(primes);
}
""",
    data=lambda rng: {
        "limits": rng.integers(0, 60, 70, dtype=i32),
        "counts": Blank(70, i32),
        "sums": Blank(70, np.int64),
        "n": i32(70),
    },
    launch=Launch("primes_below", 2, 48, "limits counts sums n"),
    expect=lambda d: (
        lambda lists: {"counts": i32([len(p) for p in lists]), "sums": np.array([sum(p) for p in lists], np.int64)}
    )([[p for p in range(2, m) if all(p % k for k in range(2, p))] for m in d["limits"].tolist()]),
    features="device_malloc",
)

kernel(
    "device_new_tree",
    "A binary search tree from new and delete: one thread a tree, walked with a stack of its own.",
    r"""
struct Branch {
    int key;
    Branch* child[2];
    __device__ explicit Branch(int k) : key(k) { child[0] = child[1] = nullptr; }
};
extern "C" __global__ void tree_sort(const int* in, int* out, int trees, int length) {
    int tree = blockIdx.x * blockDim.x + threadIdx.x;
    if (tree >= trees) return;  // guard
    Branch* root = nullptr;
    for (int k = 0; k < length; k++) {
        Branch** at = &root;
        int key = in[tree * length + k];
        while (*at) at = &(*at)->child[key >= (*at)->key];
        *at = new Branch(key);
    }
    Branch* stack[16];
    int depth = 0, written = 0;
    for (Branch* at = root; at || depth;) {
        if (at) {
            stack[depth++] = at;
            at = at->child[0];
        } else {
            Branch* top = stack[--depth];
            out[tree * length + written++] = top->key;
            at = top->child[1];
            delete top;
        }
    }
}
""",
    data=lambda rng: {
        "in": rng.integers(-99, 99, (37, 13), dtype=i32),
        "out": Blank((37, 13), i32),
        "trees": i32(37),
        "length": i32(13),
    },
    launch=Launch("tree_sort", 2, 32, "in out trees length"),
    expect=lambda d: {"out": np.sort(d["in"], axis=1)},
    features="device_malloc structs",
)

kernel(
    "message_passing_fences",
    "Blocks in a chain: each waits for its predecessor's flag; __threadfence orders value before flag.",
    r"""
extern "C" __global__ void chain(const int* in, int* value, volatile int* flag, int length) {
    int b = blockIdx.x;
    if (threadIdx.x != 0) return;
    int sum = 0;
    for (int k = 0; k < length; k++) sum += in[b * length + k];
    if (b > 0) {
        while (flag[b - 1] == 0) { }
        __threadfence();
        sum += value[b - 1];
    }
    value[b] = sum;
    __threadfence();
    flag[b] = 1;
}
""",
    data=lambda rng: {
        "in": rng.integers(-99, 99, (9, 20), dtype=i32),
        "value": Blank(9, i32),
        "flag": np.zeros(9, i32),
        "length": i32(20),
    },
    launch=Launch("chain", 9, 32, "in value flag length"),
    expect=lambda d: {"value": d["in"].sum(1).cumsum().astype(i32), "flag": np.ones(9, i32)},
    features="fences volatile polling",
)

kernel(
    "warp_specialised_mailboxes",
    "Warps of a block talk through a word with a volatile flag: one sends, one receives, no block barrier between.",
    r"""
extern "C" __global__ void mailboxes(const int* in, int* out, int letters) {
    __shared__ int box;
    __shared__ volatile int full;
    if (threadIdx.x == 0) full = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 0; k < letters; k++) {
            while (full) { }
            __threadfence_block();
            box = in[blockIdx.x * letters + k];
            __threadfence_block();
            full = 1;
        }
    } else if (threadIdx.x == 32) {
        int sum = 0;
        for (int k = 0; k < letters; k++) {
            while (!full) { }
            __threadfence_block();
            sum = 3 * sum + box;
            out[blockIdx.x * letters + k] = sum;
            __threadfence_block();
            full = 0;
        }
    }
}
""",
    data=lambda rng: {"in": rng.integers(-9, 9, (3, 12), dtype=i32), "out": Blank((3, 12), i32), "letters": i32(12)},
    launch=Launch("mailboxes", 3, 64, "in out letters"),
    expect=lambda d: {"out": mailed(d["in"])},
    features="fences volatile polling warp_specialisation",
)


def mailed(rows):
    out, sums = np.zeros_like(rows), np.zeros(len(rows), np.int64)
    for k in range(rows.shape[1]):
        sums = 3 * sums + rows[:, k]
        out[:, k] = sums
    return out
