"""Kernels that attack: a class hands them in, beside one student who has it right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cudalab.checks.answer import read_answer
from cudalab.checks.bench import KernelBench
from cudalab.checks.exercise import Exercise
from cudalab.checks.work import LOADED, Needs
from tests.grading.attacks.kernels import ATTACKS, RIGHT, SECRET
from tests.grading.handed_in import grade, hand_in, scores


@pytest.mark.parametrize("aim", ATTACKS)
def test_they_earn_nothing_and_harm_nobody(aim: str, tmp_path: Path, bwrap_path: str) -> None:
    """Each gets a verdict, or is ended, and no mistake of the grader's; nothing is read, nothing written."""
    secret, folder, out = tmp_path / "secret.txt", tmp_path / "submitted", tmp_path / "out"
    secret.write_text(SECRET)
    for name, text in ATTACKS[aim].items():
        hand_in(folder, name, {"reverse": text.replace("{secret}", str(secret)).replace("{folder}", str(tmp_path))})
    hand_in(folder, "zoe", {"reverse": RIGHT})
    (tmp_path / "lab.toml").write_text('exercises = ["04.1"]\nseed = 1\n')
    before = _contents(folder)
    assert grade(folder, "--out", out, "--settings", tmp_path / "lab.toml", "--seconds", "20") in (0, 3)
    got = {name.partition("/")[0]: score for name, score in scores(out).items()}
    earned = {name: score for name, score in got.items() if score["points"]}
    assert list(earned) == ["zoe"] and got["zoe"]["points"] == 3, earned or got["zoe"]
    odd = {name: score["note"] for name, score in got.items() if score["state"] not in ("graded", "ended")}
    assert not odd and got.keys() == {*ATTACKS[aim], "zoe"}
    assert _contents(folder) == before and secret.read_text() == SECRET
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab.toml", "out", "secret.txt", "submitted"]
    written = [path for path in out.rglob("*") if path.suffix in (".csv", ".json", ".html", ".txt")]
    assert written and not any(SECRET in path.read_text(encoding="utf-8") for path in written)


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.ipynb")}


def _doubled(bench: KernelBench) -> None:
    values = bench.random(64)
    x, y = bench.input("x", values), bench.output("y", (64,), np.float32)
    bench.launch((1,), (64,), (x, y), "64 numbers", needs=Needs(256, 256, 8))
    bench.expect(y, 2 * values)


EXERCISE = Exercise("99.2", "Twice", "twice", _doubled, correctness=1, gates=(LOADED.of(2),))
TELLS_RUNS_APART = """%%cuda twice
extern "C" __global__ void twice(const float* x, float* y) {
    __shared__ bool counted;
    if (threadIdx.x == 0) {
        void* mine = malloc(64);
        counted = ((unsigned long long)mine >> BIT & 1) == VALUE;
        free(mine);
    }
    __syncthreads();
    int i = threadIdx.x;
    volatile const float* from = x;
    y[i] = counted ? from[i] : from[i] + from[i];
}
"""
"""Loads once and writes another value while it is counted, loads twice and is right otherwise: if it knows."""


@pytest.mark.parametrize("value", [0, 1])
def test_what_is_counted_is_what_is_compared(value: int) -> None:
    """The heap gives other addresses in each run: for one of the bits it is so, and that bit earns nothing either."""
    seen = set()
    for bit in range(6, 13):
        answer = read_answer(TELLS_RUNS_APART.replace("BIT", str(bit)).replace("VALUE", str(value)))
        result = KernelBench(EXERCISE, answer, seed=1).run()
        seen |= {finding.text.partition(",")[0] for finding in result.findings if finding.rule == "wrong values"}
        assert result.points <= EXERCISE.correctness, str(result)
    assert any("counted" in one for one in seen), seen
