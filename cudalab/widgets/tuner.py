"""Tuners: run the same work with another block size, stride, tile or number of streams, and see the curve grow.

A tuner launches nothing by itself: it calls the function that the learner wrote, which ends in ``cudalab.benchmark``.
Each run sits behind a button, and the button is off while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import ipywidgets

from cudalab.device import device
from cudalab.plots.picture import Picture
from cudalab.plots.style import number
from cudalab.plots.tuning import Point, tuning
from cudalab.widgets.controls import DROPPED, LABEL, REPEATS, WIDE, Controls, middle
from cudalab.widgets.output import NEUTRAL, message
from cudalab.widgets.work_tuner import WorkTuner


class Timing(Protocol):
    """What ``cudalab.benchmark`` returns, as far as a tuner looks."""

    @property
    def microseconds(self) -> float: ...

    @property
    def kind(self) -> str: ...


@dataclass(frozen=True)
class _OwnTiming:
    """Microseconds that the learner's function found itself."""

    microseconds: float
    kind: str


Run = Callable[[int, Any], Timing | float]


def tune(
    run: Callable[..., Any],
    *,
    sizes: Mapping[str, int] | None = None,
    size: str | None = None,
    bytes: Callable[[int], float] | None = None,
    sweep: bool | Sequence[Any] = True,
    unit: str = "",
    peak: float | None = None,
    compare: Mapping[str, Mapping[int, float]] | None = None,
    **parameter: Sequence[Any],
) -> Tuner | WorkTuner:
    """Show controls that run work with another parameter, and the curve of what has run.

    ``cudalab.tune(time_add, sizes={"1 M": 1 << 20}, bytes=lambda n: 12 * n, block=[64, 128, 256])`` calls
    ``time_add(1 << 20, 64)`` and so on.

    Without ``sizes`` it tunes work in streams: ``cudalab.tune(run, streams=[1, 2, 4], order=["depth-first",
    "breadth-first"])`` calls ``run(2, "depth-first")`` and so on, with the values in this order, and records what each
    call puts into streams (``cudalab.trace``). The curve shows the time on the device (``Timeline.elapsed``) against
    the first parameter, one line for each value of the others; below it is the timeline of the best setting, or of the
    one that was run last. ``run`` may return a timeline of its own, which then counts, or microseconds (a latency,
    say), which the curve then shows in the place of the time on the device. The tuner's ``points`` are by the name of
    the line (``"depth-first"``), its ``timelines`` by setting (``(2, "depth-first")``).

    Args:
        run: ``run(size, value)`` does the work once and returns what ``cudalab.benchmark`` returned, or microseconds;
            without ``sizes``, ``run(*values)`` puts work into streams.
        sizes: the problem sizes to choose from, by the name shown.
        size: the name of the size chosen first; the last one when left out.
        bytes: bytes the work of one size must move; the tuner then shows GB/s.
        sweep: run all values (or those given) of the first size at once when the cell runs; False: none. Without
            ``sizes``: all settings, or the tuples given.
        unit: of the parameter, for the axis (``"threads"``).
        peak: the device's memory bandwidth in GB/s; without it no share of the peak is shown.
        compare: what the curve is to be compared with, by name: the µs of each problem size that is known
            (``{"no window": {24: 275.0}}``). Each is a line across the curve.
        **parameter: exactly one; its name is shown, its values are what can be chosen. Without ``sizes`` several, the
            first of them numbers.

    Raises:
        TypeError: no parameter, or more than one with ``sizes``; ``size``, ``bytes``, ``peak`` or ``compare`` without
            ``sizes``.
        ValueError: no sizes, no values, or a ``size`` that is not among ``sizes``.
    """
    if sizes is None:
        if any(each is not None for each in (size, bytes, peak, compare)):
            raise TypeError("tune: size, bytes, peak and compare belong to sizes={name: number}, which is missing")
        work = WorkTuner(run, parameter, unit=unit)
        work.show()
        if sweep is not False:
            work.sweep(None if sweep is True else sweep)
        return work
    tuner = Tuner(run, sizes=sizes, size=size, bytes=bytes, unit=unit, peak=peak, compare=compare, **parameter)
    tuner.show()
    if sweep is not False:
        tuner.sweep(None if sweep is True else sweep)
    return tuner


