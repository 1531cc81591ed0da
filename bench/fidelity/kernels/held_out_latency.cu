extern "C" {
__global__ void walk_list(const int *next, int *out, int steps) {
    int at = threadIdx.x;
    for (int i = 0; i < steps; ++i) at = next[at];
    out[threadIdx.x] = at;
}
__global__ void scan_hillis(const float *x, float *y, int n) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * n + t];
    __syncthreads();
    for (int d = 1; d < n; d *= 2) {
        float v = t >= d ? s[t - d] : 0.0f;
        __syncthreads();
        s[t] += v;
        __syncthreads();
    }
    y[blockIdx.x * n + t] = s[t];
}
__global__ void scan_blelloch(const float *x, float *y, int n) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    s[2 * t] = x[2 * t];
    s[2 * t + 1] = x[2 * t + 1];
    int offset = 1;
    for (int d = n / 2; d > 0; d /= 2) {
        __syncthreads();
        if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) s[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            int i = offset * (2 * t + 1) - 1, j = offset * (2 * t + 2) - 1;
            float v = s[i];
            s[i] = s[j];
            s[j] += v;
        }
    }
    __syncthreads();
    y[2 * t] = s[2 * t];
    y[2 * t + 1] = s[2 * t + 1];
}
__global__ void scan_shuffle(const float *x, float *y) {
    __shared__ float sums[32];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    float v = x[t];
    for (int d = 1; d < 32; d *= 2) {
        float other = __shfl_up_sync(0xffffffff, v, d);
        if (lane >= d) v += other;
    }
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        float s = lane < blockDim.x / 32 ? sums[lane] : 0.0f;
        for (int d = 1; d < 32; d *= 2) {
            float other = __shfl_up_sync(0xffffffff, s, d);
            if (lane >= d) s += other;
        }
        sums[lane] = s;
    }
    __syncthreads();
    y[t] = v + (warp ? sums[warp - 1] : 0.0f);
}
__global__ void sort_bitonic(const int *x, int *y, int n) {
    extern __shared__ int keys[];
    int t = threadIdx.x;
    keys[t] = x[blockIdx.x * n + t];
    for (int k = 2; k <= n; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            __syncthreads();
            int other = t ^ j;
            if (other > t) {
                int a = keys[t], b = keys[other];
                bool up = (t & k) == 0;
                if ((a > b) == up) { keys[t] = b; keys[other] = a; }
            }
        }
    __syncthreads();
    y[blockIdx.x * n + t] = keys[t];
}
__global__ void tridiagonal(const float *a, const float *b, const float *c, const float *d, float *x, float *cp,
                            int length, int systems) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= systems) return;
    float last_c = c[s] / b[s], last_d = d[s] / b[s];
    cp[s] = last_c;
    x[s] = last_d;
    for (int i = 1; i < length; ++i) {
        int at = i * systems + s;
        float m = 1.0f / (b[at] - a[at] * last_c);
        last_c = c[at] * m;
        last_d = (d[at] - a[at] * last_d) * m;
        cp[at] = last_c;
        x[at] = last_d;
    }
    for (int i = length - 2; i >= 0; --i) {
        int at = i * systems + s;
        last_d = x[at] - cp[at] * last_d;
        x[at] = last_d;
    }
}
__global__ void chain_sine(const float *x, float *y, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int r = 0; r < rounds; ++r) v = sinf(v) + 0.5f;
    y[i] = v;
}
__global__ void chain_exponential(const float *x, float *y, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int r = 0; r < rounds; ++r) v = expf(-v * v);
    y[i] = v;
}
__global__ void chain_root(const float *x, float *y, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int r = 0; r < rounds; ++r) v = sqrtf(v + 1.0f);
    y[i] = v;
}
__global__ void chain_division(const double *x, double *y, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double v = x[i];
    for (int r = 0; r < rounds; ++r) v = 1.0 / (v + 1.0);
    y[i] = v;
}
__global__ void chain_remainder(const unsigned *x, unsigned *y, int rounds, unsigned by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned v = x[i];
    for (int r = 0; r < rounds; ++r) v = (v * 1103515245u + 12345u) % by;
    y[i] = v;
}
__global__ void dot_one_block(const float *a, const float *b, float *out, int n) {
    __shared__ float s[1024];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += a[i] * b[i];
    s[threadIdx.x] = sum;
    __syncthreads();
    for (int d = blockDim.x / 2; d > 0; d /= 2) {
        if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = s[0];
}
__global__ void product_naive(const float *a, const float *b, float *c, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}
__global__ void product_tiled(const float *a, const float *b, float *c, int n) {
    __shared__ float ta[16][16], tb[16][16];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        ta[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
        tb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
        __syncthreads();
        for (int j = 0; j < 16; ++j) sum += ta[threadIdx.y][j] * tb[j][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}
__global__ void cholesky32(const float *in, float *out) {
    __shared__ float m[32][33];
    int x = threadIdx.x, y = threadIdx.y;
    m[y][x] = in[blockIdx.x * 1024 + y * 32 + x];
    __syncthreads();
    for (int k = 0; k < 32; ++k) {
        if (x == k && y == k) m[k][k] = sqrtf(m[k][k]);
        __syncthreads();
        if (x == k && y > k) m[y][k] /= m[k][k];
        __syncthreads();
        if (x > k && y >= x) m[y][x] -= m[y][k] * m[x][k];
        __syncthreads();
    }
    out[blockIdx.x * 1024 + y * 32 + x] = x <= y ? m[y][x] : 0.0f;
}
__global__ void fourier256(const float2 *in, float2 *out) {
    __shared__ float2 s[256];
    int t = threadIdx.x;
    for (int half = 0; half < 2; ++half) {
        int i = t + half * 128, r = __brev(i) >> 24;
        s[r] = in[blockIdx.x * 256 + i];
    }
    for (int size = 2; size <= 256; size *= 2) {
        __syncthreads();
        int k = t % (size / 2), base = t / (size / 2) * size;
        float sine, cosine;
        sincosf(-6.2831853f * k / size, &sine, &cosine);
        float2 a = s[base + k], b = s[base + k + size / 2];
        float2 w = make_float2(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
        s[base + k] = make_float2(a.x + w.x, a.y + w.y);
        s[base + k + size / 2] = make_float2(a.x - w.x, a.y - w.y);
    }
    __syncthreads();
    out[blockIdx.x * 256 + t] = s[t];
    out[blockIdx.x * 256 + t + 128] = s[t + 128];
}
__global__ void edit_distance(const char *a, const char *b, int *out, int n) {
    extern __shared__ int rows[];
    int *before = rows, *last = rows + n + 1, *now = rows + 2 * (n + 1);
    int i = threadIdx.x + 1;
    for (int d = 0; d <= 2 * n; ++d) {
        int j = d - i;
        if (threadIdx.x == 0 && d <= n) now[0] = d;
        if (j >= 0 && j <= n) {
            if (j == 0) now[i] = i;
            else {
                int cost = a[i - 1] == b[j - 1] ? 0 : 1;
                now[i] = min(min(last[i - 1] + 1, last[i] + 1), before[i - 1] + cost);
            }
        }
        __syncthreads();
        int *free = before;
        before = last;
        last = now;
        now = free;
        __syncthreads();
    }
    if (threadIdx.x == n - 1) out[0] = last[n];
}
__global__ void life_rounds(const unsigned char *in, unsigned char *out, int rounds) {
    __shared__ unsigned char field[2][34][34];
    int x = threadIdx.x + 1, y = threadIdx.y + 1;
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 2 * 34 * 34; i += 1024) (&field[0][0][0])[i] = 0;
    __syncthreads();
    field[0][y][x] = in[(y - 1) * 32 + x - 1];
    int now = 0;
    for (int r = 0; r < rounds; ++r) {
        __syncthreads();
        int sum = 0;
        for (int dy = -1; dy <= 1; ++dy)
            for (int dx = -1; dx <= 1; ++dx) sum += field[now][y + dy][x + dx];
        int alive = field[now][y][x];
        field[1 - now][y][x] = sum == 3 || (alive && sum == 4);
        now = 1 - now;
    }
    __syncthreads();
    out[(y - 1) * 32 + x - 1] = field[now][y][x];
}
__global__ void heat_rod(const float *in, float *out, int rounds) {
    __shared__ float rod[2][1026];
    int t = threadIdx.x + 1, now = 0;
    if (threadIdx.x == 0) rod[0][0] = rod[1][0] = rod[0][blockDim.x + 1] = rod[1][blockDim.x + 1] = 0;
    rod[0][t] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (int r = 0; r < rounds; ++r) {
        rod[1 - now][t] = 0.25f * (rod[now][t - 1] + 2 * rod[now][t] + rod[now][t + 1]);
        now = 1 - now;
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = rod[now][t];
}
__global__ void serial_sum(const float *x, float *out, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    out[0] = sum;
}
__global__ void fibonacci(unsigned *out, int n) {
    unsigned a = 0, b = 1;
    for (int i = 0; i < n; ++i) {
        unsigned c = (a + b) % 1000007u;
        a = b;
        b = c;
    }
    out[threadIdx.x] = a;
}
__global__ void shuffle_rounds(const float *x, float *y, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int r = 0; r < rounds; ++r)
        for (int d = 16; d > 0; d /= 2) v = 0.5f * (v + __shfl_xor_sync(0xffffffff, v, d));
    y[i] = v;
}
__global__ void barrier_rounds(const int *x, int *y, int rounds) {
    __shared__ int s[1024];
    int t = threadIdx.x, n = blockDim.x;
    s[t] = x[t];
    for (int r = 0; r < rounds; ++r) {
        __syncthreads();
        int v = s[(t + 1) % n];
        __syncthreads();
        s[t] = v + 1;
    }
    y[blockIdx.x * n + t] = s[t];
}
__global__ void ticket_rounds(int *counter, int *out, int rounds) {
    int v = 0;
    for (int r = 0; r < rounds; ++r) v += atomicAdd(&counter[v & 1], 1);
    out[threadIdx.x] = v;
}
__global__ void horner(const float *c, const float *x, float *y, int degree, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = 0, at = x[i];
    for (int k = degree; k >= 0; --k) v = v * at + c[k];
    y[i] = v;
}
}
