"""An interactive course on CUDA C++, on a real GPU or on a simulated one.

The names below are all that a notebook needs::

    from cudalab import cp, cudart, driver

gives CuPy, ``cuda.bindings.runtime`` and ``cuda.bindings.driver`` on a machine with a working GPU, and the simulated
device's modules of the same shape elsewhere; ``cupyx``, for ``cupyx.profiler``, likewise. ``cudalab.device()`` says
which, and why.

Names are imported when they are first used, so ``import cudalab`` takes a few milliseconds. In IPython and Jupyter the
import also makes the cell magics ``%%cuda`` and ``%%isolated`` known.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cudalab import import_advice
from cudalab.installation.platforms import require_supported

require_supported()

if TYPE_CHECKING:
    from cudalab.analysis.profile import profile as profile
    from cudalab.analysis.sanitize import sanitize as sanitize
    from cudalab.analysis.source import source as source
    from cudalab.backend import cp as cp
    from cudalab.backend import cudart as cudart
    from cudalab.backend import cupyx as cupyx
    from cudalab.backend import driver as driver
    from cudalab.benchmark import benchmark as benchmark
    from cudalab.checks import check as check
    from cudalab.device import device as device
    from cudalab.device import reset as reset
    from cudalab.device import time_limit as time_limit
    from cudalab.graph import graph as graph
    from cudalab.host_clock import clock as clock
    from cudalab.host_clock import host_work as host_work
    from cudalab.plots import plot as plot
    from cudalab.tracing import trace as trace
    from cudalab.widgets import predict as predict
    from cudalab.widgets import quiz as quiz
    from cudalab.widgets import tune as tune

__version__ = "0.1.0"

_HOME = {
    "cp": "backend",
    "cudart": "backend",
    "driver": "backend",
    "cupyx": "backend",
    "device": "device",
    "reset": "device",
    "time_limit": "device",
    "clock": "host_clock",
    "host_work": "host_clock",
    "benchmark": "benchmark",
    "graph": "graph",
    "profile": "analysis.profile",
    "sanitize": "analysis.sanitize",
    "source": "analysis.source",
    "trace": "tracing",
    "tune": "widgets",
    "quiz": "widgets",
    "predict": "widgets",
    "plot": "plots",
    "check": "checks",
}

__all__ = list(_HOME)


class _Package(ModuleType):
    """The package itself. Some public functions share the name of the module that they live in (``device`` in
    ``cudalab.device``); importing such a module must not put the module in the function's place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if _HOME.get(name) == name and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"cudalab has no {name!r}. Its names are: {', '.join(__all__)}.")
    value = getattr(import_module(f"cudalab.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def load_ipython_extension(shell: Any) -> None:
    """Make ``%%cuda`` and ``%%isolated`` known to an IPython shell (``%load_ext cudalab``), let it say what a
    cell is at while it takes long, let the stop button interrupt the simulated device where that is safe, and give back
    what a cell has freed."""
    from cudalab.cells import freed_memory, progress_line
    from cudalab.cells.magics import register
    from cudalab.sim import interrupts

    register(shell)
    progress_line.install(shell)
    shell.events.register("pre_run_cell", interrupts.before_cell)
    shell.events.register("post_run_cell", freed_memory.give_back)


def _load_magics() -> None:
    if "IPython" in sys.modules:
        shell = sys.modules["IPython"].get_ipython()
        if shell is not None:
            load_ipython_extension(shell)


_load_magics()
import_advice.install()
