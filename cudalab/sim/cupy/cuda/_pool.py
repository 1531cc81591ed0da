"""CuPy's memory pool: blocks that arrays give back are kept and handed out again without ``cudaMalloc``.

The bookkeeping is CuPy's: sizes are rounded up to 512 bytes; the smallest free block that fits is taken and split;
neighbours that are both free become one block again; each stream has its own free blocks, because a block that goes
back may still be in use by work that is queued in its stream, and only that stream's later work is ordered after it.

What differs: on a GPU two arrays out of one split block touch, and a kernel that runs past the end of one damages the
other in silence. Here each array has device memory of exactly its own size, so that every access past its end is found.
``used_bytes``, ``total_bytes`` and the number of ``cudaMalloc`` calls are as on a GPU. A block that is handed out again
at the very size it had before has the same address as before, as on a GPU; a split one has another.

A learner would notice: memory that is free in the pool may still be read through an old address without an error, as
on a GPU; :func:`resting` lists it for ``cudalab.sanitize``.
"""

from __future__ import annotations

import gc
import os
import sys
import weakref
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import Any

from cudalab.sim.cupy._core.call import epoch
from cudalab.sim.cupy.cuda import memory_hook, runtime
from cudalab.sim.cupy.cuda.memory import (
    BaseMemory,
    Memory,
    MemoryPointer,
    OutOfMemoryError,
    malloc_async,
    plain_malloc,
    release,
)
from cudalab.sim.cupy.cuda.stream import current_pointer

UNIT = 512
_MEMORY_ALLOCATION = 2

_pools: weakref.WeakSet[SingleDeviceMemoryPool] = weakref.WeakSet()


def resting() -> Iterator[tuple[int, int]]:
    """``(address, bytes)`` of device memory that pools hold free: no array owns it."""
    for pool in list(_pools):
        yield from pool.resting()


class _Placed(BaseMemory):
    """Device memory of exactly the size that an array asked for, out of a block that was split before.

    It comes from ``cudaMallocAsync`` in the block's stream, which costs the host next to nothing and waits for nothing.
    """

    def __init__(self, size: int, stream: int) -> None:
        self.size = size
        self.stream = stream
        self.ptr = runtime.mallocAsync(size, stream)
        self._epoch = epoch()

    def __del__(self) -> None:
        release(self, lambda pointer: runtime.freeAsync(pointer, self.stream))


class _Block:
    """A block of the pool's bookkeeping: ``size`` bytes, with its neighbours of the same ``cudaMalloc``.

    ``memory`` is the device memory that the block's array has, or had last; its size is exactly what was asked for.
    """

    __slots__ = ("arena", "following", "key", "memory", "previous", "size", "stream")

    def __init__(self, size: int, arena: _Arena, stream: int) -> None:
        self.size = size
        self.arena = arena
        self.stream = stream
        self.previous: _Block | None = None
        self.following: _Block | None = None
        self.memory: Any = None
        self.key = 0

    def split(self, size: int) -> _Block | None:
        """Keep the first ``size`` bytes and return the rest, or None when there is none."""
        if self.size == size:
            return None
        rest = _Block(self.size - size, self.arena, self.stream)
        rest.previous, rest.following = self, self.following
        if rest.following is not None:
            rest.following.previous = rest
        self.size, self.following = size, rest
        self.drop_memory()
        return rest

    def merge_following(self) -> None:
        """Take in the free block after this one."""
        after = self.following
        assert after is not None
        after.drop_memory()
        self.drop_memory()
        self.size += after.size
        self.following = after.following
        if self.following is not None:
            self.following.previous = self

    def drop_memory(self) -> None:
        """Let the memory go once the work that is now in the stream has ended (``cudaFree`` would wait here)."""
        memory, self.memory = self.memory, None
        if isinstance(memory, Memory) and memory.ptr:
            pointer, memory.ptr = memory.ptr, 0
            runtime.freeAsync(pointer, self.stream)


