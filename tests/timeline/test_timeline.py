"""`cudalab.trace` on the simulated device; tests/timeline/test_measured.py has what an H200 recorded."""

from __future__ import annotations

import gc
import json
import threading
import warnings
import weakref

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cudalab
from cudalab import cp, cudart
from cudalab.sim import device as sim_device
from cudalab.sim.device.current import set_current_device
from cudalab.timeline import analysis, chrome
from cudalab.timeline.naming import kernel_name, names_in
from cudalab.timeline.spans import cause

SPIN = """
extern "C" __global__ void spin(float *x, int n, int turns)
{
    for (int turn = 0; turn < turns; turn++)
        for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] += 1.0f;
}
extern "C" __global__ void other(float *x) { x[threadIdx.x] *= 2.0f; }
"""
TO_DEVICE, TO_HOST = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
N, KERNEL_N = 1 << 18, 1 << 12


@pytest.fixture(params=["h200"])
def device(request, monkeypatch):
    """A fresh device of a profile, and the process's own again afterwards. To follow a call takes the host no time: the
    pieces here are short, and it is to be seen what they wait for besides the host (test_host_time.py has the rest)."""
    before = set_current_device(sim_device.Device(request.param))
    for name in ("trace_call", "trace_line", "trace_first"):
        monkeypatch.setitem(sim_device.current_device().profile.host, name, 0.0)
    yield sim_device.current_device()
    set_current_device(before)


class Pieces:
    """Copy in, kernel, copy out, for pieces of one job."""

    def __init__(self, count=2):
        module = cp.RawModule(code=SPIN)
        self.spin, self.other = module.get_function("spin"), module.get_function("other")
        self.x = cp.zeros(N * count, cp.float32)
        self.host = cp.cuda.alloc_pinned_memory(4 * N * count)
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(count)]
        cp.cuda.Device().synchronize()

    def step(self, what, piece, turns=20):
        stream, at = self.streams[piece], 4 * N * piece
        if what == "in":
            cudart.cudaMemcpyAsync(self.x.data.ptr + at, self.host.ptr + at, 4 * N, TO_DEVICE, stream.ptr)
        elif what == "out":
            cudart.cudaMemcpyAsync(self.host.ptr + at, self.x.data.ptr + at, 4 * N, TO_HOST, stream.ptr)
        else:
            part = self.x[piece * N : (piece + 1) * N]
            self.spin((1,), (256,), (part, np.int32(KERNEL_N), np.int32(turns)), stream=stream)

    def depth_first(self):
        for piece in range(len(self.streams)):
            for what in ("in", "kernel", "out"):
                self.step(what, piece)


@pytest.fixture
def pieces(device):
    return Pieces()


def test_every_piece_of_work_is_a_span_with_its_stream_engine_and_line(pieces):
    with cudalab.trace() as t:
        pieces.depth_first()
        cp.cuda.Device().synchronize()
    by_stream = [[(s.name, s.kind, s.engine) for s in t.in_stream(stream)] for stream in t.streams]
    assert by_stream == 2 * [
        [
            ("copy to device", "copy", "H2D copy engine"),
            ("spin", "kernel", "SMs"),
            ("copy to host", "copy", "D2H copy engine"),
        ]
    ]
    kernel = t.span_of("spin", nth=1)
    assert kernel.where.startswith("test_timeline.py, line ") and "self.spin(" in kernel.code
    assert kernel.bound.endswith("% of peak") and "-bound, " in kernel.bound
    copy = t.copies[0]
    assert copy.bytes == 4 * N and copy.rate == pytest.approx(4 * N / copy.microseconds / 1e3)
    assert {span.label for span in t.spans} == {"modelled"} and t.device == "simulated NVIDIA H200"
    assert [span.number for span in t.spans] == list(range(len(t.spans)))


