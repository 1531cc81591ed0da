"""Device memory as objects: allocations of each kind, which free themselves, and pointers into them.

A :class:`MemoryPointer` is an address inside a memory object that owns it. Memory goes when the last pointer to it
goes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from cudalab.sim.cupy._base.call import epoch, from_destructor, on_device, refuse_former, shutting_down, size_of
from cudalab.sim.cupy.cuda import runtime
from cudalab.sim.cupy.cuda.device import Device
from cudalab.sim.cupy.cuda.stream import current_pointer, get_current_stream

_HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEFAULT = 1, 2, 4


class OutOfMemoryError(MemoryError):
    """The device, or the pool's limit, has no room.

    Args:
        size: bytes asked for.
        total: bytes the pool holds; -1 when not known.
        limit: the pool's limit in bytes; 0 for none.
    """

    def __init__(self, size: int, total: int, limit: int = 0) -> None:
        self._size, self._total, self._limit = size, total, limit
        message = f"Out of memory allocating {size:,} bytes"
        if limit:
            message += f" (allocated so far: {total:,} bytes, limit set to: {limit:,} bytes)."
        elif total != -1:
            message += f" (allocated so far: {total:,} bytes)."
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._size, self._total, self._limit)


class BaseMemory:
    """Memory on the device: ``ptr`` (address), ``size`` (bytes), ``device_id``."""

    ptr = 0
    size = 0
    device_id = 0
    _epoch: Any = None

    def __int__(self) -> int:
        return self.ptr

    @property
    def device(self) -> Device:
        """The device that it is on."""
        return Device(self.device_id)


class Memory(BaseMemory):
    """``size`` bytes from ``cudaMalloc``; ``cudaFree`` when the object goes."""

    def __init__(self, size: int) -> None:
        self.size = size_of(size)
        self.device_id = runtime.getDevice()
        self.ptr = runtime.malloc(size) if size > 0 else 0
        self._epoch = epoch()

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if _over:
            return
        release(self, runtime.free)


class MemoryAsync(BaseMemory):
    """``size`` bytes from ``cudaMallocAsync`` in ``stream``; freed in the same stream."""

    def __init__(self, size: int, stream: Any) -> None:
        self.size = size
        self.stream_ref = stream
        self.device_id = runtime.getDevice()
        self.ptr = runtime.mallocAsync(size, stream.ptr) if size > 0 else 0
        self._epoch = epoch()

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if _over:
            return
        release(self, lambda pointer: runtime.freeAsync(pointer, self.stream_ref.ptr))


class ManagedMemory(BaseMemory):
    """``size`` bytes of managed memory, which host and device both may use."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.device_id = runtime.getDevice()
        self.ptr = runtime.mallocManaged(size) if size > 0 else 0
        self._epoch = epoch()

    def prefetch(self, stream: Any, *, device_id: int = 0) -> None:
        """Bring it to the device, or to the host (-1), in ``stream``."""
        runtime.memPrefetchAsync(self.ptr, self.size, device_id, stream.ptr)

    def advise(self, advise: int, dev: Device) -> None:
        """``cudaMemAdvise`` for all of it."""
        runtime.memAdvise(self.ptr, self.size, advise, dev.id)

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if _over:
            return
        release(self, runtime.free)


class UnownedMemory(BaseMemory):
    """Memory owned and freed by another object.

    Args:
        ptr: address.
        size: bytes.
        owner: kept alive as long as this object.
        device_id: asked from the address when it is left out.
    """

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        if device_id < 0:
            if ptr == 0:
                raise RuntimeError("UnownedMemory requires explicit device ID for a null pointer.")
            device_id = max(0, runtime.pointerGetAttributes(ptr).device)
        self.ptr = int(ptr)
        self.size = int(size)
        self.device_id = device_id
        self._owner = owner
        self._epoch = epoch()


class PythonFunctionAllocator:
    """An allocator made of two functions.

    Args:
        malloc_func: ``malloc(size, device_id) -> address``.
        free_func: ``free(address, device_id)``.
    """

    def __init__(self, malloc_func: Callable[[int, int], int], free_func: Callable[[int, int], None]) -> None:
        self._malloc_func = malloc_func
        self._free_func = free_func

    def malloc(self, size: int) -> MemoryPointer:
        """Allocate ``size`` bytes."""
        return MemoryPointer(PythonFunctionAllocatorMemory(size, self._malloc_func, self._free_func, 0), 0)


class PythonFunctionAllocatorMemory(BaseMemory):
    """What a :class:`PythonFunctionAllocator` gives."""

    def __init__(
        self, size: int, malloc_func: Callable[[int, int], int], free_func: Callable[[int, int], None], device_id: int
    ) -> None:
        self._free_func = free_func
        self.size = size
        self.device_id = device_id
        self.ptr = int(malloc_func(size, device_id)) if size > 0 else 0
        self._epoch = epoch()

    def __del__(self, _over: list[bool] = shutting_down) -> None:
        if _over:
            return
        release(self, lambda pointer: self._free_func(pointer, self.device_id))


