"""CuPy's memory pool: blocks that arrays give back are kept and handed out again without ``cudaMalloc``.

The bookkeeping is CuPy's: sizes are rounded up to 512 bytes; the smallest free block that fits is taken and split;
neighbours that are both free become one block again; each stream has its own free blocks, because a block that goes
back may still be in use by work that is queued in its stream, and only that stream's later work is ordered after it.

What differs: on a GPU two arrays out of one split block touch, and a kernel that runs past the end of one damages the
other in silence. Here each array has device memory of exactly its own size, so that every access past its end is found.
``used_bytes``, ``total_bytes`` and the number of ``cudaMalloc`` calls are as on a GPU. Memory that is handed out again
for the very size it had before has the same address as before, as on a GPU; for another size it has another.

A learner would notice: memory that is free in the pool may still be read through an old address without an error, as on
a GPU, until the pool uses it for another size; :func:`cached` lists it for ``cudalab.sanitize``.
"""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from cudalab.sim.cupy._base.call import device, epoch, shutting_down
from cudalab.sim.cupy._base.errors import CUDARuntimeError
from cudalab.sim.cupy.cuda import memory_hook, runtime
from cudalab.sim.cupy.cuda._allocations import (
    BaseMemory,
    Memory,
    MemoryPointer,
    OutOfMemoryError,
    malloc_async,
    plain_malloc,
)
from cudalab.sim.cupy.cuda._blocks import Arena, Block, Placed
from cudalab.sim.cupy.cuda.stream import current_pointer
from cudalab.sim.device.gate import Gate

UNIT = 512
_MEMORY_ALLOCATION = 2

_pools: weakref.WeakSet[SingleDeviceMemoryPool] = weakref.WeakSet()


def cached() -> Iterator[tuple[int, int]]:
    """``(address, bytes)`` of device memory that pools hold free: no array owns it."""
    for pool in list(_pools):
        yield from pool.cached()


class PooledMemory(BaseMemory):
    """Memory allocated from a pool: it is returned to the pool when the object is destroyed."""

    def __init__(self, block: Block, pool: weakref.ref[SingleDeviceMemoryPool]) -> None:
        self._block = block
        self.pool = pool
        self.ptr = block.memory.ptr
        self.size = block.size
        self.device_id = block.memory.device_id
        self.identity = type(block.memory).__name__ if block.memory.__class__ is not Placed else "Memory"
        self._epoch = epoch()

    def free(self) -> None:
        """Give the block back to the pool now."""
        pointer, self.ptr = self.ptr, 0
        pool = self.pool()
        if not pointer or pool is None or self._epoch != pool.epoch:
            return
        details = {"device_id": self.device_id, "mem_size": self.size, "mem_ptr": pointer, "pmem_id": id(self)}
        memory_hook.call_hooks("free_preprocess", **details)
        try:
            pool.free(self._block)
        finally:
            memory_hook.call_hooks("free_postprocess", **details)

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if _over:
            return
        pool = self.pool()
        if pool is not None:
            pool.gate.later(self._free_quietly)

    def _free_quietly(self) -> None:
        with suppress(Exception):  # nobody could catch a destructor's error
            self.free()


