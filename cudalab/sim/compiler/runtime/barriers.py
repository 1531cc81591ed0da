"""Block barriers, for threads that wait at different instructions.

A block has 16 barriers. Hardware counts *warps*: an arriving warp counts as 32 threads, whether one lane arrives or
all, and exited lanes are not waited for. A barrier completes when the thread count of the instruction is reached, or,
without a count, when every warp that has not exited has arrived, at whichever ``bar.sync``. ``bar.arrive`` counts
without waiting. (PTX ISA, ``bar``, ``barrier``; the behaviour of an H200 for single lanes, counts, and numbers above
15, which wrap, is in docs/dev/machine.md.)

Arrivals are counted when they happen, in a table after the thread states (``layout``), because a warp that arrives
without waiting may reach the same barrier again before another has resumed. Incompatible uses of one barrier
(``bar.red`` and ``bar.sync``, different counts) leave it incomplete forever, which is reported as a deadlock; an H200
hangs or reports an illegal instruction.
"""

from __future__ import annotations

from cudalab.sim import abi
from cudalab.sim.compiler.passes.suspension import PointKind
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library
from cudalab.sim.compiler.runtime.states import exists, is_poll, is_ready, kind_of, lanes_of, lanes_where, literals_of


def write(library: Library) -> None:
    """Add the functions of this module."""
    _spread(library)
    _reset(library)
    _complete(library)
    _arrive(library)
    _join(library)
    _release(library)
    _mixed(library)


def _spread(library: Library) -> None:
    """Set the state of every lane of a warp to ``state``."""
    f = library.function("cl_spread", "void", "ptr ctx, i32 warp, i32 state")
    base = f.load("ptr", "%ctx", layout.field("states"))
    states = f.at(base, f.op(f"shl i64 {f.wide('%warp')}, 7"))
    with f.bits(lanes_of(f, "%warp")) as lane:
        f.store("i32", "%state", f.element(states, "i32", lane))
    f.ret()


# -- the table ---------------------------------------------------------------------------------------------------------


def _table(f: Function) -> str:
    states = f.load("ptr", "%ctx", layout.field("states"))
    return f.at(states, f.op(f"shl i64 {f.wide(f.load('i32', '%ctx', layout.field('warps')))}, 7"))


def _barrier(f: Function, number: str) -> str:
    return f.at(_table(f), f.op(f"mul i64 {f.wide(number)}, {layout.BARRIER_BYTES}"))


def _waiting(f: Function, warp: str) -> str:
    return f.at(_table(f), f.op(f"add i64 {f.op(f'mul i64 {f.wide(warp)}, {layout.WAITING_BYTES}')}, {layout.WAITS}"))


def _reset(library: Library) -> None:
    """Clear the table when a block begins."""
    f = library.function("cl_reset_barriers", "void", "ptr ctx")
    size = f"i64 {layout.BARRIER_TABLE_BYTES}"
    f.call("llvm.memset.p0.i64", "void", f"ptr {_table(f)}", "i8 0", size, "i1 false")
    f.ret()


def _complete(library: Library) -> None:
    """Complete the barrier ``number``: release its warps and reset it."""
    f = library.function("cl_complete", "void", "ptr ctx, i32 number", "noinline")
    barrier = _barrier(f, "%number")
    tag = f.op("add i32 %number, 1")
    with f.count_up("i32", f.load("i32", "%ctx", layout.field("warps"))) as warp:
        waiting = _waiting(f, warp)
        with f.if_(f.compare("eq", "i32", f.load("i32", waiting), tag)):
            f.store("i32", f.op(f"or i32 {tag}, {layout.PASSED}"), waiting)
            f.store("i32", f.load("i32", barrier, layout.BARRIER_SUM), waiting, layout.WAITING_SUM)
            f.store("i32", f.load("i32", barrier, layout.BARRIER_VOTES), waiting, layout.WAITING_VOTES)
    f.call("llvm.memset.p0.i64", "void", f"ptr {barrier}", "i8 0", f"i64 {layout.BARRIER_BYTES}", "i1 false")
    f.ret()


