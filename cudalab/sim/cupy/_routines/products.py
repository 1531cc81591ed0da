"""Products of vectors and matrices. On a GPU these are cuBLAS's; the cost counts two operations a multiply-add."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cudalab.sim.cupy._core import layout, ufunc
from cudalab.sim.cupy._core.array import define, ndarray, required
from cudalab.sim.cupy._core.derivation import shaped
from cudalab.sim.cupy._core.operation import Work, enqueue


def _require(value: Any, name: str) -> ndarray:
    if not isinstance(value, ndarray):
        raise TypeError(
            f"Argument {name!r} has incorrect type (expected cupy._core.core._ndarray_base, got {type(value).__name__})"
        )
    return value


def _product(
    name: str,
    function: Callable[..., Any],
    a: ndarray,
    b: ndarray,
    shape: layout.Shape,
    depth: int,
    out: Any,
    *more: Any,
) -> ndarray:
    dtype = np.result_type(a.dtype, b.dtype)
    result = ndarray(shape, dtype) if out is None else out
    if result.shape != shape:
        raise ValueError(f"Output array has an invalid size: {result.shape}, expected {shape}")
    inputs = [a._operand(), b._operand()]
    work = Work(function, [*inputs, *more], {}, (result._operand(),))
    enqueue(name, work, inputs, flops=2.0 * result.size * depth)
    return result


def matmul(*args: Any, out: Any = None, casting: str = "same_kind", dtype: Any = None, **keywords: Any) -> ndarray:
    """The matrix product; stacks of matrices broadcast."""
    a, b = _require(args[0], "a"), _require(args[1] if len(args) > 1 else None, "b")
    if len(args) > 2:
        out = args[2]
    for key, default in (("axes", None), ("axis", None), ("keepdims", False), ("signature", None), ("order", "K")):
        if keywords.pop(key, default) != default:
            raise NotImplementedError(f"matmul with {key}=… is not simulated")
    if keywords:
        raise TypeError(f"Wrong arguments {keywords}")
    if not a.ndim or not b.ndim:
        raise ValueError("Scalar operands are not allowed, use '*' instead")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        error = ValueError("Axis dimension mismatch")
        error.add_note(
            f"The last axis of the first ({a.shape}) and the one before the last of the second ({b.shape}) differ."
        )
        raise error
    rows = a.shape[-2:-1]
    columns = b.shape[-1:] if b.ndim > 1 else ()
    stacked = layout.broadcast(a.shape[:-2], b.shape[:-2])
    if dtype is not None:
        a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    return _product("cupy_matmul", np.matmul, a, b, (*stacked, *rows, *columns), a.shape[-1], out)


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """The dot product: of the last axis of ``a`` and the one before the last of ``b``."""
    a, b = _require(a, "a"), _require(b, "b")
    if not a.ndim or not b.ndim:
        return ufunc.get("multiply")(a, b, out=out)
    axis = b.ndim - 2 if b.ndim > 1 else 0
    if a.shape[-1] != b.shape[axis]:
        raise ValueError("Axis dimension mismatch")
    shape = a.shape[:-1] + b.shape[:axis] + b.shape[axis + 1 :]
    return _product("cupy_dot", np.dot, a, b, shape, a.shape[-1], out)


def vdot(a: Any, b: Any) -> ndarray:
    """The dot product of all elements; the first argument conjugated."""
    a, b = _require(a, "a"), _require(b, "b")
    if a.size != b.size:
        raise ValueError("Axis dimension mismatch")
    return _product("cupy_vdot", np.vdot, a, b, (), a.size, None)


def inner(a: Any, b: Any) -> Any:
    """The product over the last axes."""
    a, b = _require(a, "a"), _require(b, "b")
    if not a.ndim or not b.ndim:
        return a * b
    if a.shape[-1] != b.shape[-1]:
        raise ValueError("Axis dimension mismatch")
    return _product("cupy_inner", np.inner, a, b, a.shape[:-1] + b.shape[:-1], a.shape[-1], None)


def outer(a: Any, b: Any, out: Any = None) -> ndarray:
    """The product of every pair of elements."""
    a, b = _require(a, "a"), _require(b, "b")
    return _product("cupy_outer", np.outer, a, b, (a.size, b.size), 1, out)


def tensordot(a: Any, b: Any, axes: Any = 2) -> ndarray:
    """The sum of products over ``axes``: a number of axes, or two lists of them."""
    a, b = _require(a, "a"), _require(b, "b")
    if isinstance(axes, (tuple, list)):
        left, right = (list(side) if isinstance(side, (tuple, list)) else [side] for side in axes)
    else:
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    left = [layout.normal_axis(axis, a.ndim) for axis in left]
    right = [layout.normal_axis(axis, b.ndim) for axis in right]
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise ValueError("Axis dimension mismatch")
    shape = [n for i, n in enumerate(a.shape) if i not in left] + [n for i, n in enumerate(b.shape) if i not in right]
    depth = int(np.prod([a.shape[i] for i in left], dtype=int))
    return _product("cupy_tensordot", np.tensordot, a, b, tuple(shape), depth, None, (left, right))


def einsum(*operands: Any, **kwargs: Any) -> ndarray:
    """Einstein's summation; subscripts as a string."""
    subscripts, *arrays = operands
    if not isinstance(subscripts, str):
        raise NotImplementedError("einsum with lists of axes is not simulated: write the subscripts as a string")
    for entry in arrays:
        required(entry)
    optimize = kwargs.pop("optimize", True)
    result: ndarray = shaped("cupy_einsum", np.einsum, (subscripts, *arrays), {"optimize": bool(optimize), **kwargs})
    return result


define("dot", dot)
