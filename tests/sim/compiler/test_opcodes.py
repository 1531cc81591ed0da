"""Every row of the instruction table, run and compared with a model in exact arithmetic on edge cases and random values."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from cudalab.sim.compiler.lowering import TABLE
from cudalab.sim.compiler.ptx.nodes import BITS
from tests.sim.compiler import opcode_arithmetic as exact
from tests.sim.compiler.kernel_runner import Compiled
from tests.sim.compiler.opcode_models import COUNT, MODELS, Case, lop3, signed
from tests.sim.compiler.opcode_module import input_cells, outputs_of, pool_of, write_module

#: Families whose instructions are not functions of registers, and the tests that run every row of theirs.
ELSEWHERE = {
    **dict.fromkeys("ld ldu st prefetch prefetchu applypriority discard fence membar".split(), "test_lowering_memory"),
    **dict.fromkeys(["atom", "red"], "test_lowering_atomic"),
    **dict.fromkeys("bar barrier shfl vote match redux elect activemask".split(), "test_lowering_warp"),
    **dict.fromkeys("bra brx ret exit trap brkpt call nanosleep pmevent isspacep".split(), "test_lowering_control"),
}
_MOST = 200  # opcodes tried of one row, beyond those that show every alternative


def opcodes_to_try() -> dict[str, list[str]]:
    """By name: every opcode of a row, or for the largest rows all alternatives and a sample of the combinations."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in TABLE.all_rows():
        if row.name in ELSEWHERE:
            continue
        everything = [opcode for opcode in row.opcodes() if _sensible(opcode)]
        chosen = {opcode: None for opcode in row.cover() if _sensible(opcode)}
        extra = random.Random(row.pattern).sample(everything, min(_MOST, len(everything)))
        chosen.update(dict.fromkeys(extra))
        found[row.name] += chosen
    return dict(found)


def _sensible(opcode: str) -> bool:
    """Not all that a pattern allows is an instruction: ``.xorsign`` and ``.abs`` stand together, and a conversion
    between integers saturates only where the target cannot hold all values of the source."""
    parts = opcode.split(".")
    if parts[0] == "cvt" and "sat" in parts and parts[-1][0] in "su" and parts[-2][0] in "su":
        target, source = parts[-2], parts[-1]
        wider = BITS[target] - (target[0] == "s") >= BITS[source] - (source[0] == "s")
        return not (wider and (target[0] == "s" or source[0] == "u"))
    if parts[0] in ("min", "max") and ("xorsign" in parts or "abs" in parts):
        return "xorsign" in parts and "abs" in parts
    return True


TRIED = opcodes_to_try()
CELLS = input_cells()


def decode(pattern: int, kind: str) -> Any:
    """The Python value of a bit pattern."""
    if kind == "pred":
        return bool(pattern & 1)
    if kind[0] == "f":
        return exact.from_bits(pattern, BITS[kind])
    pattern &= (1 << BITS[kind]) - 1
    return signed(pattern, BITS[kind]) if kind[0] == "s" else pattern


def encode(value: Any, kind: str) -> int:
    """The bit pattern that the instruction must leave in memory."""
    if kind[0] == "f":
        bits = BITS[kind]
        return exact.CANONICAL[bits] if math.isnan(value) else exact.to_bits(value, bits)
    return int(value) & ((1 << BITS[kind]) - 1)


def expected(case: Case) -> list[int] | list[float]:
    """What the model says for every element; floats where an error is allowed."""
    columns = [CELLS[pool_of(kind, operand)] for operand, kind in enumerate(case.inputs)]
    results = []
    for patterns in zip(*columns, strict=True):
        values = [decode(pattern, kind) for pattern, kind in zip(patterns, case.inputs, strict=True)]
        result = case.compute(*values)
        results.append(result if case.error else encode(result, case.output))
    return results


def run_all(cases: list[tuple[str, Case]]) -> list[list[int]]:
    """Bit patterns that the simulated device computes for each case."""
    ptx, places = write_module(cases)
    module = Compiled(ptx)
    inputs = np.array(CELLS, np.uint64)
    found: dict[str, np.ndarray] = {}
    for name, count in outputs_of(places).items():
        found[name] = np.zeros((count, COUNT), np.uint64)
        module(name, 1, COUNT, inputs, found[name])
    return [found[name][index].tolist() for name, index in places]


def differences(case: Case, got: list[int]) -> list[str]:
    """What is wrong, element by element."""
    wrong = []
    for index, (pattern, right) in enumerate(zip(got, expected(case), strict=True)):
        if case.error:
            value = exact.from_bits(pattern & ((1 << BITS[case.output]) - 1), BITS[case.output])
            same = _close(value, float(right), case)
        elif case.output == "f64" and math.isnan(exact.from_bits(int(right), 64)):
            same = math.isnan(exact.from_bits(pattern, 64))
        else:
            same = pattern == right
        if not same:
            operands = [
                decode(CELLS[pool_of(kind, operand)][index], kind) for operand, kind in enumerate(case.inputs)
            ]
            wrong.append(f"{operands} -> {pattern:#x}, not {right if case.error else hex(int(right))}")
    return wrong


def _close(value: float, right: float, case: Case) -> bool:
    if math.isnan(right) or math.isnan(value):
        return math.isnan(right) and math.isnan(value)
    if case.output == "f32":
        right = exact.round_exact(exact.Fraction(right), 32, "rn") if math.isfinite(right) else right
    if math.isinf(right) or math.isinf(value):
        return value == right
    return abs(value - right) <= max(abs(right) * case.error, 2.0**-148 if case.output == "f32" else 0)


@pytest.mark.parametrize("name", sorted(TRIED))
def test_computes_what_the_isa_says(name: str) -> None:
    cases = [(opcode, MODELS[name](TABLE.find(opcode))) for opcode in TRIED[name]]
    results = run_all(cases)
    for (opcode, case), got in zip(cases, results, strict=True):
        wrong = differences(case, got)
        assert not wrong, f"{opcode}: {len(wrong)} of {COUNT} differ: " + "; ".join(wrong[:5])


def test_every_table_of_lop3() -> None:
    cases = [("lop3.b32", Case(["b32"] * 3, "b32", lop3(number), tail=f", {number}")) for number in range(256)]
    for number, ((_, case), got) in enumerate(zip(cases, run_all(cases), strict=True)):
        assert not differences(case, got), f"lop3 with table {number:#x}"


def test_every_row_has_a_test() -> None:
    for row in TABLE.all_rows():
        assert row.name in MODELS or row.name in ELSEWHERE, f"no test runs {row.pattern}"
        if row.name in ELSEWHERE:
            continue
        tried = [opcode.split(".") for opcode in TRIED[row.name] if TABLE.find(opcode).row is row]
        for _, alternatives in row.slots:
            for alternative in alternatives:
                assert any(alternative in parts for parts in tried), f".{alternative} of {row.pattern} is not tried"


def test_every_opcode_belongs_to_one_row() -> None:
    for row in TABLE.all_rows():
        for opcode in row.cover():
            owners = [other.pattern for other in TABLE.rows[row.name] if other.match(opcode.split(".")) is not None]
            assert owners == [row.pattern], opcode
