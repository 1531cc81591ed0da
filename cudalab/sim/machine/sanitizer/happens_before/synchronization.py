"""What the threads of a block know of each other, and what was published where (``order.py``)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

View = dict[int, np.ndarray]
"""By block: the last stretch known of each of its threads, and of the copies that each has started."""
Who = tuple[int, int]
"""Block, and thread; threads + t stands for the copies of thread t."""
WHOLE_BLOCK = (0, 0, 0)
"""Where threads wait that have come to the barrier of the block."""


@dataclass
class Gathering:
    """Threads that have come to a barrier or warp operation."""

    arrived: list[int] = field(default_factory=list)


class BlockOrder:
    """The threads of one block."""

    def __init__(self, index: int, threads: int) -> None:
        self.index, self.threads = index, threads
        start: View = {index: np.zeros(2 * threads, np.int64)}
        self.views: list[View] = [start] * (2 * threads)
        self.now = np.ones(2 * threads, np.int64)
        self.gatherings: dict[tuple[int, int, int], Gathering] = {}
        self.waits_at: list[tuple[int, int, int] | None] = [None] * threads
        self.arrivals = np.zeros(threads, np.int64)
        """By thread: how often it has come to the barrier of the whole block."""
        self.fences: dict[int, dict[int, View]] = {}
        """By thread and scope: its view at its last fence of that scope."""
        self.pending: dict[int, dict[object, list[News]]] = {}
        """By thread: what it has read and may rely on after its next fence."""
        self.copies: dict[int, list[tuple[int, int]]] = {}
        """By thread: group and stretch of the copies that it has started."""
        self.copied_from: dict[int, int] = {}
        """By thread: the source of its last copy."""

    def snapshot(self, index: int) -> View:
        """What a thread knows now, itself included; its next stretch begins."""
        view = dict(self.views[index])
        own = view[self.index].copy()
        own[index] = self.now[index]
        view[self.index] = own
        self.now[index] += 1
        return view

    def learn(self, index: int, view: View) -> None:
        self.views[index] = join(self.views[index], view)


@dataclass(frozen=True)
class News:
    """What was published at a place."""

    view: View
    scope: int
    block: int


def join(first: View, second: View) -> View:
    """The view of who knows both."""
    if first is second:
        return first
    out = dict(first)
    for block, known in second.items():
        mine = out.get(block)
        if mine is None:
            out[block] = known
        elif mine is not known:
            out[block] = np.maximum(mine, known)
    return out
