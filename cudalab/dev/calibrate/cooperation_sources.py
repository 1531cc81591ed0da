"""Kernels whose threads wait for each other or for copies: each isolates one kind of wait.

Clusters, asynchronous copies and barrier objects stand in inline PTX, so that no library is needed and every device
runs the same instructions; only the grid's barrier is that of cooperative groups, because the driver prepares it.
"""

GRID = r"""
#include <cooperative_groups.h>
extern "C" __global__ void grid_sync(float *y, int rounds) {
    auto grid = cooperative_groups::this_grid();
    for (int i = 0; i < rounds; i++) grid.sync();
    if (threadIdx.x == 0) y[blockIdx.x] = rounds; }
"""
"""Launched as cooperative."""

CLUSTER_SIZES = (2, 4, 8)
WIDTHS = {4: "float", 16: "float4"}

_CLUSTER = r"""
__global__ void __cluster_dims__({n}, 1, 1) cluster_sync_{n}(float *y, int rounds) {{
    for (int i = 0; i < rounds; i++)
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x == 0) y[blockIdx.x] = rounds; }}
__global__ void __cluster_dims__({n}, 1, 1) cluster_chain_{n}(unsigned *y, int rounds) {{
    __shared__ unsigned t[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) t[k] = (k + 17) % 1024;
    const unsigned *far = neighbour(t, {n}); unsigned at = 0;
    meet();
    for (int i = 0; i < rounds; i++) at = far[at];
    y[blockIdx.x * blockDim.x + threadIdx.x] = at;
    meet(); }}
__global__ void __cluster_dims__({n}, 1, 1) cluster_fetch_{n}(unsigned *y, int rounds) {{
    __shared__ unsigned t[32];
    if (threadIdx.x < 32) t[threadIdx.x] = 0;
    unsigned *far = neighbour(t, {n}), seen = 0;
    meet();
    for (int i = 0; i < rounds; i++) seen = atomicAdd(far + threadIdx.x % 32, seen | 1);
    y[blockIdx.x * blockDim.x + threadIdx.x] = seen;
    meet(); }}
__global__ void __cluster_dims__({n}, 1, 1) cluster_add_{n}(unsigned *y, int rounds) {{
    __shared__ unsigned t[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) t[k] = 0;
    unsigned *far = neighbour(t, {n});
    meet();
    for (int i = 0; i < rounds; i++)
        asm volatile("red.shared::cluster.add.u32 [%0], %1;" :: "r"(place(far + threadIdx.x)), "r"(i) : "memory");
    meet();
    y[blockIdx.x * blockDim.x + threadIdx.x] = t[threadIdx.x % 1024]; }}
"""

_CLUSTER_STREAM = r"""
__global__ void __cluster_dims__({n}, 1, 1) cluster_read{width}_{n}(float *y, int rounds) {{
    __shared__ {type} t[2048];
    for (int k = threadIdx.x; k < 2048; k += blockDim.x) t[k] = {type}();
    const {type} *far = neighbour(t, {n}); float sum = 0;
    meet();
    for (int i = 0; i < rounds; i++) {{
        #pragma unroll
        for (int k = 0; k < 8; k++) sum += whole(far[(threadIdx.x + i * 8 + k * 256) & 2047]); }}
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    meet(); }}
__global__ void __cluster_dims__({n}, 1, 1) cluster_write{width}_{n}(float *y, int rounds) {{
    __shared__ {type} t[2048];
    {type} *far = neighbour(t, {n}); {type} value = {{}};
    meet();
    for (int i = 0; i < rounds; i++) {{
        #pragma unroll
        for (int k = 0; k < 8; k++) far[(threadIdx.x + i * 8 + k * 256) & 2047] = value;
        first(value) += 1; }}
    meet();
    y[blockIdx.x * blockDim.x + threadIdx.x] = whole(t[threadIdx.x]); }}
"""

_ASYNC = r"""
__global__ void async_chain{width}(const char *x, float *y, int rounds, int step, int mask) {{
    __shared__ alignas(16) char t[16]; int at = 0;
    for (int i = 0; i < rounds; i++) {{
        asm volatile("cp.async.{cache}.shared.global [%0], [%1], {width};" :: "r"(place(t)), "l"(x + at) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        at = (at + step) & mask; }}
    y[0] = *(float *)t; }}
__global__ void async_read{width}(const char *x, float *y, int rounds) {{
    __shared__ alignas(16) char t[8 * 256 * {width}];
    const char *mine = x + blockIdx.x * (long long)rounds * sizeof(t) + threadIdx.x * {width}; float sum = 0;
    for (int i = 0; i < rounds; i++) {{
        #pragma unroll
        for (int k = 0; k < 8; k++)
            asm volatile("cp.async.{cache}.shared.global [%0], [%1], {width};"
                :: "r"(place(t + (k * 256 + threadIdx.x) * {width})), "l"(mine + k * 256 * {width}) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        sum += *(float *)(t + (threadIdx.x ^ 32) * {width});
        __syncthreads();
        mine += sizeof(t); }}
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum; }}
"""

