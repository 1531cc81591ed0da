"""What comes before what: vector clocks over streams and the host.

Each stream numbers its operations. An operation's clock says, for every other stream, up to which number that stream's
operations come before it; its own stream's earlier ones all do. So ``a`` comes before ``b`` when ``a``'s number is at
most what ``b``'s clock has for ``a``'s stream: one look-up (an *epoch*, in the words of FastTrack, Flanagan and Freund
2009). Events need no clock of their own, because an event's record is an operation; the host's clock holds what it has
waited for, and every operation enqueued later inherits it.

All host threads count as one. Python orders its threads by means that no runtime call shows, so telling them apart
would raise false alarms; a bug between two host threads that use streams without waiting for each other is not found.

Clocks are dicts that streams share with their operations and replace when they learn something new: an operation that
only follows the one before it costs no copy. When the host has waited for everything, all that was is forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from cudalab.sim.device.caller import Place, place_of_call
from cudalab.sim.device.queue.operation import Operation, Stream, Work

Clock = dict[int, int]
"""By stream: operations up to this number come before."""


class StreamHistory:
    """One stream's operations, in order."""

    __slots__ = ("clock", "count", "host_version", "index", "in_flight", "last", "late", "stream", "waits")

    def __init__(self, index: int, stream: Stream) -> None:
        self.index = index
        self.stream = stream
        self.count = 0
        self.clock: Clock = {}
        """What comes before the next operation, but what is in this stream itself."""
        self.host_version = 0
        """The version of the host's clock that is part of it."""
        self.last: Stamp | None = None
        self.in_flight: deque[Stamp] = deque()
        """Enqueued and not ended."""
        self.late: Clock | None = None
        """What comes before operations that have not ended, though nothing said so when they were enqueued."""
        self.waits: dict[int, deque[Wait]] = {}
        """By stream: the last waits of this stream for events recorded there; for explanations."""


class Stamp(Struct, eq=False):
    """One operation: its place in the order, and what a report says of it. There is no reference to the operation,
    which has one to this: only the garbage collector would free the two."""

    work: Work[Any]
    place: Place
    line: StreamHistory
    number: int
    clock: Clock
    generation: int
    sequence: int
    beside: StreamHistory | None = None
    """Of the part of a dependent launch that may run beside the kernel before it: the stream of both."""
    whole: Stamp | None = None
    """The launch that it is such a part of."""
    parts: Any = None
    """What it touches, where and as soon as that is known (report.py)."""
    runs: Any = ()
    """What of it has many runs."""
    visible: Any = None
    """Host memory that it may touch while the host is not ordered behind it (host.py)."""
    touches: list[Any] | None = None
    """What the host touched meanwhile, to be judged when its bytes are known (host.py)."""

    @staticmethod
    def of(operation: Operation, line: StreamHistory, generation: int) -> Stamp:
        """The next of a stream's operations."""
        line.count = number = line.count + 1
        return Stamp(operation.work, operation.place, line, number, line.clock, generation, operation.sequence)

    def before(self, other: Stamp) -> bool:
        """Does this operation come before ``other``?"""
        if self.line is other.line:
            return self.number < other.number
        return self.number <= other.clock.get(self.line.index, 0)


class Wait(NamedTuple):
    """A stream waits for an event."""

    record: Stamp
    place: Place
    sequence: int
    """Operations enqueued before it have lower numbers."""


_REMEMBERED = 32


