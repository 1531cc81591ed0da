"""Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision Integer Arithmetic").

Quotient and remainder of a division by zero are all ones, as on hardware (seen on an H200), instead of a signal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.ptx.nodes import Instruction
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.emitter import Emitter

TABLE = Table()
_ALL = "<u16|s16|u32|s32|u64|s64>"
_WIDE = "<u16|s16|u32|s32>"
_CARRY = "<u32|s32|u64|s64>"
_SIGNED = "<s16|s32|s64>"


def _operands(e: Emitter, i: Instruction, f: Form, count: int) -> list[str]:
    return [e.integer(operand, f.bits) for operand in i.operands[1 : 1 + count]]


def _set(e: Emitter, i: Instruction, f: Form, value: str) -> None:
    e.set_integer(i.operands[0], value, f.bits, f.signed)


@TABLE.row(f"add.{_ALL}", f"sub.{_ALL}", f"mul.lo.{_ALL}")
def _simple(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = _operands(e, i, f, 2)
    _set(e, i, f, e.new(f"{f.row.name} i{f.bits} {a}, {b}"))


@TABLE.row("add.sat.s32", "sub.sat.s32")
def _saturating(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = _operands(e, i, f, 2)
    _set(e, i, f, e.intrinsic(f"llvm.s{f.row.name}.sat.i32", "i32", f"i32 {a}", f"i32 {b}"))


def wide_product(e: Emitter, a: str, b: str, bits: int, signed: bool) -> str:
    """The full product of two integers, in twice their bits."""
    extend = "sext" if signed else "zext"
    x = e.new(f"{extend} i{bits} {a} to i{2 * bits}")
    y = e.new(f"{extend} i{bits} {b} to i{2 * bits}")
    return e.new(f"mul i{2 * bits} {x}, {y}")


def high_product(e: Emitter, a: str, b: str, bits: int, signed: bool) -> str:
    """The upper half of the product."""
    product = wide_product(e, a, b, bits, signed)
    return e.new(f"trunc i{2 * bits} {e.new(f'lshr i{2 * bits} {product}, {bits}')} to i{bits}")


@TABLE.row(f"mul.hi.{_ALL}")
def _multiply_high(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = _operands(e, i, f, 2)
    _set(e, i, f, high_product(e, a, b, f.bits, f.signed))


@TABLE.row(f"mul.wide.{_WIDE}")
def _multiply_wide(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = _operands(e, i, f, 2)
    e.set_integer(i.operands[0], wide_product(e, a, b, f.bits, f.signed), 2 * f.bits, f.signed)


@TABLE.row(f"mad.lo.{_ALL}", f"mad.hi.{_ALL}")
def _multiply_add(e: Emitter, i: Instruction, f: Form) -> None:
    a, b, c = _operands(e, i, f, 3)
    product = high_product(e, a, b, f.bits, f.signed) if "hi" in f else e.new(f"mul i{f.bits} {a}, {b}")
    _set(e, i, f, e.new(f"add i{f.bits} {product}, {c}"))


@TABLE.row("mad.hi.sat.s32")
def _multiply_add_saturating(e: Emitter, i: Instruction, f: Form) -> None:
    a, b, c = _operands(e, i, f, 3)
    product = high_product(e, a, b, 32, True)
    _set(e, i, f, e.intrinsic("llvm.sadd.sat.i32", "i32", f"i32 {product}", f"i32 {c}"))


@TABLE.row(f"mad.wide.{_WIDE}")
def _multiply_add_wide(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = _operands(e, i, f, 2)
    bits = 2 * f.bits
    product = wide_product(e, a, b, f.bits, f.signed)
    e.set_integer(i.operands[0], e.new(f"add i{bits} {product}, {e.integer(i.operands[3], bits)}"), bits, f.signed)


def _product_24(e: Emitter, i: Instruction, f: Form) -> str:
    """``mul24``: 24-bit operands; the low 32 or the upper 32 of 48 bits."""
    wide = []
    for value in _operands(e, i, f, 2):
        low = e.new(f"trunc i32 {value} to i24")
        wide.append(e.new(f"{'sext' if f.signed else 'zext'} i24 {low} to i64"))
    product = e.new(f"mul i64 {wide[0]}, {wide[1]}")
    if "hi" in f:
        product = e.new(f"lshr i64 {product}, 16")
    return e.new(f"trunc i64 {product} to i32")


@TABLE.row("mul24.<lo|hi>.<u32|s32>")
def _multiply_24(e: Emitter, i: Instruction, f: Form) -> None:
    _set(e, i, f, _product_24(e, i, f))


@TABLE.row("mad24.<lo|hi>.<u32|s32>")
def _multiply_add_24(e: Emitter, i: Instruction, f: Form) -> None:
    _set(e, i, f, e.new(f"add i32 {_product_24(e, i, f)}, {e.integer(i.operands[3], 32)}"))


@TABLE.row("mad24.hi.sat.s32")
def _multiply_add_24_saturating(e: Emitter, i: Instruction, f: Form) -> None:
    addend = e.integer(i.operands[3], 32)
    _set(e, i, f, e.intrinsic("llvm.sadd.sat.i32", "i32", f"i32 {_product_24(e, i, f)}", f"i32 {addend}"))


@TABLE.row(f"sad.{_ALL}")
def _absolute_difference(e: Emitter, i: Instruction, f: Form) -> None:
    a, b, c = _operands(e, i, f, 3)
    less = e.new(f"icmp {'slt' if f.signed else 'ult'} i{f.bits} {a}, {b}")
    up, down = e.new(f"sub i{f.bits} {b}, {a}"), e.new(f"sub i{f.bits} {a}, {b}")
    distance = e.new(f"select i1 {less}, i{f.bits} {up}, i{f.bits} {down}")
    _set(e, i, f, e.new(f"add i{f.bits} {c}, {distance}"))


def _divide(e: Emitter, i: Instruction, f: Form) -> tuple[str, str, str, str]:
    """The quotient with a divisor that cannot trap, ``divisor == 0``, and both operands."""
    a, b = _operands(e, i, f, 2)
    kind = f"i{f.bits}"
    zero = e.new(f"icmp eq {kind} {b}, 0")
    safe = e.new(f"select i1 {zero}, {kind} 1, {kind} {b}")
    if not f.signed:
        return e.new(f"udiv {kind} {a}, {safe}"), zero, a, b
    # the smallest integer divided by -1 overflows; it is its own negative
    minus = e.new(f"icmp eq {kind} {safe}, -1")
    safe = e.new(f"select i1 {minus}, {kind} 1, {kind} {safe}")
    quotient = e.new(f"sdiv {kind} {a}, {safe}")
    negative = e.new(f"sub {kind} 0, {a}")
    return e.new(f"select i1 {minus}, {kind} {negative}, {kind} {quotient}"), zero, a, b


@TABLE.row(f"div.{_ALL}")
def _quotient(e: Emitter, i: Instruction, f: Form) -> None:
    quotient, zero, _, _ = _divide(e, i, f)
    _set(e, i, f, e.new(f"select i1 {zero}, i{f.bits} -1, i{f.bits} {quotient}"))


@TABLE.row(f"rem.{_ALL}")
def _remainder(e: Emitter, i: Instruction, f: Form) -> None:
    quotient, zero, a, b = _divide(e, i, f)
    kind = f"i{f.bits}"
    rest = e.new(f"sub {kind} {a}, {e.new(f'mul {kind} {quotient}, {b}')}")
    _set(e, i, f, e.new(f"select i1 {zero}, {kind} -1, {kind} {rest}"))


@TABLE.row(f"abs.{_SIGNED}")
def _absolute(e: Emitter, i: Instruction, f: Form) -> None:
    (a,) = _operands(e, i, f, 1)
    _set(e, i, f, e.intrinsic(f"llvm.abs.i{f.bits}", f"i{f.bits}", f"i{f.bits} {a}", "i1 false"))


@TABLE.row(f"neg.{_SIGNED}")
def _negate(e: Emitter, i: Instruction, f: Form) -> None:
    (a,) = _operands(e, i, f, 1)
    _set(e, i, f, e.new(f"sub i{f.bits} 0, {a}"))


@TABLE.row(f"min.{_ALL}", f"max.{_ALL}")
def _extreme(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = _operands(e, i, f, 2)
    name = f"llvm.{'s' if f.signed else 'u'}{f.row.name}.i{f.bits}"
    _set(e, i, f, e.intrinsic(name, f"i{f.bits}", f"i{f.bits} {a}", f"i{f.bits} {b}"))


@TABLE.row("min.relu.s32", "min.s32.relu", "max.relu.s32", "max.s32.relu")
def _extreme_or_zero(e: Emitter, i: Instruction, f: Form) -> None:
    """``.relu``: at least 0."""
    a, b = _operands(e, i, f, 2)
    for name, other in ((f.row.name, b), ("max", "0")):
        a = e.intrinsic(f"llvm.s{name}.i32", "i32", f"i32 {a}", f"i32 {other}")
    _set(e, i, f, a)


# -- pairs of 16-bit integers in one register


@TABLE.row("add.<u16x2|s16x2>", "min.<u16x2|s16x2>", "max.<u16x2|s16x2>")
@TABLE.row("min.relu.s16x2", "min.s16x2.relu", "max.relu.s16x2", "max.s16x2.relu")
def _pair(e: Emitter, i: Instruction, f: Form) -> None:
    """Each half by itself."""
    pair = "<2 x i16>"
    a, b = (e.new(f"bitcast i32 {e.integer(operand, 32)} to {pair}") for operand in i.operands[1:3])
    if f.row.name == "add":
        result = e.new(f"add {pair} {a}, {b}")
    else:
        order = ("s" if "s16x2" in f else "u") + ("lt" if f.row.name == "min" else "gt")
        result = e.new(f"select <2 x i1> {e.new(f'icmp {order} {pair} {a}, {b}')}, {pair} {a}, {pair} {b}")
    if "relu" in f:
        positive = e.new(f"icmp sgt {pair} {result}, zeroinitializer")
        result = e.new(f"select <2 x i1> {positive}, {pair} {result}, {pair} zeroinitializer")
    e.set_integer(i.operands[0], e.new(f"bitcast {pair} {result} to i32"), 32)


# -- extended precision: the condition code holds the carry. A subtraction adds the complement, so its carry is "no
# borrow"; NVIDIA's own 128-bit division reads the carry of subc.cc with addc, and is right on hardware.


def _carry_slot(e: Emitter) -> str:
    return e.cached("carry", Level.LAUNCH, lambda: e.alloca("i1"))


def _carry_in(e: Emitter, bits: int, subtract: bool) -> str:
    carry = e.new(f"load i1, ptr {_carry_slot(e)}")
    if subtract:
        carry = e.new(f"xor i1 {carry}, true")
    return e.new(f"zext i1 {carry} to i{bits}")


def _step(e: Emitter, operation: str, bits: int, a: str, b: str) -> tuple[str, str]:
    """Sum or difference and its carry or borrow."""
    kind = f"i{bits}"
    pair = e.intrinsic_pair(f"llvm.u{operation}.with.overflow.{kind}", kind, a, b)
    return e.new(f"extractvalue {{{kind}, i1}} {pair}, 0"), e.new(f"extractvalue {{{kind}, i1}} {pair}, 1")


def _chain(e: Emitter, i: Instruction, f: Form, operation: str, a: str, b: str, carry_in: bool) -> None:
    result, carry = _step(e, operation, f.bits, a, b)
    if carry_in:
        result, again = _step(e, operation, f.bits, result, _carry_in(e, f.bits, operation == "sub"))
        carry = e.new(f"or i1 {carry}, {again}")
    if "cc" in f:
        if operation == "sub":
            carry = e.new(f"xor i1 {carry}, true")
        e.emit(f"store i1 {carry}, ptr {_carry_slot(e)}")
    _set(e, i, f, result)


@TABLE.row(f"add.cc.{_CARRY}", f"sub.cc.{_CARRY}")
def _carry_out(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = _operands(e, i, f, 2)
    _chain(e, i, f, f.row.name, a, b, carry_in=False)


@TABLE.row(f"addc[.cc].{_CARRY}", f"subc[.cc].{_CARRY}", "addc.<u16|s16>", "subc.<u16|s16>")
def _with_carry(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = _operands(e, i, f, 2)
    _chain(e, i, f, f.row.name[:3], a, b, carry_in=True)


@TABLE.row(f"mad.<lo|hi>.cc.{_CARRY}", f"madc.<lo|hi>[.cc].{_CARRY}")
def _multiply_add_carry(e: Emitter, i: Instruction, f: Form) -> None:
    a, b, c = _operands(e, i, f, 3)
    product = high_product(e, a, b, f.bits, f.signed) if "hi" in f else e.new(f"mul i{f.bits} {a}, {b}")
    _chain(e, i, f, "add", product, c, carry_in=f.row.name == "madc")


# -- dot products of small integers


def _parts(e: Emitter, value: str, width: int, signed: bool, first: int, count: int) -> list[str]:
    found = []
    for number in range(first, first + count):
        shifted = e.new(f"lshr i32 {value}, {number * width}") if number else value
        low = e.new(f"trunc i32 {shifted} to i{width}")
        found.append(e.new(f"{'sext' if signed else 'zext'} i{width} {low} to i32"))
    return found


def _dot(e: Emitter, i: Instruction, a: list[str], b: list[str], signed: bool) -> None:
    total = e.integer(i.operands[3], 32)
    for x, y in zip(a, b, strict=True):
        total = e.new(f"add i32 {total}, {e.new(f'mul i32 {x}, {y}')}")
    e.set_integer(i.operands[0], total, 32, signed)


@TABLE.row("dp4a.<u32|s32>.<u32|s32>")
def _dot_of_bytes(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = e.integer(i.operands[1], 32), e.integer(i.operands[2], 32)
    signed = [kind == "s32" for kind in f.types]
    _dot(e, i, _parts(e, a, 8, signed[0], 0, 4), _parts(e, b, 8, signed[1], 0, 4), any(signed))


@TABLE.row("dp2a.<lo|hi>.<u32|s32>.<u32|s32>")
def _dot_of_halves(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = e.integer(i.operands[1], 32), e.integer(i.operands[2], 32)
    signed = [kind == "s32" for kind in f.types]
    first = 2 if "hi" in f else 0
    _dot(e, i, _parts(e, a, 16, signed[0], 0, 2), _parts(e, b, 8, signed[1], first, 2), any(signed))
