"""Spans from what CUPTI recorded on an H200 (h200.json), and what waited for what there."""

from __future__ import annotations

import builtins
import json
import sys
import types
from pathlib import Path

import jsonschema
import pytest

from cudalab import backend, plots
from cudalab.timeline import Timeline, chrome
from cudalab.timeline.lines import LineLog
from cudalab.timeline.measured import Measured, call_name
from cudalab.timeline.records import Activity, ApiCall, Recorded, Records, Synchronised
from cudalab.timeline.spans import cause

STORED = json.loads((Path(__file__).parent / "h200.json").read_text(encoding="utf-8"))
PROGRAMS = [name for name in STORED if not name.startswith("_")]


class Kept:
    """A source whose records were taken earlier."""

    label, hazard_note = "measured", "none"

    def __init__(self, records):
        self._measured, self.device = Measured(records), records.device
        self.engines, self._records = self._measured.engines, records

    def spans(self):
        return self._measured.spans()

    def hazards(self):
        return ()

    def host_elapsed(self):
        return (self._records.end - self._records.begin) / 1e3

    def stream_name(self, stream):
        raise TypeError(stream)


def timeline(records):
    t = Timeline(Kept(records), plots.timeline.timeline)
    t._open = False
    return t


@pytest.fixture(scope="module")
def h200():
    return {name: timeline(Records.from_json(STORED[name])) for name in PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_records_survive_storage(name):
    records = Records.from_json(STORED[name])
    again = json.loads(json.dumps(records.to_json()))
    assert Records.from_json(again) == records and again.items() >= {**STORED[name], "work": again["work"]}.items()
    assert all(now.items() >= then.items() for now, then in zip(again["work"], STORED[name]["work"], strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_record_becomes_a_span_and_no_engine_copies_twice_at_a_time(h200, name):
    t = h200[name]
    assert len(t.work) == len(STORED[name]["work"]) and all(span.label == "measured" for span in t.spans)
    for engine in ("H2D copy engine", "D2H copy engine"):
        copies = [span for span in t.work if span.engine == engine]
        assert all(a.end <= b.start for a, b in zip(copies, copies[1:], strict=False))
    for stream in t.streams:
        work = [span for span in t.in_stream(stream) if span.is_work]
        assert all(a.end <= b.start for a, b in zip(work, work[1:], strict=False))
    for span in t.work:
        wait = cause(span)
        assert wait is not None and wait.span is not None
        earliest = wait.span.start if wait.rule == "host" else wait.span.end
        assert earliest <= span.start + 1e-6
    jsonschema.validate(t.chrome_trace(), chrome.schema())
    assert t.summary.endswith("measured on NVIDIA H200.")


def test_depth_first_on_four_streams(h200):
    t = h200["depth"]
    assert t.streams == [f"streams[{at}]" for at in range(4)]
    steps = ["copy to device", "scale", "copy to host"]
    assert all([s.name for s in t.in_stream(stream)] == steps for stream in t.streams)
    assert t.overlap.copies_and_kernels > 50 and t.overlap.both_ways > 20
    queued = [s for s in t.copies if s.waited.rule == "copy engine"]
    assert len(queued) >= 3 and all(s.waited.span.engine == s.engine for s in queued)
    assert [s.name for s in t.critical_path][-3:] == ["copy to host"] * 3
    assert all(50 < s.rate < 60 for s in t.copies if s.engine == "H2D copy engine" and s.start < 500)
    assert {s.where.split(",")[0] for s in t.work} == {"timeline_gpu.py"}


def test_events_order_two_streams(h200):
    t = h200["events"]
    names = [(s.name, s.stream, cause(s).rule, cause(s).span.name) for s in t.work]
    assert names == [
        ("copy to device", "upload", "host", "cudaMemcpyAsync"),
        ("scale", "compute", "event", "copy to device"),
        ("copy to host", "upload", "event", "scale"),
    ]
    records = [s for s in t.spans if s.kind == "event record"]
    assert [s.stream for s in records] == ["upload", "compute"]
    assert records[0].start >= t.work[0].end and records[1].start >= t.work[1].end
    assert t.overlap.engines == 0
    waits = [s for s in t.calls if s.name == "cudaStreamSynchronize"]
    assert [s.waited.span.name for s in waits] == ["scale", "copy to host"]


def test_the_default_stream_separates_blocking_streams(h200):
    t = h200["default_stream"]
    assert [(s.stream, s.waited.rule) for s in t.work] == [
        ("one", "host"),
        ("default stream", "default stream"),
        ("two", "default stream"),
    ]
    assert t.overlap.kernels == 0 and t.streams[0] == "default stream"


def test_array_functions_templates_and_pageable_copies(h200):
    t = h200["mixed"]
    assert [(s.name, s.kind) for s in t.in_stream("one") if s.is_work] == [
        ("memset", "memset"),
        ("multiply", "array operation"),
        ("add", "array operation"),
        ("shift<float, 4>", "kernel"),
    ]
    (host_work,) = (s for s in t.calls if s.kind == "host work")
    assert 295 < host_work.microseconds < 330
    assert t.calls[-1].name != "cudaSetDevice"
    blocking = t.span_of("cudaMemcpy")
    assert blocking.blocked and blocking.waited.span.name == "copy to host"


def test_work_that_the_block_did_not_wait_for_is_complete(h200):
    t = h200["no_sync"]
    assert t.host_elapsed < t.elapsed and [s.engine for s in t.work] == ["H2D copy engine", "SMs", "D2H copy engine"]


# --- rules, on records made by hand --------------------------------------------------------------------------------


def records(*, calls=(), work=(), recorded=(), synchronised=(), engines=2, non_blocking=()):
    made = Records(0, 1_000_000, "GPU", engines, legacy_stream=7, non_blocking=list(non_blocking))
    made.calls = [ApiCall(name, start, end, 1, number) for number, (name, start, end) in enumerate(calls, 1)]
    made.work, made.recorded, made.synchronised = list(work), list(recorded), list(synchronised)
    return made


def test_a_driver_call_inside_a_runtime_call_is_not_shown_twice():
    made = records(
        calls=[("cudaMemcpyAsync_v3020", 0, 10_000), ("cuMemcpyAsync", 2_000, 8_000), ("cudaGetDevice", 9, 9)]
    )
    (call,) = timeline(made).calls
    assert (call.name, call.microseconds) == ("cudaMemcpyAsync", 10)
    assert call_name("cuLaunchKernel_ptsz") == "cuLaunchKernel"


def test_one_copy_engine_is_named_so():
    copy = Activity("copy", "DTOH", 5_000, 9_000, 13, 1, 100)
    t = timeline(records(calls=[("cudaMemcpyAsync", 0, 1_000)], work=[copy], engines=1))
    assert t.copies[0].engine == "copy engine" and list(t.idle) == ["copy engine", "SMs"]


def test_a_wait_means_the_last_record_before_it():
    calls = [
        (name, at * 1_000, at * 1_000 + 500) for at, name in enumerate(["k", "record", "k", "wait", "record", "k"])
    ]
    work = [
        Activity("kernel", "early", 10_000, 20_000, 13, 1),
        Activity("kernel", "later", 20_500, 90_000, 13, 3),
        Activity("kernel", "after", 21_000, 30_000, 14, 6),
    ]
    events = [Recorded(5, 13, 2), Recorded(5, 13, 5)]
    made = records(
        calls=calls,
        work=work,
        recorded=events,
        synchronised=[Synchronised("STREAM_WAIT_EVENT", 3_000, 3_100, 14, 5, 4)],
        non_blocking=(13, 14),
    )
    after = timeline(made).span_of("after")
    assert (cause(after).rule, cause(after).span.name) == ("event", "early")


@pytest.mark.parametrize(
    "blocks, start, rule", [(528, 300_000, "SM resources"), (528, 18_000, "host"), (8, 300_000, "host")]
)
def test_a_kernel_that_starts_late_while_another_has_all_sms_waits_for_these(blocks, start, rule):
    calls = [("cuLaunchKernel", 0, 2_000), ("cuLaunchKernel", 3_000, 5_000)]
    work = [
        Activity("kernel", "batch", 6_500, 690_000, 13, 1, blocks=blocks),
        Activity("kernel", "urgent", start, start + 10_000, 14, 2, blocks=1),
    ]
    made = records(calls=calls, work=work, non_blocking=(13, 14))
    made.sms = 132
    assert cause(timeline(made).span_of("urgent")).rule == rule


def test_work_from_before_the_block_belongs_to_it_when_it_ran_inside():
    work = [Activity("kernel", "before", -5_000, 3_000, 13, 900), Activity("kernel", "gone", -9_000, -6_000, 13, 899)]
    t = timeline(records(work=work))
    assert [(s.name, s.start) for s in t.work] == [("before", -5.0)]


# --- lines of the learner ------------------------------------------------------------------------------------------

PROGRAM = """
def helper():
    call()
    return 1
log.start(sys._getframe())
call()
for i in range(2):
    call(); helper(); call()
call()
log.stop()
"""


def test_each_call_finds_its_line():
    import time

    moments = []
    library = {"__name__": "cupy.something", "__builtins__": builtins, "moments": moments, "time": time}
    call = types.FunctionType(compile("moments.append(time.perf_counter_ns())", "cupy", "exec"), library)
    log = LineLog()
    if sys.gettrace() is not None:
        pytest.skip("a debugger or a coverage tool traces this run")
    exec(compile(PROGRAM, "<cell>", "exec"), {"__name__": "__main__", "call": call, "log": log, "sys": sys})
    assert [log.at(moment)[1] for moment in moments] == [6, 8, 3, 8, 8, 3, 8, 9]
    assert sys.gettrace() is None
    assert log.at(moments[0] - 10**9) is None
    log.clear()
    assert log.at(moments[-1]) is None


def test_a_trace_function_of_someone_else_stays():
    def theirs(frame, event, argument):
        return None

    before = sys.gettrace()
    sys.settrace(theirs)
    try:
        log = LineLog()
        log.start(sys._getframe())
        assert sys.gettrace() is theirs
        log.stop()
        assert sys.gettrace() is theirs
    finally:
        sys.settrace(before)


# --- without CUPTI -------------------------------------------------------------------------------------------------


def test_without_the_package_the_error_names_it(monkeypatch):
    from cudalab.timeline import cupti

    def missing(name):
        raise ModuleNotFoundError("No module named 'cupti'")

    monkeypatch.setattr(cupti, "import_module", missing)
    with pytest.raises(cupti.TraceError, match="cupti-python.*pip install cupti-python"):
        cupti.load()


def test_trace_on_a_gpu_asks_for_cupti(monkeypatch):
    import cudalab
    from cudalab.timeline import cupti

    asked = []

    class Recording:
        def __init__(self, frame):
            asked.append(frame.f_code.co_name)

        def close(self, names):
            asked.append("closed")

    monkeypatch.setattr(cupti, "CuptiRecording", Recording)
    monkeypatch.setattr(backend, "choice", lambda: backend.Choice("gpu", "", ""))
    with cudalab.trace():
        pass
    assert asked == ["test_trace_on_a_gpu_asks_for_cupti", "closed"]
