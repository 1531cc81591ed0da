"""CUPTI's record of a piece of work, as plain data: the boundary between ``cupti.py``, which collects it on a GPU,
and ``measured.py``, which makes spans of it and can be tested without one.

Times are ns of CUPTI's clock. A *correlation* number is that of the runtime or driver call that caused a record.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class ApiCall:
    """One call of the runtime or the driver API, on the host."""

    name: str
    start: int
    end: int
    thread: int
    correlation: int


@dataclass(frozen=True)
class Activity:
    """A kernel, copy or memset."""

    kind: str
    """``kernel``, ``copy`` or ``memset``."""
    name: str
    """The kernel's name as it was compiled; of a copy ``HTOD``, ``DTOH``, ``DTOD`` or another of CUPTI's kinds."""
    start: int
    end: int
    stream: int
    correlation: int
    bytes: int = 0
    blocks: int = 0
    """Of a kernel's grid."""


@dataclass(frozen=True)
class Recorded:
    """An event was recorded. ``time`` is when the device came to it, 0 where CUPTI does not say."""

    event: int
    stream: int
    correlation: int
    time: int = 0


@dataclass(frozen=True)
class Synchronised:
    """The host, or a stream, waited. ``kind`` is one of CUPTI's: ``STREAM_WAIT_EVENT``, ``EVENT_SYNCHRONIZE``, …"""

    kind: str
    start: int
    end: int
    stream: int
    event: int
    correlation: int


@dataclass(frozen=True)
class Line:
    """A line of the learner's program."""

    where: str
    code: str


@dataclass
class Records:
    """Everything that one trace collected."""

    begin: int
    end: int
    device: str
    copy_engines: int
    sms: int = 0
    """Multiprocessors; 0 where nobody asked."""
    legacy_stream: int = 0
    """CUPTI's number of the legacy default stream."""
    non_blocking: list[int] = field(default_factory=list)
    """CUPTI's numbers of streams that take no part in the default stream's rules."""
    names: dict[int, str] = field(default_factory=dict)
    """Names of streams, by CUPTI's numbers."""
    calls: list[ApiCall] = field(default_factory=list)
    work: list[Activity] = field(default_factory=list)
    recorded: list[Recorded] = field(default_factory=list)
    synchronised: list[Synchronised] = field(default_factory=list)
    host_work: list[tuple[int, int]] = field(default_factory=list)
    lines: dict[int, Line] = field(default_factory=dict)
    """The learner's lines, by correlation."""

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Records:
        """Back from ``to_json``."""
        made = cls(data["begin"], data["end"], data["device"], data["copy_engines"])
        made.sms = data.get("sms", 0)  # older records have no such entry
        made.legacy_stream = data["legacy_stream"]
        made.non_blocking = list(data["non_blocking"])
        made.names = {int(number): name for number, name in data["names"].items()}
        made.calls = [ApiCall(**entry) for entry in data["calls"]]
        made.work = [Activity(**entry) for entry in data["work"]]
        made.recorded = [Recorded(**entry) for entry in data["recorded"]]
        made.synchronised = [Synchronised(**entry) for entry in data["synchronised"]]
        made.host_work = [(start, end) for start, end in data["host_work"]]
        made.lines = {int(number): Line(**line) for number, line in data["lines"].items()}
        return made
