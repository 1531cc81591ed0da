"""Conversions from and to ``f16``, ``bf16``, ``e4m3`` and ``e5m2``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.sim.compiler.opcodes import integer, number
from tests.sim.compiler.opcodes.case import Case, opcodes
from tests.sim.compiler.opcodes.convert import _INTEGERS, _register
from tests.sim.compiler.opcodes.half import relu
from tests.sim.compiler.opcodes.kernel import ANY_NAN, Expected
from tests.sim.compiler.opcodes.number import BF16, F16, F64, Format
from tests.sim.compiler.opcodes.values import BITS

_ROUND = "<rn|rz|rm|rp>"
E4M3 = Format(8, 4, -9, 0x7F)
E5M2 = Format(8, 3, -16, 0x7F)
_EIGHT = {"e4m3x2": (E4M3, 0x7E), "e5m2x2": (E5M2, 0x7B)}
"""The format, and the code of its largest number."""


def _resized(source: str, target: str, mode: str, sat: str, clamp: str, finite: str) -> Callable[[int], int]:
    have, want = number.FORMATS[source], number.FORMATS[target]

    def model(a: int) -> int:
        if clamp and number.negative(have, a) and not number.is_nan(have, a):
            a = 0
        bits = number.convert(have, want, mode, a)
        if have is F64 and number.is_nan(have, a):  # quiet, with its sign and the upper bits of its payload
            bits = (a >> 63 << 15) | want.infinity | (a >> 53 - want.precision & (1 << want.precision - 1) - 1)
            bits |= 1 << want.precision - 2
        if sat:
            bits = number.saturate(want, bits)
        if finite and number.is_infinite(want, bits):
            bits -= 1
        return bits

    return model


def from_reals() -> Iterator[Case]:
    for opcode, (*_, mode, _, sat, target, source) in opcodes(f"cvt.{_ROUND}[.ftz][.sat].<f16>.<f32>"):
        yield Case(opcode, target, source, _resized(source, target, mode, sat, "", ""))  # .ftz changes nothing
    for opcode, (*_, mode, sat, target, source) in opcodes(f"cvt.{_ROUND}[.sat].<f16>.<f64>"):
        yield Case(opcode, target, source, _resized(source, target, mode, sat, "", ""))
    for opcode, (*_, mode, sat, target, source) in opcodes(f"cvt.{_ROUND}[.sat].<bf16>.<f32|f64>"):
        recorded = not sat and (source == "f32" or mode == "rn")
        yield Case(opcode, target, source, _resized(source, target, mode, sat, "", ""), recorded=recorded)
    for opcode, (*_, mode, clamp, finite, target, source) in opcodes("cvt.<rn|rz>[.relu][.satfinite].<f16|bf16>.<f32>"):
        if clamp or finite:
            yield Case(opcode, target, source, _resized(source, target, mode, "", clamp, finite))
    for opcode, (*_, mode, clamp, finite, target, source) in opcodes(
        "cvt.<rn|rz>[.relu][.satfinite].<f16x2|bf16x2>.<f32>"
    ):
        one = _resized(source, target[:-2], mode, "", clamp, finite)
        yield Case(opcode, target, "f32 f32", _both(one))


def _both(one: Callable[[int], int]) -> Callable[[int, int], int]:
    """The first operand goes to the upper half."""
    return lambda a, b: one(a) << 16 | one(b)


def to_reals() -> Iterator[Case]:
    for opcode, (*_, ftz, sat, target, source) in opcodes("cvt[.ftz][.sat].<f32>.<f16|bf16>"):
        yield Case(opcode, target, source, _widened(source, target, ftz, sat), recorded=source == "f16" or not sat)
    for opcode, (*_, sat, target, source) in opcodes("cvt[.sat].<f64>.<f16|bf16>"):
        yield Case(opcode, target, source, _widened(source, target, "", sat), recorded=source == "f16" or not sat)


def _widened(source: str, target: str, ftz: str, sat: str) -> Callable[[int], Expected]:
    have, want = number.FORMATS[source], number.FORMATS[target]

    def model(a: int) -> Expected:
        bits = number.convert(have, want, "rn", a)
        if have is BF16 and target == "f32" and not ftz:
            bits = a << 16  # a NaN keeps its payload
        if ftz:
            bits = number.flush(want, bits)
        if sat:
            return number.saturate(want, bits)
        return ANY_NAN if want is F64 and number.is_nan(want, bits) else bits

    return model


def between_halves() -> Iterator[Case]:
    for opcode, (*_, mode, target, source) in (
        *opcodes(f"cvt.{_ROUND}.<f16>.<bf16>"),
        *opcodes(f"cvt.{_ROUND}.<bf16>.<f16>"),
    ):
        yield Case(opcode, target, source, _resized(source, target, mode, "", "", ""))
    for opcode, (*_, mode, sat, _, type) in opcodes("cvt.<rni|rzi|rmi|rpi>[.sat].f16.<f16>"):
        yield Case(opcode, type, type, _whole(F16, mode, sat))
    for opcode, (*_, mode, _, type) in opcodes("cvt.<rni|rzi|rmi|rpi>.bf16.<bf16>"):
        yield Case(opcode, type, type, _whole(BF16, mode, ""))


def _whole(f: Format, mode: str, sat: str) -> Callable[[int], int]:
    def model(a: int) -> int:
        bits = number.whole(f, mode, a)
        return number.saturate(f, bits) if sat else bits

    return model


def integers() -> Iterator[Case]:
    for opcode, (*_, mode, sat, target, source) in opcodes(f"cvt.{_ROUND}[.sat].<f16|bf16>.{_INTEGERS}"):
        recorded = target == "f16" or not sat and BITS[source] > 8
        register = _register(source) if target == "f16" else f"{source[0]}{max(16, BITS[source])}"
        yield Case(opcode, target, register, _from_integer(source, target, mode, sat), recorded=recorded)
    for opcode, (*_, mode, _, target, source) in opcodes(f"cvt.<rni|rzi|rmi|rpi>[.sat].{_INTEGERS}.<f16>"):
        yield Case(opcode, _register(target), source, _to_integer(source, target, mode, 32))
    for opcode, (*_, mode, target, source) in opcodes(f"cvt.<rni|rzi|rmi|rpi>.{_INTEGERS}.<bf16>"):
        result = f"{target[0]}{max(16, BITS[target])}"  # assemblers want a register of 16 bits for 8 and 16
        yield Case(opcode, result, source, _to_integer(source, target, mode, 16), recorded=BITS[target] > 8)


def _from_integer(source: str, target: str, mode: str, sat: str) -> Callable[[int], int]:
    f = number.FORMATS[target]

    def model(a: int) -> int:
        bits = number.from_integer(f, mode, integer.number(source, a))
        return number.saturate(f, bits) if sat else bits

    return model


def _to_integer(source: str, target: str, mode: str, least: int) -> Callable[[int], int]:
    f = number.FORMATS[source]
    bits = BITS[target]

    def model(a: int) -> int:
        if number.is_nan(f, a):
            value = 1 << 63 if bits == 64 else 0
        elif number.is_infinite(f, a):
            value = integer.clamp(target, -(1 << 70) if number.negative(f, a) else 1 << 70)
        else:
            value = integer.clamp(target, number.to_integer(f, mode, a))
        return integer.number(target, value) & (1 << max(least, bits)) - 1

    return model


# -- 8 bits ------------------------------------------------------------------------------------------------------------


def _eight(type: str, source: Format, bits: int) -> int:
    f, largest = _EIGHT[type]
    if number.is_nan(source, bits):
        return f.nan
    sign = f.sign if number.negative(source, bits) else 0
    if number.is_infinite(source, bits):
        return sign | largest
    # one more exponent than the format has: what is above its largest number saturates
    wide = Format(12, f.precision, f.low, 0xFFF)
    code = number.magnitude(wide, number.round_to(wide, "rn", *number.decode(source, bits)))
    return sign | min(code, largest)


def eights() -> Iterator[Case]:
    for opcode, (*_, clamp, type, _) in opcodes("cvt.rn.satfinite[.relu].<e4m3x2|e5m2x2>.<f32>"):
        yield Case(opcode, type, "f32 f32", _from_two(type, clamp))
    for opcode, (*_, clamp, type, _) in opcodes("cvt.rn.satfinite[.relu].<e4m3x2|e5m2x2>.<f16x2>"):
        yield Case(opcode, type, "f16x2", _from_pair(type, clamp))
    for opcode, (*_, clamp, _, type) in opcodes("cvt.rn[.relu].f16x2.<e4m3x2|e5m2x2>"):
        yield Case(opcode, "f16x2", type, _to_pair(type, clamp))


def _from_two(type: str, clamp: str) -> Callable[[int, int], int]:
    f = number.F32

    def one(a: int) -> int:
        return _eight(type, f, relu(f, a) if clamp else a)

    return lambda a, b: one(a) << 8 | one(b)


def _from_pair(type: str, clamp: str) -> Callable[[int], int]:
    def one(a: int) -> int:
        return _eight(type, F16, relu(F16, a) if clamp else a)

    return lambda a: one(a >> 16) << 8 | one(a & 0xFFFF)


def _to_pair(type: str, clamp: str) -> Callable[[int], int]:
    f, largest = _EIGHT[type]

    def one(code: int) -> int:
        size = code & 0x7F
        if size > largest:  # e5m2 has an infinity, e4m3 does not
            bits = (code & 0x80) << 8 | F16.infinity if type == "e5m2x2" and size == 0x7C else F16.nan
        else:
            bits = number.round_to(F16, "rn", *number.decode(f, code))
        return relu(F16, bits) if clamp else bits

    return lambda a: one(a >> 8) << 16 | one(a & 0xFF)


def cases() -> Iterator[Case]:
    for family in (from_reals, to_reals, between_halves, integers, eights):
        yield from family()
