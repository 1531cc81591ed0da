"""Records that traced code leaves out and that are put back, against code that writes every one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudalab
from cudalab import cp
from cudalab.analysis.mirror import mirrored
from cudalab.sim.abi import LOCAL_WINDOW, WINDOW_SIZE, SiteKind, Status
from cudalab.sim.machine.execution import execute
from cudalab.sim.machine.trace.recorder import BlockTrace, Tracer
from tests.corpus.kernel import Entry, Launch, load_corpus
from tests.corpus.run import module_of, run

CORPUS = load_corpus()
FAST = 10

UNROLLED = r"""
extern "C" __global__ void unrolled(const float* a, float* out, int n)
{
    __shared__ float tile[16][17];
    float sum = 0.0f;
    for (int row = 0; row < n; row += 16) {
        tile[threadIdx.x][threadIdx.y] = a[(row + threadIdx.y) * 16 + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            sum += tile[threadIdx.y][k] * tile[k][threadIdx.x];
        __syncthreads();
    }
    out[threadIdx.y * 16 + threadIdx.x] = sum;
}
"""


def traces(kernel: Any, grid: Any, block: Any, args: Any, shared: int = 0, records: int = 1 << 20) -> list[BlockTrace]:
    """A block from the middle in code that shares records, and in code that writes each of them."""
    found = []
    with mirrored(kernel, grid, block, args, shared, "test") as launch:
        for variant in ("traced", "sanitize_trace"):
            with Tracer(launch, variant=variant, records=records) as tracer:
                trace = tracer.run((launch.config.blocks - 1) // 2)
                _ = trace.total, trace.lost
                trace.records = trace.records.copy()  # the buffer is used again
                found.append(trace)
    return found


def in_order(kernel: Any, grid: Any, block: Any, args: Any, shared: int, records: np.ndarray) -> np.ndarray:
    """Records by thread, in program order; accesses of one basic block by site."""
    with mirrored(kernel, grid, block, args, shared, "test") as launch:
        sites = launch.kernel.kernel.sites
    kinds = np.array([site.kind for site in sites])
    # code of the sanitizer does not record what a generic address reaches in local memory
    local = (records["address"] >= LOCAL_WINDOW) & (records["address"] < LOCAL_WINDOW + WINDOW_SIZE)
    # and it alone records where the life of a barrier object begins and ends
    lives = np.array([site.opcode.startswith(("mbarrier.init", "mbarrier.inval")) for site in sites])
    records = records[~local & ~lives[records["site"]]]
    records = records[np.argsort(records["thread"], kind="stable")]
    access = (kinds[records["site"]] <= SiteKind.ATOMIC) & (records["flags"] == 0)
    step = np.cumsum(~access)
    return records[np.lexsort((np.where(access, records["site"], 0), step))]


def check(kernel: Any, grid: Any, block: Any, args: Any, shared: int = 0) -> bool:
    """Are both the same? Returns whether there was something to compare: the heap gives other addresses each time."""
    with mirrored(kernel, grid, block, args, shared, "test") as launch:
        if launch.kernel.kernel.uses_heap:
            return False
    shared_ones, each = traces(kernel, grid, block, args, shared)
    if each.status != Status.DONE or each.lost or shared_ones.lost:
        return False
    assert shared_ones.status == Status.DONE
    one, other = (in_order(kernel, grid, block, args, shared, t.records) for t in (shared_ones, each))
    np.testing.assert_array_equal(one, other)
    return True


@pytest.fixture(autouse=True)
def fresh() -> Any:
    cudalab.reset()
    yield
    cudalab.reset()


def unrolled() -> tuple[Any, Any, Any, Any]:
    a, out = cp.arange(48 * 16, dtype=cp.float32), cp.zeros(256, cp.float32)
    return cp.RawKernel(UNROLLED, "unrolled"), (1,), (16, 16), (a, out, np.int32(48))


def test_an_unrolled_loop_writes_a_quarter_of_its_records() -> None:
    assert check(*unrolled())
    trace, each = traces(*unrolled())
    assert trace.total == len(trace.records) == len(each.records)
    assert len(trace._written) < 0.3 * trace.total


def test_a_buffer_that_is_full_keeps_the_beginning() -> None:
    """Of a thread whose records all fit, all are kept, in order; what is lost is counted."""
    whole, _ = traces(*unrolled())
    cut, _ = traces(*unrolled(), records=5000)
    kept = len(cut.records)
    assert 4900 < kept <= 5000 and kept + cut.lost == pytest.approx(whole.total, rel=0.05)
    np.testing.assert_array_equal(cut.records, whole.records[:kept])
    assert not cut.complete


def compare_entry(entry: Entry) -> int:
    compared = 0

    def watched(kernel: Any, grid: Any, block: Any, args: Any, launch: Launch) -> None:
        nonlocal compared
        if not launch.cooperative:
            compared += check(kernel, grid, block, args, launch.shared)
        with mirrored(kernel, grid, block, args, launch.shared, "test", cooperative=launch.cooperative) as found:
            execute(found)

    for form in entry.forms():
        run(form, module_of([form]), launcher=watched)
    return compared


@pytest.mark.parametrize("name", sorted(CORPUS)[:: len(CORPUS) // FAST])
def test_kernels_of_the_corpus(name: str) -> None:
    compare_entry(CORPUS[name])


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_all_kernels_of_the_corpus() -> None:
    assert sum(bool(compare_entry(entry)) for entry in CORPUS.values()) > 0.9 * len(CORPUS)
