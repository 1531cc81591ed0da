"""Answers to the exercises of chapter 06."""

from __future__ import annotations

from tests.checks.answers.chapter_06.exercise_7 import ANSWERS_06_7
from tests.checks.answers.chapter_06.exercises_1_2 import ANSWERS_06_1, ANSWERS_06_2
from tests.checks.answers.chapter_06.exercises_3_4 import ANSWERS_06_3, ANSWERS_06_4
from tests.checks.answers.chapter_06.exercises_5_6 import ANSWERS_06_5, ANSWERS_06_6

ANSWERS = (*ANSWERS_06_1, *ANSWERS_06_2, *ANSWERS_06_3, *ANSWERS_06_4, *ANSWERS_06_5, *ANSWERS_06_6, *ANSWERS_06_7)
