"""What goes wrong in those programs: indices, types, barriers, locks, loops, code of the host.

Two of them run through with a wrong picture, as on a GPU: blocks that are swapped, and a view whose order in memory is
another one.
"""

from __future__ import annotations

from .program import Programs

PROGRAMS = Programs()

PROGRAMS.add(
    "life_in_place",
    "",
    "RAW hazard in __global__ memory in kernel life",
    "blocks of one launch are not ordered",
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
    k((n // 16, n // 16), (16, 16), (a, a, n))
print("alive:", int(a.sum()), "at", [tuple(int(v) for v in p) for p in np.argwhere(cp.asnumpy(a))][0])

import cudalab
print(cudalab.sanitize(k, (4, 4), (16, 16), (a, a, n)))
''',
)

PROGRAMS.add(
    "bitonic_no_shared",
    "CUDARuntimeError",
    "the 0 bytes of shared memory that a block has",
    "for dynamic shared memory, pass its size at the launch",
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
k((1,), (1024,), (x, 1024))
print("sorted:", bool((cp.diff(x) > 0).all()), x[:3])
''',
)

PROGRAMS.add(
    "old_shuffle",
    "CompileException",
    "write __shfl_down_sync(mask, …)",
    "kernel.cu(5)",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void sum(const float* x, float* out, int n) {
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    for (int d = 16; d > 0; d >>= 1) v += __shfl_down(v, d);
    if ((threadIdx.x & 31) == 0) atomicAdd(out, v);
}
""", "sum")

x = cp.ones(1_000_000, cp.float32); out = cp.zeros(1, cp.float32)
k((128,), (256,), (x, out, x.size))
print("sum:", out[0])
''',
)

PROGRAMS.add(
    "scan_one_buffer",
    "",
    "WAR hazard in __shared__ memory in kernel scan",
    "kernel.cu:8",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void scan(const int* in, int* out, int n) {
    __shared__ int s[512];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
    for (int d = 1; d < n; d *= 2) {
        if (t >= d) s[t] += s[t - d];
        __syncthreads();
    }
    out[t] = s[t];
}
""", "scan")

x = cp.ones(512, dtype=cp.int32); y = cp.zeros_like(x)
import cudalab
print(cudalab.sanitize(k, (1,), (512,), (x, y, 512)))
''',
)

PROGRAMS.add(
    "indices_swapped_2d",
    "CUDARuntimeError",
    "index 150000 of 150000",
    "kernel.cu:4",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void scale(float* a, int width, int height) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, col = blockIdx.y * blockDim.y + threadIdx.y;
    a[row * width + col] *= 2.0f;
}
""", "scale")

a = cp.ones((300, 500), cp.float32)
k((16, 10), (32, 32), (a, 500, 300))
print(a.sum())
''',
)

PROGRAMS.add(
    "block_dims_swapped",
    "",
    "written: 230400 of 307200",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void fill(int* a, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) a[y * width + x] = 1;
}
""", "fill")

a = cp.zeros((480, 640), cp.int32)
k((480 // 16, 640 // 16), (16, 16), (a, 640, 480))
print("written:", int(a.sum()), "of", a.size)
''',
)

PROGRAMS.add(
    "sync_in_branch",
    "",
    "Barrier reached after threads have exited",
    "guard the work, not the barrier",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void half(float* x) {
    __shared__ float s[256];
    int t = threadIdx.x;
    if (t < 100) {
        s[t] = x[t];
        __syncthreads();
        x[t] = s[99 - t];
    }
}
""", "half")

x = cp.arange(256, dtype=cp.float32)
k((1,), (256,), (x,))
print(x[:3])
import cudalab
print(cudalab.sanitize(k, (1,), (256,), (x,)))
''',
)

PROGRAMS.add(
    "lock_never_released",
    "CUDARuntimeError",
    "endless wait",
    "atomicCAS(lock, 0, 1)",
    "which hold 1",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void count(int* lock, int* counter) {
    while (atomicCAS(lock, 0, 1) != 0) { }
    *counter += 1;
    __threadfence();
}
""", "count")

lock = cp.zeros(1, cp.int32); counter = cp.zeros(1, cp.int32)
k((2,), (64,), (lock, counter))
print(counter)
''',
)

