"""Looks at a place in front of a loop of compare-and-swap on it.

The guide makes atomic operations that the hardware lacks out of ``atomicCAS``, and the first value to compare with
comes from a plain load (CUDA C++ Programming Guide, "Atomic Functions"). Other threads may write the place meanwhile:
then the swap fails and brings the new value. To the letter of the PTX ISA's memory model that load races; its value
does no harm.
"""

from __future__ import annotations

from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.ptx.nodes import Address, Instruction, Register


def looks_before_swaps(blocks: list[Block]) -> set[Instruction]:
    """The loads whose value a compare-and-swap on the same place compares with: the same base register and offset, and
    the loaded register or a copy of it. What else the program does with the value is not looked at."""
    compared: set[tuple[Register, Register, int]] = set()
    copies: list[tuple[Register, Register]] = []
    for block in blocks:
        for instruction in block.instructions:
            operands = instruction.operands
            if instruction.opcode.startswith("atom.") and ".cas." in instruction.opcode:
                _, place, value = operands[:3]
                if isinstance(place, Address) and isinstance(place.base, Register) and isinstance(value, Register):
                    compared.add((value, place.base, place.offset))
            elif instruction.opcode.startswith("mov.") and all(isinstance(each, Register) for each in operands):
                copies.append((operands[0], operands[1]))
    if not compared:
        return set()
    for target, source in copies:
        compared |= {(source, base, offset) for value, base, offset in compared if value is target}
    return {
        instruction
        for block in blocks
        for instruction in block.instructions
        if instruction.opcode.startswith("ld.") and _key(instruction) in compared
    }


def _key(instruction: Instruction) -> tuple[object, object, int] | None:
    value, place = instruction.operands[:2]
    return (value, place.base, place.offset) if isinstance(place, Address) else None
