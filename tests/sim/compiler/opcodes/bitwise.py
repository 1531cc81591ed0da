"""Logic, shifts, bit fields and bytes (PTX ISA, "Logic and Shift Instructions", "bfe", "bfi", "prmt" …)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tests.sim.compiler.opcodes.case import Case, opcodes
from tests.sim.compiler.opcodes.integer import signed
from tests.sim.compiler.opcodes.values import BITS

_WORD = 0xFFFFFFFF
_LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def logic() -> Iterator[Case]:
    for name, operation in _LOGIC.items():
        for opcode, (_, type) in opcodes(f"{name}.<b16|b32|b64|pred>"):
            yield Case(opcode, type, f"{type} {type}", operation)
        yield Case(f"{name}.b32", "b32", "b32", _with(operation, 0xF0F0), f"{name}.b32 {{d0}}, {{a0}}, 0xF0F0;")
        yield Case(f"{name}.b64", "b64", "b64", _with(operation, 2**64 - 2), f"{name}.b64 {{d0}}, {{a0}}, -2;")
    for opcode, (_, type) in opcodes("not.<b16|b32|b64|pred>"):
        yield Case(opcode, type, type, _with(_LOGIC["xor"], (1 << BITS[type]) - 1))
    for opcode, (_, type) in opcodes("cnot.<b16|b32|b64>"):
        yield Case(opcode, type, type, lambda a: int(a == 0))


def _with(operation: Callable[[int, int], int], constant: int) -> Callable[[int], int]:
    return lambda a: operation(a, constant)


def _lop3(table: int) -> Callable[[int, int, int], int]:
    """Each bit of the table stands for one combination of the bits of the three operands."""

    def model(a: int, b: int, c: int) -> int:
        result = 0
        for row in range(8):
            if table >> row & 1:
                x, y, z = a if row & 4 else ~a, b if row & 2 else ~b, c if row & 1 else ~c
                result |= x & y & z
        return result & _WORD

    return model


def tables() -> Iterator[Case]:
    for table in range(256):
        body = f"lop3.b32 {{d0}}, {{a0}}, {{a1}}, {{a2}}, {table:#x};"
        yield Case("lop3.b32", "b32", "b32 b32 b32", _lop3(table), body)


def shift_left(bits: int, a: int, amount: int) -> int:
    return a << min(amount, bits) & (1 << bits) - 1


def shift_right(type: str, a: int, amount: int) -> int:
    bits = BITS[type]
    amount = min(amount, bits)
    return (signed(bits, a) >> amount) & (1 << bits) - 1 if type[0] == "s" else a >> amount


def shifts() -> Iterator[Case]:
    """Amounts are not taken modulo the width."""
    for opcode, (_, type) in opcodes("shl.<b16|b32|b64>"):
        yield from _shift(opcode, type, lambda a, n, bits=BITS[type]: shift_left(bits, a, n))
    for opcode, (_, type) in opcodes("shr.<b16|b32|b64|u16|u32|u64|s16|s32|s64>"):
        yield from _shift(opcode, type, lambda a, n, type=type: shift_right(type, a, n))
    for opcode, (_, way, mode, _) in opcodes("shf.<l|r>.<clamp|wrap>.b32"):
        yield Case(opcode, "b32", "b32 b32 b32", _funnel(way, mode))
        # amounts near the width, which random words are not
        body = f"{{ .reg .b32 %n; and.b32 %n, {{a2}}, 63; {opcode} {{d0}}, {{a0}}, {{a1}}, %n; }}"
        yield Case(opcode, "b32", "b32 b32 b32", _funnel(way, mode, 63), body)
        for amount in (0, 1, 31, 32, 33, 64, 0xFFFFFFFF):
            body = f"{opcode} {{d0}}, {{a0}}, {{a1}}, {amount};"
            yield Case(opcode, "b32", "b32 b32", partial(_last, _funnel(way, mode), amount), body)


def _shift(opcode: str, type: str, operation: Callable[[int, int], int]) -> Iterator[Case]:
    yield Case(opcode, type, f"{type} u32", operation)
    body = f"{{ .reg .b32 %n; and.b32 %n, {{a1}}, 127; {opcode} {{d0}}, {{a0}}, %n; }}"
    yield Case(opcode, type, f"{type} u32", lambda a, n: operation(a, n & 127), body)
    bits = BITS[type]
    for amount in (0, 1, bits - 1, bits, bits + 1, 2 * bits, 255, 0x7FFFFFFF, 0xFFFFFFFF):
        body = f"{opcode} {{d0}}, {{a0}}, {amount};"
        yield Case(opcode, type, type, lambda a, n=amount: operation(a, n), body)


def _last(model: Callable[[int, int, int], int], third: int, a: int, b: int) -> int:
    """A model with its last operand given."""
    return model(a, b, third)


def _funnel(way: str, mode: str, cut: int = _WORD) -> Callable[[int, int, int], int]:
    def model(low: int, high: int, amount: int) -> int:
        amount &= cut
        amount = amount & 31 if mode == "wrap" else min(amount, 32)
        both = high << 32 | low
        return both << amount >> 32 & _WORD if way == "l" else both >> amount & _WORD

    return model


def counting() -> Iterator[Case]:
    for opcode, (_, type) in opcodes("popc.<b32|b64>"):
        yield Case(opcode, "u32", type, lambda a: a.bit_count())
    for opcode, (_, type) in opcodes("clz.<b32|b64>"):
        yield Case(opcode, "u32", type, lambda a, bits=BITS[type]: bits - a.bit_length())
    for opcode, (_, type) in opcodes("brev.<b32|b64>"):
        yield Case(opcode, type, type, lambda a, bits=BITS[type]: int(f"{a:0{bits}b}"[::-1], 2))
    for opcode, (_, amount, type) in opcodes("bfind[.shiftamt].<u32|s32|u64|s64>"):
        yield Case(opcode, "u32", type, _find(type, bool(amount)))


def searching() -> Iterator[Case]:
    """The n-th set bit of a mask from a base. Bases up to 31 and numbers up to 32 are defined."""
    body = "{ .reg .b32 %b, %n; and.b32 %b, {a1}, 31; and.b32 %n, {a2}, 63; sub.s32 %n, %n, 32; "
    body += "fns.b32 {d0}, {a0}, %b, %n; }"
    yield Case("fns.b32", "b32", "b32 b32 b32", lambda a, b, n: nth_set(a, b & 31, (n & 63) - 32), body)
    for number in (0, 1, 2, -1, -3, 17):
        body = f"{{ .reg .b32 %b; and.b32 %b, {{a1}}, 31; fns.b32 {{d0}}, {{a0}}, %b, {number}; }}"
        yield Case("fns.b32", "b32", "b32 b32", lambda a, b, n=number: nth_set(a, b & 31, n), body)


def nth_set(mask: int, base: int, number: int) -> int:
    """The bit found by walking up, or down for a negative number; all ones when there is none."""
    if number == 0:
        return base if mask >> base & 1 else _WORD
    places = range(base, 32) if number > 0 else range(base, -1, -1)
    found = [place for place in places if mask >> place & 1]
    return found[abs(number) - 1] if len(found) >= abs(number) else _WORD


def _find(type: str, amount: bool) -> Callable[[int], int]:
    """The highest bit that differs from the sign; all ones when there is none."""
    bits = BITS[type]

    def model(a: int) -> int:
        if type[0] == "s" and a >> bits - 1:
            a ^= (1 << bits) - 1
        if not a:
            return _WORD
        place = a.bit_length() - 1
        return bits - 1 - place if amount else place

    return model


def extract(type: str, a: int, position: int, length: int) -> int:
    """``bfe``, bit by bit as the ISA's pseudo-code does: beyond the top come copies of the sign."""
    bits = BITS[type]
    position, length = position & 255, length & 255
    if type[0] == "u" or length == 0:
        sign = 0
    else:
        sign = a >> min(position + length - 1, bits - 1) & 1
    result = 0
    for bit in range(bits):
        inside = bit < length and position + bit < bits
        result |= (a >> position + bit & 1 if inside else sign) << bit
    return result


