"""One piece of work in a stream: a launch, a copy, a memset, an event record and so on.

An operation is *enqueued* by a call, becomes *ready* when what it depends on has ended, *starts* when its engine takes
it, and *ends* after its modelled duration. It keeps all of these times and the name of what held it back, so that a
timeline can say why it waited.

What it does to memory is split from when: :meth:`Operation.begin` is called at the modelled start and takes what must
be taken then (a copy takes its source), :meth:`Operation.run` does the work. ``effect.py`` decides when that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cudalab.sim.device.caller import UNKNOWN, Place
from cudalab.sim.device.error import CudaError

if TYPE_CHECKING:
    from cudalab.sim.device.stream import Stream

Range = tuple[int, int]
"""``(address, bytes)``"""

Reach = tuple[Range, ...] | None
"""The bytes that an operation may touch; ``None``: any, because a kernel may follow pointers that it finds."""


def overlap(one: Reach, other: Reach) -> bool:
    """May the two touch a common byte?"""
    if one is None or other is None:
        return one != () and other != ()
    if not one or not other:
        return False
    if len(one) * len(other) <= 16:
        return any(a < b + m and b < a + n for a, n in one for b, m in other)
    spans = sorted((start, start + size, side) for side, ranges in enumerate((one, other)) for start, size in ranges)
    ends = [0, 0]
    for start, end, side in spans:
        if start < ends[1 - side] and start < end:
            return True
        ends[side] = max(ends[side], end)
    return False


class Operation:
    """Base of all operations; times are modelled ns, ``-1`` until known."""

    kind = "operation"
    engine = "none"
    """``h2d``, ``d2h``, ``sm``, or ``none`` for what takes no engine."""

    def __init__(self, name: str, stream: Stream) -> None:
        self.name = name
        self.stream = stream
        self.sequence = -1
        self.enqueued = -1
        self.earliest = -1
        self.ready = -1
        self.start = -1
        self.end = -1
        self.waiting = 0
        self.dependents: list[Operation] = []
        self.held_by = ""
        """What it waited for last: ``stream order``, ``event``, ``default stream``, an engine, ``host``."""
        self.held_by_operation: Operation | None = None
        """The operation that it waited for last; ``None`` when that was the host, and once it has ended and all
        observers have been told."""
        self.place: Place = UNKNOWN
        """The line of the learner's program that enqueued it."""
        self.lane = ""
        """The engine, or that of the work before it in the stream when it takes none."""
        self.done = False
        self.bytes = 0
        """Bytes moved over the bus or in device memory, where that is what the operation does."""
        self.terms: dict[str, float] = {}
        """What bounds its duration: ns by name."""
        self.bound = ""
        self.peak_fraction = 0.0
        # how much of the SM array it takes (engine.py)
        self.share = 0.0
        self.tail_share = 0.0
        self.tail_from = 1.0
        self.demand = 0.0
        self.exclusive = False
        # its effect on memory (effect.py)
        self.executed = False
        self._apply: Callable[[], None] | None = None
        self._failure: CudaError | None = None

    # -- what subclasses say -------------------------------------------------------------------------------------------

    def begin(self) -> int:
        """Called at the modelled start: take what must be taken now, and return the duration (ns)."""
        return 0

    def run(self) -> None:
        """Do the work on memory as it is now. Raises ``CudaError`` when it fails."""

    def run_held(self) -> Callable[[], None]:
        """Do the work on memory as it is now, take its stores back, and return what makes them again."""
        raise NotImplementedError(f"a {self.kind} reads nothing that could change while it runs")

    def finish(self) -> None:
        """Called once at the modelled end, after the effect on memory is visible."""

    def reads(self) -> Reach:
        """What :meth:`run` may read; what :meth:`begin` took is not part of it."""
        return ()

    def writes(self) -> Reach:
        """What :meth:`run` may change."""
        return ()

    @property
    def starts_at_once(self) -> bool:
        """Must it run at its modelled start (with its stores held back), because the host could change what it reads
        without a call?"""
        return False

    # -- what effect.py calls ------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Run now; the effect comes with :meth:`commit`. What fails does so at the modelled end."""
        self.executed = True
        try:
            self._apply = self.run_held()
        except CudaError as error:
            self._failure = error

    def commit(self) -> None:
        """The modelled end: make the effect visible, running first if that is still to do."""
        if not self.executed:
            self.executed = True
            self.run()
        elif self._failure is not None:
            raise self._failure
        elif self._apply is not None:
            self._apply()
            self._apply = None
        self.finish()

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r} #{self.sequence} stream {self.stream.handle:#x} {self.start}-{self.end} ns>"


class EventRecord(Operation):
    """``cudaEventRecord``: the event is complete, and has its time, when everything before it in the stream has
    ended."""

    kind = "record"

    def __init__(self, stream: Stream, duration: int) -> None:
        super().__init__("event record", stream)
        self._duration = duration

    def begin(self) -> int:
        return self._duration


class EventWait(Operation):
    """``cudaStreamWaitEvent``: later work of the stream waits for a recorded event."""

    kind = "wait"

    def __init__(self, stream: Stream) -> None:
        super().__init__("wait for event", stream)
