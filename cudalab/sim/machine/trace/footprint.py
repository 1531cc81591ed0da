"""Memory footprint of a launch: exactly which bytes of device memory it read, wrote, and updated by atomics.

A GPU does not record this. Here a launch runs *footprint* code on request, which marks every access in maps of the
device's memory (``compiler/codegen/footprint_marks.py``); when it has ended the maps are read and cleared. Footprint
code takes at most about twice as long as plain code; it is generated when it is first needed.

Covered are global and constant memory, also through generic pointers, and registered host memory. Shared and local
memory belong to one block or thread, parameters to one launch. An atomic counts as one even when it changes nothing
(a compare-and-swap that fails). The footprint includes accesses before a fault or the time limit stopped the launch. It
does not include strings that ``printf`` prints, which the host reads.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from cudalab.sim.abi import MARK_CHUNK_SHIFT, MarkRegion, MarkRow
from cudalab.sim.abi import Marks as MarksTable
from cudalab.sim.machine.memory import arena as arenas

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.module import LoadedKernel
    from cudalab.sim.machine.launch.workspace import Workspace
    from cudalab.sim.machine.memory.allocations import Memory

_KINDS = 3  # loads, stores, atomics
_CHUNK = 1 << MARK_CHUNK_SHIFT
_SMALLEST_MAP = 1 << 30
_KEPT = 48 << 20
"""Bytes of maps that launches may have touched, all together, if they are to be kept for the next."""
_SMALL = 4 << 20
"""Bytes of maps that launches may have touched if they are to be kept while none is expected soon."""
_RUNS_EXPECTED = 512
_RUNS_KEPT = 1 << 16
_SKEW = 81 * 64
"""Bytes by which the maps are shifted against the memory, or strided accesses and their marks would compete for the
same sets of the host's cache."""
_ROW, _REGION = struct.Struct("<6Q"), struct.Struct("<5Q")
_WORD = (1 << 64) - 1
assert (_ROW.size, _REGION.size) == (ctypes.sizeof(MarkRow), ctypes.sizeof(MarkRegion))

Runs = tuple[tuple[int, int], ...]


class Footprint(Struct, frozen=True, eq=False, dict=True):
    """The bytes that a launch accessed.

    The arrays have one row a run: address and bytes, ``uint64``, sorted by address; runs of one kind neither overlap
    nor touch, unless they belong to different allocations. A byte may be in several kinds. An interleaved access gives
    as many runs as it has gaps, so the arrays can be long; the tuples hold the same as Python integers.
    """

    read_runs: np.ndarray
    write_runs: np.ndarray
    atomic_runs: np.ndarray

    @cached_property
    def reads(self) -> Runs:
        """``(address, bytes)`` of what it loaded."""
        return _as_tuples(self.read_runs)

    @cached_property
    def writes(self) -> Runs:
        """``(address, bytes)`` of what it stored, atomics not included."""
        return _as_tuples(self.write_runs)

    @cached_property
    def atomics(self) -> Runs:
        """``(address, bytes)`` of what its atomics read and changed."""
        return _as_tuples(self.atomic_runs)


def _as_tuples(runs: np.ndarray) -> Runs:
    return tuple(map(tuple, runs.tolist()))


def variant_for(workers: int, hold_stores: bool = False) -> str:
    """The variant of native code that a launch with a footprint runs."""
    return "traced" if hold_stores else "footprint_atomic" if workers > 1 else "footprint"


def prepare(kernel: LoadedKernel, workers: int = 1) -> None:
    """Start making a kernel's footprint code in the background, unless it is there."""
    from cudalab.sim.compiler import prefetch

    prefetch(kernel.module.program, (variant_for(workers),))


def is_ready(kernel: LoadedKernel, workers: int = 1) -> bool:
    """Can a launch with a footprint start without waiting for the compiler?"""
    return variant_for(workers) in kernel.module.program.objects


