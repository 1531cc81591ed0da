"""The text table of a timeline."""

from __future__ import annotations

from collections.abc import Sequence

from cudalab.timeline.spans import CALL, HOST_WORK, Span, cause, size_text

_HEADS = ("stream", "what", "engine", "start", "end", "took", "bytes", "GB/s", "bound", "waited for", "line")
_NUMBERS = frozenset({"start", "end", "took", "bytes", "GB/s"})
_LONGEST = 44


def table(spans: Sequence[Span], label: str, *, calls: bool, most: int) -> str:
    """One line for each span, in order of start; times in µs."""
    wanted = [span for span in spans if calls or span.kind not in (CALL, HOST_WORK)]
    rows = [_row(span) for span in wanted[:most]]
    empty = [at for at in range(len(_HEADS)) if not any(row[at] for row in rows)]
    columns = [at for at in range(len(_HEADS)) if at not in empty or at < 2]
    widths = {at: max(len(_HEADS[at]), *(len(row[at]) for row in rows), 0) for at in columns}
    lines = [f"Times in µs from the trace's begin, {label}."]
    for row in (_HEADS, *rows):
        cells = [row[at].rjust(widths[at]) if _HEADS[at] in _NUMBERS else row[at].ljust(widths[at]) for at in columns]
        lines.append("  ".join(cells).rstrip())
    if len(wanted) > most:
        lines.append(f"… and {len(wanted) - most} more; table(most={len(wanted)}) shows all")
    return "\n".join(lines)


def _row(span: Span) -> tuple[str, ...]:
    wait = cause(span)
    return (
        span.stream or "host",
        span.name if span.complete else f"{span.name} (never ended)",
        span.engine if not span.on_host else "",
        _time(span.start),
        _time(span.end),
        _time(span.microseconds),
        size_text(span.bytes) if span.bytes else "",
        f"{span.rate:.0f}" if span.rate else "",
        span.bound,
        _short(str(wait)) if wait is not None else "",
        _short(f"{span.where}: {span.code}" if span.code else span.where),
    )


def _time(microseconds: float) -> str:
    return f"{microseconds:,.1f}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
