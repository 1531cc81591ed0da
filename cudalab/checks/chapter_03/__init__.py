"""The exercises of chapter 03: open a device, share it between threads of the driver, find the step that failed, tell
in advance what calls return, and ask each thread for its error."""

from cudalab.checks.chapter_03.devices import FILL, OPEN_DEVICE
from cudalab.checks.chapter_03.errors import CODES, FIRST_FAILURE, LAST_ERRORS

EXERCISES = (OPEN_DEVICE, FILL, FIRST_FAILURE, CODES, LAST_ERRORS)
