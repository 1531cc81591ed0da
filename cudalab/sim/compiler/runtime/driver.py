"""The block driver: runs the regions of a kernel with suspension points.

While all threads of the block wait at the same point, they run region by region together; warp operations are resolved
warp by warp in between. When they diverge, each warp runs by itself until it waits at a barrier or has exited. A
diverged warp runs one group of lanes after the other, each from its own point, and resolves a warp operation as soon as
all lanes in its mask wait at one of its kind; a waiting group lets the others run, as with independent thread
scheduling. ``activemask`` is resolved last, when nothing else can run.

When all warps wait, the barrier is released: at once if every warp waits at barrier 0 of the whole block, else barrier
by barrier (``barriers``). The arrival of a warp at a named barrier is counted at once. If nothing can be released, the
block is deadlocked.

Polling threads yield to their warp, then to the other warps, and poll again in the next round. When a round of the
block has made no visible progress, or after ``context.rounds`` rounds, the block *yields*: thread states are in
``context.states``, and the block resumes from them when it is called again with ``context.resume`` set. In between
other blocks may run, with their own shared and local memory, frames and states.
"""

from __future__ import annotations

from cudalab.sim import abi
from cudalab.sim.abi import FaultKind, Progress, Status
from cudalab.sim.compiler.passes.suspension import PointKind
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library, Variable
from cudalab.sim.compiler.runtime.mbarrier_waits import MOST_EXPIRIES, is_wait
from cudalab.sim.compiler.runtime.states import (
    call_region,
    exists,
    has_flag,
    is_poll,
    is_stop,
    kind_of,
    lanes_of,
    literals_of,
    make_stale,
    may_yield,
    stop_requested,
    yields_first,
)

_PARAMETER_BYTES = 32  # offset in layout.DESCRIPTOR
_MOST_THREADS = 1024
_RESERVED_IN_USE = 288  # bytes: %reserved_smem_offset_end on an H200
_MOST_WARPS = _MOST_THREADS // abi.WARP


def write(library: Library) -> None:
    """Add the functions of this module."""
    _run_warp(library)
    _split(library)
    _run_together(library)
    _spread_all(library)
    _run_apart(library)
    _deadlock(library)
    _tables(library)
    _run(library)


def _run_warp(library: Library) -> None:
    """Run a warp until it waits at a barrier or has exited. Returns its state."""
    f = library.function("cl_run_warp", "i32", "ptr ctx, ptr blk, i32 warp, i32 state, ptr kernel", "noinline")
    with f.if_(f.compare("eq", "i32", "%state", layout.DIVERGED)):
        f.ret(f.call("cl_run_lanes", "i32", "ptr %ctx", "ptr %blk", "i32 %warp", "ptr %kernel"))
    state = f.variable("i32", "%state")
    first = f.op("shl i32 %warp, 5")
    threads = f.load("i32", "%ctx", layout.field("threads"))
    end = f.call("llvm.umin.i32", "i32", f"i32 {f.op(f'add i32 {first}, 32')}", f"i32 {threads}")
    lanes = lanes_of(f, "%warp")
    with f.loop():
        outcome = call_region(f, state.get(), first, end)
        final = f.op(f"or i1 {is_stop(f, outcome)}, {f.compare('eq', 'i32', outcome, layout.EXITED)}")
        with f.if_(final):
            f.ret(outcome)
        with f.if_(f.compare("eq", "i32", outcome, layout.DIVERGED)):
            f.ret(f.call("cl_run_lanes", "i32", "ptr %ctx", "ptr %blk", "i32 %warp", "ptr %kernel"))
        state.set(outcome)
        kind = kind_of(f, outcome)
        polls = f.op(f"or i1 {f.compare('eq', 'i32', kind, int(PointKind.POLL))}, {is_wait(f, kind)}")
        with f.if_(f.op(f"or i1 {polls}, {f.compare('ult', 'i32', kind, int(PointKind.SYNC))}")):
            f.ret(outcome)
        _resolve_warp(f, "%warp", outcome, kind, lanes)
        with f.if_(stop_requested(f)):
            f.ret(layout.STOPPED)


