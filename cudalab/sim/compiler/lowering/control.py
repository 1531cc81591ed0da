"""Calls, and instructions that only matter to time (PTX ISA, "Control Flow Instructions", "Miscellaneous").

Branches, returns, exits and traps end basic blocks and are written by ``codegen.threads``; their rows are here so that
the table knows every instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.abi import FaultKind
from cudalab.sim.compiler.lowering.table import Form, Table
from cudalab.sim.compiler.ptx.nodes import Instruction, Symbol
from cudalab.sim.compiler.runtime import layout

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.analysis import Plan
    from cudalab.sim.compiler.codegen.threads import ThreadCode

TABLE = Table()


@TABLE.row("bra[.uni]", "brx.idx[.uni]", "ret[.uni]", "exit", "trap", "brkpt")
def _ends_block(e: ThreadCode, i: Instruction, f: Form) -> None:
    raise e.error(f"{i.opcode} inside a basic block")  # control_flow puts it at the end


@TABLE.row("nanosleep.u32", "pmevent[.mask]")
def _nothing(e: ThreadCode, i: Instruction, f: Form) -> None:
    """No effect on what is computed."""


@TABLE.row("call[.uni]")
def _call(e: ThreadCode, i: Instruction, f: Form) -> None:
    returns, callee, arguments = i.operands
    places = [e.parameter_variable(operand.name) for operand in (*returns.elements, *arguments.elements)]
    if not isinstance(callee, Symbol):
        _call_through_pointer(e, i, e.integer(callee, 64), places)
        return
    builtin = _BUILTINS.get(callee.name)
    if builtin is not None:
        builtin(e, i, places)
        return
    plan = e.unit.function_plan(callee.name)
    if plan is None:
        if callee.name in ("malloc", "free", "__cudaCDP2Malloc", "__cudaCDP2Free"):
            raise e.unsupported("allocation inside a kernel is not simulated; allocate on the host", callee.name)
        raise e.unsupported(f"the function {callee.name} is not defined in this module", f"call {callee.name}")
    _call_native(e, i, plan, places)


def _call_through_pointer(e: ThreadCode, i: Instruction, pointer: str, places: list[str]) -> None:
    """A switch over the functions that the pointer may be the address of; any other value is a fault."""
    graph = e.unit.plan.graph
    targets = []
    for name in graph.candidates(e.plan.function, i):
        plan = e.unit.function_plan(name)
        if plan is None:
            raise e.unsupported(
                f"the function {name} waits for other threads and may be called through a pointer; call it by name",
                "call (indirect)",
            )
        targets.append((graph.addresses[name], e.fresh_label("target"), plan))
    wild, done = e.fresh_label("wild"), e.fresh_label("done")
    cases = " ".join(f"i64 {address}, label %{label}" for address, label, _ in targets)
    e.emit(f"switch i64 {pointer}, label %{wild} [{cases}]")
    for _, label, plan in targets:
        e.label(label)
        _call_native(e, i, plan, places)
        e.emit(f"br label %{done}")
    e.label(wild)
    e.fault(FaultKind.BAD_CALL, e.plan.other_sites[i], pointer)
    e.emit("br label %fault")
    e.label(done)


def _call_native(e: ThreadCode, i: Instruction, plan: Plan, places: list[str]) -> None:
    site = e.plan.other_sites[i]
    stack = e.stack()
    if e.plan.frame_size:
        stack = str(e.plan.frame_size) if stack == "0" else e.new(f"add i64 {stack}, {e.plan.frame_size}")
    if plan.recursive:
        _check_stack(e, stack, plan.frame_size, site)
    inputs = "".join(f", ptr {place}" for place in places)
    status = e.new(
        f'call i32 @"func_{plan.function.name}"(ptr {e.context}, ptr {e.block}, i32 {e.thread()}, i64 {stack}{inputs})'
    )
    good, bad = e.fresh_label("returned"), e.fresh_label("unwind")
    e.emit(f"br i1 {e.new(f'icmp eq i32 {status}, 0')}, label %{good}, label %{bad}, !prof !1")
    e.label(bad)
    e.unwind(status)
    e.label(good)


def _check_stack(e: ThreadCode, stack: str, size: int, site: int) -> None:
    """Functions that call themselves stop where the thread's local memory ends."""
    end = e.new(f"add i64 {stack}, {size}")
    fits = e.new(f"icmp ule i64 {end}, {e.context_field('local_size', 'i64')}")
    good, bad = e.fresh_label("fits"), e.fresh_label("overflow")
    e.emit(f"br i1 {fits}, label %{good}, label %{bad}, !prof !1")
    e.label(bad)
    e.fault(FaultKind.STACK_OVERFLOW, site, end)
    e.emit("br label %fault")
    e.label(good)


def _print(e: ThreadCode, i: Instruction, places: list[str]) -> None:
    """``vprintf(format, arguments)``: the machine formats the text after the launch."""
    template = e.new(f"load i64, ptr {places[1]}")
    arguments = e.new(f"load i64, ptr {places[2]}")
    count = e.runtime(
        "cl_print",
        "i32",
        f"ptr {e.context}",
        f"ptr {e.block}",
        f"i32 {e.thread()}",
        f"i64 {template}",
        f"i64 {arguments}",
    )
    e.emit(f"store i32 {count}, ptr {places[0]}")


def _assert(e: ThreadCode, i: Instruction, places: list[str]) -> None:
    """``__assertfail(message, file, line, function, character size)``"""
    widths = (64, 64, 32, 64, 64)
    for number, (place, bits) in enumerate(zip(places[-5:], widths, strict=True)):
        value = e.new(f"load i{bits}, ptr {place}")
        if bits == 32:
            value = e.new(f"zext i32 {value} to i64")
        target = e.new(f"getelementptr i8, ptr {e.context}, i64 {layout.field('fault.extra') + 8 * number}")
        e.emit(f"store i64 {value}, ptr {target}")
    e.fault(FaultKind.ASSERT, e.plan.other_sites[i])


_BUILTINS = {"vprintf": _print, "__assertfail": _assert}
