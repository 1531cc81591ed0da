"""Spans from the simulated device: an observer of its calls and operations.

Every time is modelled. The device knows by which rule each operation waited, so nothing is guessed here.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from types import CodeType, FrameType

from cudalab.sim.device.caller import Place
from cudalab.sim.device.declaration import Call as RuntimeCall
from cudalab.sim.device.declaration import Waits
from cudalab.sim.device.device import Device
from cudalab.sim.device.graphs.executable import GraphEnd
from cudalab.sim.device.hazards import Hazard
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.queue.operation import Operation
from cudalab.timeline import naming, spans
from cudalab.timeline.lines import LineCount
from cudalab.timeline.spans import HOST_WORK, Span, Wait

_KINDS = {
    "kernel": spans.KERNEL,
    "copy": spans.COPY,
    "memset": spans.MEMSET,
    "array": spans.ARRAY,
    "host": spans.HOST_FUNCTION,
    "record": spans.RECORD,
    "wait": spans.WAIT,
    "free": spans.FREE,
    "graph": spans.GRAPH,
}
_MARKERS = ("graph end", "empty", "allocate", "conditional")
"""Operations that only mark a place in a graph."""
_COPY_NAMES = {
    "h2d": "copy to device",
    "d2h": "copy to host",
    "peer": "copy to another device",
    "sm": "copy on device",
    "none": "copy on host",
}
Identity = tuple[int, int]
"""Which operation or stream: the number of resets before it, and its number since."""

NOBODY: Identity = (-1, -1)
_LAYERS = {"sim/cudart/": "", "sim/driver/": "", "sim/cupy/cuda/runtime.py": "cuda", "sim/cupy/cuda/driver.py": "cu"}
"""Where functions are named as CUDA's are, and what their names lack."""


class _Entry:
    """One operation, as far as it is known. The operation itself is not kept beyond its end: it may hold arrays, and a
    trace must not make them live longer."""

    __slots__ = (
        "asked", "blocker", "blocks", "bound", "bytes", "call", "device", "end", "engine", "extrapolated", "handle",
        "kind", "name", "place", "rule", "sequence", "start", "stream",
    )  # fmt: skip

    def __init__(self, operation: Operation, call: int, epoch: int) -> None:
        self.sequence = (epoch, operation.sequence)
        self.name, self.kind, self.engine = operation.name, operation.kind, operation.engine
        stream = operation.stream.seen_as
        self.stream, self.handle = (epoch, stream.number), stream.handle
        self.device = stream.device
        self.asked, self.place, self.bytes = operation.enqueued, operation.place, operation.bytes
        self.blocks = operation.work.blocks
        self.call = call
        """Index of the call that asked for it; -1: before the trace."""
        self.rule = ""
        self.blocker = NOBODY
        """What it waited for."""
        self.start = self.end = -1
        self.bound = self.extrapolated = ""

    def finish(self, operation: Operation) -> None:
        self.start, self.end, self.bytes = operation.start, operation.end, operation.bytes
        if operation.bound:
            self.bound = f"{operation.bound}-bound, {100 * operation.peak_fraction:.0f} % of peak"
            self.extrapolated = operation.extrapolated


class _Call:
    """One runtime call."""

    __slots__ = ("end", "name", "place", "start", "thread", "waited")

    def __init__(self, name: str, place: Place, start: int, end: int, waited: Identity) -> None:
        self.name, self.place, self.start, self.end = name, place, start, end
        self.thread = threading.current_thread()
        self.waited = waited
        """The operation that kept the host."""


