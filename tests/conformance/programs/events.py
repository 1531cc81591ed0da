"""Events: creation, recording, waiting, timing, reuse and destruction."""

from cudalab import cp, cudart, driver

from ..busy import device_memory, event_state, fetched, spin, state, store, streams, warm
from ..busy import events as made
from ..program import code, program, raised


@program("flags that events can be created with")
def creation_flags():
    result = {}
    for flags in range(9):
        error, event = cudart.cudaEventCreateWithFlags(flags)
        result[str(flags)] = error.name
        if error.name == "cudaSuccess":
            result[str(flags)] += " " + code(cudart.cudaEventDestroy(event))
    cudart.cudaGetLastError()
    return result


@program("an event that was never recorded counts as complete everywhere")
def never_recorded():
    warm()
    with streams(1) as (stream,), made(1) as (event,):
        return {
            "query": code(cudart.cudaEventQuery(event)),
            "synchronise": code(cudart.cudaEventSynchronize(event)),
            "wait": code(cudart.cudaStreamWaitEvent(stream, event, 0)),
            "stream": code(cudart.cudaStreamSynchronize(stream)),
            "last": code(cudart.cudaGetLastError()),
        }


@program("a wait refers to the record that was the last one when the wait was called")
def wait_means_the_last_record():
    warm()
    with streams(1, 1, 1) as (first, second, waiter), made(2) as (event, done):
        spin(first, cycles=20_000_000)
        cudart.cudaEventRecord(event, first)
        cudart.cudaStreamWaitEvent(waiter, event, 0)
        spin(second, cycles=400_000_000)
        cudart.cudaEventRecord(event, second)
        cudart.cudaEventRecord(done, waiter)
        cudart.cudaEventSynchronize(done)
        return {"first": state(first), "second": state(second), "event": event_state(event)}


@program("a record after the wait was called is not waited for")
def record_after_wait():
    warm()
    with streams(1, 1) as (busy, waiter), made(2) as (event, done):
        cudart.cudaStreamWaitEvent(waiter, event, 0)
        spin(busy)
        cudart.cudaEventRecord(event, busy)
        cudart.cudaEventRecord(done, waiter)
        cudart.cudaEventSynchronize(done)
        return {"waiter": state(waiter), "event": event_state(event)}


@program("recording an event again elsewhere forgets the record before")
def recorded_elsewhere():
    warm()
    with streams(1, 1) as (busy, idle), made(1) as (event,):
        spin(busy)
        cudart.cudaEventRecord(event, busy)
        before = event_state(event)
        cudart.cudaEventRecord(event, idle)
        sync = code(cudart.cudaEventSynchronize(event))
        return {"before": before, "sync": sync, "event": event_state(event), "busy": state(busy)}


@program("an event that is destroyed while it is pending still holds up who waits for it")
def destroyed_while_waited_for():
    warm()
    with streams(1, 1) as (busy, waiter), device_memory(8) as memory, made(1) as (done,):
        _, event = cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)
        spin(busy, memory, 3)
        cudart.cudaEventRecord(event, busy)
        cudart.cudaStreamWaitEvent(waiter, event, 0)
        destroyed = code(cudart.cudaEventDestroy(event))
        store(waiter, memory, 4)
        cudart.cudaEventRecord(done, waiter)
        states = [state(busy), event_state(done)]
        cudart.cudaEventSynchronize(done)
        return {"destroy": destroyed, "states": states, "busy": state(busy), "value": fetched(memory, 1).tolist()}


@program("destroying an event returns at once, though its stream is busy")
def destroyed_while_pending():
    warm()
    with streams(1) as (busy,):
        _, event = cudart.cudaEventCreate()
        spin(busy)
        cudart.cudaEventRecord(event, busy)
        return {"destroy": code(cudart.cudaEventDestroy(event)), "busy": state(busy)}


