extern "C" {
__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
__global__ void strided(const float *x, float *y, int n, int stride) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i * stride];
}
__global__ void strided_store(const float *x, float *y, int n, int stride) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i * stride] = x[i];
}
__global__ void offset_copy(const float *x, float *y, int n, int offset) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i + offset];
}
__global__ void copy1(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
__global__ void copy2(const float2 *x, float2 *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
__global__ void copy4(const float4 *x, float4 *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
__global__ void read4(const float4 *x, float *y, int n) {
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = x[i];
        sum += v.x + v.y + v.z + v.w;
    }
    if (sum == 12345.0f) y[0] = sum;
}
__global__ void grid_stride(const float *x, float *y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2.0f * x[i];
}
struct Particle { float x, y, z, w; };
__global__ void aos_one(const Particle *p, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = p[i].x * 2.0f;
}
__global__ void soa_one(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * 2.0f;
}
__global__ void aos_all(const Particle *p, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = p[i].x + p[i].y * p[i].z + p[i].w;
}
__global__ void soa_all(const float *x, const float *y, const float *z, const float *w, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i] * z[i] + w[i];
}
__global__ void gather(const float *x, const int *index, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[index[i]];
}
__global__ void scatter(const float *x, const int *index, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[index[i]] = x[i];
}
__global__ void chase(const int *x, int *out, int steps, int stride, int mask) {
    int j = 0;
    for (int i = 0; i < steps; i++) j = (j + x[j] + stride) & mask;  // x holds zeros, but each load must be waited for
    *out = j;
}
__global__ void stencil_global(const float *x, float *y, int n, int radius) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < radius || i >= n - radius) return;
    float sum = 0;
    for (int k = -radius; k <= radius; k++) sum += x[i + k];
    y[i] = sum;
}
__global__ void stencil_shared(const float *x, float *y, int n, int radius) {
    extern __shared__ float t[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = threadIdx.x; k < blockDim.x + 2 * radius; k += blockDim.x) {
        int from = (int)(blockIdx.x * blockDim.x) - radius + k;
        t[k] = from >= 0 && from < n ? x[from] : 0.0f;
    }
    __syncthreads();
    if (i < radius || i >= n - radius) return;
    float sum = 0;
    for (int k = 0; k <= 2 * radius; k++) sum += t[threadIdx.x + k];
    y[i] = sum;
}
__global__ void heat(const float *x, float *y, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || j < 1 || i >= width - 1 || j >= height - 1) return;
    const float *p = x + (size_t)j * width + i;
    y[(size_t)j * width + i] = 0.5f * p[0] + 0.125f * (p[-1] + p[1] + p[-width] + p[width]);
}
__global__ void heat_shared(const float *x, float *y, int width, int height) {
    __shared__ float t[34][34];
    int i = blockIdx.x * 32 + threadIdx.x, j0 = blockIdx.y * 32;
    for (int r = threadIdx.y; r < 34; r += blockDim.y)
        for (int c = threadIdx.x; c < 34; c += 32) {
            int gi = min(max((int)(blockIdx.x * 32) + c - 1, 0), width - 1), gj = min(max(j0 + r - 1, 0), height - 1);
            t[r][c] = x[(size_t)gj * width + gi];
        }
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += blockDim.y) {
        int j = j0 + r;
        if (i < width && j < height)
            y[(size_t)j * width + i] = 0.5f * t[r + 1][threadIdx.x + 1] +
                0.125f * (t[r + 1][threadIdx.x] + t[r + 1][threadIdx.x + 2] + t[r][threadIdx.x + 1] + t[r + 2][threadIdx.x + 1]);
    }
}
__global__ void transpose_copy(const float *x, float *y, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    for (int r = threadIdx.y; r < 32; r += blockDim.y) { int j = blockIdx.y * 32 + r; y[j * n + i] = x[j * n + i]; }
}
__global__ void transpose_naive(const float *x, float *y, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    for (int r = threadIdx.y; r < 32; r += blockDim.y) { int j = blockIdx.y * 32 + r; y[i * n + j] = x[j * n + i]; }
}
__global__ void transpose_reads(const float *x, float *y, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    for (int r = threadIdx.y; r < 32; r += blockDim.y) { int j = blockIdx.y * 32 + r; y[j * n + i] = x[i * n + j]; }
}
__global__ void transpose_tiled(const float *x, float *y, int n) {
    __shared__ float t[32][32];
    int i = blockIdx.x * 32 + threadIdx.x, j0 = blockIdx.y * 32;
    for (int r = threadIdx.y; r < 32; r += blockDim.y) t[r][threadIdx.x] = x[(j0 + r) * n + i];
    __syncthreads();
    int k = blockIdx.y * 32 + threadIdx.x, l0 = blockIdx.x * 32;
    for (int r = threadIdx.y; r < 32; r += blockDim.y) y[(l0 + r) * n + k] = t[threadIdx.x][r];
}
__global__ void transpose_padded(const float *x, float *y, int n) {
    __shared__ float t[32][33];
    int i = blockIdx.x * 32 + threadIdx.x, j0 = blockIdx.y * 32;
    for (int r = threadIdx.y; r < 32; r += blockDim.y) t[r][threadIdx.x] = x[(j0 + r) * n + i];
    __syncthreads();
    int k = blockIdx.y * 32 + threadIdx.x, l0 = blockIdx.x * 32;
    for (int r = threadIdx.y; r < 32; r += blockDim.y) y[(l0 + r) * n + k] = t[threadIdx.x][r];
}
__constant__ float table_c[4096];
__device__ float table_g[4096];
__global__ void lookup_constant(const int *index, float *y, int n, int spread) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 64; k++) sum += table_c[(k * 7 + (threadIdx.x & 31) % spread) & 4095];
    if (i < n) y[i] = sum;
}
__global__ void lookup_global(const int *index, float *y, int n, int spread) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 64; k++) sum += table_g[(k * 7 + (threadIdx.x & 31) % spread) & 4095];
    if (i < n) y[i] = sum;
}
__global__ void row_sums(const float *x, float *y, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int c = 0; c < columns; c++) sum += x[(size_t)row * columns + c];
    y[row] = sum;
}
__global__ void column_sums(const float *x, float *y, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    float sum = 0;
    for (int r = 0; r < rows; r++) sum += x[(size_t)r * columns + column];
    y[column] = sum;
}
__global__ void row_sums_warp(const float *x, float *y, int rows, int columns) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    float sum = 0;
    for (int c = lane; c < columns; c += 32) sum += x[(size_t)row * columns + c];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (lane == 0) y[row] = sum;
}
}
