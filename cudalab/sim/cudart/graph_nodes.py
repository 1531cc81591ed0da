"""What nodes of graphs do: their parameters as structures of the bindings."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from cuda.bindings.runtime import (
    cudaError_t,
    cudaEvent_t,
    cudaGraphChildGraphNodeOwnership,
    cudaGraphNode_t,
    cudaGraphNodeParams,
    cudaHostNodeParams,
    cudaKernelNodeParams,
    cudaMemAllocationType,
    cudaMemcpy3DParms,
    cudaMemcpyKind,
    cudaMemLocationType,
    cudaMemsetParams,
)

from cudalab.sim.binding import enumerator, handle, host_call, size_t, struct, values_behind, void_pointer
from cudalab.sim.compiler.program import Kernel
from cudalab.sim.cudart.answer import api
from cudalab.sim.cudart.graphs import edge_data, handles
from cudalab.sim.cudart.textures import in_memory_3d
from cudalab.sim.device import CudaError, current_device
from cudalab.sim.device.graphs.content import (
    AllocationContent,
    ConditionalContent,
    Content,
    CopyContent,
    HostContent,
    KernelContent,
    MemsetContent,
    NodeKind,
)

_BODIES_OFFSET = 16
"""Of ``phGraph_out``, behind a handle of 8 bytes and two numbers of 4."""
HostCall = Callable[[], None] | None


def wrong(note: str) -> CudaError:
    """``cudaErrorInvalidValue``, which the facade found itself."""
    return current_device().fail(cudaError_t.cudaErrorInvalidValue, note)


# -- structures to contents --------------------------------------------------------------------------------------------


def kernel_content(
    function: int, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int, parameters: int, extra: int
) -> Content:
    """A launch; ``parameters`` is the address of an array of pointers, whose values are copied."""
    if extra:
        raise wrong("packed parameters (extra) are not simulated; use kernelParams")
    kernel = current_device().function_info(function).kernel
    if not parameters and kernel.parameters:
        raise wrong(f"kernel {kernel.name} takes {len(kernel.parameters)} parameters, and kernelParams is null")
    args = values_behind(kernel, parameters) if kernel.parameters else b""
    return Content(NodeKind.KERNEL, KernelContent(function, grid, block, args, shared))


def _dim3(value: Any) -> tuple[int, int, int]:
    return int(value.x), int(value.y), int(value.z)


def kernel_of(p: Any) -> Content:
    """Of ``cudaKernelNodeParams``."""
    return kernel_content(
        int(p.func), _dim3(p.gridDim), _dim3(p.blockDim), int(p.sharedMemBytes), int(p.kernelParams), int(p.extra)
    )


def memcpy_of(p: Any) -> Content:
    """Of ``cudaMemcpy3DParms``."""
    if int(p.srcArray) or int(p.dstArray):
        raise current_device().fail(
            cudaError_t.cudaErrorNotSupported,
            "memcpy nodes with a CUDA array are not simulated; capture cudaMemcpy3DAsync instead",
        )
    extent = int(p.extent.width), int(p.extent.height), int(p.extent.depth)
    sides = in_memory_3d(p.dstPtr, p.dstPos), in_memory_3d(p.srcPtr, p.srcPos)
    return Content(NodeKind.MEMCPY, copy=CopyContent(*sides, extent, int(p.kind)))


def linear_copy(dst: Any, src: Any, count: Any, kind: Any) -> Content:
    size = size_t(count)
    sides = (void_pointer(dst), size, size), (void_pointer(src), size, size)
    return Content(NodeKind.MEMCPY, copy=CopyContent(*sides, (size, 1, 1), enumerator(kind, "kind")))


def memset_of(p: Any) -> Content:
    """Of ``cudaMemsetParams``, and of the driver's structure, which has the same fields."""
    content = MemsetContent(int(p.dst), int(p.value), int(p.width), int(p.elementSize), int(p.height), int(p.pitch))
    return Content(NodeKind.MEMSET, memset=content)


