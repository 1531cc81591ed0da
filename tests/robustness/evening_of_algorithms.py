"""What courses and tutorials have learners write, right: filters, sieves, sorting, reductions, scans, simulations."""

from __future__ import annotations

from .program import Programs

PROGRAMS = Programs()

PROGRAMS.add(
    "sobel",
    "",
    "1200 254",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void sobel(const unsigned char* in, unsigned char* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
    int gx = -in[(y-1)*w+x-1] + in[(y-1)*w+x+1] - 2*in[y*w+x-1] + 2*in[y*w+x+1]
             - in[(y+1)*w+x-1] + in[(y+1)*w+x+1];
    int gy = -in[(y-1)*w+x-1] - 2*in[(y-1)*w+x] - in[(y-1)*w+x+1]
             + in[(y+1)*w+x-1] + 2*in[(y+1)*w+x] + in[(y+1)*w+x+1];
    out[y*w+x] = min(255, (int)sqrtf((float)(gx*gx + gy*gy)));
}
""", "sobel")

w, h = 640, 480
image = np.zeros((h, w), np.uint8); image[100:200, 100:300] = 60
d = cp.asarray(image); edges = cp.zeros_like(d)
k(((w + 15) // 16, (h + 15) // 16), (16, 16), (d, edges, w, h))
print(int((edges > 0).sum()), int(edges.max()))
''',
)

PROGRAMS.add(
    "sieve",
    "",
    "primes: 78498",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void sieve(char* composite, int n) {
    int p = blockIdx.x * blockDim.x + threadIdx.x + 2;
    if ((long long)p * p > n) return;
    for (int m = p * p; m <= n; m += p) composite[m] = 1;
}
""", "sieve")

n = 1_000_000
composite = cp.zeros(n + 1, cp.int8)
k((4,), (256,), (composite, n))
print("primes:", int((composite[2:] == 0).sum()))
''',
)

PROGRAMS.add(
    "sieve_plain",
    "",
    "primes: 17984",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
__device__ bool is_prime(unsigned n) {
    if (n < 2) return false;
    for (unsigned d = 2; d * d <= n; ++d) if (n % d == 0) return false;
    return true;
}
extern "C" __global__ void primes(unsigned* count, unsigned n) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        if (is_prime(i)) atomicAdd(count, 1u);
}
""", "primes")

count = cp.zeros(1, cp.uint32)
k((64,), (256,), (count, np.uint32(200_000)))
print("primes:", count[0])
''',
)

PROGRAMS.add(
    "life",
    "",
    "alive: 5 at (26, 27)",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void life(const unsigned char* now, unsigned char* next, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n) return;
    int alive = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            if (dx || dy) alive += now[(y + dy + n) % n * n + (x + dx + n) % n];
    next[y * n + x] = alive == 3 || (alive == 2 && now[y * n + x]);
}
""", "life")

n = 64
board = np.zeros((n, n), np.uint8)
board[1, 2] = board[2, 3] = board[3, 1] = board[3, 2] = board[3, 3] = 1
a = cp.asarray(board); b = cp.zeros_like(a)
for step in range(100):
    k((n // 16, n // 16), (16, 16), (a, b, n))
    a, b = b, a
print("alive:", int(a.sum()), "at", [tuple(int(v) for v in p) for p in np.argwhere(cp.asnumpy(a))][0])
''',
)

PROGRAMS.add(
    "string_search",
    "",
    "200 [ 16  61 106]",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void find(const char* text, int n, const char* word, int m, int* where, int* found) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n - m) return;
    for (int j = 0; j < m; ++j) if (text[i + j] != word[j]) return;
    where[atomicAdd(found, 1)] = i;
}
""", "find")

