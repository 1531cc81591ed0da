"""`cudalab.profile` over the simulated device: counters of real kernels against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.analysis.profile import profile
from cudalab.sim import cupy as cp
from cudalab.sim.machine.counters import sampling

STRIDE = """
extern "C" __global__ void k(const float* x, float* y, int stride, int offset) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i * stride + offset];
}"""


def kernel(code: str, name: str = "k", **options) -> cp.RawKernel:
    return cp.RawKernel(code, name, **options)


@pytest.mark.parametrize(
    ("stride", "offset", "sectors"),
    [(1, 0, 4), (2, 0, 8), (4, 0, 16), (8, 0, 32), (32, 0, 32), (1, 1, 5), (1, 7, 5), (1, 8, 4), (0, 0, 1)],
)
def test_sectors_per_request_of_strided_loads(stride: int, offset: int, sectors: float) -> None:
    x, y = cp.zeros(1024 * 33, cp.float32), cp.zeros(1024, cp.float32)
    found = profile(kernel(STRIDE), (4,), (256,), (x, y, np.int32(stride), np.int32(offset)))
    assert found.exact
    assert found.global_loads.requests == 32
    assert found.global_loads.sectors_per_request == sectors
    assert found.global_stores.sectors_per_request == 4
    assert found.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 32 * sectors


@pytest.mark.parametrize(("kind", "size"), [("char", 1), ("short", 2), ("float", 4), ("double", 8), ("float4", 16)])
def test_sectors_follow_the_element(kind: str, size: int) -> None:
    code = f'extern "C" __global__ void k(const {kind}* x, {kind}* y) {{ y[threadIdx.x] = x[threadIdx.x]; }}'
    dtype = {"char": np.int8, "short": np.int16, "double": np.float64}.get(kind, np.float32)
    x, y = (cp.zeros(256 * size // np.dtype(dtype).itemsize, dtype) for _ in range(2))
    found = profile(kernel(code), 1, 256, (x, y))
    assert found.global_loads.sectors_per_request == found.global_stores.sectors_per_request == size
    assert found.global_loads.bytes == 256 * size


def test_an_array_of_structs_against_a_struct_of_arrays() -> None:
    aos = """
struct P { float x, y, z, w; };
extern "C" __global__ void k(const P* p, float* out) { int i = threadIdx.x; out[i] = p[i].x; }"""
    found = profile(kernel(aos), 1, 256, (cp.zeros(1024, cp.float32), cp.zeros(256, cp.float32)))
    assert found.global_loads.sectors_per_request == 16


def test_a_column_sum_by_rows_and_by_columns() -> None:
    code = """
extern "C" __global__ void k(const float* m, float* sums, int rows, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    float total = 0.0f;
    for (int r = 0; r < rows; r++) total += m[INDEX];
    sums[c] = total;
}"""
    m, sums = cp.zeros((64, 64), cp.float32), cp.zeros(64, cp.float32)
    arguments = (m, sums, np.int32(64), np.int32(64))
    good = profile(kernel(code.replace("INDEX", "r * columns + c")), 1, 64, arguments)
    bad = profile(kernel(code.replace("INDEX", "c * rows + r")), 1, 64, arguments)
    assert (good.global_loads.requests, good.global_loads.sectors_per_request) == (128, 4)
    assert (bad.global_loads.requests, bad.global_loads.sectors_per_request) == (128, 32)


TRANSPOSE = """
extern "C" __global__ void k(const float* a, float* b) {
    __shared__ float tile[32][32 + PAD];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = a[y * 32 + x];
    __syncthreads();
    b[y * 32 + x] = tile[x][y];
}"""


@pytest.mark.parametrize(("pad", "conflicts"), [(0, 31), (1, 0), (2, 1), (4, 3)])
def test_bank_conflicts_of_a_transpose(pad: int, conflicts: int) -> None:
    a, b = cp.zeros(1024, cp.float32), cp.zeros(1024, cp.float32)
    found = profile(kernel(TRANSPOSE, options=(f"-DPAD={pad}",)), 1, (32, 32), (a, b))
    assert found.shared_stores.bank_conflicts == 0
    assert (found.shared_loads.requests, found.shared_loads.bank_conflicts) == (32, 32 * conflicts)
    assert found.bank_conflicts == 32 * conflicts
    assert found.counts.barriers == 32


@pytest.mark.parametrize(("kind", "stride", "wavefronts"), [("double", 1, 2), ("double", 2, 4), ("float4", 1, 4)])
def test_wide_shared_accesses(kind: str, stride: int, wavefronts: int) -> None:
    code = f"""
