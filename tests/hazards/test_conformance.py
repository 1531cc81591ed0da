"""Conformance programs agree with a real GPU, so they should be in order: none is reported but those that are not."""

from __future__ import annotations

from contextlib import suppress

import pytest

from cudalab.sim.device import Device
from cudalab.sim.device.current import set_current_device
from tests.conformance.program import load_programs

PROGRAMS = {key: program for key, program in load_programs().items() if not program.isolated}
FAMILIES = {"streams", "events", "pool", "cupy_runtime", "runtime_memory", "raw_modules", "copy_shapes"}
FEWEST = 100
UNORDERED = {
    "copy_order/plain_copy_beside_non_blocking": "shows that a copy does not wait for a non-blocking stream",
    "copy_order/from_page_locked": "overwrites a source that a copy has still to read, to show when it is read",
    "copy_order/from_registered": "the same",
    "copy_order/from_other_page_locked": "the same",
    "copy_order/mapped_memory_is_read_late": "the same, with a kernel that reads mapped memory",
    "copy_order/of_cupy": "the same, with CuPy",
    "copy_order/to_page_locked": "looks at the destination before the copy has run, to show that it is empty",
    "copy_order/in_order": "the same",
    "copy_shapes/peer_copies": "a small copy from pageable memory returns when it is staged; the next is non-blocking",
    "copy_shapes/copies_2d_of_the_driver": "the same",
    "copy_shapes/copies_3d_of_the_driver": "the same",
    "copy_shapes/copies_of_the_driver": "the same, and a copy within the device, which never waits",
    "spinning/host_sets_a_mapped_flag": "zeros of the default stream in a non-blocking one, long after",
    "spinning/host_sets_a_managed_flag": "the same",
}
"""Programs whose results do not depend on an order that they leave out, and why."""


def hazards_of(key: str) -> list[str]:
    """What is reported of a program; whether it does what it should is tested elsewhere."""
    device = Device()
    before = set_current_device(device)
    try:
        with suppress(Exception):
            PROGRAMS[key].run()
            device.synchronize()
    finally:
        set_current_device(before)
    return [hazard.text for hazard in device.hazards]


@pytest.mark.parametrize("key", [key for key in PROGRAMS if key.split("/")[0] in FAMILIES and key not in UNORDERED])
def test_no_false_alarm(key: str) -> None:
    assert hazards_of(key) == []


def test_a_copy_that_does_not_wait_is_reported() -> None:
    (text,) = hazards_of("copy_order/plain_copy_beside_non_blocking")
    assert "non-blocking" in text


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_false_alarm_in_any_family() -> None:
    assert len(PROGRAMS) >= FEWEST
    alarms = {key: found for key in PROGRAMS if key not in UNORDERED and (found := hazards_of(key))}
    assert not alarms
