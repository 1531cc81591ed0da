"""Slices of large families: never empty, the core in each of them, and together they are the whole."""

from __future__ import annotations

from collections import Counter

import pytest

from tests import slices


def taken(monkeypatch: pytest.MonkeyPatch, commit: int, family: list[int], most: int, core: set[int]) -> list[int]:
    """The members that a run on a commit takes."""
    monkeypatch.setenv(slices.VARIABLE, f"{commit:x}")
    found = slices.cases(family, most=most, core=core.__contains__)
    assert [parameter.values[0] for parameter in found] == family
    assert all(any(mark.name == "sliced" for mark in parameter.marks) for parameter in found)
    return [p.values[0] for p in found if all(mark.name != "long" for mark in p.marks)]


@pytest.mark.parametrize("most", [1, 3, 7, 20, 21, 100])
@pytest.mark.parametrize("size", [1, 2, 20, 21])
@pytest.mark.parametrize("core", [set(), {0, 5}], ids=["no core", "core"])
def test_a_cycle_of_slices_is_the_whole(most: int, size: int, core: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    family = list(range(size))
    cycle = max(1, -(-len(set(family) - core) // most))
    runs = [taken(monkeypatch, 0x1234_0000 + n, family, most, core) for n in range(cycle)]
    assert all(runs) and all(set(run) >= core & set(family) for run in runs)
    assert all(len(set(run) - core) <= most for run in runs)
    often = Counter(member for run in runs for member in run)
    assert often == {member: cycle if member in core else 1 for member in family}


def test_an_empty_family_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        slices.cases([], most=3)


def test_the_commit_chooses_where_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(slices.VARIABLE)
    assert slices.chosen() == slices._head() and int(slices.chosen(), 16) >= 0
    monkeypatch.setenv(slices.VARIABLE, "c0ffee")
    assert slices.chosen() == "c0ffee"


def test_a_slice_of_chosen_members_is_every_nth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slices.VARIABLE, "5")
    assert [n for n in range(9) if slices.is_in(n, 3)] == [2, 5, 8]
