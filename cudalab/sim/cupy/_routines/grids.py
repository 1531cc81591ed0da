"""Coordinates of grids: ``meshgrid``, ``mgrid``, ``indices``, and the joiners ``r_`` and ``c_``."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.sim.cupy._core import layout
from cudalab.sim.cupy._core.array import ndarray, required
from cudalab.sim.cupy._core.creation import array, asarray, generated
from cudalab.sim.cupy._core.indexing import nonzero as nonzero_of
from cudalab.sim.cupy._core.joining import column_stack, concatenate
from cudalab.sim.cupy._core.manipulation import broadcast_to


def meshgrid(*xi: Any, **kwargs: Any) -> Any:
    """Coordinates of a grid."""
    indexing, sparse, copied = kwargs.pop("indexing", "xy"), kwargs.pop("sparse", False), kwargs.pop("copy", True)
    if kwargs:
        raise TypeError(f"meshgrid() got an unexpected keyword argument {next(iter(kwargs))!r}")
    if indexing not in ("ij", "xy"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    vectors = [required(x).ravel() for x in xi]
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
        entries = key if isinstance(key, tuple) else (key,)
        if any(isinstance(entry, str) for entry in entries):
            raise NotImplementedError("string directives in r_ and c_ are not simulated")
        parts = [entry if isinstance(entry, ndarray) else array(np.r_[entry]) for entry in entries]
        parts = [part if part.ndim else part.reshape(1) for part in parts]
        return column_stack(parts) if self.columns else concatenate(parts)
