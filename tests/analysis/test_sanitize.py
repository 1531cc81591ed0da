"""`cudalab.sanitize` over the simulated device: real kernels, each mistake and its repair."""

from __future__ import annotations

import time

import numpy as np
import pytest

from cudalab.analysis.sanitize import Report, sanitize
from cudalab.sim import cupy as cp
from tests.sim.machine.counters.counter_programs import REDUCE


def kernel(code: str, name: str = "k", **options) -> cp.RawKernel:
    return cp.RawKernel(code, name, **options)


def rules(report: Report) -> list[tuple[str, int]]:
    return [(f.rule, f.line) for f in report.findings]


N = 1000

OVERRUNS = {
    "plain": """
extern "C" __global__ void k(float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = 1.0f;  // HERE
}""",
    "guard one too wide": """
extern "C" __global__ void k(float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        a[i] = 1.0f;  // HERE
}""",
    "device function": """
__device__ __noinline__ void put(float* a, int i) {
    a[i] = 1.0f;  // HERE
}
extern "C" __global__ void k(float* a, int n) {
    put(a, blockIdx.x * blockDim.x + threadIdx.x);
}""",
    "inlined function": """
__device__ __forceinline__ void put(float* a, int i) {
    a[i] = 1.0f;  // HERE
}
extern "C" __global__ void k(float* a, int n) {
    put(a, blockIdx.x * blockDim.x + threadIdx.x);
}""",
    "template": """
template <typename T> __device__ void put(T* a, int i, T value) {
    a[i] = value;  // HERE
}
extern "C" __global__ void k(float* a, int n) {
    put<float>(a, blockIdx.x * blockDim.x + threadIdx.x, 1.0f);
}""",
    "loop": """
extern "C" __global__ void k(float* a, int n) {
    if (blockIdx.x || threadIdx.x) return;
    for (int i = 0; i <= n; i++)
        a[i] = 1.0f;  // HERE
}""",
    "read": """
extern "C" __global__ void k(float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i];  // HERE
    if (x == 12345.0f) a[0] = x;
}""",
    "before the start": """
extern "C" __global__ void k(float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i - 1] = 1.0f;  // HERE
}""",
    "atomic": """
extern "C" __global__ void k(float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(a + i, 1.0f);  // HERE
}""",
    "vector": """
extern "C" __global__ void k(float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i <= n)
        ((float4*)a)[i] = make_float4(1, 2, 3, 4);  // HERE
}""",
}


def line_of(code: str) -> int:
    return next(number for number, text in enumerate(code.split("\n"), start=1) if "HERE" in text)


@pytest.mark.parametrize("form", OVERRUNS)
def test_overruns_are_found_with_their_line(form: str) -> None:
    code = OVERRUNS[form]
    a = cp.zeros(N, cp.float32)
    report = sanitize(kernel(code), (4,), (256,), (a, np.int32(N)), tools=("memcheck",))
    assert rules(report) == [("out of bounds", line_of(code))]
    (finding,) = report.findings
    assert "HERE" in finding.source
    assert "4000-byte allocation" in finding.detail
    assert not cp.asnumpy(a).any()  # nothing was written


def test_overrun_in_two_dimensions_and_through_a_struct() -> None:
    code = """
struct Image { float* data; int width, height; };
extern "C" __global__ void k(Image image) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < image.width)
        image.data[y * image.width + x] = 1.0f;  // HERE
}"""
    a = cp.zeros((30, 50), cp.float32)
    layout = np.dtype([("data", "u8"), ("width", "i4"), ("height", "i4")])
    image = np.array([(a.data.ptr, 50, 30)], layout)
    report = sanitize(kernel(code), (4, 2), (16, 16), (image,))
    assert rules(report) == [("out of bounds", line_of(code))]
    (finding,) = report.findings
    assert finding.thread == (0, 14, 0) and finding.block[1] == 1


def test_the_thread_and_the_distance_are_named() -> None:
    a = cp.zeros(N, cp.float32)
    report = sanitize(kernel(OVERRUNS["guard one too wide"]), 4, 256, (a, np.int32(N)))
    (finding,) = report.findings
    assert (finding.block, finding.thread) == ((3, 0, 0), (232, 0, 0))
    assert "4 bytes past the end" in finding.detail and "of parameter 1 (a)" in finding.detail
    assert "index 1000 of 1000 elements of type float" in finding.detail


def test_a_correct_kernel_is_clean_for_every_size() -> None:
    fixed = kernel(OVERRUNS["guard one too wide"].replace("<=", "<"))
    for n in (1, 31, 32, 33, 255, 256, 257, 1000):
        report = sanitize(fixed, (5,), (256,), (cp.zeros(n, cp.float32), np.int32(n)))
        assert report.ok, report


