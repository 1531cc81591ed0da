"""CUDA arrays, texture objects and surface objects."""

from __future__ import annotations

from typing import Any

from cuda.bindings.runtime import (
    cudaArray_t,
    cudaChannelFormatDesc,
    cudaChannelFormatKind,
    cudaError_t,
    cudaExtent,
    cudaMemcpyKind,
    cudaPitchedPtr,
    cudaPos,
    cudaResourceDesc,
    cudaResourceType,
    cudaResourceViewDesc,
    cudaSurfaceObject_t,
    cudaTextureAddressMode,
    cudaTextureDesc,
    cudaTextureFilterMode,
    cudaTextureObject_t,
    cudaTextureReadMode,
)

from cudalab.sim.binding import (
    default_stream,
    enumerator,
    handle,
    signed,
    size_t,
    stream_handle,
    struct,
    unsigned,
    void_pointer,
)
from cudalab.sim.cudart.answer import api
from cudalab.sim.device import CudaError, current_device
from cudalab.sim.device.calls.textures import FLOAT, SIGNED, UNSIGNED, Channels, Side
from cudalab.sim.machine.memory.textures import ImageLayout

_KINDS = {0: SIGNED, 1: UNSIGNED, 2: FLOAT}
_NO_KIND = -1


def _invalid(note: str, code: cudaError_t = cudaError_t.cudaErrorInvalidValue) -> CudaError:
    return current_device().fail(code, note)


def channels_of(desc: cudaChannelFormatDesc) -> Channels:
    """A channel description as the device takes it."""
    return (desc.x, desc.y, desc.z, desc.w), _KINDS.get(int(desc.f), _NO_KIND)


def _description(channels: Channels) -> cudaChannelFormatDesc:
    made = cudaChannelFormatDesc()
    made.x, made.y, made.z, made.w = channels[0]
    made.f = cudaChannelFormatKind(channels[1])
    return made


# -- arrays ------------------------------------------------------------------------------------------------------------


@api(1)
def cudaCreateChannelDesc(x: Any, y: Any, z: Any, w: Any, f: cudaChannelFormatKind) -> cudaChannelFormatDesc:
    made = cudaChannelFormatDesc()
    made.x, made.y, made.z, made.w = signed(x), signed(y), signed(z), signed(w)
    made.f = f
    return made


@api(1)
def cudaMallocArray(desc: cudaChannelFormatDesc | None, width: Any, height: Any, flags: Any) -> cudaArray_t:
    return _malloc(desc, (size_t(width), size_t(height), 0), unsigned(flags))


@api(1)
def cudaMalloc3DArray(desc: cudaChannelFormatDesc | None, extent: cudaExtent, flags: Any) -> cudaArray_t:
    struct(extent, "extent", cudaExtent)
    return _malloc(desc, (extent.width, extent.height, extent.depth), unsigned(flags))


def _malloc(desc: Any, extent: tuple[int, int, int], flags: int) -> cudaArray_t:
    if desc is None:
        raise _invalid("cudaMallocArray: no channel description (None)")
    struct(desc, "desc", cudaChannelFormatDesc)
    return cudaArray_t(current_device().malloc_array(channels_of(desc), extent, flags))


@api()
def cudaFreeArray(array: Any) -> None:
    current_device().free_array(handle(array))


@api(3)
def cudaArrayGetInfo(array: Any) -> tuple[cudaChannelFormatDesc, cudaExtent, int]:
    channels, (width, height, depth), flags = current_device().array_info(handle(array))
    extent = cudaExtent()
    extent.width, extent.height, extent.depth = width, height, depth
    return _description(channels), extent, flags


@api(1)
def cudaGetChannelDesc(array: Any) -> cudaChannelFormatDesc:
    return _description(current_device().array_info(handle(array))[0])


# -- copies ------------------------------------------------------------------------------------------------------------


@api()
def cudaMemcpy2DToArray(
    dst: Any, wOffset: Any, hOffset: Any, src: Any, spitch: Any, width: Any, height: Any, kind: cudaMemcpyKind
) -> None:
    to, of = _in_array(dst, wOffset, hOffset), _in_memory(src, spitch)
    _copy_2d(to, of, width, height, kind, default_stream())


@api()
def cudaMemcpy2DToArrayAsync(
    dst: Any,
    wOffset: Any,
    hOffset: Any,
    src: Any,
    spitch: Any,
    width: Any,
    height: Any,
    kind: cudaMemcpyKind,
    stream: Any,
) -> None:
    to, of = _in_array(dst, wOffset, hOffset), _in_memory(src, spitch)
    _copy_2d(to, of, width, height, kind, stream_handle(stream), asynchronous=True)


