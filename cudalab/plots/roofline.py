"""The roofline: the most a kernel can compute, given how many bytes it moves.

A kernel that does few operations on each byte is bound by memory: the sloped roof. One that does many is bound by
arithmetic: the flat roof. Where the two meet is a property of the device. The slope may be device memory's, or that of
a memory within the SM, for the bytes that pass there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import ScaledTranslation

from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import BLUE, INK, MARKERS, QUIET, RC, SERIES, number, tint

_LABEL_WIDTH, _LABEL_HEIGHT = 150, 12  # points
_BESIDE = 13  # points from a mark to the small one in front of its label
_TOUCHING = 6  # points; marks that are closer cover each other


def roofline(
    kernels: Mapping[str, tuple[float, float]],
    *,
    bandwidth: float,
    arithmetic: float,
    kind: str,
    title: str = "",
    memory: str = "memory",
) -> Picture:
    """Draw kernels under the device's roof.

    Args:
        kernels: by name, operations done for each byte moved, and GFLOP/s reached.
        bandwidth: peak of device memory, or of another that ``memory`` names, GB/s.
        arithmetic: peak of float arithmetic, GFLOP/s.
        kind: ``"measured"`` or ``"modelled"``: where the reached figures come from.
        title: what is compared.
        memory: which memory the slope is of.

    Raises:
        ValueError: a figure that is not positive.
    """
    figures = [bandwidth, arithmetic, *(value for pair in kernels.values() for value in pair)]
    if not kernels or min(figures) <= 0:
        raise ValueError(f"roofline needs kernels and positive figures; got {dict(kernels)}, {bandwidth}, {arithmetic}")
    ridge = arithmetic / bandwidth
    low = min(min(intensity for intensity, _ in kernels.values()) / 4, ridge / 64)
    high = ridge * 24
    with matplotlib.rc_context(RC):
        figure = blank(6.8, 3.3)
        axes = figure.subplots()
        x = np.geomspace(low, high, 200)
        roof = np.minimum(arithmetic, bandwidth * x)
        axes.fill_between(x, roof, 1e-9, color=tint(BLUE, 0.07), lw=0)
        axes.plot(x, roof, color=BLUE)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=10)
        axes.set_xlim(low, high)
        axes.set_ylim(min(reached for _, reached in kernels.values()) / 8, arithmetic * 4)
        _draw_marks(axes, kernels, lambda intensity: min(arithmetic, bandwidth * intensity))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: _fraction(value)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _position: number(value)))
        axes.minorticks_off()
        axes.set_xlabel("operations for each byte moved (FLOP/B)")
        axes.set_ylabel(f"GFLOP/s, {kind}", color=QUIET)
        axes.annotate(
            f"arithmetic {number(arithmetic)} GFLOP/s",
            (high, arithmetic),
            xytext=(-4, 6),
            textcoords="offset points",
            ha="right",
            color=BLUE,
        )
        at = max(ridge / 8, low * 16)
        axes.annotate(
            f"{memory} {number(bandwidth)} GB/s",
            (at, bandwidth * at),
            xytext=(-8, 6),
            textcoords="offset points",
            ha="right",
            color=BLUE,
        )
        if title:
            axes.set_title(title)
    words = []
    for name, (intensity, reached) in kernels.items():
        bound = memory if intensity < ridge else "arithmetic"
        share = reached / min(arithmetic, bandwidth * intensity)
        words.append(f"{name} reaches **{share:.0%}** of what {bound} allows ({kind})")
    return Picture(figure, "Roofline: " + "; ".join(words) + ".", f"Roofline with a mark for {', '.join(kernels)}.")


def _draw_marks(axes: Axes, kernels: Mapping[str, tuple[float, float]], roof: Callable[[float], float]) -> None:
    """A mark for each kernel with a line up to the roof, and its label behind a smaller mark of the same kind."""
    scale = axes.figure.dpi_scale_trans
    places = _places(axes, list(kernels.values()))
    for index, ((name, (intensity, reached)), place) in enumerate(zip(kernels.items(), places, strict=True)):
        axes.plot([intensity] * 2, [reached, roof(intensity)], color=QUIET, lw=0.9, ls=":")
        mark: dict[str, Any] = {
            "marker": MARKERS[(index + index // len(SERIES)) % len(MARKERS)],  # the sixth has the first one's colour
            "color": SERIES[(index + 1) % len(SERIES)],
            "ls": "",
            "mec": "white",
        }
        axes.plot([intensity], [reached], ms=8 + 6 * place.beneath, zorder=6 - place.beneath, **mark)
        beside = axes.transData + ScaledTranslation(_BESIDE / 72, -place.drop / 72, scale)
        axes.plot([intensity], [reached], ms=5, zorder=5, transform=beside, **mark)
        axes.annotate(
            f"{name}: {number(reached)} GFLOP/s",
            (intensity, reached),
            xytext=(_BESIDE + 5, -place.drop),
            textcoords="offset points",
            va="center",
            color=INK,
        )


@dataclass(frozen=True)
class _Place:
    """Where a mark's label stands: ``drop`` points below the mark, so that it covers no other label. Of the marks that
    touch this one, ``beneath`` lie on it; it is drawn larger than they are, so that all show."""

    drop: float
    beneath: int


def _places(axes: Axes, marks: Sequence[tuple[float, float]]) -> list[_Place]:
    points = axes.transData.transform(marks) * 72 / axes.figure.dpi
    places, taken = dict[int, _Place](), list[tuple[float, float]]()
    for index in sorted(range(len(marks)), key=lambda index: -points[index][1]):
        x, y = points[index]
        middle = min([y - 3, *(bottom for other, bottom in taken if abs(x - other) < _LABEL_WIDTH)])
        beneath = sum(bool(np.hypot(*(points[index] - later)) < _TOUCHING) for later in points[index + 1 :])
        places[index] = _Place(float(y - middle), beneath)
        taken.append((x, middle - _LABEL_HEIGHT))
    return [places[index] for index in range(len(marks))]


def _fraction(value: float) -> str:
    return f"1/{round(1 / value)}" if value < 1 else number(value)
