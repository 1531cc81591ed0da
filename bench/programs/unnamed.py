"""Programs that neither the design nor its issues name, timed by `bench.speed` beside those of `table.py`.

They were chosen after the compiler's wide form was written, to show that it does not only serve the programs it was
developed with: halos, sorting, sparse rows, integer bits, butterflies, text, atomics on floats, shuffles, exponentials.
"""

from __future__ import annotations

import numpy as np

from bench.programs.case import MILLION, Arrays, Case, Shape, line, rng, square

CONVOLUTION = r"""
#define R 2
extern "C" __global__ void kernel(const float* x, const float* w, float* y, int n) {
    __shared__ float s[16 + 2 * R][16 + 2 * R];
    int i = blockIdx.x * 16 + threadIdx.x, j = blockIdx.y * 16 + threadIdx.y;
    for (int r = threadIdx.y; r < 16 + 2 * R; r += 16)
        for (int c = threadIdx.x; c < 16 + 2 * R; c += 16) {
            int a = blockIdx.y * 16 + r - R, b = blockIdx.x * 16 + c - R;
            s[r][c] = a >= 0 && a < n && b >= 0 && b < n ? x[a * n + b] : 0.0f;
        }
    __syncthreads();
    if (i >= n || j >= n) return;
    float sum = 0.0f;
    for (int r = 0; r <= 2 * R; r++)
        for (int c = 0; c <= 2 * R; c++) sum += w[r * (2 * R + 1) + c] * s[threadIdx.y + r][threadIdx.x + c];
    y[j * n + i] = sum;
}
"""
CONVOLUTION_C = r"""
void run(const float* x, const float* w, float* y, int n) {
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            float sum = 0.0f;
            for (int r = -2; r <= 2; r++)
                for (int c = -2; c <= 2; c++)
                    if (j + r >= 0 && j + r < n && i + c >= 0 && i + c < n)
                        sum += w[(r + 2) * 5 + c + 2] * x[(j + r) * n + i + c];
            y[j * n + i] = sum;
        }
}
"""


def _convolution(inputs: list[np.ndarray], n: int) -> np.ndarray:
    x = np.pad(inputs[0], 2)
    total = np.zeros((n, n), np.float32)
    for r in range(5):
        for c in range(5):
            total += inputs[1][r, c] * x[r : r + n, c : c + n]
    return total


BITONIC = r"""
extern "C" __global__ void kernel(const int* x, int* y, int n) {
    __shared__ int s[512];
    int t = threadIdx.x, base = blockIdx.x * 512;
    s[t] = x[base + t]; s[t + 256] = x[base + t + 256];
    for (int k = 2; k <= 512; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            __syncthreads();
            int a = 2 * t - (t & (j - 1)), b = a + j;
            int u = s[a], v = s[b];
            if ((u > v) == ((a & k) == 0)) { s[a] = v; s[b] = u; }
        }
    __syncthreads();
    y[base + t] = s[t]; y[base + t + 256] = s[t + 256];
}
"""
BITONIC_C = r"""
void run(const int* x, int* y, int n) {
    for (int base = 0; base < n; base += 512) {
        int* s = y + base;
        for (int t = 0; t < 512; t++) s[t] = x[base + t];
        for (int k = 2; k <= 512; k *= 2)
            for (int j = k / 2; j > 0; j /= 2)
                for (int t = 0; t < 256; t++) {
                    int a = 2 * t - (t & (j - 1)), b = a + j, u = s[a], v = s[b];
                    if ((u > v) == ((a & k) == 0)) { s[a] = v; s[b] = u; }
                }
    }
}
"""