def test_memory_that_the_pool_has_back() -> None:
    a = cp.zeros(N, cp.float32)
    address = a.data.ptr
    del a
    report = sanitize(kernel(OVERRUNS["guard one too wide"]), 1, 32, (address, np.int32(N)))
    assert [f.rule for f in report.findings] == ["use after free"]


def test_host_and_null_pointers() -> None:
    host = np.zeros(N, np.float32)
    code = OVERRUNS["guard one too wide"]
    assert [f.rule for f in sanitize(kernel(code), 1, 32, (host.ctypes.data, np.int32(N))).findings] == ["host pointer"]
    assert [f.rule for f in sanitize(kernel(code), 1, 32, (0, np.int32(N))).findings] == ["null pointer"]


REVERSE = """
extern "C" __global__ void k(const int* a, int* b) {
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = a[blockIdx.x * 256 + t];
    __syncthreads();
    b[blockIdx.x * 256 + t] = s[255 - t];  // HERE
}"""


def test_a_missing_barrier() -> None:
    a, b = cp.arange(1024, dtype=cp.int32), cp.zeros(1024, cp.int32)
    assert sanitize(kernel(REVERSE), 4, 256, (a, b)).ok
    code = REVERSE.replace("__syncthreads();", "")
    report = sanitize(kernel(code), 4, 256, (a, b))
    assert rules(report) == [("race", line_of(code))]
    assert "__shared__" in report.findings[0].headline


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", set()),
        ("s[t + d];\n        __syncthreads();", "s[t + d];", {"race"}),
        ("256 + t];\n    __syncthreads();", "256 + t];", {"race"}),
        ("if (t < d) s[t]", "s[t]", {"out of bounds", "race"}),
        ("s[t] = a[blockIdx.x * 256 + t];", "if (t < 200) s[t] = a[blockIdx.x * 256 + t];", {"uninitialised read"}),
        ("if (t == 0) sums[blockIdx.x]", "sums[blockIdx.x]", {"race"}),
        ("__shared__ float s[256]", "__shared__ float s[255]", {"out of bounds"}),
    ],
)
def test_mutants_of_a_reduction(old: str, new: str, expected: set[str]) -> None:
    assert old in REDUCE
    a, sums = cp.arange(1024, dtype=cp.float32), cp.zeros(4, cp.float32)
    report = sanitize(kernel(REDUCE.replace(old, new) if old else REDUCE), 4, 256, (a, sums))
    assert {f.rule for f in report.findings} == expected, report


def test_warp_reductions_are_clean() -> None:
    code = """
extern "C" __global__ void k(const float* a, float* sums) {
    __shared__ float part[8];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    float v = a[t];
    for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffff, v, d);
    if (lane == 0) part[warp] = v;
    __syncthreads();
    if (warp == 0) {
        v = lane < 8 ? part[lane] : 0.0f;
        for (int d = 4; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffff, v, d);
        if (lane == 0) sums[0] = v;
    }
}"""
    assert sanitize(kernel(code), 1, 256, (cp.ones(256, cp.float32), cp.zeros(1, cp.float32))).ok
    racy = code.replace("__syncthreads();", "")
    report = sanitize(kernel(racy), 1, 256, (cp.ones(256, cp.float32), cp.zeros(1, cp.float32)))
    assert {f.rule for f in report.findings} >= {"race"}


def test_syncwarp() -> None:
    code = """
extern "C" __global__ void k(int* out) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = t;
    __syncwarp();
    out[t] = s[31 - t];
}"""
    assert sanitize(kernel(code), 1, 32, (cp.zeros(32, cp.int32),)).ok
    report = sanitize(kernel(code.replace("__syncwarp();", "")), 1, 32, (cp.zeros(32, cp.int32),))
    assert [f.rule for f in report.findings] == ["race"]


HISTOGRAM = """
extern "C" __global__ void k(const int* a, int* counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&counts[a[i]], 1);  // HERE
}"""


def test_a_histogram_with_and_without_atomics() -> None:
    a, counts = cp.arange(1000, dtype=cp.int32) % 7, cp.zeros(7, cp.int32)
    assert sanitize(kernel(HISTOGRAM), 4, 256, (a, counts, np.int32(1000))).ok
    code = HISTOGRAM.replace("atomicAdd(&counts[a[i]], 1);", "counts[a[i]] += 1;")
    report = sanitize(kernel(code), 4, 256, (a, counts, np.int32(1000)))
    assert {f.rule for f in report.findings} == {"race"}
    assert all(f.line == line_of(code) for f in report.findings)
    assert not cp.asnumpy(counts).any()


def test_blocks_that_write_one_word() -> None:
    code = """extern "C" __global__ void k(int* a) { a[0] = blockIdx.x; }"""
    report = sanitize(kernel(code), 4, 1, (cp.zeros(1, cp.int32),))
    assert [f.headline for f in report.findings] == ["WAW hazard in __global__ memory"]
    assert sanitize(kernel(code.replace("a[0]", "a[blockIdx.x]")), 4, 1, (cp.zeros(4, cp.int32),)).ok


