"""Counters against values worked out by hand."""

from __future__ import annotations

import struct
import time

import numpy as np
import pytest

from cudalab.sim.abi import LOCAL_WINDOW, SHARED_WINDOW, SiteKind, Space
from cudalab.sim.compiler import compile
from cudalab.sim.compiler.machine_code.assembly import assembly
from cudalab.sim.machine.counters.collection import count, join
from cudalab.sim.machine.counters.metrics import Counts, scale
from cudalab.sim.machine.counters.sampling import sample
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.trace.recorder import RECORD
from tests.sim.h200 import LIMITS
from tests.sim.machine.handmade import make, site

BASE = 0x7F00_0000_0000


def records(entries: list[tuple[int, int, int]]) -> np.ndarray:
    """(thread, site, address) in program order of each thread."""
    out = np.zeros(len(entries), RECORD)
    out["thread"] = [e[0] for e in entries]
    out["site"] = [e[1] for e in entries]
    out["address"] = [e[2] for e in entries]
    return out


def counted(sites, entries, threads: int = 32, weights=(1.0,)) -> Counts:
    kernel = make(lambda block: None, sites=sites).kernel
    parts = entries if isinstance(entries[0], list) else [entries]
    return count(kernel, join([records(p) for p in parts], weights, threads))


def one_load(address, size: int = 4, lanes=range(32)) -> Counts:
    return counted([site(SiteKind.LOAD, size=size)], [(t, 0, BASE + address(t)) for t in lanes])


@pytest.mark.parametrize(("stride", "sectors"), [(0, 1), (1, 4), (2, 8), (4, 16), (8, 32), (32, 32)])
def test_sectors_of_a_strided_float_load(stride: int, sectors: int) -> None:
    counts = one_load(lambda t: 4 * stride * t)
    assert counts.global_loads.requests == 1
    assert counts.global_loads.sectors_per_request == sectors


def test_offset_by_one_element_costs_one_sector_more() -> None:
    assert one_load(lambda t: 4 * (t + 1)).global_loads.sectors_per_request == 5


@pytest.mark.parametrize(("size", "sectors"), [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16)])
def test_sectors_follow_the_width(size: int, sectors: int) -> None:
    loads = one_load(lambda t: size * t, size).global_loads
    assert (loads.sectors, loads.bytes, loads.efficiency) == (sectors, 32 * size, 1.0)


def test_the_order_of_lanes_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    order = rng.permutation(32)
    assert one_load(lambda t: 4 * int(order[t])).global_loads.sectors == 4
    assert one_load(lambda t: 4 * (31 - t)).global_loads.sectors == 4


def test_only_active_lanes_count() -> None:
    loads = one_load(lambda t: 4 * t, lanes=range(3, 9)).global_loads
    assert (loads.requests, loads.sectors, loads.accesses) == (1, 2, 6)