TILED_BODIES = r"""
extern "C" __global__ void kernel(const float4* p, float4* a, int n) {
    __shared__ float4 tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    float4 me = p[i];
    float ax = 0, ay = 0, az = 0;
    for (int t = 0; t < n; t += 128) {
        tile[threadIdx.x] = p[t + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 128; j++) {
            float4 o = tile[j];
            float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
            float f = o.w * r * r * r;
            ax += dx * f; ay += dy * f; az += dz * f;
        }
        __syncthreads();
    }
    a[i] = make_float4(ax, ay, az, 0);
}
"""
TILED_BODIES_C = r"""
#include <math.h>
void run(const float* p, float* a, int n) {
    for (int i = 0; i < n; i++) {
        float x = p[4 * i], y = p[4 * i + 1], z = p[4 * i + 2], ax = 0, ay = 0, az = 0;
        for (int j = 0; j < n; j++) {
            float dx = p[4 * j] - x, dy = p[4 * j + 1] - y, dz = p[4 * j + 2] - z;
            float r = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
            float f = p[4 * j + 3] * r * r * r;
            ax += dx * f; ay += dy * f; az += dz * f;
        }
        a[4 * i] = ax; a[4 * i + 1] = ay; a[4 * i + 2] = az; a[4 * i + 3] = 0;
    }
}
"""


def _bodies(inputs: list[np.ndarray], n: int) -> np.ndarray:
    p = inputs[0]
    d = p[None, :, :3] - p[:, None, :3]
    inverse = 1 / np.sqrt((d * d).sum(axis=2) + np.float32(1e-3))
    a = (d * (p[None, :, 3] * inverse**3)[:, :, None]).sum(axis=1)
    return np.concatenate([a, np.zeros((n, 1), np.float32)], axis=1).astype(np.float32)


SPARSE_ROWS = r"""
extern "C" __global__ void kernel(const int* start, const int* column, const float* value, const float* x, float* y,
                                  int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0.0f;
    for (int k = start[row]; k < start[row + 1]; k++) sum += value[k] * x[column[k]];
    y[row] = sum;
}
"""
SPARSE_ROWS_C = r"""
void run(const int* start, const int* column, const float* value, const float* x, float* y, int n) {
    for (int row = 0; row < n; row++) {
        float sum = 0.0f;
        for (int k = start[row]; k < start[row + 1]; k++) sum += value[k] * x[column[k]];
        y[row] = sum;
    }
}
"""


def _sparse_arrays(n: int) -> Arrays:
    r = rng()
    start = np.zeros(n + 1, np.int32)
    start[1:] = np.cumsum(r.integers(0, 32, n))
    count = int(start[-1])
    column = r.integers(0, n, count).astype(np.int32)
    return [start, column, r.random(count, np.float32), r.random(n, np.float32)], np.zeros(n, np.float32)


def _sparse(inputs: list[np.ndarray], n: int) -> np.ndarray:
    start, column, value, x = inputs
    sums = np.concatenate([[0.0], np.cumsum(value.astype(np.float64) * x[column])])
    return (sums[start[1:]] - sums[start[:-1]]).astype(np.float32)


LIFE = r"""
extern "C" __global__ void kernel(const unsigned char* x, unsigned char* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || j >= n) return;
    int left = i ? i - 1 : n - 1, right = i + 1 < n ? i + 1 : 0, up = j ? j - 1 : n - 1, down = j + 1 < n ? j + 1 : 0;
    int c = x[up * n + left] + x[up * n + i] + x[up * n + right] + x[j * n + left] + x[j * n + right]
          + x[down * n + left] + x[down * n + i] + x[down * n + right];
    y[j * n + i] = c == 3 || (c == 2 && x[j * n + i]);
}
"""
LIFE_C = r"""
void run(const unsigned char* x, unsigned char* y, int n) {
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            int left = i ? i - 1 : n - 1, right = i + 1 < n ? i + 1 : 0;
            int up = j ? j - 1 : n - 1, down = j + 1 < n ? j + 1 : 0;
            int c = x[up * n + left] + x[up * n + i] + x[up * n + right] + x[j * n + left] + x[j * n + right]
                  + x[down * n + left] + x[down * n + i] + x[down * n + right];
            y[j * n + i] = c == 3 || (c == 2 && x[j * n + i]);
        }
}
"""


def _life(inputs: list[np.ndarray], n: int) -> np.ndarray:
    x = inputs[0].astype(np.int32)
    shifts = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
    c = sum(np.roll(x, shift, (0, 1)) for shift in shifts)
    return ((c == 3) | ((c == 2) & (x == 1))).astype(np.uint8)


