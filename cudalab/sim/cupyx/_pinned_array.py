"""NumPy arrays in page-locked host memory: copies from and to them run beside the host and other copies (CUDA C++
Programming Guide, "Page-Locked Host Memory")."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cudalab.sim.cupy import cuda


def empty_pinned(shape: Any, dtype: Any = float, order: Any = "C") -> np.ndarray:
    """As ``np.empty``, in page-locked memory."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    memory: Any = cuda.alloc_pinned_memory(math.prod(shape) * np.dtype(dtype).itemsize)
    return np.ndarray(shape, dtype, buffer=memory, order=order)


def empty_like_pinned(a: Any, dtype: Any = None, order: Any = "K", subok: None = None, shape: Any = None) -> np.ndarray:
    """As ``np.empty_like``, in page-locked memory; ``a`` is on the host or on the device."""
    if subok is not None:
        raise TypeError("subok is not supported yet")
    stand_in = np.lib.stride_tricks.as_strided(np.empty(1, a.dtype), a.shape, a.strides, writeable=False)
    like: np.ndarray = np.empty_like(stand_in, dtype, order, False, shape)
    memory: Any = cuda.alloc_pinned_memory(like.nbytes)
    return np.ndarray(like.shape, like.dtype, buffer=memory, strides=like.strides)


def zeros_pinned(shape: Any, dtype: Any = float, order: Any = "C") -> np.ndarray:
    """As ``np.zeros``, in page-locked memory."""
    out = empty_pinned(shape, dtype, order)
    out.fill(0)
    return out


def zeros_like_pinned(a: Any, dtype: Any = None, order: Any = "K", subok: None = None, shape: Any = None) -> np.ndarray:
    """As ``np.zeros_like``, in page-locked memory."""
    out = empty_like_pinned(a, dtype, order, subok, shape)
    out.fill(0)
    return out
