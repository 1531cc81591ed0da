"""What operations compete for: copy engines, and the array of SMs.

A **copy engine** moves data over the bus, one copy at a time. With two engines one works in each direction; with one
both directions share it; with none, copies take the place of kernels. Engines of today take whichever copy is ready.
Devices with one engine, as the guide describes them, take copies in the order in which they were issued, so a copy that
still waits for a kernel holds up all copies behind it.

The **SM array** runs kernels. A kernel needs a share of it: its blocks, over the blocks that fit the device at once.
Kernels of different streams run together while their shares fit; a large one frees its share as its last wave drains.
Kernels that run together also share memory bandwidth. Here shares are a fluid that flows at every start and end, not
single blocks; a learner would notice in the order of ``printf`` lines of two kernels, and in nothing else so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cudalab.sim.device.loop import Event, EventLoop
from cudalab.sim.device.operation import Operation

Begin = Callable[[Operation], int]
End = Callable[[Operation], None]


class NoEngine:
    """For operations that only order others: they start when they are ready."""

    def __init__(self, loop: EventLoop, begin: Begin, end: End) -> None:
        self._loop, self._begin, self._end = loop, begin, end

    def issue(self, operation: Operation) -> None:
        """The operation was enqueued."""

    def ready(self, operation: Operation) -> None:
        """What the operation depends on has ended."""
        duration = self._begin(operation)
        self._loop.at(self._loop.now + duration, lambda: self._end(operation))

    def clear(self) -> None:
        """Forget everything, as the loss of the device does."""


class CopyEngine:
    """Copies, one at a time. ``in_issue_order``: as issued; otherwise as they become ready."""

    def __init__(self, name: str, loop: EventLoop, begin: Begin, end: End, *, in_issue_order: bool = False) -> None:
        self.name = name
        self._loop, self._begin, self._end = loop, begin, end
        self._in_issue_order = in_issue_order
        self._issued: list[Operation] = []
        self._waiting: list[Operation] = []
        self.running: Operation | None = None
        self._progress: Event | None = None
        self._work_left = 0.0
        self._updated = 0
        self._rate = 1.0
        self.others: list[CopyEngine] = []
        """Engines that share the bus; while one of them runs, both take longer."""
        self.contention = 1.0

    def issue(self, operation: Operation) -> None:
        if self._in_issue_order:
            self._issued.append(operation)

    def ready(self, operation: Operation) -> None:
        self._waiting.append(operation)
        self._start_next()

    def clear(self) -> None:
        self._issued.clear()
        self._waiting.clear()
        self.running = None

    def _start_next(self) -> None:
        if self.running is not None or not self._waiting:
            return
        if self._in_issue_order:
            if self._issued[0] not in self._waiting:
                return
            operation = self._issued.pop(0)
            self._waiting.remove(operation)
        else:
            operation = self._waiting.pop(0)
        if operation.ready < self._loop.now:
            operation.held_by = f"copy engine {self.name}"
        self.running = operation
        self._work_left = float(self._begin(operation))
        self._updated = self._loop.now
        self._rate = 0.0
        self._rerate()
        for other in self.others:
            other._rerate()

    def _rerate(self) -> None:
        """The bus is shared or free now: set the end of the running copy anew."""
        if self.running is None:
            return
        rate = 1.0 / self.contention if any(other.running is not None for other in self.others) else 1.0
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
        for other in self.others:
            other._rerate()
        self._end(operation)
        self._start_next()


class _Running:
    """One kernel on the SMs: the work that is left (ns alone on the device) and how fast it goes now."""

    __slots__ = ("began", "left", "operation", "rate", "total")

    def __init__(self, operation: Operation, total: int, began: int) -> None:
        self.operation = operation
        self.total = max(1.0, float(total))
        self.left = self.total
        self.rate = 0.0
        self.began = began

    @property
    def in_tail(self) -> bool:
        return 1.0 - self.left / self.total >= self.operation.tail_from - 1e-9

    @property
    def need(self) -> float:
        return self.operation.tail_share if self.in_tail else self.operation.share

    def next_change(self) -> float:
        """Work until its last wave begins, or until its end."""
        tail = self.left - self.total * (1.0 - self.operation.tail_from)
        return tail if tail > 1e-6 and not self.in_tail else self.left


class SmArray:
    """Kernels (and what else runs on the SMs), several at a time while their shares fit."""

    def __init__(
        self, loop: EventLoop, begin: Begin, end: End, *, concurrent: bool = True, max_resident: int = 128
    ) -> None:
        self._loop, self._begin, self._end = loop, begin, end
        self._most = max_resident if concurrent else 1
        self._waiting: list[Operation] = []
        self._running: list[_Running] = []
        self._updated = 0
        self._progress: Event | None = None

    def issue(self, operation: Operation) -> None:
        """Kernels are taken as they become ready."""

    def ready(self, operation: Operation) -> None:
        self._waiting.append(operation)
        self._waiting.sort(key=lambda entry: (entry.stream.priority, entry.ready, entry.sequence))
        self._update()

    def clear(self) -> None:
        self._waiting.clear()
        self._running.clear()

    def _update(self) -> None:
        """Move everything to now, end what has ended, start what fits, share out anew."""
        elapsed = self._loop.now - self._updated
        self._updated = self._loop.now
        ended: list[_Running] = []
        for running in self._running:
            running.left -= elapsed * running.rate
            if running.left <= 0.5:
                ended.append(running)
        self._running = [running for running in self._running if running not in ended]
        for running in ended:
            self._end(running.operation)
        self._start_waiting()
        self._share_out()
        if self._progress is not None:
            self._loop.cancel(self._progress)
            self._progress = None
        moving = [running.next_change() / running.rate for running in self._running if running.rate > 0]
        if moving:
            wait = max(1, math.ceil(min(moving) - 1e-6))
            self._progress = self._loop.at(self._loop.now + wait, self._update)

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self._most:
            free = 1.0 - sum(running.need for running in self._running)
            operation = self._waiting[0]
            if operation.exclusive and self._running:
                break
            if any(running.operation.exclusive for running in self._running):
                break
            # the share is known once begun; a kernel starts when there is room for its first blocks
            if free <= 1e-6 and self._running:
                break
            self._waiting.pop(0)
            if operation.ready < self._loop.now:
                operation.held_by = "SM resources"
            duration = self._begin(operation)
            self._running.append(_Running(operation, duration, self._loop.now))

    def _share_out(self) -> None:
        """Residency by order of start, then bandwidth in proportion to demand."""
        free = 1.0
        for running in self._running:
            granted = min(running.need, max(free, 0.0))
            running.rate = granted / running.need if running.need > 0 else 1.0
            free -= granted
        wanted = sum(running.rate * running.operation.demand for running in self._running)
        if wanted > 1.0:
            for running in self._running:
                if running.operation.demand > 0:
                    running.rate /= wanted
        for running in self._running:
            running.rate = max(running.rate, 1e-3)
