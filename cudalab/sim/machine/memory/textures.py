"""Texture and surface objects: the table of descriptors that handles refer to, as compiled code reads it.

On a GPU an object is a descriptor in a table, and a handle its index; a destroyed or wrong handle reads whatever is
there, often the old data or zeros, without an error. Here such an access is a fault that names the line: the low bits
of a handle are the index, the others tell a destroyed object from a later one. CUDA arrays, whose layout on a GPU is
not documented, are pitch-linear here.
"""

from __future__ import annotations

import ctypes

import numpy as np
from msgspec import Struct, field

from cudalab.sim.abi import Image, ImageShape, TexelFormat

MOST_OBJECTS = 1 << 16
_REMEMBERED = 4096


class Texels(Struct, frozen=True):
    """What one element of an array is: ``channels`` numbers of one ``format``."""

    format: TexelFormat
    channels: int

    @property
    def bits(self) -> int:
        return int(self.format.name[1:])

    @property
    def bytes(self) -> int:
        return self.bits // 8 * self.channels


class ImageLayout(Struct, frozen=True):
    """How texels lie in device memory. ``extent``: width, height and depth (or layers), each at least 1; pitches in
    bytes."""

    data: int
    shape: ImageShape
    texels: Texels
    extent: tuple[int, int, int]
    pitch: int
    slice_pitch: int


class Sampling(Struct, frozen=True):
    """How a texture is read. ``border`` are the four floats of ``cudaTextureDesc.borderColor``."""

    address: tuple[int, int, int] = (0, 0, 0)
    linear: bool = False
    fractions: bool = False
    normalised: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


class ImageObject(Struct, frozen=True):
    """One texture object (``sampling`` is set) or surface object."""

    handle: int
    layout: ImageLayout
    sampling: Sampling | None
    where: str = ""

    @property
    def kind(self) -> str:
        return "surface" if self.sampling is None else "texture"


class Images(Struct, eq=False):
    """All objects of one memory."""

    live: dict[int, ImageObject] = field(default_factory=dict)
    destroyed: dict[int, tuple[ImageObject, str]] = field(default_factory=dict)
    """The last few thousand destroyed objects, each with the line that destroyed it."""
    address: int = 0
    """Of ``Image[count]``, for compiled code; 0 while there is none."""
    count: int = 0
    _table: np.ndarray | None = None
    _rows: ctypes.Array[Image] | None = None
    _next: int = 0
    _free: list[int] = field(default_factory=list)
    _generations: dict[int, int] = field(default_factory=dict)

    def add(self, layout: ImageLayout, sampling: Sampling | None, where: str = "") -> int:
        """Create an object and return its handle, which is never used again.

        Raises:
            MemoryError: there are ``MOST_OBJECTS`` already.
        """
        rows = self._rows if self._rows is not None else self._begin()
        if self._next < MOST_OBJECTS - 1:
            self._next += 1
            index = self._next
        elif self._free:
            index = self._free.pop(0)
        else:
            raise MemoryError(f"{MOST_OBJECTS - 1} texture and surface objects exist; destroy those no longer needed")
        generation = self._generations.get(index, -1) + 1
        self._generations[index] = generation
        handle = generation << Image.INDEX_BITS | index
        made = ImageObject(handle, layout, sampling, where)
        _fill(rows[index], made)
        self.live[handle] = made
        return handle

    def _begin(self) -> ctypes.Array[Image]:
        assert ctypes.sizeof(Image) == Image.BYTES
        self._table = np.zeros(MOST_OBJECTS * Image.BYTES, np.uint8)  # zero pages: only touched ones take memory
        self.address, self.count = self._table.ctypes.data, MOST_OBJECTS
        self._rows = (Image * MOST_OBJECTS).from_address(self.address)
        return self._rows

    def remove(self, handle: int, where: str = "") -> ImageObject | None:
        """Destroy an object; None when no object has that handle."""
        found = self.live.pop(handle, None)
        if found is not None:
            assert self._rows is not None
            index = handle & (1 << Image.INDEX_BITS) - 1
            self._rows[index].handle = 0
            self._free.append(index)
            if len(self.destroyed) >= _REMEMBERED:
                del self.destroyed[next(iter(self.destroyed))]
            self.destroyed[handle] = (found, where)
        return found

    def clear(self) -> None:
        """Destroy all, as a device reset does."""
        for handle in list(self.live):
            self.remove(handle, "device reset")

    def find(self, handle: int) -> ImageObject | None:
        """The live object of a handle."""
        return self.live.get(handle)


def _fill(row: Image, made: ImageObject) -> None:
    """Write an object as compiled code reads it."""
    layout, sampling = made.layout, made.sampling
    row.data, row.pitch, row.slice = layout.data, layout.pitch, layout.slice_pitch
    row.shape, row.texel = int(layout.shape), layout.texels.bytes
    row.extent[:] = layout.extent
    row.format, row.channels = int(layout.texels.format), layout.texels.channels
    row.kind = Image.SURFACE if sampling is None else Image.TEXTURE
    if sampling is not None:
        row.fractions, row.linear, row.normalised = sampling.fractions, sampling.linear, sampling.normalised
        row.address[:] = sampling.address
        row.border[:] = border_words(layout.texels, sampling)
    row.handle = made.handle


def border_words(texels: Texels, sampling: Sampling) -> list[int]:
    """The border colour as ``cl_texel`` returns it for a texel: an integer, or the bits of a float.

    Normalised values are clamped to their range and rounded to the nearest step. For unnormalised integers the low bits
    of the *float* count (measured on an H200): a border of the integer 5 is the float whose bits are 5.
    """
    colour = np.array(sampling.border, np.float32)
    bits, signed = texels.bits, texels.format.name[0] == "S"
    if texels.format is TexelFormat.F32:
        words = colour.view(np.uint32).copy()
    elif texels.format is TexelFormat.F16:
        with np.errstate(over="ignore"):
            words = colour.astype(np.float16).astype(np.float32).view(np.uint32)
    elif sampling.fractions:
        most = (1 << bits - signed) - 1
        clean = np.nan_to_num(colour.astype(np.float64), nan=0.0)
        steps = np.rint(np.clip(clean, -1.0 if signed else 0.0, 1.0) * most)
        words = steps.astype(np.int64).astype(np.uint64).astype(np.uint32)
    else:
        low = colour.view(np.uint32).astype(np.uint64) & ((1 << bits) - 1)
        if signed:
            low = np.where(low >> (bits - 1) & 1, low + (1 << 32) - (1 << bits), low)
        words = low.astype(np.uint32)
    words[texels.channels :] = 0
    return [int(word) for word in words]
