"""Atomics of every form: what each thread gets back and what stays in memory, against a sequential model."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from cudalab.sim.compiler.lowering import TABLE
from cudalab.sim.compiler.ptx.nodes import BITS
from cudalab.sim.compiler.ptx.table import Form
from cudalab.sim.machine.execution import Standalone
from tests.sim.compiler.kernel_runner import HEADER, Compiled

THREADS = 48
_QUIET = {"cta", "cluster", "gpu", "sys", "release", "L2::cache_hint"}  # forms that differ in no code are left out
_ELSEWHERE = {"noftz", "v2", "v4", "b128", "async", "shared::cluster"}
"""Those are tested in ``opcodes``: ``atomic``, ``wide`` and ``cluster``."""
_FORMS = [
    opcode
    for name in ("atom", "red")
    for row in TABLE.rows[name]
    for opcode in row.cover()
    if not (_QUIET | _ELSEWHERE) & set(opcode.split("."))
]
_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas")


def signed(value: int, bits: int) -> int:
    """The low bits of ``value`` as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _operation(form: Form) -> str:
    return form.choose(*_OPERATIONS)


def _kernel(name: str, opcode: str) -> str:
    """Cell 0 of ``memory`` is changed by all threads; ``values`` has two operands a thread."""
    form = TABLE.find(opcode)
    kind = form.types[-1]
    bits = BITS[kind]
    register = kind if kind[0] == "f" else f"b{bits}"
    memory_type = kind if kind[0] == "f" else f"b{bits}"
    shared = form.choose("shared", "shared::cta") != ""
    target = "%cell" if shared else "%memory" if form.choose("global") else "%generic"
    operands = f"[{target}], %v0, %v1" if _operation(form) == "cas" else f"[{target}], %v0"
    result = "%old, " if form.row.name == "atom" else ""
    stage = f"ld.global.{memory_type} %old, [%memory];\nst.shared.{memory_type} [cell], %old;\n" if shared else ""
    finish = f"ld.shared.{memory_type} %v0, [cell];\nst.global.{memory_type} [%memory], %v0;\n" if shared else ""
    return f"""
.visible .entry {name}(.param .u64 {name}_memory, .param .u64 {name}_values, .param .u64 {name}_old)
{{
.reg .b64 %memory, %generic, %values, %olds, %at, %cell;
.reg .b32 %t;
.reg .pred %first, %last;
.reg .{register} %v0, %v1, %old;
.shared .align 8 .b8 cell_{name}[8];
ld.param.u64 %generic, [{name}_memory];
ld.param.u64 %values, [{name}_values];
ld.param.u64 %olds, [{name}_old];
cvta.to.global.u64 %memory, %generic;
cvta.to.global.u64 %values, %values;
cvta.to.global.u64 %olds, %olds;
mov.u64 %cell, cell_{name};
mov.u32 %t, %tid.x;
mul.wide.u32 %at, %t, 16;
add.s64 %values, %values, %at;
mul.wide.u32 %at, %t, 8;
add.s64 %olds, %olds, %at;
setp.ne.u32 %first, %t, 0;
@%first bra start;
{stage.replace("[cell]", "[%cell]")}
start:
bar.sync 0;
ld.global.{memory_type} %v0, [%values];
ld.global.{memory_type} %v1, [%values+8];
{opcode} {result}{operands};
{f"st.global.{memory_type} [%olds], %old;" if result else ""}
bar.sync 0;
@%first bra end;
{finish.replace("[cell]", "[%cell]")}
end:
ret;
}}
"""


def _apply(operation: str, old: Any, value: Any, other: Any, bits: int) -> Any:
    if operation == "cas":
        return other if old == value else old
    if operation == "inc":
        return 0 if old >= value else old + 1
    if operation == "dec":
        return value if old == 0 or old > value else old - 1
    return {
        "add": lambda: old + value,
        "min": lambda: min(old, value),
        "max": lambda: max(old, value),
        "and": lambda: old & value,
        "or": lambda: old | value,
        "xor": lambda: old ^ value,
        "exch": lambda: value,
    }[operation]()


def _operands(form: Form) -> tuple[int, np.ndarray]:
    """The cell's first value and two operands a thread, as bit patterns."""
    random = np.random.default_rng(7)
    bits, operation = BITS[form.types[-1]], _operation(form)
    if form.types[-1][0] == "f":
        code = "<f" if bits == 32 else "<d"
        pattern = lambda x: int.from_bytes(struct.pack(code, x), "little")  # noqa: E731
        return pattern(1.25), np.array([[pattern(x), 0] for x in random.integers(-99, 99, THREADS) / 8], np.uint64)
    if operation in ("inc", "dec"):
        return 5, np.array([[int(x), 0] for x in random.integers(0, 9, THREADS)], np.uint64)
    if operation == "cas":  # hits and misses
        chain = [[n // 2 if n % 2 else 99, n // 2 + 1] for n in range(THREADS)]
        return 0, np.array(chain, np.uint64)
    values = random.integers(0, 1 << 63, (THREADS, 2), dtype=np.uint64) >> np.uint64(63 - bits if bits < 64 else 0)
    return 0x1234567 & ((1 << bits) - 1), values & np.uint64((1 << bits) - 1)


def _decode(pattern: int, kind: str) -> Any:
    bits = BITS[kind]
    if kind[0] == "f":
        return struct.unpack("<f" if bits == 32 else "<d", pattern.to_bytes(bits // 8, "little"))[0]
    return signed(pattern, bits) if kind[0] == "s" else pattern


def _encode(value: Any, kind: str) -> int:
    bits = BITS[kind]
    if kind[0] == "f":
        return int.from_bytes(struct.pack("<f" if bits == 32 else "<d", value), "little")
    return value & ((1 << bits) - 1)


@pytest.mark.parametrize("variant", ["atomic", "traced"])
def test_every_form_gives_old_values_and_leaves_the_result(variant: str) -> None:
    module = Compiled(HEADER + "".join(_kernel(f"k{number}", opcode) for number, opcode in enumerate(_FORMS)))
    for number, opcode in enumerate(_FORMS):
        form = TABLE.find(opcode)
        kind = form.types[-1]
        first, values = _operands(form)
        cell, olds = np.array([first], np.uint64), np.zeros(THREADS, np.uint64)
        module(f"k{number}", 1, THREADS, cell, values, olds, variant=variant)
        now, expected = _decode(first, kind), []
        for value, other in values.tolist():
            expected.append(_encode(now, kind))
            now = _apply(_operation(form), now, _decode(value, kind), _decode(other, kind), BITS[kind])
            now = _decode(_encode(now, kind), kind)
        assert int(cell[0]) & ((1 << BITS[kind]) - 1) == _encode(now, kind), opcode
        if form.row.name == "atom":
            assert olds.tolist() == expected, opcode


def test_several_workers_lose_no_update() -> None:
    from tests.sim.compiler.kernel_runner import cuda

    source = """
    extern "C" __global__ void count(int *a, float *b, unsigned long long *c, int *biggest) {
        atomicAdd(a, 1); atomicAdd(b, 1.0f); atomicAdd(c, 2ull); atomicMax(biggest, (int)(blockIdx.x * 7 % 1000));
    }"""
    a, b, c, biggest = np.zeros(1, np.int32), np.zeros(1, np.float32), np.zeros(1, np.uint64), np.zeros(1, np.int32)
    cuda(source)("count", 400, 128, a, b, c, biggest, variant="atomic", surroundings=Standalone(workers=4))
    assert (a[0], b[0], c[0], biggest[0]) == (51200, 51200.0, 102400, max(k * 7 % 1000 for k in range(400)))
