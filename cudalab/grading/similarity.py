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
    """Two answers to one exercise."""

    exercise: str
    one: str
    other: str
    alike: float
    """0 to 1."""
    same_text: bool

    def __str__(self) -> str:
        text = ", the same text" if self.same_text else ""
        return f"{self.exercise}: {self.one} and {self.other} are alike: {self.alike:.0%}{text}"


def pairs(sheets: Sequence[Sheet]) -> list[Pair]:
    """All pairs that are worth a look, the most alike first."""
    answers: dict[str, list[tuple[str, str, frozenset[int]]]] = {}
    for sheet in sheets:
        for score in sheet.scores:
            outcome = score.answer.outcome
            if score.points and isinstance(outcome, ResultRecord) and outcome.fingerprint:
                entry = (
                    sheet.student,
                    score.answer.task.text if score.answer.task else "",
                    frozenset(outcome.fingerprint),
                )
                answers.setdefault(score.exercise.id, []).append(entry)
    found = [pair for exercise, those in answers.items() for pair in _alike(exercise, those)]
    return sorted(found, key=lambda pair: (-pair.alike, pair.exercise, pair.one, pair.other))


def _alike(exercise: str, answers: Sequence[tuple[str, str, frozenset[int]]]) -> list[Pair]:
    have = Counter(run for _, _, runs in answers for run in runs)
    weight = {run: math.log((1 + len(answers)) / count) for run, count in have.items()}
    total = {runs: sum(weight[run] for run in runs) for _, _, runs in answers}
    found = []
    for (one, text, mine), (other, text2, theirs) in combinations(answers, 2):
        shared = sum(weight[run] for run in mine & theirs)
        either = total[mine] + total[theirs] - shared
        alike = shared / either if either else 0.0
        if alike >= LEAST and shared >= LEAST_SHARED:
            found.append(Pair(exercise, one, other, round(alike, 3), text == text2))
    return found
