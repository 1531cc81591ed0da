"""Answers to the exercises of chapter 04."""

from __future__ import annotations

from tests.checks.answers.chapter_04.exercise_6 import ANSWERS_04_6
from tests.checks.answers.chapter_04.exercise_7 import ANSWERS_04_7
from tests.checks.answers.chapter_04.exercise_8 import ANSWERS_04_8
from tests.checks.answers.chapter_04.exercises_1_2_3 import ANSWERS_04_1, ANSWERS_04_2, ANSWERS_04_3
from tests.checks.answers.chapter_04.exercises_4_5 import ANSWERS_04_4, ANSWERS_04_5

ANSWERS = (
    *ANSWERS_04_1,
    *ANSWERS_04_2,
    *ANSWERS_04_3,
    *ANSWERS_04_4,
    *ANSWERS_04_5,
    *ANSWERS_04_6,
    *ANSWERS_04_7,
    *ANSWERS_04_8,
)
