"""What nodes of graphs do: their parameters as structures of the driver (``cudart/graph_nodes.py`` has the rest)."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import (
    CUDA_HOST_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS,
    CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS,
    CUevent,
    CUfunction,
    CUgraphNode,
    CUgraphNodeParams,
    CUmemorytype,
    CUresult,
)

from cudalab.sim.cudart.graph_nodes import (
    EMPTY,
    HostCall,
    added,
    alloc_of,
    change,
    change_executable,
    child_content,
    child_of,
    conditional_of,
    content_of,
    event_content,
    fill_host,
    fill_memset,
    finished,
    free_content,
    given,
    host_of,
    kernel_content,
    memset_of,
    parameter_values,
)
from cudalab.sim.device import current_device
from cudalab.sim.device.graphs.content import Content, CopyContent, NodeKind
from cudalab.sim.driver.answer import api, failed
from cudalab.sim.driver.arrays import is_array
from cudalab.sim.driver.memory import side_3d

# -- structures to contents --------------------------------------------------------------------------------------------


def kernel_of(p: Any) -> Content:
    """Of ``CUDA_KERNEL_NODE_PARAMS``."""
    grid = int(p.gridDimX), int(p.gridDimY), int(p.gridDimZ)
    block = int(p.blockDimX), int(p.blockDimY), int(p.blockDimZ)
    return kernel_content(int(p.func), grid, block, int(p.sharedMemBytes), int(p.kernelParams), int(p.extra))


def memcpy_of(p: Any) -> Content:
    """Of ``CUDA_MEMCPY3D``."""
    if is_array(p, "dst") or is_array(p, "src"):
        raise failed(
            CUresult.CUDA_ERROR_NOT_SUPPORTED,
            "memcpy nodes with a CUDA array are not simulated; capture cuMemcpy3DAsync instead",
        )
    extent = int(p.WidthInBytes), int(p.Height), int(p.Depth)
    return Content(NodeKind.MEMCPY, copy=CopyContent(side_3d(p, "dst"), side_3d(p, "src"), extent))


def of_union(p: Any) -> tuple[Content, HostCall]:
    """What ``CUgraphNodeParams`` says."""
    kind = int(p.type)
    if kind == NodeKind.KERNEL:
        return kernel_of(p.kernel), None
    if kind == NodeKind.MEMCPY:
        return memcpy_of(p.memcpy.copyParams), None
    if kind == NodeKind.MEMSET:
        return memset_of(p.memset), None
    if kind == NodeKind.HOST:
        return host_of(p.host)
    if kind == NodeKind.GRAPH:
        return child_of(p.graph), None
    if kind == NodeKind.EMPTY:
        return EMPTY, None
    if kind == NodeKind.WAIT_EVENT:
        return event_content(NodeKind.WAIT_EVENT, p.eventWait.event), None
    if kind == NodeKind.EVENT_RECORD:
        return event_content(NodeKind.EVENT_RECORD, p.eventRecord.event), None
    if kind == NodeKind.MEM_ALLOC:
        return alloc_of(p.alloc), None
    if kind == NodeKind.MEM_FREE:
        return free_content(int(p.free.dptr)), None
    if kind == NodeKind.CONDITIONAL:
        return conditional_of(p.conditional), None
    raise failed(
        CUresult.CUDA_ERROR_NOT_SUPPORTED, f"nodes of type {p.type.name} are not simulated, or have a call of their own"
    )


# -- adding ------------------------------------------------------------------------------------------------------------


@api(1)
def cuGraphAddKernelNode(
    hGraph: Any, dependencies: Any, numDependencies: Any, nodeParams: CUDA_KERNEL_NODE_PARAMS | None
) -> CUgraphNode:
    p = given(nodeParams, "nodeParams", CUDA_KERNEL_NODE_PARAMS)
    return CUgraphNode(added(hGraph, dependencies, numDependencies, kernel_of(p)))


@api(1)
def cuGraphAddMemcpyNode(
    hGraph: Any, dependencies: Any, numDependencies: Any, copyParams: CUDA_MEMCPY3D | None, ctx: Any
) -> CUgraphNode:
    p = given(copyParams, "copyParams", CUDA_MEMCPY3D)
    return CUgraphNode(added(hGraph, dependencies, numDependencies, memcpy_of(p)))


@api(1)
def cuGraphAddMemsetNode(
    hGraph: Any, dependencies: Any, numDependencies: Any, memsetParams: CUDA_MEMSET_NODE_PARAMS | None, ctx: Any
) -> CUgraphNode:
    p = given(memsetParams, "memsetParams", CUDA_MEMSET_NODE_PARAMS)
    return CUgraphNode(added(hGraph, dependencies, numDependencies, memset_of(p)))


@api(1)
def cuGraphAddHostNode(
    hGraph: Any, dependencies: Any, numDependencies: Any, nodeParams: CUDA_HOST_NODE_PARAMS | None
) -> CUgraphNode:
    p = given(nodeParams, "nodeParams", CUDA_HOST_NODE_PARAMS)
    return CUgraphNode(added(hGraph, dependencies, numDependencies, *host_of(p)))


@api(1)
def cuGraphAddChildGraphNode(hGraph: Any, dependencies: Any, numDependencies: Any, childGraph: Any) -> CUgraphNode:
    return CUgraphNode(added(hGraph, dependencies, numDependencies, child_content(childGraph)))


@api(1)
def cuGraphAddEmptyNode(hGraph: Any, dependencies: Any, numDependencies: Any) -> CUgraphNode:
    return CUgraphNode(added(hGraph, dependencies, numDependencies, EMPTY))


@api(1)
def cuGraphAddEventRecordNode(hGraph: Any, dependencies: Any, numDependencies: Any, event: Any) -> CUgraphNode:
    content = event_content(NodeKind.EVENT_RECORD, event)
    return CUgraphNode(added(hGraph, dependencies, numDependencies, content))


@api(1)
def cuGraphAddEventWaitNode(hGraph: Any, dependencies: Any, numDependencies: Any, event: Any) -> CUgraphNode:
    content = event_content(NodeKind.WAIT_EVENT, event)
    return CUgraphNode(added(hGraph, dependencies, numDependencies, content))


@api(1)
def cuGraphAddNode(
    hGraph: Any,
    dependencies: Any,
    dependencyData: Any,
    numDependencies: Any,
    nodeParams: CUgraphNodeParams | None,
) -> CUgraphNode:
    p = given(nodeParams, "nodeParams", CUgraphNodeParams)
    content, function = of_union(p)
    node = added(hGraph, dependencies, numDependencies, content, function, dependencyData)
    return CUgraphNode(finished(p, content, node))


# -- asking ------------------------------------------------------------------------------------------------------------


@api(1)
def cuGraphKernelNodeGetParams(hNode: Any) -> CUDA_KERNEL_NODE_PARAMS:
    kernel = content_of(hNode, NodeKind.KERNEL).kernel
    assert kernel is not None
    p = CUDA_KERNEL_NODE_PARAMS()
    p.func, p.sharedMemBytes = CUfunction(kernel.function), kernel.shared
    p.gridDimX, p.gridDimY, p.gridDimZ = kernel.grid
    p.blockDimX, p.blockDimY, p.blockDimZ = kernel.block
    known = current_device().function_info(kernel.function).kernel
    p.kernelParams = parameter_values(known, kernel.args)
    return p


@api(1)
def cuGraphMemcpyNodeGetParams(hNode: Any) -> CUDA_MEMCPY3D:
    copy = content_of(hNode, NodeKind.MEMCPY).copy
    assert copy is not None
    p = CUDA_MEMCPY3D()
    for side, (address, pitch, slice_pitch) in (("src", copy.source), ("dst", copy.destination)):
        setattr(p, f"{side}MemoryType", CUmemorytype.CU_MEMORYTYPE_UNIFIED)
        setattr(p, f"{side}Device", address)
        setattr(p, f"{side}Pitch", pitch)
        setattr(p, f"{side}Height", slice_pitch // pitch if pitch else copy.extent[1])
    p.WidthInBytes, p.Height, p.Depth = copy.extent
    return p


@api(1)
def cuGraphMemsetNodeGetParams(hNode: Any) -> CUDA_MEMSET_NODE_PARAMS:
    memset = content_of(hNode, NodeKind.MEMSET).memset
    assert memset is not None
    return fill_memset(CUDA_MEMSET_NODE_PARAMS(), memset)


@api(1)
def cuGraphHostNodeGetParams(hNode: Any) -> CUDA_HOST_NODE_PARAMS:
    return fill_host(CUDA_HOST_NODE_PARAMS(), content_of(hNode, NodeKind.HOST).host)


@api(1)
def cuGraphEventRecordNodeGetEvent(hNode: Any) -> CUevent:
    return CUevent(content_of(hNode, NodeKind.EVENT_RECORD).event)


@api(1)
def cuGraphEventWaitNodeGetEvent(hNode: Any) -> CUevent:
    return CUevent(content_of(hNode, NodeKind.WAIT_EVENT).event)


# -- changing ----------------------------------------------------------------------------------------------------------


@api()
def cuGraphNodeSetParams(hNode: Any, nodeParams: CUgraphNodeParams | None) -> None:
    change(hNode, *of_union(given(nodeParams, "nodeParams", CUgraphNodeParams)))


@api()
def cuGraphKernelNodeSetParams(hNode: Any, nodeParams: CUDA_KERNEL_NODE_PARAMS | None) -> None:
    change(hNode, kernel_of(given(nodeParams, "nodeParams", CUDA_KERNEL_NODE_PARAMS)))


@api()
def cuGraphMemcpyNodeSetParams(hNode: Any, nodeParams: CUDA_MEMCPY3D | None) -> None:
    change(hNode, memcpy_of(given(nodeParams, "nodeParams", CUDA_MEMCPY3D)))


@api()
def cuGraphMemsetNodeSetParams(hNode: Any, nodeParams: CUDA_MEMSET_NODE_PARAMS | None) -> None:
    change(hNode, memset_of(given(nodeParams, "nodeParams", CUDA_MEMSET_NODE_PARAMS)))


@api()
def cuGraphHostNodeSetParams(hNode: Any, nodeParams: CUDA_HOST_NODE_PARAMS | None) -> None:
    change(hNode, *host_of(given(nodeParams, "nodeParams", CUDA_HOST_NODE_PARAMS)))


@api()
def cuGraphEventRecordNodeSetEvent(hNode: Any, event: Any) -> None:
    change(hNode, event_content(NodeKind.EVENT_RECORD, event))


@api()
def cuGraphEventWaitNodeSetEvent(hNode: Any, event: Any) -> None:
    change(hNode, event_content(NodeKind.WAIT_EVENT, event))


@api()
def cuGraphExecNodeSetParams(hGraphExec: Any, hNode: Any, nodeParams: CUgraphNodeParams | None) -> None:
    change_executable(hGraphExec, hNode, *of_union(given(nodeParams, "nodeParams", CUgraphNodeParams)))


@api()
def cuGraphExecKernelNodeSetParams(hGraphExec: Any, hNode: Any, nodeParams: CUDA_KERNEL_NODE_PARAMS | None) -> None:
    change_executable(hGraphExec, hNode, kernel_of(given(nodeParams, "nodeParams", CUDA_KERNEL_NODE_PARAMS)))


@api()
def cuGraphExecMemcpyNodeSetParams(hGraphExec: Any, hNode: Any, copyParams: CUDA_MEMCPY3D | None, ctx: Any) -> None:
    change_executable(hGraphExec, hNode, memcpy_of(given(copyParams, "copyParams", CUDA_MEMCPY3D)))


@api()
def cuGraphExecMemsetNodeSetParams(
    hGraphExec: Any, hNode: Any, memsetParams: CUDA_MEMSET_NODE_PARAMS | None, ctx: Any
) -> None:
    change_executable(hGraphExec, hNode, memset_of(given(memsetParams, "memsetParams", CUDA_MEMSET_NODE_PARAMS)))


@api()
def cuGraphExecHostNodeSetParams(hGraphExec: Any, hNode: Any, nodeParams: CUDA_HOST_NODE_PARAMS | None) -> None:
    change_executable(hGraphExec, hNode, *host_of(given(nodeParams, "nodeParams", CUDA_HOST_NODE_PARAMS)))


@api()
def cuGraphExecChildGraphNodeSetParams(hGraphExec: Any, hNode: Any, childGraph: Any) -> None:
    change_executable(hGraphExec, hNode, child_content(childGraph))


@api()
def cuGraphExecEventRecordNodeSetEvent(hGraphExec: Any, hNode: Any, event: Any) -> None:
    change_executable(hGraphExec, hNode, event_content(NodeKind.EVENT_RECORD, event))


@api()
def cuGraphExecEventWaitNodeSetEvent(hGraphExec: Any, hNode: Any, event: Any) -> None:
    change_executable(hGraphExec, hNode, event_content(NodeKind.WAIT_EVENT, event))
