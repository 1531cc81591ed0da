"""Counters of a launch from its blocks: all of them, or a few that stand for the rest.

Most kernels do much the same in every block, so the first, a middle and the last block stand for the grid: the first
and last for themselves (that is where guards act), the middle one for the rest. They run on the memory as it is; what
they store is taken back, nothing is printed, and a fault only ends the sample.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.abi import Status
from cudalab.sim.machine.configuration import extent
from cudalab.sim.machine.counters import count, join
from cudalab.sim.machine.counts import Counts, add, scale
from cudalab.sim.machine.trace import Tracer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudalab.sim.machine.module import LoadedKernel

RECORDS = 1 << 18
"""Records kept of one sampled block (4 MB); what comes after is counted and extrapolated."""
SECONDS = 1.0
"""A sampled block that runs longer is cut: it waits for another block, or is very long."""
MEMORY = 512
"""Samples remembered."""
BATCH = 1 << 19
"""Records counted at once."""
WHOLE = 4 << 20
"""A profile runs every block of a launch that makes at most this many records, and about as many of a larger one."""
PROFILE_RECORDS = 1 << 22
PROFILE_SECONDS = 10.0

_remembered: OrderedDict[tuple[object, ...], Counts] = OrderedDict()


def sample(
    kernel: LoadedKernel,
    grid: Sequence[int] | int,
    block: Sequence[int] | int,
    args: bytes,
    shared: int = 0,
    *,
    remember: bool = True,
) -> Counts:
    """Count what a launch would do, from at most three of its blocks.

    The configuration must be allowed (:func:`check_configuration`). Results are remembered by kernel, configuration and
    parameters, so a kernel whose work depends on the data is sampled once for the same pointers; with
    ``remember=False`` it is sampled again.

    Returns:
        Counts scaled to the grid. ``complete`` is False where a block was cut short or faulted. Never raises for
        what a kernel does.
    """
    grid_, block_ = extent(grid, "grid"), extent(block, "block")
    key = (kernel.module.program.key, kernel.name, id(kernel.module.memory), grid_, block_, shared, args)
    if remember and key in _remembered:
        _remembered.move_to_end(key)
        return _remembered[key]
    blocks = grid_[0] * grid_[1] * grid_[2]
    chosen = sorted({0, blocks // 2, blocks - 1})
    with Tracer(kernel, grid_, block_, args, shared, records=RECORDS) as tracer:
        counts = _count(kernel, tracer, chosen, _weights(chosen, blocks), SECONDS)
    counts.blocks = blocks
    if remember:
        _remembered[key] = counts
        if len(_remembered) > MEMORY:
            _remembered.popitem(last=False)
    return counts


def forget() -> None:
    """Drop all remembered samples."""
    _remembered.clear()


def count_launch(
    kernel: LoadedKernel,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    args: bytes,
    shared: int = 0,
    *,
    blocks: int | None = None,
) -> Counts:
    """Count a launch from `blocks` of its blocks, spread evenly; by default all of them, if that is not too many."""
    total = grid[0] * grid[1] * grid[2]
    with Tracer(kernel, grid, block, args, shared, records=PROFILE_RECORDS) as tracer:
        if blocks is None:
            first = tracer.run(0, time_limit=PROFILE_SECONDS)
            each = max(1, len(first.records) + first.lost)
            blocks = max(min(8, total), min(total, WHOLE // each))
            tracer.take_back()
        chosen = np.unique(np.linspace(0, total - 1, min(blocks, total)).round().astype(np.int64)).tolist()
        counts = _count(kernel, tracer, chosen, _weights(chosen, total), PROFILE_SECONDS)
    counts.blocks = total
    return counts


def _weights(chosen: list[int], blocks: int) -> list[float]:
    """How many blocks each one stands for: an edge block for itself, the inner ones for the others."""
    if len(chosen) == blocks:
        return [1.0] * blocks
    if len(chosen) < 3:
        return [blocks / len(chosen)] * len(chosen)
    inner = (blocks - 2) / (len(chosen) - 2)
    return [1.0, *[inner] * (len(chosen) - 2), 1.0]


def _count(
    kernel: LoadedKernel, tracer: Tracer, chosen: Sequence[int], weights: Sequence[float], seconds: float
) -> Counts:
    """Run the chosen blocks and count; block *i* stands for ``weights[i]`` blocks of the grid."""
    counts = Counts(threads=tracer.threads)
    kept: list[np.ndarray] = []
    kept_weights: list[float] = []
    pending = lost = seen = 0

    def flush() -> None:
        nonlocal pending
        if kept:
            add(counts, count(kernel.kernel, join(kept, kept_weights, tracer.threads)))
        counts.sampled += len(kept)
        kept.clear()
        kept_weights.clear()
        pending = 0

    for index, weight in zip(chosen, weights, strict=True):
        found = tracer.run(index, time_limit=seconds)
        kept.append(found.records.copy())
        kept_weights.append(weight)
        lost += found.lost
        seen += len(found.records)
        pending += len(found.records)
        counts.complete = counts.complete and found.complete
        counts.footprint_bytes = max(counts.footprint_bytes, tracer.footprint)
        if pending >= BATCH or len(kept) >= 256:
            flush()
        if found.status != Status.DONE and not found.timed_out:
            break
    flush()
    if lost and seen:
        scale(counts, (seen + lost) / seen)
    return counts
