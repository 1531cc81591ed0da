"""What has been graded, on disk: one SQLite file, every result a transaction of its own.

A *run* is one grading of everything that was handed in; grading again starts another, and the difference can be told.
In a run an answer is graded once, however many have handed it in, and a result that stands is never graded again:
killed at any moment, the grader goes on with what is missing. Scores are computed from this and stored nowhere.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from cudalab.grading.limits import Used
from cudalab.grading.messages import Outcome, ResultRecord, without_log
from cudalab.grading.submissions import Oddity, Submission
from cudalab.sim.compiler.processes import codec

_FORMAT = 3
_TABLES = """
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE run (id INTEGER PRIMARY KEY, release TEXT NOT NULL, started TEXT NOT NULL, finished TEXT) STRICT;
CREATE TABLE student (run INTEGER, name TEXT, number TEXT NOT NULL, release TEXT NOT NULL, modified TEXT,
    PRIMARY KEY (run, name)) STRICT;
CREATE TABLE answer (run INTEGER, student TEXT, exercise TEXT, key TEXT NOT NULL, note TEXT NOT NULL,
    PRIMARY KEY (run, student, exercise)) STRICT;
CREATE TABLE text (key TEXT PRIMARY KEY, exercise TEXT NOT NULL, seed INTEGER NOT NULL, text TEXT NOT NULL) STRICT;
CREATE TABLE result (run INTEGER, key TEXT, outcome BLOB NOT NULL, seconds REAL NOT NULL, stored INTEGER NOT NULL,
    PRIMARY KEY (run, key)) STRICT;
CREATE TABLE log (run INTEGER, key TEXT, log BLOB NOT NULL, PRIMARY KEY (run, key)) STRICT;
CREATE TABLE oddity (run INTEGER, place TEXT, text TEXT, PRIMARY KEY (run, place, text)) STRICT;
"""


class StoreError(RuntimeError):
    """A store that cannot be used as asked; the text says what to do."""


@dataclass(frozen=True)
class Task:
    """An answer to grade."""

    key: str
    exercise: str
    seed: int
    text: str


@dataclass(frozen=True)
class Answer:
    """What became of one student's answer to one exercise."""

    student: str
    exercise: str
    key: str
    """Of its text; empty where there is nothing to grade."""
    note: str
    """Why there is nothing to grade."""
    task: Task | None
    outcome: Outcome | None
    """None while it has not been graded."""
    used: Used = Used()


@dataclass(frozen=True)
class Handed:
    """One student, as the store knows them."""

    student: str
    number: str
    release: str
    modified: datetime | None


