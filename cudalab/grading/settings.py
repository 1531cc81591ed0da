"""The teacher's file: what a lab consists of, what it is worth, when it is due. All that it may say::

title = "Lab 1"
exercises = ["04.1", "04.2"]        # by default all that any student has handed in
seed = 20261123                     # by default one that the store draws and keeps
seed_per_student = true             # numbers of one's own
bank = "bank"                       # folder of private exercises, beside this file
deadline = 2026-11-20T23:59:00+01:00
file_times = false                  # take the files' own times, which students can set

[points]
"04.1" = 10                         # by default the exercise's own

[late]
percent_per_day = 10
grace_minutes = 15
most_days = 3                       # then nothing

[extensions]
alice = 2026-11-27T23:59:00+01:00

[submitted]                         # from the learning platform
alice = 2026-11-21T08:00:00+01:00

[rubric]
essay = 5                           # graded by hand: the most it can give

[marks.alice]
essay = 4

[students.alice]
name = "Alice Ampere"
email = "alice@example.org"
number = "123"                      # of the learning platform
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from msgspec import Struct, field


class SettingsError(ValueError):
    """A file that cannot be used; the text says where and why."""


class Late(Struct, frozen=True, forbid_unknown_fields=True):
    """What lateness costs."""

    percent_per_day: float = 0.0
    """Of what was earned, for each day begun."""
    grace_minutes: float = 0.0
    most_days: float | None = None
    """After which nothing is earned; None: no such bound."""


class Student(Struct, frozen=True, forbid_unknown_fields=True):
    """A student, as the learning platform knows them."""

    name: str = ""
    email: str = ""
    number: str = ""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The teacher's file, or what holds without one."""

    title: str = "cudalab"
    exercises: list[str] = []
    seed: int | None = None
    seed_per_student: bool = False
    bank: str = ""
    deadline: datetime | None = None
    file_times: bool = False
    points: dict[str, float] = {}
    late: Late = field(default_factory=Late)
    extensions: dict[str, datetime] = {}
    submitted: dict[str, datetime] = {}
    rubric: dict[str, float] = {}
    marks: dict[str, dict[str, float]] = {}
    students: dict[str, Student] = {}

    def days_late(self, student: str, modified: datetime | None) -> int:
        """Days begun after the student's deadline; 0 where the file does not say when they handed in."""
        due = self.extensions.get(student, self.deadline)
        handed_in = self.submitted.get(student, modified if self.file_times else None)
        if due is None or handed_in is None:
            return 0
        over = handed_in.astimezone() - due.astimezone() - timedelta(minutes=self.late.grace_minutes)
        return -(-over // timedelta(days=1)) if over > timedelta(0) else 0

    def kept(self, days: int) -> float:
        """Which part of the points is kept by one who is so many days late."""
        if self.late.most_days is not None and days > self.late.most_days:
            return 0.0
        return max(0.0, 1 - days * self.late.percent_per_day / 100)

    def marks_of(self, student: str) -> float:
        """Points given by hand."""
        return sum(self.marks.get(student, {}).values())


def load(path: Path | None) -> Settings:
    """The settings in a file; those that hold without one where ``path`` is None.

    Raises:
        SettingsError: it cannot be read, or says something that there is not.
    """
    if path is None:
        return Settings()
    try:
        settings = msgspec.toml.decode(path.read_bytes(), type=Settings)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: {error}") from None
    for student, marks in settings.marks.items():
        for name, points in marks.items():
            if not 0 <= points <= settings.rubric.get(name, -1):
                most = settings.rubric.get(name)
                rule = f"at most {most:g}" if most is not None else "not in [rubric]"
                raise SettingsError(f"{path}: [marks.{student}] {name} = {points:g}: it is {rule}")
    return settings
