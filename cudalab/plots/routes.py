"""The ways from an array of the host to a kernel: through a staging buffer, by a copy engine, or straight to it."""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import BLUE, GREEN, INK, PURPLE, QUIET, RC, VERMILLION, tint

WIDTH, ROW, HEAD, FOOT = 8.6, 0.92, 0.62, 0.12  # inches; coordinates below are inches
_ARRAY, _STAGE, _HERE, _KERNEL = 0.78, 2.86, 5.72, 7.72
_HOST_EDGE, _DEVICE_EDGE = 3.66, 4.95
_BUS = (_HOST_EDGE + _DEVICE_EDGE) / 2
KINDS = {
    "pageable": "from pageable memory the CPU copies piece by piece into a page-locked staging buffer, and the copy "
    "engine carries each piece over the bus into device memory",
    "pinned": "from pinned memory the copy engine carries the bytes over the bus into device memory",
    "mapped": "in mapped memory the kernel itself reads and writes the host's bytes, over the bus",
}
"""What each way does, for the sentence below the drawing."""


def routes(*kinds: str) -> Picture:
    """Draw one way in each row: ``"pageable"``, ``"pinned"`` or ``"mapped"``.

    Raises:
        ValueError: no kind, or one that does not exist.
    """
    if not kinds or not set(kinds) <= set(KINDS):
        raise ValueError(f"routes takes one or more of {', '.join(KINDS)}; got {', '.join(kinds) or 'nothing'}")
    height = HEAD + ROW * len(kinds) + FOOT
    with matplotlib.rc_context(RC):
        figure = blank(WIDTH, height)
        figure.set_layout_engine("none")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.axis("off")
        axes.set_xlim(0, WIDTH)
        axes.set_ylim(0, height)
        _side(axes, 0.05, _HOST_EDGE, height, "Host memory", BLUE)
        _side(axes, _DEVICE_EDGE, WIDTH - 0.05, height, "Device", GREEN)
        axes.text(_BUS, height - 0.3, "bus", ha="center", color=VERMILLION, fontweight="bold")
        for row, kind in enumerate(kinds):
            _ROWS[kind](axes, height - HEAD - ROW * (row + 0.5))
    text = "; ".join(KINDS[kind] for kind in kinds)
    return Picture(figure, f"{text[0].upper()}{text[1:]}.", f"Ways from the host's array to the kernel: {text}.")


def _pageable(axes: Axes, y: float) -> None:
    _place(axes, _ARRAY, y, "array", "pageable", QUIET)
    _place(axes, _STAGE, y, "staging", "pinned", BLUE)
    _place(axes, _HERE, y, "array", "on the device", GREEN)
    _kernel(axes, y)
    _arrow(axes, _ARRAY, _STAGE, y, PURPLE, "CPU copies")
    _arrow(axes, _STAGE, _HERE, y, VERMILLION, "copy engine")
    _arrow(axes, _HERE, _KERNEL, y, GREEN, "")


def _pinned(axes: Axes, y: float) -> None:
    _place(axes, _ARRAY, y, "array", "pinned", BLUE)
    _place(axes, _HERE, y, "array", "on the device", GREEN)
    _kernel(axes, y)
    _arrow(axes, _ARRAY, _HERE, y, VERMILLION, "copy engine")
    _arrow(axes, _HERE, _KERNEL, y, GREEN, "")


def _mapped(axes: Axes, y: float) -> None:
    _place(axes, _ARRAY, y, "array", "pinned, mapped", BLUE)
    _kernel(axes, y)
    _arrow(axes, _ARRAY, _KERNEL, y, VERMILLION, "reads and writes", both=True)


_ROWS = {"pageable": _pageable, "pinned": _pinned, "mapped": _mapped}
_HALF = 0.62
"""Half of a place's width."""


def _side(axes: Axes, left: float, right: float, height: float, title: str, colour: str) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (left, 0.05),
            right - left,
            height - 0.1,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor=tint(colour, 0.07),
            edgecolor=tint(colour, 0.6),
            lw=1.2,
        )
    )
    axes.text(left + 0.2, height - 0.3, title, fontweight="bold", fontsize=10.5, color=INK, va="center")


def _place(axes: Axes, x: float, y: float, name: str, note: str, colour: str) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x - _HALF, y - 0.24),
            2 * _HALF,
            0.48,
            boxstyle="round,pad=0,rounding_size=0.06",
            facecolor=tint(colour, 0.3),
            edgecolor=colour,
            lw=1.0,
        )
    )
    axes.text(x, y + 0.09, name, ha="center", va="center", fontweight="bold", color=INK)
    axes.text(x, y - 0.11, note, ha="center", va="center", fontsize=8, color=INK)


def _kernel(axes: Axes, y: float) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (_KERNEL - 0.45, y - 0.2), 0.9, 0.4, boxstyle="round,pad=0,rounding_size=0.06", fc=INK, ec="none"
        )
    )
    axes.text(_KERNEL, y, "kernel", ha="center", va="center", color="white", fontweight="bold")


def _arrow(axes: Axes, start: float, end: float, y: float, colour: str, text: str, *, both: bool = False) -> None:
    reach = 0.45 if end == _KERNEL else _HALF
    left, right = start + _HALF + 0.03, end - reach - 0.03
    axes.add_patch(
        FancyArrowPatch(
            (left, y),
            (right, y),
            arrowstyle="<|-|>" if both else "-|>",
            mutation_scale=13,
            lw=1.6,
            color=colour,
            shrinkA=0,
            shrinkB=0,
        )
    )
    if text:
        middle = _BUS if left < _BUS < right else (left + right) / 2
        axes.text(middle, y + 0.1, text, ha="center", va="bottom", fontsize=8.5, color=INK)
