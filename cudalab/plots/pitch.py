"""Rows in pitched memory: the bytes used and the padding behind them.

A pitched allocation starts every row at an aligned address. The distance between two row starts, in bytes, is the
pitch; it is at least the width, and what lies between width and pitch is padding.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib
from matplotlib.patches import Rectangle

from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import BLUE, INK, QUIET, RC, RULE, number


def pitch(pitches: Mapping[int, int], *, title: str = "") -> Picture:
    """Draw one row of each allocation: bytes used, then padding.

    Args:
        pitches: width of a row in bytes → the pitch that was given for it, in bytes.
        title: what the drawing shows.

    Raises:
        ValueError: nothing to draw, or a pitch below its width.
    """
    if not pitches:
        raise ValueError("pitch needs at least one width; got none")
    for width, given in pitches.items():
        if given < width or width < 1:
            raise ValueError(f"pitch: a row of {width} bytes cannot have a pitch of {given}; pitch ≥ width ≥ 1")
    longest = max(pitches.values())
    with matplotlib.rc_context(RC):
        figure = blank(8.6, 0.8 + 0.36 * len(pitches))
        axes = figure.subplots()
        for row, (width, given) in enumerate(pitches.items()):
            axes.add_patch(
                Rectangle(
                    (width, row - 0.31), given - width, 0.62, facecolor="white", edgecolor=RULE, hatch="////", lw=0
                )
            )
            axes.add_patch(Rectangle((0, row - 0.31), width, 0.62, facecolor=BLUE, lw=0))
            axes.add_patch(Rectangle((0, row - 0.31), given, 0.62, facecolor="none", edgecolor=QUIET, lw=0.9))
            axes.text(
                given + longest * 0.012,
                row,
                f"pitch {number(given)}  ({_percent(given - width, given)} padding)",
                va="center",
                fontsize=8.5,
                color=INK,
            )
        axes.set_xlim(0, longest * 1.25)
        axes.set_ylim(len(pitches) - 0.45, -0.55)
        axes.set_yticks(range(len(pitches)), [f"{number(width)}" for width in pitches])
        axes.set_ylabel("width of a row (bytes)")
        axes.set_xticks(list(range(0, longest + 1, max(512, longest // 8 // 512 * 512))))
        axes.set_xlabel("bytes: blue is used, hatched is padding")
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.xaxis.set_label_coords(0.4, -0.17)
        if title:
            axes.set_title(title)
    words = ", ".join(f"{number(width)} → {number(given)}" for width, given in pitches.items())
    return Picture(
        figure,
        f"Width of a row → pitch, in bytes: {words}.",
        f"One bar for each width, its used part solid and its padding hatched: {words}.",
    )


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if 0.99 < part / whole < 1 else f"{part / whole:.0%}"
