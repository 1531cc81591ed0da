"""``a[key]`` and ``a[key] = value``.

Numbers, slices, ``None`` and ``...`` give views. Integer arrays and boolean masks give copies, and are themselves
operations on the device: their values are not known when the line runs. So an index out of range cannot raise; CuPy
wraps it around, and so does this. A mask's number of true elements must be known to allocate the result: that waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cudalab.sim.cupy._base.call import own_work
from cudalab.sim.cupy._core import layout, types
from cudalab.sim.cupy._core.array import copy_elements, define, ndarray, view_shaped
from cudalab.sim.cupy._core.creation import asarray
from cudalab.sim.cupy._core.manipulation import as_views, described
from cudalab.sim.cupy._core.operation import Operand, Work, enqueue


def getitem(a: ndarray, key: Any) -> ndarray:
    """``a[key]``."""
    parts = _parts(a, key)
    if not any(isinstance(part, (ndarray, bool)) for part in parts):
        own_work("array_view")
        return _view(a, parts)
    parts = _without_masks(parts)
    a, parts = _apply_basic(a, parts)
    result = ndarray(_shape(a.shape, parts), a.dtype)
    index, inputs = _index_operands(parts)
    enqueue("cupy_take", Work(_gather, [a._operand(), index], {}, (result._operand(),)), [a._operand(), *inputs])
    return result


def setitem(a: ndarray, key: Any, value: Any) -> None:
    """``a[key] = value``."""
    parts = _parts(a, key)
    if not any(isinstance(part, (ndarray, bool)) for part in parts):
        _assign(_view(a, parts), value)
        return
    mask = _whole_mask(a, parts)
    if mask is not None and (value.size == 1 if isinstance(value, ndarray) else np.ndim(value) == 0):
        _assign_where(a, mask, value)
        return
    parts = _without_masks(parts)
    a, parts = _apply_basic(a, parts)
    _scatter("cupy_scatter_update", _put, a, parts, value)


def update_at(function: Callable[..., Any], name: str, a: ndarray, key: Any, value: Any) -> None:
    """``ufunc.at``: ``function`` in place at ``key``, once for each time an element is named."""

    def change(target: np.ndarray, index: tuple[Any, ...], values: np.ndarray) -> None:
        function.at(target, _wrapped(target.shape, index), types.converted(values, target.dtype))  # type: ignore[attr-defined]

    parts = _without_masks(_parts(a, key))
    a, parts = _apply_basic(a, parts)
    _scatter(name, change, a, parts, value)


def _scatter_method(function: Callable[..., Any], name: str) -> Callable[[ndarray, Any, Any], None]:
    def scatter(a: ndarray, slices: Any, value: Any) -> None:
        update_at(function, f"cupy_{name}", a, slices, value)

    scatter.__name__ = name
    scatter.__doc__ = f"``np.{function.__name__}.at``: in place at ``slices``, once for each time an element is named."
    return scatter


# -- keys --------------------------------------------------------------------------------------------------------------


def _parts(a: ndarray, key: Any) -> list[Any]:
    """The key as a list with one entry an axis of ``a`` (masks: one for several), new axes between them."""
    entries = list(key) if isinstance(key, tuple) else [key]
    parts = [_part(entry) for entry in entries]
    used = sum(_axes_used(part) for part in parts)
    ellipses = sum(part is Ellipsis for part in parts)
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > a.ndim:
        raise IndexError(f"too many indices for array: array is {a.ndim}-dimensional, but {used} were indexed")
    fill = [slice(None)] * (a.ndim - used)
    where = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    parts[where : where + ellipses] = fill
    _check(a, parts)
    return parts


def _part(entry: Any) -> Any:
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if isinstance(entry, (bool, np.bool_)):
        return bool(entry)
    if isinstance(entry, (ndarray, np.ndarray, list)):
        if isinstance(entry, list) and not entry:
            entry = np.empty(0, np.int64)
        array = asarray(entry)
        if array.dtype.kind not in "biu":
            raise IndexError(f"arrays used as indices must be of integer or boolean type. (actual: {array.dtype.type})")
        return bool(array) if array.dtype.kind == "b" and not array.ndim else array
    if not isinstance(entry, (int, float, str, np.number)) and not hasattr(entry, "__index__"):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are "
            "valid indices"
        )
    return int(entry.__index__()) if hasattr(entry, "__index__") else int(entry)


def _axes_used(part: Any) -> int:
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    if isinstance(part, ndarray) and part.dtype.kind == "b":
        return part.ndim
    return 1


def _check(a: ndarray, parts: list[Any]) -> None:
    axis = 0
    for part in parts:
        if isinstance(part, int) and not isinstance(part, bool) and not -a.shape[axis] <= part < a.shape[axis]:
            raise IndexError(f"Index {part} is out of bounds for axis {axis} with size {a.shape[axis]}")
        if isinstance(part, ndarray) and part.dtype.kind == "b":
            for offset, (length, wanted) in enumerate(zip(part.shape, a.shape[axis:], strict=False)):
                if length != wanted:
                    raise IndexError(
                        f"boolean index did not match indexed array along dimension {axis + offset}; dimension is "
                        f"{wanted} but corresponding boolean dimension is {length}"
                    )
        axis += _axes_used(part)


def _view(a: ndarray, parts: list[Any]) -> ndarray:
    found = described(a)[(*parts, Ellipsis)]  # with the ellipsis NumPy gives a view, never an element
    view: ndarray = as_views(a, found)
    return view


def _apply_basic(a: ndarray, parts: list[Any]) -> tuple[ndarray, list[Any]]:
    """Take slices, numbers and new axes first; what is left is one entry an axis: an index array or all of it.

    A number beside index arrays counts as an index array without axes, as in NumPy."""
    basic: list[Any] = []
    rest: list[Any] = []
    for part in parts:
        if isinstance(part, bool):  # a new axis of length 1, taken once or not at all
            basic.append(None)
            rest.append(asarray(np.zeros(int(part), np.int64)))
        else:
            basic.append(slice(None) if isinstance(part, (ndarray, int)) else part)
            rest.append(asarray(part) if isinstance(part, int) else part if isinstance(part, ndarray) else slice(None))
    return _view(a, basic), rest


def _whole_mask(a: ndarray, parts: list[Any]) -> ndarray | None:
    """The mask, when the key is one mask of all of ``a``'s axes, or of its first ones with the rest taken whole."""
    mask = parts[0]
    rest_whole = all(isinstance(part, slice) and part == slice(None) for part in parts[1:])
    if isinstance(mask, ndarray) and mask.dtype.kind == "b" and mask.ndim and rest_whole:
        return mask
    return None


