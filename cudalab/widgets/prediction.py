"""Predict first, then run: an answer that the learner commits to, and its comparison with what the run says.

The question is asked by one cell. The cell of the run, or the one after it, gives ``compare`` what the run found, and
that decides which choice was right: no cell names the answer. The verdict is part of the live view alone; a notebook
that is saved keeps what the run said, and not how the learner fared.
"""

from __future__ import annotations

import html
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from numbers import Real

import ipywidgets

from cudalab.course import progress
from cudalab.plots.style import number
from cudalab.widgets.output import (
    NEUTRAL,
    RIGHT,
    WAITING,
    WRONG,
    Options,
    Shown,
    listed,
    message,
    show_live,
    show_text,
)

Answer = str | float
_KEY = re.compile(r"^(\d\d)\.([a-z][a-z0-9-]*)$")
_CELL = "text-align:left;line-height:1.5;padding:2px 16px 2px 0"
_CLOSE = 0.02  # of a value that is no whole number


@dataclass(frozen=True)
class Choice:
    """One answer to choose."""

    text: str
    """Markdown, one line."""
    why: str = ""
    """What the learner reads who chose it where the run says otherwise."""
    value: float | str | None = None
    """What the run finds where this is the answer: a number, of which the nearest choice counts, or words that are part
    of what it says. Without it, the text."""

    @property
    def number(self) -> float | None:
        """The value as a number; None where it is none."""
        if isinstance(self.value, str):
            return None
        if self.value is not None:
            return float(self.value)
        try:
            return float(self.text.replace(",", ""))
        except ValueError:
            return None

    @property
    def said(self) -> str:
        """The words that a run says where this is the answer."""
        return self.value if isinstance(self.value, str) else self.text

    def is_said_by(self, found: str) -> bool:
        return found == self.text or (isinstance(self.value, str) and self.value in found)


def predict(question: str, choices: Sequence[Answer] | None = None, *, numbers: Sequence[str] = ()) -> Prediction:
    """Ask for a prediction before the next cell is run.

    Args:
        question: a prediction of the course by its key (``"04.block"``, in ``predictions/04.toml``), or, with
            ``choices`` or ``numbers``, its text in Markdown.
        choices: the answers to choose one from.
        numbers: instead of choices, the names of quantities to give a number for.

    Returns:
        A ``Prediction``; give what the run found to its ``compare``.

    Raises:
        KeyError: no prediction of that key.
        ValueError: both of ``choices`` and ``numbers``, fewer than two choices, or neither and no key.
    """
    key = _KEY.match(question) if choices is None and not numbers else None
    if key is not None:
        prediction = load(*key.groups())
    else:
        prediction = Prediction(
            question, [Choice(_text(choice)) for choice in choices or ()], dict.fromkeys(numbers, "")
        )
    prediction.show()
    return prediction


def load(chapter: str, name: str) -> Prediction:
    """The course's prediction ``name``, from ``predictions/CHAPTER.toml``."""
    source = resources.files("cudalab.widgets") / "predictions" / f"{chapter}.toml"
    if not source.is_file():
        raise KeyError(f"predict: no predictions for chapter {chapter!r}; a key looks like '04.block'")
    table = tomllib.loads(source.read_text(encoding="utf-8"))
    if name not in table:
        raise KeyError(f"predict: chapter {chapter} has predictions {', '.join(table)}; there is no {name!r}")
    entry = table[name]
    choices = [Choice(**choice) for choice in entry.get("choices", ())]
    numbers = {each["name"]: each["why"] for each in entry.get("numbers", ())}
    return Prediction(entry["question"], choices, numbers, key=f"{chapter}.{name}")


