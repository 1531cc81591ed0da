"""The grader's compiled code: its own alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cudalab.grading.examiner import Examiner, NotPrivate, private_cache
from cudalab.grading.limits import Limits
from cudalab.grading.messages import Question, ResultRecord
from tests.checks.answers.answer import ROOT, solution_of

EMPTY = '%%cuda reverse\nextern "C" __global__ void reverse(const float* x, float* y, int n) {}'


def test_the_secret_is_made_once_and_is_nobody_elses(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    secret = private_cache(folder)
    assert len(secret) == 32 and private_cache(folder) == secret != private_cache(tmp_path / "other")
    assert {path.stat().st_mode & 0o77 for path in (folder, tmp_path / "cache.secret")} == {0}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "cache.secret", "other", "other.secret"]


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    os.chmod(tmp_path / "cache", 0o777)
    with pytest.raises(NotPrivate, match="others can write there"):
        private_cache(tmp_path / "cache")


_QUESTION = """
import os, sys
from cudalab.grading import question, template
from cudalab.grading.limits import Limits
from cudalab.grading.messages import Question
from tests.checks.answers.answer import solution_of
import tests.grading.handed_in
bank, text = template.prepared(None), solution_of("04.1")
before = set(sys.modules)
assert question.grade(Question("04.1", text, 1, Limits()), bank.find("04.1")).result().passed
print(sorted(set(sys.modules) - before))
"""


@pytest.mark.long
def test_a_question_imports_nothing() -> None:
    """Each is forked from its template, which has loaded all of it once."""
    done = subprocess.run([sys.executable, "-c", _QUESTION], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.long
def test_entries_of_another_grader_are_not_taken(tmp_path: Path, bwrap_path: str) -> None:
    """The solution's code, under the names that the empty kernel's has in the grader's own folder, and all of another
    grader's entries as they are: neither gives a point."""
    folders = [tmp_path / "mine", tmp_path / "theirs"]

    def points(folder: Path, text: str) -> float:
        examiner = Examiner(folder)
        try:
            outcome = examiner.ask(Question("04.1", text, 1, Limits()))
        finally:
            examiner.stop()
        assert isinstance(outcome, ResultRecord), outcome
        return outcome.result().points

    assert points(folders[0], EMPTY) == 0 and points(folders[1], solution_of("04.1")) == 3
    mine, theirs = ([path for path in folder.glob("*/*") if path.is_file()] for folder in folders)
    assert len(mine) >= 3 and len(theirs) >= 3
    largest = max(theirs, key=lambda path: path.stat().st_size)
    for path in mine:
        path.write_bytes(largest.read_bytes())
    for path in theirs:
        target = folders[0] / path.parent.name / path.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    assert points(folders[0], EMPTY) == 0 and points(folders[0], solution_of("04.1")) == 3
    kept = {path: path.read_bytes() for path in folders[0].glob("*/*")}
    assert points(folders[0], solution_of("04.1")) == 3
    assert kept == {path: path.read_bytes() for path in folders[0].glob("*/*")}  # and nothing was compiled again
