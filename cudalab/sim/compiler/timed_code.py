"""A kernel's instructions as the time model wants them: plain data, made by ``passes.timing.timed_code``."""

from __future__ import annotations

from msgspec import Struct


class TimedInstruction(Struct):
    """One PTX instruction.

    Registers are numbers, counted over the kernel and the functions that it may call; symbols and special registers
    that are read have numbers, too."""

    kind: str
    """Its class (``passes.instruction_classes``): which pipe it takes, and how long its result takes."""
    writes: tuple[int, ...]
    reads: tuple[int, ...]
    """The guard is the last of them."""
    line: int
    """In the PTX, counted from 1."""
    address: tuple[int, int] | None = None
    """Of accesses: the register that holds the address, and the offset in bytes."""
    control: bool = False
    """Does it only count a loop's rounds? A loop that is unrolled needs it once."""
    behind: int = 0
    """Of a wait for groups of copies: how many of the latest may still be in flight; -1: not even copies that no group
    has been made of."""
    bulk: bool = False
    """Of groups of copies: those of bulk copies."""
    expects_bytes: bool = False
    """Of arrivals at an mbarrier: copies will complete its phase."""


class TimedBlock(Struct):
    """A basic block of machine code."""

    site: int
    """Index of its site in the kernel."""
    instructions: tuple[TimedInstruction, ...]
    target: int = -1
    """Position of the block, this one or one before it, that it may branch to; -1: none."""
    repeats: int = 1
    """How many rounds of a loop the assembler makes one of."""
    polls_grid: bool = False
    """Does it poll the barrier of the grid? How long that takes, the barrier's latency says."""


class TimedCode(Struct, frozen=True):
    """The basic blocks of one kernel, in the order of the PTX."""

    blocks: tuple[TimedBlock, ...] = ()
    follows_data: bool = False
    """Do addresses or branches depend on what was loaded? Then a launch may take another time with other data."""
    wide_loads: tuple[tuple[int, ...], ...] = ()
    """PTX lines of 4-byte shared loads that the assembler makes one of 8 or 16 bytes."""
    loops: tuple[tuple[int, int], ...] = ()
    """Positions of the first and last blocks of each loop; by the first, the outer ones of those first."""
    triggers: tuple[int, ...] = ()
    """PTX lines at which it lets dependent launches start,"""
    waits: tuple[int, ...] = ()
    """and at which it waits for the kernel before it."""

    @property
    def innermost_loops(self) -> tuple[frozenset[int], ...]:
        """The sites of each loop that holds no other one. A block that waits in between, for a barrier, has a site for
        each of its parts: those up to the next block's. A jump back to the head that stands alone, without instructions
        of its own here, belongs to the loop."""
        inner = [
            (first, last)
            for first, last in self.loops
            if not any((a, b) != (first, last) and first <= a and b <= last for a, b in self.loops)
        ]
        starts = sorted(block.site for block in self.blocks)
        end = dict(zip(starts, [*starts[1:], starts[-1] + 1], strict=True)) if starts else {}
        return tuple(
            frozenset(
                site
                for block in self.blocks[first : self._with_jumps(last) + 1]
                for site in range(block.site, end[block.site])
            )
            for first, last in inner
        )

    def _with_jumps(self, last: int) -> int:
        while last + 1 < len(self.blocks) and not self.blocks[last + 1].instructions:
            last += 1
        return last
