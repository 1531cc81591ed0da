"""Accesses through texture and surface objects that a GPU would not allow, or would not notice, in words.

What an H200 (driver 580, 2026-11-21) does where the simulated device ends the launch with ``cudaErrorIllegalAddress``:

- a surface access outside the object, with ``.trap``; a handle that was never one: error 700
- a surface access whose x is no multiple of its size, in all boundary modes: error 716
- handle 0; ``tex1D``, ``tex3D``, ``tex1Dfetch`` and so on with an object of another shape: mostly zeros
- a destroyed object; a texture used as a surface, or the other way round: works
"""

from __future__ import annotations

from cudalab.sim.abi import ImageShape
from cudalab.sim.compiler.semantics import Semantics
from cudalab.sim.machine.memory.textures import Images
from cudalab.sim.machine.reports.finding import Problem

_SHAPE_NAMES = {
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


def image_problem(images: Images, handle: int, access: Semantics) -> Problem:
    """Why an instruction could not use a handle."""
    wanted = "surface" if access.surface else "texture"
    found = images.find(handle)
    if found is None and handle in images.destroyed:
        old, where = images.destroyed[handle]
        return Problem(
            f"Use of a destroyed {old.kind} object",
            f"destroyed {old.kind} object",
            f"Object {handle:#x} was destroyed{f' by {where}' if where else ''} before the kernel ran. A GPU reads "
            "what is left of it, and says nothing.",
            "destroy the object after waiting for the kernels that use it.",
        )
    if found is None:
        return Problem(
            f"{handle:#x} is no {wanted} object",
            f"invalid {wanted} object",
            f"No {wanted} object has the handle {handle:#x}. A GPU often reads zeros then, and says nothing.",
            f"pass what cudaCreate{wanted.capitalize()}Object returned, as a 64-bit value.",
        )
    shape = found.layout.shape
    use = _FUNCTIONS[shape][found.sampling is None] or "tex1Dfetch"
    if found.kind != wanted:
        return Problem(
            f"A {found.kind} object where a {wanted} object is needed",
            f"{found.kind} object used as a {wanted}",
            f"Object {handle:#x} is a {found.kind} object. On this GPU both are numbered alike, so the access may even "
            "seem to work there.",
            f"create a {wanted} object for the same array, and pass that one.",
        )
    asked = _SHAPE_NAMES[access.image or ImageShape.ARRAY_1D]
    return Problem(
        f"A {wanted} of another shape",
        f"wrong {wanted} dimension",
        f"The instruction reads a {asked}; object {handle:#x} is made of a {_SHAPE_NAMES[shape]}. What a GPU reads "
        "then is not defined: often zeros.",
        f"use {use} with this object.",
    )


def surface_problem(images: Images, handle: int, place: tuple[int, int, int], size: int) -> tuple[str, str]:
    """An access outside a surface: detail and advice. ``place``: x in bytes, y, and z or layer."""
    found = images.find(handle)
    if found is None:
        return "", ""
    layout = found.layout
    width, height, depth = layout.extent
    row = width * layout.texels.bytes
    x, y, z = place
    layered = layout.shape in (ImageShape.LAYERED_1D, ImageShape.LAYERED_2D, ImageShape.CUBE, ImageShape.LAYERED_CUBE)
    misses = []
    if not 0 <= x <= row - size:
        misses.append(f"bytes {x} to {x + size - 1} of a row of {row}")
    if not 0 <= y < height:
        misses.append(f"row {y} of {height}")
    if not 0 <= z < depth:
        misses.append(f"{'layer' if layered else 'slice'} {z} of {depth}")
    detail = f"The access is outside the surface: {', '.join(misses)}. Each texel has {layout.texels.bytes} bytes."
    advice = (
        f"give x in bytes ({layout.texels.bytes} * column), guard the edges, or pass cudaBoundaryModeClamp or "
        "cudaBoundaryModeZero."
    )
    return detail, advice