def _resolve_warp(f: Function, warp: str, state: str, kind: str, lanes: str) -> None:
    """Resolve an operation at which all lanes of a warp wait."""
    literals = literals_of(f, state)
    f.call("cl_resolve_warp", "void", "ptr %ctx", f"i32 {warp}", f"i32 {kind}", f"i32 {lanes}", f"ptr {literals}")


def _run_together(library: Library) -> None:
    """Run the block's threads together from ``state``. Returns a point with a named barrier or a poll, or the result of
    a region; after DIVERGED the states of all threads are in ``context.states``."""
    f = library.function("cl_run_together", "i32", "ptr ctx, ptr blk, i32 first, ptr kernel", "noinline")
    state = f.variable("i32", "%first")
    threads = f.load("i32", "%ctx", layout.field("threads"))
    warps = f.load("i32", "%ctx", layout.field("warps"))
    several = f.compare("ugt", "i32", warps, 1)
    unchecked = f.compare("eq", "i64", f.load("i64", "%ctx", layout.field("race")), 0)  # shadow cells show the race
    several = f.op(f"and i1 {several}, {unchecked}")
    result = f.variable("i32")
    with f.loop():
        with f.if_else(f.op(f"and i1 {several}, {has_flag(f, state.get(), layout.UNORDERED)}")) as otherwise:
            arguments = "ptr %ctx", "ptr %blk", f"i32 {state.get()}", "ptr %kernel"
            result.set(f.call("cl_run_reordered", "i32", *arguments))
            otherwise()
            result.set(call_region(f, state.get(), "0", threads))
        outcome = result.get()
        with f.if_(f.op(f"xor i1 {_is_point(f, outcome)}, true")):
            f.ret(outcome)
        state.set(outcome)
        kind = kind_of(f, outcome)
        polls = f.compare("eq", "i32", kind, int(PointKind.POLL))
        with f.if_(f.op(f"or i1 {polls}, {f.compare('eq', 'i32', kind, int(PointKind.NAMED_BARRIER))}")):
            f.ret(outcome)
        waits = is_wait(f, kind)
        with f.if_(waits), f.if_(_negated(f, _all_complete(f))):
            f.ret(outcome)
        among_lanes = f.op(f"and i1 {f.compare('uge', 'i32', kind, int(PointKind.SYNC))}, {_negated(f, waits)}")
        with f.if_(among_lanes), f.count_up("i32", warps) as warp:
            lanes = lanes_of(f, warp)
            _resolve_warp(f, warp, outcome, kind, lanes)
        with f.if_(stop_requested(f)):
            f.ret(layout.STOPPED)


def _all_complete(f: Function) -> str:
    """Whether all phases are complete, given that all threads wait for mbarriers at one point."""
    return f.call("cl_mbarrier_together", "i1", "ptr %ctx", "ptr %kernel")


def _negated(f: Function, condition: str) -> str:
    return f.op(f"xor i1 {condition}, true")


def _is_point(f: Function, outcome: str) -> str:
    """Whether a region returned a point."""
    return f.compare("ult", "i32", outcome, layout.HOLD)


def _split(library: Library) -> None:
    """Compute each warp's state after the block has diverged: its lanes' common state, or DIVERGED."""
    f = library.function("cl_split", "void", "ptr ctx, ptr warps", "noinline")
    states = f.load("ptr", "%ctx", layout.field("states"))
    with f.count_up("i32", f.load("i32", "%ctx", layout.field("warps"))) as warp:
        own = f.at(states, f.op(f"shl i64 {f.wide(warp)}, 7"))
        either, both = f.variable("i32", 0), f.variable("i32", -1)
        left = f.op(f"sub i32 {f.load('i32', '%ctx', layout.field('threads'))}, {f.op(f'shl i32 {warp}, 5')}")
        with f.count_up("i32", f.call("llvm.umin.i32", "i32", f"i32 {left}", f"i32 {abi.WARP}")) as lane:
            state = f.load("i32", f.element(own, "i32", lane))
            either.update("or", state)
            both.update("and", state)
        same = f.compare("eq", "i32", either.get(), both.get())
        common = f.op(f"select i1 {same}, i32 {both.get()}, i32 {layout.DIVERGED}")
        f.store("i32", common, f.element("%warps", "i32", warp))
    f.ret()


