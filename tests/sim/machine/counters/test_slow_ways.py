"""Which divisions and roots take the assembler's slow way, and how often a warp does: as an H200 did.

Operands are given by their exponents, one from each side of each border in the map of all pairs that was measured
(docs/evidence/2026-11-23-slow-ways.md).
"""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cudalab.sim.abi import SiteKind
from cudalab.sim.compiler import compile
from cudalab.sim.machine.counters.metrics import Counts
from cudalab.sim.machine.counters.sampling import sample
from cudalab.sim.machine.launch.module import LoadedKernel, Module
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.h200 import LIMITS

_KERNEL = """
extern "C" __global__ void {name}(const {type} *a, const {type} *b, {type} *out) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    {type} q;
    asm volatile("{text}" : "={letter}"(q) : "{letter}"(a[i]){second});
    out[i] = q;
}}
"""
_OPERATIONS = ("div.rn.f32", "rcp.rn.f32", "sqrt.rn.f32", "div.rn.f64", "rcp.rn.f64", "sqrt.rn.f64")
ZERO = -1


def _source() -> str:
    found = ""
    for opcode in _OPERATIONS:
        kind, letter = ("float", "f") if opcode.endswith("f32") else ("double", "d")
        second = f', "{letter}"(b[i])' if opcode.startswith("div") else ""
        text = f"{opcode} %0, %1{', %2' if second else ''};"
        name = opcode.replace(".", "_")
        found += _KERNEL.format(name=name, type=kind, letter=letter, text=text, second=second)
    return found


@pytest.fixture(scope="module")
def module() -> Module:
    return Module(compile(_source()), Memory(1 << 30), LIMITS)


def _values(exponents: list[int], bits: int) -> np.ndarray:
    """Numbers with these exponents and half of the fraction."""
    shift, kind = (23, np.uint32) if bits == 32 else (52, np.uint64)
    found = [0 if each == ZERO else each << shift | 1 << (shift - 1) for each in exponents]
    return np.array(found, kind)


def slow_ways(kernel: LoadedKernel, *arrays: np.ndarray) -> float:
    """How often warps of one block, a thread for each number, took the slow way."""
    memory = kernel.module.memory
    places = []
    for array in (*arrays, np.zeros_like(arrays[0])):
        places.append(memory.allocate(array.nbytes))
        memory.arena.bytes[places[-1] - memory.arena.base :][: array.nbytes] = array.view(np.uint8)
    counts: Counts = sample(kernel.launch(1, len(arrays[0]), struct.pack(f"{len(places)}Q", *places)))
    sites = kernel.kernel.sites
    return sum(times for index, times in counts.visits.items() if sites[index].kind == SiteKind.SLOW_WAY)


@pytest.mark.parametrize(
    ("opcode", "exponents", "slow"),
    [
        ("div.rn.f32", (127, 127), False),
        ("div.rn.f32", (ZERO, 127), True),
        ("div.rn.f32", (25, 2), False),
        ("div.rn.f32", (24, 2), True),
        ("div.rn.f32", (25, 1), True),
        ("div.rn.f32", (25, 149), False),
        ("div.rn.f32", (25, 150), True),
        ("div.rn.f32", (150, 24), False),
        ("div.rn.f32", (150, 23), True),
        ("div.rn.f32", (128, 251), False),
        ("div.rn.f32", (128, 252), True),
        ("div.rn.f32", (254, 128), False),
        ("div.rn.f32", (255, 128), True),
        ("rcp.rn.f32", (1, 0), False),
        ("rcp.rn.f32", (0, 0), True),
        ("rcp.rn.f32", (252, 0), False),
        ("rcp.rn.f32", (253, 0), True),
        ("sqrt.rn.f32", (26, 0), False),
        ("sqrt.rn.f32", (25, 0), True),
        ("sqrt.rn.f32", (254, 0), False),
        ("sqrt.rn.f32", (ZERO, 0), True),
        ("div.rn.f64", (1023, 1023), False),
        ("div.rn.f64", (ZERO, 1023), True),
        ("div.rn.f64", (40, 1), True),
        ("div.rn.f64", (1000, 0), True),
        ("div.rn.f64", (1000, 1), False),
        ("div.rn.f64", (80, 2000), True),
        ("div.rn.f64", (2046, 1), True),
        ("div.rn.f64", (1000, 2046), True),
        ("rcp.rn.f64", (1, 0), False),
        ("rcp.rn.f64", (ZERO, 0), True),
        ("rcp.rn.f64", (2046, 0), True),
        ("sqrt.rn.f64", (1023, 0), False),
        ("sqrt.rn.f64", (40, 0), True),
        ("sqrt.rn.f64", (ZERO, 0), True),
    ],
)
def test_operands_that_take_the_slow_way(module: Module, opcode: str, exponents: tuple[int, int], slow: bool) -> None:
    bits = 32 if opcode.endswith("f32") else 64
    operands = [_values([each] * 32, bits) for each in exponents[: 2 if opcode.startswith("div") else 1]]
    kernel = module.kernel(opcode.replace(".", "_"))
    assert slow_ways(kernel, *operands, *([operands[0]] if len(operands) == 1 else [])) == float(slow)


def test_a_warp_takes_it_as_soon_as_one_lane_does(module: Module) -> None:
    numerators = np.ones(128, np.float32)
    numerators[[5, 40, 41, 127]] = 0.0
    assert slow_ways(module.kernel("div_rn_f32"), numerators, np.ones(128, np.float32)) == 3


_ROUNDS = """
extern "C" __global__ void in_turn(float *out, float divisor, int rounds) {
    float sum = 0;
    for (int i = 0; i < rounds; i++) sum += (threadIdx.x % 32 == i ? 0.f : 1.f) / (divisor + sum);
    out[threadIdx.x] = sum;
}
extern "C" __global__ void apart(float *out, float divisor, int rounds) {
    float sum = 0;
    for (int i = 0; i < rounds; i++)
        if ((threadIdx.x + i) % 3) sum += (threadIdx.x == i ? 0.f : 1.f) / (divisor + sum);
        else sum *= 0.5f;
    out[threadIdx.x] = sum;
}
"""


@pytest.mark.parametrize(("name", "times"), [("in_turn", 20), ("apart", 20 - 7)])
def test_lanes_that_take_it_in_different_rounds_do_not_take_it_together(name: str, times: int) -> None:
    module = Module(compile(_ROUNDS), Memory(1 << 30), LIMITS)
    kernel = module.kernel(name)
    counts = sample(kernel.launch(1, 32, struct.pack("Qfi", module.memory.allocate(4096), 3.0, 20)))
    sites = kernel.kernel.sites
    found = sum(taken for index, taken in counts.visits.items() if sites[index].kind == SiteKind.SLOW_WAY)
    assert found == times
