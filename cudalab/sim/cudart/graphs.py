"""Graphs and executable graphs: what they hold, not what their nodes do (``graph_nodes.py``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from cuda.bindings.runtime import (
    cudaError_t,
    cudaGraph_t,
    cudaGraphConditionalHandle,
    cudaGraphEdgeData,
    cudaGraphExec_t,
    cudaGraphExecUpdateResult,
    cudaGraphExecUpdateResultInfo,
    cudaGraphInstantiateFlags,
    cudaGraphInstantiateParams,
    cudaGraphInstantiateResult,
    cudaGraphNode_t,
    cudaGraphNodeType,
)

from cudalab.sim.binding import handle, size_t, stream_handle, struct, unsigned
from cudalab.sim.cudart.answer import api
from cudalab.sim.device import CudaError, current_device
from cudalab.sim.device.graphs.device_launchable import CannotInstantiate

UPLOAD = int(cudaGraphInstantiateFlags.cudaGraphInstantiateFlagUpload)
Edges = list[tuple[int, int, int]]


# -- lists -------------------------------------------------------------------------------------------------------------


def handles(values: Any, count: Any, name: str) -> list[int]:
    """The first ``count`` handles of a list."""
    found, number = list(values or ()), size_t(count)
    if number > len(found):
        raise RuntimeError(f"List is empty or shorter than {name}: {len(found)} < {number}")
    return [handle(value) for value in found[:number]]


def edge_data(values: Any, count: Any) -> Edges | None:
    """The fields of edge data, or None where there is none."""
    if not values:
        return None
    return [(int(v.from_port), int(v.to_port), int(v.type)) for v in list(values)[: size_t(count)]]


def listed(found: Sequence[int], asked: int, make: Callable[[int], Any]) -> tuple[list[Any], int]:
    """As C does it: without room the number of entries, else so many of them, empty ones behind the last."""
    if not asked:
        return [], len(found)
    values = [*found[:asked], *[0] * (asked - len(found))]
    return [make(value) for value in values], min(asked, len(found))


def with_data(
    found: Sequence[tuple[int, ...]], asked: int, make: Callable[[int], Any], data: Callable[[], Any]
) -> tuple[list[Any], list[Any], int]:
    """Nodes and the data of the edges to them."""
    nodes, count = listed([entry[0] for entry in found], asked, make)
    return nodes, [filled(data(), entry[1:]) for entry in padded(found, asked, 4)], count


def padded(found: Sequence[tuple[int, ...]], asked: int, width: int) -> list[tuple[int, ...]]:
    return [*found[:asked], *[(0,) * width] * (asked - len(found))]


def filled(data: Any, values: Sequence[int]) -> Any:
    """A structure of edge data with its fields set."""
    data.from_port, data.to_port = values[0], values[1]
    data.type = type(data.type)(values[2]) if values[2] else data.type
    return data


def write_dot(path: bytes, text: str) -> None:
    """Write a graph's text to a file whose name is given as C gives it."""
    try:
        with open(os.fsdecode(path), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise current_device().fail(cudaError_t.cudaErrorOperatingSystem, f"{path!r}: {error}") from None


# -- graphs ------------------------------------------------------------------------------------------------------------


@api(1)
def cudaGraphCreate(flags: Any) -> cudaGraph_t:
    return cudaGraph_t(current_device().graph_create(unsigned(flags)))


@api()
def cudaGraphDestroy(graph: Any) -> None:
    current_device().graph_destroy(handle(graph))


@api(1)
def cudaGraphClone(originalGraph: Any) -> cudaGraph_t:
    return cudaGraph_t(current_device().graph_clone(handle(originalGraph)))


@api(1)
def cudaGraphConditionalHandleCreate(graph: Any, defaultLaunchValue: Any, flags: Any) -> cudaGraphConditionalHandle:
    default = unsigned(defaultLaunchValue)
    return cudaGraphConditionalHandle(
        current_device().graph_conditional_handle(handle(graph), default, unsigned(flags))
    )


@api(1)
def cudaGraphConditionalHandleCreate_v2(
    graph: Any, ctx: Any, defaultLaunchValue: Any, flags: Any
) -> cudaGraphConditionalHandle:
    default = unsigned(defaultLaunchValue)
    return cudaGraphConditionalHandle(
        current_device().graph_conditional_handle(handle(graph), default, unsigned(flags))
    )


@api(1)
def cudaGraphGetId(hGraph: Any) -> int:
    return current_device().graph_get_id(handle(hGraph))


@api(2)
def cudaGraphGetNodes(graph: Any, numNodes: Any = 0) -> tuple[list[cudaGraphNode_t], int]:
    return listed(current_device().graph_nodes(handle(graph)), size_t(numNodes), cudaGraphNode_t)


@api(2)
def cudaGraphGetRootNodes(graph: Any, pNumRootNodes: Any = 0) -> tuple[list[cudaGraphNode_t], int]:
    return listed(current_device().graph_root_nodes(handle(graph)), size_t(pNumRootNodes), cudaGraphNode_t)


@api(4)
def cudaGraphGetEdges(
    graph: Any, numEdges: Any = 0
) -> tuple[list[cudaGraphNode_t], list[cudaGraphNode_t], list[cudaGraphEdgeData], int]:
    found, asked = current_device().graph_edges(handle(graph)), size_t(numEdges)
    before, count = listed([edge[0] for edge in found], asked, cudaGraphNode_t)
    after, _ = listed([edge[1] for edge in found], asked, cudaGraphNode_t)
    return before, after, [filled(cudaGraphEdgeData(), edge[2:]) for edge in padded(found, asked, 5)], count


@api()
def cudaGraphAddDependencies(graph: Any, from_: Any, to: Any, edgeData: Any, numDependencies: Any) -> None:
    before, after = (handles(values, numDependencies, "numDependencies") for values in (from_, to))
    current_device().graph_add_dependencies(handle(graph), before, after, edge_data(edgeData, numDependencies))


@api()
def cudaGraphRemoveDependencies(graph: Any, from_: Any, to: Any, edgeData: Any, numDependencies: Any) -> None:
    before, after = (handles(values, numDependencies, "numDependencies") for values in (from_, to))
    current_device().graph_remove_dependencies(handle(graph), before, after, edge_data(edgeData, numDependencies))


# -- nodes -------------------------------------------------------------------------------------------------------------


@api()
def cudaGraphDestroyNode(node: Any) -> None:
    current_device().graph_destroy_node(handle(node))


@api(1)
def cudaGraphNodeGetType(node: Any) -> cudaGraphNodeType:
    return cudaGraphNodeType(current_device().graph_node_type(handle(node)))


@api(1)
def cudaGraphNodeGetLocalId(hNode: Any) -> int:
    return current_device().graph_node_number(handle(hNode))


@api(1)
def cudaGraphNodeGetContainingGraph(hNode: Any) -> cudaGraph_t:
    return cudaGraph_t(current_device().graph_of_node(handle(hNode)))


@api(1)
def cudaGraphNodeFindInClone(originalNode: Any, clonedGraph: Any) -> cudaGraphNode_t:
    return cudaGraphNode_t(current_device().graph_find_in_clone(handle(originalNode), handle(clonedGraph)))


@api(1)
def cudaGraphChildGraphNodeGetGraph(node: Any) -> cudaGraph_t:
    return cudaGraph_t(current_device().graph_child(handle(node)))


@api(3)
def cudaGraphNodeGetDependencies(
    node: Any, pNumDependencies: Any = 0
) -> tuple[list[cudaGraphNode_t], list[cudaGraphEdgeData], int]:
    found = current_device().graph_dependencies(handle(node))
    return with_data(found, size_t(pNumDependencies), cudaGraphNode_t, cudaGraphEdgeData)


@api(3)
def cudaGraphNodeGetDependentNodes(
    node: Any, pNumDependentNodes: Any = 0
) -> tuple[list[cudaGraphNode_t], list[cudaGraphEdgeData], int]:
    found = current_device().graph_dependents(handle(node))
    return with_data(found, size_t(pNumDependentNodes), cudaGraphNode_t, cudaGraphEdgeData)


# -- executable graphs -------------------------------------------------------------------------------------------------


@api(1)
def cudaGraphInstantiate(graph: Any, flags: Any) -> cudaGraphExec_t:
    return cudaGraphExec_t(current_device().graph_instantiate(handle(graph), size_t(flags)))


@api(1)
def cudaGraphInstantiateWithFlags(graph: Any, flags: Any) -> cudaGraphExec_t:
    return cudaGraphExec_t(current_device().graph_instantiate(handle(graph), size_t(flags)))


@api(1)
def cudaGraphInstantiateWithParams(graph: Any, instantiateParams: cudaGraphInstantiateParams | None) -> cudaGraphExec_t:
    device = current_device()
    if instantiateParams is None:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "cudaGraphInstantiateWithParams: no parameters (None)")
    p = struct(instantiateParams, "instantiateParams", cudaGraphInstantiateParams)
    try:
        made = device.graph_instantiate(handle(graph), int(p.flags) & ~UPLOAD)
    except CudaError as error:
        result, node = instantiation_result(error)
        p.result_out, p.errNode_out = cudaGraphInstantiateResult(result), cudaGraphNode_t(node)
        raise
    p.result_out, p.errNode_out = cudaGraphInstantiateResult.cudaGraphInstantiateSuccess, cudaGraphNode_t(0)
    if int(p.flags) & UPLOAD:
        device.graph_upload(made, stream_handle(p.uploadStream))
    return cudaGraphExec_t(made)