@program("errors of elapsed time, one by one")
def elapsed_errors():
    warm()
    none = cudart.cudaEventDisableTiming

    def elapsed(a, b):
        return code(cudart.cudaEventElapsedTime(a, b))

    with streams(1) as (stream,), made(3) as (a, b, pending), made(1, none) as (untimed,):
        result = {"neither recorded": elapsed(a, b)}
        cudart.cudaEventRecord(a, stream)
        cudart.cudaEventSynchronize(a)
        result["second not recorded"] = elapsed(a, b)
        result["first not recorded"] = elapsed(b, a)
        result["the same"] = [elapsed(a, a), float(cudart.cudaEventElapsedTime(a, a)[1])]
        cudart.cudaEventRecord(untimed, stream)
        cudart.cudaEventSynchronize(untimed)
        result["without timing"] = [elapsed(a, untimed), elapsed(untimed, a), elapsed(untimed, untimed)]
        spin(stream)
        cudart.cudaEventRecord(pending, stream)
        result["pending"] = [elapsed(a, pending), elapsed(pending, a), elapsed(pending, b), elapsed(pending, untimed)]
        cudart.cudaGetLastError()
        result["last"] = [elapsed(a, pending), code(cudart.cudaGetLastError())]
        result["last of unrecorded"] = [elapsed(a, b), code(cudart.cudaGetLastError()), code(cudart.cudaGetLastError())]
        return result


@program("elapsed time between events of two streams, either way round")
def elapsed_between_streams():
    warm()
    with streams(1, 1) as (one, two), made(2) as (start, end):
        cudart.cudaEventRecord(start, one)
        cudart.cudaStreamWaitEvent(two, start, 0)
        spin(two, cycles=20_000_000)
        cudart.cudaEventRecord(end, two)
        cudart.cudaEventSynchronize(end)
        forward = float(cudart.cudaEventElapsedTime(start, end)[1])
        backward = float(cudart.cudaEventElapsedTime(end, start)[1])
        return {"about 10 ms": 5 < forward < 100, "opposite": abs(forward + backward) < 1e-3}


@program("elapsed time of kernels adds up over a chain of events")
def elapsed_adds_up():
    warm()
    with streams(1) as (stream,), made(3) as (a, b, c):
        cudart.cudaEventRecord(a, stream)
        spin(stream, cycles=2_000_000)
        cudart.cudaEventRecord(b, stream)
        spin(stream)
        cudart.cudaEventRecord(c, stream)
        cudart.cudaStreamSynchronize(stream)
        first, second, both = (float(cudart.cudaEventElapsedTime(*p)[1]) for p in ((a, b), (b, c), (a, c)))
        return {"sum": abs(first + second - both) < 0.01, "second is longer": second > first}


@program("an event with pending work has the time of its new record once that is complete")
def reused_for_timing():
    warm()
    with streams(1) as (stream,), made(2) as (start, end):
        times = []
        for cycles in (1_000_000, 200_000_000, 20_000_000):
            cudart.cudaEventRecord(start, stream)
            spin(stream, cycles=cycles)
            cudart.cudaEventRecord(end, stream)
            cudart.cudaEventSynchronize(end)
            times.append(float(cudart.cudaEventElapsedTime(start, end)[1]))
        return {"order": times[0] < times[2] < times[1]}


@program("events for blocking waits and without timing behave alike but for their time")
def blocking_sync():
    warm()
    result = {}
    for name, flags in (("blocking", 1), ("no timing", 2), ("both", 3), ("interprocess", 6)):
        with streams(1) as (stream,), made(1, flags) as (event,):
            spin(stream, cycles=10_000_000)
            record = code(cudart.cudaEventRecord(event, stream))
            before = event_state(event)
            result[name] = [record, before, code(cudart.cudaEventSynchronize(event)), event_state(event)]
    return result


@program("recording with flags: none, external outside a capture, unknown")
def record_flags():
    with streams(1) as (stream,), made(1) as (event,):
        result = {str(flags): code(cudart.cudaEventRecordWithFlags(event, stream, flags)) for flags in (0, 1, 2, 8)}
        result["driver"] = [
            code(driver.cuEventRecordWithFlags(driver.CUevent(event), driver.CUstream(stream), f)) for f in (0, 1, 8)
        ]
        cudart.cudaGetLastError()
        return result