class _Arena:
    """The free blocks of one stream, by size."""

    def __init__(self) -> None:
        self._order: list[tuple[int, int]] = []
        self._free: dict[tuple[int, int], _Block] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._order)

    def blocks(self) -> list[_Block]:
        return [self._free[key] for key in self._order]

    def insert(self, block: _Block) -> None:
        self._count += 1
        block.key = self._count
        key = (block.size, block.key)
        insort(self._order, key)
        self._free[key] = block

    def remove(self, block: _Block | None) -> bool:
        """Take ``block`` out when it is free; False when it is not."""
        key = (block.size, block.key) if block is not None else (0, 0)
        if self._free.pop(key, None) is None:
            return False
        del self._order[bisect_left(self._order, key)]
        return True

    def give_back(self, block: _Block) -> None:
        """Insert a block that has become free, joined with its free neighbours."""
        while self.remove(block.following):
            block.merge_following()
        while block.previous is not None and self.remove(block.previous):
            block = block.previous
            block.merge_following()
        self.insert(block)

    def take(self, size: int) -> _Block | None:
        """The smallest free block of at least ``size`` bytes, split to that size."""
        index = bisect_left(self._order, (size, 0))
        if index == len(self._order):
            return None
        block = self._free.pop(self._order.pop(index))
        rest = block.split(size)
        if rest is not None:
            self.insert(rest)
        return block


class PooledMemory(BaseMemory):
    """Memory that a pool lent: it goes back when the object goes."""

    def __init__(self, block: _Block, pool: weakref.ref[SingleDeviceMemoryPool], exact: int) -> None:
        self._block = block
        self.pool = pool
        self.ptr = block.memory.ptr
        self.size = block.size
        self.exact_size = exact
        self.identity = type(block.memory).__name__ if block.memory.__class__ is not _Placed else "Memory"
        self._epoch = epoch()

    def free(self) -> None:
        """Give the block back to the pool now."""
        pointer, self.ptr = self.ptr, 0
        pool = self.pool()
        if not pointer or pool is None or self._epoch != pool.epoch:
            return
        details = {"device_id": 0, "mem_size": self.size, "mem_ptr": pointer, "pmem_id": id(self)}
        memory_hook.call_hooks("free_preprocess", **details)
        try:
            pool.free(self._block)
        finally:
            memory_hook.call_hooks("free_postprocess", **details)

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.free()


