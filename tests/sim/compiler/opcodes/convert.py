"""Conversions (PTX ISA, ``cvt``).

Registers are at least 32 bits wide here: for narrower types the source's upper bits do not count, and a narrower result
is extended by its sign or by zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.sim.compiler.opcodes import integer, number
from tests.sim.compiler.opcodes.case import Case, opcodes
from tests.sim.compiler.opcodes.kernel import ANY_NAN, Expected
from tests.sim.compiler.opcodes.number import F64
from tests.sim.compiler.opcodes.values import BITS

_INTEGERS = "<u8|u16|u32|u64|s8|s16|s32|s64>"


def _register(type: str) -> str:
    """The type of a register at least 32 bits wide."""
    return f"{type[0]}{max(32, BITS[type])}"


def _extended(type: str, value: int) -> int:
    """An integer as the bits of such a register."""
    return integer.number(type, value) & (1 << max(32, BITS[type])) - 1


def between_integers() -> Iterator[Case]:
    for opcode, (_, sat, target, source) in opcodes(f"cvt[.sat].{_INTEGERS}.{_INTEGERS}"):
        useful = not sat or not _fits(source, target)
        yield Case(opcode, _register(target), _register(source), _cut(source, target, bool(sat)), recorded=useful)


def _fits(source: str, target: str) -> bool:
    """Assemblers refuse ``.sat`` where nothing could be out of range."""
    low_source = source[0] == "s"
    if low_source and target[0] == "u":
        return False
    return BITS[source] + (not low_source) <= BITS[target] + (target[0] == "u")


def _cut(source: str, target: str, sat: bool) -> Callable[[int], int]:
    def model(a: int) -> int:
        value = integer.number(source, a)
        return _extended(target, integer.clamp(target, value) if sat else value)

    return model


def from_integers() -> Iterator[Case]:
    for opcode, (_, mode, sat, target, source) in opcodes(f"cvt.<rn|rz|rm|rp>[.sat].<f32|f64>.{_INTEGERS}"):
        yield Case(opcode, target, _register(source), _from_integer(source, target, mode, bool(sat)))


def _from_integer(source: str, target: str, mode: str, sat: bool) -> Callable[[int], int]:
    f = number.FORMATS[target]

    def model(a: int) -> int:
        bits = number.from_integer(f, mode, integer.number(source, a))
        return number.saturate(f, bits) if sat else bits

    return model


def to_integers() -> Iterator[Case]:
    """Out of range is clamped, with or without ``.sat``; NaN is 0, but the top bit alone for 64-bit types."""
    for opcode, (_, mode, ftz, _, target, source) in opcodes(f"cvt.<rni|rzi|rmi|rpi>[.ftz][.sat].{_INTEGERS}.<f32>"):
        yield Case(opcode, _register(target), source, _to_integer(source, target, mode, bool(ftz)))
    for opcode, (_, mode, _, target, source) in opcodes(f"cvt.<rni|rzi|rmi|rpi>[.sat].{_INTEGERS}.<f64>"):
        yield Case(opcode, _register(target), source, _to_integer(source, target, mode, False))


def _to_integer(source: str, target: str, mode: str, ftz: bool) -> Callable[[int], int]:
    f = number.FORMATS[source]
    bits = BITS[target]

    def model(a: int) -> int:
        if ftz:
            a = number.flush(f, a)
        if number.is_nan(f, a):
            value = 1 << bits - 1 if bits == 64 or source == "f64" else 0
        elif number.is_infinite(f, a):
            value = integer.clamp(target, -(1 << 70) if number.negative(f, a) else 1 << 70)
        else:
            value = integer.clamp(target, number.to_integer(f, mode, a))
        return _extended(target, value)

    return model


def between_reals() -> Iterator[Case]:
    for opcode, (_, mode, ftz, sat, _, source) in opcodes("cvt[.rni|rzi|rmi|rpi][.ftz][.sat].f32.<f32>"):
        yield Case(opcode, "f32", "f32", _whole(source, mode, bool(ftz), bool(sat)))
    for opcode, (_, mode, sat, _, source) in opcodes("cvt[.rni|rzi|rmi|rpi][.sat].f64.<f64>"):
        yield Case(opcode, "f64", "f64", _whole(source, mode, False, bool(sat)))
    for opcode, (_, mode, ftz, sat, target, source) in opcodes("cvt.<rn|rz|rm|rp>[.ftz][.sat].<f32>.<f64>"):
        yield Case(opcode, target, source, _resize(source, target, mode, bool(ftz), bool(sat)))
    for opcode, (_, ftz, sat, target, source) in opcodes("cvt[.ftz][.sat].<f64>.<f32>"):
        yield Case(opcode, target, source, _resize(source, target, "rn", bool(ftz), bool(sat)))


def _finish(type: str, bits: int, ftz: bool, sat: bool) -> Expected:
    f = number.FORMATS[type]
    if ftz and type == "f32":
        bits = number.flush(f, bits)
    if sat:
        return number.saturate(f, bits)
    return ANY_NAN if f is F64 and number.is_nan(f, bits) else bits


def _whole(type: str, mode: str, ftz: bool, sat: bool) -> Callable[[int], Expected]:
    f = number.FORMATS[type]

    def model(a: int) -> Expected:
        if ftz:
            a = number.flush(f, a)
        if not mode and not ftz:
            return number.saturate(f, a) if sat else a  # only a move
        return _finish(type, number.whole(f, mode, a) if mode else f.nan if number.is_nan(f, a) else a, ftz, sat)

    return model


def _resize(source: str, target: str, mode: str, ftz: bool, sat: bool) -> Callable[[int], Expected]:
    have, want = number.FORMATS[source], number.FORMATS[target]
    if ftz and target == "f32":
        want = number.FLUSHING

    def model(a: int) -> Expected:
        if ftz and source == "f32":
            a = number.flush(have, a)
        if number.is_nan(have, a) and not sat:
            return number.narrow_nan(a) if target == "f32" else number.widen_nan(number.F32.nan if ftz else a)
        return _finish(target, number.convert(have, want, mode, a), False, sat)

    return model


def cases() -> Iterator[Case]:
    for family in (between_integers, from_integers, to_integers, between_reals):
        yield from family()
