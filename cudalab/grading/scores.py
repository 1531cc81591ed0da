"""Scores, from the results in the store and the teacher's settings.

What a check gives is what it gives in the notebook. Here it is weighted as the teacher has said, what is late loses its
part, and points given by hand are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cudalab.checks.exercise import Exercise
from cudalab.grading.limits import TOGETHER, Used
from cudalab.grading.messages import Ended, Refused, ResultRecord
from cudalab.grading.settings import Settings
from cudalab.grading.store import Answer, Handed, Store

State = Literal["graded", "ended", "missing", "waiting", "not graded"]


@dataclass(frozen=True)
class Score:
    """One student's points for one exercise."""

    answer: Answer
    exercise: Exercise
    points: float
    """Weighted, before lateness."""
    maximum: float
    state: State
    """``ended``: its process was, by a limit or by a crash, and it earned nothing. ``not graded``: the teacher has to
    look; it counts as 0 meanwhile."""
    note: str = ""

    @property
    def id(self) -> str:
        """What ``--explain`` takes."""
        return f"{self.answer.student}/{self.exercise.id}"

    @property
    def mark(self) -> str:
        """The score in a table."""
        marks = {"missing": "-", "waiting": "…", "not graded": "?", "ended": "0!"}
        return marks.get(self.state) or f"{self.points:g}"


@dataclass(frozen=True)
class Sheet:
    """One student's scores."""

    handed: Handed
    scores: tuple[Score, ...]
    days_late: int
    kept: float
    """Which part of the points lateness leaves."""
    by_hand: float
    by_hand_most: float

    @property
    def student(self) -> str:
        return self.handed.student

    @property
    def points(self) -> float:
        """With lateness, and with what was given by hand."""
        return round(sum(score.points for score in self.scores) * self.kept + self.by_hand, 6)

    @property
    def maximum(self) -> float:
        return sum(score.maximum for score in self.scores) + self.by_hand_most


def sheets(
    store: Store, run: int, exercises: Mapping[str, Exercise], settings: Settings, together: Used = TOGETHER
) -> list[Sheet]:
    """The scores of every student in a run, in the order of their names. ``together`` is what the questions of one may
    have used."""
    by_student: dict[str, list[Answer]] = {}
    for answer in store.answers(run):
        if answer.exercise in exercises:
            by_student.setdefault(answer.student, []).append(answer)
    return [_sheet(one, by_student.get(one.student, []), exercises, settings, together) for one in store.students(run)]


def _sheet(
    handed: Handed,
    answers: Sequence[Answer],
    exercises: Mapping[str, Exercise],
    settings: Settings,
    together: Used,
) -> Sheet:
    scores, used = [], Used()
    for answer in answers:
        given = score(answer, exercises[answer.exercise], settings)
        if answer.task is not None and (why := used.beyond(together)):
            text = f"the questions of this submission before it have used {why}"
            given = replace(given, points=0.0, state="ended", note=text)
        scores.append(given)
        used += answer.used
    days = settings.days_late(handed.student, handed.modified)
    return Sheet(
        handed,
        tuple(scores),
        days,
        settings.kept(days),
        settings.marks_of(handed.student),
        sum(settings.rubric.values()),
    )


def score(answer: Answer, exercise: Exercise, settings: Settings) -> Score:
    """The score of one answer."""
    maximum = settings.points.get(exercise.id, exercise.maximum)
    if answer.task is None:
        return Score(answer, exercise, 0.0, maximum, "not graded" if _unclear(answer) else "missing", answer.note)
    match answer.outcome:
        case ResultRecord():
            earned = answer.outcome.result().points / exercise.maximum if exercise.maximum else 0.0
            return Score(answer, exercise, round(earned * maximum, 6), maximum, "graded")
        case Ended(kind, text):
            return Score(answer, exercise, 0.0, maximum, "ended", f"{kind}: {text}")
        case Refused(text):
            return Score(answer, exercise, 0.0, maximum, "not graded", text)
        case _:
            return Score(answer, exercise, 0.0, maximum, "waiting", "not graded yet")


def _unclear(answer: Answer) -> bool:
    from cudalab.grading.grader import MISSING

    return answer.note != MISSING


def changes(before: Sequence[Sheet], after: Sequence[Sheet]) -> list[str]:
    """What two gradings of the same answers differ in, a line each."""
    old = {score.id: score for sheet in before for score in sheet.scores}
    lines = []
    for sheet in after:
        for score in sheet.scores:
            was = old.pop(score.id, None)
            if was is None:
                lines.append(f"{score.id}: new, {score.points:g}")
            elif (was.points, was.state) != (score.points, score.state):
                lines.append(f"{score.id}: {was.points:g} ({was.state}) → {score.points:g} ({score.state})")
    return lines + [f"{name}: {was.points:g} → no longer handed in" for name, was in old.items()]
