"""Each program of an evening, one after another in one live notebook kernel; in the default run they take turns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import evening, evening_of_algorithms, evening_of_calls, evening_of_mistakes
from .notebook import Notebook

PROGRAMS = evening.PROGRAMS | evening_of_algorithms.PROGRAMS | evening_of_calls.PROGRAMS | evening_of_mistakes.PROGRAMS

# A shorter limit than a learner's, so that what has to be stopped is stopped soon.
SETUP = "import cudalab\nfrom cudalab import backend\ncudalab.device()"
LIMIT = "backend.simulated_device().settings.time_limit = 0.5"


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    notebook = Notebook()
    reply = notebook.run(SETUP)
    assert not reply.error, reply.traceback
    yield notebook
    notebook.close()


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 60


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_of_an_evening(name: str, notebook: Notebook) -> None:
    program = PROGRAMS[name]
    notebook.run(LIMIT)
    reply = notebook.run(program.text, timeout=60)
    notebook.run("cudalab.reset()")
    read = reply.text + reply.traceback
    assert reply.error == program.error, read
    missing = [words for words in program.words if words not in read]
    assert not missing, read
