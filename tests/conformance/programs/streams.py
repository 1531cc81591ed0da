"""Streams and events: states after synchronising, order, waiting, timing rules, errors, host functions."""

import numpy as np

from cudalab import cp, cudart

from ..program import code, program, raised

SPIN = r"""
extern "C" __global__ void k(long long cycles, int* out, int value) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
    *out = value;
}"""


def spin(out, value=1, cycles=100_000_000):
    """Keeps the device busy for about 50 ms, then writes ``value``."""
    cp.RawKernel(SPIN, "k")((1,), (1,), (np.int64(cycles), out, np.int32(value)))


@program("a stream is busy while its kernel runs, and done after synchronising")
def busy_and_done():
    out = cp.zeros(1, cp.int32)
    spin(out, cycles=1)
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    result = {"fresh": stream.done}
    with stream:
        spin(out, 5)
        event = stream.record()
    result["running"] = [
        stream.done,
        event.done,
        code(cudart.cudaStreamQuery(stream.ptr)),
        code(cudart.cudaEventQuery(event.ptr)),
    ]
    stream.synchronize()
    result["after"] = [
        stream.done,
        event.done,
        code(cudart.cudaStreamQuery(stream.ptr)),
        code(cudart.cudaEventQuery(event.ptr)),
    ]
    return {**result, "out": int(out[0]), "last": code(cudart.cudaGetLastError())}


@program("elapsed time between events: not negative, in milliseconds, only when both have happened")
def elapsed_time():
    out = cp.zeros(1, cp.int32)
    spin(out, cycles=1)
    start, middle, end = (cp.cuda.Event() for _ in range(3))
    start.record()
    spin(out)
    middle.record()
    early = raised(lambda: cp.cuda.get_elapsed_time(start, middle))
    end.record()
    end.synchronize()
    spun, empty = cp.cuda.get_elapsed_time(start, middle), cp.cuda.get_elapsed_time(middle, end)
    backwards = cp.cuda.get_elapsed_time(end, start)
    return {
        "early": early,
        "in order": spun >= 0 and empty >= 0,
        "about 50 ms": 10 < spun < 500,
        "backwards is negative": backwards <= 0,
        "same event": cp.cuda.get_elapsed_time(end, end) == 0,
        "type": type(spun).__name__,
    }


@program("events that were never recorded, and events without timing")
def unrecorded_events():
    a, b = cp.cuda.Event(), cp.cuda.Event()
    c, d = cp.cuda.Event(disable_timing=True), cp.cuda.Event(disable_timing=True)
    result = {
        "done": a.done,
        "synchronize": raised(a.synchronize),
        "elapsed": raised(lambda: cp.cuda.get_elapsed_time(a, b)),
    }
    a.record()
    a.synchronize()
    result["one recorded"] = raised(lambda: cp.cuda.get_elapsed_time(a, b))
    c.record(), d.record()
    d.synchronize()
    result["without timing"] = raised(lambda: cp.cuda.get_elapsed_time(c, d))
    result["wait for unrecorded"] = raised(lambda: cp.cuda.Stream().wait_event(b))
    return result


@program(
    "recording an event again moves it",
    expect=lambda v: {"second is later": True},
)
def recorded_again():
    out = cp.zeros(1, cp.int32)
    start, event = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    event.record()
    event.synchronize()
    first = cp.cuda.get_elapsed_time(start, event)
    spin(out, cycles=2_000_000)
    event.record()
    event.synchronize()
    return {"second is later": cp.cuda.get_elapsed_time(start, event) > first}


