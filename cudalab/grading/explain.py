"""How one score came about, for an appeal: the answer, the verdict, the seed, and the command that repeats it."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from cudalab.checks.exercise import Exercise
from cudalab.grading.examiner import Examiner
from cudalab.grading.limits import Limits
from cudalab.grading.messages import ResultRecord, without_log
from cudalab.grading.reports.tables import printable
from cudalab.grading.scores import score
from cudalab.grading.settings import Settings
from cudalab.grading.store import Answer, Store, StoreError
from cudalab.grading.worker.log import called


def explain(args: argparse.Namespace, settings: Settings, exercises: Mapping[str, Exercise], bank: Path | None) -> int:
    """Print what is known of the score ``args.explain``; with ``args.again`` repeat it. Returns the exit code."""
    path = args.out / "grades.sqlite"
    if not path.is_file():
        raise StoreError(f"there are no grades in {args.out}")
    store = Store(path)
    try:
        student, _, name = args.explain.rpartition("/")
        found = [one for one in store.answers(store.latest(), student) if one.exercise == name]
        if not student or not found or name not in exercises:
            raise StoreError(f"there is no score {args.explain!r}; it is STUDENT/EXERCISE, as in alice/04.2")
        log = store.log(store.latest(), found[0].key)
        return _tell(args, found[0], exercises[name], settings, bank, store.release(store.latest()), log)
    finally:
        store.close()


def _tell(
    args: argparse.Namespace,
    answer: Answer,
    exercise: Exercise,
    settings: Settings,
    bank: Path | None,
    release: str,
    log: bytes,
) -> int:
    given = score(answer, exercise, settings)
    print(f"{given.id}: {given.points:g} of {given.maximum:g}, {given.state}. Release {release}.")
    if given.note:
        print(_shown(given.note))
    if answer.task is None:
        return 0
    print(f"\nThe answer ({answer.key}):\n{_shown(answer.task.text)}\n")
    if isinstance(answer.outcome, ResultRecord):
        print(_shown(str(answer.outcome.result())))
    if log:
        print("\nWhat it called, by the grader's log:")
        print(_shown("\n".join(f"  {line}" for line in called(log, Limits.log))))
    settings_words = f" --settings {shlex.quote(str(args.settings))}" if args.settings else ""
    command = f"python -m cudalab grade --out {shlex.quote(str(args.out))}{settings_words} --explain "
    print(f"\nSeed {answer.task.seed}. This repeats it:\n  {command}{shlex.quote(given.id)} --again")
    if not args.again:
        return 0
    examiner = Examiner(args.cache, bank)
    try:
        outcome = examiner.ask(args.under.question(answer.task))
    finally:
        examiner.stop()
    if without_log(outcome) == answer.outcome:
        print("\nRepeated: the same result.")
        return 0
    print("\nRepeated: another result.", file=sys.stderr)
    print(_shown(str(outcome.result() if isinstance(outcome, ResultRecord) else outcome)), file=sys.stderr)
    return 3


def _shown(text: str) -> str:
    """What a student wrote, without what the teacher's terminal would obey."""
    return "\n".join(printable(line.replace("\t", "    ")) for line in text.split("\n"))
