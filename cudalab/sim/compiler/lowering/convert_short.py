"""Conversions from and to ``f16``, ``bf16`` and the 8-bit formats ``e4m3`` and ``e5m2`` (PTX ISA, ``cvt``).

Every conversion rounds once, from a double that holds the source's value (``runtime.narrow``); only 64-bit integers
need rounding to odd first. Two numbers are converted to a pair with the first operand in the upper half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.compiler.lowering.convert import _INTEGERS, _TO_INTEGER
from cudalab.sim.compiler.lowering.floating import flush as flush_float
from cudalab.sim.compiler.lowering.floating import saturate
from cudalab.sim.compiler.lowering.half import _no_negative, joined, narrow, put, split, widen
from cudalab.sim.compiler.ptx.nodes import BITS, Instruction
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.emitter import Emitter

TABLE = Table()
_ROUND = "<rn|rz|rm|rp>"
_LARGEST = {"f16": 0x7BFF, "bf16": 0x7F7F}
_NAN = 0x7FFF


def _mode(f: Form) -> str:
    return f.choose("rz", "rm", "rp") or "rn"


def _finite(e: Emitter, bits: str, type: str) -> str:
    """``.satfinite``: an infinity becomes the largest number of its sign."""
    size = e.new(f"and i16 {bits}, {0x7FFF}")
    infinite = e.new(f"icmp eq i16 {size}, {_LARGEST[type] + 1}")
    largest = e.new(f"or i16 {e.new(f'and i16 {bits}, -32768')}, {_LARGEST[type]}")
    return e.new(f"select i1 {infinite}, i16 {largest}, i16 {bits}")


def _converted(e: Emitter, f: Form, value: str, kind: str, type: str) -> str:
    """A float or double as ``type``, with the modifiers of the form."""
    # to f16 `.ftz` changes nothing: an H200 rounds subnormal floats as they are
    if "ftz" in f and type == "bf16":
        value = flush_float(e, value)
    if "sat" in f:
        value = saturate(e, value, 32 if kind == "float" else 64)
    if "relu" in f:
        value = _no_negative(e, value, kind)
    bits = narrow(e, value, type, kind, _mode(f))
    return _finite(e, bits, type) if "satfinite" in f else bits


@TABLE.row(f"cvt.{_ROUND}[.ftz][.sat].f16.f32", f"cvt.{_ROUND}[.ftz][.sat].bf16.f32")
@TABLE.row(f"cvt.{_ROUND}[.sat].<f16|bf16>.f64")
@TABLE.row("cvt.<rn|rz>.relu[.satfinite].<f16|bf16>.f32", "cvt.<rn|rz>.satfinite[.relu].<f16|bf16>.f32")
def _from_real(e: Emitter, i: Instruction, f: Form) -> None:
    target, source = f.types
    kind = "float" if source == "f32" else "double"
    value = e.real(i.operands[1], BITS[source])
    bits = _converted(e, f, value, kind, target)
    if source == "f64" and "sat" not in f:
        bits = _with_payload(e, value, target, bits)
    e.set_integer(i.operands[0], bits, 16)


def _with_payload(e: Emitter, value: str, type: str, bits: str) -> str:
    """``bits``, or where the double is a NaN, that NaN: quiet, with its sign and the upper bits of its payload."""
    short = 52 - 10 if type == "f16" else 52 - 7
    quiet = 0x7E00 if type == "f16" else 0x7FC0
    word = e.new(f"bitcast double {value} to i64")
    payload = e.new(f"trunc i64 {e.new(f'lshr i64 {word}, {short}')} to i16")
    payload = e.new(f"and i16 {payload}, {0x1FF if type == 'f16' else 0x3F}")
    upper = e.new(f"trunc i64 {e.new(f'lshr i64 {word}, 48')} to i16")
    sign = e.new(f"and i16 {upper}, -32768")
    own = e.new(f"or i16 {e.new(f'or i16 {payload}, {quiet}')}, {sign}")
    missing = e.new(f"fcmp uno double {value}, {value}")
    return e.new(f"select i1 {missing}, i16 {own}, i16 {bits}")


@TABLE.row("cvt.<rn|rz>[.relu][.satfinite].<f16x2|bf16x2>.f32", "cvt.<rn|rz>.satfinite.relu.<f16x2|bf16x2>.f32")
def _from_two(e: Emitter, i: Instruction, f: Form) -> None:
    type = f.types[0].removesuffix("x2")
    high, low = (_converted(e, f, e.real(operand, 32), "float", type) for operand in i.operands[1:3])
    put(e, i.operands[0], f.types[0], [low, high])


@TABLE.row("cvt[.ftz][.sat].f32.f16", "cvt[.rn|rz|rm|rp][.ftz][.sat].f32.bf16")
@TABLE.row("cvt[.sat].f64.f16", "cvt[.rn|rz|rm|rp][.sat].f64.bf16")
def _to_real(e: Emitter, i: Instruction, f: Form) -> None:
    target, source = f.types
    number, bits = e.integer(i.operands[1], 16), BITS[target]
    value = ""
    if source == "f16" or bits == 64:
        value = widen(e, number, source)
    if source == "f16" and bits == 64:
        value = e.new(f"fpext float {value} to double")
    elif source == "bf16" and bits == 32:  # the upper half of a float, NaNs with their payload too
        word = e.new(f"shl i32 {e.new(f'zext i16 {number} to i32')}, 16")
        value = e.new(f"bitcast i32 {word} to float")
        if "ftz" in f:
            value = flush_float(e, value)
    if "sat" in f:
        value = saturate(e, value, bits)
    e.set_real(i.operands[0], value, bits)


@TABLE.row(
    f"cvt.{_ROUND}.f16.bf16", f"cvt.{_ROUND}.bf16.f16", "cvt[.sat].f16.f16", "cvt.f16.bf16", "cvt.bf16.<f16|bf16>"
)
@TABLE.row("cvt.<rni|rzi|rmi|rpi>[.sat].f16.f16", "cvt.<rni|rzi|rmi|rpi>.bf16.bf16")
def _between_halves(e: Emitter, i: Instruction, f: Form) -> None:
    target, source = f.types
    bits = e.integer(i.operands[1], 16)
    value = widen(e, bits, source)
    kind = "float" if source == "f16" else "double"
    whole = f.choose(*_TO_INTEGER)
    if whole:
        width = 32 if kind == "float" else 64
        value = e.intrinsic(f"llvm.{_TO_INTEGER[whole]}.f{width}", kind, f"{kind} {value}")
    if "sat" in f:
        value = saturate(e, value, 32 if kind == "float" else 64)
    e.set_integer(i.operands[0], narrow(e, value, target, kind, _mode(f)), 16)


@TABLE.row(f"cvt.{_ROUND}[.sat].<f16|bf16>.{_INTEGERS}")
def _from_integer(e: Emitter, i: Instruction, f: Form) -> None:
    target, source = f.types
    have = BITS[source]
    value = e.integer(i.operands[1], have)
    sign = "s" if source[0] == "s" else "u"
    if have < 64:
        value = e.new(f"{sign}itofp i{have} {value} to double")
    else:  # to odd: towards zero, with a sticky last bit
        rounded = e.runtime(f"cl_from_{sign}64_rz_f64", "double", f"i64 {value}")
        back = e.intrinsic(f"llvm.fpto{sign}i.sat.i64.f64", "i64", f"double {rounded}")
        lost = e.new(f"zext i1 {e.new(f'icmp ne i64 {back}, {value}')} to i64")
        odd = e.new(f"or i64 {e.new(f'bitcast double {rounded} to i64')}, {lost}")
        value = e.new(f"bitcast i64 {odd} to double")
    if "sat" in f:
        value = saturate(e, value, 64)
    e.set_integer(i.operands[0], narrow(e, value, target, "double", _mode(f)), 16)


@TABLE.row(f"cvt.<rni|rzi|rmi|rpi>[.sat].{_INTEGERS}.f16", f"cvt.<rni|rzi|rmi|rpi>.{_INTEGERS}.bf16")
def _to_integer(e: Emitter, i: Instruction, f: Form) -> None:
    target, source = f.types
    want, kind, width = BITS[target], "float" if source == "f16" else "double", 32 if source == "f16" else 64
    bits = e.integer(i.operands[1], 16)
    value = widen(e, bits, source)
    rounding = f.choose(*_TO_INTEGER)
    rounded = e.intrinsic(f"llvm.{_TO_INTEGER[rounding]}.f{width}", kind, f"{kind} {value}")
    name = f"llvm.fpto{'s' if target[0] == 's' else 'u'}i.sat.i{want}.f{width}"
    result = e.intrinsic(name, f"i{want}", f"{kind} {rounded}")
    if want == 64:
        missing = e.new(f"fcmp uno {kind} {value}, {value}")
        result = e.new(f"select i1 {missing}, i64 {-(1 << 63)}, i64 {result}")
    e.set_integer(i.operands[0], result, want, target[0] == "s")


# -- 8 bits ------------------------------------------------------------------------------------------------------------


def _eight(e: Emitter, i: Instruction, f: Form, high: str, low: str) -> None:
    """Round two doubles to 8 bits each."""
    type = f.types[0].removesuffix("x2") if f.types[0] in BITS else f.choose("e4m3x2", "e5m2x2").removesuffix("x2")
    codes = []
    for value in (low, high):
        if "relu" in f:
            value = _no_negative(e, value, "double")
        codes.append(e.runtime(f"cl_{type}_rn", "i16", f"double {value}"))
    e.set_integer(i.operands[0], e.new(f"or i16 {codes[0]}, {e.new(f'shl i16 {codes[1]}, 8')}"), 16)


@TABLE.row("cvt.rn.satfinite[.relu].<e4m3x2|e5m2x2>.f32")
def _eight_from_two(e: Emitter, i: Instruction, f: Form) -> None:
    high, low = (e.new(f"fpext float {e.real(operand, 32)} to double") for operand in i.operands[1:3])
    _eight(e, i, f, high, low)


@TABLE.row("cvt.rn.satfinite[.relu].<e4m3x2|e5m2x2>.f16x2")
def _eight_from_pair(e: Emitter, i: Instruction, f: Form) -> None:
    low, high = (
        e.new(f"fpext float {widen(e, number, 'f16')} to double") for number in split(e, i.operands[1], "f16x2")
    )
    _eight(e, i, f, high, low)


@TABLE.row("cvt.rn[.relu].f16x2.<e4m3x2|e5m2x2>")
def _pair_from_eight(e: Emitter, i: Instruction, f: Form) -> None:
    word = e.integer(i.operands[1], 16)
    numbers = []
    for half in (word, e.new(f"lshr i16 {word}, 8")):
        code = e.new(f"and i16 {half}, 255")
        number = _from_e5m2(e, code) if "e5m2x2" in f else _from_e4m3(e, code)
        if "relu" in f:
            missing = e.new(f"icmp ugt i16 {e.new(f'and i16 {number}, {0x7FFF}')}, {0x7C00}")
            kept = e.new(f"or i1 {missing}, {e.new(f'icmp sge i16 {number}, 0')}")
            number = e.new(f"select i1 {kept}, i16 {number}, i16 0")
        numbers.append(number)
    e.set_integer(i.operands[0], joined(e, numbers), 32)


def _from_e5m2(e: Emitter, code: str) -> str:
    """``e5m2`` is the upper half of an ``f16``."""
    bits = e.new(f"shl i16 {code}, 8")
    missing = e.new(f"icmp ugt i16 {e.new(f'and i16 {bits}, {0x7FFF}')}, {0x7C00}")
    return e.new(f"select i1 {missing}, i16 {_NAN}, i16 {bits}")


def _from_e4m3(e: Emitter, code: str) -> str:
    """Shifted to the position of ``f16`` bits, the exponent is too small by 8."""
    size = e.new(f"and i16 {code}, 127")
    small = widen(e, e.new(f"shl i16 {size}, 7"), "f16")
    bits = narrow(e, e.new(f"fmul float {small}, 256.0"), "f16", "float")
    sign = e.new(f"shl i16 {e.new(f'and i16 {code}, 128')}, 8")
    missing = e.new(f"icmp eq i16 {size}, 127")
    return e.new(f"select i1 {missing}, i16 {_NAN}, i16 {e.new(f'or i16 {bits}, {sign}')}")
