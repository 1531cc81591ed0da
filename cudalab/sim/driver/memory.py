"""Memory: allocation, registration, copies and memsets, and what a pointer is."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import (
    CUDA_MEMCPY2D,
    CUDA_MEMCPY3D,
    CUdeviceptr,
    CUmemorytype,
    CUpointer_attribute,
    CUresult,
)

from cudalab.sim.device import current_device
from cudalab.sim.device.binding import enumerator, handle, size_t, struct, unsigned, void_pointer
from cudalab.sim.driver.answer import api, failed

_TO_DEVICE, _TO_HOST, _WITHIN, _DEFAULT = 1, 2, 3, 4


def _some(size: int, name: str) -> int:
    """The driver, unlike the runtime, refuses an allocation of 0 bytes."""
    if size == 0:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"{name}: the size must be above 0")
    return size


@api(1)
def cuMemAlloc(bytesize: Any) -> CUdeviceptr:
    return CUdeviceptr(current_device().malloc(_some(size_t(bytesize), "cuMemAlloc")))


@api()
def cuMemFree(dptr: Any) -> None:
    current_device().free(handle(dptr))


@api(1)
def cuMemAllocAsync(bytesize: Any, hStream: Any) -> CUdeviceptr:
    return CUdeviceptr(current_device().malloc_async(_some(size_t(bytesize), "cuMemAllocAsync"), handle(hStream)))


@api()
def cuMemFreeAsync(dptr: Any, hStream: Any) -> None:
    current_device().free_async(handle(dptr), handle(hStream))


@api(2)
def cuMemAllocPitch(WidthInBytes: Any, Height: Any, ElementSizeBytes: Any) -> tuple[CUdeviceptr, int]:
    if unsigned(ElementSizeBytes) not in (4, 8, 16):
        raise failed(
            CUresult.CUDA_ERROR_INVALID_VALUE,
            f"cuMemAllocPitch: elements have 4, 8 or 16 bytes (got {ElementSizeBytes})",
        )
    pointer, pitch = current_device().malloc_pitch(
        _some(size_t(WidthInBytes), "cuMemAllocPitch"), _some(size_t(Height), "cuMemAllocPitch")
    )
    return CUdeviceptr(pointer), pitch


@api(1)
def cuMemAllocManaged(bytesize: Any, flags: Any) -> CUdeviceptr:
    size = _some(size_t(bytesize), "cuMemAllocManaged")
    return CUdeviceptr(current_device().malloc_managed(size, unsigned(flags)))


@api(1)
def cuMemAllocHost(bytesize: Any) -> int:
    return current_device().malloc_host(_some(size_t(bytesize), "cuMemAllocHost"))


@api(1)
def cuMemHostAlloc(bytesize: Any, Flags: Any) -> int:
    return current_device().malloc_host(_some(size_t(bytesize), "cuMemHostAlloc"), unsigned(Flags))


@api()
def cuMemFreeHost(p: Any) -> None:
    current_device().free_host(void_pointer(p))


@api()
def cuMemHostRegister(p: Any, bytesize: Any, Flags: Any) -> None:
    current_device().host_register(void_pointer(p), size_t(bytesize), unsigned(Flags))


@api()
def cuMemHostUnregister(p: Any) -> None:
    current_device().host_unregister(void_pointer(p))


@api(1)
def cuMemHostGetDevicePointer(p: Any, Flags: Any) -> CUdeviceptr:
    return CUdeviceptr(current_device().host_get_device_pointer(void_pointer(p), unsigned(Flags)))


@api(1)
def cuMemHostGetFlags(p: Any) -> int:
    return current_device().host_get_flags(void_pointer(p))


@api(2)
def cuMemGetInfo() -> tuple[int, int]:
    return current_device().memory_info()


@api(2)
def cuMemGetAddressRange(dptr: Any) -> tuple[CUdeviceptr, int]:
    address = handle(dptr)
    allocation = current_device().memory.find(address)
    if allocation is None:
        raise failed(CUresult.CUDA_ERROR_NOT_FOUND, f"{address:#x} is in no allocation of this device")
    return CUdeviceptr(allocation.pointer), allocation.size


@api(1)
def cuPointerGetAttribute(attribute: CUpointer_attribute, ptr: Any) -> Any:
    number, address = enumerator(attribute, "attribute"), handle(ptr)
    found = current_device().pointer_attributes(address)
    if found.type == 0:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"{address:#x} is no memory that CUDA knows")
    names = CUpointer_attribute
    if number == names.CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return CUmemorytype.CU_MEMORYTYPE_HOST if found.type == 1 else CUmemorytype.CU_MEMORYTYPE_DEVICE
    if number == names.CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return CUdeviceptr(found.device_pointer)
    if number == names.CU_POINTER_ATTRIBUTE_HOST_POINTER and found.host_pointer:
        return found.host_pointer
    if number == names.CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return found.type == 3
    if number == names.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return found.device
    raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"attribute {number} does not apply to {address:#x}")


# -- copies ------------------------------------------------------------------------------------------------------------


@api()
def cuMemcpy(dst: Any, src: Any, ByteCount: Any) -> None:
    current_device().memcpy(handle(dst), handle(src), size_t(ByteCount), _DEFAULT)


@api()
def cuMemcpyAsync(dst: Any, src: Any, ByteCount: Any, hStream: Any) -> None:
    current_device().memcpy(handle(dst), handle(src), size_t(ByteCount), _DEFAULT, handle(hStream), True)


@api()
def cuMemcpyHtoD(dstDevice: Any, srcHost: Any, ByteCount: Any) -> None:
    current_device().memcpy(handle(dstDevice), void_pointer(srcHost), size_t(ByteCount), _TO_DEVICE)


@api()
def cuMemcpyDtoH(dstHost: Any, srcDevice: Any, ByteCount: Any) -> None:
    current_device().memcpy(void_pointer(dstHost), handle(srcDevice), size_t(ByteCount), _TO_HOST)


@api()
def cuMemcpyDtoD(dstDevice: Any, srcDevice: Any, ByteCount: Any) -> None:
    current_device().memcpy(handle(dstDevice), handle(srcDevice), size_t(ByteCount), _WITHIN)


@api()
def cuMemcpyHtoDAsync(dstDevice: Any, srcHost: Any, ByteCount: Any, hStream: Any) -> None:
    size = size_t(ByteCount)
    current_device().memcpy(handle(dstDevice), void_pointer(srcHost), size, _TO_DEVICE, handle(hStream), True)


@api()
def cuMemcpyDtoHAsync(dstHost: Any, srcDevice: Any, ByteCount: Any, hStream: Any) -> None:
    size = size_t(ByteCount)
    current_device().memcpy(void_pointer(dstHost), handle(srcDevice), size, _TO_HOST, handle(hStream), True)


@api()
def cuMemcpyDtoDAsync(dstDevice: Any, srcDevice: Any, ByteCount: Any, hStream: Any) -> None:
    size = size_t(ByteCount)
    current_device().memcpy(handle(dstDevice), handle(srcDevice), size, _WITHIN, handle(hStream), True)


@api()
def cuMemcpy2D(pCopy: CUDA_MEMCPY2D | None) -> None:
    _copy_2d(pCopy, 0, asynchronous=False)


@api()
def cuMemcpy2DAsync(pCopy: CUDA_MEMCPY2D | None, hStream: Any) -> None:
    _copy_2d(pCopy, handle(hStream), asynchronous=True)


def _copy_2d(copy: Any, stream: int, *, asynchronous: bool) -> None:
    if copy is None:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "cuMemcpy2D: no parameters (None)")
    struct(copy, "pCopy", CUDA_MEMCPY2D)
    width, height = copy.WidthInBytes, copy.Height
    dst = _base(copy, "dst") + copy.dstY * (copy.dstPitch or width) + copy.dstXInBytes
    src = _base(copy, "src") + copy.srcY * (copy.srcPitch or width) + copy.srcXInBytes
    current_device().memcpy_2d(
        dst, copy.dstPitch or width, src, copy.srcPitch or width, width, height, _DEFAULT, stream, asynchronous
    )


@api()
def cuMemcpy3D(pCopy: CUDA_MEMCPY3D | None) -> None:
    _copy_3d(pCopy, 0, asynchronous=False)


@api()
def cuMemcpy3DAsync(pCopy: CUDA_MEMCPY3D | None, hStream: Any) -> None:
    _copy_3d(pCopy, handle(hStream), asynchronous=True)


def _copy_3d(copy: Any, stream: int, *, asynchronous: bool) -> None:
    if copy is None:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "cuMemcpy3D: no parameters (None)")
    struct(copy, "pCopy", CUDA_MEMCPY3D)
    extent = (copy.WidthInBytes, copy.Height, copy.Depth)
    current_device().memcpy_3d(_side_3d(copy, "dst"), _side_3d(copy, "src"), extent, _DEFAULT, stream, asynchronous)


def _side_3d(copy: CUDA_MEMCPY3D, side: str) -> tuple[int, int, int]:
    """First byte, pitch and bytes from slice to slice."""
    pitch = getattr(copy, f"{side}Pitch") or copy.WidthInBytes
    slice_pitch = pitch * (getattr(copy, f"{side}Height") or copy.Height)
    offset = getattr(copy, f"{side}Z") * slice_pitch + getattr(copy, f"{side}Y") * pitch
    return _base(copy, side) + offset + getattr(copy, f"{side}XInBytes"), pitch, slice_pitch


def _base(copy: Any, side: str) -> int:
    """The address of one side, by its memory type."""
    kind = getattr(copy, f"{side}MemoryType")
    if kind == CUmemorytype.CU_MEMORYTYPE_HOST:
        return void_pointer(getattr(copy, f"{side}Host"))
    if kind in (CUmemorytype.CU_MEMORYTYPE_DEVICE, CUmemorytype.CU_MEMORYTYPE_UNIFIED):
        return handle(getattr(copy, f"{side}Device"))
    if kind == CUmemorytype.CU_MEMORYTYPE_ARRAY:
        raise failed(CUresult.CUDA_ERROR_NOT_SUPPORTED, "CUDA arrays are not simulated")
    raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"{side}MemoryType is not set")


# -- memsets -----------------------------------------------------------------------------------------------------------


def _memset(pointer: Any, value: Any, count: Any, element: int, stream: int = 0, *, asynchronous: bool = False) -> None:
    current_device().memset(handle(pointer), unsigned(value), size_t(count), stream, asynchronous, element)


@api()
def cuMemsetD8(dstDevice: Any, uc: Any, N: Any) -> None:
    _memset(dstDevice, uc, N, 1)


@api()
def cuMemsetD16(dstDevice: Any, us: Any, N: Any) -> None:
    _memset(dstDevice, us, N, 2)


@api()
def cuMemsetD32(dstDevice: Any, ui: Any, N: Any) -> None:
    _memset(dstDevice, ui, N, 4)


@api()
def cuMemsetD8Async(dstDevice: Any, uc: Any, N: Any, hStream: Any) -> None:
    _memset(dstDevice, uc, N, 1, handle(hStream), asynchronous=True)


@api()
def cuMemsetD16Async(dstDevice: Any, us: Any, N: Any, hStream: Any) -> None:
    _memset(dstDevice, us, N, 2, handle(hStream), asynchronous=True)


@api()
def cuMemsetD32Async(dstDevice: Any, ui: Any, N: Any, hStream: Any) -> None:
    _memset(dstDevice, ui, N, 4, handle(hStream), asynchronous=True)


def _memset_2d(pointer: Any, pitch: Any, value: Any, width: Any, height: Any, element: int) -> None:
    extent = (size_t(width) * element, size_t(height), 1)
    current_device().memset_3d(handle(pointer), size_t(pitch), 0, unsigned(value), extent, element=element)


@api()
def cuMemsetD2D8(dstDevice: Any, dstPitch: Any, uc: Any, Width: Any, Height: Any) -> None:
    _memset_2d(dstDevice, dstPitch, uc, Width, Height, 1)


@api()
def cuMemsetD2D16(dstDevice: Any, dstPitch: Any, us: Any, Width: Any, Height: Any) -> None:
    _memset_2d(dstDevice, dstPitch, us, Width, Height, 2)


@api()
def cuMemsetD2D32(dstDevice: Any, dstPitch: Any, ui: Any, Width: Any, Height: Any) -> None:
    _memset_2d(dstDevice, dstPitch, ui, Width, Height, 4)
