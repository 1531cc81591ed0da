"""The simulated device: the boundary of runtime calls.

Every public method is one call that can be recorded, stored and replayed (``record.py``); ``cudalab.sim.cudart``,
``cudalab.sim.driver`` and ``cudalab.sim.cupy`` are thin layers over it. Units: bytes, and ns of modelled time. Pointers
and handles are plain integers. Errors are :class:`CudaError`, with the code that the real call returns and a note.

The calls are grouped by what they are about:

``memory_calls.py``   allocation, registration, pointer attributes
``copy_calls.py``     copies and memsets
``stream_calls.py``   streams, events, host functions
``kernel_calls.py``   modules, launches and their modelled time, array operations
``texture_calls.py``  CUDA arrays, texture and surface objects
this module           waiting for all, errors, limits, properties, reset
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from cuda.bindings.runtime import cudaDeviceAttr, cudaError_t, cudaLimit

from cudalab.sim.device.calls.core import call
from cudalab.sim.device.calls.kernels import FunctionInfo
from cudalab.sim.device.calls.textures import TextureCalls
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.log.recorder import Log
from cudalab.sim.device.queue.operation import Operation
from cudalab.sim.device.timing.cost import KernelTime as LaunchTime
from cudalab.sim.machine.memory.heap import DEFAULT, rounded_limit

__all__ = ["Device", "FunctionInfo", "LaunchTime"]

_MAP_HOST = 8
_SCHEDULES = (0, 1, 2, 4)
_FLAG_MASK = 0x1F | 0x80
_LEAST_FIFO = 512 << 10
_MOST_STACK = 256 << 10  # an H200 takes this and refuses twice as much


class Device(TextureCalls):
    """One simulated device.

    ``profile`` names a file in ``profiles/``; ``memory`` is made new unless given; ``record`` switches the recording of
    calls on (``device.log``).
    """

    def _reset_state(self) -> None:
        super()._reset_state()
        self._limits_now = dict(self.profile.limits)
        self.memory.heap.limit = self._limits_now.get("MallocHeapSize", DEFAULT)
        self.memory.stack_limit = self._limits_now.get("StackSize", 1024)
        self._flags = _MAP_HOST

    # -- the device ----------------------------------------------------------------------------------------------------

    @call("synchronize")
    def synchronize(self) -> None:
        """``cudaDeviceSynchronize``: wait until everything has ended; raises what went wrong in a kernel."""
        self._wait_for_all()

    @call(None, when_lost=True)
    def reset(self) -> None:
        """``cudaDeviceReset``: everything that the process made on the device is gone, work included.

        As on a GPU, a device that is lost to a fault in a kernel does not come back with this: later calls return
        ``cudaErrorDevicesUnavailable``. :func:`cudalab.sim.device.reset` gives a new device.
        """
        if self._lost is not None:
            self._lost = CudaError(
                cudaError_t.cudaErrorDevicesUnavailable,
                f"the device was lost ({self._lost.code.name}) and cudaDeviceReset does not bring it back: restart the "
                "kernel, or call cudalab.reset() on the simulated device",
            )
            self._last_error.clear()
            return
        self._scheduler.wait_for_all()
        now = self._scheduler.host_ns
        self.memory.free_all()
        self._reset_state()
        self._scheduler.host_ns = self._scheduler.loop.now = now

    @call(None)
    def host_work(self, ns: int) -> None:
        """The host computes for ``ns`` of modelled time; the device goes on meanwhile."""
        if ns < 0:
            raise self._invalid(f"host_work takes a time of at least 0 ns (got {ns})")
        self._spend(ns, even_if_lost=True)

    def run_ahead(self, pending: Callable[[], bool]) -> None:
        """For those who look: the host computes, from one event of the device to the next, while ``pending()``. It
        waits for nothing, so that no missing wait is hidden."""
        with self._lock:
            while pending() and (due := self._scheduler.loop.next_time) is not None:
                self.host_work(max(0, due - self._scheduler.host_ns))

    # -- errors --------------------------------------------------------------------------------------------------------

    @call(when_lost=True)
    def get_last_error(self) -> int:
        """``cudaGetLastError``: the number of this host thread's last error, which becomes success (0)."""
        return int(self._last_error.pop(threading.get_ident(), cudaError_t.cudaSuccess))

    @call(when_lost=True)
    def peek_at_last_error(self) -> int:
        """``cudaPeekAtLastError``: the same without taking it."""
        return int(self._last_error.get(threading.get_ident(), cudaError_t.cudaSuccess))

    def fail(self, code: cudaError_t, note: str = "") -> CudaError:
        """An error that a layer above found itself: remembered as the last error; raise what is returned."""
        error = CudaError(code, note)
        self._remember(error)
        return error

    # -- properties ----------------------------------------------------------------------------------------------------

    @property
    def properties(self) -> Mapping[str, Any]:
        """Fields of ``cudaDeviceProp`` by name. No call, takes no modelled time."""
        return self.profile.properties

    @call(when_lost=True)
    def attribute(self, attribute: int) -> int:
        """``cudaDeviceGetAttribute``: the value of a ``cudaDeviceAttr`` number."""
        try:
            return self.profile.attributes[cudaDeviceAttr(attribute).name.removeprefix("cudaDevAttr")]
        except (ValueError, KeyError):
            raise self._invalid(f"{attribute} is no device attribute of this device") from None

    @call()
    def get_limit(self, limit: int) -> int:
        """``cudaDeviceGetLimit``: the value of a ``cudaLimit`` number."""
        return self._limits_now[self._limit_name(limit)]

    @call()
    def set_limit(self, limit: int, value: int) -> None:
        """``cudaDeviceSetLimit``"""
        name = self._limit_name(limit)
        if name == "PersistingL2CacheSize" and value > self.properties["persistingL2CacheMaxSize"]:
            raise self._invalid(
                f"the persisting part of the L2 is at most {self.properties['persistingL2CacheMaxSize']} bytes "
                f"(got {value})"
            )
        if name == "PrintfFifoSize":
            value = max(value, _LEAST_FIFO)
        if name == "MallocHeapSize":
            if self.memory.heap.touched:
                raise self._invalid(
                    "a kernel has used the heap already, and its size stays what it is: set cudaLimitMallocHeapSize "
                    "before the first launch that calls malloc or new"
                )
            value = self.memory.heap.limit = rounded_limit(value)
        if name == "StackSize":
            if value > _MOST_STACK:
                raise self._invalid(f"a thread's stack has at most {_MOST_STACK} bytes (got {value})")
            self._wait_for_all()  # launches before this one have the stack of before
            value = self.memory.stack_limit = -(-max(value, 1) // 16) * 16
        self._limits_now[name] = value

    def _limit_name(self, limit: int) -> str:
        try:
            name = cudaLimit(limit).name.removeprefix("cudaLimit")
        except ValueError:
            raise self._invalid(f"{limit} is no cudaLimit") from None
        if name not in self._limits_now:
            raise CudaError(cudaError_t.cudaErrorUnsupportedLimit, f"cudaLimit{name} is not supported by this device")
        return name

    @call(when_lost=True)
    def get_flags(self) -> int:
        """``cudaGetDeviceFlags``"""
        return self._flags

    @call()
    def set_flags(self, flags: int) -> None:
        """``cudaSetDeviceFlags``: how host threads wait. Accepted; modelled waiting takes the same time either way."""
        if flags & ~_FLAG_MASK or flags & 7 not in _SCHEDULES:
            raise self._invalid(f"cudaSetDeviceFlags: {flags:#x} are no device flags")
        self._flags = flags | _MAP_HOST

    # -- looking, without a call ---------------------------------------------------------------------------------------

    def view(self, address: int, size: int) -> memoryview:
        """The bytes of one device, pinned or managed allocation as they are now. Takes no modelled time; what the
        device has still to do is not in them. Raises ``InvalidPointer`` (a ``ValueError``)."""
        return self.memory.view(address, size)

    @property
    def lost(self) -> CudaError | None:
        """The error that every call returns now, if a kernel has failed."""
        return self._lost

    @property
    def idle(self) -> bool:
        """Has everything that was enqueued ended?"""
        return self._scheduler.idle

    @property
    def pending(self) -> list[Operation]:
        """What was enqueued and has not ended, in that order."""
        return self._scheduler.pending

    @property
    def log(self) -> Log:
        """The recording; empty unless the device was made with ``record=True``."""
        return self._recorder.log

    def _on_end(self, operation: Operation) -> None:
        super()._on_end(operation)
        self._recorder.ended(operation.sequence, operation.kind, operation.name, operation.start, operation.end)
