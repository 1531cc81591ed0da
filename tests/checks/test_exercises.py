"""Every exercise: the solution earns all points, the starter not, and each mutant is rejected for the right reason."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import nbformat
import pytest

import cudalab.checks
from cudalab.checks import Exercise, Mutant, check, exercises, find
from cudalab.grading.generate import answer_source, solution
from tests import slices

ROOT = Path(__file__).parents[2]
ALL = exercises()
A_RUN = 6  # exercises, besides those of chapters that a change touches


def _is_changed(exercise: Exercise) -> bool:
    return exercise.id[:2] in slices.changed_chapters()


EXERCISES = slices.cases(ALL, most=A_RUN, core=_is_changed, ids=lambda exercise: exercise.id)
MUTANTS = [(exercise, mutant) for exercise in ALL for mutant in exercise.mutants]


@cache
def source_of(exercise: Exercise, folder: str) -> str:
    """The answer's CUDA C++ or Python as it stands in `solutions/` or `exercises/`."""
    (path,) = (ROOT / folder).glob(f"{exercise.id[:2]}_*.ipynb")
    text = answer_source(nbformat.read(path, as_version=4), exercise.kernel, python=exercise.python)
    return solution(text + "\n") if folder == "solutions" else text


@pytest.mark.parametrize("exercise", EXERCISES)
def test_solution_earns_all_points(exercise: Exercise) -> None:
    result = check(exercise.id, source_of(exercise, "solutions"), seed=1)
    assert result.passed and result.points == result.maximum > 0, str(result)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_starter_runs_but_earns_nothing_for_what_it_lacks(exercise: Exercise) -> None:
    result = check(exercise.id, source_of(exercise, "exercises"), seed=1)
    assert result.points == 0 and not result.passed, str(result)
    refused = {"does not compile", "no such kernel", "not Python", "no such function"}
    refused |= {"no result"} if exercise.python else set()
    assert not refused & {f.rule for f in result.findings}, str(result)


@pytest.mark.parametrize(
    "pair",
    slices.cases(
        MUTANTS,
        most=12,
        core=lambda pair: _is_changed(pair[0]),
        ids=lambda pair: f"{pair[0].id} {pair[1].name}",
    ),
)
def test_mutant_is_rejected_for_the_right_reason(pair: tuple[Exercise, Mutant]) -> None:
    exercise, mutant = pair
    result = check(exercise.id, mutant.apply(source_of(exercise, "solutions")), seed=1)
    found = {(f.part, f.rule) for f in result.findings}
    assert (mutant.fails, mutant.rule) in found, str(result)
    assert result.points < result.maximum


def test_each_exercise_has_at_least_five_mutants() -> None:
    assert all(len({m.name for m in e.mutants}) >= 5 for e in ALL)
    assert [e.id for e in ALL] == sorted({e.id for e in ALL})


def test_same_seed_gives_the_same_result() -> None:
    wrong = 'extern "C" __global__ void reverse(const float* x, float* y, int n) { if (threadIdx.x < n) y[0] = x[0]; }'
    assert str(check("04.1", wrong, seed=7)) == str(check("04.1", wrong, seed=7))


def test_known_mistake_is_named() -> None:
    copied = """extern "C" __global__ void reverse(const float* x, float* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i];
    }"""
    (finding,) = [f for f in check("04.1", copied, seed=3).findings if f.rule == "wrong values"]
    assert finding.mistake == "the values are copied in order, not reversed"


def test_an_answer_that_does_not_compile_says_the_line() -> None:
    result = check("04.1", 'extern "C" __global__ void reverse(const float* x) {\n  int i = 0\n}', seed=1)
    (finding,) = result.findings
    assert finding.rule == "does not compile" and "line 3" in finding.text and result.points == 0


def test_an_answer_without_the_kernel_names_it() -> None:
    result = check("04.1", 'extern "C" __global__ void other(float* x) {}', seed=1)
    (finding,) = result.findings
    assert finding.rule == "no such kernel" and "reverse" in finding.text and "other" in finding.text


def test_an_answer_with_other_parameters_says_which() -> None:
    result = check("04.1", 'extern "C" __global__ void reverse(float* x) {}', seed=1)
    assert {f.rule for f in result.findings} == {"wrong parameters"}


def test_an_endless_loop_is_stopped_and_said() -> None:
    endless = """extern "C" __global__ void reverse(const float* x, float* y, int n) {
        volatile int run = 1;
        while (run) { }
    }"""
    result = check("04.1", endless, seed=1)
    assert "endless loop" in {f.rule for f in result.findings}


def test_result_shows_failure_by_words_and_shape() -> None:
    starter = source_of(find("04.1"), "exercises")
    text = str(check("04.1", starter, seed=1))
    assert "[x] soundness" in text and "failed" in text
    html = check("04.1", starter, seed=1)._repr_html_()
    assert "[x] failed" in html


@pytest.mark.parametrize("answer", [3, None, object()])
def test_an_answer_of_another_type_is_a_type_error(answer: object) -> None:
    with pytest.raises(TypeError, match="pass the kernel itself"):
        check("04.1", answer)


def test_unknown_exercise_lists_those_there_are() -> None:
    with pytest.raises(KeyError, match=r"04\.1, 04\.2, 04\.3"):
        cudalab.checks.check("99.1", "")
