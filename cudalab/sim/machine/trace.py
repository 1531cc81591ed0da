"""Running blocks in traced code: every access, barrier and basic block of every thread, one record each.

The traced variant of a kernel does what the plain one does and appends a 16-byte record before each event. Profile and
sanitizer read nothing else. Blocks run one at a time, and what they store is taken back afterwards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import Fault, Record, SiteKind, Status, Stop
from cudalab.sim.machine import host_watch
from cudalab.sim.machine import workspace as workspaces
from cudalab.sim.machine.limits import H200, DeviceLimits
from cudalab.sim.machine.residents import Residents, in_clusters
from cudalab.sim.machine.shadow import shadow_of
from cudalab.sim.machine.supervision import NotStopped, run_blocks
from cudalab.sim.machine.together import APART, Together, cluster_of, resident_blocks
from cudalab.sim.machine.undo import UndoLog
from cudalab.sim.machine.waiting import waiting_fault

if TYPE_CHECKING:
    from cudalab.sim.abi import Context
    from cudalab.sim.machine.faults import Fault as ExplainedFault
    from cudalab.sim.machine.findings import Triple
    from cudalab.sim.machine.module import LoadedKernel
    from cudalab.sim.machine.shadow import Attached

RECORD = np.dtype([("address", "<u8"), ("site", "<u4"), ("thread", "<u2"), ("flags", "<u2")])
assert RECORD.itemsize == ctypes.sizeof(Record)

_FUEL = 1 << 12
"""Traced code looks at ``stop`` more often: its loops are slower and its time limits shorter."""


@dataclass
class BlockTrace:
    """What one block did."""

    block: int
    """Linear index in the grid."""
    records: np.ndarray
    """Of type ``RECORD``; a thread's records are in program order."""
    lost: int
    """Records that no longer fitted."""
    status: Status
    timed_out: bool = False
    fault: Fault | None = None
    """A copy of the native fault when `status` says FAULT."""

    @property
    def complete(self) -> bool:
        return not self.lost and self.status == Status.DONE


