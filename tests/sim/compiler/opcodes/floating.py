"""Floating-point arithmetic with results that the ISA defines to the last bit (``number`` has the rounding)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.sim.compiler.opcodes import number
from tests.sim.compiler.opcodes.case import Case, opcodes
from tests.sim.compiler.opcodes.kernel import ANY_NAN, Expected
from tests.sim.compiler.opcodes.number import F64, Format

ROUND = "[.rn|rz|rm|rp]"


def finished(f: Format, bits: int, sat: bool) -> Expected:
    """Apply ``.sat``; NaN payloads of ``.f64`` are left open."""
    if sat:
        return number.saturate(f, bits)
    return ANY_NAN if f is F64 and number.is_nan(f, bits) else bits


def arithmetic(operation: Callable[..., int], type: str, mode: str, ftz: bool, sat: bool) -> Callable[..., Expected]:
    f = number.FLUSHING if ftz else number.FORMATS[type]

    def model(*operands: int) -> Expected:
        if ftz:
            operands = tuple(number.flush(f, operand) for operand in operands)
        return finished(f, operation(f, mode or "rn", *operands), sat)

    return model


def _rcp(f: Format, mode: str, a: int) -> int:
    return number.div(f, mode, f.one, a)


_OPERATIONS = {
    "add": (number.add, 2),
    "sub": (number.sub, 2),
    "mul": (number.mul, 2),
    "div": (number.div, 2),
    "fma": (number.fma, 3),
    "mad": (number.fma, 3),
    "rcp": (_rcp, 1),
    "sqrt": (number.sqrt, 1),
}


def rounded() -> Iterator[Case]:
    for pattern in (f"<add|sub|mul>{ROUND}[.ftz][.sat].<f32>", "<fma|mad>.<rn|rz|rm|rp>[.ftz][.sat].<f32>"):
        for opcode, (name, mode, ftz, sat, type) in opcodes(pattern):
            yield _rounded(opcode, name, mode, type, bool(ftz), bool(sat))
    for opcode, (name, mode, ftz, type) in opcodes("<div|rcp|sqrt>.<rn|rz|rm|rp>[.ftz].<f32>"):
        yield _rounded(opcode, name, mode, type, bool(ftz), False)
    for opcode, (name, mode, type) in opcodes(f"<add|sub|mul>{ROUND}.<f64>"):
        yield _rounded(opcode, name, mode, type, False, False)
    for opcode, (name, mode, type) in opcodes("<fma|mad|div|rcp|sqrt>.<rn|rz|rm|rp>.<f64>"):
        yield _rounded(opcode, name, mode, type, False, False)


def _rounded(opcode: str, name: str, mode: str, type: str, ftz: bool, sat: bool) -> Case:
    operation, count = _OPERATIONS[name]
    return Case(opcode, type, " ".join([type] * count), arithmetic(operation, type, mode, ftz, sat))


def literals() -> Iterator[Case]:
    """Constants as compilers write them."""
    for bits in (0, 1 << 31, number.F32.one, 0x40490FDB):
        text = f"0f{bits:08X}"
        for name in ("add", "sub", "mul"):
            operation = _OPERATIONS[name][0]
            model = lambda a, b=bits, operation=operation: operation(number.F32, "rn", a, b)  # noqa: E731
            # assemblers drop a multiplication by 1, so the NaN of `mul` may be the operand
            kept = lambda a, model=model: ANY_NAN if number.is_nan(number.F32, model(a)) else model(a)  # noqa: E731
            yield Case(f"{name}.f32", "f32", "f32", kept, f"{name}.f32 {{d0}}, {{a0}}, {text};")
        model = lambda a, c, b=bits: number.fma(number.F32, "rn", a, b, c)  # noqa: E731
        yield Case("fma.rn.f32", "f32", "f32 f32", model, f"fma.rn.f32 {{d0}}, {{a0}}, {text}, {{a1}};")
    half = 0x3FE0000000000000
    model = lambda a: finished(F64, number.mul(F64, "rn", a, half), False)  # noqa: E731
    yield Case("mul.f64", "f64", "f64", model, "mul.f64 {d0}, {a0}, 0d3FE0000000000000;")


def signs() -> Iterator[Case]:
    for opcode, (name, ftz, type) in opcodes("<abs|neg>[.ftz].<f32>"):
        yield Case(opcode, type, type, _sign(name, type, bool(ftz)))
    for opcode, (name, type) in opcodes("<abs|neg>.<f64>"):
        yield Case(opcode, type, type, _sign(name, type, False))
    for opcode, (_, type) in opcodes("copysign.<f32|f64>"):
        f = number.FORMATS[type]
        model = lambda a, b, f=f: a & f.sign | number.magnitude(f, b)  # noqa: E731
        yield Case(opcode, type, f"{type} {type}", model)


def _sign(name: str, type: str, ftz: bool) -> Callable[[int], Expected]:
    f = number.FORMATS[type]

    def model(a: int) -> Expected:
        if number.is_nan(f, a):
            return ANY_NAN if f is F64 else f.nan
        result = number.magnitude(f, a) if name == "abs" else a ^ f.sign
        return number.flush(f, result) if ftz else result

    return model


def extremes() -> Iterator[Case]:
    for opcode, (name, ftz, nan, type) in opcodes("<min|max>[.ftz][.NaN].<f32>"):
        yield Case(opcode, type, f"{type} {type}", _extreme(name, type, bool(ftz), bool(nan), False))
    for opcode, (name, ftz, nan, _, _, type) in opcodes("<min|max>[.ftz][.NaN].xorsign.abs.<f32>"):
        yield Case(opcode, type, f"{type} {type}", _extreme(name, type, bool(ftz), bool(nan), True))
    for opcode, (name, type) in opcodes("<min|max>.<f64>"):
        yield Case(opcode, type, f"{type} {type}", _extreme(name, type, False, False, False))


def _extreme(name: str, type: str, ftz: bool, propagate: bool, xorsign: bool) -> Callable[[int, int], Expected]:
    f = number.FORMATS[type]

    def model(a: int, b: int) -> Expected:
        if ftz:
            a, b = number.flush(f, a), number.flush(f, b)
        sign = (a ^ b) & f.sign
        if xorsign:
            a, b = number.magnitude(f, a), number.magnitude(f, b)
        result = number.extreme(f, name == "max", propagate, a, b)
        if number.is_nan(f, result):
            return ANY_NAN if f is F64 else result
        return number.magnitude(f, result) | sign if xorsign else result

    return model


def classes() -> Iterator[Case]:
    for opcode, (_, kind, type) in opcodes("testp.<finite|infinite|number|notanumber|normal|subnormal>.<f32|f64>"):
        yield Case(opcode, "pred", type, _test(kind, number.FORMATS[type]))


def _test(kind: str, f: Format) -> Callable[[int], int]:
    def model(a: int) -> int:
        nan, infinite = number.is_nan(f, a), number.is_infinite(f, a)
        subnormal = number.is_subnormal(f, a)
        return int(
            {
                "finite": not nan and not infinite,
                "infinite": infinite,
                "number": not nan,
                "notanumber": nan,
                "normal": not (nan or infinite or subnormal),  # zeros count as normal
                "subnormal": subnormal,
            }[kind]
        )

    return model


def cases() -> Iterator[Case]:
    for family in (rounded, literals, signs, extremes, classes):
        yield from family()
