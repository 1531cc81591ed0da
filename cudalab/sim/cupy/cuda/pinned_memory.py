"""``cupy.cuda.pinned_memory``: page-locked host memory and its pool.

The device's copy engines reach page-locked memory by themselves, so copies from and to it run while the host goes on.
Taking it from the system is slow (about a millisecond a megabyte on the reference machine), hence the pool, whose
blocks have sizes that are powers of two.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._base.call import epoch, shutting_down
from cudalab.sim.cupy.cuda import runtime
from cudalab.sim.cupy.cuda._allocations import release

_PORTABLE = 1
_UNIT = 512
_MEMORY_ALLOCATION = 2
_HOST = 1


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.pinned_memory", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.pinned_memory", globals())


class PinnedMemory:
    """``size`` bytes from ``cudaHostAlloc``, with its ``flags``; freed when the object goes."""

    ptr = 0

    def __init__(self, size: int, flags: int = 0) -> None:
        self.size = size
        self._epoch = epoch()
        self.ptr = runtime.hostAlloc(size, flags) if size > 0 else 0

    def __int__(self) -> int:
        return self.ptr

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if _over:
            return
        release(self, runtime.freeHost)


class PinnedMemoryPointer:
    """An address in page-locked memory; ``np.frombuffer(pointer, dtype, count)`` makes an array of it.

    Args:
        mem: the memory that it points into, and keeps alive.
        offset: bytes from its start.
    """

    mem: Any
    ptr: int

    def __new__(cls, mem: Any, offset: int) -> PinnedMemoryPointer:
        size = int(mem.size) - offset
        kind: Any = cls
        buffer = _buffer_type(kind, size)
        found: PinnedMemoryPointer = buffer.from_address(mem.ptr + offset)
        return found

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem = mem
        self.ptr = mem.ptr + offset

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, offset: int) -> PinnedMemoryPointer:
        return PinnedMemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    __radd__ = __add__

    def __sub__(self, offset: int) -> PinnedMemoryPointer:
        return self + -offset

    def size(self) -> int:
        """Bytes from here to the end of the memory."""
        return int(self.mem.size - (self.ptr - self.mem.ptr))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ptr:#x}, {self.size()} bytes>"


@cache
def _buffer_type(cls: Any, size: int) -> Any:
    """``cls`` with the buffer protocol over ``size`` bytes; Python lets a class have it only from C, so from ctypes."""
    return type(cls.__name__, (cls, ctypes.c_byte * size), {"__new__": object.__new__, "__doc__": cls.__doc__})


class PooledPinnedMemory(PinnedMemory):
    """Page-locked memory allocated from a pool, and returned to it when the object is destroyed."""

    def __init__(self, mem: PinnedMemory, pool: weakref.ref[PinnedMemoryPool]) -> None:
        self.ptr = mem.ptr
        self.size = mem.size
        self.mem = mem
        self.pool = pool

    def free(self) -> None:
        """Give it back to the pool now."""
        pool = self.pool()
        if pool is not None and self.ptr:
            pool._give_back(self.mem, self.size)
        self.ptr = 0
        self.size = 0

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if not _over:
            self.free()


class PinnedMemoryPool:
    """Keeps page-locked memory that was freed, for reuse at the same rounded size.

    Args:
        allocator: where new memory comes from.
    """

    def __init__(self, allocator: Callable[[int], PinnedMemoryPointer] | None = None) -> None:
        self._allocator = allocator or _malloc
        self._free: dict[int, list[PinnedMemory]] = {}
        self._reference = weakref.ref(self)
        self._epoch: Any = None  # until it is used: a pool is made at import, before anybody has chosen a device

    def malloc(self, size: int) -> PinnedMemoryPointer:
        """Lend ``size`` bytes, rounded up to a power of two of at least 512."""
        self._current_epoch()
        if size == 0:
            return PinnedMemoryPointer(PinnedMemory(0), 0)
        rounded = 1 << (-(-size // _UNIT) * _UNIT - 1).bit_length()
        waiting = self._free.get(rounded)
        memory = waiting.pop() if waiting else self._take(rounded)
        return PinnedMemoryPointer(PooledPinnedMemory(memory, self._reference), 0)

    def _take(self, size: int) -> PinnedMemory:
        result: PinnedMemory
        try:
            result = self._allocator(size).mem
            return result
        except runtime.CUDARuntimeError as error:
            if error.status != _MEMORY_ALLOCATION:
                raise
        self.free_all_blocks()
        result = self._allocator(size).mem
        return result

    def _give_back(self, mem: PinnedMemory, size: int) -> None:
        """Take memory back."""
        self._current_epoch()
        if mem._epoch == self._epoch:
            self._free.setdefault(size, []).append(mem)

    def free_all_blocks(self) -> None:
        """Return all free blocks to the system."""
        self._current_epoch()
        self._free.clear()

    def n_free_blocks(self) -> int:
        """How many blocks are free."""
        self._current_epoch()
        return sum(len(blocks) for blocks in self._free.values())

    def _current_epoch(self) -> None:
        if self._epoch != epoch():
            self._free.clear()
            self._epoch = epoch()


def _malloc(size: int) -> PinnedMemoryPointer:
    return PinnedMemoryPointer(PinnedMemory(size, _PORTABLE), 0)


_allocator: list[Callable[[int], PinnedMemoryPointer]] = [_malloc]
_in_flight: list[tuple[Any, Any, Any]] = []
"""Of each copy that may still run: its event, the memory that it reads, and the epoch of both."""


def keep_until(event: Any, memory: Any) -> None:
    """Keep ``memory`` until ``event`` is done; looked at when the next memory is taken."""
    release_done()
    _in_flight.append((event, memory, epoch()))


def release_done() -> None:
    """Let go what :func:`keep_until` kept and is done, or ended with a reset."""
    while _in_flight and (_in_flight[0][2] != epoch() or _in_flight[0][0].done):
        del _in_flight[0]


def alloc_pinned_memory(size: int) -> PinnedMemoryPointer:
    """``size`` bytes of page-locked memory from the current allocator, the default pool."""
    release_done()
    return _allocator[0](size)


def set_pinned_memory_allocator(allocator: Callable[[int], PinnedMemoryPointer] | None = None) -> None:
    """Use ``allocator`` for page-locked memory; None for ``cudaHostAlloc`` without a pool."""
    _allocator[0] = allocator or _malloc


def is_memory_pinned(data: int) -> bool:
    """Is the host address page-locked?"""
    return runtime.pointerGetMemoryType(data) == _HOST
