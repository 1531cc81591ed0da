"""Nodes that allocate and free memory, and what is reserved for them (``cudart/graph_memory.py``)."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import CUDA_MEM_ALLOC_NODE_PARAMS, CUdeviceptr, CUgraphMem_attribute, CUgraphNode, cuuint64_t

from cudalab.sim.binding import enumerator, handle, known_device
from cudalab.sim.cudart.graph_memory import fill_alloc
from cudalab.sim.cudart.graph_nodes import added, alloc_of, content_of, free_content, given, set_address
from cudalab.sim.device import current_device
from cudalab.sim.device.graphs.content import NodeKind
from cudalab.sim.driver.answer import api


@api(1)
def cuGraphAddMemAllocNode(
    hGraph: Any, dependencies: Any, numDependencies: Any, nodeParams: CUDA_MEM_ALLOC_NODE_PARAMS | None
) -> CUgraphNode:
    p = given(nodeParams, "nodeParams", CUDA_MEM_ALLOC_NODE_PARAMS)
    node = added(hGraph, dependencies, numDependencies, alloc_of(p))
    set_address(p, node)
    return CUgraphNode(node)


@api(1)
def cuGraphMemAllocNodeGetParams(hNode: Any) -> CUDA_MEM_ALLOC_NODE_PARAMS:
    return fill_alloc(CUDA_MEM_ALLOC_NODE_PARAMS(), content_of(hNode, NodeKind.MEM_ALLOC).allocation)


@api(1)
def cuGraphAddMemFreeNode(hGraph: Any, dependencies: Any, numDependencies: Any, dptr: Any) -> CUgraphNode:
    return CUgraphNode(added(hGraph, dependencies, numDependencies, free_content(handle(dptr))))


@api(1)
def cuGraphMemFreeNodeGetParams(hNode: Any) -> CUdeviceptr:
    return CUdeviceptr(content_of(hNode, NodeKind.MEM_FREE).pointer)


@api()
def cuDeviceGraphMemTrim(device: Any) -> None:
    current_device().graph_memory_trim(known_device(device))


@api(1)
def cuDeviceGetGraphMemAttribute(device: Any, attr: CUgraphMem_attribute) -> cuuint64_t:
    return cuuint64_t(current_device().graph_memory_attribute(known_device(device), enumerator(attr, "attr")))


@api()
def cuDeviceSetGraphMemAttribute(device: Any, attr: CUgraphMem_attribute, value: Any) -> None:
    number = enumerator(attr, "attr")
    current_device().graph_memory_set_attribute(known_device(device), number, int(value))
