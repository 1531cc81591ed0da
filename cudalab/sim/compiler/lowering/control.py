"""Calls, and instructions that affect timing only (PTX ISA, "Control Flow Instructions", "Miscellaneous").

Branches, returns, exits and traps are terminators, written by ``codegen.threads``; they have rows here so that the
table is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.abi import FaultKind, SyncEvent
from cudalab.sim.compiler.passes.instruction_classes import GRAPH_LAUNCH
from cudalab.sim.compiler.ptx import scope
from cudalab.sim.compiler.ptx.nodes import Instruction, Register, Symbol
from cudalab.sim.compiler.ptx.table import Form, Table
from cudalab.sim.compiler.runtime import layout

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.plan import Plan
    from cudalab.sim.compiler.codegen.threads import ThreadCode

TABLE = Table()


@TABLE.row("bra[.uni]", "brx.idx[.uni]", "ret[.uni]", "exit", "trap", "brkpt")
def _ends_block(e: ThreadCode, i: Instruction, f: Form) -> None:
    raise e.error(f"{i.opcode} inside a basic block")  # control_flow puts it at the end


@TABLE.row("nanosleep.u32")
def _sleep(e: ThreadCode, i: Instruction, f: Form) -> None:
    """Record the delay in the trace, for the time model; no other effect."""
    if e.unit.traced:
        e.event(SyncEvent.SLEEP, e.plan.other_sites[i], e.new(f"zext i32 {e.integer(i.operands[0], 32)} to i64"))


@TABLE.row("pmevent[.mask]", "setmaxnreg.<inc|dec>.sync.aligned.u32")
def _nothing(e: ThreadCode, i: Instruction, f: Form) -> None:
    """No effect on results."""


@TABLE.row("griddepcontrol.launch_dependents")
def _trigger(e: ThreadCode, i: Instruction, f: Form) -> None:
    """The first thread of a block that comes here triggers for the block; what others do changes nothing."""
    e.runtime("cl_trigger", "void", f"ptr {e.context}", f"ptr {e.block}")


@TABLE.row("griddepcontrol.wait")
def _wait(e: ThreadCode, i: Instruction, f: Form) -> None:
    raise e.error(f"{i.opcode} inside a basic block")  # passes.polling makes a loop of it


@TABLE.row("cudalab.prerequisite_done")
def _prerequisite_done(e: ThreadCode, i: Instruction, f: Form) -> None:
    """Test whether the kernel before has completed: at once in a launch that depends on none (measured on an H200)."""
    under_way = e.context_field("prerequisite", "i32")
    e.set_boolean(i.operands[0], e.new(f"icmp eq i32 {under_way}, 0"))


@TABLE.row("call[.uni]")
def _call(e: ThreadCode, i: Instruction, f: Form) -> None:
    returns, callee, arguments, *_ = i.operands
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
        if callee.name.startswith(("cudaLaunchDevice", "cudaGetParameterBuffer", "cudaCDP", "__cudaCDP", "cudaDevice")):
            raise e.unsupported(scope.LAUNCHES, callee.name)
        raise e.unsupported(f"the function {callee.name} is not defined in this module", f"call {callee.name}")
    _call_native(e, i, plan, places)


def _call_through_pointer(e: ThreadCode, i: Instruction, pointer: str, places: list[str]) -> None:
    """A switch over the possible callees; any other value is a fault."""
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
    moved = i.operands[-1] if len(i.operands) > 3 and isinstance(i.operands[-1], Register) else None
    stack = e.integer(moved, 64) if moved is not None else _behind_frame(e)
    if plan.recursive or moved is not None:
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


def _behind_frame(e: ThreadCode) -> str:
    """The end of this activation's frame in the thread's local memory."""
    stack = e.stack()
    if not e.plan.frame_size:
        return stack
    return str(e.plan.frame_size) if stack == "0" else e.new(f"add i64 {stack}, {e.plan.frame_size}")


def _check_stack(e: ThreadCode, stack: str, size: int, site: int) -> None:
    """Check recursive functions for overflow of the thread's local memory."""
    end = e.new(f"add i64 {stack}, {size}")
    fits = e.new(f"icmp ule i64 {end}, {e.context_field('local_size', 'i64')}")
    good, bad = e.fresh_label("fits"), e.fresh_label("overflow")
    e.emit(f"br i1 {fits}, label %{good}, label %{bad}, !prof !1")
    e.label(bad)
    e.fault(FaultKind.STACK_OVERFLOW, site, end)
    e.emit("br label %fault")
    e.label(good)


