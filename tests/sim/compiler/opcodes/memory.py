"""Loads, stores, prefetches and fences (PTX ISA, "Data Movement and Conversion Instructions").

Each thread has a row of ``ROW`` random bytes in each state space. A load under test reads from its row into registers
at least 32 bits wide, which go to the output; a store under test writes to a row full of a pattern, and the whole row
goes to the output.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tests.sim.compiler.opcodes import integer
from tests.sim.compiler.opcodes.case import opcodes
from tests.sim.compiler.opcodes.kernel import Expected, Kernel, known
from tests.sim.compiler.opcodes.values import BITS

THREADS = 32
ROW = 64
TYPES = "<b8|u8|s8|b16|u16|s16|b32|u32|s32|f32|b64|u64|s64|f64>"
_SLOT = 32  # bytes of an instruction's results in one thread: up to four elements, eight bytes each
_PATTERN = 0xA5A5A5A5A5A5A5A5
_MOST = 48

_SCOPES = ("cta", "cluster", "gpu", "sys")
_L1 = [f"L1::{name}" for name in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")]
_PREFETCHED = ["L2::64B", "L2::128B", "L2::256B"]
_SPACES = {"global": ".global", "": "", "shared": ".shared", "shared::cta": ".shared::cta", "local": ".local"}
"""State spaces of loads and stores, as they stand in an opcode. Generic addresses are those of global memory."""


def rows() -> np.ndarray:
    """The threads' bytes."""
    source = random.Random("rows")
    return np.array([[source.getrandbits(8) for _ in range(ROW)] for _ in range(THREADS)], np.uint8)


@dataclass(frozen=True)
class Access:
    """One load or store. ``space`` is where the address points; ``offset`` is from the thread's row."""

    opcode: str
    space: str
    type: str
    vector: str
    offset: int

    @property
    def count(self) -> int:
        return int(self.vector[1:] or 1)

    @property
    def width(self) -> int:
        return BITS[self.type] // 8

    @property
    def operand(self) -> str:
        """What stands behind the other operands: a cache policy."""
        return ", %policy" if "cache_hint" in self.opcode else ""


def every(prefix: str, space: str) -> Iterator[Access]:
    """All types and vectors that move at most 16 bytes, from all over the row."""
    for number, (opcode, (*_, vector, type)) in enumerate(opcodes(f"{prefix}[.v2|v4].{TYPES}")):
        size = BITS[type] // 8 * int(vector[1:] or 1)
        if size <= 16:
            yield Access(opcode, space, type, vector, number * size % (ROW - 16))


def some(prefixes: Iterable[str], space: str) -> Iterator[Access]:
    """A vector and a scalar for each opcode that lacks its type; the scalars' types take turns."""
    for number, prefix in enumerate(prefixes):
        type = ("s16", "f32", "b64", "u8", "f64", "s8")[number % 6]
        yield Access(f"{prefix}.{type}", space, type, "", 8 * (number % 6))
        yield Access(f"{prefix}.v2.u32", space, "u32", "v2", 8 * (number % 7))


def loads() -> list[Access]:
    found: list[Access] = []
    for space, written in _SPACES.items():
        found += every(f"ld{written}", space)
        orders = ["weak"]
        if space != "local":
            orders += ["volatile", *(f"{order}.{scope}" for order in ("relaxed", "acquire") for scope in _SCOPES)]
        found += some((f"ld.{order}{written}" for order in orders), space)
        found += some((f"ld{written}.{cache}" for cache in ("ca", "cg", "cs", "lu", "cv")), space)
    for space, prefix in (("const", "ld.const"), ("param", "ld.param"), ("global", "ldu.global")):
        found += every(prefix, space)
    found += some(["ld.weak.const"], "const")
    found += some(["ldu"], "")
    found += some(["ld.weak.param", "ld.param::entry", "ld.weak.param::entry"], "param")
    levels = [*_L1, *_PREFETCHED, "L2::cache_hint", "L1::evict_last.L2::cache_hint.L2::128B"]
    found += some((f"ld.global.{level}" for level in levels), "global")
    found += some((f"ld.{level}" for level in levels), "")
    found += some((f"ld.global{cache}.nc" for cache in ("", ".ca", ".cg", ".cs")), "global")
    found += some((f"ld.global.nc.{level}" for level in levels), "global")
    found += some(["ld.relaxed.gpu.global.L1::no_allocate", "ld.global.cg.L2::128B"], "global")
    return found


def stores() -> list[Access]:
    found: list[Access] = []
    for space, written in _SPACES.items():
        found += every(f"st{written}", space)
        orders = ["weak"]
        if space != "local":
            orders += ["volatile", *(f"{order}.{scope}" for order in ("relaxed", "release") for scope in _SCOPES)]
        found += some((f"st.{order}{written}" for order in orders), space)
        found += some((f"st{written}.{cache}" for cache in ("wb", "cg", "cs", "wt")), space)
    levels = [*_L1, "L2::cache_hint", "L1::evict_first.L2::cache_hint"]
    found += some((f"st.global.{level}" for level in levels), "global")
    found += some((f"st.{level}" for level in levels), "")
    found += some(["st.relaxed.gpu.global.L1::no_allocate"], "global")
    return found


