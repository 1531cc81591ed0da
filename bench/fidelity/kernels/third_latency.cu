extern "C" {
// Sorts, scans and trees of one block.
__global__ void odd_even_sort(const float *in, float *out, int n) {
    extern __shared__ float keys[];
    int t = threadIdx.x, base = blockIdx.x * n;
    for (int i = t; i < n; i += blockDim.x) keys[i] = in[base + i];
    __syncthreads();
    for (int round = 0; round < n; ++round) {
        int i = 2 * t + (round & 1);
        if (i + 1 < n && keys[i] > keys[i + 1]) {
            float swap = keys[i];
            keys[i] = keys[i + 1];
            keys[i + 1] = swap;
        }
        __syncthreads();
    }
    for (int i = t; i < n; i += blockDim.x) out[base + i] = keys[i];
}
__global__ void merge_sort(const int *in, int *out, int n) {
    extern __shared__ int runs[];
    int *from = runs, *to = runs + n, t = threadIdx.x;
    for (int i = t; i < n; i += blockDim.x) from[i] = in[i];
    __syncthreads();
    for (int width = 1; width < n; width *= 2) {
        for (int left = 2 * width * t; left < n; left += 2 * width * blockDim.x) {
            int middle = min(left + width, n), right = min(left + 2 * width, n), a = left, b = middle;
            for (int k = left; k < right; ++k)
                to[k] = b >= right || (a < middle && from[a] <= from[b]) ? from[a++] : from[b++];
        }
        __syncthreads();
        int *swap = from;
        from = to;
        to = swap;
    }
    for (int i = t; i < n; i += blockDim.x) out[i] = from[i];
}
__global__ void scan_parts(const int *in, int *out, int n) {
    __shared__ int total[1024];
    int t = threadIdx.x, each = n / blockDim.x, first = t * each, sum = 0;
    for (int i = 0; i < each; ++i) sum += in[first + i];
    total[t] = sum;
    __syncthreads();
    if (t == 0) {
        int before = 0;
        for (int i = 0; i < blockDim.x; ++i) {
            int here = total[i];
            total[i] = before;
            before += here;
        }
    }
    __syncthreads();
    sum = total[t];
    for (int i = 0; i < each; ++i) {
        sum += in[first + i];
        out[first + i] = sum;
    }
}
__global__ void argmax_warp(const float *x, int *best, int n) {
    int lane = threadIdx.x, at = lane;
    float v = x[lane];
    for (int i = lane + 32; i < n; i += 32)
        if (x[i] > v) {
            v = x[i];
            at = i;
        }
    for (int d = 16; d > 0; d /= 2) {
        float other = __shfl_down_sync(0xffffffff, v, d);
        int where = __shfl_down_sync(0xffffffff, at, d);
        if (other > v || (other == v && where < at)) {
            v = other;
            at = where;
        }
    }
    if (lane == 0) *best = at;
}
__global__ void argmax_block(const float *x, int *best, int n) {
    __shared__ float value[512];
    __shared__ int place[512];
    int t = threadIdx.x;
    value[t] = -1e30f;
    place[t] = 0;
    for (int i = t; i < n; i += 512)
        if (x[i] > value[t]) {
            value[t] = x[i];
            place[t] = i;
        }
    for (int d = 256; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d && value[t + d] > value[t]) {
            value[t] = value[t + d];
            place[t] = place[t + d];
        }
    }
    if (t == 0) *best = place[0];
}
// Linear algebra of one block.
__global__ void gauss_jordan(const float *in, float *inverse, int n) {
    __shared__ float a[24][49];
    int x = threadIdx.x, y = threadIdx.y, base = blockIdx.x * n * n;
    a[y][x] = in[base + y * n + x];
    a[y][x + n] = x == y ? 1.0f : 0.0f;
    __syncthreads();
    for (int k = 0; k < n; ++k) {
        float pivot = a[k][k];
        __syncthreads();
        if (y == k) {
            a[k][x] /= pivot;
            a[k][x + n] /= pivot;
        }
        __syncthreads();
        float factor = a[y][k];
        __syncthreads();
        if (y != k) {
            a[y][x] -= factor * a[k][x];
            a[y][x + n] -= factor * a[k][x + n];
        }
        __syncthreads();
    }
    inverse[base + y * n + x] = a[y][x + n];
}
__global__ void substitute_forward(const float *lower, const float *b, float *x, int n) {
    __shared__ float solved[512];
    int row = threadIdx.x;
    float rest = b[row];
    for (int k = 0; k < n; ++k) {
        if (row == k) solved[k] = rest / lower[k * n + k];
        __syncthreads();
        if (row > k) rest -= lower[row * n + k] * solved[k];
    }
    x[row] = solved[row];
}
__global__ void substitute_by_columns(const float *upper, const float *b, float *x, int n) {
    __shared__ float solved[512];
    int row = threadIdx.x;
    float rest = b[row];
    for (int k = 0; k < n; ++k) {
        if (row == k) solved[k] = rest / upper[k * n + k];
        __syncthreads();
        if (row > k) rest -= upper[k * n + row] * solved[k];
    }
    x[row] = solved[row];
}
__device__ double total(double v, double *part) {
    int t = threadIdx.x;
    part[t] = v;
    for (int d = blockDim.x / 2; d > 0; d /= 2) {
        __syncthreads();
        if (t < d) part[t] += part[t + d];
    }
    __syncthreads();
    double sum = part[0];
    __syncthreads();
    return sum;
}
__global__ void conjugate_gradients(const double *a, const double *b, double *solution, int n, int rounds) {
    __shared__ double part[128], p[128];
    int t = threadIdx.x;
    double x = 0, r = b[t], square = total(r * r, part);
    p[t] = r;
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
        double ap = 0;
        for (int k = 0; k < n; ++k) ap += a[k * n + t] * p[k];
        double alpha = square / total(p[t] * ap, part);
        x += alpha * p[t];
        r -= alpha * ap;
        double next = total(r * r, part);
        p[t] = r + next / square * p[t];
        square = next;
        __syncthreads();
    }
    solution[t] = x;
}
__global__ void markov_steps(const float *chance, const float *start, float *end, int steps) {
    int to = threadIdx.x % 32, chain = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    float p = start[chain * 32 + to];
    for (int s = 0; s < steps; ++s) {
        float next = 0;
        for (int from = 0; from < 32; ++from) next += __shfl_sync(0xffffffff, p, from) * chance[from * 32 + to];
        p = next;
    }
    end[chain * 32 + to] = p;
}
// Graphs and tables of one block.
__global__ void all_paths_shared(const int *in, int *out) {
    __shared__ int d[32][32];
    int x = threadIdx.x, y = threadIdx.y, base = blockIdx.x * 1024;
    d[y][x] = in[base + y * 32 + x];
    __syncthreads();
    for (int k = 0; k < 32; ++k) {
        int through = d[y][k] + d[k][x];
        __syncthreads();
        if (through < d[y][x]) d[y][x] = through;
        __syncthreads();
    }
    out[base + y * 32 + x] = d[y][x];
}
__global__ void all_paths_global(const int *in, int *out) {
    int x = threadIdx.x, y = threadIdx.y, base = blockIdx.x * 1024, i = base + y * 32 + x;
    out[i] = in[i];
    __syncthreads();
    for (int k = 0; k < 32; ++k) {
        int through = out[base + y * 32 + k] + out[base + k * 32 + x];
        __syncthreads();
        if (through < out[i]) out[i] = through;
        __syncthreads();
    }
}
__global__ void knapsack_shared(const int *weight, const int *worth, int items, int capacity, int *best) {
    __shared__ int row[2][1024];
    int c = threadIdx.x, now = 0;
    row[0][c] = 0;
    __syncthreads();
    for (int i = 0; i < items; ++i) {
        int w = weight[i], v = row[now][c];
        if (c >= w) v = max(v, row[now][c - w] + worth[i]);
        row[1 - now][c] = v;
        now = 1 - now;
        __syncthreads();
    }
    if (c == capacity) *best = row[now][c];
}
__global__ void knapsack_global(const int *weight, const int *worth, int items, int capacity, int *table, int *best) {
    int c = threadIdx.x, wide = blockDim.x;
    table[c] = 0;
    __syncthreads();
    for (int i = 0; i < items; ++i) {
        int v = table[i * wide + c];
        if (c >= weight[i]) v = max(v, table[i * wide + c - weight[i]] + worth[i]);
        table[(i + 1) * wide + c] = v;
        __syncthreads();
    }
    if (c == capacity) *best = table[items * wide + c];
}
__global__ void tree_lookup(const int *key, const int *left, const int *right, const int *wanted, int *depth, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int node = 0, steps = 0, want = wanted[i];
    while (node >= 0 && key[node] != want) {
        node = want < key[node] ? left[node] : right[node];
        ++steps;
    }
    depth[i] = node < 0 ? -1 : steps;
}
// Chains of arithmetic in few threads.
__global__ void kepler_float(const float *mean, float *angle, float e, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float m = mean[i], x = m;
    for (int r = 0; r < rounds; ++r) x -= (x - e * sinf(x) - m) / (1 - e * cosf(x));
    angle[i] = x;
}
__global__ void kepler_double(const double *mean, double *angle, double e, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double m = mean[i], x = m;
    for (int r = 0; r < rounds; ++r) x -= (x - e * sin(x) - m) / (1 - e * cos(x));
    angle[i] = x;
}
__global__ void lcg64(unsigned long long *state, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long s = i + 1;
    for (int r = 0; r < rounds; ++r) s = s * 6364136223846793005ULL + 1442695040888963407ULL;
    state[i] = s;
}
__global__ void xorshift128(uint4 *state, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = i + 1, y = 362436069u, z = 521288629u, w = 88675123u;
    for (int r = 0; r < rounds; ++r) {
        unsigned t = x ^ (x << 11);
        x = y;
        y = z;
        z = w;
        w = w ^ (w >> 19) ^ t ^ (t >> 8);
    }
    state[i] = make_uint4(x, y, z, w);
}
__global__ void philox(uint2 *out, unsigned key, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned a = i, b = 0;
    for (int r = 0; r < rounds; ++r) {
        unsigned high = __umulhi(a, 0xD256D193u), low = a * 0xD256D193u;
        a = high ^ key ^ b;
        b = low;
        key += 0x9E3779B9u;
    }
    out[i] = make_uint2(a, b);
}
__global__ void pendulum_float(const float *start, float *end, float h, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = start[i], v = 0;
    for (int s = 0; s < steps; ++s) {
        float k1x = v, k1v = -sinf(x);
        float k2x = v + 0.5f * h * k1v, k2v = -sinf(x + 0.5f * h * k1x);
        float k3x = v + 0.5f * h * k2v, k3v = -sinf(x + 0.5f * h * k2x);
        float k4x = v + h * k3v, k4v = -sinf(x + h * k3x);
        x += h / 6 * (k1x + 2 * k2x + 2 * k3x + k4x);
        v += h / 6 * (k1v + 2 * k2v + 2 * k3v + k4v);
    }
    end[i] = x;
}
__global__ void spring_double(const double *start, double *end, double h, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double x = start[i], v = 0;
    for (int s = 0; s < steps; ++s) {
        v -= h * (x + 0.1 * v + 0.5 * x * x * x);
        x += h * v;
    }
    end[i] = x;
}
__global__ void small_cluster(const float4 *start, float4 *end, int n, float h, int steps) {
    __shared__ float4 body[256];
    int t = threadIdx.x;
    float4 me = start[blockIdx.x * n + t];
    float vx = 0, vy = 0, vz = 0;
    for (int s = 0; s < steps; ++s) {
        body[t] = me;
        __syncthreads();
        for (int j = 0; j < n; ++j) {
            float dx = body[j].x - me.x, dy = body[j].y - me.y, dz = body[j].z - me.z;
            float d2 = dx * dx + dy * dy + dz * dz + 0.05f, f = h * body[j].w / (d2 * sqrtf(d2));
            vx += f * dx;
            vy += f * dy;
            vz += f * dz;
        }
        __syncthreads();
        me.x += h * vx;
        me.y += h * vy;
        me.z += h * vz;
    }
    end[blockIdx.x * n + t] = me;
}
__global__ void low_pass(const float *in, float *out, int samples, int step, int channel) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    float y = 0;
    for (int i = 0; i < samples; ++i) {
        y = 0.9f * y + 0.1f * in[i * step + c * channel];
        out[i * step + c * channel] = y;
    }
}
__global__ void crc_bits(const unsigned char *message, unsigned *crc, int length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned c = 0xffffffffu;
    for (int k = 0; k < length; ++k) {
        c ^= message[i * length + k];
        for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0xEDB88320u : c >> 1;
    }
    crc[i] = ~c;
}
__global__ void crc_table(const unsigned char *message, const unsigned *table, unsigned *crc, int length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned c = 0xffffffffu;
    for (int k = 0; k < length; ++k) c = c >> 8 ^ table[(c ^ message[i * length + k]) & 255];
    crc[i] = ~c;
}
__global__ void crc_shared(const unsigned char *message, const unsigned *table, unsigned *crc, int length) {
    __shared__ unsigned own[256];
    for (int k = threadIdx.x; k < 256; k += blockDim.x) own[k] = table[k];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned c = 0xffffffffu;
    for (int k = 0; k < length; ++k) c = c >> 8 ^ own[(c ^ message[i * length + k]) & 255];
    crc[i] = ~c;
}
}
