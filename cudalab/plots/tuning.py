"""What a tuner found: the time against the parameter, and each point as a fraction of the device's peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import matplotlib
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from cudalab.plots.curve import frame, line, newest, ring
from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import BLUE, FAINT, GREEN, INK, QUIET, RC, VERMILLION, number, tint

_FAR_APART = 50.0


@dataclass(frozen=True)
class Point:
    """One run of a tuner."""

    value: float
    """The parameter, e.g. threads a block."""
    microseconds: float
    """Time of one run."""
    gigabytes_per_second: float | None = None
    """Bytes the run must move, over its time; None when the tuner was given no ``bytes``."""


def tuning(
    points: Sequence[Point],
    *,
    parameter: str,
    kind: str,
    title: str = "",
    peak: float | None = None,
    choices: Sequence[float] = (),
    compare: Mapping[str, float] = MappingProxyType({}),
) -> Picture:
    """Draw a tuner's points, best one marked.

    Args:
        points: the runs in their order; of two with the same value the later counts, and the last is marked.
        parameter: what was varied, e.g. ``"block (threads)"``.
        kind: ``"measured"`` or ``"modelled"``.
        title: what ran, e.g. ``"64 M elements"``.
        peak: the device's memory bandwidth in GB/s, for the bars on the right; None leaves the percentages out.
        choices: every value that can be tried; sets the axis before all have been.
        compare: µs of the same work in other ways, by name: each a dashed line across the curve.
    """
    latest: Mapping[float, Point] = {point.value: point for point in points}
    ordered = [latest[value] for value in sorted(latest)]
    if not ordered:
        return _empty(parameter, kind, title, choices)
    best = min(ordered, key=lambda point: point.microseconds)
    bars = all(point.gigabytes_per_second is not None for point in ordered)
    with matplotlib.rc_context(RC):
        figure = blank(8.6 if bars else 6.8, max(3.4, 1.6 + 0.24 * max(len(choices), len(ordered))))
        if bars:
            left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        else:
            left, right = figure.subplots(), None
        _lines(left, compare)
        line(left, [point.value for point in ordered], [point.microseconds for point in ordered])
        frame(
            left,
            sorted(latest),
            reach=choices,
            xlabel=parameter,
            ylabel=f"time of one run (µs), {kind}",
            title=title,
        )
        _spread(left, [point.microseconds for point in ordered])
        ring(left, best.value, best.microseconds, f"best: {number(best.value)} · {number(best.microseconds)} µs")
        newest(left, points[-1].value, points[-1].microseconds)
        if right is not None:
            _bars(right, ordered, best, parameter, kind, peak)
    alt = f"Curve of time against {parameter} with {len(ordered)} points, {kind}; the best point is ringed."
    alt += f" Dashed lines: {', '.join(compare)}." if compare else ""
    return Picture(figure, _sentence(ordered, best, parameter, kind, title, peak, compare), alt)


def _spread(axes: Axes, times: Sequence[float]) -> None:
    """A logarithmic scale where small times would all lie at zero."""
    if max(times) > _FAR_APART * min(times):
        axes.set_yscale("log", base=10)
        axes.set_ylim(min(times) / 2, max(times) * 2)
        axes.yaxis.set_major_formatter(lambda value, _position: number(value))
        axes.yaxis.set_minor_locator(NullLocator())


def _lines(axes: Axes, compare: Mapping[str, float]) -> None:
    """Each time as a line with its name at the right, below it where the curve ends above."""
    for name, microseconds in compare.items():
        axes.axhline(microseconds, color=GREEN, lw=1.4, ls=(0, (5, 3)), zorder=2)
        axes.annotate(
            f"{name}: {number(microseconds)} µs",
            (1, microseconds),
            xycoords=("axes fraction", "data"),
            xytext=(0, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            color=GREEN,
            fontweight="bold",
        )


def _bars(axes: Axes, points: Sequence[Point], best: Point, parameter: str, kind: str, peak: float | None) -> None:
    rows = range(len(points))
    rates = [point.gigabytes_per_second or 0.0 for point in points]
    full = peak or max(rates)
    axes.barh(rows, [full] * len(points), height=0.62, color=FAINT)
    for row, point, rate in zip(rows, points, rates, strict=True):
        chosen = point is best
        axes.barh(row, rate, height=0.62, color=BLUE if chosen else tint(BLUE, 0.45))
        percent = f"  {rate / peak:.0%}" if peak else ""
        text = f"{number(rate)} GB/s{percent}"
        inside = rate > 0.5 * full
        axes.annotate(
            text,
            (rate, row),
            xytext=(-5 if inside else 5, 0),
            textcoords="offset points",
            ha="right" if inside else "left",
            va="center",
            fontsize=8.5,
            color="white" if inside and chosen else INK,
            fontweight="bold" if chosen else "normal",
        )
    if peak:
        axes.axvline(peak, color=VERMILLION, lw=1.4, ls=(0, (4, 2)))
    axes.set_xlim(0, full * 1.01)
    axes.set_ylim(-0.6, len(points) - 0.4)
    axes.invert_yaxis()
    axes.set_yticks(list(rows), [number(point.value) for point in points])
    axes.set_xticks([0, full], ["0", f"peak {number(full)}" if peak else number(full)])
    axes.set_xlabel(f"bytes moved per second (GB/s), {kind}", color=QUIET)
    axes.set_title(f"by {parameter}", fontweight="normal", fontsize=9.5, color=QUIET)
    axes.spines[["left", "bottom"]].set_visible(False)


def _sentence(
    points: Sequence[Point],
    best: Point,
    parameter: str,
    kind: str,
    title: str,
    peak: float | None,
    compare: Mapping[str, float],
) -> str:
    where = f"{title}: " if title else ""
    rate = ""
    if best.gigabytes_per_second is not None:
        share = f", {best.gigabytes_per_second / peak:.0%} of the peak" if peak else ""
        rate = f" ({number(best.gigabytes_per_second)} GB/s{share})"
    fastest = f"{parameter} = **{number(best.value)}** with {number(best.microseconds)} µs{rate}, {kind}"
    text = f"{where}the best so far is {fastest}"
    worst = max(points, key=lambda point: point.microseconds)
    if worst is not best:
        ratio = worst.microseconds / best.microseconds
        longest = f"{number(worst.value)} takes {number(ratio)} times as long"
        text += f"; {longest}" if ratio >= 1.005 else "; the others take as long"
    others = [f"{name} takes {number(microseconds)} µs" for name, microseconds in compare.items()]
    return "; ".join([text, *others]) + "."


def _empty(parameter: str, kind: str, title: str, choices: Sequence[float]) -> Picture:
    with matplotlib.rc_context(RC):
        figure = blank(6.8, max(3.4, 1.6 + 0.24 * len(choices)))
        axes = figure.subplots()
        frame(axes, sorted(choices) or [1], xlabel=parameter, ylabel=f"time of one run (µs), {kind}", title=title)
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no run yet", transform=axes.transAxes, ha="center", color=QUIET)
    return Picture(figure, f"{title}: no run yet." if title else "No run yet.", "An empty curve: nothing has run yet.")
