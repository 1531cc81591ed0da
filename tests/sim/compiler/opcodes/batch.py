"""Many cases in one kernel: thread ``n`` runs each instruction on the ``n``-th vector of its operands.

Operands and results take eight bytes each, one column after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property, partial

import numpy as np

from tests.sim.compiler.opcodes.case import Case
from tests.sim.compiler.opcodes.kernel import Expected, Kernel, Output
from tests.sim.compiler.opcodes.values import BITS, COUNT, columns

MOST = 48
"""Cases in one kernel; more make the compiler's work on a basic block grow faster than their number."""
_COLUMN = 8 * COUNT


def register_class(type: str) -> str:
    """The register that holds a value of ``type``; there are none of 8 bits."""
    if type in ("f32", "f64", "pred"):
        return type
    return f"b{max(16, BITS[type])}"


def memory_type(type: str) -> str:
    """How a value is loaded and stored."""
    return register_class(type)


def batches(family: str, cases: Iterable[Case]) -> list[Kernel]:
    """The kernels for the cases of a family: those with equal operand types stand together."""
    groups: dict[tuple[tuple[str, ...], bool], list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.operand_types, case.recorded].append(case)
    kernels = []
    for (types, recorded), members in groups.items():
        for start in range(0, len(members), MOST):
            name = "_".join([family, *types, str(start // MOST)]) + ("" if recorded else "_lenient")
            kernels.append(_kernel(name, types, members[start : start + MOST], recorded))
    return kernels


def _kernel(name: str, types: tuple[str, ...], cases: list[Case], recorded: bool) -> Kernel:
    inputs = columns(types)
    lines = [
        ".reg .b64 %in, %out, %at;",
        ".reg .b32 %t;",
        ".reg .pred %pz;",
        "ld.param.u64 %in, [in];",
        "ld.param.u64 %out, [out];",
        "mov.u32 %t, %tid.x;",
        "mul.wide.u32 %at, %t, 8;",
        "add.s64 %in, %in, %at;",
        "add.s64 %out, %out, %at;",
    ]
    operands = []
    for position, type in enumerate(types):
        register = f"%a{position}"
        operands.append(register)
        lines.append(f".reg .{register_class(type)} {register};")
        place = f"[%in+{_COLUMN * position}]"
        if type == "pred":
            lines += [f"ld.global.b32 %t, {place};", f"setp.ne.b32 {register}, %t, 0;"]
        else:
            lines.append(f"ld.global.{memory_type(type)} {register}, {place};")
    results: list[Output] = []
    for number, case in enumerate(cases):
        registers = [f"%d{number}_{position}" for position in range(len(case.result_types))]
        for register, type in zip(registers, case.result_types, strict=True):
            lines.append(f".reg .{register_class(type)} {register};")
        lines.append(case.ptx(registers, operands))
        model = _Model(case, inputs)
        for position, (register, type) in enumerate(zip(registers, case.result_types, strict=True)):
            offset = _COLUMN * len(results)
            if type == "pred":
                lines += [f"selp.u32 %t, 1, 0, {register};", f"st.global.b32 [%out+{offset}], %t;"]
            else:
                lines.append(f"st.global.{memory_type(type)} [%out+{offset}], {register};")
            results.append(
                Output(
                    opcode=case.body or case.opcode,
                    type=type,
                    offset=offset,
                    size=4 if type == "pred" else max(16, BITS[type]) // 8,
                    count=COUNT,
                    model=partial(model.column, position),
                    gap=8,
                    tolerance=case.tolerance,
                    unlike=case.unlike,
                    describe=_describer(inputs),
                )
            )
    lines.append("ret;")
    return Kernel(
        name=name,
        body="\n".join(lines),
        opcodes=frozenset(case.opcode for case in cases),
        input=np.array(inputs, np.uint64).reshape(-1).view(np.uint8),
        output=np.full(_COLUMN * len(results), 0xA5, np.uint8),
        results=results,
        block=COUNT,
        recorded=recorded,
    )


class _Model:
    """A case's model on all vectors, computed when one of its results is asked for."""

    def __init__(self, case: Case, inputs: tuple[tuple[int, ...], ...]) -> None:
        self.case = case
        self.inputs = inputs

    @cached_property
    def rows(self) -> list[tuple[Expected, ...]]:
        model = self.case.model
        rows = [model(*vector) for vector in zip(*self.inputs, strict=True)]
        return rows if len(self.case.result_types) > 1 else [(row,) for row in rows]

    def column(self, position: int) -> list[Expected]:
        return [row[position] for row in self.rows]


def _describer(inputs: tuple[tuple[int, ...], ...]) -> Callable[[int], str]:
    return lambda index: ", ".join(f"{column[index]:#x}" for column in inputs)
