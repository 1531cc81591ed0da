"""Copies, memsets, prefetches and written values: work that moves bytes without a kernel.

A copy takes its source at its modelled start and writes its destination at its modelled end. A copy from pageable host
memory takes its source when it is called: the driver stages such copies through memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings.runtime import cudaError_t
from msgspec import Struct, field

from cudalab.sim.device import host_address
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.queue.byte_ranges import NOTHING, Range, Reach, Touched
from cudalab.sim.device.queue.copy_region import CopyRegion
from cudalab.sim.device.queue.operation import Operation, Work
from cudalab.sim.device.timing.l2_cache import L2Cache
from cudalab.sim.machine.memory.allocations import Memory


class CopyOperation(Operation):
    """One run of a copy.

    ``on_take`` and ``on_deliver`` are told the bytes that come from, and go to, memory that the host can change or read
    without a call; a recording keeps them.
    """

    work: Copy
    on_take: Callable[[np.ndarray], np.ndarray] | None = None
    on_deliver: Callable[[np.ndarray], None] | None = None
    source_here = destination_here = True
    """Is that side in this process? In a replay, host memory is not."""
    _data: np.ndarray | None = None

    def stage(self, data: np.ndarray) -> None:
        """The driver has taken the bytes of the source."""
        self._data = data

    def begin(self) -> int:
        work = self.work
        if self._data is None:
            source = work.source
            if self.source_here:
                data = source.gather(work.memory, self._is_watched(source))
            else:
                data = np.zeros(source.bytes, np.uint8)
            self._data = data if self.on_take is None else self.on_take(data)
        if work.staging:
            return max(work.duration, self.enqueued + work.staging - self.start)
        return work.duration

    def run(self) -> None:
        data, work = self._data, self.work
        assert data is not None
        if self.destination_here:
            try:
                work.destination.scatter(work.memory, data, self._is_watched(work.destination))
            except host_address.UnmappedAddress as error:
                raise CudaError(cudaError_t.cudaErrorInvalidValue, f"{work.name}: {error}") from None
        if self.on_deliver is not None:
            self.on_deliver(data)
        self._data = None

    def run_held(self) -> Callable[[], None]:
        """Its source is taken already; writing it can wait."""
        return self.run

    def _is_watched(self, region: CopyRegion) -> bool:
        """Is this side of the copy watched for accesses of the host?"""
        if self.stamp is not None:
            for start, end, _ in self.stamp.visible or ():
                if start <= region.address < end:
                    return True
        return False


class Copy(Work[CopyOperation], Struct, eq=False):
    """One copy from ``source`` to ``destination``."""

    kind = "copy"
    is_reissued = True
    operation_class = CopyOperation

    name: str
    memory: Memory
    source: CopyRegion
    destination: CopyRegion
    engine: str = field()
    duration: int
    staged: bool = False
    """Are the source's bytes taken at the call (:meth:`CopyOperation.stage`)?"""
    staging: int = 0
    """Where the host goes on staging the source while the copy runs: ns from the call until the last piece can have
    arrived."""
    short: bool = False
    reach: tuple[Range, ...] = ()
    """What it writes, and"""
    bytes_touched: Touched = NOTHING
    """the very bytes that it reads and writes: both follow from the rest."""
    placement: Any = None

    def __post_init__(self) -> None:
        self.reach = self.destination.ranges()
        source = () if self.staged else (self.source.strided_range(),)
        self.bytes_touched = Touched(source, (self.destination.strided_range(),))

    @property
    def comes_with_commands(self) -> bool:
        return self.short

    @property
    def bytes(self) -> int:
        return self.source.bytes

    @property
    def device_bytes(self) -> int:
        return 2 * self.source.bytes if self.engine == "sm" else 0

    def pass_l2(self, l2: L2Cache) -> None:
        if self.engine == "sm":
            l2.sweep(self.source.ranges(), self.reach)
        elif self.engine == "h2d":
            l2.drop(self.reach)

    @property
    def separator(self) -> str:
        return "device copy" if self.engine == "sm" else ""

    def writes(self) -> Reach:
        return self.reach

    def touched(self) -> Touched:
        return self.bytes_touched


class _Write(Work[Operation], Struct, frozen=True, eq=False):
    """Values that come with the command go to a region."""

    kind = "memset"

    memory: Memory
    region: CopyRegion
    value: np.ndarray

    separator = "memset"

    @property
    def bytes(self) -> int:
        return self.region.bytes

    @property
    def device_bytes(self) -> int:
        return self.region.bytes

    def run_held(self, operation: Operation) -> Callable[[], None]:
        return operation.run

    def writes(self) -> Reach:
        return self.region.ranges()


class Memset(_Write, frozen=True, eq=False):
    """Set every element of a region to one value."""

    engine = "sm"
    name = "memset"

    duration: int

    def pass_l2(self, l2: L2Cache) -> None:
        l2.sweep((), self.region.ranges())

    def begin(self, operation: Operation) -> int:
        return self.duration

    def run(self, operation: Operation) -> None:
        self.region.fill(self.memory, self.value)

    def touched(self) -> Touched:
        return Touched((), (self.region.strided_range(),))


_WRITE_NS = 1000


class ValueWrite(_Write, frozen=True, eq=False):
    """``cuStreamWriteValue32``: one value, written in stream order without a kernel."""

    name = "write value"

    def begin(self, operation: Operation) -> int:
        return _WRITE_NS

    def run(self, operation: Operation) -> None:
        if self.region.on_device:
            self.region.fill(self.memory, self.value)
        else:
            host_address.write(self.region.address, self.value)

    def touched(self) -> Touched:
        """Others may look at the value meanwhile, as at one that an atomic changes."""
        return Touched((), (), (self.region.strided_range(),))


class Prefetch(Work[Operation], Struct, frozen=True, eq=False):
    """``cudaMemPrefetchAsync``: pages of managed memory move over the bus."""

    kind = "prefetch"
    name = "prefetch"

    engine: str = field()
    bytes: int = field()
    duration: int

    def begin(self, operation: Operation) -> int:
        return self.duration
