"""The undo log: old bytes that traced code saves before each store, and their rollback.

Timing samples and the sanitizer run real blocks on real memory and must leave no trace. Before each store or atomic to
global memory, traced code appends the address and the bytes it is about to change. Rollback writes them back, newest
first, so that the oldest value of each byte is what remains.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from cudalab.sim.abi import Buffer, Context, Undo
from cudalab.sim.arrays import unique_values
from cudalab.sim.machine.launch.workspace import DRAIN
from cudalab.sim.machine.memory.allocations import Memory

ENTRY = np.dtype([("address", "<u8"), ("size", "<u8"), ("old", "u1", 16)])
assert ENTRY.itemsize == ctypes.sizeof(Undo)
COMPACT = 1 << 19
"""Entries at which a log is compacted."""


class UndoLog:
    """Collects undo entries of traced runs over one memory.

    Attach it to a context before the run; after the run call :meth:`collect`, then :meth:`rollback`.
    """

    def __init__(self, memory: Memory, entries: int = 4096, *, heap: bool = False) -> None:
        """``heap``: what kernels allocate and free is rolled back, too."""
        self.memory = memory
        self._heap = heap
        self._buffer = np.empty(entries, ENTRY)
        self._chunks: list[np.ndarray] = []
        self._length = 0
        self._compact_at = COMPACT
        self._drain = DRAIN(self._take)

    def attach(self, context: Context) -> None:
        undo = context.undo
        undo.data = self._buffer.ctypes.data
        undo.capacity = self._buffer.nbytes
        undo.used = undo.lost = 0
        if self._heap:
            self.memory.heap.begin()
        undo.drain = ctypes.cast(self._drain, ctypes.c_void_p).value or 0

    def detach(self, context: Context) -> None:
        """Drain the log, and stop logging."""
        self._take(None, ctypes.pointer(context.undo))
        undo = context.undo
        undo.data = undo.capacity = undo.drain = 0

    def _take(self, _context: object, buffer: ctypes._Pointer[Buffer]) -> None:
        used = buffer.contents.used // ENTRY.itemsize
        if used:
            self._chunks.append(self._buffer[:used].copy())
            self._length += used
            if self._length >= self._compact_at:
                self._compact()
        buffer.contents.used = 0

    def _compact(self) -> None:
        """Drop entries that are not needed: of those for the same bytes only the oldest counts. Otherwise a loop that
        stores to one address for a second would fill the host's memory."""
        entries = self.entries
        keys = entries["address"] * np.uint64(32) + entries["size"]  # addresses have less than 59 bits
        _, first = np.unique(keys, return_index=True)
        self._chunks = [entries[np.sort(first)]]
        self._length = len(first)
        self._compact_at = max(COMPACT, 2 * self._length)

    @property
    def entries(self) -> np.ndarray:
        """All entries so far, oldest first."""
        if not self._chunks:
            return np.zeros(0, ENTRY)
        if len(self._chunks) > 1:
            self._chunks = [np.concatenate(self._chunks)]
        return self._chunks[0]

    def rollback(self) -> None:
        """Restore every changed byte to its value before the first logged store."""
        entries = self.entries
        self._chunks, self._length, self._compact_at = [], 0, COMPACT
        if len(entries) and not self._write_words(entries):
            offsets, old = _expand(entries, self.memory.arena.base)
            self._write(offsets[::-1], old[::-1])
        if self._heap:
            self.memory.heap.rollback()

    def rollback_and_hold(self, ranges: Sequence[tuple[int, int]] = ()) -> HeldStores:
        """Roll back, but keep what was stored, to apply it later; for stores to ``ranges`` (address, bytes) also their
        order."""
        entries = self.entries
        history = self._history(ranges) if ranges else []
        if not len(entries):
            return HeldStores(self.memory, np.zeros(0, np.int64), np.zeros(0, np.uint8))
        offsets = _distinct(_expand(entries, self.memory.arena.base)[0])
        held = HeldStores(self.memory, offsets, self._read(offsets), history)
        self.rollback()
        return held

    def _history(self, ranges: Sequence[tuple[int, int]]) -> list[Store]:
        """The stores to ``ranges`` in order, each with the bytes that it wrote: the next one's old bytes."""
        entries = self.entries
        start = entries["address"]
        inside = np.zeros(len(entries), np.bool_)
        for first, size in ranges:
            inside |= (start >= np.uint64(first)) & (start < np.uint64(first + size))
        chosen = np.flatnonzero(inside)
        found: list[Store] = []
        later: dict[tuple[int, int], bytes] = {}
        for index in chosen[::-1].tolist():
            address, size = int(start[index]), int(entries["size"][index])
            data = later.get((address, size)) or ctypes.string_at(address, size)
            found.append(Store((index + 1) / (len(entries) + 1), address, data))
            later[address, size] = entries["old"][index, :size].tobytes()
        return found[::-1]

    def _read(self, offsets: np.ndarray) -> np.ndarray:
        inside = _inside(offsets, self.memory)
        values = np.empty(len(offsets), np.uint8)
        values[inside] = self.memory.arena.bytes[offsets[inside]]
        for index in np.flatnonzero(~inside):
            values[index] = ctypes.c_uint8.from_address(int(offsets[index]) + self.memory.arena.base).value
        return values

    def _write_words(self, entries: np.ndarray) -> bool:
        """Restore aligned words of one size, all in the arena: the usual log, and much faster than byte by byte.
        Returns whether the log was such."""
        size, arena = int(entries["size"][0]), self.memory.arena
        if size not in (4, 8) or arena.base % size or (entries["size"] != size).any():
            return False
        place = entries["address"] - np.uint64(arena.base)  # what lies below wraps around and is too large
        if int(np.bitwise_or.reduce(place)) & (size - 1) or int(place.max()) > arena.size - size:
            return False
        kind = np.uint32 if size == 4 else np.uint64
        words = arena.bytes[: arena.size // size * size].view(kind)
        old = np.ascontiguousarray(entries["old"][:, :size]).view(kind)[:, 0]
        index = (place >> np.uint64(size.bit_length() - 1)).astype(np.int64)
        words[index[::-1]] = old[::-1]  # of equal places the last one stays, which is the oldest
        return True

    def _write(self, offsets: np.ndarray, values: np.ndarray) -> None:
        write_bytes(self.memory, offsets, values)


class Store(Struct, frozen=True):
    """One store of a run: when it was made, as a fraction of all stores of the run, its address and bytes."""

    when: float
    address: int
    data: bytes


class HeldStores:
    """Stores of a run that were rolled back; :meth:`apply` makes them again. ``history`` holds single stores, in order,
    of the ranges that were asked for."""

    def __init__(self, memory: Memory, offsets: np.ndarray, values: np.ndarray, history: Sequence[Store] = ()) -> None:
        self._memory, self._offsets, self._values = memory, offsets, values
        self.history = history

    def __len__(self) -> int:
        """Bytes held."""
        return len(self._offsets)

    def apply(self) -> None:
        write_bytes(self._memory, self._offsets, self._values)


def write_bytes(memory: Memory, offsets: np.ndarray, values: np.ndarray) -> None:
    """Write single bytes at `offsets` from the arena's base; of equal offsets the last one stays."""
    inside = _inside(offsets, memory)
    # Assignment through an index array goes in order, so the last of equal indices wins (NumPy, "Indexing").
    memory.arena.bytes[offsets[inside]] = values[inside]
    for index in np.flatnonzero(~inside):  # registered host memory: rare
        ctypes.c_uint8.from_address(int(offsets[index]) + memory.arena.base).value = int(values[index])


def _distinct(offsets: np.ndarray) -> np.ndarray:
    """The offsets in ascending order, each once."""
    first, last = int(offsets.min()), int(offsets.max())
    if last - first < 16 * len(offsets):  # mostly so: a launch stores to most bytes of an array
        marks = np.zeros(last - first + 1, np.bool_)
        marks[offsets - first] = True
        return np.flatnonzero(marks) + first
    return unique_values(offsets)


def _inside(offsets: np.ndarray, memory: Memory) -> np.ndarray:
    return (offsets >= 0) & (offsets < memory.arena.size)


def _expand(entries: np.ndarray, base: int) -> tuple[np.ndarray, np.ndarray]:
    """One element a byte, in order: its offset from `base`, and its old value."""
    start = (entries["address"] - np.uint64(base)).astype(np.int64)
    size = entries["size"].astype(np.int64)
    if len(size) and (size == size[0]).all():
        width = int(size[0])
        offsets = (start[:, None] + np.arange(width)).ravel()
        return offsets, np.ascontiguousarray(entries["old"][:, :width]).ravel()
    offsets = np.repeat(start - np.concatenate(([0], np.cumsum(size)[:-1])), size) + np.arange(int(size.sum()))
    columns = np.arange(16)[None, :] < size[:, None]
    return offsets, entries["old"][columns]
