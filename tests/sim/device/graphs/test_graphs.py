"""Graphs do what one stream does, in the order that their edges give, once a launch; a missing edge is reported."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device import CudaError, Device
from cudalab.sim.device.current import set_current_device
from cudalab.sim.device.graphs.content import Content, NodeKind
from cudalab.sim.device.hazards import HazardWarning
from tests import slices
from tests.random_graphs import Machine, edges_of, in_one_stream, random_steps, size_of

GRAPHS = slices.cases(range(100), kind=lambda seed: "")
"""Random graphs; a run takes some of them."""
MISSING = slices.cases(range(60), kind=lambda seed: "")
KNOWN_BYTES = ("kernel", "copy", "memset", "upload", "scratch")
"""Steps of which each node names what it touches."""


@pytest.fixture
def current(device: Device) -> Iterator[Device]:
    """The device of ``cudart`` and CuPy, for a while."""
    before = set_current_device(device)
    yield device
    set_current_device(before)


@pytest.mark.parametrize("seed", GRAPHS)
def test_a_graph_gives_what_one_stream_gives(current: Device, seed: int) -> None:
    steps = random_steps(size_of(seed), seed)
    machine = Machine()
    with warnings.catch_warnings():
        warnings.simplefilter("error", HazardWarning)
        machine.launch(machine.graph(steps, edges_of(steps)), times=2)
        contents, calls = in_one_stream(steps, times=2)
    assert not current.hazards
    assert machine.contents() == contents
    assert sorted(machine.calls) == sorted(calls)


@pytest.mark.parametrize("seed", GRAPHS)
def test_a_captured_graph_gives_what_one_stream_gives(current: Device, seed: int) -> None:
    steps = random_steps(size_of(seed), seed)
    machine = Machine()
    graph = machine.captured(steps, edges_of(steps), seed)
    assert not machine.calls, "nothing runs while it is captured"
    machine.launch(graph, times=2)
    contents, calls = in_one_stream(steps, times=2)
    assert not current.hazards
    assert machine.contents() == contents
    assert sorted(machine.calls) == sorted(calls)


@pytest.mark.parametrize("seed", MISSING)
def test_a_missing_edge_is_reported_with_both_nodes(current: Device, seed: int) -> None:
    steps = [step for step in random_steps(40, 100 + seed) if step.kind in KNOWN_BYTES]
    edges = edges_of(steps)
    missing = edges[(7 * seed) % len(edges)]
    machine = Machine()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazardWarning)
        machine.launch(machine.graph(steps, [edge for edge in edges if edge != missing]))
    sides = [[f"(node {current.graph_node_number(int(n))})" for n in machine.nodes[number]] for number in missing]
    found = [
        hazard
        for hazard in current.hazards
        if all(any(label in hazard.first.what + hazard.second.what for label in labels) for labels in sides)
    ]
    assert found, f"nothing was said of the edge {missing}"
    assert "cudaGraphAddDependencies" in found[0].missing_wait


def test_two_graphs_that_nothing_orders_are_a_hazard(current: Device) -> None:
    steps = [step for step in random_steps(30, 9) if step.kind == "kernel"][:3]
    machine = Machine()
    graph = machine.graph(steps, edges_of(steps))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazardWarning)
        for _ in range(2):
            current.graph_launch(current.graph_instantiate(int(graph)), current.stream_create(1))
        current.synchronize()
    assert current.hazards
    assert "the graph launched in stream" in current.hazards[0].text


def test_a_circle_names_its_nodes(device: Device) -> None:
    graph = device.graph_create()
    first, second, _ = (device.graph_add_node(graph, [], Content(NodeKind.EMPTY)) for _ in range(3))
    device.graph_add_dependencies(graph, [first, second], [second, first])
    with pytest.raises(CudaError, match=r"circle.*node 0.*node 1") as caught:
        device.graph_instantiate(graph)
    assert caught.value.code == cudaError_t.cudaErrorInvalidValue
    assert "node 2" not in caught.value.note


def test_a_reset_forgets_graphs(device: Device) -> None:
    graph = device.graph_create()
    device.graph_add_node(graph, [], Content(NodeKind.EMPTY))
    device.reset()
    with pytest.raises(CudaError, match="no graph of this device"):
        device.graph_instantiate(graph)


@pytest.mark.parametrize("mode", [0, 2])
def test_a_graph_is_not_launched_into_a_capture(device: Device, mode: int) -> None:
    graph, stream = device.graph_create(), device.stream_create(1)
    executable = device.graph_instantiate(graph)
    device.graph_launch(executable, stream)
    device.synchronize()
    device.capture_begin(stream, mode)
    with pytest.raises(CudaError, match="cudaGraphAddChildGraphNode") as caught:
        device.graph_launch(executable, stream)
    assert caught.value.code == cudaError_t.cudaErrorStreamCaptureUnsupported
    with pytest.raises(CudaError) as caught:
        device.capture_end(stream)
    assert caught.value.code == cudaError_t.cudaErrorStreamCaptureInvalidated


def test_ten_thousand_nodes(device: Device) -> None:
    """They are one launch to the stream; the last ends behind all others."""
    graph, before = device.graph_create(), []
    for _ in range(10_000):
        before = [device.graph_add_node(graph, before, Content(NodeKind.EMPTY))]
    stream = device.stream_create(1)
    device.graph_launch(device.graph_instantiate(graph), stream)
    device.stream_synchronize(stream)
    assert device.idle
