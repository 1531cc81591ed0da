"""Streams and events: order, the default stream's rules, queries, errors; times come out of the modelled clock."""

from __future__ import annotations

import _thread
import threading

import numpy as np
import pytest
from cuda.bindings.runtime import cudaError_t
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalab.sim.device import CudaError, Device
from tests.sim.device.conftest import Bench

NON_BLOCKING = 1


def code_of(call, *arguments):
    with pytest.raises(CudaError) as caught:
        call(*arguments)
    return caught.value.code


def spans(device):
    """Ended operations as {name or number: (start, end)}."""
    return {sequence: (start, end) for sequence, _, _, start, end in device.log.spans}


@pytest.fixture
def recorded():
    return Bench(record=True)


def test_a_stream_is_busy_until_its_work_has_ended(bench):
    device = bench.device
    stream = device.stream_create(NON_BLOCKING)
    assert device.stream_query(stream)
    pinned, _ = bench.pinned(1 << 20)
    device.memcpy(pinned, device.malloc(4 << 20), 4 << 20, 2, stream, True)
    assert not device.stream_query(stream)
    device.stream_synchronize(stream)
    assert device.stream_query(stream)


def test_polling_ends(bench):
    """A query advances the modelled clock, so a loop of queries comes to an end."""
    device = bench.device
    pinned, _ = bench.pinned(1 << 18)
    device.memcpy(pinned, device.malloc(1 << 20), 1 << 20, 2, 0, True)
    polls = 0
    while not device.stream_query(0):
        polls += 1
    assert 10 < polls < 1000


def test_host_work_lets_the_device_go_on(bench):
    device = bench.device
    pinned, view = bench.pinned(4)
    device.memcpy(pinned, bench.upload(np.ones(4, np.float32)), 16, 2, 0, True)
    assert view.tolist() == [0, 0, 0, 0]
    device.host_work(1_000_000)
    assert view.tolist() == [1, 1, 1, 1]


def test_priorities_are_clamped(device):
    assert device.stream_priority_range() == (0, -5)
    assert device.stream_get_priority(device.stream_create(NON_BLOCKING, -99)) == -5
    assert device.stream_get_priority(device.stream_create(0, 7)) == 0
    assert device.stream_get_flags(device.stream_create(NON_BLOCKING)) == NON_BLOCKING
    assert code_of(device.stream_create, 9) == cudaError_t.cudaErrorInvalidValue


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_default_streams(device, stream):
    assert device.stream_get_flags(stream) == 0
    assert device.stream_get_priority(stream) == 0
    assert device.stream_query(stream)
    assert code_of(device.stream_destroy, stream) == cudaError_t.cudaErrorInvalidResourceHandle


def test_handles_that_are_none(device):
    stream, event = device.stream_create(), device.event_create()
    device.stream_destroy(stream)
    device.event_destroy(event)
    invalid = cudaError_t.cudaErrorInvalidResourceHandle
    for call, arguments in (
        (device.stream_synchronize, (stream,)),
        (device.stream_query, (stream,)),
        (device.stream_destroy, (stream,)),
        (device.event_query, (event,)),
        (device.event_record, (event, 0)),
        (device.event_destroy, (0,)),
        (device.stream_wait_event, (0, event)),
    ):
        assert code_of(call, *arguments) == invalid


def test_work_of_a_destroyed_stream_completes(bench):
    device = bench.device
    stream = device.stream_create()
    pinned, view = bench.pinned(1 << 16)
    source = bench.upload(np.ones(1 << 16, np.float32))
    device.memcpy(pinned, source, 1 << 18, 2, stream, True)
    device.stream_destroy(stream)
    assert not view.any()
    device.synchronize()
    assert view.all()


