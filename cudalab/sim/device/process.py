"""The device of this process: the one that ``cudalab.sim.cupy``, ``cudart`` and ``driver`` call.

A process has one simulated device, as a process with one GPU has one device 0. It is made when it is first asked for.
Graders and tests that need another make a ``Device`` themselves and put it in place with ``use``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cudalab.sim.device.device import Device
from cudalab.sim.device.profile import DEFAULT

_lock = threading.RLock()
_profile = DEFAULT
_device: Device | None = None


def select(profile: str) -> None:
    """Choose the profile of this process's device. Once the device exists, only its own profile can be chosen:
    ``RuntimeError`` otherwise."""
    global _profile
    with _lock:
        if _device is not None and profile != _profile:
            raise RuntimeError(
                f"This process already runs on the simulated device {_profile!r}; {profile!r} needs another process. "
                f"Restart with CUDALAB_DEVICE=sim:{profile}, or run the cell under %%isolated sim:{profile}."
            )
        _profile = profile


def current() -> Device:
    """The device of this process."""
    global _device
    with _lock:
        if _device is None:
            _device = Device(_profile)
        return _device


@contextmanager
def use(device: Device) -> Iterator[Device]:
    """Put ``device`` in the place of this process's own for a while."""
    global _device
    with _lock:
        before, _device = _device, device
    try:
        yield device
    finally:
        with _lock:
            _device = before