def release(memory: Any, free: Callable[[int], None]) -> None:
    """A destructor's free: nothing after a reset or a lost device, and no error out of a destructor."""
    pointer, memory.ptr = memory.ptr, 0
    if not pointer:
        return

    def free_there() -> None:
        with on_device(memory.device_id):
            free(pointer)

    from_destructor(free_there, memory._epoch)


class MemoryPointer:
    """An address in device memory.

    Args:
        mem: the memory that it points into, and keeps alive.
        offset: bytes from its start.
    """

    __slots__ = ("__weakref__", "device_id", "mem", "ptr")

    def __init__(self, mem: BaseMemory, offset: int) -> None:
        self.mem = mem
        self.ptr = mem.ptr + offset
        self.device_id = mem.device_id

    @property
    def address(self) -> int:
        """``ptr``, to be used by the device. Raises ``CUDARuntimeError`` when the device has been reset since: its
        memory is gone, and may have been given to another array."""
        if self.mem._epoch is not epoch():
            refuse_former(self.ptr)
        return self.ptr

    def __int__(self) -> int:
        return self.ptr

    def __repr__(self) -> str:
        return f"<{type(self).__name__} 0x{self.ptr:x} device={self.device_id} mem={self.mem!r}>"

    @property
    def device(self) -> Device:
        """The device whose memory it points to."""
        return Device(self.device_id)

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    __radd__ = __add__

    def __sub__(self, offset: int) -> MemoryPointer:
        return self + -offset

    def __iadd__(self, offset: int) -> MemoryPointer:
        self.ptr += offset
        return self

    def __isub__(self, offset: int) -> MemoryPointer:
        self.ptr -= offset
        return self

    def copy_from_device(self, src: MemoryPointer, size: int) -> None:
        """Copy ``size`` bytes from device memory, in the legacy default stream."""
        if size > 0:
            runtime.memcpy(self.address, src.address, size, _DEFAULT)

    def copy_from_device_async(self, src: MemoryPointer, size: int, stream: Any = None) -> None:
        """Copy ``size`` bytes from device memory, in ``stream`` or the current one."""
        if size > 0:
            runtime.memcpyAsync(self.address, src.address, size, _DEFAULT, current_pointer(stream))

    def copy_from_host(self, mem: Any, size: int) -> None:
        """Copy ``size`` bytes from the host address ``mem`` (an int or ``ctypes.c_void_p``); the host waits."""
        if size > 0:
            runtime.memcpy(self.address, _address(mem), size, _HOST_TO_DEVICE)

    def copy_from_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        """Like :meth:`copy_from_host`, in ``stream`` or the current one, without waiting where memory is pinned."""
        if size > 0:
            runtime.memcpyAsync(self.address, _address(mem), size, _HOST_TO_DEVICE, current_pointer(stream))

    def copy_from(self, mem: Any, size: int) -> None:
        """Copy from a host address or from device memory."""
        (self.copy_from_device if isinstance(mem, MemoryPointer) else self.copy_from_host)(mem, size)

    def copy_from_async(self, mem: Any, size: int, stream: Any = None) -> None:
        """Like :meth:`copy_from`, in ``stream`` or the current one."""
        copy = self.copy_from_device_async if isinstance(mem, MemoryPointer) else self.copy_from_host_async
        copy(mem, size, stream)

    def copy_to_host(self, mem: Any, size: int) -> None:
        """Copy ``size`` bytes to the host address ``mem``; the host waits."""
        if size > 0:
            runtime.memcpy(_address(mem), self.address, size, _DEVICE_TO_HOST)

    def copy_to_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        """Like :meth:`copy_to_host`, in ``stream`` or the current one, without waiting where memory is pinned."""
        if size > 0:
            runtime.memcpyAsync(_address(mem), self.address, size, _DEVICE_TO_HOST, current_pointer(stream))

    def memset(self, value: int, size: int) -> None:
        """Set ``size`` bytes, in the legacy default stream."""
        if size > 0:
            runtime.memset(self.address, value, size)

    def memset_async(self, value: int, size: int, stream: Any = None) -> None:
        """Set ``size`` bytes, in ``stream`` or the current one."""
        if size > 0:
            runtime.memsetAsync(self.address, value, size, current_pointer(stream))


def _address(memory: Any) -> int:
    if isinstance(memory, int):
        return memory
    if isinstance(memory, ctypes.c_void_p):
        return memory.value or 0
    return int(memory.value)


def plain_malloc(size: int) -> MemoryPointer:
    """The allocator without a pool: ``cudaMalloc`` for every array."""
    return MemoryPointer(Memory(size), 0)


def malloc_async(size: int) -> MemoryPointer:
    """An allocator on ``cudaMallocAsync``, in the current stream."""
    return MemoryPointer(MemoryAsync(size, get_current_stream()), 0)


def malloc_managed(size: int) -> MemoryPointer:
    """An allocator of managed memory."""
    return MemoryPointer(ManagedMemory(size), 0)