def _without_masks(parts: list[Any]) -> list[Any]:
    """Masks as index arrays; this waits for their number of true elements."""
    result: list[Any] = []
    for part in parts:
        if isinstance(part, ndarray) and part.dtype.kind == "b":
            result += nonzero(part)
        else:
            result.append(part)
    return result


def nonzero(mask: ndarray) -> list[ndarray]:
    """Where ``mask`` is not zero: one index array an axis. Waits for their number."""
    count = ndarray((), np.int64)
    enqueue("cupy_scan", Work(np.count_nonzero, [mask._operand()], {}, (count._operand(),)), [mask._operand()])
    found = int(count.get())
    results = [ndarray((found,), np.int64) for _ in mask.shape]
    work = Work(np.nonzero, [mask._operand()], {}, [result._operand() for result in results])
    enqueue("cupy_nonzero", work, [mask._operand()])
    return results


# -- index arrays ------------------------------------------------------------------------------------------------------


def _shape(shape: layout.Shape, parts: list[Any]) -> layout.Shape:
    """NumPy's rule: adjacent index arrays are replaced by their common shape in place, others by it in front."""
    places = [axis for axis, part in enumerate(parts) if isinstance(part, ndarray)]
    common = layout.broadcast(*(parts[axis].shape for axis in places))
    before = [n for axis, n in enumerate(shape) if axis not in places]
    neighbours = places == list(range(places[0], places[-1] + 1))
    front = places[0] if neighbours else 0
    return (*before[:front], *common, *before[front:])


