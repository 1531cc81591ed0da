"""What a run takes of the tests: all that are cheap, and of the dear ones as many as a budget of processor time allows.

So `make test` takes the same time however many chapters, programs and answers there are; `make test-long` always runs
what it leaves out. ``costs.json`` has the processor seconds that a test of each dear function takes; ``python -m
tests.durations`` renews it. Functions that are not in it are cheap, and always run.

A family is a dear function with its parameters, one for the numbered files of all chapters; functions without
parameters are of one family with others of their folder. A run takes at least one test of each family, and where
parameters have a kind (``cases``) one of each kind; then so many of each family that the budget is used, of tests
that are alike fewer. Which of them, the commit chooses; those of chapters that a change touches come first. The run's
header says how to take the same again.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "CUDALAB_SLICE"
CHAPTERS = "CUDALAB_CHAPTERS"
COSTS = Path(__file__).with_name("costs.json")
BUDGET = 240.0
"""Processor seconds of all tests of a run, on the machine that ``costs.json`` was measured on."""

_COURSE = (
    "notebooks",
    "exercises",
    "solutions",
    "cudalab/checks",
    "cudalab/widgets/questions",
    "cudalab/widgets/predictions",
    "tests/notebooks",
)
_NUMBER = re.compile(r"(?:^|[/\[]|chapter_)(\d\d)[_./]")
_ROOT = Path(__file__).parent.parent


def chosen() -> str:
    """The start of a commit's hash, hexadecimal: of the variable, else of the commit that is checked out."""
    return os.environ.get(VARIABLE) or _head()


@cache
def _head() -> str:
    """The commit that is checked out; zeros outside of a repository."""
    return _git("rev-parse", "--short=8", "HEAD") or "0" * 8


def _git(*arguments: str) -> str:
    """What git prints; nothing outside of a repository, or where it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def changed_chapters() -> frozenset[str]:
    """The numbers of the chapters (``04``) of the variable, else of those that a change touches."""
    named = os.environ.get(CHAPTERS)
    return _changed_chapters() if named is None else frozenset(filter(None, named.split(",")))


@cache
def _changed_chapters() -> frozenset[str]:
    """Chapters whose notebook, exercises, questions or tests differ from where the branch left ``origin/main``, on main
    itself from the commit before; changes that are not committed count. None where that commit is not known."""
    base = _git("merge-base", "HEAD", "origin/main")
    if not base or base == _git("rev-parse", "HEAD"):
        base = "HEAD~1"
    files = _git("diff", "--name-only", base, "--", *_COURSE)
    files += "\n" + _git("ls-files", "--others", "--exclude-standard", "--", *_COURSE)
    return frozenset(_NUMBER.findall(files.replace("\n", "\n/")))


def is_in(position: int, slices: int) -> bool:
    """Is the member at ``position`` of a list that is cut into so many slices in the chosen one?"""
    return position % slices == int(chosen(), 16) % slices


def cases(members: Iterable[Any], *, kind: Callable[[Any], str], ids: Callable[[Any], str] | None = None) -> list[Any]:
    """Parameters of a test, each with its kind: a run takes at least one of each."""
    return [
        pytest.param(member, marks=pytest.mark.kind(kind(member)), id=ids(member) if ids else None)
        for member in members
    ]


@dataclass(frozen=True)
class Costs:
    """What tests take, in processor seconds."""

    dear: Mapping[str, float]
    """A test of each dear function (``cost_key``)."""
    cheap: float
    """Any other test."""
    collected: Mapping[str, int]
    """How many tests there are, by folder, those that a run leaves out included."""

    @classmethod
    def load(cls, path: Path = COSTS) -> Costs:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def store(self, path: Path = COSTS) -> None:
        path.write_text(json.dumps(vars(self), indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def of(self, item: pytest.Item) -> float:
        return self.dear.get(cost_key(item), self.cheap)


def cost_key(item: pytest.Item) -> str:
    """The test's function, one for all chapters."""
    return _unnumbered(item.nodeid.split("[")[0])


