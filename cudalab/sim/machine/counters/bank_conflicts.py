"""Bank conflicts: how many wavefronts a request to shared memory takes, and how many without conflicts.

Shared memory has 32 banks of 4 bytes; word *w* lies in bank *w* mod 32. One wavefront serves one word from each bank,
to any number of lanes (a broadcast). Lanes that access different words of one bank conflict, and are served one after
the other.

A request of 8 bytes a lane is served half a warp at a time, one of 16 bytes a quarter at a time, because 32 banks give
128 bytes. Two parts are served together when neighbouring lanes want the same address: each lane the same as the lane
beside it, or as the lane two further (lane numbers that differ in bit 0, or in bit 1); lanes that are off fit any.
Parts without an active lane take no wavefront. Atomics of one address are not broadcast: each lane is served by itself.

Source: CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later. The rules for wide accesses and
atomics are what Nsight Compute reads on an H200, for all programs in
``tests/sim/machine/counters/counter_programs.py``.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from cudalab.sim.abi import WARP

BANKS = 32
BANK_BYTES = 4


def count_wavefronts(
    addresses: np.ndarray, active: np.ndarray, size: int, *, atomic: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Wavefronts of each request, and how many it would take without conflicts.

    Args:
        addresses: uint64[r, 32], in bytes.
        active: bool[r, 32].
        size: bytes each lane moves: 1, 2, 4, 8 or 16.
        atomic: lanes of one address are not served together.
    """
    words = max(1, size // BANK_BYTES)
    if words == 1:
        total = _most_per_bank(addresses, active, 1, atomic)
        return total, (total > 0).astype(np.int64)
    total = np.zeros(len(addresses), np.int64)
    ideal = np.zeros(len(addresses), np.int64)
    width = 2 * WARP // words  # lanes of two neighbouring parts
    for start in range(0, WARP, width):
        both = slice(start, start + width)
        for rows, columns in _parts(addresses[:, both], active[:, both], start, width):
            if len(rows):
                took = _most_per_bank(addresses[rows, columns], active[rows, columns], words, atomic)
                total[rows] += took
                ideal[rows] += took > 0
    return total, ideal


class Wavefront(Struct, frozen=True):
    """One wavefront: what each bank serves."""

    lanes: range
    """The part of the warp that is served now."""
    banks: dict[int, tuple[int, tuple[int, ...]]]
    """Bank → the word it delivers (address over 4), and the lanes that get it."""


def wavefronts_of(addresses: np.ndarray, active: np.ndarray, size: int, *, atomic: bool = False) -> list[Wavefront]:
    """The wavefronts of one request, one by one.

    How many there are is the hardware's; in which order a bank delivers its words is not known, here it is the order of
    the lanes.

    Args:
        addresses: uint64[32], in bytes.
        active: bool[32].
        size: bytes each lane moves: 1, 2, 4, 8 or 16.
        atomic: lanes of one address are not served together.
    """
    words = max(1, size // BANK_BYTES)
    out: list[Wavefront] = []
    for lanes in _served(addresses, active, words):
        queues: list[dict[int, list[int]]] = [{} for _ in range(BANKS)]
        for lane in lanes:
            for word in range(words) if active[lane] else ():
                wanted = int(addresses[lane]) // BANK_BYTES + word
                key = wanted if not atomic else wanted * WARP + lane
                queues[wanted % BANKS].setdefault(key, []).append(lane)
        for step in range(max(map(len, queues), default=0)):
            served = {}
            for bank, queue in enumerate(queues):
                if step < len(queue):
                    key, takers = list(queue.items())[step]
                    served[bank] = (key // WARP if atomic else key, tuple(takers))
            out.append(Wavefront(lanes, served))
    return out


def _served(addresses: np.ndarray, active: np.ndarray, words: int) -> list[range]:
    """The parts of a warp that are served one after the other."""
    if words == 1:
        return [range(WARP)]
    width = 2 * WARP // words
    found = []
    for start in range(0, WARP, width):
        both = slice(start, start + width)
        for rows, columns in _parts(addresses[None, both], active[None, both], start, width):
            if len(rows):
                found.append(range(columns.start, columns.stop))
    return found


def _parts(addresses: np.ndarray, active: np.ndarray, start: int, width: int) -> list[tuple[np.ndarray, slice]]:
    """The rows that serve two parts together, and those that serve them one after the other."""
    paired = _alike(addresses, active, 1) | _alike(addresses, active, 2)
    single = np.flatnonzero(~paired)
    middle = start + width // 2
    return [
        (np.flatnonzero(paired), slice(start, start + width)),
        (single, slice(start, middle)),
        (single, slice(middle, start + width)),
    ]


def _alike(addresses: np.ndarray, active: np.ndarray, bit: int) -> np.ndarray:
    """Rows in which every active lane wants the same address as the lane whose number differs in `bit`, if that is
    on."""
    other = np.arange(addresses.shape[1]) ^ bit
    result: np.ndarray = ((addresses == addresses[:, other]) | ~active | ~active[:, other]).all(axis=1)
    return result


def _most_per_bank(addresses: np.ndarray, active: np.ndarray, words: int, atomic: bool) -> np.ndarray:
    """The most different words that any one bank has to deliver, row by row; for atomics, the most accesses."""
    rows, columns = addresses.shape
    first = (addresses // np.uint64(BANK_BYTES)).astype(np.int64)
    wanted = (first[:, :, None] + np.arange(words)).reshape(rows, columns * words)
    on = np.repeat(active, words, axis=1)
    ordered = np.sort(np.where(on, wanted, np.int64(-1)), axis=1)
    counted = ordered >= 0
    if not atomic:
        counted[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    row, column = np.nonzero(counted)
    bank = ordered[row, column] % BANKS
    loads = np.bincount(row * BANKS + bank, minlength=rows * BANKS).reshape(rows, BANKS)
    return loads.max(axis=1) if rows else np.zeros(0, np.int64)