def host_of(p: Any) -> tuple[Content, HostCall]:
    """Of ``cudaHostNodeParams``, and of the driver's structure, which has the same fields."""
    call = host_call("cudaGraphAddHostNode", p.fn, p.userData)
    return Content(NodeKind.HOST, host=HostContent(int(p.fn), int(p.userData or 0))), call


def event_content(kind: NodeKind, event: Any) -> Content:
    return Content(kind, event=handle(event))


_PINNED = int(cudaMemAllocationType.cudaMemAllocationTypePinned)
_ON_DEVICE = int(cudaMemLocationType.cudaMemLocationTypeDevice)


def alloc_of(p: Any) -> Content:
    """Of ``cudaMemAllocNodeParams``, and of the driver's structure, which has the same fields."""
    place, devices = p.poolProps.location, current_device().count
    if int(p.poolProps.allocType) != _PINNED or int(place.type) != _ON_DEVICE or not 0 <= int(place.id) < devices:
        raise wrong(
            "an allocation node takes memory of a device: poolProps.allocType is cudaMemAllocationTypePinned and "
            f"location a device (got type {int(p.poolProps.allocType)}, location {int(place.type)}, {int(place.id)})"
        )
    if int(p.poolProps.handleTypes):
        raise current_device().fail(
            cudaError_t.cudaErrorNotSupported,
            "memory of graphs is not shared with other processes: poolProps.handleTypes must be 0",
        )
    shared = tuple(int(each.location.id) for each in list(p.accessDescs)[: int(p.accessDescCount)])
    others = tuple(number for number in shared if number != int(place.id))
    return Content(NodeKind.MEM_ALLOC, allocation=AllocationContent(0, int(p.bytesize), int(place.id), others))


def set_address(p: Any, node: int) -> None:
    """Write the address of a new allocation node into its parameters."""
    allocation = content_of(node, NodeKind.MEM_ALLOC).allocation
    assert allocation is not None
    p.dptr = allocation.pointer


def free_content(pointer: int) -> Content:
    return Content(NodeKind.MEM_FREE, pointer=pointer)


def conditional_of(p: Any) -> Content:
    """Of ``cudaConditionalNodeParams``, and of the driver's structure, which has the same fields."""
    return Content(NodeKind.CONDITIONAL, conditional=ConditionalContent(int(p.handle), int(p.type), int(p.size)))


_bodies: list[Any] = []
"""Arrays of the bodies of conditional nodes: CUDA keeps them in memory of its own, as long as the node is there."""


def set_bodies(p: Any, node: int) -> None:
    """Write the bodies of a new conditional node into its parameters, where they are a pointer that C sets."""
    found = current_device().graph_bodies(node)
    array = (ctypes.c_void_p * len(found))(*found)
    _bodies.append(array)
    ctypes.c_void_p.from_address(p.getPtr() + _BODIES_OFFSET).value = ctypes.addressof(array)


def finished(p: Any, content: Content, node: int) -> int:
    """What a new node is called or allocates goes into its parameters."""
    if content.kind is NodeKind.MEM_ALLOC:
        set_address(p.alloc, node)
    elif content.kind is NodeKind.CONDITIONAL:
        set_bodies(p.conditional, node)
    return node


def child_content(graph: Any) -> Content:
    return Content(NodeKind.GRAPH, graph=handle(graph))


def child_of(p: Any) -> Content:
    """Of ``cudaChildGraphNodeParams``, and of the driver's structure, which has the same fields."""
    if int(p.ownership) == int(cudaGraphChildGraphNodeOwnership.cudaGraphChildGraphOwnershipMove):
        raise current_device().fail(
            cudaError_t.cudaErrorNotSupported,
            "a child graph node that takes its graph over (cudaGraphChildGraphOwnershipMove) is not simulated; let the "
            "node have a clone (cudaGraphChildGraphOwnershipClone), and destroy the graph afterwards",
        )
    return child_content(p.graph)


EMPTY = Content(NodeKind.EMPTY)


def given(value: Any, name: str, kind: type) -> Any:
    """A structure passed by pointer that must not be null."""
    if value is None:
        raise wrong(f"no parameters (None) for {name}")
    return struct(value, name, kind)


