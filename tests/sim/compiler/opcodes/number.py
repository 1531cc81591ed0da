"""Floating point in integers: what IEEE 754 and the PTX ISA say, without the host's floating-point unit.

A finite value is ``(sign, significand, exponent)``: ``(-1)**sign * significand * 2**exponent``. ``sticky`` says that
the true value is a little larger in size. Operations return the bits of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

Finite = tuple[int, int, int]


@dataclass(frozen=True)
class Format:
    """A binary format. ``precision`` counts the hidden bit; ``low`` is the exponent of the smallest subnormal.

    ``flushes``: results below the smallest normal number become zero (``.ftz``), as they stand after rounding to the
    precision without a bound on the exponent.
    """

    bits: int
    precision: int
    low: int
    nan: int
    flushes: bool = False

    @property
    def sign(self) -> int:
        return 1 << self.bits - 1

    @property
    def infinity(self) -> int:
        """Bits of +infinity."""
        return self.sign - (1 << self.precision - 1)

    @property
    def one(self) -> int:
        return (1 - self.low - self.precision + 1) << self.precision - 1


F32 = Format(32, 24, -149, 0x7FFFFFFF)
F64 = Format(64, 53, -1074, 0x7FF8000000000000)
F16 = Format(16, 11, -24, 0x7FFF)
BF16 = Format(16, 8, -133, 0x7FFF)
FLUSHING = Format(32, 24, -149, 0x7FFFFFFF, flushes=True)
FLUSHING_F16 = Format(16, 11, -24, 0x7FFF, flushes=True)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


def negative(f: Format, value: int) -> int:
    return value >> f.bits - 1


def magnitude(f: Format, value: int) -> int:
    return value & f.sign - 1


def is_nan(f: Format, value: int) -> bool:
    return magnitude(f, value) > f.infinity


def is_infinite(f: Format, value: int) -> bool:
    return magnitude(f, value) == f.infinity


def is_zero(f: Format, value: int) -> bool:
    return magnitude(f, value) == 0


def is_subnormal(f: Format, value: int) -> bool:
    return 0 < magnitude(f, value) < 1 << f.precision - 1


def flush(f: Format, value: int) -> int:
    """``.ftz``: a subnormal becomes zero of the same sign."""
    return value & f.sign if is_subnormal(f, value) else value


def saturate(f: Format, value: int) -> int:
    """``.sat``: into [0, 1]; NaN and all that is negative becomes +0."""
    if is_nan(f, value) or negative(f, value):
        return 0
    return min(value, f.one)


def decode(f: Format, value: int) -> Finite:
    size = magnitude(f, value)
    field, fraction = size >> f.precision - 1, size & (1 << f.precision - 1) - 1
    if not field:
        return negative(f, value), fraction, f.low
    return negative(f, value), fraction | 1 << f.precision - 1, f.low + field - 1


def key(f: Format, value: int) -> int:
    """An integer that orders values as numbers, -0 just before +0."""
    size = magnitude(f, value)
    return -size - 1 if negative(f, value) else size


def round_to(f: Format, mode: str, sign: int, significand: int, exponent: int, sticky: bool = False) -> int:
    """The bits of a finite value rounded to a format; ``mode`` is rn, rz, rm or rp. With ``sticky`` the significand
    must be longer than the precision."""
    top = f.sign if sign else 0
    if not significand and not sticky:
        return top
    last = exponent + significand.bit_length() - f.precision  # exponent of the last bit kept
    if f.flushes and last < f.low:
        if _rounded(mode, sign, significand, last - exponent, sticky).bit_length() + last <= f.low + f.precision - 1:
            return top
    last = max(last, f.low)
    kept = _rounded(mode, sign, significand, last - exponent, sticky)
    if kept < 1 << f.precision - 1:
        return top | kept
    bits = (last - f.low << f.precision - 1) + kept  # the hidden bit adds the one missing in the exponent field
    if bits >= f.infinity:
        away = mode == "rn" or mode == ("rm" if sign else "rp")
        bits = f.infinity if away else f.infinity - 1
    return top | bits


def _rounded(mode: str, sign: int, significand: int, shift: int, sticky: bool) -> int:
    """A significand without its last ``shift`` bits, rounded."""
    if shift <= 0:
        assert not sticky
        return significand << -shift
    kept = significand >> shift
    rest = significand & (1 << shift) - 1
    half = 1 << shift - 1
    if mode == "rn":
        up = rest > half or (rest == half and (sticky or kept & 1))
    else:
        up = (rest > 0 or sticky) and mode == ("rm" if sign else "rp")
    return kept + bool(up)


def add(f: Format, mode: str, a: int, b: int) -> int:
    return fma(f, mode, a, f.one, b, multiply_sign=0)


def sub(f: Format, mode: str, a: int, b: int) -> int:
    if is_nan(f, b):
        return f.nan
    return add(f, mode, a, b ^ f.sign)


def mul(f: Format, mode: str, a: int, b: int) -> int:
    if is_nan(f, a) or is_nan(f, b):
        return f.nan
    sign = negative(f, a) ^ negative(f, b)
    top = f.sign if sign else 0
    if is_infinite(f, a) or is_infinite(f, b):
        return f.nan if is_zero(f, a) or is_zero(f, b) else top | f.infinity
    (_, x, ex), (_, y, ey) = decode(f, a), decode(f, b)
    return round_to(f, mode, sign, x * y, ex + ey)


def fma(f: Format, mode: str, a: int, b: int, c: int, multiply_sign: int | None = None) -> int:
    """``a * b + c``, rounded once."""
    if is_nan(f, a) or is_nan(f, b) or is_nan(f, c):
        return f.nan
    sign = negative(f, a) ^ negative(f, b) if multiply_sign is None else negative(f, a)
    if is_infinite(f, a) or is_infinite(f, b):
        if is_zero(f, a) or is_zero(f, b) or (is_infinite(f, c) and negative(f, c) != sign):
            return f.nan
        return (f.sign if sign else 0) | f.infinity
    if is_infinite(f, c):
        return c
    (_, x, ex), (_, y, ey), (sign_c, z, ez) = decode(f, a), decode(f, b), decode(f, c)
    low = min(ex + ey, ez)
    product, addend = x * y << ex + ey - low, z << ez - low
    total = (-product if sign else product) + (-addend if sign_c else addend)
    if total == 0:  # x - x is +0, but -0 when rounding down; -0 + -0 is -0
        if product == 0 and addend == 0 and sign == sign_c:
            return f.sign if sign else 0
        return f.sign if mode == "rm" else 0
    return round_to(f, mode, int(total < 0), abs(total), low)


def div(f: Format, mode: str, a: int, b: int) -> int:
    if is_nan(f, a) or is_nan(f, b):
        return f.nan
    sign = negative(f, a) ^ negative(f, b)
    top = f.sign if sign else 0
    if is_infinite(f, a):
        return f.nan if is_infinite(f, b) else top | f.infinity
    if is_infinite(f, b):
        return top
    if is_zero(f, b):
        return f.nan if is_zero(f, a) else top | f.infinity
    (_, x, ex), (_, y, ey) = decode(f, a), decode(f, b)
    more = 2 * f.precision + 3  # enough for a quotient longer than the precision
    quotient, rest = divmod(x << more, y)
    return round_to(f, mode, sign, quotient, ex - ey - more, rest != 0)


def sqrt(f: Format, mode: str, a: int) -> int:
    if is_nan(f, a) or (negative(f, a) and not is_zero(f, a)):
        return f.nan
    if is_zero(f, a) or is_infinite(f, a):
        return a
    _, x, e = decode(f, a)
    more = 2 * f.precision + 2 + (e & 1)
    root = isqrt(x << more)
    return round_to(f, mode, 0, root, (e - more) // 2, root * root != x << more)


def convert(source: Format, target: Format, mode: str, value: int) -> int:
    """From one format to the other."""
    if is_nan(source, value):
        return target.nan
    if is_infinite(source, value):
        return (target.sign if negative(source, value) else 0) | target.infinity
    return round_to(target, mode, *decode(source, value))


def narrow_nan(value: int) -> int:
    """A NaN of F64 as one of F32: quiet, with the upper bits of the payload."""
    return value >> 63 << 31 | 0x7FC00000 | value >> 29 & 0x3FFFFF


def widen_nan(value: int) -> int:
    """A NaN of F32 as one of F64: quiet, with its payload."""
    return value >> 31 << 63 | 0x7FF8000000000000 | (value & 0x3FFFFF) << 29


def to_integer(f: Format, mode: str, value: int) -> int:
    """A finite value as a whole number; ``mode`` is rni, rzi, rmi or rpi."""
    sign, significand, exponent = decode(f, value)
    if exponent >= 0:
        size = significand << exponent
    else:
        size = significand >> -exponent
        rest = significand & (1 << -exponent) - 1
        half = 1 << -exponent - 1
        if mode == "rni":
            up = rest > half or (rest == half and size & 1)
        else:
            up = rest > 0 and mode == ("rmi" if sign else "rpi")
        size += bool(up)
    return -size if sign else size


def whole(f: Format, mode: str, value: int) -> int:
    """A value rounded to a whole number, as a value of the same format; the sign stays, also of zero."""
    if is_nan(f, value):
        return f.nan
    if is_infinite(f, value):
        return value
    number = to_integer(f, mode, value)
    return round_to(f, "rn", negative(f, value), abs(number), 0)


def extreme(f: Format, largest: bool, propagate: bool, a: int, b: int) -> int:
    """``min`` and ``max``: one NaN gives the other operand, unless it is to propagate; -0 is less than +0."""
    if is_nan(f, a) and is_nan(f, b) or propagate and (is_nan(f, a) or is_nan(f, b)):
        return f.nan
    if is_nan(f, a):
        return b
    if is_nan(f, b):
        return a
    return (max if largest else min)(a, b, key=lambda value: key(f, value))


def compare(f: Format, a: int, b: int) -> int | None:
    """Less, equal, greater: -1, 0, 1; None when one is NaN."""
    if is_nan(f, a) or is_nan(f, b):
        return None
    x, y = (0 if is_zero(f, value) else key(f, value) for value in (a, b))
    return (x > y) - (x < y)


def from_integer(f: Format, mode: str, value: int) -> int:
    return round_to(f, mode, int(value < 0), abs(value), 0)
