"""Programmatic edges of graphs: their times are an H200's (docs/evidence/2026-11-23-device-launch.md)."""

from __future__ import annotations

import struct
import warnings

import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.graphs.content import Content, KernelContent, NodeKind
from cudalab.sim.device.graphs.graph import PLAIN, PROGRAMMATIC, Edge
from cudalab.sim.device.hazards import HazardWarning

START: Edge = (2, 0, 1)
SOURCE = r"""
extern "C" __global__ void step(int before, int behind, int trigger, int wait) {
    long long start = clock64();
    while (clock64() - start < before) { }
    if (trigger) asm volatile("griddepcontrol.launch_dependents;");
    start = clock64();
    while (clock64() - start < behind) { }
    if (wait) asm volatile("griddepcontrol.wait;" ::: "memory");
}
extern "C" __global__ void nothing() { }
extern "C" __global__ void triggers(int* x) {
    asm volatile("griddepcontrol.launch_dependents;");
    x[threadIdx.x] = 1;
}
extern "C" __global__ void copies(int* to, const int* from, int wait) {
    if (wait) asm volatile("griddepcontrol.wait;" ::: "memory");
    to[threadIdx.x] = from[threadIdx.x];
}
extern "C" __global__ void both() {
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
}"""
SPIN = 20_000


def chain_time(device: Device, count: int, edge: Edge, name: str, args: tuple[int, ...] = ()) -> float:
    """What a chain of kernels takes as a graph between two events, in microseconds."""
    function = device.get_function(device.load_module(compile(SOURCE)), name)
    launch = KernelContent(function, (1, 1, 1), (1, 1, 1), struct.pack(f"{len(args)}i", *args))
    graph, last = device.graph_create(), []
    for _ in range(count):
        last = [device.graph_add_node(graph, last, Content(NodeKind.KERNEL, launch), edges=[edge] * len(last))]
    executable = device.graph_instantiate(graph)
    device.graph_upload(executable)
    device.synchronize()
    spin = device.get_function(device.load_module(compile(SOURCE)), "step")
    device.launch(spin, (1, 1, 1), (1, 1, 1), struct.pack("4i", 10 * SPIN, 0, 0, 0))  # the host gets ahead
    begin, end = device.event_create(), device.event_create()
    device.event_record(begin)
    device.graph_launch(executable)
    device.event_record(end)
    device.synchronize()
    return device.event_elapsed(begin, end) * 1e3


@pytest.mark.parametrize(
    ("edge", "name", "args", "count", "measured"),
    [
        (PLAIN, "nothing", (), 20, 15.8),
        (PROGRAMMATIC, "nothing", (), 20, 14.3),
        (PROGRAMMATIC, "both", (), 20, 14.5),
        (START, "nothing", (), 20, 11.0),
        (START, "both", (), 20, 11.4),
        (PLAIN, "step", (0, SPIN, 1, 1), 10, 113.5),
        (PROGRAMMATIC, "step", (0, SPIN, 1, 1), 10, 19.7),
        (PROGRAMMATIC, "step", (SPIN, 0, 1, 1), 10, 110.3),
        (START, "step", (0, SPIN, 0, 0), 10, 16.8),
    ],
)
def test_a_chain_takes_what_it_takes_on_an_h200(
    device: Device, edge: Edge, name: str, args: tuple[int, ...], count: int, measured: float
) -> None:
    assert chain_time(device, count, edge, name, args) == pytest.approx(measured, rel=0.08)


@pytest.mark.parametrize("waits", [False, True])
def test_what_it_reads_without_a_wait_is_a_hazard_between_two_nodes(device: Device, waits: bool) -> None:
    module = device.load_module(compile(SOURCE))
    x, y = device.malloc(128), device.malloc(128)
    device.memset(x, 0, 128, 0, True)
    device.synchronize()
    graph, last = device.graph_create(), []
    for name, args in (("triggers", struct.pack("Q", x)), ("copies", struct.pack("QQi", y, x, waits))):
        launch = KernelContent(device.get_function(module, name), (1, 1, 1), (32, 1, 1), args)
        edges = [PROGRAMMATIC] * len(last)
        last = [device.graph_add_node(graph, last, Content(NodeKind.KERNEL, launch), edges=edges)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazardWarning)
        device.graph_launch(device.graph_instantiate(graph), device.stream_create(1))
        device.synchronize()
    assert bytes(device.view(y, 128)) == struct.pack("i", waits) * 32
    found = [(hazard.first.what, hazard.second.what, hazard.missing_wait) for hazard in device.hazards]
    if waits:
        assert not found
    else:
        ((first, second, advice),) = found
        assert {first, second} == {"kernel triggers (node 0)", "kernel copies (node 1)"}
        assert "griddepcontrol.wait" in advice and "plain edge" in advice