def _arrive(library: Library) -> None:
    """Arrival of a warp; ``expected`` may be EVERYBODY. Completes the barrier when an explicit count is reached."""
    f = library.function(
        "cl_arrive", "void", "ptr ctx, i32 number, i32 expected, i32 reduces, i32 sum, i32 votes", "noinline"
    )
    barrier = _barrier(f, "%number")
    before = f.load("i32", barrier, layout.BARRIER_ARRIVED)
    with f.if_else(f.compare("eq", "i32", before, 0)) as otherwise:
        f.store("i32", "%expected", barrier, layout.BARRIER_EXPECTED)
        f.store("i32", "%reduces", barrier, layout.BARRIER_REDUCES)
        otherwise()
        count = f.compare("ne", "i32", f.load("i32", barrier, layout.BARRIER_EXPECTED), "%expected")
        kind = f.compare("ne", "i32", f.load("i32", barrier, layout.BARRIER_REDUCES), "%reduces")
        with f.if_(f.op(f"or i1 {count}, {kind}")):
            f.store("i32", 1, barrier, layout.BARRIER_MIXED)
    arrived = f.op(f"add i32 {before}, {abi.WARP}")
    f.store("i32", arrived, barrier, layout.BARRIER_ARRIVED)
    for offset, value in ((layout.BARRIER_SUM, "%sum"), (layout.BARRIER_VOTES, "%votes")):
        f.store("i32", f.op(f"add i32 {f.load('i32', barrier, offset)}, {value}"), barrier, offset)
    given = f.compare("ne", "i32", "%expected", layout.EVERYBODY)
    enough = f.op(f"and i1 {given}, {f.compare('uge', 'i32', arrived, '%expected')}")
    fair = f.compare("eq", "i32", f.load("i32", barrier, layout.BARRIER_MIXED), 0)
    with f.if_(f.op(f"and i1 {enough}, {fair}")):
        f.call("cl_complete", "void", "ptr %ctx", "i32 %number")
    f.ret()


def _mixed(library: Library) -> None:
    """The number of a barrier with incompatible uses, or -1."""
    f = library.function("cl_mixed_barrier", "i32", "ptr ctx", "cold noinline")
    with f.count_up("i32", layout.BARRIERS) as number:
        with f.if_(f.compare("ne", "i32", f.load("i32", _barrier(f, number), layout.BARRIER_MIXED), 0)):
            f.ret(number)
    f.ret(-1)


# -- waiting warps ---------------------------------------------------------------------------------------------------


def _scratch(f: Function, thread: str, row: int) -> str:
    """A thread's word in a row of the scratch memory."""
    base = f.load("ptr", "%ctx", layout.field("scratch"))
    warps = f.wide(f.load("i32", "%ctx", layout.field("warps")))
    return f.element(f.at(base, f.op(f"mul i64 {warps}, {row}")), "i32", thread)


def _operands(f: Function, thread: str, state: str) -> tuple[str, str]:
    """Number and thread count (0: everybody) of the named barrier at which a thread waits."""
    number, asked = f.variable("i32", 0), f.variable("i32", 0)
    literals = literals_of(f, state)
    flags = f.load("i32", literals)
    for variable, row, bit, offset in (
        (number, layout.B, layout.LITERAL_B, 8),
        (asked, layout.C, layout.LITERAL_C, 12),
    ):
        with f.if_else(f.compare("ne", "i32", f.op(f"and i32 {flags}, {bit}"), 0)) as otherwise:
            variable.set(f.load("i32", literals, offset))
            otherwise()
            variable.set(f.load("i32", _scratch(f, thread, row)))
    number.update("and", layout.BARRIERS - 1)
    return number.get(), asked.get()


def _is_named(f: Function, state: str) -> str:
    """Whether a thread with this state waits at a named barrier. A state with READY set has no kind."""
    ready = is_ready(f, state)
    point = f.op(f"select i1 {ready}, i32 0, i32 {state}")
    return f.compare("eq", "i32", kind_of(f, point), int(PointKind.NAMED_BARRIER))


