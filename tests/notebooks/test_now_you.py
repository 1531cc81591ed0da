"""The *Now you* cells of every chapter: the starter runs and is not yet right, the solution is, and each wrong answer
that is declared (``tests/checks/answers/practice``) fails for the reason that is stated."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib import import_module, util
from pathlib import Path
from typing import Any

import pytest

from cudalab.checks import BENCHES, Result, StreamBench, check, find, practices
from cudalab.checks.answer import read_answer
from cudalab.dev import notebook_format as rules
from cudalab.dev.dataflow import Dataflow
from cudalab.dev.now_you import NowYou, now_you
from cudalab.sim.device import profile
from tests.checks.answers.answer import Answer
from tests.notebooks.chapter import ROOT, fresh_shell

TASKS: Mapping[str, tuple[Path, NowYou]] = {
    task.exercise: (path, task) for path in rules.course_notebooks(ROOT) for task in now_you(rules.read(path))
}


def _wrong_answers() -> list[Answer]:
    found = []
    for chapter in sorted({name[:2] for name in TASKS}):
        name = f"tests.checks.answers.practice.chapter_{chapter}"
        if util.find_spec(name):
            found += import_module(name).WRONG
    return found


WRONG = _wrong_answers()


def verdict(exercise: str, text: str) -> Result:
    """What the check says of an answer's cell. A value is what the cell binds, run behind the cells it depends on."""
    path, task = TASKS[exercise]
    if find(exercise).answer == "value":
        return check(exercise, _value(path, task.name, text), seed=1)
    return check(exercise, text, seed=1)


def _value(path: Path, name: str, text: str) -> Any:
    sources = [code for _, code in rules.recorded_code(rules.read(path))]
    before = Dataflow([*sources, text]).led_to(len(sources))
    with fresh_shell() as shell, redirect_stdout(io.StringIO()):
        for source in [*(sources[at] for at in before), text]:
            ended = shell.run_cell(source, store_history=False)
            assert ended.success, ended.error_before_exec or ended.error_in_exec
        return shell.user_ns[name]


@pytest.mark.parametrize("path", rules.course_notebooks(ROOT)[1:], ids=lambda path: path.stem)
def test_a_chapter_asks_four_to_six_times(path: Path) -> None:
    """The first notebook is no chapter: it asks once, to show how."""
    assert 4 <= sum(other == path for other, _ in TASKS.values()) <= 6


def test_each_is_declared_and_each_declared_one_is_asked() -> None:
    declared = practices()
    assert [exercise.id for exercise in declared] == list(dict.fromkeys(exercise.id for exercise in declared))
    assert {exercise.id for exercise in declared} == set(TASKS)
    assert all(exercise.maximum == 0 for exercise in declared), "practice carries no points"


@pytest.mark.parametrize("name", TASKS)
def test_at_least_two_wrong_answers_are_declared(name: str) -> None:
    mine = [answer for answer in WRONG if answer.exercise == name]
    assert len({answer.name for answer in mine}) == len(mine) >= 2
    assert not any(answer.right for answer in mine)
    bound = find(name).kernel
    assert find(name).answer == "value" or bound == TASKS[name][1].name


@pytest.mark.parametrize("name", TASKS)
def test_the_starter_is_not_yet_right_and_the_solution_is(name: str) -> None:
    _, task = TASKS[name]
    before, after = verdict(name, task.starter), verdict(name, task.solution)
    assert not before.passed and str(before).split("\n")[0].endswith(": not yet"), str(before)
    refused = {"does not compile", "no such kernel", "not Python", "no such function", "time limit"}
    assert not refused & {finding.rule for finding in before.findings}, str(before)
    assert after.passed and str(after).endswith(": done"), str(after)


@pytest.mark.parametrize("name", [name for name in TASKS if BENCHES[find(name).answer] is StreamBench])
def test_the_solution_is_right_whatever_the_seed(name: str) -> None:
    answer = read_answer(TASKS[name][1].solution, "function")
    for seed in range(4):
        result = StreamBench(find(name), answer, seed=seed).run()
        assert result.passed, f"seed {seed}: {result}"


def test_what_runs_still_runs_on_every_device_when_it_is_asked() -> None:
    """A kernel's time and the host's are those of the device: one that is long by chance is not long elsewhere."""
    right = read_answer(TASKS["14.count-done"][1].solution, "function")
    (text,) = [each.text for each in WRONG if each.name == "stops at the first that is not"]
    wrong = read_answer(text, "function")
    for seed, device in enumerate(profile.names()):
        result = StreamBench(find("14.count-done"), right, seed=seed, profile=device).run()
        assert result.passed, f"{device}, seed {seed}: {result}"
        assert not StreamBench(find("14.count-done"), wrong, seed=seed, profile=device).run().passed


@pytest.mark.parametrize("device", ["laptop", "h200-0ce"])
@pytest.mark.parametrize("name", ["05.aside", "05.finish", "12.most-urgent", "12.respond"])
def test_a_device_with_less_takes_the_solution_as_well(name: str, device: str) -> None:
    answer = read_answer(TASKS[name][1].solution, "function")
    result = StreamBench(find(name), answer, seed=1, profile=device).run()
    assert result.passed, str(result)


def test_a_window_that_is_refused_is_reported_with_the_code() -> None:
    text = TASKS["05.window"][1].solution
    assert "hitRatio = 1.0" in text or "1.0" in text, text
    (finding,) = verdict("05.window", text.replace("1.0", "1.5")).findings
    assert finding.rule == "no window" and "a call returned cudaErrorInvalidValue" in finding.text
    (finding,) = verdict("05.window", text.replace("array.nbytes", "array.nbytes // 2")).findings
    assert "begins where the array does and has" in finding.text


def test_a_set_aside_that_is_wrong_is_all_that_is_said() -> None:
    text = "def reserve(wanted):\n    kind = cudart.cudaLimit.cudaLimitPersistingL2CacheSize\n"
    text += "    cudart.cudaDeviceSetLimit(kind, wanted)\n    return cudart.cudaDeviceGetLimit(kind)[1]\n"
    assert {finding.rule for finding in verdict("05.aside", text).findings} == {"wrong set-aside"}


def test_a_wait_that_comes_too_early_in_each_round_is_not_called_late() -> None:
    solution = TASKS["14.pieces"][1].solution
    record, wait = "        ready.record(a)\n", "        b.wait_event(ready)\n"
    assert record + wait in solution
    result = verdict("14.pieces", solution.replace(record + wait, wait + record))
    (hazard,) = [finding for finding in result.findings if finding.rule == "hazard"]
    assert "orders nothing" in hazard.mistake and "too late" not in str(result)


@pytest.mark.parametrize("answer", WRONG, ids=str)
def test_a_wrong_answer_fails_for_the_stated_reason(answer: Answer) -> None:
    result = verdict(answer.exercise, answer.text)
    assert (answer.part, answer.rule) in {(f.part, f.rule) for f in result.findings}, str(result)
    assert any(answer.mistake in f.mistake for f in result.findings), str(result)
