"""Graphs and executable graphs (``cudart/graphs.py`` has what both APIs share)."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import (
    CUDA_GRAPH_INSTANTIATE_PARAMS,
    CUgraph,
    CUgraphConditionalHandle,
    CUgraphEdgeData,
    CUgraphExec,
    CUgraphExecUpdateResult,
    CUgraphExecUpdateResultInfo,
    CUgraphInstantiateResult,
    CUgraphNode,
    CUgraphNodeType,
    CUresult,
)

from cudalab.sim.binding import handle, size_t, stream_handle, struct, unsigned
from cudalab.sim.cudart.graphs import (
    UPLOAD,
    edge_data,
    filled,
    handles,
    instantiation_result,
    listed,
    padded,
    with_data,
    write_dot,
)
from cudalab.sim.device import CudaError, current_device
from cudalab.sim.driver.answer import api, failed


@api(1)
def cuGraphCreate(flags: Any) -> CUgraph:
    return CUgraph(current_device().graph_create(unsigned(flags)))


@api()
def cuGraphDestroy(hGraph: Any) -> None:
    current_device().graph_destroy(handle(hGraph))


@api(1)
def cuGraphClone(originalGraph: Any) -> CUgraph:
    return CUgraph(current_device().graph_clone(handle(originalGraph)))


@api(1)
def cuGraphConditionalHandleCreate(
    hGraph: Any, ctx: Any, defaultLaunchValue: Any, flags: Any
) -> CUgraphConditionalHandle:
    default = unsigned(defaultLaunchValue)
    return CUgraphConditionalHandle(current_device().graph_conditional_handle(handle(hGraph), default, unsigned(flags)))


@api(1)
def cuGraphGetId(hGraph: Any) -> int:
    return current_device().graph_get_id(handle(hGraph))


@api(2)
def cuGraphGetNodes(hGraph: Any, numNodes: Any = 0) -> tuple[list[CUgraphNode], int]:
    return listed(current_device().graph_nodes(handle(hGraph)), size_t(numNodes), CUgraphNode)


@api(2)
def cuGraphGetRootNodes(hGraph: Any, numRootNodes: Any = 0) -> tuple[list[CUgraphNode], int]:
    return listed(current_device().graph_root_nodes(handle(hGraph)), size_t(numRootNodes), CUgraphNode)


@api(4)
def cuGraphGetEdges(
    hGraph: Any, numEdges: Any = 0
) -> tuple[list[CUgraphNode], list[CUgraphNode], list[CUgraphEdgeData], int]:
    found, asked = current_device().graph_edges(handle(hGraph)), size_t(numEdges)
    before, count = listed([edge[0] for edge in found], asked, CUgraphNode)
    after, _ = listed([edge[1] for edge in found], asked, CUgraphNode)
    return before, after, [filled(CUgraphEdgeData(), edge[2:]) for edge in padded(found, asked, 5)], count


@api()
def cuGraphAddDependencies(hGraph: Any, from_: Any, to: Any, edgeData: Any, numDependencies: Any) -> None:
    before, after = (handles(values, numDependencies, "numDependencies") for values in (from_, to))
    current_device().graph_add_dependencies(handle(hGraph), before, after, edge_data(edgeData, numDependencies))


@api()
def cuGraphRemoveDependencies(hGraph: Any, from_: Any, to: Any, edgeData: Any, numDependencies: Any) -> None:
    before, after = (handles(values, numDependencies, "numDependencies") for values in (from_, to))
    current_device().graph_remove_dependencies(handle(hGraph), before, after, edge_data(edgeData, numDependencies))


@api()
def cuGraphDestroyNode(hNode: Any) -> None:
    current_device().graph_destroy_node(handle(hNode))


@api(1)
def cuGraphNodeGetType(hNode: Any) -> CUgraphNodeType:
    return CUgraphNodeType(current_device().graph_node_type(handle(hNode)))


@api(1)
def cuGraphNodeGetLocalId(hNode: Any) -> int:
    return current_device().graph_node_number(handle(hNode))


@api(1)
def cuGraphNodeGetContainingGraph(hNode: Any) -> CUgraph:
    return CUgraph(current_device().graph_of_node(handle(hNode)))


@api(1)
def cuGraphNodeFindInClone(hOriginalNode: Any, hClonedGraph: Any) -> CUgraphNode:
    return CUgraphNode(current_device().graph_find_in_clone(handle(hOriginalNode), handle(hClonedGraph)))


@api(1)
def cuGraphChildGraphNodeGetGraph(hNode: Any) -> CUgraph:
    return CUgraph(current_device().graph_child(handle(hNode)))


@api(3)
def cuGraphNodeGetDependencies(
    hNode: Any, numDependencies: Any = 0
) -> tuple[list[CUgraphNode], list[CUgraphEdgeData], int]:
    found = current_device().graph_dependencies(handle(hNode))
    return with_data(found, size_t(numDependencies), CUgraphNode, CUgraphEdgeData)


@api(3)
def cuGraphNodeGetDependentNodes(
    hNode: Any, numDependentNodes: Any = 0
) -> tuple[list[CUgraphNode], list[CUgraphEdgeData], int]:
    found = current_device().graph_dependents(handle(hNode))
    return with_data(found, size_t(numDependentNodes), CUgraphNode, CUgraphEdgeData)


@api(1)
def cuGraphInstantiate(hGraph: Any, flags: Any) -> CUgraphExec:
    return CUgraphExec(current_device().graph_instantiate(handle(hGraph), size_t(flags)))


@api(1)
def cuGraphInstantiateWithParams(hGraph: Any, instantiateParams: CUDA_GRAPH_INSTANTIATE_PARAMS | None) -> CUgraphExec:
    device = current_device()
    if instantiateParams is None:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "cuGraphInstantiateWithParams: no parameters (None)")
    p = struct(instantiateParams, "instantiateParams", CUDA_GRAPH_INSTANTIATE_PARAMS)
    try:
        made = device.graph_instantiate(handle(hGraph), int(p.flags) & ~UPLOAD)
    except CudaError as error:
        result, node = instantiation_result(error)
        p.result_out, p.hErrNode_out = CUgraphInstantiateResult(result), CUgraphNode(node)
        raise
    p.result_out, p.hErrNode_out = CUgraphInstantiateResult.CUDA_GRAPH_INSTANTIATE_SUCCESS, CUgraphNode(0)
    if int(p.flags) & UPLOAD:
        device.graph_upload(made, stream_handle(p.hUploadStream))
    return CUgraphExec(made)


@api()
def cuGraphExecDestroy(hGraphExec: Any) -> None:
    current_device().graph_exec_destroy(handle(hGraphExec))


@api(1)
def cuGraphExecGetFlags(hGraphExec: Any) -> int:
    return current_device().graph_exec_flags(handle(hGraphExec))


@api(1)
def cuGraphExecGetId(hGraphExec: Any) -> int:
    return current_device().graph_exec_get_id(handle(hGraphExec))


@api()
def cuGraphUpload(hGraphExec: Any, hStream: Any) -> None:
    current_device().graph_upload(handle(hGraphExec), stream_handle(hStream))


@api()
def cuGraphLaunch(hGraphExec: Any, hStream: Any) -> None:
    current_device().graph_launch(handle(hGraphExec), stream_handle(hStream))


@api(1)
def cuGraphExecUpdate(hGraphExec: Any, hGraph: Any) -> CUgraphExecUpdateResultInfo:
    device = current_device()
    device.graph_exec_update(handle(hGraphExec), handle(hGraph))
    found = device.graph_update_result()
    information = CUgraphExecUpdateResultInfo()
    information.result = CUgraphExecUpdateResult(found.result)
    return information


@api()
def cuGraphNodeSetEnabled(hGraphExec: Any, hNode: Any, isEnabled: Any) -> None:
    current_device().graph_set_enabled(handle(hGraphExec), handle(hNode), bool(unsigned(isEnabled)))


@api(1)
def cuGraphNodeGetEnabled(hGraphExec: Any, hNode: Any) -> int:
    return int(current_device().graph_get_enabled(handle(hGraphExec), handle(hNode)))


@api()
def cuGraphDebugDotPrint(hGraph: Any, path: bytes, flags: Any) -> None:
    text = current_device().graph_dot(handle(hGraph), unsigned(flags))
    write_dot(path, text)
