"""The event loop: one modelled clock for the host and everything on the device.

Time is an integer number of nanoseconds. Events are kept in a heap with the key ``(time, priority, sequence)``, so two
runs of the same program give the same order, whatever Python's hashes are. Nothing runs on its own: a runtime call
moves the loop forward, up to the host's clock or until what it waits for has happened. Plain Python between two calls
takes no modelled time at all; that is where a learner would notice the difference to a GPU, which goes on working.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Event:
    """One entry of the loop; :meth:`EventLoop.cancel` takes it back."""

    __slots__ = ("action", "time")

    def __init__(self, time: int, action: Action | None) -> None:
        self.time = time
        self.action = action


class EventLoop:
    """Runs actions in the order of their modelled time (ns)."""

    def __init__(self) -> None:
        self.now = 0
        """Time of the action that runs, or ran last."""
        self._heap: list[tuple[int, int, int, Event]] = []
        self._sequence = 0

    def at(self, time: int, action: Action, priority: int = 0) -> Event:
        """Run ``action`` at ``time`` (not before ``now``). Of two at the same time the lower priority goes first, then
        the one scheduled earlier."""
        event = Event(max(time, self.now), action)
        self._sequence += 1
        heapq.heappush(self._heap, (event.time, priority, self._sequence, event))
        return event

    @staticmethod
    def cancel(event: Event) -> None:
        event.action = None

    def run_until(self, time: int) -> None:
        """Run everything that is due up to and including ``time``; ``now`` is ``time`` afterwards."""
        while self._heap and self._heap[0][0] <= time:
            self._step()
        self.now = max(self.now, time)

    def run_while(self, pending: Callable[[], bool]) -> None:
        """Run until ``pending()`` is false or nothing is left to run."""
        while pending() and self._heap:
            self._step()

    def clear(self) -> None:
        """Forget everything that has not run."""
        self._heap.clear()

    def __len__(self) -> int:
        return sum(entry[3].action is not None for entry in self._heap)

    def _step(self) -> None:
        time, _, _, event = heapq.heappop(self._heap)
        action, event.action = event.action, None
        if action is not None:
            self.now = max(self.now, time)
            action()
