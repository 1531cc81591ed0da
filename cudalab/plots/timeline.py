"""Timelines: what ran when, in which stream and on which engine, and what waited for what.

One row for each host thread's calls, with a line where it is in Python between two of them, one for each stream, one
for each engine of the device. The time axis says whether the times are measured or modelled. A dotted line before a bar
is time in which it could have run and had to wait for an engine; an arrow leads from what an event, or the default
stream, made it wait for; a black line below marks the critical path; a dashed red line joins two operations that
nothing orders. In the row of the SMs a bar is filled as far as its grid can fill the SMs: one block leaves all but one
of them to others.

On a page with a kernel ``timeline.js`` makes the picture a live one. It works by classes and ``data-`` attributes: what
moves with the time stands in ``tl-time``, a bar with its label in ``tl-bar``, what keeps to the right edge in
``tl-right``, a piece of the legend in ``tl-entry``, which is shown with the bars that carry its ``data-letter``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cudalab.plots.drawing import (
    Drawing,
    coordinate,
    group,
    label,
    line,
    rect,
    shorten,
    text_width,
    ticks,
)
from cudalab.plots.legend import ARROW_HEAD, alarm, draw_legend
from cudalab.plots.span_style import A_GRAPH, ORDER, Letters, SpanStyle, style_of
from cudalab.plots.style import FAINT, INK, QUIET, RULE, VERMILLION
from cudalab.timeline.spans import RECORD, SMS, WAIT, Span, cause, lanes, size_text, time_text
from cudalab.timeline.timeline import Timeline, Timelines

WIDTH, _RIGHT = 900.0, 62.0
_MOST_ROWS = 48
_MOST_ARROWS = 40
_WAITS = ("copy engine", "SM resources", "default stream", "event")
_NARROW = 1.2  # px; narrower neighbours of one kind are drawn as one


def timeline(
    t: Timelines,
    *,
    by: str = "both",
    title: str = "",
    calls: bool = True,
    within: tuple[float, float] | None = None,
) -> Drawing:
    """Draw one timeline, or several below each other on one scale.

    Args:
        t: what ``cudalab.trace()`` gave; a list of such, or a mapping that names them (``{"1 stream": t1, ...}``).
        by: rows by ``"stream"``, by ``"engine"``, or ``"both"``.
        title: what is shown.
        calls: the host's row, too.
        within: draw only from the first to the second of these times (µs); by default everything, but a long time on
            the host before the first work reaches the device.

    Returns:
        A ``Drawing``: the last line of a cell shows it with its sentence.

    Raises:
        ValueError: no timeline, an unknown ``by``, or an empty ``within``.
    """
    if by not in ("stream", "engine", "both"):
        raise ValueError(f"timeline: by must be 'stream', 'engine' or 'both'; got {by!r}")
    if within is not None and within[1] <= within[0]:
        raise ValueError(f"timeline: within must be (begin, end) with begin < end, in µs; got {within}")
    named = _named(t)
    summary, plain = _sentence(named)
    shown = [_Panel(name, one, by, calls, within) for name, one in named.items()]
    scale = max(panel.end - panel.begin for panel in shown)
    letters = Letters(span for panel in shown for span in panel.spans)
    gutter = min(190.0, max([80.0, *(text_width(row.name, 10.5) for panel in shown for row in panel.rows)]) + 16)
    parts: list[str] = []
    y = 10.0
    if title:
        parts.append(label(12, y + 8, title, size=13, bold=True))
        y += 26
    used: set[SpanStyle] = set()
    marks: set[str] = set()
    for panel in shown:
        drawer = _Drawer(panel, gutter, scale, letters, y)
        parts += drawer.draw()
        used |= drawer.used
        marks |= drawer.marks
        y = drawer.y + 6
    legend, y = draw_legend(used, marks, letters, y + 2, WIDTH)
    head = "".join(style.definition() for style in ORDER if style in used)
    content = f"<defs>{head}{ARROW_HEAD}</defs>\n" + "\n".join([*parts, *legend])
    live = {"left": gutter, "right": WIDTH - _RIGHT, "scale": scale}
    return Drawing(content, WIDTH, y + 6, summary, _alt(shown), plain, script="timeline.js", data=live)


def _named(t: Timelines) -> dict[str, Timeline]:
    if isinstance(t, Timeline):
        return {"": t}
    named = dict(t) if isinstance(t, Mapping) else {f"timeline {at}": one for at, one in enumerate(t, 1)}
    if not named or not all(isinstance(one, Timeline) for one in named.values()):
        raise ValueError("timeline needs what cudalab.trace() gave: one, a list, or a mapping from names; got none")
    return named


# -- what is drawn -----------------------------------------------------------------------------------------------------


@dataclass
class _Row:
    name: str
    spans: list[Span]
    height: float
    kind: str
    """``host``, ``stream`` or ``engine``."""
    y: float = 0.0


class _Panel:
    """The rows of one timeline."""

    def __init__(self, name: str, t: Timeline, by: str, calls: bool, within: tuple[float, float] | None) -> None:
        self.name, self.by = name, by
        self.spans, self.idle, self.label = t.spans, t.idle, t.label
        self.load = t.sm_load
        self.critical = {span.number for span in t.critical_path}
        self.elapsed = time_text(t.elapsed)
        self.begin, self.end = within or self._extent(*t.window)
        inside = [s for s in self.spans if s.end >= self.begin and s.start <= self.end]
        self.rows: list[_Row] = []
        if calls:
            self._add_host(inside)
        if by != "engine":
            self._add_streams(inside)
        if by != "stream":
            self._add_engines(inside)

    def _extent(self, begin: float, end: float) -> tuple[float, float]:
        last = max([end, *(s.end for s in self.spans)], default=0.0)
        if end <= begin:
            return 0.0, last or 1.0
        lead = begin if begin > 2 * (end - begin) else 0.0  # a long time on the host before anything reached the device
        start = max(0.0, begin - 0.15 * (end - begin)) if lead else min(0.0, max(begin, -0.1 * (last - 0.0)))
        return start, min(last, end + 0.5 * (end - start))

    def _add_host(self, spans: Sequence[Span]) -> None:
        for thread in dict.fromkeys(span.thread for span in self.spans if span.on_host):
            host = [span for span in spans if span.on_host and span.thread == thread]
            if host:
                self.rows.append(_Row(f"host: {thread}" if thread else "host", host, 22, "host"))

    def _add_streams(self, spans: Sequence[Span]) -> None:
        names = list(dict.fromkeys(s.stream for s in sorted(spans, key=lambda s: s.stream_number) if s.stream))
        height = 27.0 if len(names) <= 16 else 17.0
        for name in names[:_MOST_ROWS]:
            self.rows.append(_Row(name, [s for s in spans if s.stream == name], height, "stream"))
        self.hidden = len(names) - _MOST_ROWS

    def _add_engines(self, spans: Sequence[Span]) -> None:
        height = 25.0 if self.by == "engine" else 17.0
        for name in self.idle:
            among = [s for s in spans if s.engine == name and s.is_work]
            if among or self.by == "engine":
                self.rows.append(_Row(name, among, height, "engine"))

    hidden: int = 0


@dataclass
class _Drawer:
    """Draws one panel; ``y`` is where the next thing goes."""

    panel: _Panel
    gutter: float
    scale: float
    letters: Letters
    y: float
    unit: str = ""
    """The name of the axis."""
    used: set[SpanStyle] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)

    def x(self, time: float) -> float:
        width = WIDTH - self.gutter - _RIGHT
        return self.gutter + min(1.0, max(0.0, (time - self.panel.begin) / self.scale)) * width

    def draw(self) -> list[str]:
        panel = self.panel
        parts: list[str] = []
        if panel.name:
            text = f"{panel.elapsed}, {panel.label}"
            parts.append(label(12, self.y + 8, panel.name, size=11.5, bold=True))
            parts.append(label(WIDTH - 12, self.y + 8, text, anchor="end", fill=QUIET, kind="tl-right"))
            self.y += 20
        top = self.y
        for row in panel.rows:
            if row.kind == "engine" and panel.rows[0] is not row and not self._after_engine(row):
                self.y += 7
            row.y = self.y
            self.y += row.height
        parts += self._names()
        body = self._axis(top)
        for row in panel.rows:
            body += self._row(row)
        body += [*self._arrows(), *self._hazards()]
        if panel.hidden > 0:
            parts.append(label(12, self.y + 8, f"… and {panel.hidden} more streams", fill=QUIET, italic=True))
            self.y += 18
        end = min(panel.begin + self.scale, panel.end)
        parts.append(self.unit)
        moving = f'<g class="tl-time" data-begin="{panel.begin:.6g}" data-end="{end:.6g}">'
        return [*parts, moving, *body, "</g>"]

    def _names(self) -> list[str]:
        """What stands before the rows, and behind those of the engines."""
        parts = []
        right = self.x(self.panel.end)
        for row in self.panel.rows:
            middle = row.y + row.height / 2
            name = shorten(row.name, self.gutter - 16, 10.5)
            parts.append(label(12, middle, name, size=10.5, fill=INK if row.kind == "stream" else QUIET))
            if row.kind == "engine":
                parts.append(label(right + 6, middle, self._used(row), size=9, fill=QUIET, kind="tl-right"))
        return parts

    def _used(self, row: _Row) -> str:
        """The part of the time in which an engine worked; of the SMs, how many of them could on average."""
        busy = 100 - self.panel.idle.get(row.name, 0)
        if not row.name.endswith(SMS) or not any(span.blocks for span in row.spans):
            return f"{busy:.0f} % busy"
        load = self.panel.load
        return f"{load:.1f} % load" if load < 10 else f"{load:.0f} % load"

    def _after_engine(self, row: _Row) -> bool:
        rows = self.panel.rows
        return rows[rows.index(row) - 1].kind == "engine"

    def _axis(self, top: float) -> list[str]:
        panel = self.panel
        bottom = self.y + 2
        end = min(panel.begin + self.scale, panel.end)
        unit, factor = ("ms", 1e3) if panel.begin + self.scale >= 4000 else ("µs", 1.0)
        places_of = f'data-top="{coordinate(top)}" data-bottom="{coordinate(bottom)}" data-unit="{factor:g}"'
        parts = [f'<g class="tl-axis" {places_of}>']
        places = ticks(panel.begin / factor, end / factor, max(2, round(8 * (end - panel.begin) / self.scale)))
        for value in places:
            x = self.x(value * factor)
            parts.append(line(x, top, x, bottom, FAINT))
            parts.append(label(x, bottom + 9, f"{value:,g}", size=9.5, anchor="middle", fill=QUIET))
        right = self.x(end)
        parts += ["</g>", line(self.gutter, bottom, right, bottom, RULE)]
        self.unit = label(12, bottom + 9, f"{unit}, {panel.label}", size=9.5, fill=QUIET)
        self.y = bottom + 19
        return parts

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _row(self, row: _Row) -> list[str]:
        middle = row.y + row.height / 2
        right = self.x(self.panel.end)
        if row.kind == "engine":
            ground = rect(self.gutter, row.y + 3, right - self.gutter, row.height - 6, "#F7F8F9")
        else:
            ground = line(self.gutter, middle, right, middle, FAINT)
        return [ground, *self._between_calls(row), *self._bars(row)]

    def _between_calls(self, row: _Row) -> Iterator[str]:
        """In a host thread's row: from its first call to its last it is at work, between calls in Python."""
        if row.kind != "host":
            return
        ends = [self.x(row.spans[0].start)]
        for span in row.spans:
            begin, end = self.x(span.start), self.x(span.end)
            if begin - ends[-1] > _NARROW:
                self.marks.add("python")
                middle = row.y + row.height / 2
                yield line(ends[-1], middle, begin, middle, QUIET, width=1.6)
            ends.append(max(ends[-1], end))

    def _bars(self, row: _Row) -> Iterator[str]:
        bars = [s for s in row.spans if s.kind not in (RECORD, WAIT) and (s.is_work or s.on_host or s.microseconds > 0)]
        stacked = row.kind == "engine" and row.name == "SMs"
        levels = lanes(bars) if stacked else [0] * len(bars)
        depth = max(levels, default=0) + 1
        before: tuple[SpanStyle, int, float, float, int] | None = None
        previous_end: float | None = None
        for span, level in zip(bars, levels, strict=True):
            style = style_of(span)
            x1, x2 = self.x(span.start), self.x(span.end)
            if before is not None and x2 - x1 < _NARROW and (before[0], before[1]) == (style, level):
                if x1 - before[3] < 0.6 and before[3] - before[2] < 24:
                    before = (style, level, before[2], max(before[3], x2), before[4] + 1)
                    continue
            if before is not None:
                yield self._crowd(row, before, depth)
            before = None
            if x2 - x1 < _NARROW:
                before = (style, level, x1, x2, 1)
            else:
                yield self._bar(row, span, style, x1, x2, level, depth, previous_end)
            previous_end = span.end
        if before is not None:
            yield self._crowd(row, before, depth)
        if row.kind == "stream":
            yield from self._events(row)

    def _place(self, row: _Row, level: int, depth: int) -> tuple[float, float]:
        pad = 3.5 if row.kind != "engine" else 3.0
        height = (row.height - 2 * pad) / depth
        return row.y + pad + level * height, height

    def _crowd(self, row: _Row, bar: tuple[SpanStyle, int, float, float, int], depth: int) -> str:
        """Bars too narrow to be told apart, as one."""
        style, level, x1, x2, count = bar
        self.used.add(style)
        y, height = self._place(row, level, depth)
        text = f"{count} of them: {style.words}" if count > 1 else style.words
        return group([rect(x1, y, max(1.0, x2 - x1), height, style.colour)], text, kind="tl-bar")

    def _bar(
        self,
        row: _Row,
        span: Span,
        style: SpanStyle,
        x1: float,
        x2: float,
        level: int,
        depth: int,
        previous_end: float | None,
    ) -> str:
        self.used.add(style)
        y, height = self._place(row, level, depth)
        if style is A_GRAPH:  # a frame around its nodes
            y, height = row.y + 0.6, row.height - 1.2
        parts = []
        wait = cause(span)
        if row.kind == "stream" and wait is not None and wait.rule in _WAITS:
            ready = self.x(max(span.asked, previous_end if previous_end is not None else span.asked))
            if x1 - ready > 3:
                self.marks.add("waiting")
                parts.append(line(ready, y + height / 2, x1, y + height / 2, QUIET, width=1.4, dash="1.5 2.5"))
        radius = 2 if x2 - x1 > 5 and height > 8 else 0
        fill = style.fill if x2 - x1 > 4 else style.ground
        part = span.load if row.name.endswith(SMS) else 1.0
        ground = fill if part > 0.99 else "#FFFFFF"
        parts.insert(0, rect(x1, y, x2 - x1, height, ground, stroke=style.colour, radius=radius))
        if part <= 0.99:
            filled = max(1.5, part * height)
            # a thin filling is strong, to be seen; one that the label stands on is as light as other bars
            parts.append(rect(x1, y + height - filled, x2 - x1, filled, style.colour if part < 0.5 else style.fill))
        size = 10.0 if height >= 14 else 8.5
        names = [] if height < 9 else self._labels(span, by_stream=row.kind == "engine" and self.panel.by == "both")
        text = next((name for name in names if text_width(name, size) + 6 <= x2 - x1), "")
        if names:
            (self.letters.used if text else self.letters.spare).add(text or names[-1])
            halo = style.ground if style.pattern else "#FFFFFF" if part <= 0.99 else ""
            middle = (x1 + x2) / 2, y + height / 2
            parts.append(label(*middle, text, size=size, anchor="middle", halo=halo, kind="tl-label"))
        if row.kind == "stream" and span.number in self.panel.critical:
            self.marks.add("critical")
            parts.append(line(x1, row.y + row.height - 1.6, x2, row.y + row.height - 1.6, INK, width=2.2))
        if span.hazards and row.kind == "stream":
            self.marks.add("hazard")
            parts += alarm(x1 + 1, y + 1)
        if not span.complete:
            self.marks.add("never")
            parts.append(label(x2 + 3, y + height / 2, "✗", fill=VERMILLION, bold=True))
        live = {"labels": "\n".join(names), "size": f"{size:g}"} if names else {}
        return group(parts, _title(span), kind="tl-bar", data=live)

    def _labels(self, span: Span, *, by_stream: bool) -> list[str]:
        """What may stand in a bar, the longest first."""
        return [text for text in ((span.stream,) if by_stream else self.letters.options(span)) if text]

    def _events(self, row: _Row) -> Iterator[str]:
        """Event records and waits: a dot, and a ring."""
        y = row.y + row.height / 2
        last = {RECORD: -10.0, WAIT: -10.0}
        for span in row.spans:
            if span.kind not in last or self.x(span.end) - last[span.kind] < 1.5:
                continue
            x = last[span.kind] = self.x(span.end)
            self.marks.add(span.kind)
            fill = INK if span.kind == RECORD else "#FFFFFF"
            shape = f'<circle cx="{coordinate(x)}" cy="{coordinate(y)}" r="3" fill="{fill}" stroke="{INK}"/>'
            yield group([shape], _title(span))

    def _arrows(self) -> list[str]:
        """From what an event, or the default stream, made wait, to what waited."""
        rows = {row.name: row for row in self.panel.rows if row.kind == "stream"}
        found = []
        for span in self.panel.spans:
            wait = span.waited
            if wait is None or wait.span is None or wait.rule not in ("event", "default stream"):
                continue
            source, target = rows.get(wait.span.stream), rows.get(span.stream)
            if source is None or target is None or source is target:
                continue
            x1, x2 = self.x(wait.span.end), self.x(span.start)
            y1, y2 = source.y + source.height / 2, target.y + target.height / 2
            down = 1 if y2 > y1 else -1
            y1, y2 = y1 + 4 * down, y2 - (4 if span.kind == WAIT else target.height / 2 - 4) * down
            straight = x2 - x1 < 14
            dash = ' stroke-dasharray="4 2"' if wait.rule == "default stream" else ""
            # a short way is a line; a long one leaves to the side and arrives from above or below
            bend = (x1, y1, x2, y2 - 0.5 * (y2 - y1)) if straight else (x1 + (x2 - x1) / 2, y1, x2, y1, x2, y2)
            curve = " ".join(map(coordinate, (*bend, x2, y2)[:6]))
            found.append(
                f'<path d="M{coordinate(x1)} {coordinate(y1)}C{curve}" fill="none" stroke="{INK}" '
                f'stroke-width="1.1"{dash} marker-end="url(#tl-head)"/>'
            )
            self.marks.add(wait.rule)
        return found if len(found) <= _MOST_ARROWS else []

    def _hazards(self) -> list[str]:
        """Between two operations that touch the same bytes and that nothing orders."""
        rows = {row.name: row for row in self.panel.rows if row.kind == "stream"}
        found = []
        for span in self.panel.spans:
            for other in span.conflicts[:_MOST_ARROWS]:
                ends = [(one, rows[one.stream]) for one in (other, span) if one.stream in rows]
                if len(ends) == 2:
                    (x1, y1), (x2, y2) = (
                        (self.x(one.start + one.microseconds / 2), row.y + row.height / 2) for one, row in ends
                    )
                    parts = [line(x1, y1, x2, y2, VERMILLION, width=2, dash="5 3")]
                    parts += alarm((x1 + x2) / 2, (y1 + y2) / 2)
                    kinds = ", ".join(dict.fromkeys(span.hazards))
                    found.append(group(parts, f"hazard: {kinds}; nothing orders {other.name} and {span.name}"))
                    self.marks.add("hazard")
        return found


