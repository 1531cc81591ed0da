"""``cudalab.graph(g)``: what a CUDA graph consists of, drawn.

Nodes, their kinds and their edges are asked of the runtime and the driver (CUDA Runtime API, "Graph Management"), on a
GPU as on the simulated device; nothing is launched. Kernels have their names. Beside an earlier graph the drawing marks
the nodes that have changed, as an update would have to change them: other kernels, other launch dimensions, other sizes
or directions of copies and memsets. Arguments of kernels are not compared: CUDA gives their addresses, not their sizes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from cudalab import backend
from cudalab.plots.drawing import Drawing
from cudalab.plots.layouts import graph as layout

_KINDS = {
    "Kernel": "kernel",
    "Memcpy": "copy",
    "Memset": "memset",
    "Host": "host",
    "Graph": "graph",
    "Conditional": "graph",
    "MemAlloc": "memory",
    "MemFree": "memory",
    "EventRecord": "event",
    "WaitEvent": "event",
}
_NAMES = {
    "Memcpy": "copy",
    "Memset": "memset",
    "Host": "host function",
    "Graph": "child graph",
    "Conditional": "conditional",
    "Empty": "empty",
    "MemAlloc": "allocate",
    "MemFree": "free",
    "EventRecord": "record event",
    "WaitEvent": "wait for event",
}


@dataclass(frozen=True)
class _Node:
    type: str
    """CUDA's, without ``cudaGraphNodeType``."""
    name: str
    what: tuple[object, ...]
    """What would be another after an update."""


def graph(graph: Any, *, before: Any = None) -> Drawing:
    """Draw a graph: nodes by kind, edges, the longest path in words.

    Args:
        graph: a ``cudaGraph_t`` or ``CUgraph``, as ``cudaStreamEndCapture`` or ``cudaGraphCreate`` return it, or CuPy's
            ``cp.cuda.Graph``.
        before: an earlier graph of the same shape; nodes that differ from it are marked.

    Raises:
        RuntimeError: the runtime refuses the handle; the message has its error.
        ValueError: the graph is empty, or ``before`` has another number of nodes.
    """
    nodes, edges = _read(graph)
    changed: list[int] = []
    if before is not None:
        earlier, _ = _read(before)
        if len(earlier) != len(nodes):
            raise ValueError(f"graph: {len(nodes)} nodes, and {len(earlier)} before; only graphs of one shape compare")
        changed = [at for at, (new, old) in enumerate(zip(nodes, earlier, strict=True)) if new != old]
    ids = [f"n{at}" for at in range(len(nodes))]
    return layout.graph(
        [*ids, *(f"{ids[a]} -> {ids[b]}" for a, b in edges)],
        kinds={name: _KINDS.get(node.type, "empty") for name, node in zip(ids, nodes, strict=True)},
        names=dict(zip(ids, _numbered([node.name for node in nodes]), strict=True)),
        changed=[ids[at] for at in changed],
    )


def _numbered(names: list[str]) -> list[str]:
    """Names that stand there several times get a number."""
    count, seen = Counter(names), Counter[str]()
    out = []
    for name in names:
        seen[name] += 1
        out.append(f"{name} {seen[name]}" if count[name] > 1 else name)
    return out


def _read(graph: Any) -> tuple[list[_Node], list[tuple[int, int]]]:
    cudart = backend.cudart
    graph = getattr(graph, "graph", graph)  # of CuPy's Graph its handle
    _, count = _ok(cudart.cudaGraphGetNodes(graph))
    handles = _ok(cudart.cudaGraphGetNodes(graph, count))[0][:count]
    *_, count = _ok(cudart.cudaGraphGetEdges(graph))
    first, second, *_ = _ok(cudart.cudaGraphGetEdges(graph, count))
    place = {int(handle): at for at, handle in enumerate(handles)}
    edges = [(place[int(a)], place[int(b)]) for a, b in zip(first[:count], second[:count], strict=True)]
    return [_node(handle) for handle in handles], edges


def _node(handle: Any) -> _Node:
    cudart, driver = backend.cudart, backend.driver
    kind = _ok(cudart.cudaGraphNodeGetType(handle))[0].name.removeprefix("cudaGraphNodeType")
    if kind == "Kernel":
        params = _ok(driver.cuGraphKernelNodeGetParams(driver.CUgraphNode(int(handle))))[0]
        name = _ok(driver.cuFuncGetName(params.func))[0].decode()
        grid = (params.gridDimX, params.gridDimY, params.gridDimZ)
        block = (params.blockDimX, params.blockDimY, params.blockDimZ)
        return _Node(kind, name, (name, grid, block, params.sharedMemBytes))
    what: tuple[object, ...] = ()
    if kind == "Memcpy":
        copied = _ok(cudart.cudaGraphMemcpyNodeGetParams(handle))[0]
        extent = copied.extent
        what = (
            extent.width,
            extent.height,
            extent.depth,
            int(copied.kind),
            int(copied.dstPtr.ptr),
            int(copied.srcPtr.ptr),
        )
    elif kind == "Memset":
        filled = _ok(cudart.cudaGraphMemsetNodeGetParams(handle))[0]
        what = (filled.width, filled.height, filled.elementSize, filled.value, int(filled.dst))
    return _Node(kind, _NAMES.get(kind, kind), what)


def _ok(result: tuple[Any, ...]) -> tuple[Any, ...]:
    error, *values = result
    if int(error):
        raise RuntimeError(f"{error.name}: is it a graph that was not destroyed?")
    return tuple(values)
