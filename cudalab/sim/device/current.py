"""The device that this process uses, its clock, and how to get a new one.

``CUDALAB_DEVICE=sim:PROFILE`` chooses the profile; without it the device is an H200. The device is made when it is
first asked for.
"""

from __future__ import annotations

import os
import threading

from cudalab.sim.device.device import Device
from cudalab.sim.device.profile import DEFAULT

_lock = threading.RLock()
"""Re-entrant: to make a device allocates, so the garbage collector may run a destructor that asks for the device."""
_current: Device | None = None


def profile_name() -> str:
    """The profile that the environment asks for."""
    kind, _, name = os.environ.get("CUDALAB_DEVICE", "").partition(":")
    return name if kind == "sim" and name else DEFAULT


def current_device() -> Device:
    """The device of this process."""
    global _current
    device = _current
    if device is not None:
        return device
    with _lock:
        if _current is None:
            made = Device(profile_name())
            if _current is None:  # a destructor, meanwhile, may have asked for one
                _current = made
        return _current


def existing_device() -> Device | None:
    """The device of this process, if it has been made."""
    return _current


def hold_device(on: bool) -> None:
    """While it is held, the process keeps the device that it has, and makes no other."""
    Device.held = on


def set_current_device(device: Device | None) -> Device | None:
    """Use another device from now on and return the one before; ``None``: make a new one when it is asked for.

    Raises:
        RuntimeError: the process is to keep the one that it has.
    """
    global _current
    Device.refuse_another()
    with _lock:
        before, _current = _current, device
        return before


def reset() -> Device:
    """Give up the device with all that is on it, errors included, and start with a new one.

    Arrays, streams and modules from before belong to the old device and are of no use with the new one.
    """
    old = set_current_device(None)
    profile = old.profile.name if old is not None else profile_name()
    new = Device(profile)
    if old is not None:
        new = Device(profile, settings=old.settings, record=old.state.recorder.on)
        arena = old.memory.arena
        new.memory.former = [*old.memory.former, (arena.base, arena.base + arena.extent)]
    set_current_device(new)
    return new


def clock() -> float:
    """The modelled host clock in microseconds. Runtime calls and :func:`host_work` advance it, nothing else."""
    return current_device().clock_ns / 1e3


def host_work(microseconds: float) -> None:
    """Let the host compute for that long in modelled time; the device goes on meanwhile."""
    current_device().host_work(round(microseconds * 1e3))
