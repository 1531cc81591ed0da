"""Blocks that are resident at the same time, because they wait for one another.

A GPU starts as many blocks as fit on its SMs; the others start as these end. A block that waits for memory to change
(a lock, a flag, a barrier across the grid) keeps its slot, and the other resident blocks go on. So a grid that
synchronises by hand works as long as all of its blocks are resident, and hangs when one has to wait for a slot.

Here blocks run one after the other, and nearly always to their end. One that polls memory *yields* when nothing that it
could do itself would change anything; it keeps its shared and local memory, and the next block starts. When no slot is
free, or no block is left, the waiting blocks poll again, first to last and then last to first. When a whole round has
made no progress, only somebody else can help: another operation of the device, or the host.

The blocks of a cluster start together and keep their shared memory until the last of them has ended; as many clusters
are resident as fit.

Blocks that may overwrite each other's updates yield once, before they store (``compiler/passes/races.py``); those
of a large grid that come late do not, which saves time and shows as much.

Simplified: blocks run in a fixed order, so a lock goes to the same block in every run; on a GPU it does not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from cudalab.sim.abi import RESERVED_SHARED_BYTES, WARP, Cluster, Progress, Status
from cudalab.sim.compiler.runtime.layout import BARRIER_TABLE_BYTES, INTERLEAVE_BLOCK
from cudalab.sim.machine.launch.clusters import max_resident_blocks

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.module import Launch
    from cudalab.sim.machine.launch.workspace import Workspace

FEW_ROUNDS = 2
"""Iterations that a loop polls before its thread yields, while others make progress."""
MANY_ROUNDS = 4096
"""The same when threads only count, or read the clock."""
LONG = 1 << 16
"""Rounds of a block, or of all blocks, after which a launch is taken to need others though it makes progress: it writes
to memory again and again."""
MOST_INTERLEAVED = 1 << 12
"""Blocks that yield before they store what others may have loaded; after them only threads of one block do."""
EXITED = 0x1FFF_FFFF
"""The suspension point of a thread that has exited, in the bits that number points."""
_ALIGNMENT = 1024
_AREAS = ("shared", "local", "frames", "states", "scratch")


class BlockSlot:
    """A block slot: the shared and local memory of a resident block, and the state of its threads."""

    __slots__ = ("_raw", "addresses", "block", "cluster", "index", "rank")

    def __init__(self, addresses: tuple[int, ...], raw: np.ndarray | None = None) -> None:
        self.addresses = addresses
        self._raw = raw
        self.index = -1
        """Position in the order of blocks."""
        self.block = -1
        """Linear index in the grid."""
        self.cluster: _Cluster | None = None
        self.rank = 0


class _Cluster:
    """A cluster of resident blocks: its shared memory lives until the last of them has ended."""

    __slots__ = ("slots", "record", "running")

    def __init__(self, number: int, slots: list[BlockSlot], threads: int) -> None:
        self.slots, self.running = slots, len(slots)
        everybody = threads * len(slots)
        self.record = Cluster(pending=everybody, live=everybody, blocks=len(slots), number=number)
        for rank, slot in enumerate(slots):
            slot.cluster, slot.rank = self, rank
            self.record.shared[rank] = slot.addresses[0]


class Wait(Struct, frozen=True):
    """A thread that waits for memory to change."""

    block: int
    thread: int
    point: int
    """Number of the suspension point, from 1."""
    address: int
    """The address it polled last, as native code addresses it; 0 when it has not polled."""


class ResidentBlocks:
    """Runs the blocks of a prepared launch, ``0 … end`` in ``context.block_order``, as far as they can go.

    With clusters of several blocks ``context.block_order`` has the blocks of each cluster side by side, in order of
    rank (:func:`in_clusters`).
    ``on_slice(position, status)`` is called whenever a block has run: traced code then has its records to itself. With
    ``survive`` as well, a block that ends with a fault has simply ended, and the others go on.
    """

    def __init__(
        self,
        launch: Launch,
        entry: Callable[[int, int, int], int],
        space: Workspace,
        end: int,
        on_slice: Callable[[int, int], None] | None = None,
        *,
        survive: bool = False,
    ) -> None:
        self._ended = (Status.DONE, Status.FAULT) if survive and on_slice is not None else (Status.DONE,)
        self.kernel, self.end = launch.kernel.kernel, end
        self.capacity = max(1, max_resident_blocks(launch.kernel.kernel, launch.config, launch.kernel.limits))
        """How many blocks fit on the device at once."""
        self._entry, self._space = entry, space
        self._next = 0
        self._on_slice = on_slice
        self._cluster_blocks = launch.config.cluster_blocks
        self._own_cluster = space.context.cluster
        self._waiting: list[BlockSlot] = []
        self._own_slot = BlockSlot(tuple(getattr(space.context, area) for area in _AREAS))
        self._free = [self._own_slot]
        self._backwards = False
        self.progress = Progress(0)
        """What progress the last round made, when :meth:`run` has returned ``YIELDED``."""

        self.moved = False
        """Did the last :meth:`run` change anything that others could see?"""
        self.is_busy = False
        """Did it return though it could still make progress?"""
        self._most = self._left = LONG

    @property
    def unstarted(self) -> int:
        """Blocks that have not started, for want of a slot."""
        return self.end - self._next

    @property
    def unfinished(self) -> list[int]:
        """Linear indices of the blocks that are resident and wait, and of those that have not started."""
        return [slot.block for slot in self._waiting] + [self._block(index) for index in range(self._next, self.end)]

    @property
    def waiting_blocks(self) -> int:
        """Blocks that are resident and wait."""
        return len(self._waiting)

    def run(self, *, patient: bool = True, rounds: int = FEW_ROUNDS, most: int = LONG) -> int:
        """Run until all blocks are done, or a :class:`Status` says otherwise.

        ``YIELDED``: no thread goes on unless others change memory; call again when they may have. With
        ``patient=False`` it also returns when threads only count iterations or read the clock, so that time can pass
        for others, after ``rounds`` of them; and after ``most`` rounds in which threads do make progress.
        """
        context = self._space.context
        context.patience = rounds
        self.moved = self.is_busy = False
        self._most, self._left = most, most
        while True:
            began = self._next
            status = self._start()
            if status != Status.DONE:
                return status
            if not self._waiting:
                return Status.DONE
            status, progress = self._round()
            if status != Status.DONE:
                return status
            if self._next != began:
                progress |= Progress.REAL
            self.progress = progress
            if not self._waiting:
                continue
            if progress & Progress.REAL:
                self.moved = True
                context.patience = FEW_ROUNDS
                self._left -= 1
                if self._left <= 0 and not patient:
                    self.is_busy = True
                    return Status.YIELDED
            elif progress & Progress.OWN and patient:
                context.patience = min(MANY_ROUNDS, 4 * context.patience)
            else:
                return Status.YIELDED

    def leave(self) -> None:
        """Restore the workspace's own memory."""
        self._own_slot.cluster = None
        self._enter(self._own_slot)

    def _start(self) -> int:
        """Start blocks while slots are free; DONE when no more can start."""
        if self._cluster_blocks > 1:
            return self._start_clusters()
        context = self._space.context
        while self._next < self.end and len(self._waiting) < self.capacity:
            slot = self._free.pop() if self._free else self._new_slot()
            self._enter(slot)
            context.resume, context.rounds = 0, self._most
            if context.interleave and self._next >= MOST_INTERLEAVED:
                context.interleave = INTERLEAVE_BLOCK
            before = context.blocks_done
            last = self.end if self._on_slice is None else self._next + 1
            status = self._entry(self._space.address, self._next, last)
            if self._on_slice is not None:
                self._on_slice(self._next, status)
            self._next += context.blocks_done - before
            if status == Status.YIELDED:
                slot.index = self._next
                slot.block = self._block(self._next)
                self._next += 1
                self._waiting.append(slot)
                continue
            self._free.append(slot)
            if status not in self._ended:
                return status
            if status != Status.DONE:
                self._next += 1
        return Status.DONE

    def _start_clusters(self) -> int:
        """The same where blocks start by clusters."""
        context, size = self._space.context, self._cluster_blocks
        while self._next < self.end and (self.waiting_blocks + size <= self.capacity or not self._waiting):
            slots = [self._free.pop() if self._free else self._new_slot() for _ in range(size)]
            _Cluster(self._next // size, slots, context.threads)
            for slot in slots:
                slot.index, slot.block = self._next, self._block(self._next)
                self._next += 1
                self._enter(slot)
                context.resume, context.rounds = 0, self._most
                status = self._entry(self._space.address, slot.index, slot.index + 1)
                if self._on_slice is not None:
                    self._on_slice(slot.index, status)
                if status == Status.YIELDED:
                    self._waiting.append(slot)
                elif status in self._ended:
                    self._has_ended(slot)
                else:
                    return status
        return Status.DONE

    def _has_ended(self, slot: BlockSlot) -> None:
        """A block has ended. Its slot is free once the other blocks of its cluster have ended, too."""
        cluster = slot.cluster
        if cluster is None:
            self._free.append(slot)
            return
        cluster.record.left[slot.rank] = 1
        cluster.running -= 1
        if not cluster.running:
            for each in cluster.slots:
                each.cluster = None
                self._free.append(each)

    def _round(self) -> tuple[int, Progress]:
        """Let each waiting block poll again."""
        context = self._space.context
        seen = 0
        still: list[BlockSlot] = []
        order = self._waiting[::-1] if self._backwards else self._waiting
        self._backwards = not self._backwards
        for position, slot in enumerate(order):
            self._enter(slot)
            context.resume, context.progress, context.rounds = 1, 0, self._most
            status = self._entry(self._space.address, slot.index, slot.index + 1)
            seen |= context.progress
            if not context.rounds:
                self._left = 0
            if self._on_slice is not None:
                self._on_slice(slot.index, status)
            if status == Status.YIELDED:
                still.append(slot)
            elif status in self._ended:
                seen |= Progress.REAL
                self._has_ended(slot)
            else:
                self._waiting = still + order[position:]
                return status, Progress(seen)
        self._waiting = sorted(still, key=lambda slot: slot.index)
        return Status.DONE, Progress(seen)

    def _block(self, index: int) -> int:
        order = self._space.context.block_order
        return index if not order else int(_words(order, index + 1)[index])

    def _enter(self, slot: BlockSlot) -> None:
        context = self._space.context
        context.shared, context.local, context.frames, context.states, context.scratch = slot.addresses
        cluster = slot.cluster
        context.cluster = self._own_cluster if cluster is None else ctypes.addressof(cluster.record)

    def _new_slot(self) -> BlockSlot:
        context, kernel = self._space.context, self.kernel
        sizes = (
            RESERVED_SHARED_BYTES + context.shared_size,
            context.warps * WARP * context.local_size,
            context.warps * kernel.frame_bytes,
            4 * context.warps * WARP + BARRIER_TABLE_BYTES,
            context.warps * kernel.scratch_bytes,
        )
        rounded = [-(-size // 64) * 64 for size in sizes]
        raw = np.zeros(sum(rounded) + _ALIGNMENT, np.uint8)  # zero pages: touched ones alone take memory
        start = -(-raw.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        shared, *others = (start + sum(rounded[:number]) for number in range(len(sizes)))
        return BlockSlot((shared + RESERVED_SHARED_BYTES, *others), raw)

    # -- what threads wait for ----------------------------------------------------------------------------------------

    def first_wait(self) -> Wait | None:
        """The first thread, by block and thread, that waits for memory to change, or else for others in such a
        loop."""
        kernel, context = self.kernel, self._space.context
        for polling in (True, False):
            for slot in self._waiting:
                points = self._points(slot)
                threads = np.flatnonzero(np.isin(points, kernel.poll_points) if polling else points < EXITED)
                if len(threads):
                    thread = int(threads[0])
                    polled = slot.addresses[2] + (kernel.frame_bytes - 8 * WARP) * context.warps
                    address = int(_words(polled, context.threads)[thread])
                    return Wait(slot.block, thread, int(points[thread]), address)
        return None

    def count_waits(self) -> dict[int, int]:
        """How many threads wait at each point of a loop that polls."""
        found: dict[int, int] = {}
        for slot in self._waiting:
            points, counts = np.unique(self._points(slot), return_counts=True)
            for point, count in zip(points.tolist(), counts.tolist(), strict=True):
                if point in self.kernel.poll_points:
                    found[point] = found.get(point, 0) + count
        return found

    def _points(self, slot: BlockSlot) -> np.ndarray:
        """The suspension point of each thread of a waiting block, or ``EXITED``."""
        return _halves(slot.addresses[3], self._space.context.threads) & EXITED

    def cluster_of(self, block: int) -> Cluster:
        """The cluster of a waiting block."""
        slot = next(slot for slot in self._waiting if slot.block == block)
        if slot.cluster is not None:
            return slot.cluster.record
        return Cluster.from_address(self._own_cluster)

    def shared_of(self, block: int) -> int:
        """Where a waiting block's shared memory is."""
        return next(slot.addresses[0] for slot in self._waiting if slot.block == block)


def _words(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(address))


def _halves(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint32 * count).from_address(address))