def _join(library: Library) -> None:
    """Count the arrival of a warp at a named barrier, once; a converged warp is then held."""
    f = library.function("cl_join", "void", "ptr ctx, ptr warps, i32 warp, ptr kernel", "noinline")
    waiting = _waiting(f, "%warp")
    with f.if_(f.compare("ne", "i32", f.load("i32", waiting), 0)):
        f.ret()
    entry = f.element("%warps", "i32", "%warp")
    common = f.load("i32", entry)
    with f.if_(f.compare("eq", "i32", common, layout.EXITED)):
        f.ret()
    first = f.op("shl i32 %warp, 5")
    base = f.load("ptr", "%ctx", layout.field("states"))
    states = f.at(base, f.op(f"shl i64 {f.wide('%warp')}, 7"))
    lanes = lanes_of(f, "%warp")
    leader, members, state = f.variable("i32", 0), f.variable("i32", lanes), f.variable("i32", 0)
    with f.if_else(f.compare("eq", "i32", common, layout.DIVERGED)) as otherwise:
        named = lanes_where(f, states, lanes, lambda other: _is_named(f, other))
        with f.if_(f.compare("eq", "i32", named, 0)):
            f.ret()
        lane = f.call("llvm.cttz.i32", "i32", f"i32 {named}", "i1 true")
        leader.set(lane)
        state.set(f.load("i32", f.element(states, "i32", lane)))
        number, _ = _operands(f, f.op(f"add i32 {first}, {lane}"), state.get())
        members.set(0)
        with f.bits(named) as other:
            theirs, _ = _operands(f, f.op(f"add i32 {first}, {other}"), f.load("i32", f.element(states, "i32", other)))
            same = f.op(f"zext i1 {f.compare('eq', 'i32', theirs, number)} to i32")
            members.update("or", f.op(f"shl i32 {same}, {other}"))
        otherwise()
        point = f.op(f"and i32 {common}, {~layout.HOLD}")
        with f.if_(f.compare("ne", "i32", kind_of(f, point), int(PointKind.NAMED_BARRIER))):
            f.ret()
        state.set(point)
        f.store("i32", f.op(f"or i32 {point}, {layout.HOLD}"), entry)
    number, asked = _operands(f, f.op(f"add i32 {first}, {leader.get()}"), state.get())
    flags = f.load("i32", literals_of(f, state.get()))
    reduces = f.op(f"lshr i32 {f.op(f'and i32 {flags}, {layout.REDUCING}')}, {layout.REDUCING.bit_length() - 1}")
    total = f.variable("i32", 0)
    with f.if_(f.compare("ne", "i32", reduces, 0)), f.bits(members.get()) as lane:
        total.update("add", f.load("i32", _scratch(f, f.op(f"add i32 {first}, {lane}"), layout.A)))
    f.store("i32", f.op(f"add i32 {number}, 1"), waiting)
    everybody = f.compare("eq", "i32", asked, 0)
    f.call(
        "cl_arrive",
        "void",
        "ptr %ctx",
        f"i32 {number}",
        f"i32 {f.op(f'select i1 {everybody}, i32 {layout.EVERYBODY}, i32 {asked}')}",
        f"i32 {reduces}",
        f"i32 {total.get()}",
        f"i32 {f.call('llvm.ctpop.i32', 'i32', f'i32 {members.get()}')}",
    )
    f.ret()


def _release(library: Library) -> None:
    """Release the warps whose barrier is complete. Returns whether there were any.

    ``warps`` holds each warp's state; the lane states of diverged warps are in ``context.states``.
    """
    f = library.function("cl_release", "i1", "ptr ctx, ptr warps, ptr kernel", "noinline")
    threads = f.load("i32", "%ctx", layout.field("threads"))
    states = f.load("ptr", "%ctx", layout.field("states"))
    count = f.load("i32", "%ctx", layout.field("warps"))
    with f.count_up("i32", count) as warp:
        state = f.load("i32", f.element("%warps", "i32", warp))
        with f.if_(f.compare("ne", "i32", state, layout.DIVERGED)):
            gone = f.compare("eq", "i32", state, layout.EXITED)
            point = f.op(f"and i32 {state}, {~layout.HOLD}")
            own = f.op(f"select i1 {gone}, i32 {layout.EXITED}, i32 {point}")
            f.call("cl_spread", "void", "ptr %ctx", f"i32 {warp}", f"i32 {own}")
    released = f.variable("i1", "false")
    _release_plain(f, states, threads, released)
    _complete_without_number(f, states, count)
    with f.count_up("i32", count) as warp:
        _let_pass(f, states, warp, released)
    with f.if_(f.call("cl_mbarrier_release", "i1", "ptr %ctx", "ptr %kernel")):
        released.set("true")
    with f.count_up("i32", count) as warp:
        after_release(f, states, warp)
    f.ret(released.get())


def _release_plain(f: Function, states: str, threads: str, released: object) -> None:
    """Barrier 0 of the whole block: ``bar.sync 0``, and named barriers with number 0 and all threads. They are released
    when all threads of the block are at either."""
    total, plain = f.variable("i32", 0), f.variable("i32", 0)
    with f.count_up("i32", threads) as thread:
        state = f.load("i32", f.element(states, "i32", thread))
        with f.if_(exists(f, state)):
            total.update("add", 1)
            with f.if_(_at_plain(f, state)):
                plain.update("add", 1)
    with f.if_(f.compare("ne", "i32", plain.get(), 0)):
        zero = f.load("i32", _barrier(f, "0"), layout.BARRIER_ARRIVED)
        everybody = f.compare("eq", "i32", f.load("i32", _barrier(f, "0"), layout.BARRIER_EXPECTED), layout.EVERYBODY)
        named = f.variable("i32", 0)
        with f.if_(f.op(f"and i1 {everybody}, {f.compare('ne', 'i32', zero, 0)}")):
            with f.count_up("i32", threads) as thread:
                state = f.load("i32", f.element(states, "i32", thread))
                with f.if_(exists(f, state)), f.if_(_is_named(f, state)):
                    number, _ = _operands(f, thread, state)
                    named.update("add", f.op(f"zext i1 {f.compare('eq', 'i32', number, 0)} to i32"))
        with f.if_(f.compare("eq", "i32", f.op(f"add i32 {plain.get()}, {named.get()}"), total.get())):
            with f.if_(f.compare("ne", "i32", named.get(), 0)):
                f.call("cl_complete", "void", "ptr %ctx", "i32 0")
            released.set("true")  # type: ignore[attr-defined]
            with f.count_up("i32", threads) as thread:
                place = f.element(states, "i32", thread)
                state = f.load("i32", place)
                with f.if_(exists(f, state)), f.if_(_at_plain(f, state)):
                    f.store("i32", f.op(f"or i32 {state}, {layout.READY}"), place)


