"""Conversions to ``tf32``, ``cvt.pack``, and from and to formats of 6, 4 and 8 bits that later architectures have."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.sim.compiler.opcodes import integer, number
from tests.sim.compiler.opcodes.case import Case, opcodes
from tests.sim.compiler.opcodes.half import relu
from tests.sim.compiler.opcodes.number import BF16, F16, F32, Format

_NAN = 0x7FFFE000
"""What an H200 gives."""
_SMALL = {"e2m3x2": Format(6, 4, -3, 0x1F), "e3m2x2": Format(6, 3, -4, 0x1F), "e2m1x2": Format(4, 2, -1, 0x7)}


def tensor_floats() -> Iterator[Case]:
    forms = [
        *opcodes("cvt.<rn|rz>[.relu].tf32.f32"),
        *opcodes("cvt.<rn|rz>.satfinite[.relu].tf32.f32"),
        *opcodes("cvt.<rn|rz>.relu.satfinite.tf32.f32"),
        *opcodes("cvt.<rna>[.satfinite].tf32.f32"),
    ]
    for opcode, (_, mode, *_) in forms:
        parts = opcode.split(".")
        later = "satfinite" in parts and mode != "rna"  # assemblers want a later architecture
        yield Case(opcode, "b32", "f32", _tf32(mode, "relu" in parts, "satfinite" in parts), recorded=not later)


def _tf32(mode: str, clamp: bool, finite: bool) -> Callable[[int], int]:
    def model(a: int) -> int:
        if number.is_nan(F32, a) and mode != "rna":
            return _NAN
        if clamp and number.negative(F32, a):
            return 0
        size = number.magnitude(F32, a)
        kept, rest = size >> 13, size & 0x1FFF
        if mode == "rna":
            kept += rest >= 0x1000
        elif mode == "rn":
            kept += rest > 0x1000 or (rest == 0x1000 and kept & 1)
        if number.magnitude(F32, a) >= F32.infinity:
            kept = number.magnitude(F32, a) >> 13  # of a NaN the bits are cut, and it goes one step down, too
        size = kept << 13
        return a & F32.sign | (size - 0x2000 if finite and size >= F32.infinity else size)

    return model


def packs() -> Iterator[Case]:
    for opcode, (*_, type, _) in opcodes("cvt.pack.sat.<u16|s16>.<s32>"):
        yield Case(opcode, "b32", "s32 s32", _packed(int(type[1:]), type[0] == "s"))
    for opcode, (*_, type, _) in opcodes("cvt.pack.sat.<u8|s8|u4|s4|u2|s2>.<s32.b32>"):
        yield Case(opcode, "b32", "s32 s32 b32", _packed(int(type[1:]), type[0] == "s"))


def _packed(bits: int, signed: bool) -> Callable[..., int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def model(a: int, b: int, c: int = 0) -> int:
        x, y = (max(low, min(high, integer.signed(32, v))) & (1 << bits) - 1 for v in (a, b))
        return (c << 2 * bits | x << bits | y) & 0xFFFFFFFF

    return model


def smalls() -> Iterator[Case]:
    for opcode, (*_, clamp, type, _) in opcodes("cvt.rn.satfinite[.relu].<e2m3x2|e3m2x2>.<f32>"):
        yield Case(opcode, "b16", "f32 f32", _from_two(type, clamp, 8), recorded=False)
    for opcode, (*_, clamp, type, _) in opcodes("cvt.rn.satfinite[.relu].<e2m1x2>.<f32>"):
        body = f"{{ .reg .b8 %w; {opcode} %w, {{a0}}, {{a1}}; cvt.u16.u8 {{d0}}, %w; }}"
        yield Case(opcode, "b16", "f32 f32", _from_two(type, clamp, 4), body, recorded=False)
    for opcode, (*_, clamp, _, type) in opcodes("cvt.rn[.relu].f16x2.<e2m3x2|e3m2x2>"):
        yield Case(opcode, "f16x2", "b16", _to_pair(type, clamp, 8), recorded=False)
    for opcode, (*_, clamp, _, type) in opcodes("cvt.rn[.relu].f16x2.<e2m1x2>"):
        body = f"{{ .reg .b8 %w; cvt.u8.u16 %w, {{a0}}; {opcode} {{d0}}, %w; }}"
        yield Case(opcode, "f16x2", "b16", _to_pair(type, clamp, 4), body, recorded=False)


def _from_two(type: str, clamp: str, step: int) -> Callable[[int, int], int]:
    f = _SMALL[type]

    def one(a: int) -> int:
        if number.is_nan(F32, a):
            return f.nan
        a = relu(F32, a) if clamp else a
        sign = f.sign if number.negative(F32, a) else 0
        if number.is_infinite(F32, a):
            return sign | f.sign - 1
        wide = Format(12, f.precision, f.low, 0xFFF)
        code = number.magnitude(wide, number.round_to(wide, "rn", *number.decode(F32, a)))
        return sign | min(code, f.sign - 1)

    return lambda a, b: one(a) << step | one(b)


def _to_pair(type: str, clamp: str, step: int) -> Callable[[int], int]:
    f = _SMALL[type]

    def one(code: int) -> int:
        code &= 2 * f.sign - 1
        wide = Format(f.bits, f.precision, f.low, 1 << 20)  # no infinity, no NaN
        bits = number.round_to(F16, "rn", *number.decode(wide, code))
        return relu(F16, bits) if clamp else bits

    return lambda a: one(a >> step) << 16 | one(a)


def powers() -> Iterator[Case]:
    for opcode, (_, mode, finite, _, source) in opcodes("cvt.<rz|rp>[.satfinite].<ue8m0x2>.<f32|bf16x2>"):
        one = _power(mode, bool(finite))
        if source == "f32":
            yield Case(opcode, "b16", "f32 f32", lambda a, b, one=one: one(a) << 8 | one(b), recorded=False)
        else:
            both = lambda a, one=one: one(a >> 16 << 16) << 8 | one(a << 16 & 0xFFFFFFFF)  # noqa: E731
            yield Case(opcode, "b16", "bf16x2", both, recorded=False)
    yield Case("cvt.rn.bf16x2.ue8m0x2", "bf16x2", "b16", _from_powers, recorded=False)


def _power(mode: str, finite: bool) -> Callable[[int], int]:
    def one(a: int) -> int:
        if number.is_nan(F32, a):
            return 255
        size = number.magnitude(F32, a)
        if size == F32.infinity:
            return 254 if finite else 255
        code = size >> 23
        code += mode == "rp" and size & 0x7FFFFF != 0
        return min(code, 254 if finite else 255)

    return one


def _from_powers(a: int) -> int:
    def one(code: int) -> int:
        return BF16.nan if code == 255 else 0x40 if code == 0 else code << 7

    return one(a >> 8) << 16 | one(a & 255)


def cases() -> Iterator[Case]:
    for family in (tensor_floats, packs, smalls, powers):
        yield from family()
