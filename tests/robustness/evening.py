"""What a learner writes at a first evening with CUDA, right and wrong, and what the answer must say.

The programs were chosen before anybody looked at what they give: half of them do what a tutorial shows, half make the
mistakes that follow from knowing C, Python or Numba. Two more modules have those of longer evenings.
"""

from __future__ import annotations

from .program import Programs

PROGRAMS = Programs()

PROGRAMS.add(
    "hello_stdio",
    "",
    "Hello World from GPU! block 1 thread 3",
    text=r'''
from cudalab import cp
hello = cp.RawKernel(r"""
#include <stdio.h>
extern "C" __global__ void hello() {
    printf("Hello World from GPU! block %d thread %d\n", blockIdx.x, threadIdx.x);
}
""", "hello")
hello((2,), (4,), ())
cp.cuda.Device().synchronize()
''',
)

PROGRAMS.add(
    "vector_add_no_guard",
    "CUDARuntimeError",
    "index 1000 of 1000",
    "kernel.cu:4",
    "if (i < n)",
    text=r'''
import numpy as np
from cudalab import cp
add = cp.RawKernel(r"""
extern "C" __global__ void add(const float* a, const float* b, float* c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];
}
""", "add")
n = 1000
a = cp.random.rand(n).astype(cp.float32); b = cp.random.rand(n).astype(cp.float32); c = cp.zeros(n, dtype=cp.float32)
add(((n + 255) // 256,), (256,), (a, b, c))
print(cp.allclose(c, a + b))
''',
)

PROGRAMS.add(
    "python_float_argument",
    "TypeError",
    "parameter 'a' (float)",
    "Pass np.float32(x)",
    text=r'''
from cudalab import cp
saxpy = cp.RawKernel(r"""
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
""", "saxpy")
n = 1 << 16
x = cp.ones(n, cp.float32); y = cp.ones(n, cp.float32)
saxpy((n // 256,), (256,), (2.0, x, y, n))
print(y[:5])
''',
)

PROGRAMS.add(
    "default_float64",
    "TypeError",
    "got an array of float64",
    ".astype(np.float32)",
    text=r'''
from cudalab import cp
scale = cp.RawKernel(r"""
extern "C" __global__ void scale(float* x, float f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= f;
}
""", "scale")
x = cp.ones(1024)
scale((4,), (256,), (x, cp.float32(3), cp.int32(1024)))
print(x[:4])
''',
)

PROGRAMS.add(
    "reduction_missing_sync",
    "",
    "RAW hazard in __shared__ memory",
    "kernel.cu:7",
    "put __syncthreads() between the two",
    text=r'''
from cudalab import cp
total = cp.RawKernel(r"""
extern "C" __global__ void total(const float* x, float* out) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    for (int k = 128; k > 0; k /= 2) {
        if (t < k) s[t] += s[t + k];
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
""", "total")
x = cp.arange(1024, dtype=cp.float32); out = cp.zeros(4, cp.float32)
total((4,), (256,), (x, out))
print(out.sum(), x.sum())
import cudalab
print(cudalab.sanitize(total, (4,), (256,), (x, out)))
''',
)

PROGRAMS.add(
    "matmul_right",
    "CompileException",
    "leave -O3 out: NVRTC always optimises",
    text=r'''
import numpy as np
from cudalab import cp
mm = cp.RawKernel(r"""
#include <cuda_runtime.h>
#include <math.h>
extern "C" __global__ void mm(const float* A, const float* B, float* C, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && col < n) {
        float sum = 0.0f;
        for (int k = 0; k < n; ++k) sum += A[row * n + k] * B[k * n + col];
        C[row * n + col] = sum;
    }
}
""", "mm", options=("-O3", "--use_fast_math"))
n = 200
A = cp.random.rand(n, n, dtype=cp.float32); B = cp.random.rand(n, n, dtype=cp.float32); C = cp.zeros((n, n), cp.float32)
block = (16, 16); grid = ((n + 15) // 16, (n + 15) // 16)
mm(grid, block, (A, B, C, n))
print(cp.allclose(C, A @ B, rtol=1e-3))
''',
)

PROGRAMS.add(
    "block_too_large",
    "CUDADriverError",
    "64 x 64",
    "1024",
    text=r'''
from cudalab import cp
gray = cp.RawKernel(r"""
#include <stdint.h>
extern "C" __global__ void gray(const uint8_t* rgb, uint8_t* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) {
        const uint8_t* p = rgb + 3 * (y * w + x);
        out[y * w + x] = 0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2];
    }
}
""", "gray")
rgb = cp.zeros((480, 640, 3), cp.uint8); out = cp.zeros((480, 640), cp.uint8)
gray((10, 8), (64, 64), (rgb, out, 640, 480))
print(out.shape)
''',
)

