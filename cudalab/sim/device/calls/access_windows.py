"""Access policy windows as callers give them: on streams, on launches, on kernel nodes of graphs.

A window names a range of device memory, and which access properties the accesses of a kernel to it have in the L2
(CUDA C++ Programming Guide, "L2 Access Properties"; ``timing/l2_cache.py`` says what they do there). Its fields come in
the order of ``cudaAccessPolicyWindow``: address, bytes, hit ratio, property of hits, property of misses.
"""

from __future__ import annotations

import math

from cudalab.sim.device.declaration import Address
from cudalab.sim.device.error import invalid_value
from cudalab.sim.device.profile import Profile
from cudalab.sim.device.timing.l2_ranges import PERSISTING, PROPERTIES, Window

WindowFields = tuple[Address, int, float, int, int]


def access_window(profile: Profile, fields: WindowFields) -> Window | None:
    """The window with these fields; ``None`` where it has no bytes, which switches it off.

    ``cudaErrorInvalidValue`` where the window is larger than ``accessPolicyMaxWindowSize``, the hit ratio is outside 0
    to 1, or misses should persist.
    """
    start, size, ratio, hit, miss = fields
    most = int(profile.properties["accessPolicyMaxWindowSize"])
    if not 0 <= size <= most:
        raise invalid_value(f"an access policy window has at most {most} bytes, accessPolicyMaxWindowSize (got {size})")
    if ratio < 0.0 or ratio > 1.0:
        raise invalid_value(f"the hit ratio of an access policy window is between 0 and 1 (got {ratio})")
    if hit not in PROPERTIES or miss not in PROPERTIES:
        raise invalid_value(f"{hit}, {miss}: hitProp and missProp are each a cudaAccessProperty")
    if miss == PERSISTING:
        raise invalid_value(
            "missProp of an access policy window is cudaAccessPropertyNormal or cudaAccessPropertyStreaming; which "
            "part of the lines persists is what hitRatio says"
        )
    if math.isnan(ratio):  # an H200 takes it, too
        ratio = 0.0
    return Window(start, size, ratio, hit, miss) if size else None
