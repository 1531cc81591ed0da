"""Stores in a row that join in the L1.

Lanes that write their own few words one after the other (``y[3 * i]``, ``y[3 * i + 1]``, …) write to the same sectors
again with each instruction. The L1 keeps what a warp has stored for a moment and sends each sector on once, if the warp
has not stored to many other lines in between: an H200 joins all of it where each instruction stores to up to four
lines, most where it is five or six, nothing from eight on (microbenchmarks ``row write 2`` to ``row write 8``). A load
between two stores keeps them apart (``row copy 4``); the machine code tells where one stands.

What is simplified: the stores of other warps do not count. A learner would notice where all the warps of an SM store
to many lines at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import SECTOR, SiteKind, Space
from cudalab.sim.compiler.machine_code.assembly import Assembly
from cudalab.sim.compiler.program import Site
from cudalab.sim.machine.counters.metrics import LINE, Counts, SiteCounts
from cudalab.sim.machine.trace.requests import Visits, equal_before

if TYPE_CHECKING:
    from cudalab.sim.machine.counters.collection import Traced

LINES, SHARES = (3.0, 4.0, 5.0, 7.0), (1.0, 0.8, 0.75, 0.0)
"""Lines that a warp stores to between two stores to a sector, and which part of these joins."""
_LOADS, _STORES = frozenset(("LDG", "LD")), frozenset(("STG", "ST"))


def behind_loads(sites: Sequence[Site], code: Assembly) -> np.ndarray:
    """bool[sites]: stores that come behind a load, not another store. All that store where there is no machine code."""
    found = np.array([site.kind == SiteKind.STORE for site in sites])
    after_load: dict[int, bool] = {}
    loaded = False
    for each in code.instructions:
        if each.name in _LOADS:
            loaded = True
        elif each.name in _STORES:
            after_load[each.ptx_line] = loaded and after_load.get(each.ptx_line, True)
            loaded = False
    for index in np.flatnonzero(found).tolist():
        found[index] = after_load.get(sites[index].ptx_line, True)
    return found


def count_joined(
    counts: Counts,
    per_site: dict[int, SiteCounts],
    sites: Sequence[Site],
    traced: Traced,
    found: Visits,
    weight: np.ndarray,
    apart: np.ndarray,
) -> None:
    """Sectors of stores to global memory that an earlier store of the warp takes along. ``apart``:
    bool[sites], stores that never join."""
    spaces = (Space.GLOBAL, Space.GENERIC)
    stores = np.array([s.kind == SiteKind.STORE and s.space in spaces and not s.semantics.bulk for s in sites])
    whole = counts.global_stores.bytes >= counts.global_stores.sectors * SECTOR
    rows = np.flatnonzero(stores[traced.site]) if not whole else np.zeros(0, np.int64)
    if not len(rows):
        return
    requests, request = np.unique(found.request[rows], return_inverse=True)
    warp = found.request_warp[requests]
    turn = np.full(len(requests), len(rows), np.int64)  # when its lanes come to it, in stores of their own
    thread = traced.thread[rows]
    np.minimum.at(turn, request, equal_before(thread))
    order = np.lexsort((requests, turn, warp))
    its_line, _ = _different(request, traced.address[rows] // np.uint64(LINE))
    until = np.zeros(len(requests), np.int64)
    until[order] = np.cumsum(np.bincount(its_line, minlength=len(requests))[order])
    its_sector, sector = _different(request, traced.address[rows] // np.uint64(SECTOR))
    request = requests[its_sector]
    joined = _joined(its_sector, sector, warp, until) * ~apart[found.request_site[request]] * weight[request]
    total = np.bincount(found.request_site[request], joined, len(sites))
    counts.sectors_joined = float(total.sum())
    for index in np.flatnonzero(total).tolist():
        per_site[index].sectors_joined = float(total[index])


def _different(request: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each request with the places that it names, once each."""
    order = np.lexsort((place, request))
    request, place = request[order], place[order]
    fresh = np.append(True, (request[1:] != request[:-1]) | (place[1:] != place[:-1]))
    return request[fresh], place[fresh]


def _joined(request: np.ndarray, place: np.ndarray, warp: np.ndarray, until: np.ndarray) -> np.ndarray:
    """float64: which part of each store to a place joins the one before it. ``until``: lines that the warp has stored
    to up to and with each request."""
    order = np.lexsort((until[request], place, warp[request]))
    ordered, places = request[order], place[order]
    again = (places[1:] == places[:-1]) & (warp[ordered[1:]] == warp[ordered[:-1]])
    between = until[ordered[1:]] - until[ordered[:-1]] - 1
    found = np.zeros(len(request))
    found[order[1:]] = np.where(again, np.interp(between, LINES, SHARES), 0.0)
    return found
