"""What the launch of a graph takes on the device, against experiments of the calibration half on an H200."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from bench.fidelity.catalogue import catalogue
from bench.fidelity.experiment import EXPERIMENTS, side
from bench.fidelity.stored import everything
from cudalab.sim.compiler import compile
from cudalab.sim.device import Device
from cudalab.sim.device.graphs.content import (
    AllocationContent,
    Content,
    CopyContent,
    KernelContent,
    MemsetContent,
    NodeKind,
)

MEASURED = everything().figures
KINDS = "graphs: host, child and memory nodes"
CHAIN, PARALLEL = (f"graphs, {shape}: launch, device time" for shape in ("chain", "parallel"))


def empty(device: Device) -> Content:
    function = device.get_function(device.load_module(compile('extern "C" __global__ void empty() { }')), "empty")
    return Content(NodeKind.KERNEL, KernelContent(function, (1, 1, 1), (32, 1, 1), b""))


def launch_time(device: Device, graph: int, off: Sequence[int] = ()) -> float:
    """Microseconds of a launch that the host has enqueued before it begins, without the events around it. ``off``:
    nodes that are switched off."""
    executable = device.graph_instantiate(graph)
    for node in off:
        device.graph_set_enabled(executable, node, False)
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


@pytest.mark.parametrize(
    ("kind", "count", "measured"),
    [
        (NodeKind.KERNEL, 10, 6.144),
        (NodeKind.KERNEL, 40, 14.4),
        (NodeKind.MEMCPY, 10, 5.856),
        (NodeKind.MEMCPY, 40, 14.304),
    ],
)
def test_kernels_and_copies_that_are_switched_off_take_time(
    device: Device, kind: NodeKind, count: int, measured: float
) -> None:
    """Behind a kernel (docs/evidence/2026-11-24-calls-and-graphs.json, less the events alone)."""
    assert switched_off(device, kind, count, behind=True) == pytest.approx(measured - 1.28, rel=0.15)


@pytest.mark.parametrize("count", [1, 10])
def test_memsets_that_are_switched_off_take_none(device: Device, count: int) -> None:
    """In front of a kernel, which then takes what it takes alone."""
    alone = launch_time(device, chain(device, 1))
    assert switched_off(device, NodeKind.MEMSET, count, behind=False) == pytest.approx(alone, abs=0.04)


def switched_off(device: Device, kind: NodeKind, count: int, *, behind: bool) -> float:
    """Microseconds of a kernel with nodes behind it or in front of it that are switched off."""
    memory = device.malloc(4096)

    def box(address: int) -> tuple[int, int, int]:
        return address, 1024, 1024

    contents: dict[NodeKind, Callable[[], Content]] = {
        NodeKind.KERNEL: lambda: empty(device),
        NodeKind.MEMCPY: lambda: Content(
            NodeKind.MEMCPY, copy=CopyContent(box(memory), box(memory + 2048), (1024, 1, 1))
        ),
        NodeKind.MEMSET: lambda: Content(NodeKind.MEMSET, memset=MemsetContent(memory, 0, 1024)),
    }
    graph, last, off = device.graph_create(), list[int](), list[int]()
    if behind:
        last = [device.graph_add_node(graph, last, empty(device))]
    for _ in range(count):
        last = [device.graph_add_node(graph, last, contents[kind]())]
        off += last
    if not behind:
        device.graph_add_node(graph, last, empty(device))
    return launch_time(device, graph, off)
