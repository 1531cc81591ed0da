"""What the first part of a block's trace says about the whole block.

A tracer keeps a limited number of records, and stops a block that makes far more. Code without barriers runs one thread
after the other, so what is kept ends in the middle of a warp; code with barriers, in the middle of a round of all
warps. What the launch has counted of its loops (``launch/block_work.py``) tells how much is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cudalab.sim.abi import SECTOR, WARP, SiteKind, Space
from cudalab.sim.arrays import unique_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudalab.sim.compiler.program import Site
    from cudalab.sim.machine.trace.recorder import BlockTrace

_MOST = 0.5
"""Of a trace cut short that has more than this part up to a barrier that all threads reached, only that is counted."""


_ALIKE = 1.5
"""Rounds of a loop differ by less than this factor in what they record."""
_NEAR = 0.02
"""Parts that make whole rounds from the beginning on differ from these by less than this part of a round."""


def complete(found: BlockTrace, sites: Sequence[Site], work: np.ndarray | None) -> None:
    """Give a trace that was stopped the number of records that the whole block would have made. ``work``: what each of
    its warps does, where that is known."""
    stopped = found.stopped
    if stopped is None or work is None:
        return
    done = stopped.work.astype(np.float64)
    warp = stopped.thread // WARP
    if not done[warp + 1 :].any():  # one thread after the other: a warp's work is there when its first lane has ended
        done[warp] *= stopped.thread % WARP / WARP
    there = float(done.sum())
    if not there:  # in the first thread
        there = _instructions(found.records, sites) * found.total / max(1, len(found.records)) / WARP
    if there:
        found.factor = max(1.0, float(work.sum()) / there)


def _instructions(records: np.ndarray, sites: Sequence[Site]) -> float:
    """PTX instructions of the basic blocks in these records."""
    length = np.array([site.instructions if site.kind == SiteKind.BLOCK else 0 for site in sites])
    return float(length[records["site"]].sum())


class Kept(NamedTuple):
    """What is there of a block's trace."""

    records: np.ndarray
    parts: float = 1.0
    """How many blocks like them make the whole block,"""
    longer: float = 1.0
    """how much longer a warp runs than they show,"""
    anew: float = 1.0
    """and how many times as many different sectors the whole block touches."""


def whole_warps(found: BlockTrace, threads: int, sites: Sequence[Site], work: np.ndarray | None) -> Kept:
    """Records of a block of which not all were kept. ``work``: what each of its warps did, where that is known.

    Code without barriers runs one thread after the other, so the records end in the middle of a warp: what the lanes of
    a warp do together can only be told of warps that are there as a whole. Of a warp that is longer than what is kept,
    the first lanes stand for all.
    """
    records = found.records
    if not found.lost or not len(records):
        return Kept(records)
    thread = records["thread"]
    total, last, reached = len(records) + found.lost, int(thread[-1]), int(thread.max())
    whole, warps = total / len(records), -(-threads // WARP)
    if found.cut_between_runs:  # all threads are there up to the same point
        return Kept(records, whole, whole, whole)
    if reached == threads - 1:
        # all threads are there up to some barrier, and the first ones up to the next
        ends = np.flatnonzero(thread[1:] < thread[:-1]) + 1
        rounds = _in_whole_rounds(ends, records["site"][ends]) if len(ends) else _Rounds(len(records))
        if rounds.together > _MOST * len(records):
            return _continued(*_ended(records, rounds), total, sites)
    elif reached > last and reached < WARP:  # the lanes of the first warp are there up to the same shuffle
        return Kept(records, whole, max(1.0, whole / warps), whole)
    complete = (last if reached == threads - 1 else reached) // WARP
    parts, stretched = warps / max(1, complete), 1.0
    if work is not None and (kept := work[: max(1, complete)]).any():
        parts, stretched = float(work.sum() / kept.sum()), float(work.max() / kept.max())
    if last or complete:
        there = complete * WARP or last
        taken = records[thread < there]
        if reached == threads - 1 and work is None:  # there up to a barrier, and rounds that follow are not
            stretched = max(1.0, total / (len(taken) * threads / there))
            parts *= stretched
        return Kept(taken, parts, stretched, parts)
    longer = max(1.0, whole / threads)
    return Kept(records, warps * longer, longer, warps * longer)


class _Rounds(NamedTuple):
    """A trace in parts that barriers end."""

    together: int
    """Records that make whole rounds of a loop, with what stands before them."""
    before: int = 0
    """Records before the first round,"""
    last: int = 0
    """and before the last one; both 0 where the trace does not tell."""


def _in_whole_rounds(ends: np.ndarray, begins: np.ndarray) -> _Rounds:
    """``begins``: the sites at which the parts behind each end begin. A site that a loop within the loop has, too,
    comes again at uneven distances; of the others, the first one of the loop that holds most counts. Where its first
    part begins in the middle of a round, the rounds are counted from the beginning."""
    found = []
    for site in unique_values(begins):
        rounds = ends[begins == site]
        lengths = np.diff(rounds)
        if len(lengths) and lengths.max() <= _ALIKE * lengths.min():
            found.append(rounds)
    if not found:
        return _Rounds(int(ends[-1]))
    most = max(rounds[-1] - rounds[0] for rounds in found)
    first = min((rounds for rounds in found if rounds[-1] - rounds[0] >= _MOST * most), key=lambda rounds: rounds[0])
    length = (first[-1] - first[0]) / (len(first) - 1)
    number = np.maximum(1.0, np.round(ends / length))
    whole = ends[(np.abs(ends / length - number) <= _NEAR) & (ends > first[-1] - length)]
    if not len(whole):
        return _Rounds(int(first[-1]), int(first[0]), int(first[-2]))
    last = whole[-1] - length
    return _Rounds(int(whole[-1]), 0, int(last) if last > _NEAR * length else 0)


def _ended(records: np.ndarray, rounds: _Rounds) -> tuple[np.ndarray, _Rounds]:
    """The records of whole rounds. Where the part before the first one begins a round of its own, as in a loop with a
    barrier in its middle, the last round tells how that goes on."""
    kept = records[: rounds.together]
    if not rounds.before or not rounds.last:
        return kept, rounds
    last, first = kept[rounds.last :], kept["site"][: rounds.before]
    begun = np.isin(first, last["site"])
    if not begun.any():
        return kept, rounds
    ended = np.concatenate([kept, last[~np.isin(last["site"], first)]])
    return ended, _Rounds(len(ended), int((~begun).sum()), rounds.last)


def _continued(records: np.ndarray, rounds: _Rounds, total: int, sites: Sequence[Site]) -> Kept:
    """All threads are there up to the same point; what is missing goes on as the last round did, in what it touches,
    too: rounds over the same data touch nothing new."""
    missing = total - rounds.together
    if not rounds.last:
        return Kept(records, *[total / rounds.together] * 3)
    more = 1.0 + missing / (rounds.together - rounds.before)
    is_global = np.array([site.space in (Space.GLOBAL, Space.GENERIC) for site in sites])[records["site"]]
    sectors = records["address"] // np.uint64(SECTOR)
    before = unique_values(sectors[: rounds.last][is_global[: rounds.last]])
    all_ = unique_values(sectors[is_global])
    if not len(all_):
        return Kept(records, more, more, more)
    new = (len(all_) - len(before)) / len(all_)
    return Kept(records, more, more, 1.0 + new * missing / (rounds.together - rounds.last))
