"""How tests are spread over the processes of a run."""

from __future__ import annotations

import re

from xdist.scheduler import LoadScopeScheduling

#: Files whose tests take longest, in this order: they come first, so that no process is left with one at the end.
LONGEST = (
    "tests/browser/",
    "tests/robustness/",
    "tests/sim/compiler/processes/test_helper.py",
    "tests/notebooks/",
    "tests/conformance/test_conformance.py",
    "tests/fuzz/",
    "tests/sim/compiler/opcodes/",
    "tests/checks/",
    "tests/dev/calibrate/",
    "tests/planted/",
    "tests/corpus/",
    "tests/sim/cupy/test_facts.py",
    "tests/bench/",
)
#: Files of which any process takes a part: the tests whose parameter begins with the same word (a chapter, a family).
SPREAD = (
    "tests/notebooks/",
    "tests/conformance/test_conformance.py",
    "tests/checks/test_exercises.py",
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


def rank(nodeid: str) -> int:
    """The test's place in the order of ``LONGEST``."""
    return next((rank for rank, start in enumerate(LONGEST) if nodeid.startswith(start)), len(LONGEST))
