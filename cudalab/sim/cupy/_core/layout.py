"""Shapes and strides: what array functions know of a result before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Shape = tuple[int, ...]


def shape_of(value: Any) -> Shape:
    """A shape from a number or a sequence of numbers."""
    entries: Iterable[Any] = value if isinstance(value, (tuple, list, np.ndarray)) else (value,)
    result = []
    for entry in entries:
        if not hasattr(entry, "__index__"):
            raise TypeError(f"{type(entry).__name__!r} object cannot be interpreted as an integer")
        number = int(entry.__index__())
        if number < 0:
            raise ValueError("Negative dimensions are not allowed")
        if number >= 1 << 63:
            raise OverflowError("Python int too large to convert to C ssize_t")
        result.append(number)
    return tuple(result)


def contiguous_strides(shape: Shape, itemsize: int, order: str = "C") -> Shape:
    """Strides in bytes of an array without gaps; all 0 when it has no elements, as in CuPy."""
    strides = [0] * len(shape)
    if 0 in shape:
        return tuple(strides)
    step = itemsize
    axes = range(len(shape)) if order == "F" else reversed(range(len(shape)))
    for axis in axes:
        strides[axis] = step
        step *= max(1, shape[axis])
    return tuple(strides)


def is_contiguous(shape: Shape, strides: Shape, itemsize: int, order: str) -> bool:
    """Are the elements without gaps, in C or Fortran order? Axes of length 1 do not matter."""
    if 0 in shape:
        return True
    step = itemsize
    axes = range(len(shape)) if order == "F" else reversed(range(len(shape)))
    for axis in axes:
        if shape[axis] != 1:
            if strides[axis] != step:
                return False
            step *= shape[axis]
    return True


def kept_strides(shape: Shape, strides: Shape, itemsize: int) -> Shape:
    """Strides without gaps that keep the order of axes (order ``K``)."""
    by_stride = sorted(range(len(shape)), key=lambda axis: (-abs(strides[axis]), axis))
    result = [0] * len(shape)
    step = itemsize
    for axis in reversed(by_stride):
        result[axis] = step
        step *= max(1, shape[axis])
    return tuple(result)


def broadcast(*shapes: Shape) -> Shape:
    """The common shape. Raises ``ValueError`` naming the shapes."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " ".join(str(shape) for shape in shapes)
        raise ValueError(f"operands could not be broadcast together with shapes {listed}") from None


def broadcast_strides(shape: Shape, strides: Shape, wanted: Shape) -> Shape:
    """The strides of an array of ``shape`` seen with the shape ``wanted``: 0 where it is repeated."""
    own = tuple(0 if length == 1 else stride for length, stride in zip(shape, strides, strict=True))
    return (0,) * (len(wanted) - len(shape)) + own


def can_broadcast(shape: Shape, wanted: Shape) -> bool:
    """Can an array of ``shape`` be repeated to ``wanted``?"""
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def normal_axis(axis: Any, ndim: int) -> int:
    """``axis`` counted from 0. Raises ``AxisError``."""
    if not hasattr(axis, "__index__"):
        raise TypeError(f"{type(axis).__name__!r} object cannot be interpreted as an integer")
    number = int(axis.__index__())
    if not -ndim <= number < ndim:
        raise np.exceptions.AxisError(number, ndim)
    return number % ndim


def normal_axes(axis: Any, ndim: int) -> Shape:
    """Axes of a reduction, counted from 0 and sorted; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    entries: Sequence[Any] = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = [normal_axis(entry, ndim) for entry in entries]
    if len(set(found)) != len(found):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(found))


def reduced(shape: Shape, axes: Shape, keepdims: bool) -> Shape:
    """The shape after a reduction over ``axes``."""
    if keepdims:
        return tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    return tuple(n for axis, n in enumerate(shape) if axis not in axes)


def reshaped(size: int, shape: Any) -> Shape:
    """``shape`` with one -1 filled in."""
    wanted = [int(entry) for entry in (shape if isinstance(shape, (tuple, list)) else (shape,))]
    if wanted.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    known = math.prod(entry for entry in wanted if entry != -1)
    if -1 in wanted and known and size % known == 0:
        wanted[wanted.index(-1)] = size // known
    if math.prod(wanted) != size or any(entry < 0 for entry in wanted):
        raise ValueError(
            f"cannot reshape array of size {size} into shape {tuple(shape) if isinstance(shape, list) else shape}"
        )
    return tuple(wanted)


def split_strides(shape: Shape, strides: Shape, itemsize: int, wanted_shape: Shape, order: str) -> Shape | None:
    """Strides of a view in another shape, or None where that takes a copy: groups of old axes that lie without gaps
    become groups of new axes."""
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    wanted = list(wanted_shape)
    if order == "F":
        old.reverse()
        wanted.reverse()
    result: list[int] = []
    at, done = 0, 0
    while done < len(wanted):
        if wanted[done] == 1:
            result.append(itemsize)
            done += 1
            continue
        if at == len(old):
            return None
        first, last = at, at + 1
        have, need, end = old[at][0], wanted[done], done + 1
        while have != need:
            if have < need:
                if last == len(old):
                    return None
                have *= old[last][0]
                last += 1
            else:
                need *= wanted[end]
                end += 1
        for outer, inner in zip(old[first:last], old[first + 1 : last], strict=False):
            if outer[1] != inner[0] * inner[1]:
                return None
        step = old[last - 1][1]
        group: list[int] = []
        for length in reversed(wanted[done:end]):
            group.insert(0, step)
            step *= length
        result += group
        at, done = last, end
    if order == "F":
        result.reverse()
    return tuple(result)
