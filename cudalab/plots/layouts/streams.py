"""Calls into streams, and when the work that they enqueue would run.

Every call is one line of a list: work, a record of an event, a wait for an event, or something that the host does in
between. A piece of work begins when the call has been made, when what stands before it in its stream has ended, and
when the events that the stream waits for are complete; a wait refers to the last record at the time of the call (CUDA
C++ Programming Guide, "Streams" and "Events"). Kernels run side by side without limit. Copies go through copy engines,
each of which takes one at a time, in the order of the calls. Calls, records and waits take no time here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from cudalab.plots.drawing import WIDTH, Drawing, group, label, line, rect, shorten, time_axis
from cudalab.plots.style import BLUE, GREEN, INK, QUIET, VERMILLION, number, tint

HOST = "host"
_LEFT, _TOP, _ROW, _HIGH = 74.0, 30.0, 62.0, 28.0
_COPIES = {"copy in": BLUE, "copy out": GREEN}
"""Colours as on a timeline, where kernels are vermilion."""


@dataclass(frozen=True)
class _Work:
    row: str
    name: str
    begin: float
    end: float
    waits: bool = False
    """Is it the host, which only waits?"""


@dataclass(frozen=True)
class _Mark:
    """A record of an event, when the device reaches it; ``behind`` is the work before it."""

    row: str
    event: str
    at: float
    behind: str


@dataclass(frozen=True)
class _Wait:
    row: str
    event: str
    at: float
    mark: _Mark | None
    """The record it refers to; None where there was none."""


@dataclass
class _Schedule:
    """When everything happens, call by call."""

    took: Mapping[str, float]
    engines: int
    now: float = 0.0
    """The host's time."""
    work: list[_Work] = field(default_factory=list)
    marks: list[_Mark] = field(default_factory=list)
    waits: list[_Wait] = field(default_factory=list)
    ends: dict[str, float] = field(default_factory=dict)
    """When each stream, and each copy engine, is done with what it has."""
    last: dict[str, str] = field(default_factory=dict)
    """The last piece of work in each stream."""
    recorded: dict[str, _Mark] = field(default_factory=dict)

    def call(self, row: str, what: str) -> None:
        verb, _, event = what.partition(" ")
        if row == HOST:
            self._on_host(what, event if verb == "wait" else "")
            return
        reached = max(self.now, self.ends.get(row, 0.0))
        if verb == "record" and event:
            mark = _Mark(row, event, reached, self.last.get(row, ""))
            self.marks.append(mark)
            self.recorded[event] = mark
        elif verb == "wait" and event:
            found = self.recorded.get(event)
            reached = max(reached, found.at) if found else reached
            self.waits.append(_Wait(row, event, reached, found))
        else:
            kind = next((kind for kind in _COPIES if what.startswith(kind)), "")
            engine = f"engine {kind if self.engines > 1 else ''}"
            begin = max(reached, self.ends.get(engine, 0.0)) if kind else reached
            reached = begin + self.took.get(what, 1.0)
            self.work.append(_Work(row, what, begin, reached))
            self.last[row] = what
            if kind:
                self.ends[engine] = reached
        self.ends[row] = reached

    def _on_host(self, what: str, awaited: str) -> None:
        if awaited:
            mark = self.recorded.get(awaited)
            end = max(self.now, mark.at if mark else self.ends.get(awaited, 0.0))
        else:
            end = self.now + self.took.get(what, 1.0)
        if end > self.now:
            self.work.append(_Work(HOST, what, self.now, end, waits=bool(awaited)))
        self.now = end

    @property
    def length(self) -> float:
        return max([self.now, *self.ends.values()])


def streams(
    calls: Sequence[str],
    *,
    took: Mapping[str, float] = MappingProxyType({}),
    engines: int = 2,
    between: Sequence[str] = (),
) -> Drawing:
    """Draw when the work of some calls runs, in units of the time that a piece of work takes.

    Args:
        calls: in the order in which the host makes them: ``"a: prepare"`` puts work into stream a, ``"a: record done"``
            and ``"b: wait done"`` do what they say with the event ``done``, ``"host: compute"`` keeps the host, and
            ``"host: wait a"`` makes it wait for a stream or an event. Work whose name begins with ``copy in`` or ``copy
            out`` needs a copy engine.
        took: how long a piece of work takes, where it is not 1.
        engines: 2: one for each direction; 1: one for both.
        between: two events, whose distance is drawn.

    Raises:
        ValueError: a call of another form, an event that is never recorded, or another number of engines.
    """
    if engines not in (1, 2):
        raise ValueError(f"streams: copies go through 1 or 2 engines (got {engines})")
    schedule = _Schedule(took, engines)
    rows: list[str] = [HOST] if any(call.startswith(f"{HOST}:") for call in calls) else []
    for call in calls:
        row, colon, what = (part.strip() for part in call.partition(":"))
        if not (row and colon and what):
            raise ValueError(f'streams: a call is "STREAM: WORK", "STREAM: record EVENT" or the like (got {call!r})')
        if row not in rows:
            rows.append(row)
        schedule.call(row, what)
    if not schedule.work:
        raise ValueError("streams: there is no work to draw")
    picture = _Picture(rows, (WIDTH - _LEFT - 30) / schedule.length)
    parts = [label(_LEFT - 12, picture.middle(row), row, size=13, anchor="end", bold=True) for row in rows]
    parts += [picture.work(each) for each in schedule.work]
    parts += [picture.mark(each) for each in schedule.marks]
    parts += [part for each in schedule.waits for part in picture.wait(each)]
    height = _TOP + _ROW * len(rows) - 8
    if between:
        parts += picture.distance(_last(schedule, between[0]), _last(schedule, between[1]), height)
        height += 26
    parts += time_axis(_LEFT, picture.scale, schedule.length, height)
    height += 20
    alt = f"Streams as rows, work as bars over the time; diamonds are records, arrows waits: {', '.join(rows)}."
    return Drawing("\n".join(parts), WIDTH, height, _sentence(schedule, between), alt)


