"""What a curious learner tries in an evening: kernels from books and blogs, whole results against NumPy.

Each experiment runs on the device of the test run, so on a real GPU too.
"""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from cudalab import cp

GENERATOR = np.random.default_rng(20)


def kernel(source: str, name: str = "k", **options):
    return cp.RawKernel(f'extern "C" __global__ {source}', name, **options)


def same(actual, expected) -> None:
    np.testing.assert_array_equal(cp.asnumpy(actual), expected)


def near(actual, expected, rtol: float = 1e-5, atol: float = 0.0) -> None:
    np.testing.assert_allclose(cp.asnumpy(actual), expected, rtol=rtol, atol=atol)


def test_tiled_product_of_matrices_that_are_not_square() -> None:
    module = cp.RawModule(
        code="""
        template <int T>
        __global__ void product(const float *a, const float *b, float *c, int m, int n, int k) {
            __shared__ float left[T][T], right[T][T];
            int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
            float sum = 0;
            for (int t = 0; t < (k + T - 1) / T; ++t) {
                int x = t * T + threadIdx.x, y = t * T + threadIdx.y;
                left[threadIdx.y][threadIdx.x] = row < m && x < k ? a[row * k + x] : 0;
                right[threadIdx.y][threadIdx.x] = y < k && column < n ? b[y * n + column] : 0;
                __syncthreads();
                for (int i = 0; i < T; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
                __syncthreads();
            }
            if (row < m && column < n) c[row * n + column] = sum;
        }""",
        name_expressions=["product<16>", "product<8>"],
    )
    m, n, k = 70, 45, 99
    a, b = GENERATOR.random((m, k), dtype=np.float32), GENERATOR.random((k, n), dtype=np.float32)
    for tile in (16, 8):
        c = cp.zeros((m, n), cp.float32)
        grid = (-(-n // tile), -(-m // tile))
        launch = module.get_function(f"product<{tile}>")
        launch(grid, (tile, tile), (cp.asarray(a), cp.asarray(b), c, np.int32(m), np.int32(n), np.int32(k)))
        near(c, a @ b)


def test_transpose_through_shared_memory() -> None:
    transpose = kernel("""void k(const double *a, double *b, int h, int w) {
        __shared__ double tile[32][33];
        int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
        for (int j = 0; j < 32; j += 8) if (x < w && y + j < h) tile[threadIdx.y + j][threadIdx.x] = a[(y + j) * w + x];
        __syncthreads();
        x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
        for (int j = 0; j < 32; j += 8) if (x < h && y + j < w) b[(y + j) * h + x] = tile[threadIdx.x][threadIdx.y + j];
    }""")
    a, b = GENERATOR.random((100, 257)), cp.empty((257, 100))
    transpose((9, 4), (32, 8), (cp.asarray(a), b, np.int32(100), np.int32(257)))
    same(b, a.T)


def test_prefix_sum_over_many_blocks() -> None:
    module = cp.RawModule(
        code=r"""
        extern "C" __global__ void scan(const int *in, int *out, int *sums, int n) {
            extern __shared__ int t[];
            int i = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x;
            t[l] = i < n ? in[i] : 0;
            __syncthreads();
            for (int o = 1; o < blockDim.x; o <<= 1) {
                int v = l >= o ? t[l - o] : 0;
                __syncthreads();
                t[l] += v;
                __syncthreads();
            }
            if (i < n) out[i] = t[l];
            if (l == blockDim.x - 1) sums[blockIdx.x] = t[l];
        }
        extern "C" __global__ void add(int *out, const int *sums, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n && blockIdx.x) out[i] += sums[blockIdx.x - 1];
        }"""
    )
    n, threads = 30_001, 256
    blocks = -(-n // threads)
    a = GENERATOR.integers(0, 10, n, dtype=np.int32)
    out, sums, totals, rest = (cp.empty(size, cp.int32) for size in (n, blocks, blocks, 1))
    scan, add = module.get_function("scan"), module.get_function("add")
    scan((blocks,), (threads,), (cp.asarray(a), out, sums, np.int32(n)), shared_mem=4 * threads)
    scan((1,), (threads,), (sums, totals, rest, np.int32(blocks)), shared_mem=4 * threads)
    add((blocks,), (threads,), (out, totals, np.int32(n)))
    same(out, np.cumsum(a))


def test_warp_operations_of_every_kind() -> None:
    run = kernel("""void k(int *o, double *d) {
        int l = threadIdx.x, sum = l, scan = l;
        for (int i = 16; i; i >>= 1) sum += __shfl_xor_sync(~0u, sum, i);
        for (int i = 1; i < 32; i *= 2) { int n = __shfl_up_sync(~0u, scan, i); if (l >= i) scan += n; }
        o[l] = sum; o[32 + l] = scan; o[64 + l] = __shfl_down_sync(~0u, l, 3); o[96 + l] = __shfl_sync(~0u, l, 5, 8);
        o[128 + l] = __ballot_sync(~0u, l & 1); o[160 + l] = __reduce_add_sync(~0u, l);
        o[192 + l] = __match_any_sync(~0u, l / 3); d[l] = __shfl_xor_sync(~0u, l * 1.5, 1);
    }""")
    o, d = cp.zeros((7, 32), cp.int32), cp.zeros(32)
    run((1,), (32,), (o, d))
    lane = np.arange(32)
    groups = [sum(1 << j for j in range(32) if j // 3 == i // 3) for i in range(32)]
    odd = [0xAAAAAAAA] * 32
    rows = [[496] * 32, np.cumsum(lane), np.where(lane + 3 < 32, lane + 3, lane), lane // 8 * 8 + 5, odd, [496] * 32]
    same(o, np.array([*rows, groups], np.uint32).view(np.int32))
    same(d, (lane ^ 1) * 1.5)


def test_histogram_with_two_16_bit_counters_in_a_word() -> None:
    count = kernel("""void k(const unsigned char *data, unsigned *out, int n) {
        __shared__ unsigned words[128];
        for (int i = threadIdx.x; i < 128; i += blockDim.x) words[i] = 0;
        __syncthreads();
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
            atomicAdd(&words[data[i] >> 1], 1u << (16 * (data[i] & 1)));
        __syncthreads();
        for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(out + i, (unsigned)((unsigned short *)words)[i]);
    }""")
    data, out = GENERATOR.integers(0, 256, 50_000, dtype=np.uint8), cp.zeros(256, cp.uint32)
    count((8,), (256,), (cp.asarray(data), out, np.int32(data.size)))
    same(out, np.bincount(data, minlength=256))


def test_bitonic_sort() -> None:
    step = kernel("""void k(float *d, int j, int k) {
        unsigned i = threadIdx.x + blockDim.x * blockIdx.x, x = i ^ j;
        if (x > i && ((i & k) == 0 ? d[i] > d[x] : d[i] < d[x])) { float t = d[i]; d[i] = d[x]; d[x] = t; }
    }""")
    a = GENERATOR.random(2048, dtype=np.float32)
    d = cp.asarray(a)
    for k in (2 << n for n in range(11)):
        for j in (k >> n for n in range(1, k.bit_length())):
            step((8,), (256,), (d, np.int32(j), np.int32(k)))
    same(d, np.sort(a))


def test_radix_sort_by_one_bit_at_a_time() -> None:
    module = cp.RawModule(
        code=r"""
        extern "C" __global__ void flag(const unsigned *a, int *f, int bit, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) f[i] = !(a[i] >> bit & 1);
        }
        extern "C" __global__ void scatter(
            const unsigned *a, unsigned *b, const int *f, const int *s, int zeros, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) b[f[i] ? s[i] - 1 : zeros + i - s[i]] = a[i];
        }"""
    )
    n = 3000
    a = GENERATOR.integers(0, 2**32, n, dtype=np.uint32)
    x, y, f = cp.asarray(a), cp.empty(n, cp.uint32), cp.empty(n, cp.int32)
    for bit in range(32):
        module.get_function("flag")((12,), (256,), (x, f, np.int32(bit), np.int32(n)))
        s = cp.cumsum(f).astype(cp.int32)
        module.get_function("scatter")((12,), (256,), (x, y, f, s, np.int32(int(s[-1])), np.int32(n)))
        x, y = y, x
    same(x, np.sort(a))


def test_sparse_matrix_with_a_warp_for_a_row() -> None:
    multiply = kernel("""void k(const int *p, const int *c, const double *v, const double *x, double *y, int n) {
        int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
        if (row >= n) return;
        double sum = 0;
        for (int i = p[row] + lane; i < p[row + 1]; i += 32) sum += v[i] * x[c[i]];
        for (int o = 16; o; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o);
        if (!lane) y[row] = sum;
    }""")
    n = 300
    dense = (GENERATOR.random((n, n)) < 0.1) * GENERATOR.random((n, n))
    starts = np.r_[0, np.cumsum((dense != 0).sum(1))].astype(np.int32)
    rows, columns = np.nonzero(dense)
    x, y = GENERATOR.random(n), cp.zeros(n)
    arrays = (starts, columns.astype(np.int32), dense[rows, columns], x)
    multiply((-(-n // 8),), (256,), (*map(cp.asarray, arrays), y, np.int32(n)))
    near(y, dense @ x, rtol=1e-12)


def test_breadth_first_search_with_a_frontier() -> None:
    expand = kernel("""void k(
        const int *p, const int *c, int *dist, const int *f, int nf, int *next, int *count, int level) {
        int t = blockIdx.x * blockDim.x + threadIdx.x;
        if (t >= nf) return;
        for (int e = p[f[t]]; e < p[f[t] + 1]; ++e)
            if (atomicCAS(&dist[c[e]], -1, level) == -1) next[atomicAdd(count, 1)] = c[e];
    }""")
    n = 800
    edges = GENERATOR.random((n, n)) < 0.004
    p, c = np.r_[0, np.cumsum(edges.sum(1))].astype(np.int32), np.nonzero(edges)[1].astype(np.int32)
    graph = cp.asarray(p), cp.asarray(c)
    dist, frontier, following = cp.full(n, -1, cp.int32), cp.zeros(n, cp.int32), cp.zeros(n, cp.int32)
    dist[0] = 0
    size, level = 1, 0
    expected, reached = np.full(n, -1), np.arange(n) == 0
    expected[0] = 0
    while size:
        level += 1
        count = cp.zeros(1, cp.int32)
        args = (*graph, dist, frontier, np.int32(size), following, count, np.int32(level))
        expand((-(-size // 128),), (128,), args)
        size, frontier, following = int(count[0]), following, frontier
        reached = edges[reached].any(0) & (expected < 0)
        expected[reached] = level
    same(dist, expected)


def test_game_of_life_on_a_torus() -> None:
    step = kernel("""void k(const unsigned char *a, unsigned char *b, int h, int w) {
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, n = 0;
        if (x >= w || y >= h) return;
        for (int j = -1; j <= 1; ++j)
            for (int i = -1; i <= 1; ++i) if (i || j) n += a[(y + j + h) % h * w + (x + i + w) % w];
        b[y * w + x] = n == 3 || (n == 2 && a[y * w + x]);
    }""")
    a = GENERATOR.integers(0, 2, (65, 70), dtype=np.uint8)
    here, there = cp.asarray(a), cp.empty((65, 70), cp.uint8)
    for _ in range(10):
        step((5, 5), (16, 16), (here, there, np.int32(65), np.int32(70)))
        here, there = there, here
        n = sum(np.roll(a, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        a = ((n == 3) | ((n == 2) & (a == 1))).astype(np.uint8)
    same(here, a)


def test_random_numbers_by_hash_and_xorshift() -> None:
    run = cp.RawKernel(
        r"""
        __device__ unsigned hash(unsigned x) {
            x ^= x >> 16; x *= 0x7feb352dU; x ^= x >> 15; x *= 0x846ca68bU; return x ^ x >> 16;
        }
        extern "C" __global__ void k(unsigned *r, int n) {
            int t = blockIdx.x * blockDim.x + threadIdx.x;
            unsigned s = hash(t + 1) | 1;
            for (int i = 0; i < n; ++i) { s ^= s << 13; s ^= s >> 17; s ^= s << 5; }
            r[t] = s;
        }""",
        "k",
    )
    r = cp.zeros(4096, cp.uint32)
    run((16,), (256,), (r, np.int32(100)))
    x = np.arange(1, 4097, dtype=np.uint32)
    x ^= x >> 16
    x *= np.uint32(0x7FEB352D)
    x ^= x >> 15
    x *= np.uint32(0x846CA68B)
    s = (x ^ x >> 16) | 1
    for _ in range(100):
        s ^= s << 13
        s ^= s >> 17
        s ^= s << 5
    same(r, s)


def test_text_search_with_a_pattern_in_constant_memory() -> None:
    module = cp.RawModule(
        code=r"""
        __constant__ char pattern[64];
        extern "C" __global__ void find(const char *text, int n, int m, bool *found) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i + m > n) return;
            for (int j = 0; j < m; ++j) if (text[i + j] != pattern[j]) return;
            found[i] = true;
        }"""
    )
    text, pattern = b"abracadabra" * 300, b"abra"
    cp.ndarray(4, cp.int8, module.get_global("pattern"))[:] = cp.asarray(np.frombuffer(pattern, np.int8))
    found = cp.zeros(len(text), cp.bool_)
    data = cp.asarray(np.frombuffer(text, np.int8))
    module.get_function("find")((13,), (256,), (data, np.int32(len(text)), np.int32(4), found))
    same(found, [text.startswith(pattern, i) for i in range(len(text))])


def test_grey_image_with_vector_types() -> None:
    grey = kernel("""void k(const uchar4 *a, uchar4 *b, float4 *f, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        uchar4 p = a[i];
        unsigned char y = (77 * p.x + 150 * p.y + 29 * p.z) >> 8;
        b[i] = make_uchar4(y, y, y, p.w);
        f[i] = make_float4(p.x / 255.f, p.y / 255.f, p.z / 255.f, p.w / 255.f);
    }""")
    a = GENERATOR.integers(0, 256, (50, 40, 4), dtype=np.uint8)
    b, f = cp.empty((50, 40, 4), cp.uint8), cp.empty((50, 40, 4), cp.float32)
    grey((8,), (256,), (cp.asarray(a), b, f, np.int32(2000)))
    wide = a.astype(int)
    y = (77 * wide[..., 0] + 150 * wide[..., 1] + 29 * wide[..., 2]) >> 8
    same(b, np.stack([y, y, y, wide[..., 3]], -1))
    near(f, a / 255.0)


def test_elimination_in_steps_from_the_host() -> None:
    module = cp.RawModule(
        code=r"""
        extern "C" __global__ void scale(double *a, int n, int k) {
            int i = k + 1 + threadIdx.x;
            if (i < n) a[i * n + k] /= a[k * n + k];
        }
        extern "C" __global__ void subtract(double *a, int n, int k) {
            int i = k + 1 + blockIdx.y * blockDim.y + threadIdx.y, j = k + 1 + blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n && j < n) a[i * n + j] -= a[i * n + k] * a[k * n + j];
        }"""
    )
    n = 40
    matrix = GENERATOR.random((n, n)) + n * np.eye(n)
    d = cp.asarray(matrix)
    for k in range(n - 1):
        module.get_function("scale")((1,), (64,), (d, np.int32(n), np.int32(k)))
        module.get_function("subtract")((3, 3), (16, 16), (d, np.int32(n), np.int32(k)))
    factors = d.get()
    near((np.tril(factors, -1) + np.eye(n)) @ np.triu(factors), matrix, rtol=1e-10)


def test_shared_memory_above_48_kilobytes_after_an_opt_in() -> None:
    reverse = kernel("""void k(int *o, int n) {
        extern __shared__ int t[];
        for (int i = threadIdx.x; i < n; i += blockDim.x) t[i] = i;
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += blockDim.x) o[i] = t[n - 1 - i];
    }""")
    n = 25_600
    o = cp.zeros(n, cp.int32)
    with pytest.raises(cp.cuda.driver.CUDADriverError, match="CUDA_ERROR_INVALID_VALUE"):
        reverse((1,), (256,), (o, np.int32(n)), shared_mem=4 * n)
    reverse.max_dynamic_shared_size_bytes = 4 * n
    reverse((1,), (256,), (o, np.int32(n)), shared_mem=4 * n)
    same(o, np.arange(n)[::-1])


def test_functions_of_the_math_library_at_negative_and_special_arguments() -> None:
    names = ["sin", "exp", "log1p", "cbrt", "tanh", "asinh", "erf", "erfc", "lgamma", "tgamma"]
    body = "".join(f"o[{place} * n + i] = {name}(x[i]);" for place, name in enumerate(names))
    run = kernel(f"void k(const double *x, double *o, int n) {{ int i = threadIdx.x; if (i < n) {{ {body} }} }}")
    x = np.r_[GENERATOR.random(100) * 5 + 0.01, -GENERATOR.random(100) * 0.9 - 0.05, 20.5]
    o = cp.zeros((len(names), x.size))
    run((1,), (256,), (cp.asarray(x), o, np.int32(x.size)))
    functions = [getattr(math, {"tgamma": "gamma"}.get(name, name)) for name in names if name != "cbrt"]
    functions.insert(3, np.cbrt)
    near(o, [[function(value) for value in x.tolist()] for function in functions], rtol=1e-12, atol=1e-13)


def test_integer_operations_that_cpp_leaves_open() -> None:
    """What the PTX ISA and an H200 say: no signal at a division by zero, shifts beyond the width give 0 or the sign."""
    run = kernel("""void k(const int *a, const int *b, int *o) {
        int i = threadIdx.x;
        o[i] = a[i] / b[i]; o[8 + i] = a[i] % b[i]; o[16 + i] = a[i] << b[i]; o[24 + i] = a[i] >> b[i];
        o[32 + i] = (int)(a[i] * 1e10f); o[40 + i] = abs(a[i]);
    }""")
    low, high = -(2**31), 2**31 - 1
    a, b = np.array([5, -5, low, high, 0, 1, -1, 7], np.int32), np.array([0, 0, -1, 0, 1, 33, 32, 3], np.int32)
    o = cp.zeros((6, 8), cp.int32)
    run((1,), (8,), (cp.asarray(a), cp.asarray(b), o))
    quotients, rests = [-1, -1, low, -1, 0, 0, 0, 2], [-1, -1, 0, -1, 0, 1, -1, 1]
    left, right = [5, -5, 0, high, 0, 0, 0, 56], [5, -5, -1, high, 0, 0, -1, 0]
    rounded, absolute = [high, low, low, high, 0, high, low, high], [5, 5, low, high, 0, 1, 1, 7]
    same(o, [quotients, rests, left, right, rounded, absolute])


def test_modular_powers_in_64_and_128_bits() -> None:
    power = kernel(
        """void k(const unsigned long long *n, unsigned long long *o) {
            int i = threadIdx.x;
            unsigned long long result = 1, base = 3, e = n[i] - 1;
            for (; e; e >>= 1) {
                if (e & 1) result = (unsigned __int128)result * base % n[i];
                base = (unsigned __int128)base * base % n[i];
            }
            o[i] = result;
        }""",
        options=("--device-int128",),
    )
    n = GENERATOR.integers(2**60, 2**62, 32).astype(np.uint64)
    o = cp.zeros(32, cp.uint64)
    power((1,), (32,), (cp.asarray(n), o))
    same(o, np.array([pow(3, value - 1, value) for value in n.tolist()], np.uint64))


def test_lock_that_threads_of_one_warp_share() -> None:
    """Every thread makes progress by itself, so the loser of the race does not keep the winner from unlocking."""
    count = kernel("""void k(int *lock, volatile int *c) {
        for (bool done = false; !done;)
            if (atomicCAS(lock, 0, 1) == 0) { c[0] = c[0] + 1; __threadfence(); atomicExch(lock, 0); done = true; }
    }""")
    lock, c = cp.zeros(1, cp.int32), cp.zeros(1, cp.int32)
    count((4,), (64,), (lock, c))
    same(c, [256])


def test_recursion_and_a_switch_that_falls_through() -> None:
    run = cp.RawKernel(
        r"""
        __device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
        extern "C" __global__ void k(int *o, int *s) {
            int i = threadIdx.x, r = 0;
            o[i] = fib(i % 16);
            switch (i % 7) {
                case 0: r = 5; break;
                case 1: r = i;
                case 2: r += 7; break;
                case 3: case 4: r = i * i; break;
                case 5: s[i] = -1; return;
                default: r = 12;
            }
            s[i] = r;
        }""",
        "k",
    )
    o, s = cp.zeros(64, cp.int32), cp.zeros(64, cp.int32)
    run((1,), (64,), (o, s))
    numbers = [0, 1]
    while len(numbers) < 16:
        numbers.append(numbers[-1] + numbers[-2])
    same(o, np.tile(numbers, 4))
    same(s, [{0: 5, 1: i + 7, 2: 7, 3: i * i, 4: i * i, 5: -1, 6: 12}[i % 7] for i in range(64)])


def test_streams_of_several_host_threads() -> None:
    add = kernel("void k(int *x, int n) { x[blockIdx.x * blockDim.x + threadIdx.x] += n; }")
    results = {}

    def work(number: int) -> None:
        with cp.cuda.Stream(non_blocking=True):
            x = cp.zeros(256, cp.int32)
            for _ in range(20):
                add((2,), (128,), (x, np.int32(number)))
            results[number] = x.get()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    same(np.stack([results[number] for number in range(6)]), np.repeat(20 * np.arange(6)[:, None], 256, axis=1))
