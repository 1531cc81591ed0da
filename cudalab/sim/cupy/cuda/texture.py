"""``cupy.cuda.texture``: CUDA arrays, texture and surface objects (CuPy Reference, "Texture and surface memory").

``TextureObject`` and ``SurfaceObject`` are kernel arguments: pass them to a ``RawKernel`` where it declares
``cudaTextureObject_t`` and ``cudaSurfaceObject_t``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._base.call import device, epoch, from_destructor, runtime_call, shutting_down, size_of
from cudalab.sim.cupy._base.device_array import DeviceArray
from cudalab.sim.cupy._base.errors import CUDARuntimeError
from cudalab.sim.cupy.cuda.stream import current_pointer

__all__ = [
    "CUDARuntimeError",
    "CUDAarray",
    "ChannelFormatDescriptor",
    "ResourceDescriptor",
    "SurfaceObject",
    "TextureDescriptor",
    "TextureObject",
    "numpy",
]
numpy = np
_ARRAY, _MIPMAPPED, _LINEAR, _PITCHED = range(4)
_NOT_SUPPORTED = 801
_KINDS = {0: "i", 1: "u", 2: "f"}


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.texture", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.texture", globals())


class ChannelFormatDescriptor:
    """What a texel is: the bits of its channels, and their kind.

    Args:
        x: bits of the first channel: 8, 16 or 32.
        y: of the second, 0 when there is none.
        z: of the third.
        w: of the fourth.
        f: ``cupy.cuda.runtime.cudaChannelFormatKindFloat`` and so on.
    """

    def __init__(self, x: int, y: int, z: int, w: int, f: int) -> None:
        self._bits = (int(x), int(y), int(z), int(w))
        self._kind = int(f)

    def get_channel_format(self) -> dict[str, int]:
        """The arguments, as a dict."""
        return dict(zip("xyzwf", (*self._bits, self._kind), strict=True))

    @property
    def _channels(self) -> tuple[tuple[int, int, int, int], int]:
        return self._bits, self._kind


class ResourceDescriptor:
    """What a texture or surface object reads: a CUDA array, linear memory, or pitched memory.

    Args:
        restype: ``cupy.cuda.runtime.cudaResourceTypeArray``, ``…Linear`` or ``…Pitch2D``.
        cuArr: the CUDA array.
        arr: the memory: a ``cupy.ndarray``.
        chDesc: what its texels are.
        sizeInBytes: of linear memory.
        width: texels in a row of pitched memory.
        height: its rows.
        pitchInBytes: bytes from row to row.
    """

    def __init__(
        self,
        restype: int,
        cuArr: CUDAarray | None = None,
        arr: Any = None,
        chDesc: ChannelFormatDescriptor | None = None,
        sizeInBytes: int = 0,
        width: int = 0,
        height: int = 0,
        pitchInBytes: int = 0,
    ) -> None:
        if restype == _ARRAY and cuArr is None:
            raise ValueError("cudaResourceTypeArray needs a CUDA array: pass cuArr=CUDAarray(…)")
        if restype in (_LINEAR, _PITCHED) and (arr is None or chDesc is None):
            raise ValueError("linear and pitched memory need both: pass arr= and chDesc=")
        if restype not in (_ARRAY, _LINEAR, _PITCHED):
            raise ValueError(f"restype must be cudaResourceTypeArray, …Linear or …Pitch2D (got {restype})")
        self.cuArr, self.arr, self.chDesc = cuArr, arr, chDesc
        self._type = int(restype)
        self._extent = (size_of(width), size_of(height))
        self._size, self._pitch = size_of(sizeInBytes), size_of(pitchInBytes)

    def get_resource_desc(self) -> dict[str, Any]:
        """The arguments, as a dict."""
        if self._type == _ARRAY:
            assert self.cuArr is not None
            return {"resType": self._type, "cuArr": self.cuArr.ptr}
        assert self.chDesc is not None
        found = {"resType": self._type, "arr": self.arr.data.address, "chDesc": self.chDesc.get_channel_format()}
        if self._type == _LINEAR:
            return {**found, "sizeInBytes": self._size}
        width, height = self._extent
        return {**found, "width": width, "height": height, "pitchInBytes": self._pitch}

    def _source(self) -> tuple[int, Any, tuple[int, int], int]:
        """Source, channels, extent and pitch, as ``Device.create_texture`` takes them."""
        if self._type == _ARRAY:
            assert self.cuArr is not None
            return self.cuArr.ptr, None, (0, 0), 0
        assert self.chDesc is not None
        pointer = self.arr.data.address
        if self._type == _LINEAR:
            return pointer, self.chDesc._channels, (self._size, 0), 0
        return pointer, self.chDesc._channels, self._extent, self._pitch


class TextureDescriptor:
    """How a texture is read.

    Args:
        addressModes: up to three of ``cupy.cuda.runtime.cudaAddressModeWrap`` and so on, one for each axis.
        filterMode: ``cudaFilterModePoint`` or ``cudaFilterModeLinear``.
        readMode: ``cudaReadModeElementType`` or ``cudaReadModeNormalizedFloat``.
        sRGB: not simulated when true.
        borderColors: up to four floats, for ``cudaAddressModeBorder``.
        normalizedCoords: coordinates go from 0 to 1.
        maxAnisotropy: changes nothing for textures of one level.
    """

    def __init__(
        self,
        addressModes: Any = None,
        filterMode: int = 0,
        readMode: int = 0,
        sRGB: Any = None,
        borderColors: Any = None,
        normalizedCoords: Any = None,
        maxAnisotropy: Any = None,
    ) -> None:
        modes, colours = tuple(addressModes or ()), tuple(borderColors or ())
        assert len(modes) <= 3, f"at most three address modes (got {len(modes)})"
        assert len(colours) <= 4, f"at most four border colours (got {len(colours)})"
        self._modes = tuple(int(mode) for mode in (*modes, 0, 0, 0)[:3])
        self._filter, self._read = int(filterMode), int(readMode)
        self._srgb, self._normalised = int(sRGB or 0), int(normalizedCoords or 0)
        self._border = tuple(float(part) for part in (*colours, 0.0, 0.0, 0.0, 0.0)[:4])
        self._anisotropy = int(maxAnisotropy or 0)

    def get_texture_desc(self) -> dict[str, Any]:
        """The arguments, as a dict."""
        return {
            "addressMode": self._modes,
            "filterMode": self._filter,
            "readMode": self._read,
            "sRGB": self._srgb,
            "borderColor": self._border,
            "normalizedCoords": self._normalised,
            "maxAnisotropy": self._anisotropy,
        }


class CUDAarray:
    """A CUDA array of one, two or three dimensions; textures and surfaces are made of it.

    Args:
        desc: what its texels are.
        width: texels in a row.
        height: rows, 0 for one dimension.
        depth: slices or layers, 0 for two.
        flags: ``cupy.cuda.runtime.cudaArraySurfaceLoadStore`` and so on.
    """

    def __init__(
        self, desc: ChannelFormatDescriptor, width: int, height: int = 0, depth: int = 0, flags: int = 0
    ) -> None:
        self.ptr = 0
        extent = (size_of(width), size_of(height), size_of(depth))
        self._epoch = epoch()
        self.ptr = runtime_call(device().malloc_array, desc._channels, extent, int(flags))
        self.desc = desc
        self.width, self.height, self.depth = extent
        self.flags = int(flags)
        self.ndim = 3 if extent[2] else 2 if extent[1] else 1

    def copy_from(self, in_arr: Any, stream: Any = None) -> None:
        """Copy a CuPy or NumPy array of the right shape (``depth, height, channels * width``) into this one; with
        ``stream`` asynchronously."""
        address, array = self._memory(in_arr, writable=False)
        self._copy((self.ptr, 0, 0, 0), (address, *self._pitches()), stream)
        del array

    def copy_to(self, out_arr: Any, stream: Any = None) -> None:
        """Copy this one into a C-contiguous CuPy or NumPy array of the right shape; with ``stream`` asynchronously."""
        address, _ = self._memory(out_arr, writable=True)
        self._copy((address, *self._pitches()), (self.ptr, 0, 0, 0), stream)

    def _copy(self, dst: Any, src: Any, stream: Any) -> None:
        extent = (self._row_bytes, max(1, self.height), max(1, self.depth))
        handle = 0 if stream is None else current_pointer(stream)
        runtime_call(device().memcpy_array, dst, src, extent, 4, handle, stream is not None)

    @property
    def _row_bytes(self) -> int:
        return int(self.width * sum(self.desc._bits) // 8)

    def _pitches(self) -> tuple[int, int]:
        return self._row_bytes, self._row_bytes * max(1, self.height)

    def _memory(self, array: Any, *, writable: bool) -> tuple[int, Any]:
        """Address of an array that fits, and what must live as long as that is used."""
        on_device = isinstance(array, DeviceArray)
        if not on_device and not isinstance(array, np.ndarray):
            error = AttributeError(f"{type(array).__name__!r} object has no attribute 'shape'")
            error.add_note("Pass a CuPy or a NumPy array.")
            raise error
        channels = sum(1 for bits in self.desc._bits if bits)
        row = (self.width * channels,)
        shape = row if self.ndim == 1 else (self.height, *row) if self.ndim == 2 else (self.depth, self.height, *row)
        if array.shape != shape:
            raise ValueError(f"shape mismatch: the CUDA array takes {shape} (got {array.shape})")
        wanted = np.dtype(f"{_KINDS[self.desc._kind]}{self.desc._bits[0] // 8}")
        if array.dtype != wanted:
            raise ValueError(f"dtype mismatch: the CUDA array's texels are {wanted} (got {array.dtype})")
        if not array.flags.c_contiguous:
            if writable:
                raise ValueError("the array must be C-contiguous: make it with cp.empty or np.empty")
            array = array.copy() if on_device else np.ascontiguousarray(array)
        return int(array.data.address if on_device else array.ctypes.data), array

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if not _over and self.ptr:
            pointer, self.ptr = self.ptr, 0
            from_destructor(lambda: device().free_array(pointer), self._epoch)


class TextureObject:
    """A texture object; pass it to a kernel that declares ``cudaTextureObject_t``.

    Args:
        ResDesc: what it reads.
        TexDesc: how.
    """

    def __init__(self, ResDesc: ResourceDescriptor, TexDesc: TextureDescriptor) -> None:
        self.ptr = 0
        _check("ResDesc", ResDesc, ResourceDescriptor)
        _check("TexDesc", TexDesc, TextureDescriptor)
        if TexDesc._srgb:
            error = CUDARuntimeError(_NOT_SUPPORTED)
            error.add_note("sRGB=True is not simulated: convert the values in the kernel")
            raise error
        self._epoch = epoch()
        source, channels, extent, pitch = ResDesc._source()
        self.ptr = runtime_call(
            device().create_texture,
            source,
            TexDesc._modes,
            bool(TexDesc._filter),
            bool(TexDesc._read),
            bool(TexDesc._normalised),
            TexDesc._border,
            channels,
            extent,
            pitch,
        )
        self.ResDesc, self.TexDesc = ResDesc, TexDesc  # they keep the memory alive

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if not _over and self.ptr:
            handle, self.ptr = self.ptr, 0
            from_destructor(lambda: device().destroy_texture(handle), self._epoch)


class SurfaceObject:
    """A surface object; pass it to a kernel that declares ``cudaSurfaceObject_t``.

    Args:
        ResDesc: the CUDA array.
    """

    def __init__(self, ResDesc: ResourceDescriptor) -> None:
        self.ptr = 0
        _check("ResDesc", ResDesc, ResourceDescriptor)
        if ResDesc._type != _ARRAY:
            error = CUDARuntimeError(1)
            error.add_note("a surface is made of a CUDA array (cudaResourceTypeArray)")
            raise error
        self._epoch = epoch()
        self.ptr = runtime_call(device().create_surface, ResDesc._source()[0])
        self.ResDesc = ResDesc

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if not _over and self.ptr:
            handle, self.ptr = self.ptr, 0
            from_destructor(lambda: device().destroy_surface(handle), self._epoch)


def _check(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"Argument {name!r} has incorrect type (expected {kind.__name__}, got {type(value).__name__})")
