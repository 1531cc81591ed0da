"""How each kind of span looks on a timeline: colour, pattern, letter, and its words in the legend.

Nothing is told by colour alone: each kind has a pattern of its own, and a letter where its name does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cudalab.plots.style import BLUE, GREEN, INK, PURPLE, QUIET, VERMILLION, tint
from cudalab.timeline.spans import ARRAY, COPY, GRAPH, HOST_FUNCTION, HOST_WORK, KERNEL, MEMSET, Span, size_text

_STRIPES = {
    "up": "M-2 2L2 -2M-1 7L7 -1M4 8L8 4",
    "down": "M-2 4L2 8M-1 -1L7 7M4 -2L8 2",
    "flat": "M0 3H6",
    "upright": "M3 0V6",
    "dots": "M1.5 1.5h.01M4.5 4.5h.01",
    "cross": "M0 3H6M3 0V6",
}


@dataclass(frozen=True)
class SpanStyle:
    """The look of one kind of span."""

    key: str
    colour: str
    pattern: str
    """A key of the patterns, or empty: plain."""
    strength: float
    """How much of the colour the ground has."""
    letter: str
    words: str
    """In the legend."""

    @property
    def ground(self) -> str:
        return tint(self.colour, self.strength)

    @property
    def fill(self) -> str:
        return f"url(#{self.key})" if self.pattern else self.ground

    def definition(self) -> str:
        """The ``<pattern>``; empty for a plain style."""
        if not self.pattern:
            return ""
        dots = ' stroke-linecap="round"' if self.pattern == "dots" else ""
        width = 1.8 if self.pattern == "dots" else 1
        return (
            f'<pattern id="{self.key}" width="6" height="6" patternUnits="userSpaceOnUse">'
            f'<rect width="6" height="6" fill="{self.ground}"/>'
            f'<path d="{_STRIPES[self.pattern]}" stroke="{tint(self.colour, 0.5)}" stroke-width="{width}"{dots} '
            f'fill="none"/></pattern>'
        )


TO_DEVICE = SpanStyle("tl-to-device", BLUE, "up", 0.22, "H", "copy to device")
TO_HOST = SpanStyle("tl-to-host", GREEN, "down", 0.22, "D", "copy to host")
ON_DEVICE = SpanStyle("tl-on-device", PURPLE, "flat", 0.3, "C", "copy on device")
A_KERNEL = SpanStyle("tl-kernel", VERMILLION, "", 0.42, "K", "kernel")
AN_ARRAY = SpanStyle("tl-array", VERMILLION, "upright", 0.18, "A", "array operation")
A_MEMSET = SpanStyle("tl-memset", PURPLE, "dots", 0.22, "M", "memset")
A_GRAPH = SpanStyle("tl-graph", INK, "", 0.06, "", "graph, around its nodes")
FUNCTION = SpanStyle("tl-function", INK, "cross", 0.12, "F", "host function")
COMPUTING = SpanStyle("tl-computing", INK, "", 0.3, "W", "host computes")
CALLING = SpanStyle("tl-calling", QUIET, "", 0.42, "", "runtime call")
BLOCKED = SpanStyle("tl-blocked", QUIET, "", 0.14, "", "call that waits")
OTHER = SpanStyle("tl-other", QUIET, "flat", 0.2, "?", "other work")

_BY_KIND = {
    KERNEL: A_KERNEL, ARRAY: AN_ARRAY, MEMSET: A_MEMSET, GRAPH: A_GRAPH, HOST_FUNCTION: FUNCTION, HOST_WORK: COMPUTING
}  # fmt: skip
_BY_NAME = {"copy to device": TO_DEVICE, "copy to host": TO_HOST}
ORDER = (
    TO_DEVICE,
    A_KERNEL,
    AN_ARRAY,
    TO_HOST,
    ON_DEVICE,
    A_MEMSET,
    A_GRAPH,
    FUNCTION,
    OTHER,
    COMPUTING,
    CALLING,
    BLOCKED,
)
_MOST_LETTERS = 6


def style_of(span: Span) -> SpanStyle:
    """The look of ``span``."""
    if span.kind == COPY:
        return _BY_NAME.get(span.name, ON_DEVICE)
    if span.on_host and span.kind != HOST_WORK:
        return BLOCKED if span.blocked else CALLING
    return _BY_KIND.get(span.kind, OTHER)


class Letters:
    """The label of a bar that is too narrow for a name. Kernels of several names get ``K1``, ``K2``, …"""

    def __init__(self, spans: Iterable[Span]) -> None:
        names = list(dict.fromkeys(span.name for span in spans if span.kind == KERNEL))
        several = 1 < len(names) <= _MOST_LETTERS
        self.kernels = {name: f"K{at}" for at, name in enumerate(names, 1)} if several else {}
        self.used: set[str] = set()
        """Labels that bars carry."""
        self.spare: set[str] = set()
        """Letters of bars that have room for one where the page is wider, or zoomed in."""

    def options(self, span: Span) -> Sequence[str]:
        """Labels for ``span``, the longest first."""
        style = style_of(span)
        if style is A_GRAPH:  # its nodes lie over it
            return ()
        letter = self.kernels.get(span.name, style.letter) if span.kind == KERNEL else style.letter
        if span.kind == COPY:
            size = size_text(span.bytes)
            return (f"{span.name}, {size}", f"{letter} {size}", letter)
        return (span.name, letter)

    def named(self) -> list[tuple[str, str, bool]]:
        """Kernels by their letter and name, and whether a bar carries that letter now."""
        met = self.used | self.spare
        return [(letter, name, letter in self.used) for name, letter in self.kernels.items() if letter in met]
