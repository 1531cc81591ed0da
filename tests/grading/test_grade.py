"""`cudalab grade`, from folders to scores: one class, graded once, and everything that is said of it."""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from cudalab.checks import check
from cudalab.grading import grade_command
from cudalab.grading.examiner import Examiner
from cudalab.grading.messages import Outcome, Question, ResultRecord
from cudalab.sim.compiler.processes import jail
from tests.checks.answers.answer import solution_of
from tests.grading.handed_in import grade, hand_in, scores

WRONG = """%%cuda reverse
extern "C" __global__ void reverse(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i]; // </pre><script>alert(1)</script>
}"""
NO_WAIT = """def send(count, fill, boxes, d, stream):
    for k in range(count):
        box = boxes[k % len(boxes)]
        fill(box, k)
        d[k].set(box, stream=stream)
"""
SETTINGS = """
title = "Lab 1"
exercises = ["04.1"]
seed = 7
deadline = 2026-11-20T12:00:00+00:00
points = { "04.1" = 30 }
late = { percent_per_day = 10, grace_minutes = 5 }
rubric = { essay = 5 }
marks = { alice = { essay = 4 } }
extensions = { bob = 2026-11-30T12:00:00+00:00 }
submitted = { alice = 2026-11-21T13:00:00+00:00, bob = 2026-11-21T13:00:00+00:00 }
students = { alice = { name = "Alice Ampere", email = "alice@example.org", number = "77" } }
"""


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """Alice and Bob have it right, with the same text; Carol has it wrong; Dan handed in nothing."""
    folder = tmp_path / "submitted"
    for student, text in {"alice": solution_of("04.1"), "bob": solution_of("04.1"), "carol": WRONG}.items():
        hand_in(folder, student, {"reverse": text})
    (folder / "dan").mkdir()
    (folder / "dan" / "notes.ipynb").write_text('{"cells": [], "nbformat": 4}')
    (tmp_path / "lab.toml").write_text(SETTINGS)
    return folder


def test_a_lab_is_graded(lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Graded, refused without --resume, gone on with, explained and repeated, graded again without a difference."""
    out, settings = tmp_path / "out", ("--settings", tmp_path / "lab.toml")
    assert grade(lab, "--out", out, *settings, "--jobs", "1") == 0
    got = scores(out)
    assert {name: (one["points"], one["state"]) for name, one in got.items()} == {
        "alice/04.1": (30, "graded"),
        "bob/04.1": (30, "graded"),
        "carol/04.1": (0, "graded"),
        "dan/04.1": (0, "missing"),
    }
    _same_as_in_the_notebook(got["carol/04.1"])
    with sqlite3.connect(out / "grades.sqlite") as base:
        assert base.execute("SELECT count(*) FROM result").fetchone() == (2,)  # equal answers are run once
    rows = {row[0]: row[1:] for line in capsys.readouterr().out.splitlines() if (row := line.split())}
    assert rows["alice"] == ["30", "2", "d", "28", "35"]  # of 30 points two days took a fifth, and 4 are by hand
    assert rows["bob"] == ["30", "30", "35"]  # an extension
    _columns(out)
    page = (out / "feedback" / "carol.html").read_text(encoding="utf-8")
    assert "<script>" not in page and "&lt;/pre&gt;&lt;script&gt;" in page and "copied in order, not reversed" in page

    assert grade(lab, "--out", out, *settings) == grade_command.CANNOT
    assert "--resume goes on" in capsys.readouterr().err
    hand_in(lab, "erin", {"reverse": "import os\nos._exit(0)"})
    assert grade(lab, "--out", out, *settings, "--resume", "--only", "erin") == 0
    assert "no kernel" in str(scores(out)["erin/04.1"]) and scores(out)["alice/04.1"] == got["alice/04.1"]
    assert grade("--out", out, *settings, "--explain", "carol/04.1", "--again") == 0
    told = capsys.readouterr().out
    assert "Repeated: the same result" in told and WRONG.splitlines()[3] in told


def _same_as_in_the_notebook(score: dict[str, Any]) -> None:
    result = check("04.1", WRONG, seed=score["seed"])
    assert [one["text"] for part in score["parts"] for one in part["findings"]] == [f.text for f in result.findings]


def _columns(out: Path) -> None:
    canvas = list(csv.reader((out / "canvas.csv").read_text(encoding="utf-8").splitlines()))
    assert canvas[0][-1] == "Lab 1" and canvas[1][-1] == "35"
    assert canvas[2] == ["Alice Ampere", "77", "", "alice@example.org", "", "28"]
    moodle = list(csv.DictReader((out / "moodle.csv").read_text(encoding="utf-8").splitlines()))
    assert moodle[0]["Identifier"] == "Participant 77" and moodle[0]["Grade"] == "28"


def test_without_a_jail_nothing_is_graded(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither without the program nor with a kernel that gives it no namespaces: `bwrap()` is empty for both."""
    monkeypatch.setattr(jail, "bwrap", lambda: "")
    assert grade(lab, "--out", tmp_path / "out") == grade_command.CANNOT
    told = capsys.readouterr().err
    assert "NO JAIL" in told and "add --no-jail" in told and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "name what to grade"),
        (("nowhere",), "No such file"),
        ((".", "--jobs", "0"), "are positive"),
        (("--explain", "alice/04.1"), "there are no grades"),
        ((".", "--resume", "--regrade"), "not allowed with"),
    ],
)
def test_a_command_line_that_cannot_be(
    arguments: tuple[str, ...], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], bwrap_path: str
) -> None:
    try:
        code = grade(*arguments, "--out", tmp_path / "out")
    except SystemExit as stop:
        code = int(str(stop.code))
    assert code in (1, 2) and text in capsys.readouterr().err


def test_answers_in_python_are_graded(
    tmp_path: Path, bwrap_path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is right, one that forgot to wait, and one that ends its process: that costs it this question alone.
    Graded again, their logs are replayed."""
    folder, right = tmp_path / "submitted", solution_of("11.2")
    hand_in(folder, "alice", {"send": right}, "11")
    hand_in(folder, "bob", {"send": NO_WAIT}, "11")
    hand_in(folder, "mallory", {"send": "import os\n" + right.replace("for k", "os._exit(0)\n    for k")}, "11")
    (tmp_path / "lab.toml").write_text('exercises = ["11.2"]\nseed = 1\n')
    assert grade(folder, "--out", tmp_path / "out", "--settings", tmp_path / "lab.toml", "--jobs", "1") == 0
    earned = {"alice/11.2": 4, "bob/11.2": 0, "mallory/11.2": 0}
    assert {name: score["points"] for name, score in scores(tmp_path / "out").items()} == earned

    replayed = []
    ask = Examiner.ask

    def asked(examiner: Examiner, question: Question) -> Outcome:
        outcome = ask(examiner, question)
        replayed.append(isinstance(outcome, ResultRecord) and outcome.replayed)
        return outcome

    monkeypatch.setattr(Examiner, "ask", asked)
    settings = ("--out", tmp_path / "out", "--settings", tmp_path / "lab.toml")
    assert grade(folder, *settings, "--jobs", "1", "--regrade") == 0
    assert {name: score["points"] for name, score in scores(tmp_path / "out").items()} == earned
    assert sorted(replayed) == [False, True, True]  # what ended its process has no log
    assert "no score differs" in capsys.readouterr().out
    assert grade(*settings, "--explain", "bob/11.2") == 0
    assert "What it called, by the grader's log" in capsys.readouterr().out
