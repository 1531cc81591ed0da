"""Answers to the exercises of chapter 12."""

from __future__ import annotations

from tests.checks.answers.chapter_12.exercises_1_2_3 import ANSWERS_12_1, ANSWERS_12_2, ANSWERS_12_3
from tests.checks.answers.chapter_12.exercises_4_5 import ANSWERS_12_4, ANSWERS_12_5

ANSWERS = (*ANSWERS_12_1, *ANSWERS_12_2, *ANSWERS_12_3, *ANSWERS_12_4, *ANSWERS_12_5)
