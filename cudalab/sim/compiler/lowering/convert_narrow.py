"""Conversions to and from ``tf32`` and the 6-, 4- and 8-bit formats of later GPUs (PTX ISA, ``cvt``, ``cvt.pack``).

``tf32`` is a float with 10 bits of fraction; the lower 13 bits are 0. ``e2m3``, ``e3m2`` (6 bits) and ``e2m1`` (4 bits)
have no infinities and no NaN: overflow and NaN become the largest number. ``ue8m0`` is a power of two. Code for the
simulated device's own architecture has only ``tf32`` and ``cvt.pack``; the others require ``compute_100a`` or later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.compiler.lowering.floating import saturate
from cudalab.sim.compiler.lowering.half import _no_negative, joined, narrow, split, widen
from cudalab.sim.compiler.ptx.nodes import Instruction
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.emitter import Emitter

TABLE = Table()
_DROPPED = 13
_INFINITY = 0x7F80_0000
_NAN = 0x7FFF_FFFF
_SIX_AND_FOUR = {"e2m1x2": 4, "e2m3x2": 8, "e3m2x2": 8}  # bits from one number of a pair to the next


@TABLE.row(
    "cvt.<rn|rz>[.relu].tf32.f32", "cvt.<rn|rz>.satfinite[.relu].tf32.f32", "cvt.<rn|rz>.relu.satfinite.tf32.f32"
)
@TABLE.row("cvt.rna[.satfinite].tf32.f32")
def _to_tf32(e: Emitter, i: Instruction, f: Form) -> None:
    """``.rna`` takes ties away from zero. It works on the bits: a carry moves on into the exponent."""
    word = e.new(f"bitcast float {e.real(i.operands[1], 32)} to i32")
    size = e.new(f"and i32 {word}, {0x7FFF_FFFF}")
    rounded = size
    if "rna" in f:
        rounded = e.new(f"add i32 {size}, {1 << _DROPPED - 1}")
    elif "rn" in f:
        odd = e.new(f"and i32 {e.new(f'lshr i32 {size}, {_DROPPED}')}, 1")
        rounded = e.new(f"add i32 {e.new(f'add i32 {size}, {(1 << _DROPPED - 1) - 1}')}, {odd}")
    rounded = e.new(f"and i32 {rounded}, {0xFFFF_FFFF << _DROPPED & 0xFFFF_FFFF}")
    kept = 0xFFFF_FFFF << _DROPPED & 0xFFFF_FFFF
    special = e.new(f"icmp uge i32 {size}, {_INFINITY}")
    rounded = e.new(f"select i1 {special}, i32 {e.new(f'and i32 {size}, {kept}')}, i32 {rounded}")
    if "satfinite" in f:
        beyond = e.new(f"icmp uge i32 {rounded}, {_INFINITY}")
        below = e.new(f"sub i32 {rounded}, {1 << _DROPPED}")  # a NaN goes one step down, too (measured on an H200)
        rounded = e.new(f"select i1 {beyond}, i32 {below}, i32 {rounded}")
    sign = e.new(f"and i32 {word}, {0x8000_0000}")
    result = e.new(f"or i32 {rounded}, {sign}")
    if "relu" in f:
        negative = e.new(f"icmp slt i32 {word}, 0")
        result = e.new(f"select i1 {negative}, i32 0, i32 {result}")
    if "rna" not in f:  # .rna only truncates the bits of a NaN
        missing = e.new(f"icmp ugt i32 {size}, {_INFINITY}")
        result = e.new(f"select i1 {missing}, i32 {_NAN & kept}, i32 {result}")
    e.set_integer(i.operands[0], result, 32)


@TABLE.row("cvt.pack.sat.<u16|s16>.s32", "cvt.pack.sat.<u8|s8|u4|s4|u2|s2>.s32.b32")
def _pack(e: Emitter, i: Instruction, f: Form) -> None:
    """From the low bits up: the second number, the first, then the low bits of the third operand."""
    kind = f.opcode.split(".")[3]
    bits = int(kind[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    parts = []
    for operand in i.operands[1:3]:
        value = e.intrinsic("llvm.smax.i32", "i32", f"i32 {e.integer(operand, 32)}", f"i32 {low}")
        value = e.intrinsic("llvm.smin.i32", "i32", f"i32 {value}", f"i32 {high}")
        parts.append(e.new(f"and i32 {value}, {(1 << bits) - 1}"))
    result = e.new(f"or i32 {e.new(f'shl i32 {parts[0]}, {bits}')}, {parts[1]}")
    if len(i.operands) > 3:
        rest = e.new(f"shl i32 {e.integer(i.operands[3], 32)}, {2 * bits}")
        result = e.new(f"or i32 {result}, {rest}")
    e.set_integer(i.operands[0], result, 32)


# -- 6 and 4 bits


def _codes(e: Emitter, i: Instruction, f: Form, high: str, low: str) -> None:
    """Round two doubles."""
    type = f.choose(*_SIX_AND_FOUR)
    step = _SIX_AND_FOUR[type]
    codes = []
    for value in (low, high):
        if "relu" in f:
            value = _no_negative(e, value, "double")
        codes.append(e.runtime(f"cl_{type[:-2]}_rn", "i16", f"double {value}"))
    pair = e.new(f"or i16 {codes[0]}, {e.new(f'shl i16 {codes[1]}, {step}')}")
    e.set_integer(i.operands[0], pair if step == 8 else e.new(f"trunc i16 {pair} to i8"), 2 * step)


@TABLE.row("cvt.rn.satfinite[.relu].<e2m1x2|e2m3x2|e3m2x2>.f32")
def _from_two(e: Emitter, i: Instruction, f: Form) -> None:
    high, low = (e.new(f"fpext float {e.real(operand, 32)} to double") for operand in i.operands[1:3])
    _codes(e, i, f, high, low)


@TABLE.row("cvt.rn[.relu].f16x2.<e2m1x2|e2m3x2|e3m2x2>")
def _to_pair(e: Emitter, i: Instruction, f: Form) -> None:
    """Move exponent and fraction to their positions in ``f16``, and scale by the difference of the biases."""
    type = f.choose(*_SIX_AND_FOUR)
    step = _SIX_AND_FOUR[type]
    exponent, mantissa = int(type[1]), int(type[3])
    word = e.integer(i.operands[1], 2 * step)
    word = word if step == 8 else e.new(f"zext i8 {word} to i16")
    bias = (1 << exponent - 1) - 1
    numbers = []
    for half in (word, e.new(f"lshr i16 {word}, {step}")):
        size = e.new(f"and i16 {half}, {(1 << exponent + mantissa) - 1}")
        small = widen(e, e.new(f"shl i16 {size}, {10 - mantissa}"), "f16")
        bits = narrow(e, e.new(f"fmul float {small}, {float(1 << 15 - bias)}"), "f16", "float")
        sign = e.new(f"and i16 {e.new(f'shl i16 {half}, {15 - exponent - mantissa}')}, -32768")
        number = e.new(f"or i16 {bits}, {sign}")
        if "relu" in f:
            kept = e.new(f"icmp sge i16 {number}, 0")
            number = e.new(f"select i1 {kept}, i16 {number}, i16 0")
        numbers.append(number)
    e.set_integer(i.operands[0], joined(e, numbers), 32)


# -- powers of two


@TABLE.row("cvt.<rz|rp>[.satfinite].ue8m0x2.f32", "cvt.<rz|rp>[.satfinite].ue8m0x2.bf16x2")
def _to_power(e: Emitter, i: Instruction, f: Form) -> None:
    """The exponent of the magnitude, incremented by ``.rp`` if there is a fraction; NaN is 255."""
    if "bf16x2" in f:
        halves = split(e, i.operands[1], "bf16x2")
        words = [e.new(f"shl i32 {e.new(f'zext i16 {half} to i32')}, 16") for half in halves]
    else:
        words = [e.new(f"bitcast float {e.real(operand, 32)} to i32") for operand in (i.operands[2], i.operands[1])]
    codes = []
    for word in words:
        size = e.new(f"and i32 {word}, {0x7FFF_FFFF}")
        raised = e.new(f"add i32 {size}, {0x7F_FFFF}") if "rp" in f else size
        code = e.new(f"lshr i32 {raised}, 23")
        infinite = e.new(f"icmp eq i32 {size}, {_INFINITY}")
        code = e.intrinsic("llvm.umin.i32", "i32", f"i32 {code}", "i32 254" if "satfinite" in f else "i32 255")
        code = e.new(f"select i1 {infinite}, i32 {254 if 'satfinite' in f else 255}, i32 {code}")
        missing = e.new(f"icmp ugt i32 {size}, {_INFINITY}")
        code = e.new(f"select i1 {missing}, i32 255, i32 {code}")
        codes.append(e.new(f"trunc i32 {code} to i16"))
    e.set_integer(i.operands[0], e.new(f"or i16 {codes[0]}, {e.new(f'shl i16 {codes[1]}, 8')}"), 16)


@TABLE.row("cvt.rn.bf16x2.ue8m0x2")
def _from_power(e: Emitter, i: Instruction, f: Form) -> None:
    word = e.integer(i.operands[1], 16)
    numbers = []
    for half in (word, e.new(f"lshr i16 {word}, 8")):
        code = e.new(f"and i16 {half}, 255")
        bits = e.new(f"shl i16 {code}, 7")
        smallest = e.new(f"icmp eq i16 {code}, 0")  # 2**-127 is subnormal
        bits = e.new(f"select i1 {smallest}, i16 {0x0040}, i16 {bits}")
        missing = e.new(f"icmp eq i16 {code}, 255")
        numbers.append(e.new(f"select i1 {missing}, i16 {0x7FFF}, i16 {bits}"))
    e.set_integer(i.operands[0], joined(e, numbers), 32)


# -- two floats in one register


@TABLE.row(*[f"{name}[.rn|rz|rm|rp][.ftz].f32x2" for name in ("add", "sub", "mul")], "fma.<rn|rz|rm|rp>[.ftz].f32x2")
def _pair_of_floats(e: Emitter, i: Instruction, f: Form) -> None:
    """Element-wise, as the operation on ``.f32``."""
    from cudalab.sim.compiler.lowering.floating import flush, flush_by, lift

    operands = [e.integer(operand, 64) for operand in i.operands[1:]]
    mode = f.choose("rz", "rm", "rp")
    word = ""
    for shift in (0, 32):
        values = []
        for operand in operands:
            part = e.new(f"lshr i64 {operand}, {shift}") if shift else operand
            value = e.new(f"bitcast i32 {e.new(f'trunc i64 {part} to i32')} to float")
            values.append(flush(e, value) if "ftz" in f else value)

        def compute(values: list[str]) -> str:
            arguments = [f"float {value}" for value in values]
            if mode:
                return e.runtime(f"cl_{f.row.name}_{mode}_f32", "float", *arguments)
            if f.row.name == "fma":
                return e.intrinsic("llvm.fma.f32", "float", *arguments)
            return e.new(f"f{f.row.name} float {', '.join(values)}")

        result = compute(values)
        if "ftz" in f:
            if f.row.name in ("add", "sub"):
                result = flush(e, result)
            else:
                lifted = [lift(e, value) if place in (0, 2) else value for place, value in enumerate(values)]
                result = flush_by(e, result, compute(lifted))
        bits = e.new(f"bitcast float {result} to i32")
        missing = e.new(f"fcmp uno float {result}, {result}")
        bits = e.new(f"zext i32 {e.new(f'select i1 {missing}, i32 {_NAN}, i32 {bits}')} to i64")
        word = bits if not shift else e.new(f"or i64 {word}, {e.new(f'shl i64 {bits}, 32')}")
    e.set_integer(i.operands[0], word, 64)


@TABLE.row("add[.rn|rz|rm|rp][.sat].f32.<f16|bf16>", "sub[.rn|rz|rm|rp][.sat].f32.<f16|bf16>")
@TABLE.row("fma.<rn|rz|rm|rp>[.sat].f32.<f16|bf16>")
def _mixed(e: Emitter, i: Instruction, f: Form) -> None:
    """Short operands, a float as the last one and as the result."""
    type = f.types[-1]
    values = []
    for operand in i.operands[1:-1]:
        value = widen(e, e.integer(operand, 16), type)
        values.append(value if type == "f16" else e.new(f"fptrunc double {value} to float"))
    values.append(e.real(i.operands[-1], 32))
    mode = f.choose("rz", "rm", "rp")
    arguments = [f"float {value}" for value in values]
    if mode:
        result = e.runtime(f"cl_{f.row.name}_{mode}_f32", "float", *arguments)
    elif f.row.name == "fma":
        result = e.intrinsic("llvm.fma.f32", "float", *arguments)
    else:
        result = e.new(f"f{f.row.name} float {', '.join(values)}")
    e.set_real(i.operands[0], saturate(e, result, 32) if "sat" in f else result, 32)
