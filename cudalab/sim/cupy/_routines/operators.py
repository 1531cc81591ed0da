"""Python's operators on arrays. As in CuPy, the other side must be an array on the device or a number."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from cudalab.sim.cupy._core import types, ufunc
from cudalab.sim.cupy._core.array import define, ndarray
from cudalab.sim.cupy._core.creation import full
from cudalab.sim.cupy._routines.products import matmul

_BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "divmod": "divmod",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}
_COMPARE = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
_NUMPY_NAMES = {"true_divide": "divide"}


def _numpy(name: str) -> Any:
    return getattr(np, _NUMPY_NAMES.get(name, name))


def _binary(name: str) -> Callable[[ndarray, Any], Any]:
    function = ufunc.get(name)

    def operator(self: ndarray, other: Any) -> Any:
        if isinstance(other, ndarray) or types.is_scalar(other):
            return function(self, other)
        if getattr(other, "__array_ufunc__", self) is None:
            return NotImplemented
        return _numpy(name)(self, other)  # asks both sides, and says who refused

    return operator


def _reflected(name: str) -> Callable[[ndarray, Any], Any]:
    function = ufunc.get(name)

    def operator(self: ndarray, other: Any) -> Any:
        return function(other, self)

    return operator


def _in_place(name: str) -> Callable[[ndarray, Any], Any]:
    function = ufunc.get(name)

    def operator(self: ndarray, other: Any) -> Any:
        if not (isinstance(other, ndarray) or types.is_scalar(other)):
            if isinstance(other, (np.ndarray, list, tuple)) or not hasattr(other, "__cuda_array_interface__"):
                return _numpy(name)(self, other, out=self)
        return function(self, other, self)

    return operator


_BY_IDENTITY: object = object.__eq__


def _compare(name: str) -> Callable[[ndarray, Any], Any]:
    function = ufunc.get(name)

    def operator(self: ndarray, other: Any) -> Any:
        if isinstance(other, ndarray) or types.is_scalar(other):
            return function(self, other)
        if name in ("equal", "not_equal") and (other is None or type(other).__eq__ is _BY_IDENTITY):
            return full(self.shape, name == "not_equal", dtype=bool)
        if isinstance(other, np.ndarray) and other.ndim == 0:
            return function(self, other.item())
        return _numpy(name)(self, other)

    return operator


def _unary(name: str) -> Callable[[ndarray], Any]:
    function = ufunc.get(name)
    return lambda self: function(self)


def _pos(self: ndarray) -> Any:
    if self.dtype.kind == "b":
        text = (
            "Applying '+' to a non-numerical array is ill-defined. Returning a copy, but in the future this will error."
        )
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return self.copy()
    return ufunc.get("positive")(self)


def _pow(self: ndarray, other: Any, modulo: Any = None) -> Any:
    if type(other) in (int, float) and other == 2 and self.dtype.kind in ("fc" if type(other) is float else "ifc"):
        return ufunc.get("square")(self)
    return _binary("power")(self, other)


def _matmul(self: ndarray, other: Any) -> Any:
    if not isinstance(other, ndarray) and not types.is_scalar(other):
        return np.matmul(self, other)
    return matmul(self, other)


def _rmatmul(self: ndarray, other: Any) -> Any:
    raise TypeError(f"Cannot convert {type(other).__name__} to cupy._core.core._ndarray_base")


def _imatmul(self: ndarray, other: Any) -> Any:
    self[...] = _matmul(self, other)
    return self


for _short, _name in _BINARY.items():
    define(f"__{_short}__", _binary(_name))
    define(f"__r{_short}__", _reflected(_name))
    if _short != "divmod":
        define(f"__i{_short}__", _in_place(_name))
for _short, _name in _COMPARE.items():
    define(f"__{_short}__", _compare(_name))
for _short, _name in {"neg": "negative", "abs": "absolute", "invert": "invert"}.items():
    define(f"__{_short}__", _unary(_name))
define("__pos__", _pos)
define("__pow__", _pow)
define("__rpow__", _reflected("power"))
define("__ipow__", _in_place("power"))
define("__matmul__", _matmul)
define("__rmatmul__", _rmatmul)
define("__imatmul__", _imatmul)
define("conj", _unary("conj"))
define("conjugate", _unary("conj"))
ndarray.__hash__ = None  # type: ignore[assignment,method-assign]
