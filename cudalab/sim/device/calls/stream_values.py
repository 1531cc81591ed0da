"""Streams that write a value to memory, and that wait for one (``cuStreamWriteValue32``, ``cuStreamWaitValue32``).

A wait keeps its stream, and no engine, until a 32- or 64-bit value in device or page-locked memory fulfils a condition.
The hardware polls. Here the value is looked at when the stream arrives at the wait, when any operation has ended, and
at every call of the host, which may have changed page-locked memory by itself. Stores of a kernel that is still running
are not seen before it ends; a learner would notice that in no other way than by the time of the end. The hazard report
does not take such a wait for an order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device import host_address
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.calls.placement import placed
from cudalab.sim.device.declaration import Address, Handle
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.queue.copy_region import Region
from cudalab.sim.device.queue.operation import Operation, Touched
from cudalab.sim.device.queue.stream import Stream
from cudalab.sim.device.queue.transfer import Memset
from cudalab.sim.device.state import DeviceState
from cudalab.sim.machine.memory.allocations import Memory

GEQ, EQ, AND, NOR = range(4)
_CONDITION, _FLUSH = 3, 1 << 30
_TEXTS = ("is at least", "equals", "shares a bit with", "lacks a bit of")
_WRITE_NS = 1000


class WriteValue(Memset):
    """One value, written in stream order without a kernel."""

    engine = "none"

    def __init__(self, stream: Stream, memory: Memory, region: Region, value: np.ndarray) -> None:
        super().__init__(stream, memory, region, value, _WRITE_NS)
        self.name = "write value"

    def run(self) -> None:
        if self.region.on_device:
            super().run()
        else:
            host_address.write(self.region.address, self._element)

    def touched(self) -> Touched:
        """Others may look at the value meanwhile, as at one that an atomic changes."""
        return Touched((), (), (self.region.extent(),))


class ValueWait(Operation):
    """Holds its stream until ``holds()``; enqueued behind an :class:`Arrival`."""

    kind = "wait"
    works_on_memory = False
    waits_for_value = True

    def __init__(self, stream: Stream, address: int, text: str, holds: Callable[[], bool]) -> None:
        super().__init__(f"wait until the value at {address:#x} {text}", stream)
        self.holds = holds
        self.arrived = False


class Arrival(Operation):
    """The stream has come to a wait for a value."""

    kind = "wait"
    works_on_memory = False

    def __init__(self, stream: Stream, arrive: Callable[[], None]) -> None:
        super().__init__("arrive at a wait for a value", stream)
        self._arrive = arrive

    def finish(self) -> None:
        self._arrive()


class StreamValueCalls(CallGroup):
    """Values in memory that streams write, or wait for."""

    def __init__(self, state: DeviceState) -> None:
        super().__init__(state)
        state.on_enter.append(self._poll)
        state.on_end.append(lambda operation: self._poll())
        state.on_fault.append(lambda dropped, error: self._value_waits.clear())

    def clear(self) -> None:
        self._value_waits: list[ValueWait] = []

    @call("cuStreamWriteValue32", "cuStreamWriteValue64", cost="memset")
    def stream_write_value(self, stream: Handle, address: Address, value: int, width: int, flags: int = 0) -> None:
        """Write ``value`` of ``width`` bytes in stream order."""
        queue = self.state.scheduler.streams.find(stream)
        if flags:
            raise invalid_value(f"cuStreamWriteValue: flags must be 0 on this device (got {flags:#x})")
        region = self._value_region(address, width, "cuStreamWriteValue")
        data = np.frombuffer((value & ((1 << 8 * width) - 1)).to_bytes(width, "little"), np.uint8)
        self.state.scheduler.enqueue(WriteValue(queue, self.state.memory, region, data))

    @call("cuStreamWaitValue32", "cuStreamWaitValue64", cost="stream_wait_event")
    def stream_wait_value(self, stream: Handle, address: Address, value: int, width: int, flags: int = 0) -> None:
        """Later work of the stream waits until the value in memory is at least
        ``value`` in the order that wraps around (0), equals it (1), has a bit of it (2), or lacks one of its bits (3).
        """
        queue = self.state.scheduler.streams.find(stream)
        if flags & ~(_CONDITION | _FLUSH):
            raise invalid_value(f"cuStreamWaitValue: flags {flags:#x} are none of CU_STREAM_WAIT_VALUE_…")
        if flags & _FLUSH:
            raise CudaError(
                cudaError_t.cudaErrorNotSupported, "cuStreamWaitValue: CU_STREAM_WAIT_VALUE_FLUSH is not supported"
            )
        region = self._value_region(address, width, "cuStreamWaitValue")
        condition = flags & _CONDITION

        def holds() -> bool:
            found = int.from_bytes(region.gather(self.state.memory).tobytes(), "little")
            return fulfilled(found, value, condition, 8 * width)

        wait = ValueWait(queue, address, f"{_TEXTS[condition]} {value}", holds)

        def arrive() -> None:
            wait.arrived = True
            self._value_waits.append(wait)

        self.state.scheduler.enqueue(Arrival(queue, arrive))
        wait.waiting = 1  # for the value; its stream's order comes on top
        self.state.scheduler.enqueue(wait)

    def _value_region(self, address: int, width: int, name: str) -> Region:
        if not address or address % width:
            raise invalid_value(f"{name}: {address:#x} is not the address of a value of {width} bytes")
        region, kind = placed(self.state, name, Region(address, width))
        if kind == "pageable":
            raise invalid_value(f"{name}: {address:#x} is pageable host memory, which the device does not reach")
        return region

    def _poll(self) -> None:
        """Let the streams go on whose value has come."""
        if not self._value_waits:
            return
        over = [wait for wait in self._value_waits if wait.holds()]
        for wait in over:
            self._value_waits.remove(wait)
            self.state.scheduler.let_go(wait)


def fulfilled(found: int, wanted: int, condition: int, bits: int) -> bool:
    """Does a value fulfil a condition of ``cuStreamWaitValue``? (CUDA Driver API, ``CUstreamWaitValue_flags``.)"""
    mask = (1 << bits) - 1
    if condition == GEQ:
        return (found - wanted) & mask < 1 << bits - 1
    if condition == EQ:
        return found == wanted & mask
    if condition == AND:
        return bool(found & wanted)
    return bool(~(found | wanted) & mask)
