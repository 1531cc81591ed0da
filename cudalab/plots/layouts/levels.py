"""The way of bytes from the memory chips to the threads, with what passes on each stretch of it.

Behind each level fewer bytes are needed, because it serves several who ask for the same: the L2 several SMs, the L1
several requests, a request several lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from cudalab.plots.drawing import WIDTH, Drawing, group, label, rect, text_width
from cudalab.plots.style import BLUE, GREEN, INK, QUIET, VERMILLION, number, tint

PLACES = (
    ("DRAM", "the memory chips", GREEN),
    ("L2", "for all SMs", GREEN),
    ("L1", "in the SM", BLUE),
    ("warp", "one request", BLUE),
    ("lanes", "the threads", VERMILLION),
)
"""Where bytes pass, from the chips to the threads."""
_BOX, _HIGH, _TOP = 96.0, 62.0, 46.0


def levels(amounts: Sequence[float], *, unit: str = "KiB") -> Drawing:
    """Draw how much passes between two levels each: from DRAM to L2, to an SM's L1, to a warp, to its lanes.

    Args:
        amounts: four of them, in that order.
        unit: of the amounts.

    Raises:
        ValueError: not four amounts, or one that is not positive.
    """
    if len(amounts) != len(PLACES) - 1 or min(amounts) <= 0:
        raise ValueError(f"levels: give {len(PLACES) - 1} positive amounts (got {', '.join(map(str, amounts))})")
    gap = (WIDTH - 16 - _BOX * len(PLACES)) / (len(PLACES) - 1)
    middle, parts = _TOP + _HIGH / 2, []
    most = max(amounts)
    for at, amount in enumerate(amounts):
        x = 8 + (_BOX + gap) * at + _BOX
        thick = max(2.0, 40 * amount / most)
        text = f"{number(amount)} {unit}"
        parts.append(
            group([_arrow(x + 3, x + gap - 3, middle, thick)], f"{PLACES[at][0]} → {PLACES[at + 1][0]}: {text}")
        )
        assert text_width(text, 11, bold=True) < gap + _BOX
        parts.append(label(x + gap / 2, _TOP - 18, text, size=11, anchor="middle", bold=True))
    for at, (name, note, colour) in enumerate(PLACES):
        x = 8 + (_BOX + gap) * at
        parts.append(rect(x, _TOP, _BOX, _HIGH, tint(colour, 0.18), stroke=colour, radius=6))
        parts.append(label(x + _BOX / 2, middle - 8, name, size=12, anchor="middle", bold=True))
        parts.append(label(x + _BOX / 2, middle + 11, note, size=9.5, anchor="middle", fill=QUIET))
    names = [PLACES[0][0], *(f"the {place[0]}" for place in PLACES[1:])]
    said = ", ".join(f"{number(a)} {unit} from {names[at]} to {names[at + 1]}" for at, a in enumerate(amounts))
    return Drawing(
        "\n".join(parts), WIDTH, _TOP + _HIGH + 14, f"What passes: {said}.",
        "Boxes from the memory chips over the caches to the threads, joined by arrows as thick as what passes.",
    )  # fmt: skip


def _arrow(begin: float, end: float, middle: float, thick: float) -> str:
    head = min(14.0, (end - begin) / 2)
    half, wide = thick / 2, thick / 2 + 5
    return (
        f'<path d="M{begin:.1f} {middle - half:.1f}H{end - head:.1f}V{middle - wide:.1f}L{end:.1f} {middle:.1f}'
        f'L{end - head:.1f} {middle + wide:.1f}V{middle + half:.1f}H{begin:.1f}z" fill="{tint(INK, 0.45)}"/>'
    )
