"""Approximate floating-point functions: true values, and how far the ISA lets a device be from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from tests.sim.compiler.opcodes import number
from tests.sim.compiler.opcodes.case import Case, opcodes
from tests.sim.compiler.opcodes.kernel import ANY_NAN, Expected, Tolerance, value_of
from tests.sim.compiler.opcodes.number import F32, F64, Format

_TINY = 2.0**-149  # one step of subnormal results, which cannot be relatively exact
_SMALLEST = 2.0**-126


def _special(f: Format, bits: int) -> Expected:
    return ANY_NAN if number.is_nan(f, bits) else bits


def _approach(exact: int, ftz: bool) -> Expected:
    """A correctly rounded result as the goal of an approximation; zeros, infinities and NaN are exact."""
    size = number.magnitude(F32, exact)
    if number.is_nan(F32, exact) or number.is_infinite(F32, exact) or not size:
        return exact
    if size > F32.infinity - 4:  # so large that the approximation may overflow
        return None
    if ftz and size <= 0x00800002:  # on the border to what is flushed
        return None if size > 0x007FFFFD else exact & F32.sign
    return value_of("f32", exact)


def quotients() -> Iterator[Case]:
    """``div.approx`` and ``div.full``: 2 ulp. ``div.approx`` by more than 2**126 gives 0, or NaN for infinity."""
    for opcode, (_, kind, ftz, _) in opcodes("div.<approx|full>[.ftz].f32"):
        tolerance = Tolerance(2.0**-22, 2 * _TINY)
        yield Case(opcode, "f32", "f32 f32", _quotient(kind, bool(ftz)), tolerance=tolerance)


def _quotient(kind: str, ftz: bool) -> Callable[[int, int], Expected]:
    def model(a: int, b: int) -> Expected:
        if ftz:
            a, b = number.flush(F32, a), number.flush(F32, b)
        size = number.magnitude(F32, b)
        if kind == "approx" and 0 < size < 0x00800000:
            return None  # below 2**-126 the ISA names no bound
        if kind == "approx" and 0x7E800000 < size < 0x7F800000:
            return number.mul(F32, "rn", a, b & F32.sign)
        return _approach(number.div(F32, "rn", a, b), ftz)

    return model


def roots() -> Iterator[Case]:
    for opcode, (_, _, ftz, _) in opcodes("rcp.approx[.ftz].f32"):
        model = _flushed(bool(ftz), lambda a: number.div(F32, "rn", F32.one, a))
        yield Case(opcode, "f32", "f32", model, tolerance=Tolerance(2.0**-23, _TINY))
    for opcode, (_, _, ftz, _) in opcodes("sqrt.approx[.ftz].f32"):
        model = _flushed(bool(ftz), lambda a: number.sqrt(F32, "rn", a))
        yield Case(opcode, "f32", "f32", model, tolerance=Tolerance(2.0**-22))
    for opcode, (_, _, ftz, _) in opcodes("rsqrt.approx[.ftz].f32"):
        model = _flushed(bool(ftz), lambda a: _inverse_root(F32, a))
        yield Case(opcode, "f32", "f32", model, tolerance=Tolerance(2.0**-22.4))
    yield Case("rsqrt.approx.f64", "f64", "f64", _inverse_root_64, tolerance=Tolerance(2.0**-20))


def _flushed(ftz: bool, operation: Callable[[int], int]) -> Callable[[int], Expected]:
    return lambda a: _approach(operation(number.flush(F32, a) if ftz else a), ftz)


def _inverse_root(f: Format, a: int) -> int:
    """``1 / sqrt(a)`` with one rounding more than exact; of -0 it is -infinity."""
    return number.div(f, "rn", f.one, number.sqrt(f, "rn", a))


def _inverse_root_64(a: int) -> Expected:
    exact = _inverse_root(F64, a)
    if number.is_nan(F64, exact) or number.is_infinite(F64, exact) or number.is_zero(F64, exact):
        return _special(F64, exact)
    return value_of("f64", exact)


def coarse() -> Iterator[Case]:
    """``.approx.ftz.f64``: the upper word of the operand gives the upper word of the result; the lower is 0."""
    for name in ("rcp", "rsqrt"):
        opcode = f"{name}.approx.ftz.f64"
        yield Case(opcode, "f64", "f64", _coarse(name), tolerance=Tolerance(2.0**-20))
        # "{" doubled for the f-string; the braces around the pair are PTX
        body = f"{{ .reg .f64 %x; .reg .b32 %h; {opcode} %x, {{a0}}; mov.b64 {{ {{d0}}, %h }}, %x; }}"
        yield Case(opcode, "b32", "f64", lambda a: 0, body)


def _coarse(name: str) -> Callable[[int], Expected]:
    def model(a: int) -> Expected:
        a &= ~0xFFFFFFFF
        if number.magnitude(F64, a) < 1 << 52:
            a &= F64.sign
        exact = number.div(F64, "rn", F64.one, a) if name == "rcp" else _inverse_root(F64, a)
        if number.is_nan(F64, exact) or number.is_infinite(F64, exact) or number.is_zero(F64, exact):
            return _special(F64, exact)
        size = number.magnitude(F64, exact)
        if size < 1 << 52:
            return exact & F64.sign
        return value_of("f64", exact)

    return model


def _function(name: str, ftz: bool) -> Callable[[int], Expected]:
    def model(a: int) -> Expected:
        if ftz:
            a = number.flush(F32, a)
        if number.is_nan(F32, a):
            return F32.nan
        x = value_of("f32", a)
        return _FUNCTIONS[name](x, ftz)

    return model


def _sine(x: float, ftz: bool) -> Expected:
    return _wave(math.sin, x)


def _cosine(x: float, ftz: bool) -> Expected:
    return _wave(math.cos, x)


def _wave(function: Callable[[float], float], x: float) -> Expected:
    if math.isinf(x):
        return F32.nan
    if abs(x) > 100 * math.pi:  # no bound beyond
        return None
    return function(x)


def _power(x: float, ftz: bool) -> Expected:
    if x >= 128:
        return F32.infinity
    if x < -151 or (ftz and x < -126.01):
        return 0
    if ftz and x < -125.99:
        return None
    return 2.0**x


def _logarithm(x: float, ftz: bool) -> Expected:
    if x == 0:
        return F32.sign | F32.infinity
    if x < 0:
        return F32.nan
    return F32.infinity if math.isinf(x) else math.log2(x)


def _tangent(x: float, ftz: bool) -> Expected:
    return math.tanh(x)


_FUNCTIONS = {"sin": _sine, "cos": _cosine, "ex2": _power, "lg2": _logarithm, "tanh": _tangent}
# Largest errors named by the ISA: sin and cos in [-100 pi, 100 pi]; lg2 absolute between 0.5 and 2, relative outside.
_ERRORS = {
    "sin": Tolerance(absolute=2.0**-14.7),
    "cos": Tolerance(absolute=2.0**-14.7),
    "ex2": Tolerance(2.0**-22, 2 * _TINY),
    "lg2": Tolerance(2.0**-22, 2.0**-22),
    "tanh": Tolerance(2.0**-11, 2.0**-126),
}


def functions() -> Iterator[Case]:
    for opcode, (name, _, ftz, _) in opcodes("<sin|cos|ex2|lg2>.approx[.ftz].f32"):
        yield Case(opcode, "f32", "f32", _function(name, bool(ftz)), tolerance=_ERRORS[name])
    yield Case("tanh.approx.f32", "f32", "f32", _function("tanh", False), tolerance=_ERRORS["tanh"])


def cases() -> Iterator[Case]:
    for family in (quotients, roots, coarse, functions):
        yield from family()