class Tuner(Controls):
    """Controls, the points that have run, and the picture of them."""

    def __init__(
        self,
        run: Run,
        *,
        sizes: Mapping[str, int],
        size: str | None = None,
        bytes: Callable[[int], float] | None = None,
        unit: str = "",
        peak: float | None = None,
        compare: Mapping[str, Mapping[int, float]] | None = None,
        **parameter: Sequence[float],
    ) -> None:
        if len(parameter) != 1:
            raise TypeError(f"tune takes exactly one parameter with its values, e.g. block=[64, 128]; got {parameter}")
        ((self.name, values),) = parameter.items()
        if not sizes or not len(values):
            raise ValueError("tune needs at least one size and one value of the parameter")
        if size is not None and size not in sizes:
            raise ValueError(f"tune: size must be one of {list(sizes)}; got {size!r}")
        super().__init__(run)
        self.sizes, self.values, self.bytes = dict(sizes), list(values), bytes
        self.label = f"{self.name} ({unit})" if unit else self.name
        self.peak, self.compare = peak, compare or {}
        self.kind = ""
        self.points: dict[str, list[Point]] = {name: [] for name in sizes}
        """The runs of each size, in the order they ran."""
        self.size_choice = ipywidgets.Dropdown(
            options=list(sizes), value=size or list(sizes)[-1], description="size", style=LABEL, layout=WIDE
        )
        self.value_choice = ipywidgets.Dropdown(options=self.values, description=self.name, style=LABEL, layout=WIDE)
        self.size_choice.observe(lambda _change: self._show_size(), names="value")
        self.picture: Picture | None = None

    def show(self) -> None:
        """Emit the controls and, as an output of its own, the picture with its sentence."""
        self.show_controls(self.size_choice, self.value_choice)

    def sweep(self, values: Iterable[float] | None = None) -> None:
        """Run ``values`` (all when None) of the chosen size, with progress, then draw. An interrupt keeps what ran."""
        self._sweep(self.values if values is None else values)

    def measure(self, value: float, size: str | None = None) -> Point:
        """Run with ``value`` (of the chosen size, or of ``size``) and keep the point. Where times are measured it runs
        three times, and the one in the middle counts. Points of an older function, or of older arrays, are dropped."""
        name = size or self.size_choice.value
        dropped = self._keep_fresh()
        taken = [self._timing(name, value)]
        if taken[0].kind == "measured":
            taken += [self._timing(name, value) for _ in range(REPEATS - 1)]
        self._remember()
        timing = middle(taken, lambda each: float(each.microseconds))
        self.kind = timing.kind
        rate = None
        if self.bytes is not None:
            rate = self.bytes(self.sizes[name]) / timing.microseconds / 1e3
        point = Point(value, timing.microseconds, rate)
        self.points[name].append(point)
        self.status.value = message(NEUTRAL, self._said(point, name) + (DROPPED if dropped else ""))
        return point

    def _timing(self, name: str, value: float) -> Timing:
        given = self.run(self.sizes[name], value)
        return _OwnTiming(float(given), device().label) if isinstance(given, Real) else given

    def _chosen(self) -> float:
        chosen: float = self.value_choice.value
        return chosen

    def _all(self) -> Sequence[float]:
        return self.values

    def _take(self, setting: float) -> None:
        self.measure(setting)

    def _drop(self) -> None:
        for points in self.points.values():
            points.clear()

    def _finish(self, taken: Sequence[float]) -> None:
        self.draw()

    @property
    def best(self) -> float:
        """The value of the parameter with the shortest time, of the chosen size."""
        return self._best().value

    @property
    def best_microseconds(self) -> float:
        """That time."""
        return self._best().microseconds

    def _best(self) -> Point:
        points = self.points[self.size_choice.value]
        if not points:
            raise ValueError(f"tune: nothing has run yet for {self.size_choice.value}; press Run, or call sweep()")
        return min(points, key=lambda point: point.microseconds)

    def _show_size(self) -> None:
        """Another size is chosen: its own curve in the place of the other's, empty before it has run."""
        if self.picture is not None:
            self.draw()

    def draw(self) -> None:
        """Draw the points of the chosen size in the place of the picture before."""
        name = self.size_choice.value
        picture = tuning(
            self.points[name],
            parameter=self.label,
            kind=self.kind or "no run yet",
            title=name,
            peak=self.peak,
            choices=self.values,
            compare={known: of[self.sizes[name]] for known, of in self.compare.items() if self.sizes[name] in of},
        )
        if self.picture is None:
            picture.show()
        else:
            self.picture.replace(picture)
        self.picture = picture

    def _said(self, point: Point, size: str) -> str:
        text = f"{size}, {self.name} {number(point.value)}: **{number(point.microseconds)} µs**"
        if point.gigabytes_per_second is not None:
            text += f", {number(point.gigabytes_per_second)} GB/s"
            if self.peak:
                text += f", {point.gigabytes_per_second / self.peak:.0%} of the peak"
        return f"{text} ({self.kind})"
