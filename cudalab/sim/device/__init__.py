"""Queues and time: the simulated device behind the runtime calls (docs/dev/layers.md, "Device")."""

from cudalab.sim.device.current import clock, current_device, host_work, reset, set_current_device
from cudalab.sim.device.device import Device, FunctionInfo, LaunchTime
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.hazards import Hazard, HazardWarning
from cudalab.sim.device.log.log import Log
from cudalab.sim.device.log.replay import ReplayError, replay

__all__ = [
    "CudaError",
    "Device",
    "FunctionInfo",
    "Hazard",
    "HazardWarning",
    "LaunchTime",
    "Log",
    "ReplayError",
    "clock",
    "current_device",
    "host_work",
    "replay",
    "reset",
    "set_current_device",
]
