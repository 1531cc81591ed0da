"""CUDA arrays, texture objects and surface objects of the driver."""

from __future__ import annotations

from typing import Any

from cuda.bindings.driver import (
    CUDA_ARRAY3D_DESCRIPTOR,
    CUDA_ARRAY_DESCRIPTOR,
    CUDA_RESOURCE_DESC,
    CUDA_RESOURCE_VIEW_DESC,
    CUDA_TEXTURE_DESC,
    CUarray,
    CUarray_format,
    CUresourcetype,
    CUresult,
    CUsurfObject,
    CUtexObject,
)

from cudalab.sim.binding import handle, struct
from cudalab.sim.device import current_device
from cudalab.sim.device.calls.textures import FLOAT, SIGNED, UNSIGNED, Channels
from cudalab.sim.driver.answer import api, failed

_FORMATS = {
    CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8: (8, UNSIGNED),
    CUarray_format.CU_AD_FORMAT_UNSIGNED_INT16: (16, UNSIGNED),
    CUarray_format.CU_AD_FORMAT_UNSIGNED_INT32: (32, UNSIGNED),
    CUarray_format.CU_AD_FORMAT_SIGNED_INT8: (8, SIGNED),
    CUarray_format.CU_AD_FORMAT_SIGNED_INT16: (16, SIGNED),
    CUarray_format.CU_AD_FORMAT_SIGNED_INT32: (32, SIGNED),
    CUarray_format.CU_AD_FORMAT_HALF: (16, FLOAT),
    CUarray_format.CU_AD_FORMAT_FLOAT: (32, FLOAT),
}
_READ_AS_INTEGER, _NORMALISED, _SRGB = 1, 2, 0x10


def _channels(name: str, format: Any, count: int) -> Channels:
    known = _FORMATS.get(format)
    if known is None or count not in (1, 2, 4):
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"{name}: {count} channels of {format!r} are not simulated")
    bits, kind = known
    x, y, z, w = (bits if number < count else 0 for number in range(4))
    return (x, y, z, w), kind


@api(1)
def cuArrayCreate(pAllocateArray: CUDA_ARRAY_DESCRIPTOR | None) -> CUarray:
    desc = _given("cuArrayCreate", pAllocateArray, "pAllocateArray", CUDA_ARRAY_DESCRIPTOR)
    channels = _channels("cuArrayCreate", desc.Format, desc.NumChannels)
    return CUarray(current_device().malloc_array(channels, (desc.Width, desc.Height, 0)))


@api(1)
def cuArray3DCreate(pAllocateArray: CUDA_ARRAY3D_DESCRIPTOR | None) -> CUarray:
    desc = _given("cuArray3DCreate", pAllocateArray, "pAllocateArray", CUDA_ARRAY3D_DESCRIPTOR)
    channels = _channels("cuArray3DCreate", desc.Format, desc.NumChannels)
    return CUarray(current_device().malloc_array(channels, (desc.Width, desc.Height, desc.Depth), desc.Flags))


def _given(name: str, value: Any, argument: str, kind: type) -> Any:
    if value is None:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"{name}: no {argument} (None)")
    return struct(value, argument, kind)


@api()
def cuArrayDestroy(hArray: Any) -> None:
    current_device().free_array(handle(hArray))


@api(1)
def cuArrayGetDescriptor(hArray: Any) -> CUDA_ARRAY_DESCRIPTOR:
    return _describe(CUDA_ARRAY_DESCRIPTOR(), handle(hArray))


@api(1)
def cuArray3DGetDescriptor(hArray: Any) -> CUDA_ARRAY3D_DESCRIPTOR:
    made = _describe(CUDA_ARRAY3D_DESCRIPTOR(), handle(hArray))
    _, extent, flags = current_device().array_info(handle(hArray))
    made.Depth, made.Flags = extent[2], flags
    return made


def _describe(made: Any, array: int) -> Any:
    (bits, kind), extent, _ = current_device().array_info(array)
    made.Width, made.Height = extent[:2]
    made.Format = next(format for format, known in _FORMATS.items() if known == (bits[0], kind))
    made.NumChannels = sum(1 for width in bits if width)
    return made


