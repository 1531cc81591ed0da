"""Allocation, the ground between allocations, and what is said of a bad pointer."""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys

import numpy as np
import pytest

from cudalab.sim.abi import GRANULE
from cudalab.sim.device import Device
from cudalab.sim.machine.memory import host_capacity
from cudalab.sim.machine.memory.allocation import InvalidPointer, OutOfMemory
from cudalab.sim.machine.memory.allocations import MINIMUM_RED_ZONE, Memory
from cudalab.sim.machine.memory.arena import HUGE_PAGE, PAGE, TARGET


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(256 << 20)


def shadow(memory: Memory, pointer: int, size: int) -> list[int]:
    first = (pointer - memory.arena.base) // GRANULE
    return memory.arena.shadow[first - 1 : first + -(-size // GRANULE) + 1].tolist()


def present_bytes(pointer: int, size: int) -> int:
    """What a range has of the system's memory, from its first whole page on."""
    start = -(-pointer // PAGE) * PAGE
    pages = (pointer + size - start) // PAGE
    present = (ctypes.c_ubyte * pages)()
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(start), ctypes.c_size_t(pages * PAGE), present) == 0
    return sum(page & 1 for page in present) * PAGE


def test_pointers_are_aligned_and_memory_is_zero(memory: Memory) -> None:
    for size in (1, 4, 255, 256, 257, 4000, 1 << 20, 3 << 20):
        pointer = memory.allocate(size)
        assert pointer % 256 == 0
        assert not np.frombuffer(memory.view(pointer, size), np.uint8).any()


def test_shadow_says_how_much_of_each_granule_is_live(memory: Memory) -> None:
    pointer = memory.allocate(600)
    assert shadow(memory, pointer, 600) == [0, 256, 256, 88, 0]
    memory.free(pointer)
    assert shadow(memory, pointer, 600) == [0, 0, 0, 0, 0]


def test_allocations_are_far_apart(memory: Memory) -> None:
    sizes = [100, 5000, 1 << 20, 64, 4 << 20]
    blocks = sorted((memory.allocate(s), s) for s in sizes)
    for (low, size), (high, _) in zip(blocks[:-1], blocks[1:], strict=True):
        assert high - (low + size) >= max(MINIMUM_RED_ZONE, min(size, 1 << 20))


def test_freed_addresses_rest(memory: Memory) -> None:
    first = memory.allocate(1000)
    memory.free(first)
    later = [memory.allocate(1000) for _ in range(50)]
    assert all(abs(p - first) >= MINIMUM_RED_ZONE for p in later)


def test_addresses_are_used_again_when_the_lap_is_over() -> None:
    memory = Memory(1 << 30)
    memory._lap = 1 << 20
    seen = set()
    for _ in range(60):
        pointer = memory.allocate(1000)
        seen.add(pointer)
        assert shadow(memory, pointer, 1000) == [0, 256, 256, 256, 232, 0]
        memory.free(pointer)
    assert memory.arena.extent <= 64 << 20
    assert memory._lap == 1 << 20
    held = [memory.allocate(1000) for _ in range(40)]  # more than one lap holds
    assert len(set(held)) == 40
    assert memory._lap > 1 << 20


def test_views_share_the_bytes(memory: Memory) -> None:
    pointer = memory.allocate(400)
    array = memory.array(pointer, 100, np.float32)
    array[:] = np.arange(100)
    assert np.array_equal(np.frombuffer(memory.view(pointer + 40, 8), np.float32), [10, 11])


def test_a_view_outlives_its_allocation(memory: Memory) -> None:
    pointer = memory.allocate(4096)
    array = memory.array(pointer, 1024, np.int32)
    array[:] = 7
    memory.free(pointer)
    assert array.sum() == 0


@pytest.mark.parametrize(("offset", "size"), [(0, 401), (400, 1), (-1, 1), (399, 2)])
def test_a_view_stays_inside_one_allocation(memory: Memory, offset: int, size: int) -> None:
    pointer = memory.allocate(400)
    with pytest.raises(InvalidPointer):
        memory.view(pointer + offset, size)


def test_find(memory: Memory) -> None:
    pointer = memory.allocate(100, label="weights")
    for inside in (0, 50, 99):
        found = memory.find(pointer + inside)
        assert found is not None and found.pointer == pointer
    assert memory.find(pointer + 100) is None
    assert memory.find(pointer - 1) is None
    assert memory.find(0) is None


def test_double_free_says_so(memory: Memory) -> None:
    pointer = memory.allocate(100)
    memory.free(pointer, where="cell 3")
    with pytest.raises(InvalidPointer, match="already freed at cell 3"):
        memory.free(pointer)


def test_free_inside_says_how_far(memory: Memory) -> None:
    pointer = memory.allocate(100)
    with pytest.raises(InvalidPointer, match="lies 4 bytes into the 100-byte device allocation"):
        memory.free(pointer + 4)


def test_free_of_a_host_pointer_says_so(memory: Memory) -> None:
    array = np.zeros(10)
    with pytest.raises(InvalidPointer, match="host address"):
        memory.free(array.ctypes.data)


@pytest.mark.parametrize("pointer", [0, 64, 1 << 62])
def test_free_of_nothing(memory: Memory, pointer: int) -> None:
    with pytest.raises(InvalidPointer, match="never allocated"):
        memory.free(pointer)


def test_explain_past_the_end(memory: Memory) -> None:
    pointer = memory.allocate(4000)
    near = memory.explain(pointer + 4000, 4)
    assert near.inside is None and near.before is not None
    assert near.before.pointer == pointer and near.before.end == near.address


def test_explain_freed_and_host(memory: Memory) -> None:
    pointer = memory.allocate(4000)
    memory.free(pointer)
    near = memory.explain(pointer + 8, 4)
    assert near.freed is not None and near.freed.pointer == pointer
    host = np.zeros(4)
    assert memory.explain(host.ctypes.data, 8).is_host
    assert not memory.explain(0, 8).is_host


def test_capacity_is_enforced_and_explained() -> None:
    memory = Memory(1000)
    memory.allocate(600)
    with pytest.raises(
        OutOfMemory, match=r"cannot allocate 500 bytes: 600 bytes are in use.*host's RAM.*H200"
    ) as error:
        memory.allocate(500)
    assert (error.value.asked, error.value.in_use, error.value.limit) == (500, 600, 1000)
    memory.allocate(400)
    assert memory.in_use == 1000


def test_a_terabyte_is_refused() -> None:
    memory = Memory()
    assert memory.capacity <= host_capacity.available()
    with pytest.raises(OutOfMemory, match="cannot allocate 1 TB.*half of the host memory that was free"):
        memory.allocate(10**12)


def test_free_gives_capacity_back() -> None:
    memory = Memory(1000)
    for _ in range(5):
        memory.free(memory.allocate(900))
    assert memory.in_use == 0 and memory.peak == 900


def test_bad_sizes_and_kinds(memory: Memory) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        memory.allocate(0)
    with pytest.raises(ValueError, match="kind must be one of"):
        memory.allocate(4, kind="texture")


@pytest.mark.parametrize("start, size", [(0, 9 << 20), (100, (9 << 20) - 300), (5, 40)])
def test_cleared_bytes_are_zero_and_others_stay(memory: Memory, start: int, size: int) -> None:
    pointer = memory.allocate(9 << 20)
    before = memory.array(pointer, 9 << 20)
    before[:] = 7
    memory.clear(pointer + start, size)
    assert not before[start : start + size].any()
    assert (before[:start] == 7).all() and (before[start + size :] == 7).all()
    before[start] = 3  # and they can be written again
    assert before[start : start + 2].tolist() == [3, 0]


@pytest.mark.skipif(sys.platform != "linux", reason="pages are given back on Linux only")
def test_large_ranges_of_zeros_take_no_memory(memory: Memory) -> None:
    size = 16 << 20
    pointer = memory.allocate(size)
    memory.array(pointer, size)[:] = 7
    memory.clear(pointer, size)
    assert present_bytes(pointer, size) <= 2 * HUGE_PAGE  # what it shares with its neighbours


@pytest.mark.skipif(sys.platform != "linux", reason="other systems are not asked")
@pytest.mark.parametrize("size", [1 << 20, 4 << 20, 5 << 20])
def test_an_array_takes_what_it_fills(memory: Memory, size: int) -> None:
    pointer = memory.allocate(size)
    memory.array(pointer, size)[:] = 7
    assert size <= present_bytes(pointer, 2 * HUGE_PAGE + size) + PAGE <= size + HUGE_PAGE // 4


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone is asked for huge pages")
def test_small_arrays_have_no_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they lie in one: the system fills it by and by, and what is freed of it a page at a time stays."""
    memory, advised = Memory(256 << 20), []
    monkeypatch.setattr(memory.arena, "_advise", lambda option, offset, size: advised.append((option, size)) or True)
    for _ in range(2 * HUGE_PAGE // PAGE):
        memory.allocate(PAGE)
    assert not [size for option, size in advised if option == mmap.MADV_HUGEPAGE]
    memory.allocate(2 * HUGE_PAGE)
    assert (mmap.MADV_HUGEPAGE, 2 * HUGE_PAGE) in advised


def test_clear_stays_inside_one_allocation(memory: Memory) -> None:
    with pytest.raises(InvalidPointer):
        memory.clear(memory.allocate(4096), 4097)


def test_written_is_tracked(memory: Memory) -> None:
    pointer = memory.allocate(100)
    written = memory.find(pointer).written
    assert written.empty
    memory.view(pointer + 10, 10)
    memory.view(pointer + 40, 10, write=False)
    memory.mark_written(pointer + 20, 5)
    memory.mark_written(pointer + 90, 50)
    assert written.intervals == ((10, 25), (90, 100))
    memory.mark_written(pointer, 90)
    assert written.complete
    bits = written.bitmap()
    assert bits.all() and len(bits) == 100


def test_a_pool_can_lend_memory_as_new(memory: Memory) -> None:
    pointer = memory.allocate(100)
    memory.view(pointer, 100)
    memory.forget_written(pointer)
    assert memory.find(pointer).written.empty


def test_written_never_claims_too_little() -> None:
    from cudalab.sim.machine.memory.written_bytes import WrittenBytes

    rng = np.random.default_rng(0)
    written, truth = WrittenBytes(5000), np.zeros(5000, bool)
    for _ in range(300):
        start, size = int(rng.integers(0, 5000)), int(rng.integers(0, 30))
        written.mark(start, size)
        truth[start : start + size] = True
    assert np.array_equal(written.bitmap(), truth)


def test_very_scattered_writes_count_as_all() -> None:
    from cudalab.sim.machine.memory.written_bytes import WrittenBytes

    written = WrittenBytes(10_000)
    for start in range(0, 10_000, 2):
        written.mark(start, 1)
    assert written.complete


@pytest.mark.parametrize("kind", ["pinned", "managed"])
def test_memory_that_the_host_writes_counts_as_written(memory: Memory, kind: str) -> None:
    assert memory.find(memory.allocate(64, kind)).written.complete


def test_registered_host_memory(memory: Memory) -> None:
    host = np.zeros(100, np.uint8)
    memory.register(host.ctypes.data, 100)
    assert memory.find_range(host.ctypes.data + 99) == (host.ctypes.data, 100)
    assert memory.find_range(host.ctypes.data + 100) == (0, 0)
    assert memory.range_address
    with pytest.raises(ValueError, match="already registered"):
        memory.register(host.ctypes.data + 50, 100)
    memory.unregister(host.ctypes.data)
    assert not memory.range_address
    with pytest.raises(InvalidPointer, match="not registered"):
        memory.unregister(host.ctypes.data)


def test_free_all() -> None:
    memory = Memory(1 << 20)
    pointers = [memory.allocate(100) for _ in range(5)]
    memory.free_all()
    assert len(memory) == 0 and memory.in_use == 0
    assert all(memory.find(p) is None for p in pointers)


def test_random_allocations_never_overlap() -> None:
    rng = np.random.default_rng(1)
    memory = Memory(1 << 30)
    memory._lap = 8 << 20
    live: dict[int, int] = {}
    for _ in range(600):
        if live and rng.random() < 0.5:
            pointer = list(live)[int(rng.integers(len(live)))]
            memory.free(pointer)
            del live[pointer]
        else:
            size = int(rng.integers(1, 100_000))
            live[memory.allocate(size)] = size
        ordered = sorted(live.items())
        for (low, size), (high, _) in zip(ordered[:-1], ordered[1:], strict=True):
            assert high - (low + size) >= MINIMUM_RED_ZONE
        assert [a.pointer for a in memory] == [p for p, _ in ordered]
    assert memory.in_use == sum(live.values())


def test_control_group_limits(tmp_path) -> None:
    groups, root = tmp_path / "cgroup", tmp_path / "fs"
    (root / "a" / "b").mkdir(parents=True)
    groups.write_text("0::/a/b\n")
    for folder, limit, used, cache in (("a", "1000000", "300000", 100000), ("a/b", "max", "300000", 0)):
        (root / folder / "memory.max").write_text(limit)
        (root / folder / "memory.current").write_text(used)
        (root / folder / "memory.stat").write_text(f"anon 5\ninactive_file {cache}\n")
    assert host_capacity._control_group_available(groups, root) == 1000000 - 300000 + 100000


def test_what_was_device_memory_before_a_reset_is_called_so() -> None:
    old, new = Memory(1 << 20), Memory(1 << 20)
    pointer = old.allocate(64)
    assert new.explain(pointer).is_host
    new.former = [(old.arena.base, old.arena.base + old.arena.size)]
    near = new.explain(pointer)
    assert near.is_former and not near.is_host
    with pytest.raises(InvalidPointer, match="was device memory before the reset"):
        new.view(pointer, 4)


def test_devices_that_nobody_uses_give_their_addresses_back() -> None:
    """A process has 128 TiB of addresses, a device takes one of them, and devices lie in reference cycles."""
    gc.disable()
    try:
        for _ in range(150):
            assert Device().memory.arena.size == TARGET
    finally:
        gc.enable()