class Clocks:
    """The order of all operations since the host last waited for everything."""

    def __init__(self) -> None:
        self.generation = 0
        self.host: Clock = {}
        self._version = 0
        self._lines: dict[Stream, StreamHistory] = {}
        self._beside: dict[StreamHistory, StreamHistory] = {}
        """By stream: what of its dependent launches may run beside the kernel before."""
        self._blocking: dict[int, list[StreamHistory]] = {}
        """By device; so is the next."""
        self._legacy: dict[int, StreamHistory] = {}
        self.in_flight = 0
        self.sequence = -1
        """Of the operation that was enqueued last."""

    def forget(self) -> None:
        """Everything enqueued so far comes before everything to come (or is lost)."""
        self.generation += 1
        self.host = {}
        self._version = 0
        # Numbers go on, so that a clock of before means nothing new; lines of destroyed streams go.
        self._lines = {}
        self._beside = {}
        self._blocking = {}
        self._legacy = {}
        self.in_flight = 0

    def _line(self, stream: Stream) -> StreamHistory:
        line = self._lines.get(stream)
        if line is None:
            line = self._lines[stream] = StreamHistory(len(self._lines), stream)
            if stream.handle == 0:
                self._legacy[stream.device] = line
            elif stream.blocking:
                self._blocking.setdefault(stream.device, []).append(line)
        return line

    @property
    def streams(self) -> int:
        """How many streams have had work since everything was waited for."""
        return len(self._lines)

    def lines(self) -> Iterator[StreamHistory]:
        """All streams that have had work."""
        return iter(self._lines.values())

    # -- what is told --------------------------------------------------------------------------------------------------

    def enqueue(self, operation: Operation, waits: Iterable[tuple[Operation, str]]) -> Stamp:
        """An operation entered its stream, behind ``waits``."""
        line = self._lines.get(operation.stream)
        if line is None:
            line = self._line(operation.stream)
        if line.host_version != self._version:
            self._acquire_host(line)
        generation = self.generation
        stamp: Stamp | None
        for before, rule in waits:
            stamp = before.stamp
            if stamp is not None and stamp.line is not line and stamp.generation == generation:
                self._acquire(line, stamp)
                if rule == "event":
                    self._remember(line, stamp, operation.place, operation.sequence)
        device = operation.stream.device
        if line is self._legacy.get(device):
            # also those that have been destroyed with no work left, which `waits` does not name
            for other in self._blocking.get(device, ()):
                if other.last is not None and line.clock.get(other.index, 0) < other.count:
                    self._acquire(line, other.last)
        operation.stamp = stamp = Stamp.of(operation, line, generation)
        self.sequence = stamp.sequence
        line.last = stamp
        line.in_flight.append(stamp)
        self.in_flight += 1
        return stamp

    def enqueue_early(self, operation: Operation, primary: Operation) -> Stamp | None:
        """The part of a dependent launch that may run beside ``primary``, from its start to its wait: it comes after
        what comes before the launch, but for the primary, and before the rest of the launch. It is no operation of the
        stream, so it has a line of its own."""
        stamp, before = operation.stamp, primary.stamp
        if before is None or before.generation != self.generation or before.line is not stamp.line:
            return None
        line = stamp.line
        own = self._beside.get(line)
        if own is None:
            stream = Stream(line.stream.handle, number=line.stream.number, device=line.stream.device)
            own = self._beside[line] = self._lines[stream] = StreamHistory(len(self._lines), stream)
        early = Stamp.of(operation, own, self.generation)
        early.beside, early.whole = line, stamp
        early.clock = {**stamp.clock, line.index: before.number - 1}
        own.last = early
        own.in_flight.append(early)
        self.in_flight += 1
        line.clock = stamp.clock = {**stamp.clock, own.index: early.number}
        return early

    def order(self, stream: Stream, after: Operation) -> None:
        """All later work of ``stream`` comes after ``after``."""
        stamp: Stamp | None = after.stamp
        if stamp is None or stamp.generation != self.generation:
            return
        line = self._line(stream)
        if stamp.line is not line:
            self._acquire(line, stamp)
            self._remember(line, stamp, place_of_call(), self.sequence + 1)

    def absorb(self, operations: Iterable[Operation], into: Operation) -> None:
        """Operations that have ended take the place of ``into`` in the order."""
        whole: Stamp | None = into.stamp
        if whole is None or whole.generation != self.generation:
            return
        for operation in operations:
            stamp: Stamp | None = operation.stamp
            if stamp is not None and stamp.generation == self.generation:
                self.end(stamp)  # the last of them says later that it has ended
                stamp.line, stamp.number = whole.line, whole.number

    def end(self, stamp: Stamp) -> None:
        """An operation has ended."""
        queue = stamp.line.in_flight
        if queue and queue[0] is stamp:
            queue.popleft()
        elif stamp in queue:
            queue.remove(stamp)
        else:
            return
        self.in_flight -= 1

    def host_waited(self, operation: Operation) -> bool:
        """The host goes on behind ``operation``; says whether it learned something."""
        stamp: Stamp | None = operation.stamp
        if stamp is None or stamp.generation != self.generation or self.host_acquired(stamp):
            return False
        self._version += 1
        self.host = _joined(self.host, stamp)
        return True

    def host_waited_for_stream(self, stream: Stream) -> bool:
        """The host goes on behind everything in a stream; says whether it learned something."""
        line = self._lines.get(stream)
        lines = [line] if line is not None else []
        if stream.handle == 0:
            lines += self._blocking.get(stream.device, [])
        return self._host_waited_for(lines)

    def host_waited_for_device(self, number: int) -> bool:
        """The same for all streams of a device."""
        return self._host_waited_for([line for line in self._lines.values() if line.stream.device == number])

    def _host_waited_for(self, lines: list[StreamHistory]) -> bool:
        host = dict(self.host)
        for line in lines:
            for index, number in (*line.clock.items(), (line.index, line.count)):
                if number > host.get(index, 0):
                    host[index] = number
        if host == self.host:
            return False
        self._version += 1
        self.host = host
        return True

    def late(self, stream: Stream) -> None:
        """What is in ``stream`` from here on comes after all that has ended: it has waited for a value in memory, and
        who else has seen to that is not known."""
        line = self._line(stream)
        line.late = {
            other.index: other.in_flight[0].number - 1 if other.in_flight else other.count
            for other in self._lines.values()
            if other is not line
        }

    def host_acquired(self, stamp: Stamp) -> bool:
        """Is whatever the host does now after this operation?"""
        return stamp.generation != self.generation or stamp.number <= self.host.get(stamp.line.index, 0)

    @staticmethod
    def _remember(line: StreamHistory, record: Stamp, place: Place, sequence: int) -> None:
        waits = line.waits.get(record.line.index)
        if waits is None:
            waits = line.waits[record.line.index] = deque(maxlen=_REMEMBERED)
        waits.append(Wait(record, place, sequence))

    @property
    def host_acquired_all(self) -> bool:
        """Has the host waited for the last operation of every stream?"""
        return all(line.count <= self.host.get(line.index, 0) for line in self._lines.values())

    # -- what is over --------------------------------------------------------------------------------------------------

    def floor(self) -> Clock:
        """By stream: operations up to this number come before the host's next step and before all that is in flight,
        so before everything that can come."""
        floor = dict(self.host)
        for line in self._lines.values():
            if not line.in_flight:
                continue
            first = line.in_flight[0]
            for index in floor:
                known = first.number - 1 if index == line.index else first.clock.get(index, 0)
                floor[index] = min(floor[index], known)
        return floor

    # -- joining -------------------------------------------------------------------------------------------------------

    def _acquire_host(self, line: StreamHistory) -> None:
        """The next operation of ``line`` comes after what the host has waited for."""
        clock = dict(line.clock)
        for index, number in self.host.items():
            if index != line.index and number > clock.get(index, 0):
                clock[index] = number
        line.clock, line.host_version = clock, self._version

    @staticmethod
    def _acquire(line: StreamHistory, stamp: Stamp) -> None:
        """The next operation of ``line`` comes after ``stamp``."""
        index, own = stamp.line.index, line.index
        if stamp.number > line.clock.get(index, 0):
            clock = dict(line.clock)
            for other, number in stamp.clock.items():
                if other != own and number > clock.get(other, 0):
                    clock[other] = number
            clock[index] = stamp.number
            line.clock = clock


def joined_clocks(clock: Clock, other: Clock) -> Clock:
    """What comes before in one or the other, as a new clock."""
    joined = dict(clock)
    for index, number in other.items():
        if number > joined.get(index, 0):
            joined[index] = number
    return joined


def _joined(clock: Clock, stamp: Stamp) -> Clock:
    """``clock`` and ``stamp`` with all before it, as a new clock."""
    joined = joined_clocks(clock, stamp.clock)
    if stamp.number > joined.get(stamp.line.index, 0):
        joined[stamp.line.index] = stamp.number
    return joined
