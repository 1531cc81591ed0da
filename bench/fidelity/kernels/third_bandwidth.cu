#define HERE (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" {
// Vectors.
__global__ void triad(const float *b, const float *c, float *a, float s, int n) {
    int i = HERE;
    if (i < n) a[i] = b[i] + s * c[i];
}
__global__ void triad_loop(const float *b, const float *c, float *a, float s, int n) {
    for (int i = HERE; i < n; i += gridDim.x * blockDim.x) a[i] = b[i] + s * c[i];
}
__global__ void triad_part(const float *b, const float *c, float *a, float s, int each) {
    int first = HERE * each;
    for (int i = first; i < first + each; ++i) a[i] = b[i] + s * c[i];
}
__global__ void copy_bytes(const char *in, char *out, int n) {
    int i = HERE;
    if (i < n) out[i] = in[i];
}
__global__ void copy_shorts(const short *in, short *out, int n) {
    int i = HERE;
    if (i < n) out[i] = in[i];
}
__global__ void copy_triples(const float3 *in, float3 *out, int n) {
    int i = HERE;
    if (i < n) out[i] = in[i];
}
__global__ void reverse(const int *in, int *out, int n) {
    int i = HERE;
    if (i < n) out[n - 1 - i] = in[i];
}
__global__ void reverse_shared(const int *in, int *out, int n) {
    __shared__ int s[256];
    s[255 - threadIdx.x] = in[HERE];
    __syncthreads();
    out[n - (blockIdx.x + 1) * 256 + threadIdx.x] = s[threadIdx.x];
}
__global__ void take_apart(const float2 *z, float *re, float *im, int n) {
    int i = HERE;
    if (i >= n) return;
    re[i] = z[i].x;
    im[i] = z[i].y;
}
__global__ void planes(const unsigned char *rgb, unsigned char *r, unsigned char *g, unsigned char *b, int n) {
    int i = HERE;
    if (i >= n) return;
    r[i] = rgb[3 * i];
    g[i] = rgb[3 * i + 1];
    b[i] = rgb[3 * i + 2];
}
__global__ void widen(const unsigned char *in, float *out, int n) {
    int i = HERE;
    if (i < n) out[i] = in[i] / 255.0f;
}
__global__ void narrow(const double *in, float *out, int n) {
    int i = HERE;
    if (i < n) out[i] = (float)in[i];
}
// Matrices.
__global__ void add_matrices(const float *a, const float *b, float *c, int w, int h) {
    int x = HERE, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) c[y * w + x] = a[y * w + x] + b[y * w + x];
}
__global__ void outer_product(const float *u, const float *v, float *m, int w, int h) {
    int x = HERE, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) m[y * w + x] = u[y] * v[x];
}
__global__ void cut_out(const float *in, float *out, int w, int left, int top, int ow, int oh) {
    int x = HERE, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < ow && y < oh) out[y * ow + x] = in[(y + top) * w + x + left];
}
__global__ void swap_outer(const float *in, float *out, int nx, int ny, int nz) {
    int x = HERE, y = blockIdx.y, z = blockIdx.z;
    if (x < nx) out[(y * nz + z) * nx + x] = in[(z * ny + y) * nx + x];
}
__global__ void swap_ends(const float *in, float *out, int nx, int ny, int nz) {
    int x = HERE, y = blockIdx.y, z = blockIdx.z;
    if (x < nx) out[(x * ny + y) * nz + z] = in[(z * ny + y) * nx + x];
}
__global__ void diagonals(const float *value, const int *offset, int count, const float *x, float *y, int n) {
    int r = HERE;
    if (r >= n) return;
    float sum = 0;
    for (int d = 0; d < count; ++d) {
        int c = r + offset[d];
        if (c >= 0 && c < n) sum += value[d * n + r] * x[c];
    }
    y[r] = sum;
}
// Images.
__constant__ float weight[25] = {1, 4, 6, 4, 1, 4, 16, 24, 16, 4, 6, 24, 36, 24, 6, 4, 16, 24, 16, 4, 1, 4, 6, 4, 1};
__global__ void gauss_global(const float *in, float *out, int w, int h) {
    int x = HERE, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 2 || y < 2 || x >= w - 2 || y >= h - 2) return;
    float sum = 0;
    for (int j = 0; j < 5; ++j)
        for (int i = 0; i < 5; ++i) sum += weight[5 * j + i] * in[(y + j - 2) * w + x + i - 2];
    out[y * w + x] = sum / 256;
}
__global__ void gauss_tile(const float *in, float *out, int w, int h) {
    __shared__ float tile[20][20];
    int left = blockIdx.x * 16 - 2, top = blockIdx.y * 16 - 2;
    for (int j = threadIdx.y; j < 20; j += 16)
        for (int i = threadIdx.x; i < 20; i += 16) {
            int x = min(max(left + i, 0), w - 1), y = min(max(top + j, 0), h - 1);
            tile[j][i] = in[y * w + x];
        }
    __syncthreads();
    int x = left + 2 + threadIdx.x, y = top + 2 + threadIdx.y;
    if (x < 2 || y < 2 || x >= w - 2 || y >= h - 2) return;
    float sum = 0;
    for (int j = 0; j < 5; ++j)
        for (int i = 0; i < 5; ++i) sum += weight[5 * j + i] * tile[threadIdx.y + j][threadIdx.x + i];
    out[y * w + x] = sum / 256;
}
__global__ void mirror(const uchar4 *in, uchar4 *out, int w, int h) {
    int x = HERE, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) out[y * w + w - 1 - x] = in[y * w + x];
}
__global__ void quarter_turn(const uchar4 *in, uchar4 *out, int w, int h) {
    int x = HERE, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) out[x * h + h - 1 - y] = in[y * w + x];
}
__global__ void shrink(const unsigned char *in, unsigned char *out, int ow, int oh) {
    int x = HERE, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= ow || y >= oh) return;
    int sum = 0;
    for (int j = 0; j < 4; ++j)
        for (int i = 0; i < 4; ++i) sum += in[(4 * y + j) * 4 * ow + 4 * x + i];
    out[y * ow + x] = sum / 16;
}
__global__ void gamma_power(const float *in, float *out, float g, int n) {
    int i = HERE;
    if (i < n) out[i] = powf(in[i], g);
}
__global__ void look_up(const unsigned char *in, const unsigned char *table, unsigned char *out, int n) {
    int i = HERE;
    if (i < n) out[i] = table[in[i]];
}
__global__ void look_up_shared(const unsigned char *in, const unsigned char *table, unsigned char *out, int n) {
    __shared__ unsigned char own[256];
    own[threadIdx.x] = table[threadIdx.x];
    __syncthreads();
    int i = HERE;
    if (i < n) out[i] = own[in[i]];
}
// Waves and fields.
__global__ void wave(const float *before, const float *now, float *after, int w, int h) {
    int x = HERE, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * w + x;
    if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
    after[i] = 2 * now[i] - before[i] + 0.2f * (now[i - 1] + now[i + 1] + now[i - w] + now[i + w] - 4 * now[i]);
}
__global__ void wide_star(const double *in, double *out, int w, int h) {
    int x = HERE, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * w + x;
    if (x < 2 || y < 2 || x >= w - 2 || y >= h - 2) return;
    double sum = 20 * in[i] - 8 * (in[i - 1] + in[i + 1] + in[i - w] + in[i + w]);
    sum += 2 * (in[i - w - 1] + in[i - w + 1] + in[i + w - 1] + in[i + w + 1]);
    out[i] = sum + in[i - 2] + in[i + 2] + in[i - 2 * w] + in[i + 2 * w];
}
__global__ void magnetic_step(const float *ex, const float *ey, const float *hz, float *next, int w, int h) {
    int x = HERE, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * w + x;
    if (x < w - 1 && y < h - 1) next[i] = hz[i] + 0.5f * (ex[i + w] - ex[i] - ey[i + 1] + ey[i]);
}
__global__ void upwind(const float *in, const float *vx, const float *vy, float *out, int w, int h) {
    int x = HERE, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * w + x;
    if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
    float u = vx[i], v = vy[i], dx, dy;
    if (u > 0) dx = in[i] - in[i - 1];
    else dx = in[i + 1] - in[i];
    if (v > 0) dy = in[i] - in[i - w];
    else dy = in[i + w] - in[i];
    out[i] = in[i] - 0.2f * (u * dx + v * dy);
}
// Particles.
__global__ void leapfrog(const float4 *place, const float4 *speed, const float4 *force, float4 *to, float4 *faster, float h,
                         int n) {
    int i = HERE;
    if (i >= n) return;
    float4 p = place[i], v = speed[i], f = force[i];
    v.x += h * f.x;
    v.y += h * f.y;
    v.z += h * f.z;
    p.x += h * v.x;
    p.y += h * v.y;
    p.z += h * v.z;
    to[i] = p;
    faster[i] = v;
}
__global__ void bounce(const float3 *place, const float3 *speed, float3 *to, float h, int n) {
    int i = HERE;
    if (i >= n) return;
    float3 p = place[i], v = speed[i];
    p.x += h * v.x;
    p.y += h * v.y;
    p.z += h * v.z;
    if (p.x < 0) p.x = -p.x;
    if (p.x > 1) p.x = 2 - p.x;
    if (p.y < 0) p.y = -p.y;
    if (p.y > 1) p.y = 2 - p.y;
    to[i] = p;
}
__global__ void kinetic(const float4 *speed, float *energy, int n) {
    __shared__ float s[128];
    float sum = 0;
    for (int i = HERE; i < n; i += gridDim.x * 128) {
        float4 v = speed[i];
        sum += 0.5f * v.w * (v.x * v.x + v.y * v.y + v.z * v.z);
    }
    s[threadIdx.x] = sum;
    for (int d = 64; d > 0; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    }
    if (threadIdx.x == 0) energy[blockIdx.x] = s[0];
}
__global__ void cell_numbers(const float3 *place, int *cell, int cells, int n) {
    int i = HERE;
    if (i >= n) return;
    float3 p = place[i];
    cell[i] = ((int)(p.z * cells) * cells + (int)(p.y * cells)) * cells + (int)(p.x * cells);
}
// Passes of sorts and scans.
__global__ void odd_even_pass(const int *in, int *out, int odd, int n) {
    int i = 2 * HERE + odd;
    if (i + 1 >= n) return;
    int a = in[i], b = in[i + 1];
    out[i] = min(a, b);
    out[i + 1] = max(a, b);
}
__global__ void bit_flags(const unsigned *key, int *flag, int bit, int n) {
    int i = HERE;
    if (i < n) flag[i] = !(key[i] >> bit & 1);
}
__global__ void split_by_bit(const unsigned *key, const int *before, unsigned *out, int bit, int zeros, int n) {
    int i = HERE;
    if (i >= n) return;
    unsigned k = key[i];
    out[k >> bit & 1 ? zeros + i - before[i] : before[i]] = k;
}
__global__ void merge_runs(const int *in, int *out, int run, int n) {
    int first = HERE * 2 * run;
    if (first >= n) return;
    int a = first, b = first + run;
    for (int k = first; k < first + 2 * run; ++k)
        out[k] = b >= first + 2 * run || (a < first + run && in[a] <= in[b]) ? in[a++] : in[b++];
}
__global__ void scan_warps(const int *in, int *out, int *sums, int n) {
    int i = HERE, lane = threadIdx.x % 32, v = i < n ? in[i] : 0;
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(0xffffffff, v, d);
        if (lane >= d) v += other;
    }
    if (i < n) out[i] = v;
    if (lane == 31) sums[i / 32] = v;
}
__global__ void scan_fours(const int4 *in, int4 *out, int *sums) {
    __shared__ int s[2][128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t, now = 0;
    int4 v = in[i];
    v.y += v.x;
    v.z += v.y;
    v.w += v.z;
    s[0][t] = v.w;
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        s[1 - now][t] = t >= d ? s[now][t] + s[now][t - d] : s[now][t];
        now = 1 - now;
        __syncthreads();
    }
    int before = t ? s[now][t - 1] : 0;
    out[i] = make_int4(v.x + before, v.y + before, v.z + before, v.w + before);
    if (t == 127) sums[blockIdx.x] = s[now][t];
}
// Tables, sums and layers.
__global__ void embed(const float *table, const int *word, float *out, int width, int n) {
    int i = HERE;
    if (i < n) out[i] = table[word[i / width] * width + i % width];
}
__global__ void count_above(const float *x, int *count, float bound, int n) {
    int i = HERE;
    unsigned vote = __ballot_sync(0xffffffff, i < n && x[i] > bound);
    if (threadIdx.x % 32 == 0) count[i / 32] = __popc(vote);
}
__global__ void moments(const float *x, float *mean, float *variance, int n) {
    __shared__ float s[192], q[192];
    float sum = 0, squares = 0;
    for (int i = HERE; i < n; i += gridDim.x * blockDim.x) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    s[threadIdx.x] = sum;
    q[threadIdx.x] = squares;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < 192; ++k) {
            sum += s[k];
            squares += q[k];
        }
        mean[blockIdx.x] = sum;
        variance[blockIdx.x] = squares;
    }
}
__global__ void dot_atomic(const float *a, const float *b, float *sum, int n) {
    float own = 0;
    for (int i = HERE; i < n; i += gridDim.x * blockDim.x) own += a[i] * b[i];
    for (int d = 16; d > 0; d /= 2) own += __shfl_xor_sync(0xffffffff, own, d);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}
__global__ void sigmoid(const float *in, float *out, int n) {
    int i = HERE;
    if (i < n) out[i] = 1 / (1 + expf(-in[i]));
}
__global__ void scale_channels(const float *in, const float *scale, const float *shift, float *out, int pixels, int channels,
                               int n) {
    int i = HERE;
    if (i >= n) return;
    int c = i / pixels % channels;
    out[i] = fmaxf(0.0f, scale[c] * in[i] + shift[c]);
}
__global__ void max_pool(const float *in, float *out, int ow, int oh) {
    int x = HERE, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= ow || y >= oh) return;
    const float *p = in + 4 * y * ow + 2 * x;
    out[y * ow + x] = fmaxf(fmaxf(p[0], p[1]), fmaxf(p[2 * ow], p[2 * ow + 1]));
}
__global__ void patches(const float *image, float *row, int w, int k) {
    int i = HERE, ow = w - k + 1;
    if (i >= ow * ow) return;
    int x = i % ow, y = i / ow;
    for (int j = 0; j < k * k; ++j) row[j * ow * ow + i] = image[(y + j / k) * w + x + j % k];
}
}
