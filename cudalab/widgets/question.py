"""Questions to check oneself: an answer brings at once the reason why it is right or wrong."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import ascii_uppercase

import ipywidgets

from cudalab.course import progress
from cudalab.widgets.output import RIGHT, WAITING, WRONG, Options, Shown, listed, message, show_live, show_text


@dataclass(frozen=True)
class Option:
    """One answer to choose."""

    text: str
    """Markdown, one line."""
    right: bool
    why: str
    """What the learner reads on choosing it; also why a wrong one is tempting and where it fails."""


def quiz(question: str, options: Sequence[tuple[str, bool, str]] | None = None) -> Question:
    """Ask one question.

    Args:
        question: a question of the course by its number (``"04.1"``: the first of chapter 04), or, with ``options``,
            its text in Markdown.
        options: ``(text, right, why)`` for each answer; with several right ones the learner ticks all that hold.

    Raises:
        TypeError: the number is not a string.
        KeyError: no question of that number.
        ValueError: fewer than two options, none of them right, or one without a reason.
    """
    asked = load(question) if options is None else Question(question, [Option(*option) for option in options])
    asked.show()
    return asked


def load(number: str) -> Question:
    """The course's question ``number`` (``"04.1"``), from ``questions/04.toml``."""
    if not isinstance(number, str):
        raise TypeError(f"quiz: a question's number is a string such as '04.1', got {number!r}")
    chapter, _, place = number.partition(".")
    source = resources.files("cudalab.widgets") / "questions" / f"{chapter}.toml"
    if not source.is_file():
        raise KeyError(f"quiz: no questions for chapter {chapter!r}; a number looks like '04.1'")
    table = tomllib.loads(source.read_text(encoding="utf-8"))
    if place not in table:
        raise KeyError(f"quiz: chapter {chapter} has questions {', '.join(table)}; there is no {place!r}")
    entry = table[place]
    return Question(entry["question"], [Option(**option) for option in entry["options"]], number=number)


class Question(Shown):
    """A question with its options, on the page as text and as buttons."""

    def __init__(self, text: str, options: Sequence[Option], *, number: str = "") -> None:
        if len(options) < 2 or not any(option.right for option in options):
            raise ValueError("quiz needs at least two options, one of them right")
        for option in options:
            if not option.why:
                raise ValueError(f"quiz: option {option.text!r} does not say why it is right or wrong")
        self.text, self.options, self.number = text, list(options), number
        self.several = sum(option.right for option in options) > 1
        self.feedback = ipywidgets.HTML()
        self.answers = Options([option.text for option in options], several=self.several)
        self.ticked: set[int] = set()
        """Places of the options that are ticked, where several hold."""
        self.check = ipywidgets.Button(description="Check", layout=ipywidgets.Layout(width="max-content"))
        for place, button in enumerate(self.answers.buttons):
            button.on_click(lambda _button, place=place: self._press(place))
        self.check.add_class("cudalab-short")
        self.check.on_click(lambda _button: self._choose(sorted(self.ticked)))

    def show(self) -> None:
        """Emit the question with its answers folded away, and below it the options as buttons."""
        show_text(self.markdown())
        below = [self.check] if self.several else []
        show_live(self.answers.view(*below, self.feedback), "buttons to answer")
        earlier = progress.answer("question", self.number)
        if isinstance(earlier, list) and all(place in range(len(self.options)) for place in earlier):
            self._choose(earlier)

    def markdown(self) -> str:
        """The question for a page without a kernel."""
        how = " *(several answers hold)*" if self.several else ""
        lines = [f"**Question {self.number or ''}**".replace(" **", "**") + f" {self.text}{how}", ""]
        below = [f"- **{letter}** {option.text}" for letter, option in self._lettered()]
        below += ["", "<details><summary>Answer, and why</summary>", ""]
        below += [
            f"- **{letter}** {RIGHT[0] if option.right else WRONG[0]} {option.why}"
            for letter, option in self._lettered()
        ]
        lines += listed([*below, "", "</details>"])
        return "\n".join(lines)

    def reply(self, chosen: Sequence[int]) -> str:
        """The feedback, as HTML, to choosing the options at the places ``chosen``."""
        if not chosen:
            return message(WAITING, "Choose at least one.")
        parts = []
        for place in chosen:
            option = self.options[place]
            verdict = "Right." if option.right else "Not this one."
            text = f"**{ascii_uppercase[place]} — {verdict}** {option.why}"
            parts.append(message(RIGHT if option.right else WRONG, text))
        missing = sum(option.right for option in self.options) - sum(self.options[at].right for at in chosen)
        if self.several and missing:
            parts.append(message(WAITING, f"{missing} more {'holds' if missing == 1 else 'hold'}."))
        return "".join(parts)

    def _lettered(self) -> list[tuple[str, Option]]:
        return list(zip(ascii_uppercase, self.options, strict=False))

    def _press(self, place: int) -> None:
        if not self.several:
            self._choose([place])
            return
        self.ticked ^= {place}
        self.answers.look(place, "chosen" if place in self.ticked else "")

    def _choose(self, chosen: Sequence[int]) -> None:
        if chosen:
            progress.note("question", self.number, list(chosen))
        self.feedback.value = self.reply(chosen)
        for place in range(len(self.options)):
            right = self.options[place].right
            self.answers.look(place, "" if place not in chosen else "right" if right else "wrong")