_ADDRESSES = {
    "global": "%in",
    "": "%in",
    "shared": "%shared",
    "shared::cta": "%shared",
    "local": "%local",
    "const": "%const",
}
_HEAD = f"""
.reg .b64 %in, %out, %shared, %local, %const, %at, %x, %policy;
.reg .b32 %t;
.shared .align 16 .b8 scratch[{THREADS * ROW}];
.local .align 16 .b8 own[{ROW}];
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
mov.u32 %t, %tid.x;
mul.wide.u32 %at, %t, {ROW};
add.s64 %in, %in, %at;
mov.u64 %shared, scratch;
add.s64 %shared, %shared, %at;
mov.u64 %local, own;
createpolicy.fractional.L2::evict_last.b64 %policy, 1.0;
"""


def _copy_in(spaces: Iterable[str]) -> list[str]:
    """Fill the thread's rows from the input."""
    lines = []
    for offset in range(0, ROW, 8):
        lines.append(f"ld.global.b64 %x, [%in+{offset}];")
        lines += [f"st.{space}.b64 [%{space}+{offset}], %x;" for space in spaces]
    return lines


def _register(type: str) -> str:
    return type if type[0] == "f" else f"b{max(32, BITS[type])}"


def load_kernel(name: str, accesses: list[Access]) -> Kernel:
    data = rows()
    spaces = {access.space.split("::")[0] for access in accesses}
    declarations, lines = "", []
    parameters, arguments = ".param .u64 in, .param .u64 out", b""
    if "const" in spaces:
        values = ", ".join(str(byte) for byte in data.reshape(-1))
        declarations = f".const .align 16 .b8 table_{name}[{data.size}] = {{{values}}};"
        lines += [f"mov.u64 %const, table_{name};", "add.s64 %const, %const, %at;"]
    if "param" in spaces:
        parameters += f", .param .align 16 .b8 blob[{ROW}]"
        arguments = data[0].tobytes()
    lines += _copy_in(sorted(spaces & {"shared", "local"}))
    lines += [f"mul.wide.u32 %at, %t, {_SLOT * len(accesses)};", "add.s64 %out, %out, %at;"]
    results = []
    stride = _SLOT * len(accesses)
    for number, access in enumerate(accesses):
        registers = [f"%v{number}_{element}" for element in range(access.count)]
        kind = _register(access.type)
        lines.append(f".reg .{kind} {', '.join(registers)};")
        target = registers[0] if access.count == 1 else f"{{{', '.join(registers)}}}"
        place = f"blob+{access.offset}" if access.space == "param" else f"{_ADDRESSES[access.space]}+{access.offset}"
        lines.append(f"{access.opcode} {target}, [{place}]{access.operand};")
        source = np.broadcast_to(data[0], data.shape) if access.space == "param" else data
        for element, register in enumerate(registers):
            offset = _SLOT * number + 8 * element
            lines.append(f"st.global.{kind} [%out+{offset}], {register};")
            first = access.offset + access.width * element
            expected: list[Expected] = [_read(access.type, row[first : first + access.width]) for row in source]
            size = max(4, access.width)
            results.append(known(access.opcode, kind, offset, size, expected, gap=stride))
    lines.append("ret;")
    return Kernel(
        name=name,
        body=_HEAD + "\n".join(lines),
        opcodes=frozenset(access.opcode for access in accesses),
        input=data.reshape(-1),
        output=np.zeros(stride * THREADS, np.uint8),
        results=results,
        block=THREADS,
        declarations=declarations,
        parameters=parameters,
        arguments=arguments,
    )


def _read(type: str, data: np.ndarray) -> int:
    """Little-endian bytes as the bits of a register at least 32 bits wide."""
    value = integer.number(type, int.from_bytes(data.tobytes(), "little")) if type[0] != "f" else 0
    if type[0] == "f":
        return int.from_bytes(data.tobytes(), "little")
    return value & (1 << max(32, BITS[type])) - 1


