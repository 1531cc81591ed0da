"""Rotating slices of the large families of generated tests.

A family that is too large for every run (forms of opcodes, kernels of the corpus, mutants) is cut into slices. Each
commit takes one of them, chosen by its hash, so that the whole is run in the course of some commits, and `make
test-long` always runs all of it. The run's header names the slice; ``CUDALAB_SLICE=…`` repeats it. The core cases of a
family are in every slice.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "CUDALAB_SLICE"
_ROOT = Path(__file__).parent.parent


def chosen() -> str:
    """The start of a commit's hash, hexadecimal: of the variable, else of the commit that is checked out."""
    return os.environ.get(VARIABLE) or _head()


@cache
def _head() -> str:
    """The commit that is checked out; zeros outside of a repository."""
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return "0" * 8
    return done.stdout.strip() if done.returncode == 0 else "0" * 8


def is_in(position: int, slices: int) -> bool:
    """Is the member at ``position`` of a family of so many slices in the chosen one?"""
    return position % slices == int(chosen(), 16) % slices


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