# -- adding ------------------------------------------------------------------------------------------------------------


def added(graph: Any, after: Any, count: Any, content: Content, function: HostCall = None, edges: Any = None) -> int:
    """Add a node: its handle."""
    before = handles(after, count, "numDependencies")
    return current_device().graph_add_node(handle(graph), before, content, function, edge_data(edges, count))


@api(1)
def cudaGraphAddKernelNode(
    graph: Any, pDependencies: Any, numDependencies: Any, pNodeParams: cudaKernelNodeParams | None
) -> cudaGraphNode_t:
    p = given(pNodeParams, "pNodeParams", cudaKernelNodeParams)
    return cudaGraphNode_t(added(graph, pDependencies, numDependencies, kernel_of(p)))


@api(1)
def cudaGraphAddMemcpyNode(
    graph: Any, pDependencies: Any, numDependencies: Any, pCopyParams: cudaMemcpy3DParms | None
) -> cudaGraphNode_t:
    p = given(pCopyParams, "pCopyParams", cudaMemcpy3DParms)
    return cudaGraphNode_t(added(graph, pDependencies, numDependencies, memcpy_of(p)))


@api(1)
def cudaGraphAddMemcpyNode1D(
    graph: Any, pDependencies: Any, numDependencies: Any, dst: Any, src: Any, count: Any, kind: cudaMemcpyKind
) -> cudaGraphNode_t:
    return cudaGraphNode_t(added(graph, pDependencies, numDependencies, linear_copy(dst, src, count, kind)))


@api(1)
def cudaGraphAddMemsetNode(
    graph: Any, pDependencies: Any, numDependencies: Any, pMemsetParams: cudaMemsetParams | None
) -> cudaGraphNode_t:
    p = given(pMemsetParams, "pMemsetParams", cudaMemsetParams)
    return cudaGraphNode_t(added(graph, pDependencies, numDependencies, memset_of(p)))


@api(1)
def cudaGraphAddHostNode(
    graph: Any, pDependencies: Any, numDependencies: Any, pNodeParams: cudaHostNodeParams | None
) -> cudaGraphNode_t:
    p = given(pNodeParams, "pNodeParams", cudaHostNodeParams)
    return cudaGraphNode_t(added(graph, pDependencies, numDependencies, *host_of(p)))


@api(1)
def cudaGraphAddChildGraphNode(
    graph: Any, pDependencies: Any, numDependencies: Any, childGraph: Any
) -> cudaGraphNode_t:
    return cudaGraphNode_t(added(graph, pDependencies, numDependencies, child_content(childGraph)))


@api(1)
def cudaGraphAddEmptyNode(graph: Any, pDependencies: Any, numDependencies: Any) -> cudaGraphNode_t:
    return cudaGraphNode_t(added(graph, pDependencies, numDependencies, EMPTY))


@api(1)
def cudaGraphAddEventRecordNode(graph: Any, pDependencies: Any, numDependencies: Any, event: Any) -> cudaGraphNode_t:
    content = event_content(NodeKind.EVENT_RECORD, event)
    return cudaGraphNode_t(added(graph, pDependencies, numDependencies, content))


@api(1)
def cudaGraphAddEventWaitNode(graph: Any, pDependencies: Any, numDependencies: Any, event: Any) -> cudaGraphNode_t:
    content = event_content(NodeKind.WAIT_EVENT, event)
    return cudaGraphNode_t(added(graph, pDependencies, numDependencies, content))


def of_union(p: Any) -> tuple[Content, HostCall]:
    """What ``cudaGraphNodeParams`` says."""
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
    raise current_device().fail(
        cudaError_t.cudaErrorNotSupported, f"nodes of type {p.type.name} are not simulated, or have a call of their own"
    )


@api(1)
def cudaGraphAddNode(
    graph: Any,
    pDependencies: Any,
    dependencyData: Any,
    numDependencies: Any,
    nodeParams: cudaGraphNodeParams | None,
) -> cudaGraphNode_t:
    p = given(nodeParams, "nodeParams", cudaGraphNodeParams)
    content, function = of_union(p)
    node = added(graph, pDependencies, numDependencies, content, function, dependencyData)
    return cudaGraphNode_t(finished(p, content, node))


