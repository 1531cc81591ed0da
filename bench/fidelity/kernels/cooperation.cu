// Kernels in which threads wait for others of their block or cluster, and for copies under way.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline_primitives.h>
namespace cg = cooperative_groups;
using block_barrier = cuda::barrier<cuda::thread_scope_block>;

extern "C" {
__global__ void diffuse_step(const float *a, float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float left = a[i > 0 ? i - 1 : 0], right = a[i < n - 1 ? i + 1 : i];
    b[i] = 0.5f * a[i] + 0.25f * (left + right);
}

#define OF_CLUSTER(N) \
__global__ void __cluster_dims__(N, 1, 1) ring_##N(float *y, int steps) {  /* cells on a ring of blocks */ \
    __shared__ float cells[2][256]; \
    auto cluster = cg::this_cluster(); \
    int t = threadIdx.x, next = (cluster.block_rank() + 1) % N; \
    cells[0][t] = t; \
    cluster.sync(); \
    for (int s = 0; s < steps; s++) { \
        float *from = cells[s & 1], *to = cells[~s & 1]; \
        float right = t < 255 ? from[t + 1] : cluster.map_shared_rank(from, next)[0]; \
        to[t] = 0.5f * (from[t] + right); \
        cluster.sync(); \
    } \
    y[blockIdx.x * 256 + t] = cells[steps & 1][t]; \
} \
__global__ void __cluster_dims__(N, 1, 1) histogram_##N(const int *x, int *bins, int n) {  /* N parts of 4096 bins */ \
    __shared__ int part[4096 / N]; \
    auto cluster = cg::this_cluster(); \
    for (int k = threadIdx.x; k < 4096 / N; k += blockDim.x) part[k] = 0; \
    cluster.sync(); \
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) { \
        int bin = x[i]; \
        atomicAdd(cluster.map_shared_rank(part, bin / (4096 / N)) + bin % (4096 / N), 1); \
    } \
    cluster.sync(); \
    for (int k = threadIdx.x; k < 4096 / N; k += blockDim.x) \
        atomicAdd(bins + cluster.block_rank() * (4096 / N) + k, part[k]); \
} \
__global__ void __cluster_dims__(N, 1, 1) gather_##N(float4 *y, int rounds) {  /* all read all tiles of the cluster */ \
    __shared__ float4 tile[1024]; \
    auto cluster = cg::this_cluster(); \
    float4 sum = make_float4(0, 0, 0, 0); \
    for (int r = 0; r < rounds; r++) { \
        for (int k = threadIdx.x; k < 1024; k += blockDim.x) tile[k] = make_float4(k, r, k, r); \
        cluster.sync(); \
        for (int b = 0; b < N; b++) { \
            const float4 *other = cluster.map_shared_rank(tile, b); \
            for (int k = threadIdx.x; k < 1024; k += blockDim.x) { \
                float4 v = other[k]; sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w; \
            } \
        } \
        cluster.sync(); \
    } \
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum; \
}
OF_CLUSTER(2)
OF_CLUSTER(4)
OF_CLUSTER(8)
__global__ void histogram_1(const int *x, int *bins, int n) {
    __shared__ int part[4096];
    for (int k = threadIdx.x; k < 4096; k += blockDim.x) part[k] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(part + x[i], 1);
    __syncthreads();
    for (int k = threadIdx.x; k < 4096; k += blockDim.x) atomicAdd(bins + k, part[k]);
}

