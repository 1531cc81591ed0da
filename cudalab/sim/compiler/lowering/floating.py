"""Floating-point arithmetic (PTX ISA, "Floating-Point Instructions").

Results are rounded as written (``.rn`` by default); ``fma`` rounds once. Directed rounding goes through functions of
the runtime object that switch the processor's rounding mode. ``approx`` and ``full`` operations are at least as exact
as on hardware: they use the host's division, square root and C library.

``.ftz`` flushes subnormal inputs and results to zero of their sign. A result is subnormal when it is too small after
rounding to 24 bits (as on an H200, and on x86): products, quotients and conversions are computed a second time, lifted
by 2**24, to see that, because gradual underflow rounds to fewer bits and can reach the least normal number. A NaN
result carries the host's payload until it is stored or read as an integer (``canonical``), where it becomes the
device's ``0x7fffffff``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cudalab.sim.compiler.lowering.slow_ways import note_slow_way
from cudalab.sim.compiler.passes.flushing import IN_HARDWARE
from cudalab.sim.compiler.ptx.nodes import Instruction
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.emitter import Emitter

TABLE = Table()
_KIND = {32: "float", 64: "double"}
_SMALLEST_NORMAL = "0x3810000000000000"  # 2**-126
_SMALLEST_LIFTED = "0x3990000000000000"  # 2**-102
LIFT = "0x4170000000000000"  # 2**24
_LARGEST_DIVISOR = "0x47D0000000000000"  # 2**126
_ROUND = "[.rn|rz|rm|rp]"


def flush(e: Emitter, value: str) -> str:
    """A float with subnormals replaced by zero of the same sign."""
    size = e.intrinsic("llvm.fabs.f32", "float", f"float {value}")
    tiny = e.new(f"fcmp olt float {size}, {_SMALLEST_NORMAL}")
    zero = e.intrinsic("llvm.copysign.f32", "float", "float 0.0", f"float {value}")
    return e.new(f"select i1 {tiny}, float {zero}, float {value}")


def flush_by(e: Emitter, value: str, lifted: str) -> str:
    """``value``, or zero of its sign where ``lifted``, the same result times 2**24, says that it is subnormal."""
    size = e.intrinsic("llvm.fabs.f32", "float", f"float {lifted}")
    tiny = e.new(f"fcmp olt float {size}, {_SMALLEST_LIFTED}")
    zero = e.intrinsic("llvm.copysign.f32", "float", "float 0.0", f"float {value}")
    return e.new(f"select i1 {tiny}, float {zero}, float {value}")


def lift(e: Emitter, value: str, kind: str = "float") -> str:
    """``value`` times 2**24."""
    return e.new(f"fmul {kind} {value}, {LIFT}")


def saturate(e: Emitter, value: str, bits: int) -> str:
    """Clamp to [0, 1]; NaN becomes 0."""
    kind = _KIND[bits]
    positive = e.new(f"fcmp ogt {kind} {value}, 0.0")
    value = e.new(f"select i1 {positive}, {kind} {value}, {kind} 0.0")
    large = e.new(f"fcmp ogt {kind} {value}, 1.0")
    return e.new(f"select i1 {large}, {kind} 1.0, {kind} {value}")


def inputs(e: Emitter, i: Instruction, f: Form, count: int) -> list[str]:
    """The floating-point operands, flushed if the form says so."""
    found = [e.real(operand, f.bits) for operand in i.operands[1 : 1 + count]]
    return [flush(e, value) for value in found] if _flushes(e, f) else found


def _flushes(e: Emitter, f: Form) -> bool:
    """Whether subnormals must be flushed in software."""
    return "ftz" in f and f.bits == 32 and not (e.unit.hardware_flush and f.row.name in IN_HARDWARE)


def finish(e: Emitter, target: Any, f: Form, value: str, lifted: Callable[[], str] | None = None) -> None:
    """Apply ``.ftz`` and ``.sat`` to a result and store it. ``lifted`` computes the result times 2**24, where rounding
    may bring a subnormal result up to a normal one."""
    if _flushes(e, f):
        value = flush_by(e, value, lifted()) if lifted else flush(e, value)
    if "sat" in f:
        value = saturate(e, value, f.bits)
    e.set_real(target, value, f.bits)


def _directed(e: Emitter, operation: str, rounding: str, bits: int, values: list[str]) -> str:
    """An operation with ``.rz``, ``.rm`` or ``.rp``, computed by the runtime object."""
    kind = _KIND[bits]
    name = f"cl_{operation}_{rounding}_f{bits}"
    return e.runtime(name, kind, *[f"{kind} {value}" for value in values])


@TABLE.row(f"add{_ROUND}[.ftz][.sat].f32", f"sub{_ROUND}[.ftz][.sat].f32", f"mul{_ROUND}[.ftz][.sat].f32")
@TABLE.row(f"add{_ROUND}.f64", f"sub{_ROUND}.f64", f"mul{_ROUND}.f64", "div.<rn|rz|rm|rp>.f64")
@TABLE.row("div.<rn|rz|rm|rp|approx|full>[.ftz].f32")
def _binary(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = inputs(e, i, f, 2)
    rounding = f.choose("rz", "rm", "rp")

    def compute(a: str) -> str:
        if rounding:
            return _directed(e, f.row.name, rounding, f.bits, [a, b])
        return e.new(f"f{f.row.name} {_KIND[f.bits]} {a}, {b}")

    result = compute(a)
    if "approx" in f:  # beyond 2**126 a divisor's reciprocal is zero
        size = e.intrinsic("llvm.fabs.f32", "float", f"float {b}")
        large = e.new(f"fcmp ogt float {size}, {_LARGEST_DIVISOR}")
        zero = e.intrinsic("llvm.copysign.f32", "float", "float 0.0", f"float {b}")
        result = e.new(f"select i1 {large}, float {e.new(f'fmul float {a}, {zero}')}, float {result}")
    if f.row.name == "div":
        note_slow_way(e, i, f.bits, [a, b], result)
    exact = f.row.name in ("add", "sub")  # where the result is subnormal
    finish(e, i.operands[0], f, result, None if exact else lambda: compute(lift(e, a)))


@TABLE.row("fma.<rn|rz|rm|rp>[.ftz][.sat].f32", "fma.<rn|rz|rm|rp>.f64")
@TABLE.row("mad.<rn|rz|rm|rp>[.ftz][.sat].f32", "mad.<rn|rz|rm|rp>.f64")
def _fused(e: Emitter, i: Instruction, f: Form) -> None:
    a, b, c = inputs(e, i, f, 3)
    kind = _KIND[f.bits]
    rounding = f.choose("rz", "rm", "rp")

    def compute(a: str, c: str) -> str:
        if rounding:
            return _directed(e, "fma", rounding, f.bits, [a, b, c])
        return e.intrinsic(f"llvm.fma.f{f.bits}", kind, *[f"{kind} {value}" for value in (a, b, c)])

    finish(e, i.operands[0], f, compute(a, c), lambda: compute(lift(e, a), lift(e, c)))


@TABLE.row("rcp.<rn|rz|rm|rp|approx>[.ftz].f32", "rcp.<rn|rz|rm|rp>[.ftz].f64")
def _reciprocal(e: Emitter, i: Instruction, f: Form) -> None:
    (a,) = inputs(e, i, f, 1)
    rounding = f.choose("rz", "rm", "rp")

    def compute(one: str) -> str:
        if rounding:
            return _directed(e, "div", rounding, f.bits, [one, a])
        return e.new(f"fdiv {_KIND[f.bits]} {one}, {a}")

    note_slow_way(e, i, f.bits, [a], a)
    finish(e, i.operands[0], f, compute("1.0"), lambda: compute(LIFT))


@TABLE.row("rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64")
def _coarse(e: Emitter, i: Instruction, f: Form) -> None:
    """Uses only the upper word of input and result; subnormal inputs and results are zero."""
    word = e.new(f"and i64 {e.integer(i.operands[1], 64)}, -4294967296")
    exponent = e.new(f"and i64 {word}, {0x7FF << 52}")
    subnormal = e.new(f"icmp eq i64 {exponent}, 0")
    sign = e.new(f"and i64 {word}, {1 << 63}")
    a = e.new(f"bitcast i64 {e.new(f'select i1 {subnormal}, i64 {sign}, i64 {word}')} to double")
    if f.row.name == "rsqrt":
        a = e.intrinsic("llvm.sqrt.f64", "double", f"double {a}")
    quotient = e.new(f"fdiv double 1.0, {a}")
    result = e.new(f"bitcast double {quotient} to i64")
    exponent = e.new(f"and i64 {result}, {0x7FF << 52}")
    tiny = e.new(f"icmp eq i64 {exponent}, 0")
    kept = e.new(f"select i1 {tiny}, i64 {1 << 63}, i64 -4294967296")
    missing = e.new(f"fcmp uno double {quotient}, {quotient}")
    value = e.new(f"and i64 {result}, {kept}")
    e.set_integer(i.operands[0], e.new(f"select i1 {missing}, i64 {0x7FFF_FFFF << 32}, i64 {value}"), 64)


@TABLE.row("sqrt.<rn|rz|rm|rp|approx>[.ftz].f32", "sqrt.<rn|rz|rm|rp>.f64")
def _square_root(e: Emitter, i: Instruction, f: Form) -> None:
    (a,) = inputs(e, i, f, 1)
    rounding = f.choose("rz", "rm", "rp")
    if rounding:
        result = _directed(e, "sqrt", rounding, f.bits, [a])
    else:
        result = e.intrinsic(f"llvm.sqrt.f{f.bits}", _KIND[f.bits], f"{_KIND[f.bits]} {a}")
    note_slow_way(e, i, f.bits, [a], result)
    finish(e, i.operands[0], f, result)


@TABLE.row("rsqrt.approx[.ftz].f32", "rsqrt.approx.f64")
def _reciprocal_square_root(e: Emitter, i: Instruction, f: Form) -> None:
    (a,) = inputs(e, i, f, 1)
    kind = _KIND[f.bits]
    root = e.intrinsic(f"llvm.sqrt.f{f.bits}", kind, f"{kind} {a}")
    finish(e, i.operands[0], f, e.new(f"fdiv {kind} 1.0, {root}"))


_LIBRARY = {"sin": "sinf", "cos": "cosf", "ex2": "exp2f", "lg2": "log2f", "tanh": "tanhf"}


@TABLE.row(*[f"{name}.approx[.ftz].f32" for name in ("sin", "cos", "ex2", "lg2")], "tanh.approx.f32")
def _transcendental(e: Emitter, i: Instruction, f: Form) -> None:
    (a,) = inputs(e, i, f, 1)
    finish(e, i.operands[0], f, e.intrinsic(_LIBRARY[f.row.name], "float", f"float {a}"))


@TABLE.row("abs[.ftz].f32", "abs.f64", "neg[.ftz].f32", "neg.f64")
def _sign(e: Emitter, i: Instruction, f: Form) -> None:
    (a,) = inputs(e, i, f, 1)
    kind = _KIND[f.bits]
    if f.row.name == "abs":
        result = e.intrinsic(f"llvm.fabs.f{f.bits}", kind, f"{kind} {a}")
    else:
        result = e.new(f"fneg {kind} {a}")
        if f.bits == 64:  # a NaN keeps its sign; float NaNs are canonicalised where their bits are observed
            missing = e.new(f"fcmp uno double {a}, {a}")
            result = e.new(f"select i1 {missing}, double {a}, double {result}")
    e.set_real(i.operands[0], result, f.bits)


def extreme(e: Emitter, name: str, a: str, b: str, bits: int, propagates: bool) -> str:
    """The smaller (``min``) or larger (``max``) of two floats (32) or doubles (64); -0 is less than +0. One NaN gives
    the other operand, or with ``propagates`` a NaN.

    Without ``propagates`` it is expanded: on processors with AVX-512, LLVM 22 miscompiles ``maximumnum`` of a NaN and
    an operand known not to be NaN (such as a converted integer), and returns the NaN.
    """
    kind = _KIND[bits]
    if propagates:
        return e.intrinsic(f"llvm.{name}imum.f{bits}", kind, f"{kind} {a}", f"{kind} {b}")
    first = e.new(f"fcmp {'olt' if name == 'min' else 'ogt'} {kind} {a}, {b}")
    result = e.new(f"select i1 {first}, {kind} {a}, {kind} {b}")
    missing = e.new(f"fcmp uno {kind} {b}, {b}")
    result = e.new(f"select i1 {missing}, {kind} {a}, {kind} {result}")
    zeros = e.new(f"fcmp oeq {kind} {a}, {b}")  # equal numbers have equal bits, but for the sign of zero
    left, right = (e.new(f"bitcast {kind} {value} to i{bits}") for value in (a, b))
    both = e.new(f"{'or' if name == 'min' else 'and'} i{bits} {left}, {right}")
    both = e.new(f"bitcast i{bits} {both} to {kind}")
    return e.new(f"select i1 {zeros}, {kind} {both}, {kind} {result}")


@TABLE.row("min[.ftz][.NaN].f32", "min[.ftz][.NaN].xorsign.abs.f32", "min[.ftz][.NaN].abs.f32", "min.f64")
@TABLE.row("max[.ftz][.NaN].f32", "max[.ftz][.NaN].xorsign.abs.f32", "max[.ftz][.NaN].abs.f32", "max.f64")
def _extreme(e: Emitter, i: Instruction, f: Form) -> None:
    """One NaN gives the other operand, unless ``.NaN`` is set; -0 is less than +0."""
    a, b = inputs(e, i, f, 2)
    sign = ""
    if "abs" in f and "xorsign" not in f:
        a, b = (e.intrinsic("llvm.fabs.f32", "float", f"float {value}") for value in (a, b))
    elif "xorsign" in f:
        sign = e.new(f"xor i32 {e.new(f'bitcast float {a} to i32')}, {e.new(f'bitcast float {b} to i32')}")
        a = e.intrinsic("llvm.fabs.f32", "float", f"float {a}")
        b = e.intrinsic("llvm.fabs.f32", "float", f"float {b}")
    result = extreme(e, f.row.name, a, b, f.bits, "NaN" in f)
    if len(i.operands) == 4:  # of three numbers
        (_, _, c) = inputs(e, i, f, 3)
        if "abs" in f:
            c = e.intrinsic("llvm.fabs.f32", "float", f"float {c}")
        result = extreme(e, f.row.name, result, c, f.bits, "NaN" in f)
    if sign:
        signed = e.new(f"bitcast i32 {sign} to float")
        result = e.intrinsic("llvm.copysign.f32", "float", f"float {result}", f"float {signed}")
    e.set_real(i.operands[0], result, f.bits)


@TABLE.row("copysign.<f32|f64>")
def _copy_sign(e: Emitter, i: Instruction, f: Form) -> None:
    """The sign of the first operand, the size of the second."""
    sign, size = (e.real(operand, f.bits) for operand in i.operands[1:3])
    kind = _KIND[f.bits]
    value = e.intrinsic(f"llvm.copysign.f{f.bits}", kind, f"{kind} {size}", f"{kind} {sign}")
    e.set_real(i.operands[0], value, f.bits)


_CLASSES = {  # bits of llvm.is.fpclass
    "notanumber": 0x003,
    "number": 0x3FC,
    "infinite": 0x204,
    "finite": 0x1F8,
    "normal": 0x168,  # zeros count as normal
    "subnormal": 0x090,
}


@TABLE.row("testp.<finite|infinite|number|notanumber|normal|subnormal>.<f32|f64>")
def _test_class(e: Emitter, i: Instruction, f: Form) -> None:
    value = f"{_KIND[f.bits]} {e.real(i.operands[1], f.bits)}"
    mask = _CLASSES[f.choose(*_CLASSES)]
    e.set_boolean(i.operands[0], e.intrinsic(f"llvm.is.fpclass.f{f.bits}", "i1", value, f"i32 {mask}"))
