"""Allocation calls: device, page-locked, pitched and managed memory (``pool_calls.py``: stream-ordered memory).

Return values and errors are those of an H200 (driver 580): ``cudaMalloc(0)`` succeeds with a null pointer, freeing
anything but the start of a live allocation of the same family is ``cudaErrorInvalidValue``, and ``cudaFree`` waits for
the whole device. What differs is the amount: memory lies in the host's RAM, so an allocation can fail that an H200
would grant; the note of the error says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device import host_address
from cudalab.sim.device.calls.core import Core, call
from cudalab.sim.device.error import CudaError
from cudalab.sim.machine.memory.allocations import Allocation, InvalidPointer, OutOfMemory

PITCH_ALIGNMENT = 512
_SMALL = 1 << 20
_HOST_ALLOC_FLAGS = 7
_HOST_REGISTER_FLAGS = 15
_PORTABLE, _MAPPED, _WRITE_COMBINED = 1, 2, 4


@dataclass(frozen=True)
class PointerAttributes:
    """What ``cudaPointerGetAttributes`` says."""

    type: int
    """0 unregistered, 1 host, 2 device, 3 managed."""
    device: int
    device_pointer: int
    host_pointer: int


class MemoryCalls(Core):
    """Allocation calls of the device."""

    def _reset_state(self) -> None:
        super()._reset_state()
        self._host_flags: dict[int, int] = {}
        self._registered: dict[int, tuple[int, int]] = {}

    # -- device memory -------------------------------------------------------------------------------------------------

    @call(None)
    def malloc(self, size: int) -> int:
        """``cudaMalloc``: the address of ``size`` bytes, aligned to 256; 0 for 0 bytes."""
        host = self.profile.host
        self._spend(host["malloc_small"] if size < _SMALL else host["malloc"] + size * host["malloc_byte"])
        return self._allocate(size, "device", "cudaMalloc")

    @call(None)
    def free(self, pointer: int) -> None:
        """``cudaFree``: waits for the whole device, then frees. 0 is allowed and does nothing."""
        host = self.profile.host
        if not pointer:
            return self._spend(host["query"])
        allocation = self._owned(pointer, ("device", "managed"), "cudaFree")
        if self._free_at_once(allocation):
            return self._spend(host["malloc_async"])
        small = allocation.size < _SMALL
        self._spend(host["free_small"] if small else host["free"] + allocation.size * host["free_byte"])
        self._wait_for_all()
        self._release(pointer, "cudaFree")
        return None

    def _free_at_once(self, allocation: Allocation) -> bool:
        """Free memory for which ``cudaFree`` does not wait. False where there is none such (``pool_calls.py``)."""
        return False

    @call(None)
    def malloc_pitch(self, width: int, height: int) -> tuple[int, int]:
        """``cudaMallocPitch``: ``(pointer, pitch)`` for ``height`` rows of ``width`` bytes."""
        return self._pitched(width, height, 1, "cudaMallocPitch")

    @call(None)
    def malloc_3d(self, width: int, height: int, depth: int) -> tuple[int, int]:
        """``cudaMalloc3D``: ``(pointer, pitch)`` for ``depth`` slices of ``height`` rows of ``width`` bytes."""
        return self._pitched(width, height, depth, "cudaMalloc3D")

    def _pitched(self, width: int, height: int, depth: int, name: str) -> tuple[int, int]:
        host = self.profile.host
        if min(width, height, depth) < 0:
            raise self._invalid(f"{name}: sizes must not be negative (got {width} x {height} x {depth})")
        pitch = -(-width // PITCH_ALIGNMENT) * PITCH_ALIGNMENT
        size = pitch * height * depth
        self._spend(host["malloc_small"] if size < _SMALL else host["malloc"] + size * host["malloc_byte"])
        return (self._allocate(size, "device", name), pitch) if size else (0, 0)

    @call(None)
    def malloc_managed(self, size: int, flags: int = 1) -> int:
        """``cudaMallocManaged``: memory that host and device use by one address. The host must wait for the device's
        work before it looks; nothing moves here, so there are no page faults to time."""
        self._spend(self.profile.host["malloc"])
        if flags not in (1, 2):
            raise self._invalid(f"cudaMallocManaged: flags must be cudaMemAttachGlobal (1) or Host (2), got {flags}")
        return self._allocate(size, "managed", "cudaMallocManaged")

    # -- page-locked host memory ---------------------------------------------------------------------------------------

    @call(None)
    def malloc_host(self, size: int, flags: int = 0) -> int:
        """``cudaHostAlloc`` and ``cudaMallocHost``: page-locked memory, mapped for the device at the same address."""
        host = self.profile.host
        if flags & ~_HOST_ALLOC_FLAGS or flags < 0:
            raise self._invalid(
                f"cudaHostAlloc: flags {flags} are none of cudaHostAllocPortable (1), Mapped (2) and WriteCombined (4)"
            )
        self._spend(host["malloc_host"] + size * host["malloc_host_byte"])
        pointer = self._allocate(size, "pinned", "cudaHostAlloc")
        if pointer:
            # always so with unified addressing; what is write-combining is portable only when asked for
            self._host_flags[pointer] = flags | _MAPPED | (0 if flags & _WRITE_COMBINED else _PORTABLE)
        return pointer

    @call(None)
    def free_host(self, pointer: int) -> None:
        """``cudaFreeHost``: waits for the device, then frees page-locked memory. 0 does nothing."""
        host = self.profile.host
        if not pointer:
            return self._spend(host["query"])
        allocation = self._owned(pointer, ("pinned",), "cudaFreeHost")
        self._spend(host["free_host"] + allocation.size * host["free_host_byte"])
        self._wait_for_all()
        self._release(pointer, "cudaFreeHost")
        self._host_flags.pop(pointer, None)
        return None

    @call(None)
    def host_register(self, pointer: int, size: int, flags: int = 0) -> None:
        """``cudaHostRegister``: page-lock memory that the host has, and map it for the device."""
        self._spend(self.profile.host["malloc_async"] + size * self.profile.host["host_register_byte"])
        if not pointer or size <= 0 or flags & ~_HOST_REGISTER_FLAGS or self.memory.find(pointer) is not None:
            raise self._invalid(
                f"cudaHostRegister of {size} bytes at {pointer:#x} with flags {flags}: pass host memory that CUDA does "
                "not own, a size above 0 and flags of cudaHostRegister…"
            )
        if not self._recorder.replaying:
            try:
                host_address.check(pointer, size)
            except host_address.UnmappedAddress as error:
                raise self._invalid(str(error)) from None
        try:
            self.memory.register(pointer, size)
        except ValueError as error:
            raise CudaError(cudaError_t.cudaErrorHostMemoryAlreadyRegistered, str(error)) from None
        self._registered[pointer] = (size, flags | _MAPPED)
        self._recorder.allocated(pointer, size)

    @call(None)
    def host_unregister(self, pointer: int) -> None:
        """``cudaHostUnregister``"""
        self._spend(self.profile.host["malloc_async"])
        if pointer not in self._registered and (not pointer or self._page_locked(pointer) is not None):
            raise self._invalid(f"cudaHostUnregister takes the address that was registered (got {pointer:#x})")
        if pointer not in self._registered and self.memory.find(pointer) is not None:
            raise self._invalid(f"{pointer:#x} is memory that CUDA allocated: free it, it was never registered")
        if pointer not in self._registered:
            raise CudaError(
                cudaError_t.cudaErrorHostMemoryNotRegistered, f"host memory at {pointer:#x} is not registered"
            )
        self._wait_for_all()
        size, _ = self._registered.pop(pointer)
        self.memory.unregister(pointer)

    @call()
    def host_get_device_pointer(self, pointer: int, flags: int = 0) -> int:
        """``cudaHostGetDevicePointer``: the address itself, because host and device share one address space."""
        if flags or self._page_locked(pointer) is None:
            raise self._invalid(
                f"{pointer:#x} is not page-locked: allocate it with cudaHostAlloc or register it first; flags must be 0"
            )
        return pointer

    @call()
    def host_get_flags(self, pointer: int) -> int:
        """``cudaHostGetFlags``: the flags of a page-locked allocation; mapping is always on."""
        flags = self._page_locked(pointer)
        if flags is None:
            raise self._invalid(f"{pointer:#x} was not allocated by cudaHostAlloc, nor registered")
        return flags

    def _page_locked(self, pointer: int) -> int | None:
        """Flags of the page-locked memory that ``pointer`` lies in."""
        allocation = self.memory.find(pointer)
        if allocation is not None:
            return self._host_flags.get(allocation.pointer)
        for base, (size, flags) in self._registered.items():
            if base <= pointer < base + size:
                return flags
        return None

    # -- questions -----------------------------------------------------------------------------------------------------

    @call("memory_info")
    def memory_info(self) -> tuple[int, int]:
        """``cudaMemGetInfo``: ``(free, total)`` bytes. *Total* is the profile's; *free* is what can be had, which the
        host's RAM limits."""
        total = int(self.profile.properties["totalGlobalMem"])
        return max(0, min(total, self.memory.capacity) - self.memory.in_use), total

    @call(when_lost=True)
    def pointer_attributes(self, pointer: int) -> PointerAttributes:
        """``cudaPointerGetAttributes``; any address is allowed."""
        allocation = self.memory.find(pointer)
        if allocation is None:
            if self._page_locked(pointer) is not None:
                return PointerAttributes(1, 0, pointer, pointer)
            return PointerAttributes(0, -2, 0, pointer)
        if allocation.kind == "heap":  # the host knows nothing of it
            return PointerAttributes(0, -2, 0, 0)
        if allocation.kind == "pinned":
            return PointerAttributes(1, 0, pointer, pointer)
        if allocation.kind == "managed":
            return PointerAttributes(3, 0, pointer, pointer)
        return PointerAttributes(2, 0, pointer, 0)

    def buffer_id(self, address: int) -> int:
        """A number that no other allocation of the process has. No call, takes no modelled time."""
        allocation = self.memory.find(address)
        if allocation is not None:
            return allocation.serial
        return next((base for base, (size, _) in self._registered.items() if base <= address < base + size), 0)

    # -- shared --------------------------------------------------------------------------------------------------------

    def _allocate(self, size: int, kind: str, name: str, at: int = 0) -> int:
        """New memory; at the address ``at``, when that is given and free."""
        if size < 0:
            raise self._invalid(f"{name}: size must not be negative (got {size})")
        if size == 0:
            return 0
        total = int(self.profile.properties["totalGlobalMem"])
        if kind != "pinned" and self.memory.in_use + size > total:
            raise CudaError(
                cudaError_t.cudaErrorMemoryAllocation,
                f"{name} of {size} bytes: {self.memory.in_use} of the device's {total} bytes are in use",
            )
        try:
            pointer = self.memory.allocate(size, kind, name, at=at)
        except OutOfMemory as error:
            raise CudaError(cudaError_t.cudaErrorMemoryAllocation, f"{name}: {error}") from None
        self._recorder.allocated(pointer, size)
        return pointer

    def _owned(self, pointer: int, kinds: tuple[str, ...], name: str) -> Allocation:
        """The allocation that starts at ``pointer``, if this function may free it."""
        allocation = self.memory.find(pointer)
        if allocation is not None and allocation.pointer == pointer and allocation.kind in kinds:
            return allocation
        if allocation is not None and allocation.kind not in kinds:
            advice = "cudaFreeHost frees page-locked memory" if allocation.kind == "pinned" else "cudaFree frees it"
            if allocation.kind == "heap":
                advice = "a kernel allocated it, and only a kernel frees it"
            if allocation.kind == "global":
                advice = "a module's variables go with the module"
            raise self._invalid(f"{name}: {pointer:#x} is a {allocation.kind} allocation; {advice}")
        raise self._invalid(f"{name}: {self._why_not(pointer)}")

    def _why_not(self, pointer: int) -> str:
        try:
            self.memory.view(pointer, 1, write=False)
        except InvalidPointer:
            near = self.memory.explain(pointer)
            if near.freed is not None:
                when = f" by {near.freed.freed_where}" if near.freed.freed_where else ""
                return f"{pointer:#x} was already freed{when}: free each allocation once"
            if near.is_host:
                return f"{pointer:#x} is a host address that CUDA did not allocate"
            return f"{pointer:#x} was never allocated on this device"
        return f"{pointer:#x} lies inside an allocation; pass the address that the allocation returned"

    def _release(self, pointer: int, name: str) -> None:
        try:
            self.memory.free(pointer, where=name)
        except InvalidPointer as error:
            raise self._invalid(f"{name}: {error}") from None
