"""Attributes of one launch (``CUlaunchAttribute``): what they may be, and what they mean beside the stream's.

A launch takes from its stream what it does not say itself: priority, access policy window, memory synchronisation
domain and the map of domains. The stream keeps its own. What is refused, and with which code, is what an H200 with
driver 580 refuses (CUDA Driver API, ``CUlaunchAttributeID``, and ``tests/conformance/programs/launch_attributes.py``).

What is simplified: a preferred cluster size is checked, and the least one is used; the hint about the use of NVLink
changes nothing. A learner would notice neither.
"""

from __future__ import annotations

from cuda.bindings.runtime import cudaError_t
from msgspec import Struct

from cudalab.sim.device.calls.access_windows import WindowFields
from cudalab.sim.device.calls.stream_attributes import Value
from cudalab.sim.device.declaration import Handle
from cudalab.sim.device.error import CudaError, invalid_value
from cudalab.sim.device.queue.stream import DISABLE_TIMING, Event
from cudalab.sim.machine.launch.configuration import Dim3

EXTERNAL = 1


class LaunchAttributes(Struct):
    """What a launch says of itself; ``None`` where it says nothing."""

    priority: int | None = None
    carveout: int | None = None
    """Percent of the L1 as shared memory."""
    window: WindowFields | None = None
    """Access policy window."""
    domain: int | None = None
    domain_map: Value | None = None
    preferred_cluster: Dim3 | None = None
    programmatic: bool = False
    """May it start before the kernel before it in its stream has ended (programmatic stream serialisation)?"""
    updatable: int | None = None
    """Of a captured launch: may kernels update its node?"""
    event: Handle | None = None
    """Recorded when the kernel has ended, whether its blocks have triggered before or not, and whatever
    ``triggerAtBlockStart`` says: so an H200 has it."""
    event_flags: int = 0
    completion_event: Handle | None = None
    """Recorded when all blocks have started."""
    completion_flags: int = 0


def check_event(event: Event, flags: int, *, of_completion: bool) -> None:
    """May a launch record the event?"""
    if flags == EXTERNAL:
        raise CudaError(
            cudaError_t.cudaErrorIllegalState, "an external event of a launch is for streams that are capturing"
        )
    allowed = event.flags == DISABLE_TIMING if of_completion else not event.timing
    if not allowed:
        raise CudaError(
            cudaError_t.cudaErrorNotSupported,
            "an event that a launch records has no time: make it with cudaEventDisableTiming"
            + (" and no other flag" if of_completion else ""),
        )


def check_carveout(share: int) -> None:
    if not -1 <= share <= 100:
        raise invalid_value(f"a carve-out is a percentage, 0 to 100, or -1 for the default (got {share})")


def check_preferred(preferred: Dim3, cluster: Dim3 | None, grid: Dim3) -> None:
    """A preferred cluster is a multiple of the least one, and divides the grid."""
    fits = cluster is not None and all(
        most and not most % least and not blocks % most
        for most, least, blocks in zip(preferred, cluster, grid, strict=True)
    )
    if not fits:
        raise CudaError(
            cudaError_t.cudaErrorInvalidClusterSize,
            f"the preferred cluster {preferred} must be a multiple of the launch's cluster dimension ({cluster}) in "
            f"each direction, and divide the grid {grid}",
        )
