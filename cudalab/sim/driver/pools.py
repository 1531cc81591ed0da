"""Memory pools, stream-ordered allocation and managed memory, under the driver's names."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import (
    CUdeviceptr,
    CUmem_advise,
    CUmem_range_attribute,
    CUmemAccess_flags,
    CUmemAccessDesc,
    CUmemLocation,
    CUmemoryPool,
    CUmemPool_attribute,
    CUmemPoolProps,
    CUresult,
    cuuint64_t,
)

from cudalab.sim.binding import enumerator, handle, size_t, stream_handle, struct, unsigned
from cudalab.sim.cudart.managed import range_attribute
from cudalab.sim.device import current_device
from cudalab.sim.driver.answer import api, failed

_SWITCHES = (1, 2, 3)


@api(1)
def cuMemAllocAsync(bytesize: Any, hStream: Any) -> CUdeviceptr:
    return CUdeviceptr(current_device().malloc_async(size_t(bytesize), stream_handle(hStream)))


@api(1)
def cuMemAllocFromPoolAsync(bytesize: Any, pool: Any, hStream: Any) -> CUdeviceptr:
    return CUdeviceptr(current_device().malloc_from_pool(size_t(bytesize), handle(pool), stream_handle(hStream)))


@api()
def cuMemFreeAsync(dptr: Any, hStream: Any) -> None:
    current_device().free_async(handle(dptr), stream_handle(hStream))


@api(1)
def cuMemPoolCreate(poolProps: CUmemPoolProps | None) -> CUmemoryPool:
    if poolProps is None:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "cuMemPoolCreate: no properties (None)")
    p = struct(poolProps, "poolProps", CUmemPoolProps)
    numbers = (int(p.allocType), int(p.location.type), int(p.location.id), int(p.handleTypes), int(p.maxSize))
    return CUmemoryPool(current_device().pool_create(*numbers))


@api()
def cuMemPoolDestroy(pool: Any) -> None:
    current_device().pool_destroy(handle(pool))


@api(1)
def cuMemPoolGetAttribute(pool: Any, attr: CUmemPool_attribute) -> Any:
    number = enumerator(attr, "attr")
    value = current_device().pool_get_attribute(handle(pool), number)
    return value if number in _SWITCHES else cuuint64_t(value)


@api()
def cuMemPoolSetAttribute(pool: Any, attr: CUmemPool_attribute, value: Any) -> None:
    current_device().pool_set_attribute(handle(pool), enumerator(attr, "attr"), int(value))


@api()
def cuMemPoolTrimTo(pool: Any, minBytesToKeep: Any) -> None:
    current_device().pool_trim(handle(pool), size_t(minBytesToKeep))


@api()
def cuMemPoolSetAccess(pool: Any, map: tuple[CUmemAccessDesc] | list[CUmemAccessDesc] | None, count: Any) -> None:
    places = [(int(d.location.type), int(d.location.id), int(d.flags)) for d in (map or ())[: size_t(count)]]
    current_device().pool_set_access(handle(pool), places)


@api(1)
def cuMemPoolGetAccess(memPool: Any, location: CUmemLocation | None) -> CUmemAccess_flags:
    if location is None:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "cuMemPoolGetAccess: no location (None)")
    place = struct(location, "location", CUmemLocation)
    return CUmemAccess_flags(current_device().pool_get_access(handle(memPool), int(place.type), int(place.id)))


def _only_device(device: Any) -> None:
    if int(device) != 0:
        raise failed(CUresult.CUDA_ERROR_INVALID_DEVICE, f"there is one device, number 0 (asked for {int(device)})")


@api(1)
def cuDeviceGetDefaultMemPool(dev: Any) -> CUmemoryPool:
    _only_device(dev)
    return CUmemoryPool(current_device().default_pool())


@api(1)
def cuDeviceGetMemPool(dev: Any) -> CUmemoryPool:
    _only_device(dev)
    return CUmemoryPool(current_device().current_pool())


@api()
def cuDeviceSetMemPool(dev: Any, pool: Any) -> None:
    _only_device(dev)
    current_device().set_current_pool(handle(pool))


# -- managed memory ----------------------------------------------------------------------------------------------------


@api(1)
def cuMemAllocManaged(bytesize: Any, flags: Any) -> CUdeviceptr:
    size = size_t(bytesize)
    if size == 0:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "cuMemAllocManaged: the size must be above 0")
    return CUdeviceptr(current_device().malloc_managed(size, unsigned(flags)))


@api()
def cuMemPrefetchAsync(devPtr: Any, count: Any, location: CUmemLocation, flags: Any, hStream: Any) -> None:
    place = struct(location, "location", CUmemLocation)
    current_device().prefetch(
        handle(devPtr), size_t(count), int(place.type), int(place.id), unsigned(flags), stream_handle(hStream)
    )


@api()
def cuMemAdvise(devPtr: Any, count: Any, advice: CUmem_advise, location: CUmemLocation) -> None:
    place = struct(location, "location", CUmemLocation)
    current_device().advise(handle(devPtr), size_t(count), enumerator(advice, "advice"), int(place.type), int(place.id))


@api(1)
def cuMemRangeGetAttribute(dataSize: Any, attribute: CUmem_range_attribute, devPtr: Any, count: Any) -> Any:
    return range_attribute(enumerator(attribute, "attribute"), handle(devPtr), size_t(count), size_t(dataSize))


@api(1)
def cuMemRangeGetAttributes(
    dataSizes: tuple[int] | list[int],
    attributes: tuple[CUmem_range_attribute] | list[CUmem_range_attribute] | None,
    numAttributes: Any,
    devPtr: Any,
    count: Any,
) -> list[Any]:
    pointer, size, asked = handle(devPtr), size_t(count), size_t(numAttributes)
    pairs = list(zip(attributes or (), dataSizes, strict=False))[:asked]
    return [range_attribute(int(attribute), pointer, size, bytes_of) for attribute, bytes_of in pairs]