# -- words -------------------------------------------------------------------------------------------------------------


def _title(span: Span) -> str:
    """The hover text."""
    where = span.stream or span.thread
    lines = [f"{span.name}{f' in {where}' if where else ''}: {time_text(span.microseconds)}, {span.label}"]
    if span.bytes:
        rate = f" at {span.rate:.0f} GB/s" if span.rate else ""
        lines.append(f"{size_text(span.bytes)}{rate}")
    lines.append(f"from {span.start:,.1f} to {span.end:,.1f} µs")
    if span.blocks:
        part = f", {100 * span.load:.2g} % of the SMs at most" if span.load < 1 else ""
        lines.append(f"{span.blocks:,} block{'s' * (span.blocks != 1)}{part}")
    if span.bound:
        lines.append(span.bound)
    wait = cause(span)
    if wait is not None:
        lines.append(f"waited for {wait}")
    if span.hazards:
        others = f" with {', '.join(other.name for other in span.conflicts)}" if span.conflicts else ""
        lines.append(f"hazard: {', '.join(dict.fromkeys(span.hazards))}{others}; nothing orders it")
    if not span.complete:
        lines.append("never ended: the device was lost or reset")
    if span.where:
        lines.append(f"{span.where}: {span.code}" if span.code else span.where)
    return "\n".join(lines)


