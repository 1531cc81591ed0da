"""Instructions of the machine code against those that Nsight Compute counted on an H200."""

from __future__ import annotations

import pytest

from tests.sim.machine.counters.hardware_counters import PROGRAMS, RECORDED, counts_of

UNLIKE = ("lanes take turns", "ragged loops")
"""Lanes that go round a loop on different ways: the hardware has them converge later than the counters do."""


@pytest.mark.turns(of=2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_instructions_are_those_that_the_hardware_executed(name: str) -> None:
    counts, theirs = counts_of(name), RECORDED["counters"][name]["smsp__inst_executed.sum"]
    assert counts.machine.known, counts.machine.missing
    assert (counts.metrics["smsp__inst_executed.sum"] == theirs) == (name not in UNLIKE)
    assert counts.machine.instructions == pytest.approx(theirs, rel=0.02)
