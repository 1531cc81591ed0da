"""Memory that nodes of graphs allocate and free.

An allocation node has an address from the moment it is made, which stays the same in every launch; the memory behind it
comes when the node runs, and goes when a free node, ``cudaFree`` or ``cudaFreeAsync`` frees it (CUDA Programming Guide,
"Graph Memory Nodes"). Whether the program may use it is decided in the order of its calls, when a launch is asked for;
whether it is there, in modelled time, when the nodes run.

What is simplified: the memory is there from the first launch on, before its allocation node runs, as on a GPU, which
maps it with the launch; a node that uses it without an edge behind the allocation is a hazard then, not a fault.
Memory that was freed is a fault to whoever uses it, where a GPU often lets that pass. Each node has addresses of its
own, where a GPU lets allocations share them that the edges of the graph keep apart in time.
"""

from __future__ import annotations

from cuda.bindings.runtime import cudaError_t
from msgspec import Struct

from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.queue.byte_ranges import Touched, run
from cudalab.sim.device.queue.operation import Operation, Work
from cudalab.sim.machine.memory.allocation import GRAPH_MEMORY, OutOfMemory
from cudalab.sim.machine.memory.allocations import Memory

PAGE = 32 << 20
"""Bytes that the graphs of a device take from it at once (an H200)."""


class GraphAllocation:
    """What one allocation node allocates."""

    def __init__(self, memory: Memory, pointer: int, size: int, device: int) -> None:
        self.pointer, self.size, self.device = pointer, size, device
        self._memory = memory
        self.lent = False
        """Allocated and not freed, in the order of the calls."""
        self.users = 0
        """Its node, copies of that in executable graphs, and the program while it holds the memory."""

    @property
    def backed(self) -> bool:
        """Is the memory there?"""
        return self._memory.find(self.pointer) is not None

    def back(self) -> None:
        """The memory is there from now on. Raises ``cudaErrorMemoryAllocation``."""
        try:
            if not self.backed:
                self._memory.back(self.pointer)
        except OutOfMemory as error:
            raise CudaError(cudaError_t.cudaErrorMemoryAllocation, f"cudaGraphLaunch: {error}") from None

    def arrive(self) -> None:
        """Its node runs: what the memory held counts no more."""
        self.back()
        self._memory.forget_written(self.pointer)

    def leave(self, where: str) -> None:
        """It is freed."""
        if self.backed:
            self._memory.free(self.pointer, where=where)


class Allocate(Work[Operation], Struct, frozen=True, eq=False):
    """An allocation node runs."""

    kind = "allocate"
    works_on_memory = False
    name = "memory allocation"

    allocation: GraphAllocation

    def run(self, operation: Operation) -> None:
        self.allocation.arrive()

    def touched(self) -> Touched:
        """Whoever uses the memory must come behind: an allocation is like a write to all of it."""
        return Touched((), (run(self.allocation.pointer, self.allocation.size),))


class Release(Work[Operation], Struct, frozen=True, eq=False):
    """A free node runs, or a launch frees what the one before it left."""

    kind = "free"
    works_on_memory = False
    frees_memory = True
    name = "memory free"

    allocation: GraphAllocation

    def run(self, operation: Operation) -> None:
        self.allocation.leave("a free node of a graph")

    def touched(self) -> Touched:
        return Touched((), (run(self.allocation.pointer, self.allocation.size),))


class Usage(Struct):
    """Bytes that the graphs of one device have taken from it, in whole pages: as much as any launch needed beside what
    the program held then. They stay the graphs' until a trim gives back what is not held (an H200)."""

    reserved: int = 0
    used_high: int = 0
    reserved_high: int = 0

    @property
    def used(self) -> int:
        return self.reserved

    def take(self, size: int, held: int) -> None:
        """A launch allocates ``size`` bytes, beside ``held`` that the program has not freed."""
        self.reserved = max(self.reserved, _pages(held) + _pages(size))
        self.used_high, self.reserved_high = max(self.used, self.used_high), max(self.reserved, self.reserved_high)

    def trim(self, held: int) -> None:
        """Give back what the program does not hold."""
        self.reserved = min(self.reserved, _pages(held))


def _pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


class GraphMemory:
    """All memory of the graphs of a machine."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.clear()

    def clear(self) -> None:
        self._allocations: dict[int, GraphAllocation] = {}
        self._usage: dict[int, Usage] = {}

    def usage(self, device: int) -> Usage:
        """What the graphs of a device have taken from it."""
        return self._usage.setdefault(device, Usage())

    def held(self, device: int) -> int:
        """The bytes that launches have allocated and nobody has freed, in the order of the calls."""
        return sum(each.size for each in self._allocations.values() if each.lent and each.device == device)

    def reserve(self, size: int, device: int) -> GraphAllocation:
        """Addresses for a new allocation node."""
        self.tidy()
        pointer = self._memory.reserve(size, GRAPH_MEMORY, device)
        made = self._allocations[pointer] = GraphAllocation(self._memory, pointer, size, device)
        return made

    def at(self, pointer: int) -> GraphAllocation | None:
        """What a node allocates at exactly this address."""
        return self._allocations.get(pointer)

    def known(self, name: str, pointer: int) -> GraphAllocation:
        """The same; ``cudaErrorInvalidValue`` when no node allocates there."""
        found = self.at(pointer)
        if found is None:
            raise invalid_value(
                f"{name}: {pointer:#x} is no address that an allocation node of a graph has; a free node frees what "
                "cudaGraphAddMemAllocNode, or cudaMallocAsync in a capture, returned"
            )
        return found

    def freed_by_program(self, name: str, pointer: int) -> bool:
        """``cudaFree`` or ``cudaFreeAsync`` frees memory: note it when it is a graph's. Raises
        ``cudaErrorInvalidValue`` when that is freed already."""
        found = self.at(pointer)
        if found is None:
            return False
        if not found.lent:
            raise invalid_value(f"{name}: {pointer:#x} is memory of a graph that no launch has allocated and left")
        found.lent = False
        self.drop(found)
        return True

    def hold(self, allocation: GraphAllocation) -> None:
        allocation.users += 1

    def drop(self, allocation: GraphAllocation) -> None:
        """One user less; the addresses may belong to others when nobody is left and the memory is gone."""
        allocation.users -= 1
        self.tidy()

    def tidy(self) -> None:
        """Give up addresses that nobody can use any more."""
        for pointer, allocation in list(self._allocations.items()):
            if not allocation.users and not allocation.backed:
                del self._allocations[pointer]
                self._memory.give_up(pointer)
