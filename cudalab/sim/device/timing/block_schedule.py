"""How blocks that differ share the SMs: one after the other, each to the SM that has room first.

Blocks start in the order of the grid. An SM runs as many as fit, side by side: a block that is alone takes as long as
its longest warp, and those that are resident together slow each other down as soon as they ask for more of the SM's
pipes than there is. A warp stays with one of the SM's schedulers, which its number in the block decides (PTX ISA,
"Warpgroup": four warps in a row, one for each scheduler): warps with much work may crowd on one of them while the
others are idle. So may a heavy block that starts late keep one SM busy when the others are idle: the *tail* of the
launch.

What is simplified: residents are all slowed down by what is asked for most, also those that need little of it.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush
from operator import add, sub

import numpy as np

_MOST = 1 << 13
"""Blocks that are followed one by one; of a larger grid some neighbours count as one block, run one after the other."""


def tail(path: np.ndarray, demand: np.ndarray, sms: int, each: int, *, average: float) -> float:
    """How much longer a grid takes than one of as many equal blocks of equal warps with the same work in all, ns.

    Args:
        path: float64[blocks], ns that each block takes when nothing slows it down.
        demand: float64[blocks, resources], ns for which it needs each of its SM's schedulers and, last, what they
            share.
        sms: SMs of the device.
        each: blocks that fit an SM.
        average: ns that such an equal block takes when nothing slows it down.
    """
    group = -(-len(path) // _MOST)
    if group > 1:
        starts = np.arange(0, len(path), group)
        average *= len(path) / len(starts)
        path, demand = np.add.reduceat(path, starts), np.add.reduceat(demand, starts)
    asked = max(float(demand[:, :-1].mean()), float(demand[:, -1].mean()))
    even = equal_blocks(average, asked, len(path), sms, each)
    return max(0.0, makespan(np.maximum(path, demand.max(axis=1)), demand, sms, each) - even)


def equal_blocks(path: float, demand: float, blocks: int, sms: int, each: int) -> float:
    """ns for a grid of equal blocks."""
    full, rest = divmod(math.ceil(blocks / sms), each)
    if path <= 0.0:
        return 0.0
    return full * max(path, each * demand) + (max(path, rest * demand) if rest else 0.0)


def makespan(path: np.ndarray, demand: np.ndarray, sms: int, each: int) -> float:
    """ns until the last block has ended."""
    paths, rates = path.tolist(), (demand / np.maximum(path, 1e-9)[:, None]).tolist()
    blocks = len(paths)
    first = min(blocks, sms * each)
    # of each SM: its blocks with the progress at which each ends, and its load
    resident: list[list[tuple[float, int]]] = [[] for _ in range(sms)]
    for block in range(first):
        resident[block % sms].append((paths[block], block))
    load = [[sum(column) for column in zip(*(rates[block] for _, block in those), strict=True)] for those in resident]
    ends: list[tuple[float, int]] = []
    for sm, those in enumerate(resident):
        heapify(those)
        if those:
            ends.append((those[0][0] * max(1.0, *load[sm]), sm))
    heapify(ends)
    following, now = first, 0.0
    while ends:
        now, sm = heappop(ends)
        those = resident[sm]
        reached, ended = heappop(those)
        left = list(map(sub, load[sm], rates[ended]))
        if following < blocks:
            heappush(those, (reached + paths[following], following))
            left = list(map(add, left, rates[following]))
            following += 1
        load[sm] = left
        if those:
            heappush(ends, (now + (those[0][0] - reached) * max(1.0, *left), sm))
    return now
