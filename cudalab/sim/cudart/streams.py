"""Streams, events and host functions."""

from __future__ import annotations

from typing import Any

from cuda.bindings.runtime import cudaError_t, cudaEvent_t, cudaStream_t

from cudalab.sim.binding import add_callback, handle, launch_host_function, own_work, signed, stream_handle, unsigned
from cudalab.sim.cudart.answer import api
from cudalab.sim.device import CudaError, current_device


@api(1)
def cudaStreamCreate() -> cudaStream_t:
    return cudaStream_t(current_device().stream_create())


@api(1)
def cudaStreamCreateWithFlags(flags: Any) -> cudaStream_t:
    return cudaStream_t(current_device().stream_create(unsigned(flags)))


@api(1)
def cudaStreamCreateWithPriority(flags: Any, priority: Any) -> cudaStream_t:
    return cudaStream_t(current_device().stream_create(unsigned(flags), signed(priority)))


@api()
def cudaStreamDestroy(stream: Any) -> None:
    current_device().stream_destroy(stream_handle(stream))


@api()
def cudaStreamSynchronize(stream: Any) -> None:
    own_work()
    current_device().stream_synchronize(stream_handle(stream))


@api()
def cudaStreamQuery(stream: Any) -> None:
    own_work()
    if not current_device().stream_query(stream_handle(stream)):
        raise CudaError(cudaError_t.cudaErrorNotReady)


@api()
def cudaStreamWaitEvent(stream: Any, event: Any, flags: Any) -> None:
    own_work()
    current_device().stream_wait_event(stream_handle(stream), handle(event), unsigned(flags))


@api(1)
def cudaStreamGetFlags(hStream: Any) -> int:
    return current_device().stream_get_flags(stream_handle(hStream))


@api(1)
def cudaStreamGetPriority(hStream: Any) -> int:
    return current_device().stream_get_priority(stream_handle(hStream))


@api(1)
def cudaStreamGetId(hStream: Any) -> int:
    return current_device().stream_get_id(stream_handle(hStream))


@api(1)
def cudaStreamGetDevice(hStream: Any) -> int:
    return current_device().stream_get_device(stream_handle(hStream))


@api()
def cudaLaunchHostFunc(stream: Any, fn: Any, userData: Any) -> None:
    launch_host_function("cudaLaunchHostFunc", stream, fn, userData)


@api()
def cudaStreamAddCallback(stream: Any, callback: Any, userData: Any, flags: Any) -> None:
    add_callback("cudaStreamAddCallback", stream, callback, userData, flags)


@api(1)
def cudaEventCreate() -> cudaEvent_t:
    return cudaEvent_t(current_device().event_create())


@api(1)
def cudaEventCreateWithFlags(flags: Any) -> cudaEvent_t:
    return cudaEvent_t(current_device().event_create(unsigned(flags)))


@api()
def cudaEventDestroy(event: Any) -> None:
    current_device().event_destroy(handle(event))


@api()
def cudaEventRecord(event: Any, stream: Any) -> None:
    own_work()
    current_device().event_record(handle(event), stream_handle(stream))


@api()
def cudaEventRecordWithFlags(event: Any, stream: Any, flags: Any) -> None:
    own_work()
    current_device().event_record(handle(event), stream_handle(stream), unsigned(flags))


@api()
def cudaEventQuery(event: Any) -> None:
    own_work()
    if not current_device().event_query(handle(event)):
        raise CudaError(cudaError_t.cudaErrorNotReady)


@api()
def cudaEventSynchronize(event: Any) -> None:
    own_work()
    current_device().event_synchronize(handle(event))


@api(1)
def cudaEventElapsedTime(start: Any, end: Any) -> float:
    return current_device().event_elapsed(handle(start), handle(end))
