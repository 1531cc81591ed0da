"""Instructions of the machine code against those that Nsight Compute counted on an H200."""

from __future__ import annotations

import pytest

from tests.sim.machine.counters.hardware_counters import PROGRAMS, RECORDED, counts_of


@pytest.mark.parametrize("name", PROGRAMS)
def test_instructions_are_those_that_the_hardware_executed(name: str) -> None:
    counts, theirs = counts_of(name), RECORDED["counters"][name]["smsp__inst_executed.sum"]
    assert counts.machine.known, counts.machine.missing
    assert counts.metrics["smsp__inst_executed.sum"] == theirs


INDEPENDENT_LANES = ("ragged loops", "histogram")
"""Lanes that go round a loop as often as they have to: which of them are then together is not known."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_active_are_those_of_the_hardware(name: str) -> None:
    """By the machine code: a branch that the assembler predicated takes no lanes away."""
    counts, theirs = counts_of(name), RECORDED["counters"][name]["smsp__thread_inst_executed.sum"]
    assert (counts.metrics["smsp__thread_inst_executed.sum"] == theirs) == (name not in INDEPENDENT_LANES)
    assert counts.machine.thread_instructions == pytest.approx(theirs, rel=0.05)


def test_lanes_at_work_are_counted_by_the_machine_code() -> None:
    found = RECORDED["counters"]["reduction"]
    ratio = found["smsp__thread_inst_executed.sum"] / found["smsp__inst_executed.sum"]
    assert counts_of("reduction").thread_efficiency == ratio / 32
