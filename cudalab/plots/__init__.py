"""Drawing with matplotlib, which is imported when the first figure is drawn. ``cudalab.plot`` is the module ``plot``
in here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudalab.plots import plot as plot

__all__ = ["plot"]


def __getattr__(name: str) -> Any:
    if name != "plot":
        raise AttributeError(f"cudalab.plots has no {name!r}; notebooks use cudalab.plot")
    return import_module("cudalab.plots.plot")
