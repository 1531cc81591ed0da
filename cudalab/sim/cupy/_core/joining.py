"""Arrays joined to a larger one."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.sim.cupy._core import layout, types
from cudalab.sim.cupy._core.array import ndarray
from cudalab.sim.cupy._core.manipulation import at_least, ravel, view_function
from cudalab.sim.cupy._core.operation import Work, enqueue


def concatenate(tup: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> ndarray:
    """Arrays one after the other along an axis; of all elements in a row for ``axis=None``."""
    arrays = list(tup)
    if not arrays:
        raise ValueError("Cannot concatenate from empty tuple")
    for entry in arrays:
        if not isinstance(entry, ndarray):
            raise types.unsupported(entry)
    if axis is None:
        arrays, axis = [ravel(entry) for entry in arrays], 0
    first = arrays[0]
    if not first.ndim:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = layout.normal_axis(axis, first.ndim)
    if any(entry.ndim != first.ndim for entry in arrays):
        raise ValueError("All arrays to concatenate must have the same ndim")
    if any(_but(entry.shape, axis) != _but(first.shape, axis) for entry in arrays):
        raise ValueError("All arrays must have same shape except the axis to concatenate")
    shape = list(first.shape)
    shape[axis] = sum(entry.shape[axis] for entry in arrays)
    found = np.result_type(*(entry.dtype for entry in arrays)) if dtype is None else types.checked(dtype)
    result = ndarray(shape, found) if out is None else out
    operands = [entry._operand() for entry in arrays]
    enqueue("cupy_concatenate", Work(np.concatenate, [operands, axis], {}, (result._operand(),)), operands)
    return result


def _but(shape: layout.Shape, axis: int) -> layout.Shape:
    return shape[:axis] + shape[axis + 1 :]


def stack(tup: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> ndarray:
    """Arrays of one shape along a new axis."""
    expand = view_function("expand_dims")
    return concatenate([expand(entry, axis) for entry in tup], axis, out, dtype=dtype, casting=casting)


def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> ndarray:
    """Arrays one below the other."""
    return concatenate([at_least(2)(entry) for entry in tup], 0, dtype=dtype, casting=casting)


def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> ndarray:
    """Arrays side by side."""
    arrays = [at_least(1)(entry) for entry in tup]
    return concatenate(arrays, 0 if arrays and arrays[0].ndim == 1 else 1, dtype=dtype, casting=casting)


def dstack(tup: Any) -> ndarray:
    """Arrays one behind the other."""
    return concatenate([at_least(3)(entry) for entry in tup], 2)


def column_stack(tup: Any) -> ndarray:
    """Vectors as columns."""
    return concatenate([entry.reshape(-1, 1) if entry.ndim < 2 else entry for entry in tup], 1)
