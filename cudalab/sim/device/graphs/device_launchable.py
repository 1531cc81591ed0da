"""What a graph may hold that kernels are to launch (``cudaGraphInstantiateFlagDeviceLaunch``).

The rules are those of the CUDA Runtime API, ``cudaGraphInstantiateWithParams``: one device; kernel, memcpy, memset and
child graph nodes, at least one of the first three; copies between device memory and page-locked host memory.
"""

from __future__ import annotations

from enum import IntEnum

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.error import CudaError
from cudalab.sim.device.graphs.content import Content, NodeKind
from cudalab.sim.device.graphs.graph import Graph, Node
from cudalab.sim.device.queue.kernel_launch import KernelLaunch
from cudalab.sim.machine.memory.allocations import Memory

_WORKING = (NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET)
_ALLOWED = (*_WORKING, NodeKind.GRAPH)


class InstantiationResult(IntEnum):
    """``cudaGraphInstantiateResult`` and ``CUgraphInstantiateResult``, which have the same numbers."""

    SUCCESS = 0
    ERROR = 1
    INVALID_STRUCTURE = 2
    NODE_OPERATION_NOT_SUPPORTED = 3
    MULTIPLE_DEVICES_NOT_SUPPORTED = 4
    CONDITIONAL_HANDLE_UNUSED = 5


class CannotInstantiate(CudaError):
    """No executable graph can be made, for which ``cudaGraphInstantiateParams`` has a result of its own."""

    def __init__(self, result: InstantiationResult, note: str, node: Node | None = None) -> None:
        super().__init__(cudaError_t.cudaErrorInvalidValue, note)
        self.result = result
        self.node = node.handle if node is not None else 0
        """The node that it is about; 0: none."""


def check_launchable(name: str, graph: Graph, memory: Memory) -> None:
    """Raise when kernels could not launch a graph, for what it holds."""
    nodes = list(graph.all_nodes())
    for node in nodes:
        why = unsupported(node.content, memory)
        if why:
            raise CannotInstantiate(
                InstantiationResult.NODE_OPERATION_NOT_SUPPORTED,
                f"{name}: {node.label} {why}, so kernels cannot launch the graph "
                "(cudaGraphInstantiateFlagDeviceLaunch). Leave the node out, or launch from the host, without the flag",
                node,
            )
    if not any(node.kind in _WORKING for node in nodes):
        raise CannotInstantiate(
            InstantiationResult.ERROR,
            f"{name}: a graph that kernels are to launch (cudaGraphInstantiateFlagDeviceLaunch) has at least one "
            "kernel, memcpy or memset node; this one has none",
        )
    check_one_device(name, nodes)


def check_one_device(name: str, nodes: list[Node], *, launching: bool = False) -> None:
    """Raise when kernels of a graph are of several devices. ``launching``: look at those only that launch graphs."""
    first: tuple[Node, int] | None = None
    for node in nodes:
        work = node.work
        if not isinstance(work, KernelLaunch) or (launching and not work.launch.kernel.kernel.launches_graphs):
            continue
        device = work.launch.kernel.module.device
        if first is None:
            first = node, device
        elif device != first[1]:
            what = "kernels that launch graphs are" if launching else "a graph that kernels are to launch is"
            raise CannotInstantiate(
                InstantiationResult.MULTIPLE_DEVICES_NOT_SUPPORTED,
                f"{name}: {first[0].label} is of device {first[1]}, {node.label} of device {device}; {what} of one "
                "device: make a graph for each",
                node,
            )


def unsupported(content: Content, memory: Memory) -> str:
    """Why a kernel cannot launch a node that does this; empty when it can."""
    kind = content.kind
    if kind not in _ALLOWED:
        article = "an" if kind.title[0] in "aeiou" else "a"
        return f"is {article} {kind.title} node, and only kernel, memcpy, memset and child graph nodes are allowed"
    copy = content.copy
    if copy is None:
        return ""
    for side, box in (("source", copy.source), ("destination", copy.destination)):
        if memory.find(box[0]) is None and not memory.find_range(box[0])[1]:
            return (
                f"has pageable host memory as its {side} ({box[0]:#x}), and the device copies page-locked memory only"
            )
    return ""
