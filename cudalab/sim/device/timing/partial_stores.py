"""What stores take that write a part of a sector, in the L2 of the whole device.

A sector that is written in part costs the L2 a turn; further sectors of a line that come with the first cost less
(microbenchmark ``row write 8 of 16 MB``). Lines that get their sectors one by one crowd the L2 (``write columns``,
``row write loop 64``); where several come at a time they do not (``row write 8 of 64 MB``).
"""

from __future__ import annotations

from typing import Protocol

from cudalab.sim.device.profile import Profile
from cudalab.sim.machine.counters.metrics import LINE

_MOST_OPEN = 0.35
"""Part of the L2 that incomplete lines take at most,"""
_MOST_OPEN_HELD = 0.13
"""and where all lines that the launch touches stay there (``row write loop 64 of 16 MB``)."""


class Stores(Protocol):
    """Stores of a launch."""

    @property
    def blocks(self) -> int: ...
    @property
    def partial_sectors(self) -> float: ...
    @property
    def partial_lines(self) -> float: ...
    @property
    def open_lines(self) -> float: ...


def partial_stores(profile: Profile, work: Stores, capacity: float, held: float) -> float:
    """ns for partial stores to sectors. ``capacity``: blocks that are resident at once; ``held``: the part of what the
    launch touches that the L2 keeps."""
    if not work.partial_sectors:
        return 0.0
    c, further = profile.device, max(0.0, work.partial_sectors - work.partial_lines)
    units = work.partial_sectors - further * (1.0 - c["partial_further"])
    open_lines = work.open_lines * min(1.0, capacity / work.blocks) * LINE / float(profile.properties["l2CacheSize"])
    crowded = min(open_lines, held * _MOST_OPEN_HELD + (1.0 - held) * _MOST_OPEN)
    alone = max(0.0, 2.0 * work.partial_lines / work.partial_sectors - 1.0)
    return units * c["partial_store"] * 1e-3 * (1.0 + c["partial_crowding"] * crowded * alone)
