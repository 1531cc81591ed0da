"""Comparison and selection (PTX ISA, "Comparison and Selection Instructions")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.compiler.lowering.floating import flush
from cudalab.sim.compiler.ptx.nodes import BITS, Instruction, Pair
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.emitter import Emitter

TABLE = Table()
_KIND = {32: "float", 64: "double"}
_BITWISE = "b16|b32|b64"
_UNSIGNED = "u16|u32|u64"
_SIGNED = "s16|s32|s64"
_ORDERED = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_UNORDERED = {f"{name}u": f"u{name}" for name in _ORDERED}
_REAL = {**_ORDERED, **_UNORDERED, "num": "ord", "nan": "uno"}
_REAL_NAMES = "|".join(_REAL)
_SAME = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMBINE = "[.and|or|xor]"
_TARGETS = "<u32|s32|f32|f16|bf16>"
#: 1.0 in half precision.
ONE = {"f16": 0x3C00, "bf16": 0x3F80}


def _compare(e: Emitter, i: Instruction, f: Form) -> str:
    """The result of comparing operands 1 and 2, as i1."""
    kind = f.types[-1]
    bits = BITS[kind]
    operation = str(f.opcode.split(".")[1])
    if kind[0] == "f":
        a, b = (e.real(operand, bits) for operand in i.operands[1:3])
        if "ftz" in f and not e.unit.hardware_flush:
            a, b = flush(e, a), flush(e, b)
        return e.new(f"fcmp {_REAL[operation]} {_KIND[bits]} {a}, {b}")
    a, b = (e.integer(operand, bits) for operand in i.operands[1:3])
    operation = _SAME.get(operation, operation)
    if operation not in ("eq", "ne"):
        operation = ("s" if kind[0] == "s" else "u") + operation
    return e.new(f"icmp {operation} i{bits} {a}, {b}")


def _combine(e: Emitter, i: Instruction, f: Form, outcome: str) -> str:
    operation = f.choose("and", "or", "xor")
    if not operation:
        return outcome
    return e.new(f"{operation} i1 {outcome}, {e.boolean(i.operands[3])}")


@TABLE.row(f"setp.<eq|ne>{_COMBINE}.<{_BITWISE}>")
@TABLE.row(f"setp.<eq|ne|lt|le|gt|ge|lo|ls|hi|hs>{_COMBINE}.<{_UNSIGNED}>")
@TABLE.row(f"setp.<eq|ne|lt|le|gt|ge>{_COMBINE}.<{_SIGNED}>")
@TABLE.row(f"setp.<{_REAL_NAMES}>{_COMBINE}[.ftz].f32", f"setp.<{_REAL_NAMES}>{_COMBINE}.f64")
def _set_predicate(e: Emitter, i: Instruction, f: Form) -> None:
    """``p|q``: q gets the complement, combined likewise."""
    outcome = _compare(e, i, f)
    target = i.operands[0]
    if isinstance(target, Pair):
        complement = e.new(f"xor i1 {outcome}, true")
        second = _combine(e, i, f, complement)
        e.set_boolean(target.first, _combine(e, i, f, outcome))
        e.set_boolean(target.second, second)
    else:
        e.set_boolean(target, _combine(e, i, f, outcome))


@TABLE.row(f"set.<eq|ne>{_COMBINE}.{_TARGETS}.<{_BITWISE}>")
@TABLE.row(f"set.<eq|ne|lt|le|gt|ge|lo|ls|hi|hs>{_COMBINE}.{_TARGETS}.<{_UNSIGNED}>")
@TABLE.row(f"set.<eq|ne|lt|le|gt|ge>{_COMBINE}.{_TARGETS}.<{_SIGNED}>")
@TABLE.row(f"set.<{_REAL_NAMES}>{_COMBINE}[.ftz].{_TARGETS}.f32", f"set.<{_REAL_NAMES}>{_COMBINE}.{_TARGETS}.f64")
def _set_value(e: Emitter, i: Instruction, f: Form) -> None:
    """All ones or 1.0 if the comparison holds, else 0."""
    outcome = _combine(e, i, f, _compare(e, i, f))
    if f.types[0] in ONE:
        e.set_integer(i.operands[0], e.new(f"select i1 {outcome}, i16 {ONE[f.types[0]]}, i16 0"), 16)
    elif f.types[0] == "f32":
        e.set_real(i.operands[0], e.new(f"uitofp i1 {outcome} to float"), 32)
    else:
        e.set_integer(i.operands[0], e.new(f"sext i1 {outcome} to i32"), 32)


@TABLE.row("selp.<b16|b32|b64|u16|u32|u64|s16|s32|s64>")
def _select_integer(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = (e.integer(operand, f.bits) for operand in i.operands[1:3])
    chosen = e.new(f"select i1 {e.boolean(i.operands[3])}, i{f.bits} {a}, i{f.bits} {b}")
    e.set_integer(i.operands[0], chosen, f.bits, f.signed)


@TABLE.row("selp.<f32|f64>")
def _select_real(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = (e.real(operand, f.bits) for operand in i.operands[1:3])
    kind = _KIND[f.bits]
    e.set_real(i.operands[0], e.new(f"select i1 {e.boolean(i.operands[3])}, {kind} {a}, {kind} {b}"), f.bits)


@TABLE.row("slct.<b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>.s32")
@TABLE.row("slct[.ftz].<b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>.f32")
def _select_by_sign(e: Emitter, i: Instruction, f: Form) -> None:
    """The first operand where the third is at least 0 (a NaN is not)."""
    kind = f.types[0]
    bits = BITS[kind]
    if f.types[1] == "f32":
        sign = e.real(i.operands[3], 32)
        if "ftz" in f:
            sign = flush(e, sign)
        outcome = e.new(f"fcmp oge float {sign}, 0.0")
    else:
        outcome = e.new(f"icmp sge i32 {e.integer(i.operands[3], 32)}, 0")
    if kind[0] == "f":
        a, b = (e.real(operand, bits) for operand in i.operands[1:3])
        e.set_real(i.operands[0], e.new(f"select i1 {outcome}, {_KIND[bits]} {a}, {_KIND[bits]} {b}"), bits)
    else:
        a, b = (e.integer(operand, bits) for operand in i.operands[1:3])
        e.set_integer(i.operands[0], e.new(f"select i1 {outcome}, i{bits} {a}, i{bits} {b}"), bits)
