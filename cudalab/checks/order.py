"""Which work comes before which, by what the program asked for: stream order, events, waits of the host.

Two pieces of work that nothing orders may overlap on any device, whether they do on this one or not. Each operation has
the set of all that comes before it, as the bits of one number; the host has what it knows to be done, and all that is
enqueued later comes behind that. Exercises enqueue some dozens of operations, so sets are cheap here; the hazard report
(``sim/device/hazards/clocks.py``), which meets 100,000, has vector clocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from cudalab.sim.device.observer import Observer
from cudalab.sim.device.queue.operation import Operation, Stream


class Order(Observer):
    """Happens-before of one device's operations."""

    def __init__(self) -> None:
        self._past: dict[Operation, int] = {}
        """Of each operation, itself included."""
        self._host = 0
        self._streams: dict[Stream, int] = {}
        """What later work of a stream comes behind."""

    # -- what the device tells ------------------------------------------------------------------------------------

    def enqueued(self, operation: Operation, waits: Sequence[tuple[Operation, str]]) -> None:
        past = self._host | self._streams.get(operation.stream, 0) | 1 << len(self._past)
        for other, _ in waits:
            past |= self._past.get(other, 0)
        self._past[operation] = self._streams[operation.stream] = past

    def ordered(self, stream: Stream, operation: Operation) -> None:
        self._streams[stream] = self._streams.get(stream, 0) | self._past.get(operation, 0)

    def host_waited(self, operation: Operation | None) -> None:
        self._host |= (1 << len(self._past)) - 1 if operation is None else self._past.get(operation, 0)

    def host_waited_for_stream(self, stream: Stream) -> None:
        self._host |= self._streams.get(stream, 0)

    # -- what is asked --------------------------------------------------------------------------------------------

    def before(self, one: Operation, other: Operation) -> bool:
        """Does ``one`` end before ``other`` starts, on every device?"""
        mine, theirs = self._past[one], self._past[other]
        return mine != theirs and mine | theirs == theirs

    def unordered(self, one: Operation, other: Operation) -> bool:
        """May the two overlap?"""
        return one is not other and not self.before(one, other) and not self.before(other, one)

    def host_knows(self, operation: Operation) -> bool:
        """Does what the host does now come behind this operation?"""
        past = self._past[operation]
        return past | self._host == self._host
