"""What the first part of a block's trace says about the whole block.

A tracer keeps a limited number of records, and stops a block that makes far more. Code without barriers runs one thread
after the other, so what is kept ends in the middle of a warp; code with barriers, in the middle of a round of all
warps. What the launch has counted of its loops (``launch/block_work.py``) tells how much is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import WARP, SiteKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudalab.sim.compiler.program import Site
    from cudalab.sim.machine.trace.recorder import BlockTrace

_MOST = 0.5
"""Of a trace cut short that has more than this part up to a barrier that all threads reached, only that is counted."""


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


def whole_warps(found: BlockTrace, threads: int, work: np.ndarray | None) -> tuple[np.ndarray, float, float]:
    """Records of a block of which not all were kept; how many blocks like them make the whole block; and how much
    longer a warp runs than they show. ``work``: what each of its warps did, where that is known.

    Code without barriers runs one thread after the other, so the records end in the middle of a warp: what the lanes of
    a warp do together can only be told of warps that are there as a whole. Of a warp that is longer than what is kept,
    the first lanes stand for all.
    """
    records = found.records
    if not found.lost or not len(records):
        return records, 1.0, 1.0
    thread = records["thread"]
    total, last, reached = len(records) + found.lost, int(thread[-1]), int(thread.max())
    whole, warps = total / len(records), -(-threads // WARP)
    if found.cut_between_runs:  # all threads are there up to the same point
        return records, whole, whole
    if reached == threads - 1:
        # all threads are there up to some barrier, and the first ones up to the next
        ends = np.flatnonzero(thread[1:] < thread[:-1]) + 1
        together, rounds = _in_whole_rounds(ends, records["site"][ends]) if len(ends) else (len(records), 0.0)
        if together > _MOST * len(records):
            more = 1.0 + (total - together) / rounds if rounds else total / together
            return records[:together], more, more
    elif reached > last and reached < WARP:  # the lanes of the first warp are there up to the same shuffle
        return records, whole, max(1.0, whole / warps)
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
        return taken, parts, stretched
    longer = max(1.0, whole / threads)
    return records, warps * longer, longer


def _in_whole_rounds(ends: np.ndarray, begins: np.ndarray) -> tuple[int, float]:
    """Of a trace in parts that barriers end: how many records make whole rounds of a loop, and how many of those belong
    to the rounds, not to what stands before them; 0 where the trace does not tell. ``begins``: the sites at which the
    parts behind each end begin; they come again when a round does."""
    again = np.flatnonzero(begins[1:] == begins[0]) + 1
    if not len(again):
        return int(ends[-1]), 0.0
    period = int(again[0])
    parts = len(ends) // period * period
    together = int(ends[parts - 1])
    each = together - int(ends[parts - 1 - period]) if parts > period else 0
    return together, float(each * (parts // period))
