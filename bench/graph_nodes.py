"""Nodes of graphs by calls that a GPU and the simulated device have: each function adds one and returns it.

Kernel nodes go through the driver, whose structures take arguments with their C types. Handles are the runtime's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from cudalab import cudart, driver

Node = Any
HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
IF, WHILE = 0, 1


def checked(answer: Any) -> Any:
    """The value of a call of ``cudart`` or ``driver``. Raises ``RuntimeError`` when it failed."""
    code, *values = answer
    if int(code) != 0:
        raise RuntimeError(f"a call failed: {code!r}")
    return values[0] if len(values) == 1 else tuple(values)


def launch_of(kernel: Any, *args: tuple[Any, Any], threads: int = 32) -> Any:
    """What a node launches: one block of a CuPy kernel; each argument with its C type."""
    params = driver.CUDA_KERNEL_NODE_PARAMS()
    params.func = driver.CUfunction(int(kernel.kernel.ptr))
    params.gridDimX = params.gridDimY = params.gridDimZ = 1
    params.blockDimX, params.blockDimY, params.blockDimZ = threads, 1, 1
    if args:
        params.kernelParams = tuple(zip(*args, strict=True))
    return params


def kernel(graph: Any, after: Sequence[Node], params: Any) -> Node:
    before = [driver.CUgraphNode(int(each)) for each in after]
    node = checked(driver.cuGraphAddKernelNode(driver.CUgraph(int(graph)), before, len(before), params))
    return cudart.cudaGraphNode_t(int(node))


def memset(graph: Any, after: Sequence[Node], pointer: int, value: int, size: int, element: int = 1) -> Node:
    params = cudart.cudaMemsetParams()
    params.dst, params.value, params.width = pointer, value, size // element
    params.elementSize, params.height, params.pitch = element, 1, 0
    return checked(cudart.cudaGraphAddMemsetNode(graph, list(after), len(after), params))


def copy(graph: Any, after: Sequence[Node], to: int, source: int, size: int) -> Node:
    """Within a device, to it, or from it: the addresses say which."""
    kind = cudart.cudaMemcpyKind.cudaMemcpyDefault
    return checked(cudart.cudaGraphAddMemcpyNode1D(graph, list(after), len(after), to, source, size, kind))


def empty(graph: Any, after: Sequence[Node]) -> Node:
    return checked(cudart.cudaGraphAddEmptyNode(graph, list(after), len(after)))


def host(graph: Any, after: Sequence[Node], function: Callable[[Any], None], data: int = 0) -> Node:
    """A call of a ``HostFunction``, which must live as long as the graph."""
    params = cudart.cudaHostNodeParams()
    params.fn, params.userData = ctypes.cast(function, ctypes.c_void_p).value, data  # type: ignore[arg-type]
    return checked(cudart.cudaGraphAddHostNode(graph, list(after), len(after), params))


def child(graph: Any, after: Sequence[Node], inner: Any) -> Node:
    return checked(cudart.cudaGraphAddChildGraphNode(graph, list(after), len(after), inner))


def allocation(graph: Any, after: Sequence[Node], size: int) -> tuple[Node, int]:
    """The node, and the address that the memory will have."""
    params = cudart.cudaMemAllocNodeParams()
    params.poolProps.allocType = cudart.cudaMemAllocationType.cudaMemAllocationTypePinned
    params.poolProps.location.type = cudart.cudaMemLocationType.cudaMemLocationTypeDevice
    params.poolProps.location.id, params.bytesize = 0, size
    node = checked(cudart.cudaGraphAddMemAllocNode(graph, list(after), len(after), params))
    return node, int(params.dptr)


def free(graph: Any, after: Sequence[Node], pointer: int) -> Node:
    return checked(cudart.cudaGraphAddMemFreeNode(graph, list(after), len(after), pointer))


def conditional(graph: Any, after: Sequence[Node], kind: int, default: int) -> tuple[Node, Any, int]:
    """The node, its body, and the handle, which is ``default`` at the start of each launch."""
    handle = checked(cudart.cudaGraphConditionalHandleCreate(graph, default, 1))
    params = cudart.cudaGraphNodeParams()
    params.type = cudart.cudaGraphNodeType.cudaGraphNodeTypeConditional
    params.conditional.handle, params.conditional.size = handle, 1
    params.conditional.type = cudart.cudaGraphConditionalNodeType(kind)
    node = checked(cudart.cudaGraphAddNode(graph, list(after), None, len(after), params))
    return node, params.conditional.phGraph_out[0], int(handle)
