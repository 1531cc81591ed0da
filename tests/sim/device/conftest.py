"""A device for each test, and small ways to move arrays."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.device import Device


class Bench:
    """A device with shorthands."""

    def __init__(self, profile: str = "h200", **options: object) -> None:
        self.device = Device(profile, **options)

    def upload(self, array: np.ndarray) -> int:
        pointer = self.device.malloc(array.nbytes)
        self.device.memcpy(pointer, array.ctypes.data, array.nbytes, 1)
        return pointer

    def download(self, pointer: int, count: int, dtype: object = np.uint8) -> np.ndarray:
        array = np.zeros(count, dtype)
        self.device.memcpy(array.ctypes.data, pointer, array.nbytes, 2)
        return array

    def pinned(self, count: int, dtype: object = np.float32) -> tuple[int, np.ndarray]:
        """Page-locked memory: its address, and the host's view of it."""
        size = count * np.dtype(dtype).itemsize
        pointer = self.device.malloc_host(size)
        return pointer, np.frombuffer(self.device.view(pointer, size), dtype)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def device(bench: Bench) -> Device:
    return bench.device
