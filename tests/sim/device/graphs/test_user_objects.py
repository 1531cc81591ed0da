"""User objects: who holds references, and what the destructor may do."""

from __future__ import annotations

import pytest
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device import CudaError, Device
from cudalab.sim.device.graphs.content import Content, NodeKind


@pytest.mark.parametrize("hold", ["clone", "child", "executable"])
def test_copies_of_a_graph_hold_references_of_their_own(device: Device, hold: str) -> None:
    gone: list[int] = []
    made, graph = device.user_object_create(lambda: gone.append(1), 1), device.graph_create()
    device.graph_retain_object(graph, made, 1, 1)
    if hold == "clone":
        other = device.graph_clone(graph)
    elif hold == "child":
        other = device.graph_create()
        device.graph_add_node(other, [], Content(NodeKind.GRAPH, graph=graph))
    else:
        other = device.graph_instantiate(graph)
    device.graph_destroy(graph)
    assert not gone
    (device.graph_exec_destroy if hold == "executable" else device.graph_destroy)(other)
    assert gone == [1]
    with pytest.raises(CudaError, match="last reference was released"):
        device.user_object_retain(made)


def test_an_executable_graph_holds_on_until_its_launch_has_ended(device: Device) -> None:
    gone: list[int] = []
    graph = device.graph_create()
    device.graph_add_node(graph, [], Content(NodeKind.HOST), lambda: None)
    device.graph_retain_object(graph, device.user_object_create(lambda: gone.append(1), 1), 1, 1)
    executable = device.graph_instantiate(graph)
    device.graph_destroy(graph)
    device.graph_launch(executable)
    device.graph_exec_destroy(executable)
    assert not gone
    device.synchronize()
    assert gone == [1]


def test_a_destructor_must_not_call_cuda(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    device.user_object_release(device.user_object_create(lambda: device.malloc(16) and None))
    assert "must not call CUDA" in capsys.readouterr().err
    assert device.get_last_error() == cudaError_t.cudaErrorNotPermitted