def store_kernel(name: str, accesses: list[Access]) -> Kernel:
    """Each store writes to a row of the pattern; the output holds that row for each store and thread."""
    data = rows()
    stride = ROW * len(accesses)
    lines = [f"mul.wide.u32 %at, %t, {stride};", "add.s64 %out, %out, %at;"]
    lines += [".reg .b64 %pattern;", f"mov.u64 %pattern, {_PATTERN:#x};"]
    results = []
    for number, access in enumerate(accesses):
        space = access.space.split("::")[0] or "global"
        base = "%out" if space == "global" else f"%{space}"
        row = ROW * number if space == "global" else 0
        if space != "global":
            lines += [f"st.{space}.b64 [{base}+{offset}], %pattern;" for offset in range(0, ROW, 8)]
        registers = [f"%v{number}_{element}" for element in range(access.count)]
        kind = _register(access.type)
        lines.append(f".reg .{kind} {', '.join(registers)};")
        # whole registers come from the input: what is stored is their lower part
        lines += [f"ld.global.{kind} {register}, [%in+{8 * n}];" for n, register in enumerate(registers)]
        source = registers[0] if access.count == 1 else f"{{{', '.join(registers)}}}"
        lines.append(f"{access.opcode} [{base}+{row + access.offset}], {source}{access.operand};")
        if space != "global":
            for offset in range(0, ROW, 8):
                lines.append(f"ld.{space}.b64 %x, [{base}+{offset}];")
                lines.append(f"st.global.b64 [%out+{ROW * number + offset}], %x;")
        want = np.full((THREADS, ROW), _PATTERN & 0xFF, np.uint8)
        for element in range(access.count):
            first = access.offset + access.width * element
            want[:, first : first + access.width] = data[:, 8 * element : 8 * element + access.width]
        words = np.ascontiguousarray(want).view(np.uint64)
        for word in range(ROW // 8):
            offset = ROW * number + 8 * word
            results.append(known(access.opcode, "b64", offset, 8, words[:, word].tolist(), gap=stride))
    lines.append("ret;")
    return Kernel(
        name=name,
        body=_HEAD + "\n".join(lines),
        opcodes=frozenset(access.opcode for access in accesses),
        input=data.reshape(-1),
        output=np.full(stride * THREADS, _PATTERN & 0xFF, np.uint8),
        results=results,
        block=THREADS,
    )


_POLICIES = (
    "<L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged>[.L2::evict_first|L2::evict_unchanged]"
)
_QUIET = [
    "prefetch.L1 [%in];",
    "prefetch.L2 [%in];",
    "prefetch.global.L1 [%in];",
    "prefetch.global.L2 [%in];",
    "prefetch.local.L1 [%local];",
    "prefetch.local.L2 [%local];",
    "prefetch.global.L2::evict_last [%in];",
    "prefetch.global.L2::evict_normal [%in];",
    "prefetchu.L1 [%in];",
    "applypriority.L2::evict_normal [%out], 128;",
    "applypriority.global.L2::evict_normal [%out], 128;",
    "discard.L2 [%out], 128;",
    "discard.global.L2 [%out], 128;",
    *(f"membar.{level};" for level in ("cta", "gl", "sys")),
    *(f"fence{order}.{scope};" for order in ("", ".sc", ".acq_rel", ".acquire", ".release") for scope in _SCOPES),
    "fence.proxy.alias;",
    "fence.proxy.async;",
    "fence.proxy.async.global;",
    "fence.proxy.async.shared::cta;",
    "fence.mbarrier_init.release.cluster;",
    *(f"{opcode} %x, 1.0;" for opcode, _ in opcodes(f"createpolicy.fractional.{_POLICIES}.b64")),
    *(f"{opcode} %x, [%in], 64, 64;" for opcode, _ in opcodes(f"createpolicy.range[.global].{_POLICIES}.b64")),
]


def quiet_kernel(name: str, instructions: list[str], recorded: bool = True) -> Kernel:
    """Instructions that change nothing that a program can see, before loads and stores."""
    data = rows()
    lines = ["mul.wide.u32 %at, %t, 128;", "add.s64 %out, %out, %at;", *_copy_in(["local"]), *instructions]
    for offset in range(0, 128, 8):
        space, at = ("global", "%in") if offset < ROW else ("local", "%local")
        lines += [f"ld.{space}.b64 %x, [{at}+{offset % ROW}];", f"st.global.b64 [%out+{offset}], %x;"]
    lines.append("ret;")
    words = data.view(np.uint64)
    return Kernel(
        name=name,
        body=_HEAD + "\n".join(lines),
        opcodes=frozenset(line.split(" ")[0].rstrip(";") for line in instructions),
        input=data.reshape(-1),
        output=np.zeros(128 * THREADS, np.uint8),
        results=[known(name, "b64", 8 * word, 8, words[:, word % 8].tolist(), gap=128) for word in range(16)],
        block=THREADS,
        recorded=recorded,
    )


def kernels() -> list[Kernel]:
    found = [
        quiet_kernel("memory_quiet", _QUIET),
        quiet_kernel("memory_policy", ["createpolicy.cvt.L2.b64 %x, %policy;"], recorded=False),
    ]
    for name, accesses, write in (("loads", loads(), load_kernel), ("stores", stores(), store_kernel)):
        for start in range(0, len(accesses), _MOST):
            found.append(write(f"memory_{name}_{start // _MOST}", accesses[start : start + _MOST]))
    return found
