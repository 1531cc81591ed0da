"""The exercises of chapter 12: three classes of work, an inversion, a batch that lets others in, starts told in
advance, and tasks that are urgent because another one is."""

from cudalab.checks.chapter_12.starts import START_ORDER, URGENT_TASKS
from cudalab.checks.chapter_12.streams import INVERSION, LET_OTHERS_IN, THREE_CLASSES

EXERCISES = (THREE_CLASSES, INVERSION, LET_OTHERS_IN, START_ORDER, URGENT_TASKS)
