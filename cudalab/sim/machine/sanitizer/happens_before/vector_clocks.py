"""Vector clocks of the threads of a launch, and what has been released where.

Every agent (a thread, or the asynchronous copies that a thread has started) counts *epochs*; one ends with each release
of the agent. A vector clock holds the latest epoch of every agent that its owner is ordered after. An access happens
before another when the other's thread has the epoch of the first in its clock, as in FastTrack (Flanagan and Freund,
"FastTrack: Efficient and Precise Dynamic Race Detection", PLDI 2009) and ThreadSanitizer. A clock is kept as one array
a block, and threads that have passed the same barrier share it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

VectorClock = dict[int, np.ndarray]
"""By block: the latest epoch known of each of its agents. Blocks that are missing are unknown."""
Agent = tuple[int, int]
"""Block, and index in it: a thread, or ``threads + t`` for the asynchronous copies of thread t."""
BarrierKey = tuple[int, int, int]
"""What threads of a block wait at: (0, number, 0) for a barrier, (1, warp, mask) for a warp operation."""
WHOLE_BLOCK: BarrierKey = (0, 0, 0)


@dataclass(frozen=True)
class Release:
    """A release to a location: the releasing thread's clock, for those within the scope who acquire it."""

    clock: VectorClock
    scope: int
    block: int


class BlockClocks:
    """The clocks of one block's agents, and the state of its barriers, fences and copies."""

    def __init__(self, index: int, threads: int) -> None:
        self.index, self.threads = index, threads
        start: VectorClock = {index: np.zeros(2 * threads, np.int64)}
        self.clocks: list[VectorClock] = [start] * (2 * threads)
        self.epochs = np.ones(2 * threads, np.int64)
        """By agent: the epoch that it is in."""
        self.arrived: dict[BarrierKey, list[int]] = {}
        """Threads that have arrived at a barrier or warp operation and are not known to have passed it."""
        self.waiting_at: list[BarrierKey | None] = [None] * threads
        self.arrivals = np.zeros(threads, np.int64)
        """By thread: how often it has arrived at the barrier of the whole block."""
        self.fences: dict[int, dict[int, VectorClock]] = {}
        """By thread and scope: its clock at its last fence of that scope."""
        self.observed: dict[int, dict[object, list[Release]]] = {}
        """By thread and location: releases that it has read and acquires with its next fence."""
        self.copies: dict[int, list[tuple[int, int]]] = {}
        """By thread: group and epoch of the asynchronous copies that it has started."""
        self.copied_from: dict[int, int] = {}
        """By thread: the source of its last asynchronous copy."""

    def release(self, agent: int) -> VectorClock:
        """The agent's clock, its own epoch included; its next epoch begins."""
        clock = dict(self.clocks[agent])
        own = clock[self.index].copy()
        own[agent] = self.epochs[agent]
        clock[self.index] = own
        self.epochs[agent] += 1
        return clock

    def acquire(self, agent: int, clock: VectorClock) -> None:
        """Order the agent after everything that the clock holds."""
        self.clocks[agent] = join(self.clocks[agent], clock)


def join(first: VectorClock, second: VectorClock) -> VectorClock:
    """The least clock that is at least both."""
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
