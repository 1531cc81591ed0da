"""Are a bank's own exercises as good as they should be? Its answers, right and wrong, are graded and compared.

A module of the bank may say what answers to its exercises are worth, mistakes among them: those that a check has to
refuse say more about it than those that it has to take::

    ANSWERS = {
        "90.1": {
            "right": (4, RIGHT),                                        # points, and the cell
            "no guard": (0, RIGHT.replace("if (i < n) ", "")),
        }
    }
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from cudalab.checks.exercise import Exercise
from cudalab.grading.bank import Bank, BankError
from cudalab.grading.examiner import Examiner
from cudalab.grading.grader import seed_of
from cudalab.grading.messages import Outcome, Question, ResultRecord
from cudalab.grading.reports.tables import printable


def try_bank(args: argparse.Namespace, exercises: Mapping[str, Exercise], bank: Bank, folder: Path | None) -> int:
    """Grade the bank's answers to ``exercises``, and print what each has earned; 3 where one gets other points than the
    bank says. ``BankError`` where there are none."""
    known = {name: bank.answers[name] for name in exercises if name in bank.answers}
    if not known:
        raise BankError("the bank says of no answer what it is worth: its modules have no ANSWERS")
    examiner, wrong = Examiner(args.cache, folder), 0
    try:
        for exercise, answers in known.items():
            for name, (points, text) in answers.items():
                seed = seed_of(args.seed or 0, exercise)
                limits = args.under.limits
                got, why = _told(
                    examiner.ask(Question(exercise, text, seed, limits, args.under.gpu, args.under.jailed))
                )
                wrong += got != points
                mark = "ok" if got == points else f"WRONG, {points:g} are wanted"
                print(
                    printable(f"{exercise} {name}: {got:g} of {exercises[exercise].maximum:g}, {mark}. {why}".strip())
                )
    finally:
        examiner.stop()
    return 3 if wrong else 0


def _told(outcome: Outcome) -> tuple[float, str]:
    """Points, and the rules that an answer breaks."""
    if not isinstance(outcome, ResultRecord):
        return 0.0, outcome.text
    result = outcome.result()
    return result.points, ", ".join(dict.fromkeys(finding.rule for finding in result.findings))
