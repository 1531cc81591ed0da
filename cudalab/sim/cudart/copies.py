"""Copies and memsets, blocking and asynchronous, of one, two and three dimensions."""

from __future__ import annotations

from typing import Any

from cuda.bindings.runtime import (
    cudaError_t,
    cudaExtent,
    cudaMemcpy3DParms,
    cudaMemcpyAttributes,
    cudaMemcpyKind,
    cudaPitchedPtr,
    cudaPos,
)

from cudalab.sim.binding import (
    default_stream,
    enumerator,
    known_device,
    signed,
    size_t,
    stream_handle,
    struct,
    void_pointer,
)
from cudalab.sim.cudart.answer import api
from cudalab.sim.cudart.textures import copy_3d as copy_arrays
from cudalab.sim.cudart.textures import in_memory_3d
from cudalab.sim.device import current_device
from cudalab.sim.device.queue.stream import LEGACY, LEGACY_HANDLE

_DEFAULT = int(cudaMemcpyKind.cudaMemcpyDefault)
_ORDERS = (1, 2, 3)


@api()
def cudaMemcpy(dst: Any, src: Any, count: Any, kind: cudaMemcpyKind) -> None:
    current_device().memcpy(
        void_pointer(dst), void_pointer(src), size_t(count), enumerator(kind, "kind"), default_stream()
    )


@api()
def cudaMemcpyAsync(dst: Any, src: Any, count: Any, kind: cudaMemcpyKind, stream: Any) -> None:
    current_device().memcpy(
        void_pointer(dst), void_pointer(src), size_t(count), enumerator(kind, "kind"), stream_handle(stream), True
    )


@api()
def cudaMemcpy2D(dst: Any, dpitch: Any, src: Any, spitch: Any, width: Any, height: Any, kind: cudaMemcpyKind) -> None:
    _copy_2d(dst, dpitch, src, spitch, width, height, kind, default_stream(), asynchronous=False)


@api()
def cudaMemcpy2DAsync(
    dst: Any, dpitch: Any, src: Any, spitch: Any, width: Any, height: Any, kind: cudaMemcpyKind, stream: Any
) -> None:
    _copy_2d(dst, dpitch, src, spitch, width, height, kind, stream, asynchronous=True)


def _copy_2d(
    dst: Any,
    dpitch: Any,
    src: Any,
    spitch: Any,
    width: Any,
    height: Any,
    kind: Any,
    stream: Any,
    *,
    asynchronous: bool,
) -> None:
    current_device().memcpy_2d(
        void_pointer(dst),
        size_t(dpitch),
        void_pointer(src),
        size_t(spitch),
        size_t(width),
        size_t(height),
        enumerator(kind, "kind"),
        stream_handle(stream),
        asynchronous,
    )


@api()
def cudaMemcpy3D(p: cudaMemcpy3DParms | None) -> None:
    _copy_3d(p, default_stream(), asynchronous=False)


@api()
def cudaMemcpy3DAsync(p: cudaMemcpy3DParms | None, stream: Any) -> None:
    _copy_3d(p, stream_handle(stream), asynchronous=True)


def _copy_3d(p: Any, stream: int, *, asynchronous: bool) -> None:
    device = current_device()
    if p is None:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "cudaMemcpy3D: no parameters (None)")
    struct(p, "p", cudaMemcpy3DParms)
    if int(p.srcArray) or int(p.dstArray):
        copy_arrays(p, stream, asynchronous=asynchronous)
        return
    if bool(p.srcPtr.ptr) != bool(p.dstPtr.ptr) or not p.srcPtr.ptr:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "cudaMemcpy3D: srcPtr and dstPtr must both be set")
    for name, pointer, position in (("src", p.srcPtr, p.srcPos), ("dst", p.dstPtr, p.dstPos)):
        _check_box(name, pointer, position, p.extent)
    device.memcpy_3d(
        in_memory_3d(p.dstPtr, p.dstPos),
        in_memory_3d(p.srcPtr, p.srcPos),
        (p.extent.width, p.extent.height, p.extent.depth),
        int(p.kind),
        stream,
        asynchronous,
    )


def _check_box(name: str, pointer: cudaPitchedPtr, position: cudaPos, extent: cudaExtent) -> None:
    """The box must not reach over the end of a row or of a slice. What is wider than the pitch has an error of its own,
    and what is empty copies nothing."""
    if not (extent.width and extent.height and extent.depth) or extent.width > pointer.pitch:
        return
    if position.x + extent.width > pointer.pitch:
        note = f"{name}Pos.x {position.x} + width {extent.width} is more than the pitch {pointer.pitch}"
    elif pointer.ysize and position.y + extent.height > pointer.ysize:
        note = f"{name}Pos.y {position.y} + height {extent.height} is more than the {pointer.ysize} rows of a slice"
    else:
        return
    raise current_device().fail(cudaError_t.cudaErrorInvalidValue, f"cudaMemcpy3D: {note}")


