"""The grader's log of an answer in Python: replayed it gives the same score, and where it cannot, the answer is run."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import msgspec
import pytest

from cudalab.grading.examiner import Examiner
from cudalab.grading.limits import Limits
from cudalab.grading.messages import Outcome, Question, ResultRecord, without_log
from cudalab.grading.worker.log import Outdated, called, unpacked
from cudalab.sim.compiler.processes import codec
from tests.checks.answers.answer import solution_of
from tests.grading.handed_in import CACHE

RIGHT = solution_of("11.2")
LIMIT = Limits.log


@pytest.fixture(scope="module")
def examiners(bwrap_path: str) -> Iterator[list[Examiner]]:
    """Two, with templates of their own: the system has put everything elsewhere in the other."""
    made = [Examiner(CACHE), Examiner(CACHE)]
    yield made
    for one in made:
        one.stop()


@pytest.fixture(scope="module")
def first(examiners: list[Examiner]) -> ResultRecord:
    """An answer that was run."""
    return _result(examiners[0].ask(Question("11.2", RIGHT, 1, Limits())))


def _result(outcome: Outcome) -> ResultRecord:
    assert isinstance(outcome, ResultRecord), outcome
    return outcome


def test_a_replay_gives_the_same_result(examiners: list[Examiner], first: ResultRecord) -> None:
    replayed = _result(examiners[1].ask(Question("11.2", RIGHT, 1, Limits(), log=first.log)))
    assert first.result().points == 4 and not first.replayed and replayed.replayed
    assert replayed.parts == first.parts and unpacked(replayed.log, LIMIT) == unpacked(first.log, LIMIT)


def _altered(log: bytes, **changes: object) -> bytes:
    return msgspec.structs.replace(unpacked(log, LIMIT), **changes).packed()


def _bad_logs(log: bytes) -> dict[str, bytes]:
    entries = unpacked(log, LIMIT).entries
    told = msgspec.structs.replace(entries[5], told=bytes(8))
    return {
        "noise": b"\x00noise" * 10,
        "another version's": _altered(log, source="0" * 32),
        "cut off": _altered(log, entries=entries[:-3]),
        "one message less": _altered(log, entries=entries[:4] + entries[5:]),
        "a message in the place of another": _altered(log, entries=[*entries[:5], entries[4], *entries[6:]]),
        "another digest": _altered(log, entries=[*entries[:5], told, *entries[6:]]),
        "a bomb": zlib.compress(bytes(1 << 28), 9),
        "too long": log + bytes(2 * LIMIT),
    }


def test_a_log_that_does_not_hold_is_not_taken(examiners: list[Examiner], first: ResultRecord) -> None:
    for kind, log in _bad_logs(first.log).items():
        outcome = _result(examiners[1].ask(Question("11.2", RIGHT, 1, Limits(), log=log)))
        assert not outcome.replayed and without_log(outcome) == without_log(first), kind


def test_a_log_is_of_one_text(examiners: list[Examiner], first: ResultRecord) -> None:
    outcome = _result(examiners[1].ask(Question("11.2", "def send(*given): pass", 1, Limits(), log=first.log)))
    assert not outcome.replayed and outcome.result().points == 0


def test_with_another_seed_the_answer_is_run(examiners: list[Examiner], first: ResultRecord) -> None:
    outcome = _result(examiners[1].ask(Question("11.2", RIGHT, 2, Limits(), log=first.log)))
    assert not outcome.replayed and outcome.result().points == 4


LARGE = """def send(count, fill, boxes, d, stream):
    for _ in range(64):
        try: fill(np.frombuffer(bytearray(1 << 20), np.uint8), 0)
        except Exception: pass
"""


def test_an_answer_whose_log_grows_too_long_earns_nothing(examiners: list[Examiner]) -> None:
    outcome = _result(examiners[0].ask(Question("11.2", "import numpy as np\n" + LARGE, 1, Limits(log=4 << 20))))
    assert outcome.result().points == 0 and not outcome.log
    assert "the log of its calls would be larger than 4 MB" in str(outcome.result())


def test_a_log_tells_what_was_called(first: ResultRecord) -> None:
    lines = called(first.log, LIMIT)
    assert "line 6: a function of the exercise" in lines and "line 8: cudaEventRecord" in lines
    assert called(b"noise", LIMIT) == []
    with pytest.raises(Outdated, match="not a log"):
        unpacked(zlib.compress(codec.encode([1])), LIMIT)
