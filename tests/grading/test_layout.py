"""Answers that differ in comments and blanks alone are graded once, and each keeps its own lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from cudalab.checks import find
from cudalab.checks.exercise import Finding, PartResult, Result
from cudalab.checks.gate import GateResult
from cudalab.grading import grader
from cudalab.grading.examiner import Examiner
from cudalab.grading.layout import serves_all, without_layout
from cudalab.grading.messages import Ended, Outcome, Question, ResultRecord, record
from cudalab.grading.store import Store
from tests.grading.handed_in import grade, hand_in, scores

CELL = """%%cuda reverse
#define HALF(n) ((n) / 2)
extern "C" __global__ void reverse(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[n - 1 - i] = x[i] + 0 * 1.5e-3f + (i >> 1 > n);
}
"""
SAME = {
    "a comment": ("    if", "    // who is in\n    if"),
    "a comment within a line": ("(i < n)", "(i /* mine */ < n)"),
    "a comment behind a directive": ("/ 2)", "/ 2)  // half"),
    "an empty line": ("{\n", "{\n\n\n"),
    "tabs": ("    int", "\t\tint"),
    "two statements in a line": (";\n    if", "; if"),
    "a blank around a sign": ("n - 1 - i", "n-1 -i"),
}
OTHER = {
    "a number": ("1.5e-3f", "1.5e-4f"),
    "two numbers for one": ("1.5e-3f", "1.5e -3f"),
    "signs apart": ("i >> 1", "i > > 1"),
    "words apart": ("threadIdx", "thread Idx"),
    "a macro without parameters": ("HALF(n)", "HALF (n)"),
    "what a comment hides": ("    if", "    //\\\n    if"),
    "a comment in a text": ("0 * 1.5e-3f", '0 * sizeof("// a")'),
    "its own line": ("0 * 1.5e-3f", "0 * __LINE__"),
    "another line for that": ("0 * 1.5e-3f", "\n 0 * __LINE__"),
    "the options": ("%%cuda reverse", "%%cuda reverse --std=c++20"),
    "a macro that shows its text": ("((n) / 2)", "#n"),
    "a directive no more": ("\n#define", "\nint a; #define"),
}


def test_layout_makes_no_difference() -> None:
    for name, change in SAME.items():
        text = CELL.replace(*change)
        assert text != CELL and without_layout(text) == without_layout(CELL), name


def test_everything_else_does() -> None:
    texts = {name: without_layout(CELL.replace(*change)) for name, change in OTHER.items()}
    assert len({without_layout(CELL), *texts.values()}) == len(OTHER) + 1
    for open_text, other in (("a  b", "a b"), ("/*", "/**/")):
        pair = [CELL.replace("0 * 1.5e-3f", f'0 * sizeof("{one}")') for one in (open_text, other)]
        assert without_layout(pair[0]) != without_layout(pair[1])


PYTHON = """def send(count, boxes, stream):
    # each box in turn
    for k in range(count):
        if k % 2 == 0 or str(k) == "1":
            boxes[k].set((1.5, -2), stream=stream)
