"""Predict first, then run: an answer the learner commits to, and its comparison with what the run says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real

import ipywidgets

from cudalab.plots.style import number
from cudalab.widgets.output import NEUTRAL, RIGHT, WAITING, WRONG, Shown, message, show_live, show_text

Answer = str | float
_WIDE = ipywidgets.Layout(width="max-content")


def predict(question: str, choices: Sequence[Answer] | None = None, *, numbers: Sequence[str] = ()) -> Prediction:
    """Ask for a prediction before the next cell is run.

    Args:
        question: Markdown.
        choices: the answers to choose one from.
        numbers: instead of choices, the names of quantities to give a number for.

    Returns:
        A ``Prediction``; give what the run found to its ``compare``.

    Raises:
        ValueError: neither or both of ``choices`` and ``numbers``, or fewer than two choices.
    """
    prediction = Prediction(question, choices, numbers=numbers)
    prediction.show()
    return prediction


class Prediction(Shown):
    """A question, and the learner's answer once it is committed."""

    def __init__(self, question: str, choices: Sequence[Answer] | None = None, *, numbers: Sequence[str] = ()) -> None:
        if (choices is None) == (not numbers):
            raise ValueError("predict takes either choices or numbers=[names]; give exactly one of the two")
        if choices is not None and len(choices) < 2:
            raise ValueError(f"predict needs at least two choices; got {list(choices)}")
        self.question = question
        self.choices = [_text(choice) for choice in choices or ()]
        self.numbers = list(numbers)
        self.answer: str | dict[str, float] | None = None
        """What the learner committed to; None before."""
        self.commit_button = ipywidgets.Button(description="Commit", icon="lock", layout=_WIDE)
        self.commit_button.on_click(lambda _button: self._commit())
        self.feedback = ipywidgets.HTML(message(WAITING, "Not committed yet."))
        self.choice = ipywidgets.ToggleButtons(options=self.choices, value=None, style={"button_width": "auto"})
        self.fields = {
            name: ipywidgets.Text(
                placeholder="?",
                description=name,
                style={"description_width": "auto"},
                layout=ipywidgets.Layout(width="11em"),
            )
            for name in self.numbers
        }

    def show(self) -> None:
        """Emit the question as text, and below it the controls."""
        lines = [f"**Predict.** {self.question}", ""]
        if self.choices and sum(map(len, self.choices)) < 60:
            lines.append(" · ".join(self.choices))
        else:
            lines += [f"- {choice}" for choice in self.choices] or [" · ".join(f"{name}: ?" for name in self.numbers)]
        show_text("\n".join(lines))
        controls = [self.choice] if self.choices else list(self.fields.values())
        row = ipywidgets.HBox(controls, layout=ipywidgets.Layout(flex_flow="row wrap"))
        show_live(ipywidgets.VBox([row, ipywidgets.HBox([self.commit_button, self.feedback])]), "buttons to commit")

    def commit(self, answer: Answer | Mapping[str, float]) -> None:
        """Commit to ``answer``: one of the choices, or a number for each name.

        Raises:
            ValueError: not one of the choices, or not the asked names.
        """
        if self.numbers:
            if not isinstance(answer, Mapping) or set(answer) != set(self.numbers):
                raise ValueError(f"commit takes a number for each of {self.numbers}; got {answer!r}")
            self.answer = {name: float(answer[name]) for name in self.numbers}
        else:
            if isinstance(answer, Mapping) or _text(answer) not in self.choices:
                raise ValueError(f"commit takes one of {self.choices}; got {answer!r}")
            self.answer = _text(answer)
        for control in (self.choice, self.commit_button, *self.fields.values()):
            control.disabled = True
        self.feedback.value = message(NEUTRAL, f"Committed: **{_said(self.answer)}**. Now run the next cell.")

    def compare(self, found: Answer | Mapping[str, float]) -> None:
        """Set the prediction against what the run ``found``, as text on the page."""
        if isinstance(found, Mapping):
            self._compare_numbers(found)
        elif self.answer is None:
            show_text(f"{WAITING[0]} You made no prediction. The run says **{_text(found)}**.")
        elif self.answer == _text(found):
            show_text(f"{RIGHT[0]} **As you predicted:** {_text(found)}.")
        else:
            show_text(
                f"{WRONG[0]} **Not as predicted.** You said {_said(self.answer)}; the run says **{_text(found)}**."
            )

    def _compare_numbers(self, found: Mapping[str, float]) -> None:
        said = self.answer if isinstance(self.answer, dict) else {}
        lines = ["| | your prediction | the run | |", "| --- | ---: | ---: | --- |"]
        for name, value in found.items():
            if name not in said:
                verdict, guess = "", "–"
            else:
                verdict = f"{RIGHT[0]} as predicted" if said[name] == value else f"{WRONG[0]} not as predicted"
                guess = _text(said[name])
            lines.append(f"| {name} | {guess} | **{_text(value)}** | {verdict} |")
        show_text("\n".join(lines))

    def _commit(self) -> None:
        try:
            if self.numbers:
                self.commit({name: float(field.value) for name, field in self.fields.items()})
            elif self.choice.value is None:
                self.feedback.value = message(WAITING, "Choose one first.")
            else:
                self.commit(self.choice.value)
        except ValueError:
            self.feedback.value = message(WAITING, f"Give a number for each of: {', '.join(self.numbers)}.")


def _text(value: object) -> str:
    return number(float(value)) if isinstance(value, Real) else str(value)


def _said(answer: str | dict[str, float] | None) -> str:
    if isinstance(answer, dict):
        return ", ".join(f"{name}: {_text(value)}" for name, value in answer.items())
    return str(answer)