class Store:
    """The store in a file, made when it is not there. Threads may share it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = Lock()
        self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=60)
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=FULL")
        version = self._base.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _FORMAT):
            raise StoreError(f"{path} was written by another version of cudalab (format {version}, not {_FORMAT})")
        if not version:
            path.chmod(0o600)
            self._base.executescript(f"BEGIN;{_TABLES}PRAGMA user_version={_FORMAT};COMMIT;")

    def close(self) -> None:
        self._base.close()

    # -- settings ---------------------------------------------------------------------------------------------------

    def seed(self, wanted: int | None) -> int:
        """The seed of all scores: the one asked for, else the one kept, else a fresh one. It is kept from then on."""
        with self._lock, self._base:
            if wanted is None:
                row = self._base.execute("SELECT value FROM setting WHERE name = 'seed'").fetchone()
                wanted = int(row[0]) if row else secrets.randbits(32)
            self._base.execute("INSERT OR REPLACE INTO setting VALUES ('seed', ?)", (str(wanted),))
        return wanted

    # -- runs -------------------------------------------------------------------------------------------------------

    def latest(self) -> int:
        """The number of the latest run; 0 when there is none."""
        return int(self._base.execute("SELECT coalesce(max(id), 0) FROM run").fetchone()[0])

    def finished(self, run: int) -> bool:
        """Did it come to its end?"""
        row = self._base.execute("SELECT finished FROM run WHERE id = ?", (run,)).fetchone()
        return bool(row and row[0])

    def finished_before(self, run: int) -> int:
        """The latest run before this one that came to its end, which it is compared with; 0 when there is none."""
        query = "SELECT coalesce(max(id), 0) FROM run WHERE id < ? AND finished IS NOT NULL"
        return int(self._base.execute(query, (run,)).fetchone()[0])

    def release(self, run: int) -> str:
        """Which checks a run was graded with."""
        return str(self._base.execute("SELECT release FROM run WHERE id = ?", (run,)).fetchone()[0])

    def begin(self, release: str) -> int:
        """Start a run."""
        with self._lock, self._base:
            made = self._base.execute("INSERT INTO run (release, started) VALUES (?, ?)", (release, _now()))
        return int(made.lastrowid or 0)

    def finish(self, run: int) -> None:
        with self._lock, self._base:
            self._base.execute("UPDATE run SET finished = ? WHERE id = ?", (_now(), run))

    # -- what was handed in -----------------------------------------------------------------------------------------

    def hand_in(
        self,
        run: int,
        submissions: Iterable[Submission],
        tasks: Mapping[tuple[str, str], Task],
        notes: Mapping[tuple[str, str], str],
        oddities: Iterable[Oddity],
    ) -> None:
        """Take in what there is to grade; what a student had handed in before is replaced. ``tasks`` and ``notes`` by
        student and exercise."""
        with self._lock, self._base:
            self._base.execute("BEGIN")
            for one in submissions:
                releases = ", ".join(sorted({release or "unknown" for release in one.releases.values()}))
                modified = one.modified.isoformat() if one.modified else None
                self._base.execute(
                    "INSERT OR REPLACE INTO student VALUES (?, ?, ?, ?, ?)",
                    (run, one.student, one.number, releases, modified),
                )
            for task in tasks.values():
                row = (task.key, task.exercise, task.seed, task.text)
                self._base.execute("INSERT OR IGNORE INTO text VALUES (?, ?, ?, ?)", row)
            for student, exercise in (*tasks, *notes):
                known = tasks.get((student, exercise))
                row2 = (run, student, exercise, known.key if known else "", notes.get((student, exercise), ""))
                self._base.execute("INSERT OR REPLACE INTO answer VALUES (?, ?, ?, ?, ?)", row2)
            for oddity in oddities:
                self._base.execute("INSERT OR IGNORE INTO oddity VALUES (?, ?, ?)", (run, oddity.place, oddity.text))

    def done(self, run: int) -> dict[str, Used]:
        """Keys that have a result, and what it has used."""
        query = "SELECT key, seconds, stored FROM result WHERE run = ?"
        return {key: Used(seconds, stored) for key, seconds, stored in self._base.execute(query, (run,))}

    def keep(self, run: int, key: str, outcome: Outcome, seconds: float) -> Used:
        """Keep a result, and the log that comes with it; returns what it has used."""
        log = outcome.log if isinstance(outcome, ResultRecord) else b""
        said = codec.encode(without_log(outcome))
        used = Used(seconds, len(said) + len(log))
        row = (run, key, said, used.seconds, used.stored)
        with self._lock, self._base:
            self._base.execute("BEGIN")
            self._base.execute("INSERT OR REPLACE INTO result VALUES (?, ?, ?, ?, ?)", row)
            if log:
                self._base.execute("INSERT OR REPLACE INTO log VALUES (?, ?, ?)", (run, key, log))
        return used

    def log(self, run: int, key: str) -> bytes:
        """The log of an answer in Python; empty where there is none."""
        query = "SELECT log FROM log WHERE run = ? AND key = ?"
        with self._lock, closing(self._base.execute(query, (run, key))) as rows:
            found = rows.fetchone()
        return bytes(found[0]) if found else b""

    # -- what is asked ----------------------------------------------------------------------------------------------

    def students(self, run: int) -> list[Handed]:
        query = "SELECT name, number, release, modified FROM student WHERE run = ? ORDER BY name"
        return [
            Handed(name, number, release, datetime.fromisoformat(modified) if modified else None)
            for name, number, release, modified in self._base.execute(query, (run,))
        ]

    def answers(self, run: int, student: str = "") -> list[Answer]:
        """All answers, in order, or those of one student."""
        query = """
            SELECT a.student, a.exercise, a.key, a.note, t.seed, t.text, r.outcome, r.seconds, r.stored FROM answer a
            LEFT JOIN text t ON t.key = a.key LEFT JOIN result r ON r.run = a.run AND r.key = a.key
            WHERE a.run = ? AND (? = '' OR a.student = ?) ORDER BY a.student, a.exercise"""
        with self._lock, closing(self._base.execute(query, (run, student, student))) as rows:
            return [
                Answer(
                    student,
                    exercise,
                    key,
                    note,
                    Task(key, exercise, seed, text) if key else None,
                    codec.decode(Outcome, outcome) if outcome else None,  # type: ignore[arg-type]  # a union
                    Used(seconds or 0.0, stored or 0),
                )
                for student, exercise, key, note, seed, text, outcome, seconds, stored in rows
            ]

    def oddities(self, run: int) -> list[Oddity]:
        query = "SELECT place, text FROM oddity WHERE run = ? ORDER BY place, text"
        return [Oddity(*row) for row in self._base.execute(query, (run,))]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
