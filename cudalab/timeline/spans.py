"""One span of a timeline: a piece of work, from start to end, and what it waited for; how its figures are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

KERNEL = "kernel"
COPY = "copy"
MEMSET = "memset"
ARRAY = "array operation"
HOST_FUNCTION = "host function"
RECORD = "event record"
WAIT = "event wait"
FREE = "free"
GRAPH = "graph"
CALL = "runtime call"
HOST_WORK = "host work"

H2D = "H2D copy engine"
D2H = "D2H copy engine"
BOTH = "copy engine"
PEER = "P2P copy engine"
SMS = "SMs"
HOST = "host"

WORK = frozenset({KERNEL, COPY, MEMSET, ARRAY, HOST_FUNCTION})
"""Kinds that do something on the device; the others only order work, or run on the host's own row."""


@dataclass(frozen=True, eq=False)
class Wait:
    """Why a span did not start earlier."""

    rule: str
    """``stream order``, ``event``, ``default stream``, ``copy engine``, ``SM resources``, ``graph edge``,
    ``programmatic launch`` (the blocks of the kernel before), ``launch completion`` (the start of a kernel's blocks) or
    ``host``: the host had not asked for it yet."""

    span: Span | None
    """The span that it waited for; None where that is not part of the trace."""

    def __str__(self) -> str:
        if self.span is None:
            return self.rule
        if self.rule == "host":
            return f"host ({self.span.name})"
        rest = f" ({self.span.stream})" if self.span.stream else ""
        return f"{self.rule}: {self.span.name}{rest}"


@dataclass(eq=False)
class Span:
    """A piece of work. Times are in µs from the trace's begin; what began before has a negative start."""

    number: int
    """Its place in ``Timeline.spans``."""

    name: str
    """The kernel's name, ``copy to device``, ``copy to host``, ``copy on device``, the runtime call's name, …"""

    kind: str
    """``kernel``, ``copy``, ``memset``, ``array operation``, ``host function``, ``event record``, ``event wait``,
    ``free``, ``graph`` (a launch as a whole, beside its nodes);
    on the host's row ``runtime call`` and ``host work``."""

    stream: str
    """The stream's name: the learner's variable where one holds it, else ``stream 2``; empty on the host's row."""

    stream_number: int
    """Numbers streams by first use in the trace, from 1; 0 is the legacy default stream, -1 the host's row."""

    engine: str
    """What did the work: ``H2D copy engine``, ``D2H copy engine``, ``copy engine`` (a device with one for both),
    ``SMs``, ``host``, or empty for what takes no engine."""

    start: float
    end: float
    label: str
    """``measured`` or ``modelled``."""

    bytes: int = 0
    """Bytes moved, where that is what it does."""

    bound: str = ""
    """What holds a kernel up, e.g. ``memory-bound, 71 % of peak``; empty where that is not known (measured times)."""

    extrapolated: str = ""
    """What of a modelled kernel was not counted for its time but extrapolated, or why its time comes from the PTX and
    not from the machine code; empty where neither is so. A bar's tooltip leaves it out."""

    waited: Wait | None = None
    """What it waited for last; None where nothing is known."""

    where: str = ""
    """The learner's line that asked for it, e.g. ``cell, line 3``."""

    code: str = ""
    """The text of that line."""

    asked: float = 0.0
    """When the host asked for it."""

    call: Span | None = None
    """The runtime call that asked for it, on the host's row."""

    hazards: tuple[str, ...] = ()
    """Hazards that it is part of, e.g. ``read after write``: nothing orders it and another that touches the same bytes
    (``Timeline.hazards`` has the reports)."""

    conflicts: tuple[Span, ...] = ()
    """The spans that come before it in the program and that nothing orders it with, where both belong to the trace."""

    blocks: int = 0
    """Blocks of a kernel's grid; 0 where that is not known, and for what is no kernel."""

    load: float = 1.0
    """Which part of the SMs it can keep busy, from 0 to 1: a grid of fewer blocks than there are SMs leaves the others
    to something else. 1 where that is not known."""

    thread: str = ""
    """The host thread that made a call; empty for the one that opened the trace."""

    complete: bool = True
    """False when it never ended, because the device was lost or reset; ``end`` is then the last time known."""

    @property
    def microseconds(self) -> float:
        """How long it took."""
        return self.end - self.start

    @property
    def rate(self) -> float | None:
        """GB/s (10⁹ bytes a second) where it moved bytes, else None."""
        return self.bytes / self.microseconds / 1e3 if self.bytes and self.microseconds > 0 else None

    @property
    def on_host(self) -> bool:
        """Is it on the host's row?"""
        return self.kind in (CALL, HOST_WORK)

    @property
    def is_work(self) -> bool:
        """Does it do something on the device, rather than only order work?"""
        return self.kind in WORK

    @property
    def blocked(self) -> bool:
        """Is it a runtime call that kept the host until the device had done something?"""
        return self.kind == CALL and self.waited is not None and self.waited.rule == "device"

    def __repr__(self) -> str:
        place = f", {self.stream}" if self.stream else ""
        return f"<{self.kind} {self.name!r}{place}: {self.start:.4g} to {self.end:.4g} µs, {self.label}>"


def cause(span: Span) -> Wait | None:
    """What ``span`` really waited for: records and waits of events, which take no time, are looked through."""
    wait = span.waited
    rule = ""
    while wait is not None:
        if not rule or rule == "stream order":
            rule = wait.rule
        if wait.span is None or wait.span.kind not in (RECORD, WAIT, FREE):
            return Wait(rule, wait.span)
        if wait.span.waited is None:
            return Wait(rule, wait.span)
        wait = wait.span.waited
    return None


def lanes(spans: Sequence[Span]) -> list[int]:
    """For each span, ordered by start, the first sub-row in which it overlaps no other."""
    ends: list[float] = []
    found = []
    for span in spans:
        lane = next((at for at, end in enumerate(ends) if end <= span.start), len(ends))
        if lane == len(ends):
            ends.append(0.0)
        ends[lane] = span.end
        found.append(lane)
    return found


def time_text(microseconds: float) -> str:
    """A time with three significant digits and its unit: 870 ns, 12.5 µs, 1.90 ms, 2.40 s."""
    for scale, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "µs")):
        if abs(microseconds) >= 0.9995 * scale:
            return f"{_digits(microseconds / scale)} {unit}"
    return f"{microseconds * 1e3:.0f} ns" if microseconds else "0 µs"


def _digits(value: float) -> str:
    for digits, limit in ((2, 9.995), (1, 99.95)):
        if abs(value) < limit:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"


def size_text(size: int) -> str:
    """Bytes in binary units: 512 B, 64 KiB, 1.5 MiB."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
