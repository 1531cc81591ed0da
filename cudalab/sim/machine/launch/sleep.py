"""How long threads sleep, counted from the trace.

The duration of ``nanosleep`` is approximate: the PTX ISA allows anything from 0 to twice the requested time. On an H200
(driver 580, 2026-11-21) it is the next larger power of two: 32 ns become 64, 100 become 128, 1000 become 1024, 1024
become 2048, and a request of 0 pauses for 40 ns. A learner would notice in a loop with exponential backoff, which waits
twice as long as requested.
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
