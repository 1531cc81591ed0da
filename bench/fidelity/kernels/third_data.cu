extern "C" {
// Rounds until something is found.
__device__ float scene(float x, float y, float z) {
    float ring = sqrtf(x * x + z * z) - 1.0f, torus = sqrtf(ring * ring + y * y) - 0.3f;
    float ball = sqrtf(x * x + y * y + z * z) - 0.4f, floor = y + 0.8f;
    return fminf(torus, fminf(ball, floor));
}
__global__ void march_rays(int *steps, int width, float close, int most) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= width) return;
    float dx = (px - width / 2) * 1.6f / width, dy = (width / 2 - py) * 1.6f / width, dz = 1.0f;
    float norm = rsqrtf(dx * dx + dy * dy + dz * dz), along = 0;
    int n = 0;
    while (n < most && along < 20.0f) {
        float d = scene(along * dx * norm, along * dy * norm + 0.4f, along * dz * norm - 3.0f);
        if (d < close) break;
        along += d;
        ++n;
    }
    steps[py * width + px] = n;
}
__global__ void cube_root(const double *x, double *root, double tolerance, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double low = 0, high = x[i] + 1, middle = high / 2;
    while (high - low > tolerance) {
        if (middle * middle * middle < x[i]) low = middle;
        else high = middle;
        middle = 0.5 * (low + high);
    }
    root[i] = middle;
}
__global__ void happy(const int *number, int *rounds, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = number[i], count = 0;
    while (v != 1 && v != 4) {
        int sum = 0;
        while (v) {
            int digit = v % 10;
            sum += digit * digit;
            v /= 10;
        }
        v = sum;
        ++count;
    }
    rounds[i] = count;
}
__global__ void power_modulo(const unsigned *base, const unsigned *exponent, unsigned *out, unsigned modulus, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long b = base[i] % modulus, result = 1;
    for (unsigned e = exponent[i]; e; e >>= 1) {
        if (e & 1) result = result * b % modulus;
        b = b * b % modulus;
    }
    out[i] = (unsigned)result;
}
__global__ void absorbed(float *depth, float chance, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned s = 2654435769u * (i + 1);
    float x = 0, cosine = 1;
    for (int hits = 0; hits < 400; ++hits) {
        s ^= s << 13; s ^= s >> 17; s ^= s << 5;
        x -= cosine * logf((s >> 8) * 5.9604645e-8f + 1e-7f);
        s ^= s << 13; s ^= s >> 17; s ^= s << 5;
        float u = (s >> 8) * 5.9604645e-8f;
        if (x < 0 || u < chance) break;
        s ^= s << 13; s ^= s >> 17; s ^= s << 5;
        cosine = (s >> 8) * 1.1920929e-7f - 1.0f;
    }
    depth[i] = x;
}
__global__ void ising(const signed char *spin, signed char *next, float beta, int w, int colour) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= w) return;
    int i = y * w + x, s = spin[i];
    if ((x + y) % 2 == colour) {
        int sum = spin[y * w + (x + 1) % w] + spin[y * w + (x + w - 1) % w] + spin[(y + 1) % w * w + x] +
                  spin[(y + w - 1) % w * w + x];
        int cost = 2 * s * sum;
        if (cost <= 0) s = -s;
        else {
            unsigned r = i * 747796405u + 2891336453u;
            r = ((r >> ((r >> 28) + 4)) ^ r) * 277803737u;
            r ^= r >> 22;
            if ((r >> 8) * 5.9604645e-8f < expf(-beta * cost)) s = -s;
        }
    }
    next[i] = s;
}
// Sparse matrices.
__global__ void ell_product(const int *column, const float *value, const float *x, float *y, int rows, int width) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0;
    for (int k = 0; k < width; ++k) {
        int c = column[k * rows + r];
        if (c >= 0) sum += value[k * rows + r] * x[c];
    }
    y[r] = sum;
}
__global__ void coo_product(const int *row, const int *column, const float *value, const float *x, float *y, int count) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < count) atomicAdd(&y[row[k]], value[k] * x[column[k]]);
}
__global__ void csr_eights(const int *start, const int *column, const float *value, const float *x, float *y, int rows) {
    int r = (blockIdx.x * blockDim.x + threadIdx.x) / 8, lane = threadIdx.x % 8;
    float sum = 0;
    if (r < rows)
        for (int k = start[r] + lane; k < start[r + 1]; k += 8) sum += value[k] * x[column[k]];
    for (int d = 4; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d, 8);
    if (r < rows && lane == 0) y[r] = sum;
}
__global__ void row_maxima(const int *start, const float *value, float *most, int rows) {
    __shared__ float s[64];
    for (int r = blockIdx.x; r < rows; r += gridDim.x) {
        float v = -1;
        for (int k = start[r] + threadIdx.x; k < start[r + 1]; k += 64) v = fmaxf(v, value[k]);
        s[threadIdx.x] = v;
        for (int d = 32; d > 0; d /= 2) {
            __syncthreads();
            if (threadIdx.x < d) s[threadIdx.x] = fmaxf(s[threadIdx.x], s[threadIdx.x + d]);
        }
        if (threadIdx.x == 0) most[r] = s[0];
        __syncthreads();
    }
}
// Graphs.
__global__ void count_triangles(const int *from, const int *to, const int *start, const int *edge, int *found, int edges) {
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= edges) return;
    int a = start[from[e]], last_a = start[from[e] + 1], b = start[to[e]], last_b = start[to[e] + 1], count = 0;
    while (a < last_a && b < last_b) {
        int u = edge[a], v = edge[b];
        count += u == v;
        a += u <= v;
        b += v <= u;
    }
    found[e] = count;
}
__global__ void spread_labels(const int *from, const int *to, const int *label, int *next, int edges) {
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= edges) return;
    int a = label[from[e]], b = label[to[e]];
    if (a < b) atomicMin(&next[to[e]], a);
    if (b < a) atomicMin(&next[from[e]], b);
}
__global__ void relax_edges(const int *from, const int *to, const int *length, const int *distance, int *next, int edges) {
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= edges) return;
    int d = distance[from[e]];
    if (d == 0x7fffffff) return;
    if (d + length[e] < distance[to[e]]) atomicMin(&next[to[e]], d + length[e]);
}
__global__ void pull_rank(const int *start, const int *from, const float *rank, const int *degree, float *next, int nodes) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= nodes) return;
    float sum = 0;
    for (int k = start[v]; k < start[v + 1]; ++k) sum += rank[from[k]] / degree[from[k]];
    next[v] = 0.15f / nodes + 0.85f * sum;
}
// Images.
__global__ void colour_histogram(const uchar4 *image, int *bins, int n) {
    __shared__ int own[192];
    for (int b = threadIdx.x; b < 192; b += blockDim.x) own[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uchar4 p = image[i];
        atomicAdd(&own[p.x / 4], 1);
        atomicAdd(&own[64 + p.y / 4], 1);
        atomicAdd(&own[128 + p.z / 4], 1);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < 192; b += blockDim.x) atomicAdd(&bins[b], own[b]);
}
__global__ void joint_histogram(const uchar4 *image, int *bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[image[i].x / 4 * 64 + image[i].y / 4], 1);
}
__global__ void despeckle(const unsigned char *in, unsigned char *out, int w, int h, int threshold) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int here = in[y * w + x];
    if (x > 0 && y > 0 && x < w - 1 && y < h - 1) {
        int sum = in[y * w + x - 1] + in[y * w + x + 1] + in[(y - 1) * w + x] + in[(y + 1) * w + x];
        if (abs(4 * here - sum) > 4 * threshold) {
            unsigned char v[9];
            for (int k = 0; k < 9; ++k) v[k] = in[(y + k / 3 - 1) * w + x + k % 3 - 1];
            for (int i = 0; i < 5; ++i)
                for (int j = i + 1; j < 9; ++j)
                    if (v[j] < v[i]) {
                        unsigned char t = v[i];
                        v[i] = v[j];
                        v[j] = t;
                    }
            here = v[4];
        }
    }
    out[y * w + x] = here;
}
__global__ void next_ink(const unsigned char *page, int *distance, int w, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = i % w, d = 0;
    while (x + d < w && !page[i + d]) ++d;
    distance[i] = d;
}
__global__ void inside_polygon(const float2 *point, const float2 *corner, int corners, float left, float right, float low,
                               float high, int *inside, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 p = point[i];
    int in = 0;
    if (p.x >= left && p.x <= right && p.y >= low && p.y <= high)
        for (int a = 0, b = corners - 1; a < corners; b = a++)
            if ((corner[a].y > p.y) != (corner[b].y > p.y) &&
                p.x < (corner[b].x - corner[a].x) * (p.y - corner[a].y) / (corner[b].y - corner[a].y) + corner[a].x)
                in = !in;
    inside[i] = in;
}
// Texts.
__global__ void count_words(const char *text, const int *line, int *words, int lines) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= lines) return;
    int count = 0, within = 0;
    for (int k = line[i]; k < line[i + 1]; ++k) {
        int letter = text[k] != ' ';
        count += letter && !within;
        within = letter;
    }
    words[i] = count;
}
__global__ void horspool(const char *text, const char *word, const int *skip, int length, int *found, int part, int n) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * part;
    if (first >= n) return;
    int last = min(first + part, n - length + 1), count = 0;
    for (int at = first; at < last;) {
        int k = length - 1;
        while (k >= 0 && text[at + k] == word[k]) --k;
        count += k < 0;
        at += skip[text[at + length - 1]];
    }
    found[first / part] = count;
}
// Sorts, a thread each.
__global__ void heap_sort(const float *in, float *out, int length, int segments) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= segments) return;
    float *v = out + s * length;
    for (int i = 0; i < length; ++i) v[i] = in[s * length + i];
    for (int phase = length / 2 - 1 + length; phase > 0; --phase) {
        int root = phase >= length ? phase - length : 0, end = phase >= length ? length : phase;
        if (phase < length) {
            float t = v[0];
            v[0] = v[phase];
            v[phase] = t;
        }
        float moved = v[root];
        for (int child = 2 * root + 1; child < end; child = 2 * root + 1) {
            if (child + 1 < end && v[child + 1] > v[child]) ++child;
            if (v[child] <= moved) break;
            v[root] = v[child];
            root = child;
        }
        v[root] = moved;
    }
}
__global__ void shell_sort(const float *in, float *out, int length, int segments) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= segments) return;
    float *v = out + s * length;
    for (int i = 0; i < length; ++i) v[i] = in[s * length + i];
    for (int gap = length / 2; gap > 0; gap /= 2)
        for (int i = gap; i < length; ++i) {
            float moved = v[i];
            int j = i;
            for (; j >= gap && v[j - gap] > moved; j -= gap) v[j] = v[j - gap];
            v[j] = moved;
        }
}
__global__ void into_buckets(const unsigned *key, const int *start, int *used, unsigned *out, int shift, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int bucket = key[i] >> shift;
    out[start[bucket] + atomicAdd(&used[bucket], 1) % (start[bucket + 1] - start[bucket])] = key[i];
}
__global__ void merge_path(const int *a, int na, const int *b, int nb, int *out, int each) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * each;
    if (first >= na + nb) return;
    int low = max(0, first - nb), high = min(first, na);
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= b[first - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    int i = low, j = first - low;
    for (int k = first; k < min(first + each, na + nb); ++k) out[k] = j >= nb || (i < na && a[i] <= b[j]) ? a[i++] : b[j++];
}
__global__ void nearest_eight(const float *x, const float *query, float *distance, int n, int queries) {
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= queries) return;
    float best[8];
    for (int k = 0; k < 8; ++k) best[k] = 1e30f;
    for (int i = 0; i < n; ++i) {
        float d = fabsf(x[i] - query[q]);
        if (d < best[7]) {
            int k = 7;
            for (; k > 0 && best[k - 1] > d; --k) best[k] = best[k - 1];
            best[k] = d;
        }
    }
    for (int k = 0; k < 8; ++k) distance[k * queries + q] = best[k];
}
// Particles.
__global__ void cell_lists(const float4 *place, const int *head, const int *next, int cells, float reach, float *energy, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = place[i];
    int cx = p.x * cells, cy = p.y * cells, cz = p.z * cells;
    float sum = 0;
    for (int z = max(0, cz - 1); z <= min(cells - 1, cz + 1); ++z)
        for (int y = max(0, cy - 1); y <= min(cells - 1, cy + 1); ++y)
            for (int x = max(0, cx - 1); x <= min(cells - 1, cx + 1); ++x)
                for (int k = head[(z * cells + y) * cells + x]; k >= 0; k = next[k]) {
                    float dx = place[k].x - p.x, dy = place[k].y - p.y, dz = place[k].z - p.z;
                    float d2 = dx * dx + dy * dy + dz * dz;
                    if (k != i && d2 < reach * reach) {
                        float s = reach * reach / (d2 + 1e-6f), s3 = s * s * s;
                        sum += s3 * s3 - s3;
                    }
                }
    energy[i] = sum;
}
__global__ void verlet_lists(const float4 *place, const int *first, const int *other, float4 *force, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = place[i];
    float fx = 0, fy = 0, fz = 0;
    for (int k = first[i]; k < first[i + 1]; ++k) {
        float4 o = place[other[k]];
        float dx = o.x - p.x, dy = o.y - p.y, dz = o.z - p.z, f = o.w / (dx * dx + dy * dy + dz * dz + 0.1f);
        fx += f * dx;
        fy += f * dy;
        fz += f * dz;
    }
    force[i] = make_float4(fx, fy, fz, 0);
}
}