def _run_apart(library: Library) -> None:
    """Run each warp by itself until the threads of the block have reconverged or exited.

    ``warps`` holds a state for each warp. Returns the common point, EXITED, FAULTED, STOPPED, or YIELDED with all
    states in ``context.states``. ``context.progress`` accumulates over all rounds.
    """
    f = library.function("cl_run_apart", "i32", "ptr ctx, ptr blk, ptr warps, ptr kernel", "noinline")
    count = f.load("i32", "%ctx", layout.field("warps"))
    before = f.variable("i32")
    expired = f.variable("i32", 0)  # consecutive expiries of mbarrier waits
    with f.count_up("i32", count) as warp:  # in a diverged warp, lanes may not have reached the barrier yet
        whole = f.compare("ne", "i32", f.load("i32", f.element("%warps", "i32", warp)), layout.DIVERGED)
        with f.if_(whole):
            _join(f, warp)
    with f.loop():
        slow, either, both = f.variable("i1", "false"), f.variable("i32", 0), f.variable("i32", -1)
        before.set(f.load("i32", "%ctx", layout.field("progress")))
        f.store("i32", 0, "%ctx", layout.field("progress"))
        with f.count_up("i32", count) as warp:
            entry = f.element("%warps", "i32", warp)
            state = f.load("i32", entry)
            with f.if_(_runnable(f, state)):
                outcome = f.call(
                    "cl_run_warp", "i32", "ptr %ctx", "ptr %blk", f"i32 {warp}", f"i32 {state}", "ptr %kernel"
                )
                with f.if_(is_stop(f, outcome)):
                    f.ret(outcome)
                f.store("i32", outcome, entry)
                _join(f, warp)
            _note(f, f.load("i32", entry), slow, either, both)
        round_ = f.load("i32", "%ctx", layout.field("progress"))
        f.store("i32", f.op(f"or i32 {before.get()}, {round_}"), "%ctx", layout.field("progress"))
        polled = _has(f, round_, Progress.POLLED | Progress.INTERLEAVED)
        with f.if_(polled):
            slow.set("true")
        with f.if_(yields_first(f, "%blk", round_)):
            f.call("cl_spread_all", "void", "ptr %ctx", "ptr %warps")
            f.ret(layout.YIELDED)
        same = f.compare("eq", "i32", either.get(), both.get())
        with f.if_(f.op(f"and i1 {same}, {f.op(f'xor i1 {slow.get()}, true')}")):
            f.ret(either.get())
        with f.if_(f.op(f"and i1 {same}, {_is_point(f, either.get())}")):
            with f.if_(is_wait(f, kind_of(f, either.get()))), f.if_(_all_complete(f)):
                f.ret(either.get())
        with f.if_(f.op(f"xor i1 {slow.get()}, true")), f.count_up("i32", count) as warp:
            entry = f.element("%warps", "i32", warp)
            state = f.load("i32", entry)
            with f.if_(f.compare("ne", "i32", state, layout.EXITED)):
                f.store("i32", f.op(f"and i32 {state}, {~layout.HOLD}"), entry)
        with f.if_(slow.get()):
            released = f.call("cl_release", "i1", "ptr %ctx", "ptr %warps", "ptr %kernel")
            moved = f.op(f"and i1 {_has(f, round_, Progress.REAL)}, {_another_round(f)}")
            moved = f.op(f"or i1 {moved}, {_has(f, round_, Progress.INTERLEAVED)}")
            quiet = f.op(f"xor i1 {f.op(f'or i1 {released}, {moved}')}, true")
            gave_up = _give_up_waits(f, quiet, polled, expired)
            quiet = f.op(f"and i1 {quiet}, {_negated(f, gave_up)}")
            with f.if_(f.op(f"and i1 {polled}, {quiet}")):
                f.call("cl_spread_all", "void", "ptr %ctx", "ptr %warps")
                f.ret(layout.YIELDED)
            with f.if_(quiet):
                f.call("cl_deadlock", "void", "ptr %ctx", "ptr %blk", "ptr %kernel")
                f.ret(layout.FAULTED)
        with f.if_(stop_requested(f)):
            f.ret(layout.STOPPED)


