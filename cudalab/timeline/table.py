"""The table of a timeline: as text no wider than a page, and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

from cudalab.timeline.spans import CALL, HOST_WORK, Span, cause, size_text

_HEADS = ("stream", "what", "start", "took", "bytes", "GB/s", "waited for", "line")
_NUMBERS = frozenset({"start", "took", "bytes", "GB/s"})
_WIDEST = {"stream": 16, "what": 22, "waited for": 30}
"""Characters of a column in the text; the HTML has all of it."""
_LINE, _PAGE, _LEAST = _HEADS.index("line"), 100, 24
"""The last column, the learner's line, gets what the others leave of a page 900 pixels wide; at least 24 characters."""


class Table(str):
    """The text, for ``print``; as the last line of a cell, a table of the page."""

    markup: str

    def __new__(cls, text: str, markup: str) -> Table:
        made = super().__new__(cls, text)
        made.markup = markup
        return made

    def _repr_html_(self) -> str:
        return self.markup


def table(spans: Sequence[Span], label: str, *, calls: bool, most: int) -> Table:
    """One line for each span, in order of start; times in µs."""
    wanted = [span for span in spans if calls or span.kind not in (CALL, HOST_WORK)]
    rows = [_row(span) for span in wanted[:most]]
    shown = [at for at, head in enumerate(_HEADS) if at < 2 or any(row[at] for row in rows)]
    first = f"Times in µs from the trace's begin, {label}."
    last = f"… and {len(wanted) - most} more; table(most={len(wanted)}) shows all" if len(wanted) > most else ""
    return Table(_text(first, rows, shown, last), _markup(first, rows, shown, last))


def _text(first: str, rows: Sequence[Sequence[str]], shown: Sequence[int], last: str) -> str:
    short = [[_short(cell, _WIDEST.get(head, 99)) for head, cell in zip(_HEADS, row, strict=True)] for row in rows]
    widths = {at: max(len(_HEADS[at]), *(len(row[at]) for row in short), 0) for at in shown}
    if _LINE in widths:
        others = sum(width + 2 for at, width in widths.items() if at != _LINE)
        for row in short:
            row[_LINE] = _short(row[_LINE], max(_LEAST, _PAGE - others))
    lines = [first]
    for cells in (_HEADS, *short):
        padded = [
            cells[at].rjust(widths[at]) if _HEADS[at] in _NUMBERS else cells[at].ljust(widths[at]) for at in shown
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join([*lines, last] if last else lines)


def _markup(first: str, rows: Sequence[Sequence[str]], shown: Sequence[int], last: str) -> str:
    def cell(tag: str, at: int, text: str) -> str:
        side = "right" if _HEADS[at] in _NUMBERS else "left"
        wrap = "normal" if _HEADS[at] == "line" else "nowrap"
        return f"<{tag} style='text-align:{side};white-space:{wrap}'>{html.escape(text)}</{tag}>"

    head = "".join(cell("th", at, _HEADS[at]) for at in shown)
    body = "".join(f"<tr>{''.join(cell('td', at, row[at]) for at in shown)}</tr>" for row in rows)
    return (
        f"<div style='max-width:100%;overflow-x:auto'><table><caption style='text-align:left'>{html.escape(first)}"
        f"</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{html.escape(last)}</div>"
    )


def _row(span: Span) -> tuple[str, ...]:
    wait = cause(span)
    return (
        span.stream or (f"host: {span.thread}" if span.thread else "host"),
        span.name if span.complete else f"{span.name} (never ended)",
        _time(span.start),
        _time(span.microseconds),
        size_text(span.bytes) if span.bytes else "",
        f"{span.rate:.0f}" if span.rate else "",
        str(wait) if wait is not None else "",
        f"{span.where.removeprefix('cell, ')}: {span.code}" if span.code else span.where,
    )


def _time(microseconds: float) -> str:
    return f"{microseconds:,.1f}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
