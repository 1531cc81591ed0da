"""Reductions of bulk copies: ``cp.reduce.async.bulk`` applies an operation to each element of its target.

There is one function per operation and type that a program uses: ``(target, source, bytes)``. Elements are updated
atomically, so several workers may reduce into the same memory, and in the order of their addresses, so that one worker
gives the same result each time. Floats are added as ``red`` adds them: in global memory float subnormals are flushed
(seen on an H200); f16 and bf16 are added with ``.noftz``, so they are not, and are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cudalab.sim.compiler.runtime.assembler import Function, Library
from cudalab.sim.compiler.runtime.mbarrier import begin

if TYPE_CHECKING:
    from cudalab.sim.compiler.runtime.traits import Traits

_ATOMIC = {"and": "and", "or": "or", "xor": "xor", "add": "add", "inc": "uinc_wrap", "dec": "udec_wrap"}
_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFF_FFFF}
_LEAST_NORMAL = "0x3810000000000000"  # 2 ** -126


def name_of(operation: str, type: str) -> str:
    """The function of an operation: ``cl_reduce_add_u32``."""
    return f"cl_reduce_{operation}_{type}"


def writer(operation: str, type: str) -> Callable[[Library, Traits], None]:
    """The writer that adds the function of one operation and type to an object file."""

    def write(library: Library, traits: Traits) -> None:
        bits = int("".join(c for c in type.removeprefix("b") if c.isdigit()))
        f = begin(library, name_of(operation, type), "void", "ptr dst, ptr src, i64 size")
        count = f.op(f"udiv i64 %size, {bits // 8}")
        with f.count_up("i64", count) as index:
            place = f.element("%dst", f"i{bits}", index, "i64")
            value = f.load(f"i{bits}", f.element("%src", f"i{bits}", index, "i64"))
            if type[0] == "f" or type == "bf16":
                _try(f, operation, type, bits, place, value, traits.hardware_flush)
            else:
                f.op(f"atomicrmw {_verb(operation, type)} ptr {place}, i{bits} {value} monotonic, align {bits // 8}")
        f.ret()

    return write


def _verb(operation: str, type: str) -> str:
    if operation in ("min", "max"):
        return operation if type[0] == "s" else f"u{operation}"
    return _ATOMIC[operation]


def _try(f: Function, operation: str, type: str, bits: int, place: str, value: str, flushes: bool) -> None:
    """Compare-and-swap loop over one element."""
    kind, width = f"i{bits}", bits // 8
    seen = f.variable(kind, f.op(f"load atomic {kind}, ptr {place} monotonic, align {width}"))
    with f.loop():
        old = seen.get()
        made = _combine(f, operation, type, old, value, flushes)
        pair = f.op(f"cmpxchg ptr {place}, {kind} {old}, {kind} {made} monotonic monotonic, align {width}")
        seen.set(f.op(f"extractvalue {{{kind}, i1}} {pair}, 0"))
        with f.if_(f.op(f"extractvalue {{{kind}, i1}} {pair}, 1")):
            f.break_()


def _combine(f: Function, operation: str, type: str, old: str, value: str, flushes: bool) -> str:
    """The bits of an element's new value."""
    if type == "f64":
        total = f.op(f"fadd double {f.op(f'bitcast i64 {old} to double')}, {f.op(f'bitcast i64 {value} to double')}")
        return f.op(f"bitcast double {total} to i64")
    if type == "f32":
        a, b = (f.op(f"bitcast i32 {bits} to float") for bits in (old, value))
        if not flushes:
            a, b = _flushed(f, a), _flushed(f, b)
        total = f.op(f"fadd float {a}, {b}")
        if not flushes:
            total = _flushed(f, total)
        missing = f.op(f"fcmp uno float {total}, {total}")
        return f.op(f"select i1 {missing}, i32 {_NAN[type]}, i32 {f.op(f'bitcast float {total} to i32')}")
    return _combine_short(f, operation, type, old, value)


def _flushed(f: Function, value: str) -> str:
    size = f.call("llvm.fabs.f32", "float", f"float {value}")
    small = f.op(f"fcmp olt float {size}, {_LEAST_NORMAL}")
    zero = f.call("llvm.copysign.f32", "float", "float 0.0", f"float {value}")
    return f.op(f"select i1 {small}, float {zero}, float {value}")


def _combine_short(f: Function, operation: str, type: str, old: str, value: str) -> str:
    """f16 and bf16, through integers and doubles: exact, and rounded once."""
    if operation in ("min", "max"):
        return _extreme(f, operation, type, old, value)
    a, b = (_widened(f, type, bits) for bits in (old, value))
    total = f.op(f"fadd double {a}, {b}")
    missing = f.op(f"fcmp uno double {total}, {total}")
    return f.op(f"select i1 {missing}, i16 {_NAN[type]}, i16 {_narrowed(f, type, total)}")


_FRACTION = {"f16": 10, "bf16": 7}
_BIAS = {"f16": 15, "bf16": 127}


