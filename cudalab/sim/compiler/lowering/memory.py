"""Loads, stores, prefetches and fences (PTX ISA, "Data Movement and Conversion Instructions", ``membar``/``fence``).

One block runs at a time on a worker, so only code for several workers (the ``atomic`` variant) needs the orders of the
memory model; in the others ``volatile``, ``relaxed`` and ``acquire`` merely prevent the access from being optimised
away. Cache operators and eviction priorities have no visible effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudalab.sim.compiler.codegen.checks import pointer_to
from cudalab.sim.compiler.codegen.polling import will_store
from cudalab.sim.compiler.ptx.nodes import BITS, Address, Instruction, Register, Symbol, Vector
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.threads import ThreadCode

TABLE = Table()
_TYPES = "<b8|u8|s8|b16|u16|s16|b32|u32|s32|f32|b64|u64|s64|f64|b128>"
_SCOPE = "[.cta|cluster|gpu|sys]"
_CACHE = (
    "[.L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate]"
    "[.L2::evict_normal|L2::evict_first|L2::evict_last][.L2::cache_hint]"
)
_PREFETCH = "[.L2::64B|L2::128B|L2::256B]"
_ORDERS = ("relaxed", "acquire", "release")


def _llvm_type(kind: str, register: Any) -> str:
    """The LLVM type of an access: float if the register is one, otherwise integer."""
    bits = BITS[kind]
    if isinstance(register, Register) and register.is_float and register.bits == bits:
        return "float" if bits == 32 else "double"
    return f"i{bits}"


def elements(operand: Any) -> tuple[Any, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


def _take(e: ThreadCode, target: Any, value: str, kind: str, type: str) -> None:
    if type[0] == "i":
        e.set_integer(target, value, BITS[kind], kind[0] == "s")
    else:
        e.set_real(target, value, BITS[kind])


def stored(e: ThreadCode, source: Any, kind: str) -> tuple[str, str]:
    """A value to be stored and its LLVM type."""
    type = _llvm_type(kind, source)
    if type[0] == "i" and kind[0] == "f" and not isinstance(source, Register):
        type = "float" if kind == "f32" else "double"
    if type[0] == "i":
        return e.integer(source, BITS[kind]), type
    value = e.real(source, BITS[kind])
    return e.observed(source, value) if isinstance(source, Register) else value, type


@TABLE.row(f"ld[.weak].<param|param::entry|param::func>[.ca|cg|cs|lu|cv][.v2|v4|v8].{_TYPES}")
def _load_parameter(e: ThreadCode, i: Instruction, f: Form) -> None:
    address = i.operands[1]
    if i in e.plan.accesses:
        if not e.plan.function.is_kernel:
            raise e.unsupported("a function's parameter is indexed at run time; copy it into a local array first")
        _load(e, i, f)
        return
    offset = e.plan.parameter_offsets.get(address.base.name)
    kind = f.types[-1]
    step = BITS[kind] // 8
    for number, target in enumerate(elements(i.operands[0])):
        type = _llvm_type(kind, target)
        at = address.offset + number * step
        if offset is not None:
            value = e.parameter(offset + at, type)
        else:
            pointer = e.parameter_variable(address.base.name)
            if at:
                pointer = e.new(f"getelementptr i8, ptr {pointer}, i64 {at}")
            value = e.new(f"load {type}, ptr {pointer}, align 1")
        _take(e, target, value, kind, type)


@TABLE.row(f"st[.weak].<param|param::func>[.v2|v4].{_TYPES}".replace("|b128", ""))
def _store_parameter(e: ThreadCode, i: Instruction, f: Form) -> None:
    address = i.operands[0]
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        raise e.unsupported("a parameter is indexed at run time; copy it into a local array first")
    kind = f.types[-1]
    step = BITS[kind] // 8
    for number, source in enumerate(elements(i.operands[1])):
        pointer = e.parameter_variable(address.base.name)
        at = address.offset + number * step
        if at:
            pointer = e.new(f"getelementptr i8, ptr {pointer}, i64 {at}")
        value, type = stored(e, source, kind)
        e.emit(f"store {type} {value}, ptr {pointer}, align 1")


def _order(e: ThreadCode, f: Form) -> tuple[str, str]:
    """The ordering syntax before the type and after the pointer of an LLVM access."""
    order = f.choose(*_ORDERS)
    if order and e.unit.atomic:
        return "atomic ", " monotonic" if order == "relaxed" else f" {order}"
    return ("volatile ", "") if order or "volatile" in f or "mmio" in f else ("", "")


@TABLE.row(
    f"ld[.mmio][.weak|volatile|relaxed|acquire]{_SCOPE}[.const|global|local|shared|shared::cta|shared::cluster]"
    f"[.ca|cg|cs|lu|cv][.nc]{_CACHE}{_PREFETCH}[.v2|v4|v8].{_TYPES}"
)
@TABLE.row(f"ldu[.global][.v2|v4|v8].{_TYPES}")
def _load(e: ThreadCode, i: Instruction, f: Form) -> None:
    pointer = pointer_to(e, e.plan.accesses[i])
    before, after = _order(e, f)
    kind = f.types[-1]
    width = BITS[kind] // 8
    for number, target in enumerate(elements(i.operands[0])):
        type = _llvm_type(kind, target)
        place = e.new(f"getelementptr i8, ptr {pointer}, i64 {number * width}") if number else pointer
        _take(e, target, e.new(f"load {before}{type}, ptr {place}{after}, align {width}"), kind, type)


@TABLE.row(
    f"st[.mmio][.weak|volatile|relaxed|release]{_SCOPE}[.global|local|shared|shared::cta|shared::cluster]"
    f"[.wb|cg|cs|wt]{_CACHE}[.v2|v4|v8].{_TYPES}"
)
def _store(e: ThreadCode, i: Instruction, f: Form) -> None:
    kind = f.types[-1]
    values = [stored(e, source, kind) for source in elements(i.operands[1])]
    pointer = pointer_to(e, e.plan.accesses[i])
    before, after = _order(e, f)
    width = BITS[kind] // 8
    for number, (value, type) in enumerate(values):
        place = e.new(f"getelementptr i8, ptr {pointer}, i64 {number * width}") if number else pointer
        if e.watched:
            will_store(e, type, value, place)
        e.emit(f"store {before}{type} {value}, ptr {place}{after}, align {width}")


@TABLE.row("prefetch[.global|local].<L1|L2>", "prefetch.global.<L2::evict_last|L2::evict_normal>", "prefetchu.L1")
@TABLE.row("applypriority[.global].L2::evict_normal", "discard[.global].L2")
def _prefetch(e: ThreadCode, i: Instruction, f: Form) -> None:
    """No visible effect: caches are not modelled here."""


_PRIMARY = "<L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged>"
_SECONDARY = "[.L2::evict_first|L2::evict_unchanged]"


@TABLE.row(f"createpolicy.fractional.{_PRIMARY}{_SECONDARY}.b64", "createpolicy.cvt.L2.b64")
@TABLE.row(f"createpolicy.range[.global].{_PRIMARY}{_SECONDARY}.b64")
def _policy(e: ThreadCode, i: Instruction, f: Form) -> None:
    """Cache policies are opaque, and empty on the simulated device."""
    e.set_integer(i.operands[0], "0", 64)


@TABLE.row("membar.<cta|gl|sys>", "fence[.sc|acq_rel|acquire|release].<cta|cluster|gpu|sys>")
@TABLE.row("fence.proxy.alias", "fence.proxy.async[.global|shared::cta|shared::cluster]")
@TABLE.row("fence.mbarrier_init.release.cluster")
@TABLE.row("fence.acquire.sync_restrict::shared::cluster.cluster")
@TABLE.row("fence.release.sync_restrict::shared::cta.cluster")
@TABLE.row("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster")
@TABLE.row("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster")
def _fence(e: ThreadCode, i: Instruction, f: Form) -> None:
    if e.unit.traced:
        e.record(e.plan.other_sites[i])
    if e.unit.atomic and f.row.name == "membar" and "cta" not in f or e.unit.atomic and f.row.name == "fence":
        e.emit("fence seq_cst")
