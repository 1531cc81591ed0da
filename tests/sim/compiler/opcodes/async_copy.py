"""Asynchronous copies (PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy").

Each instruction copies bytes of the input to a part of the output, by way of shared memory; its wait stands behind it.
``cp.async`` is run by the threads of a warp, bulk copies by one thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from tests.sim.compiler.opcodes.case import opcodes
from tests.sim.compiler.opcodes.kernel import Expected, Kernel, known

THREADS = 32
BYTES = 16 * THREADS
"""Of the input, of a part of the output, and of a copy."""
_MOST = 12
_HINT = "[.L2::cache_hint]"
_TRACKED = "mbarrier::complete_tx::bytes"
_NEAR = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
_FAR = "cp.reduce.async.bulk.global.shared::cta.bulk_group"


@cache
def source() -> np.ndarray:
    """The input, two parts of it."""
    return np.random.default_rng(20).integers(0, 256, 2 * BYTES, dtype=np.uint8)


@dataclass(frozen=True)
class Copy:
    """What is run to make one part of the output; ``expected`` are its bytes as words of ``size``. ``start`` is what
    the part holds before."""

    opcode: str
    lines: tuple[str, ...]
    expected: tuple[Expected, ...]
    size: int = 4
    start: bytes = b"\xa5" * BYTES
    others: tuple[str, ...] = ()


_ZERO = "st.shared.v4.b32 [%row], {0, 0, 0, 0};"
_BACK = ("bar.sync 0;", "ld.shared.v4.b32 {%a, %b, %c, %d}, [%row];", "st.global.v4.b32 [%there], {%a, %b, %c, %d};")


def _words(data: np.ndarray, size: int = 4) -> tuple[int, ...]:
    return tuple(data.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[size]).tolist())


# -- cp.async ----------------------------------------------------------------------------------------------------------


def _kept(size: int, filled: int | None = None) -> np.ndarray:
    """What each thread's 16 bytes hold after a copy of ``size`` bytes, of which ``filled`` come from the source."""
    rows = np.zeros((THREADS, 16), np.uint8)
    filled = size if filled is None else filled
    rows[:, :filled] = source()[:BYTES].reshape(THREADS, 16)[:, :filled]
    return rows.reshape(-1)


def small() -> Iterator[Copy]:
    for opcode, _ in opcodes(f"cp.async.<ca|cg>.<shared|shared::cta>.global{_HINT}[.L2::64B|L2::128B|L2::256B]"):
        policy = ", %policy" if "cache_hint" in opcode else ""
        sizes: tuple[tuple[int, int | None], ...] = ((16, None),)
        if opcode in ("cp.async.ca.shared.global", "cp.async.cg.shared.global"):
            sizes = ((4, None), (8, 3), (16, None), (16, 0), (16, 9))[2 * (".cg." in opcode) :]
        for size, filled in sizes:
            given = "" if filled is None else f", {filled}"
            text = f"{opcode} [%row], [%from], {size}{given}{policy};"
            lines = (_ZERO, text, "cp.async.wait_all;", *_BACK)
            yield Copy(opcode, lines, _words(_kept(size, filled)), others=("cp.async.wait_all",))
    text = "cp.async.ca.shared.global [%row], [%from], 16, %odd;"
    rows = _kept(16).reshape(THREADS, 16).copy()
    rows[1::2] = 0
    yield Copy("cp.async.ca.shared.global", (_ZERO, text, "cp.async.wait_all;", *_BACK), _words(rows.reshape(-1)))
    text = "cp.async.cg.shared.global [%row], [%from], 16;"
    for most in (0, 1):
        lines = (_ZERO, text, "cp.async.commit_group;", *("cp.async.commit_group;",) * most)
        lines += (f"cp.async.wait_group {most};", *_BACK)
        yield Copy("cp.async.wait_group", lines, _words(_kept(16)), others=("cp.async.commit_group",))
    for opcode, _ in opcodes("cp.async.mbarrier.arrive[.noinc][.shared|shared::cta].b64"):
        place = "[object]" if "shared" in opcode else "[%generic]"
        lines: tuple[str, ...] = (_ZERO, "bar.sync 0;", f"@%first mbarrier.init.shared.b64 [object], {THREADS};")
        lines += ("bar.sync 0;", text, f"{opcode} {place};")
        if "noinc" not in opcode:
            lines += ("mbarrier.arrive.shared.b64 _, [object];",)
        lines += (*_wait("0"), *_BACK, "bar.sync 0;", "@%first mbarrier.inval.shared.b64 [object];")
        yield Copy(opcode, lines, _words(_kept(16)))


_labels = itertools.count()