text = ("the quick brown fox jumps over the lazy dog; " * 200).encode()
t = cp.asarray(np.frombuffer(text, np.uint8)); w = cp.asarray(np.frombuffer(b"fox", np.uint8))
where = cp.zeros(1000, cp.int32); found = cp.zeros(1, cp.int32)
k(((len(text) + 127) // 128,), (128,), (t, len(text), w, 3, where, found))
print(found[0], cp.sort(where[:int(found[0])])[:3])
''',
)

PROGRAMS.add(
    "bitonic",
    "",
    "sorted: True",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void bitonic(float* data, int n) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    s[t] = data[t];
    for (int size = 2; size <= n; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int other = t ^ stride;
            if (other > t) {
                bool up = (t & size) == 0;
                if ((s[t] > s[other]) == up) { float x = s[t]; s[t] = s[other]; s[other] = x; }
            }
        }
    __syncthreads();
    data[t] = s[t];
}
""", "bitonic")

x = cp.asarray(np.random.default_rng(0).permutation(1024).astype(np.float32))
k((1,), (1024,), (x, 1024), shared_mem=4096)
print("sorted:", bool((cp.diff(x) > 0).all()), x[:3])
''',
)

PROGRAMS.add(
    "odd_even_sort_one_block",
    "",
    "sorted: True",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void sort(int* a, int n) {
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    for (int phase = 0; phase < n; ++phase) {
        int j = i + phase % 2;
        if (j + 1 < n && a[j] > a[j + 1]) { int t = a[j]; a[j] = a[j + 1]; a[j + 1] = t; }
        __syncthreads();
    }
}
""", "sort")

a = cp.asarray(np.random.default_rng(0).permutation(1000).astype(np.int32))
k((1,), (512,), (a, 1000))
print("sorted:", (a == cp.arange(1000)).all())
''',
)

PROGRAMS.add(
    "nbody",
    "",
    "agrees: True",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void forces(const float4* body, float3* force, int n) {
    __shared__ float4 tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = body[i];
    float3 f = make_float3(0, 0, 0);
    for (int base = 0; base < n; base += 256) {
        tile[threadIdx.x] = body[base + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 256; ++j) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float inv = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float s = tile[j].w * inv * inv * inv;
            f.x += dx * s; f.y += dy * s; f.z += dz * s;
        }
        __syncthreads();
    }
    force[i] = f;
}
""", "forces")

n = 4096
body = cp.asarray(np.random.default_rng(1).random((n, 4), dtype=np.float32)); force = cp.zeros((n, 3), cp.float32)
k((n // 256,), (256,), (body, force, n))
b = cp.asnumpy(body).astype(float)
d = b[:, :3] - b[7, :3]
expected = (d * (b[:, 3] / (np.sum(d * d, 1) + 0.01) ** 1.5)[:, None]).sum(0)
print("agrees:", np.allclose(cp.asnumpy(force[7]), expected, rtol=1e-3))
''',
)

PROGRAMS.add(
    "monte_carlo_lcg",
    "",
    "3.141294",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void pi(unsigned int* inside, int tries) {
    unsigned int s = 1234u + blockIdx.x * blockDim.x + threadIdx.x;
    int hits = 0;
    for (int i = 0; i < tries; i++) {
        s = s * 1664525u + 1013904223u; float x = (s >> 8) / 16777216.0f;
        s = s * 1664525u + 1013904223u; float y = (s >> 8) / 16777216.0f;
        if (x * x + y * y < 1.0f) hits++;
    }
    inside[blockIdx.x * blockDim.x + threadIdx.x] = hits;
}
""", "pi")

inside = cp.zeros(64 * 256, cp.uint32)
k((64,), (256,), (inside, 1000))
print(4 * int(inside.sum()) / (64 * 256 * 1000))
''',
)

PROGRAMS.add(
    "warp_reduce",
    "",
    "sum: 1e+06",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void sum(const float* x, float* out, int n) {
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffff, v, d);
    if ((threadIdx.x & 31) == 0) atomicAdd(out, v);
}
""", "sum")

x = cp.ones(1_000_000, cp.float32); out = cp.zeros(1, cp.float32)
k((128,), (256,), (x, out, x.size))
print("sum:", out[0])
''',
)

PROGRAMS.add(
    "scan_hillis_steele",
    "",
    "agrees: True 130816",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void scan(const int* in, int* out, int n) {
    __shared__ int s[2][512];
    int t = threadIdx.x, from = 0, to = 1;
    s[0][t] = in[t];
    __syncthreads();
    for (int d = 1; d < n; d *= 2) {
        s[to][t] = t >= d ? s[from][t] + s[from][t - d] : s[from][t];
        __syncthreads();
        int swap = from; from = to; to = swap;
    }
    out[t] = s[from][t];
}
""", "scan")

x = cp.arange(512, dtype=cp.int32); y = cp.zeros_like(x)
k((1,), (512,), (x, y, 512))
print("agrees:", (y == cp.cumsum(x)).all(), y[-1])
''',
)

PROGRAMS.add(
    "dot_double_atomic",
    "",
    "333283335000.0",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void dot(const double* a, const double* b, double* out, int n) {
    __shared__ double part[256];
    double sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) sum += a[i] * b[i];
    part[threadIdx.x] = sum;
    for (int s = 128; s > 0; s >>= 1) {
        __syncthreads();
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
""", "dot")

a = cp.arange(10000, dtype=cp.float64); out = cp.zeros(1)
k((16,), (256,), (a, a, out, 10000))
print(out[0])
''',
)

PROGRAMS.add(
    "recursion_factorial",
    "",
    "121645100408832000",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
__device__ long long fact(int n) { return n <= 1 ? 1 : n * fact(n - 1); }
extern "C" __global__ void f(long long* out) { out[threadIdx.x] = fact(threadIdx.x); }
""", "f")

out = cp.zeros(20, cp.int64)
k((1,), (20,), (out,))
print(out[-1])
''',
)

PROGRAMS.add(
    "collatz_heavy",
    "",
    "837799 524",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void collatz(int* steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long v = i + 1; int s = 0;
    while (v != 1) { v = v % 2 ? 3 * v + 1 : v / 2; ++s; }
    steps[i] = s;
}
""", "collatz")

n = 1_000_000
steps = cp.zeros(n, cp.int32)
k(((n + 255) // 256,), (256,), (steps, n))
print(int(steps.argmax()) + 1, int(steps.max()))
''',
)

PROGRAMS.add(
    "julia_complex",
    "",
    "200 22.2",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
#include <cuComplex.h>
extern "C" __global__ void julia(int* out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    cuFloatComplex c = make_cuFloatComplex(-0.8f, 0.156f);
    cuFloatComplex z = make_cuFloatComplex(3.0f * x / n - 1.5f, 3.0f * y / n - 1.5f);
    int i = 0;
    for (; i < 200 && cuCabsf(z) < 2.0f; ++i) z = cuCaddf(cuCmulf(z, z), c);
    out[y * n + x] = i;
}
""", "julia")

out = cp.zeros((512, 512), cp.int32)
k((32, 32), (16, 16), (out, 512))
print(int(out.max()), round(float(out.mean()), 2))
''',
)

PROGRAMS.add(
    "spin_lock",
    "",
    "[128]",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void count(int* lock, int* counter) {
    while (atomicCAS(lock, 0, 1) != 0) { }
    *counter += 1;
    __threadfence();
    atomicExch(lock, 0);
}
""", "count")

lock = cp.zeros(1, cp.int32); counter = cp.zeros(1, cp.int32)
k((2,), (64,), (lock, counter))
print(counter)
''',
)
