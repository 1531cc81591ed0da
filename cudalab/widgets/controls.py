"""What the tuners share: Run, Run all and Stop, progress, and points that are dropped when they are out of date.

"Run all" takes one setting after the other and lets the notebook's kernel hear of a press of "Stop" in between. Outside
of a running event loop, in a test or a script, it goes through them without a pause.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from statistics import median_low
from typing import Any, TypeVar

import ipywidgets

from cudalab.widgets.freshness import Snapshot, latest
from cudalab.widgets.output import WAITING, Shown, error, message, show_live

WIDE = ipywidgets.Layout(width="max-content", margin="2px 10px 2px 2px")
LABEL = {"description_width": "auto"}
REPEATS = 3  # of a measured run; the one in the middle counts
DROPPED = ". The points of an older function, or of older arrays, are gone."
_TURNS, _TURN = 20, 0.0005  # of the kernel's event loop, and seconds for each, in which it hears of a press
_RUN_ALL, _STOP = ("Run all", "forward"), ("Stop", "stop")

TakenT = TypeVar("TakenT")


class Controls(Shown, ABC):
    """The buttons, and how settings run one after the other."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._given = run
        self._snapshot: Snapshot | None = None
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self.run_button = ipywidgets.Button(description="Run", icon="play", button_style="primary", layout=WIDE)
        self.all_button = ipywidgets.Button(description=_RUN_ALL[0], icon=_RUN_ALL[1], layout=WIDE)
        self.progress = ipywidgets.IntProgress(layout=ipywidgets.Layout(width="12em", visibility="hidden"))
        self.status = ipywidgets.HTML(
            message(WAITING, "Choose, then press **Run**."), layout=ipywidgets.Layout(min_height="3.4em")
        )
        self.run_button.on_click(lambda _button: self._pressed([self._chosen()]))
        self.all_button.on_click(lambda _button: self._all_pressed())

    @property
    def run(self) -> Callable[..., Any]:
        """The function that is tuned, as the learner has defined it last."""
        return latest(self._given)

    def show_controls(self, *choices: ipywidgets.Widget) -> None:
        """Emit the controls; the picture is an output of its own."""
        row = ipywidgets.HBox(
            [*choices, self.run_button, self.all_button, self.progress],
            layout=ipywidgets.Layout(flex_flow="row wrap", align_items="center"),
        )
        show_live(ipywidgets.VBox([row, self.status]), "controls of the tuner")

    # -- what a tuner says ---------------------------------------------------------------------------------------------

    @abstractmethod
    def _chosen(self) -> Any:
        """The setting that the controls show."""

    @abstractmethod
    def _all(self) -> Sequence[Any]:
        """Every setting that "Run all" takes."""

    @abstractmethod
    def _take(self, setting: Any) -> None:
        """Run one setting and keep its point."""

    @abstractmethod
    def _drop(self) -> None:
        """Forget every point."""

    @abstractmethod
    def _finish(self, taken: Sequence[Any]) -> None:
        """Draw, after these settings have run."""

    # -- running -------------------------------------------------------------------------------------------------------

    def _keep_fresh(self) -> bool:
        """Drop the points of an older function or of older arrays; were there any?"""
        old = self._snapshot is not None and not self._snapshot.holds_for(self.run)
        if old:
            self._drop()
        return old

    def _remember(self) -> None:
        """What the function looks at now, after it has run: what it changes itself makes no point old."""
        self._snapshot = Snapshot(self.run)

    def _sweep(self, settings: Iterable[Any]) -> None:
        """Run the settings, then draw; an interrupt or an error keeps what ran."""
        wanted = list(settings)
        taken: list[Any] = []
        self._busy(len(wanted))
        try:
            for setting in wanted:
                self._take(setting)
                taken.append(setting)
                self.progress.value += 1
        finally:
            self._idle()
            self._finish(taken)

    def _pressed(self, settings: Sequence[Any]) -> None:
        try:
            self._sweep(settings)
        except KeyboardInterrupt:
            self._say_stopped()
        except Exception as problem:
            self.status.value = error(problem)

    def _all_pressed(self) -> None:
        if self._task is not None:
            self._stopping = True
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no notebook
            self._pressed(self._all())
            return
        self._task = loop.create_task(self._run_all(self._all()))

    async def _run_all(self, settings: Sequence[Any]) -> None:
        taken: list[Any] = []
        self._stopping = False
        self._busy(len(settings))
        self.all_button.disabled = False
        self.all_button.description, self.all_button.icon = _STOP
        try:
            for setting in settings:
                for _ in range(_TURNS):  # time alone is no turn where other programs take the processor
                    await asyncio.sleep(_TURN)
                if self._stopping:
                    break
                self._take(setting)
                taken.append(setting)
                self.progress.value += 1
                self._finish(taken)
        except KeyboardInterrupt:
            self._stopping = True
        except Exception as problem:
            self.status.value = error(problem)
        finally:
            self._task = None
            self.all_button.description, self.all_button.icon = _RUN_ALL
            self._idle()
        if self._stopping:
            self._say_stopped()

    def _say_stopped(self) -> None:
        self.status.value = message(WAITING, "Stopped. The points so far are kept.")

    def _busy(self, steps: int) -> None:
        self.run_button.disabled = self.all_button.disabled = True
        self.progress.max, self.progress.value = steps, 0
        self.progress.layout.visibility = "visible"

    def _idle(self) -> None:
        self.run_button.disabled = self.all_button.disabled = False
        self.progress.layout.visibility = "hidden"


def middle(taken: Sequence[TakenT], time: Callable[[TakenT], float]) -> TakenT:
    """The run with the median time."""
    chosen = median_low(time(each) for each in taken)
    return next(each for each in taken if time(each) == chosen)
