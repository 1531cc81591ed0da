"""Plain loads that provide the initial expected value of a compare-and-swap loop.

The guide builds atomic operations that the hardware lacks from ``atomicCAS``, and reads the first expected value with
a plain load (CUDA C++ Programming Guide, "Atomic Functions"). If another thread writes the location meanwhile, the swap
fails and returns the new value. By the PTX ISA's memory model that load is a race, but a harmless one, and racecheck
does not report it.
"""

from __future__ import annotations

from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.ptx.nodes import Address, Instruction, Register


def loads_before_swaps(blocks: list[Block]) -> set[Instruction]:
    """Loads whose value is the comparand of a compare-and-swap on the same location (same base register and offset),
    directly or through a copy. Other uses of the value are ignored."""
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
