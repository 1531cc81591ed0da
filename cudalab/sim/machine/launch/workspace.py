"""The workspace of one worker: the memory of a running block, laid out for native code.

It holds a block's shared memory, its threads' local memory, and the frames that save registers across barriers. A
worker runs one block after the other in the same buffers, so shared memory is not cleared between blocks, as on a GPU.
Buffers only grow and are reused by later launches, so that a small launch spends no time on allocations.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Protocol

import numpy as np

from cudalab.sim.abi import GRID_WORKSPACE_BYTES, RESERVED_SHARED_BYTES, SECTOR, WARP, Buffer, Cluster, Context, Stop
from cudalab.sim.compiler.passes.timing.clocks import KINDS
from cudalab.sim.compiler.runtime.layout import ASYNC_RINGS, BARRIER_TABLE_BYTES, SCRATCH_BYTES
from cudalab.sim.machine.launch.printf import FIFO_BYTES, MOST_PRINTED

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.configuration import LaunchConfig
    from cudalab.sim.machine.launch.module import Launch, LoadedKernel
    from cudalab.sim.machine.memory.allocation import Allocation

FUEL = 1 << 16
"""Back-edges between two checks of ``context.stop``; some 0.1 ms."""
NO_SITE = 0xFFFF_FFFF
"""In ``context.fault.site`` until something stops the launch."""
DRAIN = ctypes.CFUNCTYPE(None, ctypes.POINTER(Context), ctypes.POINTER(Buffer))
"""Called by native code when a buffer is full; it takes the contents and sets ``used`` to 0."""
MALLOC = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32)
FREE = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32)
"""``malloc`` and ``free`` as native code calls them (``abi.Context``)."""
GRAPH_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
"""``cudaGraphLaunch`` as native code calls it."""
_IMAGES = 256
"""Configurations of a kernel for which a copy of the context is kept."""
_MISS, _MISS_L2 = KINDS.index("miss"), KINDS.index("miss_l2")
_states = itertools.count()


class AlignedBuffer:
    """Host memory aligned to 1024 bytes that grows on demand."""

    __slots__ = ("_raw", "address", "bytes", "size")

    def __init__(self) -> None:
        self.size = 0
        self.address = 0
        self.reserve(64)

    def reserve(self, size: int) -> int:
        """Make it at least `size` bytes long (contents are lost when it grows) and return its address."""
        if size > self.size:
            size = max(size, min(2 * self.size, self.size + (1 << 20)))
            self._raw = np.zeros(size + 1024, np.uint8)  # zero pages: touched ones alone take memory
            start = self._raw.ctypes.data
            skew = -start % 1024
            self.bytes = self._raw[skew : skew + size]
            self.address, self.size = start + skew, size
        return self.address


UNLIMITED = (1 << 63) - 1
_HEAP_CALL = 1 << 11
"""Records of a trace that take as long as a call of ``malloc`` or ``free``, some 50 us."""
_HEAP_ROOM = 16
"""Bytes of memory that the device heap takes at most for each byte of its limit: small allocations lie far apart."""


class GraphLaunches(Protocol):
    """Where a kernel asks for graphs to be launched (``cudaGraphLaunch`` in device code)."""

    @property
    def current_graph(self) -> int:
        """The handle of the executable graph that the kernel is a node of; 0: of none."""

    def launch_graph(self, graph: int, stream: int) -> int:
        """A thread launches a graph into one of the streams ``cudaStreamGraph…``; returns a ``cudaError_t``."""


class Workspace:
    """One worker's :class:`Context` and the memory it points to."""

    def __init__(self) -> None:
        self.context = Context()
        self.address = ctypes.addressof(self.context)
        self.shared, self.local, self.frames = AlignedBuffer(), AlignedBuffer(), AlignedBuffer()
        self.states, self.scratch, self.print = AlignedBuffer(), AlignedBuffer(), AlignedBuffer()
        self.parameters, self.roots = AlignedBuffer(), AlignedBuffer()
        self.l1_tags = AlignedBuffer()
        self.cluster = Cluster(blocks=1)
        """Of a block that is a cluster by itself."""
        self.grid = np.zeros(GRID_WORKSPACE_BYTES, np.uint8)
        """The counters of a cooperative launch's grid barrier."""
        self.allocations: list[Allocation] = []
        """Allocations that parameters point to, by the last :meth:`prepare`."""
        self._state = next(_states)
        """A number that changes whenever a buffer moves; no two workspaces share one."""
        self._places: tuple[int, ...] = ()
        self._keep: object = None
        self._printed: list[bytes] = []
        self._loaded: LoadedKernel | None = None
        self._malloc, self._free = MALLOC(self._heap_malloc), FREE(self._heap_free)
        self._launch = GRAPH_LAUNCH(self._launch_graph)
        self._graphs: GraphLaunches | None = None
        self._drain = DRAIN(self._take_prints)
        self._drain_address = ctypes.cast(self._drain, ctypes.c_void_p).value or 0

    def prepare(
        self, launch: Launch, *, clock: int = 0, prints: bool = True, graphs: GraphLaunches | None = None
    ) -> None:
        """Fill the context for one launch. Without ``graphs`` those that it launches are not launched (samples)."""
        loaded, config, args = launch.kernel, launch.config, launch.args
        kernel, memory = loaded.kernel, loaded.module.memory
        context = self.context
        image = loaded.context_images.get((self._state, config, prints, memory.stack_limit))
        if image is None:
            self._lay_out(loaded, config, prints)
        else:
            ctypes.memmove(self.address, image, len(image))
        # what differs from one launch of this configuration to the next
        if loaded.kernel.uses_heap:
            memory.make_room(_HEAP_ROOM * memory.heap.limit)
        context.arena_size = memory.arena.extent
        context.ranges, context.range_count = memory.range_address, len(memory.ranges)
        context.clock = clock
        self._graphs, context.current_graph = graphs, graphs.current_graph if graphs is not None else 0
        context.images, context.image_count = memory.images.address, memory.images.count
        if config.cooperative:
            self.grid[:] = 0
        ctypes.memmove(self.parameters.address, args, len(args))
        pointers = loaded.pointers(args)
        self.allocations = pointers.allocations
        ctypes.memmove(self.roots.address, pointers.roots, len(pointers.roots))
        if kernel.scratch_bytes > SCRATCH_BYTES:  # no asynchronous copy is under way when a block begins
            heads = context.warps * ASYNC_RINGS
            ctypes.memset(context.scratch + context.warps * SCRATCH_BYTES, 0, heads)
        if kernel.follows_time:
            self._start_clock(loaded)
        self._printed.clear()
        self._loaded = loaded
        self._keep = (loaded.module, memory.range_table, args)

    def _lay_out(self, loaded: LoadedKernel, config: LaunchConfig, prints: bool) -> None:
        """Fill in what is the same for every launch of this configuration, and keep a copy of the context."""
        kernel, module = loaded.kernel, loaded.module
        context, arena = self.context, loaded.module.memory.arena
        ctypes.memset(self.address, 0, ctypes.sizeof(context))
        context.arena, context.shadow = arena.base, arena.shadow_address
        context.params = self.parameters.reserve(kernel.parameter_bytes)
        context.roots = self.roots.reserve(len(loaded.root_plan) * 16)
        context.globals = ctypes.addressof(module.global_table)
        context.grid[:] = config.grid
        context.block[:] = config.block
        context.threads, warps = config.threads_per_block, config.warps_per_block
        context.warps = warps
        shared = kernel.static_shared + config.shared
        context.shared_size = shared
        # what the system reserves of a block's shared memory lies before the block's own
        context.shared = self.shared.reserve(RESERVED_SHARED_BYTES + shared) + RESERVED_SHARED_BYTES
        context.dynamic_offset = kernel.static_shared
        context.local_size = max(kernel.local_bytes, module.memory.stack_limit * kernel.dynamic_stack)
        context.local = self.local.reserve(warps * WARP * context.local_size)
        context.frames = self.frames.reserve(warps * kernel.frame_bytes)
        context.states = self.states.reserve(4 * warps * WARP + BARRIER_TABLE_BYTES)
        context.scratch = self.scratch.reserve(warps * kernel.scratch_bytes)
        context.fuel, context.record_limit = FUEL, UNLIMITED
        context.cluster = ctypes.addressof(self.cluster)
        context.cluster_dims[:] = config.cluster or (1, 1, 1)
        context.cluster_explicit = config.cluster is not None
        if config.cooperative:
            context.grid_workspace = self.grid.ctypes.data
        context.heap_malloc = ctypes.cast(self._malloc, ctypes.c_void_p).value or 0
        context.heap_free = ctypes.cast(self._free, ctypes.c_void_p).value or 0
        context.graph_launch = ctypes.cast(self._launch, ctypes.c_void_p).value or 0
        if prints:
            context.print.data, context.print.capacity = self.print.reserve(FIFO_BYTES), FIFO_BYTES
            context.print.drain = self._drain_address
        context.fault.site = NO_SITE
        buffers = (self.shared, self.local, self.frames, self.states, self.scratch, self.print)
        places = tuple(buffer.address for buffer in (*buffers, self.parameters, self.roots))
        if places != self._places:
            self._places, self._state = places, next(_states)
        if len(loaded.context_images) >= _IMAGES:
            loaded.context_images.clear()
        key = (self._state, config, prints, module.memory.stack_limit)
        loaded.context_images[key] = ctypes.string_at(self.address, ctypes.sizeof(context))

    def _start_clock(self, loaded: LoadedKernel) -> None:
        """Give a kernel that reads clocks what its instructions take, and an empty L1."""
        context, limits = self.context, loaded.limits
        latencies = list(limits.latencies)
        if sum(allocation.size for allocation in self.allocations) > limits.l2_reach:
            latencies[_MISS] = latencies[_MISS_L2]
        self._latencies = (ctypes.c_uint32 * len(latencies))(*latencies)
        context.latencies = ctypes.addressof(self._latencies)
        context.clock_mhz = limits.clock_mhz
        context.l1_sectors = (limits.shared_per_sm - limits.shared_of_block(context.shared_size)) // SECTOR
        context.l1_tags = self.l1_tags.reserve(8 * context.l1_sectors)
        ctypes.memset(context.l1_tags, 0, 8 * context.l1_sectors)

    def _take_prints(self, _context: object, buffer: ctypes._Pointer[Buffer]) -> None:
        self._printed.append(self.print.bytes[: buffer.contents.used].tobytes())
        buffer.contents.used = 0
        if sum(map(len, self._printed)) >= MOST_PRINTED:
            buffer.contents.drain = 0

    def _heap_malloc(self, _context: int, size: int, alignment: int, site: int) -> int:
        loaded = self._loaded
        if loaded is None:
            return 0
        with loaded.module.memory.heap.lock:
            self._count_heap_call()
            where, label = _line_of(loaded, site), f"malloc in {loaded.name}"
            return loaded.module.memory.heap.malloc(size, alignment, label, where, site)

    def _heap_free(self, _context: int, pointer: int, site: int) -> int:
        loaded = self._loaded
        if loaded is None:
            return 1
        with loaded.module.memory.heap.lock:
            self._count_heap_call()
            return int(not loaded.module.memory.heap.free(pointer, _line_of(loaded, site)))

    def _launch_graph(self, _context: object, graph: int, stream: int) -> int:
        return self._graphs.launch_graph(graph, stream) if self._graphs is not None else 0

    def _count_heap_call(self) -> None:
        context = self.context
        context.record_limit -= _HEAP_CALL
        if context.trace.lost > context.record_limit:
            context.stop = Stop.LENGTH

    @property
    def has_printed(self) -> bool:
        """Has the launch printed anything, or lost output?"""
        return bool(self.context.print.used or self.context.print.lost or self._printed)

    def printed(self) -> bytes:
        """All entries of the print buffer, those taken earlier included."""
        return b"".join([*self._printed, self.print.bytes[: self.context.print.used].tobytes()])


def _line_of(loaded: LoadedKernel, site: int) -> str:
    """The line of a place in a kernel, as ``file:line``."""
    location = loaded.kernel.sites[site].location if site < len(loaded.kernel.sites) else None
    return f"{location.file}:{location.line}" if location is not None and location.line else ""


_idle: list[Workspace] = []


def borrow() -> Workspace:
    """An idle workspace; give it back with :func:`give_back`."""
    try:
        return _idle.pop()
    except IndexError:
        return Workspace()


def forget() -> None:
    """What ended blocks have left in shared and local memory is found by no later kernel of this thread."""
    _idle.clear()


def give_back(workspace: Workspace) -> None:
    workspace._keep = workspace._graphs = None
    workspace.allocations = []
    if len(_idle) < 16:
        _idle.append(workspace)
