"""The lanes of one warp at a branch: a way at a time, with the lanes that take another way switched off.

Each way is drawn as long as the others; a warp whose lanes all take one way passes in one step.
"""

from __future__ import annotations

from cudalab.plots.drawing import WIDTH, Drawing, label, rect
from cudalab.plots.style import BLUE, GREEN, INK, PURPLE, QUIET, RULE, VERMILLION, tint
from cudalab.sim.abi import WARP

_LEFT, _TOP, _HIGH = 96.0, 34.0, 30.0
_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE)


def lanes(ways: int = 2, run: int = 1) -> Drawing:
    """Draw what each lane of a warp does at a branch with ``ways`` ways, where lane *i* takes way *i* / ``run`` mod
    ``ways``.

    Args:
        ways: that there are, 1 to 8.
        run: how many neighbouring lanes take the same way, 1 to 32.

    Raises:
        ValueError: a number outside of these bounds.
    """
    if not 1 <= ways <= 8 or not 1 <= run <= WARP:
        raise ValueError(f"lanes: 1 to 8 ways, in runs of 1 to {WARP} lanes (got ways={ways}, run={run})")
    taken = [lane // run % ways for lane in range(WARP)]
    steps = sorted(set(taken))
    wide = (WIDTH - _LEFT - 12) / WARP
    parts = [label(_LEFT - 10, _TOP - 12, "lane", size=10, anchor="end", fill=QUIET)]
    for lane in range(WARP):
        middle = _LEFT + (lane + 0.5) * wide
        parts.append(label(middle, _TOP - 12, str(lane), size=9, anchor="middle", fill=QUIET))
    for row, step in enumerate(steps):
        y = _TOP + row * (_HIGH + 8)
        colour = _COLOURS[step % len(_COLOURS)]
        parts.append(label(_LEFT - 10, y + _HIGH / 2, f"step {row + 1}: {_name(step)}", size=10, anchor="end"))
        for lane, way in enumerate(taken):
            x, works = _LEFT + lane * wide, way == step
            parts.append(
                rect(
                    x + 1,
                    y,
                    wide - 2,
                    _HIGH,
                    tint(colour, 0.35) if works else "#FFFFFF",
                    stroke=colour if works else RULE,
                )
            )
            parts.append(
                label(
                    x + wide / 2,
                    y + _HIGH / 2,
                    _name(way) if works else "·",
                    size=10,
                    anchor="middle",
                    fill=INK if works else QUIET,
                )
            )
    busy = WARP / len(steps)
    summary = (
        f"The 32 lanes take {len(steps)} {'way' if len(steps) == 1 else 'ways'}: {len(steps)} "
        f"{'step' if len(steps) == 1 else 'steps, one after the other'}, with {busy:.3g} of 32 lanes at work"
        f"{'' if len(steps) == 1 else ' on average'}."
    )
    alt = f"One column for each lane, one row for each of {len(steps)} steps; lanes that are switched off are empty."
    return Drawing("\n".join(parts), WIDTH, _TOP + len(steps) * (_HIGH + 8) + 2, summary, alt)


def _name(way: int) -> str:
    return chr(ord("a") + way)
