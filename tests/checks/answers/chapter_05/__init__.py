"""Answers to the exercises of chapter 05."""

from __future__ import annotations

from tests.checks.answers.chapter_05.exercises_1_2_3 import ANSWERS_05_1, ANSWERS_05_2, ANSWERS_05_3
from tests.checks.answers.chapter_05.exercises_4_5 import ANSWERS_05_4, ANSWERS_05_5

ANSWERS = (*ANSWERS_05_1, *ANSWERS_05_2, *ANSWERS_05_3, *ANSWERS_05_4, *ANSWERS_05_5)
