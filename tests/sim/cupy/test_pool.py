"""The memory pool: CuPy's accounting, and memory of each array's own size."""

from __future__ import annotations

import gc
import random
from typing import Any

import numpy as np
import pytest

import cudalab
import cudalab.sim.cupy as cp
from cudalab.sim import device as sim_device
from cudalab.sim.cupy.cuda import pinned_memory

SCALE = cp.RawKernel(
    """extern "C" __global__ void scale(float* x, int n, float a) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] *= a;
    }""",
    "scale",
)


class Counter(cp.cuda.MemoryHook):
    name = "Counter"

    def __init__(self) -> None:
        self.mallocs = 0
        self.arrays = 0
        self.frees = 0

    def alloc_preprocess(self, **kwargs: Any) -> None:
        self.mallocs += 1

    def malloc_preprocess(self, **kwargs: Any) -> None:
        self.arrays += 1

    def free_preprocess(self, **kwargs: Any) -> None:
        self.frees += 1


def test_the_second_array_costs_no_cudamalloc(own_device: sim_device.Device) -> None:
    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc), Counter() as counter:
        a = cp.zeros(1 << 20, np.float32)
        assert (counter.mallocs, counter.arrays) == (1, 1)
        address = a.data.ptr
        del a
        before = own_device.clock_ns
        b = cp.empty(1 << 20, np.float32)
        assert (counter.mallocs, counter.arrays, counter.frees) == (1, 2, 1)
        assert b.data.ptr == address
        assert own_device.clock_ns == before  # no call of the runtime at all


def test_device_calls_of_a_pool_are_in_the_recording() -> None:
    device = sim_device.Device(record=True)
    before = sim_device.set_current_device(device)
    try:
        pool = cp.cuda.MemoryPool()
        with cp.cuda.using_allocator(pool.malloc):
            for _ in range(5):
                a = cp.zeros(1000, np.float32)
                del a
        assert [entry.name for entry in device.log.entries].count("malloc") == 1
    finally:
        sim_device.set_current_device(before)


def test_each_array_has_its_own_bounds() -> None:
    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        block = cp.empty(1 << 16, np.uint8)
        del block
        arrays = [cp.ones(n, np.float32) for n in (100, 1, 127)]
    for array in arrays:
        found = sim_device.current_device().memory.find(array.data.ptr)
        assert found is not None
        assert (found.pointer, found.size) == (array.data.ptr, array.nbytes)
    SCALE((1,), (128,), (arrays[0], 100, np.float32(2)))
    assert arrays[0].tolist() == [2.0] * 100
    SCALE((1,), (128,), (arrays[0], 101, np.float32(2)))
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorIllegalAddress") as caught:
        cp.cuda.Device().synchronize()
    note = "\n".join(caught.value.__notes__)
    assert "scale" in note and "400" in note  # the kernel, and the array's size in bytes


def test_a_temporary_lives_until_its_launch_has_ended() -> None:
    x = cp.ones(5000, np.float32)
    for _ in range(20):
        SCALE((40,), (128,), (x * 2, 5000, np.float32(3)))  # the product goes at once, on the host
        x = x + 0
    cp.cuda.Device().synchronize()
    assert x.tolist() == [1.0] * 5000


