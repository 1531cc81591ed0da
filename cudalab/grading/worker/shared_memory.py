"""Memory that the answer can touch without a call, shared with the worker through a file that both map.

The device never works on the file. Whenever the worker sends a message, its bytes are compared with those that were
last seen there: what differs, the host has written since, and it is taken over into the device's memory as such, in one
copy that the worker cannot change any more. Before each message to the worker the device's memory is put into the file.

What an operation writes that the host is not ordered after is held back until it is. An answer that reads too early
reads what was there before, as it may on a GPU; it cannot profit from a wait that it has left out. And a write to what
an operation is using is a hazard, as it is where the answer runs in the grader's process.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from cuda.bindings.runtime import cudaError_t

from cudalab.grading.worker.messages import Placement
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.hazards.host import Shared
from cudalab.sim.machine.memory import host_watch

if TYPE_CHECKING:
    from cudalab.sim.device.caller import Place
    from cudalab.sim.device.device import Device

Written = list[tuple[int, bytes]]
"""Addresses in the worker, and the bytes that are there now."""

SIZE = 64 << 20
"""Bytes of page-locked and managed memory that one case may have."""
WINDOW = 0x2000_0000_0000
"""Where the worker has arrays of the grader that are not the device's; nothing else lies there."""
PAGE = 4096
_SEALS = 0x1 | 0x2 | 0x4  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW
_ADD_SEALS = 1033
_KINDS = ("pinned", "managed")
_NEAR = 64
"""Changed bytes that are no further apart count as one write."""


class Witness(Protocol):
    """Is told who writes to shared memory without a call."""

    def host_wrote(self, address: int, offsets: np.ndarray, line: int) -> None:
        """The answer has changed these bytes behind ``address``, at the latest in that line."""

    def exercise_runs(self, memory: Sequence[tuple[int, np.ndarray]]) -> AbstractContextManager[None]:
        """Within it a function of the exercise runs, which may write to this memory: addresses and bytes."""


@dataclass(eq=False)
class Slot:
    """One piece of shared memory."""

    address: int
    """Where the worker has it."""
    local: np.ndarray
    """Where the grader has it, as bytes."""
    offset: int
    """Of its first page in the file."""
    placement: Placement
    owner: Any = None
    """Keeps the grader's memory alive."""
    known: np.ndarray | None = None
    """What was last in the file; None before the worker has it."""
    base: int = field(init=False)
    """The grader's address."""

    def __post_init__(self) -> None:
        self.base = self.local.ctypes.data

    @property
    def size(self) -> int:
        return self.local.size

    @property
    def start(self) -> int:
        """Of its first byte in the file."""
        return self.offset + self.address % PAGE


