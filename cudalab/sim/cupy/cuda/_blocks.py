"""The blocks that a memory pool keeps: CuPy's bookkeeping of addresses, and the device memory behind it.

A block is a part of one ``cudaMalloc``. Blocks split from one another are linked, so that they can be coalesced. Each
array has device memory of its own (see ``_pool.py``): an allocated block has ``memory`` of exactly the requested size;
a free one has ``cached`` memory of earlier arrays, which is reused by an array of the very same size and otherwise
returned to the device. Cached memory never exceeds the size of its block.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

from cudalab.sim.cupy._base.call import epoch, on_device, shutting_down
from cudalab.sim.cupy.cuda import runtime
from cudalab.sim.cupy.cuda._allocations import BaseMemory, Memory, release

_INVALID_HANDLE = 400


def free_in(stream: int, pointer: int) -> None:
    """``cudaFreeAsync`` in ``stream``, or in the default stream when that one has been destroyed."""
    try:
        runtime.freeAsync(pointer, stream)
    except runtime.CUDARuntimeError as error:
        if error.status != _INVALID_HANDLE:
            raise
        runtime.freeAsync(pointer, 0)


class Placed(BaseMemory):
    """Device memory of exactly the size that an array asked for, for a block that is not a whole ``cudaMalloc``.

    It comes from ``cudaMallocAsync`` in the block's stream, which costs the host next to nothing and waits for nothing.
    """

    def __init__(self, size: int, stream: int) -> None:
        self.size = size
        self.stream = stream
        self.device_id = runtime.getDevice()
        self._epoch = epoch()
        self.ptr = runtime.mallocAsync(size, stream)

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if _over:
            return
        release(self, lambda pointer: free_in(self.stream, pointer))


class Block:
    """``size`` bytes of the pool's bookkeeping."""

    __slots__ = ("arena", "cached", "following", "key", "memory", "previous", "size", "stream")

    def __init__(self, size: int, arena: Arena, stream: int) -> None:
        self.size = size
        self.arena = arena
        self.stream = stream
        self.previous: Block | None = None
        self.following: Block | None = None
        self.memory: Any = None
        self.cached: list[Any] = []
        self.key = 0

    @property
    def whole(self) -> bool:
        """Is it all of its ``cudaMalloc``?"""
        return self.previous is None and self.following is None

    def split(self, size: int) -> Block | None:
        """Keep the first ``size`` bytes and return the rest, or None when there is none."""
        if self.size == size:
            return None
        rest = Block(self.size - size, self.arena, self.stream)
        rest.previous, rest.following = self, self.following
        if rest.following is not None:
            rest.following.previous = rest
        self.size, self.following = size, rest
        return rest

    def merge_following(self) -> None:
        """Take in the free block after this one."""
        after = self.following
        assert after is not None
        self.cached += after.cached
        self.size += after.size
        self.following = after.following
        if self.following is not None:
            self.following.previous = self

    def reuse(self, asked: int) -> bool:
        """Take cached memory of exactly ``asked`` bytes as the block's memory; False when there is none."""
        for memory in self.cached:
            if memory.size == asked:
                self.cached.remove(memory)
                self.memory = memory
                return True
        return False

    def release(self) -> None:
        """The block becomes free."""
        self.cached.append(self.memory)
        self.memory = None

    def discard(self, most: int) -> None:
        """Release cached memory until at most ``most`` bytes are left, once the work that is now in the stream has
        ended (``cudaFree`` would wait here)."""
        total = sum(memory.size for memory in self.cached)
        while self.cached and total > most:
            memory = self.cached.pop(0)
            total -= memory.size
            if isinstance(memory, Memory) and memory.ptr:
                pointer, memory.ptr = memory.ptr, 0
                with on_device(memory.device_id):
                    free_in(self.stream, pointer)


class Arena:
    """The free blocks of one stream, by size."""

    def __init__(self) -> None:
        self._order: list[tuple[int, int]] = []
        self._free: dict[tuple[int, int], Block] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._order)

    def blocks(self) -> list[Block]:
        return [self._free[key] for key in self._order]

    def insert(self, block: Block) -> None:
        self._count += 1
        block.key = self._count
        key = (block.size, block.key)
        insort(self._order, key)
        self._free[key] = block

    def remove(self, block: Block | None) -> bool:
        """Take ``block`` out when it is free; False when it is not."""
        key = (block.size, block.key) if block is not None else (0, 0)
        if self._free.pop(key, None) is None:
            return False
        del self._order[bisect_left(self._order, key)]
        return True

    def give_back(self, block: Block) -> None:
        """Insert a freed block, coalesced with its free neighbours."""
        while self.remove(block.following):
            block.merge_following()
        while block.previous is not None and self.remove(block.previous):
            block = block.previous
            block.merge_following()
        self.insert(block)

    def take(self, size: int, asked: int) -> Block | None:
        """The smallest free block of at least ``size`` bytes, split to that size; with memory of ``asked`` bytes where
        such memory rests in it."""
        index = bisect_left(self._order, (size, 0))
        if index == len(self._order):
            return None
        block = self._free.pop(self._order.pop(index))
        rest = block.split(size)
        block.reuse(asked)
        if rest is None:
            block.discard(0)
        else:
            rest.cached, block.cached = block.cached, []
            rest.discard(rest.size)
            self.insert(rest)
        return block
