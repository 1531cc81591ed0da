"""Loads and stores of every form, in every space and variant, against the bytes they should move."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.sim.compiler.lowering import TABLE
from cudalab.sim.compiler.ptx.nodes import BITS
from cudalab.sim.compiler.ptx.table import Form
from tests.sim.compiler.kernel_runner import HEADER, Compiled

BYTES = np.random.default_rng(4).integers(0, 256, 64, dtype=np.uint8)
VARIANTS = ("plain", "atomic", "traced")
_SPACES = ("global", "const", "shared", "shared::cta", "local", "param", "param::entry", "param::func")
_VARIABLE = {"shared": "staged", "shared::cta": "staged", "local": "kept", "const": "table"}
_ENTRY = """
.visible .entry {name}(.param .u64 {name}_in, .param .u64 {name}_out, .param .align 16 .b8 {name}_bytes[64])
{{
.reg .b64 %in, %out, %at, %generic;
.reg .b32 %word;
.local .align 16 .b8 kept[64];
ld.param.u64 %in, [{name}_in];
ld.param.u64 %out, [{name}_out];
cvta.to.global.u64 %out, %out;
mov.u64 %generic, %in;
cvta.to.global.u64 %in, %in;
{body}
ret;
}}
"""
_TABLE = f".const .align 16 .b8 table[64] = {{{', '.join(map(str, BYTES))}}};\n.shared .align 16 .b8 staged[64];\n"


def _space(form: Form) -> str:
    return form.choose(*_SPACES)


def _count(form: Form) -> int:
    return {"v2": 2, "v4": 4}.get(form.choose("v2", "v4"), 1)


def _register(kind: str) -> str:
    return kind if kind in ("f32", "f64") else f"b{max(16, BITS[kind])}"


def _copy(source: str, target: str, from_space: str, to_space: str) -> str:
    return "".join(
        f"ld.{from_space}.b32 %word, [{source}+{at}];\nst.{to_space}.b32 [{target}+{at}], %word;\n"
        for at in range(0, 64, 4)
    )


def _place(form: Form, name: str) -> tuple[str, str]:
    """Code that brings the bytes into the space, and the address operand."""
    space = _space(form)
    if space in ("param", "param::entry", "param::func"):
        return "", f"{name}_bytes"
    if space in ("", "global"):
        return "", "%generic" if not space else "%in"
    variable = _VARIABLE[space]
    stage = "" if space == "const" else _copy("%in", variable, "global", space.split(":")[0])
    return f"{stage}mov.u64 %at, {variable};\n", "%at"


def _extend(element: np.ndarray, kind: str) -> int:
    """What the register holds after a load, as 64 bits."""
    value = int.from_bytes(element.tobytes(), "little")
    width = max(16, BITS[kind])
    if kind[0] == "s" and BITS[kind] < width and value >> BITS[kind] - 1:
        value |= (1 << width) - (1 << BITS[kind])
    return value


def _load_kernel(name: str, opcode: str) -> str:
    form = TABLE.find(opcode)
    kind, count = form.types[-1], _count(form)
    stage, base = _place(form, name)
    names = [f"%d{number}" for number in range(count)]
    body = stage + f".reg .{_register(kind)} {', '.join(names)};\n.reg .b64 %wide;\n"
    offset = 16
    address = f"{base}+{offset}"
    targets = names[0] if count == 1 else "{" + ", ".join(names) + "}"
    body += f"{opcode} {targets}, [{address}];\n"
    for number, register in enumerate(names):
        if kind[0] == "f" or BITS[kind] == 64:
            body += f"mov.b{BITS[kind]} {'%wide' if BITS[kind] == 64 else '%word'}, {register};\n"
            body += "" if BITS[kind] == 64 else "cvt.u64.u32 %wide, %word;\n"
        else:
            body += f"cvt.u64.u{max(16, BITS[kind])} %wide, {register};\n"
        body += f"st.global.u64 [%out+{8 * number}], %wide;\n"
    return _ENTRY.format(name=name, body=body)


def _forms(*names: str) -> list[str]:
    """One opcode for each choice; what takes other operands or moves more than 16 bytes is in ``opcodes.wide``."""
    found = [opcode for name in names for row in TABLE.rows[name] for opcode in row.cover()]
    elsewhere = ("v8", "b128", "shared::cluster", "async", "bulk")
    return [opcode for opcode in found if not set(elsewhere) & set(opcode.split("."))]


@pytest.mark.parametrize("variant", VARIANTS)
def test_loads_every_form(variant: str) -> None:
    opcodes = _forms("ld", "ldu")
    module = Compiled(HEADER + _TABLE + "".join(_load_kernel(f"k{n}", opcode) for n, opcode in enumerate(opcodes)))
    for number, opcode in enumerate(opcodes):
        form = TABLE.find(opcode)
        out = np.zeros(4, np.uint64)
        module(f"k{number}", 1, 1, BYTES.copy(), out, BYTES.tobytes(), variant=variant)
        width = BITS[form.types[-1]] // 8
        expected = [_extend(BYTES[16 + n * width : 16 + (n + 1) * width], form.types[-1]) for n in range(_count(form))]
        assert out[: _count(form)].tolist() == expected, opcode


def _store_kernel(name: str, opcode: str) -> str:
    form = TABLE.find(opcode)
    kind, count, space = form.types[-1], _count(form), _space(form)
    names = [f"%s{number}" for number in range(count)]
    body = f".reg .{_register(kind)} {', '.join(names)};\n"
    width = BITS[kind] // 8
    for number, register in enumerate(names):
        body += f"ld.global.{kind if kind[0] == 'f' else f'b{BITS[kind]}'} {register}, [%in+{number * width}];\n"
    target = {"": "%at", "global": "%out"}.get(space) or _VARIABLE.get(space, "passed")
    if space == "":
        body += "cvta.global.u64 %at, %out;\n"
    source = names[0] if count == 1 else "{" + ", ".join(names) + "}"
    if space.startswith("param"):  # a parameter of a call: read back by the function that is called
        return _call_kernel(name, body, f"{opcode} [passed+16], {source};\n")
    if space in ("shared", "shared::cta", "local"):
        body += _clear(target, space.split(":")[0])
    body += f"{opcode} [{target}+16], {source};\n"
    if space in ("shared", "shared::cta", "local"):
        body += _copy(target, "%out", space.split(":")[0], "global")
    return _ENTRY.format(name=name, body=body)


def _clear(target: str, space: str) -> str:
    return "".join(f"st.{space}.b32 [{target}+{at}], 0;\n" for at in range(0, 64, 4))


def _call_kernel(name: str, body: str, store: str) -> str:
    clear = "".join(f"st.param.b32 [passed+{at}], 0;\n" for at in range(0, 64, 4))
    copy = "".join(
        f"ld.param.b32 %word, [unpack_{name}_bytes+{at}];\nst.global.b32 [%to+{at}], %word;\n" for at in range(0, 64, 4)
    )
    function = (
        f".func unpack_{name}(.param .align 16 .b8 unpack_{name}_bytes[64], .param .b64 unpack_{name}_to)\n"
        f"{{\n.reg .b64 %to;\n.reg .b32 %word;\nld.param.b64 %to, [unpack_{name}_to];\n{copy}ret;\n}}\n"
    )
    call = (
        f"{{\n.param .align 16 .b8 passed[64];\n.param .b64 where;\n{clear}{store}st.param.b64 [where], %out;\n"
        f"call unpack_{name}, (passed, where);\n}}\n"
    )
    return function + _ENTRY.format(name=name, body=body + call)


@pytest.mark.parametrize("variant", VARIANTS)
def test_stores_every_form(variant: str) -> None:
    opcodes = _forms("st")
    module = Compiled(HEADER + _TABLE + "".join(_store_kernel(f"k{n}", opcode) for n, opcode in enumerate(opcodes)))
    for number, opcode in enumerate(opcodes):
        form = TABLE.find(opcode)
        out = np.zeros(64, np.uint8)
        module(f"k{number}", 1, 1, BYTES.copy(), out, BYTES.tobytes(), variant=variant)
        size = _count(form) * BITS[form.types[-1]] // 8
        expected = np.zeros(64, np.uint8)
        expected[16 : 16 + size] = BYTES[:size]
        assert (out == expected).all(), opcode


@pytest.mark.parametrize("variant", VARIANTS)
def test_hints_and_fences_change_nothing(variant: str) -> None:
    lines = []
    for opcode in _forms("prefetch", "prefetchu", "applypriority", "discard", "fence", "membar"):
        head = opcode.split(".")[0]
        operand = {"applypriority": " [%in], 128", "discard": " [%in], 128"}.get(head, " [%in]")
        lines.append(f"{opcode}{'' if head in ('fence', 'membar') else operand};\n")
    body = "".join(lines) + _copy("%in", "%out", "global", "global")
    out, source = np.zeros(64, np.uint8), BYTES.copy()
    Compiled(HEADER + _ENTRY.format(name="k", body=body))("k", 1, 1, source, out, BYTES.tobytes(), variant=variant)
    assert (out == BYTES).all()
    assert (source == BYTES).all()


def test_narrow_store_of_a_wide_register_drops_the_upper_part() -> None:
    body = "ld.global.b64 %at, [%in];\nst.global.u32 [%out], %at;\nst.global.u8 [%out+8], %at;\n"
    out = np.zeros(64, np.uint8)
    Compiled(HEADER + _ENTRY.format(name="k", body=body))("k", 1, 1, BYTES.copy(), out, BYTES.tobytes())
    assert out[:4].tolist() == BYTES[:4].tolist()
    assert out[4:8].tolist() == [0] * 4
    assert out[8:10].tolist() == [BYTES[0], 0]