def _index_operands(parts: list[Any]) -> tuple[tuple[Any, ...], list[Operand]]:
    index = tuple(part._operand() if isinstance(part, ndarray) else part for part in parts)
    return index, [entry for entry in index if isinstance(entry, Operand)]


def _wrapped(shape: layout.Shape, index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Indices out of range wrap around."""
    return tuple(
        entry.astype(np.int64) % max(1, n) if isinstance(entry, np.ndarray) else entry
        for entry, n in zip(index, shape, strict=True)
    )


def _gather(source: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    result: np.ndarray = source[_wrapped(source.shape, index)]
    return result


def _put(target: np.ndarray, index: tuple[Any, ...], values: np.ndarray) -> None:
    target[_wrapped(target.shape, index)] = types.converted(values, target.dtype)


def _scatter(name: str, change: Callable[..., None], a: ndarray, parts: list[Any], value: Any) -> None:
    shape = _shape(a.shape, parts)
    index, inputs = _index_operands(parts)
    values: Any
    if isinstance(value, ndarray):
        if not layout.can_broadcast(value.shape, shape):
            raise ValueError(
                f"operands could not be broadcast together with shape {value.shape} and requested shape {shape}"
            )
        values = value._operand()
        inputs = [*inputs, values]
    else:
        values = np.asarray(value, a.dtype)
        if values.ndim:
            _scatter(name, change, a, parts, asarray(values))
            return
    target = a._operand()
    enqueue(name, Work(change, [index, values], {}, (target,), in_place=True), [*inputs, target])


# -- assignment --------------------------------------------------------------------------------------------------------


def _assign(view: ndarray, value: Any) -> None:
    if isinstance(value, ndarray):
        if value.ndim > view.ndim and value.size == 1 or layout.broadcast(value.shape, view.shape) == view.shape:
            copy_elements(view, value if value.ndim <= view.ndim else _single(value))
            return
        shape = value.shape
        while len(shape) > view.ndim and shape[0] == 1:
            shape = shape[1:]
        if shape == value.shape or layout.broadcast(shape, view.shape) != view.shape:
            raise ValueError(f"operands could not be broadcast together with shapes {value.shape} {view.shape}")
        copy_elements(view, ndarray._view_of(value, shape, value.strides[value.ndim - len(shape) :]))
        return
    view.fill(value)


def _single(value: ndarray) -> ndarray:
    found = view_shaped(value, ())
    return found if found is not None else value


def _assign_where(a: ndarray, mask: ndarray, value: Any) -> None:
    """``a[mask] = number``: no need to know how many elements the mask names."""
    extra = (1,) * (a.ndim - mask.ndim)
    wide = mask.reshape(mask.shape + extra)._operand()
    source: Any = value._operand() if isinstance(value, ndarray) else np.asarray(value, a.dtype)
    inputs = [wide, a._operand()] + ([source] if isinstance(source, Operand) else [])
    work = Work(_store_where, [source, wide], {}, (a._operand(),), in_place=True)
    enqueue("cupy_where", work, inputs)


def _store_where(target: np.ndarray, source: np.ndarray, where: np.ndarray) -> None:
    values = types.converted(source.reshape(()) if source.size == 1 else source, target.dtype)
    np.copyto(target, values, where=where)


define("__getitem__", getitem)
define("__setitem__", setitem)
for _name, _function in (("add", np.add), ("max", np.maximum), ("min", np.minimum)):
    define(f"scatter_{_name}", _scatter_method(_function, f"scatter_{_name}"))
