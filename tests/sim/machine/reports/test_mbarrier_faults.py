"""The state of an mbarrier, in words."""

from __future__ import annotations

import pytest

from cudalab.sim.machine.reports.mbarrier_faults import Mbarrier


@pytest.mark.parametrize(
    ("bytes_pending", "end"),
    [
        (0, "with 1 of 4 arrivals"),
        (16, "with 1 of 4 arrivals, and waits for 16 bytes that no copy has brought"),
        (-16, "with 1 of 4 arrivals, and copies have brought 16 bytes that were not announced"),
    ],
)
def test_what_a_phase_waits_for(bytes_pending: int, end: str) -> None:
    assert str(Mbarrier(3, 4, bytes_pending, 1, True)) == f"is in a phase of parity 1, {end}"
    assert str(Mbarrier(3, 4, bytes_pending, 1, False)) == "is not initialised"
