"""The programs that `bench.speed` times: CUDA C++, the same work in scalar C, in NumPy, and for Numba's simulator."""

from __future__ import annotations

import numpy as np

from bench.programs.case import MILLION, Arrays, Case, Shape, blocks, line, rng, square


def _two_vectors(n: int) -> Arrays:
    r = rng()
    return [r.random(n, np.float32), r.random(n, np.float32)], np.zeros(n, np.float32)


def _two_matrices(n: int) -> Arrays:
    r = rng()
    return [r.random((n, n), np.float32), r.random((n, n), np.float32)], np.zeros((n, n), np.float32)


def _one_vector_to_sums(n: int) -> Arrays:
    return [rng().random(n, np.float32)], np.zeros(blocks(n, 256), np.float32)


def _bytes_to_bins(n: int) -> Arrays:
    return [rng().integers(0, 256, n, dtype=np.uint8)], np.zeros(256, np.int32)


def _one_matrix(n: int) -> Arrays:
    return [rng().random((n, n), np.float32)], np.zeros((n, n), np.float32)


def _block_sums(inputs: list[np.ndarray], n: int) -> np.ndarray:
    x = inputs[0]
    padded = np.zeros(blocks(x.size, 256) * 256, np.float32)
    padded[: x.size] = x
    return padded.reshape(-1, 256).sum(axis=1, dtype=np.float32)


def _stencil(inputs: list[np.ndarray], n: int) -> np.ndarray:
    x = inputs[0]
    out = np.zeros_like(x)
    out[1:-1, 1:-1] = np.float32(0.25) * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return out


def _mandelbrot_arrays(n: int) -> Arrays:
    return [], np.zeros((n, n), np.int32)


def _mandelbrot(inputs: list[np.ndarray], n: int) -> np.ndarray:
    step = np.float32(3.0) / np.float32(n)
    i = np.arange(n, dtype=np.float32)
    cx, cy = np.meshgrid(np.float32(-2.0) + i * step, np.float32(-1.5) + i * step)
    zx, zy = np.zeros_like(cx), np.zeros_like(cy)
    count = np.zeros((n, n), np.int32)
    alive = np.ones((n, n), bool)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(100):
            alive &= zx * zx + zy * zy <= 4
            count += alive
            zx, zy = np.where(alive, zx * zx - zy * zy + cx, zx), np.where(alive, 2 * zx * zy + cy, zy)
    return count


def _bodies(n: int) -> Arrays:
    return [rng().random((n, 4), np.float32)], np.zeros((n, 4), np.float32)


def _n_body(inputs: list[np.ndarray], n: int) -> np.ndarray:
    p = inputs[0]
    d = p[None, :, :3] - p[:, None, :3]
    inverse = 1 / np.sqrt((d * d).sum(axis=2) + np.float32(1e-3))
    a = (d * (p[None, :, 3] * inverse**3)[:, :, None]).sum(axis=1)
    return np.concatenate([a, np.zeros((len(p), 1), np.float32)], axis=1).astype(np.float32)


def _scan_arrays(n: int) -> Arrays:
    return [rng().integers(0, 100, n, dtype=np.int32)], np.zeros(n, np.int32)


def _block_scan(inputs: list[np.ndarray], n: int) -> np.ndarray:
    x = inputs[0]
    padded = np.zeros(blocks(x.size, 256) * 256, np.int32)
    padded[: x.size] = x
    return np.cumsum(padded.reshape(-1, 256), axis=1, dtype=np.int32).ravel()[: x.size]


VECTOR_ADD = r"""
extern "C" __global__ void kernel(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
VECTOR_ADD_C = (
    "void run(const float* a, const float* b, float* c, int n) { for (int i = 0; i < n; i++) c[i] = a[i] + b[i]; }"
)
VECTOR_ADD_NUMBA = """
def kernel(a, b, c, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = a[i] + b[i]
"""

NAIVE_MATMUL = r"""
extern "C" __global__ void kernel(const float* a, const float* b, float* c, int n) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || col >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
}
"""
NAIVE_MATMUL_C = r"""
void run(const float* a, const float* b, float* c, int n) {
    for (int row = 0; row < n; row++)
        for (int col = 0; col < n; col++) {
            float sum = 0.0f;
            for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + col];
            c[row * n + col] = sum;
        }
}
"""
NAIVE_MATMUL_NUMBA = """
def kernel(a, b, c, n):
    col, row = cuda.grid(2)
    if row < n and col < n:
        total = 0.0
        for k in range(n):
            total += a[row, k] * b[k, col]
        c[row, col] = total
