"""CuPy's companion package on the simulated device: ``from cudalab import cupyx`` gives this module where there is no
GPU. Of the real one there are the profiler's functions, scattered updates, ``rsqrt`` and arrays in page-locked memory.
"""

from __future__ import annotations

from typing import Any

from cudalab.sim.cupy import ndarray
from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy._core.ufunc import ufunc
from cudalab.sim.cupyx import profiler
from cudalab.sim.cupyx._pinned_array import empty_like_pinned, empty_pinned, zeros_like_pinned, zeros_pinned

__all__ = [
    "empty_like_pinned",
    "empty_pinned",
    "profiler",
    "rsqrt",
    "scatter_add",
    "scatter_max",
    "scatter_min",
    "zeros_like_pinned",
    "zeros_pinned",
]

rsqrt = ufunc("cupyx.rsqrt")


def scatter_add(a: ndarray, slices: Any, value: Any) -> None:
    """``a[slices] += value``, where an element that ``slices`` names twice is added to twice."""
    a.scatter_add(slices, value)


def scatter_max(a: ndarray, slices: Any, value: Any) -> None:
    """``a[slices] = maximum(a[slices], value)``, for each time an element is named."""
    a.scatter_max(slices, value)


def scatter_min(a: ndarray, slices: Any, value: Any) -> None:
    """``a[slices] = minimum(a[slices], value)``, for each time an element is named."""
    a.scatter_min(slices, value)


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupyx", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupyx", globals())
