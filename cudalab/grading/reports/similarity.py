"""Pairs of kernels that are more alike than chance would make them.

Compared are fingerprints (``fingerprint.py``): compiled code without names and comments. What many share is what the
exercise asks for, and says nothing; so each run of instructions weighs the less the more answers have it, and answers
without a point (the starter, mostly) are left out. A pair's figure is the weight of what the two share over the weight
of what either has. It is a reason to read both answers and no more: short kernels have few ways to be right, and the
report cannot know who worked together by leave.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from cudalab.grading.messages import ResultRecord
from cudalab.grading.scores import Sheet

LEAST = 0.6
"""Pairs below are not reported."""
LEAST_SHARED = 4.0
"""Weight that two share at least: what half of the class has in common is no reason to read it."""
WORTH = (
    "Alike in their compiled code, without names, layout and comments; what many answers share weighs little. "
    "A high figure is a reason to read the two, and no proof: short kernels have few ways to be right."
)


@dataclass(frozen=True)
class Pair:
    """Answers to one exercise that are alike."""

    exercise: str
    one: str
    """A student; where several handed in the same text, how many more."""
    other: str
    alike: float
    """0 to 1."""
    same_text: bool

    def __str__(self) -> str:
        text = ", the same text" if self.same_text else ""
        return f"{self.exercise}: {self.one} and {self.other} are alike: {self.alike:.0%}{text}"


@dataclass
class _Group:
    """Those who handed in the same text."""

    runs: frozenset[int]
    students: list[str]

    @property
    def name(self) -> str:
        more = len(self.students) - 1
        return f"{self.students[0]} (and {more} more)" if more else self.students[0]


def pairs(sheets: Sequence[Sheet]) -> list[Pair]:
    """All pairs that are worth a look, the most alike first."""
    answers: dict[str, dict[str, _Group]] = {}
    for sheet in sheets:
        for score in sheet.scores:
            outcome, task = score.answer.outcome, score.answer.task
            if score.points and task and isinstance(outcome, ResultRecord) and outcome.fingerprint:
                groups = answers.setdefault(score.exercise.id, {})
                groups.setdefault(task.text, _Group(frozenset(outcome.fingerprint), [])).students.append(sheet.student)
    found = [pair for exercise, groups in answers.items() for pair in _alike(exercise, list(groups.values()))]
    return sorted(found, key=lambda pair: (-pair.alike, pair.exercise, pair.one, pair.other))


def _alike(exercise: str, groups: Sequence[_Group]) -> list[Pair]:
    have: Counter[int] = Counter()
    for group in groups:
        have.update({run: len(group.students) for run in group.runs})
    students = sum(len(group.students) for group in groups)
    weight = {run: math.log((1 + students) / count) for run, count in have.items()}
    found = [
        Pair(exercise, group.students[0], ", ".join(group.students[1:]), 1.0, True)
        for group in groups
        if len(group.students) > 1 and sum(weight[run] for run in group.runs) >= LEAST_SHARED
    ]
    for one, other in combinations(groups, 2):
        shared = sum(weight[run] for run in one.runs & other.runs)
        either = sum(weight[run] for run in one.runs | other.runs)
        if either and shared >= LEAST_SHARED and shared / either >= LEAST:
            found.append(Pair(exercise, one.name, other.name, round(shared / either, 3), False))
    return found
