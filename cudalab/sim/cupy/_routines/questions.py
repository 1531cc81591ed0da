"""Questions about arrays that need no values: shape, type, memory; and the text of their elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.sim.cupy._core import layout
from cudalab.sim.cupy._core.array import ndarray, required
from cudalab.sim.cupy._core.manipulation import described


def shape(a: Any) -> tuple[int, ...]:
    """The shape."""
    return a.shape if isinstance(a, ndarray) else np.shape(a)


def ndim(a: Any) -> int:
    """The number of axes."""
    return a.ndim if hasattr(a, "ndim") else np.ndim(a)


def size(a: Any, axis: int | None = None) -> int:
    """The number of elements, or the length of an axis."""
    if axis is None:
        return a.size if isinstance(a, ndarray) else int(np.size(a))
    return int(shape(a)[layout.normal_axis(axis, ndim(a))])


def isscalar(element: Any) -> bool:
    """Is it a number, and no array?"""
    return bool(np.isscalar(element))


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The common type."""
    return np.result_type(*(a.dtype if isinstance(a, ndarray) else a for a in arrays_and_dtypes))


def common_type(*arrays: Any) -> Any:
    """The common inexact type."""
    return np.common_type(*(np.empty((), a.dtype) for a in arrays))


def min_scalar_type(a: Any) -> Any:
    """The smallest type that holds a number; an array's own type."""
    return a.dtype if isinstance(a, ndarray) else np.min_scalar_type(a)


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Do the memory ranges of two arrays overlap?"""
    for name, value in (("a", a), ("b", b)):
        if not isinstance(value, ndarray):
            raise TypeError(
                f"Argument {name!r} has incorrect type (expected cupy._core.core._ndarray_base, got "
                f"{type(value).__name__})"
            )
    (x, n), (y, m) = a._operand().span(), b._operand().span()
    result: bool = n > 0 and m > 0 and x < y + m and y < x + n
    return result


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Do two arrays have an element in common?"""
    if not may_share_memory(a, b):
        return False
    start = min(a._operand().span()[0], b._operand().span()[0])
    return bool(np.shares_memory(_placed(a, start), _placed(b, start)))


def _placed(a: ndarray, start: int) -> np.ndarray:
    found = described(a)
    interface = {**found.__array_interface__, "data": (a.data.ptr - start + (1 << 40), False)}
    return np.asarray(type("_At", (), {"__array_interface__": interface})())


def byte_bounds(a: Any) -> tuple[int, int]:
    """First address of an array and the one after its last byte."""
    start, count = required(a)._operand().span()
    return start, start + count


def iscomplexobj(x: Any) -> bool:
    """Are the elements complex?"""
    return x.dtype.kind == "c" if isinstance(x, ndarray) else bool(np.iscomplexobj(x))


def isrealobj(x: Any) -> bool:
    """Are the elements not complex?"""
    return not iscomplexobj(x)


def isfortran(a: Any) -> bool:
    """In Fortran order and not in C order?"""
    return required(a).flags.fnc


def array_repr(arr: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """``repr`` of the elements."""
    return np.array_repr(required(arr).get(), max_line_width, precision, suppress_small)


def array_str(arr: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """``str`` of the elements."""
    return np.array_str(required(arr).get(), max_line_width, precision, suppress_small)


def array2string(a: Any, *args: Any, **kwargs: Any) -> str:
    """Text of the elements."""
    return np.array2string(required(a).get(), *args, **kwargs)