def _wait(parity: str) -> tuple[str, ...]:
    label = f"WAIT{next(_labels)}"
    return (f"{label}:", f"mbarrier.try_wait.parity.shared.b64 %p, [object], {parity};", f"@!%p bra {label};")


# -- bulk copies -------------------------------------------------------------------------------------------------------

_ANNOUNCE = ("mbarrier.init.shared.b64 [object], 1;", f"mbarrier.arrive.expect_tx.shared.b64 _, [object], {BYTES};")
_FILL = ("ld.global.v4.b32 {%a, %b, %c, %d}, [%from];", "st.shared.v4.b32 [%other], {%a, %b, %c, %d};")
_SHOW = ("fence.proxy.async;", "bar.sync 0;")


def _by_one(*lines: str) -> tuple[str, ...]:
    """What the first thread does."""
    label = f"REST{next(_labels)}"
    return (f"@!%first bra {label};", *lines, f"{label}:", "bar.sync 0;")


def _tracked(opcode: str, operands: str, data: np.ndarray, fill: tuple[str, ...] = (), size: int = 4) -> Copy:
    """A copy that an mbarrier tracks, into ``board``."""
    run = (*_ANNOUNCE, f"{opcode} {operands};", *_wait("0"), "mbarrier.inval.shared.b64 [object];")
    lines = (_ZERO, *fill, *_SHOW, *_by_one(*run), *_BACK)
    return Copy(opcode, lines, _words(data, size), size)


