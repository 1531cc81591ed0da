"""Rounding to narrow floating-point formats: ``f16``, ``bf16``, and the 8-bit ``e4m3`` and ``e5m2``.

One function per format and rounding mode takes a double, which represents the value exactly or rounded to odd, and
returns the bits of the result. It uses integer arithmetic: no processor rounds to all of these formats in all modes,
and the processor's rounding and flushing modes do not affect it.

``fma`` of ``bf16`` needs more than a double: its sum is rounded to odd first, so that the second rounding is correct
(Boldo and Melquiond, "Emulation of a FMA and Correctly Rounded Sums", 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

from cudalab.sim.compiler.runtime.assembler import Function, Library

_MANTISSA = 52
_SIGNIFICANT = (1 << _MANTISSA) - 1
_MAGNITUDE = (1 << 63) - 1
_INFINITY = 0x7FF << _MANTISSA


@dataclass(frozen=True)
class Short:
    """A short format: bits of its mantissa, its exponent's bias, and its special codes (without the sign)."""

    name: str
    bits: int
    mantissa: int
    bias: int
    largest: int
    infinity: int
    """The result of overflow; the largest number in formats whose conversions saturate."""
    nan: int


FORMATS = (
    Short("f16", 16, 10, 15, 0x7BFF, 0x7C00, 0x7FFF),
    Short("bf16", 16, 7, 127, 0x7F7F, 0x7F80, 0x7FFF),
    Short("e4m3", 8, 3, 7, 0x7E, 0x7E, 0x7F),
    Short("e5m2", 8, 2, 15, 0x7B, 0x7B, 0x7F),
    Short("e2m3", 6, 3, 1, 0x1F, 0x1F, 0x1F),
    Short("e3m2", 6, 2, 3, 0x1F, 0x1F, 0x1F),
    Short("e2m1", 4, 1, 1, 0x07, 0x07, 0x07),
)
MODES = ("rn", "rz", "rm", "rp")


def write(library: Library) -> None:
    """Add the functions of this module."""
    for short in FORMATS:
        for mode in MODES if short.bits == 16 else ("rn",):
            _narrow(library, short, mode)
    _fused(library)
    _widen(library)


def _narrow(library: Library, short: Short, mode: str) -> None:
    """``i16 cl_FORMAT_MODE(double)``: the bits of the rounded value; a NaN has no sign."""
    f = library.function(f"cl_{short.name}_{mode}", "i16", "double value")
    bits = f.op("bitcast double %value to i64")
    negative = f.compare("slt", "i64", bits, 0)
    size = f.op(f"and i64 {bits}, {_MAGNITUDE}")
    exponent = f.op(f"sub i64 {f.op(f'lshr i64 {size}, {_MANTISSA}')}, 1023")
    fraction = f.op(f"and i64 {size}, {_SIGNIFICANT}")
    significand = f.op(f"or i64 {fraction}, {1 << _MANTISSA}")  # doubles below 2**-1022 are far below anything here
    least = 1 - short.bias
    below = f.op(f"sub i64 {least}, {exponent}")
    normal = f.compare("sle", "i64", below, 0)
    extra = f.op(f"select i1 {normal}, i64 0, i64 {below}")
    wanted = f.op(f"add i64 {extra}, {_MANTISSA - short.mantissa}")
    far = f.compare("ugt", "i64", wanted, 62)
    shift = f.op(f"select i1 {far}, i64 62, i64 {wanted}")
    zero = f.compare("eq", "i64", size, 0)
    significand = f.op(f"select i1 {zero}, i64 0, i64 {significand}")
    kept = f.op(f"lshr i64 {significand}, {shift}")
    rest = f.op(f"sub i64 {significand}, {f.op(f'shl i64 {kept}, {shift}')}")
    up = _rounds_up(f, mode, negative, kept, rest, shift)
    kept = f.op(f"add i64 {kept}, {f.op(f'zext i1 {up} to i64')}")
    # the significand's leading 1 counts once in the exponent's field
    field = f.op(f"shl i64 {f.op(f'add i64 {exponent}, {short.bias - 1}')}, {short.mantissa}")
    code = f.op(f"add i64 {kept}, {f.op(f'select i1 {normal}, i64 {field}, i64 0')}")
    over = f.compare("sgt", "i64", code, short.largest)
    code = f.op(f"select i1 {over}, i64 {_overflow(f, short, mode, negative, size)}, i64 {code}")
    sign = f.op(f"select i1 {negative}, i64 {1 << short.bits - 1}, i64 0")
    code = f.op(f"or i64 {code}, {sign}")
    missing = f.compare("ugt", "i64", size, _INFINITY)
    code = f.op(f"select i1 {missing}, i64 {short.nan}, i64 {code}")
    f.ret(f.op(f"trunc i64 {code} to i16"))