# -- asking ------------------------------------------------------------------------------------------------------------


def content_of(node: Any, kind: NodeKind) -> Content:
    return current_device().graph_node_content(handle(node), int(kind))


def parameter_values(kernel: Kernel, args: bytes) -> tuple[tuple[Any, ...], tuple[None, ...]]:
    """The arguments in the form that the bindings turn into an array of pointers."""
    values = []
    for parameter in kernel.parameters:
        kind: Any = type("Value", (ctypes.Structure,), {"_fields_": [("bytes", ctypes.c_ubyte * parameter.size)]})
        values.append(kind.from_buffer_copy(args[parameter.offset : parameter.offset + parameter.size]))
    return tuple(values), (None,) * len(values)


@api(1)
def cudaGraphKernelNodeGetParams(node: Any) -> cudaKernelNodeParams:
    kernel = content_of(node, NodeKind.KERNEL).kernel
    assert kernel is not None
    p = cudaKernelNodeParams()
    p.func, p.sharedMemBytes = kernel.function, kernel.shared
    p.gridDim.x, p.gridDim.y, p.gridDim.z = kernel.grid
    p.blockDim.x, p.blockDim.y, p.blockDim.z = kernel.block
    known = current_device().function_info(kernel.function).kernel
    p.kernelParams = parameter_values(known, kernel.args)
    return p


@api(1)
def cudaGraphMemcpyNodeGetParams(node: Any) -> cudaMemcpy3DParms:
    copy = content_of(node, NodeKind.MEMCPY).copy
    assert copy is not None
    p = cudaMemcpy3DParms()
    for pointer, side in ((p.srcPtr, copy.source), (p.dstPtr, copy.destination)):
        address, pitch, slice_pitch = side
        pointer.ptr, pointer.pitch, pointer.xsize = address, pitch, copy.extent[0]
        pointer.ysize = slice_pitch // pitch if pitch else copy.extent[1]
    p.extent.width, p.extent.height, p.extent.depth = copy.extent
    p.kind = cudaMemcpyKind(copy.kind)
    return p


def fill_memset(p: Any, memset: MemsetContent) -> Any:
    p.dst, p.value, p.width = memset.pointer, memset.value, memset.width
    p.elementSize, p.height, p.pitch = memset.element, memset.height, memset.pitch
    return p


@api(1)
def cudaGraphMemsetNodeGetParams(node: Any) -> cudaMemsetParams:
    memset = content_of(node, NodeKind.MEMSET).memset
    assert memset is not None
    return fill_memset(cudaMemsetParams(), memset)


@api(1)
def cudaGraphHostNodeGetParams(node: Any) -> cudaHostNodeParams:
    return fill_host(cudaHostNodeParams(), content_of(node, NodeKind.HOST).host)


def fill_host(p: Any, host: HostContent | None) -> Any:
    """The function and the argument of a host node; one that CuPy put into a stream has none that C could call."""
    if host is not None:
        p.fn, p.userData = host.function, host.data
    return p


@api(1)
def cudaGraphEventRecordNodeGetEvent(node: Any) -> cudaEvent_t:
    return cudaEvent_t(content_of(node, NodeKind.EVENT_RECORD).event)


@api(1)
def cudaGraphEventWaitNodeGetEvent(node: Any) -> cudaEvent_t:
    return cudaEvent_t(content_of(node, NodeKind.WAIT_EVENT).event)


# -- changing ----------------------------------------------------------------------------------------------------------


def change(node: Any, content: Content, function: HostCall = None) -> None:
    current_device().graph_set_content(handle(node), content, function)


def change_executable(executable: Any, node: Any, content: Content, function: HostCall = None) -> None:
    current_device().graph_exec_set_content(handle(executable), handle(node), content, function)


