"""Stores are taken back byte for byte, in whatever order and size they overlapped."""

from __future__ import annotations

import ctypes
import time

import numpy as np
import pytest

from cudalab.sim.abi import Context
from cudalab.sim.machine.launch import undo_log
from cudalab.sim.machine.launch.undo_log import ENTRY, UndoLog
from cudalab.sim.machine.launch.workspace import DRAIN
from cudalab.sim.machine.memory.allocations import Memory


def run_stores(log: UndoLog, memory: Memory, pointer: int, stores: list[tuple[int, bytes]]) -> None:
    context = Context()
    log.attach(context)
    for offset, data in stores:
        buffer = context.undo
        if buffer.used + ENTRY.itemsize > buffer.capacity:
            DRAIN(buffer.drain)(ctypes.pointer(context), ctypes.pointer(buffer))
        entry = np.zeros(1, ENTRY)
        view = memory.view(pointer + offset, len(data))
        entry["address"], entry["size"] = pointer + offset, len(data)
        entry["old"][0, : len(data)] = np.frombuffer(view, np.uint8)
        ctypes.memmove(buffer.data + buffer.used, entry.ctypes.data, ENTRY.itemsize)
        buffer.used += ENTRY.itemsize
        view[:] = data
    log.detach(context)


def test_random_overlapping_stores() -> None:
    rng = np.random.default_rng(0)
    memory = Memory(1 << 20)
    pointer = memory.allocate(1000)
    before = rng.integers(0, 256, 1000).astype(np.uint8)
    for sizes, beside in (([4], 0), ([8], 0), ([4], 2), ([1, 2, 4, 8, 16], 0)):
        memory.array(pointer, 1000)[:] = before
        stores = []
        for _ in range(500):
            size = int(rng.choice(sizes))
            offset = int(rng.integers(0, 1000 // size - 1)) * size + beside
            stores.append((offset, rng.integers(0, 256, size).astype(np.uint8).tobytes()))
        log = UndoLog(memory, entries=64)
        run_stores(log, memory, pointer, stores)
        after = memory.array(pointer, 1000).copy()
        held = log.rollback_and_hold()
        assert np.array_equal(memory.array(pointer, 1000), before)
        held.apply()
        assert np.array_equal(memory.array(pointer, 1000), after)
        assert (before != after).any()


def test_log_of_a_loop_stays_small_and_still_restores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo_log, "COMPACT", 100)
    rng = np.random.default_rng(1)
    memory = Memory(1 << 20)
    pointer = memory.allocate(64)
    before = rng.integers(0, 256, 64).astype(np.uint8)
    memory.array(pointer, 64)[:] = before
    stores = []
    for size in rng.choice([1, 4, 8], 3000):
        offset = int(rng.integers(0, 64 // size)) * int(size)
        stores.append((offset, rng.integers(0, 256, size).astype(np.uint8).tobytes()))
    log = UndoLog(memory, entries=64)
    run_stores(log, memory, pointer, stores)
    assert len(log.entries) < 64 + 16 + 8 + 200
    log.rollback()
    assert np.array_equal(memory.array(pointer, 64), before)


def test_nothing_stored() -> None:
    memory = Memory(1 << 20)
    log = UndoLog(memory)
    log.rollback()
    assert len(log.rollback_and_hold()) == 0


def test_registered_host_memory_is_restored() -> None:
    memory = Memory(1 << 20)
    host = np.arange(64, dtype=np.uint8)
    log = UndoLog(memory)
    context = Context()
    log.attach(context)
    entry = np.zeros(1, ENTRY)
    entry["address"], entry["size"] = host.ctypes.data + 8, 8
    entry["old"][0, :8] = host[8:16]
    ctypes.memmove(context.undo.data, entry.ctypes.data, ENTRY.itemsize)
    context.undo.used = ENTRY.itemsize
    host[8:16] = 200
    log.detach(context)
    held = log.rollback_and_hold()
    assert np.array_equal(host, np.arange(64))
    held.apply()
    assert (host[8:16] == 200).all()


@pytest.mark.parametrize("spread", [1, 1 << 20])
def test_offsets_are_listed_once_and_in_order(spread: int) -> None:
    offsets = np.random.default_rng(2).integers(-500, 500, 3000) * spread
    assert undo_log._distinct(offsets).tolist() == np.unique(offsets).tolist()


def test_listing_many_offsets_takes_little_time() -> None:
    offsets = np.arange(16 << 20)[::-1]
    start = time.process_time()
    undo_log._distinct(offsets)
    assert time.process_time() - start < 2.0