BUTTERFLIES = r"""
extern "C" __global__ void kernel(const float2* x, const float2* roots, float2* y, int n) {
    __shared__ float re[256], im[256];
    int t = threadIdx.x, base = blockIdx.x * 256;
    for (int k = t; k < 256; k += 128) { float2 v = x[base + (__brev(k) >> 24)]; re[k] = v.x; im[k] = v.y; }
    for (int half = 1; half < 256; half *= 2) {
        __syncthreads();
        int p = t & (half - 1), a = 2 * t - p, b = a + half;
        float2 w = roots[p * (128 / half)];
        float c = re[b] * w.x - im[b] * w.y, d = re[b] * w.y + im[b] * w.x;
        re[b] = re[a] - c; im[b] = im[a] - d; re[a] += c; im[a] += d;
    }
    __syncthreads();
    for (int k = t; k < 256; k += 128) y[base + k] = make_float2(re[k], im[k]);
}
"""
BUTTERFLIES_C = r"""
void run(const float* x, const float* roots, float* y, int n) {
    for (int base = 0; base < n; base += 256) {
        float re[256], im[256];
        for (int k = 0; k < 256; k++) {
            int r = 0;
            for (int b = 0; b < 8; b++) r |= (k >> b & 1) << (7 - b);
            re[k] = x[2 * (base + r)]; im[k] = x[2 * (base + r) + 1];
        }
        for (int half = 1; half < 256; half *= 2)
            for (int t = 0; t < 128; t++) {
                int p = t & (half - 1), a = 2 * t - p, b = a + half, q = p * (128 / half);
                float u = roots[2 * q], v = roots[2 * q + 1];
                float c = re[b] * u - im[b] * v, d = re[b] * v + im[b] * u;
                re[b] = re[a] - c; im[b] = im[a] - d; re[a] += c; im[a] += d;
            }
        for (int k = 0; k < 256; k++) { y[2 * (base + k)] = re[k]; y[2 * (base + k) + 1] = im[k]; }
    }
}
"""


def _signal(n: int) -> Arrays:
    x = rng().standard_normal((n, 2)).astype(np.float32)
    roots = np.exp(-2j * np.pi * np.arange(128) / 256)
    return [x, np.stack([roots.real, roots.imag], 1).astype(np.float32)], np.zeros((n, 2), np.float32)


def _transform(inputs: list[np.ndarray], n: int) -> np.ndarray:
    x = inputs[0].astype(np.float64)
    y = np.fft.fft((x[:, 0] + 1j * x[:, 1]).reshape(-1, 256), axis=1).ravel()
    return np.stack([y.real, y.imag], 1).astype(np.float32)


TEXT = r"""
extern "C" __global__ void kernel(const unsigned char* text, const unsigned char* word, int* found, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 8 > n) return;
    int k = 0;
    while (k < 8 && text[i + k] == word[k]) k++;
    found[i] = k;
}
"""
TEXT_C = r"""
void run(const unsigned char* text, const unsigned char* word, int* found, int n) {
    for (int i = 0; i + 8 <= n; i++) {
        int k = 0;
        while (k < 8 && text[i + k] == word[k]) k++;
        found[i] = k;
    }
}
"""


def _text_arrays(n: int) -> Arrays:
    r = rng()
    return [r.integers(97, 100, n, dtype=np.uint8), r.integers(97, 100, 8, dtype=np.uint8)], np.zeros(n, np.int32)


def _matches(inputs: list[np.ndarray], n: int) -> np.ndarray:
    text, word = inputs
    found, running = np.zeros(n, np.int32), np.ones(n - 7, bool)
    for k in range(8):
        running &= text[k : n - 7 + k] == word[k]
        found[: n - 7] += running
    return found


