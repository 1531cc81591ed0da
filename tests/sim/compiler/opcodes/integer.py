"""Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision Integer Arithmetic").

Models take bits and give bits. ``signed`` reads bits as two's complement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.sim.compiler.opcodes.case import Case, opcodes
from tests.sim.compiler.opcodes.values import BITS

ALL = "<u16|s16|u32|s32|u64|s64>"
WIDE = "<u16|s16|u32|s32>"
CARRY = "<u32|s32|u64|s64>"


def signed(bits: int, value: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def number(type: str, value: int) -> int:
    """The integer that bits of a type stand for."""
    return signed(BITS[type], value) if type[0] == "s" else value & (1 << BITS[type]) - 1


def clamp(type: str, value: int) -> int:
    """The nearest integer of a type, as bits."""
    bits = BITS[type]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type[0] == "s" else (0, (1 << bits) - 1)
    return max(low, min(high, value)) & (1 << bits) - 1


def on_numbers(type: str, operation: Callable[..., int | None], result_bits: int = 0) -> Callable[..., int | None]:
    """A model from an operation on integers; its result is cut to the width."""
    mask = (1 << (result_bits or BITS[type])) - 1

    def model(*operands: int) -> int | None:
        result = operation(*(number(type, operand) for operand in operands))
        return None if result is None else result & mask

    return model


def divide(a: int, b: int) -> int | None:
    """Rounded towards zero; by zero it is unspecified."""
    if b == 0:
        return None
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def remainder(a: int, b: int) -> int | None:
    """Of the sign of the dividend."""
    quotient = divide(a, b)
    return None if quotient is None else a - quotient * b


_TWO = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "div": divide,
    "rem": remainder,
    "min": min,
    "max": max,
}


def plain() -> Iterator[Case]:
    for name, operation in _TWO.items():
        for opcode, (*_, type) in opcodes(f"{name}.{ALL}"):
            yield Case(opcode, type, f"{type} {type}", on_numbers(type, operation))
    for opcode, (*_, type) in opcodes(f"mul.hi.{ALL}"):
        bits = BITS[type]
        yield Case(opcode, type, f"{type} {type}", on_numbers(type, lambda a, b, bits=bits: a * b >> bits))
    for opcode, (*_, type) in opcodes(f"mul.wide.{WIDE}"):
        bits = 2 * BITS[type]
        yield Case(opcode, f"b{bits}", f"{type} {type}", on_numbers(type, lambda a, b: a * b, bits))
    for opcode, (_, half, type) in opcodes(f"mad.<lo|hi>.{ALL}"):
        shift = BITS[type] if half == "hi" else 0
        model = on_numbers(type, lambda a, b, c, shift=shift: (a * b >> shift) + c)
        yield Case(opcode, type, f"{type} {type} {type}", model)
    for opcode, (*_, type) in opcodes(f"mad.wide.{WIDE}"):
        wide = f"{type[0]}{2 * BITS[type]}"
        yield Case(opcode, wide, f"{type} {type} {wide}", _mad_wide(type, wide))
    for opcode, (*_, type) in opcodes(f"sad.{ALL}"):
        yield Case(opcode, type, f"{type} {type} {type}", on_numbers(type, lambda a, b, c: abs(a - b) + c))
    for opcode, (*_, type) in opcodes("abs.<s16|s32|s64>"):
        yield Case(opcode, type, type, on_numbers(type, abs))
    for opcode, (*_, type) in opcodes("neg.<s16|s32|s64>"):
        yield Case(opcode, type, type, on_numbers(type, lambda a: -a))


def _mad_wide(type: str, wide: str) -> Callable[..., int]:
    def model(a: int, b: int, c: int) -> int:
        return (number(type, a) * number(type, b) + c) & (1 << BITS[wide]) - 1

    return model


def saturating() -> Iterator[Case]:
    def limited(operation: Callable[..., int]) -> Callable[..., int]:
        return lambda *operands: clamp("s32", operation(*(signed(32, operand) for operand in operands)))

    yield Case("add.sat.s32", "s32", "s32 s32", limited(lambda a, b: a + b))
    yield Case("sub.sat.s32", "s32", "s32 s32", limited(lambda a, b: a - b))
    yield Case("mad.hi.sat.s32", "s32", "s32 s32 s32", limited(lambda a, b, c: (a * b >> 32) + c))
    model = lambda a, b, c: clamp("s32", _product_24("s32", "hi", a, b) + signed(32, c))  # noqa: E731
    yield Case("mad24.hi.sat.s32", "s32", "s32 s32 s32", model)


def _product_24(type: str, half: str, a: int, b: int) -> int:
    """The low or the high 32 of the 48 bits of a product of 24-bit numbers."""
    x, y = (signed(24, v) if type == "s32" else v & 0xFFFFFF for v in (a, b))
    product = x * y >> (16 if half == "hi" else 0)
    return signed(32, product)


def narrow() -> Iterator[Case]:
    for opcode, (_, half, type) in opcodes("mul24.<lo|hi>.<u32|s32>"):
        yield Case(opcode, type, f"{type} {type}", _mul24(type, half))
    for opcode, (_, half, type) in opcodes("mad24.<lo|hi>.<u32|s32>"):
        yield Case(opcode, type, f"{type} {type} {type}", _mul24(type, half))


def _mul24(type: str, half: str) -> Callable[..., int]:
    return lambda a, b, c=0: _product_24(type, half, a, b) + c & 0xFFFFFFFF


def carries() -> Iterator[Case]:
    """Before an instruction that adds the carry another one sets it; after one that sets it another one reads it."""
    for opcode, (name, *_, type) in opcodes(f"<add|sub>.cc.{CARRY}"):
        yield _carry(opcode, name, type, takes=False, gives=True)
    for opcode, (name, out, type) in opcodes(f"<addc|subc>[.cc].{CARRY}"):
        yield _carry(opcode, name[:3], type, takes=True, gives=bool(out))
    for opcode, (_, half, _, type) in opcodes(f"mad.<lo|hi>.cc.{CARRY}"):
        yield _carry(opcode, half, type, takes=False, gives=True)
    for opcode, (_, half, out, type) in opcodes(f"madc.<lo|hi>[.cc].{CARRY}"):
        yield _carry(opcode, half, type, takes=True, gives=bool(out))


def _carry(opcode: str, operation: str, type: str, takes: bool, gives: bool) -> Case:
    bits = BITS[type]
    mask = (1 << bits) - 1
    step = "sub" if operation == "sub" else "add"
    count = 2 if operation in ("add", "sub") else 3

    def model(*operands: int) -> int | tuple[int, int]:
        a, b, c = operands[0], operands[1], operands[2] if count == 3 else 0
        left, right = operands[-2:]
        carried = int(left < right if step == "sub" else left + right > mask) if takes else 0
        if operation == "sub":
            total = a - b - carried
        elif operation == "add":
            total = a + b + carried
        else:
            product = number(type, a) * number(type, b) >> (bits if operation == "hi" else 0)
            total = (product & mask) + c + carried
        return (total & mask, total >> bits & mask) if gives else total & mask

    operands = [f"{{a{position}}}" for position in range(count)]
    lines = [f"{opcode} {{d0}}, {', '.join(operands)};"]
    if takes:
        lines.insert(0, f"{step}.cc.{type} {{d0}}, {{a{count}}}, {{a{count + 1}}};")
    if gives:
        lines.append(f"{step}c.{type} {{d1}}, 0, 0;")
    results = f"{type} {type}" if gives else type
    return Case(opcode, results, " ".join([type] * (count + 2 * takes)), model, " ".join(lines))


def dots() -> Iterator[Case]:
    for opcode, (_, first, second) in opcodes("dp4a.<u32|s32>.<u32|s32>"):
        yield Case(opcode, "b32", "b32 b32 b32", _dot(8, first, second, range(4)))
    for opcode, (_, half, first, second) in opcodes("dp2a.<lo|hi>.<u32|s32>.<u32|s32>"):
        yield Case(opcode, "b32", "b32 b32 b32", _dot(16, first, second, range(2, 4) if half == "hi" else range(2)))


def _dot(width: int, first: str, second: str, taken: range) -> Callable[..., int]:
    """``width``-bit parts of the first operand times the bytes ``taken`` of the second."""

    def part(type: str, bits: int, value: int, at: int) -> int:
        value = value >> bits * at & (1 << bits) - 1
        return signed(bits, value) if type[0] == "s" else value

    def model(a: int, b: int, c: int) -> int:
        for position, byte in enumerate(taken):
            c += part(first, width, a, position) * part(second, 8, b, byte)
        return c & 0xFFFFFFFF

    return model


def limited() -> Iterator[Case]:
    """``.relu``: at least 0. Compilers write the modifier behind the type."""
    for opcode, (name, *_) in opcodes("<min|max>.relu.s32"):
        yield _relu(opcode, name)
        yield _relu(f"{name}.s32.relu", name)


def _relu(opcode: str, name: str) -> Case:
    return Case(opcode, "s32", "s32 s32", on_numbers("s32", lambda a, b: max(0, _TWO[name](a, b))))


def pairs() -> Iterator[Case]:
    """Two 16-bit integers in a register."""
    for opcode, (name, type) in opcodes("<add|min|max>.<u16x2|s16x2>"):
        yield Case(opcode, "b32", "b32 b32", _halves(type[:3], _TWO[name]))
    for name in ("min", "max"):
        for opcode in (f"{name}.relu.s16x2", f"{name}.s16x2.relu"):
            operation = lambda a, b, name=name: max(0, _TWO[name](a, b))  # noqa: E731
            yield Case(opcode, "b32", "b32 b32", _halves("s16", operation))
    for opcode, (name, *_, add) in opcodes("<vabsdiff2|vabsdiff4>.u32.u32.u32[.add]"):
        yield Case(opcode, "b32", "b32 b32 b32", _distances(32 // int(name[-1]), bool(add)))


def _halves(type: str, operation: Callable[..., int]) -> Callable[[int, int], int]:
    model = on_numbers(type, operation)
    return lambda a, b: model(a >> 16, b >> 16) << 16 | model(a & 0xFFFF, b & 0xFFFF)


def _distances(width: int, add: bool) -> Callable[[int, int, int], int]:
    mask = (1 << width) - 1

    def model(a: int, b: int, c: int) -> int:
        found = [abs((a >> at & mask) - (b >> at & mask)) << (0 if add else at) for at in range(0, 32, width)]
        return (sum(found) + (c if add else 0)) & 0xFFFFFFFF

    return model


def literals() -> Iterator[Case]:
    """A literal in the place of a register: compilers fold and rewrite those."""
    for type in ("u16", "s16", "u32", "s32", "u64", "s64"):
        bits = BITS[type]
        for value in (0, 1, 3, 7, -1 if type[0] == "s" else (1 << bits) - 1, (1 << bits - 1) - 1):
            for name, operation in _TWO.items():
                model = on_numbers(type, lambda a, operation=operation, value=value: operation(a, value))
                yield Case(f"{name}.{type}", type, type, model, f"{name}.{type} {{d0}}, {{a0}}, {value};")
        model = on_numbers(type, lambda a: 5 - a)
        yield Case(f"sub.{type}", type, type, model, f"sub.{type} {{d0}}, 5, {{a0}};")


def cases() -> Iterator[Case]:
    for family in (plain, saturating, narrow, carries, dots, limited, pairs, literals):
        yield from family()