@api()
def cudaMemcpyPeer(dst: Any, dstDevice: Any, src: Any, srcDevice: Any, count: Any) -> None:
    _copy_peer(dst, dstDevice, src, srcDevice, count, default_stream(), asynchronous=False)


@api()
def cudaMemcpyPeerAsync(dst: Any, dstDevice: Any, src: Any, srcDevice: Any, count: Any, stream: Any) -> None:
    _copy_peer(dst, dstDevice, src, srcDevice, count, stream, asynchronous=True)


def _copy_peer(
    dst: Any, dst_device: Any, src: Any, src_device: Any, count: Any, stream: Any, *, asynchronous: bool
) -> None:
    current_device().memcpy_peer(
        void_pointer(dst),
        known_device(dst_device),
        void_pointer(src),
        known_device(src_device),
        size_t(count),
        stream_handle(stream),
        asynchronous,
    )


@api()
def cudaMemcpyBatchAsync(
    dsts: tuple[Any] | list[Any] | None,
    srcs: tuple[Any] | list[Any] | None,
    sizes: tuple[int] | list[int],
    count: Any,
    attrs: tuple[cudaMemcpyAttributes] | list[cudaMemcpyAttributes] | None,
    attrsIdxs: tuple[int] | list[int],
    numAttrs: Any,
    stream: Any,
) -> None:
    device, number, queue = current_device(), size_t(count), stream_handle(stream)
    starts = list(attrsIdxs)[: size_t(numAttrs)]
    if queue in (LEGACY, LEGACY_HANDLE):
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "cudaMemcpyBatchAsync: not in the legacy default stream")
    if not number or not starts or starts[0] != 0 or starts != sorted(set(starts)) or starts[-1] >= number:
        raise device.fail(
            cudaError_t.cudaErrorInvalidValue,
            f"cudaMemcpyBatchAsync: attrsIdxs must begin with 0 and grow, below the {number} copies (got {starts})",
        )
    orders = [int(attribute.srcAccessOrder) for attribute in (attrs or ())[: len(starts)]]
    if any(order not in _ORDERS for order in orders) or len(orders) < len(starts):
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "cudaMemcpyBatchAsync: srcAccessOrder is not set")
    for destination, source, size in list(zip(dsts or (), srcs or (), sizes, strict=False))[:number]:
        device.memcpy(void_pointer(destination), void_pointer(source), size_t(size), _DEFAULT, queue, True)


@api()
def cudaMemset(devPtr: Any, value: Any, count: Any) -> None:
    current_device().memset(void_pointer(devPtr), signed(value), size_t(count), default_stream())


@api()
def cudaMemsetAsync(devPtr: Any, value: Any, count: Any, stream: Any) -> None:
    current_device().memset(void_pointer(devPtr), signed(value), size_t(count), stream_handle(stream), True)


@api()
def cudaMemset2D(devPtr: Any, pitch: Any, value: Any, width: Any, height: Any) -> None:
    extent = (size_t(width), size_t(height), 1)
    current_device().memset_3d(void_pointer(devPtr), size_t(pitch), 0, signed(value), extent, default_stream())


@api()
def cudaMemset2DAsync(devPtr: Any, pitch: Any, value: Any, width: Any, height: Any, stream: Any) -> None:
    extent = (size_t(width), size_t(height), 1)
    current_device().memset_3d(
        void_pointer(devPtr), size_t(pitch), 0, signed(value), extent, stream_handle(stream), True
    )


@api()
def cudaMemset3D(pitchedDevPtr: cudaPitchedPtr, value: Any, extent: cudaExtent) -> None:
    _memset_3d(pitchedDevPtr, value, extent, default_stream(), asynchronous=False)


@api()
def cudaMemset3DAsync(pitchedDevPtr: cudaPitchedPtr, value: Any, extent: cudaExtent, stream: Any) -> None:
    _memset_3d(pitchedDevPtr, value, extent, stream_handle(stream), asynchronous=True)


def _memset_3d(pointer: cudaPitchedPtr, value: Any, extent: cudaExtent, stream: int, *, asynchronous: bool) -> None:
    struct(pointer, "pitchedDevPtr", cudaPitchedPtr)
    struct(extent, "extent", cudaExtent)
    current_device().memset_3d(
        int(pointer.ptr),
        pointer.pitch,
        pointer.pitch * pointer.ysize,
        signed(value),
        (extent.width, extent.height, extent.depth),
        stream,
        asynchronous,
    )
