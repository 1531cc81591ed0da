"""Lookup of texture and surface objects in the table of the launch, and access to their texels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim import abi
from cudalab.sim.abi import FaultKind, Image, SiteKind, TexelFormat
from cudalab.sim.compiler.runtime import layout
from cudalab.sim.compiler.runtime.assembler import Function, Library

if TYPE_CHECKING:
    from cudalab.sim.compiler.runtime.traits import Traits

WHO = "ptr ctx, ptr blk, i32 thread, i32 site"
"""Parameters of functions that may record a fault."""


def write(library: Library, traits: Traits) -> None:
    """Add the functions of this module, for the variant of ``traits``."""
    _image(library)
    _texel(library, traits)
    _convert(library)


def field(name: str) -> int:
    """Offset of a field of ``Image``."""
    return int(getattr(Image, name).offset)


def begin(library: Library, name: str, result: str, parameters: str) -> Function:
    """Begin a function that only this object file has."""
    return library.function(name, result, parameters, "noinline", "internal")


def get(f: Function, image: str, name: str, type: str = "i32", index: int = 0) -> str:
    """A field of an image."""
    return f.load(type, image, field(name) + 4 * index)


def smaller(f: Function, a: str, b: str | int) -> str:
    """The lesser of two signed i32."""
    return f.call("llvm.smin.i32", "i32", f"i32 {a}", f"i32 {b}")


def greater(f: Function, a: str, b: str | int) -> str:
    """The greater of two signed i32."""
    return f.call("llvm.smax.i32", "i32", f"i32 {a}", f"i32 {b}")


def negated(f: Function, condition: str) -> str:
    """The opposite of an i1."""
    return f.op(f"xor i1 {condition}, true")


def _image(library: Library) -> None:
    """The object of a handle, or null after a fault: ``cl_image(…, handle, kind, shapes)``."""
    f = begin(library, "cl_image", "ptr", f"{WHO}, i64 handle, i32 kind, i32 shapes")
    index = f.op(f"and i64 %handle, {(1 << Image.INDEX_BITS) - 1}")
    table = f.load("ptr", "%ctx", layout.field("images"))
    with f.if_(f.compare("ult", "i64", index, f.load("i64", "%ctx", layout.field("image_count")))):
        image = f.at(table, f.op(f"mul i64 {index}, {Image.BYTES}"))
        known = f.compare("eq", "i64", f.load("i64", image, field("handle")), "%handle")
        known = f.op(f"and i1 {known}, {f.compare('ne', 'i64', '%handle', 0)}")
        kind = f.compare("eq", "i32", get(f, image, "kind"), "%kind")
        bit = f.op(f"shl i32 1, {get(f, image, 'shape')}")
        bit = f.op(f"and i32 %shapes, {bit}")
        fits = f.op(f"and i1 {kind}, {f.compare('ne', 'i32', bit, 0)}")
        with f.if_(f.op(f"and i1 {known}, {fits}")):
            f.ret(image)
    fault(f, FaultKind.BAD_IMAGE, "%handle", "0")
    f.ret("null")


def fault(f: Function, kind: FaultKind, address: str, size: str) -> None:
    """Record a fault of the instruction."""
    f.call(
        "cl_fault",
        "void",
        "ptr %ctx",
        "ptr %blk",
        "i32 %thread",
        f"i32 {int(kind)}",
        "i32 %site",
        f"i64 {address}",
        f"i32 {size}",
    )


def reach(f: Function, traits: Traits, address: str, size: str, kind: str, flags: str) -> str:
    """A checked pointer to bytes of device memory; null after a fault. Traced and footprint code record the access."""
    arena = f.load("ptr", "%ctx", layout.field("arena"))
    distance = f.op(f"sub i64 {address}, {f.op(f'ptrtoint ptr {arena} to i64')}")
    place = f.variable("ptr", "null")
    with f.if_(f.compare("ult", "i64", distance, f.load("i64", "%ctx", layout.field("arena_size")))):
        shadow = f.load("ptr", "%ctx", layout.field("shadow"))
        granule = f.op(f"lshr i64 {distance}, {abi.GRANULE.bit_length() - 1}")
        live = f.op(f"zext i16 {f.load('i16', f.element(shadow, 'i16', granule, 'i64'))} to i64")
        within = f.op(f"and i64 {distance}, {abi.GRANULE - 1}")
        with f.if_(f.compare("ule", "i64", f.op(f"add i64 {within}, {f.wide(size)}"), live)):
            place.set(f.at(arena, distance))
    with f.if_(f.compare("eq", "ptr", place.get(), "null")):
        found = f.call(
            "cl_slow_access",
            "ptr",
            "ptr %ctx",
            "ptr %blk",
            "i32 %thread",
            f"i64 {address}",
            f"i32 {size}",
            "i32 %site",
            f"i32 {flags}",
        )
        place.set(found)
        with f.if_(f.compare("eq", "ptr", found, "null")):
            f.ret("false" if f.result == "i1" else "null")
    if traits.traced:
        f.call("cl_record", "void", "ptr %ctx", f"i64 {address}", "i32 %site", "i32 %thread")
    if traits.traced or traits.marked:
        f.call("cl_mark", "void", "ptr %ctx", f"ptr {place.get()}", f"i64 {f.wide(size)}", f"i32 {kind}")
    return place.get()


def _texel(library: Library, traits: Traits) -> None:
    """``cl_texel(…, image, x, y, z, out)``: four words: integers, or the bits of floats. A negative coordinate denotes
    the border."""
    f = begin(library, "cl_texel", "i1", f"{WHO}, ptr image, i32 x, i32 y, i32 z, ptr out")
    with f.if_(f.compare("slt", "i32", f.op(f"or i32 {f.op('or i32 %x, %y')}, %z"), 0)):
        copy(f, "%out", f.at("%image", field("border")))
        f.ret("true")
    size = get(f, "%image", "texel")
    address = f.load("i64", "%image", field("data"))
    for coordinate, step in (
        ("%x", f.wide(size)),
        ("%y", f.load("i64", "%image", field("pitch"))),
        ("%z", f.load("i64", "%image", field("slice"))),
    ):
        address = f.op(f"add i64 {address}, {f.op(f'mul i64 {f.wide(coordinate)}, {step}')}")
    place = reach(f, traits, address, size, str(int(SiteKind.LOAD)), "0")
    f.line("store <4 x i32> zeroinitializer, ptr %out, align 1")
    kind = get(f, "%image", "format")
    with f.count_up("i32", get(f, "%image", "channels")) as channel:
        target = f.element("%out", "i32", channel)
        for format in TexelFormat:
            with f.if_(f.compare("eq", "i32", kind, int(format))):
                f.store("i32", _decode(f, format, place, channel), target)
    f.ret("true")


def _decode(f: Function, format: TexelFormat, place: str, channel: str) -> str:
    """One channel of a texel as a word."""
    bits = int(format.name[1:])
    value = f.load(f"i{bits}", f.element(place, f"i{bits}", channel))
    if bits == 32:
        return value
    if format is TexelFormat.F16:
        real = f.op(f"fpext half {f.op(f'bitcast i16 {value} to half')} to float")
        return f.op(f"bitcast float {real} to i32")
    return f.op(f"{'sext' if format.name[0] == 'S' else 'zext'} i{bits} {value} to i32")


def copy(f: Function, target: str, source: str) -> None:
    value = f.op(f"load <4 x i32>, ptr {source}, align 1")
    f.line(f"store <4 x i32> {value}, ptr {target}, align 1")


def _convert(library: Library) -> None:
    """``cl_convert(image, texel, out)``: an unfiltered texel, converted to the kernel's result."""
    f = begin(library, "cl_convert", "void", "ptr image, ptr texel, ptr out")
    with f.if_(f.compare("eq", "i32", get(f, "%image", "fractions"), 0)):
        copy(f, "%out", "%texel")
        f.ret()
    format = get(f, "%image", "format")
    with f.count_up("i32", 4) as channel:
        value = f.load("i32", f.element("%texel", "i32", channel))
        for name in ("S8", "U8", "S16", "U16"):
            with f.if_(f.compare("eq", "i32", format, int(TexelFormat[name]))):
                most = (1 << int(name[1:]) - (name[0] == "S")) - 1
                f.store("float", fraction_of(f, value, most), f.element("%out", "i32", channel))
    f.ret()


def fraction_of(f: Function, value: str, most: int) -> str:
    """An i32 as a fraction of its greatest value, at least -1."""
    value = greater(f, value, -most)
    quotient = f.op(f"fdiv double {f.op(f'sitofp i32 {value} to double')}, {most}.0")
    return f.op(f"fptrunc double {quotient} to float")
