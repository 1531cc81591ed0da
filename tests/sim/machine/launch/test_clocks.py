"""Clocks that a kernel reads: a microbenchmark on the simulated device finds the profile's own latencies."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pytest

from cudalab.sim.compiler import compile
from cudalab.sim.device.profile import load
from cudalab.sim.machine.execution import execute
from cudalab.sim.machine.launch.module import Module
from cudalab.sim.machine.memory.allocations import Memory
from tests.sim.h200 import LIMITS

PROFILE = load("h200").device
CYCLES = PROFILE["clock"]
"""Cycles of a nanosecond."""


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    memory = Memory(1 << 30)
    yield memory
    memory.free_all()


def measure(
    memory: Memory, body: str, rounds: int = 1000, threads: int = 32, places: np.ndarray | None = None, **options: str
) -> int:
    """What thread 0 of ``body`` stores in ``out``; ``t`` is the thread, ``n`` the rounds, ``p`` the places."""
    code = f"""extern "C" __global__ void k(long long* out, float* x, int* p, int n) {{
      __shared__ int s[2048];
      int t = threadIdx.x;
      {body}
    }}"""
    kernel = Module(compile(code), memory, LIMITS).kernel("k")
    places = np.zeros(16, np.int32) if places is None else places
    pointers = [memory.allocate(size) for size in (8 * 1024, 4 * 1024, places.nbytes)]
    memory.array(pointers[1], 1024, np.float32)[:] = 1
    memory.array(pointers[2], places.size, np.int32)[:] = places
    outcome = execute(kernel.launch(1, threads, struct.pack("<QQQi", *pointers, rounds)), **options)  # type: ignore[arg-type]
    assert outcome.fault is None, outcome.fault
    found = int(memory.array(pointers[0], 1, np.int64)[0])
    for pointer in pointers:
        memory.free(pointer)
    return found


def around(work: str, after: str = "") -> str:
    return f"long long began = clock64(); {work} long long ended = clock64(); out[t] = ended - began; {after}"


@pytest.mark.parametrize("rounds", [1000, 100_000])
def test_a_chain_of_fused_multiply_adds(memory: Memory, rounds: int) -> None:
    body = "float v = t;" + around("for (int i = 0; i < n; i++) v = fmaf(v, 1.0001f, 0.5f);", "x[t] = v;")
    assert measure(memory, body, rounds) == pytest.approx(rounds * PROFILE["latency_float"], rel=0.03)


def test_special_functions(memory: Memory) -> None:
    body = "float v = t;" + around("for (int i = 0; i < n; i++) v = __cosf(v);", "x[t] = v;")
    assert measure(memory, body) > 1000 * PROFILE["latency_special"]


@pytest.mark.parametrize(
    "kilobytes, latency", [(16, "l1_latency"), (128, "l1_latency"), (1024, "l2_latency"), (128 << 10, "dram_latency")]
)
def test_a_pointer_chase_has_the_latency_of_the_level_that_holds_the_data(
    memory: Memory, kilobytes: int, latency: str
) -> None:
    count = kilobytes * 256
    places = ((np.arange(count) + 32) % count).astype(np.int32)
    work = "for (int i = 0; i < n; i++) j = p[j];"
    body = f"int j = 0; if (n < 10000) {work} {around(work, 'x[0] = j;')}"
    rounds = count // 32
    each = measure(memory, body, rounds, threads=1, places=places) / rounds
    assert each == pytest.approx(PROFILE[latency] * CYCLES, abs=12)  # the address takes two instructions


@pytest.mark.parametrize("ways", [1, 2, 8, 32])
def test_bank_conflicts(memory: Memory, ways: int) -> None:
    body = "for (int i = t; i < 2048; i += 32) s[i] = i; __syncthreads(); " + f"int j = t * {ways};"
    body += around("for (int i = 0; i < n; i++) j = s[j];", "x[t] = j;")
    latency = measure(memory, body, 100) / 100
    assert latency == pytest.approx(PROFILE["latency_shared"] + (ways - 1) * PROFILE["shared_wavefront"], abs=12)


def test_shuffles_atomics_and_barriers(memory: Memory) -> None:
    shuffle = "int v = t;" + around("for (int i = 0; i < n; i++) v = __shfl_xor_sync(~0u, v, 1);", "x[t] = v;")
    assert measure(memory, shuffle) == pytest.approx(1000 * PROFILE["latency_shuffle"], rel=0.25)
    atomic = "int v = 0;" + around("for (int i = 0; i < n; i++) v = atomicAdd(p, v);", "x[t] = v;")
    assert measure(memory, atomic, threads=1) == pytest.approx(1000 * PROFILE["atomic_latency"] * CYCLES, rel=0.05)
    barrier = around("for (int i = 0; i < n; i++) __syncthreads();")
    assert measure(memory, barrier) > 1000 * PROFILE["barrier"] * CYCLES


@pytest.mark.parametrize("asked, slept", [(0, 40), (100, 128), (1000, 1024), (5000, 8192)])
def test_nanosleep_advances_the_clocks(memory: Memory, asked: int, slept: int) -> None:
    assert measure(memory, around(f"__nanosleep({asked});")) == pytest.approx(slept * CYCLES, abs=40)
    timer = 'long long %s; asm volatile("mov.u64 %%0, %%%%globaltimer;" : "=l"(%s));'
    body = f"{timer % ('a', 'a')} __nanosleep({asked}); {timer % ('b', 'b')} out[t] = b - a;"
    assert measure(memory, body) == pytest.approx(slept, abs=20)


@pytest.mark.parametrize("variant", ["", "plain", "wide", "traced"])
def test_a_loop_that_waits_for_the_clock_waits_so_long(memory: Memory, variant: str) -> None:
    body = "long long began = clock64(); while (clock64() - began < n); out[t] = clock64() - began;"
    waited = measure(memory, body, 1_000_000, variant=variant)
    assert 1_000_000 <= waited < 1_000_100


def test_both_halves_of_a_clock(memory: Memory) -> None:
    body = """unsigned low, high; long long whole = clock64();
      asm volatile("mov.u32 %0, %%clock;" : "=r"(low)); asm volatile("mov.u32 %0, %%clock_hi;" : "=r"(high));
      out[t] = (((long long)high << 32) | low) - whole;"""
    assert 0 < measure(memory, body) < 200


def test_kernels_that_read_no_clock_follow_no_time() -> None:
    program = compile('extern "C" __global__ void k(float* x) { x[threadIdx.x] *= 2; }')
    assert not program.kernels["k"].follows_time
