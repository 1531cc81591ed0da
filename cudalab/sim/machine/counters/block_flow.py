"""How warps went from basic block to basic block, and how often they ran round each loop.

The machine code has other blocks than the PTX: what the assembler unrolled, only the number of rounds that each lane
ran tells apart, and what it put on the way from one block to another, only that way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct, field

from cudalab.sim.abi import WARP, SiteKind
from cudalab.sim.arrays import unique_values
from cudalab.sim.compiler.program import Site
from cudalab.sim.machine.trace.requests import Visits, occurrences, stable_order

END = -1
"""In place of a block: the thread ended."""


class BlockFlow(Struct):
    """Ways of warps through the basic blocks of the PTX, each by its index in ``Kernel.sites``."""

    edges: dict[tuple[int, int], float] = field(default_factory=dict)
    """How often a warp left the first block for the second; lanes that part at a branch go both ways."""
    rounds: dict[int, dict[tuple[int, ...], float]] = field(default_factory=dict)
    """Of blocks of innermost loops: how often a warp came to the loop, and its lanes then ran the block so many times
    (the different numbers of its lanes, sorted)."""

    def add(self, other: BlockFlow, factor: float = 1.0) -> None:
        for edge, times in other.edges.items():
            self.edges[edge] = self.edges.get(edge, 0.0) + factor * times
        for block, groups in other.rounds.items():
            mine = self.rounds.setdefault(block, {})
            for numbers, times in groups.items():
                mine[numbers] = mine.get(numbers, 0.0) + factor * times

    def scale(self, factor: float) -> None:
        self.edges = {edge: times * factor for edge, times in self.edges.items()}
        self.rounds = {
            block: {numbers: times * factor for numbers, times in groups.items()}
            for block, groups in self.rounds.items()
        }


def block_flow(
    sites: Sequence[Site],
    loops: Sequence[Iterable[int]],
    found: Visits,
    thread: np.ndarray,
    weights: np.ndarray,
) -> BlockFlow:
    """The ways of the warps in these records; ``loops``: the blocks of each innermost loop; ``weights``: how many warps
    of the grid each warp stands for, 0 to leave it out."""
    is_block = np.array([site.kind == SiteKind.BLOCK for site in sites])
    chosen = np.flatnonzero(is_block[found.site] & (weights > 0.0)[thread // WARP])
    out = BlockFlow()
    if not len(chosen):
        return out
    chosen = chosen[stable_order(thread[chosen], len(weights) * WARP)]
    site, owner, request = found.site[chosen], thread[chosen], found.request[chosen]
    following = np.append(site[1:], END)
    following[np.append(owner[1:] != owner[:-1], True)] = END
    _count_edges(out, len(sites), request, following, found, weights)
    _count_rounds(out, len(sites), loops, site, owner, weights)
    return out


def _count_edges(
    out: BlockFlow, sites: int, request: np.ndarray, following: np.ndarray, found: Visits, weights: np.ndarray
) -> None:
    """Each way that a visit of a block goes on counts once, for however many lanes."""
    span = sites + 1
    ways = unique_values(request * span + (following - END))
    start, end = found.request_site[ways // span], ways % span + END
    times = np.bincount(start * span + (end - END), weights[found.request_warp[ways // span]], sites * span)
    for key in np.flatnonzero(times).tolist():
        out.edges[key // span, key % span + END] = float(times[key])


def _count_rounds(
    out: BlockFlow,
    sites: int,
    loops: Sequence[Iterable[int]],
    site: np.ndarray,
    owner: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Count the visits of each block while a lane stays in its loop; group lanes by warp, and by how often each lane
    came to the loop before."""
    loop_of = np.full(sites, -1)
    for number, blocks in enumerate(loops):
        loop_of[list(blocks)] = number
    loop = loop_of[site]
    inside = loop >= 0
    if not inside.any():
        return
    fresh = np.append(True, (loop[1:] != loop[:-1]) | (owner[1:] != owner[:-1]))
    stay = np.cumsum(fresh) - 1
    start = np.flatnonzero(fresh)
    before, _, _ = occurrences(
        owner[start] * (len(loops) + 1) + loop[start] + 1, len(weights) * WARP * (len(loops) + 1)
    )
    places, times = np.unique(stay[inside] * sites + site[inside], return_counts=True)
    of, block = places // sites, places % sites
    warp, visit = owner[start[of]] // WARP, before[of]
    order = np.lexsort((times, visit, warp, block))
    keys = np.stack([block[order], warp[order], visit[order], times[order]])
    keys = keys[:, np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))]
    bounds = np.flatnonzero(np.append(True, (keys[:3, 1:] != keys[:3, :-1]).any(axis=0))).tolist()
    numbers = keys[3].tolist()
    for begin, end in zip(bounds, [*bounds[1:], len(numbers)], strict=True):
        groups = out.rounds.setdefault(int(keys[0, begin]), {})
        of_lanes = tuple(numbers[begin:end])
        groups[of_lanes] = groups.get(of_lanes, 0.0) + float(weights[keys[1, begin]])
