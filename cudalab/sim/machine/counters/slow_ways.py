"""How often warps take the slow way of a division or a root: where at least one of their lanes does.

Lanes record that way alone, not the fast one. Which records are of one execution, the entries of basic blocks tell that
stand before them.
"""

from __future__ import annotations

import numpy as np

from cudalab.sim.abi import WARP, SiteKind
from cudalab.sim.machine.counters.branch_divergence import dense
from cudalab.sim.machine.trace.requests import Passes, stable_order


def number_slow_ways(
    site: np.ndarray, thread: np.ndarray, kinds: np.ndarray, warps: int, passed: Passes, visit: np.ndarray | None
) -> np.ndarray | None:
    """The visit that each record belongs to, where records of slow ways are among them. ``visit``: the same without
    regard to these (None: the passes of its thread)."""
    slow = np.flatnonzero(kinds[site] == SiteKind.SLOW_WAY)
    if not len(slow):
        return visit
    out = (passed.number if visit is None else visit).copy()
    order = stable_order(thread, warps * WARP)
    entered = np.where(kinds[site[order]] == SiteKind.BLOCK, np.arange(len(order)), -1)
    entered = np.maximum.accumulate(entered)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    last = order[np.maximum(entered[place[slow]], 0)]
    out[slow] = dense(out[last], site[slow], thread[slow] // WARP)
    return out
