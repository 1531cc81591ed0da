"""One operation on the SMs: its blocks, in waves, and the rate at which they go.

A *wave* is the blocks that started together. A place, room for one block, has a block of the launch from when it is
given to the launch until it is given back; what is left to do is counted for each place, in ns at rate 1, the rate that
the launch has alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from cudalab.sim.device.queue.event_loop import Event
from cudalab.sim.device.queue.operation import NO_TERMS, Operation
from cudalab.sim.device.queue.sm_residency import BlockNeeds


class Wave(Struct, eq=False):
    """Blocks of one launch that started together."""

    grid: Grid
    left: float
    """Work of each place: ns at rate 1, further blocks that are planned for the place included."""
    places: int = 0
    event: Event | None = None
    stops: bool = False
    """Do its blocks wait for a kernel before the rest of their work, which ``left`` does not count then?"""


class Grid(Struct, eq=False):
    """One operation on the SMs, from when it is ready to its end."""

    operation: Operation
    needs: BlockNeeds | None
    blocks: int
    pending: int
    key: tuple[int, int, int]
    waves: list[Wave] = []
    places: int = 0
    started: bool = False
    why: str = "SM resources"
    # known once it has begun
    resident: int = 1
    needed: float = 1.0
    turn: float = 1.0
    uses: Mapping[str, float] = NO_TERMS
    highest: int = 0
    # how fast it goes
    rate: float = 1.0
    updated: int = 0
    rate_limit: float = math.inf
    """Pace of its places when the last block started; they get no faster as they become fewer."""

    @staticmethod
    def of(operation: Operation, needs: BlockNeeds | None, blocks: int) -> Grid:
        """An operation that is ready, none of whose blocks has started."""
        return Grid(operation, needs, blocks, blocks, (operation.priority, operation.ready, operation.sequence))

    def __lt__(self, other: Grid) -> bool:
        return self.key < other.key

    def own_rate(self, reach: float) -> float:
        """Pace of each of its places, were it not for what others use; 1 when it has all that it can have. ``reach``
        is the most that its SMs allow, as a part of its rate alone."""
        if self.places >= self.resident:
            return 1.0
        part = min(1.0, self.places / self.needed, reach)
        return min(part * self.resident / self.places, self.rate_limit)