def test_why_a_time_comes_from_the_ptx_is_known_beside_what_bounds_it(device):
    sleep = cp.RawKernel('extern "C" __global__ void sleep(int* p) { __nanosleep(1000); *p = 1; }', "sleep")
    with cudalab.trace() as t:
        sleep((1,), (32,), (cp.zeros(1, cp.int32),))
        cp.cuda.Device().synchronize()
    kernel = t.span_of("sleep")
    assert kernel.extrapolated.startswith("timed by the PTX: ") and kernel.bound.endswith("% of peak")


def test_the_hosts_row_has_the_calls_under_their_cuda_names(pieces):
    with cudalab.trace() as t:
        pieces.step("in", 0)
        pieces.step("kernel", 0, turns=200)
        cudalab.host_work(100)
        cudart.cudaStreamSynchronize(pieces.streams[0].ptr)
        pieces.streams[0].synchronize()
    names = [span.name for span in t.calls if not span.name.startswith("cuModule")]
    assert names == ["cudaMemcpyAsync", "cuLaunchKernel", "host work", "cudaStreamSynchronize", "cudaStreamSynchronize"]
    assert t.span_of("host work").microseconds == 100
    blocked = [span for span in t.calls if span.blocked]
    assert len(blocked) == 1 and blocked[0].waited.span is t.kernels[0]
    assert t.copies[0].call is t.calls[0]


def test_spans_know_what_they_waited_for(pieces):
    with cudalab.trace() as t:
        pieces.depth_first()
        cp.cuda.Device().synchronize()
    first, second = t.streams
    rules = {(s.stream, s.name): (s.waited.rule, s.waited.span) for s in t.work}
    assert rules[first, "copy to device"] == ("host", t.calls[0])
    assert rules[first, "spin"] == ("stream order", t.copies[0])
    assert rules[second, "copy to device"] == ("copy engine", t.copies[0])
    assert rules[first, "copy to host"][0] == "stream order"


def test_events_and_the_default_stream_are_looked_through(pieces):
    first, second = pieces.streams
    with cudalab.trace() as t:
        pieces.step("kernel", 0)
        second.wait_event(first.record())
        pieces.step("out", 1)
        cp.cuda.Device().synchronize()
    copy = t.copies[0]
    assert copy.waited.span.kind == "event wait"
    assert (cause(copy).rule, cause(copy).span) == ("event", t.kernels[0])
    assert t.critical_path[-2:] == [t.kernels[0], copy]
    plain = cp.cuda.Stream()
    with cudalab.trace() as t:
        pieces.other((1,), (32,), (pieces.x,), stream=plain)
        pieces.other((1,), (32,), (pieces.x,), stream=cp.cuda.Stream.null)
        pieces.spin((1,), (256,), (pieces.x, np.int32(KERNEL_N), np.int32(200)), stream=cp.cuda.Stream.null)
        pieces.other((1,), (32,), (pieces.x,), stream=plain)
        cp.cuda.Device().synchronize()
    last = t.kernels[-1]
    assert (last.stream, cause(last).rule) == ("plain", "default stream")
    assert cause(last).span.stream == "default stream" and t.streams[0] == "default stream"


@pytest.mark.parametrize(
    "device, engines, pair",
    [
        ("h200", ["H2D copy engine", "D2H copy engine", "SMs"], ("H2D copy engine", "D2H copy engine")),
        ("h200-1ce", ["copy engine", "SMs"], ("copy engine", "copy engine")),
        ("h200-0ce", ["SMs"], ("SMs", "SMs")),
    ],
    indirect=["device"],
)
def test_engines_are_those_of_the_device(device, engines, pair):
    pieces = Pieces()
    with cudalab.trace() as t:
        pieces.depth_first()
        cp.cuda.Device().synchronize()
    assert list(t.idle) == engines
    assert (t.span_of("copy to device").engine, t.span_of("copy to host").engine) == pair
    if len(engines) == 1:
        assert t.overlap.engines == 0 and t.idle["SMs"] < 50


