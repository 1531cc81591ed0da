"""Atomics and reductions (PTX ISA, ``atom``, ``red``).

Each thread has a cell of its own for each instruction, so that the old value and the new one are both known; and all
threads of two blocks change one cell, where only the end is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tests.sim.compiler.opcodes import integer, number
from tests.sim.compiler.opcodes.case import opcodes
from tests.sim.compiler.opcodes.half import paired
from tests.sim.compiler.opcodes.kernel import ANY_NAN, Expected, Kernel, known
from tests.sim.compiler.opcodes.values import BITS, chance, edges

THREADS = 64
_MOST = 48
_SPACES = {"": "", "global": ".global", "shared": ".shared", "shared::cta": ".shared::cta"}
_SHARED_BY_GENERIC = "shared, by a generic address"
_SCOPES = ("cta", "cluster", "gpu", "sys")
_OPERATIONS = (
    "<add|inc|dec>.<u32>",
    "<add|min|max>.<s32|u64>",
    "<min|max>.<u32|s64>",
    "<and|or|xor|exch>.<b32|b64>",
    "<add>.<f32|f64>",
    "<add.noftz>.<f16|bf16|f16x2|bf16x2>",
    "<cas>.<b16|b32|b64>",
)


_LATE = {
    "add": ("u32", "s32", "u64", "f32", "f64"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")),
    **dict.fromkeys(("and", "or", "xor", "exch", "cas"), ("b32", "b64")),
}
"""What the headers of ``cuda::atomic`` write with order and scope behind the operation."""


@dataclass(frozen=True)
class Atomic:
    """One ``atom`` or ``red``. ``space`` is where the address points."""

    opcode: str
    operation: str
    type: str
    space: str

    @property
    def returns(self) -> bool:
        return self.opcode.startswith("atom")

    @property
    def hint(self) -> str:
        return ", %policy" if "cache_hint" in self.opcode else ""


def _forms(name: str) -> list[tuple[str, str]]:
    """Operation and type."""
    found = [chosen for pattern in _OPERATIONS for _, chosen in opcodes(pattern)]
    return [(str(o), str(t)) for o, t in found if name == "atom" or o not in ("exch", "cas")]


def instructions() -> Iterator[Atomic]:
    for name in ("atom", "red"):
        forms = _forms(name)
        for space, written in (*_SPACES.items(), (_SHARED_BY_GENERIC, "")):
            for operation, type in forms:
                yield Atomic(f"{name}{written}.{operation}.{type}", operation, type, space)
        orders = ("", "relaxed", "acquire", "release", "acq_rel") if name == "atom" else ("", "relaxed", "release")
        for position, (operation, type) in enumerate(forms):
            for step, scope in enumerate(("", *_SCOPES)):
                order = orders[(position + step) % len(orders)]
                space, written = list(_SPACES.items())[(position + step) % len(_SPACES)]
                head = ".".join(token for token in (name, order, scope) if token)
                yield Atomic(f"{head}{written}.{operation}.{type}", operation, type, space)
            for step, scope in enumerate(
                _SCOPES if operation != "add.noftz" else ()
            ):  # the old order: the state space before the scope
                space = ("global", "shared", "shared::cta")[(position + step) % 3]
                yield Atomic(f"{name}.{space}.{scope}.{operation}.{type}", operation, type, space)
            if name == "atom" and operation in _LATE and type in _LATE[operation]:
                for step, scope in enumerate(_SCOPES):
                    for order in ("", orders[1 + (position + step) % 4]):
                        middle = ".".join(token for token in (operation, order, scope) if token)
                        yield Atomic(f"atom.{middle}.{type}", operation, type, "")
            if operation != "cas":
                yield Atomic(f"{name}.global.{operation}.L2::cache_hint.{type}", operation, type, "global")


def update(operation: str, type: str, flushes: bool, old: int, value: int, other: int = 0) -> Expected:
    """What is in memory afterwards. Sums of floats flush subnormals in global memory (``flushes``), not in shared."""
    mask = (1 << BITS[type]) - 1
    if operation == "add.noftz":
        half = number.FORMATS[type.removesuffix("x2")]
        return paired(type, lambda a, b: number.add(half, "rn", a, b))(old, value)
    if type[0] == "f":
        f = number.FORMATS[type]
        if flushes and type == "f32":
            old, value = number.flush(f, old), number.flush(f, value)
        result = number.add(f, "rn", old, value)
        if type == "f64" and number.is_nan(f, result):
            return ANY_NAN
        return number.flush(f, result) if flushes and type == "f32" else result
    a, b = integer.number(type, old), integer.number(type, value)
    results: dict[str, Callable[[], int]] = {
        "add": lambda: a + b,
        "min": lambda: min(a, b),
        "max": lambda: max(a, b),
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "exch": lambda: b,
        "inc": lambda: 0 if a >= b else a + 1,
        "dec": lambda: b if a == 0 or a > b else a - 1,
        "cas": lambda: other if a == b else a,
    }
    return results[operation]() & mask


def operands(type: str, operation: str) -> tuple[list[int], list[int], list[int]]:
    """For each thread: what is in memory, the operand, and the second operand of ``cas``."""
    source = random.Random(f"{operation} {type}")

    def pick() -> int:
        return source.choice(edges(type)) if source.random() < 0.6 else chance(type, source)

    old, value, other = ([pick() for _ in range(THREADS)] for _ in range(3))
    for index in range(0, THREADS, 3 if operation in ("cas", "inc", "dec") else 16):
        value[index] = old[index]
    return old, value, other


def _kernel(name: str, members: list[Atomic]) -> Kernel:
    """Input: for each instruction old value, operand, second operand of each thread. Output: old and new values.

    In global memory the new value's place in the output is the cell itself.
    """
    stride = 16 * len(members)
    lines = [
        ".reg .b64 %in, %out, %shared, %generic, %at, %policy;",
        ".reg .b32 %t;",
        f".shared .align 8 .b8 cells[{8 * THREADS}];",
        "ld.param.u64 %in, [in];",
        "ld.param.u64 %out, [out];",
        "mov.u32 %t, %tid.x;",
        "mov.u64 %shared, cells;",
        "mul.wide.u32 %at, %t, 8;",
        "add.s64 %shared, %shared, %at;",
        "cvta.shared.u64 %generic, %shared;",
        f"mul.wide.u32 %at, %t, {24 * len(members)};",
        "add.s64 %in, %in, %at;",
        f"mul.wide.u32 %at, %t, {stride};",
        "add.s64 %out, %out, %at;",
        "createpolicy.fractional.L2::evict_last.b64 %policy, 1.0;",
    ]
    inputs = np.zeros((THREADS, len(members), 3), np.uint64)
    output = np.zeros((THREADS, len(members), 2), np.uint64)
    results = []
    for position, atomic in enumerate(members):
        old, value, other = operands(atomic.type, atomic.operation)
        inputs[:, position] = np.array([old, value, other], np.uint64).T
        kind = atomic.type if atomic.type in ("f32", "f64") else f"b{BITS[atomic.type]}"
        a, b, c, d = (f"%{letter}{position}" for letter in "abcd")
        lines.append(f".reg .{kind} {a}, {b}, {c}, {d};")
        lines += [f"ld.global.{kind} {r}, [%in+{24 * position + 8 * n}];" for n, r in enumerate((a, b, c))]
        shared = "shared" in atomic.space
        cell = "[%shared]" if shared else f"[%out+{16 * position + 8}]"
        lines.append(f"st.{'shared' if shared else 'global'}.{kind} {cell}, {a};")
        place = "[%generic]" if atomic.space == _SHARED_BY_GENERIC else cell
        arguments = [place, b, c] if atomic.operation == "cas" else [place, b]
        if atomic.returns:
            arguments.insert(0, d)
        lines.append(f"{atomic.opcode} {', '.join(arguments)}{atomic.hint};")
        if shared:
            lines += [f"ld.shared.{kind} {c}, {cell};", f"st.global.{kind} [%out+{16 * position + 8}], {c};"]
        size = BITS[atomic.type] // 8
        if atomic.returns:
            lines.append(f"st.global.{kind} [%out+{16 * position}], {d};")
            results.append(known(f"{atomic.opcode} (old)", kind, 16 * position, size, old, gap=stride))
        flushes = not shared
        new = [update(atomic.operation, atomic.type, flushes, *row) for row in zip(old, value, other, strict=True)]
        describe = _describer(old, value, other)
        results.append(known(atomic.opcode, kind, 16 * position + 8, size, new, gap=stride, describe=describe))
    lines.append("ret;")
    return Kernel(
        name=name,
        body="\n".join(lines),
        opcodes=frozenset(atomic.opcode for atomic in members),
        input=inputs.reshape(-1).view(np.uint8),
        output=output.reshape(-1).view(np.uint8),
        results=results,
        block=THREADS,
    )


def _describer(*columns: list[int]) -> Callable[[int], str]:
    return lambda index: ", ".join(f"{column[index]:#x}" for column in columns)


def contended() -> Kernel:
    """All threads of two blocks change one cell of each instruction; only what is independent of the order counts."""
    members = [form for form in _forms("atom") if form[0] not in ("exch", "cas", "add.noftz") and form[1][0] != "f"]
    lines = [
        ".reg .b64 %in, %out, %at;",
        ".reg .b32 %t, %u, %n;",
        "ld.param.u64 %in, [in];",
        "ld.param.u64 %out, [out];",
        "mov.u32 %t, %tid.x;",
        "mov.u32 %u, %ctaid.x;",
        "mov.u32 %n, %ntid.x;",
        "mad.lo.u32 %t, %u, %n, %t;",
        f"mul.wide.u32 %at, %t, {8 * len(members)};",
        "add.s64 %in, %in, %at;",
    ]
    threads = 2 * THREADS
    inputs = np.zeros((threads, len(members)), np.uint64)
    output = np.zeros((len(members), 2), np.uint64)
    results = []
    for position, (operation, type) in enumerate(members):
        source = random.Random(f"contended {operation} {type}")
        first = chance(type, source)
        values = [chance(type, source) for _ in range(threads)]
        if operation in ("inc", "dec"):  # a bound that is reached once
            first, values = 0, [99] * threads
        inputs[:, position] = values
        output[position, :] = first
        kind = f"b{BITS[type]}"
        lines.append(f".reg .{kind} %v{position}, %o{position};")
        lines.append(f"ld.global.{kind} %v{position}, [%in+{8 * position}];")
        lines.append(f"atom.global.{operation}.{type} %o{position}, [%out+{16 * position}], %v{position};")
        lines.append(f"red.global.{operation}.{type} [%out+{16 * position + 8}], %v{position};")
        last: Expected = first
        for value in values:
            assert isinstance(last, int)
            last = update(operation, type, True, last, value)
        for place, name in ((0, "atom"), (8, "red")):
            opcode = f"{name}.global.{operation}.{type} (contended)"
            results.append(known(opcode, kind, 16 * position + place, BITS[type] // 8, [last]))
    lines.append("ret;")
    return Kernel(
        name="atomic_contended",
        body="\n".join(lines),
        opcodes=frozenset(),
        input=inputs.reshape(-1).view(np.uint8),
        output=output.reshape(-1).view(np.uint8),
        results=results,
        grid=2,
        block=THREADS,
    )


def kernels() -> list[Kernel]:
    unique = list(dict.fromkeys(instructions()))
    found = [
        _kernel(f"atomic_{start // _MOST}", unique[start : start + _MOST]) for start in range(0, len(unique), _MOST)
    ]
    return [*found, contended()]
