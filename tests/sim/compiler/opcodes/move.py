"""Moves, packing and address conversion (PTX ISA, ``mov``, ``cvta``, ``isspacep``)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.sim.compiler.opcodes.case import Case, opcodes
from tests.sim.compiler.opcodes.kernel import Expected, Kernel, Output, known
from tests.sim.compiler.opcodes.values import BITS

_TYPES = "<b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>"


def moves() -> Iterator[Case]:
    for opcode, (_, type) in opcodes(f"mov.{_TYPES}"):
        yield Case(opcode, type, type, lambda a: a)
        bits = BITS[type]
        if type[0] == "f":
            constants = {32: ("0fC0490FDB", 0xC0490FDB), 64: ("0d400921FB54442D18", 0x400921FB54442D18)}
            text, value = constants[bits]
        else:
            text, value = "-7", (1 << bits) - 7
        yield Case(opcode, type, type, lambda a, value=value: value, f"{opcode} {{d0}}, {text};")
    yield Case("mov.pred", "pred", "pred", lambda a: a)
    # the bits of a float in an integer register, and back
    yield Case("mov.b32", "b32", "f32", lambda a: a, "mov.b32 {d0}, {a0};")
    yield Case("mov.b32", "f32", "b32", lambda a: a, "mov.b32 {d0}, {a0};")
    yield Case("mov.b64", "b64", "f64", lambda a: a, "mov.b64 {d0}, {a0};")
    yield Case("mov.b64", "f64", "b64", lambda a: a, "mov.b64 {d0}, {a0};")


def packing() -> Iterator[Case]:
    """Vectors in braces; the first element is lowest."""
    yield Case("mov.b32", "b32", "b16 b16", lambda a, b: b << 16 | a, "mov.b32 {d0}, {{a0}, {a1}};")
    yield Case("mov.b64", "b64", "b32 b32", lambda a, b: b << 32 | a, "mov.b64 {d0}, {{a0}, {a1}};")
    yield Case("mov.b64", "f64", "b32 b32", lambda a, b: b << 32 | a, "mov.b64 {d0}, {{a0}, {a1}};")
    yield Case("mov.b64", "b64", "f32 f32", lambda a, b: b << 32 | a, "mov.b64 {d0}, {{a0}, {a1}};")
    body = "mov.b64 {d0}, {{a0}, {a1}, {a2}, {a3}};"
    yield Case("mov.b64", "b64", "b16 b16 b16 b16", lambda a, b, c, d: d << 48 | c << 32 | b << 16 | a, body)
    yield Case("mov.b64", "b64", "b32", lambda a: 5 << 32 | a, "mov.b64 {d0}, {{a0}, 5};")
    yield Case("mov.b32", "b16 b16", "b32", lambda a: (a & 0xFFFF, a >> 16), "mov.b32 {{d0}, {d1}}, {a0};")
    yield Case("mov.b64", "b32 b32", "b64", lambda a: (a & 0xFFFFFFFF, a >> 32), "mov.b64 {{d0}, {d1}}, {a0};")
    yield Case("mov.b64", "b32 b32", "f64", lambda a: (a & 0xFFFFFFFF, a >> 32), "mov.b64 {{d0}, {d1}}, {a0};")
    yield Case("mov.b64", "b32", "b64", lambda a: a >> 32, "mov.b64 {_, {d0}}, {a0};")
    body = "mov.b64 {{d0}, {d1}, {d2}, {d3}}, {a0};"
    quarters = lambda a: tuple(a >> shift & 0xFFFF for shift in (0, 16, 32, 48))  # noqa: E731
    yield Case("mov.b64", "b16 b16 b16 b16", "b64", quarters, body)


def cases() -> Iterator[Case]:
    for family in (moves, packing):
        yield from family()


_SPACES = ("global", "shared", "shared::cta", "local", "const")
_WORD = 0x12345678


def addresses() -> Kernel:
    """To generic addresses and back, loads through them, and in which space they lie."""
    lines = [
        ".reg .b64 %in, %out, %own, %generic, %back;",
        ".reg .b32 %v, %x;",
        ".reg .pred %p;",
        ".shared .align 8 .b8 board[64];",
        ".local .align 8 .b8 own[64];",
        "ld.param.u64 %in, [in];",
        "ld.param.u64 %out, [out];",
        f"mov.u32 %v, {_WORD};",
        "st.shared.b32 [board+8], %v;",
        "st.local.b32 [own+8], %v;",
    ]
    results: list[Output] = []
    tested = set()

    def put(text: str, register: str, expected: Expected) -> None:
        offset = 4 * len(results)
        lines.append(f"st.global.b32 [%out+{offset}], {register};")
        results.append(known(text, "b32", offset, 4, [expected]))

    places = {"global": "%in", "shared": "board", "shared::cta": "board", "local": "own", "const": "move_table"}
    for space in _SPACES:
        to, back = f"cvta.{space}.u64", f"cvta.to.{space}.u64"
        tested |= {to, back}
        lines += [f"mov.u64 %own, {places[space]};", f"{to} %generic, %own;", f"{back} %back, %generic;"]
        lines += ["ld.b32 %x, [%generic+8];"]
        put(f"ld through {to}", "%x", _WORD)
        lines += [f"ld.{space}.b32 %x, [%back+8];"]
        put(back, "%x", _WORD)
        lines += ["sub.s64 %back, %back, %own;", "cvt.u32.u64 %x, %back;"]
        put(f"{to} and {back}", "%x", 0)
        for question in _SPACES:
            opcode = f"isspacep.{question}"
            tested.add(opcode)
            same = question.split("::")[0] == space.split("::")[0]
            lines += [f"{opcode} %p, %generic;", "selp.b32 %x, 1, 0, %p;"]
            put(f"{opcode} of {space}", "%x", int(same))
    lines += ["mov.b64 %own, blob;", "cvta.param.u64 %generic, %own;", "ld.b32 %x, [%generic+8];"]
    tested.add("cvta.param.u64")
    put("ld through cvta.param.u64", "%x", _WORD)
    for question in _SPACES:
        lines += [f"isspacep.{question} %p, %generic;", "selp.b32 %x, 1, 0, %p;"]
        put(f"isspacep.{question} of param", "%x", None)
    lines.append("ret;")
    words = np.zeros(16, np.uint32)
    words[2] = _WORD
    return Kernel(
        name="move_addresses",
        body="\n".join(lines),
        opcodes=frozenset(tested),
        input=words.view(np.uint8),
        output=np.zeros(4 * len(results), np.uint8),
        results=results,
        block=1,
        declarations=f".const .align 8 .b32 move_table[4] = {{0, 0, {_WORD}, 0}};",
        parameters=".param .u64 in, .param .u64 out, .param .align 8 .b8 blob[16]",
        arguments=words[:4].tobytes(),
    )


def symbols() -> Kernel:
    """Addresses of variables, with offsets, and ``generic()`` in an initialiser."""
    lines = [
        ".reg .b64 %in, %out, %a, %b;",
        ".reg .b32 %x;",
        "ld.param.u64 %out, [out];",
        "mov.u64 %a, move_global;",
        "ld.global.b32 %x, [%a+4];",
        "st.global.b32 [%out], %x;",
        "mov.u64 %b, move_global+8;",
        "ld.global.b32 %x, [%b];",
        "st.global.b32 [%out+4], %x;",
        "ld.global.b32 %x, [move_global+12];",
        "st.global.b32 [%out+8], %x;",
        "ld.global.b64 %b, [move_pointer];",
        "ld.b32 %x, [%b];",
        "st.global.b32 [%out+12], %x;",
        "ret;",
    ]
    return Kernel(
        name="move_symbols",
        body="\n".join(lines),
        opcodes=frozenset(),
        input=np.zeros(8, np.uint8),
        output=np.zeros(16, np.uint8),
        results=[known("addresses of variables", "b32", 0, 4, [11, 12, 13, 12])],
        block=1,
        declarations=(
            ".global .align 8 .b32 move_global[4] = {10, 11, 12, 13};\n"
            ".global .align 8 .u64 move_pointer = generic(move_global)+8;"
        ),
    )


def kernels() -> list[Kernel]:
    return [addresses(), symbols()]
