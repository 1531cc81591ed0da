"""CUDA C++ kernels through the whole back end: results of every variant against NumPy."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cudalab.sim.abi import FaultKind
from cudalab.sim.compiler.ptx import UnsupportedInstruction
from tests.sim.compiler.kernel_runner import compile_cuda, cuda, memory

VARIANTS = pytest.mark.parametrize("variant", ["plain", "atomic", "traced"])


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape, dtype=np.float32)


# -- kernels that never wait


@VARIANTS
def test_vector_addition_with_a_guard(variant: str) -> None:
    source = """extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) c[i] = a[i] + b[i];
    }"""
    a, b, c = _random(1000), _random(1000)[::-1].copy(), np.zeros(1000, np.float32)
    cuda(source)("add", 8, 128, a, b, c, 1000, variant=variant)
    assert (c == a + b).all()


@VARIANTS
def test_indices_of_three_dimensional_grids_and_blocks(variant: str) -> None:
    source = """extern "C" __global__ void where(int *out) {
        int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        int i = block * blockDim.x * blockDim.y * blockDim.z + thread;
        out[i] = threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z
               + 1000 * blockIdx.x + 10000 * blockIdx.y + 100000 * blockIdx.z;
    }"""
    out = np.zeros((4, 3, 2, 3, 2, 5), np.int32)
    cuda(source)("where", (2, 3, 4), (5, 2, 3), out, variant=variant)
    bz, by, bx, z, y, x = np.indices(out.shape)
    assert (out == x + 10 * y + 100 * z + 1000 * bx + 10000 * by + 100000 * bz).all()


@VARIANTS
def test_loops_switches_and_local_arrays(variant: str) -> None:
    source = """extern "C" __global__ void mix(const int *in, int *out, int n) {
        int local[16];
        for (int k = 0; k < 16; k++) local[k] = in[(threadIdx.x + k) % n];
        int sum = 0;
        for (int k = 0; k < 16; k++) {
            switch (local[k] & 3) {
                case 0: sum += local[(k * 5) & 15]; break;
                case 1: sum -= k; break;
                case 2: continue;
                default: sum ^= local[k];
            }
            if (sum > 1000) break;
        }
        out[threadIdx.x] = sum;
    }"""
    values = np.random.default_rng(1).integers(0, 200, 40).astype(np.int32)
    out = np.zeros(64, np.int32)
    cuda(source)("mix", 1, 64, values, out, 40, variant=variant)
    for t in range(64):
        local = [int(values[(t + k) % 40]) for k in range(16)]
        total = 0
        for k in range(16):
            case = local[k] & 3
            if case == 2:
                continue
            total = total + local[k * 5 & 15] if case == 0 else total - k if case == 1 else total ^ local[k]
            if total > 1000:
                break
        assert out[t] == total


@VARIANTS
def test_struct_parameters_globals_constants_and_pointers_in_globals(variant: str) -> None:
    source = """
    struct Item { float *data; int n; double scale[2]; char tag; };
    __constant__ float table[4] = {1.5f, 2.5f, 3.5f, 4.5f};
    __device__ int counter = 3;
    __device__ float *chosen = 0;
    __device__ float stored[8];
    __device__ const float *const pointers[2] = {table, stored};
    extern "C" __global__ void use(Item item, int *out) {
        int i = threadIdx.x;
        if (i < item.n) item.data[i] = table[i & 3] * (float)item.scale[1] + item.tag;
        stored[i] = i;
        if (i == 0) chosen = stored + 2;
        out[i] = atomicAdd(&counter, 1) + (int)pointers[0][1];
        if (i == 7) out[8] = (int)chosen[3];
    }"""
    out = np.zeros(9, np.int32)
    pointer = memory().allocate(32, "device", "data")
    item = struct.pack("<Qi4xddb7x", pointer, 6, 0.0, 2.0, 7)
    module = cuda(source + f"// {variant}")
    module("use", 1, 8, item, out, variant=variant)
    data = np.frombuffer(bytes(memory().view(pointer, 32)), np.float32)
    memory().free(pointer)
    assert data[:6].tolist() == [10.0, 12.0, 14.0, 16.0, 10.0, 12.0]
    assert out[:8].tolist() == [5 + k for k in range(8)]
    assert out[8] == 5


@VARIANTS
def test_parameters_by_index_and_by_pointer(variant: str) -> None:
    source = """
    struct Table { int n; float v[8]; };
    __device__ __noinline__ float pick(const Table &t, int i) { return t.v[i % t.n]; }
    extern "C" __global__ void copied(Table t, float *out) { out[threadIdx.x] = t.v[threadIdx.x * 3 % t.n]; }
    extern "C" __global__ void constant(const __grid_constant__ Table t, float *out) {
        out[threadIdx.x] = t.v[threadIdx.x * 3 % t.n] + 10 * pick(t, threadIdx.x);
    }
    extern "C" __global__ void beyond(const __grid_constant__ Table t, int i, float *out) { out[0] = t.v[i]; }"""
    module = cuda(source)
    values = np.arange(8, dtype=np.float32) / 2
    table = struct.pack("<i", 7) + values.tobytes()
    t = np.arange(32)
    out = np.zeros(32, np.float32)
    module("copied", 1, 32, table, out, variant=variant)
    assert (out == values[t * 3 % 7]).all()
    module("constant", 1, 32, table, out, variant=variant)
    assert (out == values[t * 3 % 7] + 10 * values[t % 7]).all()
    assert module.run("beyond", 1, 1, table, 99, out, variant=variant).fault.kind is FaultKind.OUT_OF_BOUNDS


@VARIANTS
def test_math_functions(variant: str) -> None:
    source = """extern "C" __global__ void math(const float *x, const double *d, float *f, double *g, int n) {
        int i = threadIdx.x;
        float v = x[i];
        float *row = f + i * 8;
        row[0] = sinf(v * 50000.0f); row[1] = expf(v); row[2] = logf(v + 1); row[3] = powf(v + 1, 2.7f);
        row[4] = fmodf(v * 100, 0.7f); row[5] = tanf(v); row[6] = erff(v); row[7] = cbrtf(v);
        double *line = g + i * 4;
        line[0] = sin(d[i] * 1e6); line[1] = pow(d[i] + 1, 3.3); line[2] = exp(d[i]); line[3] = d[i] / 3;
    }"""
    x, d = _random(64), np.random.default_rng(5).random(64)
    f, g = np.zeros((64, 8), np.float32), np.zeros((64, 4))
    cuda(source)("math", 1, 64, x, d, f, g, 64, variant=variant)
    y = x.astype(np.float64)
    from math import erf

    right = [np.sin((x * np.float32(50000)).astype(float)), np.exp(y), np.log1p(y), (y + 1) ** 2.7]
    right += [
        np.fmod((x * np.float32(100)).astype(float), np.float32(0.7)),
        np.tan(y),
        np.vectorize(erf)(y),
        np.cbrt(y),
    ]
    assert np.allclose(f, np.stack(right, 1), rtol=2e-6, atol=1e-6)
    assert np.allclose(g, np.stack([np.sin(d * 1e6), (d + 1) ** 3.3, np.exp(d), d / 3], 1), rtol=1e-13, atol=1e-15)


@VARIANTS
def test_wide_integers(variant: str) -> None:
    source = """extern "C" __global__ void wide(const unsigned long long *a, unsigned long long *out) {
        int i = threadIdx.x;
        unsigned __int128 p = (unsigned __int128)a[i] * a[i + 1] + a[i];
        out[i * 4] = (unsigned long long)p; out[i * 4 + 1] = (unsigned long long)(p >> 64);
        p -= a[i + 1];
        out[i * 4 + 2] = (unsigned long long)(p >> 64); out[i * 4 + 3] = a[i] % (a[i + 1] | 1);
    }"""
    a = np.random.default_rng(3).integers(0, 1 << 63, 33, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    out = np.zeros((32, 4), np.uint64)
    cuda(source, "--device-int128")("wide", 1, 32, a, out, variant=variant)
    for i in range(32):
        x, y = int(a[i]), int(a[i + 1])
        p = x * y + x
        assert out[i].tolist() == [p & (1 << 64) - 1, p >> 64, (p - y) >> 64, x % (y | 1)]


# -- device functions


@VARIANTS
def test_functions_that_are_called(variant: str) -> None:
    source = """
    struct Pair { float a; int b; };
    __device__ __noinline__ Pair change(Pair p, int *counter) {
        *counter += p.b; p.a *= 2; p.b += threadIdx.y;
        return p;
    }
    __device__ __noinline__ float twice(float x, int *counter) {
        Pair p = {x, 3};
        p = change(p, counter);
        return p.a + p.b + blockIdx.x;
    }
    extern "C" __global__ void call(float *out) {
        int counter = 1;
        float x = twice(threadIdx.x, &counter) + twice(1.5f, &counter);
        out[(blockIdx.x * 3 + threadIdx.y) * 4 + threadIdx.x] = x + counter;
    }"""
    out = np.zeros((2, 3, 4), np.float32)
    cuda(source)("call", 2, (4, 3), out, variant=variant)
    b, y, x = np.indices(out.shape)
    assert (out == (2 * x + 3 + y + b) + (3 + 3 + y + b) + 7).all()


@VARIANTS
def test_recursion(variant: str) -> None:
    source = """
    __device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    extern "C" __global__ void run(int *out, int n) { out[threadIdx.x] = fib(threadIdx.x % n); }"""
    out = np.zeros(40, np.int32)
    cuda(source)("run", 1, 40, out, 15, variant=variant)
    expected = [0, 1]
    while len(expected) < 15:
        expected.append(expected[-1] + expected[-2])
    assert out.tolist() == [expected[t % 15] for t in range(40)]


def test_recursion_without_end_is_a_stack_overflow() -> None:
    source = """
    __device__ __noinline__ int down(int n, int *x) {
        x[n & 1] = n;
        return n == -5 ? 0 : down(n + 1, x) + x[0];
    }
    extern "C" __global__ void run(int *out) { out[2] = down(0, out); }"""
    outcome = cuda(source).run("run", 1, 1, np.zeros(4, np.int32))
    assert outcome.fault.kind is FaultKind.STACK_OVERFLOW


@VARIANTS
def test_functions_that_wait_are_inlined(variant: str) -> None:
    source = """
    __device__ __noinline__ float total(float v, float *scratch, int rounds) {
        for (int r = 0; r < rounds; r++) {
            scratch[threadIdx.x] = v;
            __syncthreads();
            v += scratch[(threadIdx.x + 1) % blockDim.x];
            __syncthreads();
        }
        return v;
    }
    __device__ __noinline__ int votes(int p) {
        return __popc(__ballot_sync(0xffffffff, p)) + __shfl_sync(0xffffffff, p, 3);
    }
    extern "C" __global__ void run(float *out) {
        __shared__ float scratch[64];
        out[threadIdx.x] = total(threadIdx.x, scratch, 3) + 1000 * votes(threadIdx.x % 3 == 0);
    }"""
    out = np.zeros(64, np.float32)
    cuda(source)("run", 1, 64, out, variant=variant)
    v = np.arange(64, dtype=np.float32)
    for _ in range(3):
        v = v + np.roll(v, -1)
    count = np.repeat(
        [sum(t % 3 == 0 for t in range(32)) + 1, sum(t % 3 == 0 for t in range(32, 64)) + (35 % 3 == 0)], 32
    )
    assert (out == v + 1000 * count).all()


def test_recursion_that_waits_is_refused() -> None:
    source = """
    __device__ __noinline__ int down(int n) { __syncthreads(); return n > 1 ? down(n - 1) + down(n - 2) * 3 : n; }
    extern "C" __global__ void run(int *out) { out[0] = down(out[1]); }"""
    with pytest.raises(UnsupportedInstruction, match="calls itself and waits"):
        cuda(source)


# -- kernels that wait


_TILED = """
#define T 16
extern "C" __global__ void multiply(const float *A, const float *B, float *C, int n) {
    __shared__ float a[T][T], b[T][T];
    int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < n; t += T) {
        a[threadIdx.y][threadIdx.x] = row < n && t + threadIdx.x < n ? A[row * n + t + threadIdx.x] : 0;
        b[threadIdx.y][threadIdx.x] = t + threadIdx.y < n && column < n ? B[(t + threadIdx.y) * n + column] : 0;
        __syncthreads();
        for (int k = 0; k < T; k++) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n) C[row * n + column] = sum;
}"""


@VARIANTS
@pytest.mark.parametrize("n", [16, 33, 64])
def test_tiled_product(n: int, variant: str) -> None:
    a, b, c = _random(n, n), _random(n, n).T.copy(), np.zeros((n, n), np.float32)
    blocks = -(-n // 16)
    cuda(_TILED)("multiply", (blocks, blocks), (16, 16), a, b, c, n, variant=variant)
    assert np.allclose(c, a @ b, rtol=1e-5)


@VARIANTS
@pytest.mark.parametrize("threads", [1, 31, 32, 64, 100, 256, 1024])
def test_tree_sum_in_dynamic_shared_memory(threads: int, variant: str) -> None:
    source = """extern "C" __global__ void sum(const float *x, float *out) {
        extern __shared__ float s[];
        int t = threadIdx.x, n = blockDim.x;
        s[t] = x[blockIdx.x * n + t];
        for (int left = n; left > 1; left = (left + 1) / 2) {
            __syncthreads();
            if (t < left / 2) s[t] += s[t + (left + 1) / 2];
        }
        if (t == 0) out[blockIdx.x] = s[0];
    }"""
    x = np.random.default_rng(threads).integers(0, 100, (3, threads)).astype(np.float32)
    out = np.zeros(3, np.float32)
    cuda(source)("sum", 3, threads, x, out, shared=4 * threads, variant=variant)
    assert (out == x.sum(1)).all()


@VARIANTS
def test_warp_sums_and_early_exit(variant: str) -> None:
    source = """extern "C" __global__ void sum(const int *x, int *out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        unsigned mask = __activemask();
        int v = x[i];
        for (int k = 16; k; k /= 2) {
            int other = __shfl_down_sync(mask, v, k);
            if ((threadIdx.x & 31) + k < __popc(mask)) v += other;
        }
        if ((threadIdx.x & 31) == 0) atomicAdd(out, v);
        __syncthreads();
        if (threadIdx.x == 0) atomicAdd(out + 1, 1);
    }"""
    x, out = np.arange(1, 212, dtype=np.int32), np.zeros(2, np.int32)
    cuda(source)("sum", 4, 64, x, out, 211, variant=variant)
    assert out.tolist() == [x.sum(), 4]


@VARIANTS
def test_barriers_in_different_branches_count_together(variant: str) -> None:
    source = """extern "C" __global__ void branches(int *out) {
        __shared__ int s[64];
        int t = threadIdx.x;
        s[t] = t;
        if (t % 2) { __syncthreads(); out[t] = s[t - 1]; }
        else { __syncthreads(); out[t] = s[63 - t]; }
    }"""
    out = np.zeros(64, np.int32)
    cuda(source)("branches", 1, 64, out, variant=variant)
    t = np.arange(64)
    assert (out == np.where(t % 2 == 1, t - 1, 63 - t)).all()


@VARIANTS
def test_diverged_lanes_meet_at_a_shuffle(variant: str) -> None:
    """Lanes reach the same kind of operation by different ways, in loops of different length."""
    source = """extern "C" __global__ void meet(int *out) {
        int t = threadIdx.x, v = 0;
        for (int k = 0; k < t % 5; k++) v += k;
        if (t & 1) { v += 100; v = __shfl_xor_sync(0xffffffff, v, 1); }
        else { v += 200; v = __shfl_xor_sync(0xffffffff, v, 1); }
        if (t < 8) { v += __shfl_sync(0xff, v, 7); __syncwarp(0xff); }
        else v += __reduce_add_sync(0xffffff00, t);
        out[t] = v;
    }"""
    out = np.zeros(32, np.int32)
    cuda(source)("meet", 1, 32, out, variant=variant)
    own = np.array([sum(range(t % 5)) + (100 if t & 1 else 200) for t in range(32)])
    v = own[np.arange(32) ^ 1]
    assert (out == np.where(np.arange(32) < 8, v + v[7], v + sum(range(8, 32)))).all()


def test_active_mask_of_a_branch() -> None:
    source = """extern "C" __global__ void active(unsigned *out) {
        unsigned m = 0;
        if (threadIdx.x % 4 == 1) m = __activemask();
        out[threadIdx.x] = m;
    }"""
    out = np.zeros(32, np.uint32)
    cuda(source)("active", 1, 32, out)
    assert out.tolist() == [0x22222222 if t % 4 == 1 else 0 for t in range(32)]


def test_block_votes() -> None:
    source = """extern "C" __global__ void votes(const int *x, int *out) {
        int p = x[blockIdx.x * 48 + threadIdx.x];
        int *row = out + (blockIdx.x * 48 + threadIdx.x) * 3;
        row[0] = __syncthreads_count(p); row[1] = __syncthreads_and(p); row[2] = __syncthreads_or(p);
    }"""
    x = np.array([[1] * 48, [0] * 48, [k % 3 == 0 for k in range(48)]], np.int32)
    out = np.zeros((3, 48, 3), np.int32)
    cuda(source)("votes", 3, 48, x, out)
    expected = np.stack([x.sum(1), x.all(1), x.any(1)], 1)
    assert (out == expected[:, None, :]).all()


def test_values_of_every_type_survive_a_barrier() -> None:
    source = """
    extern "C" __global__ void keep(const double *d, const long long *l, const float *f, const short *s, double *out) {
        int t = threadIdx.x;
        double a = d[t]; long long b = l[t]; float c = f[t]; short e = s[t]; bool p = c > 0.5f;
        __syncthreads();
        long long b2 = b * 3;
        __syncwarp();
        if (p) a += b2;
        __syncthreads();
        out[t] = a + c + e + (p ? 1000 : 0);
    }"""
    random = np.random.default_rng(2)
    d, f = random.random(96), random.random(96, dtype=np.float32)
    integers, s = random.integers(-50, 50, 96), random.integers(-9, 9, 96).astype(np.int16)
    out = np.zeros(96)
    cuda(source)("keep", 1, 96, d, integers, f, s, out)
    p = f > 0.5
    assert np.allclose(out, d + np.where(p, integers * 3, 0) + f + s + np.where(p, 1000, 0))


def test_many_suspension_points_share_one_function() -> None:
    """So many clones that the kernel's regions become one function."""
    step = (
        "if (x[{k}] & 1) v += x[{k}] * s[(t + {k}) % 64]; else v ^= {k}; __syncthreads(); s[t] += v; __syncthreads();"
    )
    body = "".join(step.format(k=k) for k in range(40))
    source = f"""extern "C" __global__ void steps(const int *x, int *out) {{
        __shared__ int s[64];
        int t = threadIdx.x, v = t;
        s[t] = t;
        __syncthreads();
        for (int round = 0; round < 3; round++) {{
            if (x[round] == 77) continue;
            {body}
        }}
        out[t] = v;
    }}"""
    x = np.random.default_rng(9).integers(0, 70, 40).astype(np.int32)
    out = np.zeros(64, np.int32)
    module = cuda(source)
    module("steps", 1, 64, x, out)
    t = np.arange(64)
    v, s = t.astype(np.int32), t.astype(np.int32)
    for _ in range(3):
        for k in range(40):
            v = (v + x[k] * np.roll(s, -k)).astype(np.int32) if x[k] & 1 else v ^ k
            s = s + v
    assert (out == v).all()


