"""``cupy.cuda.memory``: the allocator that arrays use, and CuPy's names for memory, pointers and pools.

The default allocator is a memory pool (``_pool.py``), so ``del array`` gives a block back to the pool, not to the
device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy.cuda._allocations import (
    BaseMemory,
    ManagedMemory,
    Memory,
    MemoryAsync,
    MemoryPointer,
    OutOfMemoryError,
    PythonFunctionAllocator,
    PythonFunctionAllocatorMemory,
    UnownedMemory,
    malloc_async,
    malloc_managed,
    plain_malloc,
)
from cudalab.sim.cupy.cuda._pool import MemoryAsyncPool, MemoryPool, PooledMemory, SingleDeviceMemoryPool

__all__ = [
    "BaseMemory",
    "ManagedMemory",
    "Memory",
    "MemoryAsync",
    "MemoryAsyncPool",
    "MemoryPointer",
    "MemoryPool",
    "OutOfMemoryError",
    "PooledMemory",
    "PythonFunctionAllocator",
    "PythonFunctionAllocatorMemory",
    "SingleDeviceMemoryPool",
    "UnownedMemory",
    "alloc",
    "get_allocator",
    "malloc_async",
    "malloc_managed",
    "set_allocator",
]


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.memory", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.memory", globals())


class _Allocators(threading.local):
    """The allocator of ``using_allocator``, a thread's own."""

    def __init__(self) -> None:
        self.own: Callable[[int], MemoryPointer] | None = None


_thread = _Allocators()
_process: list[Callable[[int], MemoryPointer]] = [plain_malloc]


def get_allocator() -> Callable[[int], MemoryPointer]:
    """The allocator that arrays use now."""
    return _thread.own or _process[0]


def set_allocator(allocator: Callable[[int], MemoryPointer] | None = None) -> None:
    """Use ``allocator`` for arrays; None for ``cudaMalloc`` without a pool."""
    if _thread.own is not None:
        raise ValueError("Can't change the global allocator inside `using_allocator` context manager")
    _process[0] = allocator or plain_malloc


def exchange_thread_allocator(allocator: Callable[[int], MemoryPointer] | None) -> Any:
    """Set the thread's own allocator and return the one before; for ``using_allocator``."""
    before, _thread.own = _thread.own, allocator
    return before


def alloc(size: int) -> MemoryPointer:
    """``size`` bytes from the current allocator."""
    return get_allocator()(size)