def _rounds_up(f: Function, mode: str, negative: str, kept: str, rest: str, shift: str) -> str:
    """Whether the magnitude is rounded away from zero."""
    if mode == "rz":
        return "false"
    inexact = f.compare("ne", "i64", rest, 0)
    if mode != "rn":
        away = negative if mode == "rm" else f.op(f"xor i1 {negative}, true")
        return f.op(f"and i1 {inexact}, {away}")
    half = f.op(f"shl i64 1, {f.op(f'sub i64 {shift}, 1')}")
    above = f.compare("ugt", "i64", rest, half)
    tie = f.compare("eq", "i64", rest, half)
    odd = f.op(f"trunc i64 {kept} to i1")
    return f.op(f"or i1 {above}, {f.op(f'and i1 {tie}, {odd}')}")


def _overflow(f: Function, short: Short, mode: str, negative: str, size: str) -> str:
    """The result for a magnitude beyond the largest number; an infinity remains one."""
    if mode == "rn":
        return str(short.infinity)
    infinite = f.compare("eq", "i64", size, _INFINITY)
    if mode != "rz":
        away = negative if mode == "rm" else f.op(f"xor i1 {negative}, true")
        infinite = f.op(f"or i1 {infinite}, {away}")
    return f.op(f"select i1 {infinite}, i64 {short.infinity}, i64 {short.largest}")


def _fused(library: Library) -> None:
    """``double cl_fma_odd(double a, double b, double c)``: ``a * b + c`` rounded to odd; ``a * b`` must be exact."""
    f = library.function("cl_fma_odd", "double", "double a, double b, double c")
    product = f.op("fmul double %a, %b")
    total = f.op(f"fadd double {product}, %c")
    # the exact rounding error (Knuth's TwoSum)
    second = f.op(f"fsub double {total}, {product}")
    first = f.op(f"fsub double {total}, {second}")
    lost = f.op(f"fadd double {f.op(f'fsub double {product}, {first}')}, {f.op(f'fsub double %c, {second}')}")
    bits = f.op(f"bitcast double {total} to i64")
    inexact = f.op(f"fcmp one double {lost}, 0.0")  # false for the NaN that infinities leave
    even = f.op(f"xor i1 {f.op(f'trunc i64 {bits} to i1')}, true")
    # towards the error: one step up or down in magnitude
    outwards = f.compare("sge", "i64", f.op(f"xor i64 {bits}, {f.op(f'bitcast double {lost} to i64')}"), 0)
    step = f.op(f"select i1 {outwards}, i64 1, i64 -1")
    odd = f.op(f"bitcast i64 {f.op(f'add i64 {bits}, {step}')} to double")
    f.ret(f.op(f"select i1 {f.op(f'and i1 {inexact}, {even}')}, double {odd}, double {total}"))


def _widen(library: Library) -> None:
    """``float cl_widen_f16(i16)``, for processors without an instruction for it."""
    f = library.function("cl_widen_f16", "float", "i16 bits")
    wide = f.op("zext i16 %bits to i64")
    size = f.op(f"and i64 {wide}, {0x7FFF}")
    payload = f.op(f"shl i64 {size}, {_MANTISSA - 10}")
    normal = f.op(f"bitcast i64 {f.op(f'add i64 {payload}, {1008 << _MANTISSA}')} to double")
    small = f.op(f"fmul double {f.op(f'uitofp i64 {size} to double')}, 0x{(1023 - 24) << _MANTISSA:016X}")
    value = f.op(f"select i1 {f.compare('ult', 'i64', size, 0x400)}, double {small}, double {normal}")
    special = f.compare("uge", "i64", size, 0x7C00)
    extreme = f.op(f"bitcast i64 {f.op(f'or i64 {payload}, {_INFINITY}')} to double")
    value = f.op(f"select i1 {special}, double {extreme}, double {value}")
    negative = f.compare("ne", "i64", f.op(f"and i64 {wide}, {0x8000}"), 0)
    value = f.op(f"select i1 {negative}, double {f.op(f'fneg double {value}')}, double {value}")
    f.ret(f.op(f"fptrunc double {value} to float"))
