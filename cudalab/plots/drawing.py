"""Drawings written as SVG by hand, for pictures that matplotlib would take too long over.

Text stays text, set in DejaVu Sans where that is installed; the fall-backs are as wide or narrower, so that what is
measured here fits everywhere. Presentation stands in attributes and nothing needs a script, so the pages that clean
markup show it, too. Hover texts (``<title>``) show where the drawing is part of the page, and do no harm elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from types import MappingProxyType

import matplotlib
from matplotlib.ft2font import FT2Font

from cudalab.plots.picture import Illustration
from cudalab.plots.style import INK, QUIET, RULE, number

WIDTH = 800.0  # px, of drawings as wide as a page; JupyterLab gives them 700 on a page of 900
FONT = "DejaVu Sans, Verdana, Geneva, sans-serif"
_UNITS = 1000  # widths are looked up at this size, in px


class Drawing(Illustration):
    """An SVG with its sentence."""

    def __init__(
        self,
        content: str,
        width: float,
        height: float,
        summary: str,
        alt: str,
        plain: str = "",
        *,
        script: str = "",
        data: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        super().__init__(summary, alt)
        self._content, self.width, self.height = content, width, height
        self.script = script
        self._data = "".join(f' data-{name}="{value:.6g}"' for name, value in data.items())
        self._plain = plain or summary.replace("**", "")

    def svg(self) -> str:
        width, height = coordinate(self.width), coordinate(self.height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(self.alt)}" '
            f'font-family="{FONT}" font-size="11" fill="{INK}"{self._data}>\n'
            f"<title>{escape(self.alt, quote=False)}</title>\n"
            f'<rect width="{width}" height="{height}" fill="#FFFFFF"/>\n{self._content}\n</svg>'
        )

    def caption(self) -> dict[str, str]:
        return {"text/markdown": self.summary, "text/plain": self._plain}

    def __repr__(self) -> str:
        return self._plain


@cache
def _font(bold: bool) -> FT2Font:
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    font = FT2Font(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name))
    font.set_size(_UNITS, 72)
    return font


@cache
def _advance(character: str, bold: bool) -> float:
    return float(_font(bold).load_char(ord(character)).linearHoriAdvance) / 65536 / _UNITS


def text_width(text: str, size: float = 11, bold: bool = False) -> float:
    """Pixels that ``text`` needs."""
    return size * sum(_advance(character, bold) for character in text)


def coordinate(value: float) -> str:
    """A number as SVG wants it, to a tenth of a pixel."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def shorten(text: str, width: float, size: float = 11) -> str:
    """``text``, or as much of its beginning as fits into ``width`` pixels."""
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text + "…"


def label(
    x: float,
    y: float,
    text: str,
    *,
    size: float = 11,
    anchor: str = "start",
    fill: str = INK,
    bold: bool = False,
    italic: bool = False,
    halo: str = "",
    kind: str = "",
) -> str:
    """A text; ``y`` is its middle."""
    more = f' class="{kind}"' if kind else ""
    more += f' text-anchor="{anchor}"' if anchor != "start" else ""
    more += f' fill="{fill}"' if fill != INK else ""
    more += ' font-weight="bold"' if bold else ""
    more += ' font-style="italic"' if italic else ""
    more += f' stroke="{halo}" stroke-width="2.5" paint-order="stroke" stroke-linejoin="round"' if halo else ""
    size_text = f' font-size="{coordinate(size)}"' if size != 11 else ""
    place = f'x="{coordinate(x)}" y="{coordinate(y + 0.36 * size)}"'
    return f"<text {place}{size_text}{more}>{escape(text, quote=False)}</text>"


def rect(x: float, y: float, width: float, height: float, fill: str, *, stroke: str = "", radius: float = 0) -> str:
    """A rectangle; its border, where it has one, lies inside."""
    if stroke and width > 2:
        x, y, width, height = x + 0.5, y + 0.5, width - 1, height - 1
    more = f' stroke="{stroke}"' if stroke and width > 1 else ""
    more += f' rx="{coordinate(radius)}"' if radius else ""
    size = f'width="{coordinate(max(width, 0.6))}" height="{coordinate(height)}"'
    return f'<rect x="{coordinate(x)}" y="{coordinate(y)}" {size} fill="{fill}"{more}/>'


def line(
    x1: float, y1: float, x2: float, y2: float, stroke: str, *, width: float = 1, dash: str = "", more: str = ""
) -> str:
    more += f' stroke-width="{coordinate(width)}"' if width != 1 else ""
    more += f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{coordinate(x1)}" y1="{coordinate(y1)}" x2="{coordinate(x2)}" y2="{coordinate(y2)}"'
    return f'<line {ends} stroke="{stroke}"{more}/>'


def group(parts: list[str], title: str = "", *, kind: str = "", data: Mapping[str, str] = MappingProxyType({})) -> str:
    """Parts that belong together, with a hover text, and a class and data for a script."""
    head = f"<title>{escape(title, quote=False)}</title>" if title else ""
    more = f' class="{kind}"' if kind else ""
    more += "".join(f' data-{name}="{escape(value).replace(chr(10), "&#10;")}"' for name, value in data.items())
    return f"<g{more}>{head}{''.join(parts)}</g>"


def time_axis(left: float, scale: float, until: float, y: float) -> list[str]:
    """A line from time 0 to ``until`` with its ticks, ``scale`` pixels a unit; numbers reach 18 pixels below ``y``."""
    parts = [line(left, y, left + scale * until, y, RULE)]
    for at in ticks(0, until, min(16, max(1, round(2 * until)))):
        x = left + scale * at
        parts += [
            line(x, y, x, y + 4, RULE),
            label(x, y + 11, number(at), size=9.5, anchor="middle", fill=QUIET),
        ]
    return parts


def ticks(begin: float, end: float, most: int) -> list[float]:
    """At most ``most`` + 1 round values from ``begin`` to ``end``."""
    if end <= begin:
        return [begin]
    raw = (end - begin) / max(1, most)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * (1 - 1e-9))
    first = math.ceil(begin / step - 1e-9)
    return [round((first + at) * step, 9) for at in range(int(end / step + 1e-9) - first + 1)]
