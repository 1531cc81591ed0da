"""Slices of large families: never empty, the core in each of them, and together they are the whole."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

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


class Item:
    """As much of a collected test as turns need."""

    def __init__(self, nodeid: str, *marks: pytest.MarkDecorator) -> None:
        self.nodeid, self.marks = nodeid, {each.name: each.mark for each in marks}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)

    def add_marker(self, name: str) -> None:
        self.marks[name] = getattr(pytest.mark, name).mark


def in_turn(monkeypatch: pytest.MonkeyPatch, commit: int, count: int, of: int) -> list[str]:
    """Which of a file's so many tests with ``turns(of=…)`` a run on a commit takes; tests without, and of another file,
    stand between them."""
    monkeypatch.setenv(slices.VARIABLE, f"{commit:x}")
    items = [Item(f"tests/test_a.py::test_b[{n}]", pytest.mark.turns(of=of)) for n in range(count)]
    others = [Item("tests/test_a.py::test_c"), Item("tests/test_d.py::test_b[0]", pytest.mark.turns(of=1))]
    slices.take_turns([*others[:1], *items, *others[1:]])  # type: ignore[list-item]
    assert all("long" not in item.marks for item in others) and all("sliced" in item.marks for item in items)
    return [item.nodeid for item in items if "long" not in item.marks]


@pytest.mark.parametrize(("count", "of"), [(1, 3), (2, 5), (7, 3), (12, 4)])
def test_a_cycle_of_turns_is_each_test_of_a_file_once(count: int, of: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cycle = min(of, count)
    runs = [in_turn(monkeypatch, 0x40 + commit, count, of) for commit in range(cycle)]
    assert all(count // cycle <= len(run) <= -(-count // cycle) for run in runs)
    assert sorted(sum(runs, [])) == sorted(f"tests/test_a.py::test_b[{n}]" for n in range(count))


def test_a_long_test_has_no_turn() -> None:
    item = Item("tests/test_a.py::test_b", pytest.mark.turns(of=2), pytest.mark.long)
    slices.take_turns([item])  # type: ignore[list-item]
    assert "sliced" not in item.marks


def test_what_is_of_a_slice_takes_no_turns() -> None:
    item = Item("tests/test_a.py::test_b", pytest.mark.turns(of=2), pytest.mark.sliced)
    with pytest.raises(pytest.UsageError, match="test_b is of a slice already"):
        slices.take_turns([item])  # type: ignore[list-item]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., frozenset[str]]]:
    """Writes files, commits them if so asked, and says which chapters count as changed."""
    monkeypatch.delenv(slices.CHAPTERS, raising=False)
    monkeypatch.setattr(slices, "_ROOT", tmp_path)
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)

    def change(*names: str, commit: bool = True) -> frozenset[str]:
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{names} {commit}")
        if commit:
            subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
            subprocess.run(["git", *who, "commit", "-qm", "x"], cwd=tmp_path, check=True)
        slices._changed_chapters.cache_clear()
        return slices.changed_chapters()

    yield change
    slices._changed_chapters.cache_clear()


def test_chapters_that_a_change_touches(repository: Callable[..., frozenset[str]], tmp_path: Path) -> None:
    first = repository("notebooks/01_a.ipynb", "notebooks/04_b.ipynb", "README.md")
    assert first == frozenset(), "the commit before is not known"
    assert repository("notebooks/04_b.ipynb", "tests/test_11.py") == {"04"}
    assert repository("cudalab/checks/chapter_06.py", "exercises/07_c.ipynb") == {"06", "07"}
    assert repository("README.md") == frozenset()
    assert repository("cudalab/widgets/questions/11.toml", "solutions/01_new.ipynb", commit=False) == {"11", "01"}
    subprocess.run(["git", "update-ref", "refs/remotes/origin/main", "HEAD~2"], cwd=tmp_path, check=True)
    assert repository("tests/notebooks/test_chapter_14.py") == {"06", "07", "11", "01", "14"}, "of the whole branch"


def test_chapters_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slices.CHAPTERS, "04,11")
    assert slices.changed_chapters() == {"04", "11"}
    monkeypatch.setenv(slices.CHAPTERS, "")
    assert slices.changed_chapters() == frozenset()
