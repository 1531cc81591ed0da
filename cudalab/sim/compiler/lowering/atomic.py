"""Atomics and reductions (PTX ISA, ``atom``, ``red``).

With one worker threads run one after the other, so a load, an operation and a store are atomic; with several workers
global memory needs the processor's atomic instructions. Shared memory belongs to one block, which one worker runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.abi import Space
from cudalab.sim.compiler.codegen.checks import pointer_to
from cudalab.sim.compiler.codegen.polling import will_store
from cudalab.sim.compiler.lowering.floating import flush
from cudalab.sim.compiler.ptx.nodes import Instruction, Register
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.threads import ThreadCode

TABLE = Table()
_SPACE = "global|shared|shared::cta|shared::cluster"
_SCOPE = "cta|cluster|gpu|sys"
_WHERE = f"[.relaxed|acquire|release|acq_rel][.{_SCOPE}][.{_SPACE}]"
_REDUCE = f"[.relaxed|release][.{_SCOPE}][.{_SPACE}]"
_OLD = f"<{_SPACE}>.<{_SCOPE}>"  # the modifier order before PTX 6.0; compilers still emit it
_LATE = f"[.relaxed|acquire|release|acq_rel].<{_SCOPE}>"  # after the operation, as in the headers of cuda::atomic
_LATE_REDUCE = f"[.relaxed|release].<{_SCOPE}>"
_CACHE = "[.L2::cache_hint]"
_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "inc", "dec")
_NAN = 0x7FFF_FFFF
_LLVM = {"exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap"}
_ORDERS = {"acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}


def needs_lock(e: ThreadCode, i: Instruction) -> bool:
    return e.unit.atomic and e.plan.accesses[i].space not in (Space.SHARED, Space.CLUSTER)


def order_of(f: Form) -> str:
    return _ORDERS.get(f.choose(*_ORDERS), "monotonic")


def _update(e: ThreadCode, operation: str, signed: bool, bits: int, old: str, value: str) -> str:
    """The new value of an integer."""
    kind = f"i{bits}"
    if operation in ("add", "and", "or", "xor"):
        return e.new(f"{operation} {kind} {old}, {value}")
    if operation in ("min", "max"):
        name = f"llvm.{'s' if signed else 'u'}{operation}.{kind}"
        return e.intrinsic(name, kind, f"{kind} {old}", f"{kind} {value}")
    if operation == "exch":
        return value
    if operation == "inc":
        wraps = e.new(f"icmp uge {kind} {old}, {value}")
        return e.new(f"select i1 {wraps}, {kind} 0, {kind} {e.new(f'add {kind} {old}, 1')}")
    zero = e.new(f"icmp eq {kind} {old}, 0")
    above = e.new(f"icmp ugt {kind} {old}, {value}")
    less = e.new(f"sub {kind} {old}, 1")
    return e.new(f"select i1 {e.new(f'or i1 {zero}, {above}')}, {kind} {value}, {kind} {less}")


def _integer(e: ThreadCode, i: Instruction, f: Form, source: object) -> str:
    """Atomic update of an integer; returns the old value."""
    operation = f.choose(*_OPERATIONS)
    kind, width = f"i{f.bits}", f.bits // 8
    value = e.integer(source, f.bits)
    pointer = pointer_to(e, e.plan.accesses[i])
    if needs_lock(e, i):
        name = _LLVM.get(operation, operation)
        if operation in ("min", "max") and not f.signed:
            name = f"u{operation}"
        return e.new(f"atomicrmw {name} ptr {pointer}, {kind} {value} {order_of(f)}, align {width}")
    old = e.new(f"load {kind}, ptr {pointer}, align {width}")
    new = _update(e, operation, f.signed, f.bits, old, value)
    if e.watched:
        will_store(e, kind, new, pointer, old)
    e.emit(f"store {kind} {new}, ptr {pointer}, align {width}")
    return old


@TABLE.row(f"atom{_WHERE}.<add|inc|dec>{_CACHE}.u32", f"atom{_WHERE}.<add|min|max>{_CACHE}.<s32|u64>")
@TABLE.row(
    f"atom{_WHERE}.<min|max>{_CACHE}.<u32|s64>",
    f"atom{_WHERE}.<and|or|xor|exch>{_CACHE}.<b32|b64>",
    f"atom{_WHERE}.exch{_CACHE}.b128",
)
@TABLE.row(f"atom.{_OLD}.<add|inc|dec>.u32", f"atom.{_OLD}.<add|min|max>.<s32|u64>", f"atom.{_OLD}.<min|max>.<u32|s64>")
@TABLE.row(f"atom.{_OLD}.<and|or|xor|exch>.<b32|b64>", f"atom.{_OLD}.exch.b128")
@TABLE.row(f"atom.add{_LATE}.<u32|s32|u64>", f"atom.<min|max>{_LATE}.<u32|s32|u64|s64>")
@TABLE.row(f"atom.<and|or|xor|exch>{_LATE}.<b32|b64>", f"atom.exch{_LATE}.b128")
def _atomic(e: ThreadCode, i: Instruction, f: Form) -> None:
    e.set_integer(i.operands[0], _integer(e, i, f, i.operands[2]), f.bits, f.signed)


@TABLE.row(f"red{_REDUCE}.<add|inc|dec>{_CACHE}.u32", f"red{_REDUCE}.<add|min|max>{_CACHE}.<s32|u64>")
@TABLE.row(f"red{_REDUCE}.<min|max>{_CACHE}.<u32|s64>", f"red{_REDUCE}.<and|or|xor>{_CACHE}.<b32|b64>")
@TABLE.row(f"red.{_OLD}.<add|inc|dec>.u32", f"red.{_OLD}.<add|min|max>.<s32|u64>", f"red.{_OLD}.<min|max>.<u32|s64>")
@TABLE.row(f"red.{_OLD}.<and|or|xor>.<b32|b64>")
@TABLE.row(f"red.add{_LATE_REDUCE}.<u32|s32|u64>", f"red.<min|max>{_LATE_REDUCE}.<u32|s32|u64|s64>")
@TABLE.row(f"red.<and|or|xor>{_LATE_REDUCE}.<b32|b64>")
def _reduce(e: ThreadCode, i: Instruction, f: Form) -> None:
    _integer(e, i, f, i.operands[1])


def _double(e: ThreadCode, i: Instruction, f: Form, source: object) -> str:
    value = e.real(source, 64)
    pointer = pointer_to(e, e.plan.accesses[i])
    if needs_lock(e, i):
        return e.new(f"atomicrmw fadd ptr {pointer}, double {value} {order_of(f)}, align 8")
    old = e.new(f"load double, ptr {pointer}, align 8")
    e.emit(f"store double {e.new(f'fadd double {old}, {value}')}, ptr {pointer}, align 8")
    return old


def _sum(e: ThreadCode, i: Instruction, old: str, value: str) -> str:
    """The bits of a float's new value. In global memory subnormals are flushed, in shared memory they are not."""
    flushes = e.plan.accesses[i].space not in (Space.SHARED, Space.CLUSTER) and not e.unit.hardware_flush
    old = e.new(f"bitcast i32 {old} to float")
    total = e.new(f"fadd float {flush(e, old) if flushes else old}, {flush(e, value) if flushes else value}")
    if flushes:
        total = flush(e, total)
    missing = e.new(f"fcmp uno float {total}, {total}")
    return e.new(f"select i1 {missing}, i32 {_NAN}, i32 {e.new(f'bitcast float {total} to i32')}")


