"""Calls about the device as a whole: waiting for all work, errors, attributes, limits, flags and reset."""

from __future__ import annotations

from cuda.bindings.runtime import cudaDeviceAttr, cudaError_t, cudaLimit

from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.declaration import InCapture, Waits
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.machine.memory.heap import DEFAULT, rounded_limit

_MAP_HOST = 8
_SCHEDULES = (0, 1, 2, 4)
_FLAG_MASK = 0x1F | 0x80
_LEAST_FIFO = 512 << 10
_MOST_STACK = 256 << 10  # an H200 takes this and refuses twice as much


class DeviceCalls(CallGroup):
    """The device as a whole."""

    def clear(self) -> None:
        self._limits_now = dict(self.state.profile.limits)
        self.state.memory.heap.limit = self._limits_now.get("MallocHeapSize", DEFAULT)
        self.state.memory.stack_limit = self._limits_now.get("StackSize", 1024)
        self._flags = _MAP_HOST

    # -- the device ----------------------------------------------------------------------------------------------------

    @call(
        "cudaDeviceSynchronize",
        "cuCtxSynchronize",
        cost="synchronize",
        waits=Waits.DEVICE,
        in_capture=InCapture.REFUSED,
    )
    def synchronize(self) -> None:
        """Wait until everything has ended; raises what went wrong in a kernel."""
        self.state.wait_for_all()

    # -- its primary context -------------------------------------------------------------------------------------------

    @call("cudaInitDevice", needs_context=False)
    def initialize(self) -> None:
        """Make the primary context, if there is none, without making it current in this host thread."""
        if not self.state.context.active:
            self.state.make_context(by_runtime=True)

    @call("cudaSetDevice")
    def set_device(self) -> None:
        """Make the device current in this host thread. Since CUDA 12.0 this makes its primary context, as every call
        does that needs it."""

    @call("cuDevicePrimaryCtxRetain", needs_context=False)
    def retain_context(self) -> None:
        """Make the primary context, if there is none, and hold it."""
        if not self.state.context.active:
            self.state.make_context(by_runtime=False)
        self.state.context.retained += 1

    @call("cuDevicePrimaryCtxRelease", cost=None, when_lost=True, waits=Waits.DEVICE, needs_context=False)
    def release_context(self) -> None:
        """Hold the primary context no longer. With the last one who did, it is destroyed."""
        context = self.state.context
        if not context.retained:
            raise CudaError(
                cudaError_t.cudaErrorDeviceUninitialized,
                "cuDevicePrimaryCtxRelease: the primary context was not retained, or was released as often already",
            )
        context.retained -= 1
        if not context.retained and not context.made_by_runtime:
            self.reset()

    @call(
        "cudaDeviceReset", "cuDevicePrimaryCtxReset", cost=None, when_lost=True, waits=Waits.DEVICE, needs_context=False
    )
    def reset(self) -> None:
        """Everything that the process made on the device is gone, work and the primary context included.

        As on a GPU, a device that is lost to a fault in a kernel does not come back with this: later calls return
        ``cudaErrorDevicesUnavailable``. :func:`cudalab.sim.device.reset` gives a new device.
        """
        state = self.state
        state.context.destroyed()
        if state.lost is not None:
            state.lost = CudaError(
                cudaError_t.cudaErrorDevicesUnavailable,
                f"the device was lost ({state.lost.code.name}) and cudaDeviceReset does not bring it back: restart the "
                "kernel, or call cudalab.reset() on the simulated device",
            )
            state.errors.forget()
            return
        state.scheduler.wait_for_all()
        now = state.scheduler.host_ns
        state.memory.free_all()
        state.reset()
        state.scheduler.host_ns = state.scheduler.loop.now = now

    @call(cost=None, needs_context=False)
    def host_work(self, ns: int) -> None:
        """The host computes for ``ns`` of modelled time; the device goes on meanwhile."""
        if ns < 0:
            raise invalid_value(f"host_work takes a time of at least 0 ns (got {ns})")
        self.state.spend(ns, even_if_lost=True, computes=True)

    # -- errors --------------------------------------------------------------------------------------------------------

    @call("cudaGetLastError", when_lost=True, needs_context=False)
    def get_last_error(self) -> int:
        """The number of this host thread's last error, which is reset to success (0)."""
        return int(self.state.errors.take())

    @call("cudaPeekAtLastError", when_lost=True, needs_context=False)
    def peek_at_last_error(self) -> int:
        """The number of this host thread's last error, which stays."""
        return int(self.state.errors.peek())

    # -- properties ----------------------------------------------------------------------------------------------------

    @call("cudaDeviceGetAttribute", "cuDeviceGetAttribute", when_lost=True, needs_context=False)
    def attribute(self, attribute: int) -> int:
        """The value of a ``cudaDeviceAttr`` number."""
        try:
            return self.state.profile.attributes[cudaDeviceAttr(attribute).name.removeprefix("cudaDevAttr")]
        except (ValueError, KeyError):
            raise invalid_value(f"{attribute} is no device attribute of this device") from None

    @call("cudaDeviceGetLimit", "cuCtxGetLimit")
    def get_limit(self, limit: int) -> int:
        """The value of a ``cudaLimit`` number."""
        return self._limits_now[self._limit_name(limit)]

    @call("cudaDeviceSetLimit", "cuCtxSetLimit", waits=Waits.DEVICE, in_capture=InCapture.UNSAFE)
    def set_limit(self, limit: int, value: int) -> None:
        """Set the value of a ``cudaLimit`` number, within what an H200 accepts."""
        name = self._limit_name(limit)
        most_persisting = self.state.profile.properties["persistingL2CacheMaxSize"]
        if name == "PersistingL2CacheSize" and value > most_persisting:
            raise invalid_value(f"the persisting part of the L2 is at most {most_persisting} bytes (got {value})")
        if name == "PrintfFifoSize":
            value = max(value, _LEAST_FIFO)
        if name == "MallocHeapSize":
            if self.state.memory.heap.touched:
                raise invalid_value(
                    "a kernel has used the heap already, and its size stays what it is: set cudaLimitMallocHeapSize "
                    "before the first launch that calls malloc or new"
                )
            value = self.state.memory.heap.limit = rounded_limit(value)
        if name == "StackSize":
            if value > _MOST_STACK:
                raise invalid_value(f"a thread's stack has at most {_MOST_STACK} bytes (got {value})")
            self.state.wait_for_all()  # launches before this one have the stack of before
            value = self.state.memory.stack_limit = -(-max(value, 1) // 16) * 16
        self._limits_now[name] = value

    def _limit_name(self, limit: int) -> str:
        try:
            name: str = cudaLimit(limit).name.removeprefix("cudaLimit")
        except ValueError:
            raise invalid_value(f"{limit} is no cudaLimit") from None
        if name not in self._limits_now:
            raise CudaError(cudaError_t.cudaErrorUnsupportedLimit, f"cudaLimit{name} is not supported by this device")
        return name

    @call("cudaGetDeviceFlags", "cuCtxGetFlags", when_lost=True, needs_context=False)
    def get_flags(self) -> int:
        """The device flags: how host threads wait, and that mapped memory is on."""
        return self._flags

    @call("cudaSetDeviceFlags", needs_context=False)
    def set_flags(self, flags: int) -> None:
        """How host threads wait. Accepted; modelled waiting takes the same time either way."""
        if flags & ~_FLAG_MASK or flags & 7 not in _SCHEDULES:
            raise invalid_value(f"cudaSetDeviceFlags: {flags:#x} are no device flags")
        self._flags = flags | _MAP_HOST
