"""Atomics on vectors (PTX ISA, ``atom`` and ``red`` with ``.v2`` … ``.v8``; ``atomicAdd(float4 *, float4)``).

Each element is updated atomically, but not the vector as a whole, as the ISA specifies. Global memory only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudalab.sim.compiler.codegen.checks import pointer_to
from cudalab.sim.compiler.lowering.atomic import add_float
from cudalab.sim.compiler.lowering.half import change
from cudalab.sim.compiler.ptx.nodes import BITS, Instruction, Vector
from cudalab.sim.compiler.ptx.table import Form, Table

if TYPE_CHECKING:
    from cudalab.sim.compiler.codegen.threads import ThreadCode

TABLE = Table()
_SCOPE = "[.cta|cluster|gpu|sys][.global]"
_ATOM = f"atom[.relaxed|acquire|release|acq_rel]{_SCOPE}"
_RED = f"red[.relaxed|release]{_SCOPE}"
_CACHE = "[.L2::cache_hint]"


def _forms(name: str) -> list[str]:
    return [
        f"{name}.add{_CACHE}.<v2|v4>.f32",
        *[f"{name}.<add|min|max>.noftz{_CACHE}.<v2|v4|v8>.{kind}" for kind in ("<f16|bf16>",)],
        *[f"{name}.<add|min|max>.noftz{_CACHE}.<v2|v4>.{kind}" for kind in ("<f16x2|bf16x2>",)],
    ]


def _change(e: ThreadCode, i: Instruction, f: Form, operand: Any) -> list[str]:
    """Update each element; returns the old values."""
    assert isinstance(operand, Vector)
    kind = f.types[-1]
    bits = BITS[kind]
    values = [e.real(part, 32) if kind == "f32" else e.integer(part, bits) for part in operand.elements]
    first = pointer_to(e, e.plan.accesses[i])
    found = []
    for number, value in enumerate(values):
        pointer = e.new(f"getelementptr i8, ptr {first}, i64 {number * bits // 8}") if number else first
        found.append(add_float(e, i, f, pointer, value) if kind == "f32" else change(e, i, f, pointer, value))
    return found


@TABLE.row(*_forms(_ATOM))
def _atomic(e: ThreadCode, i: Instruction, f: Form) -> None:
    kind = f.types[-1]
    for target, old in zip(i.operands[0].elements, _change(e, i, f, i.operands[2]), strict=True):
        if kind == "f32":
            e.set_real(target, old, 32)
        else:
            e.set_integer(target, old, BITS[kind])


@TABLE.row(*_forms(_RED))
def _reduce(e: ThreadCode, i: Instruction, f: Form) -> None:
    _change(e, i, f, i.operands[1])
