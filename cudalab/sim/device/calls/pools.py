"""Memory pools and stream-ordered allocation as runtime calls (``pool_bookkeeping.py`` keeps the books).

Codes are those of an H200 (driver 580): freeing null does nothing, memory of ``cudaMalloc`` may be freed in stream
order too, managed memory may not (``cudaErrorNotSupported``), ``cudaFree`` of memory from a pool does not wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda.bindings.runtime import cudaError_t, cudaMemAllocationType, cudaMemLocationType, cudaMemPoolAttr

from cudalab.sim.device.calls.allocator import Allocator
from cudalab.sim.device.calls.graphs.graph_memory import GraphMemoryCalls
from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.calls.pool_bookkeeping import Block, Pool, PoolFull
from cudalab.sim.device.declaration import Address, Allocates, Handle
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.graphs.memory import Release
from cudalab.sim.device.queue.operation import Operation, Stream
from cudalab.sim.device.queue.ordering import Free
from cudalab.sim.device.state import DeviceState
from cudalab.sim.machine.memory.allocation import Allocation

_FIRST, _STEP = 0x0E00_0000, 0x40
_READ_WRITE = 3
_ON_DEVICE = int(cudaMemLocationType.cudaMemLocationTypeDevice)
_PINNED = int(cudaMemAllocationType.cudaMemAllocationTypePinned)
_SWITCHES = {
    cudaMemPoolAttr.cudaMemPoolReuseFollowEventDependencies: "follow_events",
    cudaMemPoolAttr.cudaMemPoolReuseAllowOpportunistic: "opportunistic",
    cudaMemPoolAttr.cudaMemPoolReuseAllowInternalDependencies: "internal",
}
_AMOUNTS = {
    cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold: "threshold",
    cudaMemPoolAttr.cudaMemPoolAttrReservedMemCurrent: "reserved",
    cudaMemPoolAttr.cudaMemPoolAttrReservedMemHigh: "reserved_high",
    cudaMemPoolAttr.cudaMemPoolAttrUsedMemCurrent: "used",
    cudaMemPoolAttr.cudaMemPoolAttrUsedMemHigh: "used_high",
    cudaMemPoolAttr.cudaMemPoolAttrMaxPoolSize: "max_size",
}
_FACTS = {
    cudaMemPoolAttr.cudaMemPoolAttrAllocationType: _PINNED,
    cudaMemPoolAttr.cudaMemPoolAttrExportHandleTypes: 0,
    cudaMemPoolAttr.cudaMemPoolAttrLocationType: _ON_DEVICE,
}
_HIGH = {
    cudaMemPoolAttr.cudaMemPoolAttrReservedMemHigh: ("reserved_high", "reserved"),
    cudaMemPoolAttr.cudaMemPoolAttrUsedMemHigh: ("used_high", "used"),
}


class PoolCalls(CallGroup):
    """Memory pools of the devices."""

    def __init__(self, state: DeviceState, allocator: Allocator, graph_memory: GraphMemoryCalls) -> None:
        super().__init__(state)
        self._allocator, self._graph_memory = allocator, graph_memory
        state.on_wait.append(self._release_pools)

    def clear(self) -> None:
        self._next_pool = _FIRST
        self._default_pools: list[Pool] = []
        for context in self.state.contexts.all:
            self._default_pools.append(Pool(self._next_pool + context.number * _STEP, context.number))
        self._next_pool = self._default_pools[-1].handle
        self._pools_now = list(self._default_pools)
        self._pools = {pool.handle: pool for pool in self._default_pools}
        self._pooled: dict[int, tuple[Pool, Block]] = {}
        self._freeing: set[int] = set()
        self._later: list[tuple[set[int], int]] = []
        """Pointers to free once those operations have ended."""
        if self._free_what_is_due in self.state.on_end:
            self.state.on_end.remove(self._free_what_is_due)

    # -- stream-ordered allocation -------------------------------------------------------------------------------------

    @call("cudaMallocAsync", "cuMemAllocAsync", cost="malloc_async", allocates=Allocates.POOLED)
    def malloc_async(self, size: int, stream: Handle = 0) -> Address:
        """Allocate from the current pool of the stream's device, for later work of the stream."""
        pool = self._pools_now[self.state.scheduler.streams.find(stream).device]
        return self._lend(pool, size, stream, "cudaMallocAsync")

    @call("cudaMallocFromPoolAsync", "cuMemAllocFromPoolAsync", cost="malloc_async", allocates=Allocates.POOLED)
    def malloc_from_pool(self, size: int, pool: Handle, stream: Handle = 0) -> Address:
        """Allocate from the given pool, for later work of the stream."""
        return self._lend(self._find_pool(pool), size, stream, "cudaMallocFromPoolAsync")

    def _lend(self, pool: Pool, size: int, handle: int, name: str) -> int:
        queue = self.state.scheduler.streams.find(handle)
        if size < 0:
            raise invalid_value(f"{name}: size must not be negative (got {size})")
        if not size:
            return 0
        if size > (total := int(self.state.profile.properties["totalGlobalMem"])):
            raise CudaError(
                cudaError_t.cudaErrorMemoryAllocation, f"{name} of {size} bytes: the device has {total} in all"
            )
        if queue.capture is not None:
            return self._graph_memory.capture_allocation(name, queue, size, pool.device, pool.shared_with)
        try:
            block, before = pool.take(size, queue, lambda free: self._comes_after(queue, free))
        except PoolFull as error:
            raise CudaError(cudaError_t.cudaErrorMemoryAllocation, f"{name} of {size} bytes: {error}") from None
        if before is not None and before.resting:
            self.state.recorder.allocated(block.pointer, size)  # its free has not happened, and now need not
        else:
            if before is not None and before.free is not None and before.stream is not queue:
                self.state.scheduler.order(queue, before.free)
            try:
                block.pointer = self._allocator.allocate(size, "device", name, at=block.pointer, device=pool.device)
            except CudaError:
                pool.forget(block)
                raise
        if pool.shared_with and (allocation := self.state.memory.find(block.pointer)) is not None:
            allocation.shared_with = pool.shared_with
        self._pooled[block.pointer] = pool, block
        return block.pointer

    def _comes_after(self, stream: Stream, operation: Operation) -> bool:
        """Does later work of ``stream`` wait for ``operation``, which has not ended?"""
        targets = {id(before) for before, _ in self.state.scheduler.streams.dependencies(stream)}
        seen: set[int] = set()
        todo = [operation]
        while todo:
            found = todo.pop()
            if id(found) in targets:
                return True
            if id(found) not in seen:
                seen.add(id(found))
                todo += [dependent for dependent, _ in found.dependents]
        return False

    @call("cudaFreeAsync", "cuMemFreeAsync", cost="malloc_async")
    def free_async(self, pointer: Address, stream: Handle = 0) -> None:
        """Free once the work that is in the stream now has ended. 0 does nothing."""
        queue = self.state.scheduler.streams.find(stream)
        if not pointer:
            return
        if queue.capture is not None:
            return self._graph_memory.capture_free(queue, pointer)
        memory = self.state.graph_memory.at(pointer)
        if memory is not None and not memory.lent:
            self.state.captures.refuse_unsafe("cudaFreeAsync")
        if self.state.graph_memory.freed_by_program("cudaFreeAsync", pointer):
            self.state.issue(Release(self.state.graph_memory.known("cudaFreeAsync", pointer)), queue)
            return
        allocation = self._allocator.owned(pointer, ("device", "managed"), "cudaFreeAsync")
        if allocation.kind == "managed":
            raise CudaError(
                cudaError_t.cudaErrorNotSupported,
                f"cudaFreeAsync: {pointer:#x} is managed memory, which cudaFree frees",
            )
        pooled = self._pooled.pop(pointer, None)
        if pointer in self._freeing and pooled is None:
            raise invalid_value(f"{pointer:#x} was passed to cudaFreeAsync before: free each allocation once")
        self._freeing.add(pointer)
        block = pooled[1] if pooled is not None else None

        def free() -> None:
            if block is not None and block.retaken is not None:
                if self.state.memory.find(pointer) is not None:
                    self.state.memory.forget_written(pointer)  # its new owner must write it before reading
                return
            self._freeing.discard(pointer)
            if self.state.memory.find(pointer) is not None:
                self._allocator.release(pointer, "cudaFreeAsync")

        operation = self.state.issue(Free(free, (pointer, allocation.size)), queue)
        if pooled is not None and block is not None:
            pooled[0].give_back(block, queue, operation)

    def free_at_once(self, allocation: Allocation) -> bool:
        """Free memory from a pool, for which ``cudaFree`` does not wait; False when it is from none."""
        pooled = self._pooled.pop(allocation.pointer, None)
        if pooled is None:
            return False
        pool, block = pooled
        pool.forget(block)
        pending = {operation.sequence for operation in self.state.scheduler.pending}
        if pending:
            self._freeing.add(allocation.pointer)
            if not self._later:
                self.state.on_end.append(self._free_what_is_due)
            self._later.append((pending, allocation.pointer))
        else:
            self._allocator.release(allocation.pointer, "cudaFree")
        return True

    def _free_what_is_due(self, operation: Operation) -> None:
        for pending, _ in self._later:
            pending.discard(operation.sequence)
        due = [pointer for pending, pointer in self._later if not pending]
        self._later = [entry for entry in self._later if entry[0]]
        if not self._later:
            self.state.on_end.remove(self._free_what_is_due)
        for pointer in due:
            self._freeing.discard(pointer)
            self._allocator.release(pointer, "cudaFree")

    # -- pools ---------------------------------------------------------------------------------------------------------

    @call("cudaMemPoolCreate", "cuMemPoolCreate", cost="malloc_async")
    def pool_create(
        self, allocation_type: int, location_type: int, location: int, handle_types: int = 0, max_size: int = 0
    ) -> Handle:
        """Create a pool of the device's own memory: a handle. ``max_size`` 0 is no limit."""
        there = 0 <= location < self.state.profile.devices
        if allocation_type != _PINNED or location_type != _ON_DEVICE or not there:
            raise invalid_value(
                "cudaMemPoolCreate: allocType must be cudaMemAllocationTypePinned and location a device "
                f"(got type {allocation_type}, location {location_type}, {location})"
            )
        if handle_types:
            raise CudaError(
                cudaError_t.cudaErrorNotSupported, "cudaMemPoolCreate: pools are not shared with other processes here"
            )
        self._next_pool += _STEP
        pool = Pool(self._next_pool, location, max_size)
        self._pools[pool.handle] = pool
        return pool.handle

    @call("cudaMemPoolDestroy", "cuMemPoolDestroy", cost="malloc_async")
    def pool_destroy(self, pool: Handle) -> None:
        """Destroy a pool. Memory allocated from it stays valid until it is freed."""
        found = self._find_pool(pool)
        if found in self._default_pools:
            raise invalid_value("cudaMemPoolDestroy: the device's default pool cannot be destroyed")
        del self._pools[pool]
        if self._pools_now[found.device] is found:
            self._pools_now[found.device] = self._default_pools[found.device]

    @call("cudaMemPoolGetAttribute", "cuMemPoolGetAttribute")
    def pool_get_attribute(self, pool: Handle, attribute: int) -> int:
        """The value of a ``cudaMemPoolAttr`` number: bytes, or 0 and 1 for a switch."""
        found = self._find_pool(pool)
        if attribute in _SWITCHES:
            return int(getattr(found, _SWITCHES[cudaMemPoolAttr(attribute)]))
        if attribute in _AMOUNTS:
            return int(getattr(found, _AMOUNTS[cudaMemPoolAttr(attribute)]))
        if attribute == cudaMemPoolAttr.cudaMemPoolAttrLocationId:
            return found.device
        if attribute in _FACTS:
            return _FACTS[cudaMemPoolAttr(attribute)]
        raise invalid_value(f"{attribute} is no attribute of a memory pool of this device")

    @call("cudaMemPoolSetAttribute", "cuMemPoolSetAttribute")
    def pool_set_attribute(self, pool: Handle, attribute: int, value: int) -> None:
        """Set a switch or the release threshold; the high-water marks can only be reset to 0."""
        found = self._find_pool(pool)
        if attribute in _SWITCHES:
            setattr(found, _SWITCHES[cudaMemPoolAttr(attribute)], bool(value))
        elif attribute == cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold:
            found.threshold = value
        elif attribute in _HIGH and value == 0:
            high, now = _HIGH[cudaMemPoolAttr(attribute)]
            setattr(found, high, getattr(found, now))
        elif attribute in _HIGH:
            raise invalid_value(f"a high mark can only be set to 0, which starts it anew (got {value})")
        else:
            raise invalid_value(f"attribute {attribute} of a memory pool cannot be set")

    @call("cudaMemPoolTrimTo", "cuMemPoolTrimTo", cost="malloc_async")
    def pool_trim(self, pool: Handle, keep: int) -> None:
        """Release unused memory to the device, but keep at least ``keep`` bytes reserved."""
        self._find_pool(pool).release(keep)

    @call("cudaMemPoolSetAccess", "cuMemPoolSetAccess")
    def pool_set_access(self, pool: Handle, places: Sequence[tuple[int, int, int]]) -> None:
        """Set access by ``(location type, device, flags)``. A device always has full access to its own pools."""
        found = self._find_pool(pool)
        for kind, number, flags in places:
            if flags not in (0, _READ_WRITE):
                raise CudaError(
                    cudaError_t.cudaErrorNotSupported,
                    f"cudaMemPoolSetAccess: access is none (0) or read and write (3), got {flags}",
                )
            there = kind == _ON_DEVICE and 0 <= number < self.state.profile.devices
            if not there or (number == found.device and flags != _READ_WRITE):
                raise CudaError(
                    cudaError_t.cudaErrorInvalidDevice,
                    f"cudaMemPoolSetAccess: device {number} with flags {flags}: the pool is of device {found.device}, "
                    f"which keeps read and write access; the machine has {self.state.profile.devices} device(s)",
                )
            found.access[number] = flags
        found.shared_with = frozenset(number for number, how in found.access.items() if how and number != found.device)
        for pointer, (pool_of, _) in self._pooled.items():
            allocation = self.state.memory.find(pointer)
            if pool_of is found and allocation is not None:
                allocation.shared_with = found.shared_with

    @call("cudaMemPoolGetAccess", "cuMemPoolGetAccess")
    def pool_get_access(self, pool: Handle, kind: int, number: int) -> int:
        """The access of a device: 0 none, 1 read, 3 read and write."""
        found = self._find_pool(pool)
        if kind != _ON_DEVICE or not 0 <= number < self.state.profile.devices:
            raise invalid_value(f"cudaMemPoolGetAccess: there is no device {number}")
        return found.access.get(number, 0)

    @call("cudaDeviceGetDefaultMemPool", "cuDeviceGetDefaultMemPool")
    def default_pool(self, number: int = 0) -> Handle:
        """The pool that a device was made with."""
        return self._default_pools[self.state.contexts[number].number].handle

    @call("cudaDeviceGetMemPool", "cuDeviceGetMemPool")
    def current_pool(self, number: int = 0) -> Handle:
        """The pool that ``cudaMallocAsync`` allocates from in streams of a device."""
        return self._pools_now[self.state.contexts[number].number].handle

    @call("cudaDeviceSetMemPool", "cuDeviceSetMemPool")
    def set_current_pool(self, pool: Handle, number: int = 0) -> None:
        """Choose the pool that ``cudaMallocAsync`` allocates from in streams of a device."""
        self._pools_now[self.state.contexts[number].number] = self._find_pool(pool)

    def pool_of(self, address: int) -> int:
        """The pool that memory at ``address`` is from; 0 for none. No call, takes no modelled time."""
        allocation = self.state.memory.find(address)
        entry = self._pooled.get(allocation.pointer) if allocation is not None else None
        return entry[0].handle if entry is not None else 0

    def _find_pool(self, handle: int) -> Pool:
        pool = self._pools.get(handle)
        if pool is None:
            raise invalid_value(
                f"{handle:#x} is no memory pool of this device; it was destroyed, or made before a reset"
            )
        return pool

    def _release_pools(self) -> None:
        for pool in {*self._pools.values(), *(pool for pool, _ in self._pooled.values())}:
            pool.synchronised()
