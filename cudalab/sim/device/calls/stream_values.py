"""Streams that write a value to memory, and that wait for one (``cuStreamWriteValue32``, ``cuStreamWaitValue32``).

A wait keeps its stream, and no engine, until a 32- or 64-bit value in device or page-locked memory fulfils a condition.
The hardware polls. Here the value is looked at when the stream arrives at the wait, when any operation has ended, and
at every call of the host, which may have changed page-locked memory by itself. Stores of a kernel that is still running
are not seen before it ends; a learner would notice that in no other way than by the time of the end. The hazard report
does not take such a wait for an order.
"""

from __future__ import annotations

import numpy as np
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.calls.placement import placed
from cudalab.sim.device.declaration import Address, Handle
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.queue.copy_region import CopyRegion
from cudalab.sim.device.queue.operation import Operation
from cudalab.sim.device.queue.ordering import ValueArrival, ValueWait
from cudalab.sim.device.queue.transfer import ValueWrite
from cudalab.sim.device.state import DeviceState

GEQ, EQ, AND, NOR = range(4)
_CONDITION, _FLUSH = 3, 1 << 30
_TEXTS = ("is at least", "equals", "shares a bit with", "lacks a bit of")


class StreamValueCalls(CallGroup):
    """Values in memory that streams write, or wait for."""

    def __init__(self, state: DeviceState) -> None:
        super().__init__(state)
        state.on_fault.append(lambda dropped, error: self.clear())

    def clear(self) -> None:
        self._value_waits: dict[Operation, ValueWait] = {}
        """Waits that their streams have come to."""
        self._stop_polling()

    @call("cuStreamWriteValue32", "cuStreamWriteValue64", cost="memset")
    def stream_write_value(self, stream: Handle, address: Address, value: int, width: int, flags: int = 0) -> None:
        """Write ``value`` of ``width`` bytes in stream order."""
        queue = self.state.scheduler.streams.find(stream)
        if flags:
            raise invalid_value(f"cuStreamWriteValue: flags must be 0 on this device (got {flags:#x})")
        region = self._value_region(address, width, "cuStreamWriteValue")
        data = np.frombuffer((value & ((1 << 8 * width) - 1)).to_bytes(width, "little"), np.uint8)
        self.state.issue(ValueWrite(self.state.memory, region, data), queue)

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

        self.state.issue(ValueArrival(self._arrived), queue)
        self.state.issue(ValueWait(f"wait until the value at {address:#x} {_TEXTS[condition]} {value}", holds), queue)

    def _arrived(self, operation: Operation) -> None:
        """A stream has come to its wait."""
        assert isinstance(operation.work, ValueWait)
        if not self._value_waits:  # only now, because these are asked at every call and for every operation
            self.state.on_enter.append(self._poll)
            self.state.on_end.append(self._poll)
        self._value_waits[operation] = operation.work

    def _value_region(self, address: int, width: int, name: str) -> CopyRegion:
        if not address or address % width:
            raise invalid_value(f"{name}: {address:#x} is not the address of a value of {width} bytes")
        region, kind = placed(self.state, name, CopyRegion(address, width))
        if kind == "pageable":
            raise invalid_value(f"{name}: {address:#x} is pageable host memory, which the device does not reach")
        return region

    def _poll(self, ended: Operation | None = None) -> None:
        """Let the streams go on whose value has come."""
        over = [operation for operation, wait in self._value_waits.items() if wait.holds()]
        for operation in over:
            del self._value_waits[operation]
            self.state.scheduler.let_go(operation)
        if not self._value_waits:
            self._stop_polling()

    def _stop_polling(self) -> None:
        if self._poll in self.state.on_end:
            self.state.on_enter.remove(self._poll)
            self.state.on_end.remove(self._poll)


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