def timeline(bench, *streams):
    """One memset of 64 MB in each of the streams; when each ran."""
    device = bench.device
    pointers = [device.malloc(64 << 20) for _ in streams]
    for stream, pointer in zip(streams, pointers, strict=True):
        device.memset(pointer, 1, 64 << 20, stream)
    device.synchronize()
    return [(start, end) for _, kind, _, start, end in sorted(device.log.spans) if kind == "memset"]


def test_streams_run_side_by_side(recorded):
    device = recorded.device
    (_, end), (start, _) = timeline(recorded, device.stream_create(NON_BLOCKING), device.stream_create(NON_BLOCKING))
    assert start < end


@pytest.mark.parametrize("flags", [0, NON_BLOCKING])
def test_the_legacy_stream_separates_blocking_streams_only(recorded, flags):
    device = recorded.device
    one, two = device.stream_create(flags), device.stream_create(flags)
    (_, first_end), (start, end), (last_start, _) = timeline(recorded, one, 0, two)
    assert (start >= first_end) == (flags == 0)
    assert (last_start >= end) == (flags == 0)


def test_the_per_thread_stream_is_a_blocking_stream(recorded):
    (_, first_end), (start, _) = timeline(recorded, 2, 0)
    assert start >= first_end


def test_an_unrecorded_event_is_complete(device):
    event = device.event_create()
    assert device.event_query(event)
    device.event_synchronize(event)
    device.stream_wait_event(0, event)


@pytest.mark.parametrize("flags", [99, 4])
def test_event_flags(device, flags):
    assert code_of(device.event_create, flags) == cudaError_t.cudaErrorInvalidValue


def test_elapsed_time_needs_two_timed_records(device):
    one, two, untimed = device.event_create(), device.event_create(), device.event_create(2)
    invalid = cudaError_t.cudaErrorInvalidResourceHandle
    assert code_of(device.event_elapsed, one, two) == invalid
    device.event_record(one)
    device.event_record(untimed)
    device.synchronize()
    assert code_of(device.event_elapsed, one, two) == invalid
    assert code_of(device.event_elapsed, one, untimed) == invalid
    assert device.event_elapsed(one, one) == 0.0


def test_elapsed_time_of_work_under_way_is_not_ready_and_no_error(bench):
    device = bench.device
    one, two = device.event_create(), device.event_create()
    pointer = device.malloc(1 << 28)
    device.event_record(one)
    device.memset(pointer, 0, 1 << 28)
    device.event_record(two)
    assert not device.event_query(two)
    assert code_of(device.event_elapsed, one, two) == cudaError_t.cudaErrorNotReady
    assert device.peek_at_last_error() == 0
    device.event_synchronize(two)
    milliseconds = device.event_elapsed(one, two)
    assert 0.05 < milliseconds < 0.1  # 65 us for 256 MB on an H200
    assert (milliseconds * 1e6) % 32 == pytest.approx(0, abs=1e-3)


def test_an_event_orders_two_streams(recorded):
    device = recorded.device
    one, two = device.stream_create(NON_BLOCKING), device.stream_create(NON_BLOCKING)
    a, b = device.malloc(64 << 20), device.malloc(64 << 20)
    event = device.event_create(2)
    device.memset(a, 1, 64 << 20, one)
    device.event_record(event, one)
    device.stream_wait_event(two, event)
    device.memset(b, 1, 64 << 20, two)
    device.synchronize()
    (_, end), (start, _) = [(s, e) for _, kind, _, s, e in sorted(device.log.spans) if kind == "memset"]
    assert start >= end


def test_a_wait_refers_to_the_record_at_the_time_of_the_call(recorded):
    device = recorded.device
    one, two = device.stream_create(NON_BLOCKING), device.stream_create(NON_BLOCKING)
    event = device.event_create(2)
    a, b = device.malloc(64 << 20), device.malloc(64 << 20)
    device.event_record(event, one)
    device.stream_wait_event(two, event)
    device.memset(a, 1, 64 << 20, one)
    device.event_record(event, one)  # later: the wait above must not mean this one
    device.memset(b, 1, 64 << 20, two)
    device.synchronize()
    (_, end), (start, _) = [(s, e) for _, kind, _, s, e in sorted(device.log.spans) if kind == "memset"]
    assert start < end


