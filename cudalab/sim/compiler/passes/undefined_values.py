"""Registers that may hold an undefined value, for the sanitizer.

Two instructions give values that the PTX ISA calls undefined: a shuffle whose source lane takes no part in it, and a
load from local memory to which nothing was stored. Most of them do no harm: in a tree reduction with
``__shfl_down_sync`` half of the lanes read past the end and nobody asks for their sums. So, as in Valgrind's memcheck
and LLVM's MemorySanitizer, an undefined value is followed, and an error is only its *use*: a store to device memory, an
atomic, an address that is stored to, a ``printf``.

This pass finds the registers that undefined values can reach, by data and by control: where a branch depends on one,
the registers that the two ways set differently depend on it where they meet again. It does not look at the order of
instructions; which value is undefined when is followed at run time (``codegen.undefined_values``), only for what is
found here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.passes.accesses import Access, Extent
from cudalab.sim.compiler.passes.control_flow import Block, End
from cudalab.sim.compiler.passes.divergence import post_dominators
from cudalab.sim.compiler.passes.liveness import Liveness
from cudalab.sim.compiler.passes.operands import definitions, uses
from cudalab.sim.compiler.ptx.nodes import Instruction, Register

_COMBINING = ("shfl", "vote", "match", "redux")
"""Warp operations that give each lane values of others."""


@dataclass(frozen=True)
class Decision:
    """A branch on a register that may be undefined."""

    block: int
    inside: frozenset[int]
    """Blocks between the branch and the place where its ways meet."""
    join: int | None
    """The block in which they meet; None: they do not before the thread exits."""
    decided: tuple[Register, ...]
    """Registers set inside that are read after."""


@dataclass
class UndefinedValues:
    """What undefined values can reach in one kernel."""

    registers: set[Register] = field(default_factory=set)
    decisions: dict[int, Decision] = field(default_factory=dict)
    """By the block of the branch."""
    in_shared: bool = False
    """Shared memory may hold them."""
    in_local: bool = False
    in_calls: bool = False
    """Arguments of a call may be undefined, and then its results."""


def combines_lanes(opcode: str) -> bool:
    """Whether a warp operation gives each lane values of others."""
    return opcode.startswith(_COMBINING)


def may_be_local(access: Access) -> bool:
    """Whether an access may reach the thread's local memory."""
    return access.space is Space.LOCAL or _is_anywhere(access)


def may_be_shared(access: Access) -> bool:
    """Whether an access may reach shared memory of the block."""
    return access.space is Space.SHARED or _is_anywhere(access)


def _is_anywhere(access: Access) -> bool:
    return access.space is Space.GENERIC and access.extent is Extent.SHADOW


def has_sources(blocks: list[Block], accesses: dict[Instruction, Access], local_variables: bool) -> bool:
    """Whether anything in a kernel may give an undefined value."""
    shuffles = any(b.end is End.SUSPEND and b.ending is not None and b.ending.opcode.startswith("shfl") for b in blocks)
    return shuffles or (local_variables and any(a.kind is SiteKind.LOAD and may_be_local(a) for a in accesses.values()))


def find_undefined_values(
    blocks: list[Block],
    accesses: dict[Instruction, Access],
    liveness: Liveness,
    registers: list[Register],
    local_variables: bool,
) -> UndefinedValues:
    """Follow undefined values through a kernel. ``local_variables``: it has variables in local memory."""
    found = UndefinedValues(in_local=local_variables)
    after: dict[int, int | None] = {}
    while True:
        before = _size(found)
        inside = {index for decision in found.decisions.values() for index in decision.inside}
        for block in blocks:
            for instruction in block.instructions:
                _follow(found, instruction, accesses.get(instruction), block.index in inside)
            if block.end is End.SUSPEND and block.ending is not None:
                opcode = block.ending.opcode
                reached = not found.registers.isdisjoint(uses(block.ending))
                if opcode.startswith("shfl") or (combines_lanes(opcode) and reached):
                    found.registers.update(definitions(block.ending))
            elif block.index not in found.decisions and not found.registers.isdisjoint(_condition(block)):
                after = after or _meetings(blocks)
                found.decisions[block.index] = _decision(blocks, block.index, after[block.index], liveness, registers)
        for decision in found.decisions.values():
            found.registers.update(decision.decided)
        if before == _size(found):
            return found


def _size(found: UndefinedValues) -> tuple[int, ...]:
    return len(found.registers), len(found.decisions), found.in_shared, found.in_local, found.in_calls


def _condition(block: Block) -> list[Register]:
    """The registers that decide which successor follows."""
    if block.end is End.BRANCH and block.guard is not None:
        return [block.guard]
    return uses(block.ending) if block.end is End.SWITCH and block.ending is not None else []


def _follow(found: UndefinedValues, instruction: Instruction, access: Access | None, decided: bool) -> None:
    reached = not found.registers.isdisjoint(uses(instruction))
    if access is None:
        if instruction.opcode.startswith("st.param"):
            found.in_calls |= reached or decided
        elif reached or (found.in_calls and instruction.opcode.startswith("ld.param")):
            found.registers.update(definitions(instruction))
        return
    if access.kind is SiteKind.STORE:
        if reached or decided:
            found.in_shared |= may_be_shared(access)
            found.in_local |= may_be_local(access)
        return
    loaded = (found.in_shared and may_be_shared(access)) or (found.in_local and may_be_local(access))
    if loaded or (reached and access.kind is SiteKind.LOAD):
        found.registers.update(definitions(instruction))


def _meetings(blocks: list[Block]) -> dict[int, int | None]:
    """The immediate post-dominator of each block."""
    return post_dominators([block.index for block in blocks], {block.index: block.successors for block in blocks})


def _decision(
    blocks: list[Block], index: int, join: int | None, liveness: Liveness, registers: list[Register]
) -> Decision:
    inside: set[int] = set()
    stack = [successor for successor in blocks[index].successors if successor != join]
    while stack:
        each = stack.pop()
        if each not in inside:
            inside.add(each)
            stack += [successor for successor in blocks[each].successors if successor != join]
    written = 0
    for each in inside:
        written |= liveness.written[each]
        ending = blocks[each].ending
        if blocks[each].end is End.SUSPEND and ending is not None:
            for register in definitions(ending):
                written |= 1 << register.index
    read_after = written & liveness.live_in[join] if join is not None else 0
    decided = tuple(register for register in registers if read_after >> register.index & 1)
    return Decision(index, frozenset(inside), join, decided)
