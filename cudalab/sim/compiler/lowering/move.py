"""Moves, packing and address conversion (PTX ISA, ``mov``, ``cvta``, ``isspacep``).

Generic addresses of shared and local memory lie in windows (``abi``); those of global and constant memory are the
addresses themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim import abi
from cudalab.sim.compiler.ptx.nodes import Address, Immediate, Instruction, Register, Special, Symbol, Vector
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.emitter import Emitter

TABLE = Table()
WINDOWS = {
    "shared": abi.SHARED_WINDOW,
    "shared::cta": abi.SHARED_WINDOW,
    "shared::cluster": abi.SHARED_WINDOW,
    "local": abi.LOCAL_WINDOW,
    "param": abi.PARAM_WINDOW,
    "param::entry": abi.PARAM_WINDOW,
}


@TABLE.row("mov.pred")
def _move_predicate(e: Emitter, i: Instruction, f: Form) -> None:
    e.set_boolean(i.operands[0], e.boolean(i.operands[1]))


@TABLE.row("mov.<b16|b32|b64|b128|u16|u32|u64|s16|s32|s64|f32|f64>")
def _move(e: Emitter, i: Instruction, f: Form) -> None:
    target, source = i.operands
    if isinstance(source, Vector):
        e.set_integer(target, _pack(e, source, f.bits), f.bits)
    elif isinstance(target, Vector):
        _unpack(e, target, e.integer(source, f.bits), f.bits)
    elif isinstance(source, Register) and source.is_float and isinstance(target, Register) and target.is_float:
        e.assign(target, e.value(source))
    elif f.kind == "f" and isinstance(source, Immediate):
        e.set_real(target, e.real(source, f.bits), f.bits)
    elif isinstance(source, (Symbol, Special, Address, Register, Immediate)):
        e.set_integer(target, e.integer(source, f.bits), f.bits)
    else:
        raise e.error(f"mov from {source}")


def _pack(e: Emitter, source: Vector, bits: int) -> str:
    part = bits // len(source.elements)
    result = ""
    for position, element in enumerate(source.elements):
        wide = e.new(f"zext i{part} {e.integer(element, part)} to i{bits}")
        if position:
            wide = e.new(f"shl i{bits} {wide}, {part * position}")
            wide = e.new(f"or i{bits} {result}, {wide}")
        result = wide
    return result


def _unpack(e: Emitter, target: Vector, value: str, bits: int) -> None:
    part = bits // len(target.elements)
    for position, element in enumerate(target.elements):
        shifted = e.new(f"lshr i{bits} {value}, {part * position}") if position else value
        e.set_integer(element, e.new(f"trunc i{bits} {shifted} to i{part}"), part)


@TABLE.row("cvta.<global|const|shared|shared::cta|shared::cluster|local|param>.u64")
def _to_generic(e: Emitter, i: Instruction, f: Form) -> None:
    _shift_address(e, i, f, WINDOWS.get(f.opcode.split(".")[1], 0))


@TABLE.row("cvta.to.<global|const|shared|shared::cta|shared::cluster|local|param>.u64")
def _from_generic(e: Emitter, i: Instruction, f: Form) -> None:
    _shift_address(e, i, f, -WINDOWS.get(f.opcode.split(".")[2], 0))


def _shift_address(e: Emitter, i: Instruction, f: Form, by: int) -> None:
    value = e.integer(i.operands[1], f.bits)
    if by:
        value = e.new(f"add i{f.bits} {value}, {by}")
    e.set_integer(i.operands[0], value, f.bits)


@TABLE.row("isspacep.<global|const|shared|shared::cta|shared::cluster|local|param|param::entry>")
def _in_space(e: Emitter, i: Instruction, f: Form) -> None:
    address = e.integer(i.operands[1], 64)
    space = f.opcode.split(".")[1]
    if space in WINDOWS:
        distance = e.new(f"sub i64 {address}, {WINDOWS[space]}")
        span = abi.CLUSTER_END - abi.SHARED_WINDOW if space == "shared::cluster" else abi.WINDOW_SIZE
        outcome = e.new(f"icmp ult i64 {distance}, {span}")
    elif space == "const":
        outcome = _in_constant(e, address)
    else:
        low = abi.SHARED_WINDOW  # the local window follows; parameters count as global, as on an H200
        distance = e.new(f"sub i64 {address}, {low}")
        span = abi.LOCAL_WINDOW + abi.WINDOW_SIZE - low
        outside = e.new(f"icmp uge i64 {distance}, {span}")
        outcome = e.new(f"and i1 {outside}, {e.new(f'xor i1 {_in_constant(e, address)}, true')}")
    e.set_boolean(i.operands[0], outcome)


def _in_constant(e: Emitter, address: str) -> str:
    """Test against each constant variable: they reside in global memory here."""
    found = "false"
    for name, variable in e.unit.plan.module.variables.items():
        if variable.space == "const":
            distance = e.new(f"sub i64 {address}, {e.symbol_address(Symbol(name))}")
            found = e.new(f"or i1 {found}, {e.new(f'icmp ult i64 {distance}, {variable.size}')}")
    return found
