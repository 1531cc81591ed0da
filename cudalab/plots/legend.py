"""The legend of a timeline: a swatch for each kind of span that is drawn, and a line for each mark."""

from __future__ import annotations

from cudalab.plots.drawing import coordinate, label, line, rect, text_width
from cudalab.plots.span_style import A_KERNEL, ORDER, Letters, SpanStyle
from cudalab.plots.style import INK, QUIET, VERMILLION
from cudalab.timeline.spans import RECORD, WAIT

ARROW_HEAD = (
    '<marker id="tl-head" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="6.5" markerHeight="6.5" orient="auto">'
    f'<path d="M0 0.5L8 4L0 7.5z" fill="{INK}"/></marker>'
)

_MARKS = {
    "python": "Python, between calls",
    "critical": "critical path",
    "waiting": "waits for its engine, a place on an SM or another stream",
    RECORD: "event record",
    WAIT: "waits for an event",
    "event": "by an event",
    "default stream": "by the default stream",
    "hazard": "hazard: nothing orders these",
    "never": "never ended",
}


def draw_legend(
    used: set[SpanStyle], marks: set[str], letters: Letters, y: float, wide: float
) -> tuple[list[str], float]:
    """Swatches and words, in as many lines of ``wide`` pixels as it takes; and where they end. A kernel's letter is
    hidden where no bar has room for it: a wider page may have."""
    parts: list[str] = []
    x = 12.0
    entries: list[tuple[str, str, str, bool]] = []
    for style in ORDER:
        if style not in used:
            continue
        named = letters.named() if style is A_KERNEL else []
        ground = rect(0, 0, 20, 13, style.fill, stroke=style.colour, radius=2)
        entries.append((ground + _inside("" if named else style.letter, style), style.words, "", True))
        entries += [(ground + _inside(letter, style), name, letter, shown) for letter, name, shown in named]
    shapes = {
        "python": line(1, 6.5, 20, 6.5, QUIET, width=1.6),
        "critical": line(1, 8, 20, 8, INK, width=2.2),
        "waiting": line(1, 6.5, 20, 6.5, QUIET, width=1.4, dash="1.5 2.5"),
        RECORD: f'<circle cx="14" cy="6.5" r="3" fill="{INK}"/>',
        WAIT: f'<circle cx="14" cy="6.5" r="3" fill="#FFFFFF" stroke="{INK}"/>',
        "event": line(1, 6.5, 19, 6.5, INK, width=1.1, more=' marker-end="url(#tl-head)"'),
        "default stream": line(1, 6.5, 19, 6.5, INK, width=1.1, dash="4 2", more=' marker-end="url(#tl-head)"'),
        "hazard": "".join(alarm(13, 6.5)),
        "never": label(10, 6.5, "✗", fill=VERMILLION, bold=True, anchor="middle"),
    }
    entries += [(shapes[mark], words, "", True) for mark, words in _MARKS.items() if mark in marks]
    for shape, words, letter, shown in entries:
        width = 26 + text_width(words, 9.5) + 16
        if x + width > wide and x > 12 and shown:
            x, y = 12.0, y + 18
        place = f'transform="translate({coordinate(x)} {coordinate(y)})" data-width="{coordinate(width)}"'
        place += f' data-letter="{letter}"' if letter else ""
        place += "" if shown else ' display="none"'
        parts.append(f'<g class="tl-entry" {place}>{shape}{label(25, 6.5, words, size=9.5, fill=QUIET)}</g>')
        x += width if shown else 0
    return parts, y + 16 if entries else y


def alarm(x: float, y: float) -> list[str]:
    """The mark of a hazard."""
    circle = f'<circle cx="{coordinate(x)}" cy="{coordinate(y)}" r="5.5" fill="{VERMILLION}"/>'
    return [circle, label(x, y, "!", size=9, anchor="middle", fill="#FFFFFF", bold=True)]


def _inside(letter: str, style: SpanStyle) -> str:
    return label(10, 6.5, letter, size=9, anchor="middle", halo=style.ground if style.pattern else "") if letter else ""
