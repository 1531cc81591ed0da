"""Undefined values are an error where they are used, and nowhere else: absent lanes of shuffles, unwritten locals."""

from __future__ import annotations

import pytest

import cudalab
from cudalab import cp

pytestmark = pytest.mark.usefixtures("fresh_device")


@pytest.fixture
def fresh_device():
    yield
    cudalab.reset()


def report(body: str, threads: int = 32, before: str = ""):
    """What the sanitizer says of a kernel of ``const int* x, int* y, int n`` with n = 20."""
    source = f'{before}\nextern "C" __global__ void k(const int* x, int* y, int n) {{\nint i = threadIdx.x;\n{body}\n}}'
    x, y = cp.arange(64, dtype=cp.int32), cp.zeros(64, cp.int32)
    return cudalab.sanitize(cp.RawKernel(source, "k"), (1,), (threads,), (x, y, cp.int32(20)))


def rules(body: str, threads: int = 32, before: str = "") -> set[str]:
    return {finding.rule for finding in report(body, threads, before).findings}


SUM = "int sum = x[i]; for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(MASK, sum, d);"
LOWER_SUM = (
    "if (i >= 16) return; int sum = x[i];for (int d = 8; d > 0; d /= 2) sum += __shfl_down_sync(0xffff, sum, d);"
)

DROPPED = {
    "sums of all lanes but the first": LOWER_SUM + "if (i == 0) y[0] = sum;",
    "stored to shared memory and not read": "__shared__ int t[32];"
    + LOWER_SUM
    + "t[i] = sum; if (i == 0) y[0] = t[0];",
    "chosen by the caller's own condition": "if (i < n) { int o = __shfl_down_sync((1 << n) - 1, x[i], 3);"
    "y[i] = i + 3 < n ? o : 0; }",
    "kept out by a branch": "if (i < n) { int v = x[i], o = __shfl_xor_sync((1 << n) - 1, v, 16);"
    "if ((i ^ 16) < n) v += o; y[i] = v; }",
    "the lane's own value at the end of a segment": "y[i] = __shfl_down_sync(0xffffffff, x[i], 3, 8);",
    "a scan that adds from the lanes below": "if (i >= n) return; int s = x[i]; for (int d = 1; d < 32; d *= 2) {"
    "int o = __shfl_up_sync((1 << n) - 1, s, d); if (i >= d) s += o; } y[i] = s;",
    "the larger of two, with its place, in lanes that nobody asks": "if (i >= 16) return; int best = x[i], at = i;"
    "for (int d = 8; d > 0; d /= 2) { int o = __shfl_down_sync(0xffff, best, d), p = __shfl_down_sync(0xffff, at, d);"
    "if (o > best) { best = o; at = p; if (p == 3) at = 4; } } if (i == 0) y[0] = at;",
    "a mask of bits that hides it": "if (i >= n) return; int o = __shfl_down_sync((1 << n) - 1, x[i], 1);"
    "y[i] = o & (i + 1 < n ? -1 : 0);",
    "votes of the lanes that are left": "if (i >= n) return; y[i] = __popc(__ballot_sync(0xffffffff, x[i] > 3))"
    "+ __any_sync(0xffffffff, x[i] > 9);",
}


@pytest.mark.parametrize("body", DROPPED.values(), ids=DROPPED)
def test_values_of_absent_lanes_that_are_dropped_are_no_mistake(body: str) -> None:
    assert rules(body) == set()


