"""From what a node does, as plain values, to work that can be issued.

Everything is checked here, when the node is made or its parameters are set, as CUDA does. A copy of a graph reads
pageable host memory when it runs, not when it is added: no staging happens before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cudalab.sim.device.calls.copies import copy_work, memset_work
from cudalab.sim.device.calls.placement import placed
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.graphs.content import Content, CopyContent, MemsetContent, NodeKind
from cudalab.sim.device.graphs.memory import Allocate, Release
from cudalab.sim.device.queue.copy_region import CopyRegion
from cudalab.sim.device.queue.operation import Work
from cudalab.sim.device.queue.ordering import EMPTY, EventRecord, EventWait
from cudalab.sim.device.queue.transfer import Copy, Memset

if TYPE_CHECKING:
    from cudalab.sim.device.calls.kernels import KernelCalls
    from cudalab.sim.device.calls.streams import StreamCalls
    from cudalab.sim.device.state import DeviceState

EVENT_WAIT = EventWait()
_ELEMENTS = (1, 2, 4)


class WorkMaker:
    """Makes the work of nodes."""

    def __init__(self, state: DeviceState, kernels: KernelCalls, streams: StreamCalls) -> None:
        self._state, self._kernels, self._streams = state, kernels, streams
        self._record = EventRecord(round(state.profile.device["event_record"]))

    def of(self, name: str, content: Content, function: Callable[[], None] | None = None) -> Work[Any] | None:
        """The work of a node; ``function`` is what a host node calls. ``None`` for a child graph and a
        conditional node, whose nodes have work of their own. Raises ``CudaError``, naming the call ``name``."""
        kind = content.kind
        if kind is NodeKind.KERNEL and content.kernel is not None:
            k = content.kernel
            work = self._kernels.work(
                k.function, k.grid, k.block, k.args, k.shared, bool(k.cooperative), k.cluster, k.window
            )
            if k.carveout:
                work.carveout = k.carveout
            return work
        if kind is NodeKind.MEMCPY and content.copy is not None:
            return self._copy(name, content.copy)
        if kind is NodeKind.MEMSET and content.memset is not None:
            return self._memset(name, content.memset)
        if kind is NodeKind.HOST:
            return self._streams.host_work(function)
        if kind in (NodeKind.EVENT_RECORD, NodeKind.WAIT_EVENT):
            try:
                self._state.scheduler.streams.find_event(content.event)
            except CudaError as error:
                raise invalid_value(f"{name}: {error.note}") from None
            return self._record if kind is NodeKind.EVENT_RECORD else EVENT_WAIT
        if kind is NodeKind.MEM_ALLOC and content.allocation is not None:
            return Allocate(self._state.graph_memory.known(name, content.allocation.pointer))
        if kind is NodeKind.MEM_FREE:
            return Release(self._state.graph_memory.known(name, content.pointer))
        if kind is NodeKind.EMPTY:
            return EMPTY
        if kind in (NodeKind.GRAPH, NodeKind.CONDITIONAL):
            return None
        raise invalid_value(f"{name}: a node of kind {kind.title} cannot be made of these parameters")

    def _copy(self, name: str, content: CopyContent) -> Copy:
        width, height, depth = content.extent
        (dst, dst_pitch, dst_slice), (src, src_pitch, src_slice) = content.destination, content.source
        if width <= 0 or height <= 0 or depth <= 0:
            raise invalid_value(f"{name}: a node that copies nothing ({width} x {height} x {depth})")
        if height * depth > 1 and min(dst_pitch, src_pitch) < width:
            raise invalid_value(
                f"{name}: a pitch (destination {dst_pitch}, source {src_pitch}) is less than the width {width}"
            )
        return copy_work(
            self._state,
            "cudaMemcpy",
            CopyRegion(dst, width, height, depth, dst_pitch, dst_slice),
            CopyRegion(src, width, height, depth, src_pitch, src_slice),
            content.kind,
        )

    def _memset(self, name: str, content: MemsetContent) -> Memset:
        element, width, height = content.element, content.width, content.height
        if element not in _ELEMENTS or width <= 0 or height <= 0:
            raise invalid_value(
                f"{name}: elements have 1, 2 or 4 bytes (got {element}), and there is at least one ({width} x {height})"
            )
        if height > 1 and content.pitch < width * element:
            raise invalid_value(f"{name}: the pitch {content.pitch} is less than the width {width * element} bytes")
        region = CopyRegion(content.pointer, width * element, height, 1, content.pitch)
        region, kind = placed(self._state, name, region, in_graph=True)
        if kind == "pageable":
            raise invalid_value(f"{name}: {region.address:#x} is host memory; use memset of the host")
        if region.address % element or (height > 1 and region.pitch % element):
            raise invalid_value(f"{name}: {region.address:#x} is not aligned to elements of {element} bytes")
        return memset_work(self._state, region, content.value, element, in_graph=True)
