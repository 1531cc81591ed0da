"""Branch divergence: lanes of a warp that take different paths.

The lanes of a warp execute together while they are at the same instruction. They may diverge at a branch, and
reconverge where their paths join. To find which of their visits were one execution, the lanes' paths through the basic
blocks are replayed: of the lanes' next blocks the one that comes first in the code runs next, for all lanes that are
there. Compiled code reconverges in this way, because a compiler places the join after both paths.

Volta and later GPUs may run diverged lanes in other orders and reconverge later; the counts are the hardware's where it
reconverges immediately, as it does for branches and loops that the compiler can analyse.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from cudalab.sim.abi import WARP, SiteKind
from cudalab.sim.compiler.program import Site
from cudalab.sim.machine.trace.requests import Passes, Visits, equal_before

_LONGEST_REPLAY = 200_000
"""Basic blocks replayed one by one for a batch of records; beyond it, visits are only counted."""


def aligned_visits(
    site: np.ndarray, thread: np.ndarray, kinds: np.ndarray, warps: int, passed: Passes
) -> np.ndarray | None:
    """For each record the number of the visit it belongs to, or None where counting visits gives the same. Records of
    one thread stand together, in program order.

    Counting is right while the lanes of a warp that are still running go the same way, and for code that no lane
    passes twice. Only the other warps are replayed.
    """
    is_block = kinds[site] == SiteKind.BLOCK
    if not is_block.any():
        return None
    visit = passed.number
    if not len(passed.times) or passed.times.max() == 1:
        return None
    crooked = _crooked_warps(site[is_block], thread[is_block], visit[is_block], warps)
    if not crooked.any():
        return None
    return _replay(site, thread, is_block, visit, crooked)


def _crooked_warps(site: np.ndarray, thread: np.ndarray, visit: np.ndarray, warps: int) -> np.ndarray:
    """Warps with two lanes of which neither's path is a prefix of the other's, and with a block visited twice."""
    step = equal_before(thread)
    warp = thread // WARP
    length = int(step.max()) + 1
    key = warp * length + step
    low = np.full(warps * length, np.iinfo(np.int64).max)
    high = np.full(warps * length, -1)
    np.minimum.at(low, key, site)
    np.maximum.at(high, key, site)
    differs = ((high >= 0) & (low != high)).reshape(warps, length).any(axis=1)
    again = np.zeros(warps, np.bool_)
    again[warp[visit > 0]] = True
    result: np.ndarray = differs & again
    return result


def _replay(
    site: np.ndarray, thread: np.ndarray, is_block: np.ndarray, visit: np.ndarray, crooked: np.ndarray
) -> np.ndarray:
    """Line up the visits of crooked warps by running their lanes in the order of the code."""
    out = visit.copy()
    mine = np.flatnonzero(crooked[thread // WARP])
    entries = mine[is_block[mine]]
    if len(entries) > _LONGEST_REPLAY:
        return out
    aligned = np.zeros(len(entries), np.int64)
    warp = thread[entries] // WARP
    bounds = np.flatnonzero(np.concatenate(([True], warp[1:] != warp[:-1], [True])))
    known: dict[frozenset[Way], dict[Way, np.ndarray]] = {}
    for first, end in zip(bounds[:-1], bounds[1:], strict=True):
        _replay_warp(site[entries[first:end]], thread[entries[first:end]], aligned[first:end], known)
    # An access belongs to the basic block its thread entered last: it is visited when the block is.
    owner = np.cumsum(is_block[mine]) - 1
    inside = (owner >= 0) & (thread[entries[np.maximum(owner, 0)]] == thread[mine])
    block_visit = aligned[np.maximum(owner, 0)]
    # A site executes at most once per visit of its block, so the block's visit numbers the site's visits.
    out[mine[inside]] = block_visit[inside]
    return dense(out, site, thread // WARP)


Way = bytes
"""The basic blocks that a lane enters, one after the other, as the bytes of their array."""


def _replay_warp(
    blocks: np.ndarray, thread: np.ndarray, aligned: np.ndarray, known: dict[frozenset[Way], dict[Way, np.ndarray]]
) -> None:
    """Fill `aligned` with the visit of each basic-block entry of one warp, its lanes' ways one after the other.
    ``known``: the visits of warps before, by the ways of their lanes; many lanes go the same way."""
    starts = np.flatnonzero(np.concatenate(([True], thread[1:] != thread[:-1]))).tolist()
    ways = [
        (start, end, blocks[start:end].tobytes()) for start, end in zip(starts, [*starts[1:], len(blocks)], strict=True)
    ]
    different = frozenset(way for _, _, way in ways)
    visits = known.get(different)
    if visits is None:
        visits = known[different] = _visits(different, blocks.dtype)
    for start, end, way in ways:
        aligned[start:end] = visits[way]


def _visits(ways: Collection[Way], dtype: np.dtype[np.integer]) -> dict[Way, np.ndarray]:
    """The visit of each step of each way, when lanes that go these ways run together."""
    steps = np.frombuffer(b"".join(ways), dtype).tolist()
    ends = np.cumsum([len(way) // dtype.itemsize for way in ways]).tolist()
    # Of each place, the lanes that wait there: each lane's position, and the end of its way.
    waiting: dict[int, list[tuple[int, int]]] = {}
    for position, end in zip([0, *ends[:-1]], ends, strict=True):
        waiting.setdefault(steps[position], []).append((position, end))
    places = list(waiting)
    heapify(places)
    seen: dict[int, int] = {}
    visit = [0] * len(steps)
    while places:
        place = heappop(places)
        number = seen.get(place, 0)
        seen[place] = number + 1
        for position, end in waiting.pop(place):
            visit[position] = number
            following = position + 1
            if following < end:
                to = steps[following]
                if to not in waiting:
                    waiting[to] = []
                    heappush(places, to)
                waiting[to].append((following, end))
    return dict(zip(ways, np.split(np.array(visit, np.int64), ends[:-1]), strict=True))


def dense(visit: np.ndarray, site: np.ndarray, warp: np.ndarray) -> np.ndarray:
    """Renumber visits so that a place's visits in a warp count 0, 1, 2 … without gaps."""
    key = (site * (int(warp.max()) + 1) + warp).astype(np.int64)
    order = np.lexsort((visit, key))
    k, v = key[order], visit[order]
    new_key = np.concatenate(([True], k[1:] != k[:-1]))
    step = np.concatenate(([False], v[1:] != v[:-1])) & ~new_key
    total = np.cumsum(step)
    start = np.maximum.accumulate(np.where(new_key, np.arange(len(k)), 0))
    out = np.empty_like(visit)
    out[order] = total - total[start]
    return out