def test_block_order_and_partial_ranges() -> None:
    source = """extern "C" __global__ void note(int *out) {
        __syncthreads();
        if (!threadIdx.x) out[blockIdx.x] = atomicAdd(&out[10], 1);
    }"""
    out = np.zeros(11, np.int32)
    cuda(source)("note", 10, 32, out)
    assert out.tolist() == [*range(10), 10]


def test_canonical_nan() -> None:
    """A NaN that arithmetic makes has the device's bits; one that is copied keeps its own."""
    source = """extern "C" __global__ void not_numbers(const float *x, float *out, unsigned *bits) {
        out[0] = x[0] - x[0]; out[1] = x[1]; out[2] = sqrtf(-x[2]); bits[0] = __float_as_uint(x[0] * 0.0f);
        out[3] = fminf(x[1], x[3]);
    }"""
    x = np.array([np.inf, 0, 1, np.nan], np.float32)
    x.view(np.uint32)[1] = 0xFFC12345
    out, bits = np.zeros(4, np.float32), np.zeros(1, np.uint32)
    cuda(source)("not_numbers", 1, 1, x, out, bits)
    assert out.view(np.uint32).tolist() == [0x7FFFFFFF, 0xFFC12345, 0x7FFFFFFF, 0x7FFFFFFF]
    assert bits[0] == 0x7FFFFFFF


def test_ptx_is_deterministic_per_variant() -> None:
    from cudalab.sim.compiler import build

    ptx = compile_cuda(_TILED)
    plan = build.plan_of(ptx)
    assert build.generate_text(plan, "plain") == build.generate_text(build.plan_module(build.parse_ptx(ptx)), "plain")
    with pytest.raises(ValueError, match="variant is one of"):
        build.generate(ptx, "fast")
