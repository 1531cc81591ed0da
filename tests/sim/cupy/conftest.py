from __future__ import annotations

from collections.abc import Iterator

import pytest

from cudalab.sim import device as sim_device


@pytest.fixture(autouse=True)
def working_device() -> Iterator[None]:
    """A test that loses the device leaves a new one to the next."""
    yield
    if sim_device.current_device().lost is not None:
        sim_device.reset()


@pytest.fixture
def own_device() -> Iterator[sim_device.Device]:
    """A device of the test's own, with its clock at the start."""
    device = sim_device.Device()
    before = sim_device.set_current_device(device)
    yield device
    sim_device.set_current_device(before)