class SimulatedRecording(Observer):
    """The observer of one trace. Units inside are the device's: integer ns of modelled time."""

    label = "modelled"
    hazard_note = ""

    def __init__(self, device: Device, frame: FrameType | None = None) -> None:
        self._device = device
        self._name = f"simulated {device.properties['name']}"
        copies = int(device.profile.engines["copy"])
        pair = {0: (spans.SMS, spans.SMS), 1: (spans.BOTH, spans.BOTH)}.get(copies, (spans.H2D, spans.D2H))
        self._engine_names = {"h2d": pair[0], "d2h": pair[1], "peer": spans.PEER, "sm": spans.SMS}
        self._groups = [f"device {number}: " for number in range(device.count)] if device.count > 1 else [""]
        """By device: what the names of its rows begin with."""
        kinds = (*pair, spans.PEER, spans.SMS) if device.count > 1 else (*pair, spans.SMS)
        self._engines = tuple(dict.fromkeys(group + kind for group in self._groups for kind in kinds))
        self._sms = int(device.properties["multiProcessorCount"])
        self._thread = threading.current_thread()
        self._open = True
        self._begin = self._end = device.clock_ns
        self._epoch = 0
        self._entries: dict[int, _Entry] = {}
        self._done: list[_Entry] = []
        self._graphs: dict[int, _Entry] = {}
        """Launches of graphs that are under way."""
        self._calls: list[_Call] = []
        self._last_on: dict[str, Identity] = {}
        self._newest_on: dict[str, Identity] = {}
        self._ended_at = -1
        self._last_ended = NOBODY
        self._kept_by = NOBODY
        self._names: dict[int, str] = {}
        self._streams: dict[Identity, tuple[int, str]] = {}
        report = device.hazard_report
        self._sightings = report.sightings if report is not None else 0
        self._sweep()
        for operation in device.pending:
            entry = self._entries[operation.sequence] = _Entry(operation, -1, 0)
            entry.start = operation.start
        device.observers.append(self)
        self._lines = LineCount()
        self._lines.start(frame)
        device.state.trace_opened(self._lines.taken)

    # -- while the block runs ------------------------------------------------------------------------------------------

    def enqueued(self, operation: Operation, waits: Sequence[tuple[Operation, str]]) -> None:
        if self._open and operation.kind not in _MARKERS:
            self._entries[operation.sequence] = _Entry(operation, len(self._calls), self._epoch)

    def started(self, operation: Operation) -> None:
        engine = self._engine(operation.engine, operation.stream.device)
        before, self._newest_on[engine] = self._newest_on.get(engine, NOBODY), (self._epoch, operation.sequence)
        entry = self._entries.get(operation.sequence)
        if entry is None:
            return
        entry.start = operation.start
        entry.rule = "copy engine" if operation.wait_reason.startswith("copy engine") else operation.wait_reason
        if entry.rule in ("copy engine", "SM resources"):
            # a copy engine was taken by what ended last; of the SMs, a kernel that drains may have left a part
            ended = self._last_on.get(engine, NOBODY)
            entry.blocker = ended if entry.rule == "copy engine" or self._ended_at == operation.start else before
        elif operation.wait_cause is not None:
            entry.blocker = (self._epoch, operation.wait_cause.sequence)

    def ended(self, operation: Operation) -> None:
        self._last_ended = self._last_on[self._engine(operation.engine, operation.stream.device)] = (
            self._epoch,
            operation.sequence,
        )
        self._ended_at = operation.end
        entry = self._entries.pop(operation.sequence, None)
        if entry is not None:
            entry.finish(operation)
            self._done.append(entry)
            if entry.kind == spans.GRAPH:
                self._graphs[operation.sequence] = entry
        elif isinstance(operation.work, GraphEnd):
            whole = self._graphs.pop(operation.work.start, None)
            if whole is not None:
                whole.end = operation.end

    def host_waited(self, operation: Operation | None) -> None:
        if self._open:
            self._kept_by = self._last_ended if operation is None else (self._epoch, operation.sequence)

    def called(self, call: RuntimeCall, place: Place, start: int, end: int) -> None:
        if not self._open:
            return
        kept_by, self._kept_by = self._kept_by, NOBODY
        last = self._calls[-1] if self._calls else None
        if not call.cuda:  # the host computes
            here = (HOST_WORK, start, place, threading.current_thread())
            if last is not None and (last.name, last.end, last.place, last.thread) == here:
                last.end = end
            else:
                self._calls.append(_Call(HOST_WORK, place, start, end, NOBODY))
            return
        waited = NOBODY if call.waits is Waits.NOTHING else kept_by
        self._calls.append(_Call(_cuda_name(call), place, start, end, waited))

    def reset(self) -> None:
        self._done += self._entries.values()
        self._entries.clear()
        self._graphs.clear()
        self._last_on.clear()
        self._newest_on.clear()
        self._epoch += 1

    def _engine(self, name: str, device: int) -> str:
        known = self._engine_names.get(name, "")
        return self._groups[device] + known if known else ""

    # -- afterwards ----------------------------------------------------------------------------------------------------

    def close(self, names: Mapping[int, str]) -> None:
        self._open = False
        self._lines.stop()
        self._device.state.trace_closed()
        self._end = self._device.clock_ns
        self._names = dict(names)

    @property
    def device(self) -> str:
        return self._name

    @property
    def engines(self) -> tuple[str, ...]:
        return self._engines

    def host_elapsed(self) -> float:
        return (self._end - self._begin) / 1e3

    def stream_name(self, stream: object) -> str:
        handle = naming.handle_of(stream)
        if handle is None:
            raise TypeError(f"trace: {stream!r} is no stream; give its name, a CuPy stream or a handle")
        for entry in self._done:
            if entry.handle == handle:
                return self._streams[entry.stream][1]
        raise KeyError(f"trace: no work in the stream with handle {handle:#x}")

    def hazards(self) -> Sequence[Hazard]:
        """Those seen since the trace began that an operation of it is part of."""
        report = self._device.hazard_report
        if report is None:
            return ()
        mine = {number for epoch, number in (entry.sequence for entry in self._done) if epoch == self._epoch}
        return [
            hazard
            for hazard in report.since(self._sightings)
            if hazard.first.sequence in mine or hazard.second.sequence in mine
        ]

    def spans(self) -> list[Span]:
        self._device.run_ahead(lambda: bool(self._entries))
        self._sweep()
        self._number_streams()
        calls = [self._call_span(call) for call in self._calls]
        made = {entry.sequence: self._span(entry, calls) for entry in self._done}
        for entry in self._done:
            span = made[entry.sequence]
            if entry.start >= 0 and entry.rule:
                span.waited = Wait(entry.rule, span.call if entry.rule == "host" else made.get(entry.blocker))
        for call, span in zip(self._calls, calls, strict=True):
            kept_by = made.get(call.waited)
            if kept_by is not None and kept_by.end > span.start:
                span.waited = Wait("device", kept_by)
        for hazard in self.hazards():
            parts = [made.get((self._epoch, party.sequence)) for party in (hazard.first, hazard.second)]
            for part in parts:
                if part is not None:
                    part.hazards = (*part.hazards, hazard.kind.value)
            if parts[0] is not None and parts[1] is not None:
                parts[1].conflicts = (*parts[1].conflicts, parts[0])
        everything = sorted((*calls, *made.values()), key=lambda span: (span.start, span.end, not span.on_host))
        for number, span in enumerate(everything):
            span.number = number
        return everything

    def _sweep(self) -> None:
        """Recordings whose work has all ended need not watch any longer."""
        observers = self._device.observers
        for other in list(observers):
            if isinstance(other, SimulatedRecording) and not other._open and not other._entries:
                observers.remove(other)

    def _time(self, ns: int) -> float:
        return (ns - self._begin) / 1e3

    def _number_streams(self) -> None:
        """Number and name each stream; a handle may be used again after its stream was destroyed."""
        self._streams = {}
        taken: set[str] = set()
        number = 0
        for entry in sorted(self._done, key=lambda entry: (entry.device, entry.sequence)):
            if entry.stream in self._streams:
                continue
            of_first = entry.handle == naming.LEGACY and not entry.device
            number += not of_first
            default = naming.DEFAULT_NAMES.get(entry.handle, f"stream {number}")
            name = self._groups[entry.device] + self._names.get(entry.handle, default)
            if name in taken:
                name = f"{name} ({number})"
            taken.add(name)
            self._streams[entry.stream] = (0 if of_first else number, name)

    def _call_span(self, call: _Call) -> Span:
        return Span(
            number=-1,
            name=call.name,
            kind=HOST_WORK if call.name == HOST_WORK else spans.CALL,
            stream="",
            stream_number=-1,
            engine=spans.HOST,
            start=self._time(call.start),
            end=self._time(call.end),
            label=self.label,
            where=str(call.place),
            code=call.place.text,
            asked=self._time(call.start),
            thread="" if call.thread is self._thread else call.thread.name,
        )

    def _span(self, entry: _Entry, calls: Sequence[Span]) -> Span:
        number, stream = self._streams[entry.stream]
        kind = _KINDS.get(entry.kind, entry.kind)
        start = entry.start if entry.start >= 0 else max(entry.asked, self._begin)
        return Span(
            number=-1,
            name=_COPY_NAMES[entry.engine] if kind == spans.COPY else naming.kernel_name(entry.name),
            kind=kind,
            stream=stream,
            stream_number=number,
            engine=self._engine(entry.engine, entry.device) if kind != spans.HOST_FUNCTION else spans.HOST,
            start=self._time(start),
            end=self._time(max(start, entry.end)),
            label=self.label,
            bytes=entry.bytes,
            bound=entry.bound,
            extrapolated=entry.extrapolated,
            blocks=entry.blocks,
            load=min(1.0, entry.blocks / self._sms) if entry.blocks else 1.0,
            where=str(entry.place),
            code=entry.place.text,
            asked=self._time(entry.asked),
            call=calls[entry.call] if 0 <= entry.call < len(calls) else None,
            complete=entry.end >= 0,
        )


def _cuda_name(call: RuntimeCall) -> str:
    """What the call is named in CUDA: the function that the learner, or CuPy, called; else the usual one."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code not in _names:
            _names[code] = _api_name(code)
        if _names[code]:
            return _names[code]
        frame = frame.f_back
        if frame is not None and "cudalab" not in frame.f_code.co_filename:
            break
    return call.title


_names: dict[CodeType, str] = {}


def _api_name(code: CodeType) -> str:
    """The name in CUDA of one function of the simulated APIs, or nothing."""
    file, name = code.co_filename.replace("\\", "/"), code.co_name
    for part, prefix in _LAYERS.items():
        if part in file and (prefix or name.startswith("cu")) and not name.startswith("_"):
            return f"{prefix}{name[0].upper()}{name[1:]}" if prefix else name
    return ""
