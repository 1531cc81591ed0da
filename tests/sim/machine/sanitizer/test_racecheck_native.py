"""Native shadow cells against the exact engines, on random kernels: the same findings, none missed and none more."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.abi import SHARED_WINDOW, WINDOW_SIZE
from cudalab.sim.machine.sanitizer.happens_before.detector import VectorClockDetector
from cudalab.sim.machine.sanitizer.sanitize import check_launch
from cudalab.sim.machine.trace.batch import timed
from cudalab.sim.machine.trace.recorder import Tracer
from tests.sim.machine.sanitizer.random_races import Arena, Sample, sample

FAST, LONG = 6, 400


@pytest.fixture(scope="module")
def arena() -> Arena:
    return Arena()


def compare(arena: Arena, drawn: Sample) -> None:
    kernel, args = arena.load(drawn)
    found = []
    for exact in (False, True):
        checked = check_launch(kernel.launch(drawn.grid, drawn.block, args), exact=exact)
        found.append(sorted((f.tool, f.rule, f.headline, f.line, f.count) for f in checked.findings))
    assert found[0] == found[1], drawn.source
    assert racing(arena, drawn) == {entry[2].split("__")[1] for entry in found[1] if entry[1] == "race"}, drawn.source


def racing(arena: Arena, drawn: Sample) -> set[str]:
    """The oracle: which kinds of memory have a race, by vector clocks over every record of the trace."""
    kernel, args = arena.load(drawn)
    detector = VectorClockDetector(kernel.kernel, drawn.block)
    with Tracer(kernel.launch(drawn.grid, drawn.block, args), variant="sanitize_trace") as tracer:
        for block in range(drawn.grid):
            records = tracer.run(block).records
            everything = np.ones(len(records), np.bool_)
            detector.follow(block, timed(records, everything, np.zeros(drawn.block, np.int64)))
    spaces = (SHARED_WINDOW <= each.address < SHARED_WINDOW + WINDOW_SIZE for each in detector.conflicts)
    return {"shared" if shared else "global" for shared in spaces}


@pytest.mark.parametrize("seed", range(FAST))
def test_random_kernels(arena: Arena, seed: int) -> None:
    compare(arena, sample(seed, fine=seed % 2 == 1))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_random_kernels(arena: Arena) -> None:
    for seed in range(FAST, LONG):
        compare(arena, sample(seed, fine=seed % 2 == 1))


def test_the_samples_race_and_do_not(arena: Arena) -> None:
    """Seeds are worth something only if both kinds are among them."""
    racy = set()
    for seed in (0, 1, 2, 3):
        kernel, args = arena.load(sample(seed))
        racy.add(bool(check_launch(kernel.launch(1, 32, args), tools=["racecheck"]).findings))
    assert racy == {True, False}