@api()
def cudaGraphNodeSetParams(node: Any, nodeParams: cudaGraphNodeParams | None) -> None:
    change(node, *of_union(given(nodeParams, "nodeParams", cudaGraphNodeParams)))


@api()
def cudaGraphKernelNodeSetParams(node: Any, pNodeParams: cudaKernelNodeParams | None) -> None:
    change(node, kernel_of(given(pNodeParams, "pNodeParams", cudaKernelNodeParams)))


@api()
def cudaGraphMemcpyNodeSetParams(node: Any, pNodeParams: cudaMemcpy3DParms | None) -> None:
    change(node, memcpy_of(given(pNodeParams, "pNodeParams", cudaMemcpy3DParms)))


@api()
def cudaGraphMemcpyNodeSetParams1D(node: Any, dst: Any, src: Any, count: Any, kind: cudaMemcpyKind) -> None:
    change(node, linear_copy(dst, src, count, kind))


@api()
def cudaGraphMemsetNodeSetParams(node: Any, pNodeParams: cudaMemsetParams | None) -> None:
    change(node, memset_of(given(pNodeParams, "pNodeParams", cudaMemsetParams)))


@api()
def cudaGraphHostNodeSetParams(node: Any, pNodeParams: cudaHostNodeParams | None) -> None:
    change(node, *host_of(given(pNodeParams, "pNodeParams", cudaHostNodeParams)))


@api()
def cudaGraphEventRecordNodeSetEvent(node: Any, event: Any) -> None:
    change(node, event_content(NodeKind.EVENT_RECORD, event))


@api()
def cudaGraphEventWaitNodeSetEvent(node: Any, event: Any) -> None:
    change(node, event_content(NodeKind.WAIT_EVENT, event))


@api()
def cudaGraphExecNodeSetParams(graphExec: Any, node: Any, nodeParams: cudaGraphNodeParams | None) -> None:
    change_executable(graphExec, node, *of_union(given(nodeParams, "nodeParams", cudaGraphNodeParams)))


@api()
def cudaGraphExecKernelNodeSetParams(hGraphExec: Any, node: Any, pNodeParams: cudaKernelNodeParams | None) -> None:
    change_executable(hGraphExec, node, kernel_of(given(pNodeParams, "pNodeParams", cudaKernelNodeParams)))


@api()
def cudaGraphExecMemcpyNodeSetParams(hGraphExec: Any, node: Any, pNodeParams: cudaMemcpy3DParms | None) -> None:
    change_executable(hGraphExec, node, memcpy_of(given(pNodeParams, "pNodeParams", cudaMemcpy3DParms)))


@api()
def cudaGraphExecMemcpyNodeSetParams1D(
    hGraphExec: Any, node: Any, dst: Any, src: Any, count: Any, kind: cudaMemcpyKind
) -> None:
    change_executable(hGraphExec, node, linear_copy(dst, src, count, kind))


@api()
def cudaGraphExecMemsetNodeSetParams(hGraphExec: Any, node: Any, pNodeParams: cudaMemsetParams | None) -> None:
    change_executable(hGraphExec, node, memset_of(given(pNodeParams, "pNodeParams", cudaMemsetParams)))


@api()
def cudaGraphExecHostNodeSetParams(hGraphExec: Any, node: Any, pNodeParams: cudaHostNodeParams | None) -> None:
    change_executable(hGraphExec, node, *host_of(given(pNodeParams, "pNodeParams", cudaHostNodeParams)))


@api()
def cudaGraphExecChildGraphNodeSetParams(hGraphExec: Any, node: Any, childGraph: Any) -> None:
    change_executable(hGraphExec, node, child_content(childGraph))


@api()
def cudaGraphExecEventRecordNodeSetEvent(hGraphExec: Any, hNode: Any, event: Any) -> None:
    change_executable(hGraphExec, hNode, event_content(NodeKind.EVENT_RECORD, event))


@api()
def cudaGraphExecEventWaitNodeSetEvent(hGraphExec: Any, hNode: Any, event: Any) -> None:
    change_executable(hGraphExec, hNode, event_content(NodeKind.WAIT_EVENT, event))
