"""Making and freeing allocations, for the calls of several groups: limits, errors, and what a recording must know."""

from __future__ import annotations

from collections.abc import Callable

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.state import DeviceState
from cudalab.sim.machine.memory.allocation import Allocation, InvalidPointer, OutOfMemory


class Allocator:
    """Makes and frees allocations. Errors are raised as :class:`CudaError`; ``name`` is the CUDA function they name."""

    def __init__(self, state: DeviceState) -> None:
        self.state = state
        self.on_release: list[Callable[[int], None]] = []
        """Called with the address of memory that is gone."""

    @property
    def in_use(self) -> int:
        """Bytes of the current device that are in use."""
        memory = self.state.memory
        return memory.in_use_on(self.state.contexts.number) if self.state.profile.devices > 1 else memory.in_use

    def allocate(self, size: int, kind: str, name: str, at: int = 0, device: int | None = None) -> int:
        """New memory of a device, by default the current one; at the address ``at``, when that is given and free."""
        if size < 0:
            raise invalid_value(f"{name}: size must not be negative (got {size})")
        if size == 0:
            return 0
        total = int(self.state.profile.properties["totalGlobalMem"])
        if kind != "pinned" and (in_use := self.in_use) + size > total:
            raise CudaError(
                cudaError_t.cudaErrorMemoryAllocation,
                f"{name} of {size} bytes: {in_use} of the device's {total} bytes are in use",
            )
        try:
            number = self.state.contexts.number if device is None else device
            pointer = self.state.memory.allocate(size, kind, name, at=at, device=number)
        except OutOfMemory as error:
            raise CudaError(cudaError_t.cudaErrorMemoryAllocation, f"{name}: {error}") from None
        self.state.recorder.allocated(pointer, size)
        return pointer

    def owned(self, pointer: int, kinds: tuple[str, ...], name: str) -> Allocation:
        """The allocation that starts at ``pointer``, if this function may free it."""
        allocation = self.state.memory.find(pointer)
        if allocation is not None and allocation.pointer == pointer and allocation.kind in kinds:
            return allocation
        if allocation is not None and allocation.kind not in kinds:
            advice = "cudaFreeHost frees page-locked memory" if allocation.kind == "pinned" else "cudaFree frees it"
            if allocation.kind == "heap":
                advice = "a kernel allocated it, and only a kernel frees it"
            if allocation.kind == "global":
                advice = "a module's variables go with the module"
            raise invalid_value(f"{name}: {pointer:#x} is a {allocation.kind} allocation; {advice}")
        raise invalid_value(f"{name}: {self._why_not(pointer)}")

    def _why_not(self, pointer: int) -> str:
        try:
            self.state.memory.view(pointer, 1, write=False)
        except InvalidPointer:
            near = self.state.memory.explain(pointer)
            if near.freed is not None:
                when = f" by {near.freed.freed_where}" if near.freed.freed_where else ""
                return f"{pointer:#x} was already freed{when}: free each allocation once"
            if near.is_host:
                return f"{pointer:#x} is a host address that CUDA did not allocate"
            return f"{pointer:#x} was never allocated on this device"
        return f"{pointer:#x} lies inside an allocation; pass the address that the allocation returned"

    def release(self, pointer: int, name: str) -> None:
        try:
            self.state.memory.free(pointer, where=name)
        except InvalidPointer as error:
            raise invalid_value(f"{name}: {error}") from None
        for released in self.on_release:
            released(pointer)
