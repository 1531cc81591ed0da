"""Lines of access policy windows in the set-aside of the L2: what is still there when a window is swept again.

Each row is one sweep over a window, each box a line of it, a kilobyte here. The lines that persist take the set-aside;
when it is full, the one that was used longest ago makes room. Lines of the other kind stream: by the next sweep they
are gone. Where several streams have windows, these are swept in turn and share the one set-aside.

What is simplified: which lines persist at a hit ratio below 1 is spread evenly, and the set-aside is strictly in the
order of last use. A GPU picks the lines by their addresses, and its sets make the change from *all hit* to *none*
gradual.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from cudalab.plots.drawing import WIDTH, Drawing, group, label, rect
from cudalab.plots.style import BLUE, FAINT, INK, QUIET, RULE, number, tint

MOST_LINES, MOST_SWEEPS, MOST_STREAMS = 32, 6, 3
_LEFT, _TOP, _HIGH, _GAP = 92.0, 12.0, 22.0, 7.0


@dataclass(frozen=True)
class Look:
    """One line, looked up in one sweep."""

    persists: bool
    hit: bool


def set_aside(
    size: int = 16, window: int | Sequence[int] = 32, hit_ratio: float | Sequence[float] = 1.0, *, sweeps: int = 3
) -> Drawing:
    """Draw which lines of a window hit, sweep by sweep.

    Args:
        size: of the set-aside in KB, 0 to 64.
        window: its size in KB, 1 to 32; one for each stream where there are several, at most three.
        hit_ratio: of the window, 0 to 1; one for each stream, or one for all.
        sweeps: over each window, 1 to 6.

    Raises:
        ValueError: a number outside of these bounds, or not one hit ratio for each window.
    """
    windows = [window] if isinstance(window, int) else list(window)
    ratios = [float(hit_ratio)] * len(windows) if isinstance(hit_ratio, (int, float)) else list(hit_ratio)
    if not (1 <= len(windows) <= MOST_STREAMS and all(1 <= each <= MOST_LINES for each in windows)):
        raise ValueError(f"set_aside: one to three windows of 1 to {MOST_LINES} KB (got {windows})")
    if len(ratios) != len(windows) or not all(0 <= each <= 1 for each in ratios):
        raise ValueError(f"set_aside: hit ratios are 0 to 1, one for each of {len(windows)} windows (got {ratios})")
    if not (0 <= size <= 2 * MOST_LINES and 1 <= sweeps <= MOST_SWEEPS):
        raise ValueError(f"set_aside: 0 to 64 KB and 1 to {MOST_SWEEPS} sweeps (got size={size}, sweeps={sweeps})")
    rows = looked_up(size, windows, ratios, sweeps)
    wide = (WIDTH - _LEFT - 8) / max(windows)
    parts = []
    for row, (stream, looks) in enumerate(rows):
        y = _TOP + row * (_HIGH + _GAP) + 6 * (row // len(windows))
        name = f"sweep {row // len(windows) + 1}"
        if len(windows) > 1:
            name = f"{'abc'[stream]}, {name}"
        parts.append(label(_LEFT - 10, y + _HIGH / 2, name, size=11, anchor="end"))
        parts += [_box(_LEFT + at * wide, y, wide, at, look) for at, look in enumerate(looks)]
    bottom = _TOP + len(rows) * (_HIGH + _GAP) + 6 * (sweeps - 1) + 10
    parts += _legend(bottom)
    return Drawing(
        "\n".join(parts), WIDTH, bottom + 20, _said(size, windows, ratios, rows),
        "One row for each sweep over a window, one box for each line of it; blue boxes persist, grey ones stream; each "
        "says whether it hits or misses.",
    )  # fmt: skip


def looked_up(size: int, windows: Sequence[int], ratios: Sequence[float], sweeps: int) -> list[tuple[int, list[Look]]]:
    """The number of the stream and what its lines meet, for each sweep in turn."""
    held: OrderedDict[tuple[int, int], None] = OrderedDict()
    rows = []
    for _ in range(sweeps):
        for stream, (lines, ratio) in enumerate(zip(windows, ratios, strict=True)):
            looks = []
            for line in range(lines):
                persists, key = int((line + 1) * ratio + 1e-9) > int(line * ratio + 1e-9), (stream, line)
                looks.append(Look(persists, key in held))
                if persists:
                    held[key] = None
                    held.move_to_end(key)
                    if len(held) > size:
                        held.popitem(last=False)
            rows.append((stream, looks))
    return rows


def _box(x: float, y: float, wide: float, at: int, look: Look) -> str:
    fill = tint(BLUE, 0.75 if look.hit else 0.2) if look.persists else FAINT
    miss = "miss" if wide >= 26 else "×"  # as wide as its box
    text = "hit" if look.hit else miss if look.persists else "–"
    parts = [rect(x + 0.5, y, wide - 1, _HIGH, fill, stroke=BLUE if look.persists else RULE, radius=2)]
    ink = "#FFFFFF" if look.hit else INK if look.persists else QUIET
    parts.append(
        label(x + wide / 2, y + _HIGH / 2, text, size=min(10.0, wide * 0.4), anchor="middle", fill=ink, bold=look.hit)
    )
    kind = "persists" if look.persists else "streams"
    return group(parts, f"line {at}, which {kind}: {'hit' if look.hit else 'miss'}")


def _legend(y: float) -> list[str]:
    parts, x = [], _LEFT
    for fill, stroke, text in (
        (tint(BLUE, 0.75), BLUE, "persists, and hits"),
        (tint(BLUE, 0.2), BLUE, "persists, and misses"),
        (FAINT, RULE, "streams: gone by the next sweep"),
    ):
        parts += [rect(x, y, 14, 12, fill, stroke=stroke, radius=2), label(x + 20, y + 6, text, size=11, fill=INK)]
        x += 44 + 6.4 * len(text)
    return parts


def _said(
    size: int, windows: Sequence[int], ratios: Sequence[float], rows: Sequence[tuple[int, Sequence[Look]]]
) -> str:
    again = [look for _, looks in rows[len(windows) :] for look in looks]
    what = " and ".join(
        f"{window} KB at hit ratio {number(ratio)}" for window, ratio in zip(windows, ratios, strict=True)
    )
    head = f"Set-aside {size} KB, window{'s' if len(windows) > 1 else ''} of {what}"
    if not again:
        return f"{head}: the first sweep only misses."
    return f"{head}: of {len(again)} lines looked up again, {sum(look.hit for look in again)} hit."
