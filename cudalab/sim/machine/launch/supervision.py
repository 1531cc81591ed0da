"""Runs native code on worker threads, so that the launching thread can stop it.

Native code checks ``context.stop`` from time to time. The launching thread waits in short slices and sets it on an
interrupt, or when no block has finished for the time limit. An interrupt is one that was noted (``sim/interrupts.py``),
or whatever another signal's handler raises in the launching thread, the ``TimeoutError`` of a program's own alarm, say.
The launch's memory may only be let go when its threads have stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from cudalab.sim import interrupts
from cudalab.sim.abi import Status, Stop
from cudalab.sim.machine.launch import worker_threads as workers_pool
from cudalab.sim.machine.launch.worker_threads import Job, Worker

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.workspace import Workspace

SLICE = 0.05
"""Seconds between two checks of a launch's progress."""
PATIENCE = 20.0
"""Seconds that a worker has to stop once it was told to."""


class NotStopped(RuntimeError):
    """Native code did not stop when told to; its thread was left behind."""


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
    return run(entry, [space], end, time_limit, interruptible, first)[0]


def run(
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
        except NotStopped:
            raise
        except BaseException as error:  # it came between two statements
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
    """Wait for all jobs and stop them at the time limit; returns an interrupt that arrived meanwhile."""
    interrupted: BaseException | None = None
    done, since = -1, 0.0
    while True:
        try:
            if all(job.wait(SLICE) for job in jobs):
                return interrupted
            interrupts.check()
            if any(space.context.stop for space in spaces):
                _wait_until_stopped(jobs)
                continue
            now = time.monotonic()
            finished = sum(space.context.blocks_done for space in spaces)
            if finished != done:
                done, since = finished, now
            elif now - since >= time_limit:
                _stop(spaces, Stop.TIMEOUT)
        except NotStopped:
            raise
        except BaseException as error:
            interrupted = error
            if interruptible:
                _stop(spaces, Stop.INTERRUPT)


def _wait_until_stopped(jobs: list[Job]) -> None:
    deadline = time.monotonic() + PATIENCE
    for job in jobs:
        job.withdraw()
    while time.monotonic() <= deadline:
        with suppress(BaseException):  # already stopping
            if all(job.wait(SLICE) for job in jobs):
                return
    raise NotStopped("native code did not stop when told to; restart the Python process")
