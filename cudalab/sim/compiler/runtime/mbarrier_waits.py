"""Waits for a phase of an mbarrier in the block driver.

``try_wait`` and ``test_wait`` are suspension points: the block driver resumes a waiting thread with *true* when the
phase is complete, or with *false* when no thread of the block can run otherwise. On hardware ``try_wait`` returns after
a system-dependent time limit and ``test_wait`` at once, so a kernel must be correct with either result. A learner would
notice that polls that fail on a GPU seldom fail here.

If waits expire repeatedly without any other progress, the clock advances exponentially, so that a wait with a time
limit expires; after ``MOST_EXPIRIES`` in a row the block is deadlocked.

In a cluster another block may arrive at the object. There a loop of such waits is also a poll loop
(``passes/polling.py``), and the block yields.
"""

from __future__ import annotations

from cudalab.sim.compiler.passes.suspension import PointKind
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library, Variable
from cudalab.sim.compiler.runtime.barriers import after_release
from cudalab.sim.compiler.runtime.mbarrier import parity_of
from cudalab.sim.compiler.runtime.states import is_ready, kind_of

MOST_EXPIRIES = 1 << 12
_FASTEST = 20  # the clock advances by at most 2 ** 20 microseconds per expiry
_SETTLE = 40  # offset in layout.DESCRIPTOR


def write(library: Library) -> None:
    """Add the functions of this module."""
    _release(library)
    _look_together(library)
    _expire(library)


def is_wait(f: Function, kind: str) -> str:
    """Whether a point is a wait for a phase of an mbarrier."""
    return f.compare("eq", "i32", kind, int(PointKind.MBARRIER))


def scratch(f: Function, thread: str, row: int) -> str:
    """A thread's word in a row of the scratch memory."""
    base = f.load("ptr", "%ctx", layout.field("scratch"))
    warps = f.wide(f.load("i32", "%ctx", layout.field("warps")))
    return f.element(f.at(base, f.op(f"mul i64 {warps}, {row}")), "i32", thread)


def _object(f: Function, offset: str) -> str:
    return f.at(f.load("ptr", "%ctx", layout.field("shared")), f.wide(offset))


def _settle(f: Function, bar: str) -> None:
    """Complete the asynchronous copies that this object tracks, before a test."""
    settle = f.load("ptr", "%kernel", _SETTLE)
    with f.if_(f.compare("ne", "ptr", settle, "null")):
        f.line(f"call void {settle}(ptr %ctx, ptr {bar})")


def _is_complete(f: Function, bar: str, thread: str) -> str:
    parity = f.op(f"trunc i64 {parity_of(f, f.load('i64', bar))} to i32")
    return f.compare("ne", "i32", parity, f.load("i32", scratch(f, thread, layout.A_HIGH)))


def _waits(f: Function, state: str) -> str:
    """Whether a thread with this state waits for a phase. A state with READY set has no kind."""
    ready = is_ready(f, state)
    point = f.op(f"select i1 {ready}, i32 0, i32 {state}")
    return is_wait(f, kind_of(f, point))


def _release(library: Library) -> None:
    """``cl_mbarrier_release(ctx, kernel)``: release threads whose phase is complete. Returns whether there are any.
    States are in ``context.states``."""
    f = library.function("cl_mbarrier_release", "i1", "ptr ctx, ptr kernel", "noinline")
    found = f.variable("i1", "false")
    last = f.variable("i32", -1)
    states = f.load("ptr", "%ctx", layout.field("states"))
    with f.count_up("i32", f.load("i32", "%ctx", layout.field("threads"))) as thread:
        place = f.element(states, "i32", thread)
        state = f.load("i32", place)
        with f.if_(_waits(f, state)):
            bar = _look(f, thread, last)
            with f.if_(_is_complete(f, bar, thread)):
                found.set("true")
                f.store("i32", 1, scratch(f, thread, layout.PREDICATE))
                f.store("i32", f.op(f"or i32 {state}, {layout.READY}"), place)
    f.ret(found.get())


def _look(f: Function, thread: str, last: Variable) -> str:
    """The object that a thread waits for. Copies that it tracks complete, once if many threads wait for it."""
    offset = f.load("i32", scratch(f, thread, layout.A))
    bar = _object(f, offset)
    with f.if_(f.compare("ne", "i32", offset, last.get())):
        last.set(offset)
        _settle(f, bar)
    return bar


def _look_together(library: Library) -> None:
    """``cl_mbarrier_together(ctx, kernel)``: whether all threads of the block, which wait at one point, may resume."""
    f = library.function("cl_mbarrier_together", "i1", "ptr ctx, ptr kernel", "noinline")
    last = f.variable("i32", -1)
    threads = f.load("i32", "%ctx", layout.field("threads"))
    with f.count_up("i32", threads) as thread:
        bar = _look(f, thread, last)
        with f.if_(f.op(f"xor i1 {_is_complete(f, bar, thread)}, true")):
            f.ret("false")
        f.store("i32", 1, scratch(f, thread, layout.PREDICATE))
    f.ret("true")


def _expire(library: Library) -> None:
    """``cl_mbarrier_expire(ctx, warps, kernel, count)``: expire waits because nothing else can run, for the
    ``count``-th time in a row. Returns whether there were any. The states of all threads are in ``context.states``."""
    f = library.function("cl_mbarrier_expire", "i1", "ptr ctx, ptr warps, ptr kernel, i32 count", "noinline")
    states = f.load("ptr", "%ctx", layout.field("states"))
    found = f.variable("i1", "false")
    with f.count_up("i32", f.load("i32", "%ctx", layout.field("threads"))) as thread:
        place = f.element(states, "i32", thread)
        state = f.load("i32", place)
        with f.if_(_waits(f, state)):
            found.set("true")
            f.store("i32", 0, scratch(f, thread, layout.PREDICATE))
            f.store("i32", f.op(f"or i32 {state}, {layout.READY}"), place)
    with f.if_(found.get()):
        with f.count_up("i32", f.load("i32", "%ctx", layout.field("warps"))) as warp:
            after_release(f, states, warp)
        times = f.call("llvm.umin.i32", "i32", "i32 %count", f"i32 {_FASTEST}")
        passed = f.op(f"shl i64 1000, {f.wide(times)}")
        now = f.load("i64", "%ctx", layout.field("clock"))
        f.store("i64", f.op(f"add i64 {now}, {passed}"), "%ctx", layout.field("clock"))
    f.ret(found.get())
