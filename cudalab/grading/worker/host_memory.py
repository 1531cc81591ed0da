"""Addresses of a worker, as the grader's device takes them, and the worker's own memory, asked for piece by piece.

Device and page-locked memory has the same addresses on both sides. What else is shared (``shared_memory.py``) is
translated. Any other address is one of the worker's own memory: it is marked, so that it can mean nothing in the
grader's process, and a copy from or to it asks the worker for the bytes, or hands them over.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cudalab.grading.worker import messages
from cudalab.grading.worker.channel import Broken
from cudalab.sim.device.host_address import ELSEWHERE, UnmappedAddress

if TYPE_CHECKING:
    from cudalab.grading.worker.shared_memory import SharedMemory
    from cudalab.sim.device.device import Device

_MARKED = re.compile(r"0x4[0-9a-f]{15}\b")
_PIECE = 16 << 20
"""Bytes that are asked for at once."""


class Inward:
    """Translates the addresses of arguments."""

    def __init__(self, shared: SharedMemory, device: Device) -> None:
        self._shared = shared
        self._memory = device.memory

    def address(self, address: int) -> int:
        arena = self._memory.arena
        if not address or arena.base <= address < arena.base + arena.size:
            return address
        here = self._shared.here(address)
        return here if here is not None else ELSEWHERE | (address & (ELSEWHERE - 1))

    def packed(self, data: bytes) -> bytes:
        if not self._shared.moved:
            return data
        words = np.frombuffer(data[: len(data) // 8 * 8], np.uint64).copy()
        for index, word in enumerate(words.tolist()):
            here = self._shared.here(word)
            words[index] = word if here is None else here
        return words.tobytes() + data[words.nbytes :]


class Outward:
    """Translates the addresses of results."""

    def __init__(self, shared: SharedMemory) -> None:
        self._shared = shared

    def address(self, address: int) -> int:
        there = self._shared.there(address)
        return there if there is not None else address & ~ELSEWHERE

    def packed(self, data: bytes) -> bytes:
        return data


def unmarked(text: str) -> str:
    """A note with the worker's addresses as the worker has them."""
    return _MARKED.sub(lambda found: hex(int(found[0], 16) & ~ELSEWHERE), text)


class WorkerMemory:
    """What ``host_address`` reads and writes; ``ask`` sends a request and returns the answer."""

    def __init__(self, ask: Callable[[messages.Request], object]) -> None:
        self._ask = ask

    def _asked(self, request: messages.Request) -> object:
        try:
            return self._ask(request)
        except Broken:
            return None  # it has ended, and its memory with it

    def read(self, address: int, data: np.ndarray) -> None:
        for begin in range(0, data.size, _PIECE):
            size = min(_PIECE, data.size - begin)
            answer = self._asked(messages.ReadHost(address + begin, size))
            if not isinstance(answer, bytes) or len(answer) != size:
                raise _unmapped("read", data.size, address)
            data[begin : begin + size] = np.frombuffer(answer, np.uint8)

    def write(self, address: int, data: np.ndarray) -> None:
        for begin in range(0, data.size, _PIECE):
            piece = data[begin : begin + _PIECE].tobytes()
            if self._asked(messages.WriteHost(address + begin, piece)) is not True:
                raise _unmapped("write", data.size, address)


def _unmapped(verb: str, size: int, address: int) -> UnmappedAddress:
    return UnmappedAddress(
        f"cannot {verb} {size} bytes of host memory at {address:#x}: this process has no such memory. "
        "Pass the address of an array that is still alive, array.ctypes.data of a NumPy array say"
    )