extern "C" __global__ void k(const {kind}* x, {kind}* y) {{
    __shared__ {kind} s[64];
    s[threadIdx.x * {stride}] = x[threadIdx.x];
    __syncwarp();
    y[threadIdx.x] = s[threadIdx.x * {stride}];
}}"""
    dtype = np.float64 if kind == "double" else np.float32
    x, y = cp.zeros(128, dtype), cp.zeros(128, dtype)
    found = profile(kernel(code), 1, 32, (x, y))
    assert found.shared_stores.wavefronts_per_request == wavefronts


def test_divergence() -> None:
    code = """
extern "C" __global__ void k(float* x) {
    int i = threadIdx.x;
    if (CONDITION) for (int n = 0; n < 50; n++) x[i] = x[i] * x[i] + 1.0f;
    else for (int n = 0; n < 50; n++) x[i] = sqrtf(x[i]) + 2.0f;
}"""
    x = cp.ones(64, cp.float32)
    split = profile(kernel(code.replace("CONDITION", "i % 2")), 1, 64, (x,))
    whole = profile(kernel(code.replace("CONDITION", "i / 32")), 1, 64, (x,))
    assert whole.branch_efficiency == 1.0 and whole.thread_efficiency == 1.0
    assert split.branch_efficiency < 1.0 and split.thread_efficiency < 0.6
    assert split.instructions > 1.7 * whole.instructions


def test_atomics() -> None:
    code = 'extern "C" __global__ void k(int* counts) { atomicAdd(&counts[threadIdx.x % 4], 1); }'
    found = profile(kernel(code), 2, 64, (cp.zeros(4, cp.int32),))
    assert (found.global_atomics.requests, found.global_atomics.accesses) == (4, 128)
    assert found.global_atomics.sectors == found.global_atomics.operations == 4 * 8  # one lane of an address at a time


def test_a_large_grid_is_sampled_and_scaled() -> None:
    n = 1 << 22
    x, y = cp.zeros(n, cp.float32), cp.zeros(n, cp.float32)
    found = profile(kernel(STRIDE), n // 256, 256, (x, y, np.int32(1), np.int32(0)))
    assert not found.exact and found.counts.sampled < found.counts.blocks == n // 256
    assert found.global_loads.requests == pytest.approx(n / 32)
    assert found.global_loads.sectors_per_request == 4
    assert "scaled from" in repr(found)


@pytest.mark.parametrize("sample", [1, 2, 3, 7, 100])
def test_a_sample_of_given_size(sample: int) -> None:
    x, y = cp.zeros(4096, cp.float32), cp.zeros(4096, cp.float32)
    found = profile(kernel(STRIDE), 16, 256, (x, y, np.int32(1), np.int32(0)), sample=sample)
    assert found.counts.sampled == min(sample, 16)
    assert found.global_loads.requests == pytest.approx(128)
    with pytest.raises(ValueError, match="sample must be at least 1"):
        profile(kernel(STRIDE), 16, 256, (x, y, np.int32(1), np.int32(0)), sample=0)


def test_occupancy_and_its_limiter() -> None:
    code = 'extern "C" __global__ void k(float* x) { extern __shared__ float s[]; s[threadIdx.x] = x[0]; x[0] = s[0]; }'
    found = profile(kernel(code), 1, 128, (cp.zeros(4, cp.float32),), shared=48 * 1024)
    assert (found.occupancy.blocks_per_sm, found.occupancy.limiter) == (4, "shared memory")
    assert found.shared == 48 * 1024


def test_profiling_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code = 'extern "C" __global__ void k(int* x) { printf("hello"); atomicAdd(x, 1); x[threadIdx.x] = 5; }'
    x = cp.arange(64, dtype=cp.int32)
    profile(kernel(code), 3, 64, (x,))
    assert np.array_equal(cp.asnumpy(x), np.arange(64))
    assert capsys.readouterr().out == ""


def test_accesses_are_listed_by_line() -> None:
    x, y = cp.zeros(1024 * 2, cp.float32), cp.zeros(1024, cp.float32)
    found = profile(kernel(STRIDE), (4,), (256,), (x, y, np.int32(2), np.int32(0)))
    lines = [(line.place.line, line.kind, line.sectors_per_request) for line in found.lines]
    assert lines == [(4, "global load", 8.0), (4, "global store", 4.0)]
    text = repr(found)
    assert "kernel.cu:4: global load, 8 sectors per request" in text
    assert "Global loads: sectors per request" in text and "counted in all 4 blocks" in text
    assert "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum" in found._repr_html_()
    assert found.summary.startswith("k: global loads take 8 sectors per request;")


def test_a_faulting_launch_is_counted_as_far_as_it_came() -> None:
    code = 'extern "C" __global__ void k(float* x) { x[blockIdx.x * 32 + threadIdx.x] = 1.0f; }'
    found = profile(kernel(code), 4, 32, (cp.zeros(64, cp.float32),))
    assert not found.counts.complete and found.global_stores.requests >= 2
    assert "estimates" in repr(found)


UNEVEN = """
extern "C" __global__ void k(const int* rounds, const float* x, float* y) {
    float sum = 0.0f;
    for (int r = 0; r < rounds[blockIdx.x]; ++r) sum += x[(32 * r + threadIdx.x) % 4096];
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}"""


def test_blocks_that_differ_much_are_sampled_by_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the blocks, all in one part of the grid, does nearly everything; the first block nearly nothing."""
    rounds = np.full(512, 3, np.int32)
    rounds[200:250] = np.random.default_rng(1).integers(50, 200, 50)
    monkeypatch.setattr(sampling, "UNEVEN", 1 << 17)
    arrays = cp.asarray(rounds), cp.ones(4096, cp.float32), cp.zeros(512 * 64, cp.float32)
    found = profile(kernel(UNEVEN), 512, 64, arrays)
    requests = 2 * float((rounds + 1).sum())  # of two warps: x, and the number of rounds
    assert found.counts.by_work and found.counts.sampled < 40
    assert "chosen and weighed by their work" in repr(found)
    assert found.global_loads.requests == pytest.approx(requests, rel=0.03)
    assert found.global_stores.requests == pytest.approx(1024, rel=0.03)
    assert np.array_equal(cp.asnumpy(arrays[2]), np.zeros(512 * 64))


def test_few_records_of_blocks_that_differ_are_all_counted() -> None:
    rounds = np.arange(64, dtype=np.int32)
    arrays = cp.asarray(rounds), cp.ones(4096, cp.float32), cp.zeros(64 * 64, cp.float32)
    found = profile(kernel(UNEVEN), 64, 64, arrays)
    assert found.exact and not found.counts.by_work
    assert found.global_stores.requests == 128


def test_an_endless_loop_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cudalab.sim.machine.counters.sampling.PROFILE_SECONDS", 0.1)
    code = 'extern "C" __global__ void k(volatile float* x) { while (x[0] == 0.0f) { } }'
    found = profile(kernel(code), 4, 32, (cp.zeros(64, cp.float32),))
    assert not found.counts.complete and found.global_loads.requests > 0
