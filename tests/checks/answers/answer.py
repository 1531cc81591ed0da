"""An answer to an exercise: the solution with some text replaced, or a text of its own; and the verdict on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat

from cudalab.checks import find
from cudalab.dev.now_you import now_you
from cudalab.grading.generate import answer_source
from cudalab.grading.regions import solution

ROOT = Path(__file__).parents[3]
FULL = "full points"


@dataclass(frozen=True)
class Answer:
    exercise: str
    """``04.2``"""
    name: str
    replace: tuple[tuple[str, str], ...] = ()
    """Pairs (old, new): each old text occurs in the solution and is replaced by the new one."""
    source: str = ""
    """The whole text, where it is not the solution with replacements."""
    part: str = ""
    rule: str = FULL
    """The rule, or the gate, that has to refuse it; by default none: it gets all points."""
    mistake: str = ""
    """What the feedback has to say it looks like."""
    cheat: bool = False
    """Made to get points for nothing; ``generic.py`` says which of them every exercise has to refuse in each run."""
    most: float = math.inf
    """Points that it may get, where some are its due."""

    @property
    def text(self) -> str:
        """What is handed in; ValueError where a text to replace is not in the solution."""
        text = self.source or solution_of(self.exercise)
        for old, new in self.replace:
            if old not in text:
                raise ValueError(f"{self}: the solution has no {old!r}")
            text = text.replace(old, new)
        return text

    @property
    def right(self) -> bool:
        return self.rule == FULL

    def __str__(self) -> str:
        return f"{self.exercise} {self.name}"


def cell_of(exercise: str) -> str:
    """The answer cell as it stands in ``solutions/``, with the starter."""
    (path,) = (ROOT / "solutions").glob(f"{exercise[:2]}_*.ipynb")
    return answer_source(nbformat.read(path, as_version=4), find(exercise).kernel) + "\n"


@cache
def solution_of(exercise: str) -> str:
    """The solution's cell: of an exercise from ``solutions/``, of a *Now you* from its chapter."""
    if find(exercise).maximum:
        return solution(cell_of(exercise))
    (path,) = (ROOT / "notebooks").glob(f"{exercise[:2]}_*.ipynb")
    return next(task.solution for task in now_you(nbformat.read(path, as_version=4)) if task.exercise == exercise)


@dataclass(frozen=True)
class Wrong:
    """One line of a chapter's table."""

    name: str
    replace: tuple[tuple[str, str], ...]
    part: str
    rule: str
    source: str = ""
    mistake: str = ""
    cheat: bool = False
    most: float = math.inf


@dataclass(frozen=True)
class Right:
    """The same, for full points."""

    name: str
    replace: tuple[tuple[str, str], ...] = ()
    source: str = ""


def table(exercise: str, *lines: Wrong | Right) -> tuple[Answer, ...]:
    return tuple(Answer(exercise, **vars(line)) for line in lines)
