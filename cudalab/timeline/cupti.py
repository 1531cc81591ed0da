"""Spans from a GPU: CUPTI's activity records, by way of ``cupti-python``.

CUPTI writes a record for each kernel, copy and memset with the device's own times, for each call of the runtime and the
driver API, and for each event that is recorded or waited for. Records come in buffers that it hands over when they are
full or when it is asked to; so the last of them come when the timeline is looked at, behind the end of the work.

Each call of the host takes a little longer while a trace is open. Times on the device are hardly touched, gaps between
short kernels may be. When recording is switched on, the first copy and the first kernel take up to 2 ms longer (seen on
an H200), so a few of our own go first, in a stream of their own.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import CodeType, FrameType
from typing import Any

from cudalab import backend, host_clock
from cudalab.sim.device.caller import Place
from cudalab.timeline import naming
from cudalab.timeline.lines import LineLog
from cudalab.timeline.measured import Measured
from cudalab.timeline.records import Activity, ApiCall, Line, Recorded, Records, Synchronised
from cudalab.timeline.spans import COPY, KERNEL, MEMSET, Span

_KINDS = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "DRIVER", "SYNCHRONIZATION", "CUDA_EVENT")
_BUFFER = 4 << 20  # bytes
_WARM_BYTES = 4096
_NOTHING = b".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n\0"


class TraceError(RuntimeError):
    """Nothing can be recorded on this GPU; the message says why and what to do."""


def load() -> Any:
    """The module ``cupti.cupti``. Raises ``TraceError`` where it is not there."""
    try:
        return import_module("cupti.cupti")
    except ImportError as error:
        raise TraceError(
            f"trace: on a GPU the timeline comes from CUPTI, through the package cupti-python, which cannot be used "
            f"here ({error}). Install it with `pip install cupti-python`, or `pip install 'cudalab[cuda13]'` in the "
            "course's folder, and restart the kernel; there it is for Linux, CUDA 13 and Python up to 3.13. The "
            "simulated device needs nothing: choose the kernel 'CUDA: simulated H200', or set CUDALAB_DEVICE=sim."
        ) from error


class Collector:
    """CUPTI in this process. It records while at least one trace is open, and keeps records until no trace needs
    them."""

    def __init__(self) -> None:
        self.cupti = load()
        self._lock = threading.RLock()
        self._open = 0
        self._warm_up = _WarmUp()
        self.lines = LineLog()
        self._names: dict[tuple[int, int], str] = {}
        self.calls: list[ApiCall] = []
        self.work: list[Activity] = []
        self.recorded: list[Recorded] = []
        self.synchronised: list[Synchronised] = []
        self._makers = self._record_makers()
        self.cupti.activity_register_callbacks(lambda: (_BUFFER, 0), self._completed)

    # -- on and off ----------------------------------------------------------------------------------------------------

    def open(self, frame: FrameType | None) -> None:
        """Record from now on; ``frame`` is the learner's."""
        with self._lock:
            self._open += 1
            if self._open > 1:
                return
            cupti = self.cupti
            try:
                for kind in _KINDS:
                    cupti.activity_enable(cupti.ActivityKind[kind])
                cupti.activity_enable_cuda_event_device_timestamps(1)
                cupti.activity_enable_all_sync_records(1)
            except cupti.cuptiError as error:
                self._open = 0
                self._stop()
                raise TraceError(
                    f"trace: CUPTI cannot record on this GPU ({error}). Only one profiler can record at a time: end "
                    "the other one (Nsight Systems, Nsight Compute, a library's own), and restart the kernel."
                ) from error
            self._warm_up.run()
            self.lines.start(frame)

    def close(self) -> None:
        with self._lock:
            self._open -= 1
            if not self._open:
                self._stop()

    def _stop(self) -> None:
        self.lines.stop()
        for kind in _KINDS:
            self.cupti.activity_disable(self.cupti.ActivityKind[kind])

    @property
    def thread(self) -> int:
        """The thread whose lines are known, as CUPTI numbers it: the lower half of what Python says."""
        return self.lines.thread & 0xFFFFFFFF

    def flush(self) -> None:
        """Have all records of what has ended handed over."""
        self.cupti.activity_flush_all(1)

    def forget(self) -> None:
        """No trace needs the records any longer."""
        with self._lock:
            if not self._open:
                for kept in (self.calls, self.work, self.recorded, self.synchronised):
                    kept.clear()
                self.lines.clear()

    # -- what CUPTI calls ----------------------------------------------------------------------------------------------

    def _completed(self, activities: Sequence[Any]) -> None:
        """A buffer of records; they are valid only now, so their fields are copied."""
        for activity in activities:
            make = self._makers.get(int(activity.kind))
            if make is not None:
                make(activity)

    def _record_makers(self) -> dict[int, Callable[[Any], None]]:
        cupti = self.cupti
        kind = cupti.ActivityKind
        copy_kinds = {int(member): member.name for member in cupti.ActivityMemcpyKind}
        waits = {int(member): member.name for member in cupti.ActivitySynchronizationType}

        def kernel(a: Any) -> None:
            blocks = math.prod(int(getattr(a, f"grid_{axis}", 0)) for axis in "xyz")  # 0: this version does not say
            self.work.append(Activity(KERNEL, a.name, a.start, a.end, a.stream_id, a.correlation_id, 0, blocks))

        def copy(a: Any) -> None:
            name = copy_kinds.get(int(a.copy_kind), "UNKNOWN")
            self.work.append(Activity(COPY, name, a.start, a.end, a.stream_id, a.correlation_id, a.bytes))

        def memset(a: Any) -> None:
            self.work.append(Activity(MEMSET, "memset", a.start, a.end, a.stream_id, a.correlation_id, a.bytes))

        def api(domain: Any) -> Callable[[Any], None]:
            def make(a: Any) -> None:
                name = self._name(domain, int(a.cbid))
                self.calls.append(ApiCall(name, a.start, a.end, a.thread_id, a.correlation_id))

            return make

        def event(a: Any) -> None:
            self.recorded.append(Recorded(a.event_id, a.stream_id, a.correlation_id, a.device_timestamp))

        def synchronisation(a: Any) -> None:
            name = waits.get(int(a.type), "UNKNOWN")
            event_id = a.cuda_event_id
            self.synchronised.append(Synchronised(name, a.start, a.end, a.stream_id, event_id, a.correlation_id))

        return {
            int(kind.CONCURRENT_KERNEL): kernel,
            int(kind.KERNEL): kernel,
            int(kind.MEMCPY): copy,
            int(kind.MEMSET): memset,
            int(kind.RUNTIME): api(cupti.CallbackDomain.RUNTIME_API),
            int(kind.DRIVER): api(cupti.CallbackDomain.DRIVER_API),
            int(kind.CUDA_EVENT): event,
            int(kind.SYNCHRONIZATION): synchronisation,
        }

    def _name(self, domain: Any, number: int) -> str:
        key = (int(domain), number)
        if key not in self._names:
            self._names[key] = str(self.cupti.get_callback_name(domain, number))
        return self._names[key]