def _join(f: Function, warp: str) -> None:
    """Count the arrival of a warp at a named barrier."""
    f.call("cl_join", "void", "ptr %ctx", "ptr %warps", f"i32 {warp}", "ptr %kernel")


def _give_up_waits(f: Function, quiet: str, polled: str, expired: Variable) -> str:
    """When nothing else can run, mbarrier waits expire: once before the block yields if threads poll memory, otherwise
    repeatedly. Returns whether there were any."""
    gave_up = f.variable("i1", "false")
    with f.if_else(quiet) as otherwise:
        most = f.op(f"select i1 {polled}, i32 1, i32 {MOST_EXPIRIES}")
        with f.if_(f.compare("ult", "i32", expired.get(), most)):
            times = f"i32 {expired.get()}"
            gave_up.set(f.call("cl_mbarrier_expire", "i1", "ptr %ctx", "ptr %warps", "ptr %kernel", times))
        expired.update("add", 1)
        otherwise()
        expired.set(0)
    return gave_up.get()


def _has(f: Function, progress: str, bit: Progress) -> str:
    return f.compare("ne", "i32", f.op(f"and i32 {progress}, {int(bit)}"), 0)


def _another_round(f: Function) -> str:
    """Decrement ``context.rounds``; returns whether any are left."""
    left = f.call("llvm.usub.sat.i32", "i32", f"i32 {f.load('i32', '%ctx', layout.field('rounds'))}", "i32 1")
    f.store("i32", left, "%ctx", layout.field("rounds"))
    return f.compare("ne", "i32", left, 0)


def _spread_all(library: Library) -> None:
    """Write the states of all threads to ``context.states``, where those of diverged warps are already."""
    f = library.function("cl_spread_all", "void", "ptr ctx, ptr warps", "noinline")
    with f.count_up("i32", f.load("i32", "%ctx", layout.field("warps"))) as warp:
        state = f.load("i32", f.element("%warps", "i32", warp))
        with f.if_(f.compare("ne", "i32", state, layout.DIVERGED)):
            gone = f.compare("eq", "i32", state, layout.EXITED)
            point = f.op(f"and i32 {state}, {~layout.HOLD}")
            own = f.op(f"select i1 {gone}, i32 {layout.EXITED}, i32 {point}")
            f.call("cl_spread", "void", "ptr %ctx", f"i32 {warp}", f"i32 {own}")
    f.ret()


def _runnable(f: Function, state: str) -> str:
    """Whether a warp is neither exited nor held."""
    gone = f.compare("eq", "i32", state, layout.EXITED)
    held = f.compare("ne", "i32", f.op(f"and i32 {state}, {layout.HOLD}"), 0)
    whole = f.compare("ne", "i32", state, layout.DIVERGED)
    held = f.op(f"and i1 {held}, {whole}")
    return f.op(f"xor i1 {f.op(f'or i1 {gone}, {held}')}, true")


def _note(f: Function, state: str, slow: Variable, either: Variable, both: Variable) -> None:
    """Accumulate a warp's state: at barrier 0 of the block, or exited."""
    gone = f.compare("eq", "i32", state, layout.EXITED)
    whole = f.op(f"or i1 {gone}, {f.compare('eq', 'i32', state, layout.DIVERGED)}")
    state = f.op(f"select i1 {whole}, i32 {state}, i32 {f.op(f'and i32 {state}, {~layout.HOLD}')}")
    either.update("or", state)
    both.update("and", state)
    with f.if_(f.op(f"xor i1 {gone}, true")):
        with f.if_else(_is_point(f, state)) as otherwise:
            with f.if_(f.compare("ne", "i32", kind_of(f, state), int(PointKind.BARRIER))):
                slow.set("true")
            otherwise()
            slow.set("true")


