"""Results survive whatever ends the grader, and how they are made leaves no trace in them."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cudalab.checks import PartResult, Result, find
from cudalab.grading import grader
from cudalab.grading.limits import Used
from cudalab.grading.messages import Ended, Refused, record
from cudalab.grading.scores import sheets
from cudalab.grading.settings import Settings
from cudalab.grading.store import Store, StoreError
from cudalab.grading.submissions import Submission
from tests.checks.answers.answer import ROOT, solution_of
from tests.grading.handed_in import CACHE, grade, hand_in, scores


def _filled(path: Path) -> tuple[Store, int]:
    store = Store(path)
    run = store.begin("1-abc")
    tasks = {(student, "04.1"): grader.task("04.1", "text", 1) for student in ("alice", "bob")}
    store.hand_in(run, [Submission("alice"), Submission("bob")], tasks, {("bob", "04.2"): grader.MISSING}, [])
    return store, run


def test_what_was_kept_is_there_after_a_new_start(tmp_path: Path) -> None:
    store, run = _filled(tmp_path / "grades.sqlite")
    key = grader.task("04.1", "text", 1).key
    store.keep(run, key, Ended("time", "too long"), 1.0)
    store.close()
    again = Store(tmp_path / "grades.sqlite")
    assert (again.latest(), again.finished(run), set(again.done(run))) == (run, False, {key})
    assert [answer.outcome for answer in again.answers(run)] == [Ended("time", "too long")] * 2 + [None]
    assert [answer.exercise for answer in again.answers(run, "bob")] == ["04.1", "04.2"]
    again.close()


def test_a_new_run_keeps_the_results_of_the_old(tmp_path: Path) -> None:
    store, run = _filled(tmp_path / "grades.sqlite")
    key = grader.task("04.1", "text", 1).key
    store.keep(run, key, Refused("no"), 1.0)
    assert store.done(store.begin("2-def")) == {} and set(store.done(run)) == {key}
    store.close()


def test_the_seed_is_drawn_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "grades.sqlite")
    drawn = store.seed(None)
    assert store.seed(None) == drawn and store.seed(7) == 7 == store.seed(None)
    store.close()


def test_only_the_teacher_can_read_it(tmp_path: Path) -> None:
    _filled(tmp_path / "out" / "grades.sqlite")[0].close()
    assert (tmp_path / "out" / "grades.sqlite").stat().st_mode & 0o77 == 0


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "grades.sqlite"
    with sqlite3.connect(path) as base:
        base.execute("PRAGMA user_version = 99")
    base.close()
    with pytest.raises(StoreError, match="another version"):
        Store(path)


def test_seeds_differ_by_exercise_and_by_student() -> None:
    seeds = {grader.seed_of(1, exercise, student) for exercise in ("04.1", "04.2") for student in ("", "alice", "bob")}
    assert len(seeds) == 6 and grader.seed_of(1, "04.1") == grader.seed_of(1, "04.1") == 1970173294


def test_what_all_questions_of_a_submission_use_is_bounded(tmp_path: Path) -> None:
    """Mallory's questions have used up their time with the second; what Bob shares with Mallory is graded for Bob."""
    store = Store(tmp_path / "grades.sqlite")
    run = store.begin("1-abc")
    tasks = {("mallory", f"04.{n}"): grader.task(f"04.{n}", "while (1);", 1) for n in (1, 2, 3, 4)}
    tasks["bob", "04.3"] = tasks["mallory", "04.3"]
    store.hand_in(run, [Submission("bob"), Submission("mallory")], tasks, {}, [])
    budget = grader.Budget(tasks, {}, Used(seconds=200, stored=1 << 20))
    for number in (1, 2):
        key = tasks["mallory", f"04.{number}"].key
        assert budget.wants(key)
        budget.add(key, store.keep(run, key, Ended("time", "it took more than 120 s"), 121.0))
    assert budget.wants(tasks["bob", "04.3"].key) and not budget.wants(tasks["mallory", "04.4"].key)

    result = Result("04.3", "", (PartResult("correctness", 3, 3),), 1)
    for number in (3, 4):
        store.keep(run, tasks["mallory", f"04.{number}"].key, record(result), 1.0)
    exercises = {f"04.{n}": find(f"04.{n}") for n in (1, 2, 3, 4)}
    bob, mallory = sheets(store, run, exercises, Settings(), Used(seconds=200, stored=1 << 20))
    assert bob.points > 0 and mallory.points == 0
    assert [score.state for score in mallory.scores] == ["ended"] * 4
    assert "before it have used 242 s; 200 s are allowed for all" in mallory.scores[2].note
    store.close()
    assert "MB of output and logs" in Used(stored=2 << 20).beyond(Used(seconds=1, stored=1 << 20))


LAB = """
exercises = ["04.1", "08.1", "08.5"]
seed = 3
[rubric]
essay = 4
[marks."student 1"]
essay = 3
"""
"""A kernel, a function that uses the device, one that predicts, and a text that the teacher has marked."""


