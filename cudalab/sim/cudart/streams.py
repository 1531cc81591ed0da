"""Streams, events and host functions."""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings.runtime import cudaError_t, cudaEvent_t, cudaGraph_t, cudaStream_t, cudaStreamCaptureStatus

from cudalab.sim.binding import handle, signed, stream_handle, unsigned, void_pointer
from cudalab.sim.cudart.answer import api
from cudalab.sim.device import CudaError, current_device

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""The C type of a host function: it takes the user data."""
STREAM_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
"""The C type of a stream callback: it takes the stream, the status and the user data."""


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
    current_device().stream_synchronize(stream_handle(stream))


@api()
def cudaStreamQuery(stream: Any) -> None:
    if not current_device().stream_query(stream_handle(stream)):
        raise CudaError(cudaError_t.cudaErrorNotReady)


@api()
def cudaStreamWaitEvent(stream: Any, event: Any, flags: Any) -> None:
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
    current_device().stream_get_flags(stream_handle(hStream))
    return 0


@api(6)
def cudaStreamGetCaptureInfo(
    stream: Any,
) -> tuple[cudaStreamCaptureStatus, int, cudaGraph_t, list[Any], list[Any], int]:
    current_device().stream_get_flags(stream_handle(stream))
    return cudaStreamCaptureStatus.cudaStreamCaptureStatusNone, 0, cudaGraph_t(0), [], [], 0


@api(1)
def cudaStreamIsCapturing(stream: Any) -> cudaStreamCaptureStatus:
    current_device().stream_get_flags(stream_handle(stream))
    return cudaStreamCaptureStatus.cudaStreamCaptureStatusNone


@api()
def cudaLaunchHostFunc(stream: Any, fn: Any, userData: Any) -> None:
    device = current_device()
    address, data = int(fn) if fn is not None else 0, void_pointer(userData)
    if not address:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "cudaLaunchHostFunc: the function is null")
    function = HOST_FUNCTION(address)
    device.launch_host_function(lambda: function(data or None), stream_handle(stream))


@api()
def cudaStreamAddCallback(stream: Any, callback: Any, userData: Any, flags: Any) -> None:
    device = current_device()
    address, data = int(callback) if callback is not None else 0, void_pointer(userData)
    if not address:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "cudaStreamAddCallback: the function is null")
    if unsigned(flags):
        raise device.fail(cudaError_t.cudaErrorInvalidValue, f"cudaStreamAddCallback: flags must be 0 (got {flags})")
    function, number = STREAM_CALLBACK(address), handle(stream)
    device.add_callback(lambda status: function(number or None, status, data or None), stream_handle(stream))


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
    current_device().event_record(handle(event), stream_handle(stream))


@api()
def cudaEventRecordWithFlags(event: Any, stream: Any, flags: Any) -> None:
    current_device().event_record(handle(event), stream_handle(stream), unsigned(flags))


@api()
def cudaEventQuery(event: Any) -> None:
    if not current_device().event_query(handle(event)):
        raise CudaError(cudaError_t.cudaErrorNotReady)


@api()
def cudaEventSynchronize(event: Any) -> None:
    current_device().event_synchronize(handle(event))


@api(1)
def cudaEventElapsedTime(start: Any, end: Any) -> float:
    return current_device().event_elapsed(handle(start), handle(end))
