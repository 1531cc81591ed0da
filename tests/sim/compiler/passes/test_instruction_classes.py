"""The class that the time model gives each PTX instruction."""

from __future__ import annotations

import pytest

from cudalab.sim.compiler.lowering import TABLE
from cudalab.sim.compiler.passes.instruction_classes import LOGIC, classify
from cudalab.sim.compiler.program import Location
from cudalab.sim.compiler.ptx.nodes import Immediate, Instruction, Register, Special, Symbol

_REGISTERS = (Register("%r1", "b32", 0), Register("%r2", "b32", 1))


@pytest.mark.parametrize(
    ("opcode", "operands", "kind"),
    [
        ("fma.rn.f32", (), "float"),
        ("mul.f64", (), "double"),
        ("mad.lo.s32", (), "multiply"),
        ("mul.lo.s64", (), "multiply_long"),
        ("mul.wide.s32", (), "multiply"),
        ("add.s32", (), "add"),
        ("add.s64", (), "long"),
        ("xor.b32", (), "logic"),
        ("setp.lt.f32", (), "logic"),
        ("div.rn.f32", (), "divide_float"),
        ("div.full.f32", (), "special"),
        ("rem.u32", (), "divide_unsigned"),
        ("div.s32", (), "divide_integer"),
        ("div.rn.f64", (), "divide_double"),
        ("sqrt.rn.f32", (), "root_float"),
        ("ex2.approx.ftz.f32", (), "special"),
        ("popc.b32", (), "special"),
        ("cvt.rn.f32.s32", (), "convert"),
        ("cvt.f64.f32", (), "convert_double"),
        ("cvt.u64.u32", (), "free"),
        ("shfl.sync.bfly.b32", (), "shuffle"),
        ("ld.param.u64", (), "free"),
        ("ld.global.f32", (), "load"),
        ("ld.volatile.shared.f32", (), "shared_load"),
        ("ld.const.f32", (), "constant_load"),
        ("st.shared.f32", (), "shared_store"),
        ("red.global.add.u32", (), "store"),
        ("atom.global.add.u32", (), "atomic"),
        ("bar.sync", (Immediate(0),), "barrier"),
        ("bar.warp.sync", (), "shuffle"),
        ("mov.u32", (_REGISTERS[0], Special("%tid.x")), "register"),
        ("mov.u32", (_REGISTERS[0], _REGISTERS[1]), "free"),
        ("bra.uni", (Symbol("$L"),), "branch"),
        ("bar.sync", (Immediate(1), Immediate(64)), "named_barrier"),
        ("bar.sync", (_REGISTERS[0],), "named_barrier"),
        ("mov.u64", (_REGISTERS[0], Special("%clock64")), "clock"),
        ("call.uni", (Symbol("malloc"),), "heap"),
        ("call.uni", (Symbol("f"),), "branch"),
        ("mad24.lo.s32", (), "multiply"),
        ("sured.b.add.1d.u32", (), "store"),
        ("cp.async.bulk.wait_group", (Immediate(0),), "async_wait"),
        ("ld.shared::cluster.u32", (), "cluster_load"),
        ("mbarrier.try_wait.parity.shared.b64", (), "object_wait"),
        ("mbarrier.arrive.shared.b64", (), "object_arrive"),
        ("mbarrier.init.shared.b64", (), "shared_store"),
    ],
)
def test_what_an_instruction_is(opcode, operands, kind):
    assert classify(Instruction(opcode, operands, 1, Location("", 0))) == kind


@pytest.mark.parametrize("row", TABLE.all_rows(), ids=lambda row: row.pattern)
def test_no_opcode_is_logic_by_default(row):
    """A new opcode is given a class, or is named with those that are like ``xor``."""
    opcode = next(iter(row.opcodes()))
    kind = classify(Instruction(opcode, _REGISTERS, 1, Location("", 0)))
    assert kind not in ("logic", "long") or opcode.split(".")[0] in LOGIC