def insert(bits: int, a: int, b: int, position: int, length: int) -> int:
    position, length = position & 255, length & 255
    for bit in range(min(length, bits)):
        if position + bit < bits:
            place = 1 << position + bit
            b = b & ~place | (place if a >> bit & 1 else 0)
    return b


_FIELDS = [(0, 0), (0, 1), (0, 8), (4, 8), (31, 1), (24, 8), (24, 9), (32, 4), (40, 24), (63, 1), (63, 2), (0, 32)]
_FIELDS += [(0, 64), (1, 63), (0, 255), (255, 255), (64, 1), (31, 64), (128, 8), (5, 200)]


# Positions and lengths are cut to what the ISA defines (they count modulo 256; an H200 does not do that for 64-bit
# types), and to small ones. As literals above 32 the H200's assembler folds some of them wrongly.
_CUTS = [(255, 255), (71, 39)]


def fields() -> Iterator[Case]:
    for opcode, (_, type) in opcodes("bfe.<u32|s32|u64|s64>"):
        bits = BITS[type]
        for p_mask, n_mask in _CUTS:
            body = (
                f"{{ .reg .b32 %p, %n; and.b32 %p, {{a1}}, {p_mask}; and.b32 %n, {{a2}}, {n_mask}; "
                f"{opcode} {{d0}}, {{a0}}, %p, %n; }}"
            )
            yield Case(opcode, type, f"{type} u32 u32", _extract(type, p_mask, n_mask), body)
        for position, length in _FIELDS:
            body = f"{opcode} {{d0}}, {{a0}}, {position}, {length};"
            model = lambda a, p=position, n=length, t=type: extract(t, a, p, n)  # noqa: E731
            yield Case(opcode, type, type, model, body, recorded=bits == 64 or max(position, length) < 32)
    for opcode, (_, type) in opcodes("bfi.<b32|b64>"):
        bits = BITS[type]
        for p_mask, n_mask in _CUTS:
            body = (
                f"{{ .reg .b32 %p, %n; and.b32 %p, {{a2}}, {p_mask}; and.b32 %n, {{a3}}, {n_mask}; "
                f"{opcode} {{d0}}, {{a0}}, {{a1}}, %p, %n; }}"
            )
            yield Case(opcode, type, f"{type} {type} u32 u32", _insert(bits, p_mask, n_mask), body)
        for position, length in _FIELDS:
            body = f"{opcode} {{d0}}, {{a0}}, {{a1}}, {position}, {length};"
            model = lambda a, b, p=position, n=length, bits=bits: insert(bits, a, b, p, n)  # noqa: E731
            yield Case(opcode, type, f"{type} {type}", model, body, recorded=bits == 64 or max(position, length) < 32)


