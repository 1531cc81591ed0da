"""Shadow cells: the last access to each granule of memory, as sanitized code keeps it, and what it noted.

As in ThreadSanitizer, a shadow word stands for a few bytes of application memory and holds the thread, time and kind of
the last access; ``compiler/codegen/shadow_cells.py`` describes it. The cells of device memory lie in a map beside the
arena, one for each granule size, and stay from one launch to the next: times only increase, so a cell of an earlier
launch is as good as empty. Physical memory is taken only for what launches write.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.sim.abi import Fault, Race, Range, SiteKind, SkippedAccess, Suspect
from cudalab.sim.machine.memory import arena as arenas
from cudalab.sim.machine.shadow_memory.event_buffer import EventBuffer
from cudalab.sim.machine.shadow_memory.undefined_values import FollowedValues

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.module import LoadedKernel
    from cudalab.sim.machine.launch.workspace import Workspace
    from cudalab.sim.machine.memory.allocation import Allocation
    from cudalab.sim.machine.memory.allocations import Memory

SUSPECT = np.dtype(
    [("address", "<u8"), ("cell", "<u8"), ("block", "<u8"), ("site", "<u4"), ("thread", "<u2"), ("kind", "<u2")]
)
SKIPPED = np.dtype(
    [
        ("kind", "<u4"),
        ("site", "<u4"),
        ("block", "<u8"),
        ("thread", "<u4"),
        ("size", "<u4"),
        ("address", "<u8"),
        ("root", "<u8"),
        ("detail", "<u8"),
        ("extra", "<u8", 5),
    ]
)
assert SUSPECT.itemsize == ctypes.sizeof(Suspect)
assert SKIPPED.itemsize == ctypes.sizeof(SkippedAccess) == ctypes.sizeof(Fault)

MOST_SKIPPED = 1 << 20
"""Skipped accesses of one launch that are kept one by one; further ones are only counted."""
MOST_SUSPECTS = 1 << 18
_SMALLEST_MAP = 1 << 30
_LAST_TIME = 1 << 31
_KEPT = 256 << 20
"""Bytes of cells that one launch may have touched if they are to be kept for the next."""
_WRITES = 1 << SiteKind.STORE | 1 << SiteKind.ATOMIC
_WORD = (1 << 64) - 1


class ShadowCells:
    """The cells of one memory; one launch at a time."""

    def __init__(self) -> None:
        self._maps: dict[int, np.ndarray] = {}
        self._span = 0
        self._shared = np.zeros(0, np.uint64)
        self._time = 1
        self._touched = 0

    def reset(self) -> None:
        """Forget all cells."""
        self._maps, self._shared, self._time = {}, np.zeros(0, np.uint64), 1

    def _map(self, memory: Memory, shift: int) -> np.ndarray:
        extent = max(memory.arena.extent, 1)
        if extent > self._span:
            self._maps, self._span = {}, max(_SMALLEST_MAP, 1 << (extent - 1).bit_length())
        if shift not in self._maps:
            self._maps[shift] = _large_map((self._span >> shift) * 8)
        return self._maps[shift]

    def attach(self, kernel: LoadedKernel, space: Workspace) -> AttachedCells:
        """Let a prepared launch keep cells.

        Raises:
            MemoryError: no addresses are left for them.
        """
        if self._time > _LAST_TIME:
            self.reset()
        memory, described = kernel.module.memory, kernel.kernel
        try:
            cells = self._map(memory, described.cell_shift)
        except (OSError, ValueError, OverflowError) as error:
            raise MemoryError(f"no addresses are left for the sanitizer's shadow memory: {error}") from None
        shared = (space.context.shared_size >> described.shared_cell_shift) + 16
        if len(self._shared) < shared:
            self._shared = np.zeros(shared, np.uint64)
        return AttachedCells(self, kernel, space, cells, self._shared, self._time)

    def ended(self, time: int, touched: int) -> None:
        """A launch has ended at this time; ``touched``: bytes of cells that it may have changed."""
        self._time = time + 1
        self._touched += touched
        if self._touched > _KEPT:
            self._maps.clear()
            self._touched = 0


def _large_map(size: int) -> np.ndarray:
    """Zeros, in large pages where the system has them: cells are touched with the stride of what they stand for, twice
    as wide."""
    skew = 81 * 64  # or memory and cells would compete for the same sets of the host's cache
    raw = arenas.reserve(size + 2 * arenas.HUGE_PAGE + skew)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        owner: Any = raw
        while isinstance(owner, (np.ndarray, memoryview)):
            owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
        try:
            owner.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            pass  # advice only
    start = -arenas.address_of(raw) % arenas.HUGE_PAGE + skew
    return raw[start : start + size].view(np.uint64)


class AttachedCells:
    """One launch's view of the cells: ``context.race`` points here until :meth:`detach`."""

    def __init__(
        self,
        shadow: ShadowCells,
        kernel: LoadedKernel,
        space: Workspace,
        cells: np.ndarray,
        shared: np.ndarray,
        time: int,
    ) -> None:
        self._shadow, self._space = shadow, space
        self._keep: list[object] = [cells, shared]
        memory, described = kernel.module.memory, kernel.kernel
        self.race = race = Race()
        self.followed: FollowedValues | None = None
        start = arenas.address_of(cells)
        race.cells = (start - ((memory.arena.base >> described.cell_shift) << 3)) & _WORD
        race.shared_cells = arenas.address_of(shared)
        race.shift, race.shared_shift = described.cell_shift, described.shared_cell_shift
        race.time = race.launch_start = time + 1
        self._skipped, self._suspects = EventBuffer(SKIPPED, MOST_SKIPPED), EventBuffer(SUSPECT, MOST_SUSPECTS)
        self._skipped.attach(race.skipped)
        self._suspects.attach(race.suspects)
        sink = np.zeros(8192, np.uint8)
        self._keep.append(sink)
        race.sink = arenas.address_of(sink) + 2048
        self.written = written_allocations(kernel, space)
        """Allocations that the kernel may write, as far as its parameters tell."""
        self._touched = sum(a.size for a in self.written) * 8 >> described.cell_shift
        flags = self._flags(kernel, space)
        self._keep.append(flags)
        if self._writes_read_only(kernel, space):
            race.irregular = Race.READ_ONLY
        race.root_flags = arenas.address_of(flags)
        self._mark_unset(kernel, cells, time)
        if sys.platform == "win32":
            for allocation in memory:
                first = start + ((allocation.pointer - memory.arena.base) >> described.cell_shift) * 8
                arenas.commit(first, (allocation.size >> described.cell_shift) * 8 + 8)
        self.resume()

    def _flags(self, kernel: LoadedKernel, space: Workspace) -> np.ndarray:
        """For pointers of unknown origin, and each root: are accesses checked, and may bytes be unset?"""
        memory, described = kernel.module.memory, kernel.kernel
        wild = bool(described.other_kinds & _WRITES)
        written = {id(allocation) for allocation in self.written}
        flags = np.zeros(1 + len(kernel.root_plan), np.uint8)
        unset = any(not allocation.written.complete for allocation in memory)
        if described.other_kinds and (wild or written or unset):
            flags[0] = Race.ROOT_CHECKED | (Race.ROOT_UNSET if unset else 0)
        for index, (base, length) in enumerate(roots_of(space, len(kernel.root_plan))):
            allocation = memory.find(base) if length else None
            if allocation is None:
                continue
            if not allocation.written.complete:
                flags[1 + index] = Race.ROOT_CHECKED | Race.ROOT_UNSET
            elif wild or id(allocation) in written:
                flags[1 + index] = Race.ROOT_CHECKED
        return flags

    def _writes_read_only(self, kernel: LoadedKernel, space: Workspace) -> bool:
        """May the kernel write what it reads through the read-only data cache?"""
        described = kernel.kernel
        wild = bool(described.other_kinds & _WRITES)
        if not described.read_only_roots or not (wild or self.written):
            return False
        if wild or -1 in described.read_only_roots:
            return True
        roots = roots_of(space, len(kernel.root_plan))
        read = {id(kernel.module.memory.find(roots[index][0])) for index in described.read_only_roots}
        return any(id(allocation) in read for allocation in self.written)

    def _mark_unset(self, kernel: LoadedKernel, cells: np.ndarray, time: int) -> None:
        """Give native code the allocations that are not all written, and mark the cells of their written bytes."""
        memory, shift = kernel.module.memory, kernel.kernel.cell_shift
        unset = [allocation for allocation in memory if not allocation.written.complete]
        table = (Range * max(1, len(unset)))()
        value = np.uint64(time << Race.TIME_SHIFT | Race.SET)
        step = 1 << shift
        for entry, allocation in zip(table, unset, strict=False):
            entry.base, entry.length = allocation.pointer, allocation.size
            offset = allocation.pointer - memory.arena.base
            for first, end in allocation.written.intervals:
                cells[(offset + first + step - 1) >> shift : (offset + end) >> shift] = value
        self._keep.append(table)
        self.race.unset, self.race.unset_count = ctypes.addressof(table), len(unset)

    def follow_values(self, kernel: LoadedKernel, *, registers: bool, side_by_side: bool = False) -> None:
        """Let native code follow undefined values (:class:`FollowedValues`), if the kernel gives any."""
        if not kernel.kernel.undefined_words:
            return
        context = self._space.context
        resident = math.prod(context.grid) if side_by_side else 1
        self.followed = FollowedValues(kernel.kernel, context, registers=registers, resident=resident)
        self.followed.attach(self.race)

    def resume(self) -> None:
        """Attach to the context again after it was laid out anew."""
        self._space.context.race = ctypes.addressof(self.race)
        if self.followed is not None:
            self.followed.begin_block()

    @property
    def suspects(self) -> np.ndarray:
        """Accesses that may be races, or reads of unwritten bytes."""
        return self._suspects.entries(self.race.suspects)

    @property
    def skipped(self) -> np.ndarray:
        """Invalid accesses that were skipped, in order."""
        return self._skipped.entries(self.race.skipped)

    @property
    def lost(self) -> int:
        """Skipped accesses that were only counted."""
        return int(self.race.skipped.lost)

    @property
    def complete(self) -> bool:
        """Were all suspects kept?"""
        return not self.race.suspects.lost

    @property
    def irregular(self) -> int:
        """What has to be looked at again although no access is a suspect: bits of ``Race.irregular``."""
        return int(self.race.irregular)

    def detach(self) -> None:
        self._space.context.race = 0
        self._shadow.ended(int(self.race.time), self._touched)


