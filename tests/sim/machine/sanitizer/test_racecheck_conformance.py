"""No false alarm: every launch of the conformance programs, under all tools.

Their kernels are correct, and agree with what an H200 computed. Those that are wrong on purpose are listed by name.
"""

from __future__ import annotations

import os
import warnings

import pytest

import cudalab
from tests.conformance.program import Program, load_programs
from tests.sim.machine.sanitizer.checked_launches import checked_launches

PROGRAMS = load_programs()
#: Wrong on purpose: what must be found, or may be found, there.
WRONG = {
    "callbacks/after_a_fault": {"null pointer"},
    "clusters/block_size": {"race"},  # every thread writes the same number
    "clusters/ended_block": {"shared memory of a block that has ended"},
    "clusters/missing_rank": {"no such rank", "race"},  # both blocks write the same elements, here and below
    "clusters/misaligned_remote": {"misaligned address", "race"},
    "clusters/past_the_end": {"out of bounds", "race"},
    "device_heap/double_free": {"invalid free"},
    "device_heap/stack_limit": {"stack overflow"},
    "grid_sync/not_cooperative": {"grid synchronisation"},
    "named_barriers/uneven_count": {"barrier count"},
    "named_barriers/reduction_mixed_with_sync": {"mixed barrier"},
    "textures/surface_overrun": {"surface access out of bounds"},
    "textures/surface_misaligned": {"misaligned address"},
}
#: Their kernels wait for something that the sanitizer keeps away: another kernel, a copy, the host.
WAITING = ("spinning/",)
#: They count launches in memory that nobody sets to zero first: a correct finding of initcheck.
UNSET = ("launch_errors/",)
#: Whole families of mistakes.
FAULTY = ("faults/",)
#: A pool lends memory again before a launch that reads it has run; `cudalab.sanitize` waits for such launches first.
LENT_AGAIN = {"memory_spaces/grid_stride_loop"}
FAST = [
    "atomics/",
    "barriers/",
    "named_barriers/",
    "warps/",
]


def check(program: Program) -> None:
    with warnings.catch_warnings(), checked_launches(time_limit=2.0) as launches:
        warnings.simplefilter("ignore")
        try:
            program.run()
        except Exception:  # what a program raises is for test_conformance
            if program.key not in WRONG and not program.key.startswith((*FAULTY, *WAITING)):
                raise
        finally:
            cudalab.reset()
    rules = {finding.rule for _, checked in launches for finding in checked.findings}
    expected = WRONG.get(program.key, set())
    allowed = set(expected)
    if program.key.startswith(UNSET) or program.key in LENT_AGAIN:
        allowed.add("uninitialised read")
    if program.key.startswith(WAITING):
        allowed |= {"endless wait", "endless loop"}
    text = "\n".join(str(finding) for _, checked in launches for finding in checked.findings)
    assert rules <= allowed, text
    assert rules >= expected, f"{expected - rules} was not found"


def is_checked(key: str) -> bool:
    return os.environ["CUDALAB_DEVICE"] != "gpu" and not key.startswith(FAULTY)


def test_the_lists_name_programs() -> None:
    assert set(WRONG) | LENT_AGAIN <= set(PROGRAMS)
    for beginning in (*WAITING, *UNSET, *FAULTY, *FAST):
        assert any(key.startswith(beginning) for key in PROGRAMS), beginning


@pytest.mark.parametrize("key", [next(key for key in PROGRAMS if key.startswith(start)) for start in FAST])
def test_a_slice(key: str) -> None:
    check(PROGRAMS[key])


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("key", [key for key in PROGRAMS if is_checked(key)])
def test_no_false_alarm(key: str) -> None:
    check(PROGRAMS[key])
