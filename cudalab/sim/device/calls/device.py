"""Calls about a device as a whole: choosing it, waiting for all work, errors, attributes, limits, flags and reset."""

from __future__ import annotations

from cuda.bindings.runtime import cudaDeviceAttr, cudaError_t, cudaLimit

from cudalab.sim.device.calls.group import CallGroup, call
from cudalab.sim.device.context import PrimaryContext
from cudalab.sim.device.declaration import InCapture, Waits
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.machine.memory.heap import DEFAULT, rounded_limit

_MAP_HOST = 8
_MOST_CACHE_CONFIG = 3
_SCHEDULES = (0, 1, 2, 4)
_FLAG_MASK = 0x1F | 0x80
_LEAST_FIFO = 512 << 10
_MOST_FETCHED = 128
_MOST_STACK = 256 << 10  # an H200 takes this and refuses twice as much


class DeviceCalls(CallGroup):
    """The devices as a whole. ``number`` is one of them, which the layers above have checked."""

    def clear(self) -> None:
        self._limits = [dict(self.state.profile.limits) for _ in self.state.contexts.all]
        self.state.memory.heap.limit = self._limits_now.get("MallocHeapSize", DEFAULT)
        for number, limits in enumerate(self._limits):
            self.state.memory.stack_limits[number] = limits.get("StackSize", 1024)
        self._flags = [_MAP_HOST for _ in self.state.contexts.all]
        self._cache_configs = [0 for _ in self.state.contexts.all]

    @property
    def _limits_now(self) -> dict[str, int]:
        """The limits of the current device."""
        return self._limits[self.state.contexts.number]

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
    def initialize(self, number: int = 0) -> None:
        """Make a primary context, if there is none, without making it current in this host thread."""
        context = self.state.contexts[number]
        if not context.active:
            self.state.make_context(context, by_runtime=True)

    @call("cudaSetDevice", when_lost=True, needs_context=False)
    def set_device(self, number: int = 0) -> None:
        """Make a device current in this host thread. Since CUDA 12.0 this makes its primary context, as every call does
        that needs it."""
        context = self.state.contexts[number]
        if not context.active:
            self.state.make_context(context, by_runtime=True)
        self.state.contexts.use(number)

    @call("cuCtxSetCurrent", cost=None, when_lost=True, needs_context=False)
    def set_current_context(self, context: int) -> None:
        """Replace this host thread's current context; 0: by none."""
        self.state.contexts.set_current(context)

    @call("cuCtxPushCurrent", cost=None, when_lost=True, needs_context=False)
    def push_context(self, context: int) -> None:
        """Make a context current; the one before comes back with ``pop_context``."""
        self.state.contexts.push(context)

    @call("cuCtxPopCurrent", cost=None, when_lost=True, needs_context=False)
    def pop_context(self) -> int:
        """Take this host thread's current context away, and return it; 0: there was none."""
        return self.state.contexts.pop()

    @call("cuDevicePrimaryCtxRetain", needs_context=False)
    def retain_context(self, number: int = 0) -> int:
        """Make a primary context, if there is none, and hold it."""
        context = self.state.contexts[number]
        if not context.active:
            self.state.make_context(context, by_runtime=False)
        context.retained += 1
        return context.handle

    @call("cuDevicePrimaryCtxRelease", cost=None, when_lost=True, waits=Waits.DEVICE, needs_context=False)
    def release_context(self, number: int = 0) -> None:
        """Hold a primary context no longer. With the last one who did, it is destroyed."""
        context = self.state.contexts[number]
        if context.retained:
            context.retained -= 1
        elif context.made_by_runtime:  # it holds the context once
            context.made_by_runtime = False
        else:
            raise CudaError(
                cudaError_t.cudaErrorDeviceUninitialized,
                "cuDevicePrimaryCtxRelease: the primary context was not retained, or was released as often already",
            )
        if not context.retained and not context.made_by_runtime:
            self.reset(number)

    @call(
        "cudaDeviceReset", "cuDevicePrimaryCtxReset", cost=None, when_lost=True, waits=Waits.DEVICE, needs_context=False
    )
    def reset(self, number: int | None = None) -> None:
        """Everything that the process made on a device, by default the current one, is gone, work and the primary
        context included.

        As on a GPU, a device that is lost to a fault in a kernel does not come back with this: later calls return
        ``cudaErrorDevicesUnavailable``. :func:`cudalab.sim.device.reset` gives a new device.
        """
        state = self.state
        context = state.contexts[self._of(number)]
        context.destroyed()
        if state.lost is not None:
            state.lost = CudaError(
                cudaError_t.cudaErrorDevicesUnavailable,
                f"the device was lost ({state.lost.code.name}) and cudaDeviceReset does not bring it back: restart the "
                "kernel, or call cudalab.reset() on the simulated device",
            )
            state.errors.forget()
            return
        state.scheduler.wait_for_all(device=context.number)
        if any(other.active for other in state.contexts.all):
            self._reset_one(context)
            return
        now = state.scheduler.host_ns
        state.memory.free_all()
        state.reset()
        state.scheduler.host_ns = state.scheduler.loop.now = now

    def _reset_one(self, context: PrimaryContext) -> None:
        """One of several devices: what the others have stays."""
        state, number = self.state, context.number
        state.memory.free_all(number)
        state.scheduler.streams.forget(number)
        self._limits[number], self._flags[number] = dict(state.profile.limits), _MAP_HOST

    @call(cost=None, needs_context=False)
    def host_work(self, ns: int) -> None:
        """The host computes for ``ns`` of modelled time; the device goes on meanwhile."""
        if ns < 0:
            raise invalid_value(f"host_work takes a time of at least 0 ns (got {ns})")
        self.state.spend(ns, even_if_lost=True, computes=True)

    @call(cost=None, needs_context=False, observed=False)
    def library_work(self, ns: int) -> None:
        """CuPy, or ``cuda.bindings``, keeps the host for ``ns`` of modelled time beside the calls that it makes."""
        self.state.spend(ns, even_if_lost=True, computes=True)

    def library_time(self, ns: int) -> None:
        """The same, for a library to call: where nothing else happens meanwhile, only the clock goes on. Slices of
        arrays and blocks of streams make no call of CUDA, and are to take no longer here than they must. In a host
        function, whose waiter is inside meanwhile, it is refused as any call."""
        if self.state.is_alone:
            with self.state.lock:
                if self.state.passes(ns):
                    return
        self.library_work(ns)

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
    def attribute(self, attribute: int, number: int = 0) -> int:
        """The value of a ``cudaDeviceAttr`` number."""
        _ = self.state.contexts[number]
        try:
            name = cudaDeviceAttr(attribute).name.removeprefix("cudaDevAttr")
            value = self.state.profile.attributes[name]
            if name == "ComputeMode":
                return self.state.profile.compute_mode(number)
            return value + number if name == "PciBusId" else value
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
        if name == "PersistingL2CacheSize":
            value = self._set_aside(value)
        if name == "MaxL2FetchGranularity" and value > _MOST_FETCHED:
            raise invalid_value(f"the L2 fetches at most {_MOST_FETCHED} bytes at once (got {value})")
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
            value = -(-max(value, 1) // 16) * 16
            self.state.memory.stack_limits[self.state.contexts.number] = value
        self._limits_now[name] = value

    @call("cudaCtxResetPersistingL2Cache", "cuCtxResetPersistingL2Cache")
    def reset_persisting_l2(self) -> None:
        """All persisting lines of the L2 become normal ones, those of launches before it included (starts.py); the
        set-aside and the windows of streams stay."""
        number = self.state.contexts.number
        self.state.scheduler.when_started(number, self.state.timer.l2_of(number).reset_persisting)

    def _set_aside(self, value: int) -> int:
        """Set the persisting part of the L2, in its units, when everything has ended (seen on an H200)."""
        most = self.state.profile.properties["persistingL2CacheMaxSize"]
        if value > most:
            raise invalid_value(
                f"the persisting part of the L2 has at most {most} bytes, persistingL2CacheMaxSize (got {value})"
            )
        self.state.wait_for_all()
        l2 = self.state.timer.l2_of(self.state.contexts.number)
        l2.set_aside = l2.rounded(value)
        return l2.set_aside

    def _limit_name(self, limit: int) -> str:
        try:
            name: str = cudaLimit(limit).name.removeprefix("cudaLimit")
        except ValueError:
            raise invalid_value(f"{limit} is no cudaLimit") from None
        if name not in self._limits_now:
            raise CudaError(cudaError_t.cudaErrorUnsupportedLimit, f"cudaLimit{name} is not supported by this device")
        return name

    @call("cudaDeviceGetCacheConfig", "cuCtxGetCacheConfig", when_lost=True)
    def get_cache_config(self) -> int:
        """How the L1 was asked to be shared with shared memory, a ``cudaFuncCache`` number: kept, and of no effect on
        the devices of today."""
        return self._cache_configs[self.state.contexts.number]

    @call("cudaDeviceSetCacheConfig", "cuCtxSetCacheConfig")
    def set_cache_config(self, config: int) -> None:
        """Ask how the L1 is to be shared with shared memory."""
        if not 0 <= config <= _MOST_CACHE_CONFIG:
            raise invalid_value(f"{config} is no cudaFuncCache")
        self._cache_configs[self.state.contexts.number] = config

    @call("cudaGetDeviceFlags", "cuCtxGetFlags", when_lost=True, needs_context=False)
    def get_flags(self, number: int | None = None) -> int:
        """The flags of a device, by default the current one: how host threads wait, and that mapped memory is on."""
        return self._flags[self._of(number)]

    @call("cudaSetDeviceFlags", "cuDevicePrimaryCtxSetFlags", needs_context=False)
    def set_flags(self, flags: int, number: int | None = None) -> None:
        """How host threads wait. Accepted; modelled waiting takes the same time either way."""
        if flags & ~_FLAG_MASK or flags & 7 not in _SCHEDULES:
            raise invalid_value(f"cudaSetDeviceFlags: {flags:#x} are no device flags")
        self._flags[self._of(number)] = flags | _MAP_HOST

    def _of(self, number: int | None) -> int:
        """A device that a call names; the current one for None."""
        return self.state.contexts.number if number is None else self.state.contexts[number].number
