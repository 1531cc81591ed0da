"""The exercises of chapter 14: time a kernel right, fork and join two streams, an event that is recorded again, a
bandwidth in its unit, waits that say nothing new, and useful work while the device is busy."""

from cudalab.checks.chapter_14.polling import MEANWHILE
from cudalab.checks.chapter_14.times import RATE, TIME_RIGHT
from cudalab.checks.chapter_14.waits import FEW_WAITS, FORK_AND_JOIN, RECORDED_AGAIN

EXERCISES = (TIME_RIGHT, FORK_AND_JOIN, RECORDED_AGAIN, RATE, FEW_WAITS, MEANWHILE)
