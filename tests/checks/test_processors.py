"""The same points on processors with other instruction sets: with AVX-512, with AVX2 alone, with neither."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cudalab.checks import BENCHES, find
from cudalab.checks.answer import read_answer
from cudalab.sim.compiler import cache, object_code, translation
from cudalab.sim.compiler.processes import command, helper
from cudalab.sim.compiler.processes.messages import Limits, Order, Reply, Request
from cudalab.sim.compiler.processes.worker import Worker
from tests import slices
from tests.checks.answers.answer import Answer
from tests.checks.answers.every import ANSWERS

WITHOUT = {"AVX-512": ("avx512", "avx10"), "AVX": ("avx", "fma", "f16c", "vaes", "vpclmulqdq")}
"""What a processor has not, by how the features begin that LLVM knows."""
_EXERCISES = ("03.3", "04.2", "04.3", "04.6", "05.2", "06.1", "06.4", "06.5", "08.4", "11.2", "14.2", "15.1")
_EACH = 3
"""Answers of an exercise: its first, and others from all over its table."""


@pytest.fixture
def made_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Have all code made in this process, and for a processor without these features."""
    told = json.loads(command.command_line(jailed=False, precompiles=False)[0][-1])
    worker = Worker(told["library"], told["folders"])

    def answer(request: Request, bounds: Limits) -> Reply:
        return worker.answer(Order(request, Limits(memory=0)))

    host = dict(object_code.host_features())

    def begin(without: str) -> None:
        left_out = WITHOUT.get(without, ())
        features = {name: on and not name.startswith(tuple(left_out)) for name, on in host.items()}
        monkeypatch.setattr(object_code, "host_features", lambda: features)
        monkeypatch.setattr(cache, "processor", lambda: f"without {without}")
        monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path / without))
        _forget()

    helper.hand_over(answer)
    yield begin
    helper.hand_over(None)
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    """As in another process."""
    translation.forget()
    translation._made_runtime.cache_clear()
    for made in (object_code._machine, object_code.has_half, object_code.lanes_of_host):
        made.cache_clear()


def _sample() -> list[Answer]:
    found = []
    for exercise in _EXERCISES:
        mine = [answer for answer in ANSWERS if answer.exercise == exercise]
        found += mine[:: max(1, len(mine) // _EACH)][:_EACH]
    return found


def _verdict(answer: Answer) -> tuple[Any, ...]:
    """Points, rules and counts, however long it takes. What findings tell besides depends on addresses."""
    exercise = find(answer.exercise)
    given = read_answer(answer.text, exercise.answer)
    bench = BENCHES[exercise.answer](exercise, given, seed=1, time_limit=300.0)
    result = bench.run()
    return result.points, [(one.part, one.rule, one.mistake) for one in result.findings], bench.measured


@pytest.mark.timeout(300)
@pytest.mark.parametrize("answer", slices.cases(_sample(), kind=lambda answer: "", ids=str))
def test_an_answer_gets_the_same_verdict(answer: Answer, made_for: Callable[[str], None]) -> None:
    said, lanes = [], []
    for without in ("nothing", *WITHOUT):
        made_for(without)
        lanes.append(object_code.lanes_of_host())
        said.append(_verdict(answer))
    assert lanes[1:] == [8, 0] and lanes[0] >= 8
    assert said[0] == said[1] == said[2]
