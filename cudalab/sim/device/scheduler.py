"""Puts operations in order: what each waits for, which engine takes it, and how far the clocks have come.

The host clock and the device's events share one time axis. A call adds its cost to the host clock and lets the loop
catch up; a call that waits lets the loop run until its target has ended and sets the host clock behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.caller import place_of_call
from cudalab.sim.device.effect import Effects
from cudalab.sim.device.engine import CopyEngine, NoEngine, SmArray
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.loop import EventLoop
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.operation import EventWait, Operation
from cudalab.sim.device.profile import Profile
from cudalab.sim.device.stream import Stream, StreamTable
from cudalab.sim.machine.memory import Memory


class Scheduler:
    """Streams, engines and clocks of one device.

    ``on_fault(operation, error)`` is called when an operation fails; ``on_end(operation)`` when one has ended.
    """

    def __init__(
        self,
        profile: Profile,
        memory: Memory,
        on_fault: Callable[[Operation, CudaError], None],
        on_end: Callable[[Operation], None],
        observers: list[Observer],
    ) -> None:
        self.profile = profile
        self.token = object()
        """Tells this state of the device from the one after a reset: what was made before is dead then."""
        self.loop = EventLoop()
        self.effects = Effects(memory)
        self.streams = StreamTable()
        self.host_ns = 0
        self._on_fault, self._on_end = on_fault, on_end
        self.observers = observers
        self._sequence = 0
        self._raised: BaseException | None = None
        self._pending: dict[int, Operation] = {}
        self._switch = round(profile.device["engine_switch"])
        self._submit = round(profile.device["submit"])
        self._engines = self._make_engines()

    def _make_engines(self) -> dict[str, NoEngine | CopyEngine | SmArray]:
        engines = self.profile.engines
        sm = SmArray(
            self.loop,
            self._begin,
            self._end,
            concurrent=bool(engines["concurrent_kernels"]),
            max_resident=int(engines["max_resident_grids"]),
        )
        made: dict[str, NoEngine | CopyEngine | SmArray] = {
            "none": NoEngine(self.loop, self._begin, self._end),
            "sm": sm,
            "h2d": sm,
            "d2h": sm,
        }
        in_issue_order = engines["copy_queue"] == "issue"
        count = int(engines["copy"])
        if count:
            copies = [
                CopyEngine(name, self.loop, self._begin, self._end, in_issue_order=in_issue_order)
                for name in ("H2D", "D2H")[:count]
            ]
            for engine in copies:
                engine.contention = self.profile.device["bus_contention"]
                engine.others = [other for other in copies if other is not engine]
            made["h2d"], made["d2h"] = copies[0], copies[-1]
        return made

    # -- enqueueing ----------------------------------------------------------------------------------------------------

    def enqueue(
        self, operation: Operation, after: Iterable[Operation] = (), *, earliest: int | None = None
    ) -> Operation:
        """Put an operation at the end of its stream; it also waits for ``after``."""
        stream = operation.stream
        operation.sequence = self._sequence
        self._sequence += 1
        operation.enqueued = self.host_ns
        operation.earliest = self.host_ns + self._submit if earliest is None else earliest
        operation.held_by = "host"
        operation.lane = operation.engine if operation.engine != "none" else stream.last.lane if stream.last else ""
        operation.place = place_of_call()
        waits = self.streams.dependencies(stream) + [(other, "event") for other in after]
        for other in {id(other): other for other, _ in waits if not other.done}.values():
            other.dependents.append(operation)
            operation.waiting += 1
        self._pending[operation.sequence] = operation
        stream.last = operation
        engine = self._engine(operation)
        if engine is self._engines["sm"] and operation.engine != "sm":
            operation.exclusive = True  # a device without copy engines
        for observer in self.observers:
            observer.enqueued(operation, waits)
        engine.issue(operation)
        if not operation.waiting:
            self.loop.at(operation.earliest, lambda: self._ready(operation))
        return operation

    def order(self, stream: Stream, after: Operation) -> None:
        """All later work of ``stream`` waits for ``after``."""
        if not after.done:
            self.enqueue(EventWait(stream), after=(after,))
            return
        for observer in self.observers:
            observer.ordered(stream, after)

    def _engine(self, operation: Operation) -> NoEngine | CopyEngine | SmArray:
        return self._engines[operation.engine]

    def _ready(self, operation: Operation) -> None:
        operation.ready = self.loop.now
        self._engine(operation).ready(operation)

    def _begin(self, operation: Operation) -> int:
        operation.start = self.loop.now
        for observer in self.observers:
            observer.started(operation)
        try:
            return self.effects.begin(operation)
        except (Exception, KeyboardInterrupt) as error:
            self._raised = self._raised or error
            operation.executed = True  # it ends at once, without an effect
            return 0

    def _end(self, operation: Operation) -> None:
        operation.end = self.loop.now
        try:
            self.effects.end(operation)
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, CudaError) and error.sticky:
                self._on_fault(operation, error)
                return
            # an interrupt of a long kernel, or a mistake of our own: the call that drives the loop raises it, and the
            # operation counts as ended, so that the device stays usable
            self._raised = self._raised or error
        operation.done = True
        del self._pending[operation.sequence]
        self._on_end(operation)
        for observer in self.observers:
            observer.ended(operation)
        operation.held_by_operation = None  # or each operation would keep all before it alive
        for other in operation.dependents:
            other.waiting -= 1
            if other.waiting:
                continue
            time = self.loop.now
            if other.engine in ("h2d", "d2h") and operation.lane not in ("", other.engine):
                time += self._switch  # a copy engine is told by another engine; kernels wait for copies at no cost
            if time > other.earliest:
                other.held_by, other.held_by_operation = self._rule(operation, other), operation
            self.loop.at(max(time, other.earliest), lambda other=other: self._ready(other))  # type: ignore[misc]
        operation.dependents.clear()

    def _rule(self, before: Operation, after: Operation) -> str:
        """By which rule did ``after`` wait for ``before``?"""
        if before.stream is after.stream:
            return "stream order"
        if self.streams.legacy in (before.stream, after.stream) and before.kind != "record":
            return "default stream"
        return "event" if after.kind == "wait" else "default stream"

    # -- time ----------------------------------------------------------------------------------------------------------

    def advance(self, ns: float) -> None:
        """The host was busy for ``ns``; the device went on meanwhile."""
        self.host_ns += round(ns)
        self.loop.run_until(self.host_ns)
        self._raise()

    def wait_for(self, operation: Operation | None) -> None:
        """Block the host until an operation has ended."""
        if operation is not None and not operation.done:
            self.loop.run_while(lambda: not operation.done and self._raised is None)
            self._raise()
            self._check_progress(operation.done)
            self.host_ns = max(self.host_ns, self.loop.now + round(self.profile.host["wake"]))
        if operation is not None:
            self.host_saw(operation)

    def host_saw(self, operation: Operation | None) -> None:
        """What the host does from now on comes after ``operation`` (``None``: after everything)."""
        for observer in self.observers:
            observer.host_waited(operation)

    def wait_for_all(self) -> None:
        """Block the host until everything has ended."""
        if self._pending:
            self.loop.run_while(lambda: bool(self._pending) and self._raised is None)
            self._raise()
            self._check_progress(not self._pending)
            self.host_ns = max(self.host_ns, self.loop.now + round(self.profile.host["wake"]))
        self.host_saw(None)

    def _check_progress(self, done: bool) -> None:
        """A loop that is empty before what is waited for has ended: two operations wait for each other."""
        if not done and self._pending:
            stuck = ", ".join(repr(operation) for operation in list(self._pending.values())[:5])
            raise CudaError(cudaError_t.cudaErrorUnknown, f"nothing is left to run, and these never ended: {stuck}")

    def _raise(self) -> None:
        """Raise in this call what went wrong while the loop ran."""
        error, self._raised = self._raised, None
        if error is not None:
            raise error

    @property
    def idle(self) -> bool:
        return not self._pending

    def drop_everything(self) -> None:
        """The device is lost: nothing that was enqueued will run."""
        self.loop.clear()
        self.effects.clear()
        self._pending.clear()
        for engine in self._engines.values():
            engine.clear()
        for observer in self.observers:
            observer.reset()