def test_streams_bear_the_learners_names(device):
    upload, plain = cp.cuda.Stream(non_blocking=True), [cp.cuda.Stream(), cp.cuda.Stream()]
    code, raw = cudart.cudaStreamCreate()
    x = cp.zeros(8, cp.float32)
    kernel = cp.RawModule(code=SPIN).get_function("other")
    with cudalab.trace(streams={"given": plain[1]}) as t:
        for stream in (upload, *plain, cp.cuda.Stream.null):
            kernel((1,), (8,), (x,), stream=stream)
        cudart.cudaMemsetAsync(x.data.ptr, 0, 32, raw)
        kernel((1,), (8,), (x,), stream=cp.cuda.Stream())
    assert t.streams == ["default stream", "upload", "plain[0]", "given", "stream 4", "stream 5"]
    assert t.in_stream(upload) == t.in_stream("upload") and t.in_stream(int(raw))[0].stream == "stream 4"
    with pytest.raises(KeyError, match="no work in stream 'none such'; there are default stream, upload"):
        t.in_stream("none such")


def test_a_bare_handle_names_no_stream():
    """Its stream may be gone, and a GPU's driver does not survive a question about that."""
    import sys

    code, raw = cudart.cudaStreamCreate()
    wrapped = cp.cuda.Stream.from_external(_Handle(raw))
    kept = cp.cuda.Stream()
    cudart.cudaStreamDestroy(raw)
    assert names_in(sys._getframe()) == {kept.ptr: "kept"}
    assert wrapped.ptr == int(raw)


class _Handle:
    """A stream of the runtime, for CuPy."""

    def __init__(self, handle):
        self.handle = int(handle)

    def __cuda_stream__(self):
        return 0, self.handle


def test_names_prefer_what_stays_to_what_a_loop_leaves():
    streams = [cp.cuda.Stream() for _ in range(2)]
    s = streams[1]
    import sys

    names = names_in(sys._getframe())
    assert [names[stream.ptr] for stream in streams] == ["streams[0]", "streams[1]"] and s is streams[1]


def test_trace_refuses_what_is_no_stream():
    with pytest.raises(TypeError, match=r"streams\['a'\] must be a CuPy stream.*got 'no stream'"):
        cudalab.trace(streams={"a": "no stream"})


def test_percentages_and_times(pieces):
    with cudalab.trace() as t:
        pieces.depth_first()
        cp.cuda.Device().synchronize()
    begin, end = t.window
    assert begin == min(s.start for s in t.work) and end == max(s.end for s in t.work) and t.elapsed == end - begin
    busy = sum(s.microseconds for s in t.copies if s.engine == "H2D copy engine")
    assert t.idle["H2D copy engine"] == pytest.approx(100 * (1 - busy / t.elapsed))
    steps = np.linspace(begin, end, 20001)
    copying = np.zeros(steps.size, bool)
    computing = np.zeros(steps.size, bool)
    for span in t.work:
        (copying if span.kind == "copy" else computing)[(steps >= span.start) & (steps < span.end)] = True
    assert t.overlap.copies_and_kernels == pytest.approx(100 * np.mean(copying & computing), abs=0.1)
    assert t.host_elapsed > t.calls[-1].start


def test_summary_says_what_overlapped_what_idled_and_what_decided(pieces):
    with cudalab.trace() as t:
        pieces.depth_first()
        cp.cuda.Device().synchronize()
    assert t.summary.startswith(f"Copies and kernels overlap for {t.overlap.copies_and_kernels:.0f} % of the ")
    assert f"the D2H copy engine idles {t.idle['D2H copy engine']:.0f} %" in t.summary
    assert "critical path goes through copy to device" in t.summary
    assert t.summary.endswith("modelled on a simulated NVIDIA H200.") and repr(t) == t.summary
    with cudalab.trace() as nothing:
        pass
    assert nothing.summary == "No work reached the device: nothing; modelled on a simulated NVIDIA H200."
    assert (nothing.elapsed, nothing.critical_path, nothing.spans) == (0, [], [])


