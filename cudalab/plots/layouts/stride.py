"""A grid-stride loop: which thread takes which element, in which round."""

from __future__ import annotations

from cudalab.plots.drawing import WIDTH, Drawing, label, line, rect
from cudalab.plots.style import BLUE, GREEN, INK, PURPLE, QUIET, RULE, VERMILLION, tint

MOST_THREADS, MOST_ROUNDS = 32, 12
_LEFT, _TOP, _HIGH = 84.0, 44.0, 26.0
_BLOCKS = (BLUE, GREEN, PURPLE, VERMILLION)


def stride(elements: int = 20, blocks: int = 2, threads: int = 4) -> Drawing:
    """Draw the elements of an array in the rounds in which a grid-stride loop takes them.

    Args:
        elements: of the array.
        blocks: of the grid.
        threads: of a block.

    Raises:
        ValueError: more threads or rounds than fit a page, or none.
    """
    total = blocks * threads
    if min(elements, blocks, threads) < 1 or total > MOST_THREADS:
        raise ValueError(
            f"stride draws 1 to {MOST_THREADS} threads and at least one element "
            f"(got {blocks} × {threads} threads, {elements} elements)"
        )
    rounds = -(-elements // total)
    if rounds > MOST_ROUNDS:
        raise ValueError(
            f"stride draws at most {MOST_ROUNDS} rounds (got {rounds}: {elements} elements, {total} threads)"
        )
    wide = min(56.0, (WIDTH - _LEFT - 12) / total)
    parts = [label(_LEFT - 10, _TOP - 10, "thread", size=10, anchor="end", fill=QUIET)]
    for block in range(blocks):
        x, colour = _LEFT + block * threads * wide, _BLOCKS[block % len(_BLOCKS)]
        parts.append(label(x + threads * wide / 2, 10, f"block {block}", size=10, anchor="middle", bold=True))
        parts.append(line(x + 3, 21, x + threads * wide - 3, 21, colour, width=3))
        for thread in range(threads):
            parts.append(label(x + (thread + 0.5) * wide, _TOP - 10, str(thread), size=10, anchor="middle", fill=QUIET))
    for at in range(rounds):
        y = _TOP + at * (_HIGH + 6)
        parts.append(label(_LEFT - 10, y + _HIGH / 2, f"round {at + 1}", size=10, anchor="end"))
        for place in range(total):
            element, x = at * total + place, _LEFT + place * wide
            colour = _BLOCKS[place // threads % len(_BLOCKS)]
            inside = element < elements
            fill = tint(colour, 0.25) if inside else "#FFFFFF"
            parts.append(rect(x + 1, y, wide - 2, _HIGH, fill, stroke=colour if inside else RULE, radius=2))
            text, ink = (str(element), INK) if inside else ("–", QUIET)
            parts.append(label(x + wide / 2, y + _HIGH / 2, text, size=10, anchor="middle", fill=ink))
    first = ", ".join(str(at) for at in range(0, elements, total))
    idle = rounds * total - elements
    rest = f"; in the last round {idle} of {total} threads find no element" if idle else ""
    steps = f"{rounds} round{'s' if rounds > 1 else ''}"
    summary = (
        f"{elements} elements, {blocks} × {threads} threads: a step of {total}, {steps}. The first thread of all takes "
        f"{first}{rest}."
    )
    alt = (
        f"One row for each of {rounds} rounds, one column for each of {total} threads; cells hold numbers of elements."
    )
    return Drawing("\n".join(parts), WIDTH, _TOP + rounds * (_HIGH + 6) + 4, summary, alt)
