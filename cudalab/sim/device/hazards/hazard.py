"""What a hazard report says: two accesses to the same bytes, nothing that orders them, and the wait that is missing."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from cudalab.sim.device.caller import UNKNOWN, Place, is_cell
from cudalab.sim.device.queue.operation import Stream
from cudalab.sim.machine.reports import card


class HazardWarning(UserWarning):
    """Two accesses to the same bytes are not ordered, and one of them writes: the result depends on timing."""

    hazard: Hazard | None = None
    """What was found."""


class Kind(StrEnum):
    """What the two do, in the order of the program."""

    RAW = "read after write"
    WAR = "write after read"
    WAW = "write after write"
    HOST_READ = "host reads before the device has written"
    HOST_WRITE = "host writes what the device may still use"
    FREE = "free while in use"

    @property
    def rule(self) -> str:
        """What the guide asks for."""
        return _RULES[self]


_RULES = {
    Kind.RAW: "work in different streams runs in any order, unless an event or a wait of the host orders it",
    Kind.WAR: "work in different streams runs in any order, unless an event or a wait of the host orders it",
    Kind.WAW: "work in different streams runs in any order, unless an event or a wait of the host orders it",
    Kind.HOST_READ: "asynchronous work has an effect that the host may rely on only after the host has waited for it",
    Kind.HOST_WRITE: "memory that asynchronous work uses belongs to that work until the host has waited for it",
    Kind.FREE: "memory may be freed only behind the last work that uses it",
}


DEPENDENT_RULE = (
    "a dependent launch may run beside the kernel before it, and sees what that has written only behind its wait"
)
"""What the guide asks for where a launch has the attribute programmatic stream serialisation."""


class Party(Struct, frozen=True):
    """One of the two: an operation in its stream, or the host."""

    what: str
    """``kernel scale``, ``cudaMemcpy H2D``, ``memset``, ``the host`` and so on."""
    verb: str
    """``reads``, ``writes``, ``changes`` (by atomics) or ``frees``."""
    place: Place = UNKNOWN
    """The line that enqueued it, or where the host touched the bytes."""
    stream: str = ""
    """``the default stream``, ``stream 3``; empty for the host."""
    kind: str = "host"
    """The operation's kind: ``kernel``, ``copy``, ``memset``, ``array``, ``host``, ``free``."""
    sequence: int = -1
    """Counts operations in the order in which they were enqueued; -1 for the host."""
    start: int = -1
    end: int = -1
    of_graph: bool = False
    """Is it a node of a graph?"""

    @property
    def line(self) -> str:
        """``line 12``, or nothing where it is not known."""
        return f"line {self.place.line}" if self.place.code is not None else ""

    @property
    def noun(self) -> str:
        """``the copy``, ``the launch``: for a sentence."""
        return _NOUNS.get(self.kind, "the operation")

    @property
    def brief(self) -> str:
        """Who, and in which stream."""
        return f"{self.what} in {self.stream}" if self.stream else self.what

    @property
    def known_as(self) -> str:
        """Who, as a timeline names it, and in which stream."""
        name = self.what.removeprefix("kernel ")
        if self.kind == "copy":
            name = next((words for part, words in _COPIES.items() if part in self.what), name)
        return f"{name} in {self.stream}" if self.stream else name

    def __str__(self) -> str:
        where = f" in {self.stream}" if self.stream else ""
        line = f" ({self.place}: {self.place.text})" if self.place.text else f" ({self.place})"
        return f"{self.what}{where}{line if self.place.code is not None else ''}"


_COPIES = {"H2D": "copy to device", "D2H": "copy to host", "D2D": "copy on device"}
_NOUNS = {
    "kernel": "the launch",
    "copy": "the copy",
    "memset": "the memset",
    "array": "the array function",
    "host": "the host function",
    "free": "the free",
}


class Hazard(Struct):
    """Two accesses that nothing orders. Of the same two lines there is one hazard, with a count."""

    kind: Kind
    first: Party
    """The one that comes first in the program."""
    second: Party
    address: int
    """The first byte that both touch."""
    bytes: int
    """How many bytes both touch."""
    memory: str
    """Which bytes these are: offsets in which allocation."""
    missing_wait: str
    """The wait that would order the two, and where it goes."""
    notes: list[str] = field(default_factory=list)
    """What looks like a wait for it and is none."""
    special_rule: str = ""
    """What the guide asks for where that does not follow from the kind."""
    count: int = 1
    """How often these two lines met without an order."""
    last_seen: int = 0
    """Counts all that a device's report has seen; the number of the last one of this hazard."""
    pair: tuple[int, int] = (-1, -1)
    """The two operations that were seen last, by their numbers in the order of the program."""

    @property
    def rule(self) -> str:
        """What the guide asks for."""
        return self.special_rule or self.kind.rule

    @property
    def text(self) -> str:
        """The report as one paragraph."""
        notes = "".join(f" {note}" for note in self.notes)
        return (
            f"{self.title}: {self.first} {self.first.verb} and {self.second} {self.second.verb} the same {self._size} "
            f"({self.memory}), and nothing orders the two: {self.rule}.{notes} Missing wait: {self.missing_wait}."
        )

    @property
    def _size(self) -> str:
        return f"{self.bytes} byte{'s' * (self.bytes != 1)}"

    @property
    def title(self) -> str:
        """``hazard (read after write)``"""
        return f"hazard ({self.kind.value})"

    def __repr__(self) -> str:
        times = f", {self.count} times" if self.count > 1 else ""
        return (
            f"<Hazard {self.kind.name}{times}: {self.first.brief} {self.first.verb} and {self.second.brief} "
            f"{self.second.verb} the same {self._size}; missing: {self.missing_wait}>"
        )

    def _repr_html_(self) -> str:
        parties = (self.first, self.second)
        said = [f"{party.known_as} {party.verb}" for party in parties]
        lines = [(party.place.line, party.place.text) for party in parties if party.place.text]
        return card.card(
            "warning",
            f"Nothing orders these two: {said[0]}, and {said[1]}",
            kind=self.title,
            where=" and ".join(dict.fromkeys(str(party.place) for party in parties if party.place.code is not None)),
            code=list(dict.fromkeys(lines)),
            rule=self.rule,
            facts=[
                ("bytes", f"{self.bytes}, {self.memory}"),
                ("seen", f"{self.count} time{'s' * (self.count != 1)}"),
            ],
            detail="\n".join(self.notes),
            advice=self.missing_wait,
        )


def name_of(stream: Stream) -> str:
    """A stream for a sentence, by the learner's name for it; else the number is what ``cudaStreamGetId`` gives."""
    if stream.seen_as is not stream:
        return f"the graph launched in {name_of(stream.seen_as)}"
    if stream.handle == 0:
        return "the default stream"
    if stream.handle == 2:
        return "the per-thread default stream"
    if (name := card.stream_names().get(stream.handle)) is not None:
        return name if name.startswith("stream") else f"stream {name}"
    return f"stream {stream.number}"


def at(place: Place) -> str:
    """`` (line 12)``, with the file's name unless it is a cell's; nothing where the line is not known."""
    if place.code is None:
        return ""
    return f" (line {place.line})" if is_cell(place.file) else f" ({place})"
