"""Streams and events."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import (
    CUaccessProperty,
    CUcontext,
    CUdevice,
    CUevent,
    CUlaunchMemSyncDomain,
    CUresult,
    CUstream,
    CUstreamAttrID,
    CUstreamAttrValue,
    CUsynchronizationPolicy,
)

from cudalab.sim.binding import (
    add_callback,
    enumerator,
    handle,
    own_work,
    signed,
    size_t,
    stream_handle,
    struct,
    unsigned,
)
from cudalab.sim.cudart.stream_attributes import fill, numbers_of
from cudalab.sim.device import current_device
from cudalab.sim.driver.answer import api, failed
from cudalab.sim.driver.contexts import context_of


@api(1)
def cuStreamCreate(Flags: Any) -> CUstream:
    return CUstream(current_device().stream_create(unsigned(Flags)))


@api(1)
def cuStreamCreateWithPriority(flags: Any, priority: Any) -> CUstream:
    return CUstream(current_device().stream_create(unsigned(flags), signed(priority)))


@api()
def cuStreamDestroy(hStream: Any) -> None:
    current_device().stream_destroy(stream_handle(hStream))


@api()
def cuStreamSynchronize(hStream: Any) -> None:
    own_work()
    current_device().stream_synchronize(stream_handle(hStream))


@api()
def cuStreamQuery(hStream: Any) -> None:
    own_work()
    if not current_device().stream_query(stream_handle(hStream)):
        raise failed(CUresult.CUDA_ERROR_NOT_READY, "")


@api()
def cuStreamWaitEvent(hStream: Any, hEvent: Any, Flags: Any) -> None:
    own_work()
    current_device().stream_wait_event(stream_handle(hStream), handle(hEvent), unsigned(Flags))


@api(1)
def cuStreamGetFlags(hStream: Any) -> int:
    return current_device().stream_get_flags(stream_handle(hStream))


@api(1)
def cuStreamGetPriority(hStream: Any) -> int:
    return current_device().stream_get_priority(stream_handle(hStream))


@api(1)
def cuStreamGetId(hStream: Any) -> int:
    return current_device().stream_get_id(stream_handle(hStream))


@api(1)
def cuStreamGetDevice(hStream: Any) -> CUdevice:
    return CUdevice(current_device().stream_get_device(stream_handle(hStream)))


@api(1)
def cuStreamGetCtx(hStream: Any) -> CUcontext:
    return context_of(current_device().stream_get_device(stream_handle(hStream)))


@api()
def cuStreamAddCallback(hStream: Any, callback: Any, userData: Any, flags: Any) -> None:
    add_callback("cuStreamAddCallback", hStream, callback, userData, flags)


@api()
def cuStreamAttachMemAsync(hStream: Any, dptr: Any, length: Any, flags: Any) -> None:
    current_device().attach(stream_handle(hStream), handle(dptr), size_t(length), unsigned(flags))


# -- attributes --------------------------------------------------------------------------------------------------------


@api(1)
def cuStreamGetAttribute(hStream: Any, attr: CUstreamAttrID) -> CUstreamAttrValue:
    number = enumerator(attr, "attr")
    found = current_device().stream_get_attribute(stream_handle(hStream), number)
    enums = CUsynchronizationPolicy, CUaccessProperty, CUlaunchMemSyncDomain
    return fill(CUstreamAttrValue(), number, found, *enums)


@api()
def cuStreamSetAttribute(hStream: Any, attr: CUstreamAttrID, value: CUstreamAttrValue | None) -> None:
    number = enumerator(attr, "attr")
    wanted = CUstreamAttrValue() if value is None else struct(value, "value", CUstreamAttrValue)
    current_device().stream_set_attribute(stream_handle(hStream), number, numbers_of(number, wanted))


@api()
def cuStreamCopyAttributes(dst: Any, src: Any) -> None:
    current_device().stream_copy_attributes(stream_handle(dst), stream_handle(src))


# -- values in memory --------------------------------------------------------------------------------------------------


@api()
def cuStreamWaitValue32(stream: Any, addr: Any, value: Any, flags: Any) -> None:
    current_device().stream_wait_value(stream_handle(stream), handle(addr), _value(value, 32), 4, unsigned(flags))


@api()
def cuStreamWaitValue64(stream: Any, addr: Any, value: Any, flags: Any) -> None:
    current_device().stream_wait_value(stream_handle(stream), handle(addr), _value(value, 64), 8, unsigned(flags))


@api()
def cuStreamWriteValue32(stream: Any, addr: Any, value: Any, flags: Any) -> None:
    current_device().stream_write_value(stream_handle(stream), handle(addr), _value(value, 32), 4, unsigned(flags))


@api()
def cuStreamWriteValue64(stream: Any, addr: Any, value: Any, flags: Any) -> None:
    current_device().stream_write_value(stream_handle(stream), handle(addr), _value(value, 64), 8, unsigned(flags))


def _value(value: Any, bits: int) -> int:
    """A ``cuuint32_t`` or ``cuuint64_t``: the bindings' type, or a number that fits."""
    number = int(value)
    if not 0 <= number < 1 << bits:
        raise OverflowError(f"{number} is no unsigned number of {bits} bits")
    return number


# -- events ------------------------------------------------------------------------------------------------------------


@api(1)
def cuEventCreate(Flags: Any) -> CUevent:
    return CUevent(current_device().event_create(unsigned(Flags)))


@api()
def cuEventDestroy(hEvent: Any) -> None:
    current_device().event_destroy(handle(hEvent))


@api()
def cuEventRecord(hEvent: Any, hStream: Any) -> None:
    own_work()
    current_device().event_record(handle(hEvent), stream_handle(hStream))


@api()
def cuEventRecordWithFlags(hEvent: Any, hStream: Any, flags: Any) -> None:
    own_work()
    current_device().event_record(handle(hEvent), stream_handle(hStream), unsigned(flags))


@api()
def cuEventQuery(hEvent: Any) -> None:
    own_work()
    if not current_device().event_query(handle(hEvent)):
        raise failed(CUresult.CUDA_ERROR_NOT_READY, "")


@api()
def cuEventSynchronize(hEvent: Any) -> None:
    own_work()
    current_device().event_synchronize(handle(hEvent))


@api(1)
def cuEventElapsedTime(hStart: Any, hEnd: Any) -> float:
    return current_device().event_elapsed(handle(hStart), handle(hEnd))