def _sentence(named: Mapping[str, Timeline]) -> tuple[str, str]:
    """The sentence as Markdown and as plain text."""
    if len(named) == 1:
        (one,) = named.values()
        plain = one.summary
    else:
        longest = max(named.values(), key=lambda t: t.elapsed)
        texts = []
        for name, t in named.items():
            ratio = longest.elapsed / t.elapsed if t.elapsed else 1.0
            faster = f" ({ratio:.2g} times as fast)" if ratio > 1.02 else ""
            texts.append(f"{name}: {time_text(t.elapsed)}{faster}{_together(t)}")
        first = next(iter(named.values()))
        where = f"{first.label} on {'a ' if first.device.startswith('simulated') else ''}{first.device}"
        plain = f"{'; '.join(texts)}; {where}."
    markdown = re.sub(r"([\\*_<>`\[\]])", r"\\\1", plain)
    return re.sub(r"(\d+ %|\d[\d.,]* (?:µs|ms|s)\b)", r"**\1**", markdown, count=1), plain


def _together(t: Timeline) -> str:
    if t.copies and t.kernels:
        return f", copies and kernels overlap for {t.overlap.copies_and_kernels:.0f} %"
    return f", kernels overlap for {t.overlap.kernels:.0f} %" if len(t.kernels) > 1 else ""


def _alt(panels: Sequence[_Panel]) -> str:
    texts = []
    for panel in panels:
        rows = ", ".join(row.name for row in panel.rows)
        count = sum(span.is_work for span in panel.spans)
        name = f"{panel.name}: " if panel.name else ""
        texts.append(f"{name}{count} pieces of work over {panel.elapsed} in the rows {rows}")
    return f"Timeline. {'; '.join(texts)}."
