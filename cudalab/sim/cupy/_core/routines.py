"""Functions that no table of ``derivation.py`` fits: selection, rounding, changes in place, questions about arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.sim.cupy._core import layout, types, ufunc
from cudalab.sim.cupy._core.array import define, ndarray
from cudalab.sim.cupy._core.creation import array, asarray
from cudalab.sim.cupy._core.derivation import same, shaped, waits
from cudalab.sim.cupy._core.indexing import nonzero as nonzero_of
from cudalab.sim.cupy._core.indexing import setitem
from cudalab.sim.cupy._core.manipulation import broadcast_to
from cudalab.sim.cupy._core.operation import Work, enqueue


def _require(a: Any) -> ndarray:
    if not isinstance(a, ndarray):
        raise types.unsupported(a)
    return a


# -- selection ---------------------------------------------------------------------------------------------------------


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """``x`` where the condition is true, ``y`` elsewhere; with one argument, where it is true (this waits)."""
    if (x is None) != (y is None):
        raise ValueError("Must provide both 'x' and 'y' or neither.")
    if x is None:
        return nonzero(condition)
    values = [condition, x, y]
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
    found = _require(a)
    if not found.ndim:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use cupy.atleast_1d(scalar).nonzero() instead.")
    return tuple(nonzero_of(found))


def flatnonzero(a: Any) -> ndarray:
    """Where the elements in a row are not zero. Waits for their number."""
    return nonzero_of(_require(a).ravel())[0]


def take(a: Any, indices: Any, axis: Any = None, out: Any = None) -> ndarray:
    """Elements at ``indices`` along an axis; indices out of range wrap around."""
    source = _require(a)
    if axis is None:
        source, axis = source.ravel(), 0
    axis = layout.normal_axis(axis, source.ndim)
    found = source[(slice(None),) * axis + (asarray(indices),)]
    if out is None:
        return found
    out[...] = found
    return out


def put(a: Any, ind: Any, v: Any, mode: str = "wrap") -> None:
    """Set elements, counted in a row, to ``v``, repeated as needed."""
    if mode not in ("wrap", "clip", "raise"):
        raise TypeError(f"clipmode not understood: {mode}")
    target, index = _require(a), asarray(ind).ravel()
    values = asarray(v, dtype=target.dtype).ravel()
    inputs = [index._operand(), values._operand(), target._operand()]
    work = Work(_put, [*inputs[:2], "wrap" if mode == "raise" else mode], {}, (target._operand(),), in_place=True)
    enqueue("cupy_put", work, inputs)


def _put(target: np.ndarray, index: np.ndarray, values: np.ndarray, mode: str) -> None:
    np.put(target, index, values, mode=mode)  # type: ignore[arg-type]


def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Set elements at ``indices`` along an axis."""
    target, index = _require(arr), _require(indices)
    source = values if isinstance(values, ndarray) else array(values, dtype=target.dtype)
    inputs = [index._operand(), source._operand(), target._operand()]
    enqueue("cupy_put_along_axis", Work(np.put_along_axis, [*inputs[:2], axis], {}, (target._operand(),), True), inputs)


def putmask(a: Any, mask: Any, values: Any) -> None:
    """Set elements where ``mask`` is true, to ``values`` repeated as needed."""
    target, chosen = _require(a), _require(mask)
    source = values if isinstance(values, ndarray) else array(values, dtype=target.dtype)
    inputs = [chosen._operand(), source._operand(), target._operand()]
    enqueue("cupy_putmask", Work(np.putmask, inputs[:2], {}, (target._operand(),), in_place=True), inputs)


