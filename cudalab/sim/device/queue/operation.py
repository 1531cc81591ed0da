"""One piece of work in a stream: a launch, a copy, a memset, an event record and so on.

An operation is *enqueued* by a call, becomes *ready* when what it depends on has ended, *starts* when its engine takes
it, and *ends* after its modelled duration. It keeps all of these times and the name of what held it back, so that a
timeline can say why it waited.

What it does to memory is split from when: :meth:`Operation.begin` is called at the modelled start and takes what must
be taken then (a copy takes its source), :meth:`Operation.run` does the work. ``effect.py`` decides when that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cudalab.sim.device.caller import UNKNOWN, Place
from cudalab.sim.device.declaration import Address
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.queue.byte_extent import Extent

if TYPE_CHECKING:
    from cudalab.sim.device.queue.publication import Publication
    from cudalab.sim.device.queue.stream import Stream

Range = tuple[Address, int]
"""``(address, bytes)``"""

Reach = tuple[Range, ...] | None
"""The bytes that an operation may touch; ``None``: any, because a kernel may follow pointers that it finds."""


class Touched(NamedTuple):
    """The very bytes that an operation reads and writes, as extents, or as runs (``int64``, (n, 2), sorted: first byte
    and the one after the last)."""

    reads: tuple[Extent, ...] | np.ndarray = ()
    writes: tuple[Extent, ...] | np.ndarray = ()
    atomics: tuple[Extent, ...] | np.ndarray = ()
    """Changed by atomics only, which see each other."""


NOTHING = Touched()
NO_TERMS: Mapping[str, float] = MappingProxyType({})


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
    works_on_memory = True
    """May memory change by it? Events, waits and frees only order others, or end a lifetime."""
    waits_for_value = False
    """Does its stream wait for memory to change, and not for an operation?"""
    engine = "none"
    """``h2d``, ``d2h``, ``sm``, or ``none`` for what takes no engine."""

    # Most of what follows keeps its first value in most operations. It stands in the class, and no class of operations
    # sets more than 30 attributes: Python keeps such objects in a third of the memory, and a queue may be long.
    sequence = -1
    enqueued = -1
    earliest = -1
    ready = -1
    start = -1
    end = -1
    waiting = 0
    held_by = ""
    """What it waited for last: ``host`` (nothing but its call), ``stream order``, ``event``, ``default stream``; an
    engine (``copy engine H2D``, ``SM resources``, ``resident grids``, ``no copy engine``); on devices of old
    ``dependency check``, ``implicit synchronization``."""
    held_by_operation: Operation | None = None
    """The operation that it waited for last; ``None`` when that was the host, and once it has ended and all observers
    have been told."""
    place: Place = UNKNOWN
    """The line of the learner's program that enqueued it."""
    lane = ""
    """The engine, or that of the work before it in the stream when it takes none."""
    done = False
    bytes = 0
    """Bytes moved over the bus or in device memory, where that is what the operation does."""
    terms: Mapping[str, float] = NO_TERMS
    """What bounds its duration: ns by name."""
    bound = ""
    peak_fraction = 0.0

    # what it takes of the SMs (sm_array.py)
    blocks = 0
    """Blocks of its grid; 0: it is no launch."""
    block_shape: tuple[int, int, int] = (0, 0, 0)
    """Of one block: threads, registers a thread, bytes of shared memory."""
    cluster_blocks = 1
    """Blocks that start together."""
    needed = 1.0
    """Part of the blocks that it has resident when alone with which it is as fast."""
    uses: Mapping[str, float] = NO_TERMS
    """Part of what the device has that it uses when alone, by the name of the term."""
    sm_use = 0.0
    """The same for what each SM has of its own, of the SMs that have its blocks; the highest."""
    carveout = -1
    """Percent of the L1 that its kernel prefers as shared memory; -1: no preference."""
    exclusive = False
    """Does it keep everything else off the SMs? A copy on a device without copy engines does."""

    # its effect on memory (effect.py)
    stamp: Any = None
    """Its place in the order of operations (hazards/clocks.py)."""
    publications: Sequence[Publication] = ()
    """What it lets others see while it runs (publication.py)."""
    executed = False
    _apply: Callable[[], None] | None = None
    _failure: CudaError | None = None

    def __init__(self, name: str, stream: Stream) -> None:
        self.name = name
        self.stream = stream
        self.dependents: list[tuple[Operation, str]] = []
        """Who waits for it, and by which rule."""

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

    def touched(self) -> Touched | None:
        """The very bytes that it reads and writes, those that :meth:`begin` takes included; ``None`` where that is not
        known, which may be so before it has run."""
        return NOTHING

    # Class attributes, not properties: most operations keep them, and they are read for every one.
    visible_at_once: bool = False
    """May its stores be visible before it ends?"""
    polling: bool = False
    """Has it run as far as it can, and waits for memory to change (polling.py)? It does not end before."""
    starts_at_once: bool = False
    """Must it run at its modelled start (with its stores held back), because the host could change what it reads
    without a call?"""
    device_bytes: int = 0
    """Bytes that it reads and writes in device memory, where that takes it to the SMs and it is no launch."""

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
    works_on_memory = False

    def __init__(self, stream: Stream, duration: int) -> None:
        super().__init__("event record", stream)
        self._duration = duration

    def begin(self) -> int:
        return self._duration


class EventWait(Operation):
    """``cudaStreamWaitEvent``: later work of the stream waits for a recorded event."""

    kind = "wait"
    works_on_memory = False

    def __init__(self, stream: Stream) -> None:
        super().__init__("wait for event", stream)
