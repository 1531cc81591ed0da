"""Answers to the exercises of chapter 11."""

from __future__ import annotations

from tests.checks.answers.chapter_11.exercise_6 import ANSWERS_11_6
from tests.checks.answers.chapter_11.exercise_7 import ANSWERS_11_7
from tests.checks.answers.chapter_11.exercises_1_2 import ANSWERS_11_1, ANSWERS_11_2
from tests.checks.answers.chapter_11.exercises_3_4_5 import ANSWERS_11_3, ANSWERS_11_4, ANSWERS_11_5

ANSWERS = (*ANSWERS_11_1, *ANSWERS_11_2, *ANSWERS_11_3, *ANSWERS_11_4, *ANSWERS_11_5, *ANSWERS_11_6, *ANSWERS_11_7)