def test_a_host_that_asks_too_late_is_named(pieces):
    with cudalab.trace() as t:
        for _ in range(5):
            pieces.other((1,), (32,), (pieces.x,))
            cudalab.host_work(200)
    assert "the host decides the time" in t.summary


def test_table_gives_the_learners_line_what_the_page_has_left(pieces):
    with cudalab.trace() as t:
        pieces.other((1,), (32,), (pieces.x,))  # a line with so many words that no page has room for all of them
    _heads, launch = t.table(calls=False).splitlines()[1:]
    assert launch.endswith("…") and len(launch) == 100, "24 characters, and what the short columns leave"


def test_table_lists_every_span_with_what_it_waited_for(pieces):
    with cudalab.trace() as t:
        pieces.depth_first()
        cp.cuda.Device().synchronize()
    lines = t.table(calls=False).splitlines()
    assert lines[0] == "Times in µs from the trace's begin, modelled."
    assert lines[1].split()[:4] == ["stream", "what", "start", "took"] and len(lines) == 2 + len(t.work)
    assert any("copy engine: copy to device (" in line and "1 MiB" in line for line in lines)
    assert max(map(len, lines)) <= 132, "a printed table fits the page"
    markup = t.table(calls=False)._repr_html_()
    assert markup.count("<tr>") == 1 + len(t.work) and "copy engine: copy to device (" in markup
    assert t.table(most=3).splitlines()[-1] == f"… and {len(t.spans) - 3} more; table(most={len(t.spans)}) shows all"


@pytest.mark.parametrize("device", ["h200"], indirect=True)
def test_the_load_of_the_sms_is_a_part_of_all_of_them(device):
    kernel = cp.RawModule(code=SPIN).get_function("other")
    x = cp.zeros(1 << 16, cp.float32)
    loads = {}
    cp.cuda.Device().synchronize()
    for blocks in (1, 66, 132, 1000):
        with cudalab.trace() as t:
            kernel((blocks,), (32,), (x,))
            cp.cuda.Device().synchronize()
        assert t.span_of("kernel").blocks == blocks
        loads[blocks] = t.sm_load
    assert loads == {1: pytest.approx(100 / 132), 66: pytest.approx(50), 132: 100, 1000: 100}


@pytest.mark.parametrize("device", ["h200"], indirect=True)
def test_each_host_thread_is_told_apart_and_a_hazard_knows_its_two_spans(device):
    kernel = cp.RawModule(code=SPIN).get_function("other")
    x, a, b = cp.zeros(64, cp.float32), cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with warnings.catch_warnings(), cudalab.trace() as t:
        warnings.simplefilter("ignore")
        kernel((1,), (32,), (x,), stream=a)
        helper = threading.Thread(target=lambda: kernel((1,), (32,), (x,), stream=b), name="helper")
        helper.start()
        helper.join()
        cp.cuda.Device().synchronize()
    assert {span.thread for span in t.calls} == {"", "helper"}
    first, second = t.kernels
    assert first.hazards and second.conflicts == (first,) and first.conflicts == ()
    svg = t.picture().svg()
    assert "host: helper" in svg and "nothing orders other and other" in svg and "hazard: nothing orders these" in svg


# --- when it looks, and what it leaves alone -----------------------------------------------------------------------


def test_leaving_the_block_waits_for_nothing_and_looking_completes(pieces):
    device = sim_device.current_device()
    host = np.frombuffer(pieces.host, np.float32, N)
    host[:] = -1
    with cudalab.trace() as t:
        pieces.step("kernel", 0, turns=100)
        pieces.step("out", 0)
    assert not device.idle and (host == -1).all()
    assert t.span_of("copy to host").complete
    assert device.idle and (host[:KERNEL_N] == 100).all()
    assert t.host_elapsed < t.span_of("spin").end


