"""Counters against Nsight Compute on an H200: equal for every program that was recorded there.

``python tests/sim/machine/counters/record_counters.py FILE`` records anew on a GPU (``data/ncu_h200.json``).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.machine.launch.occupancy import kernel_occupancy
from tests.sim.h200 import LIMITS
from tests.sim.machine.counters import report_counters
from tests.sim.machine.counters.hardware_counters import PROGRAMS, RECORDED, counted, counts_of, expected


def test_every_program_was_recorded() -> None:
    assert list(RECORDED["counters"]) == list(PROGRAMS)
    assert "H200" in RECORDED["device"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_counters_equal_the_hardware_s(name: str) -> None:
    program = PROGRAMS[name]
    ours, theirs = counted(program), expected(program)
    different = {key: (ours[key], value) for key, value in theirs.items() if ours[key] != value}
    assert bool(different) == bool(program.unlike), different


@pytest.mark.parametrize("name", PROGRAMS)
def test_occupancy_equals_the_hardware_s(name: str) -> None:
    """The bound of shared memory is left out: ncu's is that of the split between L1 and shared memory which the driver
    chose for the launch, and never the one that counts. A thread has at least 16 registers."""
    program, found = PROGRAMS[name], RECORDED["counters"][name]
    kernel = compile(program.code).kernels["k"]
    ours = kernel_occupancy(kernel, int(np.prod(program.block)), 0, LIMITS)
    assert kernel.resources is not None
    assert max(16, kernel.resources.registers) == found["launch__registers_per_thread"]
    for bound in ("warps", "blocks", "registers"):
        assert ours.bounds[bound] == found[f"launch__occupancy_limit_{bound}"]
    assert 100 * ours.fraction == pytest.approx(
        found["sm__maximum_warps_per_active_cycle_pct"], abs=0.006
    )  # ncu prints two decimals


def test_the_assembler_s_merging_is_the_hardware_s() -> None:
    """A tiled product of 256 x 256 with tiles of 16: 32 loads a tile in the PTX, 20 in the machine code."""
    found = RECORDED["counters"]["tiled matmul 256"]
    assert found["smsp__inst_executed_op_shared_ld.sum"] == 655_360
    assert counts_of("tiled matmul 256").shared_loads.requests_in_ptx == 1_048_576


def test_the_report_is_up_to_date() -> None:
    stored = Path(report_counters.REPORT).read_text()
    assert stored == report_counters.text(), "renew it: python -m tests.sim.machine.counters.report_counters"
