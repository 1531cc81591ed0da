"""Which operands of divisions, reciprocals and roots take the assembler's slow way (``passes.slow_ways``).

The tests are those of the machine code, on the exponents of the operands: integers that the listing of a cubin shows,
but for the division of floats, whose test is an instruction of its own (``FCHK``); what that asks for was measured on
an H200, for all pairs of exponents (docs/evidence/2026-11-23-slow-ways.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cudalab.sim.compiler.passes.slow_ways import has_slow_way

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.emitter import Emitter
    from cudalab.sim.compiler.codegen.environment import ThreadEnvironment
    from cudalab.sim.compiler.ptx.nodes import Instruction

_SIZE = 0x7FFFFFFF
_LEAST_NUMERATOR, _LEAST_QUOTIENT, _INFINITE = 0x03600000, 0x00100000, 0x7F800000
"""Upper words of doubles, compared as floats."""


def note_slow_way(e: Emitter, i: Instruction, bits: int, operands: list[str], result: str) -> None:
    """Traced code: append a record if the operands take the slow way. ``result`` is the quotient."""
    if not e.unit.traced or e.level is not None or e.wide or not has_slow_way(i.opcode):
        return
    name = i.opcode.split(".")[0]
    slow = {
        ("div", 32): _division,
        ("div", 64): _double_division,
        ("rcp", 32): _reciprocal,
        ("rcp", 64): _double_reciprocal,
        ("sqrt", 32): _root,
        ("sqrt", 64): _double_root,
    }[name, bits](e, operands, result)
    noted, on = e.fresh_label("slow"), e.fresh_label("on")
    e.emit(f"br i1 {slow}, label %{noted}, label %{on}, !prof !2")
    e.label(noted)
    cast("ThreadEnvironment", e).record(e.plan.other_sites[i])
    e.emit(f"br label %{on}")
    e.label(on)


def _bits(e: Emitter, value: str) -> str:
    return e.new(f"bitcast float {value} to i32")


def _upper(e: Emitter, value: str) -> str:
    word = e.new(f"lshr i64 {e.new(f'bitcast double {value} to i64')}, 32")
    return e.new(f"trunc i64 {word} to i32")


def _exponent(e: Emitter, value: str) -> str:
    return e.new(f"and i32 {e.new(f'lshr i32 {_bits(e, value)}, 23')}, 255")


def _either(e: Emitter, *conditions: str) -> str:
    first, *others = conditions
    for each in others:
        first = e.new(f"or i1 {first}, {each}")
    return first


def _outside(e: Emitter, value: str, low: int, high: int) -> str:
    """Whether an integer is not one of ``low`` to ``high``."""
    return e.new(f"icmp ugt i32 {e.new(f'sub i32 {value}, {low}')}, {high - low}")


def _division(e: Emitter, operands: list[str], result: str) -> str:
    above, below = (_exponent(e, value) for value in operands)
    apart = e.new(f"sub i32 {above}, {below}")
    return _either(
        e,
        _outside(e, above, 25, 254),
        _outside(e, below, 2, 251),
        _outside(e, apart, -124, 126),
    )


def _double_division(e: Emitter, operands: list[str], result: str) -> str:
    above, below, quotient = (e.new(f"and i32 {_upper(e, value)}, {_SIZE}") for value in (*operands, result))
    return _either(
        e,
        _outside(e, above, _LEAST_NUMERATOR, _SIZE),
        _outside(e, quotient, _LEAST_QUOTIENT + 1, _INFINITE),
        _outside(e, below, _LEAST_QUOTIENT, _INFINITE - 1),
    )


def _reciprocal(e: Emitter, operands: list[str], result: str) -> str:
    exponent = e.new(f"and i32 {e.new(f'add i32 {_bits(e, operands[0])}, {0x1800000}')}, {0x7F800000}")
    return e.new(f"icmp ule i32 {exponent}, {0x1FFFFFF}")


def _double_reciprocal(e: Emitter, operands: list[str], result: str) -> str:
    size = e.new(f"and i32 {e.new(f'add i32 {_upper(e, operands[0])}, {0x300402}')}, {_SIZE}")
    return e.new(f"icmp ult i32 {size}, {0x00400402}")


def _root(e: Emitter, operands: list[str], result: str) -> str:
    return _outside(e, _bits(e, operands[0]), 0x0D000000, 0x0D000000 + 0x727FFFFF)


def _double_root(e: Emitter, operands: list[str], result: str) -> str:
    return _outside(e, _upper(e, operands[0]), 0x03500000, 0x03500000 + 0x7CA00000 - 1)
