extern "C" {
__global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void saxpy4(float a, const float4 *x, float4 *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 u = x[i], v = y[i];
    y[i] = make_float4(a * u.x + v.x, a * u.y + v.y, a * u.z + v.z, a * u.w + v.w);
}
__global__ void daxpy(double a, const double *x, double *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
struct Particle { float x, y, z, vx, vy, vz, mass, charge; };
__global__ void move_structs(Particle *p, float dt, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    p[i].x += dt * p[i].vx;
    p[i].y += dt * p[i].vy;
    p[i].z += dt * p[i].vz;
}
__global__ void move_arrays(float *x, float *y, float *z, const float *vx, const float *vy, const float *vz, float dt, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    x[i] += dt * vx[i];
    y[i] += dt * vy[i];
    z[i] += dt * vz[i];
}
__global__ void grey_bytes(const unsigned char *rgb, unsigned char *grey, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) grey[i] = (77 * rgb[3 * i] + 150 * rgb[3 * i + 1] + 29 * rgb[3 * i + 2]) >> 8;
}
__global__ void grey_words(const uchar4 *rgba, unsigned char *grey, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 p = rgba[i];
    grey[i] = (77 * p.x + 150 * p.y + 29 * p.z) >> 8;
}
__global__ void brighten(const unsigned char *in, unsigned char *out, int by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = min(255, max(0, in[i] + by));
}
__global__ void blend(const float4 *a, const float4 *b, float4 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 u = a[i], v = b[i];
    float w = v.w;
    out[i] = make_float4(u.x + w * (v.x - u.x), u.y + w * (v.y - u.y), u.z + w * (v.z - u.z), 1.0f);
}
__global__ void blur_naive(const float *in, float *out, int w, int h, int r) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int dy = -r; dy <= r; ++dy)
        for (int dx = -r; dx <= r; ++dx) sum += in[min(h - 1, max(0, y + dy)) * w + min(w - 1, max(0, x + dx))];
    out[y * w + x] = sum / ((2 * r + 1) * (2 * r + 1));
}
__global__ void blur_rows(const float *in, float *out, int w, int h, int r) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int d = -r; d <= r; ++d) sum += in[y * w + min(w - 1, max(0, x + d))];
    out[y * w + x] = sum / (2 * r + 1);
}
__global__ void blur_columns(const float *in, float *out, int w, int h, int r) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int d = -r; d <= r; ++d) sum += in[min(h - 1, max(0, y + d)) * w + x];
    out[y * w + x] = sum / (2 * r + 1);
}
__global__ void sobel(const unsigned char *in, unsigned char *out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
    const unsigned char *p = in + y * w + x;
    int gx = p[1 - w] + 2 * p[1] + p[1 + w] - p[-1 - w] - 2 * p[-1] - p[-1 + w];
    int gy = p[w - 1] + 2 * p[w] + p[w + 1] - p[-w - 1] - 2 * p[-w] - p[-w + 1];
    out[y * w + x] = min(255, (int)sqrtf((float)(gx * gx + gy * gy)));
}
__global__ void resize(const float *in, float *out, int w, int h, int ow, int oh) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= ow || y >= oh) return;
    float fx = (x + 0.5f) * w / ow - 0.5f, fy = (y + 0.5f) * h / oh - 0.5f;
    int x0 = max(0, (int)floorf(fx)), y0 = max(0, (int)floorf(fy)), x1 = min(w - 1, x0 + 1), y1 = min(h - 1, y0 + 1);
    float ax = fx - x0, ay = fy - y0;
    float top = in[y0 * w + x0] * (1 - ax) + in[y0 * w + x1] * ax, low = in[y1 * w + x0] * (1 - ax) + in[y1 * w + x1] * ax;
    out[y * ow + x] = top * (1 - ay) + low * ay;
}
__global__ void rotate(const float *in, float *out, int n, float cosine, float sine) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float cx = x - n / 2.0f, cy = y - n / 2.0f;
    int sx = (int)(cosine * cx - sine * cy + n / 2.0f), sy = (int)(sine * cx + cosine * cy + n / 2.0f);
    out[y * n + x] = sx >= 0 && sy >= 0 && sx < n && sy < n ? in[sy * n + sx] : 0.0f;
}
__global__ void transpose_naive(const double *in, double *out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    out[x * n + y] = in[y * n + x];
}
__global__ void transpose_tile(const double *in, double *out, int n) {
    __shared__ double tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
__global__ void gather(const float *in, const int *index, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[index[i]];
}
__global__ void scatter(const float *in, const int *index, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[index[i]] = in[i];
}
__global__ void heat_plate(const float *in, float *out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (x < n - 1 && y < n - 1)
        out[y * n + x] = 0.25f * (in[y * n + x - 1] + in[y * n + x + 1] + in[(y - 1) * n + x] + in[(y + 1) * n + x]);
}
__global__ void heat_block(const float *in, float *out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x < 1 || y < 1 || z < 1 || x >= n - 1 || y >= n - 1 || z >= n - 1) return;
    long long i = ((long long)z * n + y) * n + x;
    out[i] = in[i] + 0.1f * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - n * n] + in[i + n * n] - 6 * in[i]);
}
__global__ void heat_march(const float *in, float *out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
    float below = in[y * n + x], here = in[(n + y) * n + x];
    for (int z = 1; z < n - 1; ++z) {
        int i = (z * n + y) * n + x;
        float above = in[i + n * n];
        out[i] = here + 0.1f * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + below + above - 6 * here);
        below = here;
        here = above;
    }
}
__global__ void column_sums(const float *m, float *out, int rows, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int r = 0; r < rows; ++r) sum += m[r * columns + c];
    out[c] = sum;
}
__global__ void row_sums(const float *m, float *out, int rows, int columns) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int c = 0; c < columns; ++c) sum += m[r * columns + c];
    out[r] = sum;
}
__device__ float block_sum(float v, float *s) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += s[w];
    return sum;
}
__global__ void softmax(const float *in, float *out, int columns) {
    __shared__ float s[32];
    const float *row = in + (long long)blockIdx.x * columns;
    float sum = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += expf(row[c]);
    sum = block_sum(sum, s);
    for (int c = threadIdx.x; c < columns; c += blockDim.x) out[(long long)blockIdx.x * columns + c] = expf(row[c]) / sum;
}
__global__ void normalise(const float *in, float *out, int columns) {
    __shared__ float s[32];
    const float *row = in + (long long)blockIdx.x * columns;
    float sum = 0, squares = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        sum += row[c];
        squares += row[c] * row[c];
    }
    float mean = block_sum(sum, s) / columns, scale = rsqrtf(block_sum(squares, s) / columns - mean * mean + 1e-5f);
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        out[(long long)blockIdx.x * columns + c] = (row[c] - mean) * scale;
}
__global__ void scan_blocks(const int *in, int *out, int *sums) {
    __shared__ int s[512];
    int t = threadIdx.x, i = blockIdx.x * 512 + t;
    s[t] = in[i];
    for (int d = 1; d < 512; d *= 2) {
        __syncthreads();
        int v = t >= d ? s[t - d] : 0;
        __syncthreads();
        s[t] += v;
    }
    out[i] = s[t];
    if (t == 511) sums[blockIdx.x] = s[t];
}
__global__ void add_offsets(int *data, const int *offset) {
    data[blockIdx.x * 512 + threadIdx.x] += offset[blockIdx.x];
}
__global__ void digit_counts(const unsigned *keys, int *counts, int shift, int n) {
    __shared__ int own[16];
    if (threadIdx.x < 16) own[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&own[keys[i] >> shift & 15], 1);
    __syncthreads();
    if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = own[threadIdx.x];
}
__global__ void bitonic_step(unsigned *keys, int j, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ j;
    if (other <= i) return;
    unsigned a = keys[i], b = keys[other];
    if ((a > b) == ((i & k) == 0)) { keys[i] = b; keys[other] = a; }
}
__global__ void small_products(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int r = 0; r < 4; ++r)
        for (int s = 0; s < 4; ++s) {
            float sum = 0;
            for (int k = 0; k < 4; ++k) sum += a[16 * i + 4 * r + k] * b[16 * i + 4 * k + s];
            c[16 * i + 4 * r + s] = sum;
        }
}
__global__ void complex_product(const float2 *a, const float2 *b, float2 *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 u = a[i], v = b[i];
    c[i] = make_float2(u.x * v.x - u.y * v.y, u.x * v.y + u.y * v.x);
}
__global__ void minimum_maximum(const float *x, float *low, float *high, int n) {
    __shared__ float a[256], b[256];
    float lo = 1e30f, hi = -1e30f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
    a[threadIdx.x] = lo;
    b[threadIdx.x] = hi;
    for (int d = 128; d > 0; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) {
            a[threadIdx.x] = fminf(a[threadIdx.x], a[threadIdx.x + d]);
            b[threadIdx.x] = fmaxf(b[threadIdx.x], b[threadIdx.x + d]);
        }
    }
    if (threadIdx.x == 0) { low[blockIdx.x] = a[0]; high[blockIdx.x] = b[0]; }
}
__global__ void nearest_centre(const float *x, const float *y, const float2 *centre, int *out, int k, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float px = x[i], py = y[i], best = 1e30f;
    int which = 0;
    for (int c = 0; c < k; ++c) {
        float dx = centre[c].x - px, dy = centre[c].y - py, d = dx * dx + dy * dy;
        if (d < best) { best = d; which = c; }
    }
    out[i] = which;
}
__global__ void bodies(const float4 *p, float4 *force, int n) {
    __shared__ float4 tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    float4 me = p[i];
    float fx = 0, fy = 0, fz = 0;
    for (int base = 0; base < n; base += 128) {
        tile[threadIdx.x] = p[base + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 128; ++j) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), f = tile[j].w * r * r * r;
            fx += f * dx; fy += f * dy; fz += f * dz;
        }
        __syncthreads();
    }
    force[i] = make_float4(fx, fy, fz, 0);
}
}
