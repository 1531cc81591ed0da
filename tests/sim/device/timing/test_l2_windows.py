"""Every way of giving a kernel an access policy window, whose L2 it is, and streams that share one."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.calls.launch_attributes import LaunchAttributes
from cudalab.sim.device.queue.operation import Operation
from cudalab.sim.device.timing.l2_ranges import PERSISTING, STREAMING

MB = 1 << 20
WINDOW, ASIDE = 1, 6
"""``cudaLaunchAttributeAccessPolicyWindow``, ``cudaLimitPersistingL2CacheSize``"""
Fields = tuple[int, int, float, int, int]
SWEEP = r"""
extern "C" __global__ void sweep(const float4* x, float* out, int n) {
    float s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i].x + x[i].w;
    if (s == 12345.f) *out = s;
}"""


class Lab:
    """16 MB that are read often, 40 MB of other data, and the time of each kernel in ns."""

    def __init__(self, profile: str = "h200", number: int = 0) -> None:
        self.device = Device(profile)
        self.device.set_device(number)
        self.ends: list[int] = []
        self.device.state.on_end.append(self._note)
        self.sweep = self.device.get_function(self.device.load_module(compile(SWEEP)), "sweep")
        self.often, self.other, self.out = (self.device.malloc(size) for size in (16 * MB, 40 * MB, 256))
        self.window = (self.often, 16 * MB, 1.0, PERSISTING, STREAMING)
        self.stream = self.device.stream_create(1)

    def _note(self, operation: Operation) -> None:
        if operation.kind == "kernel":
            self.ends.append(operation.end - operation.start)

    def read(self, address: int, size: int, *, stream: int | None = None, window: Fields | None = None) -> None:
        arguments = struct.pack("QQi", address, self.out, size // 16)
        attributes = None if window is None else LaunchAttributes(window=window)
        queue = self.stream if stream is None else stream
        self.device.launch(self.sweep, (1056, 1, 1), (256, 1, 1), arguments, 0, queue, attributes=attributes)

    def again(self) -> int:
        """ns of one more read of what is read often, behind 40 MB of others; what persists was given back then."""
        self.device.synchronize()
        self.read(self.other, 40 * MB)
        self.read(self.often, 16 * MB)
        self.device.synchronize()
        found = self.ends[-1]
        self.device.reset_persisting_l2()
        return found


@pytest.fixture(scope="module")
def lab() -> Lab:
    lab = Lab()
    lab.device.set_limit(ASIDE, 30 * MB)
    return lab


def nothing(lab: Lab) -> None:
    lab.read(lab.often, 16 * MB)


def of_the_stream(lab: Lab) -> None:
    lab.device.stream_set_attribute(lab.stream, WINDOW, lab.window)
    lab.read(lab.often, 16 * MB)
    lab.device.stream_set_attribute(lab.stream, WINDOW, (0, 0, 0.0, 0, 0))


def of_the_launch(lab: Lab) -> None:
    lab.read(lab.often, 16 * MB, window=lab.window)


def of_a_captured_stream(lab: Lab) -> None:
    lab.device.stream_set_attribute(lab.stream, WINDOW, lab.window)
    lab.device.capture_begin(lab.stream)
    lab.read(lab.often, 16 * MB)
    graph = lab.device.capture_end(lab.stream)
    lab.device.stream_set_attribute(lab.stream, WINDOW, (0, 0, 0.0, 0, 0))
    lab.device.graph_launch(lab.device.graph_instantiate(graph), lab.stream)


def of_a_node(lab: Lab) -> None:
    lab.device.capture_begin(lab.stream)
    lab.read(lab.often, 16 * MB)
    graph = lab.device.capture_end(lab.stream)
    (node,) = lab.device.graph_nodes(graph)
    lab.device.graph_node_set_attribute(node, WINDOW, lab.window)
    lab.device.graph_launch(lab.device.graph_instantiate(graph), lab.stream)


@pytest.mark.parametrize("way", [of_the_stream, of_the_launch, of_a_captured_stream, of_a_node])
def test_a_window_makes_lines_persist(lab: Lab, way: Callable[[Lab], None]) -> None:
    nothing(lab)
    plain = lab.again()
    way(lab)
    assert lab.again() < 0.9 * plain


def test_a_launch_with_a_window_of_no_bytes_has_none(lab: Lab) -> None:
    nothing(lab)
    plain = lab.again()
    lab.device.stream_set_attribute(lab.stream, WINDOW, lab.window)
    lab.read(lab.often, 16 * MB, window=(0, 0, 0.0, 0, 0))
    lab.device.stream_set_attribute(lab.stream, WINDOW, (0, 0, 0.0, 0, 0))
    assert lab.again() == plain


def test_other_streams_share_the_l2(lab: Lab) -> None:
    """What one stream made persist, another finds; and more than the L2 of other data pushes it out, whoever reads."""
    stream = lab.device.stream_create(1)
    of_the_launch(lab)
    persisting = lab.again()
    of_the_launch(lab)
    lab.device.synchronize()
    for _ in range(2):
        lab.read(lab.other, 40 * MB, stream=stream)
        lab.device.synchronize()
    assert lab.again() == pytest.approx(persisting, rel=0.02)
    large = lab.device.malloc(96 * MB)
    of_the_launch(lab)
    lab.device.synchronize()
    lab.read(large, 96 * MB, stream=stream)
    gone = lab.again()
    lab.device.free(large)
    lab.device.stream_destroy(stream)
    assert gone > 1.1 * persisting


def test_each_device_has_an_l2_and_a_set_aside() -> None:
    lab = Lab("h200-x2", 1)
    device = lab.device
    device.set_limit(ASIDE, 30 * MB)
    device.set_device(0)
    assert device.get_limit(ASIDE) != 30 * MB
    mine = device.malloc(128 * MB)
    device.set_device(1)
    lab.read(lab.often, 16 * MB)
    lab.read(lab.often, 16 * MB)
    device.synchronize()
    warm = lab.ends[-1]
    device.set_device(0)
    device.memset(mine, 0, 128 * MB)
    device.synchronize()
    device.set_device(1)
    lab.read(lab.often, 16 * MB)
    device.synchronize()
    assert lab.ends[-1] == warm
    device.memset(lab.other, 0, 40 * MB)
    device.memset(lab.other, 0, 40 * MB)
    lab.read(lab.often, 16 * MB)
    device.synchronize()
    assert lab.ends[-1] > 1.1 * warm


@pytest.mark.parametrize("waits", [True, False])
def test_a_reset_gives_back_what_launches_before_it_make_persist(lab: Lab, waits: bool) -> None:
    """Also of those that have not started when it is called, for which it does not wait, as on an H200."""
    cache = lab.device.state.timer.l2_of(0)
    for _ in range(3):
        lab.read(lab.often, 16 * MB, window=lab.window)
    if waits:
        lab.device.synchronize()
    before = len(lab.ends)
    lab.device.reset_persisting_l2()
    assert waits or len(lab.ends) < before + 3
    lab.device.synchronize()
    assert cache.persisting == 0


def test_a_reset_does_not_touch_what_comes_later(lab: Lab) -> None:
    lab.read(lab.often, 16 * MB, window=lab.window)
    lab.device.reset_persisting_l2()
    lab.read(lab.often, 16 * MB, window=lab.window)
    lab.device.synchronize()
    assert lab.device.state.timer.l2_of(0).persisting > 15 * MB
    lab.device.reset_persisting_l2()
