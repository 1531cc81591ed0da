"""Memory pools and stream-ordered allocation."""

from __future__ import annotations

from typing import Any

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

from cudalab.sim.binding import (
    create_pool,
    enumerator,
    handle,
    known_device,
    pool_access,
    pool_attribute,
    set_pool_access,
    size_t,
    stream_handle,
    struct,
    void_pointer,
)
from cudalab.sim.cudart.answer import api
from cudalab.sim.device import current_device


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
    return cudaMemPool_t(create_pool("cudaMemPoolCreate", poolProps, cudaMemPoolProps))


@api()
def cudaMemPoolDestroy(memPool: Any) -> None:
    current_device().pool_destroy(handle(memPool))


@api(1)
def cudaMemPoolGetAttribute(memPool: Any, attr: cudaMemPoolAttr) -> Any:
    return pool_attribute(memPool, attr)


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
    set_pool_access(memPool, descList, count)


@api(1)
def cudaMemPoolGetAccess(memPool: Any, location: cudaMemLocation | None) -> cudaMemAccessFlags:
    return cudaMemAccessFlags(pool_access("cudaMemPoolGetAccess", memPool, location, cudaMemLocation))


@api(1)
def cudaDeviceGetDefaultMemPool(device: Any) -> cudaMemPool_t:
    return cudaMemPool_t(current_device().default_pool(known_device(device)))


_WRONG = cudaError_t.cudaErrorInvalidValue
"""These two have another code for a device that is not there than the default pool's."""


@api(1)
def cudaDeviceGetMemPool(device: Any) -> cudaMemPool_t:
    return cudaMemPool_t(current_device().current_pool(known_device(device, _WRONG)))


@api()
def cudaDeviceSetMemPool(device: Any, memPool: Any) -> None:
    current_device().set_current_pool(handle(memPool), known_device(device, _WRONG))


@api(1)
def cudaMemGetDefaultMemPool(location: cudaMemLocation | None, typename: cudaMemAllocationType) -> cudaMemPool_t:
    return cudaMemPool_t(current_device().default_pool(_device_of(location, typename)))


@api(1)
def cudaMemGetMemPool(location: cudaMemLocation | None, typename: cudaMemAllocationType) -> cudaMemPool_t:
    return cudaMemPool_t(current_device().current_pool(_device_of(location, typename)))


@api()
def cudaMemSetMemPool(location: cudaMemLocation | None, typename: cudaMemAllocationType, memPool: Any) -> None:
    number = _device_of(location, typename)
    current_device().set_current_pool(handle(memPool), number)


def _device_of(location: Any, typename: Any) -> int:
    device = current_device()
    if location is None:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "no location (None)")
    place = struct(location, "location", cudaMemLocation)
    pinned = enumerator(typename, "typename") == int(cudaMemAllocationType.cudaMemAllocationTypePinned)
    number = int(place.id)
    if int(place.type) != 1 or not 0 <= number < device.count or not pinned:
        raise device.fail(
            cudaError_t.cudaErrorInvalidValue,
            f"a pool holds memory of one of the {device.count} devices, of type cudaMemAllocationTypePinned",
        )
    return number
