"""Words of memory that addresses of a launch follow from: while they are the same, so is what a sample has counted."""

from __future__ import annotations

import numpy as np

from cudalab.sim.machine.memory.allocations import Memory


class WatchedWords:
    """The words that a sample loaded, and their values then."""

    def __init__(self, memory: Memory, words: np.ndarray | None) -> None:
        self._memory = memory
        base, size = memory.arena.base, memory.arena.size
        words = np.zeros(0, np.uint64) if words is None else words
        inside = (words >= np.uint64(base)) & (words < np.uint64(base + size - 4))
        words = np.sort(words[inside])
        live = np.zeros(len(words), np.bool_)
        self._serials: dict[int, int] = {}
        position = 0
        while position < len(words):  # allocation by allocation
            found, end = memory.find(int(words[position])), position + 1
            if found is not None:
                end = int(np.searchsorted(words, np.uint64(found.end)))
                live[position:end] = True
                self._serials[found.pointer] = found.serial
            position = end
        self._offsets = ((words[live] - np.uint64(base)) // np.uint64(4)).astype(np.int64)
        self._version = memory.version
        self._values = self._read()

    def _read(self) -> np.ndarray:
        arena = self._memory.arena.bytes
        return arena[: len(arena) // 4 * 4].view(np.uint32)[self._offsets]

    def same(self) -> bool:
        """Are the words and their allocations unchanged?"""
        memory = self._memory
        if memory.version != self._version:
            if any((now := memory.find(p)) is None or now.serial != serial for p, serial in self._serials.items()):
                return False
            self._version = memory.version
        return bool((self._read() == self._values).all())