// Tiles of 256 float4, worked on in shared memory: how do they get there?
__device__ float4 work(const float4 *tile) {
    float4 mine = tile[threadIdx.x], other = tile[threadIdx.x ^ 37];
    return make_float4(mine.x + other.w, mine.y + other.z, mine.z + other.y, mine.w + other.x);
}
__global__ void tiles_registers(const float4 *x, float4 *y, int tiles) {
    __shared__ float4 tile[256];
    for (int k = blockIdx.x; k < tiles; k += gridDim.x) {
        tile[threadIdx.x] = x[k * 256 + threadIdx.x];
        __syncthreads();
        y[k * 256 + threadIdx.x] = work(tile);
        __syncthreads();
    }
}
__global__ void tiles_async(const float4 *x, float4 *y, int tiles) {
    __shared__ float4 tile[256];
    for (int k = blockIdx.x; k < tiles; k += gridDim.x) {
        __pipeline_memcpy_async(tile + threadIdx.x, x + k * 256 + threadIdx.x, 16);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        y[k * 256 + threadIdx.x] = work(tile);
        __syncthreads();
    }
}
#define PIPELINE(STAGES) \
__global__ void tiles_pipeline_##STAGES(const float4 *x, float4 *y, int tiles) { \
    __shared__ float4 tile[STAGES][256]; \
    auto pipe = cuda::make_pipeline(); \
    int ahead = blockIdx.x; \
    for (int s = 0; s < STAGES - 1; s++, ahead += gridDim.x) { \
        pipe.producer_acquire(); \
        if (ahead < tiles) \
            cuda::memcpy_async(&tile[s][threadIdx.x], x + ahead * 256 + threadIdx.x, cuda::aligned_size_t<16>(16), pipe); \
        pipe.producer_commit(); \
    } \
    int stage = 0; \
    for (int k = blockIdx.x; k < tiles; k += gridDim.x, ahead += gridDim.x, stage = (stage + 1) % STAGES) { \
        pipe.producer_acquire(); \
        if (ahead < tiles) \
            cuda::memcpy_async(&tile[(stage + STAGES - 1) % STAGES][threadIdx.x], x + ahead * 256 + threadIdx.x, \
                cuda::aligned_size_t<16>(16), pipe); \
        pipe.producer_commit(); \
        cuda::pipeline_consumer_wait_prior<STAGES - 1>(pipe); \
        __syncthreads(); \
        y[k * 256 + threadIdx.x] = work(tile[stage]); \
        __syncthreads(); \
        pipe.consumer_release(); \
    } \
}
PIPELINE(2)
PIPELINE(4)
#define BULK(STAGES) \
__global__ void tiles_bulk_##STAGES(const float4 *x, float4 *y, int tiles) { \
    __shared__ alignas(128) float4 tile[STAGES][256]; \
    __shared__ block_barrier full[STAGES]; \
    if (threadIdx.x < STAGES) init(full + threadIdx.x, 1); \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); \
    __syncthreads(); \
    auto fetch = [&](int k, int s) { \
        if (threadIdx.x == 0 && k < tiles) { \
            auto *bar = cuda::device::barrier_native_handle(full[s]); \
            unsigned place = (unsigned)__cvta_generic_to_shared(bar); \
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" :: "r"(place) : "memory"); \
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, [%2];" \
                :: "r"((unsigned)__cvta_generic_to_shared(tile[s])), "l"(x + k * 256), "r"(place) : "memory"); \
        } \
    }; \
    for (int s = 0; s < STAGES; s++) fetch(blockIdx.x + s * gridDim.x, s); \
    int stage = 0, phase = 0; \
    for (int k = blockIdx.x; k < tiles; k += gridDim.x) { \
        full[stage].wait_parity(phase); \
        y[k * 256 + threadIdx.x] = work(tile[stage]); \
        __syncthreads(); \
        fetch(k + STAGES * gridDim.x, stage); \
        if (++stage == STAGES) { stage = 0; phase ^= 1; } \
    } \
}
BULK(1)
BULK(2)
BULK(4)

// The same bytes in pieces of different size.
#define PIECES(TYPE, NAME) \
__global__ void pieces_##NAME(const TYPE *x, float *y, int rounds) { \
    __shared__ TYPE tile[4][256]; float sum = 0; \
    const TYPE *mine = x + blockIdx.x * (long long)rounds * 1024 + threadIdx.x; \
    for (int r = 0; r < rounds; r++, mine += 1024) { \
        for (int k = 0; k < 4; k++) __pipeline_memcpy_async(&tile[k][threadIdx.x], mine + k * 256, sizeof(TYPE)); \
        __pipeline_commit(); \
        __pipeline_wait_prior(0); \
        __syncthreads(); \
        sum += *(const float *)&tile[r & 3][threadIdx.x ^ 33]; \
        __syncthreads(); \
    } \
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum; \
}
PIECES(float, 4)
PIECES(float2, 8)
PIECES(float4, 16)

