"""Listing of a kernel's PTX instructions, with source lines and basic blocks.

Traced code reports basic blocks, not instructions: one record for each that a thread enters. What a line of the source
costs is put together from here: each of its instructions is executed as often as its basic block is entered.
"""

from __future__ import annotations

from msgspec import Struct

from cudalab.sim.abi import SiteKind
from cudalab.sim.compiler.machine_code.remembered import of_each_kernel
from cudalab.sim.compiler.program import Kernel, Location, Program
from cudalab.sim.compiler.ptx.nodes import Address, Immediate, Instruction, Label
from cudalab.sim.compiler.ptx.parser import parse_ptx
from cudalab.sim.compiler.semantics import Operation, semantics_of

_SHOWN = frozenset("@abcdefghijklmnopqrstuvwxyz")


class Listed(Struct, frozen=True):
    """One PTX instruction of a kernel, or of a function that it calls."""

    line: int
    """In the program's PTX, counted from 1."""
    opcode: str
    location: Location
    """The last line of the source that was named: the compiler gives line 0 to what it moved."""
    blocks: tuple[int, ...]
    """Indices of its basic blocks among the kernel's sites; several where the simulated device copies a function into
    each caller."""
    base: str = ""
    """Of memory accesses: the register or symbol of the address."""
    offset: int = 0
    advance: int = 0
    """What it adds to its own register, as a counter of a loop does; 0: it is no such instruction."""

    @property
    def branches(self) -> bool:
        return semantics_of(self.opcode).operation is Operation.BRANCH


@of_each_kernel(stored=tuple[Listed, ...])
def listing(program: Program, kernel: Kernel) -> tuple[Listed, ...]:
    """The instructions of ``kernel`` that its basic blocks name, in the order of the PTX."""
    instructions: list[Instruction] = []
    places: list[Location] = []
    ends: list[int] = []  # of each function, for every instruction in it
    for function in parse_ptx(program.ptx).functions.values():
        last = function.location
        body = [item for item in function.body or [] if not isinstance(item, Label)]
        for instruction in body:
            last = instruction.location if instruction.location.line else last
            instructions.append(instruction)
            places.append(last)
        ends += [len(instructions)] * len(body)
    first_at: dict[int, int] = {}
    for position, instruction in enumerate(instructions):
        first_at.setdefault(instruction.line, position)
    blocks: dict[int, list[int]] = {}
    before = (0, 0)  # line and end of the block before, which may have begun on the same line
    for index, site in enumerate(kernel.sites):
        if site.kind != SiteKind.BLOCK or not site.instructions or site.ptx_line not in first_at:
            continue
        start = before[1] if site.ptx_line == before[0] else first_at[site.ptx_line]
        if start >= len(instructions):
            continue
        end = min(start + site.instructions, ends[start])
        for position in range(start, end):
            blocks.setdefault(position, []).append(index)
        before = (site.ptx_line, end)
    return tuple(
        _listed(instructions[position], places[position], tuple(blocks[position])) for position in sorted(blocks)
    )


def shown_lines(program: Program, kernel: Kernel) -> tuple[tuple[int, str], ...]:
    """The PTX instructions and labels of ``kernel`` in their order, each with its source line, as the ``.loc`` lines
    say (PTX ISA, "Debugging Directives: .loc"). Lines of other files count at the place of the call in the kernel's
    file; without one, and for labels, the line is 0. What stands in one line is shown once, and calls, which take
    several lines, are left out."""
    texts = program.ptx.split("\n")
    file = kernel.location.file
    found: list[tuple[int, str]] = []
    last = 0
    for item in parse_ptx(program.ptx).functions[kernel.name].body or ():
        if isinstance(item, Label):
            found.append((0, f"{item.name}:"))
            continue
        text = " ".join(texts[item.line - 1].split())
        if item.line == last or ";" not in text or text[0] not in _SHOWN:
            continue
        last = item.line
        place = item.location
        if file and place.file != file:
            place = place.inlined_at or Location("", 0)
        found.append((place.line, text))
    return tuple(found)


def _listed(instruction: Instruction, place: Location, blocks: tuple[int, ...]) -> Listed:
    address = next((operand for operand in instruction.operands if isinstance(operand, Address)), None)
    base, offset = (repr(address.base), address.offset) if address is not None else ("", 0)
    return Listed(instruction.line, instruction.opcode, place, blocks, base, offset, _advance(instruction))


def _advance(instruction: Instruction) -> int:
    if not instruction.opcode.startswith("add.") or len(instruction.operands) != 3:
        return 0
    target, register, value = instruction.operands
    return value.value if target is register and isinstance(value, Immediate) and value.kind == "int" else 0
