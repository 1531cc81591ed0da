"""A timeline as Chrome-trace JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

The file is an object of the Trace Event Format: complete events (``"ph": "X"``) with ``ts`` and ``dur`` in µs, metadata
(``"M"``) that names and sorts the rows, and flows (``"s"``, ``"f"``): arrows from the host's call to the work that it
asked for, and from a span to one in another stream that waited for it. There are two "processes", the host with the
streams, and the engines. A row holds no two events at the same time: kernels that share the SMs get rows of their own.
``trace_events.schema.json`` beside this module describes what is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

from cudalab.timeline.spans import Span, cause, lanes, size_text

Event = dict[str, Any]

STREAMS, ENGINES = 1, 2
_HOST_ROW = 0
_ROWS_APART = 100
_DIGITS = 3  # of a µs: whole nanoseconds


def schema() -> dict[str, Any]:
    """The JSON schema of what ``chrome_trace`` gives."""
    text = (resources.files("cudalab.timeline") / "trace_events.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def chrome_trace(spans: Sequence[Span], *, device: str, label: str, summary: str) -> dict[str, Any]:
    rows = _rows(spans)
    events = [*_metadata(spans, rows), *_complete(spans, rows), *_flows(spans, rows)]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "device": device,
            "times": label,
            "summary": summary,
            "writer": "cudalab",
        },
    }


def _rows(spans: Sequence[Span]) -> dict[str, dict[int, int]]:
    """Thread ids by span number: of the streams (and the host), and of the engines."""
    streams: dict[int, int] = {}
    engines: dict[int, int] = {}
    by_stream: dict[int, list[Span]] = {}
    by_engine: dict[str, list[Span]] = {}
    for span in spans:
        by_stream.setdefault(span.stream_number, []).append(span)
        if span.engine and not span.on_host:
            by_engine.setdefault(span.engine, []).append(span)
    for number, among in by_stream.items():
        base = _HOST_ROW if number < 0 else (number + 1) * _ROWS_APART
        streams.update({span.number: base + lane for span, lane in zip(among, lanes(among), strict=True)})
    for place, engine in enumerate(sorted(by_engine)):
        among = by_engine[engine]
        engines.update({s.number: place * _ROWS_APART + lane for s, lane in zip(among, lanes(among), strict=True)})
    return {"streams": streams, "engines": engines}


def _metadata(spans: Sequence[Span], rows: dict[str, dict[int, int]]) -> Iterator[Event]:
    for pid, name in ((STREAMS, "host and streams"), (ENGINES, "engines")):
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    named: set[tuple[int, int]] = set()
    for span in spans:
        for pid, side, name in ((STREAMS, "streams", span.stream or "host"), (ENGINES, "engines", span.engine)):
            tid = rows[side].get(span.number)
            if tid is None or (pid, tid) in named:
                continue
            named.add((pid, tid))
            lane = tid % _ROWS_APART
            text = name if not lane else f"{name}, also"
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": text}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}


def _complete(spans: Sequence[Span], rows: dict[str, dict[int, int]]) -> Iterator[Event]:
    for span in spans:
        for pid, side in ((STREAMS, "streams"), (ENGINES, "engines")):
            tid = rows[side].get(span.number)
            if tid is not None:
                yield {
                    "ph": "X",
                    "name": span.name,
                    "cat": span.kind,
                    "pid": pid,
                    "tid": tid,
                    "ts": round(span.start, _DIGITS),
                    "dur": round(span.microseconds, _DIGITS),
                    "args": _arguments(span),
                }


def _arguments(span: Span) -> dict[str, Any]:
    wait = cause(span)
    found: dict[str, Any] = {"times": span.label}
    for name, value in (
        ("stream", span.stream),
        ("engine", span.engine),
        ("bytes", span.bytes),
        ("size", size_text(span.bytes) if span.bytes else ""),
        ("GB/s", round(span.rate, 3) if span.rate else ""),
        ("bound", span.bound),
        ("extrapolated", span.extrapolated),
        ("waited for", str(wait) if wait is not None else ""),
        ("line", span.where),
        ("code", span.code),
        ("hazards", ", ".join(span.hazards)),
        ("never ended", "" if span.complete else "yes"),
    ):
        if value:
            found[name] = value
    return found


def _flows(spans: Sequence[Span], rows: dict[str, dict[int, int]]) -> Iterator[Event]:
    streams = rows["streams"]
    number = 0
    for span in spans:
        sources = [("asked for", span.call)] if span.call is not None else []
        wait = cause(span)
        if wait is not None and wait.span is not None and wait.span.stream_number != span.stream_number:
            if wait.span is not span.call:
                sources.append((wait.rule, wait.span))
        for rule, source in sources:
            number += 1
            common = {"cat": "wait" if rule != "asked for" else "call", "name": rule, "id": number, "pid": STREAMS}
            # an arrow begins at the slice that encloses its time, so that must lie within
            # a call that waited begins before what it waited for, so its arrow comes to its end
            end = _last_moment(span) if span.blocked else span.start
            start = source.start if rule == "asked for" else max(source.start, min(_last_moment(source), end))
            yield {"ph": "s", **common, "tid": streams[source.number], "ts": round(start, _DIGITS)}
            yield {"ph": "f", "bp": "e", **common, "tid": streams[span.number], "ts": round(end, _DIGITS)}


def _last_moment(span: Span) -> float:
    return span.end - min(1e-3, span.microseconds / 2)