PROGRAMS.add(
    "unsigned_countdown",
    "CUDARuntimeError",
    "endless loop",
    "a loop whose condition never becomes false",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void down(float* x) {
    for (unsigned i = 10; i >= 0; --i) x[threadIdx.x] += 1.0f;
}
""", "down")

x = cp.zeros(32, cp.float32)
k((1,), (32,), (x,))
print(x)
''',
)

PROGRAMS.add(
    "endless_recursion",
    "CUDARuntimeError",
    "endless loop",
    "kernel.cu:2",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
__device__ int down(int n) { return n == -1 ? 0 : 1 + down(n + 1); }
extern "C" __global__ void f(int* out) { out[threadIdx.x] = down(threadIdx.x); }
""", "f")

out = cp.zeros(4, cp.int32)
k((1,), (4,), (out,))
print(out)
''',
)

PROGRAMS.add(
    "unaligned_float4",
    "CUDARuntimeError",
    "is not a multiple of 16",
    "kernel.cu:4",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void copy(const float* x, float4* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = *(const float4*)(x + 1 + 4 * i);
}
""", "copy")

x = cp.arange(1025, dtype=cp.float32); y = cp.zeros((256, 4), cp.float32)
k((1,), (256,), (x, y, 256))
print(y[0])
''',
)

PROGRAMS.add(
    "missing_semicolon",
    "CompileException",
    "put a ; at the end of line 3",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void f(float* x) {
    int i = threadIdx.x
    x[i] = 1.0f;
}
""", "f")

k((1,), (32,), (cp.zeros(32, cp.float32),))
''',
)

PROGRAMS.add(
    "std_vector",
    "CompileException",
    "leave it out: <vector> is for the host",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
#include <vector>
extern "C" __global__ void f(float* x) { std::vector<float> v(10); x[0] = v[0]; }
""", "f")

k((1,), (1,), (cp.zeros(1, cp.float32),))
''',
)

PROGRAMS.add(
    "integer_division_average",
    "CUDARuntimeError",
    "index -65 of 4096",
    "check for an index below zero",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void blur(const unsigned char* in, unsigned char* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int sum = 0;
    for (int dy = -1; dy <= 1; ++dy) for (int dx = -1; dx <= 1; ++dx) sum += in[(y + dy) * w + x + dx];
    out[y * w + x] = sum / 9;
}
""", "blur")

image = cp.full((64, 64), 90, cp.uint8); out = cp.zeros_like(image)
k((4, 4), (16, 16), (image, out, 64, 64))
print(out[0, 0])
''',
)

PROGRAMS.add(
    "histogram_without_atomic",
    "",
    "counted: 256 of 65536",
    "use atomics",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void hist(const unsigned char* x, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) bins[x[i]]++;
}
""", "hist")

x = cp.asarray(np.random.default_rng(0).integers(0, 256, 1 << 16).astype(np.uint8))
bins = cp.zeros(256, cp.int32)
k((256,), (256,), (x, bins, x.size))
print("counted:", int(bins.sum()), "of", x.size)
import cudalab
print(cudalab.sanitize(k, (256,), (256,), (x, bins, x.size)))
''',
)

PROGRAMS.add(
    "transpose_view",
    "",
    "[12. 14. 16.]",
    text=r'''
from cudalab import cp
import numpy as np
k = cp.RawKernel(r"""
extern "C" __global__ void twice(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = 2 * a[i];
}
""", "twice")

a = cp.arange(12, dtype=cp.float32).reshape(3, 4); b = cp.zeros((4, 3), cp.float32)
k((1,), (32,), (a.T, b, 12))
print(b)
''',
)
