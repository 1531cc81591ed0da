"""Barriers of a block whose threads do not all wait at the same place.

A barrier is complete when as many threads have arrived as it asks for: a number given with it, or all threads of the
block that have not left the kernel, whichever ``bar.sync`` they stand at. That is what hardware does.
"""

from __future__ import annotations

from cudalab.sim.compiler.passes.suspension import PointKind
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library
from cudalab.sim.compiler.runtime.states import exists, is_poll, is_ready, kind_of, lanes_of, literals_of

_BARRIERS = 16


def write(library: Library) -> None:
    """Add the functions of this module."""
    _spread(library)
    _release(library)


def _spread(library: Library) -> None:
    """Give every lane of a warp the state ``state``."""
    f = library.function("cl_spread", "void", "ptr ctx, i32 warp, i32 state")
    base = f.load("ptr", "%ctx", layout.field("states"))
    states = f.at(base, f.op(f"shl i64 {f.wide('%warp')}, 7"))
    with f.bits(lanes_of(f, "%warp")) as lane:
        f.store("i32", "%state", f.element(states, "i32", lane))
    f.ret()


def _release(library: Library) -> None:
    """Release every barrier that is complete. Returns whether there was one.

    ``warps`` holds each warp's state; those of diverged warps are in ``context.states``.
    """
    f = library.function("cl_release", "i1", "ptr ctx, ptr warps, ptr kernel", "noinline")
    counters = f.array(12 * _BARRIERS)  # arrived, threads asked for, sum of predicates
    f.call("llvm.memset.p0.i64", "void", f"ptr {counters}", "i8 0", f"i64 {12 * _BARRIERS}", "i1 false")
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
    total = f.variable("i32", 0)
    with f.count_up("i32", threads) as thread:
        state = f.load("i32", f.element(states, "i32", thread))
        with f.if_(exists(f, state)):
            total.update("add", 1)
            with f.if_(_at_barrier(f, state)):
                number, asked, vote = _operands(f, thread, state)
                slot = f.element(counters, "[3 x i32]", number)
                f.store("i32", f.op(f"add i32 {f.load('i32', slot)}, 1"), slot)
                with f.if_(f.compare("ne", "i32", asked, 0)):
                    f.store("i32", asked, slot, 4)
                f.store("i32", f.op(f"add i32 {f.load('i32', slot, 8)}, {vote}"), slot, 8)
    released = f.variable("i1", "false")
    with f.count_up("i32", threads) as thread:
        place = f.element(states, "i32", thread)
        state = f.load("i32", place)
        with f.if_(exists(f, state)), f.if_(_at_barrier(f, state)):
            number, _, _ = _operands(f, thread, state)
            slot = f.element(counters, "[3 x i32]", number)
            arrived, asked = f.load("i32", slot), f.load("i32", slot, 4)
            whole = f.compare("eq", "i32", asked, 0)
            needed = f.op(f"select i1 {whole}, i32 {total.get()}, i32 {asked}")
            with f.if_(f.compare("uge", "i32", arrived, needed)):
                released.set("true")
                f.store("i32", f.op(f"or i32 {state}, {layout.READY}"), place)
                f.store("i32", f.load("i32", slot, 8), _scratch(f, thread, layout.RESULT))
                f.store("i32", arrived, _scratch(f, thread, layout.PREDICATE))
    with f.count_up("i32", count) as warp:
        _after_release(f, states, warp)
    f.ret(released.get())


def _at_barrier(f: Function, state: str) -> str:
    kind = kind_of(f, state)
    plain = f.compare("eq", "i32", kind, int(PointKind.BARRIER))
    return f.op(f"or i1 {plain}, {f.compare('eq', 'i32', kind, int(PointKind.NAMED_BARRIER))}")


def _scratch(f: Function, thread: str, row: int) -> str:
    """A thread's word in a row of the scratch memory."""
    base = f.load("ptr", "%ctx", layout.field("scratch"))
    warps = f.wide(f.load("i32", "%ctx", layout.field("warps")))
    return f.element(f.at(base, f.op(f"mul i64 {warps}, {row}")), "i32", thread)


def _operands(f: Function, thread: str, state: str) -> tuple[str, str, str]:
    """Number, threads asked for (0: all) and predicate of the barrier where a thread waits."""
    number, asked, vote = (f.variable("i32", 0) for _ in range(3))
    with f.if_(f.compare("eq", "i32", kind_of(f, state), int(PointKind.NAMED_BARRIER))):
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
        number.update("and", _BARRIERS - 1)
        vote.set(f.load("i32", _scratch(f, thread, layout.A)))
    return number.get(), asked.get(), vote.get()


def _after_release(f: Function, states: str, warp: str) -> None:
    """A warp whose lanes were all released, or none, stays whole; the second kind is held back."""
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
