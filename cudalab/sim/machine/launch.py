"""One kernel launch: check the configuration, run the blocks, say what came of it.

A GPU starts as many blocks as fit on its SMs and lets them run in any order. Here blocks run one after the other in
their linear order, on one worker unless more are asked for; with one worker results are the same in every run, float
atomics included. A learner would notice only in kernels that depend on the order, which are wrong.

A kernel cannot hang the process. Running code looks at ``context.stop`` every few ten thousand loop iterations, and the
launching thread sets it on an interrupt, or when no block has finished for ``time_limit`` seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudalab.sim.abi import Status, Stop
from cudalab.sim.machine import worker as workers_pool
from cudalab.sim.machine import workspace as workspaces
from cudalab.sim.machine.configuration import check_configuration, extent
from cudalab.sim.machine.faults import Fault, from_context, time_limit_fault
from cudalab.sim.machine.limits import H200, DeviceLimits
from cudalab.sim.machine.printing import decode
from cudalab.sim.machine.undo import HeldStores, UndoLog
from cudalab.sim.machine.worker import Job, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudalab.sim.machine.memory import Allocation, Memory
    from cudalab.sim.machine.module import LoadedKernel
    from cudalab.sim.machine.workspace import Workspace

SLICE = 0.05
"""Seconds between two looks at the progress of a launch."""
PATIENCE = 20.0
"""Seconds a worker is given to stop once it was told to."""


class NotStopped(RuntimeError):
    """Native code did not stop when told to; its thread was left behind."""


@dataclass
class Outcome:
    """What came of a launch."""

    fault: Fault | None = None
    """Why it stopped early, or None."""
    text: str = ""
    """What the kernel printed."""
    lost_prints: int = 0
    """Calls of printf that no longer fitted into the buffer."""
    blocks_done: int = 0
    held: HeldStores | None = None
    """With ``hold_stores``: the stores that were made and taken back."""


def launch(
    kernel: LoadedKernel,
    grid: Sequence[int] | int,
    block: Sequence[int] | int,
    args: bytes,
    shared: int = 0,
    *,
    variant: str = "",
    workers: int = 1,
    time_limit: float = 10.0,
    interruptible: bool = True,
    clock_ns: int = 0,
    hold_stores: bool = False,
    limits: DeviceLimits = H200,
) -> Outcome:
    """Run a kernel over a grid and wait for it.

    Args:
        kernel: from :meth:`Module.kernel`.
        grid: blocks, one to three numbers.
        block: threads a block, one to three numbers.
        args: the parameter buffer, laid out by ``Kernel.parameters``.
        shared: dynamic shared memory a block, bytes.
        variant: native code to run; by default "plain", or "atomic" with several workers.
        workers: threads that run blocks. With more than one the order of atomics is not the same in every run.
        time_limit: seconds without a finished block after which the launch is stopped.
        interruptible: let a KeyboardInterrupt stop the launch; otherwise it is raised when the launch has ended.
        clock_ns: what ``clock64`` and ``globaltimer`` count from.
        hold_stores: take all stores to global memory back at the end and return them (one worker, traced code).
        limits: the device's.

    Returns:
        The outcome; a fault in the kernel is in ``Outcome.fault``, not raised.

    Raises:
        LaunchError: the configuration is not allowed; nothing ran.
        ValueError: `args` has the wrong length.
        KeyboardInterrupt: interrupted; the launch has stopped, stores made so far stay.
    """
    grid_, block_ = extent(grid, "grid"), extent(block, "block")
    check_configuration(
        kernel.kernel, grid_, block_, shared, max_dynamic_shared=kernel.max_dynamic_shared, limits=limits
    )
    blocks = grid_[0] * grid_[1] * grid_[2]
    workers = 1 if hold_stores else max(1, min(workers, blocks))
    variant = variant or ("traced" if hold_stores else "atomic" if workers > 1 else "plain")
    entry = kernel.entry(variant)
    memory = kernel.module.memory
    spaces = [workspaces.borrow() for _ in range(workers)]
    undo = UndoLog(memory) if hold_stores else None
    try:
        for space in spaces:
            space.prepare(kernel, grid_, block_, args, shared, clock=clock_ns)
        mark_reachable_written(kernel, spaces[0].allocations)
        if undo is not None:
            undo.attach(spaces[0].context)
        statuses = _run(entry, spaces, blocks, time_limit, interruptible)
        outcome = Outcome(blocks_done=sum(space.context.blocks_done for space in spaces))
        outcome.fault = _fault(kernel, spaces, statuses, grid_, block_, args, time_limit)
        _collect_prints(outcome, spaces, memory)
        if undo is not None:
            undo.detach(spaces[0].context)
            outcome.held = undo.take_back()
            undo = None
    except NotStopped:
        spaces.clear()  # still in use by the thread that was left behind
        raise
    finally:
        if undo is not None and spaces:
            undo.detach(spaces[0].context)
            undo.rollback()
        for space in spaces:
            workspaces.give_back(space)
    return outcome


def run_blocks(
    entry: Callable[[int, int, int], int],
    space: Workspace,
    first: int,
    end: int,
    *,
    time_limit: float = 10.0,
    interruptible: bool = True,
) -> int:
    """Run blocks ``first … end`` in one prepared workspace and return the :class:`Status`."""
    return _run(entry, [space], end, time_limit, interruptible, first)[0]


def mark_reachable_written(kernel: LoadedKernel, allocations: Sequence[Allocation]) -> None:
    """Count all memory that an untraced launch can write as written: initcheck must never raise a false alarm."""
    if not kernel.writes_global:
        return
    memory = kernel.module.memory
    reachable = list(memory) if kernel.follows_pointers else allocations
    for allocation in reachable:
        written = allocation.written
        if not written.complete:
            written.mark_all()


def _run(
    entry: Callable[[int, int, int], int],
    spaces: list[Workspace],
    end: int,
    time_limit: float,
    interruptible: bool,
    first: int = 0,
) -> list[int]:
    """Run blocks ``first … end`` on as many threads as there are workspaces; returns each one's status."""
    statuses = [int(Status.DONE)] * len(spaces)
    jobs = [Job(call) for call in _calls(entry, spaces, first, end, statuses)]
    threads: list[Worker] = []
    try:
        interrupted: BaseException | None = None
        try:
            for job in jobs:
                threads.append(workers_pool.borrow())
                threads[-1].inbox.put(job)
            interrupted = _wait(jobs, spaces, time_limit, interruptible)
        except KeyboardInterrupt as error:  # it came between two statements
            interrupted = error
            _stop(spaces, Stop.INTERRUPT)
            _wait_until_stopped(jobs)
    finally:
        if all(job.finished for job in jobs):
            for thread in threads:
                workers_pool.give_back(thread)
    if interrupted is not None:
        raise interrupted
    for job in jobs:
        if job.error is not None:
            raise job.error
    return statuses


