"""What calls keep the host for, against experiments of the calibration half on an H200, behind a kernel that works."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from bench.fidelity.catalogue import catalogue
from bench.fidelity.experiment import EXPERIMENTS
from bench.fidelity.stored import everything
from cudalab.sim.compiler import compile
from cudalab.sim.device import Device

SOURCE = r"""
extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}"""
H2D, D2H, D2D = 1, 2, 3
KB = 1 << 10


class Calls:
    """A device with memory, a stream and an event that is complete."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.memory, self.host = device.malloc(256 * KB), device.malloc_host(64 * KB)
        self.event, self.stream = device.event_create(), device.stream_create(1)
        device.event_record(self.event, self.stream)
        device.synchronize()
        function = device.get_function(device.load_module(compile(SOURCE)), "spin")
        device.launch(function, (1, 1, 1), (1, 1, 1), struct.pack("q", 1_000_000), stream=self.stream)

    def copy(self, to: int, source: int, kind: int) -> None:
        self.device.memcpy(to, source, 64 * KB, kind, self.stream, True)

    def made_event(self) -> None:
        self.device.event_destroy(self.device.event_create())

    def made_stream(self) -> None:
        self.device.stream_destroy(self.device.stream_create())


CALLS: dict[tuple[str, str], Callable[[Calls], object]] = {
    ("copies", "cudaMemcpyAsync to device, pinned, 65536"): lambda on: on.copy(on.memory, on.host, H2D),
    ("copies", "cudaMemcpyAsync to host, pinned, 65536"): lambda on: on.copy(on.host, on.memory, D2H),
    ("copies", "cudaMemcpyAsync on device, 65536"): lambda on: on.copy(on.memory, on.memory + 64 * KB, D2D),
    ("copies", "cudaMemsetAsync, 4"): lambda on: on.device.memset(on.memory, 0, 4, on.stream, True),
    ("copies", "cudaMemsetAsync, 65536"): lambda on: on.device.memset(on.memory, 0, 64 * KB, on.stream, True),
    ("events", "event.record(stream)"): lambda on: on.device.event_record(on.device.event_create(), on.stream),
    ("events", "event.done"): lambda on: on.device.event_query(on.event),
    ("events", "cudaEventElapsedTime"): lambda on: on.device.event_elapsed(on.event, on.event),
    ("events", "stream.done"): lambda on: on.device.stream_query(on.stream),
    ("events", "cudaEventCreate and Destroy"): Calls.made_event,
    ("events", "cudaStreamCreate and Destroy"): Calls.made_stream,
}


@pytest.mark.parametrize(("family", "call"), CALLS)
def test_a_call_takes_what_it_takes_on_an_h200(device: Device, family: str, call: str) -> None:
    """From Python: on a GPU the call's wrapper is part of it."""
    name = f"calls behind a kernel, host time: {family}"
    catalogue()
    assert EXPERIMENTS[name].side == "calibration"
    on = Calls(device)
    before = device.clock_ns
    CALLS[family, call](on)
    took = (device.clock_ns - before) / 1000
    if call == "event.record(stream)":
        took -= device.profile.host["event_create"] / 1000
    assert took == pytest.approx(everything().figures[name][call], rel=0.2)


def test_a_query_is_quicker_on_an_idle_device(device: Device) -> None:
    on, times = Calls(device), []
    for _ in range(2):
        before = device.clock_ns
        assert device.event_query(on.event)
        times.append(device.clock_ns - before)
        device.synchronize()
    assert times[0] - times[1] == device.profile.host["event_query_busy"]
