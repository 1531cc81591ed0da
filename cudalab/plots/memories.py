"""Host memory and device memory, and the copies between them."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import BLUE, GREEN, INK, QUIET, RC, VERMILLION, tint

WIDTH = 8.6  # inches; all coordinates below are inches, so that corners stay round
ROW = 0.5
HEAD = 0.86  # from the top of a box to the middle of its first array
FOOT = 0.42


def memories(
    to_device: Sequence[str] = ("a", "b"), from_device: Sequence[str] = ("c",), *, kernel: str = "kernel"
) -> Picture:
    """Draw the two memories, the arrays in each, the copies as arrows, and the kernel beside device memory.

    Args:
        to_device: names of the arrays copied from host to device.
        from_device: names of the arrays copied back.
        kernel: name of the kernel that reads the former and writes the latter.

    Raises:
        ValueError: no array at all.
    """
    names = [*to_device, *from_device]
    if not names:
        raise ValueError("memories needs at least one array; got none")
    height = HEAD + ROW * (len(names) - 1) + FOOT
    middle = FOOT + ROW * (len(names) - 1) / 2
    with matplotlib.rc_context(RC):
        figure = blank(WIDTH, height + 0.1)
        figure.set_layout_engine("none")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.axis("off")
        axes.set_xlim(0, WIDTH)
        axes.set_ylim(-0.05, height + 0.05)
        _box(axes, 0.05, 2.75, height, "Host memory", "the CPU and NumPy work here", BLUE)
        _box(axes, 4.35, 4.2, height, "Device memory", "kernels work here", GREEN)
        _kernel(axes, 7.55, middle, kernel)
        for row, name in enumerate(names):
            y = height - HEAD - ROW * row
            inward = row < len(to_device)
            _array(axes, 0.25, y, name, BLUE)
            _array(axes, 4.55, y, f"d_{name}", GREEN)
            _arrow(axes, (2.4, y), (4.48, y), inward, VERMILLION, 1.7)
            axes.text(
                3.58,
                y + 0.06,
                "host → device" if inward else "device → host",
                ha="center",
                va="bottom",
                fontsize=8.5,
                color=VERMILLION,
            )
            spread = 0.1 * ((len(names) - 1) / 2 - row)
            _arrow(axes, (6.62, y), (7.12, middle + spread), inward, QUIET, 1.1)
    return Picture(
        figure,
        f"{_listed(to_device)} from host to device memory; the kernel `{kernel}` reads and writes device memory only; "
        f"{_listed(from_device)} from device to host memory.",
        "Two boxes, host memory and device memory, with an arrow between them for every copy; "
        "the kernel stands in the device's box.",
    )


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "nothing is copied"
    verb = "is" if len(names) == 1 else "are"
    return " and ".join(f"`{name}`" for name in names) + f" {verb} copied"


def _box(axes: Axes, x: float, width: float, height: float, title: str, note: str, colour: str) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x, 0),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor=tint(colour, 0.07),
            edgecolor=tint(colour, 0.6),
            lw=1.2,
        )
    )
    axes.text(x + 0.2, height - 0.25, title, fontweight="bold", fontsize=10.5, color=INK, va="center")
    axes.text(x + 0.2, height - 0.46, note, fontsize=8.5, color=QUIET, va="center")


def _array(axes: Axes, x: float, y: float, name: str, colour: str) -> None:
    axes.text(x, y, name, va="center", fontweight="bold", color=INK, family="DejaVu Sans Mono")
    for part in range(6):
        axes.add_patch(Rectangle((x + 0.42 + part * 0.27, y - 0.13), 0.25, 0.26, fc=tint(colour, 0.35), ec="none"))


def _kernel(axes: Axes, x: float, y: float, name: str) -> None:
    axes.add_patch(
        FancyBboxPatch((x - 0.4, y - 0.2), 1.1, 0.4, boxstyle="round,pad=0,rounding_size=0.06", fc=INK, ec="none")
    )
    axes.text(x + 0.15, y, name, ha="center", va="center", color="white", fontweight="bold", family="DejaVu Sans Mono")


def _arrow(
    axes: Axes, left: tuple[float, float], right: tuple[float, float], rightwards: bool, colour: str, width: float
) -> None:
    start, end = (left, right) if rightwards else (right, left)
    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=8 + 3 * width, lw=width, color=colour, shrinkA=1, shrinkB=1
        )
    )
