"""What the calls of graphs cost the host, against chains and nodes side by side on an H200."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cudalab.sim.device import Device
from cudalab.sim.device.graphs.content import Content, NodeKind

MEASURED = json.loads(
    (Path(__file__).parents[4] / "docs" / "evidence" / "2026-11-23-graphs.json").read_text(encoding="utf-8")
)
FIGURES = {"instantiate": "instantiate_host_ns", "first launch": "first_launch_not_uploaded_host_ns"}


def found(device: Device, shape: str, count: int) -> dict[str, int]:
    """ns of each call for a graph of that many nodes."""
    graph, before = device.graph_create(), list[int]()
    for _ in range(count):
        node = device.graph_add_node(graph, before, Content(NodeKind.EMPTY))
        before = [node] if shape == "chain" else []
    start = device.clock_ns
    executable = device.graph_instantiate(graph)
    made = device.clock_ns
    device.graph_launch(executable)
    return {"instantiate": made - start, "first launch": device.clock_ns - made}


@pytest.mark.parametrize("shape", ["chain", "parallel"])
def test_small_graphs_are_instantiated_and_first_launched_in_an_h200s_time(device: Device, shape: str) -> None:
    """The device's figures scatter by a third from one number of nodes to the next."""
    for count in (1, 2, 5, 20, 100):
        for call, time in found(device, shape, count).items():
            assert time == pytest.approx(MEASURED[shape][str(count)][FIGURES[call]], rel=0.35), (call, count)


def test_a_first_launch_takes_as_long_as_the_upload_that_it_does(device: Device) -> None:
    graph = device.graph_create()
    for _ in range(50):
        device.graph_add_node(graph, [], Content(NodeKind.EMPTY))
    times = []
    for call in (device.graph_upload, device.graph_launch):
        executable = device.graph_instantiate(graph)
        start = device.clock_ns
        call(executable)
        times.append(device.clock_ns - start)
    assert times[0] == times[1]
