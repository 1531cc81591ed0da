"""Curves: a quantity against a parameter, with the best point marked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, Formatter, NullLocator

from cudalab.plots.drawing import text_width
from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import INK, MARKERS, QUIET, RC, SERIES, number

Numbers = Sequence[float]
_APART = 3.0  # points between the labels of two ticks


def curve(
    x: Numbers,
    y: Numbers | Mapping[str, Numbers],
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    best: str | None = None,
    summary: str = "",
) -> Picture:
    """Draw one or several curves over the same ``x``.

    Args:
        x: values of the parameter, each a tick of the axis; spaced logarithmically when they span a factor over 8.
        y: the values, as many as ``x``; or several series by name, each drawn with a marker of its own.
        xlabel: what ``x`` is, with its unit.
        ylabel: what ``y`` is, with its unit and whether it is measured or modelled.
        title: what the figure asks or shows.
        best: ``"min"`` or ``"max"`` marks that point of the first series.
        summary: the sentence below; made from the data when empty.

    Raises:
        ValueError: no points, or a series of another length than ``x``.
    """
    series: dict[str, Numbers] = dict(y) if isinstance(y, Mapping) else {"": y}
    if not len(x) or not series:
        raise ValueError("curve needs at least one point; got none")
    for name, values in series.items():
        if len(values) != len(x):
            raise ValueError(f"curve: series {name!r} has {len(values)} values for {len(x)} of x; they must match")
    with matplotlib.rc_context(RC):
        figure = blank(6.8, 3.4)
        axes = figure.subplots()
        for index, (name, values) in enumerate(series.items()):
            line(axes, x, values, name=name, index=index)
        frame(axes, x, xlabel=xlabel, ylabel=ylabel, title=title)
        first = list(next(iter(series.values())))
        if best in ("min", "max"):
            at = first.index(min(first) if best == "min" else max(first))
            ring(axes, x[at], first[at], f"best: {number(x[at])}")
    text = summary or _sentence(x, series, xlabel, ylabel)
    named = f" for {', '.join(series)}" if len(series) > 1 else ""
    return Picture(figure, text, f"Curve of {ylabel} against {xlabel}{named}.")


def line(axes: Axes, x: Numbers, y: Numbers, *, name: str = "", index: int = 0) -> None:
    """One series with its marker; its name stands at its last point instead of in a legend."""
    colour, marker = SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)]
    axes.plot(
        x, y, color=colour, marker=marker, markeredgecolor="white", markeredgewidth=1.0, zorder=3 + index, clip_on=False
    )
    if name:
        last = max(range(len(x)), key=lambda at: x[at])
        axes.annotate(
            name,
            (x[last], y[last]),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontweight="bold",
            annotation_clip=False,
        )


def ring(axes: Axes, x: float, y: float, text: str) -> None:
    """A ring around the best point. Its name stands above the axes, where it covers nothing."""
    axes.plot([x], [y], "o", ms=14, mfc="none", mec=INK, mew=1.8, zorder=9, clip_on=False)
    axes.set_title(axes.get_title(loc="left"), loc="left", pad=24)
    axes.annotate(
        f"◯ {text}",
        (1, 1),
        xycoords="axes fraction",
        xytext=(0, 6),
        textcoords="offset points",
        ha="right",
        va="bottom",
        color=INK,
        fontweight="bold",
    )


def newest(axes: Axes, x: float, y: float) -> None:
    """A square around the point that ran last, named above the axes."""
    axes.plot([x], [y], "s", ms=11, mfc="none", mec=INK, mew=1.4, zorder=8, clip_on=False)
    axes.annotate(
        f"□ newest: {number(x)}",
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 6),
        textcoords="offset points",
        va="bottom",
        color=QUIET,
    )


def frame(axes: Axes, x: Numbers, *, xlabel: str, ylabel: str, title: str, reach: Numbers = ()) -> None:
    """Axes of a curve: ``y`` from zero, a tick at every ``x``, light horizontal lines; as wide as ``reach`` where the
    curve is to grow. Ticks whose numbers would touch those of others have none."""
    low, high = min([*x, *reach]), max([*x, *reach])
    if low > 0 and high / low > 8:
        axes.set_xscale("log", base=2)
        axes.set_xlim(low / (high / low) ** 0.05, high * (high / low) ** 0.05)
    elif high > low:
        axes.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axes.xaxis.set_major_locator(FixedLocator(sorted({float(value) for value in x})))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(_Apart())
    axes.yaxis.set_major_formatter(lambda value, _position: number(value))
    axes.set_ylim(bottom=0)
    axes.margins(y=0.15)
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel, color=QUIET)
    if title:
        axes.set_title(title)


class _Apart(Formatter):
    """Numbers below the ticks of a horizontal axis. Those at both ends are shown, and of the others, from the left,
    those that touch none that is shown already."""

    def __call__(self, value: float, pos: int | None = None) -> str:
        return number(value)

    def format_ticks(self, values: Numbers) -> list[str]:
        axes: Axes = self.axis.axes  # type: ignore[union-attr]  # the axis that this formatter was given to
        middles = [axes.transData.transform((value, 1))[0] * 72 / axes.figure.dpi for value in values]
        texts = [number(value) for value in values]
        half = [(text_width(text, RC["xtick.labelsize"]) + _APART) / 2 for text in texts]
        *inner, last = range(len(values))
        shown = {last}
        end = -math.inf  # of the label before
        for at in inner:
            fits = middles[at] - half[at] >= end and middles[at] + half[at] <= middles[last] - half[last]
            if fits or not at:
                shown.add(at)
                end = middles[at] + half[at]
        return [text if at in shown else "" for at, text in enumerate(texts)]


def _sentence(x: Numbers, series: Mapping[str, Numbers], xlabel: str, ylabel: str) -> str:
    parts = []
    for name, values in series.items():
        low = min(range(len(x)), key=lambda at: values[at])
        high = max(range(len(x)), key=lambda at: values[at])
        who = f"{name}: " if name else ""
        if values[high] < 1.02 * values[low]:
            parts.append(f"{who}{number(values[low])} throughout")
        else:
            parts.append(
                f"{who}{number(values[low])} at {number(x[low])} to {number(values[high])} at {number(x[high])}"
            )
    return f"**{ylabel}** against {xlabel}: " + "; ".join(parts) + "."
