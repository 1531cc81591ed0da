"""CuPy's companion package on the simulated device: ``from cudalab import cupyx`` gives this module where there is no
GPU. Of the real one there is ``cupyx.profiler``."""

from __future__ import annotations

from typing import Any

from cudalab.sim.cupyx import profiler

__all__ = ["profiler"]


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"the simulated device has no cupyx.{name}; of cupyx there is cupyx.profiler. What CuPy itself offers is in "
        "`from cudalab import cp`."
    )
