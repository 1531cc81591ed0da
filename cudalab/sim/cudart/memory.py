"""Allocation and registration of memory, and what a pointer is."""

from __future__ import annotations

from typing import Any

from cuda.bindings.runtime import cudaExtent, cudaMemoryType, cudaPitchedPtr, cudaPointerAttributes, make_cudaPitchedPtr

from cudalab.sim.binding import size_t, struct, unsigned, void_pointer
from cudalab.sim.cudart.answer import api
from cudalab.sim.device import current_device


@api(1)
def cudaMalloc(size: Any) -> int:
    return current_device().malloc(size_t(size))


@api()
def cudaFree(devPtr: Any) -> None:
    current_device().free(void_pointer(devPtr))


@api(2)
def cudaMallocPitch(width: Any, height: Any) -> tuple[int, int]:
    return current_device().malloc_pitch(size_t(width), size_t(height))


@api(1)
def cudaMalloc3D(extent: cudaExtent) -> cudaPitchedPtr:
    extent = struct(extent, "extent", cudaExtent)
    pointer, pitch = current_device().malloc_3d(extent.width, extent.height, extent.depth)
    return make_cudaPitchedPtr(pointer, pitch, extent.width, extent.height)


@api(1)
def cudaMallocHost(size: Any) -> int:
    return current_device().malloc_host(size_t(size))


@api(1)
def cudaHostAlloc(size: Any, flags: Any) -> int:
    return current_device().malloc_host(size_t(size), unsigned(flags))


@api()
def cudaFreeHost(ptr: Any) -> None:
    current_device().free_host(void_pointer(ptr))


@api()
def cudaHostRegister(ptr: Any, size: Any, flags: Any) -> None:
    current_device().host_register(void_pointer(ptr), size_t(size), unsigned(flags))


@api()
def cudaHostUnregister(ptr: Any) -> None:
    current_device().host_unregister(void_pointer(ptr))


@api(1)
def cudaHostGetDevicePointer(pHost: Any, flags: Any) -> int:
    return current_device().host_get_device_pointer(void_pointer(pHost), unsigned(flags))


@api(1)
def cudaHostGetFlags(pHost: Any) -> int:
    return current_device().host_get_flags(void_pointer(pHost))


@api(2)
def cudaMemGetInfo() -> tuple[int, int]:
    return current_device().memory_info()


@api(1)
def cudaPointerGetAttributes(ptr: Any) -> cudaPointerAttributes:
    found = current_device().pointer_attributes(void_pointer(ptr))
    result = cudaPointerAttributes()
    result.type = cudaMemoryType(found.type)
    result.device = found.device
    result.devicePointer = found.device_pointer
    result.hostPointer = found.host_pointer
    return result