class SharedMemory:
    """The shared file, and what lies in it in the present case."""

    def __init__(self) -> None:
        self.file = os.memfd_create("cudalab shared memory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.file, SIZE)
        import fcntl

        fcntl.fcntl(self.file, _ADD_SEALS, _SEALS)
        self.given = hashlib.blake2b(digest_size=16)
        """Of all that the worker was shown."""
        self._map = mmap.mmap(self.file, SIZE)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._slots: dict[int, Slot] = {}
        self._free: dict[int, list[int]] = {}
        self._used = 0
        self._device: Device | None = None
        self._version = -1

    def bind(self, device: Device, witness: Witness) -> None:
        """A new case begins, with a device that nobody has shared memory of."""
        self._device, self._version = device, -1
        self._witness = witness
        self._slots.clear()
        self._free.clear()
        self._used = 0

    def close(self) -> None:
        self._slots.clear()
        os.close(self.file)

    # -- what is shared ------------------------------------------------------------------------------------------------

    def check_room(self, size: int) -> None:
        """Raise ``cudaErrorMemoryAllocation`` where that much cannot be shared."""
        pages = _pages(0, size) + PAGE
        if self._used + pages > SIZE and not self._free.get(pages):
            raise CudaError(
                cudaError_t.cudaErrorMemoryAllocation,
                f"{size} bytes: while grading, page-locked and managed memory is limited to {SIZE >> 20} MB",
            )

    def adopt(self, array: np.ndarray) -> int:
        """Share an array of the grader's that is not in the device's memory; returns its address in the worker."""
        low, high = np.lib.array_utils.byte_bounds(array)
        for slot in self._slots.values():
            if slot.base <= low and high <= slot.base + slot.size:
                return slot.address + array.ctypes.data - slot.base
        offset = self._place(_pages(0, high - low))
        slot = self._add(WINDOW + offset, _bytes_at(low, high - low, array), offset, owner=array)
        return slot.address + array.ctypes.data - low

    def register(self, address: int, data: np.ndarray) -> None:
        """The worker page-locks memory of its own, with these bytes, which is shared from now on."""
        self.check_room(data.size)
        memory = np.zeros(data.size + PAGE, np.uint8)
        skip = (address - memory.ctypes.data) % PAGE
        memory[skip : skip + data.size] = data
        offset = self._place(_pages(address, data.size))
        self._add(address, memory[skip : skip + data.size], offset, owner=memory, over=True)

    def find(self, address: int, size: int) -> Slot | None:
        """The slot that holds these bytes of the worker."""
        for slot in self._slots.values():
            if slot.address <= address and address + size <= slot.address + slot.size:
                return slot
        return None

    def here(self, address: int) -> int | None:
        """The grader's address for one of the worker's; one past the end belongs to its slot."""
        for slot in self._slots.values():
            if slot.address <= address <= slot.address + slot.size:
                return slot.base + address - slot.address
        return None

    def there(self, address: int) -> int | None:
        """The opposite."""
        for slot in self._slots.values():
            if slot.base <= address <= slot.base + slot.size:
                return slot.address + address - slot.base
        return None

    @property
    def moved(self) -> bool:
        """Do addresses of the worker differ from the grader's anywhere?"""
        return any(slot.address != slot.base for slot in self._slots.values())

    def _add(self, address: int, local: np.ndarray, offset: int, *, owner: Any = None, over: bool = False) -> Slot:
        slot = Slot(address, local, offset, Placement(address, local.size, offset, over), owner)
        self._slots[address] = slot
        return slot

    def _place(self, size: int) -> int:
        free = self._free.get(size)
        if free:
            return free.pop()
        if self._used + size > SIZE:
            self.check_room(SIZE)
        self._used += size
        return self._used - size

    def _refresh(self) -> None:
        """Follow what was allocated and freed."""
        assert self._device is not None
        memory = self._device.memory
        if memory.version == self._version:
            return
        self._version = memory.version
        live = {one.pointer: one for one in memory if one.kind in _KINDS}
        for address, slot in list(self._slots.items()):
            if slot.owner is None and address not in live:
                self._free.setdefault(_pages(address, slot.size), []).append(slot.offset)
                del self._slots[address]
        for address, one in live.items():
            if address not in self._slots:
                offset = self._place(_pages(address, one.size))
                self._add(address, memory.array(address, one.size, write=False), offset)

    # -- at each message -----------------------------------------------------------------------------------------------

    def take(self, place: Place) -> Written:
        """The worker has sent a message: take over what the host has written, at the latest in the line ``place``;
        returns it."""
        written: Written = []
        if self._device is None:
            return written
        with host_watch.paused():
            self._refresh()
            for slot in self._slots.values():
                seen = slot.known
                if seen is None or np.array_equal(self._bytes[slot.start : slot.start + slot.size], seen):
                    continue
                now = self._bytes[slot.start : slot.start + slot.size].copy()
                changed = np.flatnonzero(now != seen)
                slot.known = now
                for first, last in _stretches(changed):
                    written.append((slot.address + first, now[first : last + 1].tobytes()))
                self._report(slot, changed, place)
                self._witness.host_wrote(slot.base, changed, place.line)
                if slot.local.flags.writeable:
                    slot.local[changed] = now[changed]
        return written

    def put(self, written: Written) -> None:
        """Write to shared memory what a worker had written there. Its addresses are those of the present case."""
        for address, data in written:
            slot = self.find(address, len(data))
            if slot is not None:
                start = slot.start + address - slot.address
                self._bytes[start : start + len(data)] = np.frombuffer(data, np.uint8)

    def exercise_runs(self) -> AbstractContextManager[None]:
        """Within it a function of the exercise runs: what it writes here is the exercise's."""
        return self._witness.exercise_runs([(slot.base, slot.local) for slot in self._slots.values()])

    def give(self) -> list[Placement]:
        """The worker is about to get a message: show it what it may see, and say where it is to map new memory."""
        if self._device is None:
            return []
        new = []
        with host_watch.paused():
            self._refresh()
            report = self._device.hazard_report
            hidden = [part for part in report.off_limits if part.written] if report is not None else []
            for slot in self._slots.values():
                if slot.known is None:
                    new.append(slot.placement)
                    slot.known = slot.local.copy()
                    self._show(slot, slice(0, slot.size))
                    continue
                for begin, end in _without(slot.base, slot.base + slot.size, hidden):
                    part = slice(begin - slot.base, end - slot.base)
                    if not np.array_equal(slot.local[part], slot.known[part]):
                        slot.known[part] = slot.local[part]
                        self._show(slot, part)
        return new

    def _show(self, slot: Slot, part: slice) -> None:
        """Put bytes of a slot into the file."""
        assert slot.known is not None
        self._bytes[slot.start + part.start : slot.start + part.stop] = slot.known[part]
        self.given.update(f"{slot.address + part.start}-{slot.address + part.stop}".encode())
        self.given.update(slot.known[part].tobytes())

    def _report(self, slot: Slot, changed: np.ndarray, place: Place) -> None:
        """The host has written these bytes: a hazard where an operation uses them."""
        assert self._device is not None
        report = self._device.hazard_report
        if report is None:
            return
        stretches = [(slot.base + first, slot.base + last) for first, last in _stretches(changed)]
        for part in report.off_limits:
            for low, high in stretches:
                address, end = max(low, part.start), min(high + 1, part.end)
                while address < end:  # once for each page, as where pages are watched
                    with self._device.state.lock:
                        report.host_touched(address, True, place)
                    address = (address // PAGE + 1) * PAGE


def _stretches(changed: np.ndarray) -> list[tuple[int, int]]:
    """The first and the last of each group of changed bytes."""
    cuts = np.flatnonzero(np.diff(changed) > _NEAR)
    first, last = changed[np.concatenate([[0], cuts + 1])], changed[np.concatenate([cuts, [changed.size - 1]])]
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _pages(address: int, size: int) -> int:
    """Bytes of the pages that hold a range."""
    return -(-(address % PAGE + size) // PAGE) * PAGE


def _bytes_at(address: int, size: int, like: np.ndarray) -> np.ndarray:
    """Memory of this process as bytes, writable where ``like`` is."""
    buffer = (ctypes.c_ubyte * size).from_address(address)
    found: np.ndarray = np.ctypeslib.as_array(buffer)
    found.flags.writeable = like.flags.writeable
    return found


def _without(start: int, end: int, hidden: list[Shared]) -> list[tuple[int, int]]:
    """What is left of a range."""
    pieces = [(start, end)]
    for part in hidden:
        pieces = [
            piece
            for low, high in pieces
            for piece in ((low, min(high, part.start)), (max(low, part.end), high))
            if piece[0] < piece[1]
        ]
    return pieces
