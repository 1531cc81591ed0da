"""Functions that no table of ``derivation.py`` fits, and methods that differ from their functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.sim.cupy._core import layout, ufunc
from cudalab.sim.cupy._core.array import define, ndarray, required
from cudalab.sim.cupy._core.creation import array, asarray
from cudalab.sim.cupy._core.derivation import same, shaped, table_function, waits
from cudalab.sim.cupy._core.indexing import setitem
from cudalab.sim.cupy._core.joining import concatenate, stack
from cudalab.sim.cupy._core.manipulation import broadcast_to, view_function
from cudalab.sim.cupy._core.operation import Work, enqueue
from cudalab.sim.cupy._routines import selection


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None) -> ndarray:
    """Elements limited to ``a_min`` … ``a_max``."""
    result = required(a)
    if result.dtype.kind == "c":
        raise TypeError("Wrong type (complex) of arguments for cupy_clip")
    if a_min is not None:
        result = ufunc.get("maximum")(result, a_min, out=out)
    if a_max is not None:
        result = ufunc.get("minimum")(result, a_max, out=out)
    if result is a and out is None:
        return a.copy()
    return result


def around(a: Any, decimals: int = 0, out: Any = None) -> ndarray:
    """Rounded to ``decimals`` digits; halves to even."""
    result: ndarray = shaped("cupy_around", np.around, (required(a),), {"decimals": decimals, "out": out})
    return result


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> ndarray:
    """NaN and infinities replaced by numbers."""
    result = same("cupy_nan_to_num", np.nan_to_num, x, None, order="K", nan=nan, posinf=posinf, neginf=neginf)
    if copy:
        return result
    target: ndarray = x
    target[...] = result
    return target


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 6.283185307179586) -> ndarray:
    """Angles without jumps of a period."""
    result: ndarray = shaped(
        "cupy_unwrap", np.unwrap, (required(p),), {"discont": discont, "axis": axis, "period": period}
    )
    return result


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> ndarray:
    """Are all elements close? An array without axes, on the device."""
    result: ndarray = table_function("isclose")(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan).all()
    return result


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """The weighted mean. With weights it waits: weights that sum to zero are a ``ZeroDivisionError``."""
    array_of = required(a)
    options = {"axis": axis, "returned": returned, "keepdims": keepdims}
    if weights is not None:
        total = required(weights).sum(axis if weights.shape == array_of.shape else None)
        if bool((total == 0).any()):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        options["weights"] = weights
    return shaped("cupy_average", np.average, (array_of,), options)


def repeat(a: Any, repeats: Any, axis: Any = None) -> ndarray:
    """Each element several times; with ``repeats`` on the device it waits."""
    array_of = required(a)
    if isinstance(repeats, ndarray):
        counted: ndarray = waits("cupy_repeat", np.repeat, (array_of, repeats), {"axis": axis})
        return counted
    if np.any(np.asarray(repeats) < 0):
        raise ValueError(f"'repeats' should not be negative: {repeats}")
    result: ndarray = shaped("cupy_repeat", np.repeat, (array_of, repeats), {"axis": axis})
    return result


def append(arr: Any, values: Any, axis: Any = None) -> ndarray:
    """``values`` after ``arr``."""
    return concatenate((asarray(arr), asarray(values)), axis=axis)


def bincount(x: Any, weights: Any = None, minlength: Any = None) -> ndarray:
    """How often each number occurs. Waits for the largest one."""
    numbers = required(x)
    if numbers.dtype.kind == "b":
        numbers = numbers.astype(np.uint8)
    if numbers.dtype.kind not in "iu":
        raise TypeError("x must be int array")
    if numbers.size and int(numbers.min()) < 0:
        raise ValueError("The first argument of bincount must be non-negative")
    options = {"minlength": minlength or 0, **({} if weights is None else {"weights": weights})}
    result: ndarray = waits("cupy_bincount", np.bincount, (numbers.astype(np.int64),), options)
    return result


def roll(a: Any, shift: Any, axis: Any = None) -> ndarray:
    """Elements moved along an axis, those that leave at the end come in at the front."""
    source = required(a)
    if axis is None:
        result: ndarray = same("cupy_roll", np.roll, source.ravel(), None, shift).reshape(source.shape)
        return result
    return same("cupy_roll", np.roll, source, None, shift, axis=axis, order="K")


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> ndarray:
    """With a border; of zeros, or of what ``mode`` says."""
    source = required(array)
    options = {"mode": mode, **kwargs}
    result: ndarray = shaped("cupy_pad", np.pad, (source, pad_width), options, order="F" if source.flags.fnc else "C")
    return result


def sort(a: Any, axis: Any = -1, kind: Any = None) -> ndarray:
    """Sorted along an axis; of all elements in a row for None."""
    source = required(a)
    if axis is None:
        source, axis = source.ravel(), -1
    if not source.ndim:
        raise np.exceptions.AxisError("Sorting arrays with the rank of zero is not supported")
    return same("cupy_sort", np.sort, source, None, axis=axis)


def require(a: Any, dtype: Any = None, requirements: Any = None) -> ndarray:
    """The array in a layout that meets the requirements: ``C``, ``F`` or ``O`` (memory of its own)."""
    wanted = {str(entry).upper()[0] for entry in requirements or ()}
    if not wanted <= set("CFO"):
        raise ValueError("Requirements must be among C, F and O")
    if {"C", "F"} <= wanted:
        raise ValueError('Cannot specify both "C" and "F" order')
    found = array(a, dtype=dtype, order="F" if "F" in wanted else "C" if "C" in wanted else "A", copy=False)
    return found.copy() if "O" in wanted and found.base is not None else found


class broadcast:
    """Arrays in their common shape: ``shape``, ``size``, ``nd`` and the arrays as ``values``."""

    __module__ = "cupy"

    def __init__(self, *arrays: Any) -> None:
        self.shape = layout.broadcast(*(a.shape for a in arrays if isinstance(a, ndarray)))
        self.size = int(np.prod(self.shape, dtype=np.int64))
        self.nd = len(self.shape)
        self.values = tuple(broadcast_to(a, self.shape) if isinstance(a, ndarray) else a for a in arrays)


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> ndarray:
    """``func1d`` on every vector along an axis."""
    moved = view_function("moveaxis")(required(arr), axis, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    found = stack([asarray(func1d(row, *args, **kwargs)) for row in rows])
    result = found.reshape(moved.shape[:-1] + found.shape[1:])
    made: ndarray = view_function("moveaxis")(result, -1, axis) if found.ndim > 1 else result
    return made


# -- methods -----------------------------------------------------------------------------------------------------------


def _sort_in_place(self: ndarray, axis: int = -1, kind: Any = None) -> None:
    layout.normal_axis(axis, self.ndim)
    operand = self._operand()
    enqueue("cupy_sort", Work(_sort, [axis], {}, (operand,), in_place=True), [operand], flops=float(self.size))


def _sort(target: np.ndarray, axis: int) -> None:
    target.sort(axis=axis)


def _partition_in_place(self: ndarray, kth: Any, axis: int = -1) -> None:
    operand = self._operand()
    work = Work(lambda target: target.partition(kth, axis=axis), (), {}, (operand,), in_place=True)
    enqueue("cupy_partition", work, [operand])


def _table_method(name: str) -> Any:
    return lambda self, *args, **kwargs: table_function(name)(self, *args, **kwargs)


class Flat:
    """``a.flat``: the elements in a row."""

    def __init__(self, base: ndarray) -> None:
        self.base = base

    def copy(self) -> ndarray:
        """The elements in a row, copied."""
        result: ndarray = self.base.flatten()
        return result

    def __getitem__(self, key: Any) -> ndarray:
        result: ndarray = self.base.ravel()[key]
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        found = self.base.ravel()
        if found.data.ptr != self.base.data.ptr:
            raise NotImplementedError("assigning to .flat of an array with gaps is not simulated")
        setitem(found, key, value)

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Any:
        return iter(self.base.ravel())


define("sort", _sort_in_place)
define("partition", _partition_in_place)
define("nonzero", selection.nonzero)
define("take", selection.take)
define("put", lambda self, indices, values, mode="wrap": selection.put(self, indices, values, mode))
define("clip", lambda self, min=None, max=None, out=None: clip(self, min, max, out))
define("round", around)
define("compress", lambda self, condition, axis=None, out=None: selection.compress(condition, self, axis, out))
define("flat", property(Flat, doc="The elements in a row."))
define("choose", selection.choose)
define("repeat", repeat)
for _name in ("argsort", "argpartition", "searchsorted", "trace"):
    define(_name, _table_method(_name))
