"""Scores as a table, as CSV and JSON, and as the columns that learning platforms import."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from cudalab.grading.messages import ResultRecord
from cudalab.grading.reports.similarity import Pair
from cudalab.grading.scores import Score, Sheet
from cudalab.grading.settings import Settings, Student
from cudalab.grading.submissions import Oddity
from cudalab.spreadsheet import as_csv

_WIDEST = 32


def table(sheets: Sequence[Sheet]) -> str:
    """A line for each student: ``-`` was not handed in, ``?`` the teacher has to look at, ``0!`` was ended."""
    exercises = list(dict.fromkeys(score.exercise.id for sheet in sheets for score in sheet.scores))
    head = ["student", *exercises, "late", "points", "of"]
    rows = [head]
    for sheet in sheets:
        marks = {score.exercise.id: score.mark for score in sheet.scores}
        late = f"{sheet.days_late} d" if sheet.days_late else ""
        row = [_short(sheet.student), *(marks.get(name, "") for name in exercises)]
        rows.append([*row, late, f"{sheet.points:g}", f"{sheet.maximum:g}"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def scores_csv(sheets: Sequence[Sheet], run_release: str) -> str:
    """A line for each score."""
    head = [
        "student",
        "exercise",
        "points",
        "maximum",
        "state",
        "seed",
        "days_late",
        "release",
        "notebook_release",
        "note",
    ]
    return as_csv(
        [
            head,
            *(
                [
                    sheet.student,
                    score.exercise.id,
                    f"{score.points:g}",
                    f"{score.maximum:g}",
                    score.state,
                    score.answer.task.seed if score.answer.task else "",
                    sheet.days_late,
                    run_release,
                    sheet.handed.release,
                    score.note,
                ]
                for sheet in sheets
                for score in sheet.scores
            ),
        ]
    )


def scores_json(sheets: Sequence[Sheet], run_release: str, oddities: Iterable[Oddity]) -> str:
    """Everything, for programs."""
    return json.dumps(
        {
            "release": run_release,
            "students": [
                {
                    "student": sheet.student,
                    "notebook_release": sheet.handed.release,
                    "points": sheet.points,
                    "maximum": sheet.maximum,
                    "days_late": sheet.days_late,
                    "kept": sheet.kept,
                    "by_hand": sheet.by_hand,
                    "scores": [_score(score) for score in sheet.scores],
                }
                for sheet in sheets
            ],
            "oddities": [{"place": one.place, "text": one.text} for one in oddities],
        },
        indent=1,
        ensure_ascii=False,
    )


def _score(score: Score) -> dict[str, Any]:
    outcome = score.answer.outcome
    parts = outcome.parts if isinstance(outcome, ResultRecord) else []
    return {
        "exercise": score.exercise.id,
        "points": score.points,
        "maximum": score.maximum,
        "state": score.state,
        "note": score.note,
        "seed": score.answer.task.seed if score.answer.task else None,
        "parts": [
            {
                "name": part.name,
                "points": part.points,
                "maximum": part.maximum,
                "findings": [{"rule": one.rule, "text": one.text} for one in part.findings],
                "gates": [{"name": gate.name, "value": str(gate.value), "points": gate.earned} for gate in part.gates],
            }
            for part in parts
        ],
    }


def canvas_csv(sheets: Sequence[Sheet], settings: Settings) -> str:
    """What Canvas imports as a gradebook: one column, and the points possible under its head."""
    most = max((sheet.maximum for sheet in sheets), default=0.0)
    rows: list[list[Any]] = [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", settings.title],
        ["    Points Possible", "", "", "", "", f"{most:g}"],
    ]
    for sheet in sheets:
        known = _known(sheet, settings)
        rows.append([known.name, known.number, "", known.email, "", f"{sheet.points:g}"])
    return as_csv(rows)


def moodle_csv(sheets: Sequence[Sheet], settings: Settings) -> str:
    """What Moodle imports as an offline grading worksheet."""
    rows: list[list[Any]] = [["Identifier", "Full name", "Email address", "Grade", "Maximum Grade"]]
    for sheet in sheets:
        known = _known(sheet, settings)
        identifier = f"Participant {known.number}" if known.number else ""
        rows.append([identifier, known.name, known.email, f"{sheet.points:g}", f"{sheet.maximum:g}"])
    return as_csv(rows)


def similarity_csv(pairs: Iterable[Pair]) -> str:
    """A line for each pair of similar kernels."""
    rows: list[list[Any]] = [["exercise", "one", "other", "alike", "same text"]]
    rows += [[one.exercise, one.one, one.other, one.alike, "yes" if one.same_text else "no"] for one in pairs]
    return as_csv(rows)


def _known(sheet: Sheet, settings: Settings) -> Student:
    known = settings.students.get(sheet.student, Student())
    return Student(known.name or sheet.student, known.email, known.number or sheet.handed.number)


def printable(text: str) -> str:
    """The text without what a terminal would obey: names in archives are anybody's."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _short(name: str) -> str:
    return name if len(name) <= _WIDEST else name[: _WIDEST - 1] + "…"
