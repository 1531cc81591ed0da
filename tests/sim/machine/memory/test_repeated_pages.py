"""Large ranges of one value, which take the memory of one piece."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cudalab.sim.machine.memory.allocations import Memory
from cudalab.sim.machine.memory.repeated_pages import HUGE_PAGE

FILLED = 24 << 20  # bytes, large enough that pages are shared


@pytest.fixture
def pointer(memory: Memory) -> Iterator[int]:
    """Of as many bytes."""
    pointer = memory.allocate(FILLED)
    yield pointer
    if memory.find(pointer):
        memory.free(pointer)


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(256 << 20)


def resident(pointer: int, size: int) -> int:
    """Bytes of memory that only this process's range takes, or that are written in it."""
    total = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if (found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)) is not None:
            inside = pointer <= int(found[1], 16) and int(found[2], 16) <= pointer + size
        elif inside and line.startswith("Private_Dirty:"):
            total += int(line.split()[1]) << 10
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="pages are shared on Linux only")
def test_large_ranges_of_one_value_take_the_memory_of_a_piece(memory: Memory, pointer: int) -> None:
    memory.fill(pointer, FILLED, np.float32(1))
    data = memory.array(pointer, FILLED // 4, np.float32)
    assert (data == 1).all() and resident(pointer, FILLED) <= HUGE_PAGE
    data[1 << 20] = 5
    assert data[(1 << 20) - 1 : (1 << 20) + 2].tolist() == [1, 5, 1] and (data == 1).sum() == data.size - 1


@pytest.mark.parametrize("number", [np.float64(0.1), np.uint8(7), np.int16(-2), np.complex128(1 + 2j), np.float32(0)])
@pytest.mark.parametrize("start, end", [(0, 0), (16, 48), (3 << 20, 1 << 20)])
def test_filled_bytes_have_the_number_and_others_stay(
    memory: Memory, pointer: int, number: np.generic, start: int, end: int
) -> None:
    before = memory.array(pointer, FILLED)
    before[:] = 9
    memory.fill(pointer + start, FILLED - start - end, number)
    assert (before[:start] == 9).all() and (before[FILLED - end :] == 9).all()
    assert (before[start : FILLED - end].view(number.dtype) == number).all()


@pytest.mark.skipif(sys.platform != "linux", reason="pages are given back on Linux only")
def test_pages_of_zeros_are_given_back_and_others_stay(memory: Memory, pointer: int) -> None:
    data, offset = memory.array(pointer, FILLED), pointer - memory.arena.base
    assert memory.arena.give_back_zeros(offset, FILLED) == 0  # nobody has stored anything
    data[:] = 0
    data[9 << 20] = 1
    given = memory.arena.give_back_zeros(offset, FILLED)
    assert FILLED - 3 * HUGE_PAGE <= given <= FILLED - HUGE_PAGE
    assert data[9 << 20] == 1 and data.sum() == 1
    memory.fill(pointer, FILLED, np.uint8(3))
    assert memory.arena.give_back_zeros(offset, FILLED) == 0 and (data == 3).all()


def test_freed_memory_that_was_filled_comes_back_as_zeros(memory: Memory, pointer: int) -> None:
    memory.fill(pointer, FILLED, np.float32(1))
    seen = memory.array(pointer, FILLED)
    memory.free(pointer)
    assert not seen.any()


@pytest.mark.parametrize("start, size", [(0, FILLED), (5 << 20, 9 << 20), (100, 40)])
def test_filled_memory_can_be_cleared_and_filled_anew(memory: Memory, pointer: int, start: int, size: int) -> None:
    data = memory.array(pointer, FILLED)
    memory.fill(pointer, FILLED, np.uint8(1))
    memory.clear(pointer + start, size)
    assert data.sum() == FILLED - size and not data[start : start + size].any()
    memory.fill(pointer, FILLED, np.uint8(2))
    assert (data == 2).all()


def test_memory_that_the_host_reaches_is_filled_like_any(memory: Memory) -> None:
    pointer = memory.allocate(FILLED, kind="pinned")
    memory.fill(pointer, FILLED, np.uint8(3))
    assert (memory.array(pointer, FILLED) == 3).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_what_a_child_writes_over_filled_memory_is_its_own(memory: Memory, pointer: int) -> None:
    memory.fill(pointer, FILLED, np.uint8(3))
    child = os.fork()
    if not child:
        memory.array(pointer, FILLED)[:] = 4
        os._exit(0)
    os.waitpid(child, 0)
    assert (memory.array(pointer, FILLED) == 3).all()


def test_a_process_that_may_make_no_files_fills_all_the_same(
    memory: Memory, pointer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "memfd_create", refuse, raising=False)
    memory.fill(pointer, FILLED, np.uint8(3))
    assert (memory.array(pointer, FILLED) == 3).all()
