"""CUDA's error numbers as CuPy's exceptions.

The texts are CUDA's own, asked from ``cuda.bindings`` (which needs no GPU for that). Driver and runtime share most
numbers and texts; only the names are spelt differently.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as _driver
from cuda.bindings import runtime as _runtime

_UNKNOWN = "unrecognized error code"


def _runtime_text(status: int) -> tuple[str, str]:
    try:
        code = _runtime.cudaError_t(status)
    except ValueError:
        return _UNKNOWN, _UNKNOWN
    return code.name, _runtime.cudaGetErrorString(code)[1].decode()


class PerformanceWarning(RuntimeWarning):
    """Something that works, and takes longer than it need."""


class CUDARuntimeError(RuntimeError):
    """A call of the CUDA runtime failed; ``status`` is its ``cudaError_t`` number."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__("{}: {}".format(*_runtime_text(status)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status,)


class CUDADriverError(RuntimeError):
    """A call of the CUDA driver failed; ``status`` is its ``CUresult`` number."""

    def __init__(self, status: int) -> None:
        self.status = status
        try:
            name = _driver.CUresult(status).name
        except ValueError:
            name = _UNKNOWN
        super().__init__(f"{name}: {_runtime_text(status)[1]}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status,)
