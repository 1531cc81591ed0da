"""Element types of CuPy arrays, and conversions as CUDA does them.

CuPy has NumPy's numbers and booleans, and no objects, strings or dates. Conversions differ from NumPy's where C leaves
them undefined: a float that does not fit an integer saturates (to 32 or 64 bits; narrower types then keep the lowest
bits), as the instruction ``cvt.rzi`` does (PTX ISA, "cvt"). NumPy's result depends on the processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SUPPORTED = "?bhilqBHILQefdFD"


def checked(dtype: Any) -> np.dtype[Any]:
    """``dtype`` as a NumPy type. Raises ``ValueError`` for one that arrays on the device cannot have."""
    found = np.dtype(dtype)
    if found.char not in SUPPORTED:
        raise ValueError(f"Unsupported dtype {found}")
    result: np.dtype[Any] = found.newbyteorder("=") if not found.isnative else found
    return result


def is_scalar(value: Any) -> bool:
    """A Python or NumPy number?"""
    return type(value) in (bool, int, float, complex) or isinstance(value, (np.bool_, np.number))


def unsupported(value: Any) -> TypeError:
    """The error for an argument that is neither an array on the device nor a number."""
    error = TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (np.ndarray, list, tuple)):
        error.add_note("CuPy does not copy from the host by itself. Write cp.asarray(x) to copy it to the device.")
    return error


def converted(source: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """``source`` as elements of ``dtype``, by CUDA's rules."""
    if source.dtype == dtype:
        return source
    with np.errstate(all="ignore"):
        if source.dtype.kind == "c" and dtype.kind not in "cb":
            source = source.real
        if source.dtype.kind == "f" and dtype.kind in "iu":
            return _float_to_integer(source, dtype)
        return source.astype(dtype)


def _float_to_integer(source: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Towards zero, saturated to 32 or 64 bits; then the lowest bits."""
    wide = np.dtype(f"{dtype.kind}{max(4, dtype.itemsize)}")
    limits = np.iinfo(wide)
    values = source.astype(np.float64 if source.dtype.itemsize == 8 else np.float32, copy=False)
    if values.size and float(limits.min) < values.min() and values.max() < float(limits.max):  # false for NaN
        return values.astype(wide).astype(dtype, copy=False)
    not_a_number = np.isnan(values)
    below = np.less_equal(values, float(limits.min))
    above = np.greater_equal(values, float(limits.max))
    safe = np.where(not_a_number | below | above, values.dtype.type(0), values)
    result = np.trunc(safe).astype(wide)
    result = np.where(below, wide.type(limits.min), np.where(above, wide.type(limits.max), result))
    result = np.where(not_a_number, _of_nan(values.dtype, wide), result)
    return result.astype(dtype)


def _of_nan(source: np.dtype[Any], wide: np.dtype[Any]) -> Any:
    """What ``cvt`` makes of a NaN: 0 from float to 32 bits, else only the highest bit set (seen on an H200)."""
    if source.itemsize < 8 and wide.itemsize == 4:
        return wide.type(0)
    return np.array(1 << (8 * wide.itemsize - 1), np.dtype(f"u{wide.itemsize}")).view(wide)[()]
