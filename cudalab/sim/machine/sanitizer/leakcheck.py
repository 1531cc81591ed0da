"""Device heap memory that a launch allocated, did not free, and of which nobody knows the address any more.

What ``malloc`` gives in a kernel lives on after the launch; a later kernel may use and free it (CUDA C++ Programming
Guide, "Allocation Persisting Between Kernel Launches"). So, as in LeakSanitizer, an allocation has leaked only if its
address, or one inside it, stands nowhere in device memory: neither in an allocation of the host, nor in a variable, nor
in heap memory that is reachable in turn.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from cudalab.sim.arrays import unique_values
from cudalab.sim.machine.memory.allocation import Allocation
from cudalab.sim.machine.memory.allocations import Memory

_MOST_BYTES = 1 << 30
"""Device memory that is looked through for addresses; with more of it no leak is reported."""


@dataclass(frozen=True)
class Leak:
    """What one instruction has allocated that nobody can free."""

    site: int
    allocations: int
    bytes: int


def find_leaks(memory: Memory) -> list[Leak]:
    """The leaks of what was allocated since the heap's journal began."""
    new = sorted(memory.heap.allocated(), key=lambda allocation: allocation.pointer)
    if not new:
        return []
    known = {allocation.pointer for allocation in new}
    others = [allocation for allocation in memory if allocation.pointer not in known]
    if sum(allocation.size for allocation in others) > _MOST_BYTES:
        return []
    starts = np.array([allocation.pointer for allocation in new], np.uint64)
    ends = np.array([allocation.end for allocation in new], np.uint64)
    reached = np.zeros(len(new), np.bool_)
    pending = others
    while pending:
        found: set[int] = set()
        for allocation in pending:
            found |= _addressed(allocation, starts, ends)
        fresh = [index for index in found if not reached[index]]
        reached[fresh] = True
        pending = [new[index] for index in fresh]
    sites: dict[int, list[Allocation]] = {}
    for index in np.flatnonzero(~reached):
        sites.setdefault(new[index].site, []).append(new[index])
    return [Leak(site, len(lost), sum(each.size for each in lost)) for site, lost in sites.items()]


def _addressed(allocation: Allocation, starts: np.ndarray, ends: np.ndarray) -> set[int]:
    """Which allocations the aligned words of this one point into."""
    size = allocation.size // 8 * 8
    if not size:
        return set()
    words = np.ctypeslib.as_array((ctypes.c_uint64 * (size // 8)).from_address(allocation.pointer))
    words = words[(words >= starts[0]) & (words <= ends[-1])]
    index = np.searchsorted(starts, words, side="right") - 1
    inside = (index >= 0) & (words <= ends[index])
    return set(unique_values(index[inside]).tolist())