def instantiation_result(error: CudaError) -> tuple[int, int]:
    """A number of ``cudaGraphInstantiateResult``, and of the driver's, which has the same; and the node, or 0."""
    if isinstance(error, CannotInstantiate):
        return int(error.result), error.node
    return int(cudaGraphInstantiateResult.cudaGraphInstantiateError), 0


@api()
def cudaGraphExecDestroy(graphExec: Any) -> None:
    current_device().graph_exec_destroy(handle(graphExec))


@api(1)
def cudaGraphExecGetFlags(graphExec: Any) -> int:
    return current_device().graph_exec_flags(handle(graphExec))


@api(1)
def cudaGraphExecGetId(hGraphExec: Any) -> int:
    return current_device().graph_exec_get_id(handle(hGraphExec))


@api()
def cudaGraphUpload(graphExec: Any, stream: Any) -> None:
    current_device().graph_upload(handle(graphExec), stream_handle(stream))


@api()
def cudaGraphLaunch(graphExec: Any, stream: Any) -> None:
    current_device().graph_launch(handle(graphExec), stream_handle(stream))


@api(1)
def cudaGraphExecUpdate(hGraphExec: Any, hGraph: Any) -> cudaGraphExecUpdateResultInfo:
    device = current_device()
    device.graph_exec_update(handle(hGraphExec), handle(hGraph))
    found = device.graph_update_result()
    information = cudaGraphExecUpdateResultInfo()
    information.result = cudaGraphExecUpdateResult(found.result)
    return information


@api()
def cudaGraphNodeSetEnabled(hGraphExec: Any, hNode: Any, isEnabled: Any) -> None:
    current_device().graph_set_enabled(handle(hGraphExec), handle(hNode), bool(unsigned(isEnabled)))


@api(1)
def cudaGraphNodeGetEnabled(hGraphExec: Any, hNode: Any) -> int:
    return int(current_device().graph_get_enabled(handle(hGraphExec), handle(hNode)))


@api()
def cudaGraphDebugDotPrint(graph: Any, path: bytes, flags: Any) -> None:
    text = current_device().graph_dot(handle(graph), unsigned(flags))
    write_dot(path, text)
