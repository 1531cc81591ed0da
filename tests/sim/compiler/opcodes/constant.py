"""The same instructions on constants: compilers fold them, and the code for them is made at other places.

Each case runs on a few of its vectors, its operands being registers that hold literals.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from tests.sim.compiler.opcodes.batch import memory_type, register_class
from tests.sim.compiler.opcodes.case import Case
from tests.sim.compiler.opcodes.kernel import Expected, Kernel, Output
from tests.sim.compiler.opcodes.values import BITS, COUNT, columns

_MOST = 60
_VECTORS = 2


def kernels(family: str, cases: Iterable[Case]) -> list[Kernel]:
    chosen = list(cases)
    return [
        _kernel(f"{family}_{start // _MOST}", chosen[start : start + _MOST], start)
        for start in range(0, len(chosen), _MOST)
    ]


def _kernel(name: str, cases: list[Case], first: int) -> Kernel:
    lines = [".reg .b64 %out;", ".reg .b32 %t;", "ld.param.u64 %out, [out];"]
    results: list[Output] = []
    for number, case in enumerate(cases):
        inputs = columns(case.operand_types)
        for turn in range(_VECTORS):
            index = (97 * (first + number) + 331 * turn) % COUNT
            vector = tuple(column[index] for column in inputs)
            registers = [f"%d{number}_{turn}_{position}" for position in range(len(case.result_types))]
            operands = [f"%a{number}_{turn}_{position}" for position in range(len(vector))]
            for register, type, value in zip(operands, case.operand_types, vector, strict=True):
                lines += [f".reg .{register_class(type)} {register};", _constant(register, type, value)]
            for register, type in zip(registers, case.result_types, strict=True):
                lines.append(f".reg .{register_class(type)} {register};")
            lines.append(case.ptx(registers, operands))
            for position, (register, type) in enumerate(zip(registers, case.result_types, strict=True)):
                offset = 8 * len(results)
                if type == "pred":
                    lines += [f"selp.u32 %t, 1, 0, {register};", f"st.global.b32 [%out+{offset}], %t;"]
                else:
                    lines.append(f"st.global.{memory_type(type)} [%out+{offset}], {register};")
                size = 4 if type == "pred" else max(16, BITS[type]) // 8
                text = ", ".join(f"{value:#x}" for value in vector)
                results.append(
                    Output(
                        opcode=case.body or case.opcode,
                        type=type,
                        offset=offset,
                        size=size,
                        count=1,
                        model=partial(_expected, case, vector, position),
                        tolerance=case.tolerance,
                        describe=partial(_describe, text),
                    )
                )
    return Kernel(
        name=name,
        body="\n".join([*lines, "ret;"]),
        opcodes=frozenset(),
        input=np.zeros(8, np.uint8),
        output=np.full(8 * len(results), 0xA5, np.uint8),
        results=results,
        block=1,
        recorded=False,
    )


def _constant(register: str, type: str, value: int) -> str:
    if type == "pred":
        return f"setp.eq.u32 {register}, {value}, 1;"
    if type[0] == "f":
        digits = BITS[type] // 4
        return f"mov.{type} {register}, 0{'f' if digits == 8 else 'd'}{value:0{digits}X};"
    return f"mov.b{max(16, BITS[type])} {register}, {value:#x};"


def _expected(case: Case, vector: tuple[int, ...], position: int) -> list[Expected]:
    found = case.model(*vector)
    return [found[position] if len(case.result_types) > 1 else found]


def _describe(text: str, index: int) -> str:
    return text