class Prediction(Shown):
    """A question, and the learner's answer once there is one."""

    def __init__(
        self, question: str, choices: Sequence[Choice], numbers: Mapping[str, str] | None = None, *, key: str = ""
    ) -> None:
        self.choices, self.numbers = list(choices), dict(numbers or {})
        if bool(self.choices) == bool(self.numbers):
            raise ValueError("predict takes either choices or numbers=[names]; give exactly one of the two")
        if len(self.choices) == 1:
            raise ValueError(f"predict needs at least two choices; got {[choice.text for choice in choices]}")
        self.question, self.key = question, key
        self.answer: int | dict[str, float] | None = None
        """What the learner committed to: the place of a choice, or the numbers; None before, and when skipped."""
        self.skipped = False
        self.options = Options([choice.text for choice in self.choices])
        for place, button in enumerate(self.options.buttons):
            button.on_click(lambda _button, place=place: self.commit(place))
        self.fields = {
            name: ipywidgets.Text(
                placeholder="?",
                description=name,
                style={"description_width": "auto"},
                layout=ipywidgets.Layout(width="max-content"),
            )
            for name in self.numbers
        }
        self.commit_button = _button("Commit", "lock")
        self.commit_button.on_click(lambda _button: self._commit_fields())
        self.skip_button = _button("Skip", "forward", tooltip="Run without one")
        self.skip_button.on_click(lambda _button: self.skip())
        self.verdict = ipywidgets.HTML()
        """What stands beside what the run says, once it has."""
        how = "Click what you expect." if self.choices else "Give a number for each, then commit or run the next cell."
        self.feedback = ipywidgets.HTML(message(WAITING, how))

    def markdown(self) -> str:
        """The question for a page without a kernel."""
        texts = [choice.text for choice in self.choices]
        if self.numbers:
            return f"**Predict.** {self.question}\n\n" + " · ".join(f"{name}: ?" for name in self.numbers)
        lines = [" · ".join(texts)] if sum(map(len, texts)) < 60 else [f"- {text}" for text in texts]
        return "\n".join([f"**Predict.** {self.question}", "", *listed(lines)])

    def show(self) -> None:
        """Emit the question as text, and below it the buttons."""
        show_text(self.markdown())
        fields = ipywidgets.HBox(list(self.fields.values()), layout=ipywidgets.Layout(flex_flow="row wrap"))
        first = [fields] if self.numbers else []
        buttons = [self.commit_button] if self.numbers else []
        row = ipywidgets.HBox([*buttons, self.skip_button, self.feedback])
        view = self.options.view(*first, row)
        if self.numbers:
            view.add_class("cudalab-fields")
        show_live(view, "buttons to predict")
        self._take_up(progress.answer("prediction", self.key))

    def commit(self, answer: int | Mapping[str, float]) -> None:
        """Commit to the choice at the place ``answer``, or to a number for each name; until the run has answered, to
        another.

        Raises:
            ValueError: no such choice, or not the asked names.
        """
        if self.numbers:
            if not isinstance(answer, Mapping) or set(answer) != set(self.numbers):
                raise ValueError(f"commit takes a number for each of {list(self.numbers)}; got {answer!r}")
            self.answer = {name: float(answer[name]) for name in self.numbers}
        else:
            if not isinstance(answer, int) or not 0 <= answer < len(self.choices):
                raise ValueError(
                    f"commit takes the place of a choice, from 0 to {len(self.choices) - 1}; got {answer!r}"
                )
            self.answer = answer
            for place in range(len(self.choices)):
                self.options.look(place, "chosen" if place == answer else "")
        self.skipped = False
        progress.note("prediction", self.key, self.answer)
        self.feedback.value = message(NEUTRAL, f"You say **{self._said()}**. Now run the next cell.")

    def _take_up(self, earlier: object) -> None:
        """Commit to the answer of an earlier day, if it still is one."""
        if isinstance(earlier, (int, dict)):
            with suppress(ValueError):
                self.commit(earlier)

    def skip(self) -> None:
        """Go on without a prediction."""
        self.answer, self.skipped = None, True
        for place in range(len(self.choices)):
            self.options.look(place, "")
        self.feedback.value = message(WAITING, "Skipped. Run the next cell.")

    def compare(self, found: Answer | Mapping[str, float]) -> None:
        """Set the prediction against what the run ``found``: a number, of which the nearest choice counts, what it says
        in words, or a number for each name. What the run says is put on the page, beside it the live verdict.

        Raises:
            ValueError: no choice fits what was found.
        """
        if isinstance(found, Mapping):
            said = " · ".join(f"{name}: **{_text(found[name])}**" for name in self.numbers)
            if self.answer is None and not self.skipped:
                self._commit_fields()  # filled in, and the next cell run: that is an answer, too
            verdict = self._verdict_on_numbers(found)
        else:
            right = self._choice_of(found)
            said, verdict = _run_says(found, self.choices[right]), self._verdict(right)
        show_text(f"The run says {said}.")
        self.options.lock()
        for field in self.fields.values():
            field.disabled = True
        for past in (self.commit_button, self.skip_button, self.feedback):
            past.layout.display = "none"
        self.verdict.value = verdict
        show_live(self.verdict, "your prediction")

    def _choice_of(self, found: Answer) -> int:
        places = range(len(self.choices))
        if not isinstance(found, str):
            values = {place: value for place in places if (value := self.choices[place].number) is not None}
            if values:
                return min(values, key=lambda place: _distance(values[place], float(found)))
        said = [place for place in places if self.choices[place].is_said_by(_text(found))]
        if said:  # "own and all" says "all" as well
            return max(said, key=lambda place: len(self.choices[place].said))
        raise ValueError(f"compare: the run found {found!r}, and no choice of {[c.text for c in self.choices]} says so")

    def _verdict(self, right: int) -> str:
        self.options.look(right, "right")
        if not isinstance(self.answer, int):
            return self._without_answer()
        if self.answer == right:
            return message(RIGHT, f"**As you predicted:** {self.choices[right].text}.")
        self.options.look(self.answer, "wrong")
        wrong = self.choices[self.answer]
        return message(WRONG, f"**Not as you predicted:** you said {wrong.text}. {wrong.why}".strip())

    def _without_answer(self) -> str:
        how = "You skipped this prediction." if self.skipped else "You ran this without a prediction."
        return message(WAITING, f"{how} The next one is worth a guess: a wrong one teaches most.")

    def _verdict_on_numbers(self, found: Mapping[str, float]) -> str:
        if not isinstance(self.answer, dict):
            return self._without_answer()
        rows = []
        for name, why in self.numbers.items():
            hit = _agree(self.answer[name], float(found[name]))
            sign = f"{RIGHT[0]} as predicted" if hit else f"{WRONG[0]} not as predicted"
            cells = (name, _text(self.answer[name]), _text(found[name]), sign, "" if hit else why)
            rows.append("<tr>" + "".join(f"<td style='{_CELL}'>{html.escape(cell)}</td>" for cell in cells))
        heads = "".join(f"<th style='{_CELL}'>{head}</th>" for head in ("", "you", "the run", "", ""))
        return f"<table role='status'><tr>{heads}</tr>{''.join(rows)}</table>"

    def _said(self) -> str:
        if isinstance(self.answer, dict):
            return ", ".join(f"{name}: {_text(value)}" for name, value in self.answer.items())
        assert self.answer is not None
        return self.choices[self.answer].text

    def _commit_fields(self) -> None:
        try:
            self.commit({name: float(field.value.replace(",", "")) for name, field in self.fields.items()})
        except ValueError:
            self.feedback.value = message(WAITING, f"Give a number for each of: {', '.join(self.numbers)}.")


def _button(text: str, icon: str, tooltip: str = "") -> ipywidgets.Button:
    """As wide as its text. Its layout is its own, because it is hidden on its own."""
    layout = ipywidgets.Layout(width="max-content")
    return ipywidgets.Button(description=text, icon=icon, tooltip=tooltip, layout=layout).add_class("cudalab-short")


def _distance(value: float, found: float) -> float:
    """How far off: by ratio where both are positive, so that 2 is as far from 1 as from 4."""
    return abs(math.log(value / found)) if value > 0 and found > 0 else abs(value - found)


def _agree(said: float, found: float) -> bool:
    return said == found if found.is_integer() else math.isclose(said, found, rel_tol=_CLOSE)


def _run_says(found: Answer, right: Choice) -> str:
    if not isinstance(found, str) and right.number != float(found):
        return f"{_text(found)}, nearest to **{right.text}**"
    return f"**{right.text}**"


def _text(value: object) -> str:
    return number(float(value)) if isinstance(value, Real) else str(value)
