"""Texture and surface accesses (PTX ISA, "Texture Instructions", "Surface Instructions").

The object is a handle in a 64-bit register. The semantics depend on the object, so accesses call functions of
``runtime.textures.texture``, which are part of the object file of programs that need them. Textures have a single
mipmap level, which ``.level`` and ``.grad`` always select.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudalab.sim.abi import Image, ImageShape, SiteKind
from cudalab.sim.compiler.codegen import polling
from cudalab.sim.compiler.lowering.memory import stored
from cudalab.sim.compiler.passes.rematerialisation import Level
from cudalab.sim.compiler.ptx.nodes import BITS, Address, Instruction, Vector
from cudalab.sim.compiler.ptx.table import Form, Table
from cudalab.sim.compiler.runtime.textures import texture

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.threads import ThreadCode

TABLE = Table()
_SHAPES = {
    "1d": ImageShape.ARRAY_1D,
    "2d": ImageShape.ARRAY_2D,
    "3d": ImageShape.ARRAY_3D,
    "a1d": ImageShape.LAYERED_1D,
    "a2d": ImageShape.LAYERED_2D,
    "cube": ImageShape.CUBE,
    "acube": ImageShape.LAYERED_CUBE,
}
_COORDINATES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 3, "acube": 3}
_MODES = {"trap": texture.TRAP, "clamp": texture.CLAMP, "zero": texture.ZERO}
_ADD = {"add": "add", "and": "and", "or": "or"}
_AXES = {"width": 0, "height": 1, "depth": 2}


def _result(e: ThreadCode) -> str:
    """16 bytes on the native stack for what a function returns."""
    return e.cached("texel", Level.LAUNCH, lambda: e.alloca("[16 x i8]", 16))


def _call(e: ThreadCode, i: Instruction, name: str, result: str, *arguments: str) -> str:
    """Call a function of ``runtime.textures.texture``; branch to ``fault`` if it fails."""
    e.unit.include("texture", texture.write)
    caller = (f"ptr {e.context}", f"ptr {e.block}", f"i32 {e.thread()}", f"i32 {e.plan.other_sites[i]}")
    answer = e.new(f"call {result} @{name}({', '.join((*caller, *arguments))})")
    fine = answer if result == "i1" else e.new(f"icmp ne ptr {answer}, null")
    good = e.fresh_label("ok")
    e.emit(f"br i1 {fine}, label %{good}, label %fault, !prof !1")
    e.label(good)
    return answer


def _handle(e: ThreadCode, address: Address) -> str:
    return f"i64 {e.integer(address.base, 64)}"


def _take(e: ThreadCode, target: Any) -> None:
    """Move the four result words to their registers."""
    place = _result(e)
    for number, register in enumerate(target.elements):
        word = e.new(f"getelementptr i8, ptr {place}, i64 {4 * number}")
        e.set_integer(register, e.new(f"load i32, ptr {word}"), 32)


@TABLE.row("tex.1d.v4.<s32|u32|f32>.s32")
def _fetch(e: ThreadCode, i: Instruction, f: Form) -> None:
    address = i.operands[1]
    index = e.integer(address.coordinates[0], 32)
    _call(e, i, "cl_fetch", "i1", _handle(e, address), f"i32 {index}", f"ptr {_result(e)}")
    _take(e, i.operands[0])


@TABLE.row("tex[.level|grad].<1d|2d|3d|a1d|a2d>.v4.<s32|u32|f32>.f32")
@TABLE.row("tex[.level].<cube|acube>.v4.<s32|u32|f32>.f32")
def _sample(e: ThreadCode, i: Instruction, f: Form) -> None:
    address = i.operands[1]
    name = f.choose(*_SHAPES)
    given = list(address.coordinates)
    layer = e.integer(given.pop(0), 32) if name[0] == "a" else "0"
    places = [e.real(coordinate, 32) for coordinate in given[: _COORDINATES[name]]]
    x, y, z = (*places, *["0.0"] * 3)[:3]
    _call(
        e,
        i,
        "cl_sample",
        "i1",
        _handle(e, address),
        f"i32 {int(_SHAPES[name])}",
        f"float {x}",
        f"float {y}",
        f"float {z}",
        f"i32 {layer}",
        f"ptr {_result(e)}",
    )
    _take(e, i.operands[0])


@TABLE.row("tld4.<r|g|b|a>.2d.v4.<s32|u32|f32>.f32")
def _gather(e: ThreadCode, i: Instruction, f: Form) -> None:
    address = i.operands[1]
    x, y = (e.real(coordinate, 32) for coordinate in address.coordinates[:2])
    channel = "rgba".index(f.choose(*"rgba"))
    place = f"ptr {_result(e)}"
    _call(e, i, "cl_gather", "i1", _handle(e, address), f"i32 {channel}", f"float {x}", f"float {y}", place)
    _take(e, i.operands[0])


@TABLE.row("txq.<width|height|depth>.b32", "suq.<width|height|depth>.b32")
def _query(e: ThreadCode, i: Instruction, f: Form) -> None:
    kind = Image.TEXTURE if f.row.name == "txq" else Image.SURFACE
    axis = _AXES[f.choose(*_AXES)]
    place = _result(e)
    _call(e, i, "cl_query", "i1", _handle(e, i.operands[1]), f"i32 {kind}", f"i32 {axis}", f"ptr {place}")
    e.set_integer(i.operands[0], e.new(f"load i32, ptr {place}"), 32)


# -- surfaces ----------------------------------------------------------------------------------------------------------

_GEOMETRY = "<1d|2d|3d|a1d|a2d>"
_MODE = "<trap|clamp|zero>"


def _place(e: ThreadCode, i: Instruction, f: Form, address: Address, size: int, kind: SiteKind) -> str:
    """A pointer to the bytes of a surface access."""
    name = f.choose(*_SHAPES)
    given = [e.integer(coordinate, 32) for coordinate in address.coordinates]
    layer = given.pop(0) if name[0] == "a" else "0"
    x, y, z = (*given[: _COORDINATES[name]], "0", "0")[:3]
    if name[0] == "a":
        z = layer
    shapes = texture.mask_of(_SHAPES[name])
    if name == "a2d":  # faces of cube maps are layers
        shapes |= texture.mask_of(ImageShape.CUBE, ImageShape.LAYERED_CUBE)
    return _call(
        e,
        i,
        "cl_surface",
        "ptr",
        _handle(e, address),
        f"i32 {shapes}",
        f"i32 {x}",
        f"i32 {y}",
        f"i32 {z}",
        f"i32 {size}",
        f"i32 {_MODES[f.choose(*_MODES)]}",
        f"i32 {int(kind)}",
        f"ptr {_result(e)}",
    )


def _elements(operand: Any) -> tuple[Any, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


@TABLE.row(f"suld.b.{_GEOMETRY}[.v2].<b8|b16|b32|b64>.{_MODE}", f"suld.b.{_GEOMETRY}.v4.<b8|b16|b32>.{_MODE}")
def _load(e: ThreadCode, i: Instruction, f: Form) -> None:
    bits = BITS[f.types[-1]]
    targets = _elements(i.operands[0])
    pointer = _place(e, i, f, i.operands[1], bits // 8 * len(targets), SiteKind.LOAD)
    for number, target in enumerate(targets):
        at = e.new(f"getelementptr i8, ptr {pointer}, i64 {bits // 8 * number}")
        e.set_integer(target, e.new(f"load i{bits}, ptr {at}, align 1"), bits)


@TABLE.row(f"sust.b.{_GEOMETRY}[.v2].<b8|b16|b32|b64>.{_MODE}", f"sust.b.{_GEOMETRY}.v4.<b8|b16|b32>.{_MODE}")
def _store(e: ThreadCode, i: Instruction, f: Form) -> None:
    kind = f.types[-1]
    bits = BITS[kind]
    values = [stored(e, source, kind) for source in _elements(i.operands[1])]
    pointer = _place(e, i, f, i.operands[0], bits // 8 * len(values), SiteKind.STORE)
    for number, (value, type) in enumerate(values):
        at = e.new(f"getelementptr i8, ptr {pointer}, i64 {bits // 8 * number}")
        if e.watched:
            polling.will_store(e, type, value, at)
        e.emit(f"store {type} {value}, ptr {at}, align 1")


@TABLE.row(f"sured.b.<add|min|max>.<1d|2d|3d>.<u32|s32>.{_MODE}", f"sured.b.add.<1d|2d|3d>.u64.{_MODE}")
@TABLE.row(f"sured.b.<and|or>.<1d|2d|3d>.b32.{_MODE}")
def _reduce(e: ThreadCode, i: Instruction, f: Form) -> None:
    value = e.integer(i.operands[1], f.bits)
    pointer = _place(e, i, f, i.operands[0], f.bits // 8, SiteKind.ATOMIC)
    name = f.choose("add", "min", "max", "and", "or")
    operation = _ADD.get(name) or (name if f.signed else f"u{name}")
    e.new(f"atomicrmw {operation} ptr {pointer}, i{f.bits} {value} monotonic")
