"""Hazards: unordered operations, in two streams or on the device and the host, that touch the same bytes.

``report.py``    the observer that finds them
``clocks.py``    what comes before what
``accesses.py``  who touched which bytes last
``host.py``      memory that the host can touch without a call
``hazard.py``    what a report says, ``advice.py`` which wait is missing
"""

from cudalab.sim.device.hazards.hazard import Hazard, HazardWarning, Kind, Party
from cudalab.sim.device.hazards.report import HazardReport

__all__ = ["Hazard", "HazardReport", "HazardWarning", "Kind", "Party"]
