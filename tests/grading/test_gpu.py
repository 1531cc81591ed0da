"""Correctness on a GPU; the simulated device's CuPy stands for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cudalab.checks import check, find
from cudalab.checks.answer import Answer, read_answer
from cudalab.checks.exercise import Result
from cudalab.checks.session import simulated
from cudalab.grading.gpu import on_gpu
from cudalab.sim import cupy
from tests.checks.answers.answer import solution_of


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    """A device of its own, which a test may lose."""
    with simulated():
        yield


def _both(on_the_gpu: str, exercise: str = "04.1") -> tuple[Result, Result]:
    """The solution's result, and what becomes of it when the GPU runs another text."""
    first = check(exercise, solution_of(exercise), seed=1)
    answer: Answer = read_answer(on_the_gpu)
    return first, on_gpu(first, find(exercise), answer, cupy, time_limit=30)


@pytest.mark.parametrize("exercise", ["04.1", "04.3"])
def test_a_right_kernel_keeps_its_points(exercise: str) -> None:
    first, second = _both(solution_of(exercise), exercise)
    assert second is first and first.passed


def test_a_kernel_that_is_wrong_there_loses_them() -> None:
    _, second = _both(solution_of("04.1").replace("n - 1 - i", "i"))
    assert second.points == 0 and "on the GPU: y[0]" in second.findings[0].text


def test_an_error_there_is_told() -> None:
    _, second = _both(solution_of("04.1").replace("y[n - 1 - i]", "y[(1 << 28) + i]"))
    assert second.points == 0 and "cudaErrorIllegalAddress" in second.findings[0].text


def test_what_the_simulated_device_refused_never_gets_there() -> None:
    wrong = check("04.1", "%%cuda reverse\n", seed=1)
    assert on_gpu(wrong, find("04.1"), Answer(), None, time_limit=30) is wrong
