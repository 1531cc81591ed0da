"""Device memory: allocations in the arena, with red zones between them, and what lies near an address.

Several devices share the arena, as they share one range of addresses; each allocation knows its device. What kernels of
one device may not reach is treated as freed while they run (:meth:`Memory.seen_by`).

A GPU hands out device memory aligned to at least 256 bytes, and neighbouring allocations touch: an overrun lands in the
next array and often nothing happens. Here each allocation has a red zone on both sides, at least 64 KiB and as much as
the allocation is long, and freed addresses stay in quarantine, as under AddressSanitizer: addresses are handed out in
laps over a range of 16 GiB (more when live data need it), so a freed one is not used again before the lap is over. So
an overrun or a use after free is found when it happens. A learner would notice that pointers of successive allocations
lie far apart.

New memory reads as zeros (fresh pages of the operating system), where a GPU gives whatever was there before. Code that
relies on it is wrong: ``cudalab.sanitize`` finds it through :attr:`Allocation.written`. ``Memory.view`` and
``Memory.array`` count the bytes as written unless ``write=False`` is passed; initcheck rests on that. Freed memory is
not filled with a pattern; its pages go back to the system and the checks, not the contents, find its use.

``device``, ``pinned``, ``managed`` and ``global`` allocations differ in name only: the host can read all of them here.
The layers above refuse what a real host could not do.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext

import numpy as np

from cudalab.sim.abi import GRANULE, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE, Range
from cudalab.sim.machine.memory import host_capacity
from cudalab.sim.machine.memory.allocation import (
    NO_ACCESS,
    UNBACKED,
    AddressDescription,
    Allocation,
    InvalidPointer,
    OutOfMemory,
    size_text,
)
from cudalab.sim.machine.memory.arena import HUGE_PAGE, PAGE, Arena
from cudalab.sim.machine.memory.heap import DeviceHeap
from cudalab.sim.machine.memory.host_mapping import is_mapped
from cudalab.sim.machine.memory.textures import Images
from cudalab.sim.machine.memory.written_bytes import WrittenBytes

KINDS = ("device", "pinned", "managed", "global", "heap")
_BYTE = np.dtype(np.uint8)
MINIMUM_RED_ZONE = 64 << 10
MAXIMUM_RED_ZONE = 1 << 30
QUARANTINE = 4096
_ALIGNMENT = 512
_FIRST_LAP = 16 << 30  # bytes of addresses handed out before the first is used again


class Memory:
    """All memory of one simulated device.

    Args:
        capacity: most bytes that may be in use at once; by default half of the host memory that is free now.
        arena: the address range to use; by default a new one.
    """

    def __init__(self, capacity: int | None = None, *, arena: Arena | None = None) -> None:
        self.arena = arena or Arena()
        self._fixed_capacity = capacity is not None
        self.capacity = capacity if capacity is not None else host_capacity.available() // 2
        self.in_use = 0
        self.peak = 0
        self._cursor = MINIMUM_RED_ZONE
        self._lap = min(_FIRST_LAP, self.arena.size)
        self._serial = 0
        self.version = 0
        """Another number whenever memory is allocated, freed or registered."""
        self._starts: list[int] = []
        self._live: dict[int, Allocation] = {}
        self._reserved: dict[int, Allocation] = {}
        """By address: memory that comes and goes where it is (:meth:`reserve`)."""
        self._freed: deque[Allocation] = deque(maxlen=QUARANTINE)
        self.on_free: list[Callable[[Allocation], None]] = []
        """Called with each allocation that is freed, before its memory goes."""
        self.former: list[tuple[int, int]] = []
        """Start and end of what was device memory before resets, for messages."""
        self._ranges: list[tuple[int, int]] = []
        self.heap = DeviceHeap(self)
        """What kernels allocate. An allocation of the kind ``heap`` is a piece of device memory for it."""
        self.stack_limits: dict[int, int] = {}
        """By device: bytes of stack that a thread has where the compiler cannot tell how many it needs
        (cudaLimitStackSize)."""
        self._device = 0
        """The device whose kernel runs."""
        self.images = Images()
        """Texture and surface objects. Whoever makes or destroys one gives `version` another number."""
        self.range_table: ctypes.Array[Range] | None = None
        """``Range[]`` of registered host memory, as compiled code reads it; None when empty."""
        self.range_address = 0

    # -- allocation -------------------------------------------------------------------------------------------------

    def make_room(self, size: int) -> None:
        """Extend the arena for the next `size` bytes of allocations: what is allocated while a kernel runs must lie in
        the range that the kernel may reach from its start."""
        self.arena.extend(min(self.arena.size, self._cursor + size))

    def allocate(
        self, size: int, kind: str = "device", label: str = "", where: str = "", at: int = 0, device: int = 0
    ) -> int:
        """Allocate `size` bytes of `device`, aligned to 512, and return the address: `at`, when that is given and free.

        Raises:
            OutOfMemory: over the capacity, or more than the host can give now.
            ValueError: `size` is not positive, or `kind` is none of device, pinned, managed, global.
        """
        if size <= 0:
            raise ValueError(f"size must be positive (got {size})")
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)} (got {kind!r})")
        self._check_capacity(size)
        offset = self._place_at(at, size) if at else -1
        if offset < 0:
            offset = self._place(size)
        self.arena.extend(offset + size)
        try:
            self.arena.commit(offset, size)
        except MemoryError:
            raise OutOfMemory(size, self.in_use, self.capacity, "the system gives no more") from None
        self.arena.unpoison(offset, size)
        pointer = self.arena.base + offset
        written = WrittenBytes(size)
        if kind in ("pinned", "managed"):
            written.mark_all()  # the host writes there without a call, so nothing is known
        self._comes(Allocation(pointer, size, kind, label, where, self.next_serial(), written, device=device))
        return pointer

    def _comes(self, allocation: Allocation) -> None:
        """An allocation is live from now on."""
        pointer = allocation.pointer
        self._starts.insert(bisect_right(self._starts, pointer), pointer)
        self._live[pointer] = allocation
        self.version += 1
        self.in_use += allocation.size
        self.peak = max(self.peak, self.in_use)

    def free(self, pointer: int, where: str = "") -> Allocation:
        """Free an allocation by its start address.

        Raises:
            InvalidPointer: freed before, inside an allocation but not its start, or never allocated.
        """
        allocation = self._live.pop(pointer, None)
        if allocation is None:
            raise InvalidPointer(self.explain(pointer).why_not_freed)
        del self._starts[bisect_right(self._starts, pointer) - 1]
        self.version += 1
        for tell in self.on_free:
            tell(allocation)
        offset = pointer - self.arena.base
        self.arena.poison(offset, allocation.size)
        self.arena.discard(offset, allocation.size)
        allocation.freed, allocation.freed_where = True, where
        self._freed.append(allocation)
        self.in_use -= allocation.size
        return allocation

    # -- memory that comes and goes at one address ------------------------------------------------------------------

    def reserve(self, size: int, label: str, device: int = 0) -> int:
        """Reserve addresses for `size` bytes of `device`, which :meth:`back` and :meth:`free` give memory and take it
        from, any number of times: what nodes of graphs allocate. Nothing else is placed there until :meth:`give_up`."""
        offset = self._place(size)
        self.arena.extend(offset + size)
        pointer = self.arena.base + offset
        reserved = Allocation(pointer, size, "device", label, "", self.next_serial(), WrittenBytes(size), device=device)
        reserved.freed, reserved.freed_where = True, UNBACKED
        self._reserved[pointer] = reserved
        return pointer

    def back(self, pointer: int) -> None:
        """Reserved addresses have memory from now on, whose contents nobody has written. Raises `OutOfMemory`."""
        allocation = self._reserved[pointer]
        self._check_capacity(allocation.size)
        offset = pointer - self.arena.base
        self.arena.commit(offset, allocation.size)
        self.arena.unpoison(offset, allocation.size)
        allocation.freed, allocation.freed_where = False, ""
        allocation.written = WrittenBytes(allocation.size)
        self._comes(allocation)

    def give_up(self, pointer: int) -> None:
        """Reserved addresses that have no memory may belong to others from now on."""
        self._freed.append(self._reserved.pop(pointer))

    def reserved_at(self, address: int) -> Allocation | None:
        """The reservation that holds `address`, with memory or without; None when there is none."""
        return next((a for a in self._reserved.values() if a.pointer <= address < a.end), None)

    @property
    def stack_limit(self) -> int:
        """That of the device whose kernel runs."""
        return self.stack_limits.get(self._device, 1024)

    @contextmanager
    def seen_by(self, device: int, reached: Collection[int]) -> Iterator[None]:
        """Within the block a kernel of `device` runs, which reaches the memory of the devices `reached` besides its
        own and the host's."""
        others = [a.pointer for a in self._live.values() if not a.reached_by(device, reached)]
        before, self._device = self._device, device
        try:
            with self.set_aside(others, NO_ACCESS) if others else nullcontext():
                yield
        finally:
            self._device = before

    def in_use_on(self, device: int) -> int:
        """Bytes of one device that are in use."""
        mine = (a.size for a in self._live.values() if a.device == device and a.kind != "pinned")
        return sum(mine)

    @contextmanager
    def set_aside(self, pointers: Iterable[int], why: str) -> Iterator[None]:
        """Within the block, treat the allocations at `pointers` as freed: a memory pool holds them, but no array
        does."""
        aside = [self._live[pointer] for pointer in pointers if pointer in self._live]
        freed = self._freed
        self._freed = deque([*freed, *aside])
        self.version += 1
        for allocation in aside:
            allocation.freed_where = why
            del self._live[allocation.pointer]
            del self._starts[bisect_right(self._starts, allocation.pointer) - 1]
            self.arena.poison(allocation.pointer - self.arena.base, allocation.size)
        try:
            yield
        finally:
            self._freed = freed
            self.version += 1
            for allocation in aside:
                allocation.freed_where = ""
                self._starts.insert(bisect_right(self._starts, allocation.pointer), allocation.pointer)
                self._live[allocation.pointer] = allocation
                self.arena.unpoison(allocation.pointer - self.arena.base, allocation.size)

    def free_all(self, device: int | None = None) -> None:
        """Free everything, or everything of one of several devices, as a device reset does."""
        for pointer in list(self._starts):
            if device is None or self._live[pointer].device == device:
                self.free(pointer, where="device reset")
        if device is not None:
            return
        self._reserved.clear()
        self.heap.clear()
        self.images.clear()
        self._ranges = []
        self._rebuild_ranges()

    def _check_capacity(self, size: int) -> None:
        if self.in_use + size > self.capacity:
            what = "the limit is" if self._fixed_capacity else "the limit, half of the host memory that was free, is"
            raise OutOfMemory(size, self.in_use, self.capacity, f"{what} {size_text(self.capacity)}")
        if size >= 64 << 20 and not self._fixed_capacity and size > (free := host_capacity.available()):
            raise OutOfMemory(size, self.in_use, self.capacity, f"the host has only {size_text(free)} free")

    def _place_at(self, pointer: int, size: int) -> int:
        """The offset of an address that was handed out before, or -1 when something lies there or beside it now."""
        index = bisect_right(self._starts, pointer)
        before = self._live[self._starts[index - 1]].end if index else self.arena.base
        after = self._starts[index] if index < len(self._starts) else self.arena.base + self._lap
        fits = before + MINIMUM_RED_ZONE <= pointer and pointer + size + MINIMUM_RED_ZONE <= after
        offset = pointer - self.arena.base
        return offset if fits and self._reserved_near(offset, size, MINIMUM_RED_ZONE) is None else -1

    def _reserved_near(self, offset: int, size: int, red_zone: int) -> Allocation | None:
        """A reservation that does not leave the red zones of an allocation at `offset` free."""
        start, end = self.arena.base + offset - red_zone, self.arena.base + offset + size + red_zone
        return next((a for a in self._reserved.values() if a.pointer < end and start < a.end), None)

    def _place(self, size: int) -> int:
        """Choose an offset: after the last one handed out, so that freed addresses stay in quarantine for long."""
        red_zone = max(MINIMUM_RED_ZONE, min(size, MAXIMUM_RED_ZONE))
        while True:
            for start in (self._cursor, MINIMUM_RED_ZONE):
                offset = self._first_fit(start, size, red_zone)
                if offset >= 0:
                    self._cursor = offset + size + red_zone
                    return offset
            if self._lap < self.arena.size:
                self._lap = min(2 * self._lap, self.arena.size)
            elif red_zone > MINIMUM_RED_ZONE:
                red_zone = MINIMUM_RED_ZONE  # a small arena: a narrow red zone is better than no memory
            else:
                raise OutOfMemory(size, self.in_use, self.capacity, "no range of addresses of that length is left")

    def _first_fit(self, start: int, size: int, red_zone: int) -> int:
        """The first offset from `start` with `red_zone` free bytes on both sides, or -1."""
        base = self.arena.base
        index, start = self._behind_live(start, red_zone)
        while True:
            offset = self._aligned(start, size)
            if offset + size + red_zone > self._lap:
                return -1
            if self._reserved and (taken := self._reserved_near(offset, size, red_zone)) is not None:
                index, start = self._behind_live(taken.end - base + red_zone, red_zone)
                continue
            if index == len(self._starts) or base + offset + size + red_zone <= self._starts[index]:
                return offset
            start = self._live[self._starts[index]].end - base + red_zone
            index += 1

    def _behind_live(self, start: int, red_zone: int) -> tuple[int, int]:
        """The number of live allocations that begin at or before an offset, and the first offset behind the last."""
        base = self.arena.base
        index = bisect_right(self._starts, base + start)
        if index:
            start = max(start, self._live[self._starts[index - 1]].end - base + red_zone)
        return index, start

    def _aligned(self, start: int, size: int) -> int:
        """Round up to a page (a huge one for large sizes) plus some hundred bytes that differ from one allocation
        to the next: arrays that all begin at a page would compete for the same sets of the host's cache."""
        unit = HUGE_PAGE if size >= HUGE_PAGE // 4 else PAGE
        return -(-start // unit) * unit + self._serial * 3 % 8 * _ALIGNMENT

    # -- lookup -----------------------------------------------------------------------------------------------------

    def find(self, address: int) -> Allocation | None:
        """The live allocation that holds `address`, or None."""
        index = bisect_right(self._starts, address)
        if index:
            allocation = self._live[self._starts[index - 1]]
            if address < allocation.pointer + allocation.size:
                return allocation if allocation.kind != "heap" else self.heap.find(allocation.pointer, address)
        return None

    def chunk_at(self, address: int) -> int | None:
        """The start of the device heap's chunk that holds `address`."""
        index = bisect_right(self._starts, address)
        if index:
            allocation = self._live[self._starts[index - 1]]
            if allocation.kind == "heap" and address < allocation.end:
                return allocation.pointer
        return None

    def chunks(self) -> list[Allocation]:
        """The pieces of device memory that the device heap hands out, whole."""
        return [allocation for allocation in self._live.values() if allocation.kind == "heap"]

    def __iter__(self) -> Iterator[Allocation]:
        """Live allocations by address."""
        for start in self._starts:
            allocation = self._live[start]
            if allocation.kind == "heap":
                yield from self.heap.inside(start)
            else:
                yield allocation

    def __len__(self) -> int:
        return len(self._starts)

    def next_serial(self) -> int:
        """Number a new allocation."""
        self._serial += 1
        return self._serial

    def explain(self, address: int, size: int = 1) -> AddressDescription:
        """Describe `address`: inside which allocation, freed, between which two, or no device memory at all."""
        inside = self.find(address)
        freed = None
        if inside is None:
            freed = next((a for a in reversed(self._freed) if a.pointer <= address < a.end), None)
            freed = freed or self.reserved_at(address)
        index = bisect_right(self._starts, address)
        before = self._live[self._starts[index - 1]] if index else None
        after = self._live[self._starts[index]] if index < len(self._starts) else None
        chunk = self.chunk_at(address)
        if chunk is not None:
            before, after = self.heap.neighbours(chunk, address)
            freed = freed or (self.heap.freed_at(address) if inside is None else None)
        outside = not self.arena.base <= address < self.arena.base + self.arena.size
        former = outside and any(start <= address < end for start, end in self.former)
        return AddressDescription(
            address,
            size,
            inside=inside,
            freed=freed,
            before=before if before is not inside else None,
            after=after,
            is_host=outside and not former and is_mapped(address),
            is_former=former,
            is_shared_window=SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_SIZE,
            is_local_window=LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW_SIZE,
        )

    # -- host access ------------------------------------------------------------------------------------------------

    def view(self, address: int, size: int, *, write: bool = True) -> memoryview:
        """The bytes ``address … address + size`` of one live allocation, without a copy.

        With ``write=True`` (the default) they count as written from now on; pass False when you only read.

        Raises:
            InvalidPointer: the range does not lie in one live allocation.
        """
        return self.array(address, size, write=write).data

    def array(self, address: int, count: int, dtype: object = np.uint8, *, write: bool = True) -> np.ndarray:
        """Like :meth:`view`, as a flat NumPy array of `count` elements; it stays valid after a free (reads zeros)."""
        element = _BYTE if dtype is np.uint8 else np.dtype(dtype)  # type: ignore[call-overload]
        size = count * element.itemsize
        allocation = self.find(address)
        if allocation is None or address + size > allocation.end:
            if size == 0:
                return np.empty(0, element)
            raise InvalidPointer(self.explain(address, size).why_not_viewed(bool(self.former)))
        if write:
            allocation.written.mark(address - allocation.pointer, size)
        offset = address - self.arena.base
        found = self.arena.bytes[offset : offset + size]
        return found if element is _BYTE else found.view(element)

    def mark_written(self, address: int, size: int) -> None:
        """Note that bytes were written by something other than a kernel (a copy, a memset)."""
        allocation = self.find(address)
        if allocation is not None:
            allocation.written.mark(address - allocation.pointer, size)

    def clear(self, address: int, size: int) -> None:
        """Set `size` bytes of one live allocation to zero; they count as written.

        Raises:
            InvalidPointer: the range does not lie in one live allocation.
        """
        self.array(address, size)
        self.arena.clear(address - self.arena.base, size)

    def fill(self, address: int, size: int, element: np.ndarray) -> None:
        """Set `size` bytes of one live allocation to ``element``, a number, over and over, as :meth:`clear` does."""
        self.array(address, size)
        allocation = self.find(address)
        alone = allocation is not None and allocation.kind == "device"  # the host reaches the others' pages, too
        self.arena.fill(address - self.arena.base, size, element, repeated=alone)

    def forget_written(self, address: int) -> None:
        """Count an allocation as unwritten: a memory pool hands it to another owner, who must not rely on its
        contents."""
        allocation = self.find(address)
        if allocation is not None and allocation.kind == "device":
            allocation.written = WrittenBytes(allocation.size)

    # -- registered host memory -------------------------------------------------------------------------------------

    def register(self, pointer: int, size: int) -> None:
        """Let kernels reach `size` bytes of host memory at `pointer` (cudaHostRegister).

        Raises:
            ValueError: the range overlaps one that is registered already.
        """
        for base, length in self._ranges:
            if pointer < base + length and base < pointer + size:
                raise ValueError(f"host memory at {pointer:#x} is already registered ({length} bytes at {base:#x})")
        self._ranges.append((pointer, size))
        self._rebuild_ranges()

    def unregister(self, pointer: int) -> None:
        """Take a registration back.

        Raises:
            InvalidPointer: `pointer` is not the start of registered memory.
        """
        kept = [entry for entry in self._ranges if entry[0] != pointer]
        if len(kept) == len(self._ranges):
            raise InvalidPointer(f"host memory at {pointer:#x} is not registered")
        self._ranges = kept
        self._rebuild_ranges()

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Registered host memory as (address, bytes)."""
        return self._ranges

    def find_range(self, address: int) -> tuple[int, int]:
        """The registered host memory that holds `address`, as (address, bytes); (0, 0) when none does."""
        for base, length in self._ranges:
            if base <= address < base + length:
                return base, length
        return 0, 0

    def _rebuild_ranges(self) -> None:
        self.version += 1
        self.range_table = (
            (Range * len(self._ranges))(*(Range(*entry) for entry in self._ranges)) if self._ranges else None
        )
        self.range_address = ctypes.addressof(self.range_table) if self.range_table is not None else 0


assert _ALIGNMENT % GRANULE == 0, "a granule must belong to one allocation"
