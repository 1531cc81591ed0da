"""Blocks on the places of a GPU: which of two kernels gets a place that comes free.

A place is room for one block. Each row of the drawing is a place, each bar a block from its start to its end. All
blocks of a kernel take equally long, and a block that has started stays to its end; a device differs in that its blocks
drift apart.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from cudalab.plots.drawing import WIDTH, Drawing, group, label, line, rect, time_axis
from cudalab.plots.style import BLUE, INK, QUIET, VERMILLION, number, tint

MOST_PLACES, MOST_BLOCKS = 8, 64
_LEFT, _TOP, _HIGH, _GAP = 74.0, 26.0, 22.0, 6.0


@dataclass(frozen=True)
class Block:
    number: int
    urgent: bool
    place: int
    begin: float
    end: float


def pending(
    places: int = 4,
    blocks: int = 16,
    length: float = 3,
    *,
    urgent: int = 0,
    called: float = 4,
    takes: float = 1,
    priority: bool = False,
) -> Drawing:
    """Draw how the blocks of a batch, and those of an urgent kernel that is called meanwhile, get their places.

    Args:
        places: blocks that can run at once, 1 to 8.
        blocks: of the batch, 1 to 64.
        length: how long each of them runs, in any unit.
        urgent: blocks of the urgent kernel; 0: there is none.
        called: when the urgent kernel is called.
        takes: how long each of its blocks runs.
        priority: is the urgent kernel's priority higher than the batch's?

    Raises:
        ValueError: a number outside of these bounds, or a time that is not above 0.
    """
    if not (1 <= places <= MOST_PLACES and 1 <= blocks <= MOST_BLOCKS and 0 <= urgent <= MOST_BLOCKS):
        raise ValueError(
            f"pending: 1 to {MOST_PLACES} places, 1 to {MOST_BLOCKS} blocks, 0 to {MOST_BLOCKS} urgent ones "
            f"(got places={places}, blocks={blocks}, urgent={urgent})"
        )
    if min(length, takes) <= 0 or called < 0:
        raise ValueError(f"pending: times are above 0 (got length={length}, called={called}, takes={takes})")
    ran = schedule(places, blocks, length, urgent=urgent, called=called, takes=takes, priority=priority)
    end = max(block.end for block in ran)
    scale = (WIDTH - _LEFT - 24) / max(end, called)
    bottom = _TOP + places * (_HIGH + _GAP)
    parts = [
        label(_LEFT - 10, _TOP + place * (_HIGH + _GAP) + _HIGH / 2, f"place {place}", size=10, anchor="end")
        for place in range(places)
    ]
    for block in ran:
        x, y = _LEFT + block.begin * scale, _TOP + block.place * (_HIGH + _GAP)
        wide, colour = (block.end - block.begin) * scale, VERMILLION if block.urgent else BLUE
        text = f"{'urgent' if wide > 52 else 'u'} {block.number}" if block.urgent else str(block.number)
        title = f"block {block.number} of the {'urgent kernel' if block.urgent else 'batch'}"
        shown = [rect(x + 0.5, y, wide - 1, _HIGH, tint(colour, 0.3), stroke=colour, radius=2)]
        if wide > 14:
            shown.append(label(x + wide / 2, y + _HIGH / 2, text, size=9.5, anchor="middle", bold=block.urgent))
        parts.append(group(shown, f"{title}: from {number(block.begin)} to {number(block.end)}"))
    if urgent:
        x = _LEFT + called * scale
        parts.append(line(x, _TOP - 8, x, bottom - 2, INK, width=1.6, dash="5 3"))
        parts.append(
            label(x + 4, _TOP - 14, "the urgent kernel is called", size=9.5)
            if x < WIDTH / 2
            else label(x - 4, _TOP - 14, "the urgent kernel is called", size=9.5, anchor="end")
        )
    parts += time_axis(_LEFT, scale, max(end, called), bottom)
    parts.append(label(_LEFT, bottom + 27, "one bar: one block; time →", size=9.5, fill=QUIET))
    return Drawing(
        "\n".join(parts), WIDTH, bottom + 36, _said(ran, places, blocks, called),
        "One row for each place; bars are blocks, from their start to their end; dashed where the urgent kernel is "
        "called.",
    )  # fmt: skip


def schedule(
    places: int, blocks: int, length: float, *, urgent: int, called: float, takes: float, priority: bool
) -> list[Block]:
    """Every block with its place, in the order in which they start."""
    free = [(0.0, place) for place in range(places)]
    left = {False: blocks, True: urgent}
    ran: list[Block] = []
    while left[False] or left[True]:
        now, place = heapq.heappop(free)
        is_urgent = bool(left[True]) and ((priority and now >= called) or not left[False])
        begin = max(now, called) if is_urgent else now
        count = urgent if is_urgent else blocks
        block = Block(count - left[is_urgent], is_urgent, place, begin, begin + (takes if is_urgent else length))
        left[is_urgent] -= 1
        ran.append(block)
        heapq.heappush(free, (block.end, place))
    return ran


def _said(ran: list[Block], places: int, blocks: int, called: float) -> str:
    batch = max(block.end for block in ran if not block.urgent)
    head = f"{blocks} blocks of a batch on {places} place{'s' if places > 1 else ''}"
    hurried = [block for block in ran if block.urgent]
    if not hurried:
        return f"{head}: done after {number(batch)}."
    begin, end = min(block.begin for block in hurried), max(block.end for block in hurried)
    return (
        f"{head}: the urgent kernel, called at {number(called)}, starts at {number(begin)} and is done at "
        f"{number(end)}; the batch is done at {number(batch)}."
    )
