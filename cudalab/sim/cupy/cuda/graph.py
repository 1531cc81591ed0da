"""``cupy.cuda.graph``: graphs captured from a stream."""

from __future__ import annotations

from typing import Any

from cudalab.sim.cupy._base import catalogue
from cudalab.sim.cupy.cuda.stream import Graph

__all__ = ["Graph"]


def __getattr__(name: str) -> Any:
    raise catalogue.missing("cupy.cuda.graph", name)


def __dir__() -> list[str]:
    return catalogue.offered("cupy.cuda.graph", globals())