"""

TILED_MATMUL = r"""
extern "C" __global__ void kernel(const float* a, const float* b, float* c, int n) {
    __shared__ float as[16][16], bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int col = blockIdx.x * 16 + tx, row = blockIdx.y * 16 + ty;
    float sum = 0.0f;
    for (int t = 0; t < n; t += 16) {
        as[ty][tx] = row < n && t + tx < n ? a[row * n + t + tx] : 0.0f;
        bs[ty][tx] = col < n && t + ty < n ? b[(t + ty) * n + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 16; k++) sum += as[ty][k] * bs[k][tx];
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = sum;
}
"""
TILED_MATMUL_C = r"""
void run(const float* a, const float* b, float* c, int n) {
    for (int row = 0; row < n; row++) {
        for (int col = 0; col < n; col++) c[row * n + col] = 0.0f;
        for (int k = 0; k < n; k++) {
            float x = a[row * n + k];
            for (int col = 0; col < n; col++) c[row * n + col] += x * b[k * n + col];
        }
    }
}
"""
TILED_MATMUL_NUMBA = """
def kernel(a, b, c, n):
    sa = cuda.shared.array((16, 16), float32)
    sb = cuda.shared.array((16, 16), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = 0.0
    for t in range(0, n, 16):
        sa[ty, tx] = a[row, t + tx] if row < n and t + tx < n else 0.0
        sb[ty, tx] = b[t + ty, col] if col < n and t + ty < n else 0.0
        cuda.syncthreads()
        for k in range(16):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    if row < n and col < n:
        c[row, col] = total
"""

SHARED_REDUCTION = r"""
extern "C" __global__ void kernel(const float* x, float* sums, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}
"""
REDUCTION_C = r"""
void run(const float* x, float* sums, int n) {
    for (int b = 0; b < (n + 255) / 256; b++) {
        float s = 0.0f;
        int end = (b + 1) * 256 < n ? (b + 1) * 256 : n;
        for (int i = b * 256; i < end; i++) s += x[i];
        sums[b] = s;
    }
}
"""
SHARED_REDUCTION_NUMBA = """
def kernel(x, sums, n):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < n else 0.0
    cuda.syncthreads()
    k = cuda.blockDim.x // 2
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = s[0]
"""
SHUFFLE_REDUCTION = r"""
extern "C" __global__ void kernel(const float* x, float* sums, int n) {
    __shared__ float s[32];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    float v = i < n ? x[i] : 0.0f;
    for (int k = 16; k > 0; k >>= 1) v += __shfl_down_sync(0xffffffffu, v, k);
    if (t % 32 == 0) s[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        v = t < blockDim.x / 32 ? s[t] : 0.0f;
        for (int k = 16; k > 0; k >>= 1) v += __shfl_down_sync(0xffffffffu, v, k);
        if (t == 0) sums[blockIdx.x] = v;
    }
}
"""

GLOBAL_HISTOGRAM = r"""
extern "C" __global__ void kernel(const unsigned char* x, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[x[i]], 1);
}
"""
SHARED_HISTOGRAM = r"""
extern "C" __global__ void kernel(const unsigned char* x, int* bins, int n) {
    __shared__ int local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) atomicAdd(&local[x[i]], 1);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
"""
HISTOGRAM_C = "void run(const unsigned char* x, int* bins, int n) { for (int i = 0; i < n; i++) bins[x[i]]++; }"
HISTOGRAM_NUMBA = """
def kernel(x, bins, n):
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(bins, x[i], 1)
"""

STENCIL = r"""
extern "C" __global__ void kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i > 0 && j > 0 && i < n - 1 && j < n - 1)
        y[j * n + i] = 0.25f * (x[(j - 1) * n + i] + x[(j + 1) * n + i] + x[j * n + i - 1] + x[j * n + i + 1]);
}
"""
STENCIL_C = r"""
void run(const float* x, float* y, int n) {
    for (int j = 1; j < n - 1; j++)
        for (int i = 1; i < n - 1; i++)
            y[j * n + i] = 0.25f * (x[(j - 1) * n + i] + x[(j + 1) * n + i] + x[j * n + i - 1] + x[j * n + i + 1]);
}
"""
STENCIL_NUMBA = """
def kernel(x, y, n):
    i, j = cuda.grid(2)
    if 0 < i < n - 1 and 0 < j < n - 1:
        y[j, i] = 0.25 * (x[j - 1, i] + x[j + 1, i] + x[j, i - 1] + x[j, i + 1])