@api(1)
def cuTexObjectCreate(
    pResDesc: CUDA_RESOURCE_DESC | None,
    pTexDesc: CUDA_TEXTURE_DESC | None,
    pResViewDesc: CUDA_RESOURCE_VIEW_DESC | None,
) -> CUtexObject:
    name = "cuTexObjectCreate"
    resource = _given(name, pResDesc, "pResDesc", CUDA_RESOURCE_DESC)
    how = _given(name, pTexDesc, "pTexDesc", CUDA_TEXTURE_DESC)
    if pResViewDesc is not None or how.flags & _SRGB:
        raise failed(CUresult.CUDA_ERROR_NOT_SUPPORTED, f"{name}: resource views and sRGB are not simulated")
    source, channels, extent, pitch = _source(name, resource)
    bits, kind = channels if channels is not None else current_device().array_info(source)[0]
    # the driver reads integers of 8 and 16 bits as fractions unless told otherwise
    fractions = kind != FLOAT and bits[0] < 32 and not how.flags & _READ_AS_INTEGER
    made = current_device().create_texture(
        source,
        tuple(int(mode) for mode in how.addressMode),
        bool(int(how.filterMode)),
        fractions,
        bool(how.flags & _NORMALISED),
        tuple(how.borderColor),
        channels,
        extent,
        pitch,
    )
    return CUtexObject(made)


def _source(name: str, desc: CUDA_RESOURCE_DESC) -> tuple[int, Channels | None, tuple[int, int], int]:
    """Source, channels, extent and pitch, as ``create_texture`` takes them."""
    if desc.resType == CUresourcetype.CU_RESOURCE_TYPE_ARRAY:
        return int(desc.res.array.hArray), None, (0, 0), 0
    if desc.resType == CUresourcetype.CU_RESOURCE_TYPE_LINEAR:
        linear = desc.res.linear
        channels = _channels(name, linear.format, linear.numChannels)
        return int(linear.devPtr), channels, (linear.sizeInBytes, 0), 0
    if desc.resType == CUresourcetype.CU_RESOURCE_TYPE_PITCH2D:
        plane = desc.res.pitch2D
        if not plane.pitchInBytes:
            raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, f"{name}: pitchInBytes must be above 0")
        channels = _channels(name, plane.format, plane.numChannels)
        return int(plane.devPtr), channels, (plane.width, plane.height), plane.pitchInBytes
    raise failed(CUresult.CUDA_ERROR_NOT_SUPPORTED, f"{name}: mipmapped arrays are not simulated")


@api()
def cuTexObjectDestroy(texObject: Any) -> None:
    current_device().destroy_texture(handle(texObject))


@api(1)
def cuSurfObjectCreate(pResDesc: CUDA_RESOURCE_DESC | None) -> CUsurfObject:
    resource = _given("cuSurfObjectCreate", pResDesc, "pResDesc", CUDA_RESOURCE_DESC)
    if resource.resType != CUresourcetype.CU_RESOURCE_TYPE_ARRAY:
        raise failed(CUresult.CUDA_ERROR_INVALID_VALUE, "cuSurfObjectCreate: surfaces are made of arrays")
    return CUsurfObject(current_device().create_surface(int(resource.res.array.hArray)))


@api()
def cuSurfObjectDestroy(surfObject: Any) -> None:
    current_device().destroy_surface(handle(surfObject))


def copy_box(copy: Any, stream: int, base: Any, *, asynchronous: bool) -> None:
    """``cuMemcpy2D`` and ``cuMemcpy3D`` where a side is an array. ``base`` gives the address of the other side."""
    extent = (copy.WidthInBytes, copy.Height, getattr(copy, "Depth", 1))
    sides: list[Any] = []
    for side in ("dst", "src"):
        x, y = getattr(copy, f"{side}XInBytes"), getattr(copy, f"{side}Y")
        z = getattr(copy, f"{side}Z", 0)
        if is_array(copy, side):
            sides.append((int(getattr(copy, f"{side}Array")), x, y, z))
            continue
        pitch = getattr(copy, f"{side}Pitch") or copy.WidthInBytes
        slice_pitch = pitch * (getattr(copy, f"{side}Height", 0) or copy.Height)
        sides.append((base(copy, side) + z * slice_pitch + y * pitch + x, pitch, slice_pitch))
    current_device().memcpy_array(sides[0], sides[1], extent, 4, stream, asynchronous)


def is_array(copy: Any, side: str) -> bool:
    """Is that side of a copy an array?"""
    try:
        return int(getattr(copy, f"{side}MemoryType")) == 3
    except ValueError:  # what is not set is no member of the enum
        return False
