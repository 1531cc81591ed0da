"""Every exercise: the solution earns all points, the starter runs and earns none, and each answer of the tables gets
what it is to get, for the right reason (``answers/``)."""

from __future__ import annotations

import re

import nbformat
import pytest

import cudalab.checks
from cudalab.checks import BENCHES, Exercise, Result, check, exercises, find
from cudalab.checks.answer import read_answer
from cudalab.checks.bench import Bench
from cudalab.checks.streams import StreamBench
from cudalab.grading.regions import starter
from tests import slices
from tests.checks.answers.answer import ROOT, Answer, cell_of, solution_of
from tests.checks.answers.every import ANSWERS
from tests.notebooks.chapter import fresh_shell

ALL = exercises()
REFUSED = {"does not compile", "no such kernel", "not Python", "no such function"}


each_exercise = pytest.mark.parametrize("exercise", ALL, ids=lambda exercise: exercise.id)


def starter_of(exercise: Exercise) -> str:
    return starter(cell_of(exercise.id))


def bench_of(exercise: Exercise, text: str) -> Bench:
    return BENCHES[exercise.answer](exercise, read_answer(text, exercise.answer), seed=1)


@each_exercise
def test_solution_earns_all_points(exercise: Exercise) -> None:
    result = check(exercise.id, solution_of(exercise.id), seed=1)
    assert result.passed and result.points == result.maximum > 0, str(result)


@each_exercise
def test_starter_runs_but_earns_nothing_for_what_it_lacks(exercise: Exercise) -> None:
    bench = bench_of(exercise, starter_of(exercise))
    result = bench.run()
    assert result.points == 0 and not result.passed, str(result)
    assert not (REFUSED | ({"no result"} if exercise.answer == "function" else set())) & {
        f.rule for f in result.findings
    }
    right = all(part.passed for part in result.parts if part.name != "efficiency")
    for gate in exercise.gates:
        if gate.baseline is not None:
            assert right, f"{gate.name}: a baseline cannot be measured where the values are wrong"
            assert bench.measured[gate.name][0] == pytest.approx(gate.baseline, rel=0.1), gate.name


def _answers(kind: str) -> pytest.MarkDecorator:
    """Answers to exercises of a kind: each run tries one, at least, of every chapter, besides those of
    ``test_cheats.py``."""
    asked = [answer for answer in ANSWERS if find(answer.exercise).answer == kind]
    return pytest.mark.parametrize("answer", slices.cases(asked, kind=lambda answer: answer.exercise[:2], ids=str))


@_answers("kernel")
def test_a_kernel_gets_its_verdict(answer: Answer) -> None:
    compare(answer, check(answer.exercise, answer.text, seed=1))


@_answers("function")
def test_a_function_gets_its_verdict(answer: Answer) -> None:
    compare(answer, check(answer.exercise, answer.text, seed=1))


def compare(answer: Answer, result: Result) -> None:
    """Full points for a right answer; for a wrong one less, and the finding that it is to have."""
    if answer.right:
        assert result.passed and result.points == result.maximum, str(result)
        return
    found = [f for f in result.findings if (f.part, f.rule) == (answer.part, answer.rule)]
    assert found and result.points < result.maximum and result.points <= answer.most, str(result)
    assert any(answer.mistake in f.mistake for f in found), str(result)


@each_exercise
def test_each_exercise_has_right_and_wrong_answers_and_cheats(exercise: Exercise) -> None:
    mine = [answer for answer in ANSWERS if answer.exercise == exercise.id]
    assert len({answer.name for answer in mine}) == len(mine)
    assert sum(answer.right for answer in mine) >= 3
    assert sum(not answer.right and not answer.cheat for answer in mine) >= 6
    assert sum(answer.cheat for answer in mine) >= 4
    names = {gate.name for gate in exercise.gates}
    assert all(answer.rule in names for answer in mine if answer.part == "efficiency")


def test_exercises_are_in_order() -> None:
    assert [e.id for e in ALL] == sorted({e.id for e in ALL})


@pytest.mark.parametrize("chapter", sorted({e.id[:2] for e in ALL}))
def test_untouched_exercises_run_to_their_end(chapter: str) -> None:
    """All cells but the checks: a starter may be wrong, but nothing that comes behind it suffers."""
    (path,) = (ROOT / "exercises").glob(f"{chapter}_*.ipynb")
    notebook = nbformat.read(path, as_version=4)
    with fresh_shell() as shell:
        for cell in notebook.cells:
            if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("grade"):
                result = shell.run_cell(cell.source, store_history=False)
                assert result.success, (cell.id, result.error_in_exec or result.error_before_exec)