def branches(
    sites: Sequence[Site], found: Visits, thread: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Branches executed by warps, and how many of them split the active lanes, by site of the basic block they end.
    Records of one ``thread`` stand together.

    A basic block that goes on to more than one other block, in any warp of the sample, ends in a branch. Going back to
    where all lanes go is none.
    """
    kinds = np.array([int(site.kind) for site in sites], np.int64)
    flow = np.flatnonzero((kinds[found.site] == SiteKind.BLOCK) | (kinds[found.site] == SiteKind.EXIT))
    none = np.zeros(len(sites))
    if not len(flow):
        return none, none
    site, owner = found.site[flow], thread[flow]
    following = np.append(site[1:], -1)
    following[np.append(owner[1:] != owner[:-1], True)] = -1
    is_block = kinds[site] == SiteKind.BLOCK
    site, following, request = site[is_block], following[is_block], found.request[flow][is_block]
    low = np.full(len(sites), np.iinfo(np.int64).max)
    high = np.full(len(sites), -2)
    np.minimum.at(low, site, following)
    np.maximum.at(high, site, following)
    is_branch = (high > low) & (high >= -1)
    taken = is_branch[site]
    if not taken.any():
        return none, none
    request, following = request[taken], following[taken]
    first = np.full(found.requests, np.iinfo(np.int64).max)
    last = np.full(found.requests, -2)
    np.minimum.at(first, request, following)
    np.maximum.at(last, request, following)
    executed = last >= -1
    weight = weights[found.request_warp]
    split = executed & (first != last)
    ended = found.request_site
    return (
        np.bincount(ended[executed], weight[executed], len(sites)),
        np.bincount(ended[split], weight[split], len(sites)),
    )