@pytest.mark.filterwarnings("ignore::cudalab.sim.device.hazards.HazardWarning")
def test_looking_is_no_wait_for_the_hazard_report(pieces):
    with cudalab.trace() as t:
        pieces.step("kernel", 0)
        pieces.spin((1,), (256,), (pieces.x, np.int32(KERNEL_N), np.int32(1)), stream=pieces.streams[1])
    assert len(t.hazards) == 1 and "after" in t.hazards[0].kind.value
    assert [bool(span.hazards) for span in t.kernels] == [True, True]
    assert t.summary.endswith("1 hazard: nothing orders work on the same bytes.") and t.hazard_note == ""
    with cudalab.trace() as later:
        pieces.spin((1,), (256,), (pieces.x, np.int32(KERNEL_N), np.int32(1)), stream=pieces.streams[0])
    assert len(later.hazards) == 1, "looking at the first trace must not have ordered the two blocks"


def test_work_from_before_is_part_of_it(pieces):
    pieces.step("kernel", 0, turns=200)
    cudalab.host_work(20)
    with cudalab.trace() as t:
        pieces.step("out", 0)
    kernel, copy = t.work
    assert kernel.start <= 0 < kernel.end and kernel.call is None
    assert copy.waited.span is kernel
    pieces.streams[0].synchronize()


def test_what_comes_after_the_block_is_not(pieces):
    with cudalab.trace() as t:
        pieces.step("in", 0)
    pieces.step("out", 0)
    pieces.streams[0].synchronize()
    assert [span.name for span in t.work] == ["copy to device"]


def test_traces_nest(pieces):
    with cudalab.trace() as outer:
        pieces.step("in", 0)
        with cudalab.trace() as inner:
            pieces.step("kernel", 0)
        assert inner.span_of("spin").complete
        pieces.step("out", 0)
    pieces.streams[0].synchronize()
    assert [s.name for s in outer.work] == ["copy to device", "spin", "copy to host"]
    assert inner.work[-1].name == "spin"


def test_an_error_goes_on_and_the_timeline_is_kept(pieces):
    with pytest.raises(ZeroDivisionError):
        with cudalab.trace() as t:
            pieces.step("in", 0)
            1 / 0  # noqa: B018
    assert isinstance(t.error, ZeroDivisionError) and [s.name for s in t.work] == ["copy to device"]
    assert t.summary.endswith("the block ended with ZeroDivisionError.")


@pytest.mark.filterwarnings("ignore::cudalab.sim.device.hazards.HazardWarning")
def test_work_lost_to_a_fault_never_ended(device):
    wrong = cp.RawKernel('extern "C" __global__ void wrong(float *x) { x[1 << 28] = 1; }', "wrong")
    x = cp.zeros(8, cp.float32)
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="IllegalAddress"):
        with cudalab.trace() as t:
            wrong((1,), (1,), (x,))
            x += 1
            cp.cuda.Device().synchronize()
    assert [(s.name, s.complete) for s in t.kernels] == [("wrong", False)]
    assert "(never ended)" in t.table()


def test_inside_the_block_it_says_that_it_is_too_early():
    with cudalab.trace() as t:
        assert "has not ended" in repr(t)
        with pytest.raises(RuntimeError, match="look at the timeline after it"):
            t.spans  # noqa: B018


def test_a_trace_object_records_one_block():
    block = cudalab.trace()
    with block:
        pass
    with pytest.raises(RuntimeError, match="records one block"):
        block.__enter__()


def test_a_trace_keeps_no_array_alive(device):
    x = cp.zeros(1 << 10, cp.float32)
    cp.cuda.Device().synchronize()
    gone = weakref.ref(x)
    with cudalab.trace() as t:
        x += 1
        cp.cuda.Device().synchronize()
    del x
    gc.collect()
    assert t.span_of("add").complete and gone() is None


def test_observers_go_when_they_have_seen_all(pieces):
    device = sim_device.current_device()
    before = len(device.observers)
    for _ in range(3):
        with cudalab.trace():
            pieces.step("in", 0)
        pieces.streams[0].synchronize()
    with cudalab.trace() as t:
        pass
    assert t.spans == [] and len(device.observers) == before


