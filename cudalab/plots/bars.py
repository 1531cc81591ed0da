"""Bars: one quantity for several things, one below the other, such as a frame's time at each step of a program."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib

from cudalab.plots.picture import Picture, blank
from cudalab.plots.style import BLUE, INK, QUIET, RC, VERMILLION, number


def bars(values: Mapping[str, float], *, unit: str, kind: str, title: str = "") -> Picture:
    """Draw a bar for each value, in the order given; the last one, which is new, in another colour.

    Args:
        values: by name, from top to bottom; none below zero.
        unit: of all values (``"µs a frame"``).
        kind: ``"measured"`` or ``"modelled"``: where the values come from.
        title: what is compared.

    Raises:
        ValueError: no values, or one below zero.
    """
    if not values or min(values.values()) < 0:
        raise ValueError(f"bars needs values, none of them below zero; got {dict(values)}")
    names, lengths = list(values), [float(value) for value in values.values()]
    with matplotlib.rc_context(RC):
        figure = blank(6.8, 0.9 + 0.3 * len(names))
        axes = figure.subplots()
        axes.barh(names, lengths, color=[BLUE] * (len(names) - 1) + [VERMILLION], height=0.68)
        for place, length in enumerate(lengths):
            axes.annotate(
                number(length),
                (length, place),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                color=INK,
                fontweight="bold",
            )
        axes.invert_yaxis()
        axes.set_xlim(0, 1.1 * max(lengths) or 1)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", labelcolor=INK)
        axes.set_xlabel(f"{unit}, {kind}", color=QUIET)
        if title:
            axes.set_title(title)
    told = ", ".join(f"{name} **{number(length)}**" for name, length in zip(names, lengths, strict=True))
    return Picture(figure, f"{unit}, {kind}: {told}.", f"Bars of {unit} for {', '.join(names)}.")
