"""Basic blocks of machine code, and where each one goes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from cudalab.sim.compiler.machine_code.instruction import SIZE, MachineInstruction

CONVERGENCE = "BSYNC"
"""Ends a block, too: lanes that come to it one group after the other go on together."""
_AWAY = frozenset(("BRX", "JMX", "BRXU", "RET", "KILL"))
"""They go where a register says, or nowhere."""


class MachineBlock(Struct, frozen=True):
    """Instructions that execute one after the other, always all of them."""

    first: int
    """Position of its first instruction."""
    end: int
    """Position behind its last one."""
    successors: tuple[int, ...]
    """Blocks that may follow: that behind it before the target of its branch. A call is followed by the block behind
    it, to which the routine returns; ``EXIT`` and ``RET`` by none."""
    target: int = -1
    """Of those the one that its branch goes to; -1: it doesn't end in one."""
    calls: int = -1
    """Block that a call at its end enters; -1: none, or an address from a register."""


def machine_blocks(instructions: Sequence[MachineInstruction]) -> tuple[MachineBlock, ...]:
    """The basic blocks of one function and the routines behind it, in the order of the code."""
    count = len(instructions)
    starts = {0}
    for position, each in enumerate(instructions):
        if each.ends_block or each.name == CONVERGENCE:
            starts.add(position + 1)
        if each.target >= 0:
            starts.add(each.target // SIZE)
    edges = [*sorted(start for start in starts if start < count), count]
    number = {start: index for index, start in enumerate(edges)}
    last = len(edges) - 2
    found = []
    for index, (first, end) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        final = instructions[end - 1]
        behind = (index + 1,) if index < last else ()
        target = number.get(final.target // SIZE, -1) if final.ends_block and final.target >= 0 else -1
        if final.name == "CALL":
            found.append(MachineBlock(first, end, behind, calls=target))
        elif target >= 0:
            stays = behind if final.conditional else ()
            found.append(MachineBlock(first, end, (*stays, target), target))
        elif final.name in _AWAY or final.name == "EXIT" and not final.conditional:
            found.append(MachineBlock(first, end, ()))
        else:
            found.append(MachineBlock(first, end, behind))
    return tuple(found)