def _extract(type: str, p_mask: int, n_mask: int) -> Callable[[int, int, int], int]:
    return lambda a, position, length: extract(type, a, position & p_mask, length & n_mask)


def _insert(bits: int, p_mask: int, n_mask: int) -> Callable[[int, int, int, int], int]:
    return lambda a, b, position, length: insert(bits, a, b, position & p_mask, length & n_mask)


def masks() -> Iterator[Case]:
    for cut in (_WORD, 63):
        for opcode, (_, mode, type) in opcodes("szext.<clamp|wrap>.<u32|s32>"):
            body = f"{{ .reg .b32 %n; and.b32 %n, {{a1}}, {cut}; {opcode} {{d0}}, {{a0}}, %n; }}"
            yield Case(opcode, type, f"{type} u32", _extend(mode, type, cut), body)
        for opcode, (_, mode, _) in opcodes("bmsk.<clamp|wrap>.b32"):
            cuts = f"and.b32 %p, {{a0}}, {cut}; and.b32 %n, {{a1}}, {cut};"
            body = f"{{ .reg .b32 %p, %n; {cuts} {opcode} {{d0}}, %p, %n; }}"
            yield Case(opcode, "b32", "u32 u32", _mask(mode, cut), body)


def _bound(mode: str, value: int) -> int:
    return value & 31 if mode == "wrap" else min(value, 32)


def _extend(mode: str, type: str, cut: int) -> Callable[[int, int], int]:
    """The low bits, extended by zeros or by the highest of them."""

    def model(a: int, length: int) -> int:
        length = _bound(mode, length & cut)
        low = a & (1 << length) - 1
        return signed(length, low) & _WORD if type == "s32" and length else low

    return model


def _mask(mode: str, cut: int) -> Callable[[int, int], int]:
    def model(position: int, length: int) -> int:
        return (1 << _bound(mode, length & cut)) - 1 << _bound(mode, position & cut) & _WORD

    return model


def permutations() -> Iterator[Case]:
    for opcode, (*_, mode) in opcodes("prmt.b32[.f4e|b4e|rc8|ecl|ecr|rc16]"):
        yield Case(opcode, "b32", "b32 b32 b32", _permute(mode))
        for selector in (0x3210, 0x7654, 0x0123, 0xBA98, 0x4440, 0xFEDC, 2):
            body = f"{opcode} {{d0}}, {{a0}}, {{a1}}, {selector};"
            yield Case(opcode, "b32", "b32 b32", partial(_last, _permute(mode), selector), body)


def _permute(mode: str) -> Callable[[int, int, int], int]:
    def places(selector: int) -> list[int]:
        """The source byte of each byte of the result, lowest first."""
        n = selector & 3
        special = {
            "f4e": [n, n + 1, n + 2, n + 3],
            "b4e": [n, n - 1 & 7, n - 2 & 7, n - 3 & 7],
            "rc8": [n, n, n, n],
            "ecl": [max(n, byte) for byte in range(4)],
            "ecr": [min(n, byte) for byte in range(4)],
            "rc16": [0, 1, 0, 1] if n & 1 == 0 else [2, 3, 2, 3],
        }
        return special.get(mode) or [selector >> 4 * byte & 15 for byte in range(4)]

    def model(a: int, b: int, selector: int) -> int:
        both = b << 32 | a
        result = 0
        for byte, place in enumerate(places(selector)):
            value = both >> 8 * (place & 7) & 255
            if place & 8:
                value = 255 if value & 128 else 0
            result |= value << 8 * byte
        return result

    return model


def cases() -> Iterator[Case]:
    for family in (logic, tables, shifts, counting, searching, fields, masks, permutations):
        yield from family()
