"""Texture fetches, filtering and surface accesses, bit-exact with the texture units of an H200.

Added to the object file of a program that needs them. Functions take a thread, the handle of an object and the site of
the instruction; they return false (or null) after recording a fault.

CUDA C++ Programming Guide, "Texture Fetching", specifies filter weights with 8 fractional bits. The rest was measured
(H200, driver 580, 875,206 fetches in 219 configurations, all equal to these functions):

- Subnormal and NaN coordinates are 0. A normalised coordinate is truncated to 21 fractional bits before it is
  multiplied by the extent. The position is rounded (half up) to 1/256 of a texel; mirrored repeats mirror that.
- Weights are integers that add up to 256. Along z, then x, then y they are split by ``part * fraction / 256``, rounded
  half up; the y split of the part at the lower x is rounded half down, so that rows add up, too.
- Floats of one slice are aligned to the largest with a non-zero weight and truncated to 4 bits more than their
  precision (24, half: 11). Their sum is exact, then rounded to nearest, ties away from zero. Subnormal texels count as
  0.
- Integers read as fractions are summed as integers and rounded half up to 16 bits, then divided by 65535 or 32767.
- A texture of one dimension has a second axis of one texel, where the coordinate is 0: with the address mode *border*
  on it half of each filtered value comes from the border.
- Channels that the texel does not have read 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cudalab.sim.abi import FaultKind, Image, ImageShape, SiteKind
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library
from cudalab.sim.compiler.runtime.textures import filtering, texel
from cudalab.sim.compiler.runtime.textures.filtering import NORMALISED
from cudalab.sim.compiler.runtime.textures.texel import WHO, begin, fault, field, get, greater, negated, reach, smaller

if TYPE_CHECKING:
    from cudalab.sim.compiler.runtime.traits import Traits

TRAP, CLAMP, ZERO = range(3)
"""Modes for a surface access out of bounds (PTX ISA, ``.trap``, ``.clamp``, ``.zero``)."""
_CALLER = ("ptr %ctx", "ptr %blk", "i32 %thread", "i32 %site")


def write(library: Library, traits: Traits) -> None:
    """Add the functions called by texture and surface instructions, for the variant of ``traits``."""
    texel.write(library, traits)
    filtering.write(library)
    _sample(library)
    _fetch(library)
    _gather(library)
    _surface(library, traits)
    _query(library)


def mask_of(*shapes: ImageShape) -> int:
    """The bit set of shapes that an instruction accepts."""
    return sum(1 << shape for shape in shapes)


# -- fetches -----------------------------------------------------------------------------------------------------------


def _sample(library: Library) -> None:
    """``cl_sample(…, handle, shape, x, y, z, layer, out)``: ``tex`` with float coordinates."""
    f = begin(
        library, "cl_sample", "i1", f"{WHO}, i64 handle, i32 shape, float x, float y, float z, i32 layer, ptr out"
    )
    mask = f.op("shl i32 1, %shape")
    image = _object(f, Image.TEXTURE, mask)
    x, y = f.variable("float", "%x"), f.variable("float", "%y")
    layer = f.variable("i32", "%layer")
    deep = f.compare("eq", "i32", "%shape", int(ImageShape.ARRAY_3D))
    cube = f.op(
        f"or i1 {f.compare('eq', 'i32', '%shape', int(ImageShape.CUBE))}, "
        f"{f.compare('eq', 'i32', '%shape', int(ImageShape.LAYERED_CUBE))}"
    )
    depth = get(f, image, "extent", index=2)
    last = f.op(f"sub i32 {depth}, 1")
    layer.set(f.call("llvm.umin.i32", "i32", f"i32 {layer.get()}", f"i32 {last}"))
    with f.if_(cube):
        met = f.array(16)
        f.call("cl_direction", "void", "float %x", "float %y", "float %z", f"ptr {met}")
        x.set(f.load("float", met))
        y.set(f.load("float", met, 4))
        cubes = f.op(f"sub i32 {f.op(f'udiv i32 {depth}, 6')}, 1")
        which = f.call("llvm.umin.i32", "i32", "i32 %layer", f"i32 {cubes}")
        layer.set(f.op(f"add i32 {f.op(f'mul i32 {which}, 6')}, {f.load('i32', met, 8)}"))
    linear = f.compare("ne", "i32", get(f, image, "linear"), 0)
    flags = _flags(f, image, linear)
    flags = f.op(f"or i32 {flags}, {f.op(f'select i1 {cube}, i32 {NORMALISED}, i32 0')}")  # regardless of the object
    axes = [f.array(16) for _ in range(3)]
    for number, coordinate in enumerate((x.get(), y.get())):
        _call_axis(f, image, number, coordinate, flags, axes[number])
    with f.if_else(deep) as otherwise:
        _call_axis(f, image, 2, "%z", flags, axes[2])
        otherwise()
        f.store("i32", layer.get(), axes[2])
        f.store("i32", layer.get(), axes[2], 4)
        f.store("i32", 0, axes[2], 8)
    texels, weights, sums = f.array(64), f.array(16), f.array(32)
    with f.if_(negated(f, linear)):
        _call_texel(f, image, [f.load("i32", axis) for axis in axes], texels)
        f.call("cl_convert", "void", f"ptr {image}", f"ptr {texels}", "ptr %out")
        f.ret("true")
    f.line(f"store <4 x double> <{', '.join(['double -0.0'] * 4)}>, ptr {sums}, align 1")
    a, b, c = (f.load("i32", axis, 8) for axis in axes)
    with f.count_up("i32", 2) as side:
        above = f.compare("ne", "i32", side, 0)
        group = f.op(f"select i1 {above}, i32 {c}, i32 {f.op(f'sub i32 256, {c}')}")
        with f.if_(f.compare("ne", "i32", group, 0)):
            z = f.load("i32", f.element(axes[2], "i32", side))
            parts = _split(f, group, a, b)
            for corner, weight in enumerate(parts):
                f.store("i32", weight, weights, 4 * corner)
                place = f.at(texels, 16 * corner)
                f.line(f"store <4 x i32> zeroinitializer, ptr {place}, align 1")
                with f.if_(f.compare("ne", "i32", weight, 0)):
                    across, down = f.load("i32", axes[0], 4 * (corner & 1)), f.load("i32", axes[1], 4 * (corner >> 1))
                    _call_texel(f, image, (across, down, z), place)
            f.call("cl_mix", "void", f"ptr {image}", f"ptr {texels}", f"ptr {weights}", f"ptr {sums}")
    f.call("cl_finish", "void", f"ptr {image}", f"ptr {sums}", "ptr %out")
    f.ret("true")


def _split(f: Function, group: str, a: str, b: str) -> list[str]:
    """A slice's weight divided among its four texels, x first."""

    def share(weight: str, fraction: str, half: int) -> str:
        product = f.op(f"mul i32 {weight}, {fraction}")
        return f.op(f"lshr i32 {f.op(f'add i32 {product}, {half}')}, 8")

    right = share(group, a, 128)
    left = f.op(f"sub i32 {group}, {right}")
    right_below, left_below = share(right, b, 128), share(left, b, 127)
    return [f.op(f"sub i32 {left}, {left_below}"), f.op(f"sub i32 {right}, {right_below}"), left_below, right_below]


