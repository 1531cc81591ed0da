"""NumPy's functions on CuPy arrays: ``np.sin(a)`` gives what ``cp.sin(a)`` gives (NEP 13 and NEP 18)."""

from __future__ import annotations

from functools import partialmethod
from types import ModuleType
from typing import Any

import numpy as np

from cudalab.sim.cupy._core import types
from cudalab.sim.cupy._core.array import define, ndarray

_COMPARISONS = ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")


def install(cupy: ModuleType) -> None:
    """Let NumPy find the functions of the module ``cupy``."""
    define("__array_ufunc__", partialmethod(_array_ufunc, cupy))
    define("__array_function__", partialmethod(_array_function, cupy))


def _array_ufunc(_self: ndarray, cupy: Any, function: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
    if "out" in keywords:
        outputs = keywords["out"]
        if len(outputs) != 1:
            raise ValueError("The 'out' parameter must have exactly one array value")
        keywords = {**keywords, "out": outputs[0]}
        involved = (*inputs, *outputs)
    else:
        involved = inputs
    name = function.__name__
    try:
        ours = getattr(cupy, name)
        if method != "__call__":
            ours = getattr(ours, method)
    except AttributeError:
        return NotImplemented
    for value in involved:
        if not (isinstance(value, (ndarray, np.ndarray)) or types.is_scalar(value) or _is_array_like(value)):
            return NotImplemented
    if name in _COMPARISONS:
        inputs = tuple(x.item() if isinstance(x, np.ndarray) and x.ndim == 0 else x for x in inputs)
    return ours(*inputs, **keywords)


def _is_array_like(value: Any) -> bool:
    return hasattr(value, "__cuda_array_interface__") or hasattr(value, "__cupy_get_ndarray__")


def _array_function(_self: ndarray, cupy: ModuleType, function: Any, kinds: Any, args: Any, keywords: Any) -> Any:
    found: Any = cupy
    try:
        for part in function.__module__.split(".")[1:]:
            found = getattr(found, part)
        ours = getattr(found, function.__name__)
    except AttributeError:
        return NotImplemented
    if ours is function or not all(issubclass(kind, (ndarray, np.ndarray)) for kind in kinds):
        return NotImplemented
    return ours(*args, **keywords)
