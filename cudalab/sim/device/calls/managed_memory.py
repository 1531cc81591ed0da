"""Managed memory: prefetching, advice, what a range was advised, and attachment to streams.

On a GPU the pages of managed memory move to whoever touches them, and advice and prefetches spare the faults
(CUDA C++ Programming Guide, "Unified Memory"). Here host and device reach the same bytes at all times. So a prefetch
takes the time that its pages need on the bus, in its stream, advice is kept and given back, and neither changes what
a kernel reads. A learner would notice that a kernel on managed memory is not slower without a prefetch.

Codes are those of an H200 (driver 580), which lets host and device use managed memory at the same time.
"""

from __future__ import annotations

import numpy as np
from cuda.bindings.runtime import cudaMemLocationType, cudaMemoryAdvise, cudaMemRangeAttribute
from msgspec import Struct

from cudalab.sim.device.calls.allocator import Allocator
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import Address, Handle
from cudalab.sim.device.error import invalid_value
from cudalab.sim.device.queue.transfer import Prefetch
from cudalab.sim.device.state import DeviceState
from cudalab.sim.device.timing import transfers
from cudalab.sim.machine.memory.allocation import Allocation

HOST, NOWHERE = -1, -2
"""``cudaCpuDeviceId`` and ``cudaInvalidDeviceId``."""
_PAGE = 4096
_ON_DEVICE = int(cudaMemLocationType.cudaMemLocationTypeDevice)
_ON_HOST = frozenset(
    int(kind)
    for kind in (
        cudaMemLocationType.cudaMemLocationTypeHost,
        cudaMemLocationType.cudaMemLocationTypeHostNuma,
        cudaMemLocationType.cudaMemLocationTypeHostNumaCurrent,
    )
)
_ATTACH = (1, 2, 4)
_SINGLE = 4
_ASKED = cudaMemRangeAttribute


