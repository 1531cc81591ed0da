"""The exercises of chapter 04: a guard for every size, a coalesced column sum, rows that start at their pitch, one copy
for many rows, allocations that fail half-way, structures taken apart into arrays, a table in constant memory that
changes between launches, and memory that is freed too early."""

from cudalab.checks.chapter_04.calls import ALLOCATE, CROP
from cudalab.checks.chapter_04.frees import FREED_TOO_EARLY
from cudalab.checks.chapter_04.kernels import COLUMN_SUM, REVERSE, SMOOTH, TO_ARRAYS
from cudalab.checks.chapter_04.modules import NEW_TABLES

EXERCISES = (REVERSE, COLUMN_SUM, SMOOTH, CROP, ALLOCATE, TO_ARRAYS, NEW_TABLES, FREED_TOO_EARLY)