@api()
def cudaMemcpy2DFromArray(
    dst: Any, dpitch: Any, src: Any, wOffset: Any, hOffset: Any, width: Any, height: Any, kind: cudaMemcpyKind
) -> None:
    to, of = _in_memory(dst, dpitch), _in_array(src, wOffset, hOffset)
    _copy_2d(to, of, width, height, kind, default_stream())


@api()
def cudaMemcpy2DFromArrayAsync(
    dst: Any,
    dpitch: Any,
    src: Any,
    wOffset: Any,
    hOffset: Any,
    width: Any,
    height: Any,
    kind: cudaMemcpyKind,
    stream: Any,
) -> None:
    to, of = _in_memory(dst, dpitch), _in_array(src, wOffset, hOffset)
    _copy_2d(to, of, width, height, kind, stream_handle(stream), asynchronous=True)


def _copy_2d(
    dst: Side, src: Side, width: Any, height: Any, kind: Any, stream: int, *, asynchronous: bool = False
) -> None:
    extent = (size_t(width), size_t(height), 1)
    current_device().memcpy_array(dst, src, extent, enumerator(kind, "kind"), stream, asynchronous)


def _in_array(array: Any, x: Any, y: Any) -> Side:
    return handle(array), size_t(x), size_t(y), 0


def _in_memory(pointer: Any, pitch: Any) -> Side:
    return void_pointer(pointer), size_t(pitch), 0


@api()
def cudaMemcpy2DArrayToArray(
    dst: Any,
    wOffsetDst: Any,
    hOffsetDst: Any,
    src: Any,
    wOffsetSrc: Any,
    hOffsetSrc: Any,
    width: Any,
    height: Any,
    kind: cudaMemcpyKind,
) -> None:
    to, of = _in_array(dst, wOffsetDst, hOffsetDst), _in_array(src, wOffsetSrc, hOffsetSrc)
    _copy_2d(to, of, width, height, kind, default_stream())


def copy_3d(p: Any, stream: int, *, asynchronous: bool) -> None:
    """``cudaMemcpy3D`` where ``srcArray`` or ``dstArray`` is set: extents, and positions in arrays, count texels."""
    device = current_device()
    arrays = {"src": int(p.srcArray), "dst": int(p.dstArray)}
    sizes = {side: _texel_bytes(array) for side, array in arrays.items() if array}
    if len(set(sizes.values())) > 1:
        raise _invalid(f"cudaMemcpy3D: the arrays' texels differ in size ({sizes['dst']} and {sizes['src']} bytes)")
    texel = next(iter(sizes.values()))
    extent = (p.extent.width * texel, p.extent.height, p.extent.depth)
    sides: dict[str, Any] = {}
    for side, array in arrays.items():
        pointer, position = getattr(p, f"{side}Ptr"), getattr(p, f"{side}Pos")
        if array and pointer.ptr:
            raise _invalid(f"cudaMemcpy3D: {side}Array and {side}Ptr are both set")
        if array:
            sides[side] = (array, position.x * texel, position.y, position.z)
            continue
        if not pointer.ptr:
            raise _invalid(f"cudaMemcpy3D: neither {side}Array nor {side}Ptr is set")
        sides[side] = in_memory_3d(pointer, position)
    device.memcpy_array(sides["dst"], sides["src"], extent, int(p.kind), stream, asynchronous)


def in_memory_3d(pointer: cudaPitchedPtr, position: cudaPos) -> tuple[int, int, int]:
    """First byte, pitch and bytes from slice to slice; without arrays, positions and widths are in bytes."""
    slice_pitch = pointer.pitch * pointer.ysize
    first = int(pointer.ptr) + position.z * slice_pitch + position.y * pointer.pitch + position.x
    return first, pointer.pitch, slice_pitch


def _texel_bytes(array: int) -> int:
    bits, _ = current_device().array_info(array)[0]
    return sum(bits) // 8


# -- objects -----------------------------------------------------------------------------------------------------------


@api(1)
def cudaCreateTextureObject(
    pResDesc: cudaResourceDesc | None, pTexDesc: cudaTextureDesc | None, pResViewDesc: cudaResourceViewDesc | None
) -> cudaTextureObject_t:
    if pResDesc is None or pTexDesc is None:
        raise _invalid("cudaCreateTextureObject: a resource and a texture description are needed (got None)")
    struct(pResDesc, "pResDesc", cudaResourceDesc)
    struct(pTexDesc, "pTexDesc", cudaTextureDesc)
    if pResViewDesc is not None:
        raise _not_simulated("resource views")
    for name in ("sRGB", "seamlessCubemap"):
        if getattr(pTexDesc, name):
            raise _not_simulated(name)
    source, channels, extent, pitch = _resource(pResDesc)
    made = current_device().create_texture(
        source,
        tuple(int(mode) for mode in pTexDesc.addressMode),
        bool(int(pTexDesc.filterMode)),
        bool(int(pTexDesc.readMode)),
        bool(pTexDesc.normalizedCoords),
        tuple(pTexDesc.borderColor),
        channels,
        extent,
        pitch,
    )
    return cudaTextureObject_t(made)