def test_last_block_pattern_is_not_blamed() -> None:
    code = """
__device__ unsigned int done = 0;
extern "C" __global__ void k(volatile float* part, float* out) {
    if (threadIdx.x) return;
    part[blockIdx.x] = 1.0f;
    __threadfence();
    if (atomicInc(&done, gridDim.x - 1) == gridDim.x - 1) {
        float sum = 0.0f;
        for (int b = 0; b < gridDim.x; b++) sum += part[b];
        *out = sum;
    }
}"""
    assert sanitize(kernel(code), 4, 1, (cp.zeros(4, cp.float32), cp.zeros(1, cp.float32))).ok


DIVERGENT = """
extern "C" __global__ void k(int* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    a[i] = i;
    __syncthreads();  // HERE
    a[i] += 1;
}"""


def test_a_barrier_after_exit() -> None:
    report = sanitize(kernel(DIVERGENT), 4, 256, (cp.zeros(N, cp.int32), np.int32(N)))
    assert rules(report) == [("barrier after exit", line_of(DIVERGENT))]
    assert report.findings[0].tool == "synccheck"
    assert sanitize(kernel(DIVERGENT), 4, 250, (cp.zeros(N, cp.int32), np.int32(N))).ok


def test_a_deadlock() -> None:
    code = """
extern "C" __global__ void k(int* a) {
    if (threadIdx.x < 16)
        __syncthreads();
    else
        a[threadIdx.x] = __shfl_sync(0xffffffff, a[threadIdx.x], 0);
}"""
    report = sanitize(kernel(code), 1, 32, (cp.zeros(32, cp.int32),))
    (finding,) = report.findings
    assert finding.rule == "deadlock"
    assert "kernel.cu:4" in finding.detail and "kernel.cu:6" in finding.detail


def test_an_endless_loop() -> None:
    code = """
extern "C" __global__ void k(volatile int* a) {
    while (a[0] == 0) { }
}"""
    report = sanitize(kernel(code), 2, 32, (cp.zeros(1, cp.int32),), time_limit=0.2)
    assert rules(report) == [("endless wait", 3)]


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("if (threadIdx.x == 7) __trap();", "trap"),
        ("assert(threadIdx.x < 7);", "assertion failed"),
        ("*(double*)((char*)a + 4) = 1.0;", "misaligned address"),
    ],
)
def test_other_faults(statement: str, rule: str) -> None:
    code = f'extern "C" __global__ void k(float* a) {{\n    {statement}\n}}'
    report = sanitize(kernel(code), 1, 32, (cp.zeros(64, cp.float32),), tools="memcheck")
    assert rules(report) == [(rule, 2)]


def test_new_memory_is_uninitialised_until_written() -> None:
    code = """
extern "C" __global__ void k(const float* a, float* b) {
    b[threadIdx.x] = a[threadIdx.x];  // HERE
}"""
    a, b = cp.empty(32, cp.float32), cp.empty(32, cp.float32)
    report = sanitize(kernel(code), 1, 32, (a, b))
    assert rules(report) == [("uninitialised read", line_of(code))]
    a[:] = 1.0
    assert sanitize(kernel(code), 1, 32, (a, b)).ok
    assert rules(sanitize(kernel(code), 1, 32, (b, a))) == [("uninitialised read", line_of(code))]
    kernel(code)((1,), (32,), (a, b))
    assert sanitize(kernel(code), 1, 32, (b, a)).ok


def test_memory_that_the_pool_lends_again_is_uninitialised() -> None:
    code = 'extern "C" __global__ void k(const float* a, float* b) { b[threadIdx.x] = a[threadIdx.x]; }'
    a, b = cp.ones(77, cp.float32), cp.zeros(77, cp.float32)
    cp.cuda.Device().synchronize()  # work that was enqueued for the old owner would count as the new one's
    address = a.data.ptr
    del a
    # Other tests' arrays of this size may be lent first, and the queue may let go of the old one a little later.
    lent = [cp.empty(77, cp.float32)]
    until = time.monotonic() + 20
    while lent[-1].data.ptr != address and time.monotonic() < until:
        time.sleep(0.001)
        lent.append(cp.empty(77, cp.float32))
    again = lent[-1]
    assert again.data.ptr == address
    assert [f.rule for f in sanitize(kernel(code), 1, 77, (again, b)).findings] == ["uninitialised read"]


def test_dynamic_shared_memory() -> None:
    code = """
extern "C" __global__ void k(int* out) {
    extern __shared__ int s[];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}"""
    out = cp.zeros(64, cp.int32)
    assert sanitize(kernel(code), 1, 64, (out,), shared=256).ok
    report = sanitize(kernel(code), 1, 64, (out,), shared=128)
    assert rules(report) == [("out of bounds", 4), ("out of bounds", 6)]
    assert "pass its size at the launch" in report.findings[0].advice