_REST = r"""
__global__ void bulk_chain(const char *x, float *y, int rounds, int bytes, int mask) {
    __shared__ alignas(128) char t[32768]; __shared__ alignas(8) unsigned long long full; int at = 0;
    begin(&full, 1);
    for (int i = 0; i < rounds; i++) {
        bulk_load(t, x + at, bytes, &full);
        await(&full, i & 1);
        at = (at + bytes) & mask; }
    y[0] = *(float *)t; }
__global__ void bulk_read(const char *x, float *y, int rounds, int bytes, int stages) {  // one thread, copies in flight
    extern __shared__ __align__(128) char t[]; __shared__ alignas(8) unsigned long long full[8];
    const char *mine = x + blockIdx.x * (long long)rounds * bytes;
    for (int s = 0; s < stages; s++) begin(full + s, 1);
    for (int s = 0; s < stages; s++) bulk_load(t + s * bytes, mine + s * bytes, bytes, full + s);
    int stage = 0, phase = 0;
    for (int i = 0; i < rounds; i++) {
        await(full + stage, phase);
        if (i + stages < rounds)
            bulk_load(t + stage * bytes, mine + (i + stages) * (long long)bytes, bytes, full + stage);
        if (++stage == stages) { stage = 0; phase ^= 1; } }
    y[blockIdx.x] = *(float *)t; }
__global__ void bulk_write(char *x, int rounds, int bytes) {  // all copies of a block may be on their way
    extern __shared__ __align__(128) char t[];
    *(float *)t = rounds;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    char *mine = x + blockIdx.x * (long long)rounds * bytes;
    for (int i = 0; i < rounds; i++) {
        bulk_store(mine + i * (long long)bytes, t, bytes);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__global__ void bulk_write_chain(char *x, int rounds, int bytes, int mask) {  // each waits for the one before
    extern __shared__ __align__(128) char t[]; int at = 0;
    *(float *)t = rounds;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int i = 0; i < rounds; i++) {
        bulk_store(x + at, t, bytes);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        at = (at + bytes) & mask; } }
__global__ void barrier_object(float *y, int rounds) {  // what cuda::barrier does, arrive and wait
    __shared__ alignas(8) unsigned long long all;
    if (threadIdx.x == 0) begin(&all, blockDim.x);
    __syncthreads();
    for (int i = 0; i < rounds; i++) {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(place(&all)) : "memory");
        await(&all, i & 1); }
    y[blockIdx.x * blockDim.x + threadIdx.x] = rounds; }
__global__ void barrier_object_alone(float *y, int rounds) {  // one thread: arrival and wait, one behind the other
    __shared__ alignas(8) unsigned long long mine[32];
    begin(mine + threadIdx.x, 1);
    for (int i = 0; i < rounds; i++) {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(place(mine + threadIdx.x)) : "memory");
        await(mine + threadIdx.x, i & 1); }
    y[threadIdx.x] = rounds; }
__global__ void named_barrier(float *y, int rounds, int part) {
    int id = 1 + threadIdx.x / part;
    for (int i = 0; i < rounds; i++) asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(part) : "memory");
    y[blockIdx.x * blockDim.x + threadIdx.x] = rounds; }
__global__ void handover(float *y, int rounds) {  // two warps: one arrives where the other waits, and back
    for (int i = 0; i < rounds; i++) {
        if (threadIdx.x < 32) asm volatile("bar.arrive 1, 64;" ::: "memory");
        else asm volatile("bar.sync 1, 64;" ::: "memory");
        if (threadIdx.x < 32) asm volatile("bar.sync 2, 64;" ::: "memory");
        else asm volatile("bar.arrive 2, 64;" ::: "memory"); }
    y[threadIdx.x] = rounds; }
__global__ void block_barrier(float *y, int rounds) {
    for (int i = 0; i < rounds; i++) asm volatile("bar.sync 0;" ::: "memory");
    y[blockIdx.x * blockDim.x + threadIdx.x] = rounds; }
__global__ void sleep_for(float *y, int rounds, unsigned ns) {
    for (int i = 0; i < rounds; i++) asm volatile("nanosleep.u32 %0;" :: "r"(ns) : "memory");
    y[threadIdx.x] = rounds; }
__global__ void heap(int *y, int rounds, int bytes) {
    int sum = 0;
    for (int i = 0; i < rounds; i++) {
        int *p = (int *)malloc(bytes);
        if (p) { *(volatile int *)p = i; sum += *(volatile int *)p; }
        free(p); }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum; }
"""

_SHARED = r"""
__device__ __forceinline__ unsigned place(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
template <class T> __device__ __forceinline__ T *neighbour(T *p, int n) {  // the same place in the next block's memory
    unsigned rank; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    T *far; asm("mapa.u64 %0, %1, %2;" : "=l"(far) : "l"(p), "r"((rank + 1) % n));
    return far; }
__device__ __forceinline__ float whole(float v) { return v; }
__device__ __forceinline__ float whole(float4 v) { return v.x + v.y + v.z + v.w; }
__device__ __forceinline__ float &first(float &v) { return v; }
__device__ __forceinline__ float &first(float4 &v) { return v.x; }
__device__ __forceinline__ void meet() {
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ __forceinline__ void begin(unsigned long long *barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(place(barrier)), "r"(count) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void await(unsigned long long *barrier, unsigned parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(done) : "r"(place(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void bulk_load(void *to, const void *from, unsigned bytes, unsigned long long *barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
        :: "r"(place(barrier)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :: "r"(place(to)), "l"(from), "r"(bytes), "r"(place(barrier)) : "memory"); }
__device__ __forceinline__ void bulk_store(void *to, const void *from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
        :: "l"(to), "r"(place(from)), "r"(bytes) : "memory"); }
"""


def source() -> str:
    """All kernels but the grid's barrier, as one module of CUDA C++."""
    parts = [_SHARED, 'extern "C" {']
    for size in CLUSTER_SIZES:
        parts.append(_CLUSTER.format(n=size))
        parts += [_CLUSTER_STREAM.format(n=size, width=width, type=WIDTHS[width]) for width in (4, 16)]
    parts += [_ASYNC.format(width=width, cache="cg" if width == 16 else "ca") for width in (4, 8, 16)]
    return "\n".join([*parts, _REST, "}\n"])
