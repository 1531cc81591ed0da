"""Spans from what CUPTI recorded on a GPU.

CUPTI says when each piece of work ran and which call caused it, not what it waited for. That is told from the rules
(guide, "Streams") and the times: of everything that the work had to come after, the last to end is what held it up.

A GPU's recording knows no host functions; they leave a gap in their stream. What bounds a kernel is not known either:
``cudalab.profile`` tells.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping

from cudalab.timeline import spans
from cudalab.timeline.naming import kernel_name
from cudalab.timeline.records import Activity, ApiCall, Recorded, Records
from cudalab.timeline.spans import Span, Wait

_COPIES = {"HTOD": "copy to device", "DTOH": "copy to host", "DTOD": "copy on device"}
_ARRAY = re.compile(r"^cupy_([a-zA-Z0-9_]+?)(?:__\w+)?$")
_VERSION = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")
# Calls that only ask; a library makes hundreds of them.
_ASKING = re.compile(
    r"cu(da)?(Get|Peek|SetDevice|DeviceGet|Ctx|FuncGet|FuncSet|PointerGet|OccupancyMax|StreamIsCapturing|StreamGet|ModuleGet|"
    r"LibraryGet|KernelGet|DevicePrimaryCtx|DriverGet|RuntimeGet|Init$|MemGetInfo)"
)
_SAME = 2_000  # ns: work starts this soon after what it waited for on its engine
_LATE = 20_000  # ns: a kernel that nothing holds starts this soon on an H200, also behind work in other streams
_BLOCKED = 4_000  # ns that a call must last at least to count as one that waited


def call_name(name: str) -> str:
    """``cudaMemcpyAsync`` for ``cudaMemcpyAsync_v3020``."""
    return _VERSION.sub("", name)


class Measured:
    """Makes the spans of one trace."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._calls = _outermost(records.calls)
        self._by_correlation = {call.correlation: call for call in records.calls}
        self._order = {c.correlation: at for at, c in enumerate(sorted(records.calls, key=lambda call: call.start))}
        pair = {0: (spans.SMS, spans.SMS), 1: (spans.BOTH, spans.BOTH)}.get(
            records.copy_engines, (spans.H2D, spans.D2H)
        )
        self.engines = tuple(dict.fromkeys((*pair, spans.SMS)))
        self._engine_of = {"HTOD": pair[0], "DTOH": pair[1]}
        self.streams: dict[int, tuple[int, str]] = {}

    def spans(self) -> list[Span]:
        """All spans of the trace, ordered by start."""
        kept = [activity for activity in self._records.work if self._belongs(activity)]
        kept.sort(key=lambda activity: (activity.start, activity.end))
        events = [event for event in self._records.recorded if event.correlation in self._order]
        self._number_streams(kept, events)
        hosts = self._host_spans({activity.correlation for activity in kept})
        work = [self._work_span(activity, hosts) for activity in kept]
        points = self._event_spans(events, kept, work, hosts)
        self._find_waits(kept, work, points)
        self._find_blocked(hosts, kept, work)
        host_work = [self._host_work_span(start, end) for start, end in self._records.host_work]
        everything = sorted(
            (*dict.fromkeys(hosts.values()), *host_work, *work, *points.values()),
            key=lambda span: (span.start, span.end, not span.on_host),
        )
        for number, span in enumerate(everything):
            span.number = number
        return everything

    # -- spans ---------------------------------------------------------------------------------------------------------

    def _time(self, ns: int) -> float:
        return (ns - self._records.begin) / 1e3

    def _belongs(self, activity: Activity) -> bool:
        """Enqueued inside the block, or still pending when it began."""
        call = self._by_correlation.get(activity.correlation)
        if call is not None:
            return call.end >= self._records.begin and call.start <= self._records.end
        return activity.end > self._records.begin and activity.start <= self._records.end

    def _number_streams(self, work: list[Activity], events: list[Recorded]) -> None:
        number = 0
        used = [(self._order.get(activity.correlation, -1), activity.stream) for activity in work]
        used += [(self._order.get(event.correlation, -1), event.stream) for event in events]
        taken: set[str] = set()
        for _, stream in sorted(used):
            if stream in self.streams:
                continue
            legacy = stream == self._records.legacy_stream
            number += not legacy
            default = "default stream" if legacy else f"stream {number}"
            name = self._records.names.get(stream, default)
            if name in taken:
                name = f"{name} ({number})"
            taken.add(name)
            self.streams[stream] = (0 if legacy else number, name)

    def _host_spans(self, causes: set[int]) -> dict[int, Span]:
        """The host's calls by the correlation of each call, nested ones included."""
        made: dict[int, Span] = {}
        by_call: dict[int, Span] = {}
        for call, outer in self._calls.items():
            head = by_call.get(outer.correlation)
            if head is None:
                name = call_name(outer.name)
                inside = outer.end >= self._records.begin and outer.start <= self._records.end
                if not inside or (_ASKING.match(name) and outer.correlation not in causes):
                    continue
                line = self._records.lines.get(outer.correlation)
                head = by_call[outer.correlation] = Span(
                    number=-1,
                    name=name,
                    kind=spans.CALL,
                    stream="",
                    stream_number=-1,
                    engine=spans.HOST,
                    start=self._time(outer.start),
                    end=self._time(outer.end),
                    label="measured",
                    where=line.where if line else "",
                    code=line.code if line else "",
                    asked=self._time(outer.start),
                    thread=self._thread_name(outer.thread),
                )
            made[call] = head
        return made

    def _thread_name(self, thread: int) -> str:
        """Empty for the thread that made the first call, as the one that opened the trace does; the others count on."""
        threads = list(dict.fromkeys(call.thread for call in sorted(self._records.calls, key=lambda call: call.start)))
        return f"thread {threads.index(thread) + 1}" if thread != threads[0] else ""

    def _host_work_span(self, start: int, end: int) -> Span:
        return Span(
            -1, spans.HOST_WORK, spans.HOST_WORK, "", -1, spans.HOST, self._time(start), self._time(end), "measured"
        )

    def _work_span(self, activity: Activity, hosts: Mapping[int, Span]) -> Span:
        number, stream = self.streams[activity.stream]
        kind, name = activity.kind, activity.name
        if kind == spans.COPY:
            name = _COPIES.get(name, f"copy {name}")
        elif kind == spans.KERNEL:
            array = _ARRAY.match(name)
            kind, name = (spans.ARRAY, array[1]) if array else (kind, kernel_name(name))
        call = hosts.get(activity.correlation)
        return Span(
            number=-1,
            name=name,
            kind=kind,
            stream=stream,
            stream_number=number,
            engine=self._engine_of.get(activity.name, spans.SMS) if kind == spans.COPY else spans.SMS,
            start=self._time(activity.start),
            end=self._time(activity.end),
            label="measured",
            bytes=activity.bytes,
            blocks=activity.blocks,
            load=min(1.0, activity.blocks / self._records.sms) if activity.blocks and self._records.sms else 1.0,
            where=call.where if call else "",
            code=call.code if call else "",
            asked=call.start if call else 0.0,
            call=call,
        )

    def _event_spans(
        self, events: list[Recorded], kept: list[Activity], work: list[Span], hosts: Mapping[int, Span]
    ) -> dict[int, Span]:
        """A point in time for each record, by its correlation."""
        made = {}
        for event in events:
            number, stream = self.streams[event.stream]
            before = self._last_before(event.correlation, event.stream, kept, work)
            call = hosts.get(event.correlation)
            asked = call.start if call else 0.0
            ended = before.end if before else 0.0
            time = self._time(event.time) if event.time else max(ended, asked)
            span = Span(-1, "event record", spans.RECORD, stream, number, "", time, time, "measured", call=call)
            span.where, span.code, span.asked = (call.where, call.code, asked) if call else ("", "", 0.0)
            span.waited = Wait("stream order", before) if before and ended >= asked else Wait("host", call)
            made[event.correlation] = span
        return made

    # -- waits ---------------------------------------------------------------------------------------------------------

    def _last_before(self, correlation: int, stream: int, kept: list[Activity], work: list[Span]) -> Span | None:
        """The last work of ``stream`` that was asked for before the call ``correlation``."""
        order = self._order.get(correlation, -1)
        found = None
        for activity, span in zip(kept, work, strict=True):
            if activity.stream == stream and self._order.get(activity.correlation, -1) < order:
                if found is None or span.end > found.end:
                    found = span
        return found

    def _find_waits(self, kept: list[Activity], work: list[Span], points: Mapping[int, Span]) -> None:
        by_event: dict[int, list[tuple[int, Span]]] = {}
        for event in self._records.recorded:
            if event.correlation in points:
                by_event.setdefault(event.event, []).append((self._order[event.correlation], points[event.correlation]))
        waits: dict[int, list[tuple[int, Span]]] = {}
        for waited in self._records.synchronised:
            order = self._order.get(waited.correlation)
            if waited.kind != "STREAM_WAIT_EVENT" or order is None:
                continue
            records = sorted(by_event.get(waited.event, ()), key=lambda pair: pair[0])
            at = bisect_left([number for number, _ in records], order)
            if at:
                waits.setdefault(waited.stream, []).append((order, records[at - 1][1]))
        on_engine: dict[str, Span] = {}
        in_stream: dict[int, Span] = {}
        legacy_work = [(a, s) for a, s in zip(kept, work, strict=True) if a.stream == self._records.legacy_stream]
        blocking = [
            (a, s)
            for a, s in zip(kept, work, strict=True)
            if a.stream not in self._records.non_blocking and a.stream != self._records.legacy_stream
        ]
        for activity, span in zip(kept, work, strict=True):
            order = self._order.get(activity.correlation, -1)
            found: list[Wait] = [Wait("host", span.call)]
            if activity.stream in in_stream:
                found.append(Wait("stream order", in_stream[activity.stream]))
            found += [Wait("event", record) for asked, record in waits.get(activity.stream, ()) if asked < order]
            others = blocking if activity.stream == self._records.legacy_stream else legacy_work
            if activity.stream not in self._records.non_blocking:
                found += [
                    Wait("default stream", other)
                    for one, other in others
                    if self._order.get(one.correlation, -1) < order and other.end <= span.start + 0.1
                ]
            span.waited = max(found, key=_time_of)
            busy = on_engine.get(span.engine)
            if busy is not None and busy is not span.waited.span and _time_of(span.waited) < busy.end - _SAME / 1e3:
                if 0 <= span.start - busy.end < _SAME / 1e3:
                    span.waited = Wait("SM resources" if span.engine == spans.SMS else "copy engine", busy)
                elif _fills_the_sms_meanwhile(busy, span):
                    span.waited = Wait("SM resources", busy)
            in_stream[activity.stream] = span
            if busy is None or span.end > busy.end:
                on_engine[span.engine] = span

    def _find_blocked(self, hosts: Mapping[int, Span], kept: list[Activity], work: list[Span]) -> None:
        """Calls that kept the host until the device had done something."""
        own: dict[int, Span] = {}
        for activity, span in zip(kept, work, strict=True):
            if activity.correlation in hosts:
                own[id(hosts[activity.correlation])] = span
        by_end = sorted(work, key=lambda span: span.end)
        ends = [span.end for span in by_end]
        for call in dict.fromkeys(hosts.values()):
            if call.microseconds < _BLOCKED / 1e3:
                continue
            mine = own.get(id(call))
            if "Synchronize" in call.name:
                at = bisect_left(ends, call.end) - 1
                mine = by_end[at] if at >= 0 else None
            if mine is not None and call.start < mine.end <= call.end:
                call.waited = Wait("device", mine)


def _fills_the_sms_meanwhile(busy: Span, span: Span) -> bool:
    """Is a kernel of a block for every SM, at least, at work from when ``span`` could start until it does, much later?
    CUPTI does not say what a kernel waits for; nothing else is left then."""
    if not span.kind == busy.kind == spans.KERNEL or busy.load < 1 or busy.end < span.start:
        return False
    could = _time_of(span.waited) if span.waited is not None else span.asked
    return busy.start < could + _LATE / 1e3 <= span.start


def _time_of(wait: Wait) -> float:
    if wait.span is None:
        return float("-inf")
    return wait.span.start if wait.rule == "host" else wait.span.end


def _outermost(calls: list[ApiCall]) -> dict[int, ApiCall]:
    """For each call the one that encloses it in its thread: the runtime is built on the driver."""
    found: dict[int, ApiCall] = {}
    open_calls: dict[int, ApiCall] = {}
    for call in sorted(calls, key=lambda call: (call.start, -call.end)):
        outer = open_calls.get(call.thread)
        if outer is None or call.start >= outer.end:
            outer = open_calls[call.thread] = call
        found[call.correlation] = outer
    return found