__global__ void matmul_tiles(const float *a, const float *b, float *c, int n) {
    __shared__ float as[16][16], bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx; float sum = 0;
    for (int k = 0; k < n; k += 16) {
        as[ty][tx] = a[row * n + k + tx];
        bs[ty][tx] = b[(k + ty) * n + col];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += as[ty][i] * bs[i][tx];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
__global__ void matmul_async(const float *a, const float *b, float *c, int n) {  // the next tiles while it computes
    __shared__ float as[2][16][16], bs[2][16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx; float sum = 0;
    auto fetch = [&](int k, int s) {
        if (k < n) {
            __pipeline_memcpy_async(&as[s][ty][tx], a + row * n + k + tx, 4);
            __pipeline_memcpy_async(&bs[s][ty][tx], b + (k + ty) * n + col, 4);
        }
        __pipeline_commit();
    };
    fetch(0, 0);
    for (int k = 0, s = 0; k < n; k += 16, s ^= 1) {
        fetch(k + 16, s ^ 1);
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += as[s][ty][i] * bs[s][i][tx];
        __syncthreads();
    }
    c[row * n + col] = sum;
}

__global__ void meet_object(float *y, int rounds) {
    __shared__ block_barrier all; __shared__ float x[1024];
    if (threadIdx.x == 0) init(&all, blockDim.x);
    x[threadIdx.x] = threadIdx.x;
    __syncthreads();
    for (int i = 0; i < rounds; i++) {
        float next = x[(threadIdx.x + 1) % blockDim.x];
        all.arrive_and_wait();
        x[threadIdx.x] = next + 1;
        all.arrive_and_wait();
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = x[threadIdx.x];
}
__global__ void meet_block(float *y, int rounds) {
    __shared__ float x[1024];
    x[threadIdx.x] = threadIdx.x;
    __syncthreads();
    for (int i = 0; i < rounds; i++) {
        float next = x[(threadIdx.x + 1) % blockDim.x];
        __syncthreads();
        x[threadIdx.x] = next + 1;
        __syncthreads();
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = x[threadIdx.x];
}
__global__ void meet_parts(float *y, int rounds) {  // halves of a block, each with a barrier of its own
    __shared__ float x[1024];
    x[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int half = blockDim.x / 2, part = threadIdx.x / half, next_one = part * half + (threadIdx.x + 1) % half;
    for (int i = 0; i < rounds; i++) {
        float next = x[next_one];
        asm volatile("bar.sync %0, %1;" :: "r"(part + 1), "r"(half) : "memory");
        x[threadIdx.x] = next + 1;
        asm volatile("bar.sync %0, %1;" :: "r"(part + 1), "r"(half) : "memory");
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = x[threadIdx.x];
}

__global__ void hand_over(float *y, int rounds) {  // warps that make, and warps that use
    __shared__ float tile[2][128];
    int t = threadIdx.x % 128; bool makes = threadIdx.x < 128; float sum = 0;
    for (int i = 0; i < rounds; i++) {
        int s = i & 1;
        if (makes) {
            if (i > 1) asm volatile("bar.sync %0, 256;" :: "r"(3 + s) : "memory");
            tile[s][t] = i + t;
            asm volatile("bar.arrive %0, 256;" :: "r"(1 + s) : "memory");
        } else {
            asm volatile("bar.sync %0, 256;" :: "r"(1 + s) : "memory");
            sum += tile[s][t ^ 5];
            if (i < rounds - 2) asm volatile("bar.arrive %0, 256;" :: "r"(3 + s) : "memory");
        }
    }
    if (!makes) y[blockIdx.x * 128 + t] = sum;
}

__global__ void back_off(float *y, int times) {  // 32, 64, 128 ... nanoseconds
    for (int i = 0, ns = 32; i < times; i++, ns *= 2) __nanosleep(ns);
    y[threadIdx.x] = times;
}
__global__ void lists(int *y, int nodes) {  // a list of nodes from the heap, made and freed
    struct node { int value; node *next; } *head = nullptr; int sum = 0;
    for (int i = 0; i < nodes; i++) {
        node *one = (node *)malloc(sizeof(node));
        if (!one) break;
        one->value = i; one->next = head; head = one;
    }
    while (head) { node *next = head->next; sum += head->value; free(head); head = next; }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
}
