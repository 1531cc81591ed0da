"""The bookkeeping of one memory pool: what is used, what is reserved, and which freed memory may be lent again.

A pool takes memory from the device in large pages (32 MiB on an H200) that form one range of addresses, and lends parts
of it (CUDA C++ Programming Guide, "Stream-Ordered Memory Allocator"). *Used* is what the program has; *reserved* is
what the pool has taken from the device. Pages that nobody uses go back at the next synchronisation, as far as the
release threshold allows, or when the pool is trimmed.

Memory that was freed in a stream may be lent again, before the free has happened, to later work of that stream, and to
work of another stream that is ordered behind the free by events. Checked on an H200: without such an order the pool
takes other memory, also where it might add a dependency of its own.

What differs from a GPU: only memory of the very same size has the same address again; anything else gets an address of
its own, with ground around it that belongs to nobody, so that overruns are found. The amounts are as on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from cudalab.sim.device.queue.operation import Operation, Stream

PAGE = 32 << 20
_GRANULE = 512
_NEVER_RELEASE = 1 << 64


class PoolFull(Exception):
    """The pool's largest size does not allow the allocation."""


class Block(Struct, eq=False):
    """A part of the pool's range, lent or given back."""

    offset: int
    size: int
    """Bytes as asked for."""
    pointer: int = 0
    stream: Stream | None = None
    """The stream in which it was freed."""
    free: Operation | None = None
    """What frees it, when that is an operation of a stream."""
    retaken: Block | None = None
    """Who has its memory now."""

    @property
    def end(self) -> int:
        return self.offset + -(-self.size // _GRANULE) * _GRANULE

    @property
    def resting(self) -> bool:
        """Given back, but not yet sure to be unused by the device."""
        return self.free is not None and not self.free.done


class Pool:
    """One pool. ``max_size`` in bytes; 0 for no limit."""

    def __init__(self, handle: int, device: int, max_size: int = 0) -> None:
        self.handle = handle
        self.device = device
        """The device whose memory it lends."""
        self.max_size = max_size
        self.threshold = 0
        """Bytes to keep at a synchronisation."""
        self.follow_events = True
        self.opportunistic = True
        self.internal = True
        self.access: dict[int, int] = {device: 3}
        """By device: 0 none, 3 read and write."""
        self.shared_with: frozenset[int] = frozenset()
        """The other devices that have access."""
        self.used = 0
        self.used_high = 0
        self.reserved_high = 0
        self._lent: list[Block] = []
        self._returned: list[Block] = []
        self._pages: set[int] = set()

    @property
    def reserved(self) -> int:
        """Bytes taken from the device."""
        return len(self._pages) * PAGE

    @property
    def empty(self) -> bool:
        """Is nothing lent?"""
        return not self._lent

    def take(self, size: int, stream: Stream, ordered: Callable[[Operation], bool]) -> tuple[Block, Block | None]:
        """Lend ``size`` bytes to later work of ``stream``: the block, and the one whose address it has again.

        ``ordered(free)`` says whether work of the stream comes after that operation. Raises :class:`PoolFull`.
        """
        free = (b for b in reversed(self._returned) if b.size == size and self._free_for(b, stream, ordered))
        before = next(free, None)
        if before is not None:
            self._returned.remove(before)
            block = Block(before.offset, size, before.pointer)
            before.retaken = block
        else:
            block = Block(self._first_fit(size, stream, ordered), size)
            self._returned = [b for b in self._returned if b.resting or b.end <= block.offset or block.end <= b.offset]
        pages = self._pages | set(self._pages_of(block))
        if self.max_size and len(pages) * PAGE > -(-self.max_size // PAGE) * PAGE:
            raise PoolFull(f"{len(pages) * PAGE} bytes would be reserved; the pool's largest size is {self.max_size}")
        self._pages = pages
        self._lent.append(block)
        self.used += size
        self.used_high = max(self.used_high, self.used)
        self.reserved_high = max(self.reserved_high, self.reserved)
        return block, before

    def forget(self, block: Block) -> None:
        """A block is no longer lent, and nothing is left to lend again: the device had no memory, or freed it."""
        self._lent.remove(block)
        self.used -= block.size

    def give_back(self, block: Block, stream: Stream | None, free: Operation | None) -> None:
        """The program freed a block; ``free`` is the operation that does so in ``stream``."""
        self._lent.remove(block)
        block.stream, block.free = stream, free
        self._returned.append(block)
        self.used -= block.size

    def release(self, keep: int) -> None:
        """Give pages that nobody uses back to the device, but at least ``keep`` bytes stay reserved."""
        if keep >= self.reserved:
            return
        held = {page for block in self._lent for page in self._pages_of(block)}
        held |= {page for block in self._returned if block.resting for page in self._pages_of(block)}
        for page in sorted(self._pages - held, reverse=True):
            if self.reserved - PAGE < keep:
                break
            self._pages.remove(page)
        self._returned = [b for b in self._returned if b.resting or self._pages.issuperset(self._pages_of(b))]

    def synchronised(self) -> None:
        """The host has waited for the device: what the release threshold does not keep goes back."""
        if self._pages and self.threshold < _NEVER_RELEASE - 1:
            self.release(self.threshold)

    @staticmethod
    def _pages_of(block: Block) -> Iterator[int]:
        yield from range(block.offset // PAGE, (block.end - 1) // PAGE + 1)

    def _free_for(self, block: Block, stream: Stream, ordered: Callable[[Operation], bool]) -> bool:
        """May later work of ``stream`` have this memory?"""
        if not block.resting or block.stream is stream:
            return True
        assert block.free is not None
        return self.follow_events and ordered(block.free)

    def _first_fit(self, size: int, stream: Stream, ordered: Callable[[Operation], bool]) -> int:
        """The lowest offset with room beside all memory that is lent, or that the stream may not have yet."""
        taken = [*self._lent, *(b for b in self._returned if b.resting and not self._free_for(b, stream, ordered))]
        offset = 0
        length = -(-size // _GRANULE) * _GRANULE
        for block in sorted(taken, key=lambda b: b.offset):
            if offset + length <= block.offset:
                break
            offset = max(offset, block.end)
        return offset
