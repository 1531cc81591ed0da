"""Exact arithmetic for the models of instructions: floats as rational numbers, rounded as IEEE 754 says.

Nothing here uses the host's floating-point unit, so it does not repeat the mistakes that the tests look for.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction

CANONICAL = {32: 0x7FFFFFFF, 64: 0x7FF8000000000000}
_PRECISION = {32: (24, -149, 128), 64: (53, -1074, 1024)}  # digits, least exponent, overflow exponent


def to_bits(value: float, bits: int) -> int:
    """The bit pattern of a float; ``value`` must be representable."""
    return int.from_bytes(struct.pack("<f" if bits == 32 else "<d", value), "little")


def from_bits(pattern: int, bits: int) -> float:
    """The float with a bit pattern."""
    return struct.unpack("<f" if bits == 32 else "<d", pattern.to_bytes(bits // 8, "little"))[0]


def round_exact(value: Fraction, bits: int, mode: str, zero_sign: bool = False) -> float:
    """Round a rational number. ``mode``: rn, rz, rm (down), rp (up). A zero has the sign ``zero_sign``."""
    if value == 0:
        return -0.0 if zero_sign else 0.0
    digits, least, top = _PRECISION[bits]
    negative, size = value < 0, abs(value)
    exponent = max(_floor_log2(size) - digits + 1, least)
    scaled = size / Fraction(2) ** exponent
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    up = {
        "rn": (2 * rest, whole & 1) > (scaled.denominator, 0) or 2 * rest > scaled.denominator,
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
    }[mode]
    if mode == "rn" and 2 * rest == scaled.denominator:
        up = bool(whole & 1)
    result = Fraction(whole + up) * Fraction(2) ** exponent
    if result >= Fraction(2) ** top:
        largest = float((Fraction(2) ** digits - 1) * Fraction(2) ** (top - digits))
        to_infinity = mode == "rn" or (mode == "rm" and negative) or (mode == "rp" and not negative)
        magnitude = math.inf if to_infinity else largest
    else:
        magnitude = float(result)
    return -magnitude if negative else magnitude


def _floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def add(a: float, b: float, bits: int, mode: str) -> float:
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b) and a != b):
        return math.nan
    if math.isinf(a) or math.isinf(b):
        return a if math.isinf(a) else b
    negative = lambda x: math.copysign(1, x) < 0  # noqa: E731
    if a == 0 and b == 0:
        sign = (negative(a) and negative(b)) if mode != "rm" else (negative(a) or negative(b))
    else:
        sign = mode == "rm"
    return round_exact(Fraction(a) + Fraction(b), bits, mode, sign)


def multiply(a: float, b: float, bits: int, mode: str) -> float:
    sign = (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and b == 0) or (math.isinf(b) and a == 0):
        return math.nan
    if math.isinf(a) or math.isinf(b):
        return -math.inf if sign else math.inf
    return round_exact(Fraction(a) * Fraction(b), bits, mode, sign)


def divide(a: float, b: float, bits: int, mode: str) -> float:
    sign = (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b)) or (a == 0 and b == 0):
        return math.nan
    if math.isinf(a) or b == 0:
        return -math.inf if sign else math.inf
    if math.isinf(b):
        return -0.0 if sign else 0.0
    return round_exact(Fraction(a) / Fraction(b), bits, mode, sign)


def fused(a: float, b: float, c: float, bits: int, mode: str) -> float:
    if any(map(math.isnan, (a, b, c))) or (math.isinf(a) and b == 0) or (math.isinf(b) and a == 0):
        return math.nan
    sign = (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)
    if math.isinf(a) or math.isinf(b):
        product = -math.inf if sign else math.inf
        return math.nan if math.isinf(c) and c != product else product
    if math.isinf(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    minus_c = math.copysign(1, c) < 0
    if Fraction(a) * Fraction(b) == 0 and c == 0:
        zero = (sign and minus_c) if mode != "rm" else (sign or minus_c)
    else:
        zero = mode == "rm"
    return round_exact(exact, bits, mode, zero)


def square_root(a: float, bits: int, mode: str) -> float:
    if math.isnan(a) or a < 0:
        return math.nan
    if a == 0 or math.isinf(a):
        return a
    digits = _PRECISION[bits][0]
    value = Fraction(a)
    shift = 2 * (digits + 4) - (_floor_log2(value) & ~1)
    scaled = value * Fraction(2) ** shift
    root = math.isqrt(scaled.numerator // scaled.denominator)
    exact = root * root == scaled.numerator and scaled.denominator == 1
    # a little more than the truncated root stands for what was cut off
    near = Fraction(root) if exact else Fraction(2 * root + 1, 2)
    return round_exact(near / Fraction(2) ** (shift // 2), bits, mode)


def flush(a: float) -> float:
    """Single precision without subnormals."""
    return math.copysign(0.0, a) if abs(a) < 2.0**-126 else a


def saturate(a: float) -> float:
    return 0.0 if math.isnan(a) or a <= 0 else min(a, 1.0)
