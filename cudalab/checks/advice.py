"""What a learner is told to look at, where the check knows more of a launch than the sanitizer does: which array is an
output, and how many elements there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudalab.checks.bench import Buffer
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
    return "the index itself, and the end of a loop around it: the thread has an element and passes the guard rightly"
