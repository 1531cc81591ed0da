"""The primary contexts of the machine's devices, the contexts that are current in each host thread, and who may reach
whose memory.

The runtime has no call that must come first. Whatever needs the device makes its primary context and makes it current
in the calling host thread; questions about errors, versions and properties do not (CUDA C++ Programming Guide,
"Initialization"; CUDA Runtime API, "Interactions with the CUDA Driver API"). Calls of the driver API never do it by
themselves: they fail in a thread that has no current context (CUDA Driver API, "Primary Context Management"). A device
reaches the memory of another once its context has been given access, in one direction at a time ("Peer Context Memory
Access").

**Several devices.** One ``Device`` object stands for the whole machine: one clock, one event loop, one range of
addresses (unified addressing), one log and one hazard report, so that order and hazards across devices need nothing of
their own. A *number* tells its devices apart. A host thread's current context names the device that its calls mean;
every stream, event, allocation, pool and module knows the number that it was made on, and an operation belongs to the
device of its stream. Each device has its own context (here), limits (``calls/device.py``), default streams
(``queue/stream.py``), engines and operations that are pending (``queue/scheduler.py``). A fault in a
kernel loses all devices, as on a machine with two H200. With one device, number 0, all of this is what it would be
without.

What is simplified: loading the driver (``cuInit``) and making the context are one figure, because one figure was
measured, so a device that was reset pays for both again. A learner would notice that the first question about the
number of devices costs nothing, where a GPU's driver is loaded by it. And a context that the driver API has made is
destroyed when that releases it, though the runtime may have used it as well.
"""

from __future__ import annotations

import threading

from cuda.bindings.runtime import cudaError_t

from cudalab.sim.device.error import CudaError

_FIRST, _STEP = 0x0D00_0000, 0x40


class _Current(threading.local):
    """The contexts of one host thread, the current one last; 0 for none."""

    def __init__(self) -> None:
        self.stack: list[int] = []
        self.number = 0
        """The device of the context that was current last."""


class PrimaryContext:
    """The primary context of one device: whether it exists, who holds it, and which other devices it may reach."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.handle = _FIRST + number * _STEP
        """Its ``CUcontext``, which stays the same when the context is destroyed and made anew."""
        self.active = False
        self.retained = 0
        """How often the driver API has retained it and not released it."""
        self.made_by_runtime = False
        """The runtime holds a context that it has made until a reset."""
        self.peers: set[int] = set()
        """The devices whose memory it may reach."""

    def destroyed(self) -> None:
        """A reset: it stays current where it was, and the next call of the runtime makes it anew."""
        self.active = self.made_by_runtime = False
        self.peers.clear()


class Contexts:
    """The primary contexts of all devices, and in which host threads they are current."""

    def __init__(self, count: int) -> None:
        self.all = [PrimaryContext(number) for number in range(count)]
        self._several = count > 1
        self._current = _Current()

    def __getitem__(self, number: int) -> PrimaryContext:
        """That of a device; ``cudaErrorInvalidDevice`` when there is none of that number."""
        most = len(self.all) - 1
        if not 0 <= number <= most:
            there = f"the devices are 0 to {most}" if most else "there is one device, number 0"
            raise CudaError(cudaError_t.cudaErrorInvalidDevice, f"{there} (asked for {number})")
        return self.all[number]

    @property
    def number(self) -> int:
        """The device that calls of the calling host thread mean: that of its current context, or of its last one."""
        return self._current.number if self._several else 0

    @property
    def here(self) -> PrimaryContext:
        """The primary context of that device."""
        return self.all[self._current.number] if self._several else self.all[0]

    @property
    def current(self) -> int:
        """The context of the calling host thread; 0 for none."""
        stack = self._current.stack
        return stack[-1] if stack else 0

    @property
    def ready(self) -> bool:
        """Is a context current in the calling host thread, and does it exist?"""
        current = self._current  # every call of the runtime asks
        stack = current.stack
        return bool(stack) and stack[-1] != 0 and self.all[current.number if self._several else 0].active

    def number_of(self, handle: int) -> int:
        """The device of a context; ``CUDA_ERROR_INVALID_CONTEXT`` when it is none."""
        number, rest = divmod(handle - _FIRST, _STEP)
        if rest or not 0 <= number < len(self.all):
            raise CudaError(
                cudaError_t.cudaErrorDeviceUninitialized,
                f"{handle:#x} is no context: the simulated devices have their primary contexts only, which "
                "cuDevicePrimaryCtxRetain gives",
            )
        return number

    def use(self, number: int) -> None:
        """Make a device's primary context current in place of the one before (``cudaSetDevice``)."""
        self.set_current(self[number].handle)

    def set_current(self, handle: int) -> None:
        """Replace the current context of the calling host thread (``cuCtxSetCurrent``)."""
        number = self.number_of(handle) if handle else self._current.number
        stack = self._current.stack
        if stack:
            stack.pop()
        stack.append(handle)
        self._current.number = number

    def push(self, handle: int) -> None:
        """Make a context current; the one before comes back with :meth:`pop`."""
        self._current.number = self.number_of(handle)
        self._current.stack.append(handle)

    def pop(self) -> int:
        """Take the current context off the calling host thread, and return it; 0 when there was none."""
        stack = self._current.stack
        popped = stack.pop() if stack else 0
        if self.current:
            self._current.number = self.number_of(self.current)
        return popped