def test_arrays_of_many_sizes_keep_their_values() -> None:
    pool = cp.cuda.MemoryPool()
    chance = random.Random(1)
    live: list[tuple[cp.ndarray, int]] = []
    with cp.cuda.using_allocator(pool.malloc):
        for step in range(400):
            if live and chance.random() < 0.5:
                array, value = live.pop(chance.randrange(len(live)))
                assert (array.get() == value).all()
                del array
            else:
                live.append((cp.full(chance.choice([1, 100, 128, 1000, 5000]), step, np.int32), step))
            used = sum(-(-array.nbytes // 512) * 512 for array, _ in live)
            assert pool.used_bytes() == used
            assert pool.total_bytes() >= used
    for array, value in live:
        assert (array.get() == value).all()
    live.clear()
    del array
    assert pool.used_bytes() == 0
    pool.free_all_blocks()
    assert (pool.total_bytes(), pool.n_free_blocks()) == (0, 0)


def test_memory_goes_back_to_the_device() -> None:
    gc.collect()
    memory = sim_device.current_device().memory
    before = memory.in_use
    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        arrays = [cp.ones(n, np.float32) for n in (1000, 2000, 3000)]
        temporary = arrays[0] * 2 + 1
    assert memory.in_use > before
    del arrays, temporary
    pool.free_all_blocks()
    cp.cuda.Device().synchronize()
    assert memory.in_use == before


def test_arrays_in_reference_cycles_go_back_too() -> None:
    pool = cp.cuda.MemoryPool()

    class Holder:
        pass

    with cp.cuda.using_allocator(pool.malloc):
        for _ in range(50):
            one, two = Holder(), Holder()
            one.other, two.other = two, one  # type: ignore[attr-defined]
            one.array, two.array = cp.ones(10), cp.ones(1000)  # type: ignore[attr-defined]
        del one, two
        gc.collect()
        assert pool.used_bytes() == 0
        assert cp.zeros(1000).tolist() == [0.0] * 1000


def test_a_block_belongs_to_its_stream() -> None:
    pool = cp.cuda.MemoryPool()
    stream = cp.cuda.Stream()
    with cp.cuda.using_allocator(pool.malloc):
        with stream:
            a = cp.empty(1000)
        address = a.data.ptr
        del a
        b = cp.empty(1000)
        assert b.data.ptr != address
        with stream:
            c = cp.empty(1000)
        assert c.data.ptr == address


def test_a_destroyed_stream_leaves_no_memory_behind() -> None:
    pool = cp.cuda.MemoryPool()
    stream = cp.cuda.Stream()
    with cp.cuda.using_allocator(pool.malloc), stream:
        big, small = cp.empty(4096, np.uint8), cp.empty(512, np.uint8)
    del stream, big
    assert small.nbytes == 512
    del small
    pool.free_all_blocks()
    assert pool.total_bytes() == 0


def test_running_out_of_memory_says_how_much_was_asked() -> None:
    with pytest.raises(
        cp.cuda.memory.OutOfMemoryError, match="Out of memory allocating 1,125,899,906,842,624"
    ) as caught:
        cp.zeros(1 << 50, np.uint8)
    assert any("of the device's" in note for note in caught.value.__notes__)
    assert cp.zeros(3).tolist() == [0.0, 0.0, 0.0]


def test_a_limit_is_kept_and_free_blocks_go_first() -> None:
    pool = cp.cuda.MemoryPool()
    pool.set_limit(size=4096)
    with cp.cuda.using_allocator(pool.malloc):
        a = cp.empty(4096, np.uint8)
        with pytest.raises(cp.cuda.memory.OutOfMemoryError, match="limit set to: 4,096 bytes"):
            cp.empty(1, np.uint8)
        del a
        assert cp.empty(2048, np.uint8).nbytes == 2048
    assert pool.total_bytes() <= 4096


def test_pool_memory_that_no_array_owns_is_listed() -> None:
    from cudalab.sim.cupy.cuda._pool import cached

    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        a = cp.empty(100, np.float32)
    place = (a.data.ptr, 400)
    assert place not in list(cached())
    del a
    assert place in list(cached())


def test_pinned_memory_is_a_buffer_and_is_lent_again() -> None:
    pool = cp.cuda.PinnedMemoryPool()
    memory = pool.malloc(5000)
    assert (memory.mem.size, memory.size(), (memory + 100).size()) == (8192, 8192, 8092)
    array = np.frombuffer(memory, np.float32, 1000)
    array[...] = np.arange(1000)
    address = memory.ptr
    device = cp.empty(1000, np.float32)
    device.set(array)
    assert device.tolist() == list(range(1000))
    del memory
    gc.collect()
    assert pool.n_free_blocks() == 0  # the array still uses it
    del array
    assert pool.n_free_blocks() == 1
    assert pool.malloc(8000).ptr == address


def test_what_copies_read_is_let_go_by_a_reset() -> None:
    """The copies' events are gone then. Asking for them cost each later copy 3.8 us and kept the memory."""
    values = np.zeros(1 << 14, np.float32)

    def microseconds() -> float:
        cp.cuda.Device().synchronize()
        before = cudalab.clock()
        cp.asarray(values)
        return cudalab.clock() - before

    before = min(microseconds() for _ in range(4))  # the first takes memory and lets go what earlier tests left
    sim_device.reset()
    microseconds()
    assert [microseconds() for _ in range(3)] == pytest.approx([before] * 3)
    assert len(pinned_memory._in_flight) == 1


def test_a_pool_survives_a_reset() -> None:
    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        old = cp.ones(1000)
        assert pool.used_bytes() > 0
        sim_device.reset()
        assert (pool.used_bytes(), pool.total_bytes()) == (0, 0)
        new = cp.ones(1000)
        del old
        gc.collect()
        assert new.tolist() == [1.0] * 1000
        assert pool.used_bytes() == 8192
