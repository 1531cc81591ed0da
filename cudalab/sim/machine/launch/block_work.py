"""What each block of a launch did, as native code counted it (``compiler/codegen/work.py``).

The unit is one PTX instruction of a loop, executed by a warp. Work outside of loops is the same in all blocks, but for
what the last ones of a grid leave out, and is not counted.

Where only some blocks ran, because a whole launch would take too long, the others are taken to be like their neighbours
among those.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cudalab.sim.arrays import median
from cudalab.sim.compiler.program import Rounds

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.module import Launch

EVEN = 0.1
"""Blocks that do at most this much more than the median, relatively, count as equal."""
FIRST = 8
"""Blocks that are run first when a launch may be too long to run as a whole."""
ENOUGH = {Rounds.LAUNCH: 1 << 21, Rounds.INDEX: 1 << 24, Rounds.DATA: 1 << 24}
"""Work of the blocks that run to find out what all do, by what decides that: half a second of code for one thread at a
time. Not a time, so that the result is always the same."""
_WIDE = 4
"""Times as much where code for several threads at once may run."""
_TRACED = 32
"""Times as little where code notes each store, to take it back."""


class BlockWork:
    """The work of each block of one launch. ``slots`` is uint64[blocks, warps]; ``ran`` are the numbers of the blocks
    that have run, in order; by default all."""

    def __init__(self, slots: np.ndarray, ran: np.ndarray | None = None) -> None:
        self.slots, self.ran = slots, ran

    @classmethod
    def of(cls, launch: Launch) -> BlockWork:
        """Of a launch that is about to run."""
        config = launch.config
        return cls(np.zeros((config.blocks, config.warps_per_block), np.uint64))

    @property
    def whole(self) -> bool:
        """Have all blocks run?"""
        return self.ran is None

    def of_block(self, index: int) -> np.ndarray:
        """uint64[warps]: of one block; where it has not run, that of the next one that has."""
        if self.ran is not None:
            index = int(self.ran[min(int(np.searchsorted(self.ran, index)), len(self.ran) - 1)])
        found: np.ndarray = self.slots[index]
        return found

    @cached_property
    def total(self) -> np.ndarray:
        """float64[blocks]: the work of all warps of a block."""
        return self._of_all(self.slots.sum(axis=1))

    @cached_property
    def longest(self) -> np.ndarray:
        """float64[blocks]: the work of the warp that did most."""
        return self._of_all(self.slots.max(axis=1))

    def shares(self, parts: int) -> np.ndarray:
        """float64[blocks, parts]: which shares of the work of a block are done by its warps 0, ``parts`` …, by 1,
        ``parts`` + 1 … and so on."""
        found = np.stack([self._of_all(self.slots[:, part::parts].sum(axis=1)) for part in range(parts)], axis=1)
        total = found.sum(axis=1, keepdims=True)
        shared: np.ndarray = np.divide(found, total, out=np.full_like(found, 1.0 / parts), where=total > 0.0)
        return shared

    def _of_all(self, counted: np.ndarray) -> np.ndarray:
        if self.ran is None:
            return counted.astype(np.float64)
        found: np.ndarray = np.interp(np.arange(len(counted)), self.ran, counted[self.ran].astype(np.float64))
        return found

    @property
    def even(self) -> bool:
        """Do all blocks do much the same? Then one stands for all."""
        return _even(self.total) and _even(self.longest)

    def same_as(self, other: BlockWork | None) -> bool:
        """Did each warp do the same?"""
        return other is not None and (other is self or np.array_equal(self.slots, other.slots))


def _even(work: np.ndarray) -> bool:
    usual = median(work)
    return float(work.max()) <= (1.0 + EVEN) * usual and float(work.mean()) >= (1.0 - EVEN) * usual


def counts_work(launch: Launch) -> bool:
    """Does native code count the work of this launch, and can its blocks differ? Blocks of a cluster, blocks that poll
    memory and blocks that race run in an order of their own, and what a block takes from the device heap it keeps."""
    kernel, config = launch.kernel.kernel, launch.config
    if kernel.rounds is Rounds.NONE or config.blocks == 1:
        return False
    if kernel.poll_points or kernel.interleaves or kernel.uses_heap or kernel.launches_graphs:
        return False
    return config.cluster_blocks == 1 and not config.cooperative


def spread(blocks: int) -> np.ndarray:
    """The numbers of all blocks of a grid in an order in which each prefix is spread evenly over the grid, the first
    and the last block ahead."""
    order = np.argsort(np.arange(1, blocks + 1) * 0.6180339887498949 % 1.0, kind="stable")
    ends = np.array([0, blocks - 1])
    return np.concatenate([ends, order[(order != 0) & (order != blocks - 1)]])


def rehearse(launch: Launch, run: Callable[[np.ndarray, np.ndarray], bool], *, traced: bool = False) -> BlockWork:
    """The work of a launch from as many of its blocks as do ``ENOUGH``.

    ``run(blocks, slots)`` runs blocks and tells whether they came to their ends; what they store is its own concern.
    ``traced``: it runs them in traced code.
    """
    work = BlockWork.of(launch)
    order = spread(launch.config.blocks)
    enough = ENOUGH[launch.kernel.kernel.rounds]
    if traced:
        enough //= _TRACED
    elif launch.kernel.kernel.wide:
        enough *= _WIDE
    done, size = 0, FIRST
    while done < len(order) and size:
        if not run(order[done : done + size], work.slots):
            break
        done = min(len(order), done + size)
        spent = max(1, int(work.slots.sum()))
        size = min(4 * size, (enough - spent) * done // spent) if spent < enough else 0
    if done < len(order):
        work.ran = np.sort(order[: max(done, 1)])
    return work
