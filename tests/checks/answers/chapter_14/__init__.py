"""Answers to the exercises of chapter 14."""

from __future__ import annotations

from tests.checks.answers.chapter_14.exercise_6 import ANSWERS_14_6
from tests.checks.answers.chapter_14.exercises_1_2 import ANSWERS_14_1, ANSWERS_14_2
from tests.checks.answers.chapter_14.exercises_3_4_5 import ANSWERS_14_3, ANSWERS_14_4, ANSWERS_14_5

ANSWERS = (*ANSWERS_14_1, *ANSWERS_14_2, *ANSWERS_14_3, *ANSWERS_14_4, *ANSWERS_14_5, *ANSWERS_14_6)