class SingleDeviceMemoryPool:
    """The pool of one device. See the module's text."""

    def __init__(self, allocator: Callable[[int], MemoryPointer] | None = None) -> None:
        self._allocator = allocator or plain_malloc
        self._plain = self._allocator is plain_malloc
        self._reference = weakref.ref(self)
        self.gate = Gate()
        self.device_id = runtime.getDevice()
        self._limit = 0
        self.epoch = epoch()
        self._clear()
        self.set_limit(**_limit_of_environment())
        _pools.add(self)

    def _clear(self) -> None:
        self._arenas: dict[int, Arena] = {}
        # Allocated blocks must be reachable from here: when an array goes in a reference cycle, Python's collector
        # runs destructors in any order, and would free the device memory before the block came back.
        self._allocated: set[Block] = set()
        self._total = 0
        self._used = 0

    def _current_epoch(self) -> None:
        """Forget everything when the device was reset: its memory is gone."""
        if self.epoch != epoch():
            for arena in self._arenas.values():
                for block in arena.blocks():
                    block.cached.clear()
            self._clear()
            self.epoch = epoch()

    def malloc(self, size: int) -> MemoryPointer:
        """Allocate ``size`` bytes, for use in the current stream.

        Raises ``OutOfMemoryError`` when the device, or the pool's limit, has no room even after everything that is free
        in the pool went back.
        """
        self._current_epoch()
        rounded = -(-size // UNIT) * UNIT
        details: dict[str, Any] = {"device_id": self.device_id, "size": size, "mem_size": rounded}
        memory_hook.call_hooks("malloc_preprocess", **details)
        pointer = None
        try:
            with self.gate:
                pointer = self._malloc(size, rounded)
        finally:
            address, number = (pointer.ptr, id(pointer.mem)) if pointer is not None else (0, 0)
            memory_hook.call_hooks("malloc_postprocess", **details, mem_ptr=address, pmem_id=number)
        return pointer

    def _malloc(self, size: int, rounded: int) -> MemoryPointer:
        if size == 0:
            return MemoryPointer(Memory(0), 0)
        stream = current_pointer()
        arena = self._arenas.setdefault(stream, Arena())
        block = arena.take(rounded, self._asked(size, rounded))
        if block is None:
            pointer = self._take_from_device(size, rounded)
            block = Block(rounded, arena, stream)
            block.memory = pointer.mem
        elif block.memory is None:
            block.memory = Placed(size, stream) if self._plain else self._allocator(rounded).mem
        else:
            device().memory.forget_written(block.memory.ptr)  # its new owner must write it before reading
        self._used += rounded
        self._allocated.add(block)
        return MemoryPointer(PooledMemory(block, self._reference), 0)

    def _take_from_device(self, size: int, rounded: int) -> MemoryPointer:
        """``cudaMalloc``, for ``size`` bytes that count as ``rounded``; what is free in the pool goes back first when
        there is no room."""
        limit = self._limit or 1 << 64
        notes: list[str] = []
        if rounded > limit:
            raise OutOfMemoryError(rounded, self._total, self._limit)
        for attempt in (self._nothing, self.free_all_blocks, self._collect):
            attempt()
            if self._total + rounded > limit:
                continue
            try:
                pointer = self._call_allocator(size, rounded)
            except CUDARuntimeError as error:
                if error.status != _MEMORY_ALLOCATION:
                    raise
                notes = list(getattr(error, "__notes__", ()))
                continue
            self._total += rounded
            return pointer
        raised = OutOfMemoryError(rounded, self._total, self._limit)
        for note in notes:
            raised.add_note(note)
        raise raised

    def _nothing(self) -> None:
        return None

    def _collect(self) -> None:
        gc.collect()
        self.gate.do_waiting()
        self.free_all_blocks()

    def _call_allocator(self, size: int, rounded: int) -> MemoryPointer:
        memory_hook.call_hooks("alloc_preprocess", device_id=self.device_id, mem_size=rounded)
        pointer = None
        try:
            pointer = self._allocator(self._asked(size, rounded))
        finally:
            address = pointer.ptr if pointer is not None else 0
            of = self.device_id
            memory_hook.call_hooks("alloc_postprocess", device_id=of, mem_size=rounded, mem_ptr=address)
        return pointer

    def _asked(self, size: int, rounded: int) -> int:
        """What to ask the allocator for: an array's own size, but CuPy's number where the allocator is yours."""
        return size if self._plain else rounded

    def free(self, block: Block) -> None:
        """Take a block back."""
        with self.gate:
            self._used -= block.size
            self._allocated.discard(block)
            block.release()
            block.arena.give_back(block)

    def free_all_blocks(self, stream: Any = None) -> None:
        """Give free blocks that are whole back to the device (``cudaFree``), those of ``stream`` or of all streams."""
        self._current_epoch()
        arenas = self._arenas.values() if stream is None else [self._arenas.get(stream.ptr, Arena())]
        with self.gate:
            for arena in list(arenas):
                for block in arena.blocks():
                    if block.whole:
                        arena.remove(block)
                        self._total -= block.size
                        self._return_to_device(block)

    def _return_to_device(self, block: Block) -> None:
        freed = not self._plain or any(isinstance(memory, Memory) for memory in block.cached)
        block.cached.clear()  # what cudaMalloc gave goes back with cudaFree, which waits for the device
        if not freed:
            runtime.deviceSynchronize()  # the wait of the cudaFree that this block has on a GPU

    def cached(self) -> Iterator[tuple[int, int]]:
        """``(address, bytes)`` of device memory that is free in the pool."""
        self._current_epoch()
        for arena in self._arenas.values():
            for block in arena.blocks():
                for memory in block.cached:
                    yield memory.ptr, memory.size

    def n_free_blocks(self) -> int:
        """How many blocks are free."""
        self._current_epoch()
        return sum(len(arena) for arena in self._arenas.values())

    def used_bytes(self) -> int:
        """Bytes allocated, rounded up to 512 each."""
        self._current_epoch()
        return self._used

    def free_bytes(self) -> int:
        """Bytes held and not allocated."""
        return self.total_bytes() - self._used

    def total_bytes(self) -> int:
        """Bytes taken from the device."""
        self._current_epoch()
        return self._total

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """The most bytes that the pool may hold: ``size``, or a ``fraction`` of the device's memory; 0 for no limit."""
        if size is None:
            if fraction is None:
                size = 0
            elif not 0 <= fraction <= 1:
                raise ValueError(f"memory limit fraction out of range: {fraction}")
            else:
                size = int(fraction * runtime.memGetInfo()[1])
        elif fraction is not None:
            raise ValueError("size and fraction cannot be specified at one time")
        if size < 0:
            raise ValueError(f"memory limit size out of range: {size}")
        self._limit = size

    def get_limit(self) -> int:
        """The limit in bytes; 0 for none."""
        return self._limit


class MemoryPool:
    """The pool that arrays use (``cp.get_default_memory_pool()``); one inner pool a device.

    Args:
        allocator: where new blocks come from; ``cudaMalloc`` by default.
    """

    def __init__(self, allocator: Callable[[int], MemoryPointer] | None = None) -> None:
        self._allocator = allocator
        self._inner: dict[int, SingleDeviceMemoryPool] = {}

    @property
    def _pool(self) -> SingleDeviceMemoryPool:
        """That of the current device."""
        number = runtime.getDevice()
        if number not in self._inner:
            self._inner[number] = SingleDeviceMemoryPool(self._allocator)
        return self._inner[number]

    def malloc(self, size: int) -> MemoryPointer:
        """Allocate ``size`` bytes; see :class:`SingleDeviceMemoryPool`."""
        return self._pool.malloc(size)

    def free_all_blocks(self, stream: Any = None) -> None:
        """Give free blocks back to the device."""
        self._pool.free_all_blocks(stream)

    def n_free_blocks(self) -> int:
        """How many blocks are free."""
        return self._pool.n_free_blocks()

    def used_bytes(self) -> int:
        """Bytes allocated."""
        return self._pool.used_bytes()

    def free_bytes(self) -> int:
        """Bytes held and not allocated."""
        return self._pool.free_bytes()

    def total_bytes(self) -> int:
        """Bytes taken from the device."""
        return self._pool.total_bytes()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """The most bytes that the pool may hold."""
        self._pool.set_limit(size, fraction)

    def get_limit(self) -> int:
        """The limit in bytes; 0 for none."""
        return self._pool.get_limit()


class MemoryAsyncPool:
    """An allocator on ``cudaMallocAsync``, in the current stream, out of a memory pool of the runtime.

    Args:
        pool_handles: ``"current"`` or ``"default"`` for the device's pool, the handle of another, or a list with it.
    """

    memoryAsyncHasStat = True
    """Can the pool be asked how much it holds?"""

    def __init__(self, pool_handles: Any = "current") -> None:
        handle = pool_handles[0] if isinstance(pool_handles, (list, tuple)) else pool_handles
        if handle == "current":
            handle = runtime.deviceGetMemPool(0)
        elif handle == "default":
            handle = runtime.deviceGetDefaultMemPool(0)
        elif not isinstance(handle, int):
            raise ValueError(f"pool_handles must be 'current', 'default', or handles of pools (got {pool_handles!r})")
        self._pool = handle

    def malloc(self, size: int) -> MemoryPointer:
        """``size`` bytes in the current stream."""
        runtime.deviceSetMemPool(0, self._pool)
        return malloc_async(-(-size // UNIT) * UNIT)

    def free_all_blocks(self, stream: Any = None) -> None:
        """Wait for ``stream``, or the current one, and give free memory back to the device."""
        runtime.streamSynchronize(current_pointer(stream))
        runtime.memPoolTrimTo(self._pool, 0)

    def n_free_blocks(self) -> int:
        """The runtime does not tell."""
        raise NotImplementedError("This function is not supported in MemoryAsyncPool")

    def used_bytes(self) -> int:
        """Bytes allocated."""
        return runtime.memPoolGetAttribute(self._pool, runtime.cudaMemPoolAttrUsedMemCurrent)

    def free_bytes(self) -> int:
        """Bytes held and not allocated."""
        return self.total_bytes() - self.used_bytes()

    def total_bytes(self) -> int:
        """Bytes taken from the device."""
        return runtime.memPoolGetAttribute(self._pool, runtime.cudaMemPoolAttrReservedMemCurrent)

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """How many bytes the pool keeps at a synchronisation: ``size``, or a ``fraction`` of the device's memory."""
        if size is not None and fraction is not None:
            raise ValueError("size and fraction cannot be specified at one time")
        if size is None:
            if fraction is not None and not 0 <= fraction <= 1:
                raise ValueError(f"memory limit fraction out of range: {fraction}")
            size = int((fraction or 0) * runtime.memGetInfo()[1])
        if size < 0:
            raise ValueError(f"memory limit size out of range: {size}")
        runtime.memPoolSetAttribute(self._pool, runtime.cudaMemPoolAttrReleaseThreshold, size)

    def get_limit(self) -> int:
        """What :meth:`set_limit` set."""
        return runtime.memPoolGetAttribute(self._pool, runtime.cudaMemPoolAttrReleaseThreshold)


def _limit_of_environment() -> dict[str, Any]:
    """``CUPY_GPU_MEMORY_LIMIT``: bytes, or a percentage."""
    text = os.environ.get("CUPY_GPU_MEMORY_LIMIT", "")
    if text.endswith("%"):
        return {"fraction": float(text[:-1]) / 100}
    return {"size": int(text)} if text else {}
