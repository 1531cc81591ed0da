"""One allocation, what an address is, and the errors of allocating and freeing."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from cudalab.sim.machine.memory.written_bytes import WrittenBytes

_OF_ONE_DEVICE = ("device", "global", "heap")
"""What other devices do not reach without peer access."""
NO_ACCESS = "another device's memory"
"""Why an allocation is set aside."""
GRAPH_MEMORY = "memory of a graph"
"""The label of what a node of a graph allocates."""
UNBACKED = "no launch has allocated it"
"""Why the memory of a graph is not there, before its allocation node has run."""


class OutOfMemory(Exception):
    """An allocation was refused. ``asked``, ``in_use`` and ``limit`` are bytes."""

    def __init__(self, asked: int, in_use: int, limit: int, reason: str) -> None:
        self.asked, self.in_use, self.limit = asked, in_use, limit
        super().__init__(
            f"cannot allocate {size_text(asked)}: {size_text(in_use)} are in use and {reason}. The simulated device "
            "keeps its memory in the host's RAM, so this limit is your machine's, not the 141 GB of an H200. "
            "Free arrays that are no longer needed, or use a smaller size."
        )


class InvalidPointer(ValueError):
    """A pointer that cannot be freed or viewed; the message says what it is instead."""


class Allocation(Struct, eq=False):
    """One allocation, live or freed."""

    pointer: int
    size: int
    kind: str
    label: str
    """What the learner calls it, or where it comes from: ``"weights"``, ``"cudaMalloc"``."""
    where: str
    """Caller's file and line, or ``""``."""
    serial: int
    """Counts allocations of this memory from 1."""
    written: WrittenBytes
    """Which bytes have been written since allocation, as far as it is known."""
    freed: bool = False
    freed_where: str = ""
    device: int = 0
    """The device whose memory it is, or that was current when the host allocated it."""
    shared_with: Collection[int] = ()
    """Devices that reach it without peer access: its memory pool says so."""
    site: int = -1
    """Of the device heap: the site of the kernel that allocated it."""

    @property
    def end(self) -> int:
        return self.pointer + self.size

    def is_of_peer(self, device: int) -> bool:
        """Is it the memory of another device than this one?"""
        return self.device != device and self.kind in _OF_ONE_DEVICE

    def reached_by(self, device: int, peers: Collection[int]) -> bool:
        """Does a device reach it that has access to the memory of ``peers``?"""
        return not self.is_of_peer(device) or self.device in peers or device in self.shared_with

    def describe(self) -> str:
        name = f" ({self.label})" if self.label else ""
        return f"{self.size}-byte {self.kind} allocation at {self.pointer:#x}{name}"

    @property
    def gone(self) -> str:
        """Of one that is not live: why not, as what follows *which*."""
        if self.freed_where == UNBACKED:
            return "no launch of the graph has allocated yet"
        return f"was freed ({self.freed_where})" if self.freed_where else "was freed"

    def why_not_freed(self, pointer: int) -> str:
        """Of a freed allocation: why an address in it cannot be freed."""
        if self.freed_where == UNBACKED:
            return f"{pointer:#x} is memory that no launch of its graph has allocated yet"
        when = f" at {self.freed_where}" if self.freed_where else ""
        if pointer == self.pointer:
            return f"{pointer:#x} was already freed{when}: free each allocation once"
        return f"{pointer:#x} lies in memory that was freed{when}"


class AddressDescription(Struct, frozen=True):
    """What lies at and around ``address … address + size``."""

    address: int
    size: int
    inside: Allocation | None = None
    """The live allocation that holds the first byte."""
    freed: Allocation | None = None
    """A freed allocation that held the first byte, when no live one does."""
    before: Allocation | None = None
    """The nearest live allocation that ends at or before ``address``."""
    after: Allocation | None = None
    """The nearest live allocation that begins after ``address``."""
    is_host: bool = False
    """The address is mapped in this process, but is no device memory: a NumPy array's, say."""
    is_former: bool = False
    """The address was device memory before the device was reset."""
    is_shared_window: bool = False
    is_local_window: bool = False

    @property
    def why_not_freed(self) -> str:
        """Why an address that starts no live allocation cannot be freed."""
        address = self.address
        if self.inside:
            return (
                f"{address:#x} lies {address - self.inside.pointer} bytes into the {self.inside.describe()}; "
                "free takes the address that the allocation returned"
            )
        if self.freed:
            return self.freed.why_not_freed(address)
        if self.is_host:
            return f"{address:#x} is a host address, which device memory functions cannot free"
        return f"{address:#x} was never allocated on this device"

    def why_not_viewed(self, was_reset: bool) -> str:
        """Why the bytes do not lie in one live allocation; ``was_reset``: the device was reset before."""
        address, size = self.address, self.size
        if self.inside is not None:
            over = address + size - self.inside.end
            return (
                f"{size} bytes at {address:#x} reach {over} byte{'s' * (over != 1)} past the end of the "
                f"{self.inside.describe()}"
            )
        if self.freed:
            return f"{size} bytes at {address:#x} lie in the {self.freed.describe()}, which {self.freed.gone}"
        if self.is_former:
            return f"{address:#x} was device memory before the reset; what was there is lost: make the array anew"
        if self.is_host:
            return f"{address:#x} is a host address, not device memory"
        lost = "; what was on the device before the reset is lost: make the array anew" if was_reset else ""
        return f"{address:#x} is in no live device allocation{lost}"


def size_text(size: int) -> str:
    """A size as people say it, exact below 10 kB."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**4)):
        if size >= factor:
            scale = 1000 if unit == "kB" else factor
            return f"{size / scale:.3g} {unit}"
    return f"{size} bytes"