class SingleDeviceMemoryPool:
    """The pool of one device. See the module's text."""

    def __init__(self, allocator: Callable[[int], MemoryPointer] | None = None) -> None:
        self._allocator = allocator or plain_malloc
        self._plain = self._allocator is plain_malloc
        self._reference = weakref.ref(self)
        self._limit = 0
        self.epoch = epoch()
        self._clear()
        self.set_limit(**_limit_of_environment())
        _pools.add(self)

    def _clear(self) -> None:
        self._arenas: dict[int, _Arena] = {}
        self._total = 0
        self._used = 0

    def _current_epoch(self) -> None:
        """Forget everything when the device was reset: its memory is gone."""
        if self.epoch != epoch():
            for arena in self._arenas.values():
                for block in arena.blocks():
                    block.memory = None
            self._clear()
            self.epoch = epoch()

    def malloc(self, size: int) -> MemoryPointer:
        """Lend ``size`` bytes, for use in the current stream.

        Raises ``OutOfMemoryError`` when the device, or the pool's limit, has no room even after everything that is free
        in the pool went back.
        """
        self._current_epoch()
        rounded = -(-size // UNIT) * UNIT
        details: dict[str, Any] = {"device_id": 0, "size": size, "mem_size": rounded}
        memory_hook.call_hooks("malloc_preprocess", **details)
        pointer = None
        try:
            pointer = self._malloc(size, rounded)
        finally:
            address, number = (pointer.ptr, id(pointer.mem)) if pointer is not None else (0, 0)
            memory_hook.call_hooks("malloc_postprocess", **details, mem_ptr=address, pmem_id=number)
        return pointer

    def _malloc(self, size: int, rounded: int) -> MemoryPointer:
        if size == 0:
            return MemoryPointer(Memory(0), 0)
        stream = current_pointer()
        arena = self._arenas.setdefault(stream, _Arena())
        block = arena.take(rounded)
        if block is None:
            pointer = self._take_from_device(size, rounded)
            block = _Block(rounded, arena, stream)
            block.memory = pointer.mem
        elif block.memory is None or self._asked(size, rounded) != block.memory.size:
            block.drop_memory()
            block.memory = _Placed(size, stream) if self._plain else self._allocator(rounded).mem
        self._used += rounded
        return MemoryPointer(PooledMemory(block, self._reference, size), 0)

    def _take_from_device(self, size: int, rounded: int) -> MemoryPointer:
        """``cudaMalloc``, for ``size`` bytes that count as ``rounded``; what is free in the pool goes back first when
        there is no room."""
        limit = self._limit or 1 << 64
        if rounded > limit:
            raise OutOfMemoryError(rounded, self._total, self._limit)
        for attempt in (self._nothing, self.free_all_blocks, self._collect):
            attempt()
            if self._total + rounded > limit:
                continue
            try:
                pointer = self._call_allocator(size, rounded)
            except runtime.CUDARuntimeError as error:
                if error.status != _MEMORY_ALLOCATION:
                    raise
                notes = getattr(error, "__notes__", [])
                continue
            self._total += rounded
            return pointer
        raised = OutOfMemoryError(rounded, self._total, self._limit)
        for note in locals().get("notes", []):
            raised.add_note(note)
        raise raised

    def _nothing(self) -> None:
        return None

    def _collect(self) -> None:
        gc.collect()
        self.free_all_blocks()

    def _call_allocator(self, size: int, rounded: int) -> MemoryPointer:
        memory_hook.call_hooks("alloc_preprocess", device_id=0, mem_size=rounded)
        pointer = None
        try:
            pointer = self._allocator(self._asked(size, rounded))
        finally:
            address = pointer.ptr if pointer is not None else 0
            memory_hook.call_hooks("alloc_postprocess", device_id=0, mem_size=rounded, mem_ptr=address)
        return pointer

    def _asked(self, size: int, rounded: int) -> int:
        """What to ask the allocator for: an array's own size, but CuPy's number where the allocator is yours."""
        return size if self._plain else rounded

    def free(self, block: _Block) -> None:
        """Take a block back."""
        self._used -= block.size
        block.arena.give_back(block)

    def free_all_blocks(self, stream: Any = None) -> None:
        """Give free blocks that are whole back to the device (``cudaFree``), those of ``stream`` or of all streams."""
        self._current_epoch()
        arenas = self._arenas.values() if stream is None else [self._arenas.get(stream.ptr, _Arena())]
        for arena in list(arenas):
            for block in arena.blocks():
                if block.previous is None and block.following is None:
                    arena.remove(block)
                    self._total -= block.size
                    self._return_to_device(block)

    def _return_to_device(self, block: _Block) -> None:
        placed = not self._plain or isinstance(block.memory, Memory)
        block.memory = None  # cudaMalloc's memory goes back with cudaFree, which waits for the device
        if not placed:
            runtime.deviceSynchronize()  # the wait of the cudaFree that this block has on a GPU

    def resting(self) -> Iterator[tuple[int, int]]:
        """``(address, bytes)`` of device memory that is free in the pool."""
        self._current_epoch()
        for arena in self._arenas.values():
            for block in arena.blocks():
                if block.memory is not None:
                    yield block.memory.ptr, block.memory.size

    def n_free_blocks(self) -> int:
        """How many blocks are free."""
        self._current_epoch()
        return sum(len(arena) for arena in self._arenas.values())

    def used_bytes(self) -> int:
        """Bytes lent, rounded up to 512 each."""
        self._current_epoch()
        return self._used

    def free_bytes(self) -> int:
        """Bytes held and not lent."""
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
        self._inner: SingleDeviceMemoryPool | None = None

    @property
    def _pool(self) -> SingleDeviceMemoryPool:
        if self._inner is None:
            self._inner = SingleDeviceMemoryPool(self._allocator)
        return self._inner

    def malloc(self, size: int) -> MemoryPointer:
        """Lend ``size`` bytes; see :class:`SingleDeviceMemoryPool`."""
        return self._pool.malloc(size)

    def free_all_blocks(self, stream: Any = None) -> None:
        """Give free blocks back to the device."""
        self._pool.free_all_blocks(stream)

    def n_free_blocks(self) -> int:
        """How many blocks are free."""
        return self._pool.n_free_blocks()

    def used_bytes(self) -> int:
        """Bytes lent."""
        return self._pool.used_bytes()

    def free_bytes(self) -> int:
        """Bytes held and not lent."""
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
    """An allocator on ``cudaMallocAsync``: the device's own pool.

    Args:
        pool_handles: kept for compatibility; the simulated device has one pool.
    """

    def __init__(self, pool_handles: Any = "current") -> None:
        self._handles = pool_handles

    def malloc(self, size: int) -> MemoryPointer:
        """``size`` bytes in the current stream."""
        return malloc_async(-(-size // UNIT) * UNIT)


def _limit_of_environment() -> dict[str, Any]:
    """``CUPY_GPU_MEMORY_LIMIT``: bytes, or a percentage."""
    text = os.environ.get("CUPY_GPU_MEMORY_LIMIT", "")
    if text.endswith("%"):
        return {"fraction": float(text[:-1]) / 100}
    return {"size": int(text)} if text else {}
