"""When an operation's effect on memory becomes visible.

On a GPU an operation reads memory while it runs, and its plain stores are sure to be seen by others only when it has
ended. A program that forgets a wait therefore sees old data, sometimes. Here it always does, deterministically: an
operation works on memory as it is at its modelled start, and its stores become visible at its modelled end.

Doing so lazily keeps it cheap. An operation in flight is run when it ends, in place. Only if another operation commits
bytes that it may touch while it is in flight, it is run just before that commit (memory still is what it was when the
operation started), its stores are taken back and kept, and made again at its end.

Atomics of kernels that run at the same time see each other. A kernel whose only global stores are atomics is not held
back. Of one that stores as well, what is held back of the allocations that its atomics reach becomes visible when
another kernel with atomics on the same memory runs; of a kernel with fences, whose atomics may tell others of its
stores, everything does.

A launch whose duration depends on what it does is run when it starts, in the same way.

A learner would notice one simplification: where stores are found by comparing memory before and after, one that writes
the value that is already there is not seen as a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

import numpy as np
from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.error import CudaError
from cudalab.sim.device.queue.byte_ranges import Range, Reach, overlap
from cudalab.sim.device.queue.operation import Operation
from cudalab.sim.machine.memory.allocation import InvalidPointer
from cudalab.sim.machine.memory.allocations import Memory


class Effects:
    """The operations in flight, and the memory that they work on."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.in_flight: list[Operation] = []

    def begin(self, operation: Operation) -> int:
        """The operation starts; returns its duration (ns)."""
        work = operation.work
        if not work.works_on_memory:
            return work.begin(operation)
        self.in_flight.append(operation)
        operation.take()
        if operation.decides_its_time:
            self.hold(operation)
        try:
            duration = operation.begin()
        except InvalidPointer as error:
            operation.fail(_gone(operation, error))
            return 0
        if operation.starts_at_once and not operation.executed:
            self.before_visible(operation)
            self.hold(operation)
        return duration

    def hold(self, operation: Operation) -> None:
        """Run an operation in flight now; its effect comes when it ends."""
        self._before_run(operation)
        operation.hold()

    def _before_run(self, operation: Operation) -> None:
        """What other kernels have done by atomics that this one may reach becomes visible."""
        if not operation.updates_memory:
            return
        for other in self.in_flight:
            meets = other.updates_memory and other.executed and other is not operation
            if meets and overlap(other.writes(), operation.writes()):
                other.show_updates()

    def before_visible(self, operation: Operation) -> None:
        """What the operation stores may be visible at once: others that may touch the same bytes are run first."""
        if operation.visible_at_once:
            for other in self.in_flight:
                if other is not operation and not other.executed:
                    self._run_before(other, operation.writes())

    def end(self, operation: Operation) -> None:
        """An operation on memory ends: its effect becomes visible. Raises ``CudaError`` when it fails."""
        in_flight = self.in_flight
        if operation.executed:
            self.before_commit(operation.writes())  # what is run before has to see its atomics
            in_flight.remove(operation)
        else:
            in_flight.remove(operation)
            if in_flight:
                self.before_commit(operation.writes())
                self._before_run(operation)
        try:
            operation.commit()
        except InvalidPointer as error:
            raise _gone(operation, error) from None

    def before_commit(self, writes: Reach) -> None:
        """Somebody is about to change ``writes``: whatever is in flight and may touch those bytes is run first."""
        if writes == ():
            return
        for other in self.in_flight:
            if not other.executed:
                self._run_before(other, writes)

    def _run_before(self, other: Operation, writes: Reach) -> None:
        if overlap(writes, other.reads()) or overlap(writes, other.writes()):
            self.hold(other)

    def clear(self) -> None:
        """Forget what is in flight; its effects never come."""
        self.in_flight.clear()


def _gone(operation: Operation, error: InvalidPointer) -> CudaError:
    """A copy or a memset comes to memory that was there when it was called."""
    note = f"{operation.work.title}: {error}, before its turn came: let the free wait for it"
    return CudaError(cudaError_t.cudaErrorIllegalAddress, note, sticky=True)


