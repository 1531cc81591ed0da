"""How tests are spread over the processes of a run."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.slices import Costs

#: Files of which any process takes a part: the tests whose parameter begins with the same word (a chapter, a family).
SPREAD = (
    "tests/notebooks/",
    "tests/conformance/test_conformance.py",
    "tests/checks/test_exercises.py",
    "tests/checks/test_cheats.py",
)
#: Folders that stay together: their tests share kernels that take seconds to write.
TOGETHER = ("tests/sim/compiler/opcodes/",)


class Scheduling(LoadScopeScheduling):
    """Tests of one file stay in one process, where they share fixtures and compiled kernels, but for ``SPREAD``."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(nodeid: str) -> str:
    """The tests that run in one process with this one."""
    path = next((start for start in TOGETHER if nodeid.startswith(start)), nodeid.split("::")[0])
    parameter = re.search(r"\[([\w.]+)", nodeid)
    return f"{path}[{parameter[1]}" if parameter and path.startswith(SPREAD) else path


def longest_first(items: list[pytest.Item], costs: Costs) -> None:
    """Put the units that take longest first, so that no process is left with one at the end."""
    units: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("long") is None:
            units[unit_of(item.nodeid)] += costs.of(item)  # type: ignore[assignment]
    items.sort(key=lambda item: -units[unit_of(item.nodeid)])
