"""Time against a parameter, one curve for each value of another: the number of streams, by the order of issue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes

from cudalab.plots.curve import frame, line, newest, ring
from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import QUIET, RC, SERIES, number
from cudalab.plots.tuning import Point

ON_DEVICE = "time on the device"


def settings(
    series: Mapping[str, Sequence[Point]],
    *,
    last: Point | None = None,
    parameter: str,
    kind: str,
    quantity: str = ON_DEVICE,
    title: str = "",
    choices: Sequence[float] = (),
) -> Picture:
    """Draw the points of several series, the best of all marked.

    Args:
        series: the runs by the name of their series, in any order; of two with the same value the later counts. One
            series needs no name.
        last: the point that ran last, which is marked.
        parameter: what was varied along the axis, e.g. ``"streams"``.
        kind: ``"measured"`` or ``"modelled"``.
        quantity: what the points are, in µs.
        title: what ran.
        choices: every value that can be tried; sets the axis before all have been.
    """
    latest = {name: {point.value: point for point in points} for name, points in series.items() if points}
    with matplotlib.rc_context(RC):
        figure = blank(6.8, 3.2)
        axes = figure.subplots()
        label = f"{quantity} (µs), {kind}"
        if not latest:
            frame(axes, sorted(choices) or [1], xlabel=parameter, ylabel=label, title=title)
            axes.set_yticks([])
            axes.text(0.5, 0.5, "no run yet", transform=axes.transAxes, ha="center", color=QUIET)
            return Picture(figure, "No run yet.", "An empty curve: nothing has run yet.")
        for index, points in enumerate(latest.values()):
            ordered = sorted(points)
            line(axes, ordered, [points[value].microseconds for value in ordered], index=index)
            axes.lines[-1].set(linewidth=4.2 / (1 + index), markersize=9 - 3 * min(index, 1))  # equal ones both show
        shown = sorted({value for points in latest.values() for value in points})
        frame(axes, shown, reach=choices, xlabel=parameter, ylabel=label, title=title)
        where, best = min(
            ((name, point) for name, points in latest.items() for point in points.values()),
            key=lambda pair: pair[1].microseconds,
        )
        _name(axes, {name: points[max(points)] for name, points in latest.items()})
        if last is not None:
            newest(axes, last.value, last.microseconds)
        ring(axes, best.value, best.microseconds, f"best: {number(best.value)} · {number(best.microseconds)} µs")
    named = [name for name in latest if name]
    lines = f" for {', '.join(named)}" if named else ""
    alt = f"Curve of the {quantity} against {parameter}{lines}, {kind}."
    return Picture(figure, _sentence(latest, where, best, parameter, kind, title, quantity), alt)


def _name(axes: Axes, last: Mapping[str, Point]) -> None:
    """The series' names beside their last points, one below the other where these are close."""
    height = axes.get_window_extent().height * 72 / axes.figure.dpi
    top = axes.get_ylim()[1]
    free = float("inf")
    for name, point in sorted(last.items(), key=lambda pair: -pair[1].microseconds):
        at = point.microseconds / top * height
        place = min(at, free)
        free = place - 13
        axes.annotate(
            name,
            (point.value, point.microseconds),
            xytext=(10, place - at),
            textcoords="offset points",
            va="center",
            color=SERIES[list(last).index(name) % len(SERIES)],
            fontweight="bold",
            annotation_clip=False,
        )


def _sentence(
    latest: Mapping[str, Mapping[float, Point]],
    where: str,
    best: Point,
    parameter: str,
    kind: str,
    title: str,
    quantity: str,
) -> str:
    start = f"{title}: " if title else ""
    who = f", {where}," if where else ""
    time = f"{number(best.microseconds)} µs, {kind}"
    how = "is fastest" if quantity == ON_DEVICE else f"has the shortest {quantity}"
    text = f"{start}**{parameter} {number(best.value)}**{who} {how} so far with {time}"
    series, slowest = max(
        ((name, point) for name, points in latest.items() for point in points.values()),
        key=lambda each: each[1].microseconds,
    )
    ratio = slowest.microseconds / best.microseconds
    if ratio > 1.02:
        which = f", {series}" if where else ""
        if quantity == ON_DEVICE:
            text += f"; the slowest, {parameter} {number(slowest.value)}{which}, takes {number(ratio)} times as long"
        else:
            text += f"; the longest, of {parameter} {number(slowest.value)}{which}, is {number(ratio)} times that"
    return text + "."
