"""The same scores on every machine: those of a fixed lab are stored with the processors that they came out on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cudalab.checks import find
from cudalab.grading.examiner import Examiner
from tests import slices
from tests.grading import fixed_lab

KNOWN: dict[str, Any] = json.loads(fixed_lab.STORED.read_text(encoding="utf-8"))
EXERCISES = sorted({one["exercise"] for one in KNOWN["lab"]})


@pytest.fixture(scope="module")
def examiner(bwrap_path: str) -> Iterator[Examiner]:
    made = Examiner(fixed_lab.CACHE)
    yield made
    made.stop()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "exercise", slices.cases(EXERCISES, kind=lambda exercise: find(exercise).answer, ids=lambda name: name)
)
def test_scores_are_those_of_the_machines_before(exercise: str, examiner: Examiner) -> None:
    """By part, rule and gate, to the last count."""
    lab = [one for one in KNOWN["lab"] if one["exercise"] == exercise]
    for one, now in zip(lab, fixed_lab.graded(examiner, lab), strict=True):
        where = f"{exercise} {one['name']}: here {fixed_lab.machine()}, before {KNOWN['machines']}"
        assert now == one["score"], f"{where}. After a change to its check: {fixed_lab.__doc__}"


def test_the_stored_lab_has_all_kinds() -> None:
    """Right, wrong and cheating answers to each exercise, and at least two kinds of processor."""
    for exercise in EXERCISES:
        points = [one["score"]["points"] for one in KNOWN["lab"] if one["exercise"] == exercise]
        assert points.count(find(exercise).maximum) >= 2 and points.count(0) >= 2, exercise
    assert {find(exercise).answer for exercise in EXERCISES} == {"kernel", "function"}
    assert len({one["processor"] for one in KNOWN["machines"]}) >= 2
    assert all(one["processor"] and one["level"] and one["date"] for one in KNOWN["machines"])
