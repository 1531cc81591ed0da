"""The device heap: what ``malloc``, ``free``, ``new`` and ``delete`` of a kernel hand out and take back.

A GPU keeps a part of device memory, 8 MB unless ``cudaDeviceSetLimit(cudaLimitMallocHeapSize, …)`` asks for another
size before a kernel that uses it is launched, and threads allocate from it. What a thread allocates lives until a
thread of this or of a later launch frees it; the host can neither free nor copy it (CUDA C++ Programming Guide,
"Dynamic Global Memory Allocation and Operations").

Here the checks know each allocation of a kernel: an access past its end, and one after ``free``, ends the launch with
an explanation, where an H200 says nothing as long as the address is in the heap. Freeing anything but the start of a
live allocation ends the launch with ``cudaErrorLaunchFailure``; an H200 does that for a double free only.

Native code calls ``context.heap_malloc`` and ``heap_free``, functions of the ``Workspace``. Allocations have the kind
``heap`` and are found by ``Memory.find`` like others; the *chunks* of device memory that hold them are not. Simplified:
allocations of one size class follow each other, and how many fit into the heap is a formula fitted to counts of an
H200 (``charge``), right within some per cent. A learner would notice that allocations lie 256 bytes apart.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import OrderedDict, deque
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from cudalab.sim.abi import GRANULE
from cudalab.sim.machine.memory.allocation import Allocation, OutOfMemory
from cudalab.sim.machine.memory.arena import Arena
from cudalab.sim.machine.memory.written_bytes import WrittenBytes

DEFAULT = 8 << 20
"""Bytes of the heap until a program asks for another size."""
LEAST, MOST = 4 << 20, 17_681_179_680
"""The smallest and largest size that an H200 gives (driver 580)."""
_STEP = 64 << 10
_CHUNK = 1 << 20
_QUARANTINE = 4096
"""Freed addresses of one stride that are not used again yet, so that a use after free is found."""
_SMALL, _SMALL_UNIT, _SMALL_CHARGE = 2048, 80, 92.52
_MEDIUM, _MEDIUM_FACTOR = 16384, 1.0847
_LARGE_FACTOR, _LARGE_EXTRA = 1.2, 28_903


def charge(size: int) -> float:
    """Bytes of the heap that an allocation of ``size`` bytes takes, bookkeeping included.

    Fitted to how many fit on an H200 (8 MB: 90,670 of 16 bytes, 45,335 of 100, 1,888 of 4096, 78 of 65,536, 6 of 1 MiB,
    2 of 3 MiB; 32 MB: 26 of 1 MiB)."""
    if size <= _SMALL:
        return max(1, -(-size // _SMALL_UNIT)) * _SMALL_CHARGE
    return size * _MEDIUM_FACTOR if size <= _MEDIUM else size * _LARGE_FACTOR + _LARGE_EXTRA


def rounded_limit(size: int) -> int:
    """The heap size that the device gives when ``size`` bytes are asked for."""
    return min(MOST, max(LEAST, -(-size // _STEP) * _STEP))


class Backing(Protocol):
    """What the heap needs of the device's memory (``allocations.Memory``)."""

    arena: Arena
    version: int

    def allocate(self, size: int, kind: str, label: str) -> int: ...

    def free(self, pointer: int, where: str) -> Allocation: ...

    def chunk_at(self, address: int) -> int | None: ...

    def next_serial(self) -> int: ...


class _Chunk(Struct, eq=False):
    """A range of device memory that holds allocations of one stride."""

    pointer: int
    end: int
    starts: list[int] = field(default_factory=list)
    """Of live allocations, ascending."""


class _Places(NamedTuple):
    """Where the next allocations go."""

    open: dict[int, tuple[int, int]]
    quarantine: dict[int, deque[int]]


