"""The example that an exercise shows does not stand for its check: of each exercise there is a wrong answer with which
the cell to try it prints, or else shows, what it does with the solution. Times and shares may differ, and so may tables
of counters below what is printed."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

import nbformat
import pytest
from IPython.utils.capture import capture_output

from cudalab.checks import Exercise, exercises, find
from tests.checks.answers.answer import ROOT, Answer, solution_of
from tests.checks.answers.every import ANSWERS
from tests.notebooks.chapter import fresh_shell

PASSES = {
    "01.1": "columns counted in a byte",
    "01.2": "an atomic for each character",
    "03.1": "only the first device",
    "03.2": "never released",
    "03.3": "never waits",
    "03.4": "the launch fails",
    "03.5": "a pool of threads, some of which run several jobs",
    "04.1": "no guard",
    "04.2": "two rows at a time, and an odd one lost",
    "04.3": "source pitch ignored",
    "04.4": "as wide as in the example",
    "04.5": "frees in any case",
    "04.6": "no guard",
    "04.7": "a module for each row",
    "04.8": "freed in first, one item later",
    "05.1": "over the array, not the window",
    "05.2": "no reset",
    "05.3": "not bounded by 1",
    "05.4": "the ratio left out",
    "05.5": "behind every phase",
    "06.1": "threads outside return before the barrier",
    "06.2": "differences not squared",
    "06.3": "whole tiles only",
    "06.4": "from 64 on",
    "06.5": "whole steps only",
    "06.6": "lanes that are off read word 0",
    "06.7": "the static array forgotten",
    "08.1": "never unregisters",
    "08.2": "waits for the device",
    "08.3": "waits for the other desk",
    "08.4": "a wait for each pass",
    "08.5": "any wait is good for both streams",
    "11.1": "whole pieces only",
    "11.2": "no wait at all",
    "11.3": "the note in the next stream",
    "11.4": "waits as well",
    "11.5": "drops the rest",
    "11.6": "the host waits",
    "11.7": "always one engine",
    "12.1": "all blocking",
    "12.2": "low does not wait for reply",
    "12.3": "rounded down",
    "12.4": "equal ones by name",
    "12.5": "no waits",
    "14.1": "no warm-up",
    "14.2": "no fork",
    "14.3": "records in the other stream",
    "14.4": "no warm-up",
    "14.5": "not for its own stream",
    "14.6": "asks behind each piece",
    "15.1": "a graph for each frame",
    "15.2": "powers of two only",
    "15.3": "the join before edges",
    "15.4": "waits for all of the stream",
    "15.5": "goes through the edges once",
}
_TIME = re.compile(r"-?[\d.,]+(?= *(?:µs|ms|%|GB/s|times))")
_OTHER_COUNTERS = re.compile(r"^  (?!Global|Shared).*\n", re.MULTILINE)
"""Rows of a profile's table that are not about memory: instructions, occupancy, the time."""
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def _cells(exercise: Exercise, answer: str) -> Iterator[tuple[str, bool]]:
    """The cells of an exercise up to its check, with the answer in its place; whether each of them tries it."""
    (path,) = (ROOT / "exercises").glob(f"{exercise.id[:2]}_*.ipynb")
    for cell in nbformat.read(path, as_version=4).cells:
        found = re.fullmatch(r"e(\d+)-(\w+)", cell.id)
        if cell.cell_type != "code" or found and found[1] != exercise.id.split(".")[1]:
            continue
        if found and found[2] == "check":
            return
        if found and found[2] == "answer":
            yield answer, False
        else:
            yield cell.source, found is not None


def _as_a_cell(exercise: Exercise, text: str) -> str:
    return f"%%cuda {exercise.kernel}\n{text}" if exercise.answer == "kernel" and not text.startswith("%%") else text


def shown(exercise: Exercise, answer: str) -> str:
    """What the cell to try it prints, or else shows, without times and addresses."""
    printed, pictures = [], []
    with fresh_shell() as shell:
        for source, tries in _cells(exercise, _as_a_cell(exercise, answer)):
            with warnings.catch_warnings(), capture_output() as captured:
                warnings.simplefilter("ignore")  # hazards are told by a warning
                ended = shell.run_cell(source, store_history=False)
            assert ended.success, ended.error_in_exec or ended.error_before_exec
            if tries:
                printed.append(captured.stdout.partition("Out[")[0])
                printed += [line for line in captured.stdout.splitlines() if "mistake" in line]
                pictures += [captured.stdout, *(str(output.data.get("text/plain")) for output in captured.outputs)]
    text = "\n".join(printed) if any(printed) else _OTHER_COUNTERS.sub("", "\n".join(pictures))
    return _ADDRESS.sub("(an address)", _TIME.sub("(a figure)", text))


def _answer(exercise: str) -> Answer:
    (found,) = [each for each in ANSWERS if (each.exercise, each.name) == (exercise, PASSES[exercise])]
    return found


def test_there_is_one_of_every_exercise() -> None:
    assert list(PASSES) == [exercise.id for exercise in exercises()]
    assert not any(_answer(exercise).right or _answer(exercise).cheat for exercise in PASSES)


@pytest.mark.parametrize("exercise", PASSES)
def test_a_wrong_answer_passes_the_example(exercise: str) -> None:
    """That its check refuses it is a case of ``test_exercises.py``."""
    right = shown(find(exercise), solution_of(exercise))
    assert right.strip()
    assert shown(find(exercise), _answer(exercise).text) == right
