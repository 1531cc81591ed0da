"""Drawing. The modules are imported when the first figure is drawn, because they load matplotlib. ``cudalab.plot`` is
the module ``plot`` in here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudalab.plots import plot as plot
    from cudalab.plots import timeline as timeline

__all__ = ["plot", "timeline"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"cudalab.plots has no {name!r}; notebooks use cudalab.plot")
    return import_module(f"cudalab.plots.{name}")
