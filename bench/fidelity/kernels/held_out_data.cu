extern "C" {
__global__ void mandelbrot(int *out, int width, int height, int most) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float cx = -2.0f + 3.0f * x / width, cy = -1.5f + 3.0f * y / height, zx = 0, zy = 0;
    int i = 0;
    while (i < most && zx * zx + zy * zy < 4.0f) {
        float t = zx * zx - zy * zy + cx;
        zy = 2 * zx * zy + cy;
        zx = t;
        ++i;
    }
    out[y * width + x] = i;
}
__global__ void julia(unsigned char *out, int width, float cx, float cy, int most) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width * width) return;
    float zx = 3.0f * (i % width) / width - 1.5f, zy = 3.0f * (i / width) / width - 1.5f;
    int n = 0;
    for (; n < most; ++n) {
        float t = zx * zx - zy * zy + cx;
        zy = 2 * zx * zy + cy;
        zx = t;
        if (zx * zx + zy * zy > 4.0f) break;
    }
    out[i] = n % 256;
}
__global__ void newton_fractal(int *out, int width, float tolerance) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float a = 4.0f * x / width - 2.0f, b = 4.0f * y / width - 2.0f;
    int rounds = 0;
    for (; rounds < 100; ++rounds) {
        float r2 = a * a - b * b, i2 = 2 * a * b;
        float r3 = r2 * a - i2 * b - 1, i3 = r2 * b + i2 * a;
        float d = 9 * (r2 * r2 + i2 * i2) + 1e-12f;
        float da = 3 * (r3 * r2 + i3 * i2) / d, db = 3 * (i3 * r2 - r3 * i2) / d;
        a -= da;
        b -= db;
        if (da * da + db * db < tolerance) break;
    }
    out[y * width + x] = rounds;
}
__global__ void collatz(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long v = i + 1;
    int steps = 0;
    while (v != 1) {
        v = v % 2 ? 3 * v + 1 : v / 2;
        ++steps;
    }
    out[i] = steps;
}
__global__ void primes(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int prime = i > 1;
    for (int d = 2; d * d <= i; ++d)
        if (i % d == 0) { prime = 0; break; }
    out[i] = prime;
}
__global__ void common_divisor(const int *a, const int *b, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = a[i], y = b[i];
    while (y) {
        int t = x % y;
        x = y;
        y = t;
    }
    out[i] = x;
}
__global__ void sparse_rows(const int *start, const int *column, const float *value, const float *x, float *y, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int k = start[row]; k < start[row + 1]; ++k) sum += value[k] * x[column[k]];
    y[row] = sum;
}
__global__ void sparse_warps(const int *start, const int *column, const float *value, const float *x, float *y, int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0;
    for (int k = start[row] + lane; k < start[row + 1]; k += 32) sum += value[k] * x[column[k]];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
    if (lane == 0) y[row] = sum;
}
__global__ void search_level(const int *start, const int *edge, const int *level_in, int *level_out, int level, int nodes) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= nodes || level_in[v] != level) return;
    for (int k = start[v]; k < start[v + 1]; ++k) {
        int w = edge[k];
        if (level_in[w] < 0) level_out[w] = level + 1;
    }
}
__global__ void push_rank(const int *start, const int *edge, const float *rank, float *next, int nodes) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= nodes) return;
    int first = start[v], last = start[v + 1];
    if (first == last) return;
    float share = rank[v] / (last - first);
    for (int k = first; k < last; ++k) atomicAdd(&next[edge[k]], share);
}
__global__ void histogram_global(const unsigned char *x, int *bins, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i]], 1);
}
__global__ void histogram_shared(const unsigned char *x, int *bins, int n) {
    __shared__ int own[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) own[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[x[i]], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&bins[b], own[b]);
}
__global__ void lower_bound(const int *sorted, int n, const int *query, int *out, int queries) {
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= queries) return;
    int low = 0, high = n, key = query[q];
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle] < key) low = middle + 1;
        else high = middle;
    }
    out[q] = low;
}
__global__ void table_find(const unsigned *table, unsigned mask, const unsigned *keys, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = keys[i], slot = key * 2654435761u & mask;
    int steps = 0;
    while (table[slot] != key && table[slot] != 0) {
        slot = (slot + 1) & mask;
        ++steps;
    }
    out[i] = table[slot] == key ? steps : -1;
}
__global__ void find_word(const char *text, int n, const char *word, int length, int *found) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n - length) return;
    int j = 0;
    while (j < length && text[i + j] == word[j]) ++j;
    if (j == length) atomicAdd(found, 1);
}
__global__ void spheres(const float4 *sphere, int count, float *image, int width) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    float x = 2.0f * px / width - 1.0f, y = 2.0f * py / width - 1.0f, light = 0, weight = 1;
    float ox = 0, oy = 0, oz = -3, dx = x, dy = y, dz = 1.5f;
    for (int bounce = 0; bounce < 4; ++bounce) {
        float norm = rsqrtf(dx * dx + dy * dy + dz * dz), nearest = 1e30f;
        int hit = -1;
        dx *= norm; dy *= norm; dz *= norm;
        for (int s = 0; s < count; ++s) {
            float cx = sphere[s].x - ox, cy = sphere[s].y - oy, cz = sphere[s].z - oz, r = sphere[s].w;
            float along = cx * dx + cy * dy + cz * dz, off = cx * cx + cy * cy + cz * cz - along * along;
            if (along > 0 && off < r * r) {
                float t = along - sqrtf(r * r - off);
                if (t > 1e-3f && t < nearest) { nearest = t; hit = s; }
            }
        }
        if (hit < 0) { light += weight * (0.5f + 0.5f * dy); break; }
        ox += nearest * dx; oy += nearest * dy; oz += nearest * dz;
        float inverse = 1.0f / sphere[hit].w;
        float nx = (ox - sphere[hit].x) * inverse, ny = (oy - sphere[hit].y) * inverse, nz = (oz - sphere[hit].z) * inverse;
        float d = 2 * (dx * nx + dy * ny + dz * nz);
        dx -= d * nx; dy -= d * ny; dz -= d * nz;
        weight *= 0.7f;
    }
    image[py * width + px] = light;
}
__global__ void neighbours(const float2 *place, const int *first, int cells, float radius, int *count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 p = place[i];
    int cx = min(cells - 1, (int)(p.x * cells)), cy = min(cells - 1, (int)(p.y * cells)), found = 0;
    for (int y = max(0, cy - 1); y <= min(cells - 1, cy + 1); ++y)
        for (int x = max(0, cx - 1); x <= min(cells - 1, cx + 1); ++x)
            for (int k = first[y * cells + x]; k < first[y * cells + x + 1]; ++k) {
                float dx = place[k].x - p.x, dy = place[k].y - p.y;
                found += dx * dx + dy * dy < radius * radius;
            }
    count[i] = found;
}
__global__ void compact(const int *x, int *out, int *count, int below, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] < below) out[atomicAdd(count, 1) & (n - 1)] = x[i];
}
__global__ void uneven(const int *work, float *out) {
    float v = threadIdx.x;
    for (int i = 0; i < work[blockIdx.x]; ++i) v = v * 0.999f + 0.5f;
    out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
__global__ void uneven_lanes(const int *work, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = threadIdx.x;
    for (int k = work[i]; k > 0; --k) v = v * 0.999f + 0.5f;
    out[i] = v;
}
__global__ void insertion_sort(const int *x, int *y, int length, int segments) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= segments) return;
    for (int i = 0; i < length; ++i) {
        int v = x[i * segments + s], j = i;
        while (j > 0 && y[(j - 1) * segments + s] > v) {
            y[j * segments + s] = y[(j - 1) * segments + s];
            --j;
        }
        y[j * segments + s] = v;
    }
}
__global__ void random_walk(int *steps, int border, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned state = i * 747796405u + 2891336453u;
    int at = 0, count = 0;
    while (abs(at) < border && count < 5000) {
        state = state * 1664525u + 1013904223u;
        at += state >> 31 ? 1 : -1;
        ++count;
    }
    steps[i] = count;
}
__global__ void dart_board(unsigned *hits, int throws) {
    unsigned state = (blockIdx.x * blockDim.x + threadIdx.x) * 9781u + 1u, inside = 0;
    for (int i = 0; i < throws; ++i) {
        state ^= state << 13; state ^= state >> 17; state ^= state << 5;
        float x = state * 2.3283064e-10f;
        state ^= state << 13; state ^= state >> 17; state ^= state << 5;
        float y = state * 2.3283064e-10f;
        if (x * x + y * y < 1.0f) ++inside;
    }
    atomicAdd(hits, inside);
}
}
