"""What the launch of a graph takes on the device, against experiments of the calibration half on an H200."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.fidelity.catalogue import catalogue
from bench.fidelity.experiment import EXPERIMENTS, side
from bench.fidelity.stored import everything
from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.graphs.content import AllocationContent, Content, KernelContent, NodeKind

MEASURED = everything().figures
KINDS = "graphs: host, child and memory nodes"
CHAIN, PARALLEL = (f"graphs, {shape}: launch, device time" for shape in ("chain", "parallel"))


def empty(device: Device) -> Content:
    function = device.get_function(device.load_module(compile('extern "C" __global__ void empty() { }')), "empty")
    return Content(NodeKind.KERNEL, KernelContent(function, (1, 1, 1), (32, 1, 1), b""))


def launch_time(device: Device, graph: int) -> float:
    """Microseconds of a launch that the host has enqueued before it begins, without the events around it."""
    executable = device.graph_instantiate(graph)
    device.graph_upload(executable)

    def between(launches: int) -> float:
        begin, end = device.event_create(), device.event_create()
        value = device.malloc(4)
        device.memset(value, 0, 4)
        device.synchronize()
        device.stream_wait_value(0, value, 1, 4, 1)
        device.event_record(begin)
        for _ in range(launches):
            device.graph_launch(executable)
        device.event_record(end)
        device.stream_write_value(device.stream_create(1), value, 1, 4)
        device.synchronize()
        return float(device.event_elapsed(begin, end)) * 1e3

    return between(1) - between(0)


def chain(device: Device, count: int) -> int:
    graph, last = device.graph_create(), list[int]()
    for _ in range(count):
        last = [device.graph_add_node(graph, last, empty(device))]
    return graph


def parallel(device: Device, count: int) -> int:
    graph, content = device.graph_create(), empty(device)
    for _ in range(count):
        device.graph_add_node(graph, [], content)
    return graph


def rows(device: Device, count: int, width: int = 4) -> int:
    """Rows of kernels side by side, each row joined by one."""
    graph, content, last = device.graph_create(), empty(device), list[int]()
    while count:
        row = [device.graph_add_node(graph, last, content) for _ in range(width)]
        last, count = [device.graph_add_node(graph, row, content)], count - width - 1
    return graph


def wide_rows(device: Device, count: int) -> int:
    return rows(device, count, 16)


def children(device: Device, count: int) -> int:
    graph, last = device.graph_create(), list[int]()
    for _ in range(count):
        last = [device.graph_add_node(graph, last, Content(NodeKind.GRAPH, graph=chain(device, 1)))]
    return graph


def memory(device: Device, count: int) -> int:
    graph, last = device.graph_create(), list[int]()
    for _ in range(count):
        wanted = Content(NodeKind.MEM_ALLOC, allocation=AllocationContent(0, 1 << 20))
        last = [device.graph_add_node(graph, last, wanted)]
        made = device.graph_node_content(last[0], NodeKind.MEM_ALLOC).allocation
        assert made is not None
        last = [device.graph_add_node(graph, last, empty(device))]
        last = [device.graph_add_node(graph, last, Content(NodeKind.MEM_FREE, pointer=made.pointer))]
    return graph


@pytest.mark.parametrize(
    ("make", "experiment", "variants"),
    [
        (chain, CHAIN, {f"{count} nodes": count for count in (1, 2, 5, 20, 100)}),
        (parallel, PARALLEL, {f"{count} nodes": count for count in (2, 5, 10, 20, 50, 100)}),
        (rows, "graphs, rows: launch, device time", {f"{count} nodes": count for count in (5, 20, 100)}),
        (wide_rows, "graphs, wide rows: launch, device time", {"17 nodes": 17, "102 nodes": 102}),
        (children, KINDS, {"1 child nodes": 1, "4 child nodes": 4}),
        (memory, KINDS, {"1 memory nodes": 1, "4 memory nodes": 4}),
    ],
)
def test_a_launch_takes_what_it_takes_on_an_h200(
    device: Device, make: Callable[[Device, int], int], experiment: str, variants: dict[str, int]
) -> None:
    assert catalogue() and EXPERIMENTS[experiment].side == side(experiment) == "calibration"
    for variant, count in variants.items():
        assert launch_time(device, make(device, count)) == pytest.approx(MEASURED[experiment][variant], rel=0.15), (
            variant
        )
