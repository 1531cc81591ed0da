"""The names that an answer in Python finds, all of them the simulated device's, and what it imports under them.

A check runs the whole cell that defines the answer's function. Where the cell also checks itself, or asks a question,
that is passed over: it is the notebook's, and nothing of it is in the answer.
"""

from __future__ import annotations

import builtins
from types import ModuleType
from typing import Any

import numpy as np

from cudalab.sim import cudart, cupy, driver
from cudalab.sim.device import current

FILE = "answer.py"
"""What the answer's lines are known as in tracebacks and findings."""


class _PassedOver:
    """A call of the notebook's own in the cell of an answer, and its result: nothing happens."""

    def __call__(self, *given: Any, **named: Any) -> _PassedOver:
        return self

    def __getattr__(self, name: str) -> _PassedOver:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class _Cudalab:
    """``cudalab``, as an answer has it."""

    cp, cudart, driver = cupy, cudart, driver
    clock, host_work = staticmethod(current.clock), staticmethod(current.host_work)
    check = predict = quiz = tune = _PassedOver()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"a check runs the whole cell of the answer, and there cudalab has no {name!r}: move that line to a cell "
            "of its own"
        )


_CUDALAB: Any = _Cudalab()
NAMES = {
    "np": np, "cp": cupy, "cudart": cudart, "driver": driver, "cudalab": _CUDALAB, "display": _CUDALAB.check,
}  # fmt: skip
_IN_PLACE = {"cudalab": _CUDALAB, "cupy": cupy}


def _import(name: str, *details: Any, **more: Any) -> Any:
    """``import`` in an answer: CuPy and cudalab are the simulated device's there."""
    if name in _IN_PLACE:
        return _IN_PLACE[name]
    return builtins.__import__(name, *details, **more)


BUILTINS = ModuleType("builtins")
BUILTINS.__dict__.update(vars(builtins), __import__=_import)
