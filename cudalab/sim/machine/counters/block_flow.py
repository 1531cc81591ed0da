"""How warps went from basic block to basic block, and how often they ran round each loop.

The machine code has other blocks than the PTX: what the assembler unrolled, only the number of rounds that each lane
ran tells apart, and what it put on the way from one block to another, only that way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct, field

from cudalab.sim.abi import WARP, SiteKind
from cudalab.sim.arrays import counted_values, unique_values
from cudalab.sim.compiler.program import Site
from cudalab.sim.machine.trace.requests import Visits, occurrences

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
            for numbers, times in groups.items():
                self.add_rounds(block, numbers, factor * times)

    def add_rounds(self, block: int, numbers: tuple[int, ...], times: float) -> None:
        groups = self.rounds.setdefault(block, {})
        groups[numbers] = groups.get(numbers, 0.0) + times

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
    alone: int,
) -> tuple[BlockFlow, BlockFlow]:
    """The ways of all warps in these records, and those of the warp ``alone``.

    Args:
        sites: of the kernel.
        loops: the blocks of each innermost loop.
        found: the visits.
        thread: of each record, in ascending order.
        weights: how many warps of the grid each warp stands for.
        alone: index of a warp, which stands for itself in the second result.
    """
    is_block = np.array([site.kind == SiteKind.BLOCK for site in sites])
    chosen = np.flatnonzero(is_block[found.site])
    every, one = BlockFlow(), BlockFlow()
    if len(chosen):
        site, owner, request = found.site[chosen], thread[chosen], found.request[chosen]
        following = np.append(site[1:], END)
        following[np.append(owner[1:] != owner[:-1], True)] = END
        _count_edges(every, one, len(sites), request, following, found, weights, alone)
        _count_rounds(every, one, len(sites), loops, site, owner, weights, alone)
    return every, one


def _count_edges(
    every: BlockFlow,
    one: BlockFlow,
    sites: int,
    request: np.ndarray,
    following: np.ndarray,
    found: Visits,
    weights: np.ndarray,
    alone: int,
) -> None:
    """Each way that a visit of a block goes on counts once, for however many lanes."""
    span = sites + 1
    ways = unique_values(request * span + (following - END))
    request, end = ways // span, ways % span
    edge, warp = found.request_site[request] * span + end, found.request_warp[request]
    for out, times in (
        (every, np.bincount(edge, weights[warp], sites * span)),
        (one, np.bincount(edge[warp == alone], minlength=sites * span)),
    ):
        for key in np.flatnonzero(times).tolist():
            out.edges[key // span, key % span + END] = float(times[key])


def _count_rounds(
    every: BlockFlow,
    one: BlockFlow,
    sites: int,
    loops: Sequence[Iterable[int]],
    site: np.ndarray,
    owner: np.ndarray,
    weights: np.ndarray,
    alone: int,
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
    places, times = counted_values(stay[inside] * sites + site[inside], len(start) * sites)
    of, block = places // sites, places % sites
    warp, visit = owner[start[of]] // WARP, before[of]
    order = np.lexsort((times, visit, warp, block))
    keys = np.stack([block[order], warp[order], visit[order], times[order]])
    keys = keys[:, np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))]
    bounds = np.flatnonzero(np.append(True, (keys[:3, 1:] != keys[:3, :-1]).any(axis=0))).tolist()
    numbers = keys[3].tolist()
    for begin, end in zip(bounds, [*bounds[1:], len(numbers)], strict=True):
        block_of, warp_of = int(keys[0, begin]), int(keys[1, begin])
        of_lanes = tuple(numbers[begin:end])
        every.add_rounds(block_of, of_lanes, float(weights[warp_of]))
        if warp_of == alone:
            one.add_rounds(block_of, of_lanes, 1.0)
