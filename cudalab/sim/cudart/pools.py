"""Memory pools and stream-ordered allocation."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import cuuint64_t
from cuda.bindings.runtime import (
    cudaError_t,
    cudaMemAccessDesc,
    cudaMemAccessFlags,
    cudaMemAllocationType,
    cudaMemLocation,
    cudaMemPool_t,
    cudaMemPoolAttr,
    cudaMemPoolProps,
)

from cudalab.sim.binding import enumerator, handle, signed, size_t, stream_handle, struct, void_pointer
from cudalab.sim.cudart.answer import api
from cudalab.sim.device import current_device

_SWITCHES = (1, 2, 3)


@api(1)
def cudaMallocAsync(size: Any, hStream: Any) -> int:
    return current_device().malloc_async(size_t(size), stream_handle(hStream))


@api(1)
def cudaMallocFromPoolAsync(size: Any, memPool: Any, stream: Any) -> int:
    return current_device().malloc_from_pool(size_t(size), handle(memPool), stream_handle(stream))


@api()
def cudaFreeAsync(devPtr: Any, hStream: Any) -> None:
    current_device().free_async(void_pointer(devPtr), stream_handle(hStream))


@api(1)
def cudaMemPoolCreate(poolProps: cudaMemPoolProps | None) -> cudaMemPool_t:
    device = current_device()
    if poolProps is None:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "cudaMemPoolCreate: no properties (None)")
    p = struct(poolProps, "poolProps", cudaMemPoolProps)
    numbers = (int(p.allocType), int(p.location.type), int(p.location.id), int(p.handleTypes), int(p.maxSize))
    return cudaMemPool_t(device.pool_create(*numbers))


@api()
def cudaMemPoolDestroy(memPool: Any) -> None:
    current_device().pool_destroy(handle(memPool))


@api(1)
def cudaMemPoolGetAttribute(memPool: Any, attr: cudaMemPoolAttr) -> Any:
    number = enumerator(attr, "attr")
    value = current_device().pool_get_attribute(handle(memPool), number)
    return value if number in _SWITCHES else cuuint64_t(value)


@api()
def cudaMemPoolSetAttribute(memPool: Any, attr: cudaMemPoolAttr, value: Any) -> None:
    current_device().pool_set_attribute(handle(memPool), enumerator(attr, "attr"), int(value))


@api()
def cudaMemPoolTrimTo(memPool: Any, minBytesToKeep: Any) -> None:
    current_device().pool_trim(handle(memPool), size_t(minBytesToKeep))


@api()
def cudaMemPoolSetAccess(
    memPool: Any, descList: tuple[cudaMemAccessDesc] | list[cudaMemAccessDesc] | None, count: Any
) -> None:
    places = [(int(d.location.type), int(d.location.id), int(d.flags)) for d in (descList or ())[: size_t(count)]]
    current_device().pool_set_access(handle(memPool), places)


@api(1)
def cudaMemPoolGetAccess(memPool: Any, location: cudaMemLocation | None) -> cudaMemAccessFlags:
    device = current_device()
    if location is None:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "cudaMemPoolGetAccess: no location (None)")
    place = struct(location, "location", cudaMemLocation)
    return cudaMemAccessFlags(device.pool_get_access(handle(memPool), int(place.type), int(place.id)))


@api(1)
def cudaDeviceGetDefaultMemPool(device: Any) -> cudaMemPool_t:
    if signed(device) != 0:
        raise current_device().fail(cudaError_t.cudaErrorInvalidDevice, f"there is one device, number 0, not {device}")
    return cudaMemPool_t(current_device().default_pool())


@api(1)
def cudaDeviceGetMemPool(device: Any) -> cudaMemPool_t:
    _only_device(device)
    return cudaMemPool_t(current_device().current_pool())


@api()
def cudaDeviceSetMemPool(device: Any, memPool: Any) -> None:
    _only_device(device)
    current_device().set_current_pool(handle(memPool))


def _only_device(device: Any) -> None:
    """These two have another code for a device that is not there than the default pool's."""
    if signed(device) != 0:
        raise current_device().fail(cudaError_t.cudaErrorInvalidValue, f"there is one device, number 0, not {device}")


@api(1)
def cudaMemGetDefaultMemPool(location: cudaMemLocation | None, typename: cudaMemAllocationType) -> cudaMemPool_t:
    _check_place(location, typename)
    return cudaMemPool_t(current_device().default_pool())


@api(1)
def cudaMemGetMemPool(location: cudaMemLocation | None, typename: cudaMemAllocationType) -> cudaMemPool_t:
    _check_place(location, typename)
    return cudaMemPool_t(current_device().current_pool())


@api()
def cudaMemSetMemPool(location: cudaMemLocation | None, typename: cudaMemAllocationType, memPool: Any) -> None:
    _check_place(location, typename)
    current_device().set_current_pool(handle(memPool))


def _check_place(location: Any, typename: Any) -> None:
    device = current_device()
    if location is None:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "no location (None)")
    place = struct(location, "location", cudaMemLocation)
    pinned = enumerator(typename, "typename") == int(cudaMemAllocationType.cudaMemAllocationTypePinned)
    if int(place.type) != 1 or int(place.id) != 0 or not pinned:
        raise device.fail(
            cudaError_t.cudaErrorInvalidValue,
            "pools here hold memory of the device 0, of type cudaMemAllocationTypePinned",
        )
