"""Answers to the exercises of chapter 03."""

from __future__ import annotations

from tests.checks.answers.chapter_03.exercises_1_2_3 import ANSWERS_03_1, ANSWERS_03_2, ANSWERS_03_3
from tests.checks.answers.chapter_03.exercises_4_5 import ANSWERS_03_4, ANSWERS_03_5

ANSWERS = (*ANSWERS_03_1, *ANSWERS_03_2, *ANSWERS_03_3, *ANSWERS_03_4, *ANSWERS_03_5)
