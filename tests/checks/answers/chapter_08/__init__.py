"""Answers to the exercises of chapter 08."""

from __future__ import annotations

from tests.checks.answers.chapter_08.exercises_1_2_3 import ANSWERS_08_1, ANSWERS_08_2, ANSWERS_08_3
from tests.checks.answers.chapter_08.exercises_4_5 import ANSWERS_08_4, ANSWERS_08_5

ANSWERS = (*ANSWERS_08_1, *ANSWERS_08_2, *ANSWERS_08_3, *ANSWERS_08_4, *ANSWERS_08_5)