class HeldBytes:
    """Bytes that an operation has changed and that were put back. Calling it makes the changes again."""

    def __init__(self, memory: Memory, parts: list[tuple[int, np.ndarray | None, np.ndarray]]) -> None:
        self._memory = memory
        self._parts = parts
        """Start, which bytes have changed, as bits (``None``: all), and what the memory held then."""

    def __call__(self, within: Reach = None) -> None:
        """Make the changes ``within`` some memory (``None``: all), once."""
        made = [part for part in self._parts if overlap(within, ((part[0], part[2].size),))]
        starts = {part[0] for part in made}
        self._parts = [part for part in self._parts if part[0] not in starts]
        for start, changed, new in made:
            if _is_live(self._memory, start, new.size):  # not freed meanwhile
                where = True if changed is None else np.unpackbits(changed, count=new.size).view(bool)
                np.copyto(self._memory.array(start, new.size), new, where=where)


def hold_by_comparison(memory: Memory, reach: Reach, run: Callable[[], None]) -> HeldBytes:
    """Run something that writes at most ``reach``, put the old bytes back, and return what applies the new ones."""
    before = snapshot(memory, reach)
    run()
    return take_back(memory, before)


Snapshot = list[tuple[int, np.ndarray]]
"""Start and bytes of each part of the memory, none of them longer than a piece."""
_PIECE = 2 << 20
"""Bytes that are looked at at once: what has not changed of a large array takes no memory. A huge page, so that zeros
are given back (arena.py)."""
_ZEROS = np.zeros(_PIECE, np.uint8)
_ZEROS.flags.writeable = False
_pieces_in_use: WeakValueDictionary[int, np.ndarray] = WeakValueDictionary({0: _ZEROS})


def snapshot(memory: Memory, reach: Reach) -> Snapshot:
    """What ``reach`` holds now."""
    return [
        (at, _kept(memory.array(at, size, write=False)))
        for start, whole in live(memory, reach)
        for at, size in _pieces(start, whole)
    ]


def _pieces(start: int, size: int) -> Iterator[Range]:
    """Some memory, cut at multiples of a piece."""
    end = start + size
    while start < end:
        following = min(end, (start // _PIECE + 1) * _PIECE)
        yield start, following - start
        start = following


def _kept(now: np.ndarray) -> np.ndarray:
    """A copy; of a whole piece that repeats one word of eight bytes one that all share."""
    if now.size < _PIECE:
        return now.copy()
    words = now.view(np.uint64)
    first = words[0]
    alike = words[-1] == first and words[words.size // 2] == first and bool((words == first).all())
    return _repeated(int(first)) if alike else now.copy()


def _repeated(word: int) -> np.ndarray:
    """A piece that repeats a word, one for all that need it now. It cannot be written to."""
    piece = _pieces_in_use.get(word)
    if piece is None:
        piece = np.full(_PIECE // 8, word, np.uint64).view(np.uint8)
        piece.flags.writeable = False
        _pieces_in_use[word] = piece
    return piece


def _is_shared(old: np.ndarray) -> bool:
    return not old.flags.writeable


def put_back(memory: Memory, before: Snapshot) -> None:
    """Make memory what it was. Pages that have not changed are not written to: they may take no memory."""
    for start, old in before:
        if old is _ZEROS:
            memory.clear(start, old.size)
        else:
            now = memory.array(start, old.size)
            changed = np.flatnonzero(now != old)
            now[changed] = old[changed]


def take_back(memory: Memory, before: Snapshot) -> HeldBytes:
    """Put the bytes of a snapshot back, and return what makes the changes again. The snapshot is used up."""
    held: list[tuple[int, np.ndarray | None, np.ndarray]] = []
    for start, old in before:
        if not _is_live(memory, start, old.size):  # the kernel has freed it
            continue
        now = memory.array(start, old.size)
        changed = now != old
        if changed.any():
            new = now.copy()
            np.copyto(now, old)
            if not _is_shared(old):  # the snapshot's memory serves again
                np.copyto(old, new)
                new = old
            held.append((start, None if changed.all() else np.packbits(changed), new))
        elif old is _ZEROS:
            memory.clear(start, old.size)
    return HeldBytes(memory, held)


def _is_live(memory: Memory, start: int, size: int) -> bool:
    allocation = memory.find(start)
    return allocation is not None and start + size <= allocation.end


def live(memory: Memory, reach: Reach) -> list[Range]:
    """The part of ``reach`` that lies in live allocations."""
    if reach is None:
        return [(allocation.pointer, allocation.size) for allocation in memory]
    return [(start, size) for start, size in reach if _is_live(memory, start, size)]
