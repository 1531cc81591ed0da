"""The device heap: what kernels allocate, free, and do wrong with it."""

from __future__ import annotations

import time

import numpy as np
import pytest

from cudalab.sim.machine.execution import Standalone
from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.memory.heap import DEFAULT, DeviceHeap, charge, rounded_limit
from tests.sim.compiler.kernel_runner import cuda, memory

SOURCE = r"""
extern "C" __global__ void make(int **out, int n) {
    int *p = (int *)malloc(n * sizeof(int));
    for (int i = 0; i < n; i++) p[i] = i * (int)threadIdx.x;
    out[threadIdx.x] = p;
}
extern "C" __global__ void add_and_free(int **in, int *sums, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += in[threadIdx.x][i];
    sums[threadIdx.x] = sum; free(in[threadIdx.x]);
}
extern "C" __global__ void twice(int n) { int *p = (int *)malloc(n); free(p); free(p); }
extern "C" __global__ void inside(int n) { int *p = new int[n]; free(p + 1); }
extern "C" __global__ void over(int n) { char *p = (char *)malloc(n); p[n] = 1; }
extern "C" __global__ void later(int n) { char *p = (char *)malloc(n); free(p); p[0] = 1; }
extern "C" __global__ void array(int *p) { free(p); }
extern "C" __global__ void variable(int *out) { int x = out[0]; free(&x); out[1] = x; }
extern "C" __global__ void count(int *out, int n) { while (malloc(n)) atomicAdd(out, 1); }
extern "C" __global__ void uneven(int *out, int n) {
    char *p = (char *)malloc(n); out[threadIdx.x] = p == nullptr; __syncthreads(); free(p); }
"""


@pytest.fixture(autouse=True)
def empty_heap():
    memory().heap.clear()
    yield
    memory().heap.clear()


@pytest.mark.parametrize("variant", ["plain", "atomic", "traced"])
def test_memory_lives_until_a_later_launch_frees_it(variant: str) -> None:
    module = cuda(SOURCE)
    pointers, sums = np.zeros(64, np.uint64), np.zeros(64, np.int32)
    module("make", 1, 64, pointers, 7, variant=variant)
    assert len(set(pointers.tolist())) == 64 and (pointers % 16 == 0).all() and len(memory().heap) == 64
    module("add_and_free", 1, 64, pointers, sums, 7, variant=variant)
    assert sums.tolist() == [21 * thread for thread in range(64)] and len(memory().heap) == 0


def test_several_workers_allocate_at_once() -> None:
    module, out = cuda(SOURCE), np.zeros(128, np.int32)
    module("uneven", 64, 128, out, 48, surroundings=Standalone(workers=2))
    assert not out.any() and len(memory().heap) == 0


FAULTS = {
    "twice": ("invalid free", 719, "already freed at kernel.cu:"),
    "inside": ("invalid free", 719, "4 bytes into the 160-byte heap allocation"),
    "over": ("out of bounds", 700, "1 bytes past the end of the 40-byte allocation"),
    "later": ("use after free", 700, "which was freed"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_mistakes_end_the_launch_and_are_explained(name: str) -> None:
    rule, code, text = FAULTS[name]
    fault = cuda(SOURCE).run(name, 1, 1, 40).fault
    assert fault is not None and (fault.rule, fault.code) == (rule, code)
    assert text in str(fault)


def test_free_takes_nothing_but_the_heaps_memory() -> None:
    module, out = cuda(SOURCE), np.zeros(4, np.int32)
    for name, why in (("array", "device allocation"), ("variable", "a local variable")):
        fault = module.run(name, 1, 1, out).fault
        assert fault is not None and fault.rule == "invalid free" and why in str(fault)


@pytest.mark.parametrize(
    ("size", "fits"), [(16, 90670), (100, 45335), (4096, 1888), (65536, 78), (1 << 20, 6), (3 << 20, 2), (8 << 20, 0)]
)
def test_as_many_fit_as_on_an_h200(size: int, fits: int) -> None:
    """Counted on an H200 with driver 580, 8 MB of heap; within 0.1 %."""
    assert abs(int(DEFAULT / charge(size)) - fits) <= fits / 1000


def test_null_when_there_is_no_room() -> None:
    module, out = cuda(SOURCE), np.zeros(1, np.int32)
    module("count", 1, 1, out, 65536)
    assert out[0] == 78


def test_a_freed_place_is_used_again_in_the_end() -> None:
    heap = DeviceHeap(Memory(capacity=1 << 28))
    heap = heap._memory.heap
    seen = set()
    for _ in range(20000):
        pointer = heap.malloc(64)
        assert pointer and heap.free(pointer)
        seen.add(pointer)
    assert len(seen) < 20000 and heap.used == pytest.approx(0.0, abs=1e-6)


def test_what_a_sample_allocates_is_taken_back() -> None:
    heap = Memory(capacity=1 << 28).heap
    kept, given = heap.malloc(32), heap.malloc(32)
    heap.begin()
    heap.malloc(1000)
    assert heap.free(given) and len(heap) == 2
    heap.rollback()
    assert len(heap) == 2 and heap.free(kept) and heap.free(given)


@pytest.mark.parametrize(("asked", "given"), [(1, 4 << 20), (12345678, 12386304), (1 << 40, 17681179680)])
def test_the_limit_is_rounded_as_on_an_h200(asked: int, given: int) -> None:
    assert rounded_limit(asked) == given


def test_alignment_and_impossible_wishes() -> None:
    heap = Memory(capacity=1 << 28).heap
    assert heap.malloc(10, 256) % 256 == 0
    assert heap.malloc(10, 512) == 0 and heap.malloc(10, 24) == 0 and heap.malloc(1 << 40) == 0
    assert heap.malloc(0) and heap.free(0)


def test_allocating_and_freeing_in_a_loop_takes_linear_time() -> None:
    heap = Memory(1 << 26).heap
    start = time.process_time()
    for _ in range(20_000):
        assert heap.free(heap.malloc(64))
    assert time.process_time() - start < 2.0
