"""Deadlines: when somebody is late, and what that costs."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cudalab.grading.settings import Settings, SettingsError, load

TEXT = """
deadline = 2026-11-20T12:00:00+01:00
[late]
percent_per_day = 40
grace_minutes = 10
most_days = 2
[extensions]
bob = 2026-11-22T12:00:00+01:00
"""
DUE = datetime.fromisoformat("2026-11-20T11:00:00+00:00")


def _settings(folder: Path, text: str = "") -> Settings:
    (folder / "lab.toml").write_text(text + TEXT)
    return load(folder / "lab.toml")


@pytest.mark.parametrize(
    ("student", "late", "days", "kept"),
    [
        ("alice", timedelta(minutes=10), 0, 1.0),
        ("alice", timedelta(minutes=11), 1, 0.6),
        ("alice", timedelta(days=1, minutes=11), 2, 0.2),
        ("alice", timedelta(days=2, minutes=11), 3, 0.0),
        ("bob", timedelta(days=2, minutes=10), 0, 1.0),
        ("bob", timedelta(days=2, minutes=11), 1, 0.6),
        ("alice", timedelta(days=-30), 0, 1.0),
    ],
)
def test_what_lateness_costs(student: str, late: timedelta, days: int, kept: float, tmp_path: Path) -> None:
    settings = _settings(tmp_path, "file_times = true\n")
    assert settings.days_late(student, DUE + late) == days
    assert settings.kept(days) == pytest.approx(kept)


def test_the_times_of_files_count_only_where_the_teacher_says_so(tmp_path: Path) -> None:
    assert _settings(tmp_path).days_late("alice", DUE + timedelta(days=9)) == 0
    told = _settings(tmp_path, "submitted = { alice = 2026-11-20T12:11:00+01:00 }\nfile_times = true\n")
    assert told.days_late("alice", DUE + timedelta(days=9)) == 1  # the learning platform knows better


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("deadlines = 1\n", "deadlines"),
        ("seed = 'x'\n", "seed"),
        ("marks = { alice = { essay = 4 } }\n", "not in \\[rubric\\]"),
        ("rubric = { essay = 3 }\nmarks = { alice = { essay = 4 } }\n", "at most 3"),
    ],
)
def test_a_file_that_says_what_there_is_not(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=told):
        _settings(tmp_path, text)
