"""Code for several threads at once gives what code for one thread after the other gives: results, faults, places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cudalab.sim.compiler import build
from cudalab.sim.compiler.object_code import lanes_of_host
from cudalab.sim.machine.execution import Standalone
from tests.sim.compiler.kernel_runner import compile_cuda, cuda

pytestmark = pytest.mark.skipif(lanes_of_host() == 0, reason="this processor's vectors are too short")


def has_wide_form(source: str) -> bool:
    return "wide.start:" in build.generate_text(build.plan_of(compile_cuda(source)), "wide", wide=True)


def same(source: str, grid: Any, block: Any, *arguments: Any, shared: int = 0) -> list[np.ndarray]:
    """Run both forms on copies of the arguments; returns the arrays of the wide one, which are equal bit for bit."""
    results = []
    for variant in ("wide", "plain"):
        own = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        cuda(source)("k", grid, block, *own, shared=shared, variant=variant)
        results.append([a for a in own if isinstance(a, np.ndarray)])
    for wide, single in zip(*results, strict=True):
        np.testing.assert_array_equal(wide.view(np.uint8), single.view(np.uint8))
    return results[0]


def same_fault(source: str, grid: Any, block: Any, *arguments: Any) -> Any:
    """Run both forms into their fault; returns the finding, which is the same in both."""
    found = []
    for variant in ("wide", "plain"):
        own = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        outcome = cuda(source).run("k", grid, block, *own, variant=variant)
        assert outcome.fault is not None
        finding = outcome.fault.finding
        found.append((finding.rule, finding.block, finding.thread, finding.line, finding.size, outcome.fault.code))
    assert found[0] == found[1]
    return found[0]


BLOCKS = [1, 8, 16, 33, 48, 64, 100, 1024, (16, 16), (32, 4), (8, 8), (5, 7, 3), (16, 2, 4), (48, 3)]
NUMBERS = np.random.default_rng(4)


def _threads(block: Any) -> int:
    return int(np.prod(block))


# --------------------------------------------------------------------------- shapes of blocks, kinds of control flow

INDEX = (
    "int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);"
    "int i = blockIdx.x * blockDim.x * blockDim.y * blockDim.z + t;"
)
PROGRAMS = {
    "guard": "if (i < n) y[i] = x[i] * 3 + t;",
    "nested branches": """
        int v = x[i % n];
        if (v & 1) { if (v & 2) v += 5; else v -= 7; y[i] = v; } else if (v & 4) y[i] = -v; else y[i] = t;""",
    "early exit": "if (x[i % n] % 3 == 0) return; y[i] = x[i % n]; if (t % 5 == 1) return; y[i] += 1;",
    "trip counts that differ": "int s = 0; for (int k = 0; k < (x[i % n] & 31); k++) s += k * (t + 1); y[i] = s;",
    "break and continue": """
        int s = 0;
        for (int k = 0; k < 40; k++) { if ((k + t) % 7 == 0) continue; s += k; if (s > (x[i % n] & 127)) break; }
        y[i] = s;""",
    "two loops, one inside": """
        int s = 0;
        for (int k = 0; k < (t & 3) + 1; k++) for (int m = k; m < (x[i % n] & 7); m++) s += m ^ k;
        y[i] = s;""",
    "while with a state": """
        unsigned v = x[i % n] & 1023; int c = 0;
        while (v > 1) { v = v & 1 ? 3 * v + 1 : v / 2; c++; if (c > 200) break; }
        y[i] = c;""",
    "uniform loop in a divergent branch": """
        int s = 0;
        if (t % 3) for (int k = 0; k < n % 9; k++) s += x[(i + k) % n]; else s = -1;
        y[i] = s;""",
    "one register on two sides": """
        int r = 5, a = 0, b = 0;
        if (x[i % n] & 1) { r = 7; for (int k = 0; k < r; k++) a += k; }
        else { for (int k = 0; k < r; k++) b += 2 * k; }
        y[i] = a - b;""",
    "switch": """
        switch (x[i % n] & 7) { case 0: y[i] = 1; break; case 1: y[i] = t; break; case 2: y[i] = 9;
            case 3: y[i] += 4; break; case 5: return; default: y[i] = -t; }""",
    "stride over the grid": """
        int all = gridDim.x * blockDim.x * blockDim.y * blockDim.z;
        for (int k = i; k < n; k += all) y[k] = x[k] + 1;""",
    "lane arithmetic": "y[i] = (t & 31) * 1000 + (t >> 5) * 10 + (t / 3) % 4 + (int)((unsigned)t % 13u) - (t << 2);",
    "short and long integers": """
        y[i] = (signed char)(x[i % n]) + (short)(i * 77) + (int)(((long long)t * x[i % n]) >> 3);""",
    "unsigned wrap in the index": "unsigned k = (unsigned)t - 3u; if (k < (unsigned)n) y[i] = x[k]; else y[i] = 1;",
    "neighbours": "if (i > 0 && i < n - 1) y[i] = x[i - 1] - 2 * x[i] + x[i + 1];",
    "gather and scatter": "int p = (i * 7 + 3) % n; y[p] = x[(x[i % n] & 63) % n];",
    "everybody writes one word": "if (i < n) y[0] = t; if (t == 2) y[1] = i;",
    "strides": "if (2 * i + 1 < n) { y[2 * i] = x[2 * i + 1]; y[2 * i + 1] = x[n - 1 - i]; }",
    "integer atomics without results": """
        atomicAdd(&y[x[i % n] & 15], t); if (t & 1) atomicMax(&y[16], i); atomicOr(&y[17], 1 << (t & 7));""",
    "atomics with results": "int p = atomicAdd(&y[0], 1); if (p + 1 < 4096) y[p + 1] = 1;",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_control_flow(name: str) -> None:
    source = f'extern "C" __global__ void k(const int* x, int* y, int n) {{ {INDEX} {PROGRAMS[name]} }}'
    x = NUMBERS.integers(-500, 500, 4096).astype(np.int32)
    if name == "lane arithmetic":
        assert has_wide_form(source)
    for block in BLOCKS:
        for n in (1000, 1):
            same(source, 2, block, x, np.zeros(4096, np.int32), n)


def test_all_but_the_last_programs_have_a_wide_form() -> None:
    """The tests above compare something."""
    missing = [
        name
        for name, body in PROGRAMS.items()
        if not has_wide_form(f'extern "C" __global__ void k(const int* x, int* y, int n) {{ {INDEX} {body} }}')
    ]
    assert missing == ["atomics with results"]


# --------------------------------------------------------------------------- barriers and warp operations

WAITING = {
    "reduction": """
        __shared__ int s[1024]; s[t] = x[i % n]; __syncthreads();
        for (int k = 512; k > 0; k >>= 1) { if (t < k && t + k < threads) s[t] += s[t + k]; __syncthreads(); }
        if (t == 0) y[blockIdx.x] = s[0];""",
    "scan": """
        __shared__ int s[2][1024]; int in = 0; s[0][t] = x[i % n]; __syncthreads();
        for (int d = 1; d < threads; d *= 2) {
            s[1 - in][t] = s[in][t] + (t >= d ? s[in][t - d] : 0); in = 1 - in; __syncthreads(); }
        y[i] = s[in][t];""",
    "values kept over barriers": """
        __shared__ int s[1024]; int a = x[i % n], c = a & 7; double d = a * 0.5; bool odd = a & 1; float f = a;
        s[t] = a; __syncthreads(); int b = s[threads - 1 - t]; __syncthreads(); s[t] = b + c; __syncthreads();
        y[i] = s[(t + 1) % threads] + (odd ? (int)d : (int)f) + c;""",
    "exit before a barrier": """
        __shared__ int s[1024]; s[t] = t; if (x[i % n] % 4 == 0 && t > 3) return; __syncthreads();
        y[i] = s[t] + 1; __syncthreads(); y[i] += s[t / 2];""",
    "shuffles": """
        int v = x[i % n]; int lanes = threads - t / 32 * 32; unsigned m = lanes >= 32 ? ~0u : (1u << lanes) - 1;
        v += __shfl_down_sync(m, v, 3); v ^= __shfl_xor_sync(m, v, 1); v += __shfl_up_sync(m, v, 2, 16);
        v -= __shfl_sync(m, v, t * 5); y[i] = v + __popc(__ballot_sync(m, v & 1)) + __any_sync(m, v > 900);""",
    "shuffles in a branch": """
        int v = x[i % n]; bool odd = t & 1; unsigned m = __ballot_sync(__activemask(), odd);
        if (odd) { v += __shfl_sync(m, v, t & 30 | 1); } y[i] = v;""",
    "barriers in a loop whose length is read": """
        __shared__ int s[1024]; s[t] = 0; int rounds = x[0] & 7;
        for (int k = 0; k < rounds; k++) {
            s[t] += k; __syncthreads(); y[i] += s[threads - 1 - t]; __syncthreads(); }""",
    "warps with loops of their own": """
        int v = 0; unsigned m = __activemask();
        for (int k = 0; k < t / 32 + 1; k++) { __syncwarp(m); v += k; } __syncthreads(); y[i] = v;""",
    "lanes with loops of their own": """
        int v = 0; for (int k = 0; k < (t & 3); k++) { v += __popc(__activemask()) > 0; } __syncthreads(); y[i] = v;""",
    "votes of the block": """
        y[i] = __syncthreads_count(x[i % n] > 0) + 2 * __syncthreads_or(t == 5) + __syncthreads_and(t < 7);""",
}  # fmt: skip


@pytest.mark.parametrize("name", WAITING)
def test_waiting(name: str) -> None:
    head = f"{INDEX} int threads = blockDim.x * blockDim.y * blockDim.z;"
    source = f'extern "C" __global__ void k(const int* x, int* y, int n) {{ {head} {WAITING[name]} }}'
    assert has_wide_form(source)
    x = NUMBERS.integers(-500, 500, 4096).astype(np.int32)
    for block in BLOCKS:
        same(source, 2, block, x, np.zeros(4096, np.int32), 4096)


# --------------------------------------------------------------------------- numbers


def test_float_arithmetic_is_the_same_bit_for_bit() -> None:
    source = """
    extern "C" __global__ void k(const float* x, const double* d, float* y, double* z) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; float a = x[i], b = x[i ^ 1];
        y[i] = a * b + __sinf(a) / (b - 1) + rsqrtf(fabsf(b)) + fminf(a, b) + exp2f(b) + __int_as_float(i * 9973)
             + (float)(int)a + floorf(b) + __fdividef(a, b) + __cosf(a) + __log2f(fabsf(b)) + __fsqrt_rz(fabsf(a))
             + __fadd_ru(a, b);
        z[i] = d[i] * a - sqrt(fabs(d[i])) / b + (double)(long long)d[i] + fma(d[i], d[i], 1e-300);
    }"""
    assert has_wide_form(source)
    x = NUMBERS.standard_normal(512).astype(np.float32) * 100
    x[:8] = [0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, 1]
    d = NUMBERS.standard_normal(512) * 1e5
    same(source, 4, 128, x, d, np.zeros(512, np.float32), np.zeros(512))


def test_vectors_of_four() -> None:
    source = """
    extern "C" __global__ void k(const float4* x, float4* y, uchar4* z, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float4 v = x[i], w = x[n - 1 - i];
        y[i] = make_float4(v.x + w.w, v.y * w.z, v.z - w.y, v.w); z[i] = make_uchar4(i, i / 2, v.x, w.y); }"""
    x = NUMBERS.random((250, 4), np.float32) * 200
    y, z = same(source, 4, 64, x, np.zeros_like(x), np.zeros((250, 4), np.uint8), 250)[1:]
    np.testing.assert_array_equal(y[:, 0], x[:, 0] + x[::-1, 3])
    np.testing.assert_array_equal(z[:, 0], np.arange(250) % 256)


def test_index_that_wraps_inside_a_group_of_lanes() -> None:
    source = """
    extern "C" __global__ void k(const int* x, int* y, unsigned start, long long back) {
        unsigned u = start + threadIdx.x; const int* p = x - back; y[threadIdx.x] = p[u < 1000u ? u + back : back]; }"""
    x = np.arange(2000, dtype=np.int32)
    (_, y) = same(source, 1, 64, x, np.zeros(64, np.int32), 0xFFFF_FFFA, 0)
    np.testing.assert_array_equal(y[:10], [0, 0, 0, 0, 0, 0, 0, 1, 2, 3])


# --------------------------------------------------------------------------- faults

FAULTS = {
    "past the end, one thread": ("y[i] = x[i == 37 ? 5000 : i];", 37),
    "past the end, the last": ("if (i < 100) y[i] = 1; else if (i == 127) y[4096] = 1;", 127),
    "before the start": ("y[i] = x[i - (i == 70 ? 100 : 0)];", 70),
    "misaligned": ("char* p = (char*)y; *(int*)(p + 4 * i + (i == 21 ? 2 : 0)) = 1;", 21),
    "uniform address": ("if (i % 2 == 1 && i > 32) y[1 << 20] = 3;", 33),
    "shared": ("__shared__ int s[64]; s[t & 63] = t; y[i] = s[i == 50 ? 64 : 0];", 50),
    "after a barrier": ("__shared__ int s[128]; s[t] = t; __syncthreads(); y[i] = x[s[t] == 99 ? -1 : t];", 99),
    "trap": ('if (i == 77) asm volatile("trap;"); y[i] = 1;', 77),
    "in a loop": ("for (int k = 0; k < 40; k++) if (k != 30 || i == 18) y[k == 30 ? 9999 : i] = k;", 18),
    "row of a grid": ("int row = t / 16; y[row * 16 + t % 16 + (row == 3 ? 5000 : 0)] = 1;", 48),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_names_the_same_thread(name: str) -> None:
    body, thread = FAULTS[name]
    source = f'extern "C" __global__ void k(const int* x, int* y) {{ {INDEX}\n {body} }}'
    assert has_wide_form(source)
    x = np.arange(128, dtype=np.int32)
    found = same_fault(source, 1, 128, x, np.zeros(128, np.int32))
    assert found[2] == (thread, 0, 0)


def test_lanes_that_are_switched_off_may_point_anywhere() -> None:
    source = """
    extern "C" __global__ void k(const int* x, int* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] + x[n - 1 - i]; }"""
    x = np.arange(37, dtype=np.int32)
    (_, y) = same(source, 1, 64, x, np.zeros(37, np.int32), 37)
    assert (y == 36).all()


def test_endless_loop_is_stopped() -> None:
    source = 'extern "C" __global__ void k(int* y) { while (y[0] == 0) y[1 + threadIdx.x] += 1; }'
    outcome = cuda(source).run(
        "k", 1, 64, np.zeros(65, np.int32), variant="wide", surroundings=Standalone(time_limit=0.3)
    )
    assert outcome.fault is not None
    assert outcome.fault.code == 702


# --------------------------------------------------------------------------- when it is chosen


@pytest.mark.parametrize(("block", "launches", "chosen"), [(256, 1, False), (256, 33, True), (100, 90, False)])
def test_kernels_with_many_threads_get_it(block: int, launches: int, chosen: bool) -> None:
    source = f"""// {block} {launches}
    extern "C" __global__ void k(int* y, int n) {{
        int s = 0; for (int j = 0; j < n; j++) s += y[j & 63] + j;
        y[blockIdx.x * blockDim.x + threadIdx.x + 64] = s; }}"""
    y = np.zeros(4 * block + 64, np.int32)
    for _ in range(launches):
        cuda(source)("k", 4, block, y, 300, variant="")
    assert (y[64:] == 299 * 150).all()
    assert ("wide" in cuda(source).kernel("k")._entries) == chosen


def test_two_workers_get_it_with_atomics() -> None:
    source = """
    extern "C" __global__ void k(const int* x, int* bins) {
        atomicAdd(&bins[x[blockIdx.x * blockDim.x + threadIdx.x] & 63], 1); }"""
    x = NUMBERS.integers(0, 64, 1 << 16).astype(np.int32)
    bins = np.zeros(64, np.int32)
    cuda(source)("k", 256, 256, x, bins, variant="", surroundings=Standalone(workers=2))
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=64))
    assert "wide_atomic" in cuda(source).kernel("k")._entries
