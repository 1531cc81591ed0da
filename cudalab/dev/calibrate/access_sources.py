"""Kernels whose accesses caches merge, share or repeat: rows of a few words for each lane, tiles narrower than a line,
neighbours of each element, columns, gathers; and counters in shared memory and products beside them.
"""

_ROW = """
__global__ void row_write{0}(float *y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {{
#pragma unroll
        for (int k = 0; k < {0}; k++) y[i * {0} + k] = k + 1.f; }} }}
__global__ void row_copy{0}(const float *x, float *y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {{
#pragma unroll
        for (int k = 0; k < {0}; k++) y[i * {0} + k] = x[i * {0} + k] + 1.f; }} }}
"""
ROWS = (2, 3, 4, 5, 8, 16)

_HALO = """
__global__ void halo_sum{0}(const float *x, float *y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x; float sum = 0;
    if (i >= n) return;
#pragma unroll
    for (int k = 0; k <= 2 * {0}; k++) sum += x[i + k];
    y[i] = sum; }}
"""
HALOS = (8, 16)

_REST = r"""
__global__ void row_write_loop(float *y, int n, int words) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) for (int k = 0; k < words; k++) y[i * words + k] = k; }
__global__ void tile_copy(const float *x, float *y, int n, int width, int height) {
    // blocks of width x height threads, beside one another first
    int wide = n / width, r = threadIdx.x / width, c = threadIdx.x % width;
    int i = (blockIdx.x / wide * height + r) * n + blockIdx.x % wide * width + c;
    y[i] = x[i] + 1.f; }
__global__ void tile_copy_down(const float *x, float *y, int n, int width, int height) {
    // below one another first
    int high = n / height, r = threadIdx.x / width, c = threadIdx.x % width;
    int i = (blockIdx.x % high * height + r) * n + blockIdx.x / high * width + c;
    y[i] = x[i] + 1.f; }
__global__ void tile_write(float *y, int n, int width, int height) {
    int wide = n / width, r = threadIdx.x / width, c = threadIdx.x % width;
    y[(blockIdx.x / wide * height + r) * n + blockIdx.x % wide * width + c] = 1.f; }
__global__ void fading(const float *x, float *y, int columns, int rows, int pitch) {
    // a column for each thread, one row after the other, so many words apart
    int c = blockIdx.x * blockDim.x + threadIdx.x; float v = 0;
    if (c < columns) for (int r = 0; r < rows; r++) { v = v * 0.75f + x[r * pitch + c]; y[r * pitch + c] = v; } }
__global__ void search(const int *x, int *y, int n, int step, int count) {  // x[k] is 0: each goes to the right
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= count) return;
    int wanted = (int)((long long)i * step % n), low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2; if (x[middle] + middle < wanted) low = middle + 1; else high = middle; }
    y[i] = low; }
__global__ void shared_count(unsigned *y, int rounds, int spread) {
    __shared__ unsigned t[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) t[k] = 0;
    __syncthreads();
    for (int i = 0; i < rounds; i++) atomicAdd(&t[(threadIdx.x + i) % spread], 1u);
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = t[threadIdx.x & 1023]; }
__global__ void shared_sum(unsigned *y, int rounds, int mask, unsigned value) {
    __shared__ unsigned t[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) t[k] = 0;
    __syncthreads();
    for (int i = 0; i < rounds; i++) atomicAdd(&t[(threadIdx.x + i) & mask], value);
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = t[threadIdx.x & 1023]; }
__global__ void shared_hashed(unsigned *y, int rounds, int mask) {
    __shared__ unsigned t[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) t[k] = 0;
    __syncthreads();
    unsigned h = threadIdx.x * 2654435761u + blockIdx.x;
    for (int i = 0; i < rounds; i++) { atomicAdd(&t[(h >> 8) & mask], 1u); h = h * 1664525u + 1013904223u; }
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = t[threadIdx.x & 1023]; }
__global__ void shared_taken(unsigned *y, int rounds, int mask) {  // what was there is wanted
    __shared__ unsigned t[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) t[k] = 0;
    __syncthreads();
    unsigned v = 0;
    for (int i = 0; i < rounds; i++) v += atomicAdd(&t[(threadIdx.x + i) & mask], 1u);
    y[blockIdx.x * blockDim.x + threadIdx.x] = v; }
__global__ void shared_most(unsigned *y, int rounds, int mask) {
    __shared__ unsigned t[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) t[k] = 0;
    __syncthreads();
    for (int i = 0; i < rounds; i++) atomicMax(&t[(threadIdx.x + i) & mask], threadIdx.x * 40503u + i & 65535u);
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = t[threadIdx.x & 1023]; }
__global__ void high_product(unsigned *y, int rounds, unsigned p) {
    unsigned x = threadIdx.x + 3;
    for (int i = 0; i < rounds; i++) {
#pragma unroll
        for (int k = 0; k < 16; k++) asm volatile("mul.hi.u32 %0, %0, %1;" : "+r"(x) : "r"(p)); }
    y[blockIdx.x * blockDim.x + threadIdx.x] = x; }
__global__ void across(const float *x, float *y, int rounds, int stride, int window) {
    // loads that hit the L1, `stride` words between lanes
    float sum = 0; int j = threadIdx.x * stride & window - 1;
    for (int i = 0; i < rounds; i++) {
#pragma unroll
        for (int q = 0; q < 8; q++) sum += x[j + q * 32 & window - 1];
        j = j + 64 & window - 1; }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum; }
__global__ void beyond(const float *x, float *y, int rounds, int offset, int step) {
    // loads that hit the L1 at distances the compiler knows, `offset` words behind a line
    const float *p = x + (threadIdx.x & 31) + offset; float sum = 0;
    for (int i = 0; i < rounds; i++) {
#pragma unroll
        for (int q = 0; q < 32; q++) sum += p[q * 32];
        p += step; }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum; }
__global__ void hashed_gather(const float *x, float *y, int n, unsigned mask) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[(i * 2654435761u >> 3 ^ i * 40503u) & mask] + 1.f; }
__global__ void hashed_scatter(const float *x, float *y, int n, unsigned mask) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[(i * 2654435761u >> 3 ^ i * 40503u) & mask] = x[i] + 1.f; }
"""


def source() -> str:
    """All of them, as one module of CUDA C++."""
    rows, halos = "".join(map(_ROW.format, ROWS)), "".join(map(_HALO.format, HALOS))
    return 'extern "C" {\n' + rows + halos + _REST + "}\n"
