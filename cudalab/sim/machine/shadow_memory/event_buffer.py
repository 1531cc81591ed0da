"""Buffers of what native code notes one by one."""

from __future__ import annotations

import ctypes

import numpy as np

from cudalab.sim.abi import Buffer
from cudalab.sim.machine.launch.workspace import DRAIN

_ENTRIES = 1 << 14


class EventBuffer:
    """Entries that native code appends to a buffer: drained when it is full, up to a limit."""

    def __init__(self, dtype: np.dtype, most: int) -> None:
        self._buffer = np.zeros(_ENTRIES, dtype)
        self._parts: list[np.ndarray] = []
        self._most, self._kept = most, 0
        self.lost = 0
        """Entries that were only counted."""
        self._drain = DRAIN(self._take)

    def attach(self, buffer: Buffer) -> None:
        buffer.data, buffer.capacity = self._buffer.ctypes.data, self._buffer.nbytes
        buffer.used = buffer.lost = 0
        buffer.drain = ctypes.cast(self._drain, ctypes.c_void_p).value or 0

    def _take(self, _context: object, pointer: ctypes._Pointer[Buffer]) -> None:
        buffer = pointer.contents
        used = buffer.used // self._buffer.itemsize
        self._parts.append(self._buffer[:used].copy())
        self._kept += used
        buffer.used = 0
        if self._kept >= self._most:
            buffer.drain = buffer.capacity = 0

    def entries(self, buffer: Buffer) -> np.ndarray:
        """All entries so far, in order."""
        used = buffer.used // self._buffer.itemsize
        self.lost = int(buffer.lost)
        return np.concatenate([*self._parts, self._buffer[:used]])
