"""A tuner of work that is more than one kernel: how many streams, in which order.

Each run calls the function that the learner wrote, which puts work into streams, and records it. A curve shows the time
on the device against the first parameter, one line for each value of the others; below it stands the timeline of the
run that was made last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from numbers import Real
from typing import Any

import ipywidgets

from cudalab import backend
from cudalab.plots.drawing import Drawing
from cudalab.plots.picture import Picture
from cudalab.plots.settings import ON_DEVICE, settings
from cudalab.plots.style import number
from cudalab.plots.timeline import timeline
from cudalab.plots.tuning import Point
from cudalab.timeline import Timeline
from cudalab.timeline.naming import names_of
from cudalab.tracing import trace
from cudalab.widgets.controls import DROPPED, LABEL, REPEATS, WIDE, Controls, middle
from cudalab.widgets.output import NEUTRAL, message

Setting = tuple[Any, ...]


class WorkTuner(Controls):
    """Controls, the runs so far, and two pictures: the curve, and the timeline of the last run."""

    def __init__(self, run: Callable[..., Any], parameters: dict[str, Sequence[Any]], *, unit: str = "") -> None:
        if not parameters:
            raise TypeError("tune needs a parameter with its values, e.g. streams=[1, 2, 4]")
        for name, values in parameters.items():
            if isinstance(values, str) or not len(values):
                raise ValueError(f"tune: {name} needs a list of the values to choose from; got {values!r}")
        self.name, *self.others = parameters
        if not all(isinstance(value, (int, float)) for value in parameters[self.name]):
            raise TypeError(
                f"tune: the first parameter is the axis of the curve, so {self.name} must be a list of numbers; "
                f"got {list(parameters[self.name])}"
            )
        super().__init__(run)
        self.parameters = {name: list(values) for name, values in parameters.items()}
        self.label = f"{self.name} ({unit})" if unit else self.name
        self.kind = ""
        self.points: dict[str, list[Point]] = {
            self._series((None, *rest)): [] for rest in product(*(self.parameters[name] for name in self.others))
        }
        """The runs, by the value of the other parameters (``"depth-first"``; empty where there is none)."""
        self.timelines: dict[Setting, Timeline] = {}
        """The last timeline of each setting, by the values of all parameters."""
        self._microseconds: dict[Setting, float] = {}
        """The time of each of these."""
        self.choices = {
            name: ipywidgets.Dropdown(options=values, description=name, style=LABEL, layout=WIDE)
            for name, values in self.parameters.items()
        }
        self._quantity = ON_DEVICE
        """What the points are: that, or what the function returns, by the function's name."""
        self.last: Point | None = None
        """The point that ran last."""
        self.curve: Picture | None = None
        self.drawing: Drawing | None = None
        self._warm = False

    @property
    def chosen(self) -> Setting:
        """The values that the controls show."""
        return tuple(control.value for control in self.choices.values())

    @property
    def every(self) -> list[Setting]:
        """All settings, those of one series after each other."""
        first, *rest = self.parameters.values()
        return [(value, *others) for others in product(*rest) for value in first]

    def show(self) -> None:
        """Emit the controls; the pictures follow as outputs of their own when something has run."""
        self.show_controls(*self.choices.values())

    def sweep(self, chosen: Iterable[Setting] | None = None) -> None:
        """Run the settings ``chosen`` (all when None), with progress, then draw. An interrupt keeps what ran."""
        self._sweep(self.every if chosen is None else chosen)

    def _chosen(self) -> Setting:
        return self.chosen

    def _all(self) -> Sequence[Setting]:
        return self.every

    def _take(self, setting: Setting) -> None:
        self.measure(*setting)

    def _drop(self) -> None:
        for points in self.points.values():
            points.clear()
        self.timelines.clear()
        self._microseconds.clear()
        self.last = None

    def _finish(self, taken: Sequence[Setting]) -> None:
        if taken or self.curve is None:
            self.draw(self.best if len(taken) == len(self.every) else taken[-1] if taken else None)

    def measure(self, *setting: Any) -> Point:
        """Run the work once with ``setting``, a value for each parameter, and keep the point and the timeline. Where
        times are measured it runs three times (once more before the first), and the middle one counts.

        Raises:
            ValueError: not one value for each parameter.
        """
        if len(setting) != len(self.parameters):
            raise ValueError(f"tune: give a value for each of {', '.join(self.parameters)}; got {setting}")
        dropped = self._keep_fresh()
        taken = [self._record(setting)]
        if taken[0][0].label == "measured":
            if not self._warm:
                taken = [self._record(setting)]
                self._warm = True
            taken += [self._record(setting) for _ in range(REPEATS - 1)]
        self._remember()
        t, microseconds = middle(taken, lambda each: each[1])
        self.kind, self.timelines[setting], self._microseconds[setting] = t.label, t, microseconds
        point = Point(setting[0], microseconds)
        self.points.setdefault(self._series(setting), []).append(point)
        self.last = point
        said = f"{self._said(setting)}: **{number(microseconds)} µs** ({t.label})"
        self.status.value = message(NEUTRAL, said + (DROPPED if dropped else ""))
        return point

    def _record(self, setting: Setting) -> tuple[Timeline, float]:
        # a press of a button has no cell around it that the streams' names could be read from
        with trace(streams=names_of(self.run)) as t:
            given = self.run(*setting)
        t = given if isinstance(given, Timeline) else t
        t.spans  # noqa: B018
        backend.cudart.cudaDeviceSynchronize()  # the next run begins when this one has ended
        if not isinstance(given, Real):
            return t, t.elapsed
        self._quantity = getattr(self.run, "__name__", "time").replace("_", " ")
        return t, float(given)

    @property
    def best(self) -> Setting | None:
        """The setting with the shortest time; None before anything has run."""
        return min(self._microseconds, key=lambda setting: self._microseconds[setting], default=None)

    @property
    def best_microseconds(self) -> float:
        """That time.

        Raises:
            ValueError: nothing has run.
        """
        if self.best is None:
            raise ValueError("tune: nothing has run yet; press Run, or call sweep()")
        return self._microseconds[self.best]

    def draw(self, setting: Setting | None = None) -> None:
        """Draw the curve, and the timeline of ``setting``, in the place of those before."""
        values = self.parameters[self.name]
        curve = settings(
            self.points,
            last=self.last,
            parameter=self.label,
            kind=self.kind or "no run yet",
            quantity=self._quantity,
            choices=values,
        )
        if self.curve is None:
            curve.show()
        else:
            self.curve.replace(curve)
        self.curve = curve
        if setting is None or setting not in self.timelines:
            return
        drawing = timeline(self.timelines[setting], title=self._said(setting))
        if self.drawing is None:
            drawing.show()
        else:
            self.drawing.replace(drawing)
        self.drawing = drawing

    def _series(self, setting: Setting) -> str:
        return ", ".join(str(value) for value in setting[1:])

    def _said(self, setting: Setting) -> str:
        first = f"{self.name} {number(setting[0])}"
        return ", ".join([first, *(str(value) for value in setting[1:])])
