"""A teacher's own exercises, outside of the package, and numbers of one's own for each student."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cudalab.checks import check
from cudalab.grading import grade_command
from cudalab.grading.bank import Bank, BankError
from tests.checks.answers.answer import solution_of
from tests.grading.handed_in import grade, hand_in, scores

MODULE = '''
import numpy as np

from cudalab.checks.exercise import Exercise

def examine(bench):
    """Sizes that the course does not try."""
    size = bench.between(5000, 6000)
    x = bench.random(size)
    source, out = bench.input("x", x), bench.output("y", (size,), np.float32)
    bench.launch((size // 128 + 2,), (128,), (source, out, np.int32(size)), f"n = {size}")
    bench.expect(out, x[::-1])

MINE = Exercise("04.1", "Guard every size", "reverse", examine, correctness=2, soundness=3)
EXERCISES = [MINE]
TEXT = """%%cuda reverse
extern "C" __global__ void reverse(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[n - 1 - i] = x[i];
}"""
ANSWERS = {"04.1": {
    "right": (5, TEXT),
    "in order": (0, TEXT.replace("n - 1 - i", "i")),
    "for small sizes": (0, TEXT.replace("i < n", "i < n && n < 5000")),
}}
'''
FOR_THE_COURSE = """%%cuda reverse
extern "C" __global__ void reverse(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && (n < 5000 || n > 6000)) y[n - 1 - i] = x[i];
}"""
SETTINGS = 'exercises = ["04.1"]\nseed = 7\nbank = "bank"\nseed_per_student = true\n'


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank" / "mine.py").write_text(MODULE)
    (tmp_path / "lab.toml").write_text(SETTINGS)
    return tmp_path / "lab.toml"


@pytest.mark.timeout(300)
def test_a_bank_takes_the_place_of_the_courses_exercise(settings: Path, tmp_path: Path, bwrap_path: str) -> None:
    """What is made for the course's sizes earns all points in the course, and none here; and each has a seed, and so a
    size, of their own."""
    texts = {"alice": solution_of("04.1"), "bob": solution_of("04.1"), "carol": FOR_THE_COURSE, "dan": FOR_THE_COURSE}
    for student, text in texts.items():
        hand_in(tmp_path / "submitted", student, {"reverse": text})
    assert check("04.1", FOR_THE_COURSE, seed=1).passed
    out = tmp_path / "out"
    assert grade(tmp_path / "submitted", "--out", out, "--settings", settings) == 0
    got = scores(out)
    assert [got[f"{student}/04.1"]["points"] for student in texts] == [5, 5, 0, 0]
    assert len({score["seed"] for score in got.values()}) == 4
    sizes = [re.search(r"n = (\d+)", str(got[f"{student}/04.1"]["parts"])) for student in ("carol", "dan")]
    assert all(sizes) and sizes[0][1] != sizes[1][1]  # type: ignore[index]
    settings.write_text(SETTINGS.replace("seed_per_student = true", ""))
    assert grade(tmp_path / "submitted", "--out", out, "--settings", settings, "--regrade") == 0
    assert len({score["seed"] for score in scores(out).values()}) == 1


@pytest.mark.timeout(300)
def test_a_banks_answers_say_whether_it_is_right(
    settings: Path, capsys: pytest.CaptureFixture[str], bwrap_path: str
) -> None:
    assert grade("--try-bank", "--settings", settings) == 0
    told = capsys.readouterr().out
    assert "04.1 right: 5 of 5, ok." in told and "04.1 for small sizes: 0 of 5, ok. wrong values" in told
    module = settings.parent / "bank" / "mine.py"
    module.write_text(MODULE.replace("bench.expect(out, x[::-1])", "pass"))  # a check that looks at nothing
    assert grade("--try-bank", "--settings", settings) == 3
    assert "04.1 in order: 5 of 5, WRONG, 0 are wanted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("module", "told"), [("EXERCISES = 5", "mine.py fails"), ("1 / 0", "ZeroDivisionError"), ("", "mine.py fails")]
)
def test_a_bank_that_is_none(module: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(module)
    with pytest.raises(BankError, match=told):
        _ = Bank(tmp_path).exercises


def test_a_bank_without_answers_cannot_be_tried(
    settings: Path, capsys: pytest.CaptureFixture[str], bwrap_path: str
) -> None:
    module = settings.parent / "bank" / "mine.py"
    module.write_text(MODULE.partition("ANSWERS")[0])
    assert grade("--try-bank", "--settings", settings) == grade_command.CANNOT
    assert "what it is worth" in capsys.readouterr().err


def test_the_release_tells_one_bank_from_another(settings: Path) -> None:
    before = Bank(settings.parent / "bank").release()
    (settings.parent / "bank" / "mine.py").write_text(MODULE + "\n")
    assert Bank().release() != before != Bank(settings.parent / "bank").release()