def roots_of(space: Workspace, count: int) -> list[tuple[int, int]]:
    """Start and length of each root, as the launch was prepared."""
    words = np.frombuffer(space.roots.bytes[: 16 * count].tobytes(), "<u8").reshape(-1, 2)
    return [(int(base), int(length)) for base, length in words]


def written_allocations(kernel: LoadedKernel, space: Workspace) -> list[Allocation]:
    """The allocations that the kernel may write through its roots."""
    found: dict[int, Allocation] = {}
    memory = kernel.module.memory
    for kinds, (base, length) in zip(kernel.kernel.root_kinds, roots_of(space, len(kernel.root_plan)), strict=False):
        allocation = memory.find(base) if length and kinds & _WRITES else None
        if allocation is not None:
            found[allocation.pointer] = allocation
    return list(found.values())


_shadows: weakref.WeakKeyDictionary[Memory, ShadowCells] = weakref.WeakKeyDictionary()


def shadow_cells_of(memory: Memory) -> ShadowCells:
    """The shadow cells of a memory; made when first asked for."""
    found = _shadows.get(memory)
    if found is None:
        found = _shadows[memory] = ShadowCells()
    return found


_MOST_SPARE = 64 << 20
_spare: list[np.ndarray] = []
"""A buffer of an earlier launch: touching new memory costs more than the copying."""


class SavedAllocations:
    """Copies of the allocations that a launch may write, to be restored after it."""

    def __init__(self, memory: Memory, allocations: list[Allocation]) -> None:
        self._memory, self._allocations = memory, allocations
        size = sum(allocation.size for allocation in allocations)
        buffer = _spare.pop() if _spare else np.empty(0, np.uint8)
        self._buffer = buffer if len(buffer) >= size else np.empty(size, np.uint8)
        for part, now in self._parts():
            part[:] = now

    def _parts(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each allocation: the saved bytes, and the memory."""
        start = 0
        for allocation in self._allocations:
            now = np.frombuffer(self._memory.view(allocation.pointer, allocation.size, write=False), np.uint8)
            yield self._buffer[start : start + allocation.size], now
            start += allocation.size

    def restore(self) -> None:
        """Write the saved bytes back, once; the copies are released."""
        for part, now in self._parts():
            now[:] = part
        if len(self._buffer) <= _MOST_SPARE and not _spare:
            _spare.append(self._buffer)
        self._buffer = np.empty(0, np.uint8)
        self._allocations = []
