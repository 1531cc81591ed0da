"""Retrieval of the results of warp operations, barriers and waits that the block driver has stored."""

from __future__ import annotations

from cudalab.sim.abi import SHARED_WINDOW, SyncEvent
from cudalab.sim.compiler.codegen.environment import WaitingEnvironment
from cudalab.sim.compiler.passes.regions import Point
from cudalab.sim.compiler.ptx.nodes import Pair, Register
from cudalab.sim.compiler.runtime import layout


def take_results(e: WaitingEnvironment, point: Point) -> None:
    """On resumption: move the stored results into the destination registers."""
    i = point.instruction
    name = i.opcode.split(".", 1)[0]
    if name == "mbarrier":
        _take_answer(e, point)
        return
    targets = i.operands[0] if i.operands else None
    first, second = (targets.first, targets.second) if isinstance(targets, Pair) else (targets, None)
    if name in ("bar", "barrier"):
        if ".red" not in i.opcode:
            return
        count = e.result(layout.RESULT)
        if ".popc" in i.opcode:
            e.set_integer(first, count, 32)
        elif ".and" in i.opcode:
            e.set_boolean(first, e.new(f"icmp eq i32 {count}, {e.result(layout.PREDICATE)}"))
        else:
            e.set_boolean(first, e.new(f"icmp ne i32 {count}, 0"))
        return
    for target, row in ((first, layout.RESULT), (second, layout.PREDICATE)):
        if isinstance(target, Register):
            value = e.result(row)
            if target.type == "pred":
                e.set_boolean(target, e.new(f"icmp ne i32 {value}, 0"))
            else:
                e.set_integer(target, value, 32)


def _take_answer(e: WaitingEnvironment, point: Point) -> None:
    """On resumption: read whether the phase was complete."""
    answer = e.new(f"icmp ne i32 {e.result(layout.PREDICATE)}, 0")
    if e.unit.traced and ".relaxed" not in point.instruction.opcode:
        go_on, seen = e.fresh_label("go.on"), e.fresh_label("seen")
        e.emit(f"br i1 {answer}, label %{seen}, label %{go_on}")
        e.label(seen)
        address = e.new(f"add i64 {e.new(f'zext i32 {e.result(layout.A)} to i64')}, {SHARED_WINDOW}")
        e.event(SyncEvent.WAIT, e.plan.site_of_point(point.number), address, e.result(layout.A_HIGH))
        e.emit(f"br label %{go_on}")
        e.label(go_on)
    e.set_boolean(point.instruction.operands[0], answer)