@program("an event outlives the stream that it was recorded in")
def outlives_its_stream():
    warm()
    with made(2) as (start, end):
        _, stream = cudart.cudaStreamCreateWithFlags(1)
        cudart.cudaEventRecord(start, stream)
        spin(stream, cycles=20_000_000)
        cudart.cudaEventRecord(end, stream)
        cudart.cudaStreamDestroy(stream)
        with streams(1) as (other,):
            wait = code(cudart.cudaStreamWaitEvent(other, end, 0))
            sync = code(cudart.cudaStreamSynchronize(other))
        return {
            "wait": wait,
            "sync": sync,
            "event": event_state(end),
            "elapsed": code(cudart.cudaEventElapsedTime(start, end)),
        }


@program("dependencies through events add up over three streams", expect=lambda v: {"values": [1, 2, 3]})
def transitive():
    warm()
    with streams(1, 1, 1) as (a, b, c), made(2, 2) as (ab, bc), device_memory(12) as memory:
        spin(a, memory, 1)
        cudart.cudaEventRecord(ab, a)
        cudart.cudaStreamWaitEvent(b, ab, 0)
        store(b, memory + 4, 2)
        cudart.cudaEventRecord(bc, b)
        cudart.cudaStreamWaitEvent(c, bc, 0)
        store(c, memory + 8, 3)
        before = [state(a), state(b), state(c)]
        cudart.cudaStreamSynchronize(c)
        return {"before": before, "after": [state(a), state(b), state(c)], "values": fetched(memory, 3).tolist()}


@program("one stream waits for the events of several")
def fan_in():
    warm()
    with streams(1, 1, 1) as (a, b, c), made(2) as (one, two), made(1) as (done,):
        spin(a, cycles=20_000_000)
        cudart.cudaEventRecord(one, a)
        spin(b)
        cudart.cudaEventRecord(two, b)
        for event in (one, two):
            cudart.cudaStreamWaitEvent(c, event, 0)
        cudart.cudaEventRecord(done, c)
        cudart.cudaEventSynchronize(done)
        return {"states": [state(a), state(b), state(c)]}


@program("waiting in a stream for an event of that very stream changes nothing")
def own_event():
    warm()
    with streams(1) as (stream,), made(1) as (event,):
        spin(stream, cycles=10_000_000)
        cudart.cudaEventRecord(event, stream)
        wait = code(cudart.cudaStreamWaitEvent(stream, event, 0))
        return {"wait": wait, "sync": code(cudart.cudaStreamSynchronize(stream)), "event": event_state(event)}


@program("a query of a pending event is no error that is remembered")
def query_is_no_error():
    warm()
    cudart.cudaGetLastError()
    with streams(1) as (stream,), made(1) as (event,):
        spin(stream)
        cudart.cudaEventRecord(event, stream)
        return {
            "event": [code(cudart.cudaEventQuery(event)), code(cudart.cudaPeekAtLastError())],
            "stream": [code(cudart.cudaStreamQuery(stream)), code(cudart.cudaGetLastError())],
        }


@program("a stream that waits is busy, though it has no work of its own")
def waiting_stream_is_busy():
    warm()
    with streams(1, 1) as (busy, waiter), made(1) as (event,):
        spin(busy)
        cudart.cudaEventRecord(event, busy)
        cudart.cudaStreamWaitEvent(waiter, event, 0)
        before = state(waiter)
        cudart.cudaEventSynchronize(event)
        cudart.cudaStreamSynchronize(waiter)
        return {"before": before, "after": state(waiter)}


@program("synchronising with an event does not wait for work behind it")
def synchronise_in_the_middle():
    warm()
    with streams(1) as (stream,), made(1) as (event,):
        spin(stream, cycles=10_000_000)
        cudart.cudaEventRecord(event, stream)
        spin(stream)
        sync = code(cudart.cudaEventSynchronize(event))
        return {"sync": sync, "event": event_state(event), "stream": state(stream)}