USED = {
    "stored": "if (i >= n) return; " + SUM + "if (i == 0) y[0] = sum;",
    "added by an atomic": "if (i >= n) return; " + SUM + "if (i == 0) atomicAdd(y, sum);",
    "printed": "if (i >= n) return; " + SUM + 'if (i == 0) printf("%d\\n", sum);',
    "an index": "if (i >= n) return; int o = __shfl_down_sync((1 << n) - 1, i, 1);if (i == n - 1) y[o & 63] = 1;",
    "a decision": "if (i >= n) return; " + SUM + "if (i == 0 && sum > 100) y[0] = 1;",
    "through shared memory": "__shared__ int t[32]; if (i >= n) return; t[i] = __shfl_down_sync((1 << n) - 1, x[i], 1);"
    "__syncwarp((1 << n) - 1); y[i] = t[n - 1 - i];",
    "by another lane": "if (i >= n) return; int o = __shfl_down_sync((1 << n) - 1, x[i], 1);"
    "y[i] = __shfl_sync((1 << n) - 1, o, n - 1);",
    "in a vote": "if (i >= n) return; int o = __shfl_down_sync((1 << n) - 1, x[i], 1);"
    "y[i] = __any_sync((1 << n) - 1, o > 70);",
    "by a function": "if (i >= n) return; y[i] = twice(__shfl_down_sync((1 << n) - 1, x[i], 1));",
}


@pytest.mark.parametrize("body", USED.values(), ids=USED)
def test_values_of_absent_lanes_that_are_used_are_found(body: str) -> None:
    before = "__device__ __noinline__ int twice(int v) { return 2 * v; }"
    assert rules(body.replace("MASK", "0xffffffff"), before=before) == {"absent lane"}


def test_the_report_says_who_reads_which_lane_and_why_it_is_absent() -> None:
    (finding,) = report("if (i >= n) return;\ny[i] = __shfl_down_sync(0xffffffff, x[i], 1);").findings
    assert (finding.tool, finding.line, finding.thread) == ("synccheck", 5, (19, 0, 0))
    assert "Lane 19 reads lane 20, which has exited; the mask is 0xffffffff." in finding.detail
    assert finding.count == 1 and "neutral value" in finding.advice
    (finding,) = report("if (i < n)\ny[i] = __shfl_down_sync((1 << n) - 1, x[i], 1);").findings
    assert "lane 20, which the mask does not name; the mask is 0x000fffff" in finding.detail
    (finding,) = report("y[i] = __shfl_down_sync(0xffffffff, x[i], 1);", 40).findings
    assert "lane 8, which does not exist: with 40 threads the last warp ends with lane 7" in finding.detail


def test_the_use_is_named_where_it_is_in_another_thread() -> None:
    (finding,) = report(
        "if (i >= n) return;\nint o = __shfl_down_sync((1 << n) - 1, x[i], 1);\n"
        "o = __shfl_sync((1 << n) - 1, o, n - 1);\nif (i == 3)\ny[i] = o;"
    ).findings
    assert finding.line == 5 and "used at" in finding.detail and "in thread (3,0,0)" in finding.detail


WRITTEN = {
    "all of it": "int a[8]; for (int k = 0; k < 8; k++) a[k] = k; y[i] = a[x[i] & 7];",
    "by a function": "int a[8]; fill(a, n); y[i] = a[x[i] & 7];",
    "what is read": "int a[8]; for (int k = 0; k < (n & 7); k++) a[k] = k; y[i] = a[x[i] & 3];",
    "but not used": "int a[8]; for (int k = 0; k < (n & 7); k++) a[k] = k; int v = a[x[i] & 7];"
    "y[i] = (x[i] & 7) < 4 ? v : 0;",
    "with padding between": "P a[4]; for (int k = 0; k < 4; k++) { a[k].c = k; a[k].v = x[k]; }"
    "P* p = (P*)y; p[i & 7] = a[x[i] & 3];",
}


@pytest.mark.parametrize("body", WRITTEN.values(), ids=WRITTEN)
def test_local_arrays_that_were_written_are_no_mistake(body: str) -> None:
    before = (
        "struct P { char c; int v; };\n"
        "__device__ __noinline__ void fill(int* a, int n) { for (int k = 0; k < 8; k++) a[k] = n + k; }"
    )
    assert rules(body, threads=8, before=before) == set()


def test_an_element_of_a_local_array_that_was_not_written_is_found() -> None:
    body = "int a[8];\nfor (int k = 0; k < (n & 7); k++) a[k] = k;\ny[i] = a[x[i] & 7];"
    (finding,) = report(body).findings
    assert (finding.tool, finding.rule, finding.line) == ("initcheck", "uninitialised read", 6)
    assert "__local__" in finding.headline and finding.count == 16
