"""Rotating slices of the large families of generated tests.

A family that is too large for every run (forms of opcodes, kernels of the corpus, answers, chapters) is cut into
slices. Each commit takes one of them, chosen by its hash, so that the whole is run in the course of some commits, and
`make test-long` always runs all of it. The run's header names the slice; ``CUDALAB_SLICE=…`` repeats it. The core cases
of a family are in every slice, and so are the chapters that a change touches.

The parameters of one test are cut by ``cases``. Tests that take long bear ``@pytest.mark.turns(of=3)``: of its file's
tests with that mark a run takes one in three, and at least one.
"""

from __future__ import annotations

import os
import re
import subprocess
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "CUDALAB_SLICE"
CHAPTERS = "CUDALAB_CHAPTERS"
_COURSE = (
    "notebooks",
    "exercises",
    "solutions",
    "cudalab/checks",
    "cudalab/widgets/questions",
    "cudalab/widgets/predictions",
    "tests/notebooks",
)
_NUMBER = re.compile(r"(?:^|/|chapter_)(\d\d)[_.]")
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
    """Is the member at ``position`` of a family of so many slices in the chosen one?"""
    return position % slices == int(chosen(), 16) % slices


def take_turns(items: Iterable[pytest.Item]) -> None:
    """Mark tests that bear ``turns(of=n)``: ``sliced``, and ``long`` but for one in ``n`` of a file's, at least one.

    The order is that of a checksum of the test's id, so that the variants of one test, which stand in a row, do not all
    fall into the same slices. A long test has no turn.
    """
    families: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("turns")
        if mark is not None and item.get_closest_marker("long") is None:
            if item.get_closest_marker("sliced") is not None:
                raise pytest.UsageError(f"{item.nodeid} is of a slice already, and can take no turns")
            families[item.nodeid.split("::")[0], mark.kwargs["of"]].append(item)
    for (_, of), family in families.items():
        family.sort(key=lambda item: (zlib.crc32(item.nodeid.encode()), item.nodeid))
        for position, item in enumerate(family):
            item.add_marker("sliced")
            if not is_in(position, min(of, len(family))):
                item.add_marker("long")


def cases(
    family: Iterable[Any],
    *,
    most: int,
    core: Callable[[Any], bool] = lambda member: False,
    ids: Callable[[Any], str] | None = None,
) -> list[Any]:
    """The members of a family as parameters of a test.

    All of them are marked ``sliced``, and those outside of the chosen slice ``long`` as well.

    Args:
        family: the members, always in the same order.
        most: how many of them a slice has at the most, without the core.
        core: which members are in every slice.
        ids: the name of a member in the test's id, where pytest does not find one.

    Raises:
        ValueError: the family is empty, or the slice would be.
    """
    members = list(family)
    if not members or most < 1:
        raise ValueError(f"a slice of {len(members)} tests with at most {most} of them would be empty")
    others = sum(not core(member) for member in members)
    slices = max(1, -(-others // most))
    found, position = [], 0
    for member in members:
        marks = [pytest.mark.sliced]
        if not core(member):
            marks += [pytest.mark.long] * (not is_in(position, slices))
            position += 1
        found.append(pytest.param(member, marks=marks, id=ids(member) if ids else None))
    return found
