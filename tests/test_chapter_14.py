"""Chapter 14's compared cells: each agrees with its stored output, and notices a mistake in the code that feeds it."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout

import pytest
from IPython.core.interactiveshell import InteractiveShell

import cudalab
from cudalab.sim.device.hazards import HazardWarning
from tests.chapter import Chapter, Mutation, fresh_shell

LEAST_COMPARED = 6
CHAPTER = Chapter(
    "14_events.ipynb",
    {
        "life": ["ok", "kernel-put"],
        "null-stream": ["kernel-put"],
        "codes": ["ok", "kernel-put"],
        "fork-values": ["kernel-put", "kernel-add", "one-stream", "two-streams"],
        "last-record": ["kernel-put"],
        "too-early": ["kernel-put", "elapsed"],
        "record-first": ["kernel-put", "copy-kernel"],
    },
)

MUTATIONS = [
    Mutation("life", "life", "ok(cudart.cudaEventSynchronize(event))", ""),
    Mutation("life", "life", "ok(cudart.cudaEventRecord(event, a.ptr))", ""),
    Mutation("life", "life", "cudart.cudaEventDestroy(event)", "cudart.cudaEventDestroy(0)"),
    Mutation("null-stream", "null-stream", "cp.cuda.Stream.null.record()", "stream.record()"),
    Mutation("null-stream", "null-stream", "cp.cuda.Stream(),", "cp.cuda.Stream(non_blocking=True),"),
    Mutation("null-stream", "null-stream", "host_work(1000)", "host_work(10_000)"),
    Mutation("null-stream", "kernel-put", "steps=2_000_000", "steps=200"),
    Mutation("codes", "codes", "(cudart.cudaEventDisableTiming)", "(cudart.cudaEventBlockingSync)"),
    Mutation("codes", "codes", "never.record(a)", "pass"),
    Mutation("codes", "codes", 'a.synchronize()\nprint("after', 'print("after'),
    Mutation("codes", "codes", "timed.record(a)", "never.record(a)"),
    Mutation("fork-values", "kernel-add", "*a + *b, v", "*a - *b, v"),
    Mutation("fork-values", "one-stream", '"right", 1, 1, 3)', '"right", 1, 0, 3)'),
    Mutation("fork-values", "two-streams", "    b.wait_event(ready)", "    b.done"),
    Mutation("fork-values", "two-streams", '"right", 1, 1, 3)', '"right", 1, 0, 3)'),
    Mutation("last-record", "last-record", "b.wait_event(mark)", ""),
    Mutation("last-record", "last-record", "mark.record(a)  # the same event, again", ""),
    Mutation("last-record", "last-record", "put_slowly(2, 3, a)", "put_slowly(2, 4, a)"),
    Mutation("too-early", "too-early", "end.synchronize()", "start.synchronize()"),
    Mutation("too-early", "kernel-put", "steps=2_000_000", "steps=200"),
    Mutation(
        "record-first", "record-first", "mark.record(a)\nb.wait_event(mark)", "b.wait_event(mark)\nmark.record(a)"
    ),
    Mutation("record-first", "record-first", "mark.record(a)", "mark.record(b)"),
    Mutation("record-first", "copy-kernel", "*y = *x;", "*y = *x + 1;"),
]


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    with fresh_shell() as shell:
        yield shell


def test_there_are_enough_compared_cells() -> None:
    assert sorted(CHAPTER.compared) == sorted(CHAPTER.needs)
    assert len(CHAPTER.compared) >= LEAST_COMPARED


def test_every_compared_cell_is_mutated() -> None:
    assert {mutation.compared for mutation in MUTATIONS} == set(CHAPTER.compared)


@pytest.mark.parametrize("name", CHAPTER.compared)
def test_compared_cell_prints_its_stored_output(shell: InteractiveShell, name: str) -> None:
    assert CHAPTER.run(shell, name) == CHAPTER.stored(name)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_compared_cell_notices_a_mistake(shell: InteractiveShell, mutation: Mutation) -> None:
    printed = CHAPTER.run(shell, mutation.compared, mutation)
    assert "SyntaxError" not in printed and "CompileException" not in printed, printed
    assert printed != CHAPTER.stored(mutation.compared)


@pytest.mark.parametrize("name", CHAPTER.compared)
def test_compared_cell_prints_values(name: str) -> None:
    """Numbers or names of errors, and never only whether something holds."""
    stored = CHAPTER.stored(name)
    assert not {"True", "False"} & set(stored.split())
    assert any(character.isdigit() for character in stored) or "cuda" in stored


def test_only_the_planted_mistake_is_a_hazard(shell: InteractiveShell) -> None:
    """Run as a learner runs it, the chapter has one hazard in this process: the wait before the record."""
    lines = []
    for name, cell in CHAPTER.cells.items():
        if name in ("tuner", "neighbours", "hazard", "quiz", "clocks", "fresh", "both"):
            continue  # slow, or in a process of its own; they are compared with what they are made of elsewhere
        with warnings.catch_warnings(record=True) as caught, redirect_stdout(io.StringIO()):
            warnings.simplefilter("always")
            ended = shell.run_cell(cell.source, store_history=False)
        assert ended.success, f"{name}: {ended.error_in_exec!r}"
        lines += [name for warning in caught if issubclass(warning.category, HazardWarning)]
    cudalab.backend.simulated_device().synchronize()
    assert set(lines) == {"wait-first"}
