"""Nodes that allocate and free memory, and what is reserved for them."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import cuuint64_t
from cuda.bindings.runtime import cudaGraphMemAttributeType, cudaGraphNode_t, cudaMemAllocNodeParams

from cudalab.sim.binding import enumerator, known_device, void_pointer
from cudalab.sim.cudart.answer import api
from cudalab.sim.cudart.graph_nodes import added, alloc_of, content_of, free_content, given, set_address
from cudalab.sim.device import current_device
from cudalab.sim.device.graphs.content import AllocationContent, NodeKind


@api(1)
def cudaGraphAddMemAllocNode(
    graph: Any, pDependencies: Any, numDependencies: Any, nodeParams: cudaMemAllocNodeParams | None
) -> cudaGraphNode_t:
    p = given(nodeParams, "nodeParams", cudaMemAllocNodeParams)
    node = added(graph, pDependencies, numDependencies, alloc_of(p))
    set_address(p, node)
    return cudaGraphNode_t(node)


@api(1)
def cudaGraphMemAllocNodeGetParams(node: Any) -> cudaMemAllocNodeParams:
    return fill_alloc(cudaMemAllocNodeParams(), content_of(node, NodeKind.MEM_ALLOC).allocation)


def fill_alloc(p: Any, allocation: AllocationContent | None) -> Any:
    """The structure of an allocation node, in either API."""
    assert allocation is not None
    properties = p.poolProps
    properties.allocType = type(properties.allocType)(1)
    properties.location.type = type(properties.location.type)(1)
    properties.location.id = allocation.device
    p.bytesize, p.dptr = allocation.size, allocation.pointer
    return p


@api(1)
def cudaGraphAddMemFreeNode(graph: Any, pDependencies: Any, numDependencies: Any, dptr: Any) -> cudaGraphNode_t:
    return cudaGraphNode_t(added(graph, pDependencies, numDependencies, free_content(void_pointer(dptr))))


@api(1)
def cudaGraphMemFreeNodeGetParams(node: Any) -> int:
    return content_of(node, NodeKind.MEM_FREE).pointer


@api()
def cudaDeviceGraphMemTrim(device: Any) -> None:
    current_device().graph_memory_trim(known_device(device))


@api(1)
def cudaDeviceGetGraphMemAttribute(device: Any, attr: cudaGraphMemAttributeType) -> cuuint64_t:
    return cuuint64_t(current_device().graph_memory_attribute(known_device(device), enumerator(attr, "attr")))


@api()
def cudaDeviceSetGraphMemAttribute(device: Any, attr: cudaGraphMemAttributeType, value: Any) -> None:
    number = enumerator(attr, "attr")
    current_device().graph_memory_set_attribute(known_device(device), number, int(value))
