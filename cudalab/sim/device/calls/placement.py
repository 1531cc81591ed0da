"""Which memory a region of a copy lies in: device, page-locked or pageable."""

from __future__ import annotations

from cudalab.sim.device import host_address
from cudalab.sim.device.error import invalid_value
from cudalab.sim.device.queue.copy_region import CopyRegion
from cudalab.sim.device.state import DeviceState
from cudalab.sim.machine.memory.allocation import InvalidPointer
from cudalab.sim.machine.memory.allocations import Memory


def placed(state: DeviceState, name: str, region: CopyRegion, *, in_graph: bool = False) -> tuple[CopyRegion, str]:
    """The region with its place, and that as ``device``, ``pinned`` (page-locked) or ``pageable``. Raises
    ``cudaErrorInvalidValue`` when the bytes are not all in one allocation. A node of a graph may name memory that an
    allocation node has still to allocate."""
    address, span = region.address, region.span
    allocation = state.memory.find(address)
    if allocation is None and in_graph:
        allocation = state.memory.reserved_at(address)
    if allocation is not None and allocation.kind == "heap" and not name.startswith("cudaMemset"):
        raise invalid_value(
            f"{name}: {address:#x} is memory that a kernel allocated ({allocation.label}); the host can neither "
            "copy nor free it: let a kernel copy it into an array"
        )
    if allocation is not None and address + span <= allocation.end:
        region.on_device = True
        return region, "pinned" if allocation.kind == "pinned" else "device"
    arena = state.memory.arena
    if allocation is not None or arena.base <= address < arena.base + arena.size:
        try:
            state.memory.view(address, span, write=False)
        except InvalidPointer as error:
            raise invalid_value(f"{name}: {error}") from None
    if not address:
        raise invalid_value(f"{name}: a null pointer")
    registered = any(base <= address and address + span <= base + size for base, size in state.memory.ranges)
    if not registered:
        try:
            state.recorder.check_host(address, span)
        except host_address.UnmappedAddress as error:
            raise invalid_value(f"{name}: {error}") from None
    return region, "pinned" if registered else "pageable"


def is_managed(memory: Memory, region: CopyRegion) -> bool:
    allocation = memory.find(region.address)
    return allocation is not None and allocation.kind == "managed"
