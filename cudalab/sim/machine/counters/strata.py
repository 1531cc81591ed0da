"""Counters of a launch whose blocks differ, from traced blocks that represent light and heavy ones.

The work of every block is known (``launch/block_work.py``); what it costs is not. So some blocks are traced, from the
lightest to the heaviest, and each other block counts as a mixture of the two whose work is next to its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from cudalab.sim.arrays import unique_values
from cudalab.sim.machine.counters.metrics import Counts, add, scale
from cudalab.sim.machine.counters.sampling import LONGEST, Counter, has_global_atomics
from cudalab.sim.machine.trace.recorder import Tracer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudalab.sim.machine.launch.block_work import BlockWork
    from cudalab.sim.machine.launch.module import Launch

_RECORDS = 1 << 18
"""Records kept of a traced block; the work of its warps says how much is missing."""
_PARTS = (0.5,)
"""Beside the lightest and the heaviest block, those at which so much of all work is done by lighter ones."""
_APART = 0.05
"""Blocks that differ by less, relatively, are represented by one."""


class Strata(Struct):
    """Traced blocks of a launch, by their work."""

    whole: Counts
    """Counters of the launch."""
    each: list[Counts]
    """Of the traced blocks alone, each as a launch of one block."""
    total: np.ndarray
    """float64: the work of each traced block, ascending."""
    longest: np.ndarray
    """float64: that of its longest warp."""


def sample_strata(launch: Launch, work: BlockWork, *, watch: bool = False) -> Strata:
    """Trace blocks of a launch whose work is known, and count."""
    chosen = representatives(work)
    weights = shares(work.total, work.total[chosen]).sum(axis=0)
    each = []
    with Tracer(launch, records=_RECORDS) as tracer:
        together = Counter(tracer) if has_global_atomics(launch.kernel) else None
        for index, weight in zip(chosen, weights.tolist(), strict=True):
            found = tracer.run(index, most=LONGEST)
            alone = Counter(tracer, watch)
            alone.take(found, 1.0, work=work.slots[index])
            counts = alone.finish()
            counts.blocks = 1
            each.append(counts)
            if together is not None:
                together.take(found, weight, work=work.slots[index])
    whole = _sum(each, weights.tolist())
    if together is not None:  # which addresses they share
        met = together.finish()
        whole.hottest_address, whole.hottest_unit = met.hottest_address, met.hottest_unit
    whole.blocks = launch.config.blocks
    return Strata(whole, each, work.total[chosen], work.longest[chosen])


def _sum(each: Sequence[Counts], weights: Sequence[float]) -> Counts:
    """Counters of a grid in which each block occurs so often."""
    whole = Counts(threads=each[0].threads)
    for counts, weight in zip(each, weights, strict=True):
        scale(counts, weight)
        add(whole, counts)
        scale(counts, 1.0 / weight)  # each traced block stands for itself at least
    words = [counts.words_loaded for counts in each if counts.words_loaded is not None]
    whole.words_loaded = unique_values(np.concatenate(words)) if words else None
    return whole


def representatives(work: BlockWork) -> list[int]:
    """Blocks of different work, the lightest first; only such as have run."""
    total = work.total
    candidates = np.arange(len(total)) if work.ran is None else work.ran
    order = candidates[np.argsort(total[candidates], kind="stable")]
    ordered = total[order]
    done = np.cumsum(ordered) / max(1.0, float(ordered.sum()))
    places = [0, *np.searchsorted(done, _PARTS).tolist(), len(order) - 1]
    chosen: list[int] = []
    for place in sorted({min(place, len(order) - 1) for place in places}):
        if not chosen or ordered[place] > total[chosen[-1]] * (1.0 + _APART):
            chosen.append(int(order[place]))
    heaviest = int(order[-1])
    if total[chosen[-1]] < total[heaviest]:
        chosen[-1 if len(chosen) > 1 else len(chosen) :] = [heaviest]
    return chosen


def shares(work: np.ndarray, sampled: np.ndarray) -> np.ndarray:
    """float64[blocks, samples]: each block as a mixture of the two samples next to it; ``sampled`` ascends."""
    if len(sampled) == 1:
        return np.ones((len(work), 1))
    upper = np.clip(np.searchsorted(sampled, work), 1, len(sampled) - 1)
    low, high = sampled[upper - 1], sampled[upper]
    part = np.clip((work - low) / (high - low), 0.0, 1.0)
    found = np.zeros((len(work), len(sampled)))
    rows = np.arange(len(work))
    found[rows, upper - 1] = 1.0 - part
    found[rows, upper] = part
    return found


def by_longest(strata: Strata) -> Sequence[int]:
    """Positions of the traced blocks whose longest warps differ, ascending."""
    found: list[int] = []
    for position in np.argsort(strata.longest, kind="stable").tolist():
        if not found or strata.longest[position] > strata.longest[found[-1]]:
            found.append(position)
    return found
