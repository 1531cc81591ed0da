"""All answers: those of the chapters' tables, and the cheats planted beside them."""

from __future__ import annotations

from importlib import import_module

from cudalab.checks import exercises
from tests.checks.answers.answer import Answer
from tests.checks.answers.generic import CHEATS, NAMED, PLANTED

ANSWERS: list[Answer] = [
    answer
    for chapter in sorted({exercise.id[:2] for exercise in exercises()})
    for answer in import_module(f"tests.checks.answers.chapter_{chapter}").ANSWERS
] + list(PLANTED)
BY_NAME = {(answer.exercise, answer.name): answer for answer in ANSWERS}
_ASKED = [
    (exercise, name)
    for table in (CHEATS, NAMED)
    for exercise, names in table.items()
    for name in names
    if isinstance(name, str)
]
IN_EACH_RUN: list[Answer] = [BY_NAME[key] for key in sorted(set(_ASKED))]
