"""Floating-point operators and intrinsics (CUDA Math API; IEEE 754; PTX ISA, "Floating-Point Instructions").

Programs are compiled without contraction (``--fmad=false``) and with ``-ftz=true``, as CuPy does: a single-precision
result that is subnormal after rounding to 24 bits becomes zero of its sign. Operands are never subnormal, because
inputs are not and results are flushed. Double precision is IEEE.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np

from tests.fuzz.operation import Catalogue
from tests.fuzz.scalar import BOOL, F32, F64, I32, I64, INTEGERS, U16, U32, U64, Array, Scalar, common, convert

CATALOGUE = Catalogue()
add = CATALOGUE.add
_LEAST = 2.0**-126
_ROUNDINGS = ("rn", "rz", "ru", "rd")


# --------------------------------------------------------------------------------------------- single precision


def directed(nearest: Array, error: Array, mode: str) -> Array:
    """The result in another rounding mode. ``error``: the sign of the exact result minus ``nearest``."""
    if mode == "rn":
        return nearest
    low, high = nearest.dtype.type(-np.inf), nearest.dtype.type(np.inf)
    negative = np.signbit(nearest)
    if mode == "rz":
        down, up = (error < 0) & ~negative, (error > 0) & negative
    elif mode == "rd":
        down, up = error < 0, np.zeros_like(negative)
    else:
        down, up = np.zeros_like(negative), error > 0
    value = np.where(down, np.nextafter(nearest, low), nearest)
    return np.where(up, np.nextafter(nearest, high), value)


def flushed(value: Array, exact: Array, error: Array, mode: str = "rn") -> Array:
    """``value``, or zero of its sign where the exact result (``exact`` plus an error of that sign) is subnormal after
    rounding to 24 bits without a bound on the exponent."""
    size = np.abs(exact)
    outward = np.where(exact < 0, -error, error)  # > 0: the exact size is a little more
    limit: Array | float
    if mode == "rn":
        limit, equal = _LEAST - 2.0**-151, outward < 0
    elif mode == "rz":
        limit, equal = _LEAST, outward < 0
    else:
        away = (exact > 0) if mode == "ru" else (exact < 0)
        limit = np.where(away, _LEAST - 2.0**-150, _LEAST)
        equal = np.where(away, outward <= 0, outward < 0)
    tiny = (size < limit) | ((size == limit) & equal)
    return np.where(tiny, np.copysign(np.float32(0), value), value)


def _finish(exact: Array, error: Array, mode: str = "rn") -> Array:
    """Round ``exact`` plus an error of that sign to single precision."""
    odd = _to_odd(exact, error)
    nearest = odd.astype(np.float32)
    difference = np.sign(odd - nearest.astype(np.float64))
    difference = np.where(np.isnan(difference), 0, difference)
    return flushed(directed(nearest, difference, mode), exact, error, mode)


def _to_odd(exact: Array, error: Array) -> Array:
    """Rounded to odd: later rounding to fewer bits then gives what rounding once would."""
    bits = exact.view(np.int64)
    inexact = (error != 0) & np.isfinite(exact)
    towards = np.where((error > 0) == (exact >= 0), 1, -1)
    lower = np.where(towards < 0, bits - 1, bits)  # the neighbour nearer to zero of the interval that holds it
    return np.where(inexact, (lower | 1), bits).view(np.float64)


def _sum(a: Array, b: Array, mode: str = "rn") -> tuple[Array, Array]:
    """A double-precision sum and the sign of its error. Rounding down, a sum that is exactly zero is -0, unless both
    are +0 (IEEE 754, 6.3)."""
    total = a + b
    if mode == "rd":
        plus = ~(np.signbit(a) | np.signbit(b))
        total = np.where((total == 0) & ~plus, -0.0, total)
    part = total - a
    error = (a - (total - part)) + (b - part)
    return total, np.where(np.isfinite(total) & np.isfinite(error), np.sign(error), 0)


def _none(a: Array) -> Array:
    return np.zeros(a.shape)


def add32(mode: str, a: Array, b: Array) -> Array:
    return _finish(*_sum(a.astype(np.float64), b.astype(np.float64), mode), mode)


def sub32(mode: str, a: Array, b: Array) -> Array:
    return add32(mode, a, -b)


def mul32(mode: str, a: Array, b: Array) -> Array:
    product = a.astype(np.float64) * b.astype(np.float64)
    return _finish(product, _none(product), mode)


def fma32(mode: str, a: Array, b: Array, c: Array) -> Array:
    return _finish(*_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64), mode), mode)


def div32(mode: str, a: Array, b: Array) -> Array:
    wide, by = a.astype(np.float64), b.astype(np.float64)
    nearest = a / b
    error = np.sign(wide - nearest.astype(np.float64) * by) * np.sign(by)
    plain = np.isfinite(a) & np.isfinite(b) & (b != 0)
    error = np.where(plain & np.isinf(nearest), -np.sign(nearest), np.where(plain, error, 0))
    quotient = wide / by
    return flushed(directed(nearest, error, mode), quotient, _none(quotient), mode)


def sqrt32(mode: str, a: Array) -> Array:
    root = np.sqrt(a)
    wide = root.astype(np.float64)
    error = np.where(np.isfinite(root), np.sign(a.astype(np.float64) - wide * wide), 0)
    return directed(root, error, mode)


def narrow(value: Array, mode: str = "rn") -> Array:
    """Double to single precision."""
    return _finish(value, _none(value), mode)


# --------------------------------------------------------------------------------------------- double precision


def _fraction(value: Fraction, mode: str, zero: float) -> float:
    """A rational number rounded to double precision."""
    if value == 0:
        return zero
    try:
        nearest = value.numerator / value.denominator
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if mode == "rn" or (math.isfinite(nearest) and Fraction(nearest) == value):
        return nearest
    below = math.isfinite(nearest) and Fraction(nearest) < value or nearest == -math.inf
    if mode == "rz":
        mode = "rd" if value > 0 else "ru"
    if mode == "ru":
        return math.nextafter(nearest, math.inf) if below else nearest
    return nearest if below else math.nextafter(nearest, -math.inf)


def exact64(name: str, mode: str) -> Callable[..., Array]:
    """An operation on doubles by rational arithmetic, one thread after the other."""

    def one(*values: float) -> float:
        if name == "fma":
            a, b, c = values
            if not (math.isfinite(a) and math.isfinite(b)):
                return a * b + c
            if not math.isfinite(c):
                return c
            exact = Fraction(a) * Fraction(b) + Fraction(c)
            product_negative = math.copysign(1, a) * math.copysign(1, b) < 0
            return _fraction(exact, mode, _zero_sum(product_negative, math.copysign(1, c) < 0, a * b == 0 == c, mode))
        a, b = values
        if not (math.isfinite(a) and math.isfinite(b)):
            return a + b if name == "add" else a * b
        if name == "add":
            negative_a, negative_b = math.copysign(1, a) < 0, math.copysign(1, b) < 0
            zero = _zero_sum(negative_a, negative_b, a == 0 == b, mode)
            return _fraction(Fraction(a) + Fraction(b), mode, zero)
        sign = math.copysign(1, a) * math.copysign(1, b)
        return _fraction(Fraction(a) * Fraction(b), mode, math.copysign(0.0, sign))

    def compute(*values: Array) -> Array:
        return np.array([one(*each) for each in zip(*[value.tolist() for value in values], strict=True)], np.float64)

    return compute


def _zero_sum(first_negative: bool, second_negative: bool, both_zero: bool, mode: str) -> float:
    """The sign of a sum that is exactly zero (IEEE 754, 6.3)."""
    if both_zero and first_negative == second_negative:
        return -0.0 if first_negative else 0.0
    return -0.0 if mode == "rd" else 0.0


# ------------------------------------------------------------------------------------------------- shared by both


def minimum(a: Array, b: Array) -> Array:
    """The number where the other is NaN; -0 is less than +0."""
    value = np.fmin(a, b)
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), a, b), value)


def maximum(a: Array, b: Array) -> Array:
    value = np.fmax(a, b)
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), value)


def away(a: Array) -> Array:
    """Round half away from zero."""
    whole = np.trunc(a)
    return np.where(np.abs(a - whole) >= 0.5, whole + np.copysign(a.dtype.type(1), a), np.copysign(whole, a))


_WHOLE = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor}


def to_integer(kind: Scalar, mode: str, a: Array) -> Array:
    """PTX ``cvt``: values out of range become the nearest that fits, NaN becomes 0, or the integer with only the top
    bit set where source or target has 64 bits."""
    whole = _WHOLE[mode](a.astype(np.float64))
    bound = 2.0**kind.bits if kind.kind == "u" else 2.0 ** (kind.bits - 1)
    info = np.iinfo(kind.dtype)
    inside = (whole < bound) & (whole >= float(info.min))
    value = np.where(inside, whole, 0).astype(kind.dtype)
    value = np.where(whole >= bound, kind.dtype.type(info.max), value)
    value = np.where(whole < float(info.min), kind.dtype.type(info.min), value)
    missing = 0
    if 64 in (kind.bits, a.dtype.itemsize * 8):
        missing = 1 << (kind.bits - 1) if kind.kind == "u" else info.min
    return np.where(np.isnan(a), kind.dtype.type(missing), value)


def _in_range(kind: Scalar, a: Array) -> Array:
    """What ``within_`` of the prelude computes: the truncated value, or 0 outside the type's range."""
    bound = 2.0 ** (kind.bits - 1)
    low = 0.0 if kind.kind == "u" else -bound
    inside = (a >= low) & (a < bound)
    return np.where(inside, a, 0).astype(kind.dtype)


