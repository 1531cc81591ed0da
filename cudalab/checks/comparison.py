"""Whether what an answer left behind is right, and how a value of it is shown."""

from __future__ import annotations

import numpy as np

from cudalab.sim.compiler.runtime.layout import STALE


def shown(value: np.generic) -> str:
    """A value of the answer's: what the poison has left, what was read from between rows, a number, or what shared
    memory holds before it is written."""
    if is_poison(value):
        return "not written"
    if value.tobytes() == padding(value.dtype.itemsize, value.dtype):
        return "what stands in the padding"
    if value != value:
        return "nan (as what is worked out from memory that nobody has written)"
    if value.tobytes() == bytes([STALE]) * value.dtype.itemsize and value.dtype.itemsize > 1:
        return f"{figure(value)} (what memory holds here that nobody has written yet)"
    return figure(value)


def figure(value: np.generic) -> str:
    return str(value) if isinstance(value, np.integer) else f"{value:.6g}"


def agree(got: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    """Where two arrays are equal, or within ``tolerance`` (relative, and absolute near 0)."""
    if got.shape != expected.shape:
        return np.zeros(got.shape, bool)
    if not tolerance or got.dtype.kind != "f":
        return np.asarray((got == expected) | ((got != got) & (expected != expected)))
    result: np.ndarray = np.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    return result


def is_poison(value: np.generic) -> bool:
    """Was this element never written? What a kernel works out from such a number is another NaN, on a GPU, too."""
    return value.tobytes() == poison(value.dtype.itemsize, value.dtype)


def poison(size: int, dtype: np.dtype) -> bytes:
    """A quiet NaN for floats, a striking pattern for integers."""
    if dtype.kind == "f":
        pattern = np.full(1, np.nan, dtype).tobytes()
    else:
        pattern = b"\xa5" * dtype.itemsize
    return (pattern * (size // len(pattern) + 1))[:size]


def padding(size: int, dtype: np.dtype) -> bytes:
    """What stands between the rows of an input: another NaN, or another pattern, than in what was never written."""
    one = np.frombuffer(poison(dtype.itemsize, dtype), np.uint8) ^ (np.arange(dtype.itemsize) == 0).astype(np.uint8)
    pattern: bytes = one.tobytes()
    return (pattern * (size // len(pattern) + 1))[:size]
