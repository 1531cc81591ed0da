"""The legacy default stream: whom it waits for, who waits for it."""

from cudalab import cp, cudart

from ..busy import copied, device_memory, event_state, events, fetched, spin, state, store, streams, warm
from ..program import code, program


@program("an event in the null stream waits for work of a blocking stream")
def waits_for_blocking():
    warm()
    with streams(0) as (stream,), events(1) as (event,):
        spin(stream)
        cudart.cudaEventRecord(event, 0)
        before = [event_state(event), state(stream)]
        cudart.cudaEventSynchronize(event)
        return {"before": before, "after": [event_state(event), state(stream)]}


@program("an event in the null stream does not wait for work of a non-blocking stream")
def does_not_wait_for_non_blocking():
    warm()
    with streams(1) as (stream,), events(1) as (event,):
        spin(stream)
        cudart.cudaEventRecord(event, 0)
        cudart.cudaEventSynchronize(event)
        return {"null": event_state(event), "stream": state(stream)}


@program("work of a blocking stream waits for the null stream")
def blocking_waits_for_null():
    warm()
    with streams(0) as (stream,), events(1) as (event,):
        spin(0)
        cudart.cudaEventRecord(event, stream)
        before = event_state(event)
        cudart.cudaEventSynchronize(event)
        return {"before": before, "null after": state(0)}


@program("work of a non-blocking stream does not wait for the null stream")
def non_blocking_does_not_wait_for_null():
    warm()
    with streams(1) as (stream,), events(1) as (event,):
        spin(0)
        cudart.cudaEventRecord(event, stream)
        cudart.cudaEventSynchronize(event)
        return {"event": event_state(event), "null": state(0)}


@program("two blocking streams do not wait for each other")
def blocking_streams_are_independent():
    warm()
    with streams(0, 0) as (busy, other), events(1) as (event,):
        spin(busy)
        cudart.cudaEventRecord(event, other)
        cudart.cudaEventSynchronize(event)
        return {"other": event_state(event), "busy": state(busy)}


@program("handle 1 (cudaStreamLegacy) is the null stream")
def legacy_handle():
    warm()
    with events(1) as (event,):
        spin(1)
        states = [state(0), state(1)]
        cudart.cudaEventRecord(event, 0)
        states.append(event_state(event))
        sync = code(cudart.cudaStreamSynchronize(1))
        ids = [int(cudart.cudaStreamGetId(handle)[1]) for handle in (0, 1)]
        return {"states": states, "sync": sync, "after": state(0), "same id": ids[0] == ids[1]}


@program("an operation in the null stream between two blocking streams orders them")
def null_separates_blocking():
    warm()
    with streams(0, 0) as (first, second), events(2) as (separator, last):
        spin(first)
        cudart.cudaEventRecord(separator, 0)
        cudart.cudaEventRecord(last, second)
        states = [event_state(separator), event_state(last)]
        cudart.cudaEventSynchronize(last)
        return {"states": states, "first": state(first)}


@program("an operation in the null stream does not order two non-blocking streams")
def null_does_not_separate_non_blocking():
    warm()
    with streams(1, 1) as (first, second), events(2) as (separator, last):
        spin(first)
        cudart.cudaEventRecord(separator, 0)
        cudart.cudaEventRecord(last, second)
        cudart.cudaEventSynchronize(last)
        return {"separator": event_state(separator), "first": state(first)}


@program("a query of the null stream while only another stream is busy")
def query_of_null():
    warm()
    result = {}
    for name, flag in (("blocking", 0), ("non-blocking", 1)):
        with streams(flag) as (stream,):
            spin(stream)
            result[name] = [state(0), state(stream)]
    return result


@program("synchronising the null stream while only another stream is busy")
def synchronise_null():
    warm()
    result = {}
    for name, flag in (("blocking", 0), ("non-blocking", 1)):
        with streams(flag) as (stream,):
            spin(stream)
            result[name] = [code(cudart.cudaStreamSynchronize(0)), state(stream)]
    return result


