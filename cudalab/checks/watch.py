"""What is seen of an answer in Python while it runs: its runtime calls, and the work that it puts into streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudalab.sim.device.observer import Observer
from cudalab.sim.names import FILE

if TYPE_CHECKING:
    from cudalab.sim.device.caller import Place
    from cudalab.sim.device.declaration import Call as RuntimeCall
    from cudalab.sim.device.queue.operation import Operation

QUERIES = frozenset({"event_query", "stream_query"})


@dataclass(frozen=True)
class Call:
    """One runtime call that the learner's function made."""

    name: str
    """The device's method: ``launch``, ``event_record``, ``stream_synchronize``, …"""
    place: Place
    """The learner's line."""
    start: int
    end: int
    """Host time, modelled ns."""
    waited: bool
    """Did the host wait in it for work on the device?"""

    def __str__(self) -> str:
        return f"line {self.place.line}: {self.place.text}" if self.place.file == FILE else self.name


class Watch(Observer):
    """Keeps what one call of the learner's function did."""

    def __init__(self) -> None:
        self.on = False
        self.calls: list[Call] = []
        self.operations: list[Operation] = []
        self.callers: list[Operation] = []
        """What was enqueued around the function, by its caller."""
        self.raised: list[BaseException] = []
        """What functions of the host in a stream ended with."""
        self.made: list[int] = []
        """The devices whose primary contexts it has made, in order."""
        self._waited = False

    def context_made(self, number: int) -> None:
        if self.on:
            self.made.append(number)

    def called(self, call: RuntimeCall, place: Place, start: int, end: int) -> None:
        waited, self._waited = self._waited, False
        if self.on:
            self.calls.append(Call(call.name, place, start, end, waited and call.name not in QUERIES))

    def enqueued(self, operation: Operation, waits: Sequence[tuple[Operation, str]]) -> None:
        (self.operations if self.on else self.callers).append(operation)

    def host_waited(self, operation: Operation | None) -> None:
        self._waited = True

    def host_function_raised(self, error: BaseException) -> None:
        self.raised.append(error)
