"""Mapping from the PTX instructions of a kernel to its machine instructions.

The assembler merges neighbouring accesses of shared memory into wide ones, unrolls loops further, predicates short
branches, and drops what nobody uses. Its table of lines names for each machine instruction the line of the PTX that it
was made of; of loads that became one, it names one.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from msgspec import Struct, field
from msgspec.structs import replace

from cudalab.sim.compiler.machine_code.control_flow import MachineBlock, machine_blocks
from cudalab.sim.compiler.machine_code.cubin import CubinError, line_shifts, read_cubin
from cudalab.sim.compiler.machine_code.instruction import SIZE, MachineInstruction
from cudalab.sim.compiler.machine_code.remembered import of_each_kernel
from cudalab.sim.compiler.program import Kernel, Program


class Assembly(Struct, frozen=True, dict=True):
    """The machine code of one kernel."""

    instructions: tuple[MachineInstruction, ...] = ()
    """In the order of the code; their ``ptx_line`` counts in the program's own PTX."""
    blocks: tuple[MachineBlock, ...] = ()
    """Its basic blocks."""
    routines: Mapping[str, int] = field(default_factory=dict)
    """Blocks in which the assembler's own routines begin, as for division, by name."""
    missing: str = ""
    """Why nothing is known; empty where it is."""

    @property
    def known(self) -> bool:
        return not self.missing

    @cached_property
    def of_line(self) -> Mapping[int, tuple[MachineInstruction, ...]]:
        """PTX line → the instructions that name it."""
        found: dict[int, tuple[MachineInstruction, ...]] = {}
        for each in self.instructions:
            if each.ptx_line:
                found[each.ptx_line] = (*found.get(each.ptx_line, ()), each)
        return found

    @cached_property
    def recursive(self) -> bool:
        """Does a function of the kernel call itself, alone or by way of others?"""
        starts = sorted(self.routines.values())
        calls = TopologicalSorter[int]()
        for index, block in enumerate(self.blocks):
            if block.calls >= 0:
                calls.add(bisect.bisect(starts, index), bisect.bisect(starts, block.calls))
        try:
            calls.prepare()
        except CycleError:
            return True
        return False


@of_each_kernel(stored=Assembly)
def assembly(program: Program, kernel: Kernel) -> Assembly:
    """The machine code of ``kernel``. Never raises: what cannot be read is said in ``missing``."""
    try:
        return _assembly(program, kernel)
    except CubinError as error:
        return Assembly(missing=str(error))


def _assembly(program: Program, kernel: Kernel) -> Assembly:
    if not program.cubin:
        return Assembly(missing="the compiler gave no machine code (it was given PTX, or no ptxas is in this NVRTC)")
    code = read_cubin(program.cubin, kernel.name)
    heads = line_shifts(code.ptx, program.ptx)
    if kernel.name not in {name for _, name, _ in heads}:
        raise CubinError("the machine code names no lines of the PTX")
    starts = [start for start, _, _ in heads]
    found = []
    for instruction in code.instructions:
        line = instruction.ptx_line
        if line:
            position = bisect.bisect_right(starts, line) - 1
            line = line + heads[position][2] if position >= 0 else 0
        found.append(replace(instruction, ptx_line=line))
    blocks = machine_blocks(found)
    starts_at = {block.first * SIZE: index for index, block in enumerate(blocks)}
    routines = {name: starts_at[offset] for name, offset in code.routines.items() if offset in starts_at}
    return Assembly(tuple(found), blocks, routines)