def bulk() -> Iterator[Copy]:
    data = source()[:BYTES]
    for opcode, _ in opcodes(f"cp.async.bulk.<shared::cluster|shared::cta>.global.{_TRACKED}{_HINT}"):
        policy = ", %policy" if "cache_hint" in opcode else ""
        yield _tracked(opcode, f"[board], [%in], {BYTES}, [object]{policy}", data)
    for opcode, _ in opcodes(f"cp.async.bulk.shared::cluster.global.{_TRACKED}.multicast::cluster{_HINT}"):
        policy = ", %policy" if "cache_hint" in opcode else ""
        yield _tracked(opcode, f"[board], [%in], {BYTES}, [object], %mask{policy}", data)
    for opcode, _ in opcodes(f"cp.async.bulk.global.shared::cta.bulk_group{_HINT}"):
        policy = ", %policy" if "cache_hint" in opcode else ""
        for wait in ("cp.async.bulk.wait_group", "cp.async.bulk.wait_group.read"):
            run = (f"{opcode} [%place], [second], {BYTES}{policy};", "cp.async.bulk.commit_group;", f"{wait} 0;")
            others = ("cp.async.bulk.commit_group", wait)
            yield Copy(opcode, (*_FILL, *_SHOW, *_by_one(*run)), _words(data), others=others)
    for opcode, _ in opcodes(f"cp.async.bulk.prefetch.L2.global{_HINT}"):
        policy = ", %policy" if "cache_hint" in opcode else ""
        yield Copy(opcode, (f"{opcode} [%in], {BYTES}{policy};",), (0xA5A5A5A5,) * (BYTES // 4))


# -- reductions --------------------------------------------------------------------------------------------------------


def _values(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Two parts of bytes that are numbers of a type: what is reduced, and into what."""
    random = np.random.default_rng(21)
    if kind == "f16":
        values = (random.integers(-2000, 2000, (2, BYTES // 2)) / np.float64(8)).astype(np.float16).view(np.uint8)
    elif kind == "bf16":
        whole = random.integers(-100, 100, (2, BYTES // 2)).astype(np.float32).view(np.uint32)
        values = (whole >> 16).astype(np.uint16).view(np.uint8)
    elif kind[0] == "f":
        values = random.standard_normal((2, 8 * BYTES // int(kind[1:]))).astype(f"f{int(kind[1:]) // 8}").view(np.uint8)
    else:
        values = source().reshape(2, BYTES)
    return values[0], values[1]


def _numbers(kind: str, data: np.ndarray) -> np.ndarray:
    data = np.ascontiguousarray(data)
    if kind == "bf16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    names = {"b": "u", "u": "u", "s": "i", "f": "f"}
    return data.view(f"{names[kind[0]]}{int(kind[1:]) // 8}")


def _reduced(operation: str, kind: str, old: np.ndarray, value: np.ndarray) -> np.ndarray:
    a, b = _numbers(kind, old), _numbers(kind, value)
    if operation == "inc":
        found = np.where(a >= b, 0, a + 1).astype(a.dtype)
    elif operation == "dec":
        found = np.where((a == 0) | (a > b), b, a - 1).astype(a.dtype)
    else:
        numpy = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "min": "minimum", "max": "maximum"}
        found = getattr(np, numpy.get(operation, operation))(a, b)
    if kind == "bf16":
        bits = found.view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).view(np.uint8)
    return found.view(np.uint8)


def _type_of(opcode: str) -> tuple[str, str]:
    parts = [part for part in opcode.split(".") if part != "noftz"]
    return parts[-2], parts[-1]


def _fill_with(data: np.ndarray, where: str) -> tuple[str, ...]:
    """Each thread writes its 16 bytes of ``data``: literals, chosen by the thread."""
    words = data.view(np.uint32).reshape(THREADS, 4)
    table = ", ".join(str(word) for word in words.reshape(-1).tolist())
    number = next(_labels)
    return (
        f".global .align 16 .b32 table{number}[{4 * THREADS}] = {{{table}}};",
        f"mov.u64 %table, table{number};",
        "add.s64 %table, %table, %sixteen;",
        "ld.global.v4.b32 {%a, %b, %c, %d}, [%table];",
        f"st.shared.v4.b32 [{where}], {{%a, %b, %c, %d}};",
    )


def reductions() -> Iterator[Copy]:
    patterns = [
        f"{_FAR}{_HINT}.<and|or|xor>.<b32|b64>",
        f"{_FAR}{_HINT}.add.<u32|s32|u64|f32|f64>",
        f"{_FAR}{_HINT}.<min|max>.<u32|s32|u64|s64|f16|bf16>",
        f"{_FAR}{_HINT}.<inc|dec>.u32",
        f"{_FAR}{_HINT}.add.noftz.<f16|bf16>",
    ]
    for opcode, _ in (each for pattern in patterns for each in opcodes(pattern)):
        operation, kind = _type_of(opcode)
        value, old = _values(kind)
        policy = ", %policy" if "cache_hint" in opcode else ""
        run = (f"{opcode} [%place], [second], {BYTES}{policy};", "cp.async.bulk.commit_group;")
        run += ("cp.async.bulk.wait_group 0;",)
        size = max(2, int(kind.lstrip("bsuf")) // 8)
        expected = _words(_reduced(operation, kind, old, value), size)
        yield Copy(opcode, (*_fill_with(value, "%other"), *_SHOW, *_by_one(*run)), expected, size, old.tobytes())


def near() -> Iterator[Copy]:
    """From shared memory to shared memory."""
    opcode = f"cp.async.bulk.shared::cluster.shared::cta.{_TRACKED}"
    yield _tracked(opcode, f"[board], [second], {BYTES}, [object]", source()[:BYTES], _FILL)
    patterns = [f"{_NEAR}.<and|or|xor>.b32", f"{_NEAR}.add.<u32|s32|u64>", f"{_NEAR}.<min|max>.<u32|s32>"]
    patterns.append(f"{_NEAR}.<inc|dec>.u32")
    for opcode, _ in (each for pattern in patterns for each in opcodes(pattern)):
        operation, kind = _type_of(opcode)
        value, old = _values(kind)
        fill = (*_fill_with(value, "%other"), *_fill_with(old, "%row"))
        size = int(kind[1:]) // 8
        result = _reduced(operation, kind, old, value)
        copy = _tracked(opcode, f"[board], [second], {BYTES}, [object]", result, fill, size)
        yield Copy(opcode, copy.lines[1:], copy.expected, size)


# -- st.async and red.async --------------------------------------------------------------------------------------------


def stores() -> Iterator[Copy]:
    """Each thread stores one element; the rest of its 16 bytes is zero."""
    pattern = f"st.async[.weak].shared::cluster.{_TRACKED}"
    wide = f"{pattern}[.v2].<b32|u32|s32|f32|b64|u64|s64|f64>"
    for opcode, _ in (*opcodes(wide), *opcodes(f"{pattern}.v4.<b32|u32|s32|f32>")):
        parts = opcode.split(".")
        count = int(next((part[1:] for part in parts if part in ("v2", "v4")), "1"))
        width = 8 if parts[-1].endswith("64") else 4
        names = {"b": "%w" if width == 8 else "%", "f": "%fd" if width == 8 else "%fs"}
        prefix = names["f" if parts[-1][0] == "f" else "b"]
        registers = [f"{prefix}{letter}" for letter in "abcd"[:count]]
        given = registers[0] if count == 1 else "{" + ", ".join(registers) + "}"
        yield _stored(opcode, given, width * count, _kept(width * count))
    for operation, kind in [
        *itertools.product(("and", "or", "xor"), ("b32",)),
        *itertools.product(("min", "max"), ("u32", "s32")),
        *itertools.product(("add",), ("u32", "s32", "u64")),
        ("inc", "u32"),
        ("dec", "u32"),
    ]:
        opcode = f"red.async.relaxed.cluster.shared::cluster.{_TRACKED}.{operation}.{kind}"
        width = int(kind[1:]) // 8
        rows = np.zeros((THREADS, 16), np.uint8)
        value = np.ascontiguousarray(source()[:BYTES].reshape(THREADS, 16)[:, :width])
        rows[:, :width] = _reduced(operation, kind, rows[:, :width].copy(), value).reshape(THREADS, width)
        yield _stored(opcode, "%wa" if width == 8 else "%a", width, rows.reshape(-1))


def _stored(opcode: str, given: str, size: int, data: np.ndarray) -> Copy:
    lines = (
        _ZERO,
        "ld.global.v4.b32 {%a, %b, %c, %d}, [%from];",
        "mov.b64 %wa, {%a, %b};",
        "mov.b64 %wb, {%c, %d};",
        *(f"mov.b32 %fs{letter}, %{letter};" for letter in "abcd"),
        "mov.b64 %fda, %wa;",
        "mov.b64 %fdb, %wb;",
        "bar.sync 0;",
        *_by_one(_ANNOUNCE[0], f"mbarrier.arrive.expect_tx.shared.b64 _, [object], {size * THREADS};"),
        f"{opcode} [%row], {given}, [object];",
        *_wait("0"),
        *_BACK,
        "bar.sync 0;",
        "@%first mbarrier.inval.shared.b64 [object];",
    )
    return Copy(opcode, lines, _words(data))


# -- kernels -----------------------------------------------------------------------------------------------------------

_HEAD = (
    ".shared .align 128 .b8 board[512];",
    ".shared .align 128 .b8 second[512];",
    ".shared .align 8 .b64 object;",
    ".reg .pred %p, %first, %odd;",
    ".reg .b16 %mask;",
    ".reg .b32 %t, %a, %b, %c, %d;",
    ".reg .f32 %fsa, %fsb, %fsc, %fsd;",
    ".reg .f64 %fda, %fdb;",
    ".reg .b64 %in, %out, %from, %there, %row, %other, %sixteen, %generic, %policy, %place, %table, %wa, %wb;",
    "ld.param.u64 %in, [in];",
    "ld.param.u64 %out, [out];",
    "mov.u32 %t, %tid.x;",
    "setp.eq.u32 %first, %t, 0;",
    "and.b32 %a, %t, 1;",
    "setp.ne.u32 %odd, %a, 0;",
    "mul.wide.u32 %sixteen, %t, 16;",
    "add.s64 %from, %in, %sixteen;",
    "mov.u64 %row, board;",
    "add.s64 %row, %row, %sixteen;",
    "mov.u64 %other, second;",
    "add.s64 %other, %other, %sixteen;",
    "mov.u64 %generic, object;",
    "cvta.shared.u64 %generic, %generic;",
    "mov.u16 %mask, 1;",
    "createpolicy.fractional.L2::evict_first.b64 %policy, 1.0;",
)


_CLUSTER = "\n.explicitcluster\n.reqnctapercluster 1, 1, 1"
"""What writes to shared memory of the cluster is an illegal instruction on an H200 when no cluster was asked for."""


def _kernel(name: str, members: list[Copy]) -> Kernel:
    lines, results, declarations = list(_HEAD), [], []
    for number, copy in enumerate(members):
        offset = BYTES * number
        lines += [f"add.s64 %place, %out, {offset};", "add.s64 %there, %place, %sixteen;"]
        for line in copy.lines:
            (declarations if line.startswith(".global") else lines).append(line)
        lines.append("bar.sync 0;")
        results.append(known(copy.opcode, f"b{8 * copy.size}", offset, copy.size, list(copy.expected)))
    lines.append("ret;")
    return Kernel(
        name=name,
        body="\n".join(lines),
        opcodes=frozenset(opcode for copy in members for opcode in (copy.opcode, *copy.others)),
        input=source(),
        output=np.frombuffer(b"".join(copy.start for copy in members), np.uint8).copy(),
        results=results,
        block=THREADS,
        declarations="\n".join(declarations),
        directives=_CLUSTER if name.startswith("async_copy_near") else "",
    )


def kernels() -> list[Kernel]:
    found = []
    for name, members in (
        ("small", list(small())),
        ("bulk", list(bulk())),
        ("reduction", list(reductions())),
        ("near", [*near(), *stores()]),
    ):
        for start in range(0, len(members), _MOST):
            found.append(_kernel(f"async_copy_{name}_{start // _MOST}", members[start : start + _MOST]))
    return found
