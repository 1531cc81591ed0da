"""Puts operations in order: what each waits for, which engine takes it, and how far the clocks have come.

The host clock and the device's events share one time axis. A call adds its cost to the host clock and lets the loop
catch up; a call that waits lets the loop run until its target has ended and sets the host clock behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from cuda.bindings.runtime import cudaError_t

from cudalab.sim import interrupts
from cudalab.sim.device.caller import Place, place_of_call
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.observer import Observer
from cudalab.sim.device.profile import Profile
from cudalab.sim.device.queue.byte_ranges import Range
from cudalab.sim.device.queue.copy_engine import CopyEngine
from cudalab.sim.device.queue.dependent_launch import LAUNCH_COMPLETION, PROGRAMMATIC, Beside, DependentLaunches
from cudalab.sim.device.queue.effect import Effects
from cudalab.sim.device.queue.engine import Engine, NoEngine
from cudalab.sim.device.queue.event_loop import EventLoop
from cudalab.sim.device.queue.implicit_synchronization import ImplicitOrder
from cudalab.sim.device.queue.operation import NON_BLOCKING, Operation, Stream, Work
from cudalab.sim.device.queue.ordering import EventWait
from cudalab.sim.device.queue.polling import Polling
from cudalab.sim.device.queue.sm_array import SmArray
from cudalab.sim.device.queue.starts import AfterStarts
from cudalab.sim.device.queue.stream import StreamTable
from cudalab.sim.device.timing.l2_cache import L2Cache
from cudalab.sim.machine.memory.allocations import Memory

if TYPE_CHECKING:
    from cudalab.sim.device.queue.host_threads import HostThreads
    from cudalab.sim.device.queue.kernel_launch import KernelOperation

RunT = TypeVar("RunT", bound=Operation)
EVENT_WAIT = EventWait()


class Scheduler:
    """Streams, engines and clocks of the machine's devices (``context.py`` says what each has of its own).

    ``on_fault(operation, error)`` is called when an operation fails; ``on_end(operation)`` when one has ended.
    ``here()`` is the device that the calling host thread uses.
    """

    def __init__(
        self,
        profile: Profile,
        memory: Memory,
        on_fault: Callable[[Operation, CudaError], None],
        on_end: Callable[[Operation], None],
        observers: list[Observer],
        l2_of: Callable[[int], L2Cache],
        here: Callable[[], int] = int,
    ) -> None:
        self.profile = profile
        self._l2_of = l2_of
        self._here = here
        self.token = object()
        """Tells this state of the device from the one after a reset: what was made before is dead then."""
        self.loop = EventLoop()
        self.effects = Effects(memory)
        self.streams = StreamTable(profile.devices, here)
        self.host_ns = 0
        """The clock of the host thread that makes the call."""
        self.others: HostThreads | None = None
        """The threads of the host, while there are several at work."""
        self.place: Place | None = None
        """The line that makes the call that is under way, once somebody has asked for it."""
        self._on_fault, self._on_end = on_fault, on_end
        self.observers = observers
        self._sequence = 0
        self._raised: BaseException | None = None
        self._pending: list[dict[int, Operation]] = [{} for _ in range(profile.devices)]
        """By device and sequence: what has not ended."""
        self._after_starts = AfterStarts()
        self._ready_now: deque[Operation] = deque()
        self._passing_on = False
        self._switch, self._trace_switch = round(profile.device["engine_switch"]), round(profile.device["trace_switch"])
        self.traced = False  # by a trace of the program
        self._submit = round(profile.device["submit"])
        self.implicit = ImplicitOrder(profile, self._released_by_blocks) if ImplicitOrder.wanted(profile) else None
        """Implicit synchronization of early devices; ``None`` on others."""
        self.dependents = DependentLaunches(self.loop, self.effects, profile, self._released_by_blocks)
        self._sms = [self._make_sms() for _ in range(profile.devices)]
        """Of each device; so is the next."""
        self._engines = [self._make_engines(sm) for sm in self._sms]
        self.polling = Polling(
            self.loop,
            self.effects,
            profile.device["l2_latency"],
            self._settled,
            self._failed,
            self.dependents.triggered,
        )

    def _make_sms(self) -> SmArray:
        every = self.implicit is not None
        return SmArray(
            self.loop, self._begin, self._end, self.profile, all_started=self._all_started, tells_every_start=every
        )

    def _make_engines(self, sm: SmArray) -> dict[str, Engine]:
        engines = self.profile.engines
        made: dict[str, Engine] = {
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
                for name in (("",), ("H2D", "D2H"))[count - 1]
            ]
            for engine in copies:
                engine.contention = self.profile.device["bus_contention"]
                engine.others = [other for other in copies if other is not engine]
            made["h2d"], made["d2h"] = copies[0], copies[-1]
        if self.profile.devices > 1:
            made["peer"] = CopyEngine("P2P", self.loop, self._begin, self._end)
        return made

    # -- enqueueing ----------------------------------------------------------------------------------------------------

    def issue(
        self,
        work: Work[RunT],
        stream: Stream,
        after: Iterable[Operation] = (),
        rule: str = "event",
        in_order: bool = True,
        dependent: bool = False,
        primary: Operation | None = None,
        at_start: bool = False,
        launched_by: Operation | None = None,
    ) -> RunT:
        """Run ``work`` behind what is in the stream, unless ``in_order`` is false, and behind ``after``, by ``rule``.
        ``dependent``: it is a launch that may overlap with the kernel before it. ``primary``: with this one, by an edge
        of a graph; ``at_start``: from when its blocks have started. ``launched_by``: the kernel that launched it, whose
        end it does not wait for. This is the one place where operations are made."""
        operation = work.operation_class(work, stream)
        now = self.host_ns
        operation.sequence = sequence = self._sequence
        self._sequence = sequence + 1
        operation.enqueued = now
        operation.earliest = now + self._submit
        operation.wait_reason = "host"
        last, engine = stream.last, operation.engine
        if engine != "none":
            operation.lane = engine
        elif last is not None and not last.done:
            operation.lane = last.lane
        place = self.place
        if place is None:
            place = self.place = place_of_call()
        operation.place = place
        if not in_order or (last is None and stream.flags & NON_BLOCKING):
            waits = []
        elif last is not None and stream.flags & NON_BLOCKING:
            waits = [(last, "stream order")]
        else:
            waits = self.streams.dependencies(stream)
        waits += [(other, rule) for other in after]
        if dependent and (primary := self.dependents.primary(stream)) is not None:
            waits = [*(wait for wait in waits if wait[0] is not last), *stream.let_through]
        engines = self._engines[stream.device]
        taker = engines[engine]
        if engine != "sm" and taker is engines["sm"]:
            operation.exclusive = True  # a device without copy engines
        waiting = 0
        for other, rule in waits if self.implicit is None else waits + self.implicit.enqueued(operation):
            if not other.done:
                other.dependents.append((operation, rule))
                waiting += 1
        operation.waiting += waiting
        self._pending[stream.device][sequence] = operation
        stream.last = operation
        if not work.lets_dependents_through:
            stream.leading = operation
            if stream.let_through:
                stream.let_through = []
        elif self.dependents.primary(stream) is not None:
            stream.let_through += [wait for wait in waits if wait[0].stream is not stream and not wait[0].done]
        if primary is not None:
            self.dependents.enqueued(operation, primary, at_start)  # type: ignore[arg-type]
            waits.append((primary, PROGRAMMATIC))
        if launched_by is not None:
            waits.append((launched_by, "device launch"))
        for observer in self.observers:
            observer.enqueued(operation, waits)
        if taker.in_issue_order:
            taker.issue(operation)
        if not operation.waiting:
            self.loop.at(operation.earliest, partial(self._ready, operation))
        return operation

    def issue_completion(self, launch: KernelOperation, before: Operation | None) -> Operation:
        """What is complete when all blocks of a launch have started, which was issued behind ``before``."""
        after = [] if before is None else [before]
        marker = self.issue(LAUNCH_COMPLETION, Beside(launch.stream), after, "stream order", in_order=False)
        self.dependents.await_start(marker, launch)
        return marker

    def order(self, stream: Stream, after: Operation) -> None:
        """All later work of ``stream`` waits for ``after``."""
        if not after.done:
            self.issue(EVENT_WAIT, stream, after=(after,))
            return
        for observer in self.observers:
            observer.ordered(stream, after)

    def let_go(self, operation: Operation) -> None:
        """What ``operation`` waited for besides other operations has come (``stream_values.py``)."""
        operation.waiting -= 1
        if not operation.waiting:
            self.loop.at(max(self.loop.now, operation.earliest), partial(self._ready, operation))

    def _ready(self, operation: Operation) -> None:
        operation.ready = self.loop.now
        if operation.decided_late:
            operation.decide()
        self._engines[operation.stream.device][operation.engine].ready(operation)

    def _begin(self, operation: Operation) -> int:
        operation.start = self.loop.now
        for observer in self.observers:
            observer.started(operation)
        work = operation.work
        try:
            duration = self.effects.begin(operation)
            if operation.saved:
                duration = max(0, duration - operation.saved)
            if not work.works_on_memory:
                return duration
            work.pass_l2(self._l2_of(operation.stream.device))
            if operation.polling:
                self.polling.started(operation)  # type: ignore[arg-type]
            if operation.publications:
                self._plan_publications(operation, duration)
            return duration
        except BaseException as error:
            self._raised = self._raised or error
            operation.executed = True  # it ends at once, without an effect
            return 0
        finally:
            if self._after_starts:
                self._after_starts.began(operation)

    def when_started(self, device: int, act: Callable[[], None]) -> None:
        """Act when everything that has been enqueued on a device has started."""
        self._after_starts.add(self._pending[device].values(), act)

    def _plan_publications(self, operation: Operation, duration: int) -> None:
        for when, writes, make in operation.publications:
            time = self.loop.now + round(when * duration)
            self.loop.at(time, partial(self._publish, operation, writes, make))

    def _publish(self, operation: Operation, writes: tuple[Range, ...], make: Callable[[], None]) -> None:
        """A kernel that runs makes stores that others can see at once."""
        if not operation.done:
            self.effects.before_commit(writes)
            make()
            self.polling.ended(operation)

    def _end(self, operation: Operation) -> None:
        operation.end = self.loop.now
        try:
            if operation.work.works_on_memory:
                self.effects.end(operation)
            else:
                operation.work.run(operation)
        except BaseException as error:
            if isinstance(error, CudaError) and error.sticky:
                for observer in self.observers:
                    observer.failed(operation)
                self._on_fault(operation, error)
                return
            # an interrupt of a long kernel, or a mistake of our own: the call that drives the loop raises it, and the
            # operation counts as ended, so that the device stays usable
            self._raised = self._raised or error
        if operation.prerequisite is None:
            self._complete(operation)
        else:  # it completes with the kernel before it
            self.dependents.triggered(operation)  # type: ignore[arg-type]
            self.polling.ended(operation)

    def _complete(self, operation: Operation) -> None:
        """The operation has ended, and so has all that it depends on."""
        operation.done = True
        del self._pending[operation.stream.device][operation.sequence]
        self._on_end(operation)
        for observer in self.observers:
            observer.ended(operation)
        operation.wait_cause = None  # or each operation would keep all before it alive
        for other, rule in operation.dependents:
            other.waiting -= 1
            if not other.waiting:
                self._released(other, rule, operation)
        operation.dependents.clear()
        if operation.overlapping:
            self._prerequisite_completed(operation)
        if self._ready_now and not self._passing_on:
            self._pass_on()
        if self.polling.waiting:
            self.polling.ended(operation)

    def _prerequisite_completed(self, primary: Operation) -> None:
        """Dependent launches of a kernel that has completed: some have not started, some wait, some have ended."""
        followers, primary.overlapping = primary.overlapping, ()
        for launch in followers:
            launch.prerequisite = None
            if launch.start < 0:
                self.dependents.start_behind(launch, primary)
            elif launch.end >= 0:
                self._complete(launch)
            elif launch.polling:
                self._sms[launch.stream.device].resume(launch)
                self.polling.prerequisite_completed(launch)

    def _all_started(self, operation: Operation, turn: float) -> None:
        """All blocks of an operation have started, each of which takes ``turn`` ns when they are alone."""
        if operation.tells_start:
            self.dependents.all_started(operation, turn)  # type: ignore[arg-type]
        if self.implicit is not None:
            self.implicit.all_started(operation)

    def _settled(self, operation: Operation) -> None:
        """A launch has finished polling."""
        self._sms[operation.stream.device].settled(operation)

    def _failed(self, operation: Operation, error: BaseException) -> None:
        """A launch that waited for memory to change cannot go on."""
        if isinstance(error, CudaError) and error.sticky:
            self._on_fault(operation, error)
            return
        self._raised = self._raised or error
        self._settled(operation)

    def _pass_on(self) -> None:
        """Tell the engines what has become ready just now. What ends at once makes more ready, so this is a loop."""
        self._passing_on = True
        try:
            ready, engines, now = self._ready_now, self._engines, self.loop.now
            while ready:
                operation = ready.popleft()
                operation.ready = now
                if operation.decided_late:
                    operation.decide()
                engines[operation.stream.device][operation.engine].ready(operation)
        finally:
            self._passing_on = False

    def _released_by_blocks(self, operation: Operation, rule: str, cause: Operation) -> None:
        """The same for one that waited for blocks of ``cause``, to start or to trigger: an engine is at work now."""
        operation.waiting -= 1
        if not operation.waiting:
            self._released(operation, rule, cause)
        if self._ready_now and not self._passing_on:
            self.loop.at(self.loop.now, self._pass_on)

    def _released(self, operation: Operation, rule: str, cause: Operation) -> None:
        """``operation`` has nothing left to wait for; ``cause`` came last."""
        time = now = self.loop.now
        if operation.engine in ("h2d", "d2h") and cause.lane not in ("", operation.engine):
            # a copy engine is told by another engine; kernels wait for copies at no cost, but in a trace
            time += 0 if operation.work.comes_with_commands else self._switch
        elif self.traced and operation.engine == "sm" and cause.lane in ("h2d", "d2h"):
            time += self._trace_switch
        time += operation.delay
        if time > operation.earliest:
            operation.wait_reason, operation.wait_cause = rule, cause
        else:
            time = operation.earliest
        if time > now:
            self.loop.at(time, partial(self._ready, operation))
        else:
            self._ready_now.append(operation)

    # -- time ----------------------------------------------------------------------------------------------------------

    def advance(self, ns: float, *, computes: bool = False) -> None:
        """The host was busy for ``ns``, with a call or, if it ``computes``, with its own work; the device went on
        meanwhile."""
        if self.polling.waiting:
            self.polling.look()  # the host may have changed memory since its last call
        self.host_ns = now = self.host_ns + round(ns)
        if self.others is None:
            self.loop.run_until(now)
        else:
            if not computes:
                self.host_ns = now = self.others.held_interpreter(now - round(ns), now)
            self.others.run_until(now)
        if self._raised is not None:
            self._raise()

    def wait_for(self, operation: Operation | None, *, seen: bool = True) -> None:
        """Block the host until an operation has ended. ``seen``: as for :meth:`wait_for_all`."""
        if operation is not None and not operation.done:
            over = self._run_while(lambda: not operation.done)
            self._check_progress(operation.done)
            self.host_ns = max(self.host_ns, over + round(self.profile.host["wake"]))
        if operation is not None and seen:
            self.host_saw(operation)

    def host_saw(self, operation: Operation | None) -> None:
        """What the host does from now on comes after ``operation`` (``None``: after everything)."""
        for observer in self.observers:
            observer.host_waited(operation)

    def host_saw_stream(self, stream: Stream) -> None:
        """What the host does from now on comes after everything in ``stream`` so far."""
        for observer in self.observers:
            observer.host_waited_for_stream(stream)

    def wait_for_all(self, *, seen: bool = True, device: int | None = None) -> None:
        """Block the host until everything on a device, by default the current one, has ended. ``seen=False``: by a call
        that promises no such wait, so that what the host does next is not ordered by it."""
        number = self._here() if device is None else device
        pending = self._pending[number]
        if pending:
            until = self._sequence

            def before() -> bool:
                """What other threads enqueue meanwhile does not count."""
                return bool(pending) and (self.others is None or next(iter(pending)) < until)

            over = self._run_while(before)
            self._check_progress(not before())
            self.host_ns = max(self.host_ns, over + round(self.profile.host["wake"]))
        if seen and len(self._pending) == 1:
            self.host_saw(None)
        elif seen:
            for observer in self.observers:
                observer.host_waited_for_device(number)

    def _run_while(self, pending: Callable[[], bool]) -> int:
        """Let the loop run; returns when that was over. When it is empty, launches that wait for memory to change wait
        for ever."""

        def goes_on() -> bool:
            return pending() and self._raised is None and not interrupts.noted()

        over = None
        if self.others is None:
            self.loop.run_while(goes_on)
        else:
            over = self.others.run_while(goes_on)
        while goes_on() and self.polling.waiting:
            self.polling.give_up(self.pending)
            self.loop.run_while(goes_on)
        self._raise()
        interrupts.check()
        return self.loop.now if over is None else over

    def _check_progress(self, done: bool) -> None:
        """A loop that is empty before what is waited for has ended: two operations wait for each other."""
        if not done and not self.idle:
            stuck = ", ".join(repr(operation) for operation in self.pending[:5])
            raise CudaError(cudaError_t.cudaErrorUnknown, f"nothing is left to run, and these never ended: {stuck}")

    def _raise(self) -> None:
        """Raise in this call what went wrong while the loop ran."""
        error, self._raised = self._raised, None
        if error is not None:
            raise error

    @property
    def pending(self) -> list[Operation]:
        """What was enqueued and has not ended, in that order."""
        if len(self._pending) == 1:
            return list(self._pending[0].values())
        found = [operation for each in self._pending for operation in each.values()]
        return sorted(found, key=lambda operation: operation.sequence)

    @property
    def idle(self) -> bool:
        return not any(self._pending)

    def drop_everything(self) -> None:
        """The devices are lost: nothing that was enqueued will run."""
        self.loop.clear()
        self.effects.clear()
        self.polling.clear()
        self.dependents.clear()
        self._ready_now.clear()
        for pending, engines in zip(self._pending, self._engines, strict=True):
            pending.clear()
            for engine in engines.values():
                engine.clear()
        for observer in self.observers:
            observer.reset()