def _widened(f: Function, type: str, bits: str) -> str:
    """An f16 or bf16 as a double."""
    fraction, bias = _FRACTION[type], _BIAS[type]
    wide = f.op(f"zext i16 {bits} to i64")
    size = f.op(f"and i64 {wide}, 32767")
    exponent = f.op(f"lshr i64 {size}, {fraction}")
    part = f.op(f"and i64 {size}, {(1 << fraction) - 1}")
    top = (1 << (15 - fraction)) - 1
    least = f.op(f"fmul double {f.op(f'uitofp i64 {part} to double')}, {_power(1 - bias - fraction)}")
    special = f.compare("eq", "i64", exponent, top)
    shifted = f.op(f"select i1 {special}, i64 2047, i64 {f.op(f'add i64 {exponent}, {1023 - bias}')}")
    normal = f.op(f"or i64 {f.op(f'shl i64 {shifted}, 52')}, {f.op(f'shl i64 {part}, {52 - fraction}')}")
    normal = f.op(f"bitcast i64 {normal} to double")
    value = f.op(f"select i1 {f.compare('eq', 'i64', exponent, 0)}, double {least}, double {normal}")
    negative = f.compare("ugt", "i64", wide, 32767)
    return f.op(f"select i1 {negative}, double {f.op(f'fneg double {value}')}, double {value}")


def _power(exponent: int) -> str:
    """A power of two, as LLVM writes it."""
    return f"0x{(1023 + exponent) << 52:016X}"


def _narrowed(f: Function, type: str, value: str) -> str:
    """A double rounded to the nearest f16 or bf16, ties to even."""
    fraction, bias = _FRACTION[type], _BIAS[type]
    bits = f.op(f"bitcast double {value} to i64")
    sign = f.op(f"shl i64 {f.op(f'lshr i64 {bits}, 63')}, 15")
    size = f.op(f"and i64 {bits}, {(1 << 63) - 1}")
    exponent = f.op(f"lshr i64 {size}, 52")
    least = f.call("llvm.umax.i64", "i64", f"i64 {exponent}", f"i64 {1023 - bias + 1}")
    lost = f.op(f"add i64 {f.op(f'sub i64 {least}, {exponent}')}, {52 - fraction}")
    lost = f.call("llvm.umin.i64", "i64", f"i64 {lost}", "i64 63")
    implied = f.op(f"select i1 {f.compare('ne', 'i64', exponent, 0)}, i64 {1 << 52}, i64 0")
    part = f.op(f"or i64 {f.op(f'and i64 {size}, {(1 << 52) - 1}')}, {implied}")
    kept = f.op(f"lshr i64 {part}, {lost}")
    rest = f.op(f"sub i64 {part}, {f.op(f'shl i64 {kept}, {lost}')}")
    half = f.op(f"lshr i64 {f.op(f'shl i64 1, {lost}')}, 1")
    above = f.compare("ugt", "i64", rest, half)
    tie = f.op(f"and i1 {f.compare('eq', 'i64', rest, half)}, {f.op(f'trunc i64 {kept} to i1')}")
    up = f.op(f"or i1 {above}, {tie}")
    kept = f.op(f"add i64 {kept}, {f.op(f'zext i1 {up} to i64')}")
    raised = f.op(f"sub i64 {least}, {1023 - bias + 1}")
    made = f.op(f"add i64 {kept}, {f.op(f'shl i64 {raised}, {fraction}')}")
    infinite = ((1 << (15 - fraction)) - 1) << fraction
    made = f.call("llvm.umin.i64", "i64", f"i64 {made}", f"i64 {infinite}")
    return f.op(f"trunc i64 {f.op(f'or i64 {made}, {sign}')} to i16")


def _extreme(f: Function, operation: str, type: str, old: str, value: str) -> str:
    """A NaN loses against a number, and -0 is less than +0 (PTX ISA, ``min``, ``max``)."""
    infinite = ((1 << (15 - _FRACTION[type])) - 1) << _FRACTION[type]
    missing = [f.compare("ugt", "i16", f.op(f"and i16 {bits}, 32767"), infinite) for bits in (old, value)]
    keys = []
    for bits in (old, value):
        negative = f.compare("slt", "i16", bits, 0)
        keys.append(f.op(f"select i1 {negative}, i16 {f.op(f'xor i16 {bits}, 32767')}, i16 {bits}"))
    first = f.compare("slt" if operation == "min" else "sgt", "i16", *keys)
    best = f.op(f"select i1 {first}, i16 {old}, i16 {value}")
    best = f.op(f"select i1 {missing[1]}, i16 {old}, i16 {best}")
    best = f.op(f"select i1 {missing[0]}, i16 {value}, i16 {best}")
    both = f.op(f"and i1 {missing[0]}, {missing[1]}")
    return f.op(f"select i1 {both}, i16 {_NAN[type]}, i16 {best}")