@program("events of the driver: codes of a pending, a never recorded and a null event")
def of_the_driver():
    warm()
    none = driver.CUevent(0)
    _, event = driver.cuEventCreate(0)
    _, other = driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
    with streams(1) as (stream,):
        handle = driver.CUstream(stream)
        result = {
            "never recorded": [code(driver.cuEventQuery(event)), code(driver.cuEventSynchronize(event))],
            "elapsed of unrecorded": code(driver.cuEventElapsedTime(event, event)),
        }
        spin(stream)
        result["record"] = code(driver.cuEventRecord(event, handle))
        result["pending"] = [code(driver.cuEventQuery(event)), code(driver.cuEventElapsedTime(event, event))]
        result["sync"] = [code(driver.cuEventSynchronize(event)), code(driver.cuEventQuery(event))]
        driver.cuEventRecord(other, handle)
        driver.cuEventSynchronize(other)
        result["without timing"] = code(driver.cuEventElapsedTime(event, other))
        result["null"] = [code(driver.cuEventQuery(none)), code(driver.cuEventRecord(none, handle))]
        result["flags"] = [driver.cuEventCreate(flags)[0].name for flags in (4, 16, 64)]
        result["destroy"] = [code(driver.cuEventDestroy(event)), code(driver.cuEventDestroy(other))]
        return result


@program("events of CuPy: done, waiting, timing, flags that exclude each other")
def of_cupy():
    warm()
    stream = cp.cuda.Stream(non_blocking=True)
    start, end, untimed = cp.cuda.Event(), cp.cuda.Event(block=True), cp.cuda.Event(disable_timing=True)
    fresh = [start.done, raised(start.synchronize)]
    start.record(stream)
    spin(stream)
    stream.record(end)
    pending = [end.done, raised(lambda: cp.cuda.get_elapsed_time(start, end))]
    end.synchronize()
    untimed.record(stream)
    stream.synchronize()
    return {
        "fresh": fresh,
        "pending": pending,
        "done": [start.done, end.done, untimed.done],
        "elapsed": 10 < cp.cuda.get_elapsed_time(start, end) < 500,
        "untimed": raised(lambda: cp.cuda.get_elapsed_time(start, untimed)),
        "interprocess": raised(lambda: cp.cuda.Event(interprocess=True)),
        "both": raised(lambda: cp.cuda.Event(interprocess=True, disable_timing=True)),
        "record gives": type(stream.record()).__name__,
    }


@program("events of CuPy's runtime: numbers in, numbers out")
def of_cupy_runtime():
    warm()
    runtime = cp.cuda.runtime
    stream = runtime.streamCreateWithFlags(1)
    a, b = runtime.eventCreate(), runtime.eventCreateWithFlags(runtime.eventDisableTiming)
    runtime.eventRecord(a, stream)
    spin(stream)
    runtime.eventRecord(b, stream)
    result = {"query": runtime.eventQuery(b), "elapsed": raised(lambda: runtime.eventElapsedTime(a, b))}
    runtime.eventSynchronize(b)
    result["then"] = [
        runtime.eventQuery(b),
        raised(lambda: runtime.eventElapsedTime(a, b)),
        runtime.eventElapsedTime(a, a),
    ]
    result["bad flags"] = raised(lambda: runtime.eventCreateWithFlags(64))
    result["null"] = raised(lambda: runtime.eventRecord(0, stream))
    runtime.eventDestroy(a), runtime.eventDestroy(b), runtime.streamDestroy(stream)
    return result


@program("a null event in each call of the runtime", isolated=True)
def null_event():
    return {
        "record": code(cudart.cudaEventRecord(0, 0)),
        "query": code(cudart.cudaEventQuery(0)),
        "synchronise": code(cudart.cudaEventSynchronize(0)),
        "elapsed": code(cudart.cudaEventElapsedTime(0, 0)),
        "wait": code(cudart.cudaStreamWaitEvent(0, 0, 0)),
        "destroy": code(cudart.cudaEventDestroy(0)),
        "last": code(cudart.cudaGetLastError()),
    }
