"""Planted mistakes and their repairs: races, uninitialised reads, barriers, several faults in one report."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.abi import SHARED_WINDOW, FaultKind, SiteKind, Space
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.sanitizer.sanitize import check_launch
from cudalab.sim.machine.sanitizer.synccheck import SyncError
from cudalab.sim.machine.sanitizer.wording import Wording
from tests.sim.machine.handmade import Block, make, pack, pointer, site

S = SHARED_WINDOW
FULL = 0xFFFF_FFFF


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(1 << 30)


def check(body, sites, *, memory: Memory, grid=1, block=64, args: bytes = b"", parameters=(), shared=4096, **options):
    kernel = make(body, sites=sites, parameters=parameters, static_shared=shared, memory=memory)
    return check_launch(kernel.launch(grid, block, args), exact=True, **options)  # these kernels keep no shadow cells


def rules(checked) -> list[tuple[str, int]]:
    return [(f.rule, f.line) for f in checked.findings]


STORE = site(SiteKind.STORE, Space.SHARED, line=3)
LOAD = site(SiteKind.LOAD, Space.SHARED, line=5)
ATOMIC = site(SiteKind.ATOMIC, Space.SHARED, line=6)
BARRIER = site(SiteKind.BARRIER, line=4, opcode="bar.sync")
SYNCWARP = site(SiteKind.WARP, line=4, opcode="bar.warp.sync")


def reverse(barrier: int | None, mask: int = FULL, width: int = 64):
    """s[t] = …; (barrier) … = s[width - 1 - t]"""

    def body(block: Block) -> None:
        for t in block.threads():
            block.store(0, t, S + 4 * t, t)
        if barrier is not None:
            for t in block.threads():
                block.record(barrier, t, mask)
        for t in block.threads():
            block.load(1, t, S + 4 * (t // width * width + width - 1 - t % width))

    return body


SITES = [STORE, LOAD, ATOMIC, BARRIER, SYNCWARP]


def test_a_missing_barrier_is_a_race(memory: Memory) -> None:
    checked = check(reverse(None), SITES, memory=memory)
    (finding,) = checked.findings
    assert (finding.rule, finding.tool, finding.line, finding.count) == ("race", "racecheck", 5, 64)
    assert finding.headline == "RAW hazard in __shared__ memory"
    assert "writes at kernel.cu:3 (line 3;)" in finding.detail and "reads at kernel.cu:5" in finding.detail
    assert "__syncthreads()" in finding.advice


def test_a_barrier_repairs_it(memory: Memory) -> None:
    assert check(reverse(3), SITES, memory=memory).findings == []


def test_syncwarp_orders_lanes_of_one_warp(memory: Memory) -> None:
    assert check(reverse(4, width=32), SITES, memory=memory).findings == []


def test_syncwarp_does_not_order_two_warps(memory: Memory) -> None:
    assert rules(check(reverse(4), SITES, memory=memory)) == [("race", 5)]


def test_a_mask_orders_only_the_lanes_it_names(memory: Memory) -> None:
    def kernel(reach: int):
        def body(block: Block) -> None:
            for t in range(32):
                block.store(0, t, S + 4 * t, t)
            for t in range(16):
                block.record(4, t, 0xFFFF)
            for t in range(16):
                block.load(1, t, S + 4 * (reach - t))

        return body

    assert rules(check(kernel(15), SITES, memory=memory, block=32)) == []
    assert rules(check(kernel(31), SITES, memory=memory, block=32)) == [("race", 5)]


def test_activemask_orders_nothing(memory: Memory) -> None:
    sites = [STORE, LOAD, ATOMIC, BARRIER, site(SiteKind.WARP, line=4, opcode="activemask.b32")]
    assert rules(check(reverse(4, width=32), sites, memory=memory)) == [("race", 5)]


def test_a_barrier_too_few_in_a_loop(memory: Memory) -> None:
    def body(block: Block) -> None:
        for _ in range(3):  # store, barrier, load, and then the next pass stores at once
            for t in block.threads():
                block.store(0, t, S + 4 * t, t)
            for t in block.threads():
                block.record(3, t)
            for t in block.threads():
                block.load(1, t, S + 4 * (63 - t))

    (finding,) = check(body, SITES, memory=memory).findings
    assert finding.headline == "WAR hazard in __shared__ memory"


def test_everybody_writes_one_word(memory: Memory) -> None:
    def body(block: Block) -> None:
        for t in block.threads():
            block.store(0, t, S, t)

    (finding,) = check(body, SITES, memory=memory).findings
    assert finding.headline == "WAW hazard in __shared__ memory"


def test_atomics_do_not_race_with_each_other_but_with_plain_accesses(memory: Memory) -> None:
    def kernel(late: bool):
        def body(block: Block) -> None:
            block.store(0, 0, S, 0)
            for t in block.threads():
                block.record(3, t)
            for t in block.threads():
                block.store(2, t, S, 1)
            if late:
                for t in block.threads():
                    block.record(3, t)
            block.load(1, 40, S)

        return body

    assert rules(check(kernel(True), SITES, memory=memory)) == []
    assert rules(check(kernel(False), SITES, memory=memory)) == [("race", 5)]


def test_one_thread_alone_never_races(memory: Memory) -> None:
    def body(block: Block) -> None:
        for t in block.threads():
            block.store(0, t, S + 4 * t, 0)
            block.load(1, t, S + 4 * t)
            block.store(0, t, S + 4 * t, 1)

    assert check(body, SITES, memory=memory).findings == []


def test_neighbouring_bytes_are_different_places(memory: Memory) -> None:
    sites = [site(SiteKind.STORE, Space.SHARED, 1, line=3), site(SiteKind.STORE, Space.SHARED, 4, line=4)]

    def kernel(wide: bool):
        def body(block: Block) -> None:
            for t in block.threads():
                block.store(0, t, S + t, 0, code="b")
            if wide:
                block.store(1, 5, S + 8, 0)

        return body

    assert rules(check(kernel(False), sites, memory=memory)) == []
    assert rules(check(kernel(True), sites, memory=memory)) == [("race", 4)]


def test_wide_accesses_overlap(memory: Memory) -> None:
    sites = [site(SiteKind.STORE, Space.SHARED, 16, line=3), site(SiteKind.LOAD, Space.SHARED, 4, line=4)]

    def body(block: Block) -> None:
        block.record(0, 0, S)
        block.load(1, 40, S + 12)

    assert rules(check(body, sites, memory=memory, tools=["racecheck"])) == [("race", 4)]


GLOBAL_STORE = site(SiteKind.STORE, line=7)
GLOBAL_LOAD = site(SiteKind.LOAD, line=7)
GLOBAL_ATOMIC = site(SiteKind.ATOMIC, line=8, opcode="atom.global.add.u32")


def accumulate(atomic: bool):
    """sum[0] += 1 by every thread of every block."""

    def body(block: Block) -> None:
        out = block.argument("Q", 0)
        for t in block.threads():
            if atomic:
                block.store(2, t, out, 1)
            else:
                block.load(1, t, out)
                block.store(0, t, out, 1)

    return body


@pytest.mark.parametrize(("grid", "block"), [(1, 64), (4, 1), (4, 64)])
def test_adding_up_without_atomics(memory: Memory, grid: int, block: int) -> None:
    out = memory.allocate(4)
    memory.view(out, 4)
    sites = [GLOBAL_STORE, GLOBAL_LOAD, GLOBAL_ATOMIC]
    launch = {"memory": memory, "grid": grid, "block": block, "args": pack(out), "parameters": [pointer(0, "out")]}
    checked = check(accumulate(False), sites, **launch)
    assert checked.findings and {f.rule for f in checked.findings} == {"race"}
    assert all("__global__" in f.headline for f in checked.findings)
    assert check(accumulate(True), sites, **launch).findings == []


def test_blocks_that_share_a_word(memory: Memory) -> None:
    out = memory.allocate(4096)
    memory.view(out, 4096)

    def body(block: Block) -> None:
        for t in block.threads():
            block.store(0, t, block.argument("Q", 0) + 4 * (t + step * block.index), 1)

    launch = {"memory": memory, "grid": 4, "block": 32, "args": pack(out), "parameters": [pointer(0, "out")]}
    step = 31
    (finding,) = check(body, [GLOBAL_STORE], **launch).findings
    assert finding.headline == "WAW hazard in __global__ memory"
    assert "of block (0,0,0)" in finding.detail and "of block (1,0,0)" in finding.detail
    assert finding.count == 3
    step = 32
    assert check(body, [GLOBAL_STORE], **launch).findings == []


def test_sanitizing_leaves_memory_as_it_was(memory: Memory) -> None:
    out = memory.allocate(4096)
    memory.array(out, 1024, np.int32)[:] = np.arange(1024)

    def body(block: Block) -> None:
        for t in block.threads():
            for k in range(16):
                block.store(0, t, block.argument("Q", 0) + 4 * (t * 16 + k), -1)

    check(body, [GLOBAL_STORE], memory=memory, grid=3, block=64, args=pack(out), parameters=[pointer(0, "out")])
    assert np.array_equal(memory.array(out, 1024, np.int32), np.arange(1024))


# -- initcheck -------------------------------------------------------------------------------------------------------


def test_reading_shared_memory_that_nobody_wrote(memory: Memory) -> None:
    def body(block: Block) -> None:
        for t in range(63):
            block.store(0, t, S + 4 * t, t)
        for t in block.threads():
            block.record(3, t)
        for t in block.threads():
            block.load(1, t, S + 4 * t)

    checked = check(body, SITES, memory=memory, grid=3)
    (finding,) = checked.findings
    assert (finding.rule, finding.tool, finding.line) == ("uninitialised read", "initcheck", 5)
    assert (finding.thread, finding.count) == ((63, 0, 0), 3)
    assert "Nothing has written shared memory, offset 252." in finding.detail


def test_each_block_starts_with_unwritten_shared_memory(memory: Memory) -> None:
    def body(block: Block) -> None:
        if block.index == 0:
            block.store(0, 0, S, 1)
        block.load(1, 0, S)

    (finding,) = check(body, SITES, memory=memory, grid=2, block=1).findings
    assert finding.block == (1, 0, 0)


def test_an_atomic_on_unwritten_memory_reads_it(memory: Memory) -> None:
    def body(block: Block) -> None:
        for t in block.threads():
            block.store(2, t, S, 1)

    assert rules(check(body, SITES, memory=memory)) == [("uninitialised read", 6)]


def copy_kernel(block: Block) -> None:
    a, out = block.argument("Q", 0), block.argument("Q", 8)
    for t in block.threads():
        i = block.index * block.context.threads + t
        block.load(1, t, a + 4 * i)
        block.store(0, t, out + 4 * i, 1)


def test_reading_device_memory_that_nobody_wrote(memory: Memory) -> None:
    a, out = memory.allocate(512), memory.allocate(512)
    launch = {
        "memory": memory,
        "grid": 2,
        "block": 64,
        "args": pack(a, out),
        "parameters": [pointer(0, "a"), pointer(1, "out")],
    }
    sites = [GLOBAL_STORE, GLOBAL_LOAD]
    memory.view(a, 400)
    (finding,) = check(copy_kernel, sites, **launch).findings
    assert (finding.rule, finding.line, finding.count) == ("uninitialised read", 7, 28)
    assert "byte 400 of the 512-byte device allocation" in finding.detail
    memory.mark_written(a, 512)
    assert check(copy_kernel, sites, **launch).findings == []
    assert memory.find(out).written.empty  # what the check wrote was taken back


def test_what_an_earlier_block_wrote_counts(memory: Memory) -> None:
    out = memory.allocate(400)

    def body(block: Block) -> None:
        p = block.argument("Q", 0)
        if block.index == 0:
            block.store(0, 0, p, 1)
        else:
            block.load(1, 0, p)

    launch = {"memory": memory, "grid": 2, "block": 1, "args": pack(out), "parameters": [pointer(0, "out")]}
    assert check(body, [GLOBAL_STORE, GLOBAL_LOAD], tools=["initcheck"], **launch).findings == []


# -- synccheck -------------------------------------------------------------------------------------------------------


def test_a_barrier_that_some_have_left_behind(memory: Memory) -> None:
    def body(block: Block) -> None:
        for t in range(40):
            block.record(3, t)

    (finding,) = check(body, SITES, memory=memory, grid=2).findings
    assert (finding.rule, finding.tool, finding.line, finding.count) == ("barrier after exit", "synccheck", 4, 2)
    assert finding.detail == "40 of 64 threads wait at kernel.cu:4 (line 4;); the others have ended without it."
    assert "not inside an if that some skip, and with no return before it" in finding.advice


def test_two_barriers_taken_for_one(memory: Memory) -> None:
    sites = [*SITES, site(SiteKind.BARRIER, line=9, opcode="bar.sync")]

    def body(block: Block) -> None:
        for t in range(64):
            block.record(3 if t < 32 else 5, t)

    (finding,) = check(body, sites, memory=memory).findings
    assert finding.rule == "divergent barrier"
    assert "32 threads wait at kernel.cu:4 (line 4;), the others at kernel.cu:9 (line 9;)" in finding.detail


def test_a_lane_that_its_mask_does_not_name(memory: Memory) -> None:
    def body(block: Block) -> None:
        for t in range(32):
            block.record(4, t, 0xFFFF)

    (finding,) = check(body, SITES, memory=memory, block=32).findings
    assert (finding.rule, finding.count, finding.thread) == ("lane not in mask", 16, (16, 0, 0))


def test_a_rule_without_words_is_an_error(memory: Memory) -> None:
    launch = make(lambda block: None, sites=SITES, memory=memory).launch(1, 32, b"")
    with pytest.raises(ValueError, match="no wording for the rule 'new rule'"):
        Wording(launch).sync(SyncError("new rule", 4, -1, 0, 0, 32))


VOTE = site(SiteKind.WARP, line=7, opcode="vote.sync.ballot.b32")
OTHER_VOTE = site(SiteKind.WARP, line=8, opcode="vote.sync.ballot.b32")
OTHER_SYNCWARP = site(SiteKind.WARP, line=9, opcode="bar.warp.sync")
LOW, HIGH = 0xFFFF, 0xFFFF_0000


def mismatches(*operations, memory: Memory):
    """What is found of a warp whose lanes (a range) execute a site with a mask, one operation after the other."""

    def body(block: Block) -> None:
        for lanes, number, mask in operations:
            for t in lanes:
                block.record(number, t, mask)

    return check(body, [VOTE, OTHER_VOTE, SYNCWARP, OTHER_SYNCWARP], memory=memory, block=32).findings


def test_lanes_that_are_named_and_are_at_another_vote(memory: Memory) -> None:
    (finding,) = mismatches((range(16), 0, FULL), (range(16, 32), 1, HIGH), memory=memory)
    assert (finding.tool, finding.rule, finding.line, finding.thread) == ("synccheck", "mask mismatch", 7, (0, 0, 0))
    assert "Lanes 0-15 at kernel.cu:7 (line 7;) have the mask 0xffffffff, which names lanes 16-31." in finding.detail
    assert "at kernel.cu:8 (line 8;), with the mask 0xffff0000" in finding.detail
    assert "0x0000ffff" in finding.advice


def test_a_barrier_that_was_skipped_shows_where_the_lanes_parted(memory: Memory) -> None:
    """The last barrier lacks lanes because the first had two masks."""
    found = mismatches((range(16), 2, LOW), (range(16, 32), 3, FULL), (range(32), 2, FULL), memory=memory)
    assert [(f.rule, f.line, f.thread) for f in found] == [("mask mismatch", 9, (16, 0, 0))]
    assert "at kernel.cu:4 (line 4;), with the mask 0x0000ffff" in found[0].detail


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([(range(16, 32), 1, HIGH)] * 3 + [(range(32), 2, FULL)], id="late"),
        pytest.param([(range(16), 0, FULL)], id="the others have returned"),
        pytest.param([(range(32), 0, FULL)] * 2 + [(range(16), 0, FULL)] * 3, id="some leave a loop early"),
        pytest.param([(range(16), 2, FULL), (range(16, 32), 3, FULL), (range(16), 2, LOW)], id="from two places"),
        pytest.param([(range(16), 2, FULL), (range(16, 32), 3, FULL), (range(16), 2, FULL)], id="and then alone"),
        pytest.param([(range(16), 0, LOW), (range(16, 32), 0, HIGH), (range(16), 2, FULL)], id="tiles in step"),
        pytest.param([(range(16), 0, LOW), (range(16, 32), 1, HIGH), (range(32), 2, FULL)], id="branches"),
        pytest.param(
            [(range(16, 32), 1, HIGH), (range(32), 2, FULL), (range(16), 0, FULL)], id="together before some return"
        ),
    ],
)
def test_masks_that_are_kept(operations: list, memory: Memory) -> None:
    assert mismatches(*operations, memory=memory) == []


def test_a_mask_mismatch_is_seen_in_native_code() -> None:
    """Once a warp, counted; and a warp that meets by halves first and returns by halves is fine."""
    import cudalab
    from cudalab import cp

    source = r"""
    extern "C" __global__ void k(int* y, unsigned mask) {
        int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, v = i;
        if (lane < 16) v = __shfl_xor_sync(0xffff, v, 1);
        else v = __shfl_xor_sync(0xffff0000, v, 2);
        if (lane >= 16) { y[i] = v; return; }
        y[i] = __reduce_add_sync(mask, v);
    }"""
    kernel = cp.RawKernel(source, "k")
    y = cp.zeros(3 * 64, cp.int32)
    (finding,) = cudalab.sanitize(kernel, (3,), (64,), (y, np.uint32(FULL))).findings
    assert (finding.rule, finding.line, finding.count) == ("mask mismatch", 6 + 1, 6)
    assert cudalab.sanitize(kernel, (3,), (64,), (y, np.uint32(LOW))).ok


def test_a_deadlock_of_masks_names_them() -> None:
    import cudalab
    from cudalab import cp

    source = r"""
    extern "C" __global__ void k(int* y) {
        int lane = threadIdx.x, v = lane;
        if (lane < 16) v = __shfl_xor_sync(0x0001ffff, v, 1);
        else v = __shfl_xor_sync(0xffff8000, v, 1);
        y[lane] = v;
    }"""
    (finding,) = cudalab.sanitize(cp.RawKernel(source, "k"), (2,), (32,), (cp.zeros(32, cp.int32),)).findings
    assert (finding.rule, finding.line, finding.count) == ("deadlock", 4, 2)
    assert "kernel.cu:4 with the mask 0x0001ffff" in finding.detail
    assert "kernel.cu:5 with the mask 0xffff8000" in finding.detail


def test_barriers_in_step_are_fine(memory: Memory) -> None:
    def body(block: Block) -> None:
        for _ in range(5):
            for t in block.threads():
                block.record(3, t)

    assert check(body, SITES, memory=memory, grid=3).findings == []


# -- memcheck --------------------------------------------------------------------------------------------------------


def test_several_faults_in_one_report(memory: Memory) -> None:
    out = memory.allocate(256)
    memory.view(out, 256)

    def body(block: Block) -> None:
        p = block.argument("Q", 0)
        block.store(0, 1, p + 256 * block.index, 1, root=1)
        if block.index == 0:
            block.load(1, 2, p + 2)

    checked = check(
        body,
        [GLOBAL_STORE, site(SiteKind.LOAD, line=9)],
        memory=memory,
        grid=4,
        args=pack(out),
        parameters=[pointer(0, "out")],
        tools=["memcheck"],
    )
    assert rules(checked) == [("misaligned address", 9), ("out of bounds", 7)]
    assert [f.count for f in checked.findings] == [1, 3]
    assert checked.blocks == 4


def test_a_faulting_block_makes_no_false_barrier_report(memory: Memory) -> None:
    def body(block: Block) -> None:
        for t in range(10):
            block.record(3, t)
        block.fault(FaultKind.TRAP, 0, 10)

    assert [f.rule for f in check(body, SITES, memory=memory).findings] == ["trap"]


def test_the_order_of_threads_follows_the_seed(memory: Memory) -> None:
    orders = []

    def body(block: Block) -> None:
        orders.append((block.index, tuple(block.threads())))

    check(body, SITES, memory=memory, grid=4, seed=1)
    first, orders = orders, []
    check(body, SITES, memory=memory, grid=4, seed=1)
    assert orders == first
    assert sorted(index for index, _ in first) == [0, 1, 2, 3]
    assert sorted(first[0][1]) == list(range(64)) != list(first[0][1])


def test_memory_set_aside_counts_as_freed(memory: Memory) -> None:
    out = memory.allocate(256)
    memory.view(out, 256)

    def body(block: Block) -> None:
        block.store(0, 0, block.argument("Q", 0), 1)

    launch = {"memory": memory, "args": pack(out), "parameters": [pointer(0, "out")]}
    with memory.set_aside([out], "the memory pool took it back"):
        (finding,) = check(body, [GLOBAL_STORE], **launch).findings
    assert finding.rule == "use after free" and "the memory pool took it back" in finding.detail
    assert check(body, [GLOBAL_STORE], **launch).findings == []


def test_unknown_tools(memory: Memory) -> None:
    with pytest.raises(ValueError, match="tools must be among memcheck.*got 'leakcheck'"):
        check(lambda block: None, SITES, memory=memory, tools=["leakcheck"])


def test_report_text(memory: Memory) -> None:
    (finding,) = check(reverse(None), SITES, memory=memory).findings
    lines = str(finding).splitlines()
    assert lines[0] == "RAW hazard in __shared__ memory in kernel k"
    assert lines[1].startswith("[block (0,0,0), thread (")
    assert "race — near kernel.cu:5" in lines[1]
    assert "&" not in finding._repr_html_() or "&#x27;" in finding._repr_html_()
