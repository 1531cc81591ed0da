"""What a run takes of the tests: within the budget, at least one of each family and kind, in turn all of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests import conftest, slices
from tests.slices import Costs


class Item:
    """As much of a collected test as slices need."""

    def __init__(self, nodeid: str, *marks: pytest.MarkDecorator) -> None:
        self.nodeid, self.marks = nodeid, {each.name: each.mark for each in marks}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)

    def add_marker(self, name: str) -> None:
        self.marks[name] = getattr(pytest.mark, name).mark


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Which tests a run on a commit takes, of those that are given or of parameters of ``tests/test_a.py::test_b``."""

    def take(
        commit: int,
        items: int | Sequence[Item],
        dear: Mapping[str, float],
        *,
        budget: float,
        changed: str = "",
    ) -> list[str]:
        monkeypatch.setenv(slices.VARIABLE, f"{commit:x}")
        monkeypatch.setenv(slices.CHAPTERS, changed)
        if isinstance(items, int):
            items = [Item(f"tests/test_a.py::test_b[{n}]") for n in range(items)]
        slices.take(items, Costs(dear, 0.01, {}), budget)  # type: ignore[arg-type]
        return [item.nodeid for item in items if "long" not in item.marks]

    return take


B = {"tests/test_a.py::test_b": 1.0}


@pytest.mark.parametrize(
    ("count", "budget", "expected"), [(1, 0.5, 1), (7, 0.5, 1), (7, 3.2, 3), (7, 7.0, 7), (7, 9.0, 7)]
)
def test_a_run_stays_within_its_budget_and_takes_at_least_one(
    count: int, budget: float, expected: int, taken: Callable[..., list[str]]
) -> None:
    runs = [set(taken(0x40 + commit, count, B, budget=budget)) for commit in range(count)]
    assert all(len(run) == expected for run in runs)
    assert len(set.union(*runs)) == count, "in turn all"


def test_more_tests_take_no_more_time(taken: Callable[..., list[str]]) -> None:
    def seconds(chapters: int) -> int:
        items = [Item(f"tests/test_chapter_{n:02}.py::test_b[{k}]") for n in range(chapters) for k in range(20)]
        return len(taken(1, items, {"tests/test_chapter.py::test_b": 1.0}, budget=30.0))

    assert 28 <= seconds(3) <= 30 and 28 <= seconds(60) <= 30


def test_cheap_tests_always_run(taken: Callable[..., list[str]]) -> None:
    assert len(taken(1, 500, {}, budget=0.0)) == 500


def test_each_kind_is_in_every_run(taken: Callable[..., list[str]]) -> None:
    for commit in range(20):
        items = [Item(f"tests/test_a.py::test_b[{k}{n}]", pytest.mark.kind(k)) for k in "xyz" for n in range(9)]
        run = taken(commit, items, B, budget=0.0)
        assert sorted(name.split("[")[1][0] for name in run) == ["x", "y", "z"]


def test_a_family_that_costs_nothing_runs_as_a_whole(taken: Callable[..., list[str]]) -> None:
    items = [Item(f"tests/test_{f}.py::test_b[{n}]") for f in "ac" for n in range(9)]
    run = taken(1, items, {"tests/test_a.py::test_b": 1.0, "tests/test_c.py::test_b": 0.0}, budget=3.0)
    assert sum("test_a" in name for name in run) == 3 and sum("test_c" in name for name in run) == 9


def test_functions_of_a_folder_are_one_family(taken: Callable[..., list[str]]) -> None:
    dear = {f"tests/sim/device/queue/test_{f}.py::test_{n}": 1.0 for f in "ab" for n in range(5)}
    assert len(taken(1, [Item(name) for name in dear], dear, budget=0.0)) == 1
    assert len(taken(1, [Item(name) for name in dear], dear, budget=4.0)) == 4


def test_different_tests_count_for_more_than_alike_ones(taken: Callable[..., list[str]]) -> None:
    """Of ten functions and a hundred variants of one a run takes the same part: variants count as their root."""
    functions = {f"tests/x/test_c.py::test_{n}": 1.0 for n in range(10)}
    items = [Item(name) for name in functions] + [Item(f"tests/test_a.py::test_b[{n}]") for n in range(100)]
    run = taken(1, items, functions | B, budget=10.0)
    assert sum("test_c" in name for name in run) == 5 == sum("test_b" in name for name in run)


def test_changed_chapters_come_first(taken: Callable[..., list[str]]) -> None:
    for commit in range(5):
        items = [Item(f"tests/test_chapter_{n:02}.py::test_b[{k}]") for n in range(20) for k in range(5)]
        run = taken(commit, items, {"tests/test_chapter.py::test_b": 1.0}, budget=7.0, changed="04,11")
        assert len(run) == 7 and all("_04" in name or "_11" in name for name in run)
        items = [Item(f"tests/test_a.py::test_b[{n:02}_title]") for n in range(20)]
        assert taken(commit, items, B, budget=1.0, changed="11") == ["tests/test_a.py::test_b[11_title]"]


def test_long_tests_and_those_for_gpus_are_not_looked_at(taken: Callable[..., list[str]]) -> None:
    items = [Item("tests/test_a.py::test_b[0]", pytest.mark.long), Item("tests/test_a.py::test_b[1]", pytest.mark.gpu)]
    taken(1, items, B, budget=0.0)
    assert not any("sliced" in item.marks for item in items)


def test_the_stored_costs_are_of_tests_and_leave_something_to_choose() -> None:
    costs = Costs.load()
    files = {name.split("::")[0].replace("_chapter.py", "_chapter_14.py") for name in costs.dear}
    gone = [name for name in files if not (slices._ROOT / name).exists()]
    assert not gone, "renew costs.json: `python -m tests.durations --store`"
    assert sum(costs.collected.values()) * costs.cheap < slices.BUDGET


def test_the_commit_chooses_where_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(slices.VARIABLE)
    assert slices.chosen() == slices._head() and int(slices.chosen(), 16) >= 0
    monkeypatch.setenv(slices.VARIABLE, "c0ffee")
    assert slices.chosen() == "c0ffee"


def test_a_slice_of_chosen_members_is_every_nth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slices.VARIABLE, "5")
    assert [n for n in range(9) if slices.is_in(n, 3)] == [2, 5, 8]


def test_folders_with_clearly_fewer_tests_are_named() -> None:
    expected = {"corpus": 100, "sim/cupy": 10}
    assert conftest.too_few({"corpus": 90, "sim/cupy": 40, "new": 1}, expected) == []
    (text,) = conftest.too_few({"sim/cupy": 9, "corpus": 89}, expected)
    assert text.startswith("89 tests of tests/corpus were collected, fewer than nine tenths of 100")


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
    assert repository("cudalab/checks/chapter_06/tiles.py", "exercises/07_c.ipynb") == {"06", "07"}
    assert repository("README.md") == frozenset()
    assert repository("cudalab/widgets/questions/11.toml", "solutions/01_new.ipynb", commit=False) == {"11", "01"}
    subprocess.run(["git", "update-ref", "refs/remotes/origin/main", "HEAD~2"], cwd=tmp_path, check=True)
    assert repository("tests/notebooks/test_chapter_14.py") == {"06", "07", "11", "01", "14"}, "of the whole branch"


def test_chapters_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slices.CHAPTERS, "04,11")
    assert slices.changed_chapters() == {"04", "11"}
    monkeypatch.setenv(slices.CHAPTERS, "")
    assert slices.changed_chapters() == frozenset()
