"""The device of the process."""

from __future__ import annotations

import gc
import threading

import pytest

from cudalab.sim.device import Device, current, current_device, set_current_device


class Cycle:
    """Garbage that only the collector frees; its destructor asks for the device, as that of an array does."""

    def __init__(self, found: list[Device]) -> None:
        self.itself = self
        self.found = found

    def __del__(self) -> None:
        self.found.append(current_device())


def test_a_destructor_may_ask_for_the_device_while_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Device] = []
    asked: list[Device] = []

    def collecting(profile: str) -> Device:
        monkeypatch.setattr(current, "Device", Device)
        Cycle(found)
        gc.collect()
        return Device(profile)

    before = set_current_device(None)
    monkeypatch.setattr(current, "Device", collecting)
    try:
        thread = threading.Thread(target=lambda: asked.append(current_device()), daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive(), "current_device() waits for itself"
        assert asked == found == [current_device()]
    finally:
        if not thread.is_alive():
            set_current_device(before)