def from_integer(target: Scalar, mode: str, a: Array) -> Array:
    nearest = a.astype(target.dtype)
    if mode == "rn":
        return nearest
    error = [(x > int(y)) - (x < int(y)) for x, y in zip(a.tolist(), nearest.tolist(), strict=True)]
    return directed(nearest, np.array(error), mode)


def _bits_of(a: Array) -> Array:
    """The bits of the value, of 1 instead of a NaN."""
    return np.where(np.isnan(a), np.ones_like(a), a).view(np.uint32 if a.dtype == np.float32 else np.uint64)


def _from_bits(a: Array) -> Array:
    if a.dtype == np.uint32:
        exponent = (a >> np.uint32(23)) & np.uint32(255)
        kept = np.where(exponent == 0, a & np.uint32(1 << 31), np.where(exponent == 255, np.uint32(0x3F800000), a))
        return kept.astype(np.uint32).view(np.float32)
    exponent = (a >> np.uint64(52)) & np.uint64(2047)
    return np.where(exponent == 2047, np.uint64(1023 << 52), a).view(np.float64)


_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_SINGLE = {"add": add32, "sub": sub32, "mul": mul32, "div": div32}
_DOUBLE = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
_COMPARE: dict[str, tuple[str, Callable[..., Array]]] = {
    "lt": ("<", np.less),
    "le": ("<=", np.less_equal),
    "gt": (">", np.greater),
    "ge": (">=", np.greater_equal),
    "eq": ("==", np.equal),
    "ne": ("!=", np.not_equal),
}


