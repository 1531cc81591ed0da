"""A grid of blocks, and one of its blocks with its threads and warps.

Blocks and threads are numbered with x fastest, so the 32 threads of a warp run along x first (CUDA C++ Programming
Guide, "Thread Hierarchy" and "SIMT Architecture"). Two dimensions of each are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from cudalab.plots.drawing import WIDTH, Drawing, label, rect
from cudalab.plots.style import BLUE, FAINT, GREEN, INK, PURPLE, QUIET, RULE, VERMILLION, tint
from cudalab.sim.abi import WARP

MOST_BLOCKS, MOST_THREADS = 6, (32, 16)
"""In each direction."""
_LEFT, _TOP, _SPLIT = 10.0, 46.0, 290.0
_COLOURS = (BLUE, GREEN, PURPLE, VERMILLION)


def _two(size: int | Sequence[int], name: str) -> tuple[int, int]:
    """x and y of a grid or block, as a launch takes it."""
    x, y, z, *more = (*((size,) if isinstance(size, int) else size), 1, 1, 1)
    if z != 1 or len(more) > 3:
        raise ValueError(f"{name}: two dimensions are drawn, x and y (got {size})")
    return x, y


def grid(
    grid: int | Sequence[int] = (3, 2), block: int | Sequence[int] = (16, 4), chosen: tuple[int, int] = (1, 0)
) -> Drawing:
    """Draw the blocks of a grid, and the threads of one of them in the colours of their warps.

    Args:
        grid: blocks in x and y, at most 6 each; as of a launch, y may be left out and z may be 1.
        block: threads in x and y, at most 32 and 16; the same.
        chosen: x and y of the block whose threads are drawn.

    Raises:
        ValueError: a number outside of these bounds, or a block that is not in the grid.
    """
    wide, high = _two(grid, "grid")
    threads, rows = _two(block, "block")
    if not (1 <= wide <= MOST_BLOCKS and 1 <= high <= MOST_BLOCKS):
        raise ValueError(f"grid: 1 to {MOST_BLOCKS} blocks in each direction (got {wide} × {high})")
    if not (1 <= threads <= MOST_THREADS[0] and 1 <= rows <= MOST_THREADS[1]):
        raise ValueError(
            f"grid: 1 to {MOST_THREADS[0]} × {MOST_THREADS[1]} threads a block are drawn (got {threads} × {rows})"
        )
    if len(chosen) != 2 or not (0 <= chosen[0] < wide and 0 <= chosen[1] < high):
        raise ValueError(f"grid: block {chosen} is not in a grid of {wide} × {high}")
    box, tall = min(84.0, (_SPLIT - 40) / wide), 34.0
    cell, step = min(34.0, (WIDTH - _SPLIT - 70) / threads), min(26.0, 230.0 / rows)
    parts = [
        label(_LEFT, 12, f"grid: {wide} × {high} blocks", size=11, bold=True),
        label(_SPLIT + 34, 12, f"block ({chosen[0]}, {chosen[1]}): {threads} × {rows} threads", size=11, bold=True),
        label(_LEFT, 31, "blockIdx (x, y)", size=9.5, fill=QUIET),
        label(_SPLIT + 34, 31, "in each cell the thread ID; each colour is a warp of 32", size=9.5, fill=QUIET),
    ]
    for y in range(high):
        for x in range(wide):
            mine = (x, y) == chosen
            left, top = _LEFT + x * box, _TOP + y * (tall + 6)
            fill, edge = (tint(BLUE, 0.3), INK) if mine else (FAINT, RULE)
            parts.append(rect(left, top, box - 6, tall, fill, stroke=edge, radius=4))
            text = f"({x}, {y})" if box > 40 else f"{x},{y}"
            parts.append(label(left + (box - 6) / 2, top + tall / 2, text, size=9.5, anchor="middle", bold=mine))
    for y in range(rows):
        top = _TOP + 14 + y * step
        parts.append(
            label(_SPLIT + 28, top + step / 2, f"y {y}" if y == 0 else str(y), size=9, anchor="end", fill=QUIET)
        )
        for x in range(threads):
            identity = y * threads + x
            colour = _COLOURS[identity // WARP % len(_COLOURS)]
            left = _SPLIT + 34 + x * cell
            parts.append(rect(left + 0.5, top, cell - 1, step - 2, tint(colour, 0.3), stroke=colour))
            if cell > 18 and step > 12:
                parts.append(label(left + cell / 2, top + step / 2 - 1, str(identity), size=9, anchor="middle"))
    for x in range(threads):
        if x % (1 if cell > 18 else 4) == 0:
            text = f"x {x}" if x == 0 else str(x)
            parts.append(label(_SPLIT + 34 + (x + 0.5) * cell, _TOP + 6, text, size=9, anchor="middle", fill=QUIET))
    bottom = max(_TOP + high * (tall + 6), _TOP + 14 + rows * step)
    count, warps = threads * rows, -(-threads * rows // WARP)
    last = count % WARP
    idle = f", the last with {last} threads" if last else ""
    summary = (
        f"{wide} × {high} blocks of {threads} × {rows} threads: {wide * high * count} threads. The {count} of a block "
        f"are {warps} warp{'s' if warps > 1 else ''}{idle}."
    )
    alt = (
        f"A grid of {wide * high} blocks, one of them marked; beside it the {count} threads of that block, coloured by "
        "warp."
    )
    return Drawing("\n".join(parts), WIDTH, bottom + 6, summary, alt)
