"""In each run: the five cheats against every exercise, and the answers that once got what they should not have.

A wrong answer is tried until it is refused for what it is to be refused for: what comes behind in its check can take
that back no more. Right ones, and in other runs these too (``test_exercises.py``), are tried to the end.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from cudalab.checks import BENCHES, Exercise, Result, check, exercises, find
from cudalab.checks.answer import read_answer
from cudalab.checks.gate import Gate
from tests import slices
from tests.checks.answers.answer import Answer, solution_of
from tests.checks.answers.every import BY_NAME, IN_EACH_RUN
from tests.checks.answers.generic import CHEATS, KINDS, NAMED, NO_WAIT, No
from tests.checks.test_exercises import compare

ALL = exercises()


class _Refused(BaseException):
    """What the answer is refused for has been found."""


def _until_refused(answer: Answer) -> Result:
    """The result of a check that ends when the answer is refused for good, for what is asked for; otherwise of a whole
    one. A finding stays. So does a gate that is missed, as long as nothing is wrong: the case in which it is missed is
    taken to its end."""
    exercise = find(answer.exercise)
    if answer.right or answer.mistake:
        return check(answer.exercise, answer.text, seed=1)

    class Ending(BENCHES[exercise.answer]):  # type: ignore[name-defined, misc]
        missed = False

        def find(self, part: str, rule: str, *given: Any, **named: Any) -> None:
            super().find(part, rule, *given, **named)
            if (part, rule) == (answer.part, answer.rule):
                raise _Refused

        def measure(self, gate: Gate, value: float) -> None:
            super().measure(gate, value)
            self.missed = self.missed or (gate.name == answer.rule and not gate.holds(value))

        def case(self, *given: Any, **named: Any) -> Any:
            self.begin()
            return super().case(*given, **named)

        def launch(self, *given: Any, **named: Any) -> None:
            self.begin()
            super().launch(*given, **named)

        def begin(self) -> None:
            if self.missed and self.fine:
                raise _Refused

    bench = Ending(exercise, read_answer(answer.text, exercise.answer), seed=1)
    with suppress(_Refused):
        bench.run()
    result: Result = bench.result()
    return result


@pytest.mark.parametrize("answer", slices.cases(IN_EACH_RUN, kind=str, ids=str))
def test_it_gets_its_verdict(answer: Answer) -> None:
    compare(answer, _until_refused(answer))


@pytest.mark.parametrize("exercise", ALL, ids=lambda exercise: exercise.id)
def test_each_exercise_has_each_cheat_or_says_why_there_is_none(exercise: Exercise) -> None:
    for kind, cheat in zip(KINDS, CHEATS[exercise.id], strict=True):
        if isinstance(cheat, No):
            assert kind in cheat.kinds and cheat.of == exercise.answer, (kind, cheat.reason)
            assert cheat is not NO_WAIT or "__syncthreads" not in solution_of(exercise.id)
        else:
            assert not BY_NAME[exercise.id, cheat].right, cheat


def test_the_cheats_are_those_of_the_exercises() -> None:
    assert list(CHEATS) == [exercise.id for exercise in ALL]
    assert {(exercise, name) for exercise, names in NAMED.items() for name in names} <= BY_NAME.keys()


def test_a_check_that_ends_early_says_the_same() -> None:
    """And it does end: one that goes on would find more."""
    answer = BY_NAME["03.2", "nothing"]
    early, whole = _until_refused(answer), check("03.2", answer.text, seed=1)
    compare(answer, early)
    compare(answer, whole)
    assert len(early.findings) < len(whole.findings)


def test_a_right_answer_is_not_taken_for_a_cheat() -> None:
    """With nothing to end it, an early end is none, and the verdict is not what a cheat's has to be."""
    answer = Answer("04.1", "right all the same", source=solution_of("04.1"), part="correctness", rule="wrong values")
    with pytest.raises(AssertionError):
        compare(answer, _until_refused(answer))
