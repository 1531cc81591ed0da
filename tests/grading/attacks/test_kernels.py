"""Kernels that attack: a class hands them in, beside one student who has it right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cudalab.checks.answer import read_answer
from cudalab.checks.bench import KernelBench
from cudalab.checks.exercise import Exercise
from cudalab.checks.work import LOADED, Needs
from cudalab.sim.abi import Status
from cudalab.sim.compiler import compile
from cudalab.sim.device.profile import load
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.sanitizer.sanitize import check_launch
from cudalab.sim.machine.trace.recorder import Tracer
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
        void* first = malloc(SIZE);
        free(first);
        counted = true;
        for (int k = 0; k < 16; k++) {
            void* next = malloc(SIZE);
            counted = counted && next != first;
            free(next);
        }
    }
    __syncthreads();
    int i = threadIdx.x;
    volatile const float* from = x;
    y[i] = counted ? from[i] : from[i] + from[i];
}
"""
"""Loads once and writes another value while it is counted, loads twice and is right otherwise: if it knows, by whether
the heap gives freed memory again."""


def test_what_is_counted_is_what_is_compared() -> None:
    result = KernelBench(EXERCISE, read_answer(TELLS_RUNS_APART.replace("SIZE", "1 << 20")), seed=1).run()
    (finding,) = [one for one in result.findings if one.part == "correctness"]
    assert result.points == 0 and finding.text.startswith("while its work is counted, y[0] is "), str(result)


WHERE = """extern "C" __global__ void where(int bit) {
    void* mine = malloc(SIZE);
    free(malloc(SIZE));
    if ((unsigned long long)mine >> bit & 1) __trap();
    free(mine);
}
"""


@pytest.mark.parametrize("size", [64, 1 << 20])
def test_what_the_sanitizer_sees_is_what_is_counted(size: int) -> None:
    """The heap gives a run that is taken back the addresses of the one before: the kernel traps in both, or in none."""
    memory = Memory(64 << 20)
    kernel = Module(compile(WHERE.replace("SIZE", str(size))), memory, load().launch_limits).kernel("where")
    for bit in range(8, 24):
        launch = kernel.launch((1,), (1,), bit.to_bytes(4, "little"), 0)
        seen = any(finding.rule == "trap" for finding in check_launch(launch, time_limit=3).findings)
        with Tracer(launch) as tracer:
            assert (tracer.run(0).status == Status.FAULT) == seen, bit
