"""Streams and events, and the rules of the default stream.

Work in one stream runs in the order in which it was enqueued. Work in different streams may run at the same time,
except for the **legacy default stream** (handle 0, also ``cudaStreamLegacy``): an operation there waits for everything
that was enqueued before in all *blocking* streams, and later work in blocking streams waits for it. A stream made with
``cudaStreamNonBlocking`` takes no part in that. The **per-thread default stream** (``cudaStreamPerThread``) is a
blocking stream that each host thread has of its own. Each device has default streams of its own, and the rules hold
among the streams of one device.

An **event** remembers the last operation that recorded it. Waiting for an event means waiting for the record that was
the last one at the time of the call; an event that was never recorded counts as complete.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.error import CudaError
from cudalab.sim.device.queue.operation import Operation, Stream

if TYPE_CHECKING:
    from cudalab.sim.device.graphs.capture import CaptureSequence
    from cudalab.sim.device.graphs.graph import Node

LEGACY = 0
LEGACY_HANDLE = 1
PER_THREAD = 2
_FIRST_STREAM, _FIRST_EVENT, _STEP = 0x0A00_0000, 0x0B00_0000, 0x40

BLOCKING_SYNC, DISABLE_TIMING, INTERPROCESS = 1, 2, 4


class CapturedRecord(NamedTuple):
    """An event that was recorded in a capture: it stands for nodes, not for an operation."""

    capture: CaptureSequence
    nodes: tuple[Node, ...]


class Event:
    """One event; ``record`` is the operation that recorded it last."""

    def __init__(self, handle: int, flags: int, device: int = 0) -> None:
        self.handle = handle
        self.flags = flags
        self.device = device
        self.record: Operation | None = None
        self.captured: CapturedRecord | None = None
        """Its last record, if that was in a stream that captures."""

    @property
    def timing(self) -> bool:
        return not self.flags & DISABLE_TIMING

    @property
    def complete(self) -> bool:
        return self.record is None or self.record.done


class StreamTable:
    """All streams and events, by handle.

    ``here()`` is the device that the calling host thread uses, whose default streams and new streams those are that it
    asks for.
    """

    def __init__(self, devices: int, here: Callable[[], int]) -> None:
        self._here = here
        self._numbers = itertools.count(1)
        self._legacy = [Stream(LEGACY, number=next(self._numbers), device=number) for number in range(devices)]
        self._streams: dict[int, Stream] = {}
        self._per_thread: dict[tuple[int, int], Stream] = {}
        self._events: dict[int, Event] = {}
        self._orphans: list[Stream] = []
        self._next_stream = _FIRST_STREAM
        self._next_event = _FIRST_EVENT
        self.refuse_legacy: Callable[[], None] | None = None
        """Called when the legacy default stream is asked for, while streams capture that it would wait for."""

    # -- streams -------------------------------------------------------------------------------------------------------

    def create(self, flags: int, priority: int) -> Stream:
        number, device = next(self._numbers), self._here()
        stream = Stream(self._next_stream, number=number, flags=flags, priority=priority, device=device)
        self._next_stream += _STEP
        self._streams[stream.handle] = stream
        return stream

    def destroy(self, handle: int) -> None:
        """The handle is gone at once; work that is left in the stream completes."""
        stream = self.find(handle)
        if stream.handle not in self._streams:
            raise CudaError(
                cudaError_t.cudaErrorInvalidResourceHandle, "a default stream always exists and cannot be destroyed"
            )
        del self._streams[handle]
        if stream.busy and stream.blocking:
            self._orphans = [orphan for orphan in self._orphans if orphan.busy]
            self._orphans.append(stream)

    def find(self, handle: int) -> Stream:
        """The stream that ``handle`` names; ``cudaErrorInvalidResourceHandle`` when there is none."""
        stream = self._streams.get(handle)
        if stream is not None:
            return stream
        if handle in (LEGACY, LEGACY_HANDLE):
            if self.refuse_legacy is not None:
                self.refuse_legacy()
            return self._legacy[self._here()]
        if handle == PER_THREAD:
            key = threading.get_ident(), self._here()
            if key not in self._per_thread:
                self._per_thread[key] = Stream(PER_THREAD, number=next(self._numbers), device=key[1])
            return self._per_thread[key]
        raise CudaError(
            cudaError_t.cudaErrorInvalidResourceHandle,
            f"{handle:#x} is no stream of this device; it was destroyed, or made before a reset",
        )

    @property
    def several(self) -> bool:
        """Are there streams beside the legacy default stream?"""
        return bool(self._streams or self._per_thread) or len(self._legacy) > 1

    def blocking(self, device: int) -> Iterator[Stream]:
        """The blocking streams of a device, destroyed ones with work left included, but the legacy default stream."""
        for stream in (*self._streams.values(), *self._per_thread.values(), *self._orphans):
            if stream.blocking and stream.device == device:
                yield stream

    @property
    def legacy(self) -> Stream:
        """The legacy default stream of the current device."""
        return self._legacy[self._here()]

    def is_legacy(self, stream: Stream) -> bool:
        """Is it the legacy default stream of a device?"""
        return stream is self._legacy[stream.device]

    def dependencies(self, stream: Stream) -> list[tuple[Operation, str]]:
        """What the next operation of ``stream`` comes after, ended or not, and by which rule."""
        found: list[tuple[Operation, str]] = []
        if stream.last is not None:
            found.append((stream.last, "stream order"))
        legacy = self._legacy[stream.device]
        if stream is legacy:
            found += [(o.last, "default stream") for o in self.blocking(stream.device) if o.last is not None]
        elif stream.blocking and legacy.last is not None:
            found.append((legacy.last, "default stream"))
        return found

    def forget(self, device: int) -> None:
        """A device was reset: its streams and events are gone."""
        self._streams = {handle: each for handle, each in self._streams.items() if each.device != device}
        self._events = {handle: each for handle, each in self._events.items() if each.device != device}

    # -- events --------------------------------------------------------------------------------------------------------

    def create_event(self, flags: int) -> Event:
        event = Event(self._next_event, flags, self._here())
        self._next_event += _STEP
        self._events[event.handle] = event
        return event

    def destroy_event(self, handle: int) -> None:
        del self._events[self.find_event(handle).handle]

    def find_event(self, handle: int) -> Event:
        event = self._events.get(handle)
        if event is None:
            raise CudaError(
                cudaError_t.cudaErrorInvalidResourceHandle,
                f"{handle:#x} is no event of this device; it was destroyed, or made before a reset",
            )
        return event
