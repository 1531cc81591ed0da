"""A figure together with the sentence that says what it shows.

A picture appears as two outputs of the cell: the drawing, and below it one sentence of text, which is all that a
reader without the drawing needs. The drawing comes in several forms, of which a page takes the best that it can show:
HTML with the SVG in it, so that its hover texts show, it follows the page's width and theme, and a script can make it
live; the SVG alone, which is what a recorded notebook keeps; and a PNG where that is small. Presentation stands in
attributes, not in style sheets: pages that clean foreign markup, GitHub among them, drop the latter.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from abc import ABC, abstractmethod
from functools import cache
from html import escape
from importlib import resources
from typing import Any

import matplotlib
from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display
from matplotlib.figure import Figure

from cudalab.plots.style import RC

PNG_LIMIT = 80_000  # bytes; a larger PNG is left out of the notebook
_STYLE_SHEET = re.compile(r"\s*<defs>\s*<style\b.*?</style>\s*</defs>", re.DOTALL)
_STYLE = re.compile(r'\sstyle="([^"]*)"')
_PATH = re.compile(r'(?<=\sd=")[^"]*')
_DIGITS = re.compile(r"(?<=\.\d\d)\d+")  # a hundredth of a point is finer than any screen
_WIDTH = re.compile(r'<svg\b[^>]*? width="([\d.]+)(pt|px|)"')
_NAMES = re.compile(r'(\bid="|url\(#|href="#)([^")]+)(["\)])')
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)


def blank(width: float, height: float) -> Figure:
    """An empty figure of ``width`` × ``height`` inches in the course's style, tied to no window and no pyplot state."""
    with matplotlib.rc_context(RC):
        return Figure(figsize=(width, height), layout="constrained")


@cache
def _file(name: str) -> str:
    """A script or a style sheet of this package."""
    return (resources.files("cudalab.plots") / name).read_text(encoding="utf-8")


class Illustration(ABC):
    """A drawing and its sentence; shown when it is the last line of a cell."""

    def __init__(self, summary: str, alt: str) -> None:
        self.summary = summary
        """One sentence (Markdown) that says what the figure shows."""
        self.alt = alt
        """What is drawn, for readers who cannot see it."""
        self._shown: list[DisplayHandle] = []

    script = ""
    """A script in this package that makes the drawing a live one; empty for a still picture."""

    @abstractmethod
    def svg(self) -> str:
        """The figure as one ``<svg>`` element with inline attributes, a title and a role."""

    def png(self, dots_per_inch: int = 100) -> bytes | None:
        """The figure as a PNG file; None where it is drawn as SVG only."""
        return None

    def bundle(self) -> tuple[dict[str, str], dict[str, Any]]:
        """MIME data and metadata of the drawing alone."""
        svg = self.svg()
        data = {"text/html": self._html(svg), "image/svg+xml": svg, "text/plain": f"[figure] {self.alt}"}
        metadata: dict[str, Any] = {"image/svg+xml": {"alt": self.alt}}
        png = self.png()
        if png is not None and len(png) <= PNG_LIMIT:
            data["image/png"] = base64.b64encode(png).decode()
            metadata["image/png"] = {"alt": self.alt}
        return data, metadata

    def _html(self, svg: str) -> str:
        """The figure as part of a page. Names inside it get an ending of its own: a page has many figures."""
        width = _WIDTH.search(svg)
        assert width is not None
        pixels = float(width[1]) * (4 / 3 if width[2] == "pt" else 1)
        ending = hashlib.sha256(svg.encode()).hexdigest()[:8]
        svg = _NAMES.sub(lambda found: f"{found[1]}{found[2]}-{ending}{found[3]}", svg)
        script = f"<script>{_file(self.script)}</script>" if self.script else ""
        style = f"<style>{_file('figure.css')}</style>"
        return f'<div class="cudalab-figure" style="--cudalab-width: {1.25 * pixels:.0f}px">{style}{svg}{script}</div>'

    def caption(self) -> dict[str, str]:
        """MIME data of the sentence below."""
        return {"text/markdown": self.summary, "text/plain": self.summary.replace("**", "")}

    def show(self) -> None:
        """Show the drawing and its sentence as two outputs of the running cell."""
        if get_ipython() is None:
            print(self.summary.replace("**", ""))
            return
        data, metadata = self.bundle()
        drawing = display(data, metadata=metadata, raw=True, display_id=True)
        sentence = display(self.caption(), raw=True, display_id=True)
        self._shown = [handle for handle in (drawing, sentence) if handle is not None]

    def replace(self, other: Illustration) -> None:
        """Put ``other`` where this picture is shown; ``other`` can then be replaced in turn."""
        if not self._shown:
            return
        data, metadata = other.bundle()
        self._shown[0].update(data, metadata=metadata, raw=True)
        self._shown[1].update(other.caption(), raw=True)
        other._shown = self._shown

    def _ipython_display_(self) -> None:
        self.show()

    def __repr__(self) -> str:
        return self.summary.replace("**", "")


class Picture(Illustration):
    """An illustration drawn by matplotlib: what most functions of ``cudalab.plot`` return."""

    def __init__(self, figure: Figure, summary: str, alt: str) -> None:
        super().__init__(summary, alt)
        self.figure = figure
        """The matplotlib figure; change it as you like before it is shown."""

    def svg(self) -> str:
        """The figure as one ``<svg>`` element with inline attributes, a title and a role."""
        buffer = io.StringIO()
        with matplotlib.rc_context(RC):
            self._settle()
            self.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        text = buffer.getvalue()
        text = text[text.index("<svg") :]
        text = _METADATA.sub("", _STYLE_SHEET.sub("", text))
        text = _PATH.sub(lambda found: _DIGITS.sub("", found.group()), text)
        text = _STYLE.sub(lambda found: _attributes(found.group(1)), text)
        head = f' role="img" aria-label="{escape(self.alt)}" stroke-linejoin="round"'
        return re.sub(
            r"<svg\b([^>]*)>",
            lambda found: f"<svg{found.group(1)}{head}>\n <title>{escape(self.alt, quote=False)}</title>",
            text,
            count=1,
        ).strip()

    def png(self, dots_per_inch: int = 100) -> bytes:
        """The figure as a PNG file."""
        buffer = io.BytesIO()
        with matplotlib.rc_context(RC):
            self._settle()
            self.figure.savefig(buffer, format="png", dpi=dots_per_inch, metadata={"Software": None})
        return buffer.getvalue()

    def _settle(self) -> None:
        """Fix the layout: each drawing would move it a little closer to its optimum, and no two would be equal."""
        if self.figure.get_layout_engine() is not None:
            self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")


def _attributes(style: str) -> str:
    """``fill: #fff; stroke: none`` as `` fill="#fff" stroke="none"``; matplotlib writes no other kind of style."""
    pairs = (rule.split(":", 1) for rule in style.split(";") if ":" in rule)
    return "".join(f' {name.strip()}="{value.strip()}"' for name, value in pairs)
