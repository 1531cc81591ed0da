"""Copies, memsets and array operations: the work that moves bytes without a kernel of the learner's.

A copy takes its source at its modelled start and writes its destination at its modelled end. A copy from pageable host
memory takes its source when it is called: the driver stages such copies through memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device import host_address
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.queue.byte_extent import Extent, run
from cudalab.sim.device.queue.copy_region import Region
from cudalab.sim.device.queue.effect import hold_by_comparison
from cudalab.sim.device.queue.operation import Operation, Range, Reach, Touched
from cudalab.sim.device.queue.stream import Stream
from cudalab.sim.machine.memory import host_watch
from cudalab.sim.machine.memory.allocations import Memory


class Copy(Operation):
    """One copy. ``taken`` holds the source's bytes when they were taken before the start (pageable sources).

    ``on_take`` and ``on_deliver`` are told the bytes that come from, and go to, memory that the host can change or read
    without a call; a recording keeps them.
    """

    kind = "copy"
    on_take: Callable[[np.ndarray], np.ndarray] | None = None
    on_deliver: Callable[[np.ndarray], None] | None = None
    earliest_end = -1
    """Where the host goes on staging the source while the copy runs: when the last piece can have arrived (ns)."""
    source_here = destination_here = True
    """Is that side in this process? In a replay, host memory is not."""

    def __init__(
        self,
        name: str,
        stream: Stream,
        memory: Memory,
        source: Region,
        destination: Region,
        engine: str,
        duration: int,
        taken: np.ndarray | None = None,
    ) -> None:
        super().__init__(name, stream)
        self.engine = engine
        self._memory, self.source, self.destination = memory, source, destination
        self._duration = duration
        self._data = taken
        self._staged = taken is not None
        self.bytes = source.bytes
        if engine == "sm":
            self.device_bytes = 2 * source.bytes

    def begin(self) -> int:
        if self._data is None:
            here = self.source_here
            self._data = (
                self.source.gather(self._memory, self._watched) if here else np.zeros(self.source.bytes, np.uint8)
            )
            if self.on_take is not None:
                self._data = self.on_take(self._data)
        return max(self._duration, self.earliest_end - self.start)

    def run(self) -> None:
        assert self._data is not None
        if self.destination_here:
            try:
                self.destination.scatter(self._memory, self._data, self._watched)
            except host_address.UnmappedAddress as error:
                raise CudaError(cudaError_t.cudaErrorInvalidValue, f"{self.name}: {error}") from None
        if self.on_deliver is not None:
            self.on_deliver(self._data)
        self._data = None

    @property
    def _watched(self) -> bool:
        """Is memory of it watched for accesses of the host?"""
        return self.stamp is not None and self.stamp.visible is not None

    def writes(self) -> Reach:
        return self.destination.ranges()

    def touched(self) -> Touched:
        return Touched(() if self._staged else (self.source.extent(),), (self.destination.extent(),))

    def run_held(self) -> Callable[[], None]:
        """Its source is taken already; writing it can wait."""
        return self.run


class Memset(Operation):
    """Set every element of a region to one value."""

    kind = "memset"
    engine = "sm"

    def __init__(self, stream: Stream, memory: Memory, region: Region, element: np.ndarray, duration: int) -> None:
        super().__init__("memset", stream)
        self._memory, self.region, self._element = memory, region, element
        self._duration = duration
        self.bytes = self.device_bytes = region.bytes

    def begin(self) -> int:
        return self._duration

    def run(self) -> None:
        self.region.fill(self._memory, self._element)

    def run_held(self) -> Callable[[], None]:
        return self.run

    def writes(self) -> Reach:
        return self.region.ranges()

    def touched(self) -> Touched:
        return Touched((), (self.region.extent(),))


class ArrayOperation(Operation):
    """An array function of ``cudalab.sim.cupy``: NumPy does the work, the duration is modelled from its bytes."""

    kind = "array"
    engine = "sm"

    def __init__(
        self,
        name: str,
        stream: Stream,
        memory: Memory,
        work: Callable[[], None],
        reads: tuple[Range, ...],
        writes: tuple[Range, ...],
        duration: int,
    ) -> None:
        super().__init__(name, stream)
        self._memory, self._work = memory, work
        self._reads, self._writes = reads, writes
        self._duration = duration
        self.bytes = self.device_bytes = sum(size for _, size in reads) + sum(size for _, size in writes)
        self.on_result: Callable[[], None] | None = None
        self.exact: tuple[tuple[Extent, ...], tuple[Extent, ...]] | None = None
        """What of the ranges it really reads and writes, where they are those of strided views."""

    def replace_work(self, work: Callable[[], None]) -> None:
        """A replay writes what the recorded function wrote."""
        self._work = work

    def begin(self) -> int:
        for start, _ in self._reads:
            allocation = self._memory.find(start)
            if allocation is not None and allocation.kind in ("pinned", "managed"):
                self.starts_at_once = True
        return self._duration

    def run(self) -> None:
        self._work()
        for start, size in self._writes:
            self._memory.mark_written(start, size)

    def run_held(self) -> Callable[[], None]:
        return hold_by_comparison(self._memory, self._writes, self.run)

    def finish(self) -> None:
        if self.on_result is not None:
            self.on_result()

    def reads(self) -> Reach:
        return self._reads

    def writes(self) -> Reach:
        return self._writes

    def touched(self) -> Touched:
        if self.exact is not None:
            return Touched(*self.exact)
        return Touched(tuple(run(*entry) for entry in self._reads), tuple(run(*entry) for entry in self._writes))


class HostFunction(Operation):
    """``cudaLaunchHostFunc``: a function of the host that runs in stream order and must not call CUDA."""

    kind = "host"
    running: ClassVar[HostFunction | None] = None
    """The one that runs now, in whatever thread."""

    def __init__(self, stream: Stream, call: Callable[[], None], duration: int = 0) -> None:
        super().__init__("host function", stream)
        self._call, self._duration = call, duration
        self.on_fault: Callable[[CudaError], None] | None = None
        """What is called instead when the device is lost first."""

    def begin(self) -> int:
        return self._duration

    def run(self) -> None:
        HostFunction.running = self
        try:
            with host_watch.listening():  # the program's own code, in the midst of a call
                self._call()
        finally:
            HostFunction.running = None


class StreamFree(Operation):
    """``cudaFreeAsync``: the memory goes when the work before it in the stream has ended."""

    kind = "free"
    works_on_memory = False

    def __init__(self, stream: Stream, free: Callable[[], None], memory: Range) -> None:
        super().__init__("free", stream)
        self._free = free
        self.memory = memory

    def run(self) -> None:
        self._free()

    def touched(self) -> Touched:
        """Whoever uses the memory must be done: a free is like a write to all of it."""
        return Touched((), (run(*self.memory),))
