"""Every planted bug is found, on its line; the same kernel without it is clean."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cudalab
from cudalab import cp
from tests import slices
from tests.planted.bugs import BUGS
from tests.planted.planted import Planted
from tests.planted.record import DATA, found

LEAST = 60


def report(bug: Planted, source: str, seed: int | None = None) -> Any:
    """What the sanitizer says of one of the two programs."""
    kernel = cp.RawKernel(source, "k", ("-std=c++17",), enable_cooperative_groups=bug.cooperative)
    return cudalab.sanitize(
        kernel, bug.grid, bug.block, bug.arguments(cp), shared=bug.shared, seed=seed, time_limit=1.0
    )


def test_there_are_enough_of_every_class() -> None:
    assert len(BUGS) >= LEAST
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    for tool, least in {"memcheck": 20, "racecheck": 25, "initcheck": 8, "synccheck": 8}.items():
        assert sum(bug.tool == tool for bug in BUGS) >= least, tool


@pytest.mark.parametrize(
    "bug", slices.cases(BUGS, kind=lambda bug: f"{bug.tool} {bug.rules}", ids=lambda bug: bug.name)
)
def test_the_bug_is_found_on_its_line(bug: Planted) -> None:
    findings = report(bug, bug.wrong).findings
    named = [found for found in findings if found.rule in bug.rules and found.line in bug.lines]
    assert named, f"{bug.wrong}\n{[(f.rule, f.line, f.detail) for f in findings]}"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_mended_kernel_is_clean(bug: Planted) -> None:
    found = report(bug, bug.right)
    assert found.ok, f"{bug.right}\n{found}"


def test_what_compute_sanitizer_found_is_kept_with_its_date() -> None:
    """`python -m tests.planted.record` renews it; docs/evidence says what follows from it."""
    stored = json.loads(DATA.read_text(encoding="utf-8"))
    assert set(stored["about"]) == {"date", "device", "compute_sanitizer"}
    assert set(stored["results"]) == {bug.name for bug in BUGS}
    for bug in BUGS:
        assert set(stored["results"][bug.name]) == {"memcheck", bug.tool}
    caught = sum(any(found(outcome) for outcome in tools.values()) for tools in stored["results"].values())
    assert 40 <= caught < len(BUGS)