def _not_simulated(what: str) -> CudaError:
    return _invalid(f"cudaCreateTextureObject: {what} not simulated", cudaError_t.cudaErrorNotSupported)


def _resource(desc: cudaResourceDesc) -> tuple[int, Channels | None, tuple[int, int], int]:
    """Source, channels, extent and pitch, as ``create_texture`` takes them."""
    kind = desc.resType
    if kind == cudaResourceType.cudaResourceTypeArray:
        return int(desc.res.array.array), None, (0, 0), 0
    if kind == cudaResourceType.cudaResourceTypeLinear:
        linear = desc.res.linear
        return int(linear.devPtr), channels_of(linear.desc), (linear.sizeInBytes, 0), 0
    if kind == cudaResourceType.cudaResourceTypePitch2D:
        plane = desc.res.pitch2D
        if not plane.pitchInBytes:
            raise _invalid("cudaCreateTextureObject: pitchInBytes must be above 0")
        return int(plane.devPtr), channels_of(plane.desc), (plane.width, plane.height), plane.pitchInBytes
    raise _not_simulated("mipmapped arrays")


@api()
def cudaDestroyTextureObject(texObject: Any) -> None:
    current_device().destroy_texture(handle(texObject))


@api(1)
def cudaGetTextureObjectResourceDesc(texObject: Any) -> cudaResourceDesc:
    return _resource_description(current_device().image(handle(texObject), "texture").layout)


@api(1)
def cudaGetTextureObjectTextureDesc(texObject: Any) -> cudaTextureDesc:
    sampling = current_device().image(handle(texObject), "texture").sampling
    assert sampling is not None
    made = cudaTextureDesc()
    made.addressMode = [cudaTextureAddressMode(mode) for mode in sampling.address]
    made.filterMode = cudaTextureFilterMode(int(sampling.linear))
    made.readMode = cudaTextureReadMode(int(sampling.fractions))
    made.normalizedCoords = int(sampling.normalised)
    made.borderColor = list(sampling.border)
    return made


@api(1)
def cudaCreateSurfaceObject(pResDesc: cudaResourceDesc | None) -> cudaSurfaceObject_t:
    if pResDesc is None:
        raise _invalid("cudaCreateSurfaceObject: a resource description is needed (got None)")
    struct(pResDesc, "pResDesc", cudaResourceDesc)
    if pResDesc.resType != cudaResourceType.cudaResourceTypeArray:
        _, channels, _, _ = _resource(pResDesc)
        if channels is not None:
            current_device().check_channels("cudaCreateSurfaceObject", channels)
        raise _invalid("cudaCreateSurfaceObject: surfaces are made of arrays (cudaResourceTypeArray)")
    return cudaSurfaceObject_t(current_device().create_surface(int(pResDesc.res.array.array)))


@api()
def cudaDestroySurfaceObject(surfObject: Any) -> None:
    current_device().destroy_surface(handle(surfObject))


@api(1)
def cudaGetSurfaceObjectResourceDesc(surfObject: Any) -> cudaResourceDesc:
    return _resource_description(current_device().image(handle(surfObject), "surface").layout)


def _resource_description(layout: ImageLayout) -> cudaResourceDesc:
    made = cudaResourceDesc()
    array = current_device().array_of(layout)
    texels = layout.texels
    kind = {"S": SIGNED, "U": UNSIGNED, "F": FLOAT}[texels.format.name[0]]
    bits = [texels.bits if channel < texels.channels else 0 for channel in range(4)]
    description = _description(((bits[0], bits[1], bits[2], bits[3]), kind))
    if array:
        made.resType = cudaResourceType.cudaResourceTypeArray
        made.res.array.array = cudaArray_t(array)
    elif layout.pitch != layout.slice_pitch or layout.extent[1] > 1:
        made.resType = cudaResourceType.cudaResourceTypePitch2D
        plane = made.res.pitch2D
        plane.devPtr, plane.desc, plane.pitchInBytes = layout.data, description, layout.pitch
        plane.width, plane.height = layout.extent[:2]
    else:
        made.resType = cudaResourceType.cudaResourceTypeLinear
        linear = made.res.linear
        linear.devPtr, linear.desc, linear.sizeInBytes = layout.data, description, layout.pitch
    return made
