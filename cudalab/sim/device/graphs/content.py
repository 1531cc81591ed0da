"""What a node of a graph does, as plain values: what its creator said, what a query returns, what a recording keeps.

One :class:`Content` holds the values of one kind of node, as ``cudaGraphNodeParams`` does.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct
from msgspec.structs import replace

from cudalab.sim.device.declaration import Address, Handle, PackedBytes
from cudalab.sim.machine.launch.configuration import Dim3


class NodeKind(IntEnum):
    """``cudaGraphNodeType`` and ``CUgraphNodeType``, which have the same numbers."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    HOST = 3
    GRAPH = 4
    EMPTY = 5
    WAIT_EVENT = 6
    EVENT_RECORD = 7
    MEM_ALLOC = 10
    MEM_FREE = 11
    CONDITIONAL = 13

    @property
    def title(self) -> str:
        """What a report calls a node of it."""
        return _TITLES[self]


_TITLES = {
    NodeKind.KERNEL: "kernel",
    NodeKind.MEMCPY: "memcpy",
    NodeKind.MEMSET: "memset",
    NodeKind.HOST: "host",
    NodeKind.GRAPH: "child graph",
    NodeKind.EMPTY: "empty",
    NodeKind.WAIT_EVENT: "event wait",
    NodeKind.EVENT_RECORD: "event record",
    NodeKind.MEM_ALLOC: "memory allocation",
    NodeKind.MEM_FREE: "memory free",
    NodeKind.CONDITIONAL: "conditional",
}

MEMORY_NODES = (NodeKind.MEM_ALLOC, NodeKind.MEM_FREE)

Box = tuple[Address, int, int]
"""One side of a copy: the first byte, the pitch, and bytes from slice to slice."""


class KernelContent(Struct, frozen=True):
    """A launch. The arguments are copied when the node is made or its parameters are set."""

    function: Handle
    grid: Dim3
    block: Dim3
    args: PackedBytes
    shared: int = 0
    cooperative: int = 0
    cluster: Dim3 | None = None
    window: tuple[Address, int, float, int, int] | None = None
    """The access policy window, as its structure has it (``calls/access_windows.py``)."""
    priority: int = 0
    carveout: int = 0
    """Percent of the L1 as shared memory; 0: as its function says."""
    domain: int = 0
    domain_map: tuple[int, int] = (0, 1)
    scheduling: int = 0
    """``cudaClusterSchedulingPolicy``"""

    def with_attributes_of(self, other: KernelContent) -> KernelContent:
        """This launch with the attributes of another one."""
        function, grid, block = self.function, self.grid, self.block
        return replace(other, function=function, grid=grid, block=block, args=self.args, shared=self.shared)


class CopyContent(Struct, frozen=True):
    """A copy of a box: ``extent`` is width in bytes, height, depth; ``kind`` a ``cudaMemcpyKind``."""

    destination: Box
    source: Box
    extent: tuple[int, int, int]
    kind: int = 4


class MemsetContent(Struct, frozen=True):
    """``height`` rows of ``width`` elements of ``element`` bytes, ``pitch`` bytes apart."""

    pointer: Address
    value: int
    width: int
    element: int = 1
    height: int = 1
    pitch: int = 0


class HostContent(Struct, frozen=True):
    """The C function that a host node calls, and its argument, as the program gave them: for questions only."""

    function: int
    data: int


class AllocationContent(Struct, frozen=True):
    """``size`` bytes of a device's memory, at an address that stays the same in every launch."""

    pointer: Address
    """Set when the node is made."""
    size: int
    device: int = 0
    shared_with: tuple[int, ...] = ()
    """The other devices that have access."""


class ConditionalContent(Struct, frozen=True):
    """A value, what is decided by it (``cudaGraphConditionalNodeType``), and how many bodies there are."""

    handle: Address
    kind: int
    size: int = 1


class Content(Struct, frozen=True):
    """What a node does: its kind, and the values of that kind. An array function of CuPy is a kernel whose values CUDA
    would know and the simulated device does not."""

    kind: NodeKind
    kernel: KernelContent | None = None
    copy: CopyContent | None = None
    memset: MemsetContent | None = None
    host: HostContent | None = None
    graph: Handle = 0
    """The graph that a child graph node was made from."""
    event: Handle = 0
    allocation: AllocationContent | None = None
    pointer: Address = 0
    """What a free frees."""
    conditional: ConditionalContent | None = None