def _mixed(kind: Scalar, function: Callable[..., Array], a: Array, b: Array) -> Array:
    return function(convert(a, kind), convert(b, kind))


def _operators() -> None:
    floats = (F32, F64)
    for a in (*INTEGERS, *floats):
        for b in (*INTEGERS, *floats):
            if not {a, b} & set(floats):
                continue
            kind, pair = common(a, b), f"{a.name}.{b.name}"
            for name, sign in _OPERATORS.items():
                function = partial(_SINGLE[name], "rn") if kind is F32 else _DOUBLE[name]
                add(f"{name}.{pair}", (a, b), kind, f"({{0}} {sign} {{1}})", partial(_mixed, kind, function))
            for name, (sign, compare) in _COMPARE.items():
                add(f"{name}.{pair}", (a, b), BOOL, f"({{0}} {sign} {{1}})", partial(_mixed, kind, compare))


def _intrinsics() -> None:
    for kind, tail in ((F32, "f"), (F64, "")):
        one, two = (kind,), (kind, kind)
        n = kind.name
        add(f"negate.{n}", one, kind, "(-{0})", np.negative)
        add(f"fabs.{n}", one, kind, f"fabs{tail}({{0}})", np.abs)
        add(f"fmin.{n}", two, kind, f"fmin{tail}({{0}}, {{1}})", minimum)
        add(f"fmax.{n}", two, kind, f"fmax{tail}({{0}}, {{1}})", maximum)
        add(f"copysign.{n}", two, kind, f"copysign{tail}({{0}}, number_({{1}}))", _copy_sign)
        for name, function in (("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("rint", np.rint)):
            add(f"{name}.{n}", one, kind, f"{name}{tail}({{0}})", function)
        add(f"round.{n}", one, kind, f"round{tail}({{0}})", away)
        add(f"isnan.{n}", one, BOOL, "(isnan({0}) != 0)", np.isnan)
        add(f"isinf.{n}", one, BOOL, "(isinf({0}) != 0)", np.isinf)
        add(f"signbit.{n}", one, BOOL, "(signbit(number_({0})) != 0)", lambda a: np.signbit(a) & ~np.isnan(a))
        add(f"is_true.{n}", one, BOOL, "((bool){0})", lambda a: a != 0)
    add("bits.f32", (F32,), U32, "__float_as_uint(number_({0}))", _bits_of)
    add("bits.f64", (F64,), U64, "(unsigned long long)__double_as_longlong(number_({0}))", _bits_of)
    add("from_bits.f32", (U32,), F32, "from_bits_({0})", _from_bits)
    add("from_bits.f64", (U64,), F64, "from_bits_({0})", _from_bits)
    add("fmod.f64", (F64, F64), F64, "fmod({0}, {1})", np.fmod)
    add("sqrt.f32", (F32,), F32, "sqrtf({0})", partial(sqrt32, "rn"))
    add("sqrt.f64", (F64,), F64, "sqrt({0})", np.sqrt)
    add("saturate.f32", (F32,), F32, "__saturatef({0})", _saturate)
    add("fma.f32", (F32, F32, F32), F32, "fmaf({0}, {1}, {2})", partial(fma32, "rn"))
    add("fma.f64", (F64, F64, F64), F64, "fma({0}, {1}, {2})", exact64("fma", "rn"))
    for mode in _ROUNDINGS:
        for name, single in _SINGLE.items():
            text = f"__f{name}_{mode}({{0}}, {{1}})"
            add(f"__f{name}_{mode}", (F32, F32), F32, text, partial(single, mode))
        text = f"__fmaf_{mode}({{0}}, {{1}}, {{2}})"
        add(f"__fmaf_{mode}", (F32, F32, F32), F32, text, partial(fma32, mode))
        add(f"__fsqrt_{mode}", (F32,), F32, f"__fsqrt_{mode}({{0}})", partial(sqrt32, mode))
        add(f"__frcp_{mode}", (F32,), F32, f"__frcp_{mode}({{0}})", partial(_reciprocal, mode))
        add(f"__dadd_{mode}", (F64, F64), F64, f"__dadd_{mode}({{0}}, {{1}})", exact64("add", mode))
        add(f"__dmul_{mode}", (F64, F64), F64, f"__dmul_{mode}({{0}}, {{1}})", exact64("mul", mode))
        add(f"__fma_{mode}", (F64, F64, F64), F64, f"__fma_{mode}({{0}}, {{1}}, {{2}})", exact64("fma", mode))
        add(f"__double2float_{mode}", (F64,), F32, f"__double2float_{mode}({{0}})", partial(narrow, mode=mode))
        names = ((I32, "int"), (U32, "uint"), (I64, "ll"), (U64, "ull"))
        for kind, word in names:
            for source, prefix in ((F32, "float"), (F64, "double")):
                name = f"__{prefix}2{word}_{mode}"
                add(name, (source,), kind, f"{name}({{0}})", partial(to_integer, kind, mode))
                if source is F64 and kind.bits == 32:
                    continue  # exact; CUDA has __int2double_rn only
                name = f"__{word}2{prefix}_{mode}"
                add(name, (kind,), source, f"{name}({{0}})", partial(from_integer, source, mode))
    for kind in INTEGERS:
        for source in (F32, F64):
            text = f"within_<{kind.ctype}>({{0}}, {_bounds(kind, source)})"
            add(f"cast.{source.name}.{kind.name}", (source,), kind, text, partial(_in_range, kind))


def _bounds(kind: Scalar, source: Scalar) -> str:
    suffix = "f" if source is F32 else ""
    high = f"0x1p{kind.bits - 1}{suffix}"
    return (
        f"{'0' if kind.kind == 'u' else '-0x1p' + str(kind.bits - 1)}{'.0' if kind.kind == 'u' else ''}{suffix}, {high}"
    )


def _copy_sign(a: Array, b: Array) -> Array:
    return np.copysign(a, np.where(np.isnan(b), np.ones_like(b), b))


def _saturate(a: Array) -> Array:
    value = np.minimum(np.maximum(a, np.float32(0)), np.float32(1))
    return np.where(np.isnan(a) | (a == 0), np.float32(0), value)


def _reciprocal(mode: str, a: Array) -> Array:
    return div32(mode, np.ones_like(a), a)


# ---------------------------------------------------------------------------------------------------------- halves


def _half(function: Callable[..., Array]) -> Callable[..., Array]:
    """On the bits of halves; a NaN result is 0x7fff. Products and sums of halves are exact enough in double precision
    that rounding them again gives the same."""

    def compute(*values: Array) -> Array:
        result = function(*[value.view(np.float16).astype(np.float64) for value in values]).astype(np.float16)
        return np.where(np.isnan(result), np.uint16(0x7FFF), result.view(np.uint16))

    return compute


def _halves() -> None:
    bits, value = "__half_as_ushort({0})", "__ushort_as_half({{{0}}})"
    a, b, c = (value.format(index) for index in range(3))
    two = (U16, U16)
    for name, function in (("__hadd_rn", np.add), ("__hsub_rn", np.subtract), ("__hmul_rn", np.multiply)):
        add(f"half.{name}", two, U16, bits.format(f"{name}({a}, {b})"), _half(function), "fp16")
    add("half.__hfma", (U16,) * 3, U16, bits.format(f"__hfma({a}, {b}, {c})"), _half(_fused_half), "fp16")
    for name, (sign, compare) in _COMPARE.items():
        text = f"({a} {sign} {b})"
        add(f"half.{name}", two, BOOL, text, partial(_compare_halves, compare), "fp16")
    add("half.to_float", (U16,), F32, f"__half2float({a})", lambda x: x.view(np.float16).astype(np.float32), "fp16")
    for mode in _ROUNDINGS:
        text = bits.format(f"__float2half_{mode}({{0}})")
        add(f"half.from_float_{mode}", (F32,), U16, text, partial(_to_half, mode), "fp16")


def _fused_half(a: Array, b: Array, c: Array) -> Array:
    """Odd rounding of the sum, so that the half is rounded once."""
    total, error = _sum(a * b, c)
    return _to_odd(total, error)


def _compare_halves(compare: Callable[..., Array], a: Array, b: Array) -> Array:
    return compare(a.view(np.float16), b.view(np.float16))


def _to_half(mode: str, a: Array) -> Array:
    nearest = a.astype(np.float16)
    difference = np.sign(a.astype(np.float64) - nearest.astype(np.float64))
    value = directed(nearest, np.where(np.isnan(difference), 0, difference), mode)
    return np.where(np.isnan(value), np.uint16(0x7FFF), value.view(np.uint16))


_operators()
_intrinsics()
_halves()
