"""Streams, events and host functions as runtime calls."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import Handle, HostCallback, InCapture, StatusCallback, Waits
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.graphs.capture import CaptureSequence
from cudalab.sim.device.graphs.content import Content, NodeKind
from cudalab.sim.device.queue.host_function import HostFunction, endless, ignored
from cudalab.sim.device.queue.operation import NON_BLOCKING, Operation, Stream
from cudalab.sim.device.queue.ordering import EventRecord
from cudalab.sim.device.queue.scheduler import EVENT_WAIT
from cudalab.sim.device.queue.stream import DISABLE_TIMING, INTERPROCESS, CapturedRecord, Event
from cudalab.sim.device.state import DeviceState

_SUCCESS = 0
_UNSAFE = InCapture.UNSAFE


class StreamCalls(CallGroup):
    """Streams, events and host functions."""

    def __init__(self, state: DeviceState) -> None:
        super().__init__(state)
        duration = round(state.profile.device["event_record"])
        self._record, self._record_untimed = EventRecord(duration), EventRecord(duration, timing=False)
        state.on_fault.append(self._tell_callbacks)

    # -- streams -------------------------------------------------------------------------------------------------------

    @call("cudaStreamCreateWithPriority", "cuStreamCreateWithPriority", cost="stream_create")
    def stream_create(self, flags: int = 0, priority: int = 0) -> Handle:
        """Create a stream: a handle. ``flags`` 1 is non-blocking; the priority is clamped."""
        if flags not in (0, NON_BLOCKING):
            raise invalid_value(f"stream flags must be cudaStreamDefault (0) or cudaStreamNonBlocking (1), got {flags}")
        least, greatest = self.state.profile.priorities["least"], self.state.profile.priorities["greatest"]
        return self.state.scheduler.streams.create(flags, min(max(priority, greatest), least)).handle

    @call("cudaStreamDestroy", "cuStreamDestroy", cost="stream_destroy")
    def stream_destroy(self, stream: Handle) -> None:
        """Destroy a stream. Returns at once; work in the stream completes. A capture that began in it is over."""
        capture = self.state.scheduler.streams.find(stream).capture
        self.state.scheduler.streams.destroy(stream)
        if capture is not None and capture.origin.handle == stream:
            self.state.captures.end(capture)
            self.state.captures_changed()

    @call("cudaStreamSynchronize", "cuStreamSynchronize", cost="synchronize", waits=Waits.STREAM, in_capture=_UNSAFE)
    def stream_synchronize(self, stream: Handle = 0) -> None:
        """Wait until everything in the stream has ended. The legacy default stream counts as
        busy while any blocking stream is, for whatever comes next there would wait (seen on an H200)."""
        queue = self.state.scheduler.streams.find(stream)
        self.state.captures.refuse_stream(queue, "cudaStreamSynchronize")
        if not self.state.scheduler.streams.is_legacy(queue):
            self.state.wait(queue.last)
        else:
            for operation, _ in self.state.scheduler.streams.dependencies(queue):
                self.state.wait(operation)
        self.state.scheduler.host_saw_stream(queue)

    @call("cudaStreamQuery", "cuStreamQuery", cost="stream_query", in_capture=_UNSAFE)
    def stream_query(self, stream: Handle = 0) -> bool:
        """Has everything in the stream ended?"""
        queue = self.state.scheduler.streams.find(stream)
        self.state.captures.refuse_stream(queue, "cudaStreamQuery")
        if self.state.scheduler.implicit is not None:
            self.state.scheduler.implicit.queried(queue)
        last = [queue.last] if queue.last is not None else []
        if self.state.scheduler.streams.is_legacy(queue):
            last = [operation for operation, _ in self.state.scheduler.streams.dependencies(queue)]
        if not all(operation.done for operation in last):
            return False
        for operation in last:
            self.state.scheduler.host_saw(operation)
        self.state.scheduler.host_saw_stream(queue)
        return True

    @call("cudaStreamWaitEvent", "cuStreamWaitEvent", cost="stream_wait_event", orders_streams=True)
    def stream_wait_event(self, stream: Handle, event: Handle, flags: int = 0) -> None:
        """Later work of the stream waits for the event's last record so far."""
        queue = self.state.scheduler.streams.find(stream)
        found = self.state.scheduler.streams.find_event(event)
        if queue.capture is not None or found.captured is not None:
            return self._wait_in_capture(queue, found, flags)
        self._check_flags("cudaStreamWaitEvent", "cudaEventWaitExternal", flags)
        if found.record is not None:
            self.state.scheduler.order(queue, found.record)
        return None

    def _wait_in_capture(self, queue: Stream, event: Event, flags: int) -> None:
        """A capturing stream waits, or a stream waits for what was recorded in one, which takes it into the capture."""
        name, capture = "cudaStreamWaitEvent", queue.capture
        if flags & ~1:
            raise invalid_value(f"{name}: flags must be 0, or cudaEventWaitExternal (1) in a capture; got {flags}")
        if capture is not None:
            capture.check(name)
        if flags == 1:
            if capture is None:
                self._check_flags(name, "cudaEventWaitExternal", flags)
            return self.state.captures.add(queue, Content(NodeKind.WAIT_EVENT, event=event.handle), EVENT_WAIT)
        recorded = event.captured
        if recorded is None and event.record is None:
            return None  # it was never recorded, and counts as complete
        if recorded is None:
            assert capture is not None
            raise capture.refuse(
                name,
                cudaError_t.cudaErrorStreamCaptureIsolation,
                "the event was not recorded in this capture, so the graph would depend on work outside it. Record the "
                "event in a stream of the capture, or wait with cudaEventWaitExternal, which makes a node of the wait",
            )
        if not recorded.capture.active:
            raise invalid_value(
                f"{name}: the event was last recorded in a capture that has ended. Record it behind the graph's launch"
            )
        recorded.capture.check(name)
        if self.state.scheduler.streams.is_legacy(queue):
            raise self.state.captures.refuse_wait_of_legacy(recorded.capture, name)
        if capture is not None and capture is not recorded.capture:
            capture.refuse(name, cudaError_t.cudaErrorStreamCaptureMerge, "")
            raise recorded.capture.refuse(
                name,
                cudaError_t.cudaErrorStreamCaptureMerge,
                "the stream and the event belong to two captures, and two graphs cannot be merged. Capture both from "
                "one stream, or make one a child graph of the other",
            )
        recorded.capture.join(queue, recorded.nodes)
        for observer in self.state.observers:
            observer.captured_order()
        self.state.captures_changed()
        return None

    @call("cudaStreamGetFlags", "cuStreamGetFlags", in_capture=_UNSAFE)
    def stream_get_flags(self, stream: Handle) -> int:
        """The flags that the stream was created with."""
        return self.state.scheduler.streams.find(stream).flags

    @call("cudaStreamGetPriority", "cuStreamGetPriority")
    def stream_get_priority(self, stream: Handle) -> int:
        """The priority of the stream's later work."""
        return self.state.scheduler.streams.find(stream).priority

    @call("cudaStreamGetId", "cuStreamGetId", in_capture=_UNSAFE)
    def stream_get_id(self, stream: Handle) -> int:
        """A number that no other stream of the process has."""
        return self.state.scheduler.streams.find(stream).number

    @call("cudaStreamGetDevice", "cuStreamGetDevice", "cuStreamGetCtx")
    def stream_get_device(self, stream: Handle) -> int:
        """The number of the device that the stream's work runs on."""
        return self.state.scheduler.streams.find(stream).device

    @call("cudaDeviceGetStreamPriorityRange", "cuCtxGetStreamPriorityRange")
    def stream_priority_range(self) -> tuple[int, int]:
        """``(least, greatest)``; a lower number is a higher priority."""
        return self.state.profile.priorities["least"], self.state.profile.priorities["greatest"]

    def _check_flags(self, name: str, external: str, flags: int) -> None:
        if flags == 1:
            raise CudaError(cudaError_t.cudaErrorIllegalState, f"{name}: {external} is for streams that are capturing")
        if flags:
            raise invalid_value(f"{name}: flags must be 0, or {external} (1) in a capture; got {flags}")

    # -- host functions ------------------------------------------------------------------------------------------------

    def _notice(self) -> int:
        """ns until the driver's thread has heard that a host function is due, has called it, and the stream goes on."""
        return round(self.state.profile.device["host_function_notice"])

    @call("cudaLaunchHostFunc", "cuLaunchHostFunc", cost="host_function")
    def launch_host_function(self, function: HostCallback, stream: Handle = 0) -> None:
        """``function()`` runs in another host thread when the work before it in the stream has
        ended; later work waits for it. It must not call CUDA. An exception that it raises is shown and goes no
        further; one that does not return is left behind at the time limit. After a fault it is not called."""
        queue = self.state.scheduler.streams.find(stream)
        work = self.host_work(function)
        if queue.capture is not None:
            return self.state.captures.add(queue, Content(NodeKind.HOST), work)
        self.state.issue(work, queue)
        return None

    def host_work(self, function: Callable[[], None] | None) -> HostFunction:
        """A function of the program as work; ``None`` in a replay, which calls none."""

        def call() -> None:
            if function is not None:
                self._call_host(function)

        return HostFunction(call, self._notice())

    @call("cudaStreamAddCallback", "cuStreamAddCallback", cost="host_function")
    def add_callback(self, function: StatusCallback, stream: Handle = 0) -> None:
        """The older form. ``function(status)`` is given 0, or the number of the error that
        ended all work: it is called in that case, too."""
        queue = self.state.scheduler.streams.find(stream)

        def tell(status: int) -> None:
            self._call_host(functools.wraps(function)(lambda: function(status)))

        callback = HostFunction(lambda: tell(_SUCCESS), self._notice(), on_fault=lambda error: tell(int(error.code)))
        self.state.issue(callback, queue)

    def _call_host(self, function: Callable[[], None]) -> None:
        """Call a function of the program in the thread of host functions. What it raises CUDA never learns: it is
        shown, and the stream goes on (seen on an H200)."""
        if self.state.recorder.replaying:
            return
        limit = self.state.time_limit
        try:
            error = self.state.host_thread.run(function, limit)
        except TimeoutError:
            raise CudaError(cudaError_t.cudaErrorTimeout, endless(function, limit)) from None
        if error is not None:
            print(ignored(function, error), file=sys.stderr)
            for observer in self.state.observers:
                observer.host_function_raised(error)

    def _tell_callbacks(self, dropped: list[Operation], error: CudaError) -> None:
        """Callbacks, unlike host functions, hear of a fault."""
        for operation in dropped:
            work = operation.work
            if isinstance(work, HostFunction) and work.on_fault is not None:
                work.on_fault(error)

    # -- events --------------------------------------------------------------------------------------------------------

    @call("cudaEventCreateWithFlags", "cuEventCreate", cost="event_create")
    def event_create(self, flags: int = 0) -> Handle:
        """Create an event: a handle. Flags: 1 blocking sync, 2 no timing, 4 inter-process (needs 2)."""
        if flags & ~7 or (flags & INTERPROCESS and not flags & DISABLE_TIMING):
            raise invalid_value(
                f"event flags {flags}: allowed are cudaEventBlockingSync (1), cudaEventDisableTiming (2), and "
                "cudaEventInterprocess (4) together with cudaEventDisableTiming"
            )
        return self.state.scheduler.streams.create_event(flags).handle

    @call("cudaEventDestroy", "cuEventDestroy", cost="event_destroy")
    def event_destroy(self, event: Handle) -> None:
        """Destroy an event; its last record still completes."""
        self.state.scheduler.streams.destroy_event(event)

    @call("cudaEventRecord", "cuEventRecord", cost="event_record")
    def event_record(self, event: Handle, stream: Handle = 0, flags: int = 0) -> None:
        """The event is complete when the work that is in the stream now has ended."""
        queue = self.state.scheduler.streams.find(stream)
        target = self.state.scheduler.streams.find_event(event)
        if queue.capture is not None:
            return self._record_in_capture(queue, queue.capture, target, flags)
        if target.device != queue.device:
            raise CudaError(
                cudaError_t.cudaErrorInvalidResourceHandle,
                f"cudaEventRecord: the event was made on device {target.device}, and the stream on device "
                f"{queue.device}: record it in a stream of its own device. Any stream may wait for it",
            )
        self._check_flags("cudaEventRecordWithFlags", "cudaEventRecordExternal", flags)
        work = self._record if target.timing else self._record_untimed
        target.record, target.captured = self.state.issue(work, queue), None
        return None

    def _record_in_capture(self, queue: Stream, capture: CaptureSequence, event: Event, flags: int) -> None:
        """The event stands for a place in the graph; with ``cudaEventRecordExternal`` the record is a node."""
        name = "cudaEventRecord"
        capture.check(name)
        if flags == 1:
            return self.state.captures.add(queue, Content(NodeKind.EVENT_RECORD, event=event.handle), self._record)
        if flags:
            raise invalid_value(f"{name}: flags must be 0, or cudaEventRecordExternal (1) in a capture; got {flags}")
        event.captured = CapturedRecord(capture, tuple(capture.ends[queue]))
        return None

    @call("cudaEventQuery", "cuEventQuery", cost="event_query", in_capture=_UNSAFE)
    def event_query(self, event: Handle) -> bool:
        """Is the event complete? One that was never recorded is. The question takes longer while the device works."""
        if not self.state.scheduler.idle:
            self.state.spend(self.state.profile.host["event_query_busy"])
        target = self.state.scheduler.streams.find_event(event)
        self.state.captures.refuse_event(target, "cudaEventQuery")
        if target.record is not None and target.record.done:
            self.state.scheduler.host_saw(target.record)
        return target.complete

    @call("cudaEventSynchronize", "cuEventSynchronize", cost="synchronize", waits=Waits.EVENT, in_capture=_UNSAFE)
    def event_synchronize(self, event: Handle) -> None:
        """Wait until the event is complete."""
        target = self.state.scheduler.streams.find_event(event)
        self.state.captures.refuse_event(target, "cudaEventSynchronize")
        self.state.wait(target.record)

    @call("cudaEventElapsedTime", "cuEventElapsedTime", cost="event_elapsed")
    def event_elapsed(self, start: Handle, end: Handle) -> float:
        """Milliseconds between two recorded events, in steps of 32 ns."""
        events = [self.state.scheduler.streams.find_event(event) for event in (start, end)]
        for event in events:
            self.state.captures.refuse_event(event, "cudaEventElapsedTime", invalidates=False)
        if any(event.record is None or not event.timing for event in events):
            raise CudaError(
                cudaError_t.cudaErrorInvalidResourceHandle,
                "both events must have been recorded, and made without cudaEventDisableTiming",
            )
        if events[0].device != events[1].device:
            raise CudaError(
                cudaError_t.cudaErrorInvalidResourceHandle,
                "cudaEventElapsedTime: the events are of two devices, whose clocks have nothing in common",
            )
        if not all(event.complete for event in events):
            raise CudaError(
                cudaError_t.cudaErrorNotReady, "an event is not complete yet: synchronise with the later one first"
            )
        return (self._stamp(events[1]) - self._stamp(events[0])) / 1e6

    def _stamp(self, event: Event) -> int:
        step = round(self.state.profile.device["event_resolution"])
        assert event.record is not None
        return event.record.end // step * step
