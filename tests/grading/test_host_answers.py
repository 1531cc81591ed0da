"""Answers in Python earn in the grader what they earn in the notebook, and no answer earns more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cudalab.checks import Exercise, Result, check, exercises, find
from cudalab.grading import host_answer
from cudalab.grading.examiner import Examiner
from cudalab.grading.host_answer import run_host_answer
from cudalab.grading.limits import Limits
from cudalab.grading.messages import Question, ResultRecord
from tests import slices
from tests.checks.answers.answer import Answer, solution_of
from tests.checks.answers.every import ANSWERS
from tests.grading.handed_in import CACHE

FUNCTIONS = [exercise for exercise in exercises() if exercise.answer == "function"]


@pytest.fixture(autouse=True, scope="module")
def _template(bwrap_path: str) -> Iterator[None]:
    yield
    host_answer.close()


def graded(exercise: str, text: str) -> Result:
    return run_host_answer(find(exercise), text, seed=1, limits=Limits()).result


@pytest.fixture(scope="module")
def examiner(bwrap_path: str) -> Iterator[Examiner]:
    made = Examiner(CACHE)
    yield made
    made.stop()


def asked(examiner: Examiner, exercise: str, text: str) -> Result:
    """The same in processes of its own, as in a class."""
    outcome = examiner.ask(Question(exercise, text, 1, Limits()))
    assert isinstance(outcome, ResultRecord), outcome
    return outcome.result()


def test_boxes_filled_without_waiting_earn_nothing() -> None:
    """Everything that the log of a learner's own process says can be forged, and with the log alone this earned all
    points."""
    answer = next(answer for answer in ANSWERS if str(answer) == "11.2 no wait at all")
    result = graded("11.2", answer.text)
    assert result.points == 0
    (hazard,) = [finding for finding in result.findings if finding.rule == "hazard"]
    assert "answer.py, line 7: d[k].set(box, stream=stream)" in hazard.text


_ON_ANOTHER_DEVICE = """
from cudalab.sim.device.device import Device
from cudalab.sim.device.error import CudaError
def codes(calls):
    device, names = Device(), []
    ways = {
        "cudaGetDeviceCount()": lambda: 0,
        "cudaSetDevice(99)": lambda: device.set_device(99),
        "cudaMalloc(4)": lambda: 0 * device.malloc(4),
        "cudaDeviceSynchronize()": device.synchronize,
        "cudaPeekAtLastError()": device.peek_at_last_error,
        "cudaGetLastError()": device.get_last_error,
        "launch wild": lambda: vars(device.state).update(lost=CudaError(cudart.cudaError_t.cudaErrorIllegalAddress)),
    }
    for call in calls:
        try:
            code = ways[call]() or 0
        except CudaError as error:
            code = error.code
        names.append(cudart.cudaError_t(int(code)).name)
    return names
"""


def test_an_answer_that_makes_a_device_to_try_it_earns_nothing() -> None:
    """Neither here nor in the notebook: that would tell the codes without a rule of its own, past the check's watch."""
    result, checked = graded("03.4", _ON_ANOTHER_DEVICE), check("03.4", _ON_ANOTHER_DEVICE, seed=1)
    assert result.points == checked.points == 0
    assert str(result) == str(checked) and "and gets no other, line 5: device" in str(result), str(result)


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.id)
def test_a_solution_earns_all_points(exercise: Exercise, examiner: Examiner) -> None:
    result = asked(examiner, exercise.id, solution_of(exercise.id))
    assert result.passed and result.points == result.maximum, str(result)
    assert str(result) == str(check(exercise.id, solution_of(exercise.id), seed=1))


ASKED = [answer for answer in ANSWERS if find(answer.exercise).answer == "function"]


@pytest.mark.parametrize(
    "answer", slices.cases(ASKED, kind=lambda answer: "right" if answer.right else "wrong", ids=str)
)
def test_an_answer_earns_what_it_earns_in_the_notebook(answer: Answer, examiner: Examiner) -> None:
    result, checked = asked(examiner, answer.exercise, answer.text), check(answer.exercise, answer.text, seed=1)
    assert result.points == checked.points, str(result)
    if answer.right:
        assert result.passed


def test_threads_that_follow_one_another_are_told_apart() -> None:
    """The system gives the identifier of one that has ended to the next."""
    one_by_one = solution_of("03.2").replace("thread.start()", "thread.start(); thread.join()", 1)
    assert graded("03.2", one_by_one).passed


@pytest.mark.long
def test_questions_come_one_after_the_other_whatever_became_of_the_one_before(tmp_path: Path) -> None:
    """Each in a process of its own, all of them with workers of the same template."""
    ends = "def send(*given):\n    import os\n    os._exit(3)"
    hangs = "def send(*given):\n    while True: pass"
    right = solution_of("11.2")
    examiner = Examiner(tmp_path)
    try:
        points = []
        for text, seconds in ((right, 60.0), (ends, 60.0), (right, 60.0), (hangs, 4.0), (right, 60.0)):
            outcome = examiner.ask(Question("11.2", text, 1, Limits(seconds=seconds)))
            assert isinstance(outcome, ResultRecord), outcome
            points.append(outcome.result().points)
    finally:
        examiner.stop()
    assert points == [4, 0, 4, 0, 4]
