"""A tuner of work that is more than one kernel: how many streams, in which order.

Each run calls the function that the learner wrote, which puts work into streams, and records it. A curve shows the time
on the device against the first parameter, one line for each value of the others; below it stands the timeline of the
run that was made last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import ipywidgets

from cudalab import backend
from cudalab.plots.drawing import Drawing
from cudalab.plots.picture import Picture
from cudalab.plots.settings import settings
from cudalab.plots.style import number
from cudalab.plots.timeline import timeline
from cudalab.plots.tuning import Point
from cudalab.timeline import Timeline
from cudalab.timeline.naming import names_of
from cudalab.tracing import trace
from cudalab.widgets.output import NEUTRAL, WAITING, Shown, error, message, show_live

_WIDE = ipywidgets.Layout(width="max-content", margin="2px 10px 2px 2px")
_LABEL = {"description_width": "auto"}
_REPEATS = 3  # of a measured run; the one in the middle counts
Setting = tuple[Any, ...]


class WorkTuner(Shown):
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
        self.run, self.parameters = run, {name: list(values) for name, values in parameters.items()}
        self.label = f"{self.name} ({unit})" if unit else self.name
        self.kind = ""
        self.points: dict[str, list[Point]] = {
            self._series((None, *rest)): [] for rest in product(*(self.parameters[name] for name in self.others))
        }
        """The runs, by the value of the other parameters (``"depth-first"``; empty where there is none)."""
        self.timelines: dict[Setting, Timeline] = {}
        """The last timeline of each setting, by the values of all parameters."""
        self.choices = {
            name: ipywidgets.Dropdown(options=values, description=name, style=_LABEL, layout=_WIDE)
            for name, values in self.parameters.items()
        }
        self.run_button = ipywidgets.Button(description="Run", icon="play", button_style="primary", layout=_WIDE)
        self.all_button = ipywidgets.Button(description="Run all", icon="forward", layout=_WIDE)
        self.progress = ipywidgets.IntProgress(layout=ipywidgets.Layout(width="12em", visibility="hidden"))
        self.status = ipywidgets.HTML(message(WAITING, "Choose, then press **Run**."))
        self.run_button.on_click(lambda _button: self._pressed([self.chosen]))
        self.all_button.on_click(lambda _button: self._pressed(self.every))
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
        row = ipywidgets.HBox(
            [*self.choices.values(), self.run_button, self.all_button, self.progress],
            layout=ipywidgets.Layout(flex_flow="row wrap", align_items="center"),
        )
        show_live(ipywidgets.VBox([row, self.status]), "controls of the tuner")

    def sweep(self, chosen: Iterable[Setting] | None = None) -> None:
        """Run the settings ``chosen`` (all when None), with progress, then draw. An interrupt keeps what ran."""
        wanted = self.every if chosen is None else list(chosen)
        self._busy(len(wanted))
        last: Setting | None = None
        try:
            for setting in wanted:
                self.measure(*setting)
                last = setting
                self.progress.value += 1
        finally:
            self._idle()
            if last is not None or self.curve is None:
                self.draw(self.best if chosen is None else last)

    def measure(self, *setting: Any) -> Point:
        """Run the work once with ``setting``, a value for each parameter, and keep the point and the timeline. Where
        times are measured it runs three times (once more before the first), and the middle one counts.

        Raises:
            ValueError: not one value for each parameter.
        """
        if len(setting) != len(self.parameters):
            raise ValueError(f"tune: give a value for each of {', '.join(self.parameters)}; got {setting}")
        taken = [self._record(setting)]
        if taken[0].label == "measured":
            if not self._warm:
                taken = [self._record(setting)]
                self._warm = True
            taken += [self._record(setting) for _ in range(_REPEATS - 1)]
        t = sorted(taken, key=lambda one: one.elapsed)[len(taken) // 2]
        self.kind, self.timelines[setting] = t.label, t
        point = Point(setting[0], t.elapsed)
        self.points.setdefault(self._series(setting), []).append(point)
        self.status.value = message(NEUTRAL, f"{self._said(setting)}: **{number(t.elapsed)} µs** ({t.label})")
        return point

    def _record(self, setting: Setting) -> Timeline:
        # a press of a button has no cell around it that the streams' names could be read from
        with trace(streams=names_of(self.run)) as t:
            given = self.run(*setting)
        t = given if isinstance(given, Timeline) else t
        t.spans  # noqa: B018
        backend.cudart.cudaDeviceSynchronize()  # the next run begins when this one has ended
        return t

    @property
    def best(self) -> Setting | None:
        """The setting with the shortest time; None before anything has run."""
        return min(self.timelines, key=lambda setting: self.timelines[setting].elapsed, default=None)

    @property
    def best_microseconds(self) -> float:
        """That time.

        Raises:
            ValueError: nothing has run.
        """
        if self.best is None:
            raise ValueError("tune: nothing has run yet; press Run, or call sweep()")
        return self.timelines[self.best].elapsed

    def draw(self, setting: Setting | None = None) -> None:
        """Draw the curve, and the timeline of ``setting``, in the place of those before."""
        values = self.parameters[self.name]
        curve = settings(self.points, parameter=self.label, kind=self.kind or "no run yet", choices=values)
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

    def _pressed(self, wanted: Sequence[Setting]) -> None:
        try:
            self.sweep(wanted)
        except KeyboardInterrupt:
            self.status.value = message(WAITING, "Stopped. The points so far are kept.")
        except Exception as problem:
            self.status.value = error(problem)

    def _busy(self, steps: int) -> None:
        self.run_button.disabled = self.all_button.disabled = True
        self.progress.max, self.progress.value = steps, 0
        self.progress.layout.visibility = "visible"

    def _idle(self) -> None:
        self.run_button.disabled = self.all_button.disabled = False
        self.progress.layout.visibility = "hidden"
