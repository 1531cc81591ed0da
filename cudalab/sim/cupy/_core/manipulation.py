"""Views: other shapes and orders of the same memory. Nothing is computed and nothing is copied.

NumPy works out shape, strides and offset, on an array description that points at the device's memory and is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cudalab.sim.cupy._core import layout
from cudalab.sim.cupy._core.array import define, ndarray, order_char, required, view_shaped

_SOMEWHERE = 1 << 40


class _Described:
    """An array description with an address of its own, so that NumPy can make views of it without memory."""

    def __init__(self, array: ndarray) -> None:
        self.__array_interface__ = {
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "data": (_SOMEWHERE, False),
            "version": 3,
        }


def described(array: ndarray) -> np.ndarray:
    """``array`` as a NumPy array that must not be read."""
    return np.asarray(_Described(array))


def as_views(base: ndarray, found: Any) -> Any:
    """NumPy views of ``described(base)`` as views of ``base``; also in lists and tuples."""
    if isinstance(found, (list, tuple)):
        return type(found)(as_views(base, entry) for entry in found)
    offset = found.__array_interface__["data"][0] - _SOMEWHERE if found.size else 0
    return ndarray._view_of(base, found.shape, found.strides, offset, dtype=found.dtype)


def view_by(function: Callable[..., Any], array: ndarray, *arguments: Any, **keywords: Any) -> Any:
    """``function(array, …)``, a NumPy function that only ever makes views."""
    return as_views(array, function(described(array), *arguments, **keywords))


def reshape(a: Any, newshape: Any, order: str = "C", *, copy: bool | None = None) -> ndarray:
    """The array in another shape: a view where possible, else a copy."""
    array = required(a)
    letter = order_char(order)
    if letter == "A":
        letter = "F" if array.flags.fnc else "C"
    shape = layout.reshaped(array.size, newshape)
    if copy is not True:
        view = view_shaped(array, shape, letter)
        if view is not None:
            return view
        if copy is False:
            raise ValueError("Unable to avoid creating a copy while reshaping.")
    whole = array.copy(order=letter)
    found = view_shaped(whole, shape, letter)
    assert found is not None
    found.base = None
    return found


def ravel(a: Any, order: str = "C") -> ndarray:
    """The elements along one axis: a view where possible."""
    array = required(a)
    letter = order_char(order)
    if letter in "AK":
        letter = "F" if array.flags.fnc else "C"
    return reshape(array, (array.size,), letter)


def transpose(a: Any, axes: Any = None) -> ndarray:
    """Axes in another order; reversed by default."""
    array = required(a)
    if axes is None:
        order: Sequence[int] = range(array.ndim)[::-1]
    else:
        order = [layout.normal_axis(axis, array.ndim) for axis in axes]
        if len(order) != array.ndim:
            raise ValueError("axes don't match array")
        if len(set(order)) != len(order):
            raise ValueError("repeated axis in transpose")
    return ndarray._view_of(array, [array.shape[i] for i in order], [array.strides[i] for i in order])  # type: ignore[arg-type]


def swapaxes(a: Any, axis1: int, axis2: int) -> ndarray:
    """Two axes exchanged."""
    array = required(a)
    if not all(-array.ndim <= axis < array.ndim for axis in (axis1, axis2)):
        raise ValueError("Axis out of range")
    found: ndarray = view_by(np.swapaxes, array, axis1, axis2)
    return found


def squeeze(a: Any, axis: Any = None) -> ndarray:
    """Without axes of length 1."""
    array = required(a)
    axes = [i for i, n in enumerate(array.shape) if n == 1] if axis is None else layout.normal_axes(axis, array.ndim)
    if any(array.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    kept = [i for i in range(array.ndim) if i not in axes]
    return ndarray._view_of(array, tuple(array.shape[i] for i in kept), tuple(array.strides[i] for i in kept))


def broadcast_to(array: Any, shape: Any) -> ndarray:
    """The array repeated along new axes, without a copy."""
    a = required(array)
    wanted = layout.shape_of(shape)
    lacking = len(wanted) - a.ndim
    if lacking < 0:
        raise ValueError("input operand has more dimensions than allowed by the axis remapping")
    if any(n not in (1, m) for n, m in zip(a.shape, wanted[lacking:], strict=True)):
        raise ValueError(f"operands could not be broadcast together with shape {a.shape} and requested shape {wanted}")
    strides = [0 if n == 1 != m else s for n, s, m in zip(a.shape, a.strides, wanted[lacking:], strict=True)]
    return ndarray._view_of(a, wanted, (*[0] * lacking, *strides))


def broadcast_arrays(*args: Any) -> tuple[ndarray, ...]:
    """All arrays in their common shape."""
    shape = layout.broadcast(*(required(a).shape for a in args))
    return tuple(broadcast_to(a, shape) for a in args)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[ndarray]:
    """Parts along an axis, the first ones longer where it does not divide."""
    found: list[ndarray] = view_by(np.array_split, required(ary), indices_or_sections, axis)
    return found


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[ndarray]:
    """Equal parts along an axis."""
    array = required(ary)
    if array.ndim <= layout.normal_axis(axis, array.ndim):
        raise IndexError("Axis exceeds ndim")
    if isinstance(indices_or_sections, int) and array.shape[axis] % indices_or_sections:
        raise ValueError(
            "indices_or_sections must divide the size along the axes.\nIf you want to split the array into "
            "non-equally-sized arrays, use array_split instead."
        )
    return array_split(array, indices_or_sections, axis)


def vsplit(ary: Any, indices_or_sections: Any) -> list[ndarray]:
    """Parts along the first axis."""
    if required(ary).ndim < 2:
        raise ValueError("Cannot vsplit an array with less than 2 dimensions")
    return split(ary, indices_or_sections, 0)


def hsplit(ary: Any, indices_or_sections: Any) -> list[ndarray]:
    """Parts along the second axis (the first one of a vector)."""
    if required(ary).ndim == 0:
        raise ValueError("Cannot hsplit a zero-dimensional array")
    return split(ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


def dsplit(ary: Any, indices_or_sections: Any) -> list[ndarray]:
    """Parts along the third axis."""
    if required(ary).ndim < 3:
        raise ValueError("Cannot dsplit an array with less than 3 dimensions")
    return split(ary, indices_or_sections, 2)


def real(val: Any) -> Any:
    """The real part; a view of a complex array."""
    return val.real if isinstance(val, ndarray) else np.real(val)


def imag(val: Any) -> Any:
    """The imaginary part; a view of a complex array."""
    return val.imag if isinstance(val, ndarray) else np.imag(val)


VIEWS = (  # NumPy functions that only make views; the arguments after the array are plain numbers
    "diagonal", "expand_dims", "flip", "fliplr", "flipud", "matrix_transpose", "moveaxis", "rollaxis", "rot90",
)  # fmt: skip


def view_function(name: str) -> Callable[..., Any]:
    """``cp.NAME`` for a name of :data:`VIEWS`."""
    function = getattr(np, name)

    def call(a: Any, *arguments: Any, **keywords: Any) -> Any:
        return view_by(function, required(a), *arguments, **keywords)

    return call


def at_least(dimensions: int) -> Callable[..., Any]:
    """``cp.atleast_1d``, ``atleast_2d`` and ``atleast_3d``."""

    def raised(a: ndarray) -> ndarray:
        if a.ndim >= dimensions:
            return a
        if dimensions == 3 and a.ndim:
            return reshape(a, (1, a.size, 1) if a.ndim == 1 else (*a.shape, 1))
        return reshape(a, (1,) * (dimensions - a.ndim) + a.shape)

    def call(*arys: Any) -> Any:
        found = [raised(required(a)) for a in arys]
        return found[0] if len(found) == 1 else found

    return call


# -- methods -----------------------------------------------------------------------------------------------------------


def _reshape_method(self: ndarray, *shape: Any, order: str = "C", copy: bool | None = None) -> ndarray:
    return reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)


def _transpose_method(self: ndarray, *axes: Any) -> ndarray:
    if not axes or axes == (None,):
        return transpose(self)
    return transpose(self, axes[0] if len(axes) == 1 and not hasattr(axes[0], "__index__") else axes)


def _flatten(self: ndarray, order: str = "C") -> ndarray:
    found = ravel(self.copy(order="F" if order_char(order) == "F" else "C"), order)
    found.base = None
    return found


def _matrix_transpose(self: ndarray) -> ndarray:
    if self.ndim < 2:
        raise ValueError("matrix transpose with ndim < 2 is undefined")
    result: ndarray = view_by(np.swapaxes, self, -1, -2)
    return result


def _part(self: ndarray, second: bool) -> ndarray:
    if self.dtype.kind != "c":
        if not second:
            return self
        zeros = self._like(self.dtype, "K")
        zeros.data.memset_async(0, zeros.nbytes)
        return zeros
    half = np.dtype(f"f{self.itemsize // 2}")
    return ndarray._view_of(self, self.shape, self.strides, half.itemsize if second else 0, dtype=half)


def _set_part(self: ndarray, value: Any, second: bool) -> None:
    if self.dtype.kind == "c":
        _part(self, second)[...] = value
    elif second:
        raise TypeError("cupy.ndarray does not have imaginary part to set")
    else:
        self[...] = value


define("reshape", _reshape_method)
define("transpose", _transpose_method)
define("swapaxes", swapaxes)
define("squeeze", squeeze)
define("ravel", ravel)
define("flatten", _flatten)
define("diagonal", view_function("diagonal"))
define("T", property(transpose, doc="The array with its axes reversed."))
define("mT", property(_matrix_transpose, doc="The last two axes exchanged."))
define("real", property(lambda a: _part(a, False), lambda a, v: _set_part(a, v, False), doc="Real part."))
define("imag", property(lambda a: _part(a, True), lambda a, v: _set_part(a, v, True), doc="Imaginary part."))
