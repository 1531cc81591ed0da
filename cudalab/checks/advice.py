"""What a learner is told to look at, where the check knows more of a launch than the sanitizer does: which array is an
output, how many elements there are, and that what others add to is not swapped and left."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cudalab.sim.compiler.frontend.cautions import cautions
from cudalab.sim.compiler.passes.operands import uses
from cudalab.sim.compiler.ptx.nodes import Instruction, Register
from cudalab.sim.compiler.ptx.parser import parse_ptx

if TYPE_CHECKING:
    from cudalab.checks.bench import Buffer, KernelBench
    from cudalab.sim.compiler.ptx.nodes import Function
    from cudalab.sim.machine.launch.module import Launch
    from cudalab.sim.machine.reports.finding import Finding


def advice_on(found: Finding, launch: Launch, buffers: Sequence[Buffer]) -> tuple[str, str]:
    """What to look at for a finding of the sanitizer, and the known mistake, if it is one."""
    return _owners(found, buffers) or (_beyond(found, launch, buffers) or found.advice, "")


def _owners(found: Finding, buffers: Sequence[Buffer]) -> tuple[str, str] | None:
    """Where two threads write one element of an output."""
    if found.hazard != "WAW" or found.address is None or found.other is None:
        return None
    owned = [one for one in buffers if one.owned and one.extent[0] <= found.address < one.extent[1]]
    if not owned:
        return None
    other_block, other_thread = found.other
    repeats = found.thread == other_thread and found.block != other_block
    return (
        f"which elements of {owned[0].name} a thread takes: each belongs to one thread, which needs no atomic",
        "a block takes what another has as well; where a thread begins depends on blockIdx, and its step is the "
        "whole grid (gridDim.x * blockDim.x), not one block"
        if repeats
        else "",
    )


def _beyond(found: Finding, launch: Launch, buffers: Sequence[Buffer]) -> str:
    """Where a thread that has an element of its own goes beyond an array: no guard is missing. Empty elsewhere."""
    if found.rule != "out of bounds" or found.block is None or found.thread is None:
        return ""
    grid, block = launch.config.grid, launch.config.block
    x, y, _ = (b * n + t for b, n, t in zip(found.block, block, found.thread, strict=True))
    flat = grid[1] * block[1] == 1
    for shape in (one.shape for one in buffers if not one.is_input):
        height, width = (1, math.prod(shape)) if flat or len(shape) == 1 else (shape[-2], shape[-1])
        if x >= width or y >= height:
            return ""
    return "the index that this thread computes, and the end of a loop around it: the guard is right to let it pass"


def tell_doubts(bench: KernelBench) -> None:
    """Beside what is wrong with an answer, what the compiler doubted in it: often that is why. It costs no points."""
    if bench.program is None or bench.fine:
        return
    for doubt in cautions(bench.program.log, bench.answer.source, bench.file)[:1]:
        text = f"line {doubt.line}, {doubt.code.strip()}: {doubt.text}; {doubt.advice}"
        bench.find(bench.findings[0].part, "looks like a mistake", text)


def refuse_lost_updates(bench: KernelBench) -> None:
    """Find a swap or an exchange that nobody looks at, in an answer whose threads change the same numbers.

    A thread looks at a number, and swaps in another that it has worked out. What others wrote between the two is lost,
    unless it looks at what the swap returned. Each of the two is an atomic, so there is no race; and the simulated
    device goes from the one to the other without another thread's turn, so its values are right. On an H200 such a
    maximum was wrong in 60 to 100 of 100 launches.
    """
    assert bench.program is not None
    for function in parse_ptx(bench.program.ptx).kernels:
        for swap in _unread_swaps(function) if function.name == bench.exercise.kernel else ():
            name = "atomicCAS" if ".cas." in swap.opcode else "atomicExch"
            line = swap.location.in_source().line
            bench.find(
                "soundness",
                "lost update",
                f"line {line}: {name} puts in a number that was worked out before, and nothing looks at what it "
                "returns. Between the two another thread may have written, and that is lost",
                look="one atomic that reads, works out and writes in one step",
            )


def _unread_swaps(function: Function) -> Iterator[Instruction]:
    """Where a number from a register is swapped in, and what was there before is not read; none where another swap's
    result is, which may be a lock."""
    instructions = [each for each in function.body or () if isinstance(each, Instruction)]
    read = {register for each in instructions for register in (*uses(each), *_guard(each))}
    swaps = [each for each in instructions if each.opcode.startswith("atom.") and _swaps(each.opcode)]
    if not any(each.operands[0] in read for each in swaps):
        yield from (each for each in swaps if isinstance(each.operands[-1], Register))


def _guard(instruction: Instruction) -> tuple[Register, ...]:
    return () if instruction.guard is None else (instruction.guard,)


def _swaps(opcode: str) -> bool:
    return ".cas." in opcode or ".exch." in opcode
