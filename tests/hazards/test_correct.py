"""Programs without a hazard give no report."""

from __future__ import annotations

import pytest

from tests.hazards.correct import Correct, programs
from tests.hazards.program import run

PROGRAMS = programs()
FEWEST = 100


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name.replace(" ", "-"))
def test_a_correct_program_is_silent(program: Correct) -> None:
    ran = run(program.text, setup=program.setup)
    if ran.error is not None:
        raise ran.error
    assert not ran.hazards, ran.hazards[0].text
    assert not ran.warnings


def test_there_are_enough() -> None:
    assert len({program.text + program.setup for program in PROGRAMS}) >= FEWEST
