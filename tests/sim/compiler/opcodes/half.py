"""Half precision: arithmetic and comparison of ``f16``, ``bf16`` and pairs of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from tests.sim.compiler.opcodes import number
from tests.sim.compiler.opcodes.case import Case, opcodes
from tests.sim.compiler.opcodes.compare import _COMBINATIONS, _COMBINE, _ORDER, _REAL
from tests.sim.compiler.opcodes.kernel import Tolerance
from tests.sim.compiler.opcodes.number import Format

_TYPES = "<f16|bf16|f16x2|bf16x2>"
Model = Callable[..., int]


def formats(type: str, ftz: bool = False) -> tuple[Format, Format]:
    """Of one number: for operands, and for results."""
    f = number.FORMATS[type.removesuffix("x2")]
    return f, number.FLUSHING_F16 if ftz else f


def paired(type: str, model: Model) -> Model:
    """A model of one number as one of a pair, where the type is a pair."""
    if not type.endswith("x2"):
        return model

    def both(*operands: int) -> int:
        low = model(*[operand & 0xFFFF for operand in operands])
        high = model(*[operand >> 16 for operand in operands])
        return low | high << 16

    return both


def relu(f: Format, bits: int) -> int:
    """NaN stays; what is negative becomes +0."""
    return 0 if number.negative(f, bits) and not number.is_nan(f, bits) else bits


def takes(type: str, *modifiers: str) -> bool:
    """``bf16`` has no ``.ftz`` and no ``.sat``."""
    return not type.startswith("bf16") or not any(modifiers)


def arithmetic() -> Iterator[Case]:
    operations: dict[str, Any] = {"add": number.add, "sub": number.sub, "mul": number.mul}
    for opcode, (name, _, ftz, sat, type) in opcodes(f"<add|sub|mul>[.rn][.ftz][.sat].{_TYPES}"):
        if takes(type, ftz, sat):
            yield Case(opcode, type, f"{type} {type}", _rounded(operations[name], type, ftz, sat, ""))
    for opcode, (*_, ftz, sat, type) in opcodes(f"fma.rn[.ftz][.sat].{_TYPES}"):
        if takes(type, ftz, sat):
            yield Case(opcode, type, f"{type} {type} {type}", _rounded(number.fma, type, ftz, sat, ""))
    for opcode, (*_, ftz, _, type) in opcodes(f"fma.rn[.ftz].<relu>.{_TYPES}"):
        if takes(type, ftz):
            yield Case(opcode, type, f"{type} {type} {type}", _rounded(number.fma, type, ftz, "", "relu"))


def _rounded(operation: Any, type: str, ftz: str, sat: str, clamp: str) -> Model:
    f, result = formats(type, bool(ftz))

    def model(*operands: int) -> int:
        if ftz:
            operands = tuple(number.flush(f, operand) for operand in operands)
        bits = operation(result, "rn", *operands)
        if sat:
            bits = number.saturate(f, bits)
        return relu(f, bits) if clamp else bits

    return paired(type, model)


def signs() -> Iterator[Case]:
    for opcode, (name, ftz, type) in opcodes(f"<abs|neg>[.ftz].{_TYPES}"):
        if takes(type, ftz):
            yield Case(opcode, type, type, _sign(name, type, ftz))


def _sign(name: str, type: str, ftz: str) -> Model:
    f, _ = formats(type)

    def model(a: int) -> int:
        if number.is_nan(f, a):
            return f.nan
        bits = number.magnitude(f, a) if name == "abs" else a ^ f.sign
        return number.flush(f, bits) if ftz else bits

    return paired(type, model)


def extremes() -> Iterator[Case]:
    for opcode, (name, ftz, nan, type) in opcodes(f"<min|max>[.ftz][.NaN].{_TYPES}"):
        if takes(type, ftz):
            yield Case(opcode, type, f"{type} {type}", _extreme(name, type, ftz, nan, False))
    for opcode, (name, ftz, nan, _, _, type) in opcodes(f"<min|max>[.ftz][.NaN].<xorsign>.<abs>.{_TYPES}"):
        if takes(type, ftz):
            yield Case(opcode, type, f"{type} {type}", _extreme(name, type, ftz, nan, True))


def _extreme(name: str, type: str, ftz: str, nan: str, xorsign: bool) -> Model:
    f, _ = formats(type)

    def model(a: int, b: int) -> int:
        if ftz:
            a, b = number.flush(f, a), number.flush(f, b)
        sign = (a ^ b) & f.sign
        if xorsign:
            a, b = number.magnitude(f, a), number.magnitude(f, b)
        bits = number.extreme(f, name == "max", bool(nan), a, b)
        return bits | sign if xorsign and not number.is_nan(f, bits) else bits

    return paired(type, model)


def functions() -> Iterator[Case]:
    """A tolerance is for one number, so pairs are taken apart."""
    for opcode, (*_, type) in opcodes("tanh.approx.<f16|bf16>"):
        yield Case(opcode, type, type, _function(math.tanh, type), tolerance=Tolerance(2.0**-7, 2.0**-10))
    yield Case("ex2.approx.f16", "f16", "f16", _function(_power, "f16"), tolerance=Tolerance(2.0**-9, 2.0**-23))
    bounds = Tolerance(2.0**-7, 2.0**-126)
    yield Case("ex2.approx.ftz.bf16", "bf16", "bf16", _function(_power, "bf16"), tolerance=bounds)
    yield _pair("ex2.approx.ftz.bf16x2", _function(_power, "bf16"), bounds)
    for type in ("f16", "bf16"):
        yield _pair(f"tanh.approx.{type}x2", _function(math.tanh, type), Tolerance(2.0**-7, 2.0**-10))
    yield _pair("ex2.approx.f16x2", _function(_power, "f16"), Tolerance(2.0**-9, 2.0**-23))


def _pair(opcode: str, one: Callable[[int], Any], tolerance: Tolerance) -> Case:
    body = "{ .reg .b32 both; " + opcode + " both, {a0}; mov.b32 {{d0}, {d1}}, both; }"
    type = opcode.rsplit(".", 1)[1]
    results = f"{type[:-2]} {type[:-2]}"
    return Case(opcode, results, type, lambda a: (one(a & 0xFFFF), one(a >> 16)), body, tolerance)


def _power(value: float) -> float:
    return 2.0**value if value < 1000 else math.inf


def value_of(f: Format, bits: int) -> float:
    sign, significand, exponent = number.decode(f, bits)
    return math.ldexp(-significand if sign else significand, exponent)


def _function(function: Callable[[float], float], type: str) -> Callable[[int], Any]:
    f, _ = formats(type)

    def model(a: int) -> Any:
        if number.is_nan(f, a):
            return f.nan
        if number.is_infinite(f, a):
            value = function(-1e9 if number.negative(f, a) else 1e9)
        else:
            value = function(value_of(f, a))
        largest = value_of(f, f.infinity - 1)
        if value > largest * 0.99:
            return None if value < largest * 1.01 else f.infinity
        smallest = math.ldexp(1.0, f.low + f.precision - 1)
        return None if type == "bf16" and 0 < value < smallest * 1.01 else float(value)

    return model


def holds(type: str, operation: str, ftz: str, a: int, b: int) -> int:
    """The outcome of a comparison, 0 or 1."""
    f, _ = formats(type)
    if ftz:
        a, b = number.flush(f, a), number.flush(f, b)
    order = number.compare(f, a, b)
    if operation in ("num", "nan"):
        return int((order is None) == (operation == "nan"))
    if order is None:
        return int(operation.endswith("u"))
    return int(_ORDER[operation.removesuffix("u")](order))


def predicates() -> Iterator[Case]:
    for opcode, (*_, operation, combination, ftz, type) in opcodes(f"setp.{_REAL}{_COMBINE}[.ftz].{_TYPES}"):
        if not takes(type, ftz):
            continue
        third = ", {a2}" if combination else ""
        pair = type.endswith("x2")
        targets = "{d0}|{d1}" if pair else "{d0}"
        body = f"{opcode} {targets}, {{a0}}, {{a1}}{third};"
        results = "pred pred" if pair else "pred"
        yield Case(opcode, results, f"{type} {type} pred", _predicate(operation, combination, ftz, type), body)


def _predicate(operation: str, combination: str, ftz: str, type: str) -> Callable[[int, int, int], Any]:
    combine = _COMBINATIONS[combination]

    def one(a: int, b: int, c: int) -> int:
        return combine(holds(type, operation, ftz, a, b), c)

    if not type.endswith("x2"):
        return one
    return lambda a, b, c: (one(a & 0xFFFF, b & 0xFFFF, c), one(a >> 16, b >> 16, c))


_TARGETS = {
    "f16": ("f16", "u16", "s16", "u32", "s32"),
    "bf16": ("bf16", "u16", "s16", "u32", "s32"),
    "f16x2": ("f16x2", "u32", "s32"),
    "bf16x2": ("bf16x2", "u32", "s32"),
}
_TRUE = {"f16": 0x3C00, "bf16": 0x3F80, "u16": 0xFFFF, "s16": 0xFFFF, "u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF}


def values() -> Iterator[Case]:
    for _, (*_, operation, combination, ftz, type) in opcodes(f"set.{_REAL}{_COMBINE}[.ftz].{_TYPES}"):
        if not takes(type, ftz):
            continue
        third = ", {a2}" if combination else ""
        for target in _TARGETS[type]:
            opcode = ".".join(token for token in ("set", operation, combination, ftz, target, type) if token)
            body = f"{opcode} {{d0}}, {{a0}}, {{a1}}{third};"
            model = _value(operation, combination, ftz, target, type)
            yield Case(opcode, target, f"{type} {type} pred", model, body)


def _value(operation: str, combination: str, ftz: str, target: str, type: str) -> Callable[[int, int, int], int]:
    combine = _COMBINATIONS[combination]
    single = target.removesuffix("x2")
    true = 0xFFFF if type.endswith("x2") and single[0] in "us" else _TRUE[single]

    def model(a: int, b: int, c: int) -> int:
        if not type.endswith("x2"):
            return combine(holds(type, operation, ftz, a, b), c) * true
        low, high = (combine(holds(type, operation, ftz, a >> s & 0xFFFF, b >> s & 0xFFFF), c) for s in (0, 16))
        return low * true | high * true << 16

    return model


def cases() -> Iterator[Case]:
    for family in (arithmetic, signs, extremes, functions, predicates, values):
        yield from family()
