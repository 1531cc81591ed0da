"""The table of instructions: no row without a test, no opcode that two rows claim, a clear error for all others."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from cudalab.sim.compiler import CompileError, compile_ptx
from cudalab.sim.compiler.build import build_program
from cudalab.sim.compiler.lowering import TABLE, Row
from cudalab.sim.compiler.passes.suspension import INTERLEAVE, POLL, PREREQUISITE_DONE
from cudalab.sim.compiler.ptx.errors import UnsupportedInstruction
from tests import slices
from tests.sim.compiler.opcodes import control, suite
from tests.sim.compiler.opcodes.kernel import HEAD

MANY = ("ld", "ldu", "st", "atom", "red", "set", *[name for name in TABLE.rows if name[0] == "v" and name != "vote"])
"""Instructions with orders, scopes and caches in all combinations: some of those are tested, as ``missing`` says."""
MADE_OF = {PREREQUISITE_DONE: "griddepcontrol.wait"}
"""What a pass makes of an instruction, and that instruction, whose test tests both."""


@cache
def opcodes_with_a_test() -> frozenset[str]:
    """The opcodes of all kernels under test."""
    return frozenset().union(*(kernel.opcodes for kernel in [*suite.every_kernel(), *control.stopping()]))


def missing(row: Row) -> list[str]:
    """What of a row no test has: opcodes; of the many, an alternative of a slot, and of atomics an operation with a
    type (the last two slots that must be filled)."""
    if row.name not in MANY:
        return [opcode for opcode in row.opcodes() if MADE_OF.get(opcode, opcode) not in opcodes_with_a_test()]
    tested = [opcode.split(".") for opcode in opcodes_with_a_test()]
    named = [_slots(row, parts) for parts in tested if parts[0] == row.name and row.match(parts) is not None]
    wanted: list[tuple[int, ...]] = [(place,) for place, (_, alternatives) in enumerate(row.slots, 1)]
    if row.name in ("atom", "red"):
        wanted.append(tuple([place for place, (required, _) in enumerate(row.slots, 1) if required][-2:]))
    lacking = []
    for places in wanted:
        slots = [row.slots[place - 1] for place in places]
        choices = product(*(alternatives if required else ("", *alternatives) for required, alternatives in slots))
        found = {tuple(chosen[place] for place in places) for chosen in named}
        lacking += [".".join(tokens) or f"none of {slots[0][1]}" for tokens in choices if tokens not in found]
    return lacking


def _slots(row: Row, parts: list[str]) -> list[str]:
    """The name, and the token in each slot, or nothing."""
    chosen, at = [parts[0]], 1
    for _, alternatives in row.slots:
        present = at < len(parts) and parts[at] in alternatives
        chosen.append(parts[at] if present else "")
        at += present
    return chosen


@pytest.mark.parametrize("row", TABLE.all_rows(), ids=lambda row: row.pattern)
def test_every_row_is_tested(row: Row) -> None:
    lacking = missing(row)
    assert not lacking, f"no test of {row.pattern} has {', '.join(lacking[:20])}"


def test_every_tested_opcode_is_of_exactly_one_row() -> None:
    wrong = {}
    for opcode in opcodes_with_a_test():
        parts = opcode.split(".")
        rows = [row.pattern for row in TABLE.rows.get(parts[0], ()) if row.match(parts) is not None]
        if len(rows) != 1:
            wrong[opcode] = rows
    assert not wrong


def test_a_row_without_a_test_is_noticed() -> None:
    row = Row("add.<u8|u16>", "add", ((True, ("u8", "u16")),), lambda e, i, f: None)
    assert missing(row) == ["add.u8"]


def test_each_instruction_is_in_every_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    for family in suite.FAMILIES:
        names = {opcode.split(".")[0] for kernel in suite.kernels(family) for opcode in kernel.opcodes}
        covered: set[str] = set()
        for turn in range(suite.SLICES):
            monkeypatch.setenv(slices.VARIABLE, f"{turn:x}")
            taken = suite.part.__wrapped__(family)
            assert {opcode.split(".")[0] for kernel in taken for opcode in kernel.opcodes} == names
            covered |= {kernel.name for kernel in taken}
        assert covered == {kernel.name for kernel in suite.kernels(family)}


MODULE = (
    HEAD
    + """
.visible .entry k(.param .u64 p)
{
.reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<9>;
.loc 1 7 3
mov.u32 %r1, 1;
.loc 1 9 5
INSTRUCTION
.loc 1 11 1
ret;
}
.file 1 "vectors.cu"
"""
)
OUTSIDE = [
    "cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2;",
    "fma.rn.oob.bf16x2 %r1, %r2, %r3, %r4;",
    "multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1];",
    "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1];",
    "vadd3.u32.u32.u32 %r1, %r2, %r3;",
    "add.f32x4 %rd1, %rd2, %rd3;",
    "add.sat.u32 %r1, %r2, %r3;",
    "shl.u32 %r1, %r2, %r3;",
    "setp.lo.s32 %p1, %r1, %r2;",
    "nonsense %r1, %r2;",
    "add %r1, %r2, %r3;",
]


@pytest.mark.parametrize("instruction", OUTSIDE, ids=lambda text: text.split()[0])
def test_an_opcode_outside_the_table_is_named_with_its_line(instruction: str) -> None:
    opcode = instruction.split()[0]
    assert TABLE.find(opcode) is None
    text = MODULE.replace("INSTRUCTION", instruction.replace("%p1", "%r1"))
    with pytest.raises(UnsupportedInstruction, match=rf"vectors\.cu:9: .*`{opcode}`") as caught:
        build_program(text)
    assert caught.value.opcode == opcode
    assert caught.value.location is not None and caught.value.location.line == 9


@pytest.mark.parametrize("opcode", [PREREQUISITE_DONE, INTERLEAVE, POLL])
def test_an_opcode_of_the_compilers_own_is_no_instruction(opcode: str) -> None:
    with pytest.raises(CompileError, match=rf"{opcode} is no instruction of PTX"):
        compile_ptx(MODULE.replace("INSTRUCTION", f"{opcode} %p1;"))


def test_the_compiler_reports_it_as_an_error_in_the_source() -> None:
    with pytest.raises(CompileError, match=r"cvt\.rs\.f16x2") as caught:
        compile_ptx(MODULE.replace("INSTRUCTION", OUTSIDE[0]))
    assert (caught.value.diagnostics[0].file, caught.value.diagnostics[0].line) == ("vectors.cu", 9)
