"""The recorder of a device: fills a log as calls are made. A replay puts its own in its place (``replay.py``).

What a device takes from the host's memory goes through the recorder, because in a replay that memory is not there. The
cost of a recording that is off is one test a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.sim.device import host_address
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.log.log import Entry, Log, plain
from cudalab.sim.device.queue.array_function import ArrayOperation
from cudalab.sim.device.queue.kernel_launch import KernelOperation
from cudalab.sim.device.queue.transfer import CopyOperation
from cudalab.sim.machine.memory.allocations import Memory

if TYPE_CHECKING:
    from cudalab.sim.device.declaration import Call
    from cudalab.sim.device.queue.copy_region import CopyRegion
    from cudalab.sim.device.queue.operation import Operation


class Recorder:
    """Fills a log."""

    replaying = False
    """Are the calls those of a log? Then nothing of the program is there: no host memory, no functions, no output."""

    def __init__(self, profile: str, capacity: int, *, on: bool = False) -> None:
        self.log = Log(profile, capacity)
        self.on = on
        self._current: Entry | None = None

    # -- calls ---------------------------------------------------------------------------------------------------------

    def open(
        self, call: Call, arguments: tuple[Any, ...], keywords: dict[str, Any], *, device: int, by_driver: bool
    ) -> Entry:
        """A call begins, in a host thread that uses the ``device``."""
        given = dict(zip(call.parameters, arguments, strict=False)) | keywords
        entry = Entry(call.name, {name: plain(v) for name, v in given.items()}, device=device, by_driver=by_driver)
        self.log.entries.append(entry)
        self._current = entry
        return entry

    def close(self, entry: Entry, result: Any, error: CudaError | None, host_ns: int) -> None:
        entry.result = plain(result)
        entry.error = int(error.code) if error is not None else 0
        entry.host_ns = host_ns
        self._current = None

    def drop(self, entry: Entry) -> None:
        """The call was interrupted: it is not part of the log."""
        self.log.entries.remove(entry)
        self._current = None

    def allocated(self, address: int, size: int) -> None:
        """A call made memory that the program knows the address of."""
        if self.on:
            self.log.allocations.append((address, size))

    # -- the host's memory ---------------------------------------------------------------------------------------------

    def check_host(self, address: int, size: int) -> None:
        """Raise ``UnmappedAddress`` when the process does not have these bytes."""
        host_address.check(address, size)

    def take_from_host(self, region: CopyRegion, memory: Memory) -> np.ndarray:
        """The bytes of pageable memory as they are now. Raises ``UnmappedAddress``."""
        data = region.gather(memory)
        self._keep(data)
        return data

    def _keep(self, data: np.ndarray) -> None:
        if self._current is not None:
            self._current.brought.append(data.tobytes())

    # -- operations ----------------------------------------------------------------------------------------------------

    def issued(self, operation: Operation, memory: Memory) -> None:
        """An operation was issued: keep the bytes that no call carries."""
        if isinstance(operation, CopyOperation):
            self.watch_copy(operation, memory)
        elif isinstance(operation, KernelOperation):
            self.watch_launch(operation, memory)
        elif isinstance(operation, ArrayOperation):
            self.watch_array(operation, memory)

    def watch_copy(self, copy: CopyOperation, memory: Memory) -> None:
        """A copy was issued."""
        log, work = self.log, copy.work
        host_visible = work.source.on_device and kind_of(memory, work.source.address) in ("pinned", "managed")

        def take(data: np.ndarray) -> np.ndarray:
            log.taken[copy.sequence] = [(work.source.address, data.tobytes())]
            return data

        def deliver(data: np.ndarray) -> None:
            log.delivered[copy.sequence] = [(work.destination.address, data.tobytes())]

        if host_visible or not work.source.on_device:
            copy.on_take = take
        if not work.destination.on_device or kind_of(memory, work.destination.address) == "pinned":
            copy.on_deliver = deliver

    def watch_launch(self, launch: KernelOperation, memory: Memory) -> None:
        """A kernel was issued."""

        def take() -> None:
            blocks = [(a, memory.view(a, size, write=False).tobytes()) for a, size in launch.host_visible()]
            if memory.ranges:
                registered = [part for part in launch.may_touch() if part in memory.ranges]
                blocks += [(a, host_address.read(a, size).tobytes()) for a, size in registered]
            if blocks:
                self.log.taken[launch.sequence] = blocks

        launch.on_take = take

    def watch_array(self, operation: ArrayOperation, memory: Memory) -> None:
        """An array function was issued."""

        def keep() -> None:
            self.log.written[operation.sequence] = [
                (start, memory.view(start, size, write=False).tobytes()) for start, size in operation.work.written
            ]

        operation.on_result = keep

    def ended(self, operation: Operation) -> None:
        """An operation ended."""
        self.log.spans.append((operation.sequence, operation.kind, operation.name, operation.start, operation.end))


def kind_of(memory: Memory, address: int) -> str:
    allocation = memory.find(address)
    return allocation.kind if allocation is not None else ""
