"""Texture and surface objects: what a handle stands for, in a table that compiled code reads.

On a GPU an object is an entry of a table of descriptors, and a handle its number; a destroyed or wrong handle reads
what happens to stand there, often the old data or zeros, and says nothing. Here such an access is a fault that names
the line. CUDA arrays, whose layout on a GPU is the driver's secret, are rows here, one after the other.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np

from cudalab.sim.abi import Image, ImageShape, TexelFormat
from cudalab.sim.compiler.semantics import Semantics

MOST_OBJECTS = 1 << 16
_REMEMBERED = 4096

SHAPE_NAMES = {
    ImageShape.ARRAY_1D: "1-D array",
    ImageShape.ARRAY_2D: "2-D array",
    ImageShape.ARRAY_3D: "3-D array",
    ImageShape.LAYERED_1D: "layered 1-D array",
    ImageShape.LAYERED_2D: "layered 2-D array",
    ImageShape.CUBE: "cube map",
    ImageShape.LAYERED_CUBE: "layered cube map",
    ImageShape.LINEAR: "piece of linear memory",
}
_FUNCTIONS = {
    ImageShape.ARRAY_1D: ("tex1D", "surf1Dread and surf1Dwrite"),
    ImageShape.ARRAY_2D: ("tex2D", "surf2Dread and surf2Dwrite"),
    ImageShape.ARRAY_3D: ("tex3D", "surf3Dread and surf3Dwrite"),
    ImageShape.LAYERED_1D: ("tex1DLayered", "surf1DLayeredread and surf1DLayeredwrite"),
    ImageShape.LAYERED_2D: ("tex2DLayered", "surf2DLayeredread and surf2DLayeredwrite"),
    ImageShape.CUBE: ("texCubemap", "surfCubemapread and surfCubemapwrite"),
    ImageShape.LAYERED_CUBE: ("texCubemapLayered", "surfCubemapLayeredread and surfCubemapLayeredwrite"),
    ImageShape.LINEAR: ("tex1Dfetch", ""),
}


@dataclass(frozen=True)
class Texels:
    """What one element of an array is: ``channels`` numbers of one ``format``."""

    format: TexelFormat
    channels: int

    @property
    def bits(self) -> int:
        return int(self.format.name[1:])

    @property
    def bytes(self) -> int:
        return self.bits // 8 * self.channels


@dataclass(frozen=True)
class Grid:
    """Texels in device memory: ``extent`` is width, height and depth (or layers), each at least 1; pitches in bytes."""

    data: int
    shape: ImageShape
    texels: Texels
    extent: tuple[int, int, int]
    pitch: int
    slice_pitch: int


@dataclass(frozen=True)
class Sampling:
    """How a texture is read. ``border`` are the four floats of ``cudaTextureDesc.borderColor``."""

    address: tuple[int, int, int] = (0, 0, 0)
    linear: bool = False
    fractions: bool = False
    normalised: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class ImageObject:
    """One texture object (``sampling`` is set) or surface object."""

    handle: int
    grid: Grid
    sampling: Sampling | None
    where: str = ""

    @property
    def kind(self) -> str:
        return "surface" if self.sampling is None else "texture"


@dataclass(eq=False)
class Images:
    """All objects of one memory."""

    live: dict[int, ImageObject] = field(default_factory=dict)
    destroyed: dict[int, tuple[ImageObject, str]] = field(default_factory=dict)
    """Those that were, with the place where they were destroyed; the last few thousand."""
    address: int = 0
    """Of ``Image[count]``, for compiled code; 0 while there is none."""
    count: int = 0
    _table: np.ndarray | None = None
    _rows: ctypes.Array[Image] | None = None
    _next: int = 0
    _free: list[int] = field(default_factory=list)
    _generations: dict[int, int] = field(default_factory=dict)

    def add(self, grid: Grid, sampling: Sampling | None, where: str = "") -> int:
        """Make an object and return its handle, which no object had before.

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
        made = ImageObject(handle, grid, sampling, where)
        _fill(rows[index], made)
        self.live[handle] = made
        return handle

    def _begin(self) -> ctypes.Array[Image]:
        assert ctypes.sizeof(Image) == Image.BYTES
        self._table = np.zeros(MOST_OBJECTS * Image.BYTES, np.uint8)  # zero pages: touched ones alone take memory
        self.address, self.count = self._table.ctypes.data, MOST_OBJECTS
        self._rows = (Image * MOST_OBJECTS).from_address(self.address)
        return self._rows

    def remove(self, handle: int, where: str = "") -> ImageObject | None:
        """Destroy an object; None when there is none of that handle."""
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
    grid, sampling = made.grid, made.sampling
    row.data, row.pitch, row.slice = grid.data, grid.pitch, grid.slice_pitch
    row.shape, row.texel = int(grid.shape), grid.texels.bytes
    row.extent[:] = grid.extent
    row.format, row.channels = int(grid.texels.format), grid.texels.channels
    row.kind = Image.SURFACE if sampling is None else Image.TEXTURE
    if sampling is not None:
        row.fractions, row.linear, row.normalised = sampling.fractions, sampling.linear, sampling.normalised
        row.address[:] = sampling.address
        row.border[:] = border_words(grid.texels, sampling)
    row.handle = made.handle


