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


def _class(folder: Path) -> Path:
    """Six students with five answers between them."""
    for number in range(5):
        text = solution_of("04.1") + f"\n// {number}"
        hand_in(folder, f"student {number}", {"reverse": text if number % 2 else text.replace("n - 1 - i", "n - i")})
    hand_in(folder, "student 5", {"reverse": solution_of("04.1") + "\n// 1"})
    return folder


@pytest.mark.long
@pytest.mark.timeout(600)
def test_order_and_number_of_workers_make_no_difference(tmp_path: Path, bwrap_path: str) -> None:
    folder = _class(tmp_path / "submitted")
    (tmp_path / "lab.toml").write_text('exercises = ["04.1"]\nseed = 3\n')
    settings = ("--settings", tmp_path / "lab.toml")
    found: list[dict[str, Any]] = []
    for name, sources, jobs in (("a", [folder], "1"), ("b", sorted(folder.iterdir(), reverse=True), "3")):
        assert grade(*sources, "--out", tmp_path / name, *settings, "--jobs", jobs) == 0
        found.append(scores(tmp_path / name))
    assert found[0] == {f"student {number}/04.1": score for number, score in enumerate(_in_order(found[1]))}


def _in_order(found: dict[str, Any]) -> list[Any]:
    return [found[name] for name in sorted(found)]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_ten_times_it_gives_the_same_scores(tmp_path: Path, bwrap_path: str) -> None:
    folder = _class(tmp_path / "submitted")
    (tmp_path / "lab.toml").write_text('exercises = ["04.1"]\nseed = 3\n')
    arguments = ["--settings", str(tmp_path / "lab.toml"), "--cache", str(CACHE)]
    assert grade(folder, "--out", tmp_path / "whole", "--settings", tmp_path / "lab.toml") == 0
    command = [sys.executable, "-m", "cudalab", "grade", str(folder), "--out", str(tmp_path / "out"), *arguments]
    for number in range(10):
        process = subprocess.Popen(
            [*command, "--resume"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
        )
        time.sleep(0.5 + 1.1 * number)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert grade(folder, "--out", tmp_path / "out", "--settings", tmp_path / "lab.toml", "--resume") == 0
    assert scores(tmp_path / "out") == scores(tmp_path / "whole")