def place(arr: Any, mask: Any, vals: Any) -> None:
    """Like :func:`putmask`, taking one value for each true element."""
    target, chosen, source = _require(arr), _require(mask), asarray(vals)
    inputs = [chosen._operand(), source._operand(), target._operand()]
    enqueue("cupy_place", Work(np.place, inputs[:2], {}, (target._operand(),), in_place=True), inputs)


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Set the diagonal."""
    target = _require(a)
    if target.ndim < 2:
        raise ValueError("array must be at least 2-d")
    value = val._operand() if isinstance(val, ndarray) else val
    inputs = [target._operand()] + ([value] if isinstance(val, ndarray) else [])
    enqueue("cupy_fill_diagonal", Work(np.fill_diagonal, [value, wrap], {}, (target._operand(),), True), inputs)


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> ndarray:
    """Elements of the arrays ``choices[0]``, ``choices[1]`` …, as the positions in ``a`` say."""
    positions = _require(a)
    if not isinstance(choices, ndarray):
        raise AttributeError(f"{type(choices).__name__!r} object has no attribute 'shape'")
    if mode == "raise":
        least, most = positions.min(), positions.max()
        if int(least) < 0 or int(most) >= choices.shape[0]:
            raise ValueError("invalid entry in choice array")
        mode = "wrap"
    return shaped("cupy_choose", _choose, (positions, choices), {"mode": mode, "out": out})


def _choose(positions: np.ndarray, choices: np.ndarray, mode: str) -> np.ndarray:
    return np.choose(positions, list(choices), mode=mode)  # type: ignore[call-overload]


# -- rounding and range ------------------------------------------------------------------------------------------------


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None) -> ndarray:
    """Elements limited to ``a_min`` … ``a_max``."""
    result = _require(a)
    if a_min is not None:
        result = ufunc.get("maximum")(result, a_min, out=out)
    if a_max is not None:
        result = ufunc.get("minimum")(result, a_max, out=out)
    if result is a and out is None:
        return a.copy()
    return result


def around(a: Any, decimals: int = 0, out: Any = None) -> ndarray:
    """Rounded to ``decimals`` digits; halves to even."""
    return shaped("cupy_around", np.around, (_require(a),), {"decimals": decimals, "out": out})


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> ndarray:
    """NaN and infinities replaced by numbers."""
    result = same("cupy_nan_to_num", np.nan_to_num, x, None, nan=nan, posinf=posinf, neginf=neginf)
    if copy:
        return result
    x[...] = result
    return x


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 6.283185307179586) -> ndarray:
    """Angles without jumps of a period."""
    return shaped("cupy_unwrap", np.unwrap, (_require(p),), {"discont": discont, "axis": axis, "period": period})


# -- grids -------------------------------------------------------------------------------------------------------------


def meshgrid(*xi: Any, **kwargs: Any) -> Any:
    """Coordinates of a grid."""
    indexing, sparse, copied = kwargs.pop("indexing", "xy"), kwargs.pop("sparse", False), kwargs.pop("copy", True)
    if kwargs:
        raise TypeError(f"meshgrid() got an unexpected keyword argument {next(iter(kwargs))!r}")
    if indexing not in ("ij", "xy"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    vectors = [_require(x).ravel() for x in xi]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[0], order[1] = 1, 0
    found = []
    for place_of, vector in zip(order, vectors, strict=True):
        found.append(vector.reshape([vector.size if axis == place_of else 1 for axis in range(len(vectors))]))
    if not sparse:
        shape = layout.broadcast(*(entry.shape for entry in found))
        found = [broadcast_to(entry, shape) for entry in found]
    return tuple(entry.copy() for entry in found) if copied else tuple(found)


def indices(dimensions: Any, dtype: Any = int) -> ndarray:
    """Positions of a grid, one array an axis."""
    from cudalab.sim.cupy._core.creation import generated

    shape = layout.shape_of(dimensions)
    return generated("cupy_indices", (len(shape), *shape), dtype, np.indices, shape, np.dtype(dtype))


def ix_(*args: Any) -> tuple[ndarray, ...]:
    """Index arrays for an open grid."""
    found = []
    for axis, entry in enumerate(args):
        vector = asarray(entry)
        if vector.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if vector.dtype.kind == "b":
            vector = nonzero_of(vector)[0]
        found.append(vector.reshape([vector.size if i == axis else 1 for i in range(len(args))]))
    return tuple(found)


class Grid:
    """``cp.mgrid[0:2, 0:3]`` and ``cp.ogrid``."""

    def __init__(self, *, sparse: bool) -> None:
        self.sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        found: Any = (np.ogrid if self.sparse else np.mgrid)[key]
        return [array(entry) for entry in found] if isinstance(found, (list, tuple)) else array(found)


class Joiner:
    """``cp.r_[a, 1, b]`` and ``cp.c_[a, b]``."""

    def __init__(self, *, columns: bool) -> None:
        self.columns = columns

    def __getitem__(self, key: Any) -> ndarray:
        from cudalab.sim.cupy._core.joining import column_stack, concatenate

        entries = key if isinstance(key, tuple) else (key,)
        if any(isinstance(entry, str) for entry in entries):
            raise NotImplementedError("string directives in r_ and c_ are not simulated")
        parts = [entry if isinstance(entry, ndarray) else array(np.r_[entry]) for entry in entries]
        parts = [part if part.ndim else part.reshape(1) for part in parts]
        return column_stack(parts) if self.columns else concatenate(parts)


# -- questions ---------------------------------------------------------------------------------------------------------


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
    if not (isinstance(a, ndarray) and isinstance(b, ndarray)):
        return False
    (x, n), (y, m) = a._operand().span(), b._operand().span()
    return n > 0 and m > 0 and x < y + m and y < x + n


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Do two arrays have an element in common?"""
    if not may_share_memory(a, b):
        return False
    start = min(a._operand().span()[0], b._operand().span()[0])
    return bool(np.shares_memory(_placed(a, start), _placed(b, start)))


