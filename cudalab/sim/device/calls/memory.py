"""Allocation calls: device, page-locked, pitched and managed memory (``pools.py``: stream-ordered memory).

Return values and errors are those of an H200 (driver 580): ``cudaMalloc(0)`` succeeds with a null pointer, freeing
anything but the start of a live allocation of the same family is ``cudaErrorInvalidValue``, and ``cudaFree`` waits for
the whole device. What differs is the amount: memory lies in the host's RAM, so an allocation can fail that an H200
would grant; the note of the error says so.
"""

from __future__ import annotations

from cuda.bindings.runtime import cudaError_t
from msgspec import Struct

from cudalab.sim.abi import SHARED_WINDOW, WINDOWS_END
from cudalab.sim.device import host_address
from cudalab.sim.device.calls.allocator import Allocator
from cudalab.sim.device.calls.chunks import Chunks
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.calls.pools import PoolCalls
from cudalab.sim.device.declaration import Address, Allocates, InCapture, Waits
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.state import DeviceState
from cudalab.sim.machine.memory.allocation import Allocation

PITCH_ALIGNMENT = 512
_ALLOCATE = {
    "device": ("malloc_small", "malloc", "malloc_byte"),
    "pinned": ("malloc_host_small", "malloc_host", "malloc_host_byte"),
}
_FREE = {
    "device": ("free_small", "free", "free_byte"),
    "managed": ("free_small", "free", "free_byte"),
    "pinned": ("free_host_small", "free_host", "free_host_byte"),
}
"""Constants by kind of memory: for a part of a chunk; for what comes from the system or goes back to it, and for each
byte of that."""
_HOST_ALLOC_FLAGS = 7
_HOST_REGISTER_FLAGS = 15
_PORTABLE, _MAPPED, _WRITE_COMBINED = 1, 2, 4


class PointerAttributes(Struct, frozen=True):
    """What ``cudaPointerGetAttributes`` says."""

    type: int
    """0 unregistered, 1 host, 2 device, 3 managed."""
    device: int
    device_pointer: Address
    host_pointer: Address


