"""Which blocks of a launch stand for all, where some do much more than others.

Equal steps over the grid would take light and heavy blocks alike, and nothing would bound what tracing them costs.
Instead the steps are equal in *work*, which is known of every block (``launch/block_work.py``): in the order of the
grid, a block is taken as often as its share of all work, and weighs the less the more it does. Whatever is
counted, the expected sum is that of the launch ("systematic sampling with probability proportional to size"). The
weights are then calibrated, so that the number of blocks and the work of the launch come out exactly.
"""

from __future__ import annotations

import numpy as np


def cost(sizes: np.ndarray) -> float:
    """What a block that is chosen like this costs on average, in the unit of ``sizes``."""
    return float((sizes**2).sum() / sizes.sum())


def choose(sizes: np.ndarray, count: int) -> tuple[list[int], list[float]]:
    """About ``count`` blocks, in order, and how many blocks of the grid each stands for.

    ``sizes``: float64[blocks], above 0: about what is counted in each block.
    """
    ends = np.cumsum(sizes)
    step = ends[-1] / count
    chosen, times = np.unique(np.searchsorted(ends, (np.arange(count) + 0.5) * step), return_counts=True)
    weights = times * step / sizes[chosen]
    return chosen.tolist(), _calibrated(weights, sizes[chosen], len(sizes), float(ends[-1])).tolist()


def _calibrated(weights: np.ndarray, sizes: np.ndarray, blocks: int, total: float) -> np.ndarray:
    """Weights changed by as little as makes them sum up to all blocks and all work (the regression estimator)."""
    known = np.stack([np.ones_like(sizes), sizes / sizes.mean()])
    wanted = np.array([blocks, total / sizes.mean()])
    moments = (known * weights) @ known.T
    found: np.ndarray
    if np.linalg.matrix_rank(moments) < len(known):  # all alike
        found = weights * (blocks / weights.sum())
        return found
    found = weights * (1.0 + np.linalg.solve(moments, wanted - known @ weights) @ known)
    return found if (found > 0.0).all() else weights
