"""``cupy.cuda.device``: a device as an object. The simulated machine has one, or as many as its profile says."""

from __future__ import annotations

import threading
from typing import Any

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._base.call import own_work
from cudalab.sim.cupy.cuda import runtime

_CAPABILITY = (75, 76)  # cudaDevAttrComputeCapabilityMajor and -Minor, which CuPy does not name


class _Entered(threading.local):
    """The devices that ``with`` put aside, in each host thread."""

    def __init__(self) -> None:
        self.stack: list[int] = []


_entered = _Entered()


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.device", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.device", globals())


class Device:
    """A CUDA device. ``with Device(0):`` makes it current for the block.

    Args:
        device: its number, or another ``Device``; the current one for None.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, device: Any = None) -> None:
        self.id = runtime.getDevice() if device is None else int(device)

    @classmethod
    def from_pci_bus_id(cls, pci_bus_id: str) -> Device:
        """The device with that bus id."""
        return cls(runtime.deviceGetByPCIBusId(pci_bus_id))

    def __int__(self) -> int:
        return self.id

    def __enter__(self) -> Device:
        _entered.stack.append(runtime.getDevice())
        self._make_current()
        return self

    def __exit__(self, *_: object) -> None:
        Device(_entered.stack.pop())._make_current()

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def _make_current(self) -> None:
        if runtime.getDevice() != self.id:
            runtime.setDevice(self.id)

    def use(self) -> Device:
        """Make it the current device."""
        runtime.setDevice(self.id)
        return self

    def synchronize(self) -> None:
        """Wait for all work on the device."""
        own_work("device_object")
        with self:
            runtime.deviceSynchronize()

    @property
    def compute_capability(self) -> str:
        """Major and minor number, as ``"90"``."""
        return "".join(str(runtime.deviceGetAttribute(number, self.id)) for number in _CAPABILITY)

    @property
    def mem_info(self) -> tuple[int, int]:
        """Free and total bytes of device memory."""
        with self:
            return runtime.memGetInfo()

    @property
    def attributes(self) -> dict[str, int]:
        """Device attributes by name, without ``cudaDevAttr``; those that this device does not know are left out."""
        found = {}
        for name, number in catalogue.constants("cupy.cuda.runtime").items():
            if name.startswith("cudaDevAttr"):
                try:
                    found[name.removeprefix("cudaDevAttr")] = runtime.deviceGetAttribute(number, self.id)
                except runtime.CUDARuntimeError:
                    continue
        return found

    @property
    def pci_bus_id(self) -> str:
        """``domain:bus:device.function``."""
        return runtime.deviceGetPCIBusId(self.id)

    def __getattr__(self, name: str) -> Any:
        raise catalogue.missing_member("cupy.cuda.Device", name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __lt__(self, other: object) -> bool:
        return self.id < other.id if isinstance(other, Device) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.id <= other.id if isinstance(other, Device) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.id > other.id if isinstance(other, Device) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.id >= other.id if isinstance(other, Device) else NotImplemented


def get_device_id() -> int:
    """Number of the current device."""
    return runtime.getDevice()


def get_compute_capability() -> str:
    """Of the current device, as ``"90"``."""
    return Device().compute_capability


def from_pointer(ptr: int) -> Device:
    """The device whose memory ``ptr`` points to."""
    return Device(runtime.pointerGetAttributes(ptr).device)
