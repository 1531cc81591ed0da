"""Blocks that are on the SMs at the same time, because they wait for one another.

A GPU starts as many blocks as fit on its SMs; the others start as these end. A block that waits for memory to change
(a lock, a flag, a barrier across the grid) keeps its place, and the blocks beside it go on. So a grid that synchronises
itself by hand works as long as all of its blocks fit, and hangs when one has to wait for a place.

Here blocks run one after the other, and nearly always to their end. One that polls memory *yields* when nothing that it
could do itself would change anything; it keeps its shared and local memory, the next block starts, and when no place is
left, or no block, those that wait look again, first to last and then last to first. When a whole round has brought
nothing, only somebody else can help: another operation of the device, or the host.

The blocks of a cluster start together and keep their shared memory until the last of them has ended; as many clusters
are resident as fit.

What is simplified: the order in which blocks run is fixed, so a lock goes to the same block in every run; on a GPU it
does not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import RESERVED_SHARED_BYTES, WARP, Cluster, Progress, Status
from cudalab.sim.compiler.runtime.layout import BARRIER_TABLE_BYTES
from cudalab.sim.machine.launch.clusters import max_resident_blocks

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.configuration import Launch
    from cudalab.sim.machine.launch.workspace import Workspace

FEW_ROUNDS = 2
"""Rounds that a loop polls before its thread steps aside, while things happen."""
MANY_ROUNDS = 4096
"""The same when threads only count, or look at the clock."""
LONG = 1 << 16
"""Rounds of a block, or of all blocks, after which a launch is taken to need others though it gets on: it tells them
something again and again."""
EXITED = 0x1FFF_FFFF
"""The point of a thread that has left the kernel, in the bits that number points."""
_ALIGNMENT = 1024
_AREAS = ("shared", "local", "frames", "states", "scratch")


class Place:
    """What a resident block has to itself: shared and local memory, and where its threads are."""

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
    """Blocks that share their shared memory, from the start of the first to the end of the last."""

    __slots__ = ("places", "record", "running")

    def __init__(self, number: int, places: list[Place], threads: int) -> None:
        self.places, self.running = places, len(places)
        everybody = threads * len(places)
        self.record = Cluster(pending=everybody, live=everybody, blocks=len(places), number=number)
        for rank, place in enumerate(places):
            place.cluster, place.rank = self, rank
            self.record.shared[rank] = place.addresses[0]


@dataclass(frozen=True)
class Wait:
    """A thread that waits for memory to change."""

    block: int
    thread: int
    point: int
    """Number of the suspension point, from 1."""
    address: int
    """Where it looked last, as native code addresses it; 0 when it has not looked."""


class ResidentBlocks:
    """Runs the blocks of a prepared launch, ``0 … end`` in ``context.block_order``, as far as they come.

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
        self.capacity = max(1, max_resident_blocks(launch.kernel, launch.config))
        """How many blocks fit on the device at once."""
        self._entry, self._space = entry, space
        self._next = 0
        self._on_slice = on_slice
        self._cluster_blocks = launch.config.cluster_blocks
        self._own_cluster = space.context.cluster
        self._waiting: list[Place] = []
        self._home = Place(tuple(getattr(space.context, area) for area in _AREAS))
        self._free = [self._home]
        self._backwards = False
        self.progress = Progress(0)
        """What the last round brought, when :meth:`run` has come back with ``YIELDED``."""

        self.moved = False
        """Did the last :meth:`run` bring anything that others could see?"""
        self.is_busy = False
        """Did it come back though it would get on?"""
        self._most = self._left = LONG

    @property
    def unstarted(self) -> int:
        """Blocks that found no place yet."""
        return self.end - self._next

    @property
    def waiting_blocks(self) -> int:
        """Blocks that are resident and wait."""
        return len(self._waiting)

    def run(self, *, patient: bool = True, rounds: int = FEW_ROUNDS, most: int = LONG) -> int:
        """Run until all blocks are done, or a :class:`Status` says otherwise.

        ``YIELDED``: nothing goes on unless others change memory; call again when they may have. With ``patient=False``
        it also comes back when threads only count rounds or look at the clock, so that time can pass for others;
        ``rounds`` is how many rounds they go through first; and after ``most`` rounds of others.
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
        """Give the workspace its own memory back."""
        self._home.cluster = None
        self._enter(self._home)

    def _start(self) -> int:
        """Start blocks while there are places; DONE when that is all that can be done."""
        if self._cluster_blocks > 1:
            return self._start_clusters()
        context = self._space.context
        while self._next < self.end and len(self._waiting) < self.capacity:
            place = self._free.pop() if self._free else self._new_place()
            self._enter(place)
            context.resume, context.rounds = 0, self._most
            before = context.blocks_done
            last = self.end if self._on_slice is None else self._next + 1
            status = self._entry(self._space.address, self._next, last)
            if self._on_slice is not None:
                self._on_slice(self._next, status)
            self._next += context.blocks_done - before
            if status == Status.YIELDED:
                place.index = self._next
                place.block = self._block(self._next)
                self._next += 1
                self._waiting.append(place)
                continue
            self._free.append(place)
            if status not in self._ended:
                return status
            if status != Status.DONE:
                self._next += 1
        return Status.DONE

    def _start_clusters(self) -> int:
        """The same where blocks start by clusters."""
        context, size = self._space.context, self._cluster_blocks
        while self._next < self.end and (self.waiting_blocks + size <= self.capacity or not self._waiting):
            places = [self._free.pop() if self._free else self._new_place() for _ in range(size)]
            _Cluster(self._next // size, places, context.threads)
            for place in places:
                place.index, place.block = self._next, self._block(self._next)
                self._next += 1
                self._enter(place)
                context.resume, context.rounds = 0, self._most
                status = self._entry(self._space.address, place.index, place.index + 1)
                if self._on_slice is not None:
                    self._on_slice(place.index, status)
                if status == Status.YIELDED:
                    self._waiting.append(place)
                elif status in self._ended:
                    self._has_ended(place)
                else:
                    return status
        return Status.DONE

    def _has_ended(self, place: Place) -> None:
        """A block has come to its end. Its place is free once its cluster's others have, too."""
        cluster = place.cluster
        if cluster is None:
            self._free.append(place)
            return
        cluster.record.left[place.rank] = 1
        cluster.running -= 1
        if not cluster.running:
            for each in cluster.places:
                each.cluster = None
                self._free.append(each)

    def _round(self) -> tuple[int, Progress]:
        """Let each block that waits look again."""
        context = self._space.context
        seen = 0
        still: list[Place] = []
        order = self._waiting[::-1] if self._backwards else self._waiting
        self._backwards = not self._backwards
        for position, place in enumerate(order):
            self._enter(place)
            context.resume, context.progress, context.rounds = 1, 0, self._most
            status = self._entry(self._space.address, place.index, place.index + 1)
            seen |= context.progress
            if not context.rounds:
                self._left = 0
            if self._on_slice is not None:
                self._on_slice(place.index, status)
            if status == Status.YIELDED:
                still.append(place)
            elif status in self._ended:
                seen |= Progress.REAL
                self._has_ended(place)
            else:
                self._waiting = still + order[position:]
                return status, Progress(seen)
        self._waiting = sorted(still, key=lambda place: place.index)
        return Status.DONE, Progress(seen)

    def _block(self, index: int) -> int:
        order = self._space.context.block_order
        return index if not order else int(_words(order, index + 1)[index])

    def _enter(self, place: Place) -> None:
        context = self._space.context
        context.shared, context.local, context.frames, context.states, context.scratch = place.addresses
        cluster = place.cluster
        context.cluster = self._own_cluster if cluster is None else ctypes.addressof(cluster.record)

    def _new_place(self) -> Place:
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
        return Place((shared + RESERVED_SHARED_BYTES, *others), raw)

    # -- who waits for what --------------------------------------------------------------------------------------------

    def first_wait(self) -> Wait | None:
        """The first thread, by block and thread, that waits for memory to change; or else for others in a loop that
        does."""
        kernel, context = self.kernel, self._space.context
        for polling in (True, False):
            for place in self._waiting:
                points = self._points(place)
                threads = np.flatnonzero(np.isin(points, kernel.poll_points) if polling else points < EXITED)
                if len(threads):
                    thread = int(threads[0])
                    polled = place.addresses[2] + (kernel.frame_bytes - 8 * WARP) * context.warps
                    address = int(_words(polled, context.threads)[thread])
                    return Wait(place.block, thread, int(points[thread]), address)
        return None

    def count_waits(self) -> dict[int, int]:
        """How many threads wait at each point of a loop that polls."""
        found: dict[int, int] = {}
        for place in self._waiting:
            points, counts = np.unique(self._points(place), return_counts=True)
            for point, count in zip(points.tolist(), counts.tolist(), strict=True):
                if point in self.kernel.poll_points:
                    found[point] = found.get(point, 0) + count
        return found

    def _points(self, place: Place) -> np.ndarray:
        """Where each thread of a block that waits is, or ``EXITED``."""
        return _halves(place.addresses[3], self._space.context.threads) & EXITED

    def cluster_of(self, block: int) -> Cluster:
        """The cluster of a waiting block."""
        place = next(place for place in self._waiting if place.block == block)
        if place.cluster is not None:
            return place.cluster.record
        return Cluster.from_address(self._own_cluster)

    def shared_of(self, block: int) -> int:
        """Where a waiting block's shared memory is."""
        return next(place.addresses[0] for place in self._waiting if place.block == block)


def _words(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(address))


def _halves(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint32 * count).from_address(address))