@pytest.mark.parametrize("profile", ["laptop", "h200-0ce"])
@pytest.mark.parametrize("exercise", [e for e in ALL if e.answer == "function"], ids=lambda exercise: exercise.id)
def test_what_may_overlap_is_the_same_on_every_profile(exercise: Exercise, profile: str) -> None:
    answer = read_answer(solution_of(exercise.id), "function")
    result = StreamBench(exercise, answer, seed=1, profile=profile).run()
    assert result.points == result.maximum, str(result)


ENDLESS = {
    "11.1": "while True:\n        pass",
    "14.2": "while True:\n        try:\n            main.done\n        except Exception:\n            pass",
}


# The exception may arrive in the callback that Hypothesis gives the collector: there Python reports and drops it, and
# the next one follows.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("exercise", ENDLESS)
def test_a_check_ends_within_its_time_limit(exercise: str) -> None:
    text = re.sub(r"(def .*:\n)", rf"\1    {ENDLESS[exercise]}\n", solution_of(exercise))
    result = StreamBench(find(exercise), read_answer(text, "function"), seed=1, time_limit=0.5).run()
    assert result.points == 0 and "time limit" in {f.rule for f in result.findings}


def test_the_seed_is_in_the_result_and_repeats_it() -> None:
    wrong = solution_of("11.1").replace("streams[0]", "streams[-1]").replace("blocking=False", "blocking=True")
    first = check("11.1", wrong)
    assert f"seed={first.seed}" in str(first)
    assert str(check("11.1", wrong, seed=first.seed)) == str(first)


def test_points_are_earned_gate_by_gate() -> None:
    result = check("11.1", solution_of("11.1").replace("blocking=False", "blocking=True"), seed=1)
    assert 0 < result.points < result.maximum, str(result)
    text = str(result)
    assert "[x] waits and queries of the host" in text and "[+] streams at work" in text and "0 of 1" in text


def test_options_of_the_cell_reach_the_check() -> None:
    """Of a kernel that ``%%cuda`` has bound, and of the text of a cell."""
    cell = """%%cuda reverse --option=-DGUARD=n --std c++20
extern "C" __global__ void reverse(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < GUARD) y[n - 1 - i] = x[i];
}"""
    assert read_answer(cell).options == ("-DGUARD=n", "--std=c++20")
    assert check("04.1", cell, seed=1).passed
    with fresh_shell() as shell:
        assert shell.run_cell(cell, store_history=False).success
        assert read_answer(shell.user_ns["reverse"]).options == ("-DGUARD=n", "--std=c++20")


def test_same_seed_gives_the_same_result() -> None:
    wrong = 'extern "C" __global__ void reverse(const float* x, float* y, int n) { if (threadIdx.x < n) y[0] = x[0]; }'
    assert str(check("04.1", wrong, seed=7)) == str(check("04.1", wrong, seed=7))


def test_what_kernels_have_left_in_shared_memory_is_no_part_of_a_check() -> None:
    (answer,) = [each for each in ANSWERS if str(each) == "06.5 threads beyond the edge leave"]
    said = {str(check("06.5", answer.text, seed=1)) for _ in range(3)}
    assert len(said) == 1 and "wrong values" in said.pop()


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


def test_an_answer_that_does_not_fit_into_memory_is_told() -> None:
    large = """__device__ int table[250000000];
    extern "C" __global__ void reverse(const float* x, float* y, int n) { y[0] = table[n]; }"""
    (finding,) = check("04.1", large, seed=1).findings
    assert finding.rule == "out of memory" and "1 GB" in finding.text


def test_an_endless_loop_is_stopped_and_said() -> None:
    endless = """extern "C" __global__ void reverse(const float* x, float* y, int n) {
        volatile int run = 1;
        while (run) { }
    }"""
    result = check("04.1", endless, seed=1)
    assert "endless loop" in {f.rule for f in result.findings}


def test_result_shows_failure_by_words_and_shape() -> None:
    starter = starter_of(find("04.1"))
    text = str(check("04.1", starter, seed=1))
    assert "[x] soundness" in text and "failed" in text
    html = check("04.1", starter, seed=1)._repr_html_()
    assert "data-state='wrong'" in html and "✘" in html and "of" in html.split("points")[0]
    assert "[x] failed" in html


@pytest.mark.parametrize("answer", [3, None, object()])
def test_an_answer_of_another_type_is_a_type_error(answer: object) -> None:
    with pytest.raises(TypeError, match="pass the kernel itself"):
        check("04.1", answer)


def test_unknown_exercise_lists_those_there_are() -> None:
    with pytest.raises(KeyError, match=r"04\.1, 04\.2, 04\.3"):
        cudalab.checks.check("99.1", "")