class _WarmUp:
    """One piece of work of each kind, in a stream that waits for no other and that no other waits for."""

    def __init__(self) -> None:
        driver = backend.driver
        self._stream = _checked(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self._event = _checked(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        self._device = _checked(driver.cuMemAlloc(_WARM_BYTES))
        self._host = _checked(driver.cuMemHostAlloc(_WARM_BYTES, 0))
        self._module = _checked(driver.cuModuleLoadData(_NOTHING))
        self._kernel = _checked(driver.cuModuleGetFunction(self._module, b"nothing"))

    def run(self) -> None:
        """Asks for it, and waits for nothing but itself."""
        driver = backend.driver
        _checked(driver.cuMemcpyHtoDAsync(self._device, self._host, _WARM_BYTES, self._stream))
        _checked(driver.cuMemsetD8Async(self._device, 0, _WARM_BYTES, self._stream))
        _checked(driver.cuLaunchKernel(self._kernel, 1, 1, 1, 1, 1, 1, 0, self._stream, 0, 0))
        _checked(driver.cuMemcpyDtoHAsync(self._host, self._device, _WARM_BYTES, self._stream))
        _checked(driver.cuEventRecord(self._event, self._stream))
        _checked(driver.cuStreamWaitEvent(self._stream, self._event, 0))


def _checked(answer: tuple[Any, ...]) -> Any:
    if int(answer[0]) != 0:
        raise TraceError(
            f"trace: the GPU answers {answer[0].name}. If an earlier error ended this process's CUDA, restart the "
            "notebook's kernel; nothing can be recorded before."
        )
    return answer[1] if len(answer) > 1 else None


_collector: Collector | None = None
_waiting: list[CuptiRecording] = []  # closed, and not looked at yet
_MOST_WAITING = 8


def collector() -> Collector:
    global _collector
    if _collector is None:
        _collector = Collector()
    return _collector


class CuptiRecording:
    """One trace on a GPU."""

    label = "measured"
    hazard_note = (
        "A GPU does not report hazards. Run the cell on the simulated device (the kernel 'CUDA: simulated H200', or "
        "%%isolated sim): it reports every pair of operations that lacks a wait."
    )

    def __init__(self, frame: FrameType | None) -> None:
        driver = backend.driver
        driver.cuInit(0)
        cudart = backend.cudart
        cudart.cudaFree(0)  # the context, so that its making is not part of the trace
        properties = cudart.cudaGetDeviceProperties(0)[1]
        name = properties.name.split(b"\0")[0].decode(errors="replace")
        engines = int(cudart.cudaDeviceGetAttribute(cudart.cudaDeviceAttr.cudaDevAttrAsyncEngineCount, 0)[1])
        self._collector = collector()
        while len(_waiting) > _MOST_WAITING:  # no timeline was read; work that has not ended by now is dropped
            _waiting[0]._finish()
        self._host_work: list[tuple[int, int]] = []
        host_clock.listeners.append(self._worked)
        self._records = Records(0, 0, name, engines, sms=int(properties.multiProcessorCount))
        self._measured: Measured | None = None
        self._made: list[Span] = []
        self._handles: dict[int, int] = {}
        self._collector.open(frame)
        self._clock = _offset(self._collector.cupti)
        self._records.begin = int(self._collector.cupti.get_timestamp())

    def _worked(self, start: int, end: int) -> None:
        """``host_work`` kept the host from ``start`` to ``end`` (ns of ``time.perf_counter_ns``)."""
        self._host_work.append((start + self._clock, end + self._clock))

    def close(self, names: Mapping[int, str]) -> None:
        self._records.end = int(self._collector.cupti.get_timestamp())
        host_clock.listeners.remove(self._worked)
        self._records.host_work = self._host_work
        self._collector.close()
        self._name_streams(names)
        _waiting.append(self)

    def _name_streams(self, names: Mapping[int, str]) -> None:
        """CUPTI has numbers of its own for streams."""
        cudart, driver = backend.cudart, backend.driver
        context = int(driver.cuCtxGetCurrent()[1])
        number = self._collector.cupti.get_stream_id_ex
        self._records.legacy_stream = int(number(context, 0, 0))
        self._handles = {0: self._records.legacy_stream, 1: self._records.legacy_stream}
        for handle, name in names.items():
            code, flags = cudart.cudaStreamGetFlags(cudart.cudaStream_t(handle))
            if int(code) != 0:  # destroyed in the meantime, or no stream
                continue
            found = self._handles[handle] = int(number(context, handle, 0))
            self._records.names[found] = name
            if int(flags) & 1:
                self._records.non_blocking.append(found)

    @property
    def device(self) -> str:
        return self._records.device

    @property
    def engines(self) -> tuple[str, ...]:
        return Measured(self._records).engines if self._measured is None else self._measured.engines

    def host_elapsed(self) -> float:
        return (self._records.end - self._records.begin) / 1e3

    def hazards(self) -> Sequence[Any]:
        return ()

    def stream_name(self, stream: object) -> str:
        handle = naming.handle_of(stream)
        if handle is None:
            raise TypeError(f"trace: {stream!r} is no stream; give its name, a CuPy stream or a handle")
        assert self._measured is not None
        number = self._handles.get(handle)
        if number not in self._measured.streams:
            raise KeyError(f"trace: no work in the stream with handle {handle:#x}, or no variable holds it")
        return self._measured.streams[number][1]

    def spans(self) -> list[Span]:
        if self._measured is None:
            backend.cudart.cudaDeviceSynchronize()  # after a sticky error it fails, and what was recorded is there
            self._finish()
        return self._made

    def _finish(self) -> None:
        self._collector.flush()
        self._take()
        self._measured = Measured(self._records)
        self._made = self._measured.spans()
        _waiting.remove(self)
        if not _waiting:
            self._collector.forget()

    def records(self) -> Records:
        """What was collected, for keeping as data."""
        self.spans()
        return self._records

    def _take(self) -> None:
        """The part of the collector's records that belongs to this trace."""
        source, mine = self._collector, self._records
        mine.calls = [call for call in source.calls if call.end >= mine.begin and call.start <= mine.end]
        known = {call.correlation for call in mine.calls}
        every = {call.correlation for call in source.calls}
        mine.work = [
            work
            for work in source.work
            if work.correlation in known
            or (work.correlation not in every and work.end > mine.begin and work.start <= mine.end)
        ]
        mine.recorded = [event for event in source.recorded if event.correlation in known]
        mine.synchronised = [wait for wait in source.synchronised if wait.correlation in known]
        for call in mine.calls:
            place = source.lines.at(call.start - self._clock) if call.thread == source.thread else None
            if place is not None:
                mine.lines[call.correlation] = _line(*place)


def _offset(cupti: Any) -> int:
    """What to add to ``time.perf_counter_ns()`` for CUPTI's clock: from the closest of several readings."""
    best = (1 << 62, 0)
    for _ in range(5):
        before = time.perf_counter_ns()
        there = int(cupti.get_timestamp())
        after = time.perf_counter_ns()
        best = min(best, (after - before, there - (before + after) // 2))
    return best[1]


def _line(code: CodeType, number: int) -> Line:
    place = Place(code, number)
    return Line(str(place), place.text)