class Marks:
    """The maps of one memory, for one launch at a time. Get one by :func:`borrow`."""

    def __init__(self, span: int) -> None:
        self.span = max(_SMALLEST_MAP, 1 << (span - 1).bit_length())
        self._maps = arenas.reserve(_KINDS * (self.span + _SKEW) + (self.span >> MARK_CHUNK_SHIFT))
        self._start = arenas.address_of(self._maps)
        self._tables: list[MarksTable] = []
        self._rows: list[ctypes.Array[ctypes.c_char]] = []
        self._counts = (ctypes.c_uint64 * _KINDS)()
        self._out = np.empty((_RUNS_EXPECTED, 2), np.uint64)
        self._regions = b""
        self._coarse = False
        self.touched = 0
        """Bytes that launches have used so far."""
        self._kernel: LoadedKernel | None = None
        self._roots: list[tuple[int, int]] = []
        self._code: _Code | None = None

    # -- before the launch

    def attach(self, kernel: LoadedKernel, variant: str, spaces: Sequence[Workspace]) -> None:
        """Let the contexts of a prepared launch mark what they touch."""
        memory = kernel.module.memory
        shift = kernel.kernel.mark_shift
        self._kernel, self._code = kernel, _code(kernel, variant)
        self._roots = _roots(spaces[0], len(kernel.root_plan))
        self._coarse = variant == "traced" or kernel.kernel.other_kinds != 0
        arena_row = self._pointers(memory.arena.base, 0, shift)
        of_range = self._range_pointers(memory, shift) if memory.ranges else {}
        rows = [_ROW.pack(*arena_row, 0, 0)]
        rows += [_ROW.pack(*of_range.get(base, arena_row), base, 0) for base, _ in self._roots]
        rows += [_ROW.pack(*pointers, 0, 0) for pointers in of_range.values()]
        text = b"".join(rows)
        self._tables, self._rows = [], []
        for space in spaces:
            own = ctypes.create_string_buffer(text, len(text))
            start = ctypes.addressof(own)
            table = MarksTable(start, start + _ROW.size * (1 + len(self._roots)), shift)
            space.context.marks = ctypes.addressof(table)
            self._tables.append(table)
            self._rows.append(own)
        if sys.platform == "win32":
            self._commit(shift)

    def _pointers(self, low: int, position: int, shift: int) -> tuple[int, ...]:
        """The maps' pointers for memory at ``low`` (aligned to a chunk) whose marks begin ``position`` bytes into them,
        such that addresses of that memory can be used as indices."""
        marks = (position >> shift) - (low >> shift)
        chunks = (position >> MARK_CHUNK_SHIFT) - (low >> MARK_CHUNK_SHIFT)
        fine = [self._start + kind * self.span + (kind + 1) * _SKEW + marks for kind in range(_KINDS)]
        return tuple(value & _WORD for value in (*fine, self._start + _KINDS * (self.span + _SKEW) + chunks))

    def _range_pointers(self, memory: Memory, shift: int) -> dict[int, tuple[int, ...]]:
        """Those of registered host memory, by its start. Its marks lie behind those of the arena."""
        found = {}
        position = memory.arena.extent
        for base, size in memory.ranges:
            found[base] = self._pointers(base // _CHUNK * _CHUNK, position, shift)
            position += _range_span(size)
        return found

    def _commit(self, shift: int) -> None:
        """Windows gives pages to a reserved range only when asked to."""
        for start, size, row, _, _ in _REGION.iter_unpack(self._find_regions(whole=True)):
            *fine, coarse, _, _ = _ROW.unpack(ctypes.string_at(row, _ROW.size))
            for pointer, bits in (*((pointer, shift) for pointer in fine), (coarse, MARK_CHUNK_SHIFT)):
                arenas.commit(pointer + (start >> bits) & _WORD, (size >> bits) + 2)

    # -- after it

    def _find_regions(self, whole: bool = False) -> bytes:
        """What has to be looked at: the hulls of the roots, or every allocation where any can have been reached."""
        assert self._kernel is not None
        kernel, memory = self._kernel.kernel, self._kernel.module.memory
        first_row = self._tables[0].rows
        kinds_of = dict.fromkeys(range(len(self._roots)), 7) if whole else dict(enumerate(kernel.root_kinds))
        hulls: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        for rows in self._rows:
            words = struct.unpack_from(f"<{6 * len(self._roots)}Q", rows, _ROW.size)
            for index, root in enumerate(self._roots):
                start, length = root if whole else words[6 * index + 4 : 6 * index + 6]
                if length:
                    low, high, row, kinds = hulls.get(root, (_WORD, 0, first_row + _ROW.size * (1 + index), 0))
                    hulls[root] = (min(low, start), max(high, start + length), row, kinds | kinds_of[index])
        if not self._coarse and not whole:
            found = [(low, high - low, row, kinds, 0) for low, high, row, kinds in hulls.values()]
        else:
            for low, high, row, _ in hulls.values():
                if not whole:
                    self._note_chunks(row, low, high)
            found = [(allocation.pointer, allocation.size, first_row, 7, 1) for allocation in memory]
            range_row = self._tables[0].range_rows
            found += [(start, size, range_row + _ROW.size * i, 7, 1) for i, (start, size) in enumerate(memory.ranges)]
        return b"".join(_REGION.pack(*region) for region in sorted(found))

    def _note_chunks(self, row: int, low: int, high: int) -> None:
        """Enter the hull of a root into the coarse map."""
        coarse = _ROW.unpack(ctypes.string_at(row, _ROW.size))[3]
        first, last = low >> MARK_CHUNK_SHIFT, (high - 1) >> MARK_CHUNK_SHIFT
        ctypes.memset(coarse + first & _WORD, 1, last - first + 1)

    def collect(self) -> Footprint:
        """What was marked; the maps stay as they are."""
        assert self._code is not None
        regions = self._regions = self._find_regions()
        count = len(regions) // _REGION.size
        table, counts = ctypes.addressof(self._tables[0]), ctypes.addressof(self._counts)
        while True:
            out = self._out
            total = self._code.runs(table, regions, count, counts, arenas.address_of(out), len(out))
            if total <= len(out):
                break
            self._out = np.empty((total, 2), np.uint64)
        loads, stores, _ = self._counts
        found = Footprint(out[:loads].copy(), out[loads : loads + stores].copy(), out[loads + stores : total].copy())
        if total > _RUNS_KEPT:
            self._out = np.empty((_RUNS_EXPECTED, 2), np.uint64)
        return found

    def clear(self) -> bool:
        """Take all marks away. Returns whether the maps are small enough to be kept."""
        if self._code is None:
            return True
        regions = self._regions or self._find_regions()
        self._regions = b""
        table = ctypes.addressof(self._tables[0])
        wiped: int = self._code.clear(table, regions, len(regions) // _REGION.size)
        self._code = self._kernel = None
        self.touched += wiped
        return self.touched <= _KEPT


class _Code(Struct, frozen=True):
    """The functions of the runtime object that read and wipe maps."""

    runs: Callable[..., int]
    clear: Callable[..., int]


_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_uint64
_RUNS = ctypes.CFUNCTYPE(_NUMBER, _POINTER, ctypes.c_char_p, _NUMBER, _POINTER, _POINTER, _NUMBER)
_CLEAR = ctypes.CFUNCTYPE(_NUMBER, _POINTER, ctypes.c_char_p, _NUMBER)


def _code(kernel: LoadedKernel, variant: str) -> _Code:
    native = kernel.module.native(variant)
    return _functions(native.address("cl_footprint_runs"), native.address("cl_footprint_clear"))


@cache
def _functions(runs: int, clear: int) -> _Code:
    return _Code(_RUNS(runs), _CLEAR(clear))


def _roots(space: Workspace, count: int) -> list[tuple[int, int]]:
    """Start and length of each root, as the launch was prepared."""
    words = struct.unpack_from(f"<{2 * count}Q", space.roots.bytes)  # type: ignore[arg-type]
    return list(zip(words[::2], words[1::2], strict=True))


def _range_span(size: int) -> int:
    """Bytes of map that registered memory takes, wherever it begins in its first chunk."""
    return (size // _CHUNK + 3) * _CHUNK


_idle: weakref.WeakKeyDictionary[Memory, list[Marks]] = weakref.WeakKeyDictionary()
_abandoned: list[Marks] = []


def borrow(memory: Memory) -> Marks:
    """Empty maps that cover a memory.

    Raises:
        MemoryError: the system gives no addresses for them.
    """
    needed = memory.arena.extent + sum(_range_span(size) for _, size in memory.ranges)
    idle = _idle.setdefault(memory, [])
    while idle:
        marks = idle.pop()
        if marks.span >= needed:
            return marks
    try:
        return Marks(max(needed, _CHUNK))
    except (OSError, ValueError, OverflowError) as error:
        raise MemoryError(
            f"no addresses are left for the maps of a footprint ({_KINDS * needed >> 20} MiB): {error}"
        ) from None


def wipe(memory: Memory, marks: Marks) -> None:
    """Take the marks of a launch that has ended away and keep the maps for the next one, unless they are too large."""
    idle = _idle.setdefault(memory, [])
    if marks.clear() and len(idle) < 2:
        idle.append(marks)


def forget_large(memory: Memory) -> None:
    """Give idle maps that take much memory back to the system; they come anew when they are needed."""
    if memory in _idle:
        _idle[memory] = [marks for marks in _idle[memory] if marks.touched <= _SMALL]


def abandon(marks: Marks) -> None:
    """Native code that did not stop still writes to these maps, so they must stay."""
    _abandoned.append(marks)
