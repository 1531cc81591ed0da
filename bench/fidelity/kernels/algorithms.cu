extern "C" {
__global__ void matmul_naive(const float *a, const float *b, float *c, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}
__global__ void matmul_swapped(const float *a, const float *b, float *c, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}
__global__ void matmul_double(const double *a, const double *b, double *c, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || column >= n) return;
    double sum = 0;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}
}
template <int TILE, int PAD> __device__ void tiled(const float *a, const float *b, float *c, int n) {
    __shared__ float s[TILE][TILE + PAD], t[TILE][TILE + PAD];
    int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    float sum = 0;
    for (int m = 0; m < n; m += TILE) {
        s[threadIdx.y][threadIdx.x] = a[row * n + m + threadIdx.x];
        t[threadIdx.y][threadIdx.x] = b[(m + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += s[threadIdx.y][k] * t[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
// b is stored transposed and its tile is read along rows: without padding that meets the same bank again and again.
template <int PAD> __device__ void tiled_transposed(const float *a, const float *b, float *c, int n) {
    __shared__ float s[32][32 + PAD], t[32][32 + PAD];
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    float sum = 0;
    for (int m = 0; m < n; m += 32) {
        s[threadIdx.y][threadIdx.x] = a[row * n + m + threadIdx.x];
        t[threadIdx.y][threadIdx.x] = b[(blockIdx.x * 32 + threadIdx.y) * n + m + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 32; k++) sum += s[threadIdx.y][k] * t[threadIdx.x][k];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
extern "C" {
__global__ void matmul_tiled8(const float *a, const float *b, float *c, int n) { tiled<8, 0>(a, b, c, n); }
__global__ void matmul_tiled16(const float *a, const float *b, float *c, int n) { tiled<16, 0>(a, b, c, n); }
__global__ void matmul_tiled32(const float *a, const float *b, float *c, int n) { tiled<32, 0>(a, b, c, n); }
__global__ void matmul_conflicts(const float *a, const float *b, float *c, int n) { tiled_transposed<0>(a, b, c, n); }
__global__ void matmul_padded(const float *a, const float *b, float *c, int n) { tiled_transposed<1>(a, b, c, n); }
__global__ void matmul_registers(const float *a, const float *b, float *c, int n) {  // 4 rows a thread, tile 32 x 32
    __shared__ float s[32][32], t[32][32];
    int column = blockIdx.x * 32 + threadIdx.x, row0 = blockIdx.y * 32;
    float sum[4] = {};
    for (int m = 0; m < n; m += 32) {
        for (int r = 0; r < 4; r++) {
            int y = threadIdx.y + 8 * r;
            s[y][threadIdx.x] = a[(row0 + y) * n + m + threadIdx.x];
            t[y][threadIdx.x] = b[(m + y) * n + column];
        }
        __syncthreads();
        for (int k = 0; k < 32; k++) {
            float v = t[k][threadIdx.x];
            for (int r = 0; r < 4; r++) sum[r] += s[threadIdx.y + 8 * r][k] * v;
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; r++) c[(row0 + threadIdx.y + 8 * r) * n + column] = sum[r];
}
__global__ void vector_thread(const float *a, const float *x, float *y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[(size_t)row * n + k] * x[k];
    y[row] = sum;
}
__global__ void vector_warp(const float *a, const float *x, float *y, int n) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    float sum = 0;
    for (int k = lane; k < n; k += 32) sum += a[(size_t)row * n + k] * x[k];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (lane == 0) y[row] = sum;
}
__global__ void vector_block(const float *a, const float *x, float *y, int n) {
    __shared__ float part[8];
    int row = blockIdx.x;
    float sum = 0;
    for (int k = threadIdx.x; k < n; k += blockDim.x) sum += a[(size_t)row * n + k] * x[k];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) { for (int k = 1; k < blockDim.x / 32; k++) sum += part[k]; y[row] = sum; }
}
__global__ void reduce_interleaved(const float *x, float *out, int n) {
    __shared__ float t[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    t[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int s = 1; s < 256; s *= 2) {
        if (threadIdx.x % (2 * s) == 0) t[threadIdx.x] += t[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = t[0];
}
__global__ void reduce_conflicts(const float *x, float *out, int n) {
    __shared__ float t[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    t[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int s = 1; s < 256; s *= 2) {
        int k = 2 * s * threadIdx.x;
        if (k < 256) t[k] += t[k + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = t[0];
}
__global__ void reduce_sequential(const float *x, float *out, int n) {
    __shared__ float t[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    t[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int s = 128; s > 0; s /= 2) {
        if (threadIdx.x < s) t[threadIdx.x] += t[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = t[0];
}
__global__ void reduce_shuffle(const float *x, float *out, int n) {
    __shared__ float part[8];
    int i = blockIdx.x * 256 + threadIdx.x;
    float sum = i < n ? x[i] : 0;
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 8) {
        sum = part[threadIdx.x];
        for (int d = 4; d; d /= 2) sum += __shfl_down_sync(0xffu, sum, d);
        if (threadIdx.x == 0) out[blockIdx.x] = sum;
    }
}
__global__ void reduce_loop(const float *x, float *out, int n) {
    __shared__ float part[8];
    float sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += x[i];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) { for (int k = 1; k < 8; k++) sum += part[k]; atomicAdd(out, sum); }
}
__global__ void reduce_atomic(const float *x, float *out, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) atomicAdd(out, x[i]);
}
__global__ void reduce_warp_atomic(const float *x, float *out, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    float sum = i < n ? x[i] : 0;
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if ((threadIdx.x & 31) == 0) atomicAdd(out, sum);
}
__global__ void histogram_global(const unsigned char *x, unsigned *bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[x[i]], 1u);
}
__global__ void histogram_shared(const unsigned char *x, unsigned *bins, int n) {
    __shared__ unsigned t[256];
    t[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&t[x[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], t[threadIdx.x]);
}
__global__ void histogram_warps(const unsigned char *x, unsigned *bins, int n) {
    __shared__ unsigned t[8][256];
    for (int k = threadIdx.x; k < 2048; k += 256) ((unsigned *)t)[k] = 0;
    __syncthreads();
    unsigned *mine = t[threadIdx.x / 32];
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&mine[x[i]], 1u);
    __syncthreads();
    unsigned sum = 0;
    for (int w = 0; w < 8; w++) sum += t[w][threadIdx.x];
    atomicAdd(&bins[threadIdx.x], sum);
}
__global__ void pile(unsigned *counts, int spread) {
    atomicAdd(&counts[(blockIdx.x * blockDim.x + threadIdx.x) % spread], 1u);
}
__global__ void pile_float(float *sums, int spread) {
    atomicAdd(&sums[(blockIdx.x * blockDim.x + threadIdx.x) % spread], 1.5f);
}
__global__ void shared_pile(unsigned *out, int rounds, int spread, unsigned value) {
    __shared__ unsigned t[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) t[k] = 0;
    __syncthreads();
    for (int i = 0; i < rounds; i++) atomicAdd(&t[(threadIdx.x + i) % spread], value);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = t[threadIdx.x];
}
__global__ void scan_steps(const int *x, int *y, int n) {  // Hillis and Steele, one block's part
    __shared__ int t[2][256];
    int i = blockIdx.x * 256 + threadIdx.x, from = 0;
    t[0][threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        t[1 - from][threadIdx.x] = t[from][threadIdx.x] + (threadIdx.x >= d ? t[from][threadIdx.x - d] : 0);
        from = 1 - from;
        __syncthreads();
    }
    if (i < n) y[i] = t[from][threadIdx.x];
}
__global__ void scan_shuffle(const int *x, int *y, int n) {
    __shared__ int part[8];
    int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    int v = i < n ? x[i] : 0;
    for (int d = 1; d < 32; d *= 2) { int u = __shfl_up_sync(0xffffffffu, v, d); if (lane >= d) v += u; }
    if (lane == 31) part[warp] = v;
    __syncthreads();
    for (int w = 0; w < warp; w++) v += part[w];
    if (i < n) y[i] = v;
}
__global__ void scan_serial(const int *x, int *y, int n) {  // one thread adds up its block's part
    __shared__ int t[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    t[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (threadIdx.x == 0) for (int k = 1; k < 256; k++) t[k] += t[k - 1];
    __syncthreads();
    if (i < n) y[i] = t[threadIdx.x];
}
__global__ void softmax_thread(const float *x, float *y, int rows, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float *p = x + (size_t)row * n;
    float top = p[0], sum = 0;
    for (int k = 1; k < n; k++) top = fmaxf(top, p[k]);
    for (int k = 0; k < n; k++) sum += __expf(p[k] - top);
    for (int k = 0; k < n; k++) y[(size_t)row * n + k] = __expf(p[k] - top) / sum;
}
__global__ void softmax_warp(const float *x, float *y, int rows, int n) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    const float *p = x + (size_t)row * n;
    float top = -1e30f, sum = 0;
    for (int k = lane; k < n; k += 32) top = fmaxf(top, p[k]);
    for (int d = 16; d; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
    for (int k = lane; k < n; k += 32) sum += __expf(p[k] - top);
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    for (int k = lane; k < n; k += 32) y[(size_t)row * n + k] = __expf(p[k] - top) / sum;
}
__global__ void bodies_global(const float4 *p, float4 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = p[i];
    float ax = 0, ay = 0, az = 0;
    for (int j = 0; j < n; j++) {
        float4 o = p[j];
        float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
        float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), s = o.w * r * r * r;
        ax += dx * s; ay += dy * s; az += dz * s;
    }
    out[i] = make_float4(ax, ay, az, 0);
}
__global__ void bodies_shared(const float4 *p, float4 *out, int n) {
    __shared__ float4 t[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = p[i];
    float ax = 0, ay = 0, az = 0;
    for (int m = 0; m < n; m += 256) {
        t[threadIdx.x] = p[m + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 256; j++) {
            float4 o = t[j];
            float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), s = o.w * r * r * r;
            ax += dx * s; ay += dy * s; az += dz * s;
        }
        __syncthreads();
    }
    out[i] = make_float4(ax, ay, az, 0);
}
}