"""
SAME_PYTHON = {
    "a comment": ("        if", "        # who is next\n        if"),
    "a comment gone": ("    # each box in turn\n", ""),
    "a comment behind": ("(count):", "(count):  # all of them"),
    "empty lines": ("\n", "\n\n  \n"),
    "another indent": ("\n    ", "\n      "),
    "blanks": ("k % 2", "k%2"),
    "a line broken": ("(1.5,", "(1.5,\n        # and\n"),
    "a line joined": ("or ", "or \\\n "),
    "no end of the last line": ("=stream)\n", "=stream)"),
}
OTHER_PYTHON = {
    "another sign": ("-2", "+2"),
    "another number": ("1.5", "1.50"),
    "words apart": ("boxes", "box es"),
    "two lines": ("boxes[k]", "boxes; [k]"),
    "what a text holds": ('"1"', '"1 "'),
    "an f-string": ("str(k)", 'f"{k}"'),
    "what an f-string holds": ("str(k)", 'f"{k = }"'),
    "what is within": ("            boxes", "    boxes"),
    "its own line": ("-2", "sys._getframe().f_lineno"),
    "another line for that": ("-2", "\nsys._getframe().f_lineno"),
    "a null in a comment": ("in turn", "in\0turn"),
    "a comment that Python ends": ("in turn", "in\rturn"),
    "no Python": ("(count, ", "((count, "),
    "a sign that there is not": ("1.5", "1.5 $"),
}


def test_layout_makes_no_difference_in_python() -> None:
    for name, change in SAME_PYTHON.items():
        text = PYTHON.replace(*change)
        assert text != PYTHON and without_layout(text) == without_layout(PYTHON), name


def test_everything_else_does_in_python() -> None:
    texts = {name: without_layout(PYTHON.replace(*change)) for name, change in OTHER_PYTHON.items()}
    assert len({without_layout(PYTHON), *texts.values()}) == len(OTHER_PYTHON) + 1


def test_a_kernel_as_a_literal_keeps_what_is_in_it() -> None:
    cell = "reverse = cp.RawKernel('a  b', 'reverse')  # mine"
    assert without_layout(cell) == without_layout(cell.replace("  # mine", ""))
    assert without_layout(cell) != without_layout(cell.replace("a  b", "a b"))


def _result(*findings: Finding, points: float = 3) -> Outcome:
    gate = find("04.2").gates[0]
    measured = (GateResult(gate, 9.0, "n = 9"),)
    parts = (
        PartResult("correctness", points, 3, tuple(one for one in findings if one.part == "correctness")),
        PartResult("soundness", 0, 0, tuple(one for one in findings if one.part == "soundness")),
        PartResult("efficiency", 0, 1, (Finding("efficiency", gate.name, "9"),), gates=measured),
    )
    return record(Result("04.2", "", parts, 1))


def test_only_outcomes_without_lines_serve_all() -> None:
    values, bounds = (
        Finding("correctness", "wrong values", "y[3] is 4"),
        Finding("soundness", "out of bounds", "4 bytes"),
    )
    assert serves_all(_result(), CELL) and serves_all(_result(values), CELL)
    assert not serves_all(_result(bounds), CELL)
    assert not serves_all(_result(Finding("correctness", "does not compile", "line 3: expected a ;")), CELL)
    assert not serves_all(Ended("time", "it took more than 120 s"), CELL)
    assert serves_all(_result(values, bounds), PYTHON)
    assert not serves_all(_result(Finding("soundness", "hazard", "answer.py, line 7: d.set(x)")), PYTHON)
    assert not serves_all(Ended("crash", "exit status 1"), PYTHON)


@pytest.mark.parametrize("lines", [False, True], ids=["no lines", "lines"])
@pytest.mark.parametrize("kind", ["kernel", "Python"])
def test_an_answer_is_asked_for_once_where_its_verdict_serves_all(
    kind: str, lines: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    outcome = _result(*([Finding("soundness", "out of bounds", "line 7")] if lines else []))
    assert isinstance(outcome, ResultRecord)

    def ask(self: Examiner, question: Question) -> Outcome:
        asked.append(question.text)
        return replace(outcome, log=b"of this text")

    monkeypatch.setattr(Examiner, "ask", ask)
    cell, same, other = (CELL, SAME, ("n - 1", "n")) if kind == "kernel" else (PYTHON, SAME_PYTHON, ("-2", "+2"))
    texts = [cell, *(cell.replace(*change) for change in same.values()), cell.replace(*other)]
    tasks = [grader.task("04.1", text, 1) for text in texts]
    store, done = Store(tmp_path / "grades.sqlite"), list[None]()
    run = store.begin("1-abc")
    grader.grade(
        store,
        run,
        tasks,
        jobs=2,
        under=grader.Conditions(),
        cache=tmp_path / "cache",
        told=lambda: done.append(None),
    )
    assert set(store.done(run)) == {task.key for task in tasks} and len(done) == len(tasks)
    assert len(asked) == (len(texts) if lines else 2) and len(set(asked)) == len(asked)
    assert {task.text for task in tasks if store.log(run, task.key)} == set(asked)  # a log is of one text
    store.close()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_each_keeps_its_own_lines(tmp_path: Path, bwrap_path: str) -> None:
    wrong = CELL.replace("if (i < n) ", "")
    texts = {
        "alice": wrong,
        "bob": wrong.replace("{\n", "{\n\n\n"),
        "carol": CELL,
        "dave": CELL.replace("{\n", "{\n\n"),
    }
    for student, text in texts.items():
        hand_in(tmp_path / "submitted", student, {"reverse": text})
    (tmp_path / "lab.toml").write_text('exercises = ["04.1"]\nseed = 1\n')
    assert grade(tmp_path / "submitted", "--out", tmp_path / "out", "--settings", tmp_path / "lab.toml") == 0
    found = scores(tmp_path / "out")
    points = [found[f"{student}/04.1"]["points"] for student in texts]
    assert points[0] == points[1] < points[2] == points[3] == 3
    feedback = [(tmp_path / "out" / "feedback" / f"{student}.html").read_text() for student in ("alice", "bob")]
    lines = [set(re.findall(r"line (\d+)", text)) for text in feedback]
    assert lines[0] and lines[1] == {str(int(line) + 2) for line in lines[0]}
