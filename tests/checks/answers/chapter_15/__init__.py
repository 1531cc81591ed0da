"""Answers to the exercises of chapter 15."""

from __future__ import annotations

from tests.checks.answers.chapter_15.exercises_1_2 import ANSWERS_15_1, ANSWERS_15_2
from tests.checks.answers.chapter_15.exercises_3_4_5 import ANSWERS_15_3, ANSWERS_15_4, ANSWERS_15_5

ANSWERS = (*ANSWERS_15_1, *ANSWERS_15_2, *ANSWERS_15_3, *ANSWERS_15_4, *ANSWERS_15_5)
