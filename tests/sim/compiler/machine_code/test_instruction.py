"""Instructions against what ``nvdisasm`` shows of them: 12.8 of compute capability 9.0 (``data/nvdisasm.txt``), 13.5 of
what is different in 12.0 (``data/nvdisasm_120.txt``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.compiler.machine_code.assembly import Assembly, assembly
from cudalab.sim.compiler.machine_code.instruction import decode, register_name
from cudalab.sim.compiler.machine_code.instruction_set import OPERATIONS, OPERATIONS_OF_12, Operation, Pipe

DATA = Path(__file__).parent / "data"
SHOWN = [
    (*line.split(" ", 1), operations)
    for name, operations in (("nvdisasm", OPERATIONS), ("nvdisasm_120", OPERATIONS_OF_12))
    for line in (DATA / f"{name}.txt").read_text().splitlines()
]
BEHIND = (1, 2, 3)
"""Of an operand of several registers ``nvdisasm`` shows the first."""

CODE = """
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float s[32];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) sum += x[i] / y[i];
    s[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < 7) y[threadIdx.x] = __sinf(s[threadIdx.x + 1]);
}"""


@pytest.fixture(scope="module")
def code() -> Assembly:
    program = compile(CODE)
    return assembly(program, program.kernels["k"])


@pytest.mark.parametrize(("word", "text", "operations"), SHOWN, ids=[text for _, text, _ in SHOWN])
def test_name_and_registers_are_those_that_nvdisasm_shows(
    word: str, text: str, operations: Mapping[int, Operation]
) -> None:
    guard, name, operands = re.fullmatch(r"(?:@(!?U?P\w) )?([\w.]+) ?(.*)", text).groups()
    found = decode(int(word, 16), 0, 0, operations)
    assert found.name == name.split(".")[0]
    shown = set(re.findall(r"\b(?:U?P[0-6]|U?R\d+)\b", operands))
    if guard is not None:
        assert register_name(found.guard) == guard.lstrip("!") and found.negated == guard.startswith("!")
        shown.add(guard.lstrip("!"))
    registers = {register_name(each) for each in found.writes + found.reads}
    assert shown <= registers
    if name not in ("P2R", "R2P"):
        assert all(_stands_behind(each, shown) for each in registers - shown)


def _stands_behind(register: str, shown: set[str]) -> bool:
    kind, number = re.fullmatch(r"(\D+)(\d+)", register).groups()
    return any(f"{kind}{int(number) - distance}" in shown for distance in BEHIND)


def test_the_control_field_holds_stall_cycles_and_scoreboards() -> None:
    """Of ``IADD3 … &req={2} ?WAIT5`` and of ``LDG.E … &wr=2``, each with bits of the operation left out."""
    add, load = decode(0x004FCA00 << 96, 0, 0).control, decode(0x000EA800 << 96, 0, 0).control
    assert (add.stall, add.yields, add.waits) == (5, True, 0b100)
    assert (add.write_barrier, add.read_barrier, add.reuse) == (-1, -1, 0)
    assert (load.stall, load.yields, load.write_barrier, load.read_barrier, load.waits) == (4, False, 2, -1, 0)


def test_every_scoreboard_that_is_waited_for_was_taken(code: Assembly) -> None:
    taken = 0
    for each in code.instructions:
        assert not each.control.waits & ~taken, each
        for barrier in (each.control.write_barrier, each.control.read_barrier):
            taken |= 1 << barrier if barrier >= 0 else 0


def test_results_of_variable_latency_take_a_scoreboard(code: Assembly) -> None:
    for each in code.instructions:
        if each.pipe in (Pipe.XU, Pipe.LSU) and each.writes:
            assert each.control.write_barrier >= 0, each
        if each.pipe in (Pipe.ALU, Pipe.FMA, Pipe.FMA_HEAVY):
            assert each.control.write_barrier == -1, each


def test_every_register_that_is_read_was_written(code: Assembly) -> None:
    written = {register for each in code.instructions for register in each.writes}
    assert {register for each in code.instructions for register in each.reads} <= written


def test_blocks_cover_the_code_and_end_in_branches(code: Assembly) -> None:
    assert [block.first for block in code.blocks] == [0, *(block.end for block in code.blocks[:-1])]
    assert code.blocks[-1].end == len(code.instructions)
    ends = [code.instructions[block.end - 1] for block in code.blocks]
    assert all(not block.successors for block, end in zip(code.blocks, ends, strict=True) if end.name == "RET")
    loops = [block for index, block in enumerate(code.blocks) if 0 <= block.target <= index]
    assert loops and all(code.instructions[block.end - 1].name == "BRA" for block in loops)


def test_the_routine_for_division_is_called(code: Assembly) -> None:
    (name,) = code.routines
    assert "div" in name
    assert code.routines[name] in {block.calls for block in code.blocks}
    assert code.instructions[code.blocks[-1].end - 1].name == "RET"