"""

TRANSPOSE = r"""
extern "C" __global__ void kernel(const float* x, float* y, int n) {
    __shared__ float tile[16][17];
    int i = blockIdx.x * 16 + threadIdx.x, j = blockIdx.y * 16 + threadIdx.y;
    if (i < n && j < n) tile[threadIdx.y][threadIdx.x] = x[j * n + i];
    __syncthreads();
    i = blockIdx.y * 16 + threadIdx.x;
    j = blockIdx.x * 16 + threadIdx.y;
    if (i < n && j < n) y[j * n + i] = tile[threadIdx.x][threadIdx.y];
}
"""
TRANSPOSE_C = r"""
void run(const float* x, float* y, int n) {
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) y[i * n + j] = x[j * n + i];
}
"""
TRANSPOSE_NUMBA = """
def kernel(x, y, n):
    tile = cuda.shared.array((16, 17), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.grid(2)
    if i < n and j < n:
        tile[ty, tx] = x[j, i]
    cuda.syncthreads()
    i = cuda.blockIdx.y * 16 + tx
    j = cuda.blockIdx.x * 16 + ty
    if i < n and j < n:
        y[j, i] = tile[tx, ty]
"""

MANDELBROT = r"""
extern "C" __global__ void kernel(int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || j >= n) return;
    float step = 3.0f / n, cx = __fadd_rn(-2.0f, __fmul_rn(i, step)), cy = __fadd_rn(-1.5f, __fmul_rn(j, step));
    float zx = 0.0f, zy = 0.0f;
    int k = 0;
    while (k < 100) {
        float xx = __fmul_rn(zx, zx), yy = __fmul_rn(zy, zy);
        if (__fadd_rn(xx, yy) > 4.0f) break;
        zy = __fadd_rn(__fmul_rn(2.0f * zx, zy), cy);
        zx = __fadd_rn(__fsub_rn(xx, yy), cx);
        k++;
    }
    count[j * n + i] = k;
}
"""
MANDELBROT_C = r"""
void run(int* count, int n) {
    float step = 3.0f / n;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            float cx = -2.0f + i * step, cy = -1.5f + j * step, zx = 0.0f, zy = 0.0f;
            int k = 0;
            while (k < 100) {
                float xx = zx * zx, yy = zy * zy;
                if (xx + yy > 4.0f) break;
                zy = 2.0f * zx * zy + cy;
                zx = xx - yy + cx;
                k++;
            }
            count[j * n + i] = k;
        }
}
"""
MANDELBROT_NUMBA = """
def kernel(count, n):
    i, j = cuda.grid(2)
    if i < n and j < n:
        step = 3.0 / n
        cx, cy = -2.0 + i * step, -1.5 + j * step
        zx = zy = 0.0
        k = 0
        while k < 100:
            xx, yy = zx * zx, zy * zy
            if xx + yy > 4.0:
                break
            zy = 2.0 * zx * zy + cy
            zx = xx - yy + cx
            k += 1
        count[j, i] = k
"""

N_BODY = r"""
extern "C" __global__ void kernel(const float4* p, float4* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 me = p[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int j = 0; j < n; j++) {
        float4 o = p[j];
        float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
        float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
        float f = o.w * r * r * r;
        ax += dx * f; ay += dy * f; az += dz * f;
    }
    a[i] = make_float4(ax, ay, az, 0.0f);
}
"""
N_BODY_C = r"""
#include <math.h>
void run(const float* p, float* a, int n) {
    for (int i = 0; i < n; i++) {
        float x = p[4 * i], y = p[4 * i + 1], z = p[4 * i + 2], ax = 0.0f, ay = 0.0f, az = 0.0f;
        for (int j = 0; j < n; j++) {
            float dx = p[4 * j] - x, dy = p[4 * j + 1] - y, dz = p[4 * j + 2] - z;
            float r = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
            float f = p[4 * j + 3] * r * r * r;
            ax += dx * f; ay += dy * f; az += dz * f;
        }
        a[4 * i] = ax; a[4 * i + 1] = ay; a[4 * i + 2] = az; a[4 * i + 3] = 0.0f;
    }
}
"""
N_BODY_NUMBA = """
def kernel(p, a, n):
    i = cuda.grid(1)
    if i < n:
        ax = ay = az = 0.0
        for j in range(n):
            dx, dy, dz = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]
            r = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz + 1e-3)
            f = p[j, 3] * r * r * r
            ax += dx * f
            ay += dy * f
            az += dz * f
        a[i, 0], a[i, 1], a[i, 2], a[i, 3] = ax, ay, az, 0.0
