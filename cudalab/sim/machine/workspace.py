"""The buffers of one worker: what a running block has on an SM, laid out for compiled code.

A block's shared memory, its threads' local memory, and the frames that hold registers across barriers live here. A
worker runs one block after the other in the same buffers, so shared memory is not cleared between blocks, as on a GPU.
Buffers only grow and are reused by later launches: a small launch must not spend its time on allocating.
"""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import WARP, Buffer, Context
from cudalab.sim.machine.printing import FIFO_BYTES, MOST_PRINTED

if TYPE_CHECKING:
    from cudalab.sim.machine.memory import Allocation
    from cudalab.sim.machine.module import LoadedKernel

FUEL = 1 << 16
"""Back-edges between two looks at ``context.stop``; some 0.1 ms."""
NO_SITE = 0xFFFF_FFFF
"""In ``context.fault.site`` until something stops the launch."""
DRAIN = ctypes.CFUNCTYPE(None, ctypes.POINTER(Context), ctypes.POINTER(Buffer))
"""Called by running code when a buffer is full; it takes the contents and sets ``used`` to 0."""
_ROOT = struct.Struct("<QQ")
_ADDRESS = struct.Struct("<Q")


class Region:
    """A block of host memory, aligned to 1024 bytes, that grows when asked for more."""

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


class Workspace:
    """One worker's :class:`Context` and the memory it points to."""

    def __init__(self) -> None:
        self.context = Context()
        self.address = ctypes.addressof(self.context)
        self.shared, self.local, self.frames = Region(), Region(), Region()
        self.states, self.scratch, self.print = Region(), Region(), Region()
        self.parameters, self.roots = Region(), Region()
        self.allocations: list[Allocation] = []
        """Allocations that parameters point to, by the last :meth:`prepare`."""
        self._keep: object = None
        self._printed: list[bytes] = []
        self._drain = DRAIN(self._take_prints)
        self._drain_address = ctypes.cast(self._drain, ctypes.c_void_p).value or 0

    def prepare(
        self,
        loaded: LoadedKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: bytes,
        shared: int,
        *,
        clock: int = 0,
        prints: bool = True,
    ) -> None:
        """Fill the context for one launch."""
        kernel, module = loaded.kernel, loaded.module
        memory = module.memory
        context = self.context
        if len(args) != kernel.parameter_bytes:
            raise ValueError(
                f"kernel {kernel.name} takes {kernel.parameter_bytes} bytes of parameters (got {len(args)})"
            )
        arena = memory.arena
        context.arena, context.arena_size, context.shadow = arena.base, arena.extent, arena.shadow_address
        context.ranges, context.range_count = memory.range_address, len(memory.ranges)
        context.params = self.parameters.reserve(len(args))
        ctypes.memmove(context.params, args, len(args))
        self._fill_roots(loaded, args)
        context.globals = ctypes.addressof(module.global_table)
        context.grid[:] = grid
        context.block[:] = block
        threads = block[0] * block[1] * block[2]
        warps = -(-threads // WARP)
        context.threads, context.warps = threads, warps
        dynamic = kernel.static_shared
        context.shared_size = dynamic + shared
        context.shared = self.shared.reserve(dynamic + shared)
        context.dynamic_offset = dynamic
        context.local_size = kernel.local_bytes
        context.local = self.local.reserve(warps * WARP * kernel.local_bytes)
        context.frames = self.frames.reserve(warps * kernel.frame_bytes)
        context.states = self.states.reserve(4 * warps * WARP)
        context.scratch = self.scratch.reserve(warps * kernel.scratch_bytes)
        context.block_order = context.thread_order = 0
        context.stop, context.fuel = 0, FUEL
        context.blocks_done = 0
        context.clock = clock
        context.print.data = self.print.reserve(FIFO_BYTES) if prints else 0
        context.print.capacity = FIFO_BYTES if prints else 0
        context.print.used = context.print.lost = 0
        context.print.drain = self._drain_address if prints else 0
        self._printed.clear()
        trace, undo = context.trace, context.undo
        trace.data = trace.capacity = trace.used = trace.lost = trace.drain = 0
        undo.data = undo.capacity = undo.used = undo.lost = undo.drain = 0
        ctypes.memset(ctypes.addressof(context.fault), 0, ctypes.sizeof(context.fault))
        context.fault.site = NO_SITE
        self._keep = (module, memory.range_table, args)

    def _fill_roots(self, loaded: LoadedKernel, args: bytes) -> None:
        memory, plan = loaded.module.memory, loaded.root_plan
        self.allocations = []
        at: dict[int, tuple[int, int]] = {}
        for offset in loaded.pointer_offsets:
            (address,) = _ADDRESS.unpack_from(args, offset)
            allocation = memory.find(address)
            if allocation is not None:
                self.allocations.append(allocation)
                at[offset] = (allocation.pointer, allocation.size)
            elif memory.ranges:
                at[offset] = memory.find_range(address)
        table = self.roots.bytes if len(plan) * 16 <= self.roots.size else None
        if table is None:
            self.roots.reserve(len(plan) * 16)
            table = self.roots.bytes
        for index, where in enumerate(plan):
            if where < 0:
                address = loaded.module.global_table[~where]
                found = memory.find(address)
                base, length = (found.pointer, found.size) if found else (0, 0)
            else:
                base, length = at.get(where, (0, 0))
            _ROOT.pack_into(table, 16 * index, base, length)  # type: ignore[arg-type]
        self.context.roots = self.roots.address

    def _take_prints(self, _context: object, buffer: ctypes._Pointer[Buffer]) -> None:
        self._printed.append(self.print.bytes[: buffer.contents.used].tobytes())
        buffer.contents.used = 0
        if sum(map(len, self._printed)) >= MOST_PRINTED:
            buffer.contents.drain = 0

    def printed(self) -> bytes:
        """All entries of the print buffer, those taken earlier included."""
        return b"".join([*self._printed, self.print.bytes[: self.context.print.used].tobytes()])


_idle: list[Workspace] = []


def borrow() -> Workspace:
    """An idle workspace; give it back with :func:`give_back`."""
    try:
        return _idle.pop()
    except IndexError:
        return Workspace()


def give_back(workspace: Workspace) -> None:
    workspace._keep = None
    workspace.allocations = []
    if len(_idle) < 16:
        _idle.append(workspace)
