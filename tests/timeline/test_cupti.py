"""Timelines of a real GPU: spans measured by CUPTI, with streams, lines and waits as on the simulated device."""

import threading

import jsonschema
import numpy as np
import pytest

import cudalab
from cudalab import cp, cudart
from cudalab.timeline.chrome import schema

pytestmark = pytest.mark.gpu

SPIN = """
extern "C" __global__ void spin(float *a, int n, int turns)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i];
    for (int turn = 0; turn < turns; turn++) x = x * 1.0001f + 0.5f;
    a[i] = x;
}
"""
N = 1 << 22
TO_DEVICE = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
TO_HOST = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


@pytest.fixture(scope="module")
def work():
    kernel = cp.RawKernel(SPIN, "spin")
    data = cp.zeros(N, np.float32)
    host = cp.cuda.alloc_pinned_memory(4 * N)

    def stage(name, stream, turns=2000):
        if name == "in":
            cudart.cudaMemcpyAsync(data.data.ptr, host.ptr, 4 * N, TO_DEVICE, stream.ptr)
        elif name == "out":
            cudart.cudaMemcpyAsync(host.ptr, data.data.ptr, 4 * N, TO_HOST, stream.ptr)
        else:
            with stream:
                kernel((N // 256,), (256,), (data, np.int32(N), np.int32(turns)))

    for name in ("in", "kernel", "out"):
        stage(name, cp.cuda.Stream.null)
    cp.cuda.Device().synchronize()
    return stage


def test_spans_are_those_of_the_work(work):
    upload = cp.cuda.Stream(non_blocking=True)
    queued = threading.Event()
    with cudalab.trace() as t:
        # holds the stream until all work is queued, so that however slow the host is, the work waits for itself
        upload.launch_host_func(lambda _: queued.wait(60), None)
        work("in", upload)
        work("kernel", upload)
        work("out", upload)
        queued.set()
    first, second, third = t.work
    assert first.end <= second.start and second.end <= third.start
    assert t.elapsed >= third.end - first.start
    assert [(s.name, s.stream, s.engine) for s in t.work] == [
        ("copy to device", "upload", "H2D copy engine"),
        ("spin", "upload", "SMs"),
        ("copy to host", "upload", "D2H copy engine"),
    ]
    assert [s.waited.rule for s in t.work] == ["host", "stream order", "stream order"]
    assert [s.bytes for s in t.copies] == [4 * N] * 2 and all(20 < s.rate < 400 for s in t.copies)
    assert [s.code.split("(")[0] for s in t.kernels] == ["kernel"] and t.kernels[0].where.startswith("test_cupti.py")
    assert t.label == "measured" and "H200" in t.device or t.device
    jsonschema.validate(t.chrome_trace(), schema())
    upload.synchronize()


def test_an_event_is_what_the_other_stream_waited_for(work):
    first, second = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    with cudalab.trace() as t:
        work("kernel", first, 20_000)
        ready = first.record()
        second.wait_event(ready)
        work("out", second)
        second.synchronize()
    kernel, copy = t.span_of("spin"), t.span_of("copy to host")
    assert copy.start >= kernel.end
    assert t.critical_path[-2:] == [kernel, copy]
    assert t.calls[-1].name == "cudaStreamSynchronize" and t.calls[-1].blocked


def test_a_span_lasts_as_long_as_events_say(work):
    stream = cp.cuda.Stream(non_blocking=True)
    with cudalab.trace() as t:
        begin = stream.record(cp.cuda.Event())
        work("kernel", stream, 20_000)
        end = stream.record(cp.cuda.Event())
        stream.synchronize()
    assert t.kernels[0].microseconds == pytest.approx(1000 * cp.cuda.get_elapsed_time(begin, end), rel=0.05)


def test_recording_costs_little_on_the_host(work):
    stream = cp.cuda.Stream(non_blocking=True)
    work("kernel", stream, 1)
    with cudalab.trace() as t:
        for _ in range(200):
            work("kernel", stream, 1)
        stream.synchronize()
    starts = [call.start for call in t.calls if call.name == "cuLaunchKernel"]
    assert len(starts) == len(t.kernels) == 200
    assert np.median(np.diff(starts)) < 60


def test_host_work_stands_on_the_hosts_row():
    with cudalab.trace() as t:
        cudalab.host_work(500)
    (span,) = t.calls
    assert span.kind == "host work" and 495 < span.microseconds < 600 and 0 <= span.start


def test_traces_nest(work):
    stream = cp.cuda.Stream(non_blocking=True)
    with cudalab.trace() as outer:
        work("in", stream)
        with cudalab.trace() as inner:
            work("out", stream)
        stream.synchronize()
    assert [s.name for s in inner.work][-1] == "copy to host"
    assert [s.name for s in outer.work] == ["copy to device", "copy to host"]
