"""Registers defined and used by an instruction."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from cudalab.sim.compiler.ptx.nodes import Address, Instruction, Negated, Pair, Part, Register, Vector

#: Opcodes without a destination.
_NO_DESTINATION = frozenset(
    "st red bra brx ret exit call membar fence prefetch prefetchu trap brkpt nanosleep discard applypriority pmevent "
    "griddepcontrol stackrestore cp setmaxnreg sust sured".split()
)
_BARRIERS = ("bar", "barrier")
#: ``mbarrier`` operations without a destination.
_WITHOUT_RESULT = frozenset(["init", "inval", "expect_tx", "complete_tx"])
_CARRY_READERS = frozenset(["addc", "subc", "madc"])


def operation_name(opcode: str) -> str:
    """The opcode up to the first dot: ``ld`` of ``ld.global.f32``."""
    return opcode.partition(".")[0]


@lru_cache(1 << 12)
def has_destination(opcode: str) -> bool:
    """Whether the first operand of ``opcode`` is written."""
    name = opcode.split(".", 1)[0]
    if name in _BARRIERS:
        return ".red" in opcode and ".cluster" not in opcode
    if name == "mbarrier":
        return opcode.split(".", 2)[1] not in _WITHOUT_RESULT
    return name not in _NO_DESTINATION


def writes_carry(opcode: str) -> bool:
    """Whether it sets the condition code (``add.cc`` …)."""
    return ".cc" in opcode


def reads_carry(opcode: str) -> bool:
    """Whether it reads the condition code (``addc`` …)."""
    return opcode.split(".", 1)[0] in _CARRY_READERS


def registers_in(operand: Any) -> list[Register]:
    """All registers of an operand."""
    kind = type(operand)
    if kind is Register:
        return [operand]
    if kind is Address:
        found = [operand.base] if type(operand.base) is Register else []
        return found + [register for coordinate in operand.coordinates for register in registers_in(coordinate)]
    if kind is Vector:
        return [register for element in operand.elements for register in registers_in(element)]
    if kind is Pair:
        return registers_in(operand.first) + registers_in(operand.second)
    if kind is Negated or kind is Part:
        return [operand.register]
    return []


def definitions(instruction: Instruction) -> list[Register]:
    """Registers that ``instruction`` writes."""
    if instruction.operands and has_destination(instruction.opcode):
        first = instruction.operands[0]
        return [first] if type(first) is Register else registers_in(first)
    return []


def uses(instruction: Instruction) -> list[Register]:
    """Registers that ``instruction`` reads, without its guard."""
    operands = instruction.operands
    if operands and has_destination(instruction.opcode):
        operands = operands[1:]
    found: list[Register] = []
    for operand in operands:
        if type(operand) is Register:
            found.append(operand)
        else:
            found += registers_in(operand)
    return found