def _object(f: Function, kind: int, mask: str | int) -> str:
    """The image of ``%handle``; returns from the function after a fault."""
    image = f.call("cl_image", "ptr", *_CALLER, "i64 %handle", f"i32 {kind}", f"i32 {mask}")
    with f.if_(f.compare("eq", "ptr", image, "null")):
        f.ret("false" if f.result == "i1" else "null")
    return image


def _flags(f: Function, image: str, linear: str) -> str:
    normalised = f.op(f"shl i32 {get(f, image, 'normalised')}, 1")
    return f.op(f"or i32 {normalised}, {f.op(f'zext i1 {linear} to i32')}")


def _call_axis(f: Function, image: str, number: int, coordinate: str, flags: str, out: str) -> None:
    size, mode = get(f, image, "extent", index=number), get(f, image, "address", index=number)
    f.call("cl_axis", "void", f"float {coordinate}", f"i32 {size}", f"i32 {mode}", f"i32 {flags}", f"ptr {out}")


def _call_texel(f: Function, image: str, place: Sequence[str], out: str) -> None:
    """Fetch a texel; returns from the function after a fault."""
    fine = f.call("cl_texel", "i1", *_CALLER, f"ptr {image}", *(f"i32 {at}" for at in place), f"ptr {out}")
    with f.if_(negated(f, fine)):
        f.ret("false")


def _fetch(library: Library) -> None:
    """``cl_fetch(…, handle, index, out)``: a texel of linear memory; outside it, zeros."""
    f = begin(library, "cl_fetch", "i1", f"{WHO}, i64 handle, i32 index, ptr out")
    image = _object(f, Image.TEXTURE, mask_of(ImageShape.LINEAR))
    f.line("store <4 x i32> zeroinitializer, ptr %out, align 1")
    with f.if_(f.compare("ult", "i32", "%index", get(f, image, "extent"))):
        texel = f.array(16)
        _call_texel(f, image, ("%index", "0", "0"), texel)
        f.call("cl_convert", "void", f"ptr {image}", f"ptr {texel}", "ptr %out")
    f.ret("true")


