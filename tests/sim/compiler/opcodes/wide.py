"""Accesses of 16 and 32 bytes, 128-bit registers, atomics on vectors, memory on the stack, and rarely written forms of
loads and stores.

Each thread has a row of 64 random bytes in each state space, as in ``memory``. A *step* leaves 64-bit words.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.sim.compiler.opcodes import number
from tests.sim.compiler.opcodes.half import paired
from tests.sim.compiler.opcodes.kernel import Expected, Kernel, known
from tests.sim.compiler.opcodes.memory import _HEAD, ROW, THREADS, _copy_in, rows
from tests.sim.compiler.opcodes.values import BITS, chance, edges

_SCOPES = ("cta", "cluster", "gpu", "sys")
_MASK = (1 << 64) - 1


@dataclass(frozen=True, eq=False)
class Step:
    """Lines that end with 64-bit words in ``{0}`` …, and what these must be for the words of a thread's row."""

    opcode: str
    lines: str
    model: Callable[[list[int]], list[int]]
    words: int
    recorded: bool = True


_REGISTERS = {1: "b8", 2: "b16", 4: "b32", 8: "b64", 16: "b128"}


def _load(opcode: str, place: str, recorded: bool = True) -> Step:
    """Of elements that make up whole words."""
    parts = opcode.split(".")
    type = parts[-1]
    size = BITS.get(type, 128) // 8
    count = next((int(part[1:]) for part in parts if part in ("v2", "v4", "v8")), 1)
    kind = type if type in ("f32", "f64") else _REGISTERS[max(2, size)]
    registers = [f"%q{n}" for n in range(count)]
    target = registers[0] if count == 1 else f"{{{{{', '.join(registers)}}}}}"
    lines = [f".reg .{kind} {', '.join(registers)};", f"{opcode} {target}, [{place}];"]
    if size == 16:
        words = 2 * count
        lines += [f"mov.b128 {{{{{{{2 * n}}}, {{{2 * n + 1}}}}}}}, {r};" for n, r in enumerate(registers)]
    else:
        words = max(1, size * count // 8)
        each = 8 // size
        for word in range(words):
            lines.append(f"mov.b64 {{{word}}}, 0;")
            for n in range(min(each, count)):
                wide = "%w"
                lines.append(
                    f"cvt.u64.u{max(16, 8 * size)} %w, {registers[word * each + n]};"
                    if size < 8 and kind[0] == "b"
                    else f"mov.b64 %w, {registers[word * each + n]};"
                    if size == 8
                    else f"mov.b32 %n, {registers[word * each + n]}; cvt.u64.u32 %w, %n;"
                )
                if size < 8:
                    lines.append(
                        f"and.b64 {wide}, {wide}, {(1 << 8 * size) - 1}; shl.b64 {wide}, {wide}, {8 * size * n};"
                    )
                lines.append(f"or.b64 {{{word}}}, {{{word}}}, {wide};")
    total = min(8 * words, size * count)

    def model(row: list[int]) -> list[int]:
        found = row[:words]
        return found if total == 8 * words else [found[0] & (1 << 8 * total) - 1]

    return Step(opcode, "{{ .reg .b64 %w; .reg .b32 %n;\n" + "\n".join(lines) + "\n}}", model, words, recorded)


def _store(opcode: str, space: str, recorded: bool = True) -> Step:
    """To the second half of a row in the output or in a space of its own; read again by words."""
    parts = opcode.split(".")
    type = parts[-1]
    size = BITS.get(type, 128) // 8
    count = next((int(part[1:]) for part in parts if part in ("v2", "v4", "v8")), 1)
    kind = type if type in ("f32", "f64") else _REGISTERS[max(2, size)]
    registers = [f"%q{n}" for n in range(count)]
    source = registers[0] if count == 1 else f"{{{{{', '.join(registers)}}}}}"
    load = f"b{8 * size}" if size > 1 else "u8"
    if kind[0] == "f":
        load = kind
    lines = [f".reg .{kind} {', '.join(registers)};"]
    for n, register in enumerate(registers):
        if size == 16:
            lines.append(f"ld.global.v2.b64 {{{{%w, %v}}}}, [%in+{16 * n}]; mov.b128 {register}, {{{{%w, %v}}}};")
        else:
            lines.append(f"ld.global.{load} {register}, [%in+{size * n}];")
    base = {"global": "%own", "": "%own", "shared": "%shared", "local": "%local"}[space]
    lines.append(f"st.{space or 'global'}.b64 [{base}+{32}], 0;")
    lines.append(f"{opcode} [{base}+32], {source};")
    words = max(1, size * count // 8)
    lines += [f"ld.{space or 'global'}.b64 {{{word}}}, [{base}+{32 + 8 * word}];" for word in range(words)]

    def model(row: list[int]) -> list[int]:
        found = row[:words]
        return found if size * count >= 8 else [found[0] & (1 << 8 * size * count) - 1]

    return Step(opcode, "{{ .reg .b64 %w, %v;\n" + "\n".join(lines) + "\n}}", model, words, recorded)


def accesses() -> list[Step]:
    steps = []
    for space, place in (
        (".global", "%in"), ("", "%in"), (".shared", "%shared"), (".shared::cta", "%shared"), (".local", "%local"),
    ):  # fmt: skip
        orders = [""] if space == ".local" else ["", "volatile", "relaxed.gpu", "acquire.sys"]
        for order in orders:
            prefix = ".".join(token for token in ("ld", order) if token)
            steps.append(_load(f"{prefix}{space}.b128", place))
        steps.append(_store(f"st{space}.b128", space[1:].split("::")[0]))
        if space != ".local":
            for order in ("volatile", "relaxed.gpu", "release.sys"):
                steps.append(_store(f"st.{order}{space}.b128", space[1:].split("::")[0]))
    steps += [_load("ldu.global.b128", "%in"), _load("ldu.b128", "%in"), _load("ld.global.nc.b128", "%in")]
    for type in ("b32", "f32", "s32", "u32"):
        steps.append(_load(f"ld.global.v8.{type}", "%in", recorded=False))
        steps.append(_store(f"st.global.v8.{type}", "global", recorded=False))
    for type in ("b64", "f64", "s64"):
        steps.append(_load(f"ld.global.v4.{type}", "%in", recorded=False))
        steps.append(_store(f"st.global.v4.{type}", "global", recorded=False))
    steps += [_load("ldu.global.v8.b8", "%in", recorded=False), _load("ldu.v8.b16", "%in", recorded=False)]
    for type in ("b8", "b16"):
        steps.append(_load(f"ld.v8.{type}", "%in", recorded=False))
        steps.append(_store(f"st.v8.{type}", "", recorded=False))
    for type in ("u32", "b64", "f32", "b16"):
        steps.append(_load(f"ld.mmio.relaxed.sys.global.{type}", "%in"))
        steps.append(_store(f"st.mmio.relaxed.sys.global.{type}", "global"))
    steps += [_load("ld.mmio.relaxed.sys.u32", "%in"), _store("st.mmio.relaxed.sys.u32", "")]
    for level in ("evict_normal", "evict_first", "evict_last"):
        steps.append(_load(f"ld.global.L2::{level}.v8.b32", "%in", recorded=False))
        steps.append(_store(f"st.global.L2::{level}.v8.b32", "global", recorded=False))
        steps.append(_load(f"ld.global.L1::evict_last.L2::{level}.v4.b64", "%in", recorded=False))
    for cache in ("ca", "cg", "cs", "lu", "cv"):
        for where in ("param", "param::entry", "param::func"):
            later = where == "param::func"
            steps.append(_load(f"ld.{where}.{cache}.b64", "blob", recorded=not later))
    steps += [_load("ld.param.b128", "blob"), _load("ld.param.v8.b16", "blob", recorded=False)]
    return steps


def moves() -> list[Step]:
    pair = "{{ .reg .b128 %q, %r;\nld.global.v2.b64 {{ {0}, {1} }}, [%in];\nmov.b128 %q, {{ {0}, {1} }};\n"
    return [
        Step("mov.b128", pair + "mov.b128 %r, %q; mov.b128 {{ {1}, {0} }}, %r;\n}}", lambda r: [r[1], r[0]], 2),
        Step(
            "mov.b128",
            pair + ".reg .b32 %u<4>; mov.b128 {{ %u0, %u1, %u2, %u3 }}, %q; mov.b128 %r, {{ %u3, %u2, %u1, %u0 }};\n"
            "mov.b128 {{ {0}, {1} }}, %r;\n}}",
            lambda r: [_swapped(r[1]), _swapped(r[0])],
            2,
            recorded=False,
        ),
        *[_parameter(opcode) for opcode in ("cvta.to.param.u64", "isspacep.param", "isspacep.param::entry")],
    ]


def _swapped(word: int) -> int:
    return (word << 32 | word >> 32) & _MASK


def _parameter(opcode: str) -> Step:
    """The generic address of a parameter."""
    head = "{{ .reg .b64 %a; .reg .pred %p; mov.b64 %a, blob; cvta.param.u64 %a, %a;\n"
    if opcode.startswith("cvta"):
        body = "mov.b64 {0}, %a; mov.b64 %a, blob; sub.s64 {0}, {0}, %a;\n}}"
        return Step(opcode, head + f"{opcode} %a, %a; {body}", lambda r: [0], 1, False)
    return Step(opcode, head + f"{opcode} %p, %a; selp.u64 {{0}}, 1, 0, %p;\n}}}}", lambda r: [1], 1)


def stacks() -> list[Step]:
    """Memory on the stack; the same bytes come back, and after ``stackrestore`` the same place."""
    found = []
    for bits in (32, 64):
        kind = f"u{bits}"
        body = (
            f"{{{{ .reg .b{bits} %s, %p, %q, %n, %d; .reg .b64 %w; .reg .b64 %v;\n"
            f"stacksave.{kind} %s; mov.b{bits} %n, 24; alloca.{kind} %p, %n, 16; ld.global.b64 {{0}}, [%in];\n"
            f"st.local.b64 [%p+8], {{0}}; alloca.{kind} %q, %n; ld.global.b64 %w, [%in+8]; st.local.b64 [%q], %w;\n"
            "ld.local.b64 {0}, [%p+8]; ld.local.b64 {1}, [%q];\n"
            f"stackrestore.{kind} %s; alloca.{kind} %d, %n, 16; sub.u{bits} %d, %d, %p; "
            f"cvt.u64.u{bits} {{2}}, %d;\n}}}}"
        )
        for opcode in (f"alloca.{kind}", f"stacksave.{kind}", f"stackrestore.{kind}"):
            found.append(Step(opcode, body, lambda r: [r[0], r[1], 0], 3, recorded=bits == 64))
    return found


def short_swaps() -> list[Step]:
    """``cas`` of 16 bits with order and scope behind the operation."""
    found = []
    for scope in _SCOPES:
        for order in ("", "relaxed.", "acquire.", "release.", "acq_rel."):
            opcode = f"atom.cas.{order}{scope}.b16"
            body = (
                "{{ .reg .b16 %e, %n, %o; ld.global.b64 {0}, [%in]; st.global.b64 [%own], {0};\n"
                "ld.global.b16 %e, [%in];\n"
                f"mov.b16 %n, 77; {opcode} %o, [%own], %e, %n;"
                " ld.global.b64 {0}, [%own]; cvt.u64.u16 {1}, %o;\n}}"
            )
            found.append(Step(opcode, body, lambda r: [r[0] & ~0xFFFF | 77, r[0] & 0xFFFF], 2, recorded=False))
    return found


def quiet() -> list[Step]:
    """What changes nothing."""
    body = "{{\nOPCODE\nld.global.b64 {0}, [%in];\n}}"
    later = [f"setmaxnreg.{way}.sync.aligned.u32" for way in ("inc", "dec")]
    opcodes = [
        "griddepcontrol.wait",
        "griddepcontrol.launch_dependents",
        "fence.proxy.async.shared::cluster",
        "fence.acquire.sync_restrict::shared::cluster.cluster",
        "fence.release.sync_restrict::shared::cta.cluster",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
    ]
    steps = [Step(o, body.replace("OPCODE", f"{o};"), lambda r: r[:1], 1) for o in opcodes]
    return steps + [Step(o, body.replace("OPCODE", f"{o} 64;"), lambda r: r[:1], 1, recorded=False) for o in later]


def _kernel(name: str, steps: list[Step], recorded: bool) -> Kernel:
    data = rows()
    words = data.view(np.uint64)
    stride = ROW + 8 * sum(step.words for step in steps)
    lines = _copy_in(["shared", "local"])
    lines += [f"mul.wide.u32 %at, %t, {-(-stride // 16) * 16};", "add.s64 %out, %out, %at;"]
    lines += [".reg .b64 %own;", "mov.b64 %own, %out;"]
    stride = -(-stride // 16) * 16
    at, results = ROW, []
    for position, step in enumerate(steps):
        registers = [f"%word{position}_{n}" for n in range(max(3, step.words))]
        lines.append(f".reg .b64 {', '.join(registers)};")
        lines.append(step.lines.format(*registers))
        source = np.broadcast_to(words[0], words.shape) if "param" in step.opcode else words
        expected = [step.model(row.tolist()) for row in source]
        for n in range(step.words):
            lines.append(f"st.global.b64 [%own+{at}], {registers[n]};")
            column: list[Expected] = [row[n] for row in expected]
            results.append(known(step.opcode, "b64", at, 8, column, gap=stride))
            at += 8
    lines.append("ret;")
    return Kernel(
        name=name,
        body=_HEAD + "\n".join(lines),
        opcodes=frozenset(step.opcode for step in steps),
        input=data.reshape(-1),
        output=np.zeros(stride * THREADS, np.uint8),
        results=results,
        block=THREADS,
        parameters=f".param .u64 in, .param .u64 out, .param .align 16 .b8 blob[{ROW}]",
        arguments=data[0].tobytes(),
        recorded=recorded,
    )


# -- atomics -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VectorAtomic:
    opcode: str
    operation: str
    type: str
    count: int


def vectors() -> list[VectorAtomic]:
    found = []
    forms = [("add", "f32", n) for n in (2, 4)]
    for operation in ("add", "min", "max"):
        forms += [(f"{operation}.noftz", type, n) for type in ("f16", "bf16") for n in (2, 4, 8)]
        forms += [(f"{operation}.noftz", type, n) for type in ("f16x2", "bf16x2") for n in (2, 4)]
    for name in ("atom", "red"):
        orders = ("", "relaxed", "acquire", "release", "acq_rel") if name == "atom" else ("", "relaxed", "release")
        turn = 0
        for operation, type, count in forms:
            for scope in ("", *_SCOPES):
                if type != "f32" and turn % 5 and scope:
                    turn += 1
                    continue
                order = orders[turn % len(orders)]
                head = ".".join(token for token in (name, order, scope, ("global", "")[turn % 3 == 1]) if token)
                hint = ".L2::cache_hint" if turn % 4 == 3 else ""
                found.append(VectorAtomic(f"{head}.{operation}{hint}.v{count}.{type}", operation, type, count))
                turn += 1
        for order in orders:
            for scope in _SCOPES:
                for type, operation in (("f16", "min.noftz"), ("bf16x2", "max.noftz"), ("f32", "add")):
                    head = ".".join(token for token in (name, order, scope) if token)
                    found.append(VectorAtomic(f"{head}.{operation}.v2.{type}", operation, type, 2))
            for type in ("f16", "bf16x2", "f32"):
                head = ".".join(token for token in (name, order, "global") if token)
                operation = "add" if type == "f32" else "add.noftz"
                found.append(VectorAtomic(f"{head}.{operation}.L2::cache_hint.v2.{type}", operation, type, 2))
    return list(dict.fromkeys(found))


def _updated(operation: str, type: str, old: int, value: int) -> int:
    if type == "f32":
        f = number.F32
        return number.flush(f, number.add(f, "rn", number.flush(f, old), number.flush(f, value)))
    half = number.FORMATS[type.removesuffix("x2")]
    if operation.startswith("add"):
        return paired(type, lambda a, b: number.add(half, "rn", a, b))(old, value)
    return paired(type, lambda a, b: number.extreme(half, operation.startswith("max"), False, a, b))(old, value)


def _atomic_kernel(name: str, members: list[VectorAtomic]) -> Kernel:
    """Input: old and operand of each element. Output: old values, and the cells."""
    stride = 64 * len(members)
    lines = [
        ".reg .b64 %in, %out, %at, %policy; .reg .b32 %t;",
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;",
        f"mul.wide.u32 %at, %t, {stride}; add.s64 %in, %in, %at; add.s64 %out, %out, %at;",
        "createpolicy.fractional.L2::evict_last.b64 %policy, 1.0;",
    ]
    inputs = np.zeros((THREADS, len(members), 64), np.uint8)
    results = []
    for position, member in enumerate(members):
        source = random.Random(f"{member.operation} {member.type}")
        size = BITS[member.type] // 8
        kind = member.type if member.type == "f32" else f"b{8 * size}"
        pick = lambda: source.choice(edges(member.type)) if source.random() < 0.5 else chance(member.type, source)  # noqa: E731, B023
        old = [[pick() for _ in range(member.count)] for _ in range(THREADS)]
        value = [[pick() for _ in range(member.count)] for _ in range(THREADS)]
        for thread in range(THREADS):
            for n in range(member.count):
                inputs[thread, position, size * n : size * (n + 1)] = list(old[thread][n].to_bytes(size, "little"))
                first = 32 + size * n
                inputs[thread, position, first : first + size] = list(value[thread][n].to_bytes(size, "little"))
        base = 64 * position
        olds, values = ([f"%{letter}{position}_{n}" for n in range(member.count)] for letter in "dv")
        lines.append(f".reg .{kind} {', '.join([*olds, *values])}; .reg .b64 %x{position};")
        for word in range(4):
            lines.append(
                f"ld.global.b64 %x{position}, [%in+{base + 8 * word}]; "
                f"st.global.b64 [%out+{base + 32 + 8 * word}], %x{position};"
            )
        lines += [f"ld.global.{kind} {r}, [%in+{base + 32 + size * n}];" for n, r in enumerate(values)]
        hint = ", %policy" if "cache_hint" in member.opcode else ""
        target = f"{{{', '.join(olds)}}}, " if member.opcode.startswith("atom") else ""
        lines.append(f"{member.opcode} {target}[%out+{base + 32}], {{{', '.join(values)}}}{hint};")
        for n in range(member.count):
            if target:
                lines.append(f"st.global.{kind} [%out+{base + size * n}], {olds[n]};")
                results.append(
                    known(f"{member.opcode} (old)", kind, base + size * n, size, [row[n] for row in old], gap=stride)
                )
            new: list[Expected] = [
                _updated(member.operation, member.type, a[n], b[n]) for a, b in zip(old, value, strict=True)
            ]
            results.append(known(member.opcode, kind, base + 32 + size * n, size, new, gap=stride))
    lines.append("ret;")
    return Kernel(
        name=name,
        body="\n".join(lines),
        opcodes=frozenset(member.opcode for member in members),
        input=inputs.reshape(-1),
        output=np.zeros(stride * THREADS, np.uint8),
        results=results,
        block=THREADS,
    )


def swaps() -> list[str]:
    """``exch`` and ``cas`` of 128 bits, and of 16 bits where nothing else is 16 bits wide."""
    found = []
    for operation in ("exch", "cas"):
        for space in ("", ".global", ".shared", ".shared::cta"):
            found.append(f"atom{space}.{operation}.b128")
        for turn, scope in enumerate(_SCOPES):
            for order in ("relaxed", "acquire", "release", "acq_rel"):
                found.append(f"atom.{order}.{scope}{('', '.global', '.shared', '.shared::cta')[turn]}.{operation}.b128")
            found.append(f"atom.{scope}.{operation}.b128")
            found.append(f"atom.{('global', 'shared', 'shared::cta')[turn % 3]}.{scope}.{operation}.b128")
            found += [
                f"atom.{operation}.{order}{scope}.b128"
                for order in ("", "relaxed.", "acquire.", "release.", "acq_rel.")
            ]
        if operation == "exch":
            found.append("atom.global.exch.L2::cache_hint.b128")
    return found


def _swap_kernel(name: str, members: list[str]) -> Kernel:
    """Input: old, expected and new value. Output: what was there, and what is there afterwards."""
    stride = 32 * len(members)
    lines = [
        ".reg .b64 %in, %out, %at, %shared, %w, %v, %policy; .reg .b32 %t;",
        f".shared .align 16 .b8 cells[{16 * THREADS}];",
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;",
        "mov.u64 %shared, cells; mul.wide.u32 %at, %t, 16; add.s64 %shared, %shared, %at;",
        f"mul.wide.u32 %at, %t, {48 * len(members)}; add.s64 %in, %in, %at;",
        f"mul.wide.u32 %at, %t, {stride}; add.s64 %out, %out, %at;",
        "createpolicy.fractional.L2::evict_last.b64 %policy, 1.0;",
    ]
    inputs = np.zeros((THREADS, len(members), 6), np.uint64)
    results = []
    for position, opcode in enumerate(members):
        source = random.Random(opcode)
        values = [[source.getrandbits(128) for _ in range(3)] for _ in range(THREADS)]
        for thread in range(0, THREADS, 2):
            values[thread][1] = values[thread][0] if thread % 4 else values[thread][0] ^ 1 << 100
        for thread, row in enumerate(values):
            inputs[thread, position] = [word for value in row for word in (value & _MASK, value >> 64)]
        shared = "shared" in opcode
        space, cell = ("shared", "%shared") if shared else ("global", f"%out+{32 * position + 16}")
        names = [f"%{letter}{position}" for letter in "abcd"]
        lines.append(f".reg .b128 {', '.join(names)};")
        for n in range(3):
            lines.append(
                f"ld.global.v2.b64 {{%w, %v}}, [%in+{48 * position + 16 * n}]; mov.b128 {names[n]}, {{%w, %v}};"
            )
        lines.append(f"st.{space}.b128 [{cell}], {names[0]};")
        hint = ", %policy" if "cache_hint" in opcode else ""
        swaps_always = ".exch" in opcode
        operands = names[2] if swaps_always else f"{names[1]}, {names[2]}"
        lines.append(f"{opcode} {names[3]}, [{cell}], {operands}{hint};")
        lines.append(f"mov.b128 {{%w, %v}}, {names[3]}; st.global.v2.b64 [%out+{32 * position}], {{%w, %v}};")
        if shared:
            lines.append(f"ld.shared.b128 {names[0]}, [%shared]; mov.b128 {{%w, %v}}, {names[0]};")
            lines.append(f"st.global.v2.b64 [%out+{32 * position + 16}], {{%w, %v}};")
        after = [row[2] if swaps_always or row[0] == row[1] else row[0] for row in values]
        for at, found in ((0, [row[0] for row in values]), (16, after)):
            for half in range(2):
                words: list[Expected] = [value >> 64 * half & _MASK for value in found]
                results.append(known(opcode, "b64", 32 * position + at + 8 * half, 8, words, gap=stride))
    lines.append("ret;")
    return Kernel(
        name=name,
        body="\n".join(lines),
        opcodes=frozenset(members),
        input=inputs.reshape(-1).view(np.uint8),
        output=np.zeros(stride * THREADS, np.uint8),
        results=results,
        block=THREADS,
    )


def kernels() -> list[Kernel]:
    found = []
    every = [*accesses(), *moves(), *stacks(), *quiet(), *short_swaps()]
    for recorded in (True, False):
        steps = [s for s in every if s.recorded == recorded]
        for start in range(0, len(steps), 40):
            found.append(
                _kernel(f"wide_{'' if recorded else 'later_'}{start // 40}", steps[start : start + 40], recorded)
            )
    atomics = vectors()
    found += [_atomic_kernel(f"wide_vectors_{n // 40}", atomics[n : n + 40]) for n in range(0, len(atomics), 40)]
    exchanges = swaps()
    found += [_swap_kernel(f"wide_swaps_{n // 40}", exchanges[n : n + 40]) for n in range(0, len(exchanges), 40)]
    return found
