"""One operation on the SMs: its blocks, in waves, and the rate at which they go.

A *wave* is the blocks that started together. A place, room for one block, has a block of the launch from when it is
given to the launch until it is given back; what is left to do is counted for each place, in ns at rate 1, the rate that
the launch has alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from cudalab.sim.device.queue.event_loop import Event
from cudalab.sim.device.queue.operation import NO_TERMS, Operation
from cudalab.sim.device.queue.sm_residency import BlockNeeds


class Wave:
    """Blocks of one launch that started together."""

    __slots__ = ("event", "grid", "left", "places", "stops")

    def __init__(self, grid: Grid, left: float) -> None:
        self.grid = grid
        self.places = 0
        self.left = left
        """Work of each place: ns at rate 1, further blocks that are planned for the place included."""
        self.event: Event | None = None
        self.stops = False
        """Do its blocks wait for a kernel before the rest of their work, which ``left`` does not count then?"""


class Grid:
    """One operation on the SMs, from when it is ready to its end."""

    __slots__ = (
        "blocks",
        "rate_limit",
        "highest",
        "key",
        "needed",
        "needs",
        "operation",
        "rate",
        "pending",
        "places",
        "resident",
        "started",
        "turn",
        "updated",
        "uses",
        "waves",
        "why",
    )

    def __init__(self, operation: Operation, needs: BlockNeeds | None, blocks: int) -> None:
        self.operation = operation
        self.key = (operation.priority, operation.ready, operation.sequence)
        self.needs = needs
        self.blocks = blocks
        self.pending = blocks
        self.waves: list[Wave] = []
        self.places = 0
        self.started = False
        self.why = "SM resources"
        # known once it has begun
        self.resident = 1
        self.needed = 1.0
        self.turn = 1.0
        self.uses: Mapping[str, float] = NO_TERMS
        self.highest = 0
        # how fast it goes
        self.rate = 1.0
        self.updated = 0
        self.rate_limit = math.inf
        """Pace of its places when the last block started; they get no faster as they become fewer."""

    def __lt__(self, other: Grid) -> bool:
        return self.key < other.key

    def own_rate(self, reach: float) -> float:
        """Pace of each of its places, were it not for what others use; 1 when it has all that it can have. ``reach``
        is the most that its SMs allow, as a part of its rate alone."""
        if self.places >= self.resident:
            return 1.0
        part = min(1.0, self.places / self.needed, reach)
        return min(part * self.resident / self.places, self.rate_limit)