def _gather(library: Library) -> None:
    """``cl_gather(…, handle, channel, x, y, out)``: one channel of the four texels that a filter would blend,
    counterclockwise from the lower left (PTX ISA, ``tld4``)."""
    f = begin(library, "cl_gather", "i1", f"{WHO}, i64 handle, i32 channel, float x, float y, ptr out")
    image = _object(f, Image.TEXTURE, mask_of(ImageShape.ARRAY_2D))
    axes = [f.array(16) for _ in range(2)]
    flags = _flags(f, image, "true")
    for number, coordinate in enumerate(("%x", "%y")):
        _call_axis(f, image, number, coordinate, flags, axes[number])
    texel, value = f.array(16), f.array(16)
    for slot, (across, down) in enumerate(((0, 1), (1, 1), (1, 0), (0, 0))):
        x, y = f.load("i32", axes[0], 4 * across), f.load("i32", axes[1], 4 * down)
        _call_texel(f, image, (x, y, "0"), texel)
        f.call("cl_convert", "void", f"ptr {image}", f"ptr {texel}", f"ptr {value}")
        f.store("i32", f.load("i32", f.element(value, "i32", "%channel")), "%out", 4 * slot)
    f.ret("true")


# -- surfaces ----------------------------------------------------------------------------------------------------------


def _surface(library: Library, traits: Traits) -> None:
    """``cl_surface(…, handle, shapes, x, y, z, size, mode, kind, scratch)``: a pointer to the bytes of a surface
    access; x is in bytes. Out of bounds, with ``.zero``, it is ``scratch``, 16 bytes that are cleared first."""
    f = begin(
        library,
        "cl_surface",
        "ptr",
        f"{WHO}, i64 handle, i32 shapes, i32 x, i32 y, i32 z, i32 size, i32 mode, i32 kind, ptr scratch",
    )
    image = _object(f, Image.SURFACE, "%shapes")
    width, height, depth = (get(f, image, "extent", index=axis) for axis in range(3))
    row_bytes = f.op(f"mul i32 {width}, {get(f, image, 'texel')}")
    last_x = f.op(f"sub i32 {row_bytes}, %size")
    last_y, last_z = f.op(f"sub i32 {height}, 1"), f.op(f"sub i32 {depth}, 1")
    place = [f.variable("i32", f"%{axis}") for axis in "xyz"]
    lasts = (last_x, last_y, last_z)
    clamps = f.compare("eq", "i32", "%mode", CLAMP)
    with f.if_(clamps):
        for coordinate, last in zip(place, lasts, strict=True):
            coordinate.set(greater(f, smaller(f, coordinate.get(), last), 0))
    outside = "false"
    for coordinate, last in zip(place, lasts, strict=True):
        value = coordinate.get()
        beyond = f.op(f"or i1 {f.compare('slt', 'i32', value, 0)}, {f.compare('sgt', 'i32', value, last)}")
        outside = f.op(f"or i1 {outside}, {beyond}")
    start = f.load("i64", image, field("data"))
    x, y, z = (coordinate.get() for coordinate in place)
    row = f.op(f"mul i64 {f.op(f'sext i32 {y} to i64')}, {f.load('i64', image, field('pitch'))}")
    slice_ = f.op(f"mul i64 {f.op(f'sext i32 {z} to i64')}, {f.load('i64', image, field('slice'))}")
    address = f.op(f"add i64 {f.op(f'add i64 {start}, {row}')}, {slice_}")
    address = f.op(f"add i64 {address}, {f.op(f'sext i32 {x} to i64')}")
    rest = f.op(f"and i32 %x, {f.op('sub i32 %size, 1')}")
    with f.if_(f.compare("ne", "i32", rest, 0)):
        fault(f, FaultKind.MISALIGNED, address, "%size")
        f.ret("null")
    with f.if_(outside):
        with f.if_(f.compare("eq", "i32", "%mode", ZERO)):
            f.line("store <4 x i32> zeroinitializer, ptr %scratch, align 1")
            f.ret("%scratch")
        fault(f, FaultKind.OUTSIDE_SURFACE, "%handle", "%size")
        for slot, axis in enumerate("xyz"):
            f.store("i64", f.op(f"sext i32 %{axis} to i64"), "%ctx", layout.field("fault.extra") + 8 * slot)
        f.ret("null")
    stores = f.compare("ne", "i32", "%kind", int(SiteKind.LOAD))
    found = reach(f, traits, address, "%size", "%kind", f.op(f"select i1 {stores}, i32 2, i32 0"))
    if traits.traced:
        with f.if_(stores):
            f.call("cl_undo", "void", "ptr %ctx", f"ptr {found}", f"i64 {f.wide('%size')}")
    f.ret(found)


def _query(library: Library) -> None:
    """``cl_query(…, handle, kind, axis, out)``: width, height or depth."""
    f = begin(library, "cl_query", "i1", f"{WHO}, i64 handle, i32 kind, i32 axis, ptr out")
    image = f.call("cl_image", "ptr", *_CALLER, "i64 %handle", "i32 %kind", "i32 -1")
    with f.if_(f.compare("eq", "ptr", image, "null")):
        f.ret("false")
    place = f.at(image, field("extent"))
    f.store("i32", f.load("i32", f.element(place, "i32", "%axis")), "%out")
    f.ret("true")
