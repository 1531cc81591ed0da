"""Whether a launch that only gets timed would leave its memory: its first, middle and last block run, one at a time.

A launch is timed from a block or two, and one that touches memory it may not ends early, so it would look fast. On
hardware it ends with an error. Indices mostly grow with the number of the block, so what leaves an array does so in the
last block or in the first; a fault in some other block alone is found by a launch, and not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.sim.abi import Status
from cudalab.sim.machine.trace.recorder import Tracer

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.module import Launch

_MOST = 1 << 18
"""Records after which a block is stopped: some milliseconds. What faults later is not found."""


def ends_fault(launch: Launch) -> bool:
    """Does one of these blocks fault? What they store is taken back. False where blocks may wait for each other, which
    one alone cannot."""
    kernel, config = launch.kernel.kernel, launch.config
    if config.cooperative or kernel.poll_points or kernel.uses_heap or kernel.launches_graphs:
        return False
    with Tracer(launch, records=1) as tracer:
        if tracer.in_clusters:
            return False
        for block in sorted({0, (config.blocks - 1) // 2, config.blocks - 1}):
            if tracer.run(block, most=_MOST).status == Status.FAULT:
                return True
            tracer.rollback()
    return False
