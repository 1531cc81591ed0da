"""What the calls of graphs cost the host, against chains and nodes side by side on an H200."""

from __future__ import annotations

from itertools import cycle

import pytest

from bench.fidelity.stored import everything
from cudalab.sim.device import Device
from cudalab.sim.device.graphs.content import Content, NodeKind

MEASURED = everything().figures
FIGURES = {"instantiate": "instantiation, host time", "first launch": "first launch, host time"}
ROWS = {
    "chain": (1,),
    "parallel": (),
    "rows": (4, 1),
    "wide rows": (16, 1),
    "diamonds": (4,),
    "twos": (2,),
    "threes": (3,),
}
ROWS |= {"eights": (8,)}
"""Nodes of the rows of a shape, over and over; each comes behind all of the row before."""


def found(device: Device, shape: str, count: int) -> dict[str, int]:
    """ns of each call for a graph of that many nodes."""
    graph, before, row = device.graph_create(), list[int](), list[int]()
    widths = cycle(ROWS[shape] or (count,))
    width = next(widths)
    for _ in range(count):
        row.append(device.graph_add_node(graph, before, Content(NodeKind.EMPTY)))
        if len(row) == width:
            before, row, width = row, [], next(widths)
    start = device.clock_ns
    executable = device.graph_instantiate(graph)
    made = device.clock_ns
    device.graph_launch(executable)
    return {"instantiate": made - start, "first launch": device.clock_ns - made}


@pytest.mark.parametrize(
    ("shape", "counts"),
    [
        ("chain", (1, 2, 5, 20, 100)),
        ("parallel", (2, 5, 20, 100)),
        ("rows", (5, 20, 100, 500)),
        ("wide rows", (17, 102, 510)),
    ],
)
def test_graphs_are_instantiated_and_first_launched_in_an_h200s_time(
    device: Device, shape: str, counts: tuple[int, ...]
) -> None:
    for count in counts:
        for call, time in found(device, shape, count).items():
            measured = 1000 * MEASURED[f"graphs, {shape}: {FIGURES[call]}"][f"{count} nodes"]
            assert time == pytest.approx(measured, rel=0.26), (call, count)


FULL_ROWS = "starts: instantiation of rows of which each node comes behind all of the row before"


@pytest.mark.parametrize(
    ("shape", "experiment", "variants"),
    [
        ("diamonds", "graphs, diamonds: instantiation, host time", {f"{n} nodes": n for n in (20, 100, 500)}),
        *(
            (shape, FULL_ROWS, {f"{n} nodes, rows of {width}": n for n in (24, 96, 384)})
            for shape, width in (("twos", 2), ("threes", 3), ("eights", 8))
        ),
    ],
)
def test_edges_between_nodes_that_several_wait_for_take_longer(
    device: Device, shape: str, experiment: str, variants: dict[str, int]
) -> None:
    """Those of ``diamonds`` were not fitted to."""
    for variant, count in variants.items():
        time = found(device, shape, count)["instantiate"]
        assert time == pytest.approx(1000 * MEASURED[experiment][variant], rel=0.26), variant


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