def family_of(item: pytest.Item) -> str:
    """The tests of which a run takes at least one."""
    return cost_key(item) if "[" in item.nodeid else folder_of(item.nodeid)


def folder_of(nodeid: str) -> str:
    """The folder under ``tests`` that a test belongs to: the topmost, in ``sim`` (the largest) the third."""
    folders = nodeid.split("::")[0].split("/")[1:-1]
    return "/".join(folders[: 3 if folders[:1] == ["sim"] else 1]) or "(files)"


def _unnumbered(nodeid: str) -> str:
    """Without the number of a chapter."""
    return re.sub(r"chapter_\d\d", "chapter", nodeid)


@dataclass(frozen=True)
class Family:
    """Dear tests of one kind, in the order in which a run takes them."""

    items: Sequence[pytest.Item]
    seconds: Sequence[float]
    """What each of them costs."""
    least: int
    """How many of them a run takes in any case."""
    weight: float
    """Seconds of which a run takes the same share in each family: those of all different tests; many that are alike
    count as the root of their number."""

    @classmethod
    def of(cls, items: Iterable[pytest.Item], costs: Costs) -> Family:
        """In the order of a checksum, since the variants of one test stand in a row, from where the commit says on;
        chapters that a change touches come first, and before them one test of each kind."""
        items = sorted(items, key=lambda item: (zlib.crc32(item.nodeid.encode()), item.nodeid))
        start = int(chosen(), 16) % len(items)
        items = items[start:] + items[:start]
        changed = changed_chapters()
        items.sort(key=lambda item: changed.isdisjoint(_NUMBER.findall(item.nodeid)))
        kinds: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            kinds[_kind(item)].append(item)
        weight = sum(sum(map(costs.of, alike)) / math.sqrt(len(alike)) for alike in kinds.values())
        first = {alike[0] for alike in kinds.values()} if "[" in items[0].nodeid else {items[0]}
        items.sort(key=lambda item: item not in first)
        return cls(items, [costs.of(item) for item in items], len(first), weight)

    def taken(self, share: float) -> int:
        """How many tests a run takes."""
        left = share * self.weight
        for count, seconds in enumerate(self.seconds):
            left -= seconds
            if left < 0 and count >= self.least:
                return count
        return len(self.seconds)

    def cost(self, share: float) -> float:
        return sum(self.seconds[: self.taken(share)])


def _kind(item: pytest.Item) -> str:
    """Tests of one kind are alike: those of a function, and of what its parameters name as their kind."""
    mark = item.get_closest_marker("kind")
    return cost_key(item) if mark is None else mark.args[0]


def take(items: Iterable[pytest.Item], costs: Costs, budget: float = BUDGET) -> None:
    """Mark the tests of dear families ``sliced``, and ``long`` those that a run leaves out. Tests that are ``long`` by
    themselves, or need a GPU, are not looked at."""
    members: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("long") is not None or item.get_closest_marker("gpu") is not None:
            continue
        if cost_key(item) in costs.dear:
            members[family_of(item)].append(item)
        else:
            budget -= costs.cheap
    families = [Family.of(each, costs) for each in members.values()]
    share = _share(families, budget)
    for family in families:
        for position, item in enumerate(family.items):
            item.add_marker("sliced")
            if position >= family.taken(share):
                item.add_marker("long")


def _share(families: Sequence[Family], budget: float) -> float:
    """The largest share with which all families together stay within the budget; 0 where what a run takes in any case
    is more."""
    if sum(family.cost(math.inf) for family in families) <= budget:
        return math.inf
    shares = (sum(family.seconds) / family.weight for family in families if family.weight)
    low, high = 0.0, max(shares, default=0.0)
    for _ in range(30):
        middle = (low + high) / 2
        if sum(family.cost(middle) for family in families) > budget:
            high = middle
        else:
            low = middle
    return low
