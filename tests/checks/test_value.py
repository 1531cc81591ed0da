"""Plain values as answers, and what is said where there are no points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cudalab.checks.answer import read_answer
from cudalab.checks.bench import Known
from cudalab.checks.exercise import Exercise, Result
from cudalab.checks.value import ValueBench
from cudalab.sim import cupy


def checked(value: object, right: Any, **details: Any) -> Result:
    exercise = Exercise(
        "99.size", "Find the size", "size", lambda bench: bench.expect(right, **details), answer="value"
    )
    return ValueBench(exercise, read_answer(value, "value"), seed=1).run()


@pytest.mark.parametrize(
    ("value", "right"),
    [
        (3, 3),
        (3, 3.0),
        ((1, 2), [1, 2]),
        (np.float32(0.5), 0.5),
        ("cudaSuccess", "cudaSuccess"),
        (["a", "b"], ("a", "b")),
        (np.arange(6).reshape(2, 3), [[0, 1, 2], [3, 4, 5]]),
    ],
    ids=repr,
)
def test_a_right_value_is_done(value: object, right: Any) -> None:
    assert str(checked(value, right)) == "99.size Find the size: done"


def test_an_array_of_the_device_is_a_value() -> None:
    assert checked(cupy.arange(3), [0, 1, 2]).passed


@pytest.mark.parametrize(
    ("value", "right", "rule", "text"),
    [
        (4, 3, "wrong values", "size is 4, which is not right"),
        (3.1, 3, "wrong values", "size is 3.1, which is not right"),
        ((1, 3), (1, 2), "wrong values", "size is (1, 3), which is not right in 1 of its 2 places"),
        (1, (1, 2), "wrong shape", "size is one value; wanted is 2 values"),
        ((1, 2, 3), (1, 2), "wrong shape", "size is 3 values; wanted is 2 values"),
        (None, 3, "no value", "size is None; wanted is a number"),
        (..., (1, 2), "no value", "size is Ellipsis; wanted is numbers"),
        ("3", 3, "no value", "size is '3'; wanted is a number"),
        (3, "three", "no value", "size is 3; wanted is a text"),
        ([[1], [2, 3]], (1, 2), "no value", "size is [[1], [2, 3]]; wanted is numbers"),
    ],
    ids=repr,
)
def test_a_wrong_value_says_what_is_wrong(value: object, right: Any, rule: str, text: str) -> None:
    result = checked(value, right)
    assert [(finding.rule, finding.text) for finding in result.findings] == [(rule, text)]
    assert str(result).split("\n")[0] == "99.size Find the size: not yet"


def test_within_the_tolerance_is_right_and_a_known_mistake_is_named() -> None:
    known = (Known("bytes, not elements", 4 * np.array([10, 20])),)
    assert checked((10.05, 20), (10, 20), tolerance=0.01).passed
    result = checked((40, 80), (10, 20), tolerance=0.01, known=known, look="the unit")
    assert "This looks like a known mistake: bytes, not elements" in str(result)
    assert "Look at: the unit" in str(result)


def test_a_result_without_points_speaks_of_none() -> None:
    for value, state, word in ((3, "good", "done"), (4, "wrong", "not yet")):
        html = checked(value, 3)._repr_html_()
        assert f"data-state='{state}'" in html and word in html and "point" not in html
