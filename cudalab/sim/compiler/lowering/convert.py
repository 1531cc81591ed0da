"""Conversions (PTX ISA, ``cvt``).

Out-of-range floats saturate to the target type. NaN becomes 0, except where source or target has 64 bits: there the
smallest integer (``s64``, ``s32``) or the one with only the top bit set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.compiler.lowering.floating import flush, flush_by, lift, saturate
from cudalab.sim.compiler.ptx.nodes import BITS, Instruction
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.emitter import Emitter

TABLE = Table()
_KIND = {32: "float", 64: "double"}
_WIDE_NAN = 0x7FFF_FFFF_E000_0000  # 0x7fffffff as a double
_INTEGERS = "<u8|u16|u32|u64|s8|s16|s32|s64>"
_TO_INTEGER = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@TABLE.row(f"cvt[.sat].{_INTEGERS}.{_INTEGERS}")
def _between_integers(e: Emitter, i: Instruction, f: Form) -> None:
    target, source = f.types
    have, want = BITS[source], BITS[target]
    value = e.integer(i.operands[1], have)
    signed = source[0] == "s"
    if "sat" in f:
        value = _clamp(e, value, source, target)
    if want > have:
        value = e.new(f"{'sext' if signed else 'zext'} i{have} {value} to i{want}")
    elif want < have:
        value = e.new(f"trunc i{have} {value} to i{want}")
    e.set_integer(i.operands[0], value, want, target[0] == "s")


def _clamp(e: Emitter, value: str, source: str, target: str) -> str:
    """``value`` limited to the range of ``target``, in the source's width."""
    have, want = BITS[source], BITS[target]
    kind = f"i{have}"
    if source[0] == "s":
        low = 0 if target[0] == "u" else max(-(1 << want - 1), -(1 << have - 1))
        high = min((1 << want) - 1 if target[0] == "u" else (1 << want - 1) - 1, (1 << have - 1) - 1)
        value = e.intrinsic(f"llvm.smax.{kind}", kind, f"{kind} {value}", f"{kind} {low}")
        return e.intrinsic(f"llvm.smin.{kind}", kind, f"{kind} {value}", f"{kind} {high}")
    high = min((1 << want) - 1 if target[0] == "u" else (1 << want - 1) - 1, (1 << have) - 1)
    return e.intrinsic(f"llvm.umin.{kind}", kind, f"{kind} {value}", f"{kind} {high}")


@TABLE.row(f"cvt.<rn|rz|rm|rp>[.ftz][.sat].f32.{_INTEGERS}", f"cvt.<rn|rz|rm|rp>[.sat].f64.{_INTEGERS}")
def _from_integer(e: Emitter, i: Instruction, f: Form) -> None:
    target, source = f.types
    bits, have = BITS[target], BITS[source]
    value = e.integer(i.operands[1], have)
    signed = source[0] == "s"
    rounding = f.choose("rz", "rm", "rp")
    if rounding and have >= bits // 2:  # narrower integers are exact
        if have < 64:
            value = e.new(f"{'sext' if signed else 'zext'} i{have} {value} to i64")
        name = f"cl_from_{'s' if signed or have < 64 else 'u'}64_{rounding}_f{bits}"
        result = e.runtime(name, _KIND[bits], f"i64 {value}")
    else:
        result = e.new(f"{'sitofp' if signed else 'uitofp'} i{have} {value} to {_KIND[bits]}")
    if "sat" in f:
        result = saturate(e, result, bits)
    e.set_real(i.operands[0], result, bits)


@TABLE.row(f"cvt.<rni|rzi|rmi|rpi>[.ftz][.sat].{_INTEGERS}.f32", f"cvt.<rni|rzi|rmi|rpi>[.sat].{_INTEGERS}.f64")
def _to_integer(e: Emitter, i: Instruction, f: Form) -> None:
    target, source = f.types
    bits, want = BITS[source], BITS[target]
    kind = _KIND[bits]
    value = e.real(i.operands[1], bits)
    if "ftz" in f and bits == 32:
        value = flush(e, value)
    rounding = f.choose(*_TO_INTEGER)
    rounded = value
    if rounding != "rzi":
        rounded = e.intrinsic(f"llvm.{_TO_INTEGER[rounding]}.f{bits}", kind, f"{kind} {value}")
    name = f"llvm.fpto{'s' if target[0] == 's' else 'u'}i.sat.i{want}.f{bits}"
    result = e.intrinsic(name, f"i{want}", f"{kind} {rounded}")
    if bits == 64 or want == 64:
        missing = e.new(f"fcmp uno {kind} {value}, {value}")
        result = e.new(f"select i1 {missing}, i{want} {-(1 << want - 1)}, i{want} {result}")
    e.set_integer(i.operands[0], result, want, target[0] == "s")


@TABLE.row("cvt[.rni|rzi|rmi|rpi][.ftz][.sat].f32.f32", "cvt[.rni|rzi|rmi|rpi][.sat].f64.f64")
def _round_to_whole(e: Emitter, i: Instruction, f: Form) -> None:
    kind = _KIND[f.bits]
    value = e.real(i.operands[1], f.bits)
    if "ftz" in f:
        value = flush(e, value)
    rounding = f.choose(*_TO_INTEGER)
    if rounding:
        value = e.intrinsic(f"llvm.{_TO_INTEGER[rounding]}.f{f.bits}", kind, f"{kind} {value}")
    if "sat" in f:
        value = saturate(e, value, f.bits)
    e.set_real(i.operands[0], value, f.bits)


@TABLE.row("cvt.<rn|rz|rm|rp>[.ftz][.sat].f32.f64")
def _narrow(e: Emitter, i: Instruction, f: Form) -> None:
    value = e.real(i.operands[1], 64)
    rounding = f.choose("rz", "rm", "rp")

    def compute(value: str) -> str:
        if rounding:
            return e.runtime(f"cl_narrow_{rounding}", "float", f"double {value}")
        return e.new(f"fptrunc double {value} to float")

    result = compute(value)
    if "ftz" in f:
        result = flush_by(e, result, compute(lift(e, value, "double")))
    if "sat" in f:
        result = saturate(e, result, 32)
    e.set_real(i.operands[0], result, 32)


@TABLE.row("cvt[.ftz][.sat].f64.f32")
def _widen(e: Emitter, i: Instruction, f: Form) -> None:
    source = i.operands[1]
    value = e.real(source, 32)
    missing = ""
    if "ftz" in f or source in e.plan.computed:  # a NaN is, or becomes, the device's
        missing = e.new(f"fcmp uno float {value}, {value}")
    if "ftz" in f:
        value = flush(e, value)
    result = e.new(f"fpext float {value} to double")
    if "sat" in f:
        result = saturate(e, result, 64)
    elif missing:
        bits = e.new(f"bitcast double {result} to i64")
        bits = e.new(f"select i1 {missing}, i64 {_WIDE_NAN}, i64 {bits}")
        result = e.new(f"bitcast i64 {bits} to double")
    e.set_real(i.operands[0], result, 64)
