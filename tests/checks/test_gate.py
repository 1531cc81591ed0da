"""Gates: both sides, points one by one, guards, and what the starter has already."""

from __future__ import annotations

import time

import pytest

from cudalab.checks.deadline import TimeIsUp, deadline
from cudalab.checks.gate import Gate, earned, worse

TAUGHT = Gate("taught", points=2, most=4, baseline=32)
KEPT = Gate("kept", points=1, most=0, baseline=0)
GUARD = Gate("guard", least=1, most=1.1, look="too much", too_little="too little")
GATES = (TAUGHT, KEPT, GUARD)


def points(taught, kept, guard):
    values = {"taught": taught, "kept": kept, "guard": guard}
    return sum(result.points for result in earned(GATES, {name: (value, "") for name, value in values.items()}))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((4, 0, 1), 3),
        ((4, 2, 1), 2),
        ((32, 0, 1), 0),  # as the starter left it: what it had already earns nothing
        ((4, 0, 0.5), 0),  # bought with too little work
        ((4, 0, 2), 0),  # or with too much
    ],
)
def test_points_are_earned_gate_by_gate(values, expected):
    assert points(*values) == expected


def test_a_gate_that_is_met_and_earns_nothing_says_why():
    def told(taught, kept, guard):
        measured = {"taught": (taught, ""), "kept": (kept, ""), "guard": (guard, "")}
        return [result.worth for result in earned(GATES, measured)]

    assert told(4, 0, 9) == [*(f"0 of {n}, counts once what is required is met" for n in (2, 1)), "required"]
    assert told(9, 0, 1) == ["0 of 2", "0 of 1, the starter has it too: counts once the others are met", "required"]
    assert told(4, 0, 1) == ["2 of 2", "1 of 1", "required"]


def test_a_gate_that_was_not_measured_earns_nothing():
    (result,) = earned(GATES, {"taught": (4, "a case")})
    assert result.met and result.points == 0


@pytest.mark.parametrize(("value", "look"), [(0.5, "too little"), (3, "too much")])
def test_advice_is_that_of_the_side_that_was_missed(value, look):
    (result,) = earned((GUARD,), {"guard": (value, "a case")})
    assert result.look == look and result.advice == ("In the case: a case", f"Look at: {look}")


def test_the_worst_case_counts():
    assert worse(TAUGHT, 9, 5) and not worse(TAUGHT, 2, 5)
    assert worse(GUARD, 0.2, 1.05) and worse(GUARD, 3, 0.9)


@pytest.mark.parametrize(
    ("gate", "text"),
    [(TAUGHT, "at most 4"), (GUARD, "1 to 1.1"), (Gate("", least=3), "at least 3"), (Gate("", least=1, most=1), "1")],
)
def test_bounds_in_words(gate, text):
    assert gate.bounds == text


def test_what_runs_too_long_is_ended_and_what_follows_is_not():
    with pytest.raises(TimeIsUp), deadline(0.02):
        while True:
            pass
    with deadline(60):
        pass
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        pass


def test_code_that_swallows_the_end_is_ended_again():
    with pytest.raises(TimeIsUp), deadline(0.02):
        for _ in range(3):
            try:
                while True:
                    pass
            except KeyboardInterrupt:
                pass
        while True:
            pass