@TABLE.row("stacksave.<u32|u64>", "stackrestore.<u32|u64>")
def _stack_pointer(e: ThreadCode, i: Instruction, f: Form) -> None:
    """The first one of a function, inserted by ``passes.stack``; that pass rewrites all others to moves."""
    e.set_integer(i.operands[0], _behind_frame(e), 64)


@TABLE.row("alloca.<u32|u64>")
def _alloca(e: ThreadCode, i: Instruction, f: Form) -> None:
    """``passes.stack`` has added the stack pointer as an operand and a result."""
    target, pointer = i.operands[0].elements
    size = e.integer(i.operands[1], f.bits)
    size = size if f.bits == 64 else e.new(f"zext i32 {size} to i64")
    alignment = e.literal_of(i.operands[2])
    if alignment is None or alignment <= 0 or alignment & (alignment - 1):
        raise e.error("the alignment of alloca must be a literal, and a power of two")
    unit = max(alignment, 8)
    start = e.new(f"and i64 {e.new(f'add i64 {e.integer(pointer, 64)}, {unit - 1}')}, {-unit}")
    whole = e.new(f"and i64 {e.new(f'add i64 {size}, 7')}, -8")
    room = e.context_field("local_size", "i64")
    end = e.new(f"add i64 {start}, {whole}")
    fits = e.new(f"icmp ule i64 {end}, {room}")
    small = e.new(f"icmp ule i64 {size}, {room}")
    good, bad = e.fresh_label("fits"), e.fresh_label("overflow")
    e.emit(f"br i1 {e.new(f'and i1 {fits}, {small}')}, label %{good}, label %{bad}, !prof !1")
    e.label(bad)
    e.fault(FaultKind.STACK_OVERFLOW, e.plan.other_sites[i], end)
    e.emit("br label %fault")
    e.label(good)
    e.set_integer(target, start, 64)
    e.set_integer(pointer, end, 64)


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
        f"i32 {e.plan.other_sites[i]}",
    )
    e.emit(f"store i32 {count}, ptr {places[0]}")
    if e.follower is not None:
        e.follower.printed(arguments, count, e.plan.other_sites[i])


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


def _malloc(e: ThreadCode, i: Instruction, places: list[str]) -> None:
    """``malloc(size)`` and ``__cuda_syscall_aligned_malloc(size, alignment)``; also called by ``new``. The machine
    implements the heap (``machine/memory/heap.py``)."""
    size = e.new(f"load i64, ptr {places[1]}")
    alignment = e.new(f"load i64, ptr {places[2]}") if len(places) > 2 else "16"
    function = e.context_field("heap_malloc", "ptr")
    site = e.plan.other_sites[i]
    found = e.new(f"call i64 {function}(ptr {e.context}, i64 {size}, i64 {alignment}, i32 {site})")
    e.emit(f"store i64 {found}, ptr {places[0]}")


def _free(e: ThreadCode, i: Instruction, places: list[str]) -> None:
    """``free(pointer)``, ``delete``: freeing anything else ends the launch."""
    pointer = e.new(f"load i64, ptr {places[0]}")
    function = e.context_field("heap_free", "ptr")
    site = e.plan.other_sites[i]
    refused = e.new(f"icmp ne i32 {e.new(f'call i32 {function}(ptr {e.context}, i64 {pointer}, i32 {site})')}, 0")
    good, bad = e.fresh_label("freed"), e.fresh_label("bad_free")
    e.emit(f"br i1 {refused}, label %{bad}, label %{good}, !prof !2")
    e.label(bad)
    e.fault(FaultKind.BAD_FREE, site, pointer)
    e.emit("br label %fault")
    e.label(good)


def _launch_graph(e: ThreadCode, i: Instruction, places: list[str]) -> None:
    """``cudaGraphLaunch(graph, stream)``: the device decides, and returns a ``cudaError_t``."""
    graph, stream = (e.new(f"load i64, ptr {place}") for place in places[1:])
    function = e.context_field("graph_launch", "ptr")
    answer = e.new(f"call i32 {function}(ptr {e.context}, i64 {graph}, i64 {stream})")
    e.emit(f"store i32 {answer}, ptr {places[0]}")


_BUILTINS = {
    "vprintf": _print,
    "__assertfail": _assert,
    "malloc": _malloc,
    "free": _free,
    "__cuda_syscall_aligned_malloc": _malloc,
    GRAPH_LAUNCH: _launch_graph,
}
