"""Every kernel of the tables of right and wrong answers earns in the grader what it earns in the notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudalab.checks import Exercise, check, exercises
from tests.checks.answers.every import ANSWERS
from tests.grading.handed_in import grade, hand_in, scores

KERNELS = [exercise for exercise in exercises() if exercise.answer == "kernel"]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("exercise", KERNELS, ids=lambda exercise: exercise.id)
def test_a_kernel_earns_what_it_earns_in_the_notebook(exercise: Exercise, tmp_path: Path, bwrap_path: str) -> None:
    handed = {f"student {number}": one for number, one in enumerate(a for a in ANSWERS if a.exercise == exercise.id)}
    for student, answer in handed.items():
        text = answer.text if answer.text.startswith("%%cuda") else f"%%cuda {exercise.kernel}\n{answer.text}"
        hand_in(tmp_path / "submitted", student, {exercise.kernel: text}, exercise.id[:2])
    (tmp_path / "lab.toml").write_text(f'exercises = ["{exercise.id}"]\nseed = 1\n')
    assert grade(tmp_path / "submitted", "--out", tmp_path / "out", "--settings", tmp_path / "lab.toml") == 0
    for name, score in scores(tmp_path / "out").items():
        answer = handed[name.partition("/")[0]]
        result = check(exercise.id, answer.text, seed=score["seed"])
        assert (score["points"], score["state"]) == (result.points, "graded"), f"{answer}: {result}"
        assert answer.right == (score["points"] == score["maximum"]), answer
