"""Texture and surface instructions (PTX ISA, "Texture Instructions", "Surface Instructions").

One kernel for each shape and type. Textures are read without filter at places inside and outside of them; filtering is
tested in ``tests/sim/device/calls/test_textures.py``. Surface accesses with ``.trap`` stay inside; a fault has no
result.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import numpy as np

from tests.sim.compiler.opcodes.image import Image, extent_of
from tests.sim.compiler.opcodes.kernel import Expected, Kernel, Output, known

THREADS = 32
_ROW = 32  # bytes of input of a thread: x, y, z as floats; layer; x in bytes, y, z as integers
_GEOMETRIES = ("1d", "2d", "3d", "a1d", "a2d")
_MODES = ("trap", "clamp", "zero")
_TYPES = ("s32", "u32", "f32")
_HEAD = f"""
.reg .b64 %in, %out, %image, %x, %result, %q<3>;
.reg .b32 %t, %layer, %sx, %sy, %sz, %w<5>;
.reg .b16 %h<5>;
.reg .f32 %fx, %fy, %fz;
.reg .pred %p;
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
ld.param.u64 %image, [image];
mov.u32 %t, %tid.x;
mul.wide.u32 %x, %t, {_ROW};
add.s64 %in, %in, %x;
mul.wide.u32 %x, %t, 16;
add.s64 %result, %out, %x;
ld.global.f32 %fx, [%in];
ld.global.f32 %fy, [%in+4];
ld.global.f32 %fz, [%in+8];
ld.global.u32 %layer, [%in+12];
ld.global.u32 %sx, [%in+16];
ld.global.u32 %sy, [%in+20];
ld.global.u32 %sz, [%in+24];
"""
_PARAMETERS = ".param .u64 in, .param .u64 out, .param .u64 image"
_STEP = 16 * THREADS  # bytes of output of one instruction

Place = tuple[float, float, float, int, int, int, int]


def kernels() -> Iterator[Kernel]:
    for type in _TYPES:
        for geometry in (*_GEOMETRIES, "cube", "acube", "linear"):
            yield _texture(geometry, type)
        yield _gather(type)
    for geometry in _GEOMETRIES:
        yield _query(geometry, surface=False)
        yield _query(geometry, surface=True)
        yield _loads(geometry)
        yield _stores(geometry)
        if geometry[0] != "a":
            yield _reductions(geometry, 4)
            yield _reductions(geometry, 8)


# -- what goes in ------------------------------------------------------------------------------------------------------


def _image(geometry: str, type: str, channels: int, *, surface: bool = False) -> Image:
    width, height, depth = extent_of(geometry)
    source = random.Random(f"{geometry} {type} {channels}")
    count = width * height * depth * channels
    if type == "f32":
        data = np.array([source.uniform(-9, 9) for _ in range(count)], np.float32).tobytes()
    else:
        data = bytes(source.getrandbits(8) for _ in range(4 * count))
    return Image(geometry, type, channels, data, surface)


def _places(geometry: str) -> list[Place]:
    """Where each thread reads: floats all around the texels, and for surfaces a texel of its own as far as there are
    enough."""
    source = random.Random(f"places {geometry}")
    width, height, depth = extent_of(geometry)
    found = []
    for thread in range(THREADS):
        if "cube" in geometry:
            x, y, z = (source.uniform(-1, 1) for _ in range(3))
        else:
            x, y, z = (source.uniform(-2, size + 2) for size in (width, height, depth))
        sx, rest = thread % width, thread // width
        sy = rest % height
        sz = rest // height % depth if height > 1 else rest % depth
        found.append((x, y, z, source.randrange(depth if "cube" not in geometry else depth // 6), sx, sy, sz))
    return found


def _input(places: list[Place], texel: int) -> np.ndarray:
    rows = [struct.pack("<3f4iI", *place[:4], texel * place[4], *place[5:], 0) for place in places]
    return np.frombuffer(b"".join(rows), np.uint8).copy()


def _float(value: float) -> float:
    return float(np.float32(value))


def _kernel(name: str, body: list[str], image: Image, places: list[Place], results: list[Output]) -> Kernel:
    texel = 4 * image.channels
    return Kernel(
        name=name,
        body=_HEAD + "\n".join(body) + "\nret;",
        opcodes=frozenset(result.opcode for result in results),
        input=_input(places, texel),
        output=np.zeros(_STEP * len(results), np.uint8),
        results=results,
        block=THREADS,
        parameters=_PARAMETERS,
        images=(image,),
    )


# -- textures ----------------------------------------------------------------------------------------------------------


def _nearest(image: Image, place: Place) -> list[int]:
    """The texel that holds a place, as words."""
    x, y, z, layer, *_ = place
    width, height, depth = image.extent
    texels = np.frombuffer(image.data, np.uint32).reshape(depth, height, width, image.channels)
    if "cube" in image.geometry:
        face, x, y = _face(_float(x), _float(y), _float(z))
        x, y, z = x * width, y * height, layer * 6 + face
    elif image.geometry[0] == "a":
        z = layer
    column, row, slice_ = (
        min(max(int(np.floor(_float(value))), 0), size - 1) for value, size in zip((x, y, z), image.extent, strict=True)
    )
    if image.geometry in ("1d", "a1d"):
        row = 0
    if image.geometry in ("1d", "2d"):
        slice_ = 0
    return [int(word) for word in texels[slice_, row, column]] + [0] * (4 - image.channels)


def _face(x: float, y: float, z: float) -> tuple[int, float, float]:
    """CUDA C++ Programming Guide, "Cubemap Textures"."""
    largest = max(abs(x), abs(y), abs(z))
    if largest == abs(x):
        face, s, t = (0, -z, -y) if x >= 0 else (1, z, -y)
    elif largest == abs(y):
        face, s, t = (2, x, z) if y >= 0 else (3, x, -z)
    else:
        face, s, t = (4, x, -y) if z >= 0 else (5, -x, -y)
    return face, (s / largest + 1) / 2, (t / largest + 1) / 2


_COORDINATES = {
    "1d": "%fx",
    "2d": "%fx, %fy",
    "3d": "%fx, %fy, %fz, %fz",
    "a1d": "%layer, %fx",
    "a2d": "%layer, %fx, %fy, %fy",
    "cube": "%fx, %fy, %fz, %fz",
    "acube": "%layer, %fx, %fy, %fz",
    "linear": "%sx",
}
_GRADIENTS = {"1d": "{%fx}", "a1d": "{%fx}", "2d": "{%fx, %fy}", "a2d": "{%fx, %fy}", "3d": "{%fx, %fy, %fz, %fz}"}


def _texture(geometry: str, type: str) -> Kernel:
    image = _image(geometry, type, 4)
    places = _places(geometry)
    body: list[str] = []
    results: list[Output] = []
    forms = ["", ".level", ".grad"] if geometry in _GRADIENTS else ["", ".level"]
    if geometry == "linear":
        forms = [""]
        places = [(*place[:4], number - 8, 0, 0) for number, place in enumerate(places)]
    for form in forms:
        name, coordinate = ("1d", "s32") if geometry == "linear" else (geometry, "f32")
        opcode = f"tex{form}.{name}.v4.{type}.{coordinate}"
        level = {"": "", ".level": ", %fy", ".grad": f", {_GRADIENTS.get(geometry)}, {_GRADIENTS.get(geometry)}"}[form]
        at = len(results) * _STEP
        index = ["mov.b32 %sx, %sx;"] if geometry == "linear" else []
        body += [
            *index,
            f"{opcode} {{%w1, %w2, %w3, %w4}}, [%image, {{{_COORDINATES[geometry]}}}]{level};",
            f"st.global.v4.b32 [%result+{at}], {{%w1, %w2, %w3, %w4}};",
        ]
        if geometry == "linear":
            texels = np.frombuffer(image.data, np.uint32).reshape(-1, 4)
            words = [int(w) for p in places for w in (texels[p[4]] if 0 <= p[4] < len(texels) else [0] * 4)]
        else:
            words = [word for place in places for word in _nearest(image, place)]
        results.append(known(opcode, type, at, 4, words))
    made = _kernel(f"tex_{geometry}_{type}", body, image, places, results)
    if geometry == "linear":
        made.input = _input(places, 1)
    return made


def _gather(type: str) -> Kernel:
    image = _image("2d", type, 4)
    places = _places("2d")
    width, height, _ = image.extent
    texels = np.frombuffer(image.data, np.uint32).reshape(height, width, 4)
    body: list[str] = []
    results: list[Output] = []
    for channel, letter in enumerate("rgba"):
        opcode = f"tld4.{letter}.2d.v4.{type}.f32"
        at = len(results) * _STEP
        body += [
            f"{opcode} {{%w1, %w2, %w3, %w4}}, [%image, {{%fx, %fy}}];",
            f"st.global.v4.b32 [%result+{at}], {{%w1, %w2, %w3, %w4}};",
        ]
        words: list[Expected] = []
        for x, y, *_ in places:
            left, top = (int(np.floor(np.floor(_float(value) * 256 + 0.5) / 256 - 0.5)) for value in (x, y))
            for across, down in ((0, 1), (1, 1), (1, 0), (0, 0)):
                column, row = min(max(left + across, 0), width - 1), min(max(top + down, 0), height - 1)
                words.append(int(texels[row, column, channel]))
        results.append(known(opcode, type, at, 4, words))
    return _kernel(f"tld4_{type}", body, image, places, results)


def _query(geometry: str, *, surface: bool) -> Kernel:
    image = _image(geometry, "u32", 1, surface=surface)
    name = "suq" if surface else "txq"
    body: list[str] = []
    results: list[Output] = []
    axes = ["width", "height", "depth"][: int(geometry[-2])]
    for axis, size in zip(axes, image.extent, strict=False):
        opcode = f"{name}.{axis}.b32"
        at = len(results) * _STEP
        body += [f"{opcode} %w1, [%image];", f"st.global.b32 [%result+{at}], %w1;"]
        results.append(known(opcode, "u32", at, 4, [size] * THREADS, gap=16))
    return _kernel(f"{name}_{geometry}", body, image, _places(geometry), results)


# -- surfaces ----------------------------------------------------------------------------------------------------------


def _surface_place(geometry: str, x: str = "%sx", y: str = "%sy", z: str = "%sz") -> str:
    return {
        "1d": f"{x}",
        "2d": f"{x}, {y}",
        "3d": f"{x}, {y}, {z}, {z}",
        "a1d": f"{z}, {x}",
        "a2d": f"{z}, {x}, {y}, {y}",
    }[geometry]


def _outside(geometry: str, mode: str, instruction: str) -> list[str]:
    """The instruction at a place beyond all edges, for the modes that allow it."""
    far = _surface_place(geometry, "%w3", "%w4", "%w4")
    return ["mov.b32 %w3, -64;", "mov.b32 %w4, 99;", instruction.replace("PLACE", far)] if mode != "trap" else []


def _widths() -> list[tuple[str, int, int]]:
    """Vector and type as they stand in an opcode, bits of an element, elements."""
    found = []
    for vector, count in (("", 1), (".v2", 2), (".v4", 4)):
        for bits in (8, 16, 32, 64):
            if bits * count <= 128:
                found.append((f"{vector}.b{bits}", bits, count))
    return found


def _registers(bits: int, count: int) -> list[str]:
    return [f"%{'q' if bits == 64 else 'w' if bits == 32 else 'h'}{number}" for number in range(1, count + 1)]


def _texel(image: Image, place: Place) -> int:
    """Offset of the texel of a surface place."""
    width, height, _ = image.extent
    x, y, z = place[4:]
    y = y if image.geometry not in ("1d", "a1d") else 0
    z = z if image.geometry not in ("1d", "2d") else 0
    return ((z * height + y) * width + x) * 4 * image.channels


def _corner(image: Image) -> int:
    """Offset of the texel that a place beyond x = 0 and the last row and slice is clamped to."""
    width, height, depth = image.extent
    return (depth * height - 1) * width * 4 * image.channels


def _loads(geometry: str) -> Kernel:
    """Half of the threads read outside, where the mode allows it."""
    image = _image(geometry, "u32", 4, surface=True)
    places = _places(geometry)
    body = ["setp.lt.u32 %p, %t, 16;"]
    results: list[Output] = []
    for mode in _MODES:
        for shape, bits, count in _widths():
            opcode = f"suld.b.{geometry}{shape}.{mode}"
            at = len(results) * _STEP
            taken = "{" + ", ".join(_registers(bits, count)) + "}"
            inside = _surface_place(geometry)
            if mode != "trap":
                body += [
                    "mov.b32 %w3, %sx;",
                    "mov.b32 %w4, %sy;",
                    "mov.b32 %layer, %sz;",
                    "@!%p mov.b32 %w3, -64;",
                    "@!%p mov.b32 %w4, 99;",
                    "@!%p mov.b32 %layer, 99;",
                ]
                inside = _surface_place(geometry, "%w3", "%w4", "%layer")
            body.append(f"{opcode} {taken}, [%image, {{{inside}}}];")
            for number, register in enumerate(_registers(bits, count)):
                body.append(f"st.global.b{bits} [%result+{at + number * bits // 8}], {register};")
            expected: list[Expected] = []
            for thread, place in enumerate(places):
                offset = _texel(image, place)
                row = image.data[offset : offset + bits // 8 * count]
                if mode != "trap" and thread >= 16:
                    corner = _corner(image)
                    row = image.data[corner : corner + len(row)] if mode == "clamp" else bytes(len(row))
                expected += list(row.ljust(16, b"\0"))
            results.append(known(opcode, "u8", at, 1, expected))
    return _kernel(f"suld_{geometry}", body, image, places, results)


def _stores(geometry: str) -> Kernel:
    """Each instruction writes a value of its own to each texel with ``.trap``, else thread 0 writes it outside; then
    the texels go to the output."""
    image = _image(geometry, "u32", 4, surface=True)
    places = _places(geometry)
    now = bytearray(image.data)
    everywhere = _surface_place(geometry)
    body = ["setp.eq.u32 %p, %t, 0;"]
    results: list[Output] = []
    for mode in _MODES:
        for shape, bits, count in _widths():
            opcode = f"sust.b.{geometry}{shape}.{mode}"
            at = len(results) * _STEP
            value = (0x0123456789ABCDEF * (2 * len(results) + 1)) & ((1 << bits) - 1)
            registers = _registers(bits, count)
            body += [f"mov.b{max(bits, 16)} {register}, {value};" for register in registers]
            given = "{" + ", ".join(registers) + "}"
            written = value.to_bytes(bits // 8, "little") * count
            if mode == "trap":
                body.append(f"{opcode} [%image, {{{everywhere}}}], {given};")
                for place in places:
                    now[_texel(image, place) : _texel(image, place) + len(written)] = written
            else:
                far = _surface_place(geometry, "%layer", "%t", "%t")
                body += ["mov.b32 %layer, -64;", "mov.b32 %t, 99;", f"@%p {opcode} [%image, {{{far}}}], {given};"]
                if mode == "clamp":
                    now[_corner(image) : _corner(image) + len(written)] = written
            body += [
                "bar.sync 0;",
                f"suld.b.{geometry}.v4.b32.trap {{%w1, %w2, %w3, %w4}}, [%image, {{{everywhere}}}];",
                f"st.global.v4.b32 [%result+{at}], {{%w1, %w2, %w3, %w4}};",
                "bar.sync 0;",
            ]
            expected = [int(b) for place in places for b in now[_texel(image, place) : _texel(image, place) + 16]]
            results.append(known(opcode, "u8", at, 1, expected))
    return _kernel(f"sust_{geometry}", body, image, places, results)


def _reductions(geometry: str, texel: int) -> Kernel:
    """Every thread changes its texel, or outside of the surface with thread numbers as values."""
    image = _image(geometry, "u32", texel // 4, surface=True)
    places = _places(geometry)
    now = bytearray(image.data)
    everywhere = _surface_place(geometry)
    forms = [(op, type) for op in ("add", "min", "max") for type in ("u32", "s32")] + [("and", "b32"), ("or", "b32")]
    if texel == 8:
        forms = [("add", "u64")]
    body = ["mul.lo.u32 %layer, %t, 0x9E3779B1;", "cvt.u64.u32 %q1, %layer;", "shl.b64 %q2, %q1, 20;"]
    results: list[Output] = []
    for mode in _MODES:
        for operation, type in forms:
            opcode = f"sured.b.{operation}.{geometry}.{type}.{mode}"
            at = len(results) * _STEP
            value = "%q2" if texel == 8 else "%layer"
            far = _surface_place(geometry, "%w3", "%w4", "%w4")
            body += ["mov.b32 %w3, -64;", "mov.b32 %w4, 99;"]
            body.append(f"{opcode} [%image, {{{everywhere if mode == 'trap' else far}}}], {value};")
            for thread, place in enumerate(places):
                word = thread * 0x9E3779B1 & 0xFFFF_FFFF
                word = word << 20 if texel == 8 else word
                offset = _texel(image, place) if mode == "trap" else _corner(image)
                if mode != "zero":
                    old = int.from_bytes(now[offset : offset + texel], "little")
                    now[offset : offset + texel] = _reduced(operation, type, old, word).to_bytes(texel, "little")
            vector = ".v2" if texel == 8 else ""
            taken = "%w1, %w2" if texel == 8 else "%w1"
            body += [
                "bar.sync 0;",
                f"suld.b.{geometry}{vector}.b32.trap {{{taken}}}, [%image, {{{everywhere}}}];",
                f"st.global{vector}.b32 [%result+{at}], {'{' + taken + '}' if texel == 8 else taken};",
                "bar.sync 0;",
            ]
            expected = [
                int.from_bytes(now[_texel(image, place) : _texel(image, place) + texel], "little") for place in places
            ]
            results.append(known(opcode, "u64" if texel == 8 else "u32", at, texel, expected, gap=16))
    return _kernel(f"sured_{geometry}_{texel}", body, image, places, results)


def _reduced(operation: str, type: str, old: int, value: int) -> int:
    bits = int(type[1:])
    if operation == "add":
        return (old + value) & ((1 << bits) - 1)
    if operation in ("and", "or"):
        return old & value if operation == "and" else old | value
    signed = [number - (1 << bits) if type[0] == "s" and number >> bits - 1 else number for number in (old, value)]
    chosen = min(signed) if operation == "min" else max(signed)
    return chosen & ((1 << bits) - 1)