def test_random_addresses_against_sets() -> None:
    rng = np.random.default_rng(1)
    sites = [site(SiteKind.LOAD), site(SiteKind.STORE, size=8)]
    entries, expected = [], [0, 0]
    for _ in range(50):
        for place, size in ((0, 4), (1, 8)):
            lanes = np.flatnonzero(rng.random(32) < 0.7)
            addresses = rng.integers(0, 60, 32) * size
            entries.append([(int(t), place, BASE + int(addresses[t])) for t in lanes])
            expected[place] += len({int(addresses[t]) // 32 for t in lanes})
    # Lanes that leave out a visit would be lined up with the next one, so each visit is a block of its own.
    counts = counted(sites, entries, weights=[1.0] * len(entries))
    assert [counts.global_loads.sectors, counts.global_stores.sectors] == expected


def test_a_loop_makes_one_request_a_pass() -> None:
    entries = [(t, 0, BASE + 4 * (32 * i + t)) for t in range(32) for i in range(10)]
    loads = counted([site(SiteKind.LOAD)], entries).global_loads
    assert (loads.requests, loads.sectors) == (10, 40)


def test_warps_have_their_own_requests() -> None:
    entries = [(t, 0, BASE + 4 * t) for t in range(100)]
    loads = counted([site(SiteKind.LOAD)], entries, threads=100).global_loads
    assert (loads.requests, loads.sectors, loads.accesses) == (4, 13, 100)


def test_blocks_are_weighted() -> None:
    block = [(t, 0, BASE + 4 * t) for t in range(32)]
    loads = counted([site(SiteKind.LOAD)], [block, block[:8]], weights=(9.0, 1.0)).global_loads
    assert (loads.requests, loads.sectors, loads.accesses) == (10, 37, 296)


def shared(address, size: int = 4, lanes=range(32), kind: SiteKind = SiteKind.LOAD) -> Counts:
    entries = [(t, 0, SHARED_WINDOW + address(t)) for t in lanes]
    return counted([site(kind, Space.SHARED, size)], entries)


@pytest.mark.parametrize(
    ("stride", "ways"), [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (32, 32), (33, 1)]
)
def test_bank_conflicts_of_a_strided_access(stride: int, ways: int) -> None:
    loads = shared(lambda t: 4 * stride * t).shared_loads
    assert (loads.requests, loads.wavefronts, loads.bank_conflicts) == (1, ways, ways - 1)


def test_a_column_of_a_tile_and_a_padded_one() -> None:
    assert shared(lambda t: 4 * 32 * t).shared_loads.bank_conflicts == 31
    assert shared(lambda t: 4 * 33 * t).shared_loads.bank_conflicts == 0


def test_lanes_of_one_word_share_a_wavefront() -> None:
    assert shared(lambda t: t, 1).shared_loads.wavefronts == 1
    assert shared(lambda t: 4 * (t % 2) * 32).shared_loads.wavefronts == 2


@pytest.mark.parametrize(("size", "ideal"), [(8, 2), (16, 4)])
def test_wide_accesses_go_by_halves_and_quarters(size: int, ideal: int) -> None:
    loads = shared(lambda t: size * t, size).shared_loads
    assert (loads.wavefronts, loads.bank_conflicts) == (ideal, 0)


def test_a_strided_double_conflicts_within_its_half() -> None:
    loads = shared(lambda t: 16 * t, 8).shared_loads
    assert (loads.wavefronts, loads.bank_conflicts) == (4, 2)


def test_halves_without_active_lanes_cost_nothing() -> None:
    assert shared(lambda t: 8 * t, 8, lanes=range(16)).shared_loads.wavefronts == 1


def test_predicated_off_lanes_make_no_wavefront() -> None:
    assert shared(lambda t: 4 * 32 * t, lanes=range(4)).shared_loads.wavefronts == 4


def test_generic_accesses_count_where_they_go() -> None:
    entries = [(t, 0, SHARED_WINDOW + 4 * t) for t in range(32)]
    counts = counted([site(SiteKind.LOAD, Space.GENERIC)], entries)
    assert counts.shared_loads.requests == 1 and counts.global_loads.requests == 0


def test_local_memory_is_interleaved_by_lane() -> None:
    entries = [(t, 0, LOCAL_WINDOW + 8) for t in range(32)]
    assert counted([site(SiteKind.LOAD, Space.LOCAL)], entries).local_loads.sectors == 4
    entries = [(t, 0, LOCAL_WINDOW + 4 * t) for t in range(32)]
    assert counted([site(SiteKind.STORE, Space.LOCAL)], entries).local_stores.sectors == 32


def test_atomics_and_their_longest_chain() -> None:
    sites = [site(SiteKind.ATOMIC), site(SiteKind.ATOMIC, Space.SHARED)]
    entries = [(t, 0, BASE + 4 * (t // 8)) for t in range(32)] + [(t, 1, SHARED_WINDOW) for t in range(32)]
    counts = counted(sites, entries)
    found = counts.global_atomics
    assert (found.requests, found.sectors, found.operations) == (1, 8, 8)
    assert (counts.shared_atomics.requests, counts.shared_atomics.wavefronts) == (1, 32)


def blocks_of(lengths: list[int]):
    return [site(SiteKind.BLOCK, instructions=n) for n in lengths]


def test_instructions_are_counted_by_warp() -> None:
    # Every lane: entry, then lane % 2 chooses, then all join.
    ways = [[0, 1, 3], [0, 2, 3]]
    entries = [(t, place, 0) for t in range(64) for place in ways[t % 2]]
    counts = counted(blocks_of([10, 3, 4, 5]), entries, threads=64)
    assert counts.instructions == 2 * (10 + 3 + 4 + 5)
    assert counts.thread_instructions == 32 * (10 + 3 + 5) + 32 * (10 + 4 + 5)
    assert (counts.branches, counts.divergent_branches, counts.branch_efficiency) == (2, 2, 0.0)
    assert counts.longest_warp == 22


def test_a_branch_that_splits_no_warp_is_uniform() -> None:
    entries = [(t, place, 0) for t in range(64) for place in ([0, 1, 3] if t < 32 else [0, 2, 3])]
    counts = counted(blocks_of([10, 3, 4, 5]), entries, threads=64)
    assert (counts.branches, counts.divergent_branches, counts.branch_efficiency) == (2, 0, 1.0)
    assert counts.thread_efficiency == 1.0


def test_loops_of_different_length() -> None:
    entries = [(t, place, 0) for t in range(32) for place in [0, *[1] * (1 + t % 4), 2]]
    counts = counted(blocks_of([5, 7, 3]), entries)
    assert counts.instructions == 5 + 4 * 7 + 3
    assert counts.divergent_branches == 3  # of the loop's four ends the last keeps all together


def test_lanes_that_take_turns_in_a_loop_make_requests_of_their_own() -> None:
    # for (i = 0; i < 4; i++) if (lane % 4 == i) load: header 0, body with the load 1, latch 2, exit 3
    sites = [*blocks_of([1, 1, 1, 1]), site(SiteKind.LOAD)]
    entries = []
    for t in range(32):
        for i in range(4):
            entries.append((t, 0, 0))
            if t % 4 == i:
                entries += [(t, 1, 0), (t, 4, BASE + 4 * t)]
            entries.append((t, 2, 0))
        entries.append((t, 3, 0))
    counts = counted(sites, entries)
    assert (counts.global_loads.requests, counts.global_loads.accesses) == (4, 32)
    assert counts.global_loads.sectors == 16
    assert counts.instructions == 4 * 3 + 1


def test_inner_loops_of_different_length_line_up_in_the_next_pass() -> None:
    # for (i = 0; i < 2; i++) for (j = 0; j < 1 + lane % 2; j++) load: outer 0, inner with load 1, latch 2, exit 3
    sites = [*blocks_of([1, 1, 1, 1]), site(SiteKind.LOAD)]
    entries = []
    for t in range(32):
        for i in range(2):
            entries.append((t, 0, 0))
            for j in range(1 + t % 2):
                entries += [(t, 1, 0), (t, 4, BASE + 1024 * (2 * i + j) + 4 * t)]
            entries.append((t, 2, 0))
        entries.append((t, 3, 0))
    counts = counted(sites, entries)
    assert (counts.global_loads.requests, counts.global_loads.sectors) == (4, 16)


def test_barriers_and_warp_operations() -> None:
    sites = [site(SiteKind.BARRIER), site(SiteKind.WARP)]
    entries = [(t, p, 0) for t in range(64) for p in (0, 1, 1)]
    counts = counted(sites, entries, threads=64)
    assert (counts.barriers, counts.warp_operations) == (2, 4)


def test_different_sectors_are_counted_once_a_block() -> None:
    block = [(t, 0, BASE + 4 * (t % 16)) for t in range(64)] + [(t, 1, BASE + 4096 + 4 * t) for t in range(64)]
    counts = counted([site(SiteKind.LOAD), site(SiteKind.STORE)], [block, block], threads=64, weights=(1.0, 3.0))
    assert (counts.sectors_loaded_once, counts.sectors_stored_once) == (8, 32)


def test_a_load_of_what_the_block_has_stored_hits_the_l1() -> None:
    sites = [site(SiteKind.STORE), site(SiteKind.LOAD), site(SiteKind.LOAD)]
    entries = [(t, s, BASE + (s == 2) * 4096 + 4 * t) for t in range(32) for s in range(3)]
    counts = counted(sites, entries)
    assert counts.loads_missing == 1
    found = [(each.missing, each.sectors_missing, each.lines_missing) for each in counts.sites]
    assert found == [(0, 0, 0), (0, 0, 0), (1, 4, 1)]


def test_the_first_load_of_a_row_misses_whichever_thread_is_traced_first() -> None:
    """Three words for each lane: the first instruction fetches all of the sectors."""
    entries = [(t, s, BASE + 4 * (3 * t + s)) for t in range(32) for s in range(3)]
    counts = counted([site(SiteKind.LOAD)] * 3, entries)
    assert [(each.missing, each.sectors_missing, each.lines_missing) for each in counts.sites] == [(1, 12, 3)] + [
        (0, 0, 0)
    ] * 2
    assert counts.loads_missing == 1


def test_warps_that_want_the_same_in_one_step_wait_together() -> None:
    """The second load of the second warp comes late enough."""
    both = [(t, 0, BASE + 4 * (t % 32)) for t in range(64)]
    then = [(t, 1, BASE + 4096 * (1 + t // 32) + 4 * (t % 32)) for t in range(64)]
    later = [(t, 2, BASE + 4096 * (2 - t // 32) + 4 * (t % 32)) for t in range(64)]
    counts = counted([site(SiteKind.LOAD)] * 3, both + then + later, threads=64)
    assert [(each.missing, each.sectors_missing) for each in counts.sites] == [(2, 4), (2, 8), (0, 0)]


@pytest.mark.parametrize(("words", "sectors"), [(1, 4), (2, 8), (4, 16), (5, 36), (8, 256)])
def test_stores_in_a_row_join_while_few_lines_come_between(words: int, sectors: int) -> None:
    """Of 5 words four fifths of those that come again join, of 8 words none."""
    entries = [(t, s, BASE + 4 * (words * t + s)) for t in range(64) for s in range(words)]
    counts = counted([site(SiteKind.STORE) for _ in range(words)], entries, threads=64)
    stores = counts.global_stores
    assert stores.sectors - counts.sectors_joined == pytest.approx(2 * sectors)
    assert sum(each.sectors_joined for each in counts.sites) == counts.sectors_joined
    assert counts.sites[0].sectors_joined == 0


def test_a_load_keeps_stores_apart() -> None:
    """Where the compiler may not move it over a store through another pointer."""
    memory = Memory(1 << 24)
    rows = """extern "C" __global__ void rows(const float* {}x, float* {}y) {{
        int i = 2 * threadIdx.x; y[i] = x[i]; y[i + 1] = x[i + 1]; }}"""
    joined = []
    for word in ("", "__restrict__ "):
        kernel = Module(compile(rows.format(word, word)), memory, LIMITS).kernel("rows")
        launch = kernel.launch(1, 32, struct.pack("QQ", memory.allocate(256), memory.allocate(256)))
        joined.append(sample(launch, remember=False).sectors_joined)
    assert joined == [0, 8]


def test_lanes_that_follow_a_leader_make_no_atomic_operation() -> None:
    kernel = make(lambda block: None, sites=[site(SiteKind.ATOMIC)]).kernel
    entries = [(t, 0, BASE + 4 * (t % 2)) for t in range(64)]
    traced = join([records(entries)], [1.0], 64)
    assert count(kernel, traced).hottest_address == 32
    together = count(kernel, traced, combined=np.array([True]))
    assert together.hottest_address == 2
    assert (together.global_atomics.requests, together.global_atomics.sectors) == (2, 2)
    assert together.global_atomics.accesses == 64


def test_ncu_names() -> None:
    metrics = one_load(lambda t: 8 * t).metrics
    assert metrics["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 1
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 8
    conflicts = shared(lambda t: 8 * t).metrics["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"]
    assert conflicts == 1


def test_nothing_recorded() -> None:
    kernel = make(lambda block: None, sites=[site(SiteKind.LOAD)]).kernel
    counts = count(kernel, join([np.zeros(0, RECORD)], [1.0], 32))
    assert counts.global_loads.requests == 0 and counts.instructions == 0
    kernel = make(lambda block: None).kernel
    assert count(kernel, join([np.zeros(0, RECORD)], [1.0], 32)).instructions == 0


def test_scale() -> None:
    counts = one_load(lambda t: 4 * t)
    scale(counts, 2.5)
    assert (counts.global_loads.requests, counts.sites[0].sectors) == (2.5, 10.0)
    assert counts.global_loads.sectors_per_request == 4


def test_a_million_records_are_counted_quickly() -> None:
    sites = [
        site(SiteKind.BLOCK, instructions=9),
        site(SiteKind.LOAD),
        site(SiteKind.LOAD, Space.SHARED),
        site(SiteKind.STORE),
    ]
    threads, loops = 1024, 250
    t, i, p = np.meshgrid(np.arange(threads), np.arange(loops), np.arange(4), indexing="ij")
    out = np.zeros(t.size, RECORD)
    out["thread"], out["site"] = t.ravel(), p.ravel()
    base = np.array([0, BASE, SHARED_WINDOW, BASE + (1 << 24)])[p.ravel()]
    out["address"] = base + np.where(p.ravel() == 2, 4 * (t.ravel() % 64), 4 * (t.ravel() + 1024 * i.ravel()))
    kernel = make(lambda block: None, sites=sites).kernel
    best = 10.0
    for _ in range(3):
        start = time.thread_time()
        counts = count(kernel, join([out], [1.0], threads))
        best = min(best, time.thread_time() - start)
    assert counts.global_loads.sectors == 32 * loops * 4
    assert len(out) / best > 1e6, f"{len(out) / best / 1e6:.1f} M records/s"
    print(f"{len(out) / best / 1e6:.1f} M records/s")


def test_a_counter_of_the_whole_warp_gets_one_operation_of_each_warp() -> None:
    """By the machine code of the kernel: a vote, and an atomic of one lane."""
    memory = Memory(1 << 20)
    program = compile('extern "C" __global__ void tick(int *total) { atomicAdd(total, 1); }')
    kernel = Module(program, memory, LIMITS).kernel("tick")
    launch = kernel.launch(4, 64, struct.pack("Q", memory.allocate(4)))
    assert sample(launch, remember=False).hottest_address == 8


def test_lanes_that_count_on_one_word_are_one_operation() -> None:
    """``ATOMS.POPC.INC``: an addition of one, whose result is not used."""
    text = """extern "C" __global__ void NAME(int* y, int k) {
        __shared__ int t[32]; t[threadIdx.x] = 0; __syncthreads();
        int v = WHAT; __syncthreads(); y[threadIdx.x] = t[0] + v; }"""
    found = {}
    for name, what in (
        ("count", "(atomicAdd(t + threadIdx.x / k, 1), 0)"),
        ("two", "(atomicAdd(t + threadIdx.x / k, 2), 0)"),
        ("old", "atomicAdd(t + threadIdx.x / k, 1)"),
    ):
        program = compile(text.replace("NAME", name).replace("WHAT", what))
        memory = Memory(1 << 20)
        kernel = Module(program, memory, LIMITS).kernel(name)
        counts = sample(kernel.launch(1, 32, struct.pack("Qi", memory.allocate(256), 32)), remember=False)
        made = [each for each in assembly(program, kernel.kernel).instructions if each.name == "ATOMS"]
        found[name] = (counts.shared_atomics.wavefronts, counts.shared_atomics.accesses, made[0].counts_lanes)
    assert found == {"count": (1, 32, True), "two": (32, 32, False), "old": (32, 32, False)}


@pytest.mark.parametrize(("rounds", "length"), [(1, 300), (2, 300), (5, 300), (16, 100), (20, 70), (40, 50)])
def test_rounds_longer_than_what_is_kept_of_a_block_count_all(rounds: int, length: int) -> None:
    """Between two barriers each thread makes more accesses than its share of the records that are kept; or what is kept
    ends in the middle of a round."""
    memory = Memory(1 << 20)
    program = compile(
        'extern "C" __global__ void turns(float* x, int rounds, int length) {\n'
        "    __shared__ float part[1024];\n"
        "    float sum = 0.0f;\n"
        "    for (int r = 0; r < rounds; r++) {\n"
        "        part[threadIdx.x] = x[threadIdx.x];\n"
        "        __syncthreads();\n"
        "        #pragma unroll 1\n"
        "        for (int k = 0; k < length; k++) sum += part[(threadIdx.x + k) & 1023];\n"
        "        __syncthreads();\n"
        "    }\n"
        "    x[threadIdx.x] = sum;\n"
        "}"
    )
    kernel = Module(program, memory, LIMITS).kernel("turns")
    launch = kernel.launch(1, 1024, struct.pack("Qii", memory.allocate(4096), rounds, length))
    counts = sample(launch, remember=False)
    assert counts.shared_loads.requests == pytest.approx(32 * rounds * length, rel=0.05)
    assert counts.global_loads.requests == pytest.approx(32 * rounds, rel=0.05)
