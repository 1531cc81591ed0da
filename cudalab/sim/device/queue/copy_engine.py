"""Copy engines: they move data over the bus, one copy at a time, while kernels run.

With two engines one works in each direction; with one both directions share it; with none, copies take the place of
kernels (scheduler.py). ``asyncEngineCount`` is their number (CUDA C++ Programming Guide, "Overlap of Data Transfer and
Kernel Execution" and "Concurrent Data Transfers").

Current engines take whichever copy is ready. Devices with one engine, as the guide describes them, take copies in the
order in which they were issued, so a copy that still waits for a kernel holds up all copies behind it: issued depth
first, two streams do not overlap on such a device.

An engine is told by the one that was at work before in a stream, which takes some 5 µs (``engine_switch``). Copies to
the device of up to 1 KB take no engine on a GPU: they come with the stream's commands, so they start at once behind a
kernel.

What is simplified: those still take their turn at the engine here, a copy is not cut into pieces, and two directions at
once slow each other by one measured factor. A learner would notice in copies of very different length in both
directions, where a GPU's factor differs a little.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from cudalab.sim.device.queue.event_loop import Event, EventLoop
from cudalab.sim.device.queue.operation import Operation

Begin = Callable[[Operation], int]
End = Callable[[Operation], None]


class CopyEngine:
    """Copies, one at a time. ``in_issue_order``: as issued; otherwise as they become ready."""

    def __init__(self, name: str, loop: EventLoop, begin: Begin, end: End, *, in_issue_order: bool = False) -> None:
        self.name = name
        self._loop, self._begin, self._end = loop, begin, end
        self.in_issue_order = in_issue_order
        self._issued: deque[Operation] = deque()
        self._ready: deque[Operation] = deque()
        """Copies that are ready, in the order in which the engine takes them when that is not the order of issue."""
        self.running: Operation | None = None
        self._before: Operation | None = None
        self._progress: Event | None = None
        self._work_left = 0.0
        self._updated = 0
        self._rate = 1.0
        self.others: list[CopyEngine] = []
        """Engines that share the bus; while one of them runs, both take longer."""
        self.contention = 1.0

    def issue(self, operation: Operation) -> None:
        """The operation was enqueued."""
        self._issued.append(operation)

    def ready(self, operation: Operation) -> None:
        """What the operation depends on has ended."""
        if not self.in_issue_order:
            self._ready.append(operation)
        if self.running is None:
            self._start_next()

    def clear(self) -> None:
        """Forget everything, as the loss of the device does."""
        self._issued.clear()
        self._ready.clear()
        self.running = self._before = self._progress = None

    def _start_next(self) -> None:
        queue = self._issued if self.in_issue_order else self._ready
        if not queue or queue[0].ready < 0:  # the next one still waits for something else
            return
        operation = queue.popleft()
        if operation.ready < self._loop.now:
            operation.wait_reason, operation.wait_cause = f"copy engine {self.name}".rstrip(), self._before
        self.running = operation
        self._work_left = float(self._begin(operation))
        self._updated = self._loop.now
        self._rate = 0.0
        self._rerate()
        for other in self.others:
            if other.running is not None:
                other._rerate()

    def _rerate(self) -> None:
        """The bus is shared or free now: set the end of the running copy anew."""
        rate = 1.0
        for other in self.others:
            if other.running is not None:
                rate = 1.0 / self.contention
        if rate == self._rate:
            return
        self._work_left -= (self._loop.now - self._updated) * self._rate
        self._updated, self._rate = self._loop.now, rate
        if self._progress is not None:
            self._loop.cancel(self._progress)
        self._progress = self._loop.at(self._loop.now + max(0, round(self._work_left / rate)), self._finish)

    def _finish(self) -> None:
        operation, self.running, self._progress = self.running, None, None
        assert operation is not None
        self._before = operation
        for other in self.others:
            if other.running is not None:
                other._rerate()
        self._end(operation)
        if self.running is None:
            self._start_next()
        self._before = None  # what comes later was not held up by it
