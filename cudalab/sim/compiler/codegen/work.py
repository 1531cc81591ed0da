"""The work of each warp, counted while a kernel runs; and the fuel of its back-edges.

A back-edge counts the instructions of its loop (``passes.timing.loop_work``). At the end of a thread, or of its part of
a region, the difference is its work; a warp takes as long as the lane that does most. So a slot of ``context.work`` for
each warp of the grid gets the maximum over the lanes, in each region anew, because a warp waits for all of them at a
suspension point. In wide code a group of lanes counts together, once for each round that any of them takes.

Where ``context.work`` is null, all of it goes to a slot on the native stack: there is no branch.

What is simplified: lanes that run apart between two suspension points count one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.abi import WARP
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.runtime import layout

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.environment import ThreadEnvironment

_LANE_BITS = WARP.bit_length() - 1


def counts_work(e: ThreadEnvironment) -> bool:
    """Whether this code keeps the work of warps: that of a kernel with loops, but for the sanitizer's."""
    return bool(e.plan.work.heads) and not e.unit.skips


def fuel(e: ThreadEnvironment) -> str:
    """The variable with the fuel left until the host is polled."""

    def make() -> str:
        tank = e.alloca("i32")
        e.emit(f"store i32 {e.context_field('fuel', 'i32')}, ptr {tank}")
        return tank

    return e.cached("fuel", Level.LAUNCH, make)


def _done(e: ThreadEnvironment) -> str:
    """The variable with the work that this call has done so far."""

    def make() -> str:
        done = e.alloca("i64")
        e.emit(f"store i64 0, ptr {done}")
        return done

    return e.cached("work done", Level.LAUNCH, make)


def enter_block(e: ThreadEnvironment, index: int) -> None:
    """Count a basic block."""
    amount = e.plan.work.blocks.get(index)
    if amount and counts_work(e):
        _add(e, str(amount))


def _add(e: ThreadEnvironment, amount: str) -> None:
    done = _done(e)
    e.count += 1
    name = f"%{e.prefix}done{e.count}"
    e.lines += [
        f"{name}.0 = load i64, ptr {done}",
        f"{name}.1 = add i64 {name}.0, {amount}",
        f"store i64 {name}.1, ptr {done}",
    ]


def go_back(e: ThreadEnvironment, head: int, taken: str = "true") -> None:
    """Count a back-edge to the block ``head``, if it is ``taken`` (i1)."""
    if counts_work(e):
        e.count += 1
        amount = f"%{e.prefix}done{e.count}"
        e.lines.append(f"{amount} = select i1 {taken}, i64 {e.plan.work.heads[head]}, i64 0")
        _add(e, amount)


def take_back_edge(e: ThreadEnvironment, head: int, thread: str, label: str) -> None:
    """Count a back-edge to the block ``head`` and branch to ``label``, by way of the host when the fuel has run out. A
    region that begins behind a barrier inside a loop may go round from another block: the loop's own edge counts."""
    if counts_work(e) and head in e.plan.work.heads:
        _add(e, str(e.plan.work.heads[head]))
    tank = fuel(e)
    e.count += 1
    left, poll = f"%{e.prefix}fuel{e.count}", f"{e.prefix}poll.{e.count}"
    e.lines += [
        f"{left}.0 = load i32, ptr {tank}",
        f"{left}.1 = sub i32 {left}.0, 1",
        f"store i32 {left}.1, ptr {tank}",
        f"{left}.2 = icmp eq i32 {left}.1, 0",
        f"br i1 {left}.2, label %{poll}, label %{label}, !prof !2",
        f"{poll}:",
        f"{left}.3 = call i32 @cl_poll(ptr {e.context}, ptr {e.block}, i32 {thread}, i32 {e.plan.block_sites[head]})",
        f"store i32 {left}.3, ptr {tank}",
        f"{left}.4 = icmp eq i32 {left}.3, 0",
        f"br i1 {left}.4, label %stopped, label %{label}",
    ]
    e.unit.declare("cl_poll", "declare i32 @cl_poll(ptr, ptr, i32, i32) cold nounwind")


def begin_launch(e: ThreadEnvironment) -> list[str]:
    """The start of the native function: where the slots are."""
    if not counts_work(e):
        return []
    e.allocas += ["%slots.most = alloca i64", "%slots.spare = alloca i64"]
    return [
        "store i64 0, ptr %slots.most",
        f"%slots.at = getelementptr i8, ptr %ctx, i64 {layout.field('work')}",
        "%slots.given = load ptr, ptr %slots.at",
        "%slots.off = icmp eq ptr %slots.given, null",
        "%slots.first = select i1 %slots.off, ptr %slots.spare, ptr %slots.given",
        "%slots.mask = select i1 %slots.off, i64 0, i64 -1",
    ]


def begin_thread(e: ThreadEnvironment) -> list[str]:
    """The start of a thread, or of a group of lanes."""
    return [f"%{e.prefix}work.begin = load i64, ptr {_done(e)}"] if counts_work(e) else []


def end_thread(e: ThreadEnvironment, thread: str, following: str, end: str, linear: str) -> list[str]:
    """The end of a thread or a group of lanes. The one at ``following`` comes next, before ``end``; ``linear`` is the
    number of the block (i64)."""
    e.unit.declare("llvm.umax.i64", "declare i64 @llvm.umax.i64(i64, i64)")
    p = f"%{e.prefix}work"
    warps = e.context_field("warps", "i32")
    return [
        f"{p}.end = load i64, ptr {_done(e)}",
        f"{p}.own = sub i64 {p}.end, {p}.begin",
        f"{p}.before = load i64, ptr %slots.most",
        f"{p}.most = call i64 @llvm.umax.i64(i64 {p}.own, i64 {p}.before)",
        f"{p}.lane = and i32 {following}, {WARP - 1}",
        f"{p}.full = icmp eq i32 {p}.lane, 0",
        f"{p}.over = icmp uge i32 {following}, {end}",
        f"{p}.last = or i1 {p}.full, {p}.over",
        f"{p}.next = select i1 {p}.last, i64 0, i64 {p}.most",
        f"store i64 {p}.next, ptr %slots.most",
        f"{p}.done = select i1 {p}.last, i64 {p}.most, i64 0",
        f"{p}.warp = lshr i32 {thread}, {_LANE_BITS}",
        f"{p}.warp.wide = zext i32 {p}.warp to i64",
        f"{p}.warps = zext i32 {warps} to i64",
        f"{p}.first = mul i64 {linear}, {p}.warps",
        f"{p}.number = add i64 {p}.first, {p}.warp.wide",
        f"{p}.index = and i64 {p}.number, %slots.mask",
        f"{p}.slot = getelementptr i64, ptr %slots.first, i64 {p}.index",
        f"{p}.old = load i64, ptr {p}.slot",
        f"{p}.new = add i64 {p}.old, {p}.done",
        f"store i64 {p}.new, ptr {p}.slot",
    ]