@program(
    "work of one stream happens in order; an event orders two streams",
    expect=lambda v: {"copied": [7, 9]},
)
def order_of_streams():
    a, b = cp.zeros(1, cp.int32), cp.zeros(2, cp.int32)
    cp.RawKernel(SPIN, "k").compile()
    copy = cp.RawKernel('extern "C" __global__ void c(const int* a, int* b) { *b = *a; }', "c")
    copy.compile()
    cp.cuda.Device().synchronize()
    one, two = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    with one:
        spin(a, 7, 20_000_000)
        ready = one.record()
    two.wait_event(ready)
    with two:
        copy((1,), (1,), (a, b))
        done = two.record()
    one.wait_event(done)
    with one:
        spin(a, 9, 20_000_000)
        copy((1,), (1,), (a, b[1:]))
    one.synchronize(), two.synchronize()
    return {"copied": [int(x) for x in b.get()]}


@program(
    "the default stream waits for blocking streams, and they for it",
    expect=lambda v: {"seen": [3, 4]},
)
def default_stream_order():
    a, b = cp.zeros(1, cp.int32), cp.zeros(2, cp.int32)
    copy = cp.RawKernel('extern "C" __global__ void c(const int* a, int* b) { *b = *a; }', "c")
    copy.compile()
    stream = cp.cuda.Stream()
    with stream:
        spin(a, 3, 20_000_000)
    with cp.cuda.Stream.null:
        copy((1,), (1,), (a, b))
        spin(a, 4, 20_000_000)
    with stream:
        copy((1,), (1,), (a, b[1:]))
    stream.synchronize()
    return {"seen": [int(x) for x in b.get()]}


@program("properties of streams: null, per-thread, flags, priorities, pointers")
def stream_properties():
    runtime = cp.cuda.runtime
    low, high = cudart.cudaDeviceGetStreamPriorityRange()[1:]
    plain, free = cp.cuda.Stream(), cp.cuda.Stream(non_blocking=True)
    flags = [int(cudart.cudaStreamGetFlags(s.ptr)[1]) for s in (plain, free)]
    ranked = [cp.cuda.Stream(priority=p) for p in (0, -2, -100, 50)]
    chosen = [int(cudart.cudaStreamGetPriority(s.ptr)[1]) for s in ranked]
    with plain:
        inside = cp.cuda.get_current_stream() == plain
    return {
        "range": [int(low), int(high)],
        "null": [cp.cuda.Stream.null.ptr, cp.cuda.Stream.null == cp.cuda.Stream(null=True)],
        "per thread": cp.cuda.Stream.ptds.ptr,
        "flags": flags,
        "priorities": chosen,
        "current": [cp.cuda.get_current_stream() == cp.cuda.Stream.null, inside],
        "different": plain != free,
        "nonblocking": int(runtime.streamNonBlocking),
        "default priority": int(cudart.cudaStreamGetPriority(plain.ptr)[1]),
    }


@program("with-blocks nest and use() changes the current stream")
def current_stream():
    a, b = cp.cuda.Stream(), cp.cuda.Stream(non_blocking=True)
    seen = []

    def which():
        current = cp.cuda.get_current_stream()
        return "a" if current == a else "b" if current == b else "null" if current == cp.cuda.Stream.null else "?"

    seen.append(which())
    with a:
        seen.append(which())
        with b:
            seen.append(which())
        seen.append(which())
    seen.append(which())
    a.use()
    seen.append(which())
    cp.cuda.Stream.null.use()
    seen.append(which())
    return {"seen": seen}


@program("streams and events of the runtime: create, record, query, destroy, and use after that")
def runtime_streams():
    flags = cudart.cudaEventDisableTiming
    e1, stream = cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking)
    e2, event = cudart.cudaEventCreateWithFlags(flags)
    e3, timed = cudart.cudaEventCreate()
    codes = [e1.name, e2.name, e3.name]
    codes.append(code(cudart.cudaEventQuery(event)))
    codes.append(code(cudart.cudaEventRecord(event, stream)))
    codes.append(code(cudart.cudaStreamWaitEvent(cudart.cudaStream_t(0), event, 0)))
    codes.append(code(cudart.cudaEventSynchronize(event)))
    codes.append(code(cudart.cudaStreamQuery(stream)))
    codes.append(cudart.cudaEventElapsedTime(event, timed)[0].name)
    codes.append(code(cudart.cudaEventDestroy(event)))
    codes.append(code(cudart.cudaEventDestroy(timed)))
    codes.append(code(cudart.cudaStreamDestroy(stream)))
    codes.append(code(cudart.cudaGetLastError()))
    return {
        "codes": codes,
        "bad flags": cudart.cudaEventCreateWithFlags(0x400)[0].name,
        "bad": cudart.cudaStreamCreateWithFlags(77)[0].name,
    }