def _last(schedule: _Schedule, event: str) -> _Mark:
    if event not in schedule.recorded:
        raise ValueError(f"streams: the event {event!r} is never recorded")
    return schedule.recorded[event]


@dataclass(frozen=True)
class _Picture:
    rows: list[str]
    scale: float
    """Pixels a unit."""

    def x(self, at: float) -> float:
        return _LEFT + self.scale * at

    def top(self, row: str) -> float:
        return _TOP + _ROW * self.rows.index(row)

    def middle(self, row: str) -> float:
        return self.top(row) + _HIGH / 2

    def work(self, work: _Work) -> str:
        if work.row == HOST:
            colour = QUIET
        else:
            colour = next((colour for kind, colour in _COPIES.items() if work.name.startswith(kind)), VERMILLION)
        x, width = self.x(work.begin) + 1, self.scale * (work.end - work.begin) - 2
        name = label(x + width / 2, self.middle(work.row), shorten(work.name, width - 6, 13), size=13, anchor="middle")
        box = rect(x, self.top(work.row), width, _HIGH, tint(colour, 0.3), stroke=colour, radius=3)
        return group([box, name], f"{work.name}: from {number(work.begin)} to {number(work.end)}")

    def mark(self, mark: _Mark) -> str:
        x, y = self.x(mark.at), self.top(mark.row) - 5
        diamond = f'<path d="M{x:.1f} {y - 6:.1f}l5 6l-5 6l-5 -6z" fill="{INK}"/>'
        side = -1 if mark.at > 0 else 1  # the name stands over the work before the mark
        name = label(x + 9 * side, y - 3, mark.event, size=12, anchor="end" if side < 0 else "start")
        return group([diamond, name], f"{mark.event}, recorded in {mark.row}: complete at {number(mark.at)}")

    def wait(self, wait: _Wait) -> list[str]:
        x, row = self.x(wait.at), self.rows.index(wait.row)
        if wait.mark is None:
            text = f"wait {wait.event}: no record yet, nothing to wait for"
            return [label(x + 2, self.top(wait.row) + _HIGH + 11, text, size=12, fill=VERMILLION)]
        if wait.mark.row == wait.row:
            return []  # its own order says it already
        down = row > self.rows.index(wait.mark.row)
        start = self.top(wait.mark.row) + (1 if down else -11)
        end = self.top(wait.row) + (-1 if down else _HIGH + 1)
        tip = -6 if down else 6
        left = self.x(wait.mark.at)
        return [
            line(left, start, x, end, INK, width=1.6),
            f'<path d="M{x:.1f} {end:.1f}l-4 {tip}h8z" fill="{INK}"/>',
        ]

    def distance(self, first: _Mark, last: _Mark, y: float) -> list[str]:
        """A measure between two marks, below everything."""
        left, right = sorted((self.x(first.at), self.x(last.at)))
        ends = [line(x, y - 4, x, y + 10, INK) for x in (left, right)]
        text = f"{first.event} to {last.event}: {number(last.at - first.at)}"
        name = label((left + right) / 2, y + 15, text, size=12, anchor="middle", bold=True)
        return [*ends, line(left, y + 3, right, y + 3, INK), name]


def _sentence(schedule: _Schedule, between: Sequence[str]) -> str:
    waits = [each for each in schedule.waits if each.mark is None or each.mark.row != each.row]
    told = [
        f"stream {each.row} waits for {each.event}, recorded behind {each.mark.behind or 'nothing'}"
        if each.mark
        else f"stream {each.row} waits for nothing, because {each.event} was not recorded yet"
        for each in waits
    ]
    told = told or [f"{each.event} is complete when {each.behind} has ended" for each in schedule.marks if each.behind]
    alone = sum(each.end - each.begin for each in schedule.work if not each.waits)
    whole = f"all is done after {number(schedule.length)}"
    less = f" (one after the other: {number(alone)})" if alone > schedule.length else ", and nothing overlaps"
    told.append(whole + less)
    if between:
        first, last = (_last(schedule, event) for event in between)
        told.append(f"between {first.event} and {last.event} lie {number(last.at - first.at)}")
    text = "; ".join(told)
    return f"{text[0].upper()}{text[1:]}."
