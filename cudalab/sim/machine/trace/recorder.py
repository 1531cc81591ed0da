"""Runs blocks in traced code: every access, barrier and basic block of every thread, one record each.

The traced variant of a kernel does what the plain one does and appends a 16-byte record before each event. Profile and
sanitizer read nothing else. Blocks run one at a time, and their stores are rolled back afterwards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cudalab.sim.abi import Fault, Status, Stop
from cudalab.sim.compiler.semantics import Operation
from cudalab.sim.machine.launch import workspace as workspaces
from cudalab.sim.machine.launch.clusters import in_clusters
from cudalab.sim.machine.launch.resident_blocks import ResidentBlocks
from cudalab.sim.machine.launch.supervision import NotStopped, run_blocks
from cudalab.sim.machine.launch.undo_log import UndoLog
from cudalab.sim.machine.memory import host_watch
from cudalab.sim.machine.reports.endless_wait import waiting_fault
from cudalab.sim.machine.reports.faults import from_context
from cudalab.sim.machine.shadow_memory.shadow_cells import shadow_cells_of
from cudalab.sim.machine.trace.elided_records import RECORD, ElidedRecords, elided_records_of

if TYPE_CHECKING:
    from cudalab.sim.abi import Context
    from cudalab.sim.machine.launch.module import Launch
    from cudalab.sim.machine.reports.faults import Fault as ExplainedFault
    from cudalab.sim.machine.shadow_memory.shadow_cells import AttachedCells

_FUEL = 1 << 12
"""Traced code looks at ``stop`` more often: its loops are slower and its time limits shorter."""
_AT_ONCE = 1 << 16
"""Blocks that cannot execute more thread instructions than this, some 0.3 ms, run in the calling thread."""


class Stopped(NamedTuple):
    """How far a block had come when its trace got too long."""

    thread: int
    """That ran last."""
    work: np.ndarray
    """What each of its warps had done (``launch/block_work.py``)."""


class BlockTrace:
    """What one block did.

    Attributes:
        block: linear index in the grid.
        status: how its run ended.
        timed_out: it was stopped by the time limit.
        stopped: where it was when its trace got too long, if that stopped it;
        factor: and how many times as many records the whole block would have made.
        fault: a copy of the native fault when `status` says FAULT.
        explained: the same in words, where it had to be explained at once.
    """

    def __init__(
        self,
        block: int,
        written: np.ndarray,
        lost: int,
        status: Status,
        timed_out: bool = False,
        fault: Fault | None = None,
        *,
        elided: ElidedRecords | None = None,
        most: int | None = None,
    ) -> None:
        """``written``: the records as native code wrote them, of which ``lost`` found no room; ``elided`` restores
        what it left out. No more than about ``most`` are kept."""
        self.block, self.status, self.timed_out, self.fault = block, status, timed_out, fault
        self.explained: ExplainedFault | None = None
        self.stopped: Stopped | None = None
        self.factor = 1.0
        self.lost_inside = self.cut_between_runs = False
        """Of a block that runs concurrently with others, in slices: were records lost within a slice, or are whole
        slices missing from some point on?"""
        self._written, self._missing, self._elided, self._most = written, lost, elided, most

    @cached_property
    def records(self) -> np.ndarray:
        """Of type ``RECORD``; a thread's records are in program order, but for accesses of one basic block. They are
        made from what native code wrote when first asked for: before the tracer runs again."""
        return self._written if self._elided is None else self._elided.restore(self._written, self._most)

    @property
    def written(self) -> int:
        """The records that native code wrote."""
        return len(self._written)

    @property
    def total(self) -> int:
        """All records, those that are not kept included. Where native code found no room, an estimate."""
        return round(self.factor * self._made)

    @cached_property
    def _made(self) -> int:
        here = len(self._written) if self._elided is None else self._elided.restored_length(self._written)
        if not self._missing or not len(self._written):
            return here + self._missing
        return here + round(self._missing * here / len(self._written))

    @property
    def lost(self) -> int:
        """Records that are not kept."""
        if self.stopped is not None:
            return self.total - len(self.records)
        if self._elided is None or not self._missing and (self._most is None or self.total <= self._most):
            return self._missing
        return self.total - len(self.records)

    def extend(self, written: Sequence[np.ndarray]) -> None:
        """Give it the records of another run."""
        self._written = np.concatenate(written)

    def lose(self, count: int) -> None:
        """Some more records are not kept."""
        self._missing += count

    @property
    def complete(self) -> bool:
        return not self.lost and self.status == Status.DONE


class Tracer:
    """Runs chosen blocks of one launch in traced code.

    Use it as a context manager: on leaving it, all stores to global memory are rolled back.

    Args:
        launch: what is launched.
        records: most records kept of one block; further ones are counted only.
        seed: shuffle the order of threads by it.
        variant: ``traced``, or ``sanitize_trace``, which goes on after an access that is not allowed.
    """

    def __init__(
        self,
        launch: Launch,
        *,
        records: int = 1 << 20,
        seed: int | None = None,
        variant: str = "traced",
    ) -> None:
        kernel = launch.kernel
        self.launch = launch
        self._entry = kernel.entry(variant)
        self._skips = variant == "sanitize_trace"
        self._has_barriers = any(site.semantics.operation is Operation.MBARRIER for site in kernel.kernel.sites)
        self._elided = elided_records_of(kernel) if variant == "traced" else None
        self.shadow: AttachedCells | None = None
        """What code that skips accesses notes; from the first run on."""
        self._space = workspaces.borrow()
        self._undo = UndoLog(kernel.module.memory, heap=True)
        self._quiet = host_watch.paused()
        self._buffer = _borrow_buffer(records)
        self._records = records
        self._order: np.ndarray | None = None
        self.sequence: list[tuple[int, np.ndarray]] = []
        """After :meth:`run_concurrently`: blocks and their records as native code wrote them, in the order of
        execution."""
        self.stuck: ExplainedFault | None = None
        """Why the last :meth:`run_concurrently` came to no end: all blocks wait for memory to change."""
        if seed is not None:
            self._order = np.random.default_rng(seed).permutation(self.threads).astype(np.uint32)

    def __enter__(self) -> Tracer:
        self._quiet.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._undo.rollback()
        finally:
            if self.shadow is not None:
                self.shadow.detach()
            self._quiet.__exit__(kind, error, traceback)
        _give_back_buffer(self._buffer)
        if not isinstance(error, NotStopped):
            workspaces.give_back(self._space)

    def run(self, index: int, *, time_limit: float = 10.0, most: int = workspaces.UNLIMITED) -> BlockTrace:
        """Run block `index` and return what it did. The records are valid until the next run. A block that waits for
        memory to change, which others would do, ends with ``YIELDED``; one that makes more than ``most`` records is
        stopped, on every machine at the same place. In a cluster the blocks beside it run, too."""
        if self.in_clusters:
            return self._run_cluster(index, time_limit)
        context = self._space.context
        self._begin()
        work = np.zeros(context.warps, np.uint64)
        context.record_limit = most
        context.work = work.ctypes.data - index * work.nbytes
        if self._skips and self._has_barriers:
            # shared memory is the same for all blocks: what the last one left is no object that this one initialised
            ctypes.memset(context.shared, 0, context.shared_size)
        self._undo.attach(context)
        try:
            status = Status(self._run_blocks(index, index + 1, time_limit))
        finally:
            self._undo.detach(context)
        found = BlockTrace(
            index,
            self._buffer[: context.trace.used // RECORD.itemsize],
            context.trace.lost,
            status,
            context.stop == Stop.TIMEOUT,
            Fault.from_buffer_copy(context.fault) if status == Status.FAULT else None,
            elided=self._elided,
            most=self._records,
        )
        if context.stop == Stop.LENGTH:
            found.stopped = Stopped(context.fault.thread, work)
        return found

    def _run_cluster(self, index: int, time_limit: float) -> BlockTrace:
        found = self.run_concurrently(self._whole_clusters([index]), {index}, time_limit=time_limit, patient=False)
        return found[0] if found else BlockTrace(index, self._buffer[:0], 0, Status.YIELDED)

    def run_batch(self, blocks: Sequence[int], *, room: int = 0, time_limit: float = 10.0) -> list[BlockTrace]:
        """Run several blocks one after the other under one supervision, which for short blocks would take most of it.
        ``room``: how many records of all of them are kept, where that is more than of one block.

        Returns:
            A trace for each, valid until the next run; empty where that cannot be told, because not all blocks came to
            their end or not all records fitted. Their stores are then rolled back, with all stores before them.
        """
        if self.in_clusters:
            self.rollback()
            return []
        context = self._space.context
        self._make_room(room)
        self._begin()
        context.trace.capacity = max(room, self._records) * RECORD.itemsize
        sequence = np.array(blocks, np.uint64)
        context.block_order = sequence.ctypes.data
        self._undo.attach(context)
        ends: list[int] = []

        def one_by_one(address: int, first: int, end: int) -> int:
            for index in range(first, end):
                status = self._entry(address, index, index + 1)
                ends.append(context.trace.used // RECORD.itemsize)
                if status != Status.DONE:
                    return status
            return Status.DONE

        try:
            status = self._run_blocks(0, len(blocks), time_limit, one_by_one)
        finally:
            self._undo.detach(context)
            context.block_order = 0
        if status != Status.DONE or context.trace.lost:
            self.rollback()
            return []
        return [
            BlockTrace(block, self._buffer[start:end], 0, Status.DONE, elided=self._elided)
            for block, start, end in zip(blocks, [0, *ends[:-1]], ends, strict=True)
        ]

    def _run_blocks(
        self, first: int, end: int, time_limit: float, entry: Callable[[int, int, int], int] | None = None
    ) -> int:
        """Run blocks under supervision; those that cannot take long, in this thread."""
        entry = entry or self._entry
        if 0 < self.launch.kernel.kernel.longest_path * self.threads * (end - first) <= _AT_ONCE:
            return entry(self._space.address, first, end)
        return run_blocks(entry, self._space, first, end, time_limit=time_limit)

    def run_concurrently(
        self,
        order: Sequence[int],
        keep: Container[int],
        *,
        time_limit: float = 10.0,
        most: int = 1 << 24,
        longest: int = workspaces.UNLIMITED,
        patient: bool = True,
        survive: bool = False,
    ) -> list[BlockTrace]:
        """Run the blocks of a kernel that polls memory, as many side by side as fit on the device.

        Args:
            order: the blocks, in the order in which they start.
            keep: those whose traces are wanted.
            time_limit: seconds without a finished block after which the launch is stopped.
            most: records kept in all.
            longest: records that all blocks make, kept or not, after which the launch is stopped: on every machine at
                the same place.
            patient: go on while threads only count rounds, look at the clock, or tell others something again and again.
            survive: a block that ends with a fault leaves the others running.

        Returns:
            Traces in order; those of blocks that did not come to their end have another status than ``DONE``. Where no
            block goes on, :attr:`stuck` is the explanation.
        """
        space, context = self._space, self._space.context
        self._begin(side_by_side=True)
        order = self._whole_clusters(order)
        sequence = np.array(order, np.uint64)
        context.block_order = sequence.ctypes.data
        self.sequence = []
        found: dict[int, BlockTrace] = {}
        parts: dict[int, list[np.ndarray]] = {}
        kept, left = 0, longest

        def make_room() -> None:
            context.trace.used = context.trace.lost = 0
            context.trace.capacity = min(self._records, max(0, left)) * RECORD.itemsize
            context.record_limit = max(0, left - self._records)  # calls of malloc take from it, too

        def take(position: int, status: int) -> None:
            nonlocal kept, left
            block, used, lost = order[position], context.trace.used // RECORD.itemsize, context.trace.lost
            left -= used + lost + max(0, left - self._records) - context.record_limit
            make_room()
            if block not in keep:
                return
            trace = found.setdefault(block, BlockTrace(block, self._buffer[:0], 0, Status(status), elided=self._elided))
            trace.status = Status(status)
            if status == Status.FAULT:
                trace.fault = Fault.from_buffer_copy(context.fault)
                if survive:  # others are about to use the memory that tells where its threads were
                    trace.explained = from_context(context, self.launch)
            trace.lose(lost)
            trace.lost_inside = trace.lost_inside or lost > 0
            here = self._elided.restored_length(self._buffer[:used]) if self._elided is not None else used
            if kept and kept + here > most:
                trace.cut_between_runs = trace.cut_between_runs or not trace.lost_inside
                trace.lose(used)
            elif used:
                piece = self._buffer[:used].copy()
                parts.setdefault(block, []).append(piece)
                self.sequence.append((block, piece))
                kept += here

        resident = ResidentBlocks(self.launch, self._entry, space, len(order), take, survive=survive)
        make_room()
        self._undo.attach(context)
        try:
            status = run_blocks(lambda *_: resident.run(patient=patient), space, 0, len(order), time_limit=time_limit)
            self.stuck = None
            if status == Status.YIELDED:
                self.stuck = waiting_fault(resident, context, self.launch)
        finally:
            self._undo.detach(context)
            resident.leave()
            context.block_order = 0
        for block, trace in found.items():
            if block in parts:
                trace.extend(parts[block])
            trace.timed_out = trace.status == Status.STOPPED and context.stop == Stop.TIMEOUT
        return list(found.values())

    def _begin(self, *, side_by_side: bool = False) -> None:
        """Prepare the context for a run, of blocks one after the other or ``side_by_side``."""
        space, context = self._space, self._space.context
        space.prepare(self.launch, prints=False)
        context.fuel = _FUEL
        if self._order is not None:
            context.thread_order = self._order.ctypes.data
        context.trace.data = self._buffer.ctypes.data
        context.trace.capacity = self._records * RECORD.itemsize
        if self._skips:
            if self.shadow is None:
                kernel = self.launch.kernel
                self.shadow = shadow_cells_of(kernel.module.memory).attach(kernel, space)
                self.shadow.follow_values(kernel, registers=True, side_by_side=side_by_side)
            self.shadow.resume()

    def _make_room(self, records: int) -> None:
        """Have room for so many records; those of earlier runs are gone."""
        if records > len(self._buffer):
            _give_back_buffer(self._buffer)
            self._buffer = _borrow_buffer(records)

    def rollback(self) -> None:
        """Undo the stores of the blocks run so far."""
        self._undo.rollback()

    @property
    def in_clusters(self) -> bool:
        """Do its blocks run in clusters?"""
        return self.launch.config.cluster_blocks > 1

    def _whole_clusters(self, blocks: Sequence[int]) -> Sequence[int]:
        """The blocks, with the rest of their clusters."""
        config = self.launch.config
        return in_clusters(blocks, config.grid, config.cluster) if config.cluster is not None else blocks

    @property
    def threads(self) -> int:
        """Threads a block."""
        return self.launch.config.threads_per_block

    @property
    def footprint(self) -> int:
        """Bytes of the different allocations that the parameters point to."""
        return sum(a.size for a in {id(a): a for a in self._space.allocations}.values())

    @property
    def context(self) -> Context:
        """The context of the last run, for explaining its fault."""
        return self._space.context


def trace(
    launch: Launch,
    *,
    blocks: Sequence[int] | None = None,
    seed: int | None = None,
    records: int = 1 << 22,
    time_limit: float = 10.0,
) -> Iterator[BlockTrace]:
    """Run blocks in traced code, one after the other, and yield what each did.

    Stores are seen by later blocks, and taken back when the iteration ends. With `seed`, threads and blocks run in a
    shuffled order.
    """
    order = list(blocks) if blocks is not None else list(range(launch.config.blocks))
    if seed is not None:
        np.random.default_rng(seed).shuffle(order)
    with Tracer(launch, records=records, seed=seed) as tracer:
        for index in order:
            yield tracer.run(index, time_limit=time_limit)


_buffers: list[np.ndarray] = []


def _borrow_buffer(records: int) -> np.ndarray:
    for index, buffer in enumerate(_buffers):
        if len(buffer) >= records:
            return _buffers.pop(index)
    return np.empty(records, RECORD)


def _give_back_buffer(buffer: np.ndarray) -> None:
    if len(_buffers) < 2 and buffer.nbytes <= 64 << 20:
        _buffers.append(buffer)
