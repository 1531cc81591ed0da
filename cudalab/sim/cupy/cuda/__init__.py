"""``cupy.cuda``: device, streams, events, memory and the runtime, on the simulated device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy.cuda import (
    compiler,
    device,
    driver,
    function,
    graph,
    memory,
    memory_hook,
    memory_hooks,
    nvtx,
    pinned_memory,
    profiler,
    runtime,
    stream,
    texture,
)
from cudalab.sim.cupy.cuda._allocations import plain_malloc
from cudalab.sim.cupy.cuda._pool import MemoryAsyncPool, MemoryPool
from cudalab.sim.cupy.cuda.device import Device, get_device_id
from cudalab.sim.cupy.cuda.function import Function, Module
from cudalab.sim.cupy.cuda.graph import Graph
from cudalab.sim.cupy.cuda.memory import (
    BaseMemory,
    ManagedMemory,
    Memory,
    MemoryAsync,
    MemoryPointer,
    PythonFunctionAllocator,
    UnownedMemory,
    alloc,
    get_allocator,
    malloc_async,
    malloc_managed,
    set_allocator,
)
from cudalab.sim.cupy.cuda.memory_hook import MemoryHook
from cudalab.sim.cupy.cuda.pinned_memory import (
    PinnedMemory,
    PinnedMemoryPointer,
    PinnedMemoryPool,
    alloc_pinned_memory,
    set_pinned_memory_allocator,
)
from cudalab.sim.cupy.cuda.stream import Event, ExternalStream, Stream, get_current_stream, get_elapsed_time

__all__ = [
    "BaseMemory",
    "Device",
    "Event",
    "ExternalStream",
    "Function",
    "Graph",
    "ManagedMemory",
    "Memory",
    "MemoryAsync",
    "MemoryAsyncPool",
    "MemoryHook",
    "MemoryPointer",
    "MemoryPool",
    "Module",
    "PinnedMemory",
    "PinnedMemoryPointer",
    "PinnedMemoryPool",
    "PythonFunctionAllocator",
    "Stream",
    "UnownedMemory",
    "alloc",
    "alloc_pinned_memory",
    "compiler",
    "device",
    "driver",
    "function",
    "get_allocator",
    "get_current_stream",
    "get_device_id",
    "get_elapsed_time",
    "graph",
    "malloc_async",
    "malloc_managed",
    "memory",
    "memory_hook",
    "memory_hooks",
    "nvtx",
    "pinned_memory",
    "profiler",
    "runtime",
    "set_allocator",
    "set_pinned_memory_allocator",
    "stream",
    "texture",
]


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda", globals())


def is_available() -> bool:
    """Is there a device? Yes: the simulated one."""
    return runtime.getDeviceCount() > 0


def get_local_runtime_version() -> int:
    """CUDA version of the runtime."""
    return runtime.runtimeGetVersion()


@contextmanager
def using_allocator(allocator: Callable[[int], MemoryPointer] | None = None) -> Iterator[None]:
    """Use ``allocator`` in this thread within the block; None for ``cudaMalloc`` without a pool."""
    before = memory.exchange_thread_allocator(allocator or plain_malloc)
    try:
        yield
    finally:
        memory.exchange_thread_allocator(before)


@contextmanager
def profile() -> Iterator[None]:
    """Deprecated in CuPy: marks a range for an outside profiler. There is none here; see ``cudalab.profile``."""
    text = (
        "cupy.cuda.profile has been deprecated since CuPy v10 and will be removed in the future. Use "
        "cupyx.profiler.profile instead."
    )
    warnings.warn(text, stacklevel=3)
    profiler.start()
    try:
        yield
    finally:
        profiler.stop()
