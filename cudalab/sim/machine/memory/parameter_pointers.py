"""Pointers among a launch's parameters, and the allocations that they point into.

A launch needs them several times: for the bounds (*roots*) that compiled code checks accesses against, for the memory
that it may touch, whether the host can see that memory, and whether a launch like it was timed before. They stay valid
as long as no memory is allocated, freed or registered (``Memory.version``), so ``LoadedKernel`` caches them by the
bytes of the parameters.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from msgspec import Struct

from cudalab.sim.abi import SiteKind, Space
from cudalab.sim.compiler.program import Kernel, Program
from cudalab.sim.machine.memory.allocation import Allocation
from cudalab.sim.machine.memory.allocations import Memory

_ROOT = struct.Struct("<QQ")
_ADDRESS = struct.Struct("<Q")
_HOST_KINDS = ("pinned", "managed")
_WRITES = 1 << SiteKind.STORE | 1 << SiteKind.ATOMIC


class LoadedModule(Protocol):
    """What is needed of the kernel's module (``launch.module.Module``)."""

    @property
    def program(self) -> Program: ...

    @property
    def memory(self) -> Memory: ...

    @property
    def device(self) -> int: ...

    @property
    def global_table(self) -> ctypes.Array[ctypes.c_uint64]: ...

    def global_variable(self, name: str) -> tuple[int, int]: ...


class KernelParameters(Protocol):
    """What is needed of a kernel (``launch.module.LoadedKernel``)."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def module(self) -> LoadedModule: ...

    @property
    def pointer_offsets(self) -> Sequence[int]: ...

    @property
    def root_plan(self) -> Sequence[int]: ...

    @property
    def follows_pointers(self) -> bool: ...


class Normalised(Struct, frozen=True, cache_hash=True):  # every launch looks its time up by it
    """Parameters without the addresses of allocations."""

    parts: tuple[object, ...]


class Pointers:
    """The pointers in one parameter buffer, as memory is when this is made."""

    def __init__(self, kernel: KernelParameters, args: bytes) -> None:
        memory, device = kernel.module.memory, kernel.module.device
        self.version = memory.version
        self._kernel = kernel
        self.addresses = [_ADDRESS.unpack_from(args, offset)[0] for offset in kernel.pointer_offsets]
        """Values of the parameters that may be addresses."""
        self.allocations: list[Allocation] = []
        """What they point into, and the memory of texture and surface objects among them."""
        at: dict[int, tuple[int, int]] = {}
        normalised: list[object] = []
        position = 0
        for offset, address in zip(kernel.pointer_offsets, self.addresses, strict=True):
            allocation = memory.find(address)
            if allocation is not None:
                self.allocations.append(allocation)
                at[offset] = (allocation.pointer, allocation.size)
                place = (allocation.size, allocation.kind, allocation.is_of_peer(device), address - allocation.pointer)
                normalised += [args[position:offset], place]
                position = offset + 8
            elif (image := memory.images.find(address)) is not None:
                texels = memory.find(image.layout.data)
                if texels is not None:
                    self.allocations.append(texels)
            elif memory.ranges:
                at[offset] = memory.find_range(address)
        self.normalised = Normalised((*normalised, args[position:]))
        """The parameters, with each pointer into device memory replaced by size, kind, whose
        it is, and offset in its allocation."""
        self.roots = b"".join(_ROOT.pack(*self._root(where, at)) for where in kernel.root_plan)
        """``Root[]`` as compiled code reads it."""
        self.registered = bool(memory.ranges) and any(
            base <= address < base + size for address in self.addresses for base, size in memory.ranges
        )
        """Does one of them point into registered host memory?"""

    def _root(self, where: int, at: dict[int, tuple[int, int]]) -> tuple[int, int]:
        if where >= 0:
            return at.get(where, (0, 0))
        module = self._kernel.module
        found = module.memory.find(module.global_table[~where])
        return (found.pointer, found.size) if found else (0, 0)

    @cached_property
    def reach(self) -> tuple[tuple[int, int], ...] | None:
        """``(address, bytes)`` of the device memory that the kernel may touch: whole allocations that parameters point
        into, and the module's variables. ``None`` (all) when it loads 8-byte words that may be addresses."""
        if self._kernel.follows_pointers:
            return None
        found = {(allocation.pointer, allocation.size) for allocation in self.allocations}
        module = self._kernel.module
        for name in module.program.globals:
            found.add(module.global_variable(name))
        return tuple(sorted(found))

    @cached_property
    def written(self) -> tuple[tuple[int, int], ...] | None:
        """Those parts of :attr:`reach` that the kernel may change."""
        kernel = self._kernel.kernel
        if self.reach is None or kernel.other_kinds & _WRITES or any(s.space is Space.TEXTURE for s in kernel.sites):
            return self.reach
        roots = _ROOT.iter_unpack(self.roots)
        stored = {root for root, kinds in zip(roots, kernel.root_kinds, strict=False) if kinds & _WRITES}
        return tuple(entry for entry in self.reach if entry in stored)

    @cached_property
    def updated(self) -> tuple[tuple[int, int], ...] | None:
        """Those parts of :attr:`reach` that the kernel may change by atomics."""
        kernel = self._kernel.kernel
        if self.reach is None or kernel.other_kinds >> SiteKind.ATOMIC & 1:
            return self.reach
        roots = zip(_ROOT.iter_unpack(self.roots), kernel.root_kinds, strict=False)
        found = {root for root, kinds in roots if kinds >> SiteKind.ATOMIC & 1}
        return tuple(entry for entry in self.reach if entry in found)

    @property
    def host_visible(self) -> list[tuple[int, int]]:
        """Pinned and managed memory that it may touch: the host can change that without a call."""
        if self._kernel.follows_pointers:
            memory = self._kernel.module.memory
            return [(a.pointer, a.size) for a in memory if a.kind in _HOST_KINDS]
        return self._host_visible

    @property
    def host_memory(self) -> list[tuple[int, int]]:
        """Page-locked and registered memory that it may touch: its bytes lie with the host, across the bus."""
        memory = self._kernel.module.memory
        everywhere = self._kernel.follows_pointers
        allocations = memory if everywhere else self.allocations
        found = {(a.pointer, a.size) for a in allocations if a.kind == "pinned"}
        if everywhere:
            return sorted({*found, *memory.ranges})
        at = {memory.find_range(address) for address in self.addresses} if self.registered else set()
        return sorted(found | {entry for entry in at if entry[1]})

    @property
    def peer_memory(self) -> list[tuple[int, int]]:
        """Memory of other devices that it may touch: its bytes lie across the link between them."""
        module = self._kernel.module
        allocations = module.memory if self._kernel.follows_pointers else self.allocations
        return sorted({(a.pointer, a.size) for a in allocations if a.is_of_peer(module.device)})

    @cached_property
    def _host_visible(self) -> list[tuple[int, int]]:
        found = {(a.pointer, a.size) for a in self.allocations if a.kind in _HOST_KINDS}
        return sorted(found)
