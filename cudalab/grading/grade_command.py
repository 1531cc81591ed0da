"""``python -m cudalab grade``: the score of record, from what students hand in.

Exit status: 0 when everything was graded; 3 when it was, but the teacher has to look at something (an answer that is
not graded, or was ended; something odd in a submission); 1 when grading is not possible; 2 for a wrong command line;
130 when it was interrupted. What is finished is kept: --resume goes on.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from platformdirs import user_cache_path
from tqdm import tqdm

from cudalab.checks.exercise import Exercise
from cudalab.grading import grader
from cudalab.grading.bank import Bank, BankError
from cudalab.grading.bank_trial import try_bank
from cudalab.grading.explain import explain
from cudalab.grading.limits import TOGETHER, Limits
from cudalab.grading.reports import results
from cudalab.grading.settings import Settings, SettingsError, load
from cudalab.grading.store import Store, StoreError
from cudalab.grading.submissions import Submission, collect
from cudalab.installation.gpu_probe import NoGpu, probe
from cudalab.sim.compiler.processes import jail

NO_JAIL = """
!!! NO JAIL: this machine has no working bwrap (bubblewrap), or its kernel gives no user namespaces.
!!! Answers that are Python would run with the rights of your account: they could read and change your files,
!!! the gradebook and other submissions, and reach the network. Kernels are compiled without one wall of two.
!!! Install bubblewrap (`apt install bubblewrap`) and allow user namespaces"""
CANNOT = 1
CACHE = user_cache_path("cudalab-grader", appauthor=False)
"""Of all labs: what was compiled for one is there for the next."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m cudalab grade", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("sources", nargs="*", type=Path, metavar="FOLDER|ZIP|IPYNB", help="what was handed in")
    made.add_argument("--out", type=Path, default=Path("grades"), help="folder for all results (default: grades)")
    made.add_argument("--settings", type=Path, default=None, metavar="TOML", help="deadlines, points, bank, …")
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="questions at a time (default: one a core)")
    made.add_argument("--seed", type=int, default=None, help="of all inputs and shapes (default: the store's)")
    how = made.add_mutually_exclusive_group()
    how.add_argument("--resume", action="store_true", help="go on with what is in the folder, new submissions included")
    how.add_argument("--regrade", action="store_true", help="grade all again, and say which scores differ")
    made.add_argument("--afresh", action="store_true", help="with --regrade: run Python again, instead of its log")
    how.add_argument("--explain", default="", metavar="STUDENT/EXERCISE", help="say how a score came about")
    how.add_argument(
        "--try-bank", action="store_true", help="grade the bank's own answers: are they worth what it says?"
    )
    made.add_argument("--again", action="store_true", help="with --explain: repeat the score, and say whether it holds")
    made.add_argument("--only", action="append", default=[], metavar="STUDENT|EXERCISE", help="grade only these")
    made.add_argument("--seconds", type=float, default=Limits.seconds, help="for one question (default: %(default)g)")
    made.add_argument(
        "--submission-seconds",
        type=float,
        default=TOGETHER.seconds,
        help="for all questions of a submission together (default: %(default)g)",
    )
    made.add_argument("--cache", type=Path, default=CACHE, help="folder for compiled code (default: %(default)s)")
    made.add_argument("--device", choices=["sim", "gpu"], default="sim", help="gpu: kernels run there, too")
    made.add_argument("--no-jail", action="store_true", help="go on without bwrap; read what it says first")
    made.add_argument("--gradebook", default="", metavar="URL", help="nbgrader's, e.g. sqlite:///gradebook.db")
    made.add_argument("--assignment", default="", help="with --gradebook: its name there (default: the title)")
    return made


