"""The exercises of chapter 05: a window that fits, one that is on only where it helps, several that share, the lines
that persist told in advance, and phases that leave nothing behind."""

from cudalab.checks.chapter_05.lines import PERSISTING_LINES, PHASES
from cudalab.checks.chapter_05.settings import FIT, ONLY_WHERE_IT_HELPS, SHARE

EXERCISES = (FIT, ONLY_WHERE_IT_HELPS, SHARE, PERSISTING_LINES, PHASES)
