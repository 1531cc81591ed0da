"""Streams and events."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import CUcontext, CUdevice, CUevent, CUresult, CUstream, CUstreamCaptureStatus

from cudalab.sim.device import current_device
from cudalab.sim.device.binding import handle, signed, unsigned
from cudalab.sim.driver.answer import api, failed
from cudalab.sim.driver.contexts import PRIMARY


@api(1)
def cuStreamCreate(Flags: Any) -> CUstream:
    return CUstream(current_device().stream_create(unsigned(Flags)))


@api(1)
def cuStreamCreateWithPriority(flags: Any, priority: Any) -> CUstream:
    return CUstream(current_device().stream_create(unsigned(flags), signed(priority)))


@api()
def cuStreamDestroy(hStream: Any) -> None:
    current_device().stream_destroy(handle(hStream))


@api()
def cuStreamSynchronize(hStream: Any) -> None:
    current_device().stream_synchronize(handle(hStream))


@api()
def cuStreamQuery(hStream: Any) -> None:
    if not current_device().stream_query(handle(hStream)):
        raise failed(CUresult.CUDA_ERROR_NOT_READY, "")


@api()
def cuStreamWaitEvent(hStream: Any, hEvent: Any, Flags: Any) -> None:
    current_device().stream_wait_event(handle(hStream), handle(hEvent), unsigned(Flags))


@api(1)
def cuStreamGetFlags(hStream: Any) -> int:
    return current_device().stream_get_flags(handle(hStream))


@api(1)
def cuStreamGetPriority(hStream: Any) -> int:
    return current_device().stream_get_priority(handle(hStream))


@api(1)
def cuStreamGetId(hStream: Any) -> int:
    return current_device().stream_get_id(handle(hStream))


@api(1)
def cuStreamGetDevice(hStream: Any) -> CUdevice:
    current_device().stream_get_flags(handle(hStream))
    return CUdevice(0)


@api(1)
def cuStreamGetCtx(hStream: Any) -> CUcontext:
    current_device().stream_get_flags(handle(hStream))
    return CUcontext(PRIMARY)


@api(1)
def cuStreamIsCapturing(hStream: Any) -> CUstreamCaptureStatus:
    current_device().stream_get_flags(handle(hStream))
    return CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE


@api(1)
def cuEventCreate(Flags: Any) -> CUevent:
    return CUevent(current_device().event_create(unsigned(Flags)))


@api()
def cuEventDestroy(hEvent: Any) -> None:
    current_device().event_destroy(handle(hEvent))


@api()
def cuEventRecord(hEvent: Any, hStream: Any) -> None:
    current_device().event_record(handle(hEvent), handle(hStream))


@api()
def cuEventRecordWithFlags(hEvent: Any, hStream: Any, flags: Any) -> None:
    current_device().event_record(handle(hEvent), handle(hStream), unsigned(flags))


@api()
def cuEventQuery(hEvent: Any) -> None:
    if not current_device().event_query(handle(hEvent)):
        raise failed(CUresult.CUDA_ERROR_NOT_READY, "")


@api()
def cuEventSynchronize(hEvent: Any) -> None:
    current_device().event_synchronize(handle(hEvent))


@api(1)
def cuEventElapsedTime(hStart: Any, hEnd: Any) -> float:
    return current_device().event_elapsed(handle(hStart), handle(hEnd))
