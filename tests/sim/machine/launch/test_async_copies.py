"""Asynchronous copies and barriers of one launch: when bytes arrive, what is checked, counted and explained."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pytest

from cudalab.sim.compiler import CompileError, compile
from cudalab.sim.machine.counters.sampling import count_launch
from cudalab.sim.machine.execution import Standalone
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.sanitizer.sanitize import check_launch
from tests.sim.machine.launch.async_kernels import WHOLE, Run, line_of, numbers


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory(1 << 28)
    yield memory
    memory.free_all()


@pytest.mark.parametrize("variant", ["plain", "traced"])
def test_a_copy_arrives_when_its_group_is_waited_for(memory: Memory, variant: str) -> None:
    x = numbers(128)
    run = Run(memory, "late", 192, x)
    assert run(variant=variant).fault is None
    expected = np.concatenate([np.full(64, -1), x[:64] * 1000 - 1, x[64:]])
    np.testing.assert_array_equal(run.result, expected)


def test_a_tile_written_again_too_early_is_what_arrives(memory: Memory) -> None:
    run = Run(memory, "late_source", 64, numbers(1))
    assert run().fault is None
    np.testing.assert_array_equal(run.result, np.full(64, 2))


def test_more_copies_than_a_thread_has_places_for(memory: Memory) -> None:
    x = numbers(500)
    run = Run(memory, "many", 500, x, 500)
    assert run(block=1).fault is None
    np.testing.assert_array_equal(run.result, x)


def test_copies_end_with_the_block_and_nothing_is_left_for_the_next(memory: Memory) -> None:
    x = numbers(64)
    run = Run(memory, "left", 64 * 5, x)
    assert run(grid=5).fault is None
    np.testing.assert_array_equal(run.result, np.tile(x + 5, 5))


@pytest.mark.parametrize("workers", [1, 2])
def test_tiles_of_several_blocks(memory: Memory, workers: int) -> None:
    x = numbers(9 * 256)
    run = Run(memory, "tile", x.size, x)
    assert run(grid=9, surroundings=Standalone(workers=workers)).fault is None
    np.testing.assert_array_equal(run.result, x.reshape(9, 256)[:, ::-1].reshape(-1))


def test_waiting_for_an_mbarrier_is_no_polling(memory: Memory) -> None:
    """Only the threads of the block can end the wait, so the launch need not be resumable."""
    for name in ("bulk", "no_race", "missing_arrival"):
        assert Run(memory, name, 64, numbers(64)).kernel.kernel.poll_points == ()


# -- stores that are held back, footprints, counters -------------------------------------------------------------------


def test_stores_of_bulk_copies_are_held_back(memory: Memory) -> None:
    x = numbers(64)
    run = Run(memory, "left", 64, x)
    outcome = run(variant="traced", hold_stores=True)
    np.testing.assert_array_equal(run.result, np.full(64, -9))
    assert outcome.held is not None
    outcome.held.apply()
    np.testing.assert_array_equal(run.result, x + 5)


@pytest.mark.parametrize("variant", ["footprint", "traced"])
def test_a_footprint_has_the_bytes_that_copies_touch(memory: Memory, variant: str) -> None:
    x = numbers(3 * 256)
    run = Run(memory, "tile", x.size, x)
    footprint = run(grid=2, footprint=True, variant=variant).footprint
    assert footprint is not None
    assert footprint.reads == ((run.source, 2048),)
    assert footprint.writes == ((run.target, 2048),)
    run = Run(memory, "bulk", 256, x, 1024)
    footprint = run(footprint=True, variant=variant).footprint
    assert footprint is not None
    assert footprint.reads == ((run.source, 1024),)


@pytest.mark.parametrize(("stride", "sectors"), [(1, 8), (2, 16), (8, 64)])
def test_copies_count_as_loads_from_global_memory_and_stores_to_shared_memory(
    memory: Memory, stride: int, sectors: int
) -> None:
    run = Run(memory, "strided", 64, numbers(64 * stride), stride)
    counts = count_launch(run.kernel.launch((1, 1, 1), (64, 1, 1), run.args))
    assert (counts.global_loads.requests, counts.global_loads.sectors) == (2, sectors)
    assert (counts.shared_stores.requests, counts.shared_stores.wavefronts) == (2, 2)


def test_a_bulk_copy_counts_the_sectors_that_it_reads(memory: Memory) -> None:
    for name, n, sectors in (("bulk", 1008, 32), ("fetched", 1024, 96)):
        run = Run(memory, name, 768, numbers(768), n)
        counts = count_launch(run.kernel.launch((1, 1, 1), (64, 1, 1), run.args))
        assert counts.global_loads.sectors == sectors
        assert counts.shared_stores.wavefronts == sectors // 4


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n", "rule", "text", "code"),
    [
        ("uninitialised", 0, "mbarrier not initialised", "void arrive(void* bar)", 719),
        ("zero_count", 0, "mbarrier count", "mbarrier.init.shared", 719),
        ("too_many", 0, "too many arrivals", "two are expected", 719),
        ("odd_barrier", 0, "misaligned address", "mbarrier.init.shared", 716),
    ],
)
def test_misuse_of_a_barrier_is_explained(memory: Memory, name: str, n: int, rule: str, text: str, code: int) -> None:
    outcome = Run(memory, name, 64, WHOLE, n)()
    fault = outcome.fault
    assert fault is not None
    assert (fault.rule, fault.line, fault.code, fault.thread) == (rule, line_of(text), code, (0, 0, 0))
    assert fault.finding.advice


def test_a_late_arrival_leaves_what_is_no_barrier_any_more(memory: Memory) -> None:
    """It waits for a copy, and the object was invalidated and its word used again before."""
    run = Run(memory, "retired", 2, WHOLE, 100)
    assert run().fault is None
    assert run.result.tolist() == [100, 0]


def test_a_block_that_leaves_initialising_to_the_first_is_found(memory: Memory) -> None:
    """Though the object of the block before may still lie there."""
    run = Run(memory, "first_block_only", 64, WHOLE)
    (finding,) = check_launch(run.kernel.launch(2, 64, run.args)).findings
    assert (finding.rule, finding.block, finding.count) == ("mbarrier not initialised", (1, 0, 0), 64)


def test_a_bulk_copy_of_an_odd_size_is_explained(memory: Memory) -> None:
    fault = Run(memory, "bulk", 64, WHOLE, 100)().fault
    assert fault is not None
    assert (fault.rule, fault.line) == ("bulk copy size", line_of("cp.async.bulk.shared::cluster") + 1)
    assert "100 bytes" in str(fault)


def test_a_bulk_copy_beyond_the_end_is_out_of_bounds(memory: Memory) -> None:
    run = Run(memory, "bulk", 256, numbers(64), 512)
    fault = run().fault
    assert fault is not None
    assert (fault.rule, fault.code, fault.address) == ("out of bounds", 700, run.source)
    assert fault.line == line_of("cp.async.bulk.shared::cluster") + 1
    assert "read of size 512 bytes" in str(fault)


def test_a_copy_beyond_the_end_is_out_of_bounds(memory: Memory) -> None:
    run = Run(memory, "strided", 64, numbers(63), 1)
    fault = run().fault
    assert fault is not None
    assert (fault.rule, fault.code, fault.thread) == ("out of bounds", 700, (63, 0, 0))
    assert (fault.address, fault.line) == (run.source + 252, line_of("cp.async.ca") + 1)


def test_a_misaligned_copy_is_a_fault(memory: Memory) -> None:
    run = Run(memory, "tile", 256, numbers(256))
    run.args = struct.pack("<QQi", run.target, run.source + 4, 0)
    fault = run().fault
    assert fault is not None
    assert (fault.rule, fault.code, fault.line) == ("misaligned address", 716, line_of("cp.async.cg") + 1)


def test_a_phase_that_never_ends_says_what_is_missing(memory: Memory) -> None:
    fault = Run(memory, "missing_arrival", 64, WHOLE)().fault
    assert fault is not None
    assert (fault.rule, fault.code, fault.line) == ("deadlock", 702, line_of("mbarrier.try_wait") + 1)
    assert "64 of 65 arrivals" in str(fault)
    fault = Run(memory, "forgotten_bytes", 64, WHOLE)().fault
    assert fault is not None
    assert (fault.rule, fault.line) == ("deadlock", line_of("mbarrier.try_wait") + 1)
    assert "waits for 256 bytes that no copy has brought" in str(fault)


def test_a_wait_that_counts_its_tries_comes_to_its_end(memory: Memory) -> None:
    run = Run(memory, "gives_up", 64, WHOLE, 100)
    assert run().fault is None
    np.testing.assert_array_equal(run.result, np.full(64, 100))


def test_a_copy_by_a_tensor_map_is_refused_by_name() -> None:
    code = r"""
    extern "C" __global__ void k(void* map) {
        __shared__ alignas(128) int s[32];
        __shared__ long long bar;
        unsigned to = (unsigned)__cvta_generic_to_shared(s), at = (unsigned)__cvta_generic_to_shared(&bar);
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2}], [%3];" :: "r"(to), "l"(map), "r"(0), "r"(at) : "memory");
    }"""
    with pytest.raises(CompileError, match=r"cp\.async\.bulk\.tensor\.1d") as caught:
        compile(code)
    assert caught.value.diagnostics[0].line == 7
    assert "tensor" in str(caught.value)


# -- the sanitizer -----------------------------------------------------------------------------------------------------


def findings(memory: Memory, name: str) -> list[tuple[str, int]]:
    run = Run(memory, name, 256, numbers(256), {"bulk": 1024}.get(name, 4))
    checked = check_launch(run.kernel.launch(1, 64, run.args))
    return [(finding.headline, finding.line) for finding in checked.findings]


@pytest.mark.parametrize("name", ["tile", "bulk", "no_race", "strided"])
def test_code_that_waits_has_no_findings(memory: Memory, name: str) -> None:
    assert findings(memory, name) == []


def test_a_forgotten_wait_is_found(memory: Memory) -> None:
    assert findings(memory, "unwaited") == [("RAW hazard in __shared__ memory", line_of("and read here"))]


def test_a_producer_that_does_not_wait_for_its_consumers_is_found(memory: Memory) -> None:
    found = findings(memory, "no_empty")
    lines = {line_of("without waiting for the readers"), line_of("who read here")}
    assert 1 <= len(found) <= 2 and {line for _, line in found} <= lines  # the order decides who is named as the first
    assert all(headline.endswith("hazard in __shared__ memory") for headline, _ in found)