def _at_plain(f: Function, state: str) -> str:
    ready = is_ready(f, state)
    point = f.op(f"select i1 {ready}, i32 0, i32 {state}")
    return f.compare("eq", "i32", kind_of(f, point), int(PointKind.BARRIER))


def _complete_without_number(f: Function, states: str, count: str) -> None:
    """Complete the barriers without a count at which all warps that have not exited have arrived."""
    live = f.variable("i32", 0)
    with f.count_up("i32", count) as warp:
        own = f.at(states, f.op(f"shl i64 {f.wide(warp)}, 7"))
        alive = lanes_where(f, own, lanes_of(f, warp), lambda state: exists(f, state))
        live.update("add", f.op(f"select i1 {f.compare('ne', 'i32', alive, 0)}, i32 {abi.WARP}, i32 0"))
    with f.count_up("i32", layout.BARRIERS) as number:
        barrier = _barrier(f, number)
        arrived = f.load("i32", barrier, layout.BARRIER_ARRIVED)
        everybody = f.compare("eq", "i32", f.load("i32", barrier, layout.BARRIER_EXPECTED), layout.EVERYBODY)
        fair = f.compare("eq", "i32", f.load("i32", barrier, layout.BARRIER_MIXED), 0)
        enough = f.op(f"and i1 {f.compare('ne', 'i32', arrived, 0)}, {f.compare('uge', 'i32', arrived, live.get())}")
        with f.if_(f.op(f"and i1 {enough}, {f.op(f'and i1 {everybody}, {fair}')}")):
            f.call("cl_complete", "void", "ptr %ctx", f"i32 {number}")


def _let_pass(f: Function, states: str, warp: str, released: object) -> None:
    """Release lanes whose barrier is complete, with the sum and the number of the predicates."""
    waiting = _waiting(f, warp)
    tag = f.load("i32", waiting)
    with f.if_(f.compare("ne", "i32", f.op(f"and i32 {tag}, {layout.PASSED}"), 0)):
        f.store("i32", 0, waiting)
        released.set("true")  # type: ignore[attr-defined]
        wanted = f.op(f"sub i32 {f.op(f'and i32 {tag}, {layout.PASSED - 1}')}, 1")
        with f.bits(lanes_of(f, warp)) as lane:
            thread = f.op(f"add i32 {f.op(f'shl i32 {warp}, 5')}, {lane}")
            place = f.element(states, "i32", thread)
            state = f.load("i32", place)
            with f.if_(exists(f, state)), f.if_(_is_named(f, state)):
                number, _ = _operands(f, thread, state)
                with f.if_(f.compare("eq", "i32", number, wanted)):
                    f.store("i32", f.op(f"or i32 {state}, {layout.READY}"), place)
                    f.store("i32", f.load("i32", waiting, layout.WAITING_SUM), _scratch(f, thread, layout.RESULT))
                    f.store("i32", f.load("i32", waiting, layout.WAITING_VOTES), _scratch(f, thread, layout.PREDICATE))


def after_release(f: Function, states: str, warp: str) -> None:
    """A warp stays converged if all or none of its lanes were released; in the latter case it is held."""
    own = f.at(states, f.op(f"shl i64 {f.wide(warp)}, 7"))
    either, both = f.variable("i32", 0), f.variable("i32", -1)
    with f.bits(lanes_of(f, warp)) as lane:
        state = f.load("i32", f.element(own, "i32", lane))
        either.update("or", state)
        both.update("and", state)
    common = both.get()
    point = f.op(f"and i32 {common}, {~layout.READY}")
    gone = f.compare("eq", "i32", common, layout.EXITED)
    free = f.op(f"or i1 {is_ready(f, common)}, {is_poll(f, f.op(f'select i1 {gone}, i32 0, i32 {point}'))}")
    whole = f.op(f"select i1 {free}, i32 {point}, i32 {f.op(f'or i32 {point}, {layout.HOLD}')}")
    whole = f.op(f"select i1 {gone}, i32 {layout.EXITED}, i32 {whole}")
    same = f.compare("eq", "i32", either.get(), common)
    value = f.op(f"select i1 {same}, i32 {whole}, i32 {layout.DIVERGED}")
    f.store("i32", value, f.element("%warps", "i32", warp))