def add_float(e: ThreadCode, i: Instruction, f: Form, pointer: str, value: str) -> str:
    """Add to the float at ``pointer``; returns the old value. With several workers, by a compare-and-swap loop."""
    if not needs_lock(e, i):
        old = e.new(f"load i32, ptr {pointer}, align 4")
        e.emit(f"store i32 {_sum(e, i, old, value)}, ptr {pointer}, align 4")
        return e.new(f"bitcast i32 {old} to float")
    seen = e.alloca("i32")
    e.emit(f"store i32 {e.new(f'load atomic i32, ptr {pointer} monotonic, align 4')}, ptr {seen}")
    again, done = e.fresh_label("again"), e.fresh_label("done")
    e.emit(f"br label %{again}")
    e.label(again)
    old = e.new(f"load i32, ptr {seen}")
    pair = e.new(f"cmpxchg ptr {pointer}, i32 {old}, i32 {_sum(e, i, old, value)} {order_of(f)} monotonic, align 4")
    e.emit(f"store i32 {e.new(f'extractvalue {{i32, i1}} {pair}, 0')}, ptr {seen}")
    e.emit(f"br i1 {e.new(f'extractvalue {{i32, i1}} {pair}, 1')}, label %{done}, label %{again}")
    e.label(done)
    return e.new(f"bitcast i32 {old} to float")


def _real(e: ThreadCode, i: Instruction, f: Form, source: object) -> str:
    if f.bits == 64:
        return _double(e, i, f, source)
    value = e.real(source, 32)
    return add_float(e, i, f, pointer_to(e, e.plan.accesses[i]), value)


@TABLE.row(f"atom{_WHERE}.add{_CACHE}.<f32|f64>", f"atom.{_OLD}.add.<f32|f64>", f"atom.add{_LATE}.<f32|f64>")
def _atomic_real(e: ThreadCode, i: Instruction, f: Form) -> None:
    e.set_real(i.operands[0], _real(e, i, f, i.operands[2]), f.bits)


@TABLE.row(f"red{_REDUCE}.add{_CACHE}.<f32|f64>", f"red.{_OLD}.add.<f32|f64>")
def _reduce_real(e: ThreadCode, i: Instruction, f: Form) -> None:
    _real(e, i, f, i.operands[1])


@TABLE.row(f"atom{_WHERE}.cas.<b16|b32|b64|b128>", f"atom.{_OLD}.cas.<b16|b32|b64|b128>")
@TABLE.row(f"atom.cas{_LATE}.<b16|b32|b64|b128>")
def _compare_and_swap(e: ThreadCode, i: Instruction, f: Form) -> None:
    kind, width = f"i{f.bits}", f.bits // 8
    expected, value = e.integer(i.operands[2], f.bits), e.integer(i.operands[3], f.bits)
    pointer = pointer_to(e, e.plan.accesses[i])
    if needs_lock(e, i):
        order = order_of(f)
        failure = "acquire" if order in ("acquire", "acq_rel") else "monotonic"
        both = e.new(f"cmpxchg ptr {pointer}, {kind} {expected}, {kind} {value} {order} {failure}, align {width}")
        old = e.new(f"extractvalue {{{kind}, i1}} {both}, 0")
    else:
        old = e.new(f"load {kind}, ptr {pointer}, align {width}")
        same = e.new(f"icmp eq {kind} {old}, {expected}")
        new = e.new(f"select i1 {same}, {kind} {value}, {kind} {old}")
        if e.watched:
            will_store(e, kind, new, pointer, old)
        e.emit(f"store {kind} {new}, ptr {pointer}, align {width}")
    if isinstance(i.operands[0], Register):
        e.set_integer(i.operands[0], old, f.bits)
