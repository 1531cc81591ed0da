"""The source and destination of asynchronous copies.

``cp.async`` and the bulk copies access two locations in one instruction, each with its own address, check and site. The
number of bytes may be known only at run time.
"""

from __future__ import annotations

from dataclasses import dataclass

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.passes.accesses import Access
from cudalab.sim.compiler.passes.control_flow import Block
from cudalab.sim.compiler.ptx.nodes import BITS, Address, Immediate, Instruction

BULK_UNIT = 16
"""Granularity, in bytes, of the size and the addresses of bulk copies (PTX ISA, cp.async.bulk)."""
_SPACES = {
    "global": Space.GLOBAL,
    "shared": Space.SHARED,
    "shared::cta": Space.SHARED,
    "shared::cluster": Space.SHARED,
}


@dataclass(eq=False)
class AsyncCopy:
    """The two ends of an asynchronous copy; a prefetch has no target. ``size``: bytes of one copy (``cp.async``), or of
    the unit of a bulk copy."""

    source: Access
    target: Access | None
    size: int
    is_bulk: bool
    is_partial: bool
    """Whether it may read fewer bytes than it writes, by a number known only at run time."""

    @property
    def ends(self) -> list[Access]:
        return [self.source] if self.target is None else [self.source, self.target]


def copies_asynchronously(opcode: str) -> bool:
    """Whether an instruction needs the per-block state of ``runtime/async_copy.py``."""
    return opcode.startswith(("cp.async", "cp.reduce.async"))


def describe_copy(instruction: Instruction) -> AsyncCopy | None:
    """The two ends of a copy; None for other instructions, for tensor maps, and for waits."""
    parts = instruction.opcode.split(".")
    operands = instruction.operands
    if not copies_asynchronously(instruction.opcode) or len(operands) < 2 or "tensor" in parts:
        return None
    if type(operands[0]) is not Address or "mbarrier" in parts:
        return None
    if "prefetch" in parts:
        return AsyncCopy(_end(instruction, operands[0], SiteKind.LOAD, Space.GLOBAL, BULK_UNIT), None, 16, True, False)
    if type(operands[1]) is not Address:
        return None
    spaces = [_SPACES[part] for part in parts if part in _SPACES]
    if len(spaces) != 2:
        return None
    is_bulk, reduces = "bulk" in parts, parts[1] == "reduce"
    size, is_partial = BULK_UNIT, False
    if not is_bulk:
        size = operands[2].value if type(operands[2]) is Immediate else 16
        filled = operands[3] if len(operands) > 3 and "L2::cache_hint" not in parts else None
        is_partial = filled is not None and not (type(filled) is Immediate and filled.value == size)
        is_partial = is_partial or ("L2::cache_hint" in parts and len(operands) > 4)
    target_space, source_space = spaces
    width = next((BITS[part] // 8 for part in reversed(parts) if part in BITS), size) if reduces else size
    kind = SiteKind.ATOMIC if reduces else SiteKind.STORE
    return AsyncCopy(
        _end(instruction, operands[1], SiteKind.LOAD, source_space, size),
        _end(instruction, operands[0], kind, target_space, width),
        size,
        is_bulk,
        is_partial,
    )


def _end(instruction: Instruction, address: Address, kind: SiteKind, space: Space, size: int) -> Access:
    """One end. Its static check covers a single byte; the size is checked at run time."""
    return Access(instruction, kind, space, address.base, address.offset, 1, size)


def find_copies(blocks: list[Block]) -> dict[Instruction, AsyncCopy]:
    """All asynchronous copies, with their accesses unresolved."""
    found = {}
    for block in blocks:
        for instruction in block.instructions:
            copy = describe_copy(instruction)
            if copy is not None:
                found[instruction] = copy
    return found