def _calls(
    entry: Callable[[int, int, int], int], spaces: list[Workspace], first: int, end: int, statuses: list[int]
) -> list[Callable[[], None]]:
    if len(spaces) == 1:
        address = spaces[0].address

        def run_all() -> None:
            statuses[0] = entry(address, first, end)

        return [run_all]
    chunk = max(1, (end - first) // (len(spaces) * 16))
    lock = threading.Lock()
    next_block = first

    def run_chunks(index: int) -> None:
        nonlocal next_block
        while True:
            with lock:
                start = next_block
                next_block = end if spaces[index].context.stop else min(end, start + chunk)
                stop = next_block
            if start >= stop:
                return
            statuses[index] = entry(spaces[index].address, start, stop)
            if statuses[index] != Status.DONE:
                _stop(spaces, Stop.INTERRUPT)
                return

    def bound(index: int) -> Callable[[], None]:
        return lambda: run_chunks(index)

    return [bound(index) for index in range(len(spaces))]


def _stop(spaces: list[Workspace], reason: Stop) -> None:
    for space in spaces:
        if not space.context.stop:
            space.context.stop = reason


def _wait(jobs: list[Job], spaces: list[Workspace], time_limit: float, interruptible: bool) -> BaseException | None:
    """Wait for all jobs, stop them at the time limit; returns the interrupt that came meanwhile."""
    interrupted: BaseException | None = None
    done, since = -1, 0.0
    while True:
        try:
            if all(job.wait(SLICE) for job in jobs):
                return interrupted
            if any(space.context.stop for space in spaces):
                _wait_until_stopped(jobs)
                continue
            now = time.monotonic()
            finished = sum(space.context.blocks_done for space in spaces)
            if finished != done:
                done, since = finished, now
            elif now - since >= time_limit:
                _stop(spaces, Stop.TIMEOUT)
        except KeyboardInterrupt as error:
            interrupted = error
            if interruptible:
                _stop(spaces, Stop.INTERRUPT)


def _wait_until_stopped(jobs: list[Job]) -> None:
    deadline = time.monotonic() + PATIENCE
    for job in jobs:
        job.withdraw()
    while True:
        try:
            if all(job.wait(SLICE) for job in jobs):
                return
            if time.monotonic() > deadline:
                raise NotStopped("native code did not stop when told to; restart the Python process")
        except KeyboardInterrupt:  # already stopping
            pass


def _fault(
    kernel: LoadedKernel,
    spaces: list[Workspace],
    statuses: list[int],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    args: bytes,
    time_limit: float,
) -> Fault | None:
    faulty = [space for space, status in zip(spaces, statuses, strict=True) if status == Status.FAULT]
    if faulty:
        first = min(faulty, key=lambda space: space.context.fault.block)
        return from_context(first.context, kernel, grid, block, args)
    for space, status in zip(spaces, statuses, strict=True):
        if status == Status.STOPPED and space.context.stop == Stop.TIMEOUT:
            return time_limit_fault(space.context, kernel, grid, block, time_limit)
    return None


def _collect_prints(outcome: Outcome, spaces: list[Workspace], memory: Memory) -> None:
    entries = []
    for space in spaces:
        if space.context.print.used or space.context.print.lost:
            entries += decode(space.printed(), lambda address: read_string(memory, address))
        outcome.lost_prints += space.context.print.lost
    if len(spaces) > 1:
        entries.sort(key=lambda entry: entry[0])  # stable: a block's entries stay in order
    outcome.text = "".join(text for _, _, text in entries)
    if outcome.lost_prints:
        if outcome.text and not outcome.text.endswith("\n"):
            outcome.text += "\n"
        outcome.text += (
            f"[{outcome.lost_prints} more calls of printf are not shown: the launch printed more than 64 MB; "
            "print from fewer threads]\n"
        )


def read_string(memory: Memory, address: int, most: int = 1 << 16) -> bytes:
    """The NUL-terminated bytes at a device address; ``(null)`` as C libraries print it, or what the address is."""
    if address == 0:
        return b"(null)"
    allocation = memory.find(address)
    if allocation is None:
        return f"<{address:#x} is no device memory>".encode()
    size = min(allocation.end - address, most)
    text = bytes(memory.view(address, size, write=False))
    end = text.find(b"\0")
    return text if end < 0 else text[:end]