def border_words(texels: Texels, sampling: Sampling) -> list[int]:
    """The border colour as a texel, which is what ``cl_texel`` gives for it: an integer, or the bits of a float.

    Fractions are kept to their range and rounded to the nearest step. For integers that are read as such the low bits
    of the *float* count (seen on an H200): write a border of the integer 5 as the float whose bits are 5.
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


# -- what went wrong ---------------------------------------------------------------------------------------------------


def image_problem(images: Images, handle: int, access: Semantics) -> tuple[str, str, str, str]:
    """Why an instruction could not use a handle: headline, rule, detail, advice."""
    wanted = "surface" if access.surface else "texture"
    found = images.find(handle)
    if found is None and handle in images.destroyed:
        old, where = images.destroyed[handle]
        return (
            f"Use of a destroyed {old.kind} object",
            f"destroyed {old.kind} object",
            f"Object {handle:#x} was destroyed{f' by {where}' if where else ''} before the kernel ran. A GPU reads "
            "what is left of it, and says nothing.",
            "destroy the object after waiting for the kernels that use it.",
        )
    if found is None:
        return (
            f"{handle:#x} is no {wanted} object",
            f"invalid {wanted} object",
            f"No {wanted} object has the handle {handle:#x}. A GPU often reads zeros then, and says nothing.",
            f"pass what cudaCreate{wanted.capitalize()}Object returned, as a 64-bit value.",
        )
    shape = found.grid.shape
    use = _FUNCTIONS[shape][found.sampling is None] or "tex1Dfetch"
    if found.kind != wanted:
        return (
            f"A {found.kind} object where a {wanted} object is needed",
            f"{found.kind} object used as a {wanted}",
            f"Object {handle:#x} is a {found.kind} object. On this GPU both are numbered alike, so the access may even "
            "seem to work there.",
            f"create a {wanted} object for the same array, and pass that one.",
        )
    asked = SHAPE_NAMES[access.image or ImageShape.ARRAY_1D]
    return (
        f"A {wanted} of another shape",
        f"wrong {wanted} dimension",
        f"The instruction reads a {asked}; object {handle:#x} is made of a {SHAPE_NAMES[shape]}. What a GPU reads then "
        "is not defined: often zeros.",
        f"use {use} with this object.",
    )


def surface_problem(images: Images, handle: int, place: tuple[int, int, int], size: int) -> tuple[str, str]:
    """An access outside a surface: detail and advice. ``place``: x in bytes, y, z or layer."""
    found = images.find(handle)
    if found is None:
        return "", ""
    grid = found.grid
    width, height, depth = grid.extent
    row = width * grid.texels.bytes
    x, y, z = place
    layered = grid.shape in (ImageShape.LAYERED_1D, ImageShape.LAYERED_2D, ImageShape.CUBE, ImageShape.LAYERED_CUBE)
    misses = []
    if not 0 <= x <= row - size:
        misses.append(f"bytes {x} to {x + size - 1} of a row of {row}")
    if not 0 <= y < height:
        misses.append(f"row {y} of {height}")
    if not 0 <= z < depth:
        misses.append(f"{'layer' if layered else 'slice'} {z} of {depth}")
    detail = f"The access is outside the surface: {', '.join(misses)}. Each texel has {grid.texels.bytes} bytes."
    advice = (
        f"give x in bytes ({grid.texels.bytes} * column), guard the edges, or pass cudaBoundaryModeClamp or "
        "cudaBoundaryModeZero."
    )
    return detail, advice
