"""The names that an answer in Python finds, all of them the simulated device's, and what it imports under them."""

from __future__ import annotations

import builtins
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from cudalab.sim import cudart, cupy, driver
from cudalab.sim.device import current

FILE = "answer.py"
"""What the answer's lines are known as in tracebacks and findings."""

_CUDALAB: Any = SimpleNamespace(cp=cupy, cudart=cudart, driver=driver, clock=current.clock, host_work=current.host_work)
NAMES = {"np": np, "cp": cupy, "cudart": cudart, "driver": driver, "cudalab": _CUDALAB}
_IN_PLACE = {"cudalab": _CUDALAB, "cupy": cupy}


def _import(name: str, *details: Any, **more: Any) -> Any:
    """``import`` in an answer: CuPy and cudalab are the simulated device's there."""
    if name in _IN_PLACE:
        return _IN_PLACE[name]
    return builtins.__import__(name, *details, **more)


BUILTINS = ModuleType("builtins")
BUILTINS.__dict__.update(vars(builtins), __import__=_import)