def _deadlock(library: Library) -> None:
    """Record a deadlock at the first waiting thread."""
    f = library.function("cl_deadlock", "void", "ptr ctx, ptr blk, ptr kernel", "cold noinline")
    states = f.load("ptr", "%ctx", layout.field("states"))
    found = f.variable("i32", 0)
    with f.count_up("i32", f.load("i32", "%ctx", layout.field("threads"))) as thread:
        found.set(thread)
        with f.if_(exists(f, f.load("i32", f.element(states, "i32", thread)))):
            f.break_()
    thread = found.get()
    state = f.load("i32", f.element(states, "i32", thread))
    first_site = f.op(f"trunc i64 {f.load('i64', '%kernel')} to i32")
    site = f.op(f"add i32 {first_site}, {f.op(f'sub i32 {state}, 1')}")
    kind = f"i32 {int(FaultKind.DEADLOCK)}"
    f.call("cl_fault", "void", "ptr %ctx", "ptr %blk", f"i32 {thread}", kind, f"i32 {site}", "i64 0", "i32 0")
    mixed = f.call("cl_mixed_barrier", "i32", "ptr %ctx")
    with f.if_(f.compare("sge", "i32", mixed, 0)):
        f.store("i32", int(FaultKind.BARRIER_MIXED), "%ctx", layout.field("fault.kind"))
        f.store("i64", f.wide(mixed), "%ctx", layout.field("fault.address"))
    f.store("i64", f.op(f"ptrtoint ptr {states} to i64"), "%ctx", layout.field("fault.detail"))
    f.ret()


def _tables(library: Library) -> None:
    """Fill the tables of x, y and z over the threads of a block."""
    f = library.function("cl_fill_tables", "void", "ptr ctx, ptr x, ptr y, ptr z")
    nx, ny = (f.load("i32", "%ctx", layout.field("block") + 4 * axis) for axis in (0, 1))
    x, y, z = (f.variable("i32", 0) for _ in range(3))
    with f.count_up("i32", f.load("i32", "%ctx", layout.field("threads"))) as thread:
        for table, value in (("%x", x), ("%y", y), ("%z", z)):
            f.store("i32", value.get(), f.element(table, "i32", thread))
        x.update("add", 1)
        with f.if_(f.compare("uge", "i32", x.get(), nx)):
            x.set(0)
            y.update("add", 1)
            with f.if_(f.compare("uge", "i32", y.get(), ny)):
                y.set(0)
                z.update("add", 1)
    f.ret()


def _run(library: Library) -> None:
    """``cl_run(ctx, first, end, kernel)``: blocks first … end − 1, in ``context.block_order`` if set."""
    f = library.function("cl_run", "i32", "ptr ctx, i64 first, i64 end, ptr kernel")
    block = f.array(layout.BLOCK_BYTES)
    tables = [f.array(4 * _MOST_THREADS) for _ in range(3)]
    f.call("cl_fill_tables", "void", "ptr %ctx", *[f"ptr {table}" for table in tables])
    for offset, table in zip((layout.TID_X, layout.TID_Y, layout.TID_Z), tables, strict=True):
        f.store("ptr", table, block, offset)
    f.store("i64", f.load("i64", "%kernel", _PARAMETER_BYTES), block, layout.PARAMETER_BYTES)
    _thread_order(f, block)
    warps = f.array(4 * _MOST_WARPS)
    sequence = f.load("ptr", "%ctx", layout.field("block_order"))
    grid = [f.op(f"zext i32 {f.load('i32', '%ctx', layout.field('grid') + 4 * axis)} to i64") for axis in (0, 1)]
    with f.count_up("i64", "%end", "%first") as index:
        with f.if_(stop_requested(f)):
            f.ret(int(Status.STOPPED))
        linear = f.variable("i64", index)
        with f.if_(f.compare("ne", "ptr", sequence, "null")):
            linear.set(f.load("i64", f.element(sequence, "i64", index, "i64")))
        number = linear.get()
        f.store("i64", number, block, layout.LINEAR)
        above = f.op(f"udiv i64 {number}, {grid[0]}")
        x, y = f.op(f"urem i64 {number}, {grid[0]}"), f.op(f"urem i64 {above}, {grid[1]}")
        for axis, value in enumerate((x, y, f.op(f"udiv i64 {above}, {grid[1]}"))):
            f.store("i32", f.op(f"trunc i64 {value} to i32"), block, layout.CTAID + 4 * axis)
        with f.if_(f.compare("eq", "i32", f.load("i32", "%ctx", layout.field("resume")), 0)):
            f.call("cl_reset_barriers", "void", "ptr %ctx")
            f.call("cl_cluster_begin", "void", "ptr %ctx", f"ptr {block}")
            _clear_reserved(f)
            make_stale(f)
        may_yield(f, block)
        _one_block(f, block, warps)
        done = f.load("i64", "%ctx", layout.field("blocks_done"))
        f.store("i64", f.op(f"add i64 {done}, 1"), "%ctx", layout.field("blocks_done"))
    f.ret(int(Status.DONE))