class DeviceHeap:
    """The heap of one memory.

    Args:
        memory: the device's memory, from which chunks are allocated.
    """

    def __init__(self, memory: Backing) -> None:
        self._memory = memory
        self.limit = DEFAULT
        self.used = 0.0
        """Of ``limit``: bytes taken, as ``charge`` counts them."""
        self.touched = False
        """Has a kernel allocated? From then on the limit is fixed."""
        self.lock = threading.Lock()
        """Held by whoever calls ``malloc`` or ``free`` for a kernel that several workers run."""
        self._live: dict[int, Allocation] = {}
        self._freed: OrderedDict[int, Allocation] = OrderedDict()
        """By address, the last one last: no plain dict, whose first entry takes long to find when many are gone."""
        self._chunks: dict[int, _Chunk] = {}
        self._quarantine: dict[int, deque[int]] = {}
        """By stride: freed addresses, the oldest first."""
        self._open: dict[int, tuple[int, int]] = {}  # stride -> next address and end of the chunk being filled
        self._journal: list[tuple[bool, Allocation]] | None = None
        self._before = _Places({}, {})
        """Since the journal began: what was open, and what lay in quarantine."""
        self._opened: list[tuple[int, int, int]] = []
        """Chunks opened since then: stride, start and end."""
        self._spare: dict[int, deque[tuple[int, int]]] = {}
        """By stride: chunks that a rollback has left empty."""

    # -- what kernels call ---------------------------------------------------------------------------------------------

    def malloc(self, size: int, alignment: int = 16, label: str = "", where: str = "", site: int = -1) -> int:
        """Allocate for a thread; 0 when the heap has no room left, as ``malloc`` returns NULL.

        Args:
            size: bytes; 0 gives an address that must not be accessed.
            alignment: of the address, a power of two up to 256; larger ones give 0.
            label: what to call it in messages.
            where: the line of the kernel.
            site: of the kernel's call.
        """
        self.touched = True
        cost = charge(size)
        if self.used + cost > self.limit or alignment > GRANULE or alignment & (alignment - 1):
            return 0
        try:
            pointer = self._place(_stride(size))
        except OutOfMemory:
            return 0
        memory = self._memory
        memory.arena.unpoison(pointer - memory.arena.base, size)
        allocation = Allocation(
            pointer, size, "heap", label, where, memory.next_serial(), WrittenBytes(size), site=site
        )
        self._enter(allocation)
        if self._journal is not None:
            self._journal.append((True, allocation))
        else:
            allocation.written.mark_all()  # what a plain launch writes is not followed
        return pointer

    def free(self, pointer: int, where: str = "") -> bool:
        """Free what ``malloc`` returned, or null. False: it is neither, and nothing was freed."""
        if not pointer:
            return True
        allocation = self._live.get(pointer)
        if allocation is None:
            return False
        self._leave(allocation, where)
        if self._journal is not None:
            self._journal.append((False, allocation))
        else:
            self._put_in_quarantine(allocation)
        return True

    # -- lookup --------------------------------------------------------------------------------------------------------

    def find(self, chunk: int, address: int) -> Allocation | None:
        """The live allocation at ``address`` in the chunk that begins at ``chunk``."""
        starts = self._chunks[chunk].starts
        index = bisect_right(starts, address)
        if index:
            allocation = self._live[starts[index - 1]]
            if address < allocation.end:
                return allocation
        return None

    def inside(self, chunk: int) -> list[Allocation]:
        """The live allocations of a chunk, by address."""
        return [self._live[start] for start in self._chunks[chunk].starts]

    def neighbours(self, chunk: int, address: int) -> tuple[Allocation | None, Allocation | None]:
        """The live allocations of the chunk that begin before and after ``address``."""
        starts = self._chunks[chunk].starts
        index = bisect_right(starts, address)
        before = self._live[starts[index - 1]] if index else None
        return before, self._live[starts[index]] if index < len(starts) else None

    def freed_at(self, address: int) -> Allocation | None:
        """The allocation freed last that held ``address``."""
        return next((each for each in reversed(self._freed.values()) if each.pointer <= address < each.end), None)

    def __len__(self) -> int:
        """Live allocations."""
        return len(self._live)

    # -- rollback ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Keep a journal of what is allocated and freed from now on, for :meth:`rollback` (timing samples,
        sanitizer)."""
        if self._journal is None:
            self._journal = []
            self._opened = []
            self._before = _Places(dict(self._open), {stride: deque(all) for stride, all in self._quarantine.items()})

    def allocated(self) -> list[Allocation]:
        """What was allocated since the journal began, and is live."""
        made = [allocation for was_allocated, allocation in self._journal or () if was_allocated]
        return [allocation for allocation in made if not allocation.freed]

    def handed_out(self, after: int) -> list[Allocation]:
        """What was allocated since the journal began, and may be freed by now, without the first ``after`` of it."""
        return [allocation for was_allocated, allocation in self._journal or () if was_allocated][after:]

    def rollback(self) -> None:
        """Undo the journal: allocations are gone, freed memory is live again, and the next that is allocated lies where
        it lay: a kernel cannot tell a run that is taken back from one that is not."""
        journal, self._journal = self._journal or [], None
        for was_allocated, allocation in reversed(journal):
            if was_allocated:
                if allocation.pointer in self._live:
                    self._leave(allocation, "")
                    del self._freed[allocation.pointer]
            else:
                allocation.freed, allocation.freed_where = False, ""
                self._freed.pop(allocation.pointer, None)
                offset = allocation.pointer - self._memory.arena.base
                self._memory.arena.unpoison(offset, allocation.size)
                self._enter(allocation)
        if journal:
            self._open, self._quarantine = self._before
            for stride, start, end in reversed(self._opened):
                self._spare.setdefault(stride, deque()).appendleft((start, end))

    def clear(self) -> None:
        """Free everything: the device is reset."""
        for start in self._chunks:
            if self._memory.chunk_at(start) == start:
                self._memory.free(start, where="device reset")
        self._live.clear()
        self._freed.clear()
        self._chunks.clear()
        self._quarantine.clear()
        self._open.clear()
        self._spare.clear()
        self.used, self.touched, self._journal, self.limit = 0.0, False, None, DEFAULT

    # -- bookkeeping ---------------------------------------------------------------------------------------------------

    def _enter(self, allocation: Allocation) -> None:
        self._live[allocation.pointer] = allocation
        insort(self._chunk_of(allocation.pointer).starts, allocation.pointer)
        self.used += charge(allocation.size)
        self._memory.version += 1

    def _leave(self, allocation: Allocation, where: str) -> None:
        del self._live[allocation.pointer]
        starts = self._chunk_of(allocation.pointer).starts
        del starts[bisect_right(starts, allocation.pointer) - 1]
        self._memory.arena.poison(allocation.pointer - self._memory.arena.base, max(1, allocation.size))
        allocation.freed, allocation.freed_where = True, where
        self._freed[allocation.pointer] = allocation
        if len(self._freed) > _QUARANTINE:
            self._freed.popitem(last=False)
        self.used -= charge(allocation.size)
        self._memory.version += 1

    def _chunk_of(self, pointer: int) -> _Chunk:
        found = self._memory.chunk_at(pointer)
        assert found is not None
        return self._chunks[found]

    def _put_in_quarantine(self, allocation: Allocation) -> None:
        self._quarantine.setdefault(_stride(allocation.size), deque()).append(allocation.pointer)

    def _place(self, stride: int) -> int:
        quarantine = self._quarantine.get(stride)
        if quarantine is not None and len(quarantine) > max(4, min(_QUARANTINE, _CHUNK * 4 // stride)):
            pointer = quarantine.popleft()
            self._freed.pop(pointer, None)
            return pointer
        at, end = self._open.get(stride, (0, 0))
        if at + stride > end:
            at, end = self._chunk(stride)
            if self._journal is not None:
                self._opened.append((stride, at, end))
        self._open[stride] = (at + stride, end)
        return at

    def _chunk(self, stride: int) -> tuple[int, int]:
        """An empty chunk: its start and end."""
        if spare := self._spare.get(stride):
            return spare.popleft()
        size = max(_CHUNK, stride)
        at = self._memory.allocate(size, "heap", "device heap")
        self._chunks[at] = _Chunk(at, at + size)
        self._memory.arena.poison(at - self._memory.arena.base, size)
        return at, at + size


def _stride(size: int) -> int:
    """Bytes from one allocation of this size to the next, a granule of red zone included."""
    return -(-max(size, 1) // GRANULE) * GRANULE + GRANULE
