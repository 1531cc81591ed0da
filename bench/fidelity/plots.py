"""Pictures of a comparison, as SVG that is readable on light and on dark pages: how far off figures are, and each
experiment's variants, measured and modelled, on one axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from bench.fidelity.comparison import FAR, NEAR, TYPICAL, Comparison
from bench.fidelity.experiment import EXPERIMENTS, HALVES, side

STYLE = """<style>
text { font: 11px "DejaVu Sans", Verdana, sans-serif; fill: #24292f }
.title { font-weight: bold } .small { font-size: 10px } .end { text-anchor: end } .middle { text-anchor: middle }
.paper { fill: #ffffff } .line { stroke: #b6bcc4; fill: none } .band { fill: #8b949e; opacity: 0.15 }
.measured, .calibration { fill: #0969da } .modelled { fill: none; stroke: #bc4c00; stroke-width: 1.6 }
.validation { fill: #bc4c00 } .curve { fill: none; stroke-width: 1.6 }
.curve.calibration { stroke: #0969da; fill: none }
.curve.validation { stroke: #bc4c00; fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .paper { fill: #0d1117 } .line { stroke: #484f58 }
.measured, .calibration { fill: #58a6ff } .modelled { stroke: #ffa657 } .validation { fill: #ffa657 }
.curve.calibration { stroke: #58a6ff } .curve.validation { stroke: #ffa657 }
}
</style>"""
WIDTH, COLUMNS = 900, 2
ROW, HEAD, FOOT, GAP = 15, 22, 26, 14
LABELS = 0.55
"""Part of a panel's width that the names of variants take."""


def picture(height: float, summary: str, content: Iterable[str]) -> str:
    """An SVG as wide as a page; ``summary`` says in a sentence what it shows."""
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(summary)}">',
        f"<title>{escape(summary, quote=False)}</title>",
        STYLE,
        f'<rect class="paper" width="{WIDTH}" height="{height:.0f}"/>',
    ]
    return "\n".join([*parts, *content, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(words, quote=False)}</text>'


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="line" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def dot(x: float, y: float, kind: str, hover: str, radius: float = 3.5) -> str:
    title = f"<title>{escape(hover, quote=False)}</title>"
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">{title}</circle>'


class Log:
    """A logarithmic axis over some values, with a tick at each power of ten or at more round values."""

    def __init__(self, values: Iterable[float], begin: float, end: float) -> None:
        known = list(values)
        self._low, self._high = math.log10(min(known)) - 0.05, math.log10(max(known)) + 0.05
        self._begin, self._scale = begin, (end - begin) / (self._high - self._low)

    def at(self, value: float) -> float:
        return self._begin + (math.log10(value) - self._low) * self._scale

    def ticks(self) -> list[float]:
        decades = self._high - self._low
        digits = (1,) if decades > 2.5 else (1, 2, 5) if decades > 0.8 else (1, 1.5, 2, 3, 4, 5, 6, 8)
        powers = range(math.floor(self._low), math.ceil(self._high) + 1)
        return [d * 10.0**p for p in powers for d in digits if self._low <= math.log10(d * 10.0**p) <= self._high]


def errors(found: Comparison) -> str:
    """Modelled over measured time of every figure, by its measured time."""
    height, left, right, top, bottom = 380.0, 60.0, WIDTH - 15.0, 36.0, 340.0
    points = [
        (found.measured[name][variant], 1 + error, name, variant)
        for name in found.names()
        for variant, error in found.errors(name).items()
    ]
    across = Log([time for time, *_ in points], left, right)
    up = Log([0.2, 5.0], bottom, top)
    content = [text(left, 20, "Modelled over measured time, by measured time in µs", "title")]
    for off in (NEAR, FAR):
        high, low = up.at(1 + off), up.at(1 - off)
        size = f'x="{left}" y="{high:.1f}" width="{right - left}" height="{low - high:.1f}"'
        content.append(f'<rect class="band" {size}/>')
        content.append(text(left - 6, high + 4, f"+{off:.0%}", "small end"))
        content.append(text(left - 6, low + 4, f"−{off:.0%}", "small end"))
    for ratio, label in ((0.2, "× 0.2"), (1.0, "× 1"), (5.0, "× 5")):
        content += [line(left, up.at(ratio), right, up.at(ratio)), text(left - 6, up.at(ratio) + 4, label, "small end")]
    for tick in across.ticks():
        content.append(text(across.at(tick), bottom + 18, f"{tick:g}", "small middle"))
    for time, ratio, name, variant in points:
        shown = min(5.0, max(0.2, ratio))
        hover = f"{name}, {variant}: {time:.2f} µs, modelled {time * ratio:.2f}"
        content.append(dot(across.at(time), up.at(shown), side(name), hover, 2.5))
    for position, half in enumerate(HALVES):
        x = right - 190 + 100 * position
        content += [dot(x, 16, half, half), text(x + 8, 20, half)]
    return picture(height, "How far each modelled time is from the measured one, by measured time", content)


def distribution(found: Comparison) -> str:
    """Which part of the figures is off by at most so much, for each half."""
    height, left, right, top, bottom = 300.0, 60.0, WIDTH - 15.0, 36.0, 260.0
    most = 0.6

    def x(error: float) -> float:
        return left + (right - left) * min(error, most) / most

    def y(part: float) -> float:
        return bottom - (bottom - top) * part

    content = [text(left, 20, "Part of the figures whose error is at most …", "title")]
    for part in (0.0, 0.5, 0.95, 1.0):
        content += [line(left, y(part), right, y(part)), text(left - 6, y(part) + 4, f"{part:.0%}", "small end")]
    for error in (0.0, TYPICAL, NEAR, FAR, most):
        content += [line(x(error), top, x(error), bottom), text(x(error), bottom + 16, f"{error:.0%}", "small middle")]
    for position, half in enumerate(HALVES):
        known = sorted(found.all_errors(half))
        if known:
            steps = " ".join(f"{x(error):.1f},{y((i + 1) / len(known)):.1f}" for i, error in enumerate(known))
            content.append(f'<polyline class="curve {half}" points="{steps}"/>')
        spot = right - 190 + 100 * position
        content += [dot(spot, 16, half, half), text(spot + 8, 20, half)]
    return picture(height, "Which part of the modelled times is off by at most so much, for each half", content)


def topic(found: Comparison, name: str) -> str:
    """Each experiment of a topic: its variants, measured and modelled."""
    chosen = [each for each in found.names() if EXPERIMENTS[each].topic == name]
    heights = [HEAD + ROW * len(found.measured[each]) + FOOT for each in chosen]
    columns: list[float] = [HEAD] * COLUMNS
    content = [
        dot(20, 13, "measured", "measured"),
        text(28, 17, "measured"),
        dot(110, 13, "modelled", "modelled"),
        text(118, 17, "modelled; µs, each panel with a logarithmic axis of its own"),
    ]
    for each, height in zip(chosen, heights, strict=True):
        place = columns.index(min(columns))
        content += panel(found, each, place * WIDTH / COLUMNS + 10, columns[place], WIDTH / COLUMNS - 24)
        columns[place] += height + GAP
    return picture(max(columns), f"Measured and modelled times of the topic {name}", content)


def panel(found: Comparison, name: str, left: float, top: float, width: float) -> Sequence[str]:
    """One experiment: a row for each variant."""
    measured, modelled = found.measured[name], found.modelled[name]
    begin, end = left + LABELS * width, left + width
    times = [*measured.values(), *(modelled[variant] for variant in measured if modelled[variant] > 0)]
    axis, bottom = Log(times, begin, end), top + HEAD + ROW * len(measured)
    content = [text(left, top + 14, shortened(name, width / 6.6), "title")]
    for tick in axis.ticks():
        content += [line(axis.at(tick), top + HEAD, axis.at(tick), bottom)]
        content += [text(axis.at(tick), bottom + 13, f"{tick:g}", "small middle")]
    for row, (variant, time) in enumerate(measured.items()):
        y = top + HEAD + ROW * (row + 0.5)
        hover = f"{variant}: {time:.2f} µs, modelled {modelled[variant]:.2f}"
        content.append(text(begin - 8, y + 4, shortened(variant, LABELS * width / 6.2), "small end"))
        content.append(dot(axis.at(time), y, "measured", hover))
        if modelled[variant] > 0:
            content.append(dot(axis.at(modelled[variant]), y, "modelled", hover, 4.5))
    return content


def shortened(words: str, most: float) -> str:
    return words if len(words) <= most else words[: int(most) - 1] + "…"
