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
__global__ void quotients(float *out, int rounds, int unused) {
    float x = threadIdx.x + 1.0f;
    for (int i = 0; i < rounds; i++) x = 1.5f / x + 0.25f;
    out[threadIdx.x] = x;
}
__global__ void halo(float *out, int radius, int unused) {
    __shared__ float tile[128];
    for (int i = threadIdx.x; i < 128; i += 32) tile[i] = out[i];
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k <= 2 * radius; k++) sum += tile[threadIdx.x + k];
    out[threadIdx.x] = sum;
}
__global__ void some(int *out, int unused, int none) {
    __shared__ int part[8];
    int sum = out[threadIdx.x], warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 31) part[warp] = sum;
    __syncthreads();
    for (int k = 0; k < warp; k++) sum += part[k];
    out[threadIdx.x] = sum;
}
__global__ void hoisted(float *out, int rounds, int unused) {
    float best = 1.0f;
#pragma unroll 1
    for (int k = 0; k < rounds; k++) {
        float v = best;
        for (int j = 0; j < 4; j++) best = fmaxf(best, __shfl_sync(~0u, v, j) + out[j * 32 + threadIdx.x]);
    }
    out[threadIdx.x] = best;
}
__global__ void kept(int *out, int rounds, int least) {
    int sum = 0;
    for (int k = 0; k < rounds; k++) {
        int v = out[k * 32 + threadIdx.x];
        if (v + k >= least) sum += v * out[k];
    }
    out[threadIdx.x] = sum;
}
__global__ void powers(unsigned *out, unsigned exponent, unsigned modulus) {
    unsigned long long b = threadIdx.x + (1u << 31), result = 1;
    for (unsigned e = exponent; e; e >>= 1) {
        if (e & 1) result = result * b % modulus;
        b = b * b % modulus;
    }
    out[threadIdx.x] = (unsigned)result;
}
__global__ void zeros(float *out, int rounds, int since) {
    float x = 1.0f, sum = 0.0f;
    for (int k = 0; k < rounds; k++) {
        sum += x / (sum + 1.5f);
        x = k + 1 < since ? x + 1.0f : 0.0f;
    }
    out[threadIdx.x] = sum;
}
__global__ void insertions(int *out, int n, int unused) {
    int *own = out + threadIdx.x * n;
    for (int i = 0; i < n; i++) own[i] = (i * 7 + threadIdx.x) % n;
    for (int gap = n / 2; gap > 0; gap /= 2)
        for (int i = gap; i < n; i++) {
            int value = own[i], j = i;
            while (j >= gap && own[j - gap] > value) {
                own[j] = own[j - gap];
                j -= gap;
            }
            own[j] = value;
        }
}
}
"""


@cache
def module() -> Module:
    return Module(compile(SOURCE), Memory(1 << 20), LIMITS)


def counts_of(name: str, *numbers: int, threads: int = 32) -> Counts:
    kernel = module().kernel(name)
    args = struct.pack("<Qii", module().memory.allocate(1 << 14), *numbers)
    return count_launch(kernel.launch(1, threads, args), blocks=1)


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


SINGLE = (
    ("quotients", 20, "MUFU", 20),
    ("halo", 4, "LDS", 9),
    ("halo", 6, "LDS", 13),
    ("hoisted", 10, "SHFL", 40),
    ("hoisted", 10, "LDG", 4),
)


@pytest.mark.parametrize(("name", "number", "operation", "times"), SINGLE)
def test_a_warp_executes_what_its_rounds_take(name: str, number: int, operation: str, times: int) -> None:
    """Rounds end in a jump of their own; a division has a slow way; loads are moved out of a loop."""
    machine = counts_of(name, number, 0).machine
    assert machine.exact
    assert machine.by_name[operation] == times


@pytest.mark.parametrize(("name", "number", "threads"), [("some", 0, 256), ("insertions", 20, 32)])
def test_lanes_that_leave_a_loop_or_never_came_to_it_meet_behind_it(name: str, number: int, threads: int) -> None:
    assert counts_of(name, number, 0, threads=threads).machine.exact


@pytest.mark.parametrize(("least", "added"), [(0, 37), (12, 25), (100, 0)])
def test_the_body_of_an_if_that_became_predicates_runs_with_its_loop(least: int, added: int) -> None:
    """However often the PTX ran it: the loop around it is unrolled all the same."""
    counts = counts_of("kept", 37, least)
    assert counts.machine.exact
    assert counts.machine.by_name["LDG"] == 2 * 37
    assert sum(site.requests for site in counts.sites if site.site.opcode.startswith("ld.global")) == 37 + added


@pytest.mark.parametrize(("exponent", "products"), [(0b1000, 4), (0b1111, 7)])
def test_a_product_of_64_bits_is_one_round(exponent: int, products: int) -> None:
    """Four squares; the first product with the result, which is 1, has 32 bits and calls nothing."""
    machine = counts_of("powers", exponent, 1_000_000_007).machine
    assert machine.exact
    assert machine.by_name["CALL"] == products


@pytest.mark.parametrize(("rounds", "since"), [(20, 20), (20, 7), (3, 0)])
def test_a_division_of_zero_takes_the_slow_way(rounds: int, since: int) -> None:
    """From a round on the numerator is 0; a loop may be unrolled, and each copy has the call."""
    machine = counts_of("zeros", rounds, since).machine
    assert machine.exact
    assert machine.by_name.get("CALL", 0.0) == pytest.approx(rounds - max(1, since))
