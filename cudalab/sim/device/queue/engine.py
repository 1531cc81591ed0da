"""What operations compete for: copy engines (copy_engine.py), and the array of SMs (sm_array.py).

An engine is told of an operation twice: when it is issued, and when all that it depends on has ended. It calls
``begin`` when it takes the operation, which returns the modelled duration, and ``end`` when that has gone by. An
operation that had to wait for its engine gets the engine's name as what held it, and the operation that made room.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from cudalab.sim.device.queue.event_loop import EventLoop
from cudalab.sim.device.queue.operation import Operation

Begin = Callable[[Operation], int]
End = Callable[[Operation], None]


class Engine(Protocol):
    """What the scheduler knows of an engine."""

    in_issue_order: bool
    """Does it take operations in the order in which they were enqueued? If so, it is told of each by :meth:`issue`."""

    def issue(self, operation: Operation) -> None:
        """The operation was enqueued."""

    def ready(self, operation: Operation) -> None:
        """What the operation depends on has ended."""

    def clear(self) -> None:
        """Forget everything, as the loss of the device does."""


class NoEngine:
    """For operations that only order others: they start when they are ready."""

    in_issue_order = False

    def __init__(self, loop: EventLoop, begin: Begin, end: End) -> None:
        self._loop, self._begin, self._end = loop, begin, end

    def issue(self, operation: Operation) -> None:
        """Nothing is reserved."""

    def ready(self, operation: Operation) -> None:
        duration = self._begin(operation)
        if duration:
            self._loop.at(self._loop.now + duration, partial(self._end, operation))
        else:
            self._end(operation)

    def clear(self) -> None:
        """Nothing is kept."""