def _class(folder: Path) -> Path:
    """Six students, with two or three answers to each exercise between them: right, wrong, ended, and left out."""
    kernel, upload, hazards = map(solution_of, ("04.1", "08.1", "08.5"))
    kernels = [kernel, kernel.replace("n - 1 - i", "n - i"), kernel + "\n// by myself"]
    uploads = [upload, upload.replace("x.nbytes", "len(x)"), "def upload(*given):\n    import os\n    os._exit(0)\n"]
    for number in range(6):
        student = f"student {number}"
        hand_in(folder, student, {"reverse": kernels[number % 3]})
        if number:
            later = {"upload": uploads[number % 3], "hazards": hazards if number % 2 else "hazards = None"}
            hand_in(folder, student, later, "08")
    return folder


def _lab(folder: Path) -> tuple[str, str]:
    (folder / "lab.toml").write_text(LAB)
    return "--settings", str(folder / "lab.toml")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_order_and_number_of_workers_make_no_difference(tmp_path: Path, bwrap_path: str) -> None:
    folder, settings = _class(tmp_path / "submitted"), _lab(tmp_path)
    found: list[dict[str, Any]] = []
    for name, sources, jobs in (("a", [folder], "1"), ("b", sorted(folder.iterdir(), reverse=True), "3")):
        assert grade(*sources, "--out", tmp_path / name, *settings, "--jobs", jobs) == 0
        found.append(scores(tmp_path / name))
    assert found[0] == {
        f"student {number}/{exercise}": found[1][f"student {number}/{exercise}"]
        for number in range(6)
        for exercise in ("04.1", "08.1", "08.5")
    }
    assert {score["state"] for score in found[0].values()} == {"graded", "missing"}
    points = [found[0][f"student 1/{exercise}"]["points"] for exercise in ("04.1", "08.1", "08.5")]
    assert points[0] == 0 and points[2] == 4 and found[0]["student 0/04.1"]["points"] == 3


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_ten_times_it_gives_the_same_scores_each_once(tmp_path: Path, bwrap_path: str) -> None:
    folder, settings = _class(tmp_path / "submitted"), _lab(tmp_path)
    assert grade(folder, "--out", tmp_path / "whole", *settings) == 0
    command = [sys.executable, "-m", "cudalab", "grade", str(folder), "--out", str(tmp_path / "out"), *settings]
    kept: dict[str, Any] = {}
    for number in range(10):
        process = subprocess.Popen(
            [*command, "--cache", str(CACHE), "--resume"],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ,
        )
        time.sleep(0.5 + 1.1 * number)
        process.send_signal(signal.SIGKILL)
        process.wait()
        now = _results(tmp_path / "out")
        assert kept.items() <= now.items()
        kept = now
    assert grade(folder, "--out", tmp_path / "out", *settings, "--resume") == 0
    assert scores(tmp_path / "out") == scores(tmp_path / "whole")
    assert kept.items() <= _results(tmp_path / "out").items()
    assert set(_results(tmp_path / "out")) == set(_results(tmp_path / "whole"))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_interrupted_it_says_so_and_goes_on(tmp_path: Path, bwrap_path: str) -> None:
    """As by Ctrl-C, in the middle of the class."""
    folder, settings = _class(tmp_path / "submitted"), _lab(tmp_path)
    command = [sys.executable, "-m", "cudalab", "grade", str(folder), "--out", str(tmp_path / "out"), *settings]
    process = subprocess.Popen([*command, "--cache", str(CACHE), "--jobs", "1"], cwd=ROOT, env=os.environ)
    while process.poll() is None and not _results(tmp_path / "out"):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    kept = _results(tmp_path / "out")
    assert kept and grade(folder, "--out", tmp_path / "out", *settings, "--resume") == 0
    assert kept.items() <= _results(tmp_path / "out").items()
    assert {score["state"] for score in scores(tmp_path / "out").values()} == {"graded", "missing"}


def _results(out: Path) -> dict[str, Any]:
    """What the store has of each answer, with the time that it took: another if it had been graded again."""
    if not (out / "grades.sqlite").exists():
        return {}
    store = Store(out / "grades.sqlite")
    try:
        return dict(store.done(store.latest()))
    finally:
        store.close()


def test_a_regrade_that_was_interrupted_still_says_what_differs(
    tmp_path: Path, bwrap_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alice's answer is another by then; the run in between came to no end."""
    submitted, out = tmp_path / "submitted", tmp_path / "out"
    (tmp_path / "lab.toml").write_text('exercises = ["04.1"]\nseed = 1\n')
    hand_in(submitted, "alice", {"reverse": "%%cuda reverse\n"})
    arguments = (submitted, "--out", out, "--settings", tmp_path / "lab.toml")
    assert grade(*arguments) == 0
    store = Store(out / "grades.sqlite")
    store.begin(store.release(store.latest()))
    store.close()
    hand_in(submitted, "alice", {"reverse": solution_of("04.1")})
    for how in ("--resume", "--regrade"):
        capsys.readouterr()
        assert grade(*arguments, how) == 0
        assert ("alice/04.1" in capsys.readouterr().out) == (how == "--resume")