@program("a query of a blocking stream while only the null stream is busy")
def query_of_blocking():
    warm()
    with streams(0, 1) as (blocking, free):
        spin(0)
        return {"blocking": state(blocking), "non-blocking": state(free), "null": state(0)}


@program("synchronising a blocking stream while only the null stream is busy")
def synchronise_blocking():
    warm()
    with streams(0) as (stream,):
        spin(0)
        return {"code": code(cudart.cudaStreamSynchronize(stream)), "null": state(0)}


@program("a wait in the null stream for a non-blocking stream's event holds up blocking streams")
def wait_in_null():
    warm()
    with streams(1, 0) as (free, blocking), events(2) as (done, last):
        spin(free)
        cudart.cudaEventRecord(done, free)
        cudart.cudaStreamWaitEvent(0, done, 0)
        cudart.cudaEventRecord(last, blocking)
        before = [event_state(last), state(free)]
        cudart.cudaEventSynchronize(last)
        return {"before": before, "after": state(free)}


@program("a blocking stream that is destroyed while busy still holds up the null stream")
def destroyed_while_busy():
    warm()
    with events(1) as (event,):
        _, stream = cudart.cudaStreamCreate()
        spin(stream)
        destroyed = code(cudart.cudaStreamDestroy(stream))
        cudart.cudaEventRecord(event, 0)
        before = event_state(event)
        sync = code(cudart.cudaStreamSynchronize(0))
        return {"destroy": destroyed, "before": before, "sync": sync, "after": event_state(event)}


@program("a stream made after work was put into the null stream waits for it, too")
def made_later():
    warm()
    with events(2) as (one, two):
        spin(0)
        with streams(0, 1) as (blocking, free):
            cudart.cudaEventRecord(one, blocking)
            cudart.cudaEventRecord(two, free)
            cudart.cudaEventSynchronize(two)
            return {"blocking": event_state(one), "non-blocking": event_state(two)}


@program("values through a blocking stream, the null stream and back", expect=lambda v: {"values": [5, 5, 6, 6]})
def values_in_order():
    warm()
    with streams(0) as (stream,), device_memory(64) as memory:
        cells = [memory + 4 * i for i in range(5)]
        spin(stream, cells[0], 5, 20_000_000)
        copied(0, cells[0], cells[1])
        copied(stream, cells[1], cells[2])
        spin(0, cells[0], 6, 20_000_000)
        copied(stream, cells[0], cells[3])
        copied(0, cells[3], cells[4])
        out = fetched(memory, 5)
        return {"values": [int(out[1]), int(out[2]), int(out[3]), int(out[4])]}


@program("a memset in the null stream waits for blocking streams", expect=lambda v: {"out": [0x01010101, 9]})
def memset_in_null():
    warm()
    with streams(0) as (stream,), device_memory(8) as memory:
        spin(stream, memory, 7)
        spin(stream, memory + 4, 9, 1)
        cudart.cudaMemset(memory, 1, 4)
        busy = state(stream)
        return {"busy": busy, "out": fetched(memory, 2).tolist()}


@program("the default stream of CuPy is the null stream", expect=lambda v: {"out": 4})
def of_cupy():
    warm()
    out = cp.zeros(1, cp.int32)
    doubled = out + 1
    with streams(0) as (stream,):
        spin(stream, out.data.ptr, 3)
        doubled = out + 1
        before = [cp.cuda.Stream.null.done, state(stream)]
        return {"before": before, "out": int(doubled[0]), "current": cp.cuda.get_current_stream().ptr}


@program("storing in a non-blocking stream goes past a busy null stream", expect=lambda v: {"early": 0, "late": [1, 2]})
def non_blocking_overtakes():
    warm()
    with streams(1) as (stream,), device_memory(8) as memory, events(1) as (event,):
        spin(0, memory, 1)
        store(stream, memory + 4, 2)
        cudart.cudaEventRecord(event, stream)
        cudart.cudaEventSynchronize(event)
        early = 0 if state(0) == "busy" else 1
        cudart.cudaDeviceSynchronize()
        return {"early": early, "late": fetched(memory, 2).tolist()}