def _clear_reserved(f: Function) -> None:
    """Clear the part of the reserved shared memory that cooperative groups use."""
    shared = f.load("ptr", "%ctx", layout.field("shared"))
    start = f.at(shared, -abi.RESERVED_SHARED_BYTES)
    f.call("llvm.memset.p0.i64", "void", f"ptr {start}", "i8 0", f"i64 {_RESERVED_IN_USE}", "i1 false")


def _one_block(f: Function, block: str, warps: str) -> None:
    """Run a block to completion; returns from the function if it faults or is stopped."""
    state = f.variable("i32", 0)
    resumed = f.variable("i1", f.compare("ne", "i32", f.load("i32", "%ctx", layout.field("resume")), 0))
    f.store("i32", 0, "%ctx", layout.field("resume"))
    before = f.variable("i32")
    with f.loop():
        before.set(f.load("i32", "%ctx", layout.field("progress")))
        f.store("i32", 0, "%ctx", layout.field("progress"))
        with f.if_else(resumed.get()) as otherwise:
            state.set(layout.DIVERGED)  # resume from the states
            resumed.set("false")
            otherwise()
            state.set(f.call("cl_run_together", "i32", "ptr %ctx", f"ptr {block}", f"i32 {state.get()}", "ptr %kernel"))
        outcome = state.get()
        # a named barrier, whose operands may differ between threads; or all threads poll
        interleaved = yields_first(f, block, f.load("i32", "%ctx", layout.field("progress")))
        with f.if_(interleaved):
            with f.if_(_is_point(f, outcome)), f.count_up("i32", f.load("i32", "%ctx", layout.field("warps"))) as warp:
                f.call("cl_spread", "void", "ptr %ctx", f"i32 {warp}", f"i32 {outcome}")
            with f.if_(f.op(f"xor i1 {is_stop(f, outcome)}, true")):
                f.ret(int(Status.YIELDED))
        with f.if_(_is_point(f, outcome)):
            _yield_if_quiet(f, outcome, before)
            hold = f.op(f"select i1 {is_poll(f, outcome)}, i32 0, i32 {layout.HOLD}")
            with f.count_up("i32", f.load("i32", "%ctx", layout.field("warps"))) as warp:
                f.store("i32", f.op(f"or i32 {outcome}, {hold}"), f.element(warps, "i32", warp))
        with f.if_(f.compare("eq", "i32", outcome, layout.DIVERGED)):
            f.call("cl_split", "void", "ptr %ctx", f"ptr {warps}")
            _resolve_split(f, warps)
        apart = f.op(f"or i1 {_is_point(f, outcome)}, {f.compare('eq', 'i32', outcome, layout.DIVERGED)}")
        with f.if_(apart):
            state.set(f.call("cl_run_apart", "i32", "ptr %ctx", f"ptr {block}", f"ptr {warps}", "ptr %kernel"))
        outcome = state.get()
        with f.if_(f.compare("eq", "i32", outcome, layout.FAULTED)):
            f.ret(int(Status.FAULT))
        with f.if_(f.compare("eq", "i32", outcome, layout.STOPPED)):
            f.ret(int(Status.STOPPED))
        with f.if_(f.compare("eq", "i32", outcome, layout.YIELDED)):
            f.ret(int(Status.YIELDED))
        with f.if_(f.compare("eq", "i32", outcome, layout.EXITED)):
            f.break_()
        _yield_if_quiet(f, outcome, before)
        f.store(
            "i32",
            f.op(f"or i32 {before.get()}, {f.load('i32', '%ctx', layout.field('progress'))}"),
            "%ctx",
            layout.field("progress"),
        )