class MemoryCalls(CallGroup):
    """Allocation, registration, and questions about pointers."""

    def __init__(self, state: DeviceState, allocator: Allocator, pools: PoolCalls) -> None:
        super().__init__(state)
        self._allocator, self._pools = allocator, pools

    def clear(self) -> None:
        self._chunks: dict[tuple[str, int], Chunks] = {}
        self._host_flags: dict[int, int] = {}
        self._registered: dict[int, tuple[int, int]] = {}

    # -- device memory -------------------------------------------------------------------------------------------------

    @call("cudaMalloc", "cuMemAlloc", cost=None, allocates=Allocates.DEVICE, in_capture=InCapture.UNSAFE)
    def malloc(self, size: int) -> Address:
        """Allocate ``size`` bytes aligned to 256; address 0 for 0 bytes."""
        return self._allocate(size, "device", "cudaMalloc")

    @call("cudaFree", "cuMemFree", cost=None, waits=Waits.DEVICE, in_capture=InCapture.UNSAFE)
    def free(self, pointer: Address) -> None:
        """Wait for the whole device, then free. 0 does nothing. Memory from a pool is freed without a wait."""
        host = self.state.profile.host
        if not pointer:
            return self.state.spend(host["query"])
        if self.state.graph_memory.freed_by_program("cudaFree", pointer):
            self.state.spend(host["malloc_async"])
            self.state.wait_for_all(device=self.state.graph_memory.known("cudaFree", pointer).device)
            self.state.graph_memory.known("cudaFree", pointer).leave("cudaFree")
            return None
        allocation = self._allocator.owned(pointer, ("device", "managed"), "cudaFree")
        if self._pools.free_at_once(allocation):
            return self.state.spend(host["malloc_async"])
        self._spend_free(allocation)
        self.state.wait_for_all(device=allocation.device)
        self._allocator.release(pointer, "cudaFree")
        return None

    @call("cudaMallocPitch", "cuMemAllocPitch", cost=None, allocates=Allocates.DEVICE, in_capture=InCapture.UNSAFE)
    def malloc_pitch(self, width: int, height: int) -> tuple[Address, int]:
        """Allocate ``height`` rows of ``width`` bytes: ``(pointer, pitch)``."""
        return self._pitched(width, height, 1, "cudaMallocPitch")

    @call("cudaMalloc3D", cost=None, allocates=Allocates.DEVICE, in_capture=InCapture.UNSAFE)
    def malloc_3d(self, width: int, height: int, depth: int) -> tuple[Address, int]:
        """Allocate ``depth`` slices of ``height`` rows of ``width`` bytes: ``(pointer, pitch)``."""
        return self._pitched(width, height, depth, "cudaMalloc3D")

    def _pitched(self, width: int, height: int, depth: int, name: str) -> tuple[int, int]:
        if min(width, height, depth) < 0:
            raise invalid_value(f"{name}: sizes must not be negative (got {width} x {height} x {depth})")
        pitch = -(-width // PITCH_ALIGNMENT) * PITCH_ALIGNMENT
        size = pitch * height * depth
        pointer = self._allocate(size, "device", name)
        return (pointer, pitch) if size else (0, 0)

    @call("cudaMallocManaged", "cuMemAllocManaged", cost=None, allocates=Allocates.MANAGED, in_capture=InCapture.UNSAFE)
    def malloc_managed(self, size: int, flags: int = 1) -> Address:
        """Allocate memory that host and device use through one address. The host must wait for the device's work before
        it accesses it. Pages do not migrate here, so there are no page faults to time."""
        self.state.spend(self.state.profile.host["malloc"])
        if flags not in (1, 2):
            raise invalid_value(f"cudaMallocManaged: flags must be cudaMemAttachGlobal (1) or Host (2), got {flags}")
        return self._allocator.allocate(size, "managed", "cudaMallocManaged")

    # -- what it takes -------------------------------------------------------------------------------------------------

    def _chunks_of(self, kind: str, device: int) -> Chunks:
        size = int(self.state.profile.host["allocation_chunk"])
        return self._chunks.setdefault((kind, 0 if kind == "pinned" else device), Chunks(size))

    def _allocate(self, size: int, kind: str, name: str) -> int:
        """An allocation and its time: a part of a chunk where there is room, else at least a chunk."""
        chunks = self._chunks_of(kind, self.state.contexts.number)
        part = size <= 0 or chunks.has_room(size)
        self._spend(_ALLOCATE[kind], 0 if part else max(size, chunks.size))
        pointer = self._allocator.allocate(size, kind, name)
        if 0 < size < chunks.size:
            chunks.add(pointer, size)
        return pointer

    def _spend_free(self, allocation: Allocation) -> None:
        """The time of a free, which gives a chunk back with the last of it."""
        chunks = self._chunks_of(allocation.kind, allocation.device)
        gone = chunks.remove(allocation.pointer)
        part = gone is False
        self._spend(_FREE[allocation.kind], 0 if part else max(allocation.size, chunks.size if gone else 0))

    def _spend(self, constants: tuple[str, str, str], size: int) -> None:
        """The time for so many bytes from the system or back to it; 0 for a part of a chunk that stays."""
        part, call, byte = (self.state.profile.host[name] for name in constants)
        self.state.spend(call + size * byte if size else part)

    # -- page-locked host memory ---------------------------------------------------------------------------------------

    @call(
        "cudaHostAlloc",
        "cudaMallocHost",
        "cuMemHostAlloc",
        "cuMemAllocHost",
        cost=None,
        allocates=Allocates.PAGE_LOCKED,
        in_capture=InCapture.UNSAFE,
    )
    def malloc_host(self, size: int, flags: int = 0) -> Address:
        """Allocate page-locked memory, mapped for the device at the same address."""
        if flags & ~_HOST_ALLOC_FLAGS or flags < 0:
            raise invalid_value(
                f"cudaHostAlloc: flags {flags} are none of cudaHostAllocPortable (1), Mapped (2) and WriteCombined (4)"
            )
        pointer = self._allocate(size, "pinned", "cudaHostAlloc")
        if pointer:
            # mapped always, with unified addressing; one device alone calls portable what is not write-combining
            portable = self.state.profile.devices == 1 and not flags & _WRITE_COMBINED
            self._host_flags[pointer] = flags | _MAPPED | (_PORTABLE if portable else 0)
        return pointer

    @call("cudaFreeHost", "cuMemFreeHost", cost=None, waits=Waits.DEVICE, in_capture=InCapture.UNSAFE)
    def free_host(self, pointer: Address) -> None:
        """Wait for the whole device, then free page-locked memory. 0 does nothing."""
        host = self.state.profile.host
        if not pointer:
            return self.state.spend(host["query"])
        allocation = self._allocator.owned(pointer, ("pinned",), "cudaFreeHost")
        self._spend_free(allocation)
        self.state.wait_for_all()
        self._allocator.release(pointer, "cudaFreeHost")
        self._host_flags.pop(pointer, None)
        return None

    @call(
        "cudaHostRegister", "cuMemHostRegister", cost=None, allocates=Allocates.REGISTERED, in_capture=InCapture.UNSAFE
    )
    def host_register(self, pointer: Address, size: int, flags: int = 0) -> None:
        """Page-lock host memory that CUDA did not allocate, and map it for the device."""
        self.state.spend(self.state.profile.host["malloc_async"] + size * self.state.profile.host["host_register_byte"])
        if not pointer or size <= 0 or flags & ~_HOST_REGISTER_FLAGS or self.state.memory.find(pointer) is not None:
            raise invalid_value(
                f"cudaHostRegister of {size} bytes at {pointer:#x} with flags {flags}: pass host memory that CUDA does "
                "not own, a size above 0 and flags of cudaHostRegister…"
            )
        try:
            self.state.recorder.check_host(pointer, size)
        except host_address.UnmappedAddress as error:
            raise invalid_value(str(error)) from None
        if pointer < WINDOWS_END and SHARED_WINDOW < pointer + size:
            raise CudaError(
                cudaError_t.cudaErrorNotSupported,
                f"cudaHostRegister of {size} bytes at {pointer:#x}: this Python has its heap where shared memory has "
                "its addresses here. Take an array of more than 1 MB, which lies elsewhere, or memory of cudaHostAlloc",
            )
        try:
            self.state.memory.register(pointer, size)
        except ValueError as error:
            raise CudaError(cudaError_t.cudaErrorHostMemoryAlreadyRegistered, str(error)) from None
        self._registered[pointer] = (size, flags | _MAPPED)
        self.state.recorder.allocated(pointer, size)

    @call("cudaHostUnregister", "cuMemHostUnregister", cost=None, waits=Waits.DEVICE, in_capture=InCapture.UNSAFE)
    def host_unregister(self, pointer: Address) -> None:
        """Undo a registration; waits for the whole device."""
        self.state.spend(self.state.profile.host["malloc_async"])
        if pointer not in self._registered and (not pointer or self._page_locked(pointer) is not None):
            raise invalid_value(f"cudaHostUnregister takes the address that was registered (got {pointer:#x})")
        if pointer not in self._registered and self.state.memory.find(pointer) is not None:
            raise invalid_value(f"{pointer:#x} is memory that CUDA allocated: free it, it was never registered")
        if pointer not in self._registered:
            raise CudaError(
                cudaError_t.cudaErrorHostMemoryNotRegistered, f"host memory at {pointer:#x} is not registered"
            )
        self.state.wait_for_all()
        size, _ = self._registered.pop(pointer)
        self.state.memory.unregister(pointer)

    @call("cudaHostGetDevicePointer", "cuMemHostGetDevicePointer")
    def host_get_device_pointer(self, pointer: Address, flags: int = 0) -> Address:
        """The address itself: host and device share one address space."""
        if flags or self._page_locked(pointer) is None:
            raise invalid_value(
                f"{pointer:#x} is not page-locked: allocate it with cudaHostAlloc or register it first; flags must be 0"
            )
        return pointer

    @call("cudaHostGetFlags", "cuMemHostGetFlags")
    def host_get_flags(self, pointer: Address) -> int:
        """The flags of page-locked memory; mapping is always on."""
        flags = self._page_locked(pointer)
        if flags is None:
            raise invalid_value(f"{pointer:#x} was not allocated by cudaHostAlloc, nor registered")
        return flags

    def _page_locked(self, pointer: int) -> int | None:
        """Flags of the page-locked memory that ``pointer`` lies in."""
        allocation = self.state.memory.find(pointer)
        if allocation is not None:
            return self._host_flags.get(allocation.pointer)
        for base, (size, flags) in self._registered.items():
            if base <= pointer < base + size:
                return flags
        return None

    # -- questions -----------------------------------------------------------------------------------------------------

    @call("cudaMemGetInfo", "cuMemGetInfo", cost="memory_info")
    def memory_info(self) -> tuple[int, int]:
        """``(free, total)`` in bytes. *Total* is the profile's; *free* is what can be allocated, which the host's RAM
        limits."""
        total = int(self.state.profile.properties_of(self.state.contexts.number)["totalGlobalMem"])
        return max(0, min(total, self.state.memory.capacity) - self._allocator.in_use), total

    @call("cudaPointerGetAttributes", "cuPointerGetAttribute", "cuPointerGetAttributes", when_lost=True)
    def pointer_attributes(self, pointer: Address) -> PointerAttributes:
        """What is known of an address; any address is allowed."""
        allocation = self.state.memory.find(pointer)
        if allocation is None:
            if self._page_locked(pointer) is not None:
                return PointerAttributes(1, 0, pointer, pointer)
            return PointerAttributes(0, -2, 0, pointer)
        if allocation.kind == "heap":  # the host knows nothing of it
            return PointerAttributes(0, -2, 0, 0)
        if allocation.kind == "pinned":
            return PointerAttributes(1, allocation.device, pointer, pointer)
        if allocation.kind == "managed":
            return PointerAttributes(3, allocation.device, pointer, pointer)
        return PointerAttributes(2, allocation.device, pointer, 0)

    def buffer_id(self, address: int) -> int:
        """A number that no other allocation of the process has. No call, takes no modelled time."""
        allocation = self.state.memory.find(address)
        if allocation is not None:
            return allocation.serial
        return self.state.memory.find_range(address)[0]

    def address_range(self, address: int) -> tuple[int, int] | None:
        """Start and bytes of the allocation, or of the registered host memory, around an address. No call, takes no
        modelled time."""
        allocation = self.state.memory.find(address)
        if allocation is not None:
            return allocation.pointer, allocation.size
        base, size = self.state.memory.find_range(address)
        return (base, size) if size else None