def test_the_device_is_not_lost_and_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code = """
extern "C" __global__ void k(int* a) {
    printf("hello");
    a[threadIdx.x + 1000000] = 1;
}"""
    assert not sanitize(kernel(code), 1, 32, (cp.zeros(4, cp.int32),)).ok
    assert capsys.readouterr().out == ""
    assert cp.arange(5).sum() == 10


def test_no_modelled_time_passes() -> None:
    from cudalab.sim.device.current import current_device

    a = cp.zeros(N, cp.float32)
    k = kernel(OVERRUNS["guard one too wide"])
    sanitize(k, 4, 256, (a, np.int32(N)))
    cp.cuda.Device().synchronize()
    before = current_device().clock_ns
    sanitize(k, 4, 256, (a, np.int32(N)))
    assert current_device().clock_ns - before < 20_000  # the wait for work that was enqueued, no more


def test_work_that_was_enqueued_is_seen() -> None:
    a = cp.zeros(N, cp.float32)
    kernel(OVERRUNS["guard one too wide"].replace("<=", "<"))((4,), (256,), (a, np.int32(N)))
    code = 'extern "C" __global__ void k(float* a) { assert(a[threadIdx.x] == 1.0f); }'
    assert sanitize(kernel(code), 1, 256, (a,)).ok


def test_several_mistakes_in_one_report() -> None:
    code = """
extern "C" __global__ void k(int* a) {
    __shared__ int s[64];
    s[threadIdx.x] = a[threadIdx.x];
    a[threadIdx.x] = s[63 - threadIdx.x];
    if (blockIdx.x == 1)
        a[threadIdx.x + 64] = 0;
}"""
    report = sanitize(kernel(code), 2, 64, (cp.zeros(64, cp.int32),))
    found = rules(report)
    assert ("race", 5) in found and ("out of bounds", 7) in found
    text = repr(report)
    assert text.startswith(f"{len(found)} mistakes found in k, 2 blocks")
    assert all(f"{i}. " in text for i in range(1, len(found) + 1))
    assert report._repr_html_().count("<pre") == len(found)
    assert not report.ok


def test_a_clean_report() -> None:
    report = sanitize(kernel(REVERSE), 1, 256, (cp.zeros(256, cp.int32), cp.zeros(256, cp.int32)))
    assert report.ok and report.findings == ()
    assert repr(report) == "No mistakes found in k, 1 block (memcheck, racecheck, initcheck, synccheck)."
    assert "✔" in report._repr_html_()


def test_a_seed_does_not_change_the_findings() -> None:
    a, b = cp.arange(1024, dtype=cp.int32), cp.zeros(1024, cp.int32)
    racy = kernel(REVERSE.replace("__syncthreads();", ""))
    plain = sanitize(racy, 4, 256, (a, b))
    for seed in (1, 2):
        shuffled = sanitize(racy, 4, 256, (a, b), seed=seed)
        assert [(f.rule, f.line, f.count) for f in shuffled.findings] == [
            (f.rule, f.line, f.count) for f in plain.findings
        ]


def test_what_is_no_kernel_and_what_is_no_configuration() -> None:
    from cudalab.sim.machine.launch.validation import LaunchError

    with pytest.raises(TypeError, match="sanitize: expected a kernel .* got str"):
        sanitize("k", 1, 1, ())
    with pytest.raises(LaunchError, match="2048 threads"):
        sanitize(kernel(REVERSE), 1, 2048, (cp.zeros(4, cp.int32), cp.zeros(4, cp.int32)))
    with pytest.raises(TypeError, match=r"int\* b is missing"):
        sanitize(kernel(REVERSE), 1, 256, (cp.zeros(256, cp.int32),))


def test_small_launches_are_checked_quickly() -> None:
    import time

    a = cp.zeros(N, cp.float32)
    k = kernel(OVERRUNS["guard one too wide"].replace("<=", "<"))
    sanitize(k, 4, 256, (a, np.int32(N)))
    took = []
    for _ in range(5):
        start = time.process_time()
        sanitize(k, 4, 256, (a, np.int32(N)))
        took.append(time.process_time() - start)
    assert min(took) < 0.1


def test_the_device_heap_is_left_as_it_was():
    take = cp.RawKernel('extern "C" __global__ void take(void** out) { out[threadIdx.x] = malloc(1 << 20); }', "take")
    out = cp.zeros(8, cp.uint64)
    for _ in range(3):
        assert not sanitize(take, (1,), (6,), (out,)).findings
    take((1,), (6,), (out,))
    assert (out.get() != 0).tolist() == [True] * 6 + [False] * 2, "the heap of 8 MiB has room for all"
