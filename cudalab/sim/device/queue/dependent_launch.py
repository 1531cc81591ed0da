"""Programmatic dependent launch: a kernel that starts before the one in front of it in its stream has ended.

A *dependent launch* has the attribute programmatic stream serialisation. Its blocks may start as soon as every block of
the *primary*, the kernel in front of it, has triggered (``griddepcontrol.launch_dependents``) or ended, where the SMs
have room for them. What it does then overlaps with the rest of the primary. At ``griddepcontrol.wait`` its threads wait
until the primary has completed and its memory is visible; without that they see what is visible at the time, which is
old data (CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; PTX ISA, "griddepcontrol").
A dependent launch completes after its primary, whatever it waits for, so what comes behind both sees both.

Between the two may stand a record of an event without timing, and waits for events of other streams, which the
dependent launch waits for, too; anything else in between makes it an ordinary launch (measured on an H200). A kernel
further in front counts through the one in between: its end lets a dependent launch start, its completion, which comes
after that of the kernels before it, ends a wait.

The times are an H200's: the first instruction of the dependent launch comes ``dependent_start`` after the last trigger,
and its wait is over ``dependent_visible`` after the last instruction of the primary, which is where the primary ends
here. So ``kernel_start``, what a kernel takes beside its blocks, lies in front of them but for ``dependent_visible``.

Simplified: all blocks trigger at the same point of their way, as far along as the longest warp of a sampled block
(``KernelTime.triggers_at``). A block that ends without a trigger, in a kernel whose other blocks trigger, counts as
ending with the grid. A learner would notice that where blocks return early.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from cudalab.sim.device.queue.operation import Operation, Stream, Work

if TYPE_CHECKING:
    from cudalab.sim.device.caller import Place
    from cudalab.sim.device.profile import Profile
    from cudalab.sim.device.queue.effect import Effects
    from cudalab.sim.device.queue.event_loop import EventLoop
    from cudalab.sim.device.queue.kernel_launch import KernelOperation

PROGRAMMATIC = "programmatic launch"
STARTED = "launch completion"


class Completion(Operation):
    """One record of a launch completion event."""

    waiting = 1  # for the blocks; what comes before the launch comes on top


class LaunchCompletion(Work[Completion], Struct, frozen=True, eq=False):
    """All blocks of a launch have started: what its launch completion event records."""

    kind = "record"
    operation_class = Completion
    works_on_memory = False
    lets_dependents_through = True
    name = "launch completion"


LAUNCH_COMPLETION = LaunchCompletion()


class Beside(Stream):
    """The place of an operation that belongs to a stream and is not in its order."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream.handle, number=stream.number, flags=stream.flags, device=stream.device)
        self._stream = stream

    @property
    def seen_as(self) -> Stream:
        return self._stream.seen_as

    @property
    def launched_at(self) -> Place:
        return self._stream.launched_at


class DependentLaunches:
    """Which operations wait for the blocks of a launch, and not for its end.

    ``release(operation, rule, cause)`` is called when what an operation waits for has come.
    """

    def __init__(
        self,
        loop: EventLoop,
        effects: Effects,
        profile: Profile,
        release: Callable[[Operation, str, Operation], None],
    ) -> None:
        self._loop, self._effects, self._release = loop, effects, release
        c = profile.device
        self._head = c["kernel_start"] - c["dependent_visible"]
        """ns from the start of a launch to the first instruction of its blocks."""
        self._behind_trigger = c["dependent_start"] - self._head
        """ns from the last trigger to the start of a dependent launch."""
        self._saved = max(0, round(c["kernel_start"] - c["dependent_start"]))
        """ns that a dependent launch takes less than a plain one where it starts when its primary has ended."""
        self._markers: dict[Operation, list[Operation]] = {}
        """What waits for the blocks of a launch to start."""

    @staticmethod
    def primary(stream: Stream) -> Operation | None:
        """The kernel that a dependent launch in ``stream`` may overlap with; ``None`` when there is none."""
        leading = stream.leading
        return None if leading is None or leading.done or not leading.work.blocks else leading

    def enqueued(self, launch: KernelOperation, primary: KernelOperation, at_start: bool = False) -> None:
        """A dependent launch was enqueued; it waits for the triggers of its primary, or for the start of its blocks."""
        launch.prerequisite, launch.is_dependent, launch.waits_for_trigger = primary, True, not at_start
        launch.waiting += 1
        primary.overlapping = [*primary.overlapping, launch]
        if at_start:
            self.await_start(launch, primary)
        elif primary.may_have_triggered or primary.end >= 0:
            self._loop.at(self._loop.now, partial(self.triggered, primary))

    def await_start(self, marker: Operation, launch: KernelOperation) -> None:
        """``marker`` was enqueued, and waits until all blocks of a launch have started."""
        launch.tells_start = True
        self._markers.setdefault(launch, []).append(marker)

    # -- what happens --------------------------------------------------------------------------------------------------

    def all_started(self, launch: KernelOperation, turn: float) -> None:
        """All blocks of a launch have started, each of which takes ``turn`` ns alone.

        The last of them trigger when they have come that far; those of a kernel that polls memory are there already.
        """
        time, now = launch.time, self._loop.now
        if launch.kernel.kernel.triggers_dependents and time is not None:
            own = turn * (1.0 - time.terms["start"] / time.ns)
            way = 0.0 if launch.polling and launch.kernel.kernel.poll_points else time.triggers_at * own
            begin = now + (self._head if now == launch.start else 0.0)
            self._loop.at(round(begin + way + self._behind_trigger), partial(self._due, launch))
        for marker in self._markers.pop(launch, ()):
            self._release(marker, STARTED, launch)

    def _due(self, launch: KernelOperation) -> None:
        launch.may_have_triggered = True
        self.triggered(launch)

    def triggered(self, primary: KernelOperation) -> None:
        """Blocks of a launch may have triggered: its dependent launches start if all have."""
        waiting = [launch for launch in primary.overlapping if launch.waits_for_trigger]
        ended = primary.end >= 0
        if not waiting or primary.done or not (ended or primary.may_have_triggered):
            return
        if not primary.executed:
            self._effects.hold(primary)  # nothing that it may touch has changed since it started
        if ended or not primary.untriggered:
            for launch in waiting:
                self._let_go(launch, primary)

    def _let_go(self, launch: KernelOperation, primary: Operation) -> None:
        if primary.end >= 0:
            launch.saved, launch.delay = self._saved, 0
        if launch.waits_for_trigger:
            launch.waits_for_trigger = False
            self._release(launch, PROGRAMMATIC, primary)

    def clear(self) -> None:
        """Forget everything: the device is lost."""
        self._markers.clear()

    def start_behind(self, launch: KernelOperation, primary: Operation) -> None:
        """The primary has completed, and the dependent launch has not started."""
        self._let_go(launch, primary)