def test_host_functions_run_in_stream_order(bench):
    device = bench.device
    stream = device.stream_create(NON_BLOCKING)
    pinned, view = bench.pinned(4)
    seen = []
    source = bench.upload(np.full(4, 7, np.float32))
    device.synchronize()  # the upload is pageable, and the stream does not wait for the default one
    device.launch_host_function(lambda: seen.append(view.copy()), stream)
    device.memcpy(pinned, source, 16, 2, stream, True)
    device.launch_host_function(lambda: seen.append(view.copy()), stream)
    assert len(seen) < 2
    device.stream_synchronize(stream)
    assert [values.tolist() for values in seen] == [[0] * 4, [7] * 4]


def test_a_host_function_must_not_call_cuda(device, capsys):
    device.launch_host_function(lambda: device.malloc(64))
    device.synchronize()
    report = capsys.readouterr().err
    assert report.count("Exception in the host function") == 1
    assert "cudaErrorNotPermitted: malloc was called in a host function" in report
    assert device.memory.in_use == 0


@pytest.mark.parametrize(("profile", "overlap"), [("h200", True), ("h200-1ce", False), ("h200-0ce", False)])
def test_copies_both_ways_need_two_engines(profile, overlap):
    bench = Bench(profile, record=True)
    device = bench.device
    up, down = device.stream_create(NON_BLOCKING), device.stream_create(NON_BLOCKING)
    size = 4 << 20
    a, b = device.malloc(size), device.malloc(size)
    ha, hb = device.malloc_host(size), device.malloc_host(size)
    device.memcpy(a, ha, size, 1, up, True)
    device.memcpy(hb, b, size, 2, down, True)
    device.synchronize()
    (_, end), (start, _) = [(s, e) for _, kind, _, s, e in sorted(device.log.spans) if kind == "copy"]
    assert (start < end) == overlap


def test_two_copies_one_way_queue(recorded):
    device = recorded.device
    one, two = device.stream_create(NON_BLOCKING), device.stream_create(NON_BLOCKING)
    size = 1 << 20
    host = device.malloc_host(size)
    for stream in (one, two):
        device.memcpy(device.malloc(size), host, size, 1, stream, True)
    device.synchronize()
    (_, end), (start, _) = [(s, e) for _, kind, _, s, e in sorted(device.log.spans) if kind == "copy"]
    assert start >= end


def test_bidirectional_copies_share_the_bus(recorded):
    device = recorded.device
    size = 64 << 20
    up, down = device.stream_create(NON_BLOCKING), device.stream_create(NON_BLOCKING)
    a, b, host, other = device.malloc(size), device.malloc(size), device.malloc_host(size), device.malloc_host(size)
    device.memcpy(a, host, size, 1, up, True)
    device.memcpy(other, b, size, 2, down, True)
    device.synchronize()
    copies = [(s, e) for _, kind, _, s, e in device.log.spans if kind == "copy"]
    took = max(e for _, e in copies) - min(s for s, _ in copies)
    assert took == pytest.approx(1_353_000, rel=0.05)  # measured on an H200; one way takes 1214 us


# -- properties of any program -----------------------------------------------------------------------------------------

operation = st.tuples(
    st.sampled_from(["h2d", "d2h", "memset", "array", "record", "wait"]), st.integers(0, 3), st.integers(0, 2)
)


