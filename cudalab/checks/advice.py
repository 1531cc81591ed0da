"""What a learner is told to look at, where the check knows more of a launch than the sanitizer does: which array is an
output, how many elements there are, and that what others add to is not swapped and left."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cudalab.sim.compiler.frontend.cautions import cautions
from cudalab.sim.compiler.passes.control_flow import build_blocks
from cudalab.sim.compiler.passes.divergence import post_dominators
from cudalab.sim.compiler.passes.operands import definitions, uses
from cudalab.sim.compiler.ptx.nodes import Instruction, Register
from cudalab.sim.compiler.ptx.parser import parse_ptx

if TYPE_CHECKING:
    from cudalab.checks.bench import Buffer, KernelBench
    from cudalab.sim.compiler.passes.control_flow import Block
    from cudalab.sim.compiler.ptx.nodes import Function
    from cudalab.sim.machine.launch.module import Launch
    from cudalab.sim.machine.reports.finding import Finding


def advice_on(found: Finding, launch: Launch, buffers: Sequence[Buffer]) -> tuple[str, str]:
    """What to look at for a finding of the sanitizer, and the known mistake, if it is one."""
    if found.rule == "null pointer":  # the check has allocated what there is
        return "the pointer that is used here: it may be null, as at the end of a list, so test it first", ""
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
    """Find a swap or an exchange that is not tried again, in an answer whose threads change the same numbers.

    A thread looks at a number, and swaps in another that it has worked out. What others wrote between the two is lost,
    unless what the swap returns decides whether it swaps again. Each of the two is an atomic, so there is no race; and
    the simulated device goes from the one to the other without another thread's turn, so its values are right. On an
    H200 such a maximum was wrong in 60 to 100 of 100 launches.
    """
    assert bench.program is not None
    for function in parse_ptx(bench.program.ptx).kernels:
        for swap in _single_swaps(function) if function.name == bench.exercise.kernel else ():
            name = "atomicCAS" if ".cas." in swap.opcode else "atomicExch"
            line = swap.location.in_source().line
            bench.find(
                "soundness",
                "lost update",
                f"line {line}: {name} puts in a number that was worked out before, and what it returns decides on no "
                "other try. Between the two another thread may have written, and that is lost",
                look="one atomic that reads, works out and writes in one step",
            )


def _single_swaps(function: Function) -> Iterator[Instruction]:
    """Where a number from a register is swapped in, and what was there before does not decide whether a swap follows;
    none where a constant is swapped in and a branch looks at what was there: that may be a lock."""
    blocks = build_blocks(function)
    swaps = [(block.index, each) for block in blocks for each in block.written if _swaps(each.opcode)]
    nearest = post_dominators([each.index for each in blocks], {each.index: each.successors for each in blocks})
    deciding = {block.index for at, _ in swaps for block in _controllers(blocks, at, nearest)}
    single = []
    for _, swap in swaps:
        told = _made_of(swap.operands[0], blocks)
        asked = {block.index for block in blocks if block.guard in told}
        if isinstance(swap.operands[-1], Register):
            single += [swap] * (not asked & deciding)
        elif asked:
            return
    yield from single


def _swaps(opcode: str) -> bool:
    return opcode.startswith("atom.") and (".cas." in opcode or ".exch." in opcode)


def _made_of(register: object, blocks: Sequence[Block]) -> set[object]:
    """The register, and those that are worked out from it."""
    found, before = {register}, 0
    while len(found) > before:
        before = len(found)
        for block in blocks:
            for each in block.written:
                if any(one in found for one in uses(each)):
                    found.update(definitions(each))
    return found


def _controllers(blocks: Sequence[Block], at: int, nearest: Mapping[int, int | None]) -> list[Block]:
    """The blocks whose branch decides, by itself or through others, whether block ``at`` runs (again)."""
    behind: dict[int, list[int]] = {}  # each block, and those that no way from it to the end passes by
    for block in blocks:
        way, here = behind.setdefault(block.index, []), block.index
        while here is not None and here not in way:
            way.append(here)
            here = nearest[here]  # type: ignore[assignment]
    found: list[Block] = []
    waiting = [at]
    while waiting:
        target = waiting.pop()
        for block in blocks:
            decides = any(target in behind[each] for each in block.successors) and target not in behind[block.index][1:]
            if len(block.successors) > 1 and decides and block not in found:
                found.append(block)
                waiting.append(block.index)
    return found