def test_the_same_program_gives_the_same_timeline(device):
    def run():
        pieces = Pieces()
        with cudalab.trace() as t:
            pieces.depth_first()
            cp.cuda.Device().synchronize()
        return [(s.name, s.stream, s.microseconds) for s in t.work]

    assert run() == run()


# --- files -----------------------------------------------------------------------------------------------------------


def test_chrome_trace_fits_the_schema_and_its_rows_hold_one_slice_at_a_time(pieces, tmp_path):
    with cudalab.trace() as t:
        pieces.depth_first()
        pieces.streams[0].wait_event(pieces.streams[1].record())
        pieces.step("kernel", 0)
        cp.cuda.Device().synchronize()
    written = json.loads(t.save(tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(t.chrome_trace()))
    jsonschema.validate(written, chrome.schema())
    events = written["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    streams = [event for event in slices if event["pid"] == chrome.STREAMS]
    assert len(streams) == len(t.spans)
    rows = {}
    for event in slices:
        rows.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for row in rows.values():
        assert all(later[0] >= earlier[1] - 2e-3 for earlier, later in zip(row, row[1:], strict=False))
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert named == set(rows)
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys() and all(ends[at]["ts"] >= starts[at]["ts"] - 2e-3 for at in starts)
    assert any(e["name"] == "event" for e in starts.values())
    waited = [e["args"].get("waited for", "") for e in streams]
    assert any(text.startswith("copy engine: copy to device") for text in waited)


def test_the_schema_refuses_what_perfetto_would_not_read():
    event = {
        "ph": "X",
        "name": "a",
        "pid": 1,
        "tid": 0,
        "cat": "kernel",
        "ts": 0,
        "dur": 1,
        "args": {"times": "modelled"},
    }
    other = {"device": "d", "times": "modelled", "summary": "", "writer": "cudalab"}
    whole = {"traceEvents": [event], "displayTimeUnit": "ns", "otherData": other}
    jsonschema.validate(whole, chrome.schema())
    for wrong in ({"dur": -1}, {"ts": "0"}, {"ph": "B"}, {"tid": -1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(whole | {"traceEvents": [event | wrong]}, chrome.schema())


# --- arithmetic of intervals ---------------------------------------------------------------------------------------

INTERVALS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (float(min(pair)), float(max(pair)))), max_size=8
)


def cells(intervals):
    return {at for start, end in intervals for at in range(int(start), int(end))}


@given(INTERVALS, INTERVALS)
@settings(max_examples=150, deadline=None)
def test_intervals_are_sets_of_moments(one, other):
    a, b = analysis.union(one), analysis.union(other)
    assert cells(a) == cells(one) and analysis.length(a) == len(cells(one))
    assert all(earlier[1] < later[0] for earlier, later in zip(a, a[1:], strict=False))
    assert cells(analysis.intersection(a, b)) == cells(one) & cells(other)
    counts = [at for start, end in one for at in range(int(start), int(end))]
    assert cells(analysis.twice(one)) == {at for at in counts if counts.count(at) > 1}


@pytest.mark.parametrize(
    "microseconds, text",
    [(0, "0 µs"), (0.4, "400 ns"), (1.234, "1.23 µs"), (99.96, "100 µs"), (999.6, "1.00 ms"), (1936, "1.94 ms")],
)
def test_times_have_three_digits_and_a_unit(microseconds, text):
    assert analysis.time_text(microseconds) == text


@pytest.mark.parametrize(
    "mangled, name",
    [
        ("scale", "scale"),
        ("_Z5scaleIfEvPT_S0_", "scale<float>"),
        ("_Z5shiftIfLi4EEvPT_", "shift<float, 4>"),
        ("_Z5shiftIdLin4ELb1EEvPT_", "shift<double, -4, true>"),
        ("_ZN4mine5scaleEPf", "mine::scale"),
        ("_Z3runI6VectorEvT_", "run"),
        ("cupy_multiply", "multiply"),
    ],
)
def test_kernels_have_the_names_of_their_source(mangled, name):
    assert kernel_name(mangled) == name