def _placed(a: ndarray, start: int) -> np.ndarray:
    from cudalab.sim.cupy._core.manipulation import described

    found = described(a)
    interface = {**found.__array_interface__, "data": (a.data.ptr - start + (1 << 40), False)}
    return np.asarray(type("_At", (), {"__array_interface__": interface})())


def byte_bounds(a: Any) -> tuple[int, int]:
    """First address of an array and the one after its last byte."""
    start, count = _require(a)._operand().span()
    return start, start + count


def iscomplexobj(x: Any) -> bool:
    """Are the elements complex?"""
    return x.dtype.kind == "c" if isinstance(x, ndarray) else bool(np.iscomplexobj(x))


def isrealobj(x: Any) -> bool:
    """Are the elements not complex?"""
    return not iscomplexobj(x)


def isfortran(a: Any) -> bool:
    """In Fortran order and not in C order?"""
    return _require(a).flags.fnc


def array_repr(arr: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """``repr`` of the elements."""
    return np.array_repr(_require(arr).get(), max_line_width, precision, suppress_small)


def array_str(arr: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """``str`` of the elements."""
    return np.array_str(_require(arr).get(), max_line_width, precision, suppress_small)


def array2string(a: Any, *args: Any, **kwargs: Any) -> str:
    """Text of the elements."""
    return np.array2string(_require(a).get(), *args, **kwargs)


def get_array_module(*args: Any) -> Any:
    """CuPy when one of the arguments is an array on the device, else NumPy."""
    import cudalab.sim.cupy as cupy

    return cupy if any(isinstance(a, ndarray) for a in args) else np


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> ndarray:
    """``func1d`` on every vector along an axis."""
    from cudalab.sim.cupy._core.joining import stack
    from cudalab.sim.cupy._core.manipulation import view_function

    moved = view_function("moveaxis")(_require(arr), axis, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    found = stack([asarray(func1d(row, *args, **kwargs)) for row in rows])
    result = found.reshape(moved.shape[:-1] + found.shape[1:])
    return view_function("moveaxis")(result, -1, axis) if found.ndim > 1 else result


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


def _table(name: str) -> Any:
    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        import cudalab.sim.cupy as cupy

        return getattr(cupy, name)(self, *args, **kwargs)

    return method


class Flat:
    """``a.flat``: the elements in a row."""

    def __init__(self, base: ndarray) -> None:
        self.base = base

    def copy(self) -> ndarray:
        """The elements in a row, copied."""
        return self.base.flatten()

    def __getitem__(self, key: Any) -> ndarray:
        return self.base.ravel()[key]

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
define("nonzero", nonzero)
define("take", take)
define("put", lambda self, indices, values, mode="wrap": put(self, indices, values, mode))
define("clip", lambda self, min=None, max=None, out=None: clip(self, min, max, out))
define("round", around)
define(
    "compress",
    lambda self, condition, axis=None, out=None: waits("cupy_compress", np.compress, (condition, self), {"axis": axis}),
)
define("flat", property(Flat, doc="The elements in a row."))  # type: ignore[arg-type]
define("choose", choose)
for _name in ("argsort", "argpartition", "searchsorted", "repeat", "trace"):
    define(_name, _table(_name))
