"""The event loop: one modelled clock for the host and everything on the device.

Time is an integer number of nanoseconds. Events are kept in a heap with the key ``(time, priority, sequence)``, so two
runs of the same program give the same order, whatever Python's hashes are. Nothing runs on its own: a runtime call
moves the loop forward, up to the host's clock or until what it waits for has happened. Plain Python between two calls
takes no modelled time at all; that is where a learner would notice the difference to a GPU, which goes on working.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[[], None]

Event = list[Any]
"""One entry of the loop: time, priority, sequence, action. A list, because lists compare fast and the action can be
taken back (:meth:`EventLoop.cancel`)."""


class EventLoop:
    """Runs actions in the order of their modelled time (ns)."""

    def __init__(self) -> None:
        self.now = 0
        """Time of the action that runs, or ran last."""
        self._heap: list[Event] = []
        self._sequence = 0

    def at(self, time: int, action: Action, priority: int = 0) -> Event:
        """Run ``action`` at ``time`` (not before ``now``). Of two at the same time the lower priority goes first, then
        the one scheduled earlier."""
        self._sequence = sequence = self._sequence + 1
        event: Event = [time if time > self.now else self.now, priority, sequence, action]
        heappush(self._heap, event)
        return event

    @staticmethod
    def cancel(event: Event) -> None:
        """The action of an event that has not run never does."""
        event[3] = None

    def run_until(self, time: int) -> None:
        """Run everything that is due up to and including ``time``; ``now`` is ``time`` afterwards."""
        heap = self._heap
        while heap and heap[0][0] <= time:  # run_next, inlined: every operation passes here
            event = heappop(heap)
            action, event[3] = event[3], None
            if action is not None:
                if event[0] > self.now:
                    self.now = event[0]
                action()
        if time > self.now:
            self.now = time

    def pass_time(self, time: int) -> None:
        """The same where nothing is due."""
        if time > self.now:
            self.now = time

    def run_while(self, pending: Callable[[], bool]) -> None:
        """Run until ``pending()`` is false or nothing is left to run."""
        while self._heap and pending():
            self.run_next()

    def run_next(self) -> None:
        """Run the action that is due first; there must be one."""
        event = heappop(self._heap)
        action, event[3] = event[3], None
        if action is not None:
            if event[0] > self.now:
                self.now = event[0]
            action()

    @property
    def next_time(self) -> int | None:
        """When the next action is due; None when nothing is left to run."""
        heap = self._heap
        while heap and heap[0][3] is None:
            heappop(heap)
        return heap[0][0] if heap else None

    def clear(self) -> None:
        """Forget everything that has not run."""
        self._heap.clear()

    def __len__(self) -> int:
        return sum(event[3] is not None for event in self._heap)