HISTOGRAM_OF_WEIGHTS = r"""
extern "C" __global__ void kernel(const float* x, const float* w, float* bins, int n) {
    __shared__ float s[64];
    if (threadIdx.x < 64) s[threadIdx.x] = 0.0f;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&s[(int)(x[i] * 64.0f) & 63], w[i]);
    __syncthreads();
    if (threadIdx.x < 64) bins[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x];
}
"""
HISTOGRAM_OF_WEIGHTS_C = r"""
void run(const float* x, const float* w, float* bins, int n) {
    for (int b = 0; b < 64; b++) {
        for (int k = 0; k < 64; k++) bins[b * 64 + k] = 0.0f;
        for (int base = b * 256; base < n; base += 64 * 256)
            for (int i = base; i < base + 256 && i < n; i++) bins[b * 64 + ((int)(x[i] * 64.0f) & 63)] += w[i];
    }
}
"""


def _weights(inputs: list[np.ndarray], n: int) -> np.ndarray:
    x, w = inputs
    block = np.arange(n) // 256 % 64
    bins = np.zeros(64 * 64, np.float64)
    np.add.at(bins, block * 64 + ((x * np.float32(64)).astype(np.int32) & 63), w)
    return bins.astype(np.float32)


SOFTMAX = r"""
extern "C" __global__ void kernel(const float* x, float* y, int n) {
    __shared__ float parts[8];
    int t = threadIdx.x, row = blockIdx.x;
    float v[4], top = -1e30f, sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < 4; k++) { v[k] = x[row * 1024 + k * 256 + t]; top = fmaxf(top, v[k]); }
    for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
    if (t % 32 == 0) parts[t / 32] = top;
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < 8; k++) top = fmaxf(top, parts[k]);
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < 4; k++) { v[k] = __expf(v[k] - top); sum += v[k]; }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (t % 32 == 0) parts[t / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < 8; k++) sum += parts[k];
    #pragma unroll
    for (int k = 0; k < 4; k++) y[row * 1024 + k * 256 + t] = v[k] / sum;
}
"""
SOFTMAX_C = r"""
#include <math.h>
void run(const float* x, float* y, int n) {
    for (int row = 0; row < n; row++) {
        const float* a = x + row * 1024;
        float top = -1e30f, sum = 0.0f;
        for (int k = 0; k < 1024; k++) top = a[k] > top ? a[k] : top;
        for (int k = 0; k < 1024; k++) sum += y[row * 1024 + k] = expf(a[k] - top);
        for (int k = 0; k < 1024; k++) y[row * 1024 + k] /= sum;
    }
}
"""