class Advice(Struct):
    """What each page of one allocation was advised, and where it was prefetched to last."""

    read_mostly: np.ndarray
    preferred: np.ndarray
    prefetched: np.ndarray
    by_device: np.ndarray
    by_host: np.ndarray

    @staticmethod
    def none(size: int) -> Advice:
        pages = -(-size // _PAGE)
        nowhere = np.full(pages, NOWHERE, np.int32)
        off = np.zeros(pages, bool)
        return Advice(off, nowhere, nowhere.copy(), off.copy(), off.copy())


class ManagedCalls(CallGroup):
    """Prefetches, advice and attachment of managed memory."""

    def __init__(self, state: DeviceState, allocator: Allocator) -> None:
        super().__init__(state)
        allocator.on_release.append(self._forget)

    def _forget(self, pointer: int) -> None:
        self._advice.pop(pointer, None)

    def clear(self) -> None:
        self._advice: dict[int, Advice] = {}

    @call("cudaMemPrefetchAsync", "cuMemPrefetchAsync", cost="memcpy_async")
    def prefetch(
        self, pointer: Address, size: int, location_type: int, location: int, flags: int = 0, stream: Handle = 0
    ) -> None:
        """Move the pages to the device or to the host, in stream order."""
        queue = self.state.scheduler.streams.find(stream)
        advice, pages = self._managed_pages("cudaMemPrefetchAsync", pointer, size)
        if flags:
            raise invalid_value(f"cudaMemPrefetchAsync: flags must be 0 (got {flags})")
        if location_type == _ON_DEVICE:
            _ = self.state.contexts[location]
        place = self._place(location_type, location)
        moved = int((advice.prefetched[pages] != place).sum()) * _PAGE
        advice.prefetched[pages] = place
        engine = "d2h" if place == HOST else "h2d"
        duration = transfers.bus_copy(self.state.profile, moved, engine) if moved else 0
        self.state.issue(Prefetch(engine if moved else "none", moved, duration), queue)

    @call("cudaMemAdvise", "cuMemAdvise")
    def advise(self, pointer: Address, size: int, advice: int, location_type: int, location: int) -> None:
        """Give advice, a ``cudaMemoryAdvise`` number, for a range of pages."""
        table, pages = self._managed_pages("cudaMemAdvise", pointer, size)
        try:
            name = cudaMemoryAdvise(advice).name.removeprefix("cudaMemAdvise")
        except ValueError:
            raise invalid_value(f"{advice} is no cudaMemoryAdvise") from None
        on = name.startswith("Set")
        if name.endswith("ReadMostly"):
            table.read_mostly[pages] = on
        elif name == "UnsetPreferredLocation":
            table.preferred[pages] = NOWHERE
        else:
            place = self._place(location_type, location)
            if name == "SetPreferredLocation":
                table.preferred[pages] = place
            else:
                (table.by_host if place == HOST else table.by_device)[pages] = on

    @call("cudaMemRangeGetAttribute", "cuMemRangeGetAttribute")
    def range_attribute(self, attribute: int, pointer: Address, size: int, places: int = 1) -> list[int]:
        """One number, or for *AccessedBy* ``places`` device numbers. A number that all
        pages of the range have in common; 0 or ``cudaInvalidDeviceId`` (-2) where they differ."""
        table, pages = self._managed_pages("cudaMemRangeGetAttribute", pointer, size)
        if attribute == _ASKED.cudaMemRangeAttributeReadMostly:
            return [int(table.read_mostly[pages].all())]
        if attribute == _ASKED.cudaMemRangeAttributeAccessedBy:
            found = [0] * bool(table.by_device[pages].all()) + [HOST] * bool(table.by_host[pages].all())
            return (found + [NOWHERE] * places)[:places]
        name = next((name for name, value in _ASKED.__members__.items() if value == attribute), "")
        short = name.removeprefix("cudaMemRangeAttribute")
        if short.startswith(("PreferredLocation", "LastPrefetchLocation")):
            of = (table.preferred if short.startswith("Preferred") else table.prefetched)[pages]
            common = int(of[0]) if (of == of[0]).all() else NOWHERE
            if short.endswith("Type"):
                return [_ON_DEVICE if common >= 0 else min(_ON_HOST) if common == HOST else 0]
            return [max(common, 0) if short.endswith("Id") else common]
        raise invalid_value(f"{attribute} is no attribute of a range of memory")

    @call("cudaStreamAttachMemAsync", "cuStreamAttachMemAsync", cost="stream_wait_event")
    def attach(self, stream: Handle, pointer: Address, size: int = 0, flags: int = _SINGLE) -> None:
        """Which streams use an allocation. Devices of today let host and device use
        managed memory at the same time, so nothing depends on it."""
        queue = self.state.scheduler.streams.find(stream)
        allocation = self._managed("cudaStreamAttachMemAsync", pointer)
        if flags not in _ATTACH:
            raise invalid_value(
                f"cudaStreamAttachMemAsync: flags must be cudaMemAttachGlobal (1), Host (2) or Single (4), got {flags}"
            )
        if pointer != allocation.pointer or size not in (0, allocation.size):
            raise invalid_value(
                "cudaStreamAttachMemAsync attaches whole allocations: pass what cudaMallocManaged returned "
                f"and the length 0 (got an address {pointer - allocation.pointer} bytes into it, length {size})"
            )
        if flags == _SINGLE and self.state.scheduler.streams.is_legacy(queue):
            raise invalid_value("cudaStreamAttachMemAsync: memory cannot be attached to the null stream alone")

    def _managed(self, name: str, pointer: int) -> Allocation:
        allocation = self.state.memory.find(pointer)
        if allocation is None or allocation.kind != "managed":
            raise invalid_value(f"{name}: {pointer:#x} is no managed memory; cudaMallocManaged allocates it")
        return allocation

    def _managed_pages(self, name: str, pointer: int, size: int) -> tuple[Advice, slice]:
        allocation = self._managed(name, pointer)
        if size <= 0 or pointer + size > allocation.end:
            raise invalid_value(f"{name}: {size} bytes from {pointer:#x} on are not all in the {allocation.describe()}")
        advice = self._advice.get(allocation.pointer)
        if advice is None or advice.preferred.size != -(-allocation.size // _PAGE):
            advice = self._advice[allocation.pointer] = Advice.none(allocation.size)
        first = pointer - allocation.pointer
        return advice, slice(first // _PAGE, (first + size - 1) // _PAGE + 1)

    def _place(self, location_type: int, location: int) -> int:
        if location_type == _ON_DEVICE and 0 <= location < self.state.profile.devices:
            return location
        if location_type in _ON_HOST:
            return HOST
        raise invalid_value(f"no such place: location type {location_type}, number {location}")