PROGRAMS.add(
    "no_comma_tuple",
    "TypeError",
    "Write grid=(1,)",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
extern "C" __global__ void k(float* x) { x[threadIdx.x] = threadIdx.x; }
""", "k")
x = cp.zeros(256, cp.float32)
k((1), (256), (x))
print(x)
''',
)

PROGRAMS.add(
    "numba_style_launch",
    "TypeError",
    "kernel((blocks,), (threads,), (x,))",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
extern "C" __global__ void k(float* x) { x[threadIdx.x] = threadIdx.x; }
""", "k")
x = cp.zeros(256, cp.float32)
k[1, 256](x)
print(x)
''',
)

PROGRAMS.add(
    "numpy_array_argument",
    "TypeError",
    "Copy it to the device: cp.asarray(a)",
    text=r'''
import numpy as np
from cudalab import cp
k = cp.RawKernel(r"""
extern "C" __global__ void k(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
""", "k")
x = np.ones(256, dtype=np.float32); y = np.zeros(256, dtype=np.float32)
k((1,), (256,), (x, y))
print(y)
''',
)

PROGRAMS.add(
    "no_extern_c",
    "CUDADriverError",
    "the module has no kernel 'square'",
    'extern "C"',
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
__global__ void square(float* x, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) x[i] = x[i] * x[i];
}
""", "square")
x = cp.arange(256, dtype=cp.float32)
k((1,), (256,), (x, 256))
print(x)
''',
)

PROGRAMS.add(
    "xor_power",
    "CompileException",
    "kernel.cu(4)",
    "for a power write x * x",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
extern "C" __global__ void dist(const float* x, const float* y, float* d, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) d[i] = sqrt(x[i]^2 + y[i]^2);
}
""", "dist")
x = cp.arange(256, dtype=cp.float32); d = cp.zeros_like(x)
k((1,), (256,), (x, x, d, 256))
print(d)
''',
)

PROGRAMS.add(
    "m_pi",
    "",
    "0.02454123 0.04906768",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
#include <cmath>
extern "C" __global__ void wave(float* y, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) y[i] = sinf(2.0f * M_PI * i / n);
}
""", "wave")
y = cp.zeros(256, cp.float32)
k((1,), (256,), (y, 256))
print(y[:4])
''',
)

PROGRAMS.add(
    "variable_length_array",
    "CompileException",
    "kernel.cu(3)",
    "extern __shared__",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
extern "C" __global__ void rev(float* d, int n) {
    __shared__ float s[n];
    int t = threadIdx.x;
    s[t] = d[t];
    __syncthreads();
    d[t] = s[n - t - 1];
}
""", "rev")
d = cp.arange(64, dtype=cp.float32)
k((1,), (64,), (d, 64))
print(d)
''',
)

PROGRAMS.add(
    "forgot_device",
    "",
    "[ 1.  2.  5. 10.]",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
float f(float x) { return x * x + 1; }
extern "C" __global__ void apply(float* x, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] = f(x[i]);
}
""", "apply")
d = cp.arange(64, dtype=cp.float32)
k((1,), (64,), (d, 64))
print(d[:4])
''',
)

PROGRAMS.add(
    "curand_pi",
    "",
    "3.14",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
#include <curand_kernel.h>
extern "C" __global__ void pi(unsigned long long* hits, int tries, unsigned long long seed) {
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    curandState state;
    curand_init(seed, id, 0, &state);
    int n = 0;
    for (int i = 0; i < tries; ++i) {
        float x = curand_uniform(&state), y = curand_uniform(&state);
        n += x * x + y * y <= 1.0f;
    }
    atomicAdd(hits, (unsigned long long)n);
}
""", "pi")
hits = cp.zeros(1, cp.uint64)
k((32,), (256,), (hits, 100, 1234))
print(4.0 * int(hits[0]) / (32 * 256 * 100))
''',
)

PROGRAMS.add(
    "whole_cu_program",
    "CompileException",
    "leave main() out: Python is the host here",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
#include <stdio.h>
#include <stdlib.h>
__global__ void vecAdd(double *a, double *b, double *c, int n) {
    int id = blockIdx.x*blockDim.x+threadIdx.x;
    if (id < n) c[id] = a[id] + b[id];
}
int main(int argc, char* argv[]) {
    int n = 100000;
    double *h_a = (double*)malloc(n * sizeof(double));
    double *d_a, *d_b, *d_c;
    cudaMalloc(&d_a, n * sizeof(double));
    cudaMalloc(&d_b, n * sizeof(double));
    cudaMalloc(&d_c, n * sizeof(double));
    cudaMemcpy(d_a, h_a, n * sizeof(double), cudaMemcpyHostToDevice);
    vecAdd<<<(n + 255) / 256, 256>>>(d_a, d_b, d_c, n);
    cudaFree(d_a);
    return 0;
}
""", "vecAdd")
k.compile()
''',
)

