"""Random programs: what is reported is what a brute-force oracle finds, and nothing where all is ordered."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalab.sim.device import Device
from cudalab.sim.machine.memory.allocations import Memory
from tests.hazards.order import (
    Plan,
    Record,
    Sync,
    Touch,
    Wait,
    plans,
    repaired,
    reported_pairs,
    shared_plans,
    unordered_pairs,
)

SOME, MANY = 60, 3000
_memory = Memory()


def report(plan: Plan) -> set[tuple[int, int]]:
    device = Device(memory=_memory)
    try:
        return reported_pairs(plan, device)
    finally:
        _memory.free_all()


def reported_iff_unordered(plan: Plan) -> None:
    expected, found = expectation(plan), report(plan)
    assert found <= expected, f"false alarms: {sorted(found - expected)}"
    assert bool(found) == bool(expected), f"missed all of {sorted(expected)}"


def expectation(plan: Plan) -> set[tuple[int, int]]:
    """What may be reported: the host's touches are not told apart."""
    return {(one, -1 if isinstance(plan.steps[other], Touch) else other) for one, other in unordered_pairs(plan)}


def silent_until_a_wait_is_deleted(plan: Plan, data: st.DataObject) -> None:
    plan = repaired(plan, data)
    assert report(plan) == set()
    for index, step in enumerate(plan.steps):
        if isinstance(step, (Wait, Record, Sync)) and unordered_pairs(shorter := plan.without(index)):
            found = report(shorter)
            assert found and found <= expectation(shorter), f"without step {index}"


@settings(max_examples=SOME, deadline=None)
@given(plans())
def test_a_program_is_reported_exactly_if_two_of_its_operations_are_unordered(plan: Plan) -> None:
    reported_iff_unordered(plan)


@settings(max_examples=SOME, deadline=None)
@given(plans(most=10), st.data())
def test_a_correct_program_is_silent_and_each_needed_wait_is_missed_when_deleted(
    plan: Plan, data: st.DataObject
) -> None:
    silent_until_a_wait_is_deleted(plan, data)


@settings(max_examples=SOME, deadline=None)
@given(shared_plans())
def test_memory_that_the_host_touches_too(plan: Plan) -> None:
    reported_iff_unordered(plan)


@settings(max_examples=SOME // 2, deadline=None)
@given(shared_plans(most=8), st.data())
def test_correct_programs_that_touch_memory_of_the_device(plan: Plan, data: st.DataObject) -> None:
    silent_until_a_wait_is_deleted(plan, data)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=MANY, deadline=None)
@given(st.one_of(plans(most=30), shared_plans(most=30)))
def test_many_programs(plan: Plan) -> None:
    reported_iff_unordered(plan)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=MANY // 3, deadline=None)
@given(st.one_of(plans(most=16), shared_plans(most=16)), st.data())
def test_many_correct_programs(plan: Plan, data: st.DataObject) -> None:
    silent_until_a_wait_is_deleted(plan, data)
