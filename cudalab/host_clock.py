"""The host's clock, on both devices: ``cudalab.clock()`` and ``cudalab.host_work()``.

On a GPU they are the machine's own clock and a busy wait. On the simulated device, host and device share one modelled
clock, which only runtime calls and ``host_work`` advance: the time that your Python needs between two calls does not
count there. So a notebook that measures device work with ``time.perf_counter`` would measure the simulation; with
these two it reads the same on both devices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from numbers import Real

from cudalab import backend

listeners: list[Callable[[int, int], None]] = []
"""Called after ``host_work`` on a GPU with its start and end, in ns of ``time.perf_counter_ns``. The simulated device
notifies its own observers."""


def clock() -> float:
    """Host time in microseconds since some fixed point; take differences.

    Measured on a GPU, modelled on the simulated device.
    """
    if backend.choice().kind == "gpu":
        return time.perf_counter_ns() / 1000
    return float(backend.simulated_device().clock_ns) / 1000


def host_work(microseconds: float) -> None:
    """Keep the host busy for ``microseconds``, as a computation on the CPU would; CUDA calls wait until it ends.

    Raises ``TypeError`` for what is no number and ``ValueError`` for a negative or endless time.
    """
    given: object = microseconds  # callers are not held to the type
    if not isinstance(given, Real):
        raise TypeError(
            f"host_work takes a number of microseconds, got {microseconds!r} ({type(microseconds).__name__})."
        )
    if not 0 <= microseconds < math.inf:
        raise ValueError(f"host_work needs a time of at least 0 microseconds, got {microseconds}.")
    if backend.choice().kind == "sim":
        backend.simulated_device().host_work(round(microseconds * 1000))
        return
    start = time.perf_counter_ns()
    end = start + round(microseconds * 1000)
    while time.perf_counter_ns() < end:
        pass
    for listener in listeners:
        listener(start, time.perf_counter_ns())
