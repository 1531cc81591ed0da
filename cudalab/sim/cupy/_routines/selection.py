"""Elements chosen by condition or position, and set in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.sim.cupy._core import layout, types
from cudalab.sim.cupy._core.array import ndarray, required
from cudalab.sim.cupy._core.creation import array, asarray
from cudalab.sim.cupy._core.derivation import shaped, waits
from cudalab.sim.cupy._core.indexing import nonzero as nonzero_of
from cudalab.sim.cupy._core.operation import Work, enqueue


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """``x`` where the condition is true, ``y`` elsewhere; with one argument, where it is true (this waits)."""
    if (x is None) != (y is None):
        raise ValueError("Must provide both 'x' and 'y' or neither.")
    if x is None:
        return nonzero(condition)
    values = [condition, x, y]
    if not isinstance(condition, ndarray):
        raise AttributeError(f"{type(condition).__name__!r} object has no attribute 'astype'")
    for value in values:
        if not isinstance(value, ndarray) and not types.is_scalar(value):
            raise types.unsupported(value)
    shape = layout.broadcast(*(value.shape for value in values if isinstance(value, ndarray)))
    dtype = np.result_type(*(value.dtype if isinstance(value, ndarray) else value for value in (x, y)))
    result = ndarray(shape, dtype)
    arguments = [value._operand() if isinstance(value, ndarray) else value for value in values]
    inputs = [value._operand() for value in values if isinstance(value, ndarray)]
    work = Work(np.where, arguments, {}, (result._operand(),))
    enqueue("cupy_where", work, inputs, flops=float(result.size))
    return result


def nonzero(a: Any) -> tuple[ndarray, ...]:
    """Where ``a`` is not zero, one array an axis. Waits for their number."""
    found = required(a)
    if not found.ndim:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use cp.atleast_1d(scalar).nonzero() instead.")
    return tuple(nonzero_of(found))


def flatnonzero(a: Any) -> ndarray:
    """Where the elements in a row are not zero. Waits for their number."""
    return nonzero_of(required(a).ravel())[0]


def take(a: Any, indices: Any, axis: Any = None, out: Any = None) -> ndarray:
    """Elements at ``indices`` along an axis; indices out of range wrap around."""
    source = required(a)
    if axis is None:
        source, axis = source.ravel(), 0
    axis = layout.normal_axis(axis, source.ndim)
    found = source[(slice(None),) * axis + (asarray(indices),)]
    return found if out is None else _into(out, found)


def put(a: Any, ind: Any, v: Any, mode: str = "wrap") -> None:
    """Set elements, counted in a row, to ``v``, repeated as needed."""
    if mode not in ("wrap", "clip", "raise"):
        raise TypeError(f"clipmode not understood: {mode}")
    target, index = required(a), asarray(ind).ravel()
    values = asarray(v, dtype=target.dtype).ravel()
    inputs = [index._operand(), values._operand(), target._operand()]
    work = Work(_put, [*inputs[:2], "wrap" if mode == "raise" else mode], {}, (target._operand(),), in_place=True)
    enqueue("cupy_put", work, inputs)


def _put(target: np.ndarray, index: np.ndarray, values: np.ndarray, mode: str) -> None:
    np.put(target, index, values, mode=mode)  # type: ignore[arg-type]


def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Set elements at ``indices`` along an axis."""
    target, index = required(arr), required(indices)
    source = values if isinstance(values, ndarray) else array(values, dtype=target.dtype)
    inputs = [index._operand(), source._operand(), target._operand()]
    enqueue("cupy_put_along_axis", Work(np.put_along_axis, [*inputs[:2], axis], {}, (target._operand(),), True), inputs)


def putmask(a: Any, mask: Any, values: Any) -> None:
    """Set elements where ``mask`` is true, to ``values`` repeated as needed."""
    target, chosen = required(a), required(mask)
    source = values if isinstance(values, ndarray) else array(values, dtype=target.dtype)
    inputs = [chosen._operand(), source._operand(), target._operand()]
    enqueue("cupy_putmask", Work(np.putmask, inputs[:2], {}, (target._operand(),), in_place=True), inputs)


def place(arr: Any, mask: Any, vals: Any) -> None:
    """Like :func:`putmask`, taking one value for each true element."""
    target, chosen, source = required(arr), required(mask), asarray(vals)
    inputs = [chosen._operand(), source._operand(), target._operand()]
    enqueue("cupy_place", Work(np.place, inputs[:2], {}, (target._operand(),), in_place=True), inputs)


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Set the diagonal."""
    target = required(a)
    if target.ndim < 2:
        raise ValueError("array must be at least 2-d")
    value = val._operand() if isinstance(val, ndarray) else val
    inputs = [target._operand()] + ([value] if isinstance(val, ndarray) else [])
    enqueue("cupy_fill_diagonal", Work(np.fill_diagonal, [value, wrap], {}, (target._operand(),), True), inputs)


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> ndarray:
    """Elements of the arrays ``choices[0]``, ``choices[1]`` …, as the positions in ``a`` say."""
    positions = required(a)
    if not isinstance(choices, ndarray):
        raise AttributeError(f"{type(choices).__name__!r} object has no attribute 'shape'")
    if mode == "raise":
        least, most = positions.min(), positions.max()
        if int(least) < 0 or int(most) >= choices.shape[0]:
            raise ValueError("invalid entry in choice array")
        mode = "wrap"
    result: ndarray = shaped("cupy_choose", _choose, (positions, choices), {"mode": mode, "out": out})
    return result


def _choose(positions: np.ndarray, choices: np.ndarray, mode: str) -> np.ndarray:
    result: np.ndarray = np.choose(positions, list(choices), mode=mode)  # type: ignore[call-overload]
    return result


def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> ndarray:
    """Slices where the condition is true. Waits for their number."""
    found: ndarray = waits("cupy_compress", np.compress, (asarray(condition), required(a)), {"axis": axis})
    return found if out is None else _into(out, found)


def _into(out: ndarray, found: ndarray) -> ndarray:
    out[...] = found
    return out