"""

BLOCK_SCAN = r"""
extern "C" __global__ void kernel(const int* x, int* y, int n) {
    __shared__ int s[2][256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, in = 0;
    s[0][t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        s[1 - in][t] = s[in][t] + (t >= d ? s[in][t - d] : 0);
        in = 1 - in;
        __syncthreads();
    }
    if (i < n) y[i] = s[in][t];
}
"""
BLOCK_SCAN_C = r"""
void run(const int* x, int* y, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) {
        if (i % 256 == 0) s = 0;
        s += x[i];
        y[i] = s;
    }
}
"""
BLOCK_SCAN_NUMBA = """
def kernel(x, y, n):
    s = cuda.shared.array((2, 256), int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    k = 0
    s[0, t] = x[i] if i < n else 0
    cuda.syncthreads()
    d = 1
    while d < 256:
        s[1 - k, t] = s[k, t] + (s[k, t - d] if t >= d else 0)
        k = 1 - k
        d *= 2
        cuda.syncthreads()
    if i < n:
        y[i] = s[k, t]
"""


def _bins(inputs: list[np.ndarray], n: int) -> np.ndarray:
    return np.bincount(inputs[0], minlength=256).astype(np.int32)


def _matmul(inputs: list[np.ndarray], n: int) -> np.ndarray:
    return inputs[0] @ inputs[1]


def _shared_histogram_launch(n: int) -> Shape:
    return (min(blocks(n, 256), 264),), (256,)


def cases() -> list[Case]:
    """Every timed program; the first nine are the design's speed table."""
    table = [
        Case("vector add", MILLION, 4096, VECTOR_ADD, VECTOR_ADD_C, _two_vectors, line, lambda i, n: i[0] + i[1],
             VECTOR_ADD_NUMBA, True),
        *(Case("naive matmul", n, 96, NAIVE_MATMUL, NAIVE_MATMUL_C, _two_matrices, square, _matmul,
               NAIVE_MATMUL_NUMBA, True) for n in (256, 512)),
        *(Case("tiled matmul", n, 32, TILED_MATMUL, TILED_MATMUL_C, _two_matrices, square, _matmul,
               TILED_MATMUL_NUMBA, True) for n in (256, 512)),
        Case("block reduction, shared", MILLION, 1024, SHARED_REDUCTION, REDUCTION_C, _one_vector_to_sums, line,
             _block_sums, SHARED_REDUCTION_NUMBA, True),
        Case("block reduction, shuffle", MILLION, 1024, SHUFFLE_REDUCTION, REDUCTION_C, _one_vector_to_sums, line,
             _block_sums, "", True),
        Case("histogram, global atomics", MILLION, 2048, GLOBAL_HISTOGRAM, HISTOGRAM_C, _bytes_to_bins, line, _bins,
             HISTOGRAM_NUMBA, True),
        Case("histogram, shared atomics", MILLION, 2048, SHARED_HISTOGRAM, HISTOGRAM_C, _bytes_to_bins,
             _shared_histogram_launch, _bins, HISTOGRAM_NUMBA, True),
    ]  # fmt: skip
    others = [
        Case("five-point stencil", 1024, 64, STENCIL, STENCIL_C, _one_matrix, square, _stencil, STENCIL_NUMBA, False),
        Case("tiled transpose", 1024, 64, TRANSPOSE, TRANSPOSE_C, _one_matrix, square,
             lambda i, n: np.ascontiguousarray(i[0].T), TRANSPOSE_NUMBA, False),
        Case("mandelbrot", 256, 96, MANDELBROT, MANDELBROT_C, _mandelbrot_arrays, square,
             _mandelbrot, MANDELBROT_NUMBA, False),
        Case("n-body", 1024, 256, N_BODY, N_BODY_C, _bodies, line, _n_body, N_BODY_NUMBA, False, 1e-3),
        Case("block scan", MILLION, 1024, BLOCK_SCAN, BLOCK_SCAN_C, _scan_arrays, line, _block_scan,
             BLOCK_SCAN_NUMBA, False),
    ]  # fmt: skip
    return table + others
