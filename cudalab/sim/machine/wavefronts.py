"""Shared memory: how many wavefronts a request takes, and how many of them are due to bank conflicts.

Shared memory has 32 banks of 4 bytes; word *w* lies in bank *w* mod 32. One wavefront serves one word from each bank,
to any number of lanes (a broadcast). So lanes that want different words of one bank take turns.

A request of 8 bytes a lane is served half a warp at a time, one of 16 bytes a quarter at a time, because 32 banks give
128 bytes. Parts of the warp without an active lane cost nothing.
Source: CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later.
"""

from __future__ import annotations

import numpy as np

from cudalab.sim.abi import WARP

BANKS = 32
BANK_BYTES = 4


def wavefronts(addresses: np.ndarray, active: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Wavefronts of each request, and how many it would take without conflicts.

    Args:
        addresses: uint64[r, 32], in bytes.
        active: bool[r, 32].
        size: bytes each lane moves: 1, 2, 4, 8 or 16.
    """
    parts = max(1, size // BANK_BYTES)
    rows = len(addresses)
    width = WARP // parts
    total = np.zeros(rows, np.int64)
    ideal = np.zeros(rows, np.int64)
    for part in range(parts):
        columns = slice(part * width, (part + 1) * width)
        took = _turns(addresses[:, columns], active[:, columns], parts)
        total += took
        ideal += took > 0
    return total, ideal


def _turns(addresses: np.ndarray, active: np.ndarray, words: int) -> np.ndarray:
    """The most different words that any one bank has to deliver, row by row."""
    rows, columns = addresses.shape
    first = (addresses // np.uint64(BANK_BYTES)).astype(np.int64)
    wanted = (first[:, :, None] + np.arange(words)).reshape(rows, columns * words)
    on = np.repeat(active, words, axis=1)
    none = np.int64(-1)
    ordered = np.sort(np.where(on, wanted, none), axis=1)
    new = np.ones_like(ordered, np.bool_)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    new &= ordered >= 0
    row, column = np.nonzero(new)
    bank = ordered[row, column] % BANKS
    loads = np.bincount(row * BANKS + bank, minlength=rows * BANKS).reshape(rows, BANKS)
    return loads.max(axis=1) if rows else np.zeros(0, np.int64)