class Tracer:
    """Runs chosen blocks of one launch in traced code.

    Use it as a context manager: on leaving it, all stores to global memory are taken back.

    Args:
        kernel: the kernel.
        grid: blocks in x, y, z.
        block: threads in x, y, z.
        args: the parameter buffer.
        shared: dynamic shared memory a block, bytes.
        records: most records kept of one block; further ones are counted only.
        seed: shuffle the order of threads by it.
        prepare: called with the context before each block, to set it up further.
        variant: ``traced``, or ``sanitize_trace``, which goes on after an access that is not allowed.
        together: clusters, or a cooperative launch.
    """

    def __init__(
        self,
        kernel: LoadedKernel,
        grid: Triple,
        block: Triple,
        args: bytes,
        shared: int = 0,
        *,
        records: int = 1 << 20,
        seed: int | None = None,
        prepare: Callable[[Context], None] | None = None,
        variant: str = "traced",
        together: Together = APART,
    ) -> None:
        self._together = together
        self._cluster = cluster_of(kernel.kernel, together)
        self.kernel, self.grid, self.block, self.args, self.shared = kernel, grid, block, args, shared
        self._entry = kernel.entry(variant)
        self._skips = variant == "sanitize_trace"
        self.shadow: Attached | None = None
        """What code that skips accesses notes; from the first run on."""
        self._space = workspaces.borrow()
        self._undo = UndoLog(kernel.module.memory, heap=True)
        self._prepare = prepare
        self._quiet = host_watch.paused()
        self._buffer = _borrow_buffer(records)
        self._records = records
        self._order: np.ndarray | None = None
        self.sequence: list[tuple[int, np.ndarray]] = []
        """After :meth:`run_together`: blocks and their records, in the order in which it all happened."""
        self.stuck: ExplainedFault | None = None
        """Why the last :meth:`run_together` came to no end: all blocks wait for memory to change."""
        if seed is not None:
            threads = block[0] * block[1] * block[2]
            self._order = np.random.default_rng(seed).permutation(threads).astype(np.uint32)

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

    def run(self, index: int, *, time_limit: float = 10.0) -> BlockTrace:
        """Run block `index` and return what it did. The records are valid until the next run. A block that waits for
        memory to change, which others would do, ends with ``YIELDED``. In a cluster the blocks beside it run, too."""
        if self._cluster != (1, 1, 1):
            return self._run_cluster(index, time_limit)
        space, context = self._space, self._space.context
        self._begin()
        self._undo.attach(context)
        try:
            status = Status(run_blocks(self._entry, space, index, index + 1, time_limit=time_limit))
        finally:
            self._undo.detach(context)
        return BlockTrace(
            index,
            self._buffer[: context.trace.used // RECORD.itemsize],
            context.trace.lost,
            status,
            context.stop == Stop.TIMEOUT,
            Fault.from_buffer_copy(context.fault) if status == Status.FAULT else None,
        )

    def _run_cluster(self, index: int, time_limit: float) -> BlockTrace:
        blocks = in_clusters([index], self.grid, self._cluster)
        found = self.run_together(blocks, {index}, time_limit=time_limit, patient=False)
        return found[0] if found else BlockTrace(index, self._buffer[:0], 0, Status.YIELDED)

    def run_batch(self, blocks: Sequence[int], *, time_limit: float = 10.0) -> list[BlockTrace]:
        """Run several blocks in one call, one after the other: for short blocks a call each would take most of it.

        Returns:
            A trace for each, valid until the next run; empty where that cannot be told, because not all blocks came to
            their end or not all records fitted. What they stored is then taken back, with all that was stored before.
        """
        if self._cluster != (1, 1, 1):
            self.take_back()
            return []
        space, context = self._space, self._space.context
        self._begin()
        sequence = np.array(blocks, np.uint64)
        context.block_order = sequence.ctypes.data
        self._undo.attach(context)
        try:
            status = run_blocks(self._entry, space, 0, len(blocks), time_limit=time_limit)
        finally:
            self._undo.detach(context)
            context.block_order = 0
        records = self._buffer[: context.trace.used // RECORD.itemsize]
        leaves = np.array([site.kind == SiteKind.EXIT for site in self.kernel.kernel.sites])
        exits = np.flatnonzero(leaves[records["site"]])  # each thread makes one, as its last record
        if status != Status.DONE or context.trace.lost or len(exits) != len(blocks) * self.threads:
            self.take_back()
            return []
        ends = (exits[self.threads - 1 :: self.threads] + 1).tolist()
        return [
            BlockTrace(block, records[start:end], 0, Status.DONE)
            for block, start, end in zip(blocks, [0, *ends[:-1]], ends, strict=True)
        ]

    def run_together(
        self,
        order: Sequence[int],
        keep: Container[int],
        *,
        time_limit: float = 10.0,
        most: int = 1 << 24,
        patient: bool = True,
        limits: DeviceLimits = H200,
    ) -> list[BlockTrace]:
        """Run the blocks of a kernel that polls memory, as many side by side as fit on the device.

        Args:
            order: the blocks, in the order in which they start.
            keep: those whose traces are wanted.
            time_limit: seconds without a finished block after which the launch is stopped.
            most: records kept in all.
            patient: go on while threads only count rounds, look at the clock, or tell others something again and again.
            limits: the device's.

        Returns:
            Traces in order; those of blocks that did not come to their end have another status than ``DONE``. Where no
            block goes on, :attr:`stuck` is the explanation.
        """
        space, context = self._space, self._space.context
        self._begin()
        if self._cluster != (1, 1, 1):
            order = in_clusters(order, self.grid, self._cluster)
        sequence = np.array(order, np.uint64)
        context.block_order = sequence.ctypes.data
        self.sequence = []
        found: dict[int, BlockTrace] = {}
        parts: dict[int, list[np.ndarray]] = {}
        kept = 0

        def take(position: int, status: int) -> None:
            nonlocal kept
            block, used, lost = order[position], context.trace.used // RECORD.itemsize, context.trace.lost
            context.trace.used = context.trace.lost = 0
            if block not in keep:
                return
            trace = found.setdefault(block, BlockTrace(block, self._buffer[:0], 0, Status(status)))
            trace.status = Status(status)
            trace.lost += lost
            if kept + used > most:
                trace.lost += used
            elif used:
                piece = self._buffer[:used].copy()
                parts.setdefault(block, []).append(piece)
                self.sequence.append((block, piece))
                kept += used

        capacity = resident_blocks(self.kernel.kernel, self.block, self.shared, self._cluster, limits)
        residents = Residents(self.kernel, self._entry, space, len(order), capacity, take, self._cluster)
        self._undo.attach(context)
        try:
            status = run_blocks(lambda *_: residents.run(patient=patient), space, 0, len(order), time_limit=time_limit)
            self.stuck = None
            if status == Status.YIELDED:
                self.stuck = waiting_fault(residents, context, self.kernel, self.grid, self.block, self.args)
        finally:
            self._undo.detach(context)
            residents.leave()
            context.block_order = 0
        for block, trace in found.items():
            if block in parts:
                trace.records = np.concatenate(parts[block])
            if trace.status == Status.FAULT:
                trace.fault = Fault.from_buffer_copy(context.fault)
            trace.timed_out = trace.status == Status.STOPPED and context.stop == Stop.TIMEOUT
        return list(found.values())

    def _begin(self) -> None:
        """Prepare the context for a run."""
        space, context = self._space, self._space.context
        space.prepare(self.kernel, self.grid, self.block, self.args, self.shared, prints=False, together=self._together)
        context.fuel = _FUEL
        if self._order is not None:
            context.thread_order = self._order.ctypes.data
        context.trace.data = self._buffer.ctypes.data
        context.trace.capacity = self._records * RECORD.itemsize
        if self._skips:
            if self.shadow is None:
                self.shadow = shadow_of(self.kernel.module.memory).attach(self.kernel, space)
            self.shadow.resume()
        if self._prepare is not None:
            self._prepare(context)

    def take_back(self) -> None:
        """Take back what the blocks run so far have stored."""
        self._undo.rollback()

    @property
    def threads(self) -> int:
        """Threads a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def footprint(self) -> int:
        """Bytes of the different allocations that the parameters point to."""
        return sum(a.size for a in {id(a): a for a in self._space.allocations}.values())

    @property
    def context(self) -> Context:
        """The context of the last run, for explaining its fault."""
        return self._space.context


def trace(
    kernel: LoadedKernel,
    grid: Triple,
    block: Triple,
    args: bytes,
    shared: int = 0,
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
    order = list(blocks) if blocks is not None else list(range(grid[0] * grid[1] * grid[2]))
    if seed is not None:
        np.random.default_rng(seed).shuffle(order)
    with Tracer(kernel, grid, block, args, shared, records=records, seed=seed) as tracer:
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