def run_program(profile, program):
    """Enqueue operations on four streams (the legacy one, a blocking and two non-blocking ones); return device and
    log."""
    device = Device(profile, record=True)
    streams = [0, device.stream_create(), device.stream_create(NON_BLOCKING), device.stream_create(NON_BLOCKING)]
    events = [device.event_create() for _ in range(3)]
    size = 1 << 18
    pointers = [device.malloc(size) for _ in streams]
    host = device.malloc_host(size)
    issued = []
    for kind, index, event in program:
        stream, pointer = streams[index], pointers[index]
        before = device.state.scheduler._sequence
        if kind == "h2d":
            device.memcpy(pointer, host, size >> event, 1, stream, True)
        elif kind == "d2h":
            device.memcpy(host, pointer, size >> event, 2, stream, True)
        elif kind == "memset":
            device.memset(pointer, event, size >> event, stream)
        elif kind == "array":
            device.array_operation("add", lambda: None, [(pointer, size >> event)], [(pointer, size >> event)], stream)
        elif kind == "record":
            device.event_record(events[event], stream)
        else:
            device.stream_wait_event(stream, events[event])
        if device.state.scheduler._sequence > before:
            issued.append((before, index))
    begun = device.clock_ns
    device.synchronize()
    return device, issued, begun


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["h200", "h200-1ce", "h200-0ce", "h200-serial", "laptop"]), st.lists(operation, max_size=25))
def test_order_engines_and_makespan(profile, program):
    device, issued, _ = run_program(profile, program)
    ran = spans(device)
    assert sorted(ran) == sorted(sequence for sequence, _ in issued), "everything ended"
    for index in range(4):
        own = [ran[sequence] for sequence, stream in issued if stream == index]
        assert all(end <= start for (_, end), (start, _) in zip(own, own[1:], strict=False)), "stream order"
    legacy = [ran[sequence] for sequence, stream in issued if stream == 0]
    blocking = [ran[sequence] for sequence, stream in issued if stream == 1]
    assert all(a[1] <= b[0] or b[1] <= a[0] for a in legacy for b in blocking), "the legacy stream separates"
    if profile == "h200":
        for way in ("H2D", "D2H"):
            copies = sorted((s, e) for _, kind, name, s, e in device.log.spans if kind == "copy" and way in name)
            assert all(a[1] <= b[0] for a, b in zip(copies, copies[1:], strict=False)), "one copy at a time an engine"
    if ran:
        gaps = (len(ran) + 1) * 12_000  # launch and engine-switch overheads
        busy = sum(end - start for start, end in ran.values())
        makespan = max(end for _, end in ran.values()) - min(start for start, _ in ran.values())
        assert max(end - start for start, end in ran.values()) <= makespan <= busy + gaps


@settings(max_examples=20, deadline=None)
@given(st.lists(operation, max_size=20))
def test_the_same_program_gives_the_same_timeline(program):
    assert run_program("h200", program)[0].log.spans == run_program("h200", program)[0].log.spans


# -- host functions and callbacks --------------------------------------------------------------------------------------


def test_host_functions_have_a_thread_of_their_own_which_ends(device):
    seen = []
    for _ in range(3):
        device.launch_host_function(lambda: seen.append(threading.current_thread()))
    device.synchronize()
    assert len(seen) == 3
    assert threading.current_thread() not in seen
    assert all(thread.daemon for thread in seen)


def test_a_call_in_a_host_function_is_refused_and_remembered_for_its_thread_only(device):
    from cuda.bindings.runtime import cudaError_t

    codes = []

    def call() -> None:
        for function in (lambda: device.malloc(64), device.synchronize, device.clock_ns.__str__):
            try:
                function()
                codes.append("fine")
            except CudaError as error:
                codes.append(error.code.name)

    device.launch_host_function(call)
    device.synchronize()
    assert codes == ["cudaErrorNotPermitted", "cudaErrorNotPermitted", "fine"]
    assert device.get_last_error() == int(cudaError_t.cudaSuccess)