@program("a destroyed stream and a null event", isolated=True)
def destroyed_handles():
    _, stream = cudart.cudaStreamCreate()
    cudart.cudaStreamDestroy(stream)
    return {
        "null event record": code(cudart.cudaEventRecord(cudart.cudaEvent_t(0), cudart.cudaStream_t(0))),
        "null event query": code(cudart.cudaEventQuery(cudart.cudaEvent_t(0))),
        "destroy null event": code(cudart.cudaEventDestroy(cudart.cudaEvent_t(0))),
        "destroy null stream": code(cudart.cudaStreamDestroy(cudart.cudaStream_t(0))),
    }


@program(
    "a host function runs in stream order, after the kernel before it",
    expect=lambda v: {"calls": ["first", "second"]},
)
def host_functions():
    calls = []
    out = cp.zeros(1, cp.int32)
    stream = cp.cuda.Stream(non_blocking=True)
    spin(out, cycles=1)
    cp.cuda.Device().synchronize()
    with stream:
        spin(out, 2, 20_000_000)
        stream.launch_host_func(calls.append, "first")
        before = list(calls)
        stream.launch_host_func(calls.append, "second")
    stream.synchronize()
    return {"before": before, "calls": calls}


@program(
    "asynchronous copies from pinned memory wait for their turn",
    expect=lambda v: {"out": np.arange(64, dtype=np.float32) + 1},
)
def pinned_pipeline():
    def pinned(n):
        return np.frombuffer(cp.cuda.alloc_pinned_memory(4 * n), np.float32, n)

    source, back = pinned(64), pinned(64)
    source[:] = np.arange(64)
    add = cp.RawKernel('extern "C" __global__ void a(float* x) { x[threadIdx.x] += 1; }', "a")
    stream = cp.cuda.Stream(non_blocking=True)
    x = cp.empty(64, cp.float32)
    with stream:
        x.set(source, stream=stream)
        add((1,), (64,), (x,))
        x.get(stream=stream, out=back, blocking=False)
    stream.synchronize()
    return {"out": back.copy()}


@program("an event's time does not move when more work follows, and waiting returns once it is reached")
def event_in_the_middle():
    out = cp.zeros(1, cp.int32)
    spin(out, cycles=1)
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        event = stream.record()
        event.synchronize()
        spin(out)
        states = [event.done, stream.done]
    stream.synchronize()
    return {"states": states, "after": [event.done, stream.done]}


@program("the device synchronises all streams")
def device_synchronise():
    out = cp.zeros(4, cp.int32)
    spin(out, cycles=1)
    cp.cuda.Device().synchronize()
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(4)]
    for i, stream in enumerate(streams):
        with stream:
            spin(out[i:], i + 1, 20_000_000)
    cp.cuda.Device().synchronize()
    return {"done": [stream.done for stream in streams], "out": out}


@program("clocks on the device: they advance, and the nanosecond timer too")
def device_clocks():
    out = cp.zeros(3, cp.int64)
    cp.RawKernel(
        r"""
        extern "C" __global__ void k(long long* out) {
            long long a = clock64(); unsigned c = clock(); unsigned long long t, u;
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
            __nanosleep(20000);
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(u));
            out[0] = clock64() > a; out[1] = clock() != c; out[2] = u >= t;
        }""",
        "k",
    )((1,), (1,), (out,))
    return {"advance": out}
