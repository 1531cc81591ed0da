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
)

from cudalab.sim.binding import (
    create_pool,
    enumerator,
    handle,
    known_device,
    pool_access,
    pool_attribute,
    range_attribute,
    range_attributes,
    set_pool_access,
    size_t,
    stream_handle,
    struct,
    unsigned,
)
from cudalab.sim.device import current_device
from cudalab.sim.driver.answer import api, failed


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
    return CUmemoryPool(create_pool("cuMemPoolCreate", poolProps, CUmemPoolProps))


@api()
def cuMemPoolDestroy(pool: Any) -> None:
    current_device().pool_destroy(handle(pool))


@api(1)
def cuMemPoolGetAttribute(pool: Any, attr: CUmemPool_attribute) -> Any:
    return pool_attribute(pool, attr)


@api()
def cuMemPoolSetAttribute(pool: Any, attr: CUmemPool_attribute, value: Any) -> None:
    current_device().pool_set_attribute(handle(pool), enumerator(attr, "attr"), int(value))


@api()
def cuMemPoolTrimTo(pool: Any, minBytesToKeep: Any) -> None:
    current_device().pool_trim(handle(pool), size_t(minBytesToKeep))


@api()
def cuMemPoolSetAccess(pool: Any, map: tuple[CUmemAccessDesc] | list[CUmemAccessDesc] | None, count: Any) -> None:
    set_pool_access(pool, map, count)


@api(1)
def cuMemPoolGetAccess(memPool: Any, location: CUmemLocation | None) -> CUmemAccess_flags:
    return CUmemAccess_flags(pool_access("cuMemPoolGetAccess", memPool, location, CUmemLocation))


@api(1)
def cuDeviceGetDefaultMemPool(dev: Any) -> CUmemoryPool:
    return CUmemoryPool(current_device().default_pool(known_device(int(dev))))


@api(1)
def cuDeviceGetMemPool(dev: Any) -> CUmemoryPool:
    return CUmemoryPool(current_device().current_pool(known_device(int(dev))))


@api()
def cuDeviceSetMemPool(dev: Any, pool: Any) -> None:
    current_device().set_current_pool(handle(pool), known_device(int(dev)))


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
    return range_attributes(dataSizes, attributes, numAttributes, handle(devPtr), size_t(count))
