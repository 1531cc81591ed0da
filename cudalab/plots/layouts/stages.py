"""Tiles that are copied and used in turn: with one place for a tile, and with several.

A tile is copied into a place, then used from there. One copy and one use take the times given; copies run one after
the other, so do uses, and a copy waits until its place is free again. Bandwidth, latency and other blocks are left out:
a device differs in numbers, not in the order.
"""

from __future__ import annotations

from cudalab.plots.drawing import WIDTH, Drawing, label, line, rect
from cudalab.plots.style import BLUE, GREEN, INK, QUIET, RULE, number, tint

MOST_STAGES, MOST_TILES = 6, 16
_LEFT, _TOP, _HIGH = 92.0, 12.0, 26.0


def stages(stages: int = 2, tiles: int = 6, copy: float = 3, use: float = 2) -> Drawing:
    """Draw when each tile is copied and used.

    Args:
        stages: places for a tile in shared memory, 1 to 6.
        tiles: to take, 1 to 16.
        copy: time of one copy, in any unit.
        use: time that one tile is used, in the same unit.

    Raises:
        ValueError: a number outside of these bounds, or a time that is not above 0.
    """
    if not 1 <= stages <= MOST_STAGES or not 1 <= tiles <= MOST_TILES or min(copy, use) <= 0:
        raise ValueError(
            f"stages: 1 to {MOST_STAGES} stages, 1 to {MOST_TILES} tiles, times above 0 "
            f"(got stages={stages}, tiles={tiles}, copy={copy}, use={use})"
        )
    spans = schedule(stages, tiles, copy, use)
    end = spans[-1][1] + use
    one_by_one = tiles * (copy + use)
    scale = (WIDTH - _LEFT - 16) / one_by_one
    bottom = _TOP + stages * (_HIGH + 8)
    parts = []
    for place in range(stages):
        y = _TOP + place * (_HIGH + 8)
        parts.append(label(_LEFT - 10, y + _HIGH / 2, f"place {place}", size=10, anchor="end"))
        parts.append(line(_LEFT, y + _HIGH + 3.5, WIDTH - 16, y + _HIGH + 3.5, RULE))
    for tile, (copied, used) in enumerate(spans):
        y = _TOP + tile % stages * (_HIGH + 8)
        for begin, length, colour, what in ((copied, copy, BLUE, "copy"), (used, use, GREEN, "use")):
            x, wide = _LEFT + begin * scale, length * scale
            parts.append(rect(x + 0.5, y, wide - 1, _HIGH, tint(colour, 0.3), stroke=colour, radius=2))
            text = f"{what} {tile}" if wide > 44 else str(tile)
            parts.append(label(x + wide / 2, y + _HIGH / 2, text, size=9, anchor="middle"))
    x = _LEFT + end * scale
    parts.append(line(x, _TOP - 6, x, bottom + 2, INK, width=1.4, dash="4 3"))
    parts.append(label(x, bottom + 11, f"done at {number(end)}", size=9.5, anchor="end" if x > WIDTH / 2 else "start"))
    parts.append(label(_LEFT, bottom + 11, "blue: copy, green: use; time →", size=9.5, fill=QUIET))
    waited = "" if stages == 1 else f"; with one place it would be {number(one_by_one)}"
    places = f"{stages} place{'s' if stages > 1 else ''}"
    summary = (
        f"{tiles} tiles through {places}, {number(copy)} to copy and {number(use)} to use each: done after "
        f"{number(end)}{waited}."
    )
    alt = f"One row for each of {stages} places; in it each tile's copy, then its use, along a time axis."
    return Drawing("\n".join(parts), WIDTH, bottom + 24, summary, alt)


def schedule(stages: int, tiles: int, copy: float, use: float) -> list[tuple[float, float]]:
    """When each tile's copy begins, and when its use does."""
    spans: list[tuple[float, float]] = []
    for tile in range(tiles):
        copied = spans[-1][0] + copy if spans else 0.0
        if tile >= stages:
            copied = max(copied, spans[tile - stages][1] + use)
        used = max(copied + copy, spans[-1][1] + use if spans else 0.0)
        spans.append((copied, used))
    return spans
