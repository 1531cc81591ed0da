"""Colours, type and line widths of every figure in the course.

The palette is Okabe and Ito's, which stays distinct under the common forms of colour blindness; nothing is told
by colour alone, so each series also has its own marker and its name beside it. The typeface is DejaVu Sans, which
comes with matplotlib: a figure looks the same on every machine.
"""

from __future__ import annotations

from typing import Any

BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
BLACK = "#000000"

INK = "#222222"  # text
QUIET = "#5F6670"  # secondary text, axis labels
RULE = "#C9CED4"  # axes, frames
FAINT = "#EEF0F2"  # grids, empty boxes

SERIES = (BLUE, VERMILLION, GREEN, PURPLE, BLACK)
MARKERS = ("o", "s", "^", "D", "v")

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.grid": False,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.9,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "hatch.linewidth": 0.7,
    "svg.fonttype": "path",
    "svg.hashsalt": "cudalab",
}


def tint(colour: str, strength: float = 0.2) -> str:
    """Mix ``colour`` (``#rrggbb``) with white; ``strength`` 0 is white, 1 the colour itself."""
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (channel - 255) * strength):02X}" for channel in channels)


def number(value: float, digits: int = 3) -> str:
    """``value`` with ``digits`` significant digits; thousands are set apart from 10,000 on: 0.00513, 12.5, 3333."""
    if value == 0:
        return "0"
    if float(value).is_integer() or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.0f}"
    text = f"{value:.{digits}g}"
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text