def _softmax(inputs: list[np.ndarray], n: int) -> np.ndarray:
    e = np.exp(inputs[0] - inputs[0].max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(np.float32)


RANDOM_WALK = r"""
extern "C" __global__ void kernel(const unsigned* seed, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned s = seed[i];
    int x = 0;
    for (int k = 0; k < 64; k++) {
        s ^= s << 13; s ^= s >> 17; s ^= s << 5;
        x += s & 1 ? 1 : -1;
        if (x == 20 || x == -20) break;
    }
    y[i] = x;
}
"""
RANDOM_WALK_C = r"""
void run(const unsigned* seed, int* y, int n) {
    for (int i = 0; i < n; i++) {
        unsigned s = seed[i];
        int x = 0;
        for (int k = 0; k < 64; k++) {
            s ^= s << 13; s ^= s >> 17; s ^= s << 5;
            x += s & 1 ? 1 : -1;
            if (x == 20 || x == -20) break;
        }
        y[i] = x;
    }
}
"""


def _walk(inputs: list[np.ndarray], n: int) -> np.ndarray:
    s, x, going = inputs[0].copy(), np.zeros(n, np.int32), np.ones(n, bool)
    for _ in range(64):
        s ^= s << np.uint32(13)
        s ^= s >> np.uint32(17)
        s ^= s << np.uint32(5)
        x = np.where(going, x + np.where(s & 1, 1, -1), x)
        going &= np.abs(x) != 20
    return x.astype(np.int32)


BLELLOCH = r"""
extern "C" __global__ void kernel(const int* x, int* y, int n) {
    __shared__ int s[512];
    int t = threadIdx.x, base = blockIdx.x * 512, offset = 1;
    s[2 * t] = x[base + 2 * t]; s[2 * t + 1] = x[base + 2 * t + 1];
    for (int d = 256; d > 0; d /= 2) {
        __syncthreads();
        if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) s[511] = 0;
    for (int d = 1; d < 512; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1, v = s[a];
            s[a] = s[b]; s[b] += v;
        }
    }
    __syncthreads();
    y[base + 2 * t] = s[2 * t]; y[base + 2 * t + 1] = s[2 * t + 1];
}
"""
BLELLOCH_C = r"""
void run(const int* x, int* y, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) {
        if (i % 512 == 0) s = 0;
        y[i] = s;
        s += x[i];
    }
}
"""


def _exclusive(inputs: list[np.ndarray], n: int) -> np.ndarray:
    x = inputs[0].reshape(-1, 512)
    return (np.cumsum(x, axis=1, dtype=np.int32) - x).ravel()


def unnamed() -> list[Case]:
    """The programs."""

    def ints(n: int) -> Arrays:
        return [rng().integers(0, 1000, n).astype(np.int32)], np.zeros(n, np.int32)

    def image(n: int) -> Arrays:
        r = rng()
        return [r.random((n, n), np.float32), r.random((5, 5), np.float32)], np.zeros((n, n), np.float32)

    def bodies(n: int) -> Arrays:
        return [rng().random((n, 4), np.float32)], np.zeros((n, 4), np.float32)

    def cells(n: int) -> Arrays:
        return [rng().integers(0, 2, (n, n)).astype(np.uint8)], np.zeros((n, n), np.uint8)

    def weights(n: int) -> Arrays:
        r = rng()
        return [r.random(n, np.float32), r.random(n, np.float32)], np.zeros(64 * 64, np.float32)

    def rows(n: int) -> Arrays:
        return [rng().standard_normal((n, 1024)).astype(np.float32)], np.zeros((n, 1024), np.float32)

    def seeds(n: int) -> Arrays:
        return [rng().integers(1, 2**32, n, dtype=np.uint32)], np.zeros(n, np.int32)

    def half(n: int) -> Shape:
        return (n // 512,), (256,)

    return [
        Case("convolution with halo", 512, 64, CONVOLUTION, CONVOLUTION_C, image, square, _convolution, "", False,
             1e-4),
        Case("bitonic sort of blocks", MILLION // 4, 1024, BITONIC, BITONIC_C, ints, half,
             lambda i, n: np.sort(i[0].reshape(-1, 512), axis=1).ravel(), "", False),
        Case("n-body in tiles", 2048, 256, TILED_BODIES, TILED_BODIES_C, bodies, lambda n: ((n // 128,), (128,)),
             _bodies, "", False, 1e-3),
        Case("sparse rows", 1 << 17, 1024, SPARSE_ROWS, SPARSE_ROWS_C, _sparse_arrays, line, _sparse, "", False, 1e-3),
        Case("game of life", 1024, 64, LIFE, LIFE_C, cells, square, _life, "", False),
        Case("Fourier transform of blocks", MILLION // 4, 1024, BUTTERFLIES, BUTTERFLIES_C, _signal,
             lambda n: ((n // 256,), (128,)), _transform, "", False, 1e-2),
        Case("text search", MILLION, 4096, TEXT, TEXT_C, _text_arrays, line, _matches, "", False),
        Case("float atomics", MILLION // 4, 4096, HISTOGRAM_OF_WEIGHTS, HISTOGRAM_OF_WEIGHTS_C, weights,
             lambda n: ((64,), (256,)), _weights, "", False, 1e-3),
        Case("softmax of rows", 1024, 16, SOFTMAX, SOFTMAX_C, rows, lambda n: ((n,), (256,)), _softmax, "", False,
             1e-4),
        Case("random walks", 1 << 17, 4096, RANDOM_WALK, RANDOM_WALK_C, seeds, line, _walk, "", False),
        Case("work-efficient scan", MILLION, 1024, BLELLOCH, BLELLOCH_C, ints, half, _exclusive, "", False),
    ]  # fmt: skip
