"""Writes what a grading gives: the table, files for programs and platforms, a page for each learner."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cudalab.checks.exercise import Exercise
from cudalab.grading import scores
from cudalab.grading.limits import TOGETHER
from cudalab.grading.reports import similarity, tables
from cudalab.grading.reports.feedback import feedback
from cudalab.grading.settings import Settings
from cudalab.grading.store import Store


def write(
    store: Store,
    run: int,
    before: int,
    exercises: Mapping[str, Exercise],
    settings: Settings,
    args: argparse.Namespace,
) -> int:
    """Write everything about a run into ``args.out`` and print the table; returns the exit code."""
    out: Path = args.out
    together = replace(TOGETHER, seconds=args.submission_seconds)
    sheets = scores.sheets(store, run, exercises, settings, together)
    release, oddities = store.release(run), store.oddities(run)
    pairs = similarity.pairs(sheets)
    _save(out / "scores.csv", tables.scores_csv(sheets, release))
    _save(out / "scores.json", tables.scores_json(sheets, release, oddities))
    _save(out / "canvas.csv", tables.canvas_csv(sheets, settings))
    _save(out / "moodle.csv", tables.moodle_csv(sheets, settings))
    _save(out / "similarity.csv", tables.similarity_csv(pairs))
    for sheet in sheets:
        _save(out / "feedback" / f"{sheet.student}.html", feedback(sheet, settings, release))
    print(tables.table(sheets))
    look = [f"{score.id}: {score.note}" for sheet in sheets for score in sheet.scores if score.state in _TO_SEE]
    look += [str(oddity) for oddity in oddities]
    look = [tables.printable(line.partition("\n")[0]) for line in look]
    _save(out / "teacher.txt", "".join(f"{line}\n" for line in [*look, *map(str, pairs)]))
    if look:
        print(f"\nTo look at, {len(look)} ({out / 'teacher.txt'}):")
        print("\n".join(f"  {line}" for line in look[:_SHOWN]))
    if pairs:
        print(f"\nSimilar kernels, pairs: {len(pairs)} ({out / 'similarity.csv'}). {similarity.WORTH}")
    if before:
        differ = scores.changes(scores.sheets(store, before, exercises, settings, together), sheets)
        print("\nAgainst the grading before:", *(f"  {line}" for line in differ or ["no score differs"]), sep="\n")
    if args.gradebook:
        from cudalab.grading.reports.gradebook import export

        export(sheets, args.gradebook, args.assignment or settings.title)
        print(f"\nnbgrader's gradebook has the scores of {args.assignment or settings.title}.")
    print(f"\nSeed {store.seed(None)}, release {release}. Everything is in {out}/.")
    return 3 if look else 0


_TO_SEE = ("ended", "not graded", "waiting")
_SHOWN = 20


def _save(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    os.replace(temporary, path)
