"""Rematerialisation: values that are recomputed instead of spilled.

A register whose only definition computes it from literals, parameters and special registers has the same value at every
use. Such values are not spilled at suspension points, and those that do not depend on the thread are computed once per
block or per launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from enum import IntEnum

from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.passes.operands import definitions, reads_carry, writes_carry
from cudalab.sim.compiler.ptx.nodes import (
    Address,
    Immediate,
    Instruction,
    Negated,
    Register,
    Special,
    Symbol,
)


class Level(IntEnum):
    """The scope within which a value is invariant."""

    LAUNCH = 0
    BLOCK = 1
    ROW = 2  # y and z of the thread
    THREAD = 3


_PURE = frozenset(
    "mov add sub mul mad mul24 mad24 shl shr and or xor not cnot neg abs min max cvt cvta setp selp bfe bfi lop3 prmt "
    "shf popc clz brev fma".split()
)
_VOLATILE = ("%clock", "%globaltimer", "%pm", "%smid", "%current_graph")
_THREAD_COST = 12
_SHARED_COST = 200

_SPECIAL_LEVELS = {
    "%tid.x": Level.THREAD,
    "%tid.y": Level.ROW,
    "%tid.z": Level.ROW,
    **{f"%{name}.{axis}": Level.BLOCK for name in ("ctaid", "clusterid", "cluster_ctaid") for axis in "xyz"},
    **{
        f"%{name}.{axis}": Level.LAUNCH for name in ("ntid", "nctaid", "nclusterid", "cluster_nctaid") for axis in "xyz"
    },
    **dict.fromkeys(
        ("%nsmid", "%gridid", "%total_smem_size", "%dynamic_smem_size", "WARP_SZ", "%nwarpid"), Level.LAUNCH
    ),
    **dict.fromkeys(("%aggr_smem_size", "%cluster_nctarank", "%envreg1", "%envreg2"), Level.LAUNCH),
    "%cluster_ctarank": Level.BLOCK,
}


def level_of_special(name: str) -> Level:
    """The level of a special register."""
    return _SPECIAL_LEVELS.get(name, Level.THREAD)


@dataclass
class Recomputed:
    """``constants``: registers that hold a literal. ``values``: the defining instruction of a register, and its
    level."""

    constants: dict[Register, Immediate]
    values: dict[Register, tuple[Instruction, Level]]

    def bits(self) -> int:
        """The bit set of all these registers."""
        found = 0
        for register in (*self.constants, *self.values):
            found |= 1 << register.index
        return found


def single_definitions(blocks: list[Block]) -> dict[Register, Instruction]:
    """Registers with exactly one definition that is not a warp operation, with that definition."""
    found: dict[Register, Instruction] = {}
    several: set[Register] = set()
    for block in blocks:
        instructions: Iterable[Instruction] = block.instructions
        for instruction in instructions:
            for register in definitions(instruction):
                if register in found:
                    several.add(register)
                found[register] = instruction
        if block.ending is not None:
            several.update(definitions(block.ending))
    for register in several:
        found.pop(register, None)
    return found


def find_recomputed(blocks: list[Block], parameters: Set[str] | None, *, wanted_in_threads: bool) -> Recomputed:
    """Select the registers to rematerialise.

    Args:
        blocks: the function.
        parameters: names of the launch's parameters, which are constant (``ld.param`` also reads results of calls,
            which are not); None for device functions, where only literals are found.
        wanted_in_threads: also choose cheap values that depend on the thread (kernels with suspension points).
    """
    single = single_definitions(blocks)
    constants: dict[Register, Immediate] = {}
    for register, instruction in single.items():
        if instruction.opcode.startswith("mov.") and type(instruction.operands[1]) is Immediate:
            constants[register] = instruction.operands[1]
    result = Recomputed(constants, {})
    if parameters is None:
        return result
    known: dict[Register, tuple[Level, int] | None] = {}
    depth = 0

    def examine(register: Register) -> tuple[Level, int] | None:
        """Level and cost of a register, None if it cannot be rematerialised. The cost covers the whole expression
        tree."""
        if register in constants:
            return Level.LAUNCH, 0
        if register in known:
            return known[register]
        known[register] = None  # a cycle is not recomputable
        instruction = single.get(register)
        nonlocal depth
        if instruction is None or depth == _SHARED_COST:
            return None
        depth += 1
        known[register] = _examine(instruction, examine, parameters, wanted_in_threads)
        depth -= 1
        return known[register]

    for register in single:
        if register in constants:
            continue
        verdict = examine(register)
        if verdict is not None:
            result.values[register] = (single[register], verdict[0])
    return result


def _examine(instruction: Instruction, examine, parameters: Set[str], wanted_in_threads: bool):  # type: ignore[no-untyped-def]
    opcode = instruction.opcode
    name = opcode.split(".", 1)[0]
    if writes_carry(opcode) or reads_carry(opcode) or type(instruction.operands[0]) is not Register:
        return None
    if opcode.startswith("ld.param"):
        address = instruction.operands[1]
        constant = isinstance(address, Address) and isinstance(address.base, Symbol) and address.base.name in parameters
        return (Level.LAUNCH, 1) if constant else None
    if name not in _PURE:
        return None
    level, cost = Level.LAUNCH, 1
    for operand in instruction.operands[1:]:
        kind = type(operand)
        if kind is Immediate or kind is Symbol or (kind is Address and type(operand.base) is Symbol):
            continue
        if kind is Special:
            if operand.name.startswith(_VOLATILE):
                return None
            level = max(level, level_of_special(operand.name))
            continue
        register = operand.register if kind is Negated else operand
        if type(register) is not Register:
            return None
        verdict = examine(register)
        if verdict is None:
            return None
        level = max(level, verdict[0])
        # block-invariant values are computed once, so they cost a thread nothing
        cost += verdict[1]
    if level is Level.THREAD or level is Level.ROW:
        if not wanted_in_threads and level is Level.THREAD:
            return None
        return (level, cost) if cost <= _THREAD_COST else None
    return (level, 0) if cost <= _SHARED_COST else None
