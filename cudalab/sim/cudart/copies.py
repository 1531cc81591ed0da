"""Copies and memsets, blocking and asynchronous, of one, two and three dimensions."""

from __future__ import annotations

from typing import Any

from cuda.bindings.runtime import cudaError_t, cudaExtent, cudaMemcpy3DParms, cudaMemcpyKind, cudaPitchedPtr, cudaPos

from cudalab.sim.cudart.answer import api
from cudalab.sim.device import current_device
from cudalab.sim.device.binding import enumerator, handle, signed, size_t, struct, void_pointer


@api()
def cudaMemcpy(dst: Any, src: Any, count: Any, kind: cudaMemcpyKind) -> None:
    current_device().memcpy(void_pointer(dst), void_pointer(src), size_t(count), enumerator(kind, "kind"))


@api()
def cudaMemcpyAsync(dst: Any, src: Any, count: Any, kind: cudaMemcpyKind, stream: Any) -> None:
    current_device().memcpy(
        void_pointer(dst), void_pointer(src), size_t(count), enumerator(kind, "kind"), handle(stream), True
    )


@api()
def cudaMemcpy2D(dst: Any, dpitch: Any, src: Any, spitch: Any, width: Any, height: Any, kind: cudaMemcpyKind) -> None:
    _copy_2d(dst, dpitch, src, spitch, width, height, kind, 0, asynchronous=False)


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
        handle(stream),
        asynchronous,
    )


@api()
def cudaMemcpy3D(p: cudaMemcpy3DParms | None) -> None:
    _copy_3d(p, 0, asynchronous=False)


@api()
def cudaMemcpy3DAsync(p: cudaMemcpy3DParms | None, stream: Any) -> None:
    _copy_3d(p, handle(stream), asynchronous=True)


def _copy_3d(p: Any, stream: int, *, asynchronous: bool) -> None:
    device = current_device()
    if p is None:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "cudaMemcpy3D: no parameters (None)")
    struct(p, "p", cudaMemcpy3DParms)
    if int(p.srcArray) or int(p.dstArray):
        raise device.fail(
            cudaError_t.cudaErrorNotSupported,
            "cudaMemcpy3D with srcArray or dstArray: CUDA arrays are not simulated; use srcPtr and dstPtr",
        )
    if bool(p.srcPtr.ptr) != bool(p.dstPtr.ptr) or not p.srcPtr.ptr:
        raise device.fail(cudaError_t.cudaErrorInvalidValue, "cudaMemcpy3D: srcPtr and dstPtr must both be set")
    device.memcpy_3d(
        _side(p.dstPtr, p.dstPos),
        _side(p.srcPtr, p.srcPos),
        (p.extent.width, p.extent.height, p.extent.depth),
        int(p.kind),
        stream,
        asynchronous,
    )


def _side(pointer: cudaPitchedPtr, position: cudaPos) -> tuple[int, int, int]:
    """First byte, pitch and bytes from slice to slice; without arrays, positions and widths are in bytes."""
    slice_pitch = pointer.pitch * pointer.ysize
    first = int(pointer.ptr) + position.z * slice_pitch + position.y * pointer.pitch + position.x
    return first, pointer.pitch, slice_pitch


@api()
def cudaMemcpyPeer(dst: Any, dstDevice: Any, src: Any, srcDevice: Any, count: Any) -> None:
    _copy_peer(dst, dstDevice, src, srcDevice, count, 0, asynchronous=False)


@api()
def cudaMemcpyPeerAsync(dst: Any, dstDevice: Any, src: Any, srcDevice: Any, count: Any, stream: Any) -> None:
    _copy_peer(dst, dstDevice, src, srcDevice, count, stream, asynchronous=True)


def _copy_peer(
    dst: Any, dst_device: Any, src: Any, src_device: Any, count: Any, stream: Any, *, asynchronous: bool
) -> None:
    for device in (dst_device, src_device):
        if signed(device) != 0:
            raise current_device().fail(
                cudaError_t.cudaErrorInvalidDevice, f"there is one device, number 0 (asked for {device})"
            )
    current_device().memcpy(
        void_pointer(dst),
        void_pointer(src),
        size_t(count),
        int(cudaMemcpyKind.cudaMemcpyDeviceToDevice),
        handle(stream),
        asynchronous,
    )


@api()
def cudaMemset(devPtr: Any, value: Any, count: Any) -> None:
    current_device().memset(void_pointer(devPtr), signed(value), size_t(count))


@api()
def cudaMemsetAsync(devPtr: Any, value: Any, count: Any, stream: Any) -> None:
    current_device().memset(void_pointer(devPtr), signed(value), size_t(count), handle(stream), True)


@api()
def cudaMemset2D(devPtr: Any, pitch: Any, value: Any, width: Any, height: Any) -> None:
    extent = (size_t(width), size_t(height), 1)
    current_device().memset_3d(void_pointer(devPtr), size_t(pitch), 0, signed(value), extent)


@api()
def cudaMemset2DAsync(devPtr: Any, pitch: Any, value: Any, width: Any, height: Any, stream: Any) -> None:
    extent = (size_t(width), size_t(height), 1)
    current_device().memset_3d(void_pointer(devPtr), size_t(pitch), 0, signed(value), extent, handle(stream), True)


@api()
def cudaMemset3D(pitchedDevPtr: cudaPitchedPtr, value: Any, extent: cudaExtent) -> None:
    _memset_3d(pitchedDevPtr, value, extent, 0, asynchronous=False)


@api()
def cudaMemset3DAsync(pitchedDevPtr: cudaPitchedPtr, value: Any, extent: cudaExtent, stream: Any) -> None:
    _memset_3d(pitchedDevPtr, value, extent, handle(stream), asynchronous=True)


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
