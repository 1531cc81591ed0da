"""Kernels that poll memory until another agent changes it.

A kernel on a GPU can spin on a flag that a copy, another kernel, a host function or the host itself sets while it runs.
Here such a launch runs at its modelled start until all of its threads are stuck polling, and then stays in flight: its
blocks stay resident, modelled time passes, and it polls again whenever its memory could have changed, which is when an
operation ends and when the host makes a call. It ends once its threads get past their loops.

A launch that makes progress by itself (a lock between blocks, a barrier across the grid) never gets here; its effects
become visible at its end like those of any other kernel. The stores of a launch that polls are visible at once, because
another agent may be waiting for them.

When the host waits and only polling launches are left, nothing can change their memory any more. A GPU would hang; here
the first of them fails with ``cudaErrorLaunchTimeout`` and an explanation. What is simplified: all threads poll at the
same modelled time, and a thread that counts its iterations counts roughly as many as would fit into the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from cudalab.sim.device.queue.event_loop import Event, EventLoop

if TYPE_CHECKING:
    from cudalab.sim.device.queue.effect import Effects
    from cudalab.sim.device.queue.kernel_launch import KernelOperation
    from cudalab.sim.device.queue.operation import Operation

FEW_ROUNDS, MANY_ROUNDS = 2, 4096
"""Iterations that a thread which counts them, or reads the clock, executes at a time: at first, and at most."""
BUSY_ROUNDS = 64
"""Iterations at a time of a launch that keeps storing what others can see."""


class _Waiting:
    """One launch that polls, and when it next does so on its own."""

    __slots__ = ("event", "launch", "rounds")

    def __init__(self, launch: KernelOperation) -> None:
        self.launch = launch
        self.rounds = FEW_ROUNDS
        self.event: Event | None = None


class Polling:
    """The launches of one device that poll memory.

    ``round_ns`` is the modelled time of one iteration of a polling loop. ``settled(launch)`` is called when a launch
    has finished polling, ``failed(launch, error)`` when it has failed, ``moved(launch)`` when its threads have come
    further.
    """

    def __init__(
        self,
        loop: EventLoop,
        effects: Effects,
        round_ns: float,
        settled: Callable[[Operation], None],
        failed: Callable[[Operation, BaseException], None],
        moved: Callable[[KernelOperation], None],
    ) -> None:
        self._loop, self._effects, self._round_ns = loop, effects, round_ns
        self._settled, self._failed, self._moved = settled, failed, moved
        self.waiting: list[_Waiting] = []
        self._looking = self._due = False

    def started(self, launch: KernelOperation) -> None:
        """A launch has started and polls; it may have stored what others poll."""
        entry = _Waiting(launch)
        self.waiting.append(entry)
        self._plan(entry)
        self._look_soon()

    def ended(self, operation: Operation) -> None:
        """An operation has ended, so memory may have changed."""
        if self.waiting and operation.work.works_on_memory:
            self._look_soon()

    def _look_soon(self) -> None:
        """In an event of its own: a fault found here must not lose the device in the middle of the current event."""
        if not self._due:
            self._due = True
            self._loop.at(self._loop.now, self._look_as_due)

    def _look_as_due(self) -> None:
        self._due = False
        self.look()

    def look(self) -> None:
        """Memory may have changed: let every launch poll, until none makes progress."""
        if self._looking:  # a launch that polls can run held operations, which end up here
            return
        self._looking = True
        try:
            moved = bool(self.waiting)
            while moved:
                moved = False
                for entry in list(self.waiting):
                    if entry in self.waiting and not (entry.launch.is_busy or entry.launch.waits_in_vain):
                        moved = self._look(entry, FEW_ROUNDS) or moved
        finally:
            self._looking = False

    def _look(self, entry: _Waiting, rounds: int) -> bool:
        """Resume one launch; returns whether it has done anything that others can see."""
        launch = entry.launch
        if launch.shows_stores:
            self._effects.before_commit(launch.writes())
        try:
            moved = launch.look_again(self._loop.now, rounds, BUSY_ROUNDS)
        except BaseException as error:
            self._forget(entry)
            self._failed(launch, error)
            return True
        if not launch.polling:
            self._forget(entry)
            self._settled(launch)
            return True
        if moved:
            entry.rounds = FEW_ROUNDS
            self._moved(launch)
        self._plan(entry)
        return moved

    def prerequisite_completed(self, launch: KernelOperation) -> None:
        """The kernel that threads of a launch wait for has completed: they go on."""
        launch.prerequisite_completed()
        for entry in self.waiting:
            if entry.launch is launch:
                self._look(entry, FEW_ROUNDS)
                self._look_soon()
                return

    def _plan(self, entry: _Waiting) -> None:
        """Threads that count iterations, or read the clock, are resumed after the time that takes."""
        if entry.event is not None:
            self._loop.cancel(entry.event)
            entry.event = None
        if entry.launch.only_others_can_help:
            return
        rounds = BUSY_ROUNDS if entry.launch.is_busy else entry.rounds
        later = max(self._loop.now + max(1, round(rounds * self._round_ns)), entry.launch.clock_ns)
        entry.event = self._loop.at(later, partial(self._time_has_passed, entry))

    def _time_has_passed(self, entry: _Waiting) -> None:
        entry.event = None
        entry.rounds = min(MANY_ROUNDS, 2 * entry.rounds)
        if self._look(entry, entry.rounds):
            self.look()

    def _forget(self, entry: _Waiting) -> None:
        if entry.event is not None:
            self._loop.cancel(entry.event)
        if entry in self.waiting:
            self.waiting.remove(entry)

    def give_up(self, pending: Iterable[Operation]) -> None:
        """The host waits and nothing else is left to run: the first polling launch fails with an explanation.
        ``pending`` are all operations that have not ended."""
        entry = next((entry for entry in self.waiting if not entry.launch.waits_in_vain), self.waiting[0])
        self._forget(entry)
        others = [other.launch.name for other in self.waiting if not other.launch.waits_in_vain]
        try:
            entry.launch.give_up(_why(entry.launch, others, pending))
        except BaseException as error:
            self._failed(entry.launch, error)

    def clear(self) -> None:
        """Abandon all launches: the device is lost."""
        for entry in self.waiting:
            entry.launch.abandon()
        self.waiting.clear()
        self._due = False


def _why(launch: KernelOperation, others: list[str], pending: Iterable[Operation]) -> tuple[str, str]:
    """Why nothing can change the memory any more, and what to try."""
    seen: list[str] = []
    behind = launch
    work: list[Operation] = [behind]
    found: tuple[Operation, str] | None = None
    while work and found is None:
        for operation, rule in work.pop(0).dependents:
            if operation.work.works_on_memory:
                found = found or (operation, rule)
            work.append(operation)
    cause = "The host waits in this call and cannot set it; nothing else is left to run on the device."
    advice = (
        "set the flag before you wait: by the host before the call, or by a copy or a kernel in another stream that "
        "does not wait for this one."
    )
    if others:
        seen.append(f"{', '.join(others)} wait{'' if len(others) > 1 else 's'} for memory to change, too.")
    crowded = next((o for o in pending if o.start < 0 and not o.waiting and o.engine == "sm"), None)
    if found is not None:
        operation, rule = found
        seen.append(f"{_name(operation)} comes behind this kernel: {rule}.")
        advice = (
            "put what sets the flag into another non-blocking stream, and enqueue it so that it does not have to wait "
            "for this kernel."
        )
    elif launch.overlapping:
        dependent = launch.overlapping[0]
        seen.append(f"{_name(dependent)} is a dependent launch behind this kernel, {_held_up(launch, dependent)}.")
        advice = (
            "a dependent launch may overlap with the kernel before it, and nothing promises that it does. Let that "
            "kernel wait for nothing that comes behind it: put what sets the flag in front, or into another stream."
        )
    elif crowded is not None:
        seen.append(f"{_name(crowded)} finds no room on the SMs beside the blocks that wait.")
        advice = (
            "leave room for what sets the flag: launch the kernel that waits with fewer blocks, or use a copy, which "
            "needs no SM."
        )
    return " ".join([cause, *seen]), advice


def _held_up(primary: KernelOperation, dependent: KernelOperation) -> str:
    """What keeps a dependent launch from setting a flag that its primary polls."""
    if dependent.waits_for_trigger:
        first, *more = primary.untriggered
        which = f"{len(more) + 1} blocks, the first {first}, have" if more else f"block {first} has"
        return f"which starts when all blocks of this one have triggered or ended, and {which} done neither"
    if dependent.start < 0:
        return "and finds no room on the SMs beside the blocks of this one"
    if dependent.waits_in_vain:
        return "and its threads wait for this one to complete (griddepcontrol.wait, cudaGridDependencySynchronize)"
    return "and does not set it"


def _name(operation: Operation) -> str:
    where = f" ({operation.place})" if operation.place.line else ""
    kind = f"{operation.kind} " if operation.kind not in operation.name else ""
    return f"The {kind}{operation.name}{where}"
