"""Data dependence of a kernel's memory footprint.

If neither an address nor a branch depends on a value loaded from memory, the footprint follows from the parameters, the
grid and the block alone: vector addition, a matrix product or a stencil, unlike a histogram or a sparse product. Such a
kernel is *steady*: one launch shows the footprint of every launch with the same configuration.

This is a forward taint analysis: results of loads, atomics and clocks are *data*, as is everything computed from data,
and a kernel is steady if no device memory address and no condition is data. Calls of functions that were not inlined,
and textures, count as data. The analysis is conservative: it may miss a steady kernel, but never reports one falsely.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.passes.operands import (
    definitions,
    operation_name,
    reads_carry,
    registers_in,
    uses,
    writes_carry,
)
from cudalab.sim.compiler.ptx.nodes import Address, Instruction, Register, Special, Vector

_CARRY = "carry"
_ALWAYS_DATA = ("%clock", "%globaltimer", "%smid", "%nsmid", "%gridid", "%warpid", "%nwarpid", "%pm")
_LOADS = frozenset("ld ldu atom tex tld4 suld txq suq mbarrier ldmatrix mapa getctarank".split())
_ACCESSES = frozenset("ld ldu st atom red".split())
_OTHER_ACCESSES = frozenset("cp tex tld4 suld sust sured prefetch discard".split())
_OWN_SPACES = frozenset("shared shared::cta shared::cluster local param param::entry param::func".split())
_LEAVES = frozenset("bra brx ret exit trap brkpt".split())


def is_steady(blocks: list[Block]) -> bool:
    """Whether the bytes of device memory that a kernel touches depend on its parameters, grid and block alone."""
    instructions = [instruction for block in blocks for instruction in block.written]
    if any(operation_name(instruction.opcode) in ("call", "brx") for instruction in instructions):
        return False
    data: set[Register | str] = set()
    while True:
        known = len(data)
        if not all(_follow(instruction, data) for instruction in instructions):
            return False
        if len(data) == known:
            return True


def _follow(instruction: Instruction, data: set[Register | str]) -> bool:
    """Add the data that this instruction defines to ``data``; False if it uses data as an address or a condition."""
    opcode = instruction.opcode
    guarded = instruction.guard in data
    if operation_name(opcode) in _LEAVES:
        return not guarded
    if _reaches_device_memory(opcode) and (guarded or not data.isdisjoint(_addresses(instruction))):
        return False
    results: list[Register | str] = [*definitions(instruction)]
    if writes_carry(opcode):
        results.append(_CARRY)
    if results and (guarded or _loads(opcode) or _is_made_of(instruction, data)):
        data.update(results)
    return True


@lru_cache(1 << 12)
def _loads(opcode: str) -> bool:
    return operation_name(opcode) in _LOADS and not opcode.startswith("ld.param")


def _is_made_of(instruction: Instruction, data: set[Register | str]) -> bool:
    if not data.isdisjoint(uses(instruction)) or (_CARRY in data and reads_carry(instruction.opcode)):
        return True
    return any(_changes(operand) for operand in instruction.operands)


@lru_cache(1 << 12)
def _reaches_device_memory(opcode: str) -> bool:
    name, *qualifiers = opcode.split(".")
    if name in _ACCESSES:
        return _OWN_SPACES.isdisjoint(qualifiers)
    return name in _OTHER_ACCESSES


def _addresses(instruction: Instruction) -> Iterator[Register]:
    for operand in instruction.operands:
        if type(operand) is Address:
            yield from registers_in(operand)


def _changes(operand: Any) -> bool:
    """Whether it is a special register whose value differs from launch to launch."""
    if type(operand) is Vector:
        return any(_changes(element) for element in operand.elements)
    return type(operand) is Special and operand.name.startswith(_ALWAYS_DATA)