def _yield_if_quiet(f: Function, state: str, before: Variable) -> None:
    """Yield if the last round made no visible progress. All threads are at one point, as once per iteration of a
    polling loop that contains a barrier."""
    round_ = f.load("i32", "%ctx", layout.field("progress"))
    with f.if_(_has(f, round_, Progress.POLLED)):
        with f.if_(stop_requested(f)):
            f.ret(int(Status.STOPPED))
        moved = f.op(f"and i1 {_has(f, round_, Progress.REAL)}, {_another_round(f)}")
        with f.if_(f.op(f"xor i1 {moved}, true")):
            f.store("i32", f.op(f"or i32 {before.get()}, {round_}"), "%ctx", layout.field("progress"))
            with f.count_up("i32", f.load("i32", "%ctx", layout.field("warps"))) as warp:
                f.call("cl_spread", "void", "ptr %ctx", f"i32 {warp}", f"i32 {state}")
            f.ret(int(Status.YIELDED))


def _resolve_split(f: Function, warps: str) -> None:
    """Resolve warps that wait at a warp operation; those at a barrier must not pass it before the others arrive."""
    with f.count_up("i32", f.load("i32", "%ctx", layout.field("warps"))) as warp:
        entry = f.element(warps, "i32", warp)
        state = f.load("i32", entry)
        with f.if_(_is_point(f, state)):
            kind = kind_of(f, state)
            with f.if_else(f.compare("ult", "i32", kind, int(PointKind.SYNC))) as otherwise:
                f.store("i32", f.op(f"or i32 {state}, {layout.HOLD}"), entry)
                otherwise()
                with f.if_else(is_wait(f, kind)) as resolve:
                    f.store("i32", f.op(f"or i32 {state}, {layout.HOLD}"), entry)
                    resolve()
                    with f.if_(f.compare("ne", "i32", kind, int(PointKind.POLL))):
                        _resolve_warp(f, warp, state, kind, lanes_of(f, warp))


def _thread_order(f: Function, block: str) -> None:
    """Fill the thread order table, for traced code. It keeps warps together, because a warp may run by itself: warps
    ascend, the lanes of each follow ``context.thread_order``."""
    shuffled = f.load("ptr", "%ctx", layout.field("thread_order"))
    order, filled = f.array(4 * _MOST_THREADS), f.array(4 * _MOST_WARPS)
    f.store("ptr", "null", block, layout.ORDER)
    with f.if_(f.compare("ne", "ptr", shuffled, "null")):
        f.call("llvm.memset.p0.i64", "void", f"ptr {filled}", "i8 0", f"i64 {4 * _MOST_WARPS}", "i1 false")
        with f.count_up("i32", f.load("i32", "%ctx", layout.field("threads"))) as position:
            thread = f.load("i32", f.element(shuffled, "i32", position))
            warp = f.op(f"lshr i32 {thread}, 5")
            counter = f.element(filled, "i32", warp)
            rank = f.load("i32", counter)
            f.store("i32", f.op(f"add i32 {rank}, 1"), counter)
            f.store("i32", thread, f.element(order, "i32", f.op(f"add i32 {f.op(f'shl i32 {warp}, 5')}, {rank}")))
        f.store("ptr", order, block, layout.ORDER)
