"""Memory of graphs as runtime calls: what is reserved for it, and the rules of allocation and free nodes.

Codes are those of an H200 (driver 580). A graph with memory nodes can be neither cloned, nor a child, nor instantiated
twice at a time; its nodes and edges stay (CUDA Programming Guide, "Graph Memory Nodes").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cuda.bindings.runtime import cudaError_t, cudaGraphMemAttributeType
from msgspec.structs import replace

from cudalab.sim.device.calls.allocator import Allocator
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.graphs.content import MEMORY_NODES, AllocationContent, Content, NodeKind
from cudalab.sim.device.graphs.graph import Graph
from cudalab.sim.device.graphs.memory import Allocate, GraphAllocation, Release
from cudalab.sim.device.queue.operation import Stream
from cudalab.sim.device.state import DeviceState

_CURRENT = (
    cudaGraphMemAttributeType.cudaGraphMemAttrUsedMemCurrent,
    cudaGraphMemAttributeType.cudaGraphMemAttrReservedMemCurrent,
)
_HIGH = (
    cudaGraphMemAttributeType.cudaGraphMemAttrUsedMemHigh,
    cudaGraphMemAttributeType.cudaGraphMemAttrReservedMemHigh,
)


class GraphMemoryCalls(CallGroup):
    """Memory of graphs."""

    def __init__(self, state: DeviceState, allocator: Allocator) -> None:
        super().__init__(state)
        self._allocator = allocator

    # -- what is reserved ----------------------------------------------------------------------------------------------

    @call("cudaDeviceGraphMemTrim", "cuDeviceGraphMemTrim", cost="malloc_async")
    def graph_memory_trim(self, number: int = 0) -> None:
        """Give back to a device what its graphs do not use."""
        memory, device = self.state.graph_memory, self.state.contexts[number].number
        memory.usage(device).trim(memory.held(device))

    @call("cudaDeviceGetGraphMemAttribute", "cuDeviceGetGraphMemAttribute")
    def graph_memory_attribute(self, number: int, attribute: int) -> int:
        """Bytes, by a number of ``cudaGraphMemAttributeType``."""
        usage = self.state.graph_memory.usage(self.state.contexts[number].number)
        names = {
            **dict.fromkeys(_CURRENT[:1], usage.used),
            **dict.fromkeys(_HIGH[:1], usage.used_high),
            **dict.fromkeys(_CURRENT[1:], usage.reserved),
            **dict.fromkeys(_HIGH[1:], usage.reserved_high),
        }
        if attribute not in names:
            raise invalid_value(f"cudaDeviceGetGraphMemAttribute: {attribute} is no cudaGraphMemAttributeType")
        return names[cudaGraphMemAttributeType(attribute)]

    @call("cudaDeviceSetGraphMemAttribute", "cuDeviceSetGraphMemAttribute")
    def graph_memory_set_attribute(self, number: int, attribute: int, value: int) -> None:
        """Start a high-water mark anew: the only value is 0."""
        usage = self.state.graph_memory.usage(self.state.contexts[number].number)
        if attribute not in _HIGH or value:
            raise invalid_value(
                f"cudaDeviceSetGraphMemAttribute: only the high marks can be set, and only to 0 (got attribute "
                f"{attribute}, value {value})"
            )
        if attribute == _HIGH[0]:
            usage.used_high = usage.used
        else:
            usage.reserved_high = usage.reserved

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def prepared(self, name: str, graph: Graph, content: Content) -> Content:
        """What a new memory node does: an allocation has its address from here on. Raises ``CudaError``."""
        if content.kind is NodeKind.MEM_ALLOC and content.allocation is not None:
            return Content(NodeKind.MEM_ALLOC, allocation=self._reserved(name, content.allocation))
        if content.kind is NodeKind.MEM_FREE:
            self.state.graph_memory.known(name, content.pointer)
            if any(node.content.pointer == content.pointer for node in graph.all_nodes()):
                raise invalid_value(f"{name}: the graph frees {content.pointer:#x} already")
        return content

    def _reserved(self, name: str, wanted: AllocationContent) -> AllocationContent:
        total = int(self.state.profile.properties["totalGlobalMem"])
        if wanted.size <= 0:
            raise invalid_value(f"{name}: an allocation node allocates at least one byte (got {wanted.size})")
        if wanted.size > total:
            raise CudaError(
                cudaError_t.cudaErrorMemoryAllocation, f"{name} of {wanted.size} bytes: the device has {total} in all"
            )
        made = self.state.graph_memory.reserve(wanted.size, wanted.device)
        self.state.recorder.allocated(made.pointer, made.size)
        if wanted.shared_with and (reserved := self.state.memory.reserved_at(made.pointer)) is not None:
            reserved.shared_with = wanted.shared_with
        return replace(wanted, pointer=made.pointer)

    def added(self, content: Content) -> None:
        """A memory node is there."""
        if content.allocation is not None:
            self.state.graph_memory.hold(self.state.graph_memory.known("", content.allocation.pointer))

    def gone(self, contents: Iterable[Content]) -> None:
        """Nodes are gone, of a graph or an executable graph."""
        memory = self.state.graph_memory
        for content in contents:
            if content.allocation is not None:
                memory.drop(memory.known("", content.allocation.pointer))

    @staticmethod
    def refuse(name: str, graph: Graph, what: str) -> None:
        """Raise ``cudaErrorNotSupported`` when the graph has memory nodes: it is not to be cloned, say."""
        if any(node.kind in MEMORY_NODES for node in graph.all_nodes()):
            raise CudaError(
                cudaError_t.cudaErrorNotSupported, f"{name}: a graph that allocates or frees memory cannot {what}"
            )

    # -- launches ------------------------------------------------------------------------------------------------------

    def launched(self, contents: Iterable[Content], *, auto_free: bool) -> list[GraphAllocation]:
        """An executable graph is launched, whose nodes do this, in order: its memory is the program's from here on.
        Returns what is to be freed before. Raises ``cudaErrorInvalidValue`` when memory is allocated or freed twice,
        and then nothing changes."""
        memory = self.state.graph_memory
        lent: dict[GraphAllocation, bool] = {}
        first: list[GraphAllocation] = []
        for content in contents:
            if content.allocation is not None:
                allocation = memory.known("cudaGraphLaunch", content.allocation.pointer)
                if lent.get(allocation, allocation.lent):
                    if not auto_free:
                        raise invalid_value(
                            f"cudaGraphLaunch: the memory at {allocation.pointer:#x} that the launch before allocated "
                            "was not freed. Free it in the graph, with cudaFree or cudaFreeAsync, or instantiate with "
                            "cudaGraphInstantiateFlagAutoFreeOnLaunch"
                        )
                    first.append(allocation)
                lent[allocation] = True
            elif content.kind is NodeKind.MEM_FREE:
                allocation = memory.known("cudaGraphLaunch", content.pointer)
                if not lent.get(allocation, allocation.lent):
                    raise invalid_value(
                        f"cudaGraphLaunch: the graph frees {allocation.pointer:#x}, which no launch has allocated"
                    )
                lent[allocation] = False
        sizes = Counter[int]()
        for allocation in lent:
            allocation.back()
            sizes[allocation.device] += 0 if allocation.lent else allocation.size
        for device, size in sizes.items():
            memory.usage(device).take(size, memory.held(device))
        for allocation, now in lent.items():
            if now and not allocation.lent:
                memory.hold(allocation)
            elif allocation.lent and not now:
                memory.drop(allocation)
            allocation.lent = now
        return first

    # -- in a capture --------------------------------------------------------------------------------------------------

    def capture_allocation(self, name: str, stream: Stream, size: int, device: int, shared_with: Iterable[int]) -> int:
        """``cudaMallocAsync`` in a capturing stream becomes a node: its address."""
        assert stream.capture is not None
        stream.capture.check(name)
        made = self._reserved(name, AllocationContent(0, size, device, tuple(shared_with)))
        content = Content(NodeKind.MEM_ALLOC, allocation=made)
        work = Allocate(self.state.graph_memory.known(name, made.pointer))
        self.state.captures.add(stream, content, work)
        return made.pointer

    def capture_free(self, stream: Stream, pointer: int) -> None:
        """``cudaFreeAsync`` in a capturing stream becomes a node. It frees what a node allocates, and nothing else."""
        assert stream.capture is not None
        stream.capture.check("cudaFreeAsync")
        content = self.prepared("cudaFreeAsync", stream.capture.graph, Content(NodeKind.MEM_FREE, pointer=pointer))
        self.state.captures.add(stream, content, Release(self.state.graph_memory.known("cudaFreeAsync", pointer)))
