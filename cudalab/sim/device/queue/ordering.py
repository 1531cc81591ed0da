"""Work that orders other work, or ends the life of memory: events, waits for values, stream-ordered frees."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from cudalab.sim.device.queue.byte_ranges import Range, Touched, run
from cudalab.sim.device.queue.operation import Operation, Work


class EventRecord(Work[Operation], Struct, frozen=True, eq=False):
    """``cudaEventRecord``: the event is complete, and has its time, when everything before it in the stream has
    ended."""

    kind = "record"
    works_on_memory = False
    name = "event record"

    duration: int
    timing: bool = True

    @property
    def lets_dependents_through(self) -> bool:  # type: ignore[override]
        return not self.timing

    def begin(self, operation: Operation) -> int:
        return self.duration


class EventWait(Work[Operation], Struct, frozen=True, eq=False):
    """``cudaStreamWaitEvent``: later work of the stream waits for a recorded event."""

    kind = "wait"
    works_on_memory = False
    acquires_event = True
    lets_dependents_through = True
    name = "wait for event"


class Empty(Work[Operation], Struct, frozen=True, eq=False):
    """A node of a graph that does nothing but order others."""

    kind = "empty"
    works_on_memory = False
    name = "empty"


EMPTY = Empty()


class SwitchedOff(Work[Operation], Struct, frozen=True, eq=False):
    """A node of an executable graph that is switched off: it does nothing, which takes the front end some time."""

    kind = "empty"
    works_on_memory = False
    name = "switched off"

    duration: int

    def begin(self, operation: Operation) -> int:
        return self.duration


class ValueArrival(Work[Operation], Struct, frozen=True, eq=False):
    """The stream has come to a wait for a value, which is issued right behind it."""

    kind = "wait"
    works_on_memory = False
    name = "arrive at a wait for a value"

    arrived: Callable[[Operation], None]
    """Called with the :class:`ValueWait` operation."""

    def run(self, operation: Operation) -> None:
        for behind, _ in operation.dependents:
            if behind.work.waits_for_value and behind.stream is operation.stream:
                self.arrived(behind)


class ValueWaitOperation(Operation):
    """One run of a wait for a value."""

    waiting = 1  # for the value; its stream's order comes on top


class ValueWait(Work[ValueWaitOperation], Struct, frozen=True, eq=False):
    """``cuStreamWaitValue32``: holds its stream until ``holds()``; ``Scheduler.let_go`` ends that."""

    kind = "wait"
    works_on_memory = False
    waits_for_value = True
    operation_class = ValueWaitOperation

    name: str
    holds: Callable[[], bool]


class Free(Work[Operation], Struct, frozen=True, eq=False):
    """``cudaFreeAsync``: the memory goes when the work before it in the stream has ended."""

    kind = "free"
    works_on_memory = False
    frees_memory = True
    name = "free"

    free: Callable[[], None]
    memory: Range

    def run(self, operation: Operation) -> None:
        self.free()

    @property
    def title(self) -> str:
        return "cudaFreeAsync"

    def touched(self) -> Touched:
        """Whoever uses the memory must be done: a free is like a write to all of it."""
        return Touched((), (run(*self.memory),))
