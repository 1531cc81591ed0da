"""The simulated SM: issue, pipes, scoreboards, the load/store unit, barriers, loops and blocks, one at a time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cudalab.sim.compiler.machine_code.instruction_set import Pipe
from cudalab.sim.device.timing import sm_simulation
from cudalab.sim.device.timing.machine_path import Loop, MachinePath, PathInstruction, Run
from cudalab.sim.device.timing.sm_simulation import SmCosts, SmTime, TooDeep, simulate

LATENCIES = {"fixed": 0.0, "shared": 24.0, "load": 200.0, "missed": 600.0, "barrier": 0.0, "store": 300.0}
LATENCIES |= {
    "converge": 0.0,
    "shared_atomic": 24.0,
    "copy": 200.0,
    "commit": 0.0,
    "await_copies": 0.0,
}
COSTS = SmCosts(
    latencies=tuple(LATENCIES.items()),
    occupancies=tuple({**dict.fromkeys(Pipe, 1.0), Pipe.ALU: 2.0, Pipe.XU: 8.0}.items()),
    wavefront=1.0,
    scheduler_wavefront=2.0,
    shared_atomic=4.0,
    converge=8.0,
    read=8.0,
    sector=1.0,
    any_sector=1.0,
    stored=0.0,
    atomic=0.0,
    line=1.5,
    branch=7.0,
    barrier=9.0,
    arrival=2.0,
    dispatch=0.0,
    launch=0.0,
)


def plain(pipe: Pipe = Pipe.FMA, stall: int = 4, waits: int = 0) -> PathInstruction:
    return PathInstruction(pipe, "fixed", stall, -1, -1, waits)


def load(wavefronts: float = 1.0, kind: str = "shared", waits: int = 0) -> PathInstruction:
    """A load that takes scoreboard 0."""
    return PathInstruction(Pipe.LSU, kind, 1, 0, -1, waits, wavefronts)


BARRIER = PathInstruction(Pipe.ADU, "barrier", 1, -1, -1, 0)


def path(*instructions: PathInstruction, times: float = 1.0) -> MachinePath:
    run = Run(0, len(instructions), 1.0)
    steps: tuple[Run | Loop, ...] = (Loop(times, (run,)),) if times > 1.0 else (run,)
    return MachinePath(instructions, steps, steps)


def run(what: MachinePath, *, warps: int = 1, resident: int = 1, blocks: int = 1) -> SmTime:
    return simulate(what, COSTS, warps=warps, resident=resident, blocks=blocks)


def test_a_dependent_chain_takes_its_stall_cycles() -> None:
    assert run(path(*[plain(stall=4)] * 100)).cycles == 4 * 99


@pytest.mark.parametrize(("warps", "cycles"), [(4, 396), (16, 399), (32, 799)])
def test_warps_of_a_scheduler_share_its_issue_slots(warps: int, cycles: int) -> None:
    # four schedulers: 16 warps fill the stall cycles of one another, 32 need two cycles for each one's
    assert run(path(*[plain(stall=4)] * 100), warps=warps).cycles == pytest.approx(cycles, abs=4)


def test_a_pipe_takes_an_instruction_only_so_often() -> None:
    assert run(path(*[plain(Pipe.XU, stall=1)] * 50)).cycles == 8 * 49
    assert run(path(*[plain(Pipe.ALU, stall=1)] * 50), warps=8).cycles == pytest.approx(2 * 2 * 50, abs=4)


def test_a_product_of_more_bits_takes_its_pipe_twice_and_holds_its_scheduler() -> None:
    product = replace(plain(Pipe.ALU, stall=1), turns=2.0)
    assert run(path(*[product] * 50), warps=8).cycles == pytest.approx(2 * 2 * 2 * 50, abs=8)
    alone = replace(plain(Pipe.ALU, stall=6), turns=2.0, slots=4.0)
    assert run(path(*[alone] * 50)).cycles == (6 + 3) * 49
    beside = path(alone, *[plain(stall=1)] * 4, times=50)
    assert run(beside, warps=16).cycles == pytest.approx(4 * (4 + 4) * 50, abs=50)


def test_a_scoreboard_is_waited_for() -> None:
    """A pointer chase: each load waits for the one before it."""
    assert run(path(*[load(kind="load", waits=1)] * 10)).cycles == 10 * 200
    assert run(path(*[load(kind="load")] * 10)).cycles < 300


@pytest.mark.parametrize(
    ("wavefronts", "warps", "cycles"), [(1, 4, 4 * 64), (32, 4, 32 * 4 * 64), (32, 1, 2 * 32 * 64)]
)
def test_the_load_store_unit_takes_a_wavefront_a_cycle(wavefronts: int, warps: int, cycles: int) -> None:
    """A single scheduler gets half of it."""
    assert run(path(*[load(wavefronts)] * 64), warps=warps).cycles == pytest.approx(cycles, rel=0.15)


def test_what_misses_the_l1_takes_turns_at_the_port() -> None:
    missing = PathInstruction(Pipe.LSU, "load", 1, 0, -1, 0, 1.0, missing=1.0, sectors=32.0, lines=32.0)
    assert run(path(missing)).cycles == 600 + 32 * 1.5
    assert run(path(missing), warps=8).cycles == pytest.approx(600 + 8 * 32 * 1.5, abs=8)


def test_a_long_path_takes_what_its_rounds_take(monkeypatch) -> None:
    """Rounds of an outer loop, with rounds of an inner one in each, and another wait: with few of them first."""
    code = (load(kind="load", waits=1), plain(waits=1))
    body: tuple[Run | Loop, ...] = (Run(0, 1, 1.0), Loop(20.0, (Run(1, 2, 1.0),)))
    steps: tuple[Run | Loop, ...] = (Run(1, 2, 1.0), Loop(64.0, body))
    long = MachinePath(code, steps, steps)
    whole = run(long)
    monkeypatch.setattr(sm_simulation, "MOST_ISSUES", 400)
    part = run(long)
    assert part.extrapolated and not whole.extrapolated
    assert part.cycles == pytest.approx(whole.cycles, rel=0.03)


def test_a_path_of_few_long_rounds_takes_what_its_rounds_take() -> None:
    """So long that fewer than two of its rounds would be followed: what the second one adds counts for the others."""
    long = path(*[plain(stall=4)] * 1500, times=8)
    part, whole = run(long, warps=64), 8 * 1500 * 64 / 4
    assert part.extrapolated
    assert part.cycles == pytest.approx(whole, rel=0.03)


@pytest.mark.parametrize("outer", [2.0, 3.0, 8.0])
def test_what_stands_beside_a_long_inner_loop_counts_as_often_as_it_runs(monkeypatch, outer: float) -> None:
    """Slabs of a product: a wait for the slab, then many rounds. Shortening the rounds alone, not what is beside them,
    would count the wait too often."""
    code = (load(kind="load"), plain(waits=1), *[plain(stall=4)] * 10)
    slab = (Run(0, 2, 1.0), Loop(100.0, (Run(2, 12, 1.0),)))
    steps: tuple[Run | Loop, ...] = (Loop(outer, slab),)
    long = MachinePath(code, steps, steps)
    whole = run(long, warps=4)
    monkeypatch.setattr(sm_simulation, "MOST_ISSUES", 2000)
    part = run(long, warps=4)
    assert part.extrapolated and not whole.extrapolated
    assert part.cycles == pytest.approx(whole.cycles, rel=0.05)


def test_a_barrier_waits_for_the_last_warp() -> None:
    alone = run(path(plain(), BARRIER, plain(), times=20)).cycles / 20
    many = run(path(plain(), BARRIER, plain(), times=20), warps=32).cycles / 20
    assert alone == pytest.approx(2 + 9 + 4 + 4 + 7, abs=4)
    assert many == pytest.approx(alone + 31 * 2, abs=12)  # the barrier unit takes two cycles for each warp


def test_a_taken_branch_costs() -> None:
    assert run(path(plain(stall=5), times=100)).cycles == pytest.approx(100 * (5 + 7), abs=12)


def test_what_is_jumped_over_costs_a_branch() -> None:
    """The slow way of a division stands between, and is not executed."""
    code = (plain(stall=5), plain(stall=5), plain(stall=5))
    steps = (Run(0, 1, 1.0), Run(2, 3, 1.0))
    assert run(MachinePath(code, steps, ())).cycles == 5 + 7


def test_lanes_that_come_together_cost() -> None:
    meet = replace(plain(Pipe.CBU, stall=5), latency="converge")
    assert run(path(meet, plain())).cycles == 5 + 8


@pytest.mark.parametrize(("kind", "cycles"), [("shared_atomic", 4), ("shared", 1)])
def test_what_a_request_takes_of_the_unit_at_least(kind: str, cycles: int) -> None:
    assert run(path(*[load(kind=kind)] * 64), warps=16).busy["unit"] == 16 * 64 * cycles


def test_a_block_makes_room_when_its_stores_have_arrived() -> None:
    store = PathInstruction(Pipe.LSU, "store", 1, -1, -1, 0, 1.0)
    assert run(path(store), blocks=1).cycles == 300
    assert run(path(store), blocks=4, resident=1).cycles == pytest.approx(4 * 300, abs=8)


def test_warps_of_a_block_begin_one_after_the_other() -> None:
    code, costs = path(*[plain(stall=4)] * 10), replace(COSTS, launch=5.0)
    assert simulate(code, costs, warps=32, resident=1, blocks=1).cycles == pytest.approx(31 * 5 + 4 * 9, abs=4)
    assert simulate(code, costs, warps=32, resident=2, blocks=20).cycles == pytest.approx(20 * 32 * 5, rel=0.05)


def test_an_sm_gets_a_block_only_so_often() -> None:
    """However soon the one before it ends."""
    costs = replace(COSTS, dispatch=100.0)
    found = simulate(path(*[plain(stall=4)] * 10), costs, warps=1, resident=2, blocks=20)
    assert found.cycles == 19 * 100 + 36


def test_a_share_of_the_visits() -> None:
    """Every fourth visit makes the way around."""
    body = (Run(0, 1, 1.0), Run(1, 2, 0.25))
    what = MachinePath((plain(stall=4), plain(stall=15)), (Loop(100.0, body),), ())
    assert run(what).cycles == pytest.approx(100 * 4 + 25 * 15 + 99 * 7, rel=0.02)


def alternately(*others: PathInstruction) -> MachinePath:
    """Each warp takes a long way in every fourth of 100 visits; between two of them stands ``others``."""
    long = Run(1, 2, 0.25)
    body = (Run(0, 1, 1.0), long, Run(2, 2 + len(others), 1.0)) if others else (Run(0, 1, 1.0), long)
    steps = (Loop(100.0, body),)
    return MachinePath((plain(stall=4), plain(stall=100), *others), steps, steps)


def test_warps_do_not_take_a_share_of_the_visits_together() -> None:
    """Where they meet at a barrier, one of four takes the long way each time, and the others wait for it."""
    apart = run(alternately(), warps=4).cycles
    assert apart == pytest.approx(run(alternately()).cycles, rel=0.05)
    met, alone = run(alternately(BARRIER), warps=4).cycles, run(alternately(BARRIER)).cycles
    assert alone < 0.5 * met
    assert met == pytest.approx(100 * (100 + 4 + 1 + COSTS.barrier + COSTS.arrival), rel=0.15)


def test_warps_go_round_a_loop_with_a_barrier_equally_often() -> None:
    met, (run_,) = (plain(stall=4), BARRIER), (Run(0, 2, 1.0),)
    steps = (Loop(40.0, (Loop(2.5, (run_,)),)),)
    found = run(MachinePath(met, steps, steps), warps=4)
    assert found.busy["barriers"] == 4 * 100 * COSTS.arrival
    without = (Loop(40.0, (Loop(2.5, (Run(0, 1, 1.0),)),)),)
    assert run(MachinePath(met, without, without), warps=4).busy["slots"] == 4 * 100


@pytest.mark.parametrize(("rounds", "executed"), [(7.9, 8), (7.2, 7), (0.4, 0)])
def test_a_fraction_of_a_round_is_rounded_where_there_is_one_warp(rounds: float, executed: int) -> None:
    steps = (Run(0, 1, 1.0), Loop(rounds, (Run(1, 2, 1.0),)))
    assert run(MachinePath((plain(), plain()), steps, ())).busy["slots"] == 1 + executed


def test_of_many_warps_a_share_goes_round_once_more() -> None:
    steps = (Run(0, 1, 1.0), Loop(7.5, (Run(1, 2, 1.0),)))
    found = run(MachinePath((plain(), plain()), steps, steps), warps=32).busy["slots"]
    assert found == pytest.approx(32 * 8.5, rel=0.01)


def test_loops_in_loops_and_a_loop_with_a_fraction_of_a_round() -> None:
    inner = Loop(2.5, (Run(0, 1, 1.0),))
    what = MachinePath((plain(stall=4), plain(stall=4)), (Loop(40.0, (inner, Run(1, 2, 1.0))),), ())
    assert what.issues(1) == 40 * 3.5
    assert run(what).cycles == pytest.approx(40 * 3.5 * 4 + 60 * 7 + 39 * 7, rel=0.02)


def test_one_warp_does_more_than_the_others() -> None:
    """A serial loop in one warp of 32 leaves the schedulers idle."""
    what = MachinePath((plain(stall=4),), (Loop(1000.0, (Run(0, 1, 1.0),)),), (Run(0, 1, 1.0),))
    assert what.issues(32) == 1031
    assert run(what, warps=32).cycles == pytest.approx(run(what, warps=1).cycles, abs=16)


def test_blocks_take_turns() -> None:
    """Two places for five blocks: three rounds."""
    block = path(*[plain(stall=4)] * 100)
    assert run(block, blocks=5, resident=2).cycles == pytest.approx(3 * 400, abs=8)
    assert run(block, blocks=4, resident=4).cycles == pytest.approx(396, abs=4)


def test_what_is_extrapolated_says_so_and_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    what = path(plain(), load(4.0), plain(waits=1), BARRIER, times=1600)
    short = run(what, warps=32)
    monkeypatch.setattr(sm_simulation, "MOST_ISSUES", 1 << 20)
    whole = run(what, warps=32)
    assert short.extrapolated
    assert not whole.extrapolated
    assert short.cycles == pytest.approx(whole.cycles, rel=0.02)
    assert short.busy["unit"] == pytest.approx(whole.busy["unit"], rel=0.02)


def test_busy_cycles() -> None:
    time = run(path(plain(), load(8.0), BARRIER), warps=4)
    assert time.busy["unit"] == 4 * 8
    assert time.busy["barriers"] == 4 * 2
    assert time.busy["fma"] == 4


def test_a_path_that_is_too_deep_is_refused() -> None:
    steps: tuple[Run | Loop, ...] = (Run(0, 1, 1.0),)
    for _ in range(9):
        steps = (Loop(2.0, steps),)
    with pytest.raises(TooDeep, match="8 loops"):
        run(MachinePath((plain(),), steps, ()))


def copies(*left: int, missing: float = 0.0) -> SmTime:
    """A warp that starts a group of one copy for each of ``left``, and then waits until so many are under way."""
    copy = PathInstruction(Pipe.LSU, "copy", 1, -1, -1, 0, 1.0, missing=missing)
    commit = PathInstruction(Pipe.LSU, "commit", 1, 0, -1, 0, 1.0)
    waits = [PathInstruction(Pipe.NONE, "await_copies", 4, -1, -1, 0, groups_left=number) for number in left]
    return run(path(*(each for wait in waits for each in (copy, commit, wait)), plain()))


def test_copies_are_under_way_together_until_their_group_is_waited_for() -> None:
    """And what comes behind a wait comes when that group, and those before it, are there."""
    one, two, ahead = copies(0), copies(0, 0), copies(1, 0)
    assert one.cycles == pytest.approx(200, abs=10)
    assert two.cycles == pytest.approx(400, abs=20)  # one behind the other
    assert ahead.cycles == pytest.approx(200, abs=20)  # the second beside the first
    assert copies(1, 1, 1, 0).cycles == pytest.approx(400, abs=40)
    assert copies(0, missing=1.0).cycles == pytest.approx(600, abs=10)
    assert copies(9, 9).cycles == pytest.approx(200, abs=20)  # nothing waits; the block ends when both are there


def test_a_load_hits_or_misses_and_is_never_between() -> None:
    """A warp that waits for eight loads of which half miss waits for one that does, nearly always."""
    one = PathInstruction(Pipe.LSU, "load", 1, 0, -1, 0, wavefronts=1.0, missing=0.5)
    code = (*[one] * 8, plain(waits=1))
    found = simulate(MachinePath(code, (Run(0, 9, 1.0),), (Run(0, 9, 1.0),)), COSTS, warps=1, resident=1, blocks=1)
    assert found.cycles >= 600


def test_of_many_loads_as_many_miss_as_should() -> None:
    one = PathInstruction(Pipe.LSU, "load", 1, 0, -1, 0, wavefronts=1.0, missing=0.25)
    steps = (Loop(1000.0, (Run(0, 2, 1.0),)),)
    found = simulate(MachinePath((one, plain(waits=1)), steps, steps), COSTS, warps=1, resident=1, blocks=1)
    assert found.cycles / 1000 == pytest.approx(0.75 * 200 + 0.25 * 600, rel=0.1)


def test_older_blocks_go_first_and_warps_of_one_block_take_turns() -> None:
    """An H200 ends eight equal blocks of multiply-adds that begin together one pair after the other (5.2, 6.0, 9.6,
    11.3, 14.1, 16.3, 19.0, 21.3 us), and the warps of one block at the same time. Where a scheduler has five warps of
    five blocks that each could take it for a third of the time, the last two are left alone."""
    code = path(*[plain(stall=3)] * 100, times=6.0)
    apart = simulate(code, COSTS, warps=1, resident=20, blocks=20)
    together = simulate(code, COSTS, warps=20, resident=1, blocks=1)
    assert together.cycles == pytest.approx(5 * 600, rel=0.03)
    assert apart.cycles == pytest.approx((3 + 3) * 600, rel=0.03)


def test_stores_have_a_way_out_of_their_own() -> None:
    """Slower than that of the loads, and beside them."""
    costs = replace(COSTS, stored=2.0)
    load_ = PathInstruction(Pipe.LSU, "load", 1, 0, -1, 0, 1.0, missing=1.0, sectors=4.0, lines=1.0)
    store = PathInstruction(Pipe.LSU, "store", 1, -1, -1, 0, 1.0, sectors=4.0, lines=1.0)

    def cycles(*code: PathInstruction) -> float:
        return simulate(path(*code, times=200.0), replace(costs, any_sector=0.0), warps=8, resident=1, blocks=1).cycles

    assert cycles(store) == pytest.approx(8 * 200 * 4 * 2, rel=0.05)
    assert cycles(load_) == pytest.approx(8 * 200 * 4, rel=0.1)
    assert cycles(load_, store) == pytest.approx(8 * 200 * 4 * 2, rel=0.05)


def test_atomics_wait_for_the_units_of_the_l2() -> None:
    """Though the port and the load/store unit are free: what all SMs want takes its time."""
    add = PathInstruction(Pipe.LSU, "store", 1, -1, -1, 0, 1.0, sectors=4.0, lines=1.0, atomics=4.0)
    found = simulate(path(*[plain()] * 50, add), replace(COSTS, atomic=20.0), warps=8, resident=4, blocks=4)
    assert found.cycles == pytest.approx(50 * 8 * 4 / 4 + 32 * 4 * 20 + 300, rel=0.15)
