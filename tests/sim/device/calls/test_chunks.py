"""What allocations and frees take the host, against an H200 (bench/host_time/data/h200-allocations.json)."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from bench import host_time
from cudalab.sim.device import Device

MEASURED = json.loads((Path(host_time.__file__).parent / "data" / "h200-allocations.json").read_text(encoding="utf-8"))
KB, MB = 1 << 10, 1 << 20


class Kind:
    """The calls of one kind of memory, timed in µs."""

    def __init__(self, device: Device, kind: str) -> None:
        self.device = device
        device.synchronize()  # the first call of all takes the context
        calls = {"page-locked": (device.malloc_host, device.free_host), "device": (device.malloc, device.free)}
        self._allocate, self._free = calls[kind]

    def allocate(self, size: int) -> tuple[float, int]:
        before = self.device.clock_ns
        pointer = self._allocate(size)
        return (self.device.clock_ns - before) / 1000, pointer

    def free(self, pointer: int) -> float:
        before = self.device.clock_ns
        self._free(pointer)
        return (self.device.clock_ns - before) / 1000


@pytest.mark.parametrize("kind", ["page-locked", "device"])
@pytest.mark.parametrize("size", [4 * KB, 64 * KB, MB, 2 * MB, 16 * MB, 64 * MB])
@pytest.mark.parametrize("place", ["alone", "beside others"])
def test_a_pair_takes_what_it_takes_on_an_h200(device: Device, kind: str, size: int, place: str) -> None:
    """Alone an allocation brings its chunk and takes it away; beside others it is a matter of microseconds."""
    calls = Kind(device, kind)
    if place == "beside others":
        calls.allocate(4 * KB)
    pairs = MEASURED[f"{kind}, {size}, {place}"]["pairs"]
    measured = sum(pairs[1]) if place == "alone" or size >= 2 * MB else statistics.median(map(sum, pairs))
    took, pointer = calls.allocate(size)
    assert took + calls.free(pointer) == pytest.approx(measured, rel=0.4)


@pytest.mark.parametrize("kind", ["page-locked", "device"])
def test_every_so_many_allocations_need_a_chunk(device: Device, kind: str) -> None:
    size = {"page-locked": 256 * KB, "device": 512 * KB}[kind]
    measured = MEASURED[f"{kind}, {size}, alone"]
    calls = Kind(device, kind)
    times = [calls.allocate(size) for _ in measured["allocations"]]
    chunks = [number for number, (took, _) in enumerate(times) if took > 20]
    assert chunks == [number for number, took in enumerate(measured["allocations"]) if took > 20]
    frees = [calls.free(pointer) for _, pointer in times]
    gone = [number for number, took in enumerate(frees) if took > 20]
    assert gone == [number for number, took in enumerate(measured["frees"]) if took > 20]


def test_a_reset_takes_the_chunks_away(device: Device) -> None:
    calls = Kind(device, "device")
    first, _ = calls.allocate(4 * KB)
    assert calls.allocate(4 * KB)[0] < first / 5
    device.reset()
    device.synchronize()
    assert calls.allocate(4 * KB)[0] == first
