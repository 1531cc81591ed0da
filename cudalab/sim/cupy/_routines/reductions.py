"""Reductions and scans: ``sum``, ``max``, ``argmin``, ``cumsum`` and so on.

Results are arrays on the device, also those without axes: reading one waits. Sums of floats are NumPy's pairwise sums,
in another order than a GPU's; the last digits differ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from cudalab.sim.cupy._core import layout, types
from cudalab.sim.cupy._core.array import define, ndarray
from cudalab.sim.cupy._core.operation import Work, enqueue

_WITHOUT_IDENTITY = ("max", "min", "argmax", "argmin", "ptp", "nanmax", "nanmin", "nanargmax", "nanargmin")
_ALIASES = {
    "amax": "max",
    "amin": "min",
    "alltrue": "all",
    "sometrue": "any",
    "product": "prod",
    "cumproduct": "cumprod",
}


@lru_cache(maxsize=1024)
def _result_type(
    name: str, dtype: np.dtype[Any], wanted: np.dtype[Any] | None, extra: tuple[Any, ...]
) -> np.dtype[Any]:
    """The type of a result, from NumPy on one element."""
    keywords = dict(extra)
    if wanted is not None:
        keywords["dtype"] = wanted
    with np.errstate(all="ignore"):
        found: np.dtype[Any] = np.asarray(getattr(np, name)(np.ones(1, dtype), **keywords)).dtype
    return found


def reduce(name: str, a: ndarray, axis: Any, dtype: Any, out: ndarray | None, keepdims: bool, **extra: Any) -> ndarray:
    """``np.NAME`` over ``axis`` of ``a``."""
    axes = layout.normal_axes(axis, a.ndim)
    count = 1
    for i in axes:
        count *= a.shape[i]
    if name in _WITHOUT_IDENTITY and count == 0:
        kernel = f"CUPY_CUB_{name.upper()}" if len(axes) == a.ndim else f"cupy_{name}"
        raise ValueError(f"zero-size array to reduction operation {kernel} which has no identity")
    shape = layout.reduced(a.shape, axes, keepdims)
    wanted = None if dtype is None else types.checked(dtype)
    takes_type = name not in ("max", "min", "argmax", "argmin", "any", "all", "ptp", "nanmax", "nanmin")
    found = _result_type(name, a.dtype, wanted if takes_type else None, ())
    if wanted is not None and not takes_type:
        found = wanted
    result = _target(out, shape, found, "F" if _in_fortran_order(a, axes) else "C")
    keywords: dict[str, Any] = {"axis": axes if axis is not None else None, "keepdims": keepdims, **extra}
    if name.removeprefix("nan") in ("argmax", "argmin"):
        keywords["axis"] = axes[0] if len(axes) == 1 and axis is not None else None
    if wanted is not None and takes_type:
        keywords["dtype"] = wanted
    work = Work(_run_reduction(name), [a._operand()], keywords, (result._operand(),))
    enqueue(f"cupy_{name}", work, [a._operand()], flops=float(a.size))
    return result


@lru_cache(maxsize=64)
def _run_reduction(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(np, name)
    if not name.startswith("nan") or name not in ("nanargmax", "nanargmin"):
        return function

    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except ValueError:  # a row of NaN only: NumPy raises, a GPU gives 0
            return np.zeros(np.isnan(arguments[0]).all(keywords.get("axis"), keepdims=keywords["keepdims"]).shape, int)

    return call


def _in_fortran_order(a: ndarray, axes: layout.Shape) -> bool:
    """Over the leading axes of an array in Fortran order, each result is a stretch of memory; CuPy keeps that order."""
    return a.flags.fnc and axes == tuple(range(len(axes)))


def _target(out: ndarray | None, shape: layout.Shape, dtype: np.dtype[Any], order: str = "C") -> ndarray:
    if out is None:
        return ndarray(shape, dtype, order=order)
    if not isinstance(out, ndarray):
        raise types.unsupported(out)
    if out.shape != shape:
        raise ValueError(f"Output array shape mismatch: {out.shape}, expected {shape}")
    return out


def scan(name: str, a: ndarray, axis: Any, dtype: Any, out: ndarray | None) -> ndarray:
    """``np.cumsum`` or ``np.cumprod`` along ``axis``, or of all elements in a row."""
    if axis is not None:
        axis = layout.normal_axis(axis, a.ndim)
    shape = a.shape if axis is not None else (a.size,)
    wanted = None if dtype is None else types.checked(dtype)
    result = _target(out, shape, _result_type(name, a.dtype, wanted, ()))
    keywords = {"axis": axis} if wanted is None else {"axis": axis, "dtype": wanted}
    work = Work(getattr(np, name), [a._operand()], keywords, (result._operand(),))
    enqueue(f"cupy_{name}", work, [a._operand()], flops=float(a.size))
    return result


# -- methods -----------------------------------------------------------------------------------------------------------


def _plain(name: str) -> Callable[..., ndarray]:
    def method(self: ndarray, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return reduce(name, self, axis, None, out, keepdims)

    return method


def _typed(name: str) -> Callable[..., ndarray]:
    def method(self: ndarray, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return reduce(name, self, axis, dtype, out, keepdims)

    return method


def _spread(name: str) -> Callable[..., ndarray]:
    def method(
        self: ndarray, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False
    ) -> ndarray:
        return reduce(name, self, axis, dtype, out, keepdims, ddof=ddof)

    return method


def _scan(name: str) -> Callable[..., ndarray]:
    def method(self: ndarray, axis: Any = None, dtype: Any = None, out: Any = None) -> ndarray:
        return scan(name, self, axis, dtype, out)

    return method


METHODS: dict[str, Callable[..., ndarray]] = {
    **{name: _plain(name) for name in ("max", "min", "any", "all", "ptp", "nanmax", "nanmin")},
    **{name: _typed(name) for name in ("sum", "prod", "mean", "argmax", "argmin", "nansum", "nanprod", "nanmean")},
    **{name: _typed(name) for name in ("nanargmax", "nanargmin")},
    **{name: _spread(name) for name in ("var", "std", "nanvar", "nanstd")},
    **{name: _scan(name) for name in ("cumsum", "cumprod", "nancumsum", "nancumprod")},
}
for _name, _method in METHODS.items():
    if not _name.startswith("nan"):
        define(_name, _method)


def function(name: str) -> Callable[..., Any]:
    """``cp.NAME`` of a method of :data:`METHODS`, or of another name for one. As in CuPy it calls the method."""
    method = _ALIASES.get(name, name)
    if method.startswith("nan"):

        def nan_aware(a: Any, *arguments: Any, **keywords: Any) -> Any:
            if not isinstance(a, ndarray):
                raise types.unsupported(a)
            return METHODS[method](a, *arguments, **keywords)

        return nan_aware
    return lambda a, *arguments, **keywords: getattr(a, method)(*arguments, **keywords)


NAMES = (*METHODS, *_ALIASES)