def main(arguments: Sequence[str]) -> int:
    """Run ``grade``; returns the exit code."""
    top = parser()
    args = top.parse_args(arguments)
    args.under = grader.Conditions(Limits(seconds=args.seconds), args.device == "gpu", not args.no_jail)
    if not (args.sources or args.explain or args.try_bank):
        top.error("name what to grade: folders, ZIP archives or notebooks")
    if args.seconds <= 0 or args.jobs < 1:
        top.error("--seconds and --jobs are positive")
    if not jail.bwrap():
        print(NO_JAIL, file=sys.stderr)
        if not args.no_jail:
            print("!!! or, if you accept that, add --no-jail. Nothing was graded.", file=sys.stderr)
            return CANNOT
        print("!!! --no-jail was given: going on.", file=sys.stderr)
    if args.device == "gpu" and isinstance(found := probe(), NoGpu):
        print(f"grade: --device gpu: {found.reason}", file=sys.stderr)
        return CANNOT
    try:
        settings = load(args.settings)
        folder = (args.settings.parent / settings.bank).resolve() if args.settings and settings.bank else None
        bank = Bank(folder)
        exercises = {name: bank.find(name) for name in settings.exercises} or dict(bank.exercises)
        if args.explain:
            return explain(args, settings, exercises, folder)
        if args.try_bank:
            return try_bank(args, exercises, bank, folder)
        return _grade(args, settings, exercises, bank, folder)
    except (SettingsError, BankError, StoreError, OSError) as error:
        print(f"grade: {error}", file=sys.stderr)
        return CANNOT


def _grade(
    args: argparse.Namespace, settings: Settings, exercises: dict[str, Exercise], bank: Bank, folder: Path | None
) -> int:
    submissions, oddities = collect(args.sources, grader.wanted(bank.exercises))
    if not submissions:
        print("grade: there is no notebook in what was handed in", file=sys.stderr)
        return CANNOT
    if not settings.exercises:
        exercises = _handed_in(submissions, exercises)
    unknown = [one for one in args.only if one not in submissions and one not in exercises]
    if unknown:
        print(f"grade: --only {unknown[0]}: neither a student nor an exercise of this lab", file=sys.stderr)
        return 2
    store = Store(args.out / "grades.sqlite")
    try:
        run, before = _run(store, args, bank.release())
        seed = store.seed(args.seed if args.seed is not None else settings.seed)
        plan = grader.plan(submissions, exercises, seed, per_student=settings.seed_per_student, only=args.only)
        store.hand_in(run, submissions.values(), plan.tasks, plan.notes, oddities)
        tasks = {task.key: task for task in plan.tasks.values()}
        done = store.done(run)
        left = [task for key, task in tasks.items() if key not in done]
        with tqdm(total=len(tasks), initial=len(tasks) - len(left), unit="answer", desc="grading") as bar:
            grader.grade(
                store,
                run,
                left,
                jobs=args.jobs,
                under=args.under,
                cache=args.cache,
                bank=folder,
                budget=grader.Budget(plan.tasks, done, replace(TOGETHER, seconds=args.submission_seconds)),
                before=0 if args.afresh else before,
                told=bar.update,
            )
        store.finish(run)
        return results.write(store, run, before, exercises, settings, args)
    finally:
        store.close()


def _handed_in(submissions: Mapping[str, Submission], exercises: Mapping[str, Exercise]) -> dict[str, Exercise]:
    """The exercises that anybody has an answer cell of."""
    names = {name for one in submissions.values() for name in (*one.answers, *one.unclear)}
    return {key: exercise for key, exercise in exercises.items() if key in names}


def _run(store: Store, args: argparse.Namespace, release: str) -> tuple[int, int]:
    """The run that results belong to, and the one that it is compared with, 0 if none."""
    latest = store.latest()
    if latest and args.regrade:
        run = store.begin(release)
        return run, store.finished_before(run) or latest
    if latest and not (args.resume or args.only):
        raise StoreError(
            f"{args.out} has grades already: --resume goes on with them, --regrade grades all again and says what "
            "differs, --out names another folder"
        )
    if latest and store.release(latest) != release:
        raise StoreError(
            f"the grades in {args.out} were made by release {store.release(latest)}, and this is {release}: the "
            "checks, or the bank, have changed. --regrade grades all again and says what differs"
        )
    if latest and not store.finished(latest):  # --regrade was interrupted, perhaps
        return latest, store.finished_before(latest)
    return (latest or store.begin(release)), 0
