"""How long threads sleep, from the trace.

``nanosleep`` asks for a time and gets another one: the PTX ISA promises from nothing to twice of it. On an H200 (driver
580, 2026-11-21) it is the next power of two above: 32 ns are 64, 100 are 128, 1000 are 1024, 1024 are 2048, and a time
of 0 is a pause of 40 ns. A learner would notice in a loop that backs off by doubling, which waits twice as long as it
asks for.
"""

from __future__ import annotations

import numpy as np

from cudalab.sim.abi import SyncEvent

_KIND = 15


def asleep(records: np.ndarray) -> tuple[float, float]:
    """How often the threads of a block slept, and for how many nanoseconds in all."""
    asked = records["address"][records["flags"] & _KIND == SyncEvent.SLEEP].astype(np.float64)
    some = asked[asked > 0]
    return float(len(asked)), float(np.exp2(np.floor(np.log2(some)) + 1.0).sum())
