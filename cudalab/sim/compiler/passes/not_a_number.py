"""Float registers that may hold a NaN produced by host arithmetic.

An NVIDIA GPU produces ``0x7fffffff`` for every single-precision NaN result; host processors produce another pattern or
propagate an operand's payload. The difference is observable only where the bits are: in memory, or as an integer. Such
values are canonicalised there; values that were only loaded, moved or selected keep their bits, as on a GPU.
"""

from __future__ import annotations

from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.passes.operands import definitions, uses
from cudalab.sim.compiler.ptx.nodes import Instruction, Register

_CARRIERS = frozenset(["mov", "selp", "slct", "copysign"])
_WIDENING = frozenset(f"cvt{mode}.f32.bf16" for mode in ("", ".rn", ".rz", ".rm", ".rp"))
_INNOCENT = frozenset(["ld", "ldu", "atom", "set", "setp", "shfl", "tex", "tld4", "call"])


#: Bits of every NaN that a single-precision operation produces.
DEVICE_NAN = 0x7FFF_FFFF


def makes_nan(opcode: str) -> bool:
    """Whether an instruction computes floats rather than copying bits."""
    name = opcode.split(".", 1)[0]
    narrows = name == "cvt" and opcode.endswith(".f32.f64")  # keeps payloads
    return not (name in _INNOCENT or name in _CARRIERS or opcode in _WIDENING or opcode == "cvt.f32.f32" or narrows)


def find_computed(blocks: list[Block]) -> set[Register]:
    """Single-precision registers written by arithmetic, or copied from one of those."""
    found: set[Register] = set()
    carriers: list[tuple[Register, Instruction]] = []
    for block in blocks:
        for instruction in block.instructions:
            opcode = instruction.opcode
            name = opcode.split(".", 1)[0]
            if name in _INNOCENT or opcode in _WIDENING:
                continue
            if name == "cvt" and opcode.endswith(".f32.f64"):  # narrowing keeps payloads
                continue
            for register in definitions(instruction):
                if register.type != "f32":
                    continue
                if name in _CARRIERS or opcode == "cvt.f32.f32":
                    carriers.append((register, instruction))
                else:
                    found.add(register)
    changed = bool(carriers)
    while changed:
        changed = False
        for register, instruction in carriers:
            if register not in found and any(source in found for source in uses(instruction)):
                found.add(register)
                changed = True
    return found
