"""The exercises of chapter 08: an array locked in its place, an answer without a copy, two desks that take turns, an
array that is read again, and the hazards of a program told in advance."""

from cudalab.checks.chapter_08.mapped import HAZARDS, REPEAT
from cudalab.checks.chapter_08.pinned import SERVE, TOTAL, UPLOAD

EXERCISES = (UPLOAD, TOTAL, SERVE, REPEAT, HAZARDS)
