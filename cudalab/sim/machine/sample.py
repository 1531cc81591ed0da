"""Counters of a launch from a few of its blocks.

Most kernels do much the same in every block, so the first, a middle and the last block stand for the grid: the first
and last for themselves (that is where guards act), the middle one for the rest. They run before the launch, on the
memory as it is then; what they store is taken back, nothing is printed, and a fault only ends the sample. """

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from cudalab.sim.abi import Status
from cudalab.sim.machine.configuration import extent
from cudalab.sim.machine.counters import Counts, count, join, scale
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
    counts = count_blocks(kernel, grid_, block_, args, shared, chosen, _weights(chosen, blocks))
    counts.blocks = blocks
    if remember:
        _remembered[key] = counts
        if len(_remembered) > MEMORY:
            _remembered.popitem(last=False)
    return counts


def forget() -> None:
    """Drop all remembered samples."""
    _remembered.clear()


def _weights(chosen: list[int], blocks: int) -> list[float]:
    """How many blocks each one stands for: an edge block for itself, the inner one for the others."""
    if len(chosen) < 3:
        return [blocks / len(chosen)] * len(chosen)
    return [1.0, float(blocks - 2), 1.0]


def count_blocks(
    kernel: LoadedKernel,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    args: bytes,
    shared: int,
    chosen: Sequence[int],
    weights: Sequence[float],
    *,
    records: int = RECORDS,
    seconds: float = SECONDS,
) -> Counts:
    """Run the chosen blocks in traced code and count; block *i* stands for ``weights[i]`` blocks of the grid."""
    threads = block[0] * block[1] * block[2]
    kept, kept_weights, lost, seen, complete = [], [], 0, 0, True
    footprint = 0
    with Tracer(kernel, grid, block, args, shared, records=records) as tracer:
        for index, weight in zip(chosen, weights, strict=True):
            found = tracer.run(index, time_limit=seconds)
            kept.append(found.records.copy())
            kept_weights.append(weight)
            lost += found.lost
            seen += len(found.records)
            complete = complete and found.complete
            footprint = max(footprint, tracer.footprint)
            if found.status != Status.DONE and not found.timed_out:
                break
    counts = count(kernel.kernel, join(kept, kept_weights, threads))
    if lost and seen:
        scale(counts, (seen + lost) / seen)
    counts.sampled, counts.threads, counts.complete = len(kept), threads, complete
    counts.footprint_bytes = footprint
    return counts
