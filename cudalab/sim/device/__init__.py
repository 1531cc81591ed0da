"""The simulated device behind the runtime calls.

``device.py``        the device: groups of calls (``calls/``) over one state (``state.py``)
``declaration.py``   what the declaration of a call says, and the list of all calls
``queue/``           operations, streams, engines, and the order in which they run
``timing/``          how long work takes
``hazards/``         unordered operations on the same bytes
``log/``             what is recorded
``replay.py``        a log run again on another device
``current.py``       the device of this process
"""

from cudalab.sim.device.current import clock, current_device, host_work, reset, set_current_device
from cudalab.sim.device.device import Device, FunctionInfo, LaunchTime
from cudalab.sim.device.error import CudaError
from cudalab.sim.device.hazards import Hazard, HazardWarning
from cudalab.sim.device.log.log import Log
from cudalab.sim.device.replay import ReplayError, replay

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