PROGRAMS.add(
    "python_constant",
    "CompileException",
    '"TILE" is undefined',
    "Python's names do not reach it",
    text=r'''
from cudalab import cp
TILE = 16
k = cp.RawKernel(r"""
extern "C" __global__ void transpose(const float* a, float* b, int n) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = a[y * n + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x; y = blockIdx.x * TILE + threadIdx.y;
    b[y * n + x] = tile[threadIdx.x][threadIdx.y];
}
""", "transpose")
a = cp.arange(64 * 64, dtype=cp.float32).reshape(64, 64); b = cp.zeros_like(a)
k((4, 4), (16, 16), (a, b, 64))
print((b == a.T).all())
''',
)

PROGRAMS.add(
    "mandelbrot",
    "",
    "200 38.09",
    text=r'''
import numpy as np, time
from cudalab import cp
k = cp.RawKernel(r"""
extern "C" __global__ void mandel(int* out, int w, int h, int limit) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= w || py >= h) return;
    float cr = -2.0f + 3.0f * px / w, ci = -1.5f + 3.0f * py / h, zr = 0, zi = 0;
    int n = 0;
    while (n < limit && zr * zr + zi * zi < 4.0f) {
        float t = zr * zr - zi * zi + cr;
        zi = 2 * zr * zi + ci;
        zr = t;
        ++n;
    }
    out[py * w + px] = n;
}
""", "mandel")
w = h = 512
out = cp.zeros((h, w), cp.int32)
start = time.time()
k((w // 16, h // 16), (16, 16), (out, w, h, 200))
cp.cuda.Stream.null.synchronize()
print(out.max(), out.mean())
''',
)

PROGRAMS.add(
    "two_indices_on_pointer",
    "CompileException",
    "out[row * width + column]",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
extern "C" __global__ void blur(const float* in, float* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > 0 && y > 0 && x < w - 1 && y < h - 1)
        out[y][x] = (in[y][x - 1] + in[y][x] + in[y][x + 1]) / 3;
}
""", "blur")
a = cp.ones((64, 64), cp.float32); b = cp.zeros_like(a)
k((4, 4), (16, 16), (a, b, 64, 64))
''',
)

PROGRAMS.add(
    "endless_loop",
    "CUDARuntimeError",
    "endless loop",
    "kernel.cu:4",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
extern "C" __global__ void stride(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (i < n) {
        x[i] *= 2.0f;
    }
}
""", "stride")
x = cp.ones(1000, cp.float32)
k((2,), (128,), (x, 1000))
print(x.sum())
''',
)

PROGRAMS.add(
    "elementwise_types",
    "TypeError",
    "Type is mismatched. y int64 float32",
    ".astype",
    text=r"""
from cudalab import cp
squared_diff = cp.ElementwiseKernel('float32 x, float32 y', 'float32 z', 'z = (x - y) * (x - y)', 'squared_diff')
x = cp.arange(10, dtype=cp.float32).reshape(2, 5)
y = cp.arange(5)
print(squared_diff(x, y))
""",
)

PROGRAMS.add(
    "grid_zero",
    "",
    "grid=(0,): CuPy launches 1 where",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
extern "C" __global__ void twice(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
""", "twice")
n = 100
x = cp.arange(n, dtype=cp.int32)
k((n // 256,), (256,), (x, n))
print(x)
''',
)

PROGRAMS.add(
    "float_grid",
    "TypeError",
    "(n + 255) // 256",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
extern "C" __global__ void twice(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
""", "twice")
n = 1024
x = cp.arange(n, dtype=cp.int32)
k((n / 256,), (256,), (x, n))
print(x)
''',
)

PROGRAMS.add(
    "shared_before_start",
    "CUDARuntimeError",
    "begin 4 bytes before the start",
    "check for an index below zero",
    text=r'''
from cudalab import cp
k = cp.RawKernel(r"""
extern "C" __global__ void diff(const float* x, float* y) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    y[t] = s[t] - s[t - 1];
}
""", "diff")
x = cp.arange(128, dtype=cp.float32); y = cp.zeros_like(x)
k((1,), (128,), (x, y))
print(y)
''',
)
