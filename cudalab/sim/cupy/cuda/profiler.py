"""``cupy.cuda.profiler``: start and stop an outside profiler. There is none here; see ``cudalab.profile``."""

from __future__ import annotations

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy.cuda import runtime


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.profiler", globals())


def start() -> None:
    """``cudaProfilerStart``."""
    runtime.profilerStart()


def stop() -> None:
    """``cudaProfilerStop``."""
    runtime.profilerStop()
