"""What a timeline says in numbers: which engines worked together, which idled, and what decided the time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from cudalab.timeline.spans import ARRAY, BOTH, COPY, D2H, H2D, KERNEL, MEMSET, SMS, Span, cause, time_text

Interval = tuple[float, float]
_TOLERANCE = 1e-6  # µs


@dataclass(frozen=True)
class Overlap:
    """How long things happened at the same time, in percent of the timeline's ``elapsed``."""

    copies_and_kernels: float
    """A copy over the bus, and a kernel (or a memset, or an array operation)."""

    both_ways: float
    """A copy to the device and one back."""

    engines: float
    """Any two engines."""

    kernels: float
    """Two kernels or more."""

    def __repr__(self) -> str:
        return (
            f"copies with kernels {self.copies_and_kernels:.0f} %, copies both ways {self.both_ways:.0f} %, "
            f"any two engines {self.engines:.0f} %, kernels with kernels {self.kernels:.0f} %"
        )


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time as intervals that do not touch, in order."""
    merged: list[Interval] = []
    for start, end in sorted(interval for interval in intervals if interval[1] > interval[0]):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def intersection(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """The time that is in both; each side as ``union`` gives it."""
    found = []
    i = j = 0
    while i < len(one) and j < len(other):
        start, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if end > start:
            found.append((start, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return found


def twice(intervals: Iterable[Interval]) -> list[Interval]:
    """The time that two or more of the intervals cover."""
    ends = sorted(edge for start, end in intervals if end > start for edge in ((start, 1), (end, -1)))
    found: list[Interval] = []
    depth, since = 0, 0.0
    for time, step in ends:
        if depth < 2 <= depth + step:
            since = time
        elif depth >= 2 > depth + step:
            found.append((since, time))
        depth += step
    return union(found)


def length(intervals: Iterable[Interval]) -> float:
    return sum(end - start for start, end in intervals)


def _busy(spans: Iterable[Span]) -> list[Interval]:
    return union((span.start, span.end) for span in spans)


def window(spans: Sequence[Span]) -> Interval:
    """From the start of the first work on the device to the end of the last; ``(0, 0)`` where there is none."""
    work = [span for span in spans if span.is_work]
    if not work:
        return 0.0, 0.0
    return min(span.start for span in work), max(span.end for span in work)


def _percent(part: float, whole: float) -> float:
    return min(100.0, 100.0 * part / whole) if whole > 0 else 0.0


def by_engine(spans: Iterable[Span]) -> dict[str, list[Interval]]:
    """When each engine worked."""
    found: dict[str, list[Span]] = {}
    for span in spans:
        if span.engine and span.is_work and span.engine in (H2D, D2H, BOTH, SMS):
            found.setdefault(span.engine, []).append(span)
    return {engine: _busy(among) for engine, among in found.items()}


def overlap(spans: Sequence[Span]) -> Overlap:
    begin, end = window(spans)
    whole = end - begin
    engines = by_engine(spans)
    bus = _busy(s for s in spans if s.kind == COPY and s.engine in (H2D, D2H, BOTH))
    sms = _busy(s for s in spans if s.kind in (KERNEL, ARRAY, MEMSET))
    pairs = [intersection(a, b) for a, b in combinations(engines.values(), 2)]
    kernels = [(s.start, s.end) for s in spans if s.kind in (KERNEL, ARRAY)]
    return Overlap(
        _percent(length(intersection(bus, sms)), whole),
        _percent(length(intersection(engines.get(H2D, []), engines.get(D2H, []))), whole),
        _percent(length(union(interval for pair in pairs for interval in pair)), whole),
        _percent(length(twice(kernels)), whole),
    )


def idle(spans: Sequence[Span], engines: Iterable[str]) -> dict[str, float]:
    begin, end = window(spans)
    busy = by_engine(spans)
    return {
        engine: 100.0 - _percent(length(busy.get(engine, [])), end - begin) if end > begin else 100.0
        for engine in engines
    }


def sm_load(spans: Sequence[Span]) -> float:
    """The mean of the parts of the SMs that work can keep busy, together at most all of them, in percent."""
    begin, end = window(spans)
    edges = [(s.start, s.load) for s in spans if s.engine == SMS and s.is_work]
    edges += [(s.end, -s.load) for s in spans if s.engine == SMS and s.is_work]
    total = load = 0.0
    last = begin
    for time, step in sorted(edges):
        total += min(1.0, load) * (time - last)
        load, last = load + step, time
    return _percent(total, end - begin)


def critical_path(spans: Sequence[Span]) -> list[Span]:
    """Back from the last work to end, from each span to what it waited for; in order of time."""
    work = [span for span in spans if span.is_work]
    if not work:
        return []
    path: list[Span] = []
    step: Span | None = max(work, key=lambda span: (span.end, span.number))
    seen: set[int] = set()
    while step is not None and step.number not in seen:
        seen.add(step.number)
        path.append(step)
        wait = cause(step)
        step = wait.span if wait is not None else None
        if step is not None and step.on_host and not step.blocked:
            step = _blocking_before(step, spans, path)
    return path[::-1]


def _blocking_before(call: Span, spans: Sequence[Span], path: list[Span]) -> Span | None:
    """The host is busy with one call after the other; what made it late is the last call that waited for the device."""
    path.append(call)
    before = [s for s in spans if s.blocked and s.end <= call.start + _TOLERANCE]
    return max(before, key=lambda s: s.end, default=None)


# -- the sentence ------------------------------------------------------------------------------------------------------


def summary(spans: Sequence[Span], engines: Sequence[str], label: str, device: str) -> str:
    where = f"{label} on a {device}" if device.startswith("simulated") else f"{label} on {device}"
    begin, end = window(spans)
    if end <= begin:
        calls = sum(span.on_host for span in spans)
        what = f"only {calls} calls of the host" if calls else "nothing"
        return f"No work reached the device: {what}; {where}."
    parts = [_overlap_text(spans, end - begin), _idle_text(spans, engines), _path_text(spans)]
    return f"{'; '.join(part for part in parts if part)}; {where}."


def _overlap_text(spans: Sequence[Span], elapsed: float) -> str:
    found = overlap(spans)
    time = f"of the {time_text(elapsed)}"
    has_bus = any(s.kind == COPY and s.engine in (H2D, D2H, BOTH) for s in spans)
    has_kernels = any(s.kind in (KERNEL, ARRAY, MEMSET) for s in spans)
    if has_bus and has_kernels:
        text = f"Copies and kernels overlap for {found.copies_and_kernels:.0f} % {time}"
        return text if found.copies_and_kernels >= 0.5 else f"Copies and kernels never overlap in the {time[7:]}"
    ways = {s.engine for s in spans if s.kind == COPY}
    if {H2D, D2H} <= ways:
        return f"Copies to the device and back overlap for {found.both_ways:.0f} % {time}"
    if sum(s.kind in (KERNEL, ARRAY) for s in spans) > 1:
        if found.kernels < 0.5:
            return f"No two kernels overlap in the {time_text(elapsed)}"
        return f"Kernels overlap for {found.kernels:.0f} % {time}"
    return f"The device works for {time_text(elapsed)}"


def _idle_text(spans: Sequence[Span], engines: Sequence[str]) -> str:
    used = by_engine(spans)
    idles = {engine: value for engine, value in idle(spans, engines).items() if engine in used}
    if len(idles) < 2:
        (value,) = idles.values() or (0.0,)
        return f"the {next(iter(idles))} idle {value:.0f} % of it" if value >= 1 and SMS in idles else ""
    texts = [f"the {name} idle{'' if name == SMS else 's'} {value:.0f} %" for name, value in idles.items()]
    return ", ".join(texts) + " of it"


def _path_text(spans: Sequence[Span]) -> str:
    path = critical_path(spans)
    begin, end = window(spans)
    if length(_busy(span for span in path if span.is_work)) < 0.5 * (end - begin):
        return "the host decides the time, with one call after the other"
    names: list[tuple[str, int]] = []
    for span in path:
        name = "host" if span.on_host else span.name
        count = 1 if not names or names[-1][0] != name else names.pop()[1] + 1
        names.append((name, count))
    if names[0][0] == "host":
        names.pop(0)
    if len(names) < 2 and names[0][1] < 2:
        return f"{names[0][0]} decides the time"
    texts = [f"{name} ×{count}" if count > 1 and name != "host" else name for name, count in names]
    if len(texts) > 6:
        texts = [*texts[:3], "…", *texts[-2:]]
    return "the critical path goes through " + " → ".join(texts)
