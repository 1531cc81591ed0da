"""Logic, shifts, bit fields and byte permutation (PTX ISA, "Logic and Shift Instructions" and parts of "Integer
Arithmetic Instructions").

Shift amounts are not taken modulo the width: from the width on, everything is shifted out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.compiler.ptx.nodes import Instruction
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.emitter import Emitter

TABLE = Table()
_BITS = "<b16|b32|b64>"


@TABLE.row(f"and.{_BITS}", f"or.{_BITS}", f"xor.{_BITS}")
def _logic(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = e.integer(i.operands[1], f.bits), e.integer(i.operands[2], f.bits)
    e.set_integer(i.operands[0], e.new(f"{f.row.name} i{f.bits} {a}, {b}"), f.bits)


@TABLE.row("and.pred", "or.pred", "xor.pred")
def _logic_of_predicates(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = e.boolean(i.operands[1]), e.boolean(i.operands[2])
    e.set_boolean(i.operands[0], e.new(f"{f.row.name} i1 {a}, {b}"))


@TABLE.row(f"not.{_BITS}")
def _complement(e: Emitter, i: Instruction, f: Form) -> None:
    e.set_integer(i.operands[0], e.new(f"xor i{f.bits} {e.integer(i.operands[1], f.bits)}, -1"), f.bits)


@TABLE.row("not.pred")
def _complement_of_predicate(e: Emitter, i: Instruction, f: Form) -> None:
    e.set_boolean(i.operands[0], e.new(f"xor i1 {e.boolean(i.operands[1])}, true"))


@TABLE.row(f"cnot.{_BITS}")
def _logical_not(e: Emitter, i: Instruction, f: Form) -> None:
    zero = e.new(f"icmp eq i{f.bits} {e.integer(i.operands[1], f.bits)}, 0")
    e.set_integer(i.operands[0], e.new(f"zext i1 {zero} to i{f.bits}"), f.bits)


def _two_inputs(e: Emitter, table: int, a: str, b: str) -> str:
    """The function of two words with the 4-bit truth ``table``; bit ``2·a + b``."""
    if table & 8 and table & 1:  # compute the complement, which has fewer terms
        if table == 15:
            return "-1"
        return e.new(f"xor i32 {_two_inputs(e, ~table & 15, a, b)}, -1")
    simple = {0: "0", 12: a, 10: b}
    if table in simple:
        return simple[table]
    operations = {8: "and", 14: "or", 6: "xor"}
    if table in operations:
        return e.new(f"{operations[table]} i32 {a}, {b}")
    if table in (3, 5):
        return e.new(f"xor i32 {a if table == 3 else b}, -1")
    if table in (4, 2):  # a and not b; b and not a
        x, y = (a, b) if table == 4 else (b, a)
        return e.new(f"and i32 {x}, {e.new(f'xor i32 {y}, -1')}")
    return e.new(f"xor i32 {_two_inputs(e, ~table & 15, a, b)}, -1")


@TABLE.row("lop3.b32", "lop3.<or|and>.b32")
def _three_inputs(e: Emitter, i: Instruction, f: Form) -> None:
    """Bit ``4·a + 2·b + c`` of the table; split by ``a`` into two functions of b and c."""
    a, b, c = (e.integer(operand, 32) for operand in i.operands[1:4])
    table = e.literal_of(i.operands[4])
    if table is None:
        raise e.error("the table of lop3 must be a literal")
    when_clear, when_set = table & 15, table >> 4 & 15
    low = _two_inputs(e, when_clear, b, c)
    if when_clear == when_set:
        result = low
    else:
        change = e.new(f"and i32 {a}, {_two_inputs(e, when_clear ^ when_set, b, c)}")
        result = e.new(f"xor i32 {low}, {change}")
    target = i.operands[0]
    if f.choose("or", "and"):  # `d|p`: is the result not 0, combined with the last operand
        outcome = e.new(f"icmp ne i32 {result}, 0")
        predicate = e.boolean(i.operands[5])
        e.set_boolean(target.second, e.new(f"{f.choose('or', 'and')} i1 {outcome}, {predicate}"))
        target = target.first
    e.set_integer(target, result, 32)


@TABLE.row(f"shl.{_BITS}")
def _shift_left(e: Emitter, i: Instruction, f: Form) -> None:
    _shift(e, i, f, "shl")


@TABLE.row("shr.<b16|b32|b64|u16|u32|u64|s16|s32|s64>")
def _shift_right(e: Emitter, i: Instruction, f: Form) -> None:
    _shift(e, i, f, "ashr" if f.signed else "lshr")


def _shift(e: Emitter, i: Instruction, f: Form, operation: str) -> None:
    kind = f"i{f.bits}"
    a = e.integer(i.operands[1], f.bits)
    literal = e.literal_of(i.operands[2])
    last = f.bits - 1
    if literal is not None:
        amount = literal & 0xFFFFFFFF
        if amount > last and operation != "ashr":
            e.set_integer(i.operands[0], "0", f.bits)
            return
        e.set_integer(i.operands[0], e.new(f"{operation} {kind} {a}, {min(amount, last)}"), f.bits, f.signed)
        return
    amount_32 = e.integer(i.operands[2], 32)
    clamped = e.intrinsic("llvm.umin.i32", "i32", f"i32 {amount_32}", f"i32 {last}")
    amount_here = clamped if f.bits == 32 else e.new(f"{'zext' if f.bits > 32 else 'trunc'} i32 {clamped} to {kind}")
    result = e.new(f"{operation} {kind} {a}, {amount_here}")
    if operation != "ashr":
        inside = e.new(f"icmp ule i32 {amount_32}, {last}")
        result = e.new(f"select i1 {inside}, {kind} {result}, {kind} 0")
    e.set_integer(i.operands[0], result, f.bits, f.signed)


@TABLE.row("shf.<l|r>.<clamp|wrap>.b32")
def _funnel_shift(e: Emitter, i: Instruction, f: Form) -> None:
    low, high, amount = (e.integer(operand, 32) for operand in i.operands[1:4])
    name = "llvm.fshl.i32" if "l" in f else "llvm.fshr.i32"
    result = e.intrinsic(name, "i32", f"i32 {high}", f"i32 {low}", f"i32 {amount}")
    if "clamp" in f:
        inside = e.new(f"icmp ult i32 {amount}, 32")
        result = e.new(f"select i1 {inside}, i32 {result}, i32 {low if 'l' in f else high}")
    e.set_integer(i.operands[0], result, 32)


# -- counting and searching


@TABLE.row("popc.<b32|b64>", "clz.<b32|b64>")
def _count(e: Emitter, i: Instruction, f: Form) -> None:
    kind = f"i{f.bits}"
    a = e.integer(i.operands[1], f.bits)
    if f.row.name == "popc":
        count = e.intrinsic(f"llvm.ctpop.{kind}", kind, f"{kind} {a}")
    else:
        count = e.intrinsic(f"llvm.ctlz.{kind}", kind, f"{kind} {a}", "i1 false")
    if f.bits == 64:
        count = e.new(f"trunc i64 {count} to i32")
    e.set_integer(i.operands[0], count, 32)


@TABLE.row("bfind[.shiftamt].<u32|s32|u64|s64>")
def _find_leading(e: Emitter, i: Instruction, f: Form) -> None:
    """The highest bit that differs from the sign; -1 when there is none."""
    kind = f"i{f.bits}"
    a = e.integer(i.operands[1], f.bits)
    if f.signed:
        a = e.new(f"xor {kind} {a}, {e.new(f'ashr {kind} {a}, {f.bits - 1}')}")
    zeros = e.intrinsic(f"llvm.ctlz.{kind}", kind, f"{kind} {a}", "i1 false")
    if f.bits == 64:
        zeros = e.new(f"trunc i64 {zeros} to i32")
    found = zeros if "shiftamt" in f else e.new(f"sub i32 {f.bits - 1}, {zeros}")
    none = e.new(f"icmp eq {kind} {a}, 0")
    e.set_integer(i.operands[0], e.new(f"select i1 {none}, i32 -1, i32 {found}"), 32)


@TABLE.row("brev.<b32|b64>")
def _reverse(e: Emitter, i: Instruction, f: Form) -> None:
    kind = f"i{f.bits}"
    value = e.intrinsic(f"llvm.bitreverse.{kind}", kind, f"{kind} {e.integer(i.operands[1], f.bits)}")
    e.set_integer(i.operands[0], value, f.bits)


@TABLE.row("fns.b32")
def _nth_set(e: Emitter, i: Instruction, f: Form) -> None:
    """The position of the n-th set bit of a mask from a base, upwards or (n < 0) downwards; -1 if there is none."""
    mask, base, number = (e.integer(operand, 32) for operand in i.operands[1:4])
    base = e.new(f"and i32 {base}, 31")
    down = e.new(f"icmp slt i32 {number}, 0")
    reverse = e.intrinsic("llvm.bitreverse.i32", "i32", f"i32 {mask}")
    bits = e.new(f"select i1 {down}, i32 {reverse}, i32 {mask}")
    start = e.new(f"select i1 {down}, i32 {e.new(f'sub i32 31, {base}')}, i32 {base}")
    found = e.new(f"and i32 {bits}, {e.new(f'shl i32 -1, {start}')}")
    steps = e.intrinsic("llvm.abs.i32", "i32", f"i32 {number}", "i1 false")
    for step in range(1, 32):  # clear the lowest set bit for each bit to be skipped
        rest = e.new(f"and i32 {found}, {e.new(f'sub i32 {found}, 1')}")
        found = e.new(f"select i1 {e.new(f'icmp ugt i32 {steps}, {step}')}, i32 {rest}, i32 {found}")
    found = e.new(f"select i1 {e.new(f'icmp ugt i32 {steps}, 32')}, i32 0, i32 {found}")
    here = e.new(f"and i32 {mask}, {e.new(f'shl i32 1, {base}')}")  # n = 0: the base itself or nothing
    found = e.new(f"select i1 {e.new(f'icmp eq i32 {steps}, 0')}, i32 {here}, i32 {found}")
    place = e.intrinsic("llvm.cttz.i32", "i32", f"i32 {found}", "i1 false")
    place = e.new(f"select i1 {down}, i32 {e.new(f'sub i32 31, {place}')}, i32 {place}")
    none = e.new(f"icmp eq i32 {found}, 0")
    e.set_integer(i.operands[0], e.new(f"select i1 {none}, i32 -1, i32 {place}"), 32)


# -- bit fields


def _field_operand(e: Emitter, operand: object, bits: int) -> str:
    """Position or length of a field. Only its low byte is used for 32-bit fields, all of it for 64-bit ones
    (unspecified in PTX above 255; measured on an H200)."""
    value = e.integer(operand, 32)
    return e.new(f"and i32 {value}, 255") if bits == 32 else e.new(f"zext i32 {value} to i{bits}")


def _shift_out(e: Emitter, operation: str, bits: int, value: str, amount: str) -> str:
    """``value`` shifted; 0 when the amount reaches the width."""
    inside = e.new(f"icmp ult i{bits} {amount}, {bits}")
    safe = e.new(f"select i1 {inside}, i{bits} {amount}, i{bits} 0")
    shifted = e.new(f"{operation} i{bits} {value}, {safe}")
    return e.new(f"select i1 {inside}, i{bits} {shifted}, i{bits} 0")


def _mask(e: Emitter, bits: int, length: str) -> str:
    """``length`` ones from bit 0; all ones when it reaches the width."""
    return e.new(f"xor i{bits} {_shift_out(e, 'shl', bits, '-1', length)}, -1")


def _sign_extend(e: Emitter, bits: int, value: str, length: str) -> str:
    """Extend the low ``length`` bits by their sign; 0 for length 0."""
    kind = f"i{bits}"
    missing = e.intrinsic(f"llvm.usub.sat.{kind}", kind, f"{kind} {bits}", f"{kind} {length}")
    empty = e.new(f"icmp eq {kind} {length}, 0")
    safe = e.new(f"select i1 {empty}, {kind} 0, {kind} {missing}")
    extended = e.new(f"ashr {kind} {e.new(f'shl {kind} {value}, {safe}')}, {safe}")
    return e.new(f"select i1 {empty}, {kind} 0, {kind} {extended}")


@TABLE.row("bfe.<u32|s32|u64|s64>")
def _extract(e: Emitter, i: Instruction, f: Form) -> None:
    a = e.integer(i.operands[1], f.bits)
    position, length = _field_operand(e, i.operands[2], f.bits), _field_operand(e, i.operands[3], f.bits)
    if f.signed:
        kind = f"i{f.bits}"
        clamped = e.intrinsic(f"llvm.umin.{kind}", kind, f"{kind} {position}", f"{kind} {f.bits - 1}")
        result = _sign_extend(e, f.bits, e.new(f"ashr {kind} {a}, {clamped}"), length)
    else:
        field = _shift_out(e, "lshr", f.bits, a, position)
        result = e.new(f"and i{f.bits} {field}, {_mask(e, f.bits, length)}")
    e.set_integer(i.operands[0], result, f.bits, f.signed)


@TABLE.row("bfi.<b32|b64>")
def _insert(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = e.integer(i.operands[1], f.bits), e.integer(i.operands[2], f.bits)
    position, length = _field_operand(e, i.operands[3], f.bits), _field_operand(e, i.operands[4], f.bits)
    kind = f"i{f.bits}"
    mask = _shift_out(e, "shl", f.bits, _mask(e, f.bits, length), position)
    field = e.new(f"and {kind} {_shift_out(e, 'shl', f.bits, a, position)}, {mask}")
    rest = e.new(f"and {kind} {b}, {e.new(f'xor {kind} {mask}, -1')}")
    e.set_integer(i.operands[0], e.new(f"or {kind} {field}, {rest}"), f.bits)


def _bound(e: Emitter, operand: object, f: Form) -> str:
    """A bit count: at most 32 (``clamp``) or its low 5 bits (``wrap``)."""
    value = e.integer(operand, 32)
    if "wrap" in f:
        return e.new(f"and i32 {value}, 31")
    return e.intrinsic("llvm.umin.i32", "i32", f"i32 {value}", "i32 32")


@TABLE.row("szext.<clamp|wrap>.<u32|s32>")
def _extend(e: Emitter, i: Instruction, f: Form) -> None:
    a, length = e.integer(i.operands[1], 32), _bound(e, i.operands[2], f)
    if f.signed:
        result = _sign_extend(e, 32, a, length)
    else:
        result = e.new(f"and i32 {a}, {_mask(e, 32, length)}")
    e.set_integer(i.operands[0], result, 32, f.signed)


@TABLE.row("bmsk.<clamp|wrap>.b32")
def _field_mask(e: Emitter, i: Instruction, f: Form) -> None:
    position, length = _bound(e, i.operands[1], f), _bound(e, i.operands[2], f)
    e.set_integer(i.operands[0], _shift_out(e, "shl", 32, _mask(e, 32, length), position), 32)


# -- bytes

_PERMUTATIONS = {  # selectors for the last two bits of the third operand
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


@TABLE.row("prmt.b32[.f4e|b4e|rc8|ecl|ecr|rc16]")
def _permute(e: Emitter, i: Instruction, f: Form) -> None:
    low, high = e.integer(i.operands[1], 32), e.integer(i.operands[2], 32)
    wide_low, wide_high = e.new(f"zext i32 {low} to i64"), e.new(f"zext i32 {high} to i64")
    both = e.new(f"or i64 {wide_low}, {e.new(f'shl i64 {wide_high}, 32')}")
    selector = e.integer(i.operands[3], 32)
    mode = f.choose(*_PERMUTATIONS)
    if mode:
        number = e.new(f"and i32 {selector}, 3")
        choices = _PERMUTATIONS[mode]
        selector = str(choices[3])
        for position in (2, 1, 0):
            same = e.new(f"icmp eq i32 {number}, {position}")
            selector = e.new(f"select i1 {same}, i32 {choices[position]}, i32 {selector}")
    result = "0"
    for position in range(4):
        nibble = e.new(f"lshr i32 {selector}, {4 * position}") if position else selector
        index = e.new(f"and i32 {nibble}, 7")
        shift = e.new(f"zext i32 {e.new(f'shl i32 {index}, 3')} to i64")
        byte = e.new(f"trunc i64 {e.new(f'lshr i64 {both}, {shift}')} to i8")
        sign = e.new(f"ashr i8 {byte}, 7")
        replicate = e.new(f"icmp ne i32 {e.new(f'and i32 {nibble}, 8')}, 0")
        chosen = e.new(f"select i1 {replicate}, i8 {sign}, i8 {byte}")
        part = e.new(f"zext i8 {chosen} to i32")
        result = e.new(f"or i32 {result}, {e.new(f'shl i32 {part}, {8 * position}')}")
    e.set_integer(i.operands[0], result, 32)
