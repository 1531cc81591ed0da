"""What a kernel tells the host while it still runs.

Volatile, relaxed and release stores, and stores followed by ``__threadfence_system()``, can be seen by others at once
(CUDA C++ Programming Guide, "Memory Fence Functions"; PTX ISA, "Memory Consistency Model"). A kernel may so report its
progress in page-locked or managed memory, and a host that asks now and then sees it grow.

Here a kernel runs in one go. Of one that makes such stores, its stores to memory that the host can read are made again
one by one while its modelled time goes by, evenly in the order in which they were made. A learner would notice that in
the spacing alone: a block's stores come before those of the blocks behind it, though they run side by side.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cudalab.sim.device.queue.byte_ranges import Range

if TYPE_CHECKING:
    from cudalab.sim.machine.launch.undo_log import Store
    from cudalab.sim.machine.memory.allocations import Memory

MOST_STEPS = 256
"""Stores are made in at most so many steps."""

Publication = tuple[float, tuple[Range, ...], Callable[[], None]]
"""When, as a part of the kernel's time; which bytes change; what changes them."""


def publications(memory: Memory, stores: Sequence[Store]) -> list[Publication]:
    """Stores in the order in which they were made, in steps."""
    each = -(-len(stores) // MOST_STEPS) or 1
    steps = [stores[first : first + each] for first in range(0, len(stores), each)]
    return [
        (step[-1].when, tuple((store.address, len(store.data)) for store in step), partial(_make, memory, step))
        for step in steps
    ]


def _make(memory: Memory, stores: Sequence[Store]) -> None:
    for store in stores:
        allocation = memory.find(store.address)
        if allocation is not None or memory.find_range(store.address)[1]:  # not freed meanwhile
            ctypes.memmove(store.address, store.data, len(store.data))
