"""How often the machine code executes, where the assembler unrolled loops and where lanes come to them one by one."""

from __future__ import annotations

import struct
from functools import cache

import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.machine.counters.metrics import Counts
from cudalab.sim.machine.counters.sampling import count_launch
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.h200 import LIMITS

SOURCE = r"""
extern "C" {
__global__ void in_turn(float *out, int rounds, int ways) {
    int way = (threadIdx.x & 31) % ways;
    float x = threadIdx.x;
    for (int w = 0; w < ways; w++)
        if (way == w) for (int i = 0; i < rounds; i++) x = x * (1.0f + w) + 0.5f;
    out[threadIdx.x] = x;
}
__global__ void integers(int *out, int rounds, int unused) {
    int x = threadIdx.x;
    for (int i = 0; i < rounds; i++) x = x * 7 + i;
    out[threadIdx.x] = x;
}
__global__ void long_integers(long long *out, int rounds, int mask) {
    long long x = threadIdx.x;
    for (int i = 0; i < rounds; i++) {
        asm volatile("xor.b64 %0, %0, %1;" : "+l"(x) : "l"((long long)mask));
        asm volatile("add.s64 %0, %0, %1;" : "+l"(x) : "l"((long long)mask));
    }
    out[threadIdx.x] = x;
}
}
"""


@cache
def module() -> Module:
    return Module(compile(SOURCE), Memory(1 << 20), LIMITS)


def counts_of(name: str, *numbers: int) -> Counts:
    kernel = module().kernel(name)
    args = struct.pack("<Qii", module().memory.allocate(1024), *numbers)
    return count_launch(kernel.launch(1, 32, args), blocks=1)


@pytest.mark.parametrize("ways", [1, 2, 8])
def test_lanes_that_come_to_a_loop_in_turn_execute_it_in_turn(ways: int) -> None:
    machine = counts_of("in_turn", 64, ways).machine
    assert machine.exact
    assert machine.by_name["FFMA"] + machine.by_name.get("FMUL", 0.0) == pytest.approx(64 * ways, rel=0.05)


def test_a_loop_of_integers_is_unrolled_as_its_counter_says() -> None:
    """The assembler makes one product of several: what is left of a round does not tell how many there are."""
    few, many = (counts_of("integers", rounds, 0).machine.instructions for rounds in (512, 1024))
    assert (many - few) / 512 < 2.0


def test_operations_on_64_bits_are_two_instructions_and_no_two_rounds() -> None:
    machine = counts_of("long_integers", 64, 3).machine
    assert machine.by_name["LOP3"] == pytest.approx(2 * 64, abs=8)