@pytest.mark.parametrize("error", [KeyError("missing"), SystemExit(3), KeyboardInterrupt()])
def test_what_a_host_function_raises_is_shown_and_goes_no_further(device, capsys, error):
    def fail():
        raise error

    device.launch_host_function(fail)
    calls = []
    device.launch_host_function(lambda: calls.append(1))
    device.synchronize()
    report = capsys.readouterr().err
    line = fail.__code__.co_firstlineno
    assert f"fail' (test_streams.py, line {line}). CUDA ignores what a host function raises" in report
    assert f'test_streams.py", line {line + 1}, in fail\n    raise error\n{type(error).__name__}' in report
    assert calls == [1]


def test_an_exception_in_a_callback_names_the_function(device, capsys):
    def fail(status):
        raise ValueError(f"status {status}")

    device.add_callback(fail)
    device.synchronize()
    report = capsys.readouterr().err
    assert "fail' (test_streams.py" in report
    assert report.endswith("ValueError: status 0\n")


def test_a_host_function_that_does_not_return_is_left_behind(device, capsys):
    device.settings.time_limit = 0.1
    go_on, refused = threading.Event(), threading.Event()

    def late():
        go_on.wait(60)
        try:
            device.malloc(64)
        except CudaError:
            refused.set()

    device.launch_host_function(late)
    calls = []
    device.launch_host_function(lambda: calls.append(1))
    with pytest.raises(CudaError, match=r"late' \(test_streams.py.* has not returned after 0.1 seconds") as caught:
        device.synchronize()
    assert caught.value.code == cudaError_t.cudaErrorTimeout
    assert "cudalab.time_limit(60)" in str(caught.value)
    device.settings.time_limit = 10.0
    device.synchronize()
    assert calls == [1]
    assert device.idle
    go_on.set()
    assert refused.wait(60)  # it still is a host function


def test_an_interrupt_leaves_a_host_function_behind(device):
    go_on = threading.Event()

    def interrupted():
        _thread.interrupt_main()
        go_on.wait(60)

    device.launch_host_function(interrupted)
    with pytest.raises(KeyboardInterrupt):
        device.synchronize()
    go_on.set()
    calls = []
    device.launch_host_function(lambda: calls.append(1))
    device.synchronize()
    assert calls == [1]


def test_a_callback_is_given_the_status_also_after_a_fault(device):
    from cuda.bindings.runtime import cudaError_t

    told, called = [], []
    device.add_callback(told.append)
    device.synchronize()
    assert told == [0]
    stream = device.stream_create(1)
    device.stream_wait_value(stream, device.malloc(4), 1, 4)
    device.add_callback(told.append, stream)
    device.launch_host_function(lambda: called.append(1), stream)
    device.state.fault(None, CudaError(cudaError_t.cudaErrorIllegalAddress, "", sticky=True))
    assert told == [0, 700]
    assert called == []


# -- staging -----------------------------------------------------------------------------------------------------------


def test_the_driver_holds_two_megabytes_of_pageable_memory(bench):
    device = bench.device
    stream, host = device.stream_create(1), np.ones(1 << 20, np.uint8)
    memory, pinned = device.malloc(64 << 20), device.malloc_host(64 << 20)
    device.memcpy(memory, pinned, 64 << 20, 1, stream, True)
    event = device.event_create(2)
    device.event_record(event, stream)
    waited = []
    for _ in range(3):
        device.memcpy(memory, host.ctypes.data, host.nbytes, 1, stream, True)
        waited.append(device.event_query(event))
    assert waited == [False, False, True]


def test_a_staged_copy_ends_when_its_last_piece_can_have_arrived(bench):
    device = bench.device
    stream, host, memory = device.stream_create(1), np.ones(1 << 20, np.uint8), device.malloc(1 << 20)
    start, end = device.event_create(), device.event_create()
    device.event_record(start, stream)
    before = device.clock_ns
    device.memcpy(memory, host.ctypes.data, host.nbytes, 1, stream, True)
    host_ns = device.clock_ns - before
    device.event_record(end, stream)
    device.event_synchronize(end)
    assert 0 < device.event_elapsed(start, end) * 1e6 - host_ns < 10_000
