"""Every planted bug is reported: both operations, their lines, and the wait that is missing."""

from __future__ import annotations

import pytest

from tests.hazards.planted import BUGS, Bug
from tests.hazards.program import run

FEWEST = 30


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_bug_is_reported_with_its_lines_and_the_missing_wait(bug: Bug) -> None:
    ran = run(bug.text, setup=bug.setup)
    assert ran.hazards, f"nothing was reported ({ran.error})"
    found = [(hazard.first.place.line, hazard.second.place.line) for hazard in ran.hazards]
    assert bug.lines in found, [hazard.text for hazard in ran.hazards]
    hazard = ran.hazards[found.index(bug.lines)]
    assert hazard.kind == bug.kind
    lines = bug.text.splitlines()
    for party in (hazard.first, hazard.second):
        assert party.place.text == lines[party.place.line - 1].strip() and party.place.text in hazard.text
    assert hazard.first.stream and (hazard.second.stream or hazard.second.what == "the host")
    assert hazard.bytes > 0 and hazard.missing_wait
    assert all(words in hazard.missing_wait for words in bug.wait), hazard.missing_wait
    assert not bug.note or any(bug.note in note for note in hazard.notes), hazard.notes
    assert hazard.text in ran.warnings


def test_there_are_enough_of_all_kinds() -> None:
    assert len(BUGS) >= FEWEST
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert len({bug.kind for bug in BUGS}) == 6
