"""Memory: allocation, registration, copies and memsets. What a pointer is: ``pointers.py``."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import (
    CUDA_MEMCPY2D,
    CUDA_MEMCPY3D,
    CUdeviceptr,
    CUmemorytype,
    CUresult,
)

from cudalab.sim.binding import default_stream, handle, size_t, stream_handle, struct, unsigned, void_pointer
from cudalab.sim.device import current_device
from cudalab.sim.driver.answer import api, failed
from cudalab.sim.driver.arrays import copy_box, is_array

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
def cuMemAllocHost(bytesize: Any) -> int:
    return current_device().malloc_host(size_t(bytesize))


@api(1)
def cuMemHostAlloc(bytesize: Any, Flags: Any) -> int:
    return current_device().malloc_host(size_t(bytesize), unsigned(Flags))


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


# -- copies ------------------------------------------------------------------------------------------------------------


@api()
def cuMemcpy(dst: Any, src: Any, ByteCount: Any) -> None:
    current_device().memcpy(handle(dst), handle(src), size_t(ByteCount), _DEFAULT, default_stream())


@api()
def cuMemcpyAsync(dst: Any, src: Any, ByteCount: Any, hStream: Any) -> None:
    current_device().memcpy(handle(dst), handle(src), size_t(ByteCount), _DEFAULT, stream_handle(hStream), True)


@api()
def cuMemcpyHtoD(dstDevice: Any, srcHost: Any, ByteCount: Any) -> None:
    current_device().memcpy(handle(dstDevice), void_pointer(srcHost), size_t(ByteCount), _TO_DEVICE, default_stream())


@api()
def cuMemcpyDtoH(dstHost: Any, srcDevice: Any, ByteCount: Any) -> None:
    current_device().memcpy(void_pointer(dstHost), handle(srcDevice), size_t(ByteCount), _TO_HOST, default_stream())


@api()
def cuMemcpyDtoD(dstDevice: Any, srcDevice: Any, ByteCount: Any) -> None:
    current_device().memcpy(handle(dstDevice), handle(srcDevice), size_t(ByteCount), _WITHIN, default_stream())


@api()
def cuMemcpyHtoDAsync(dstDevice: Any, srcHost: Any, ByteCount: Any, hStream: Any) -> None:
    size = size_t(ByteCount)
    current_device().memcpy(handle(dstDevice), void_pointer(srcHost), size, _TO_DEVICE, stream_handle(hStream), True)


@api()
def cuMemcpyDtoHAsync(dstHost: Any, srcDevice: Any, ByteCount: Any, hStream: Any) -> None:
    size = size_t(ByteCount)
    current_device().memcpy(void_pointer(dstHost), handle(srcDevice), size, _TO_HOST, stream_handle(hStream), True)


@api()
def cuMemcpyDtoDAsync(dstDevice: Any, srcDevice: Any, ByteCount: Any, hStream: Any) -> None:
    size = size_t(ByteCount)
    current_device().memcpy(handle(dstDevice), handle(srcDevice), size, _WITHIN, stream_handle(hStream), True)


@api()
def cuMemcpy2D(pCopy: CUDA_MEMCPY2D | None) -> None:
    _copy_2d(pCopy, default_stream(), asynchronous=False)


@api()
def cuMemcpy2DAsync(pCopy: CUDA_MEMCPY2D | None, hStream: Any) -> None:
    _copy_2d(pCopy, stream_handle(hStream), asynchronous=True)


@api()
def cuMemcpy2DUnaligned(pCopy: CUDA_MEMCPY2D | None) -> None:
    _copy_2d(pCopy, default_stream(), asynchronous=False)


def _copy_2d(copy: Any, stream: int, *, asynchronous: bool) -> None:
    if copy is None:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "cuMemcpy2D: no parameters (None)")
    struct(copy, "pCopy", CUDA_MEMCPY2D)
    if is_array(copy, "dst") or is_array(copy, "src"):
        copy_box(copy, stream, _base, asynchronous=asynchronous)
        return
    width, height = copy.WidthInBytes, copy.Height
    dst = _base(copy, "dst") + copy.dstY * (copy.dstPitch or width) + copy.dstXInBytes
    src = _base(copy, "src") + copy.srcY * (copy.srcPitch or width) + copy.srcXInBytes
    current_device().memcpy_2d(
        dst, copy.dstPitch or width, src, copy.srcPitch or width, width, height, _DEFAULT, stream, asynchronous
    )


@api()
def cuMemcpy3D(pCopy: CUDA_MEMCPY3D | None) -> None:
    _copy_3d(pCopy, default_stream(), asynchronous=False)


@api()
def cuMemcpy3DAsync(pCopy: CUDA_MEMCPY3D | None, hStream: Any) -> None:
    _copy_3d(pCopy, stream_handle(hStream), asynchronous=True)


def _copy_3d(copy: Any, stream: int, *, asynchronous: bool) -> None:
    if copy is None:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "cuMemcpy3D: no parameters (None)")
    struct(copy, "pCopy", CUDA_MEMCPY3D)
    if is_array(copy, "dst") or is_array(copy, "src"):
        copy_box(copy, stream, _base, asynchronous=asynchronous)
        return
    extent = (copy.WidthInBytes, copy.Height, copy.Depth)
    current_device().memcpy_3d(side_3d(copy, "dst"), side_3d(copy, "src"), extent, _DEFAULT, stream, asynchronous)


def side_3d(copy: CUDA_MEMCPY3D, side: str) -> tuple[int, int, int]:
    """First byte, pitch and bytes from slice to slice."""
    pitch = getattr(copy, f"{side}Pitch") or copy.WidthInBytes
    slice_pitch = pitch * (getattr(copy, f"{side}Height") or copy.Height)
    offset = getattr(copy, f"{side}Z") * slice_pitch + getattr(copy, f"{side}Y") * pitch
    return _base(copy, side) + offset + getattr(copy, f"{side}XInBytes"), pitch, slice_pitch


def _base(copy: Any, side: str) -> int:
    """The address of one side, by its memory type."""
    try:
        kind = getattr(copy, f"{side}MemoryType")
    except ValueError:  # what is not set is no member of the enum
        kind = None
    if kind == CUmemorytype.CU_MEMORYTYPE_HOST:
        return void_pointer(getattr(copy, f"{side}Host"))
    if kind in (CUmemorytype.CU_MEMORYTYPE_DEVICE, CUmemorytype.CU_MEMORYTYPE_UNIFIED):
        return handle(getattr(copy, f"{side}Device"))
    raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"{side}MemoryType is not set")


# -- memsets -----------------------------------------------------------------------------------------------------------


def _memset(
    pointer: Any, value: Any, count: Any, element: int, stream: int | None = None, *, asynchronous: bool = False
) -> None:
    queue = default_stream() if stream is None else stream
    current_device().memset(handle(pointer), unsigned(value), size_t(count), queue, asynchronous, element)


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
    _memset(dstDevice, uc, N, 1, stream_handle(hStream), asynchronous=True)


@api()
def cuMemsetD16Async(dstDevice: Any, us: Any, N: Any, hStream: Any) -> None:
    _memset(dstDevice, us, N, 2, stream_handle(hStream), asynchronous=True)


@api()
def cuMemsetD32Async(dstDevice: Any, ui: Any, N: Any, hStream: Any) -> None:
    _memset(dstDevice, ui, N, 4, stream_handle(hStream), asynchronous=True)


def _memset_2d(
    pointer: Any,
    pitch: Any,
    value: Any,
    width: Any,
    height: Any,
    element: int,
    stream: int | None = None,
) -> None:
    extent = (size_t(width) * element, size_t(height), 1)
    queue = default_stream() if stream is None else stream
    current_device().memset_3d(
        handle(pointer), size_t(pitch), 0, unsigned(value), extent, queue, stream is not None, element
    )


@api()
def cuMemsetD2D8(dstDevice: Any, dstPitch: Any, uc: Any, Width: Any, Height: Any) -> None:
    _memset_2d(dstDevice, dstPitch, uc, Width, Height, 1)


@api()
def cuMemsetD2D8Async(dstDevice: Any, dstPitch: Any, uc: Any, Width: Any, Height: Any, hStream: Any) -> None:
    _memset_2d(dstDevice, dstPitch, uc, Width, Height, 1, stream_handle(hStream))


@api()
def cuMemsetD2D16(dstDevice: Any, dstPitch: Any, us: Any, Width: Any, Height: Any) -> None:
    _memset_2d(dstDevice, dstPitch, us, Width, Height, 2)


@api()
def cuMemsetD2D16Async(dstDevice: Any, dstPitch: Any, us: Any, Width: Any, Height: Any, hStream: Any) -> None:
    _memset_2d(dstDevice, dstPitch, us, Width, Height, 2, stream_handle(hStream))


@api()
def cuMemsetD2D32(dstDevice: Any, dstPitch: Any, ui: Any, Width: Any, Height: Any) -> None:
    _memset_2d(dstDevice, dstPitch, ui, Width, Height, 4)


@api()
def cuMemsetD2D32Async(dstDevice: Any, dstPitch: Any, ui: Any, Width: Any, Height: Any, hStream: Any) -> None:
    _memset_2d(dstDevice, dstPitch, ui, Width, Height, 4, stream_handle(hStream))
