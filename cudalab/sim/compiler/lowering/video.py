"""Video instructions (PTX ISA, "Scalar Video Instructions" and "SIMD Video Instructions").

A scalar one computes with bytes, halves or words of its operands in more than 32 bits, saturates, and puts the result
into a part of the destination or combines it with a third operand. A SIMD one computes two halves or four bytes, which
may come from both operands in any order, and writes those that a mask names or adds them up.

GPUs since Maxwell implement few of them in hardware; the assembler expands the rest. They are still in use: by
``__vadd2`` and similar functions in CUDA's headers, and by handwritten PTX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudalab.sim.compiler.ptx.nodes import Instruction, Part
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.emitter import Emitter

TABLE = Table()
_TYPES = "<u32|s32>.<u32|s32>.<u32|s32>"
_COMPARE = "eq|ne|lt|le|gt|ge"
_ARITHMETIC = ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
_WIDE = 66
"""Bits that hold every result: an unsigned word shifted left by 32, and a sign."""


def _operand(e: Emitter, operand: Any, signed: bool, bits: int = _WIDE) -> str:
    """A word, or the byte or half of it that a selector names, extended by ``signed``."""
    if not isinstance(operand, Part) or not operand.selector:
        word = e.integer(operand.register if isinstance(operand, Part) else operand, 32)
        return e.new(f"{'sext' if signed else 'zext'} i32 {word} to i{bits}")
    width, position = (8 if operand.selector[0] == "b" else 16), int(operand.selector[1:])
    if len(operand.selector) > 2 or position * width >= 32:
        raise e.error(f"{operand} is no byte or half of a register")
    part = e.new(f"lshr i32 {e.integer(operand.register, 32)}, {width * position}")
    return e.new(f"{'sext' if signed else 'zext'} i{width} {e.new(f'trunc i32 {part} to i{width}')} to i{bits}")


def _clamp(e: Emitter, value: str, signed: bool, width: int, bits: int) -> str:
    """``value``, of ``bits`` bits, limited to the numbers of ``width`` bits."""
    kind = f"i{bits}"
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    value = e.intrinsic(f"llvm.smax.{kind}", kind, f"{kind} {value}", f"{kind} {low}")
    return e.intrinsic(f"llvm.smin.{kind}", kind, f"{kind} {value}", f"{kind} {high}")


def _computed(e: Emitter, name: str, a: str, b: str, bits: int) -> str:
    kind = f"i{bits}"
    if name in ("vadd", "vsub"):
        return e.new(f"{name[1:]} {kind} {a}, {b}")
    if name == "vavrg":  # halves are rounded away from zero up, down towards it
        total = e.new(f"add {kind} {a}, {b}")
        up = e.new(f"zext i1 {e.new(f'icmp sge {kind} {total}, 0')} to {kind}")
        return e.new(f"ashr {kind} {e.new(f'add {kind} {total}, {up}')}, 1")
    if name in ("vmin", "vmax"):
        return e.intrinsic(f"llvm.s{name[1:]}.{kind}", kind, f"{kind} {a}", f"{kind} {b}")
    difference = e.new(f"sub {kind} {a}, {b}")
    return e.intrinsic(f"llvm.abs.{kind}", kind, f"{kind} {difference}", "i1 false")


# -- scalar


def _finish(e: Emitter, i: Instruction, f: Form, value: str, signed: bool) -> None:
    """Saturate, combine with the last operand, and write all of the destination or a part."""
    target = i.operands[0]
    selector = target.selector if isinstance(target, Part) else ""
    width = {"b": 8, "h": 16, "": 32}[selector[:1]]
    if "sat" in f:
        value = _clamp(e, value, signed, width, _WIDE)
    word = e.new(f"trunc i{_WIDE} {value} to i32")
    # the secondary operation precedes the types in vset, and follows them elsewhere
    second = f.opcode.rsplit(".", 1)[1]
    if second in ("add", "min", "max"):
        c = e.integer(i.operands[3], 32)
        if second == "add":
            word = e.new(f"add i32 {word}, {c}")
        else:
            word = e.intrinsic(f"llvm.{'s' if signed else 'u'}{second}.i32", "i32", f"i32 {word}", f"i32 {c}")
    elif selector:
        position = int(selector[1:]) * width
        mask = (1 << width) - 1
        rest = e.new(f"and i32 {e.integer(i.operands[3], 32)}, {0xFFFF_FFFF ^ mask << position}")
        part = e.new(f"shl i32 {e.new(f'and i32 {word}, {mask}')}, {position}")
        word = e.new(f"or i32 {rest}, {part}")
    e.set_integer(target.register if isinstance(target, Part) else target, word, 32)


@TABLE.row(*[f"{name}.{_TYPES}[.sat][.add|min|max]" for name in _ARITHMETIC])
def _scalar(e: Emitter, i: Instruction, f: Form) -> None:
    result, *sources = (kind == "s32" for kind in f.types)
    a, b = (_operand(e, operand, signed) for operand, signed in zip(i.operands[1:3], sources, strict=True))
    _finish(e, i, f, _computed(e, f.row.name, a, b, _WIDE), result)


@TABLE.row(*[f"{name}.<u32|s32>.<u32|s32>.u32[.sat].<clamp|wrap>[.add|min|max]" for name in ("vshl", "vshr")])
def _shift(e: Emitter, i: Instruction, f: Form) -> None:
    a = _operand(e, i.operands[1], f.types[1] == "s32")
    amount = _operand(e, i.operands[2], False)
    kind = f"i{_WIDE}"
    if "wrap" in f:
        amount = e.new(f"and {kind} {amount}, 31")
    else:
        amount = e.intrinsic(f"llvm.umin.{kind}", kind, f"{kind} {amount}", f"{kind} 32")
    value = e.new(f"{'shl' if f.row.name == 'vshl' else 'ashr'} {kind} {a}, {amount}")
    _finish(e, i, f, value, f.types[0] == "s32")


@TABLE.row(f"vset.<u32|s32>.<u32|s32>.<{_COMPARE}>[.add|min|max]")
def _compare(e: Emitter, i: Instruction, f: Form) -> None:
    a, b = (_operand(e, operand, kind == "s32") for operand, kind in zip(i.operands[1:3], f.types, strict=True))
    outcome = e.new(f"icmp {_test(f)} i{_WIDE} {a}, {b}")
    _finish(e, i, f, e.new(f"zext i1 {outcome} to i{_WIDE}"), signed=False)


def _test(f: Form) -> str:
    name = f.choose(*_COMPARE.split("|"))
    return name if name in ("eq", "ne") else f"s{name}"


@TABLE.row(f"vmad.{_TYPES}[.po][.sat][.shr7|shr15]")
def _multiply_add(e: Emitter, i: Instruction, f: Form) -> None:
    """``.po`` adds one more; a negated product or addend is a complement plus one."""
    kinds = [kind == "s32" for kind in f.types]
    negated = [isinstance(operand, Part) and operand.negated for operand in i.operands[1:4]]
    opposite = negated[0] != negated[1]
    signed = kinds[1] or kinds[2] or opposite or negated[2]
    a, b = (_operand(e, o, s, 128) for o, s in zip(i.operands[1:3], kinds[1:], strict=True))
    addend = _operand(e, i.operands[3], signed, 128)
    value = e.new(f"mul i128 {a}, {b}")
    if opposite:
        value = e.new(f"sub i128 0, {value}")
    if negated[2]:
        addend = e.new(f"sub i128 0, {addend}")
    value = e.new(f"add i128 {value}, {addend}")
    if "po" in f:
        value = e.new(f"add i128 {value}, 1")
    scale = {"shr7": 7, "shr15": 15, "": 0}[f.choose("shr7", "shr15")]
    if scale:
        value = e.new(f"ashr i128 {value}, {scale}")
    if "sat" in f:
        value = _clamp(e, value, signed, 32, 128)
    e.set_integer(i.operands[0], e.new(f"trunc i128 {value} to i32"), 32)


# -- SIMD


def _lanes(e: Emitter, i: Instruction, f: Form, position: int, count: int, signed: bool) -> list[str]:
    """The elements that operand ``position`` selects, lowest first, in 32 bits."""
    width = 32 // count
    operand = i.operands[position]
    chosen = range(count * (position - 1), count * position)  # of both operands, those of the first come first
    if isinstance(operand, Part) and operand.selector:
        digits = operand.selector[1:]
        if len(digits) != count:
            raise e.error(f"{operand} does not name {count} parts")
        chosen = [int(digit) for digit in reversed(digits)]  # type: ignore[assignment]
    sources = [e.integer(o.register if isinstance(o, Part) else o, 32) for o in i.operands[1:3]]
    found = []
    for number in chosen:
        part = e.new(f"lshr i32 {sources[number // count]}, {width * (number % count)}")
        part = e.new(f"trunc i32 {part} to i{width}")
        found.append(e.new(f"{'sext' if signed else 'zext'} i{width} {part} to i32"))
    return found


def _join(e: Emitter, i: Instruction, f: Form, values: list[str]) -> None:
    """Write the parts that the mask names, the others from the last operand; or, with ``.add``, their sum and it."""
    target = i.operands[0]
    count = len(values)
    width = 32 // count
    named = set(range(count))
    if isinstance(target, Part) and target.selector:
        named = {int(digit) for digit in target.selector[1:]}
    word = e.integer(i.operands[3], 32)
    for number in sorted(named):
        if "add" in f:
            word = e.new(f"add i32 {word}, {values[number]}")
            continue
        mask = (1 << width) - 1
        rest = e.new(f"and i32 {word}, {0xFFFF_FFFF ^ mask << width * number}")
        part = e.new(f"shl i32 {e.new(f'and i32 {values[number]}, {mask}')}, {width * number}")
        word = e.new(f"or i32 {rest}, {part}")
    e.set_integer(target.register if isinstance(target, Part) else target, word, 32)


@TABLE.row(*[f"{name}{count}.{_TYPES}[.sat|add]" for name in (*_ARITHMETIC, "vavrg") for count in (2, 4)])
def _simd(e: Emitter, i: Instruction, f: Form) -> None:
    name, count = f.row.name[:-1], int(f.row.name[-1])
    result, *sources = (kind == "s32" for kind in f.types)
    a, b = (_lanes(e, i, f, number + 1, count, signed) for number, signed in enumerate(sources))
    values = [_computed(e, name, x, y, 32) for x, y in zip(a, b, strict=True)]
    if "sat" in f:
        values = [_clamp(e, value, result, 32 // count, 32) for value in values]
    _join(e, i, f, values)


@TABLE.row(*[f"vset{count}.<u32|s32>.<u32|s32>.<{_COMPARE}>[.add]" for count in (2, 4)])
def _simd_compare(e: Emitter, i: Instruction, f: Form) -> None:
    count = int(f.row.name[-1])
    a, b = (_lanes(e, i, f, number + 1, count, kind == "s32") for number, kind in enumerate(f.types))
    values = [e.new(f"zext i1 {e.new(f'icmp {_test(f)} i32 {x}, {y}')} to i32") for x, y in zip(a, b, strict=True)]
    _join(e, i, f, values)
